"""Groups: the one that leaks is found, with limits for all together, and none where none does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from miaudit.defences.compare import Models, ReleaseOption, compare
from miaudit.defences.drivers import drivers
from miaudit.defences.outputs import AsItIs, LabelOnly
from miaudit.metrics.roc import Roc
from worlds import disclosing


def mixed(effect: float, seed: int = 0) -> Models:
    """A third of the records, the group "b", leaks; the others do not."""
    loud, quiet = (disclosing.models(effect=one, seed=seed) for one in (effect, 0.0))
    group = np.array(["a", "b", "c"])[np.arange(len(loud.labels)) % 3]
    logits = [np.where((group == "b")[:, None], x, y) for x, y in zip(loud.logits, quiet.logits, strict=True)]
    return replace(loud, logits=logits, groups=group)


@pytest.mark.long
def test_the_group_that_leaks_is_found() -> None:
    rng = np.random.default_rng(0)
    models = mixed(2.0)
    options = [
        ReleaseOption("as-it-is", "output", models, AsItIs()),
        ReleaseOption("label", "output", models, LabelOnly()),
    ]
    measured = compare(options, rng=rng).measured
    found = drivers(measured[0], measured[0], rng=rng)
    assert found[0].group == "b"
    by_name = {one.group: one for one in found}
    assert by_name["b"].auc.low > 0.8
    for name in ("a", "c"):
        assert by_name[name].auc.low < 0.5 < by_name[name].auc.high
        assert by_name[name].calibration_error.low < 0 < by_name[name].calibration_error.high
    assert by_name["b"].calibration_error.low > 0.1
    inside = models.groups[models.rows] == "b"
    slow = Roc.of(measured[0].attacked.scores[inside], models.member[inside]).auc
    assert by_name["b"].auc.value == slow
    assert by_name["b"].members + by_name["b"].nonmembers == int(inside.sum())
    label = {one.group: one for one in drivers(measured[1], measured[0], rng=rng)}
    assert label["b"].auc.value < by_name["b"].auc.value  # of what is released
    assert label["b"].calibration_error.value == by_name["b"].calibration_error.value  # of the outputs as they are


@pytest.mark.long
def test_limits_pay_for_the_number_of_groups() -> None:
    rng = np.random.default_rng(1)
    few = mixed(0.5)
    many = replace(few, groups=np.arange(len(few.labels)) % 6)
    wide, narrow = (
        drivers(*([compare([ReleaseOption("x", "output", one)], rng=rng).measured[0]] * 2), rng=rng)
        for one in (many, few)
    )
    assert len(wide) == 6
    apart = [one.auc.high - one.auc.low for one in wide]
    assert min(apart) > 1.3 * min(one.auc.high - one.auc.low for one in narrow)


@pytest.mark.long
def test_small_groups_have_no_auc_and_classes_stand_in_for_groups() -> None:
    rng = np.random.default_rng(2)
    models = mixed(1.0)
    small = replace(models, groups=np.where(np.arange(len(models.labels)) < 15, "tiny", "rest"))
    one = compare([ReleaseOption("x", "output", small)], rng=rng).measured[0]
    found = {driver.group: driver for driver in drivers(one, one, rng=rng)}
    assert found["tiny"].auc is None
    assert found["rest"].auc is not None
    plain = compare([ReleaseOption("x", "output", replace(models, groups=None))], rng=rng).measured[0]
    assert {driver.group for driver in drivers(plain, plain, rng=rng)} == {"0", "1", "2", "3"}
