"""A release in two stages: charged exactly, killed between them, stopped with the rest left, and gone on with."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.dp.accounting import upper_bound
from miaudit.dp.mechanism import GaussianNoise
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError
from miaudit.findings.release import SynthesisFindings
from miaudit.report import synthesis_page
from miaudit.synthesis.generators import ledger, staging, usefulness
from miaudit.synthesis.generators.entered_release import EnteredRelease
from miaudit.synthesis.generators.foreseen import Foreseen, foreseen
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.publication import LedgerPlan, Publication, publish
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.generators.staging import ReleaseStopped
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.schema import Table
from synthesis.generators.test_first_stage import GRAPHS, SCHEMA, people, planned

DELTA = 1e-5
TABLE = people(1_300, np.random.default_rng(0))


def wanted(
    folder: Path, *, epsilon: float = 1.0, label: str = "first", budget: float = 1.0, **options: Any
) -> Publication:
    # so few records may be foreseen to be further off than a release should be: that is not what is tested
    config = TablesConfig(two_stages=True, **{"most_off": 0.15, **options})
    plan = LedgerPlan(folder / "ledger.json", "people", label, Claim.epsilon_delta(budget, DELTA))
    privacy = Privacy(records=1_000, epsilon=epsilon, delta=DELTA)
    return Publication(None, config=config, privacy=privacy, ledger=plan, source="people.csv", fidelity="none")


def run(publication: Publication, table: Table = TABLE) -> tuple[Release, SynthesisFindings]:
    return publish(table, publication, rng=np.random.default_rng())


def entered(folder: Path) -> ledger.Ledger:
    held = ledger.read(folder / "ledger.json")
    assert held is not None
    return held


def mu_of(mechanism: Any) -> float:
    return upper_bound(mechanism, parameter="mu").value


def test_a_release_is_two_entries_that_compose_to_what_it_claims(tmp_path: Path) -> None:
    release, findings = run(wanted(tmp_path))
    held = entered(tmp_path)
    assert [(entry.label, entry.first_stage) for entry in held.entries] == [("first", True), ("first", False)]
    assert release.claim == Claim.epsilon_delta(1.0, DELTA) and release.mechanism is not None
    total = held.total(DELTA)
    assert total is not None and total.value <= 1.0 and total.value == pytest.approx(1.0, rel=1e-4)
    whole = upper_bound(release.mechanism, delta=DELTA).value
    assert total.value == pytest.approx(whole, rel=1e-6)
    squares = [mu_of(entry.mechanism) ** 2 for entry in held.entries]
    assert sum(squares) == pytest.approx(mu_of(release.mechanism) ** 2, rel=1e-3)
    assert squares[0] == pytest.approx(0.15 * sum(squares), rel=1e-3)
    assert findings.spent is not None and findings.spent.releases == ("first",)
    assert "It is one of" not in " ".join(findings.text)
    assert "made of 1,000 records with the single columns of the first stage" in str(findings.generator["rehearsed"])
    assert not list(tmp_path.glob(".ledger.json.*"))  # nothing is kept beside the ledger
    with pytest.raises(InputError, match="one label is one table"):
        run(wanted(tmp_path))


def killed(monkeypatch: pytest.MonkeyPatch, publication: Publication, table: Table = TABLE) -> None:
    """Stop a run between its stages, as a kill would."""
    with monkeypatch.context() as patched:
        patched.setattr(staging, "foreseen", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(publication, table)


def test_a_release_goes_on_if_its_columns_are_as_near_as_those_of_a_useful_one() -> None:
    assert TablesConfig().most_off == usefulness._NEAR


def test_a_run_that_is_killed_between_the_stages_goes_on_and_is_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = wanted(tmp_path)
    place = EnteredRelease.of(tmp_path / "ledger.json", "first")
    killed(monkeypatch, publication)
    before, content = entered(tmp_path), place.first
    assert [entry.first_stage for entry in before.entries] == [True] and content is not None
    assert before.releases == ("first (first stage alone)",)
    with place.held():  # a process that comes and goes takes nothing away
        pass
    seen: list[Any] = []
    monkeypatch.setattr(staging, "foreseen", lambda plan, **options: seen.append(plan) or foreseen(plan, **options))
    release, _ = run(publication)
    assert [own.tolist() for own in seen[0].first.counts] == content["counts"]
    after = entered(tmp_path)
    assert [entry.first_stage for entry in after.entries] == [True, False] and after.entries[0] == before.entries[0]
    assert len(release.table) == 1_000


def test_the_records_set_aside_are_the_same_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publication, seen = replace(wanted(tmp_path), fidelity="held-out"), []
    own = staging.Started.first
    monkeypatch.setattr(staging.Started, "first", lambda self, settled: seen.append(settled) or own(self, settled))
    killed(monkeypatch, publication)
    run(publication)
    assert np.array_equal(seen[0].private.values, seen[1].private.values, equal_nan=True)
    assert 150 < len(seen[0].aside) < 400


def test_a_kill_before_the_entry_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publication = wanted(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(LedgerPlan, "spend", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(publication)
    place = EnteredRelease.of(tmp_path / "ledger.json", "first")
    assert ledger.read(tmp_path / "ledger.json") is None and place.first is None
    with place.held():
        pass
    assert not place.folder.exists()  # counts that are not entered are removed
    run(publication)
    assert len(entered(tmp_path).entries) == 2


def test_counts_that_are_lost_or_of_something_else_are_refused_and_nothing_more_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = wanted(tmp_path)
    killed(monkeypatch, publication)
    for changed in (
        wanted(tmp_path, epsilon=0.9),
        replace(publication, privacy=Privacy(records=900, epsilon=1.0, delta=DELTA)),
    ):
        with pytest.raises(InputError, match="state them as they were, or choose another label"):
            run(changed)
    next(tmp_path.glob(".ledger.json.*/first.json")).write_text("{")
    with pytest.raises(InputError, match="the counts of its first stage, which is entered"):
        run(publication)
    assert len(entered(tmp_path).entries) == 1


def stopped(publication: Publication) -> SynthesisFindings:
    with pytest.raises(ReleaseStopped) as stop:
        run(publication)
    return stop.value.findings


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "foreseen", lambda plan, **_: Foreseen(0.2, 0.9, plan.records))


@pytest.mark.usefixtures("poor")
def test_a_stop_leaves_eighty_five_per_cent(tmp_path: Path) -> None:
    findings = stopped(wanted(tmp_path))
    held = entered(tmp_path)
    assert [entry.first_stage for entry in held.entries] == [True]
    mu = planned(records=1_000).mu
    held.with_entry("rest", GaussianNoise(1 / (mu * math.sqrt(0.85))))
    with pytest.raises(InputError, match="an epsilon of at most 1 for all releases"):
        held.with_entry("more", GaussianNoise(1 / (mu * math.sqrt(0.8502))))
    assert findings.useful is not None and findings.useful.status == "stopped" and findings.exit_code == 4
    assert findings.release.records == 0 and findings.word == "Stopped, with budget left"
    assert findings.guarantee is not None
    assert findings.guarantee.proved == pytest.approx(
        upper_bound(GaussianNoise(1 / (mu * 0.15**0.5)), delta=DELTA).value
    )
    page = synthesis_page.page(findings)
    assert "No table was made" in page and "85% is left" in page and "Hand on" not in page
    assert SynthesisFindings.from_dict(json.loads(findings.to_json())) == findings
    left = float(next(text for text in findings.useful.advice if "another label" in text).split()[-1])
    assert 0.85 < left < 1.0
    assert stopped(wanted(tmp_path)).useful == findings.useful  # the same command says the same
    assert len(entered(tmp_path).entries) == 1


@pytest.mark.usefixtures("poor")
def test_after_a_stop_the_publisher_may_go_on_or_release_something_else_with_what_is_left(tmp_path: Path) -> None:
    stopped(wanted(tmp_path))
    release, _ = run(wanted(tmp_path, most_off=1.0))
    assert len(release.table) == 1_000 and len(entered(tmp_path).entries) == 2
    other = tmp_path / "other"
    other.mkdir()
    stopped(wanted(other))
    with pytest.raises(InputError, match="is spent"):
        run(wanted(other, label="second"))
    run(wanted(other, label="second", epsilon=0.9, most_off=1.0))
    assert entered(other).releases == ("first (first stage alone)", "second")


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_without_a_ledger_both_stages_run_in_one_go(graph: Any) -> None:
    privacy = Privacy(records=1_000, epsilon=1.0, delta=DELTA)
    config = TablesConfig(two_stages=True, most_off=1.0)
    release, findings = run(Publication(graph, config=config, privacy=privacy, fidelity="none"))
    assert findings.spent is None and len(release.table) == 1_000 and release.table.schema == SCHEMA
    assert dict(release.parameters)["stages"] == 2
