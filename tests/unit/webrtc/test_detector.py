"""The detector against photographs and against the drawn face of the test client."""

import cv2
import numpy as np
import pytest
import skimage.data
from webrtc_detector.detector import Box, FaceDetector, Luma
from webrtc_detector.film import drawn_face

# Where the astronaut's face is in the photograph, marked by hand: forehead to chin.
ASTRONAUT = Box("face", 172, 68, 105, 125)


@pytest.fixture(scope="module")
def detector() -> FaceDetector:
    return FaceDetector()


def grey(picture: np.ndarray) -> Luma:
    return cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) if picture.ndim == 3 else picture


def test_finds_the_face_in_a_photograph_and_nothing_else(detector: FaceDetector) -> None:
    (box,) = detector.detect(grey(skimage.data.astronaut()))
    assert box.label == "face"
    assert box.overlap(ASTRONAUT) > 0.5


@pytest.mark.parametrize("scale", [0.5, 1.5, 2.5])
def test_boxes_are_in_pixels_of_the_picture_given(detector: FaceDetector, scale: float) -> None:
    picture = cv2.resize(grey(skimage.data.astronaut()), None, fx=scale, fy=scale)
    truth = Box(
        "face",
        *(
            round(value * scale)
            for value in (ASTRONAUT.x, ASTRONAUT.y, ASTRONAUT.width, ASTRONAUT.height)
        ),
    )
    (box,) = detector.detect(picture)
    assert box.overlap(truth) > 0.5


@pytest.mark.parametrize("brightness", [0.4, 0.7, 1.3])
def test_finds_it_in_the_dark_and_in_bright_light(
    detector: FaceDetector, brightness: float
) -> None:
    picture = grey(skimage.data.astronaut()).astype(float) * brightness
    boxes = detector.detect(picture.clip(0, 255).astype(np.uint8))
    assert any(box.overlap(ASTRONAUT) > 0.5 for box in boxes)


@pytest.mark.parametrize("name", ["coffee", "rocket", "chelsea", "brick", "gravel", "grass"])
def test_finds_no_face_where_there_is_none(detector: FaceDetector, name: str) -> None:
    assert detector.detect(grey(getattr(skimage.data, name)())) == []


@pytest.mark.parametrize("size", [40, 60, 90, 120])
def test_finds_the_drawn_face(detector: FaceDetector, size: int) -> None:
    picture = np.full((135, 240), 100, np.uint8)
    picture[10 : 10 + size, 50 : 50 + size] = drawn_face(size)
    (box,) = detector.detect(picture)
    assert box.overlap(Box("face", 50, 10, size, size)) > 0.4


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (19, 19)])
def test_pictures_too_small_for_a_face_hold_none(
    detector: FaceDetector, shape: tuple[int, int]
) -> None:
    assert detector.detect(np.zeros(shape, np.uint8)) == []


def test_overlap_of_boxes() -> None:
    box = Box("face", 0, 0, 10, 10)
    assert box.overlap(box) == 1
    assert box.overlap(Box("face", 10, 0, 10, 10)) == 0
    assert box.overlap(Box("face", 5, 0, 10, 10)) == pytest.approx(50 / 150)
