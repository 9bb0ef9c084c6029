"""What canaries are made of, one by one; the kinds as a whole are in test_canaries.py."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.collect import canary_makers
from miaudit.collect.records import Records
from miaudit.errors import InputError


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_one_channel_first_or_last_has_one_grey_and_three_have_a_colour() -> None:
    for shape, colours in (((1, 8, 8), 1), ((8, 8, 1), 1), ((3, 8, 8), 3), ((8, 8, 3), 3), ((8, 8), 1)):
        made = canary_makers.blank(np.random.default_rng(1).random((5, *shape)), 4, rng())
        assert made.shape == (4, *shape)
        assert len(np.unique(made[0])) == colours


def test_a_column_of_missing_numbers_stays_missing_and_codes_stay_codes() -> None:
    x = np.stack([np.full(50, np.nan), np.arange(50) % 3, np.linspace(-1, 1, 50)], axis=1)
    made = canary_makers.tails(x, 300, rng())
    assert np.isnan(made[:, 0]).all()
    assert set(made[:, 1]) == {0, 1, 2}
    assert (np.abs(made[:, 2]) > 0.89).all()
    assert (made[:, 2] < 0).any()
    assert (np.abs(made[:, 2]) < 1.11).all()


def test_gaussian_noise_has_the_mean_and_spread_of_the_data() -> None:
    x = np.random.default_rng(2).normal(5, 2, (50, 6, 6))
    made = canary_makers.noise(x, 200, rng(), law="gaussian")
    assert abs(made.mean() - x.mean()) < 0.1
    assert abs(made.std() - x.std()) < 0.1
    flat = canary_makers.noise(x, 200, rng())
    assert flat.std() > 3  # uniform between the least and the largest


def test_tokens_are_drawn_uniformly_not_as_often_as_the_data_have_them() -> None:
    texts = ["the the the the cat"] * 30
    made = " ".join(canary_makers.tokens(texts, 400, rng())).split()
    assert abs(made.count("cat") / len(made) - 0.5) < 0.05
    with pytest.raises(InputError, match="two different words"):
        canary_makers.tokens(["a", "a"], 3, rng())


def test_what_there_are_too_few_of_is_refused_and_drawing_goes_on_until_there_are_enough() -> None:
    data = Records(np.arange(12).reshape(6, 2) % 3, np.arange(6), None, {}, "codes")
    made = canary_makers.invented(data, 4, canary_makers.tails, rng())
    assert made.n == 4
    assert not {tuple(row) for row in made.x} & {tuple(row) for row in data.x}
    with pytest.raises(InputError, match="which is how many different ones were found"):
        canary_makers.invented(data, 9, canary_makers.tails, rng())


def test_hard_without_a_reference_is_refused_where_none_can_be_trained() -> None:
    several = Records(np.random.default_rng(0).normal(size=(40, 2)), np.eye(40, 3, dtype=int), None, {}, "several")
    with pytest.raises(InputError, match="give a configuration whose target is trained here"):
        canary_makers.hardest(several, 3, 2, rng(), None, 0)


def test_records_that_are_there_twice_are_mislabelled_last() -> None:
    x = np.concatenate([np.arange(30.0), np.repeat(100 + np.arange(10.0), 3)])[:, None]
    data = Records(x, np.where(x[:, 0] < 100, np.arange(60) % 3, 0), None, {}, "twins")
    assert canary_makers.mislabelled(data, 30, rng()).x.max() < 30
    assert (canary_makers.mislabelled(data, 35, rng()).x >= 100).sum() == 5
