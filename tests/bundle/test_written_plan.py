"""A plan written as plain values: it comes back as it was, and what strangers write is refused."""

import json

import numpy as np
import pytest

from miaudit.auditing.headline import Declared, Exploratory, Split
from miaudit.auditing.plan import Bootstrap, Bounds, Plan
from miaudit.bundle import written_plan
from miaudit.dp.directed_profile import DirectedProfile
from miaudit.dp.mechanism import dp_sgd
from miaudit.dp.selection import Fixed
from miaudit.dp.selection import Schedule as GuessSchedule
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.verdict import Claim
from miaudit.dp.zero_run import Composition, Thinning
from miaudit.errors import InputError


@pytest.mark.parametrize(
    "plan",
    [
        {"record": "os.system", "command": "true"},
        {"record": "plan", "confidence": 7},
        {"record": "plan", "nonsense": 1},
        {"record": "claim", "parameter": "mu", "value": 1.0},
        [],
        "plan",
    ],
    ids=str,
)
def test_plans_from_strangers(plan):
    with pytest.raises(InputError):
        written_plan.plan_of(plan)


def test_a_deep_plan_is_refused():
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(InputError, match="levels"):
        written_plan.decode(deep)


def test_the_state_of_a_generator_from_a_stranger():
    state = written_plan.state_of(np.random.default_rng(0))
    for change in ({"pool_size": 10**9}, {"entropy": "x"}, {"children": -1}, {"state": {}}, {"spawn_key": [-1]}):
        with pytest.raises(InputError):
            written_plan.generator_at({**state, **change})


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(fpr_targets=(0.02,), confidence=0.9, headline=Split(0.3), n_bootstrap=200, intervals=Bootstrap()),
        Plan(headline=Declared("loss"), primary_metric="auc", threshold_for_concern=0.6, categories=("a",)),
        Plan(headline=Exploratory(), bounds=None, components=4),
        Plan(bounds=Bounds(claim=Claim.gaussian(0.5), guesses=Fixed(10), correction=Composition(eta=0.1))),
        Plan(bounds=Bounds(correction=Composition(whole=True))),
        Plan(bounds=Bounds(correction=Composition(tradeoff=DirectedProfile.of_laws([0.5, 0.5], [0.4, 0.6])))),
        Plan(bounds=Bounds(correction=Composition(tradeoff=Gaussian(0.2)))),
        Plan(bounds=Bounds(mechanism=dp_sgd(records=1000, batch=10, noise=1.0, steps=10), guesses=GuessSchedule())),
    ],
    ids=range(9),
)
def test_a_plan_comes_back(plan):
    assert written_plan.plan_of(json.loads(json.dumps(written_plan.encode(plan)))).to_dict() == plan.to_dict()


def test_a_plan_with_an_array_comes_back():
    plan = Plan(bounds=Bounds(correction=Thinning(half_width=np.array([0.1, 0.2]))))
    back = written_plan.plan_of(json.loads(json.dumps(written_plan.encode(plan))))
    assert back.bounds.correction.half_width.tolist() == [0.1, 0.2]
