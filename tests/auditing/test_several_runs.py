"""An audit of several runs: from evidence, or files of each run, to bounds, page and bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit import Evidence, Plan, bundle
from miaudit.auditing.headline import Split
from miaudit.auditing.plan import Bounds
from miaudit.bundle.verify import verify
from miaudit.dp import one_run, several_runs
from miaudit.dp.ceiling import one_run_ceiling
from miaudit.dp.selection import Exploratory, Fixed, Schedule
from miaudit.dp.several_runs import Anytime
from miaudit.dp.verdict import Claim
from miaudit.errors import DesignError, InputError
from miaudit.findings.audit import Findings


def runs_of(several: int, mu: float = 2.0, n: int = 600, *, seed: int = 0, **more: object) -> list[Evidence]:
    rng = np.random.default_rng(seed)
    coins = rng.random((several, n)) < 0.5
    return [Evidence(score=rng.normal(mu * c), member=c, design="one-run", **more) for c in coins]


def test_runs_come_apart_again_in_their_order() -> None:
    runs = runs_of(3, unit=np.arange(600) // 2, group=np.arange(600) % 3)
    runs = [run.replace(member=np.repeat(run.member[::2], 2)) for run in runs]
    both = Evidence.of_runs(runs)
    assert [one.digest for one in both.runs] == [one.digest for one in runs]
    assert both.n_units == 3 * 300  # a unit has a coin of its own in each run
    assert both.digest != both.replace(run=None).digest
    assert Evidence.of_runs(runs[:1]).runs[0].digest == runs[0].digest == runs[0].runs[0].digest


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_a_file_holds_them(tmp_path: Path, ending: str) -> None:
    both = Evidence.of_runs(runs_of(2, n=20))
    both.save(tmp_path / f"e.{ending}")
    assert Evidence.load(tmp_path / f"e.{ending}").digest == both.digest


def test_bounds_are_those_of_the_library_and_grow_with_runs() -> None:
    runs = runs_of(4)
    findings = ma.audit(Evidence.of_runs(runs), rng=0)
    found = findings.several_runs
    assert found is not None
    assert (found.runs, found.audited, found.records, found.score) == (4, 3, 600, "score")
    assert found.level == pytest.approx(several_runs.level(3, confidence=0.95))
    assert "Run 1 chose the number of guesses" in found.text
    mu, epsilon = findings.bounds
    assert (mu.parameter, epsilon.parameter) == ("mu", "epsilon")
    assert found.by_number[-1] == mu.value
    assert len(found.by_number) == len(found.alone) == len(found.auc) == 4
    assert found.by_number[0] == found.alone[0]
    assert mu.value > np.mean(found.alone)
    assert found.ceiling is None  # nobody claims a mu
    assert findings.metrics[0].confidence == 0.95
    assert "runs" in findings.assumptions[0].lower()


def test_a_number_of_guesses_that_was_fixed_gives_the_bound_of_its_counts() -> None:
    runs = runs_of(4)
    findings = ma.audit(Evidence.of_runs(runs), plan=Plan(bounds=Bounds(guesses=100)), rng=0)
    level = several_runs.level(4, confidence=0.95)
    rng = np.random.default_rng(1)  # a fixed number draws nothing
    each = [one_run.audit(run, parameter="mu", guesses=Fixed(100), confidence=1 - level, rng=rng).value for run in runs]
    assert findings.bounds[0].value == min(each)


@pytest.mark.long
def test_a_claim_that_one_run_cannot_refute_falls() -> None:
    claim = Claim.gaussian(1.3)
    runs = runs_of(4, mu=1.9, n=1_000, seed=2)
    plan = Plan(bounds=Bounds(claim=claim))
    found = ma.audit(Evidence.of_runs(runs), plan=plan, rng=0)
    assert found.claim is not None
    assert found.claim.status == "refuted"
    assert found.exit_code == 3
    assert found.several_runs.ceiling == one_run_ceiling(1.3, 1_000)
    alone = [ma.audit(run, plan=plan, rng=0).claim.status for run in runs]
    assert "not-refuted" in alone  # the control
    nothing = ma.audit(Evidence.of_runs(runs_of(4, mu=0.0)), plan=plan, rng=0)
    assert nothing.claim.status == "not-refuted"
    assert "show nothing" in nothing.several_runs.text


def test_how_many_refute_is_an_option_and_stands_in_the_plan() -> None:
    both = Evidence.of_runs(runs_of(4))
    two = ma.audit(both, plan=Plan(bounds=Bounds(at_least=2)), rng=0)
    assert two.plan["bounds"]["at_least"] == 2
    assert "at least 2 of 3 audited runs refute" in two.several_runs.refuting
    assert two.several_runs.level == several_runs.level(3, at_least=2, confidence=0.95)
    anytime = ma.audit(both, plan=Plan(bounds=Bounds(at_least=Anytime())), rng=0)
    assert anytime.several_runs.level == 0.5
    assert anytime.bounds[0].value == 0  # five runs at least at 95%
    assert ma.audit(both, rng=0).plan["bounds"]["at_least"] is None
    with pytest.raises(InputError, match="at_least"):
        ma.audit(both, plan=Plan(bounds=Bounds(at_least=4)), rng=0)
    with pytest.raises(InputError, match="at_least: expected a whole number of runs"):
        Bounds(at_least=0)


@pytest.mark.long
def test_guesses_by_a_schedule_are_laid_out_for_each_number_of_runs_and_exploratory_ones_are_not_shown() -> None:
    both = Evidence.of_runs(runs_of(2))
    found = ma.audit(both, plan=Plan(bounds=Bounds(guesses=Schedule())), rng=0).several_runs
    assert len(found.by_number) == len(found.alone) == found.audited == 2
    unpaid = ma.audit(both, plan=Plan(bounds=Bounds(guesses=Exploratory())), rng=0).several_runs
    assert unpaid.by_number == unpaid.alone == ()


@pytest.mark.long
def test_several_scores_pay_for_the_choice() -> None:
    runs = [run.replace(score={"a": run.score, "b": -run.score}) for run in runs_of(2)]
    findings = ma.audit(Evidence.of_runs(runs), rng=0)
    assert findings.several_runs.score == "a"
    assert findings.several_runs.level == pytest.approx(several_runs.level(2, confidence=0.975))
    assert findings.bounds[0].confidence == pytest.approx(0.95)
    with pytest.raises(InputError, match="headline: expected no split of several runs"):
        ma.audit(Evidence.of_runs(runs), plan=Plan(headline=Split()), rng=0)


@pytest.mark.long
def test_a_bundle_of_several_runs_verifies(tmp_path: Path) -> None:
    plan = Plan(bounds=Bounds(at_least=Anytime(), claim=Claim.gaussian(1.0)))
    both = Evidence.of_runs(runs_of(2, n=60))
    examined, made, _ = bundle.record(both, plan=plan, rng=np.random.default_rng(0))
    made.write(tmp_path / "b.zip")
    read = bundle.read(tmp_path / "b.zip")
    assert read.evidence().digest == both.digest
    assert verify(tmp_path / "b.zip").status == "verified"
    assert Findings.from_dict(json.loads(examined.findings.to_json())) == examined.findings.as_written()
    with pytest.raises(InputError, match="seal: expected evidence of one run"):
        bundle.record(both, seal=True, rng=np.random.default_rng(0))


@pytest.mark.parametrize("design", ["zero-run", "multi-run"])
def test_other_designs_are_no_several_runs(design: str) -> None:
    both = Evidence.of_runs(runs_of(2)).replace(design=design)
    with pytest.raises(InputError, match="run: expected none, unless the design is one-run"):
        ma.audit(both, rng=0)


def test_an_undeclared_design_has_no_bound() -> None:
    findings = ma.audit(Evidence.of_runs(runs_of(2)).replace(design=None), rng=0)
    assert findings.several_runs is None
    assert findings.verdict.status == "not-testable"
    assert "not declared" in findings.no_bound[0]


def test_copies_halves_and_unequal_runs_are_refused() -> None:
    one, other = runs_of(2)
    with pytest.raises(InputError, match="scores of a model of its own for each"):
        ma.audit(Evidence.of_runs([one, one]), rng=0)
    with pytest.raises(InputError, match="members drawn by independent coins"):
        ma.audit(Evidence.of_runs([one, other.replace(member=~one.member)]), rng=0)
    with pytest.raises(InputError, match=r"runs: expected runs of 600 records"):
        ma.audit(Evidence.of_runs([one, other.take(np.arange(500))]), rng=0)
    with pytest.raises(InputError, match="evidence of the same kind"):
        Evidence.of_runs([one, other.replace(design=None)])
    with pytest.raises(InputError, match="evidence of the same kind"):
        Evidence.of_runs([one, other.replace(unit=np.arange(600))])
    with pytest.raises(InputError, match="several runs in one"):
        Evidence.of_runs([Evidence.of_runs([one, other])])
    with pytest.raises(InputError, match="at least one run"):
        Evidence.of_runs([])
    with pytest.raises(DesignError):
        several_runs.audit([one.replace(design="zero-run")], rng=np.random.default_rng(0))
