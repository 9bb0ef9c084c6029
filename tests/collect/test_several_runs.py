"""Several runs of a campaign: fresh coins for each, shadow models that are none of the runs, and files of each run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from command.test_audit import Run, save
from miaudit import Evidence, Plan, audit
from miaudit.auditing.plan import Bounds
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.outputs import Collected
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect, cost
from miaudit.collect.several_runs import joined
from miaudit.errors import InputError
from miaudit.io.sealed_coins import Answer, Coins, Secret
from miaudit.models.targets import SklearnTarget

N = 120


def campaign(**options: Any) -> Campaign:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3))
    fields = options.pop("fields", {})
    data = Records(x, (x[:, 0] + rng.normal(size=N) > 0).astype(int), options.pop("member", None), fields, "noise")
    return Campaign(SklearnTarget(DecisionTreeClassifier()), data, **{"runs": 3, **options})


def collected(**options: Any) -> Collected:
    return collect(campaign(**options), rng=np.random.default_rng(1))


def test_the_first_run_is_the_run_without_further_ones() -> None:
    three, one = collected(shadows=Shadows(models=4)).evidence, collected(runs=1, shadows=Shadows(models=4)).evidence
    assert one.run is None
    assert three.runs[0].digest == one.digest
    assert [run.n for run in three.runs] == [N] * 3
    assert [run.design for run in three.runs] == ["one-run"] * 3


def test_each_run_has_coins_and_a_model_of_its_own() -> None:
    runs = collected().evidence.runs
    for run in runs:  # a tree remembers what it learned: the loss is near 0 there, and only there for all
        assert run.only("loss").score[run.member].min() > -1e-9
        assert run.only("loss").score[~run.member].min() < -1
    coins = np.array([run.member for run in runs], dtype=float)
    assert np.abs(np.corrcoef(coins)[np.triu_indices(3, 1)]).max() < 0.3


def test_shadow_models_are_none_of_the_runs_and_the_same_for_all() -> None:
    made = campaign(shadows=Shadows(models=4))
    draws = Draws.of(made, np.random.default_rng(1))
    assert draws.included.shape == (1 + 4 + 2, N)
    assert draws.included[1:5].sum(axis=0).tolist() == [2] * N  # halves of their own, whatever the runs have
    assert np.array_equal(draws.included[5:, draws.rows], draws.further)
    assert cost(made, rng=np.random.default_rng(1)).fits == 7


def test_records_of_a_unit_go_in_together_in_each_run() -> None:
    unit = np.arange(N) // 2
    for run in collected(fields={"unit": unit}).evidence.runs:
        assert np.array_equal(run.member[::2], run.member[1::2])


@pytest.mark.long
def test_a_store_resumes_several_runs(tmp_path: Path) -> None:
    options: dict[str, Any] = {"shadows": Shadows(models=4, store=tmp_path / "store")}
    once = collected(**options).evidence.digest
    assert cost(campaign(**options), rng=np.random.default_rng(1)).fits == 0
    assert collected(**options).evidence.digest == once == collected(shadows=Shadows(models=4)).evidence.digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"runs": 0}, "runs: expected a whole number from 1"),
        ({"design": "multi-run"}, "runs: expected 1, unless a model is trained here"),
        ({"member": np.arange(N) % 2 == 0, "design": "one-run"}, "runs: expected 1, unless a model is trained here"),
        ({"stability": 5}, "stability: expected none, beside several runs"),
        ({"shadows": Shadows(models=4, without=(5,))}, "runs: expected the model of every run"),
    ],
)
def test_what_gives_no_several_runs_is_refused_before_training(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        collected(**options)


def test_propensities_and_unlike_runs_do_not_join() -> None:
    one = collected(runs=1)
    with pytest.raises(InputError, match="propensity: expected none, for several runs"):
        joined([one, Collected(one.evidence, propensity=np.full(N, 0.5))])
    with pytest.raises(InputError, match="evidence of the same kind"):
        joined([one, Collected(one.evidence.replace(design=None))])


# -- the command line -------------------------------------------------------------------------------------------------


def save_runs(several: int, shift: float = 1.5) -> list[str]:
    rng = np.random.default_rng(0)
    for number in range(several):
        member = rng.random(500) < 0.5
        np.savez(f"run{number}.npz", score=rng.normal(size=500) + shift * member, member=member)
    return [f"run{number}.npz" for number in range(several)]


@pytest.mark.thorough
def test_files_of_each_run_are_audited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    names = save_runs(3)
    code, out, err = run("audit", *names, "--design", "one-run", "--claim-mu", "1.5", "--out", "r")
    assert code in (0, 3, 4), err
    assert "3 runs together show a mu of at least" in out
    assert "For a Gaussian mechanism with exactly the claimed mu of 1.5, lower bounds of one run" in out
    found = json.loads((tmp_path / "r" / "findings.json").read_text())
    assert found["several_runs"]["runs"] == 3
    assert "Variation between trainings" not in out
    page = (tmp_path / "r" / "report.html").read_text()
    assert "one-run: 3 runs on 500 records, members assigned at random anew in each" in page
    assert 'data-chart="runs"' in page
    assert (tmp_path / "r" / "figures" / "runs.svg").is_file()
    code, out, _ = run("audit", *names, "--design", "one-run", "--at-least", "2", "--json")
    assert json.loads(out)["plan"]["bounds"]["at_least"] == 2
    code, out, _ = run("audit", *names, "--design", "one-run", "--at-least", "anytime", "--json")
    assert json.loads(out)["several_runs"]["level"] == 0.5


@pytest.mark.long
def test_a_file_of_all_runs_names_their_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    parts = [np.load(name) for name in save_runs(2)]
    both = {key: np.concatenate([part[key] for part in parts]) for key in ("score", "member")}
    np.savez("all.npz", s=both["score"], member=both["member"], training=np.repeat([1, 2], 500))
    options = ("--score", "s", "--member", "member", "--design", "one-run", "--json")
    found = json.loads(run("audit", "all.npz", *options, "--run", "training")[1])
    files = json.loads(run("audit", "run0.npz", "run1.npz", "--design", "one-run", "--json")[1])
    assert found["several_runs"]["auc"] == files["several_runs"]["auc"]
    assert json.loads(run("audit", "all.npz", *options)[1])["several_runs"] is None
    code, _, err = run("audit", "all.npz", *options, "--run", "training", "--signal", "loss")
    assert code == 1
    assert "run: expected none, for signal loss" in err


@pytest.mark.long
def test_how_many_have_to_refute_goes_with_several_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    (name,) = save_runs(1)
    code, _, err = run("audit", name, "--design", "one-run", "--at-least", "1")
    assert code == 2
    assert "--at-least would not be used without several runs" in err
    assert run("audit", name, "--design", "one-run", "--at-least", "none")[0] == 1
    one = Evidence.load(name, design="one-run")
    noted = audit(one, plan=Plan(bounds=Bounds(at_least=1)), rng=0).notes
    assert "The option at_least has no use with one run and changed nothing." in noted


def test_files_that_are_no_runs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "a.npz", 1.0)
    code, _, err = run("audit", "a.npz", "a.npz", "--design", "one-run")
    assert code == 1
    assert "expected scores of a model of its own for each, received equal ones in runs 1 and 2" in err
    assert run("audit", "a.jsonl", "b.jsonl", "--signal", "token-logprobs")[0] == 2
    assert not (tmp_path / "results").exists()


@pytest.mark.thorough
def test_a_configuration_trains_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.normal(size=(200, 3)), y=rng.integers(2, size=200))
    content = """
