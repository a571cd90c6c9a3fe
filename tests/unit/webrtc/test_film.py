"""The test client's film: the face is where it says, and the pictures are on time."""

import numpy as np
import pytest
from webrtc_detector.detector import FaceDetector
from webrtc_detector.film import CLOCK_RATE, Film
from webrtc_detector.watching import brightness


@pytest.mark.parametrize(("width", "height"), [(320, 180), (640, 360), (1280, 720), (322, 242)])
async def test_the_face_is_where_the_film_says(width: int, height: int) -> None:
    film, detector = Film(width, height, 15), FaceDetector()
    for second in range(0, 20, 2):
        frame, face = film.picture(second)
        assert (frame.width, frame.height) == (width, height)
        (box,) = detector.detect(brightness(frame))
        assert box.overlap(face) > 0.5


async def test_the_face_moves() -> None:
    film = Film(640, 360, 15)
    places = {(box.x, box.y) for _, box in (film.picture(second / 3) for second in range(30))}
    assert len(places) == 30


async def test_timestamps_are_those_of_a_90_khz_clock_and_lead_back_to_the_picture() -> None:
    film, sent = Film(64, 64, 100), []
    film.on_sent = sent.append
    stamps = [(await film.recv()).pts for _ in range(5)]
    assert stamps[0] == 0
    assert all(stamp % (CLOCK_RATE // 100) == 0 for stamp in stamps)
    assert stamps == sorted(set(stamps))
    assert sent == stamps[:-1]
    for stamp in stamps:
        shot = film.shot(stamp + 1)  # encoders round
        assert shot is not None
        assert shot is film.shot(stamp - 1)
    assert film.shot(stamps[-1] + CLOCK_RATE) is None


async def test_brightness_is_the_picture_without_padding() -> None:
    frame, _ = Film(322, 242, 15).picture(1)
    rows = brightness(frame)
    assert rows.shape == (242, 322)
    assert np.array_equal(rows, frame.to_ndarray()[:242])


async def test_other_pixel_formats_are_converted() -> None:
    frame, _ = Film(320, 180, 15).picture(1)
    difference = brightness(frame.reformat(format="rgb24")).astype(int) - brightness(frame)
    assert np.abs(difference).mean() < 3
