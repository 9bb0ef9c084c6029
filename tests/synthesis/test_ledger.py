"""The ledger: composition against closed forms, budgets that hold, files that survive, processes that wait."""

from __future__ import annotations

import json
import math
import multiprocessing
from pathlib import Path

import pytest

from miaudit.dp.accounting import upper_bound
from miaudit.dp.mechanism import Composed, GaussianNoise, LaplaceNoise, Mechanism, Repeated, dp_sgd, from_mapping
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError
from miaudit.synthesis import ledger
from miaudit.synthesis.ledger import Ledger, described, spend

SGD = dp_sgd(records=1000, batch=50, noise=4.0, epochs=2)


@pytest.mark.parametrize(
    "mechanism",
    [GaussianNoise(2.0), LaplaceNoise(0.5), SGD, Composed((SGD, Repeated(LaplaceNoise(3.0), 4)))],
)
def test_a_mechanism_survives_its_mapping(mechanism: Mechanism) -> None:
    assert from_mapping(json.loads(json.dumps(described(mechanism)))) == mechanism


def test_releases_add_up_as_gaussian_noise_does(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for i, noise in enumerate((10.0, 20.0, 10.0)):
        found = spend(path, table="t", label=f"release {i}", mechanism=GaussianNoise(noise))
    mu = math.sqrt(1 / 100 + 1 / 400 + 1 / 100)
    assert found.total(1e-5).value == pytest.approx(Gaussian(mu).epsilon_at(1e-5))
    assert ledger.read(path) == found and len(found.entries) == 3


def test_equal_trainings_compose_as_one_longer_training(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    spend(path, table="t", label="a", mechanism=SGD)
    twice = spend(path, table="t", label="b", mechanism=SGD).total(1e-4).value
    longer = upper_bound(dp_sgd(records=1000, batch=50, noise=4.0, epochs=4), delta=1e-4).value
    assert twice == pytest.approx(longer)
    assert upper_bound(SGD, delta=1e-4).value < twice < 2 * upper_bound(SGD, delta=1e-4).value


def test_a_budget_is_kept_and_refusals_are_not_entered(tmp_path: Path) -> None:
    path, budget = tmp_path / "deep" / "ledger.json", Claim.epsilon_delta(0.6, 1e-5)
    spend(path, table="t", label="a", mechanism=GaussianNoise(10.0), budget=budget)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"at most 0.6 for all releases, received 0\.\d+ with this release"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(6.0), budget=budget)
    with pytest.raises(InputError, match="a release with differential privacy, within a budget"):
        spend(path, table="t", label="b", mechanism=None)
    with pytest.raises(InputError, match="a name of its own"):
        spend(path, table="t", label="a", mechanism=GaussianNoise(1000.0))
    with pytest.raises(InputError, match="the ledger of other, received that of t"):
        spend(path, table="other", label="b", mechanism=GaussianNoise(1000.0))
    with pytest.raises(InputError, match="the budget is fixed with the first release"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(1000.0), budget=Claim.epsilon_delta(9.0, 1e-5))
    with pytest.raises(InputError, match="an epsilon and a delta"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(9.0), budget=Claim.gaussian(1.0))
    assert path.read_bytes() == before
    assert len(spend(path, table="t", label="b", mechanism=GaussianNoise(40.0)).entries) == 2


def test_a_release_without_privacy_leaves_nothing_to_claim(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    spend(path, table="t", label="a", mechanism=GaussianNoise(10.0))
    found = spend(path, table="t", label="b", mechanism=None)
    assert found.total(1e-5) is None and ledger.read(path) == found
    assert Ledger("t", None, ()).total(1e-5) is None


_START = '{"format": 1, "table": "t", "budget": null, "entries": [{"label": "a"'


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": 2}', _START + "}]}", _START + ', "entered": "", "mechanism": {"kind": "x"}}]}'],
)
def test_a_damaged_ledger_stops_every_release(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(text)
    with pytest.raises(InputError, match="restore it from a copy") as caught:
        spend(path, table="t", label="a", mechanism=GaussianNoise(10.0))
    assert "\n" not in str(caught.value) and path.read_text() == text


def _spend(path: Path, number: int) -> None:
    spend(path, table="t", label=f"release {number}", mechanism=GaussianNoise(10.0 + number))


def test_processes_do_not_lose_each_others_entries(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=_spend, args=(path, i)) for i in range(6)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert sorted(entry.label for entry in ledger.read(path).entries) == [f"release {i}" for i in range(6)]
