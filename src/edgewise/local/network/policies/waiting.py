"""Waits for the first NetworkPolicy of a cluster, and then enforces all of them.

    python -m edgewise.local.network.policies.waiting <cluster folder> <host> <port>

Most clusters never have one. So this begins with the standard library alone, on one connection
that is silent, and imports the rest when there is something to do.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import sys
import time

from edgewise.local.network.policies.names import ENFORCER, MARK

_PATH = "/apis/networking.k8s.io/v1/networkpolicies"
_WATCH_SECONDS = 1800
_PAUSE = 0.5
_LONGEST_PAUSE = 5.0
_PATIENCE = 15.0
_LONGEST_LINE = 1 << 20


def until_there_is_a_policy(folder: str, host: str, port: int) -> None:
    """Whatever goes wrong, it is tried again; the kernel keeps the rules it has."""
    pause, told, since = _PAUSE, "", time.monotonic()
    while not os.path.exists(os.path.join(folder, MARK)):
        try:
            if seen(folder, host, port):
                return
            pause, since = _PAUSE, time.monotonic()
        except (OSError, http.client.HTTPException, ValueError) as error:
            # An API server that is only just starting is not worth a word.
            if str(error) != told and time.monotonic() - since > _PATIENCE:
                told = str(error)
                say(f"the API server cannot be asked for policies: {told}")
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)


def seen(folder: str, host: str, port: int) -> bool:
    """Whether there is a policy, at last; False: the API server has ended the watch."""
    connection = http.client.HTTPSConnection(
        host, port, context=credentials(folder), timeout=_WATCH_SECONDS + 60
    )
    try:
        connection.connect()
        for option, seconds in (("KEEPIDLE", 20), ("KEEPINTVL", 10), ("KEEPCNT", 3)):
            connection.sock.setsockopt(
                socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), seconds
            )
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listing = json.loads(ask(connection, f"{_PATH}?limit=1").read(_LONGEST_LINE))
        if listing.get("items"):
            return True
        revision = listing["metadata"]["resourceVersion"]
        watch = f"?watch=true&resourceVersion={revision}&timeoutSeconds={_WATCH_SECONDS}"
        line = ask(connection, _PATH + watch).readline(_LONGEST_LINE)
        # However long the line is: an event of any policy is reason enough.
        return line.startswith(b'{"type":"ADDED"')
    finally:
        connection.close()


def ask(connection: http.client.HTTPSConnection, path: str) -> http.client.HTTPResponse:
    connection.request("GET", path, headers={"Accept": "application/json"})
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise http.client.HTTPException(f"{answer.status} {answer.reason}")
    return answer


def credentials(folder: str) -> ssl.SSLContext:
    pki = os.path.join(folder, "pki")
    context = ssl.create_default_context(cafile=os.path.join(pki, "ca.crt"))
    context.load_cert_chain(
        os.path.join(pki, f"{ENFORCER}.crt"), os.path.join(pki, f"{ENFORCER}.key")
    )
    return context


def say(sentence: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {sentence}\n")
    sys.stderr.flush()


def main() -> None:
    folder, host, port = sys.argv[1:4]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    say("waiting for the first NetworkPolicy")
    until_there_is_a_policy(folder, host, int(port))
    from edgewise.local.network.policies.agent import enforce  # noqa: PLC0415

    enforce(folder)


if __name__ == "__main__":
    main()
