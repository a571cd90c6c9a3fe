"""From a client's video to sightings: always the newest picture, never on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import cv2
import numpy as np
from aiortc import MediaStreamError, MediaStreamTrack, RTCRtpReceiver
from av import VideoFrame

from webrtc_detector.detector import Box, FaceDetector, Luma
from webrtc_detector.latest import Closed, Latest
from webrtc_detector.sighting import Sighting
from webrtc_detector.timing import ReceivedTimestamps


class Detection:
    """The one thread in which pictures of all clients of this server are looked at."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)  # OpenCV's own threads would fight with other pods for the cores
        self._detector = FaceDetector()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="detector")

    async def find(self, frame: VideoFrame) -> list[Box]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._find, frame)

    def _find(self, frame: VideoFrame) -> list[Box]:
        return self._detector.detect(brightness(frame))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def brightness(frame: VideoFrame) -> Luma:
    """The Y plane as it is: no copy, no colour conversion."""
    if frame.format.name not in ("yuv420p", "yuvj420p"):
        frame = frame.reformat(format="yuv420p")
    plane = frame.planes[0]
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
    return rows[:, : plane.width]


class _Arrived(NamedTuple):
    frame: VideoFrame
    at: float


async def watch(
    receiver: RTCRtpReceiver, detection: Detection, tell: Callable[[Sighting], None]
) -> None:
    """Look at the video until it ends."""
    newest: Latest[_Arrived] = Latest()
    receiving = asyncio.create_task(_receive(receiver.track, newest))
    try:
        await _look(newest, ReceivedTimestamps(receiver), detection, tell)
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)


async def _receive(track: MediaStreamTrack, newest: Latest[_Arrived]) -> None:
    clock = asyncio.get_running_loop().time
    try:
        while True:
            frame = await track.recv()
            if isinstance(frame, VideoFrame):
                newest.put(_Arrived(frame, clock()))
    except MediaStreamError:
        return  # the client stopped sending, or is gone
    finally:
        newest.close()


async def _look(
    newest: Latest[_Arrived],
    timestamps: ReceivedTimestamps,
    detection: Detection,
    tell: Callable[[Sighting], None],
) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        try:
            frame, arrived = await newest.take()
        except Closed:
            return
        started = clock()
        boxes = await detection.find(frame)
        tell(
            Sighting(
                timestamp=timestamps.on_the_wire(frame.pts or 0),
                width=frame.width,
                height=frame.height,
                boxes=boxes,
                waited_ms=round(1000 * (started - arrived), 1),
                detected_ms=round(1000 * (clock() - started), 1),
                dropped=newest.dropped,
            )
        )
