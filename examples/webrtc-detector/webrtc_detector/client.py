"""The test client: sends a film, checks the boxes, tells the times. `… client URL --json`"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from webrtc_detector.following import follow
from webrtc_detector.ice import Turn, answer_lost_packets_quickly
from webrtc_detector.measure import REASONS, Filming, Report, Target, measure


class UsageError(ValueError):
    pass


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="webrtc_detector.client", description=__doc__)
    parser.add_argument("url", nargs="?", help="address of the server, a path prefix included")
    parser.add_argument(
        "--targets", help="JSON list of {url, client, iceServers, token} ('-': stdin)"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="start a client for each line of standard input, one such target as JSON, and tell "
        "in lines of JSON how they get on; {stop: client} ends one",
    )
    parser.add_argument("--client", default="client", help="who the client is")
    parser.epilog = "Secrets come from the environment: TURN_PASSWORD, and SEAT_TOKEN if needed."
    parser.add_argument("--turn", metavar="URL", help="connect only through it: turn:HOST:PORT")
    parser.add_argument("--turn-username", help="else from the environment: TURN_USERNAME")
    parser.add_argument(
        "--share-turn", action="store_true", help="let the server use the same credentials"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="length of the film")
    parser.add_argument("--size", default="640x360", help="WIDTHxHEIGHT of the film")
    parser.add_argument("--rate", type=float, default=15.0, help="pictures per second")
    parser.add_argument("--deadline", type=float, default=20.0, help="seconds to connect in")
    parser.add_argument("--json", action="store_true", help="one JSON list on standard output")
    return parser.parse_args(arguments)


def targets(options: argparse.Namespace) -> list[Target]:
    if [options.url is not None, options.targets is not None, options.follow].count(True) != 1:
        raise UsageError("give either the server's URL, or --targets, or --follow")
    if options.follow:
        return []
    if options.targets is not None:
        try:
            text = sys.stdin.read() if options.targets == "-" else Path(options.targets).read_text()
            return msgspec.json.decode(text, type=list[Target])
        except (OSError, msgspec.MsgspecError) as error:
            raise UsageError(f"--targets: {error}") from error
    if not options.url.startswith(("http://", "https://")):
        raise UsageError(f"{options.url!r} is not the URL of a server; write http://HOST:PORT/path")
    return [
        Target(
            options.url,
            options.client,
            turn_servers(options),
            token=os.environ.get("SEAT_TOKEN", ""),
            share_turn=options.share_turn,
        )
    ]


def turn_servers(options: argparse.Namespace) -> list[Turn]:
    if options.turn is None:
        return []
    user = options.turn_username or os.environ.get("TURN_USERNAME", "")
    # Not an option: what is on a command line, every process of the machine can read.
    password = os.environ.get("TURN_PASSWORD", "")
    if not (user and password):
        raise UsageError("--turn needs TURN_USERNAME and TURN_PASSWORD in the environment")
    try:
        return [Turn([options.turn], user, password)]
    except ValueError as error:
        raise UsageError(f"--turn: {error}") from error


def filming(options: argparse.Namespace) -> Filming:
    width, by, height = options.size.partition("x")
    if not (by and width.isdigit() and height.isdigit()):
        raise UsageError(f"--size must look like 640x360, not {options.size!r}")
    if not (64 <= int(width) <= 3840 and 64 <= int(height) <= 2160):
        raise UsageError("--size must be between 64x64 and 3840x2160")
    if int(width) % 2 or int(height) % 2:
        raise UsageError("--size must be even in both directions")
    if not (
        0 < options.rate <= 120 and 0 < options.seconds <= 3600 and 0 < options.deadline <= 600
    ):
        raise UsageError("--rate goes up to 120, --seconds up to 3600, --deadline up to 600")
    return Filming(options.seconds, int(width), int(height), options.rate, options.deadline)


async def measure_all(where: Sequence[Target], how: Filming) -> list[Report]:
    return await asyncio.gather(*(measure(target, how) for target in where))


def in_words(report: Report) -> str:
    if not report.ok:
        return f"{report.client}: {report.message}"
    latency, detection = report.frame_to_box_ms, report.detected_ms
    assert latency is not None and detection is not None  # noqa: S101, PT018 — it is ok
    return (
        f"{report.client}: connected in {report.connected_ms:.0f} ms"
        f"{' through TURN' if report.relayed else ''}; "
        f"{report.sightings} of {report.frames_sent} pictures looked at, "
        f"face found in {report.found}; "
        f"picture to box {latency.p50:.0f} ms (p95 {latency.p95:.0f}), "
        f"of it detection {detection.p50:.0f} ms"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.ERROR)
    answer_lost_packets_quickly()
    try:
        where, how = targets(options), filming(options)
    except UsageError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    if options.follow:
        asyncio.run(follow(how))
        return 0
    reports = asyncio.run(measure_all(where, how))
    if options.json:
        print(msgspec.json.encode(reports).decode())  # noqa: T201
    for report in reports:
        if not (options.json and report.ok):
            print(in_words(report), file=sys.stderr if options.json else sys.stdout)
    return max((REASONS.get(report.reason, 0) for report in reports), default=0)


if __name__ == "__main__":
    sys.exit(main())