target: {kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier"}
data: {path: d.npz, x: x, y: y}
runs: 2
privacy: {at_least: 1}
evaluation: {output_dir: r}
"""
    Path("c.yaml").write_text(content)
    code, _, err = run("run", "c.yaml")
    assert code in (3, 4), err
    found = json.loads(Path("r/findings.json").read_text())
    assert (found["several_runs"]["runs"], found["several_runs"]["records"]) == (2, 200)
    assert found["plan"]["bounds"]["at_least"] == 1
    Path("c.yaml").write_text(content.replace("runs: 2", "runs: none"))
    code, _, err = run("run", "c.yaml")
    assert code == 1
    assert "runs" in err


def sealed(runs: int, coins: int, answered: bool = True) -> Coins:
    secret = Secret.new(coins=coins, runs=runs)
    return secret.coins(Answer.to(secret.commitment) if answered else None)


@pytest.mark.long
def test_sealed_coins_are_the_memberships_and_move_no_shadow_model() -> None:
    options: dict[str, Any] = {"shadows": Shadows(models=4)}
    coins = sealed(3, N)
    found, usual = (Draws.of(campaign(coins=c, **options), np.random.default_rng(1)) for c in (coins, None))
    for run, member in enumerate([found.base.member, *found.further], start=1):
        assert np.array_equal(member, coins.of_run(run))
    assert np.array_equal(found.included[1:5], usual.included[1:5])
    assert found.seed == usual.seed
    assert collected(coins=coins).coins == coins


@pytest.mark.long
def test_units_have_one_sealed_coin_each() -> None:
    unit = np.array([f"{(i * 7) % 40}" for i in range(N)])
    coins = sealed(3, 40)
    found = collected(fields={"unit": unit}, coins=coins).evidence
    assert list(coins.misfits(found.member, unit=found.unit, run=found.run)) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"coins": sealed(2, N)}, "runs: expected 2, as the coins' commitment says, received 3"),
        ({"coins": sealed(3, N + 1)}, "coins: expected 121 records, as committed, received 120"),
        ({"coins": sealed(1, N), "runs": 1, "design": "multi-run"}, "received design: multi-run"),
        ({"coins": sealed(1, N), "runs": 1, "member": np.arange(N) % 2 == 0}, "received memberships of a file"),
        ({"coins": sealed(3, N), "shadows": Shadows(models=4, population=10)}, "10 that are set aside"),
    ],
)
def test_coins_of_other_records_are_refused_before_training(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Draws.of(campaign(**options), np.random.default_rng(0))
