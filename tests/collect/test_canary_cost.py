"""What canaries cost a model: measured on records that no model learned, by trainings with and without them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.canaries import Mislabelled, added
from miaudit.collect.canary_cost import CanaryCost, measured
from miaudit.collect.draws import PLAIN, Draws
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect, cost
from miaudit.errors import InputError
from miaudit.models.targets import SklearnTarget

NEAREST, LINE = SklearnTarget(KNeighborsClassifier(1)), SklearnTarget(LogisticRegression())


def records(count: int = 100, n: int = 400) -> Records:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 2))
    data = Records(x, (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] > 0), None, {}, "rows")
    return added(data, Mislabelled(count), rng=np.random.default_rng(0))


def sentence(campaign: Campaign) -> str:
    notes = collect(campaign, rng=np.random.default_rng(0)).notes
    return next(note for note in notes if note.startswith("What the canaries cost"))


def test_held_out_records_are_learned_by_no_model_and_others_draws_stay() -> None:
    made = Campaign(NEAREST, records(), shadows=Shadows(models=4), runs=2)
    held = Campaign(NEAREST, records(), shadows=Shadows(models=4), runs=2, held_out=60)
    plain, found = (Draws.of(one, np.random.default_rng(0)) for one in (made, held))
    canary = np.asarray(records().canary)
    assert len(found.held_out) == 60
    assert not canary[found.held_out].any()
    assert not found.included[:, found.held_out].any()
    np.testing.assert_array_equal(found.included[:, canary], plain.included[:, canary])
    assert found.seed == plain.seed
    assert found.apart.shape == (PLAIN, 400)  # six models have canaries already
    assert not found.apart[:, canary].any()
    assert (found.apart.sum(axis=1) == 240).all()
    alone = Draws.of(Campaign(NEAREST, records(), held_out=60), np.random.default_rng(0))
    assert len(alone.apart) == PLAIN + 3
    assert (alone.apart[PLAIN:, canary].sum(axis=1) > 30).all()


@pytest.mark.long
def test_a_nearest_neighbour_pays_for_wrong_labels_and_a_line_does_not() -> None:
    """The second is the control: a model that a few wrong labels cannot move."""
    dear = sentence(Campaign(NEAREST, records(), held_out=60))
    assert "on 60 records that no model learned the accuracy is" in dear
    assert "(4 trainings" in dear
    for target, count, low, high in ((NEAREST, 100, -0.35, -0.05), (LINE, 16, -0.03, 0.03)):
        said = sentence(Campaign(target, records(count), held_out=60))
        assert low < float(said.split("a difference of ")[1].split()[0]) < high


def test_it_is_counted_and_resumed(tmp_path: Path) -> None:
    campaign = Campaign(NEAREST, records(), shadows=Shadows(store=tmp_path / "store"), held_out=60)
    planned = cost(campaign, rng=np.random.default_rng(0))
    assert planned is not None
    assert planned.fits == 1 + PLAIN + 3
    assert "7 models are for what canaries cost" in planned.how
    first = sentence(campaign)
    again = cost(campaign, rng=np.random.default_rng(0))
    assert again is not None
    assert again.fits == 0
    assert sentence(campaign) == first


def test_regressions_are_compared_by_their_loss() -> None:
    made = records()
    numbers = Records(made.x, np.asarray(made.y) * 1.0, None, {}, "", canary=made.canary)
    said = sentence(Campaign(SklearnTarget(KNeighborsRegressor(1)), numbers, held_out=60))
    assert "the loss is" in said
    assert float(said.split("a difference of ")[1].split()[0]) > 0


def test_numbers_are_those_of_the_held_out_records() -> None:
    right, wrong = np.eye(2)[[0, 1, 1]], np.eye(2)[[0, 0, 0]]
    found = measured([right, wrong], [right], np.array([1, 2]), np.array([0, 1, 1]), "logits")
    assert (found.with_canaries, found.without) == ((1.0, 0.0), (1.0,))
    assert found.difference == -0.5
    assert math.isnan(found.standard_error)
    several = CanaryCost("loss", 5, (1.0, 3.0), (1.0, 1.0))
    assert several.standard_error == pytest.approx(1.0)
    signals = measured([np.array([[-2.0], [-4.0]])], [np.zeros((2, 1))], np.array([1]), np.zeros(2), "signals")
    assert signals.with_canaries == (4.0,)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"held_out": 1}, "canaries.held_out: expected a whole number from 2, received 1"),
        ({"held_out": 151}, "at most half of the records beside the canaries, received 151 of 300"),
        ({"held_out": 9, "records": Records(np.eye(9), np.arange(9), None, {}, "")}, "expected none, unless canaries"),
        ({"held_out": 60, "shadows": Shadows(models=8, keep="signal")}, "signal beside canaries.held_out"),
    ],
)
def test_what_cannot_be_measured_is_refused(made: dict[str, Any], said: str) -> None:
    options: dict[str, Any] = {"target": NEAREST, "records": records(), **made}
    with pytest.raises(InputError) as error:
        Draws.of(Campaign(**options), np.random.default_rng(0))
    assert said in str(error.value)
