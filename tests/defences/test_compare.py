"""The comparison: what is known to leak, what is known not to, and what a defence can only seem to do."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.defences.calibration import Isotonic, Temperature
from miaudit.defences.compare import Models, ReleaseOption, compare
from miaudit.defences.label_sets import ConformalSet, SetThreshold
from miaudit.defences.noise import OutputNoise
from miaudit.defences.outputs import AsItIs, LabelOnly, Rounding, TopK, TrueLabel
from miaudit.errors import InputError
from worlds import disclosing as worlds


def options(models: Models, *defences: object) -> list[ReleaseOption]:
    base = ReleaseOption("as-it-is", "output", models, AsItIs())
    return [base, *(ReleaseOption(str(i), "output", models, one) for i, one in enumerate(defences))]


def test_leakage_is_what_the_world_says() -> None:
    models = worlds.models(effect=0.5)
    found = compare(options(models, LabelOnly(), TrueLabel()), rng=np.random.default_rng(0))
    auc = found.measured[0].leakage["auc"]
    known = worlds.truth(models, 0.5)
    assert known - 0.05 < auc.value < known + 0.02  # sixteen models do not know the laws as well
    assert auc.low < known < auc.high + 0.02
    assert found.reductions[0].low > 0  # a label gives away less
    assert abs(found.reductions[1].value) < 0.05
    assert found.costs[0] is None
    assert found.measured[1].accuracy.value == found.measured[0].accuracy.value


@pytest.mark.long
def test_nothing_is_found_where_nothing_leaks() -> None:
    models = worlds.models(effect=0.0, seed=3)
    found = compare(options(models, Temperature(), LabelOnly(), ConformalSet(0.9)), rng=np.random.default_rng(0))
    for one in found.measured:
        assert one.leakage["auc"].low < 0.5 < one.leakage["auc"].high
    assert all(one.low < 0 < one.high for one in found.reductions)


@pytest.mark.long
def test_a_temperature_hides_nothing_from_an_attacker_who_adapts() -> None:
    models = worlds.models(effect=0.5, temperatures=True)
    found = compare(options(models, Temperature()), rng=np.random.default_rng(0))
    assert abs(found.reductions[0].value) < 0.02
    assert found.measured[1].error.high < found.measured[0].error.value  # it does calibrate
    assert found.measured[1].leakage["auc"].value > 0.65


@pytest.mark.long
def test_whoever_sees_all_can_do_all_that_a_measure_does() -> None:
    models = worlds.models(effect=0.5, temperatures=True, seed=4)
    found = compare(options(models, Rounding(2), TopK(1), Temperature(), Isotonic()), rng=np.random.default_rng(0))
    best = found.measured[0].attacked.chosen_by
    assert all(one.attacked.chosen_by <= best + 0.003 for one in found.measured)


@pytest.mark.long
def test_asking_again_undoes_noise_that_is_drawn_again_and_no_other() -> None:
    models = worlds.models(effect=0.7)
    fixed, redrawn = OutputNoise(2.0, fixed=True), OutputNoise(2.0)
    once = compare(options(models, fixed, redrawn), rng=np.random.default_rng(0))
    often = compare(options(models, fixed, redrawn), queries=64, rng=np.random.default_rng(0))
    value = lambda found, i: found.measured[i].leakage["auc"].value  # noqa: E731
    assert value(often, 1) == pytest.approx(value(once, 1), abs=0.02)
    assert value(often, 2) > value(once, 2) + 0.1
    assert value(often, 2) > value(often, 0) - 0.08  # the noise is not all gone: a label that it moved was moved back
    assert "64 queries" in " ".join(often.measured[2].notes)
    assert "same answer" in " ".join(often.measured[1].notes)


@pytest.mark.long
def test_coins_of_sets_are_undone_by_asking_again() -> None:
    models = worlds.models(effect=0.7)
    warm, still = SetThreshold(0.5, temperature=0.3), SetThreshold(0.5)
    once = compare(options(models, warm, still), rng=np.random.default_rng(0))
    often = compare(options(models, warm, still), queries=400, rng=np.random.default_rng(0))
    auc = [one.measured[1].leakage["auc"].value for one in (once, often)]
    assert auc[1] > auc[0] + 0.1
    assert auc[1] > often.measured[2].leakage["auc"].value  # shares tell more than a set without any coin
    assert often.measured[2].leakage["auc"].value == once.measured[2].leakage["auc"].value


def test_full_and_empty_sets_are_said() -> None:
    models = worlds.models()
    found = compare(options(models, SetThreshold(0.0), SetThreshold(1.0)), rng=np.random.default_rng(0))
    full, empty = found.measured[1:]
    assert (full.full, full.empty, empty.full, empty.empty) == (1.0, 0.0, 0.0, 1.0)
    for one in (full, empty):
        assert one.leakage["auc"].value == 0.5
        assert "gives nothing away, and says nothing" in " ".join(one.notes)
        assert one.accuracy.value == pytest.approx(1 / 4)  # a guess among all
    assert full.coverage.value == 1
    assert empty.coverage.value == 0


def test_coverage_and_size_are_counted_on_records_not_learned() -> None:
    models = worlds.models(effect=3.0)
    found = compare(options(models, ConformalSet(0.8)), rng=np.random.default_rng(0)).measured[1]
    fitted = ConformalSet(0.8).fit(
        models.probabilities(0)[models.calibration], models.labels[models.calibration], rng=np.random.default_rng(0)
    )
    rows = models.rows[~models.member]
    sets = fitted.apply(models.probabilities(0)[rows], rng=np.random.default_rng(0)).values
    assert found.coverage.value == pytest.approx(sets[np.arange(len(rows)), models.labels[rows]].mean())
    assert found.size.value == pytest.approx(sets.sum(axis=1).mean())
    assert found.coverage.low < 0.8 < found.coverage.high


@pytest.mark.long
def test_calibrating_on_members_is_measured_and_said() -> None:
    models = worlds.models(effect=3.0)
    wrong = Models(models.logits, models.included, models.labels, models.rows, models.calibration, "training")
    good, bad = (
        compare(options(one, ConformalSet(0.9)), rng=np.random.default_rng(0)).measured[1] for one in (models, wrong)
    )
    assert bad.coverage.high < 0.9 < good.coverage.high
    assert "own members" in " ".join(bad.notes)
    with pytest.raises(InputError, match="records that no model learnt, received 1 that a model learnt"):
        Models(models.logits, models.included, models.labels, models.rows, np.array([0]))


@pytest.mark.long
def test_units_widen_limits() -> None:
    plain, paired = worlds.models(units=False), worlds.models(units=True)
    wide, narrow = (
        compare(options(one, LabelOnly()), rng=np.random.default_rng(0)).measured[1].accuracy for one in (paired, plain)
    )
    assert wide.value == narrow.value
    assert wide.high - wide.low != narrow.high - narrow.low


def test_bad_input() -> None:
    models = worlds.models(n=200, held=50, shadows=8)
    base = ReleaseOption("a", "output", models)
    with pytest.raises(InputError, match="a name for each, received 'a' twice"):
        compare([base, base], rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="1 or more, received 0"):
        compare([base], queries=0, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="the same records and memberships, received others in b"):
        compare(
            [base, ReleaseOption("b", "training", worlds.models(n=200, held=50, shadows=8, seed=9))],
            rng=np.random.default_rng(0),
        )
    with pytest.raises(InputError, match="an option or more"):
        compare([], rng=np.random.default_rng(0))
    one_class = [values[:, :1] for values in models.logits]
    with pytest.raises(InputError, match="K = 1"):
        Models(one_class, models.included, models.labels * 0, models.rows, models.calibration)
    with pytest.raises(InputError, match="4 shadow models or more"):
        few = Models(models.logits[:3], models.included[:3], models.labels, models.rows, models.calibration)
        compare([ReleaseOption("a", "output", few)], rng=np.random.default_rng(0))
