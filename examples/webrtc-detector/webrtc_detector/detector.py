"""Finds faces in a picture, with a model that comes inside OpenCV's own package."""

from __future__ import annotations

from pathlib import Path

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

Luma = NDArray[np.uint8]

# Chosen by measurement, see "Which detector" in the README.
_MODEL = Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_alt2.xml"
_WIDTH = 240
_SMALLEST_FACE = 20  # what the model was trained on: 1/12 of the picture's width
_SCALE_STEP = 1.1
_AGREEING_NEIGHBOURS = 2


class Box(msgspec.Struct, frozen=True):
    """Where something is, in pixels of the picture that was looked at."""

    label: str
    x: int
    y: int
    width: int
    height: int

    def overlap(self, other: Box) -> float:
        """Intersection over union: 1 for the same place, 0 for places apart."""
        across = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        down = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        shared = max(across, 0) * max(down, 0)
        return shared / (self.width * self.height + other.width * other.height - shared)


class FaceDetector:
    """Not for several threads at once: OpenCV keeps its working memory in the classifier."""

    def __init__(self) -> None:
        self._classifier = cv2.CascadeClassifier(str(_MODEL))
        if self._classifier.empty():
            raise RuntimeError(f"OpenCV {cv2.__version__} does not carry {_MODEL.name}")

    def detect(self, luma: Luma) -> list[Box]:
        """The faces in a picture of which only the brightness is given."""
        height, width = luma.shape
        scale = max(width / _WIDTH, 1.0)
        small = cv2.resize(
            luma,
            (max(round(width / scale), 1), max(round(height / scale), 1)),
            interpolation=cv2.INTER_AREA,
        )
        found = self._classifier.detectMultiScale(
            small,
            scaleFactor=_SCALE_STEP,
            minNeighbors=_AGREEING_NEIGHBOURS,
            minSize=(_SMALLEST_FACE, _SMALLEST_FACE),
        )
        return [Box("face", *(round(float(value) * scale) for value in place)) for place in found]
