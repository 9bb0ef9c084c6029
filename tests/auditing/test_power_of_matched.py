"""What an audit of matched strings can show: the forecast against simulated audits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence
from miaudit.auditing import power_of_matched
from miaudit.dp import matched
from miaudit.errors import InputError
from miaudit.metrics import classical
from miaudit.metrics.classical import Sample
from miaudit.metrics.matched_scores import rank_p_value, ranks

N = 400


def drawn(rng: np.random.Generator, decoys: int, shift: float, units: int = N) -> Evidence:
    true, others = rng.normal(size=units) + shift, rng.normal(size=(units, decoys))
    return Evidence.matched(true=true, decoys=others)


def share(happens: Callable[[np.random.Generator], bool], repeats: int = 120) -> float:
    return float(np.mean([happens(np.random.default_rng(seed)) for seed in range(repeats)]))


@pytest.mark.parametrize("decoys", [1, 3, 20])
def test_the_smallest_auc_is_told_from_one_half_as_often_as_forecast(decoys: int) -> None:
    """Chance alone is the control: it succeeds in about 2.5%."""
    smallest = power_of_matched.reach(N, decoys).smallest_auc
    spread = 2.0 if decoys < 4 else 1 + 1 / (decoys - 1)  # of a true score less a decoy's; or standardised by others
    shift = float(special.ndtri(smallest)) * np.sqrt(spread if decoys < 4 else spread + 1)

    def above(shift: float) -> Callable[[np.random.Generator], bool]:
        return lambda rng: Sample.of(drawn(rng, decoys, shift)).auc(0.95).low > 0.5

    assert share(above(shift)) == pytest.approx(0.8, abs=0.12)
    assert share(above(0.0)) < 0.08


@pytest.mark.parametrize("decoys", [1, 20])
def test_the_rank_test_rejects_as_often_as_forecast(decoys: int) -> None:
    smallest = power_of_matched.reach(N, decoys).smallest_rank
    shift = float(special.ndtri(smallest)) * np.sqrt(2)

    def rejects(shift: float) -> Callable[[np.random.Generator], bool]:
        def test(rng: np.random.Generator) -> bool:
            place = ranks(rng.normal(size=N) + shift, rng.normal(size=(N, decoys)), rng)
            return rank_p_value(place, decoys) <= 0.05

        return test

    assert share(rejects(shift)) == pytest.approx(0.8, abs=0.12)
    assert share(rejects(0.0)) < 0.12


@pytest.mark.parametrize(("place", "decoys"), [(0, 5), (0, 20), (1, 20)])
def test_the_bound_is_about_the_mean_of_simulated_ones(place: int, decoys: int) -> None:
    forecast = power_of_matched.reach(N, decoys)
    shift, rngs = forecast.separations[place], (np.random.default_rng(seed) for seed in range(24))
    shown = [matched.bounds(drawn(rng, decoys, shift), rng=rng)[2].value for rng in rngs]
    assert 0.97 * np.mean(shown) < forecast.shown[place] < 1.17 * np.mean(shown)
    assert forecast.shown[place] < forecast.most


def test_the_smallest_fpr_has_a_lower_limit_and_no_smaller_one_has() -> None:
    found = power_of_matched.reach(50, 20)
    assert classical.resolvable(found.smallest_fpr * 1.01, 1000, 0.95)
    assert not classical.resolvable(found.smallest_fpr * 0.99, 1000, 0.95)


def test_more_units_and_decoys_see_more() -> None:
    few, many, wide = (power_of_matched.reach(*sizes) for sizes in ((200, 5), (2000, 5), (200, 50)))
    assert many.smallest_auc < few.smallest_auc and many.most > few.most
    assert wide.smallest_rank < few.smallest_rank and wide.smallest_fpr < few.smallest_fpr
    assert power_of_matched.reach(2, 1).smallest_auc <= 1.0


@pytest.mark.parametrize(
    ("sizes", "options", "name"),
    [((1, 20), {}, "units"), ((20, 0), {}, "decoys"), ((20, 2), {"power": 0.5}, "power")],
)
def test_counts_outside_their_range_are_named(sizes: tuple[int, int], options: dict[str, float], name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: expected"):
        power_of_matched.reach(*sizes, **options)
    with pytest.raises(InputError, match="confidence: expected a number in"):
        power_of_matched.reach(100, 20, confidence=0.4)
