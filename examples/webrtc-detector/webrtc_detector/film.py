"""A film made on the spot: a drawn face that wanders over a plain background."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import cv2
import numpy as np
from aiortc import MediaStreamTrack
from av import VideoFrame

from webrtc_detector.detector import Box, Luma

CLOCK_RATE = 90_000  # of RTP video: one tick is one step of a picture's timestamp
_REMEMBERED = 600
_NEUTRAL_CHROMA = 128


class Shot(NamedTuple):
    """A picture that was sent: when it left, and where the face is in it."""

    at: float
    face: Box


def drawn_face(size: int) -> Luma:
    """A square with a face: the light and dark places that a face detector looks for."""
    canvas = 400
    picture = np.full((canvas, canvas), 110, np.uint8)

    def spot(x: float, y: float, across: float, down: float, brightness: int) -> None:
        centre, axes = (
            (int(x * canvas), int(y * canvas)),
            (int(across * canvas), int(down * canvas)),
        )
        cv2.ellipse(picture, centre, axes, 0, 0, 360, brightness, -1, cv2.LINE_AA)

    spot(0.5, 0.40, 0.36, 0.38, 45)  # hair
    spot(0.5, 0.52, 0.30, 0.40, 200)  # head
    for side in (-1, 1):
        spot(0.5 + side * 0.13, 0.47, 0.085, 0.055, 120)  # eye socket
        spot(0.5 + side * 0.13, 0.40, 0.09, 0.018, 55)  # brow
        spot(0.5 + side * 0.13, 0.475, 0.06, 0.028, 235)  # eye
        spot(0.5 + side * 0.13, 0.475, 0.028, 0.03, 35)  # pupil
        spot(0.5 + side * 0.05, 0.64, 0.02, 0.012, 110)  # nostril
    spot(0.5, 0.56, 0.022, 0.11, 225)  # nose
    spot(0.5, 0.75, 0.11, 0.028, 95)  # mouth
    soft = cv2.GaussianBlur(picture, (0, 0), 5)
    return np.asarray(cv2.resize(soft, (size, size), interpolation=cv2.INTER_AREA), np.uint8)


class Film(MediaStreamTrack):
    """The video track, which remembers what it sent."""

    kind = "video"

    def __init__(self, width: int, height: int, rate: float) -> None:
        super().__init__()
        self.taken = 0
        self._shots: OrderedDict[int, Shot] = OrderedDict()
        # Called with the timestamp of the picture before, when that one has been sent.
        self.on_sent: Callable[[int], None] = lambda _timestamp: None
        self._width, self._height, self._rate = width, height, rate
        self._background = np.tile(np.linspace(60, 160, width, dtype=np.uint8), (height, 1))
        self._face = drawn_face(round(0.6 * height))
        self._started = 0.0
        self._last: int | None = None

    async def recv(self) -> VideoFrame:
        clock = asyncio.get_running_loop().time
        if self._last is None:
            self._started = clock()
        else:
            self.on_sent(self._last)
        # Behind time, pictures are left out rather than sent late.
        number = max(self.taken, math.floor((clock() - self._started) * self._rate))
        await asyncio.sleep(self._started + number / self._rate - clock())
        timestamp = round(number * CLOCK_RATE / self._rate)
        frame, face = self.picture(number / self._rate)
        frame.pts, frame.time_base = timestamp, Fraction(1, CLOCK_RATE)
        self._shots[number] = Shot(clock(), face)
        while len(self._shots) > _REMEMBERED:
            self._shots.popitem(last=False)
        self._last, self.taken = timestamp, number + 1
        return frame

    def shot(self, timestamp: int) -> Shot | None:
        """What was sent at a timestamp, which may be off by what encoders round."""
        return self._shots.get(round(timestamp * self._rate / CLOCK_RATE))

    def picture(self, second: float) -> tuple[VideoFrame, Box]:
        """The film at a moment: a pure function of time."""
        size = self._face.shape[0]
        x = round((0.5 + 0.5 * math.sin(0.9 * second)) * (self._width - size))
        y = round((0.5 + 0.5 * math.cos(1.3 * second)) * (self._height - size))
        luma = self._background.copy()
        luma[y : y + size, x : x + size] = self._face
        chroma = np.full((self._height // 2, self._width), _NEUTRAL_CHROMA, np.uint8)
        frame = VideoFrame.from_ndarray(np.vstack((luma, chroma)), format="yuv420p")
        # The outline of the drawn head, without the hair.
        left, top = x + round(0.2 * size), y + round(0.12 * size)
        return frame, Box("face", left, top, round(0.6 * size), round(0.8 * size))
