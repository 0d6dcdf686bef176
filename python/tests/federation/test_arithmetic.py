"""What is done with weights on their way."""

import numpy as np
import pytest

from plimsoll.federation import average, clipped, norm

RNG = np.random.default_rng(1)


def test_an_update_is_cut_to_its_length_and_otherwise_left_alone():
    update = [np.array([3.0, 0.0], np.float32), np.array([[4.0]], np.float32)]
    assert norm(update) == pytest.approx(5.0)
    short = clipped(update, 1.0, 0.0, RNG)
    assert norm(short) == pytest.approx(1.0) and short[0].dtype == np.float32
    np.testing.assert_allclose(short[1] / short[0][0], 4 / 3, rtol=1e-6)
    for most in (None, 5.1):
        for kept, given in zip(clipped(update, most, 0.0, RNG), update, strict=True):
            np.testing.assert_array_equal(kept, given)


def test_noise_is_a_multiple_of_the_length():
    noisy = clipped([np.zeros(20_000, np.float32)], 2.0, 0.5, RNG)[0]
    assert noisy.std() == pytest.approx(1.0, rel=0.05) and abs(noisy.mean()) < 0.05
    with pytest.raises(ValueError, match="say how long they may be"):
        clipped([np.zeros(2, np.float32)], None, 0.5, RNG)
    with pytest.raises(ValueError, match="above zero"):
        clipped([np.zeros(2, np.float32)], 0.0, 0.0, RNG)
    with pytest.raises(ValueError, match="diverged"):
        clipped([np.array([np.nan], np.float32)], None, 0.0, RNG)


def test_a_mean_weighs_each_by_what_it_counts():
    a, b = [np.zeros((2, 2), np.float32)], [np.full((2, 2), 4.0, np.float32)]
    np.testing.assert_array_equal(average([a, b], [1, 3])[0], np.full((2, 2), 3.0, np.float32))
    with pytest.raises(ValueError, match="each needs one"):
        average([a, b], [1, 0])
    with pytest.raises(ValueError):
        average([], [])
