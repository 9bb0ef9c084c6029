"""A release is settled once, and what was settled travels through its stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.dp.verdict import Claim, LowerBound
from miaudit.errors import InputError
from miaudit.synthesis.generators import fitting, publication
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.release_request import LedgerPlan, Publication
from miaudit.synthesis.generators.settled_release import SettledRelease, set_aside
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema((Column("a"), Column("b"), Column("c", "ordinal", categories=(1, 2, 3))))
GRAPH = CausalGraph(SCHEMA, None, [("a", "b"), ("b", "c")])
PRIVACY = Privacy(records=300, epsilon=2.0, delta=1e-4)


def table(n: int = 300) -> Table:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, n)
    return Table(SCHEMA, np.column_stack([a, np.where(rng.random(n) < 0.8, a, 1 - a), rng.integers(0, 3, n)]))


def settled(publication: Publication, n: int = 300) -> SettledRelease:
    rng = np.random.default_rng(0)
    return SettledRelease.of(table(n), publication, rehearse=rng, split=rng)


class Calls:
    """Count the calls of a function, and remember the first argument of each."""

    def __init__(self, function: Any) -> None:
        self.function, self.first = function, []  # type: ignore[var-annotated]

    def __call__(self, *positional: Any, **named: Any) -> Any:
        self.first.append(positional[0] if positional else None)
        return self.function(*positional, **named)

    def method(self) -> Any:
        return lambda *positional, **named: self(*positional, **named)


@pytest.mark.parametrize("privacy", [PRIVACY, None])
@pytest.mark.parametrize("method", ["tables", None])
def test_one_release_settles_its_recipe_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, privacy: Privacy | None, method: Any
) -> None:
    """The recipe is chosen once, and its plan of tables and its mechanism are computed once for all stages."""
    chosen, plans, mechanisms = Calls(fitting.settled), Calls(TablesPlan.check), Calls(Recipe.mechanism)
    monkeypatch.setattr(fitting, "settled", chosen)
    budget = None if privacy is None else Claim.epsilon_delta(9.0, 1e-4)
    ledger = LedgerPlan(tmp_path / "ledger.json", "t", "first", budget)
    asked = Publication(GRAPH, method, privacy=privacy, ledger=ledger, fidelity="none")
    recipes: list[Recipe] = []
    of = SettledRelease.of

    def settle(*positional: Any, **named: Any) -> SettledRelease:
        release = of(*positional, **named)
        recipes.append(release.recipe)
        monkeypatch.setattr(TablesPlan, "check", plans.method())  # a rehearsal has plans of its own
        monkeypatch.setattr(Recipe, "mechanism", mechanisms.method())
        return release

    monkeypatch.setattr(SettledRelease, "of", settle)
    release, findings = publication.publish(table(), asked, rng=np.random.default_rng(0))
    assert len(chosen.first) == len(recipes) == 1 and findings.spent is not None
    own = [plan for plan in plans.first if plan.privacy == recipes[0].privacy]
    assert len(own) == 1 and recipes[0].method == "tables"
    assert [recipe == recipes[0] for recipe in mechanisms.first].count(True) == (privacy is not None)
    assert len(plans.first) - len(own) == (privacy is not None)  # advice asks what twice the epsilon would add up to
    assert release.mechanism == own[0].mechanism


@pytest.mark.long
def test_what_is_entered_is_what_was_checked_and_made(tmp_path: Path) -> None:
    ledger = LedgerPlan(tmp_path / "ledger.json", "t", "first", Claim.epsilon_delta(9.0, 1e-4))
    for method, config in (("tables", None), ("vae", GeneratorConfig(epochs=1, batch=50, hidden=4))):
        own = replace(ledger, path=tmp_path / f"{method}.json")
        release = settled(Publication(GRAPH, method, config, PRIVACY, ledger=own))  # type: ignore[arg-type]
        checked = release.check()
        generator = release.fit(rng=np.random.default_rng(1))
        entered = release.spend()
        assert checked is not None and entered is not None
        assert checked.entries[0].mechanism == entered.entries[0].mechanism == generator.mechanism == release.mechanism
        assert (release.plan is None) == (method == "vae") and release.records == 300


def test_records_are_public_with_privacy_and_those_of_the_table_without() -> None:
    with_privacy = settled(Publication(GRAPH, "tables", privacy=PRIVACY), 250)
    assert with_privacy.records == 300 and len(with_privacy.private) + len(with_privacy.aside) == 250
    without = settled(Publication(GRAPH, "tables"), 250)
    assert without.records == len(without.private) == 200 and without.mechanism is None
    assert settled(Publication(GRAPH, "tables", records=7), 250).records == 7


def test_public_records_stop_a_training_with_a_patience_alone() -> None:
    stops = GeneratorConfig(epochs=2, batch=50, patience=1)
    public = table(40)
    for config, expected in ((stops, public), (replace(stops, patience=None), None)):
        release = settled(Publication(GRAPH, "vae", config, public=public, fidelity="public"))
        assert release.stopping_records is expected


@pytest.mark.parametrize(
    ("changes", "records", "message"),
    [
        ({"records": 10**9}, 300, "release.records: expected at most 1e"),
        ({}, 0, "table: expected records to make a release of, received none"),
        ({"fidelity": "public", "public": table(1)}, 300, "at least two real records, received 1"),
        ({"privacy": replace(PRIVACY, epsilon=1e-4)}, 300, "one that leaves more than noise"),
    ],
)
def test_what_cannot_be_released_is_refused(changes: dict[str, Any], records: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        settled(Publication(GRAPH, "tables", **changes), records).check()


def test_a_ledger_that_takes_no_release_is_refused_before_a_rehearsal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = LedgerPlan(tmp_path / "ledger.json", "t", "first")
    settled(Publication(GRAPH, "tables", privacy=PRIVACY, ledger=plan)).spend()
    never = Calls(fitting.settled)
    monkeypatch.setattr(fitting, "settled", never)
    with pytest.raises(InputError, match="a name of its own for each release"):
        settled(Publication(GRAPH, privacy=PRIVACY, ledger=plan))
    assert not never.first


def test_one_record_more_changes_the_release_by_one_record_at_most() -> None:
    """If a number decided who is set aside, one more record could put another one aside: two records would change."""
    rng = np.random.default_rng(1)
    numbers = Schema((Column("x", "continuous", low=0, high=1),))
    whole = Table(numbers, rng.random((420, 1)))
    held = Publication(None, "tables", privacy=Privacy(records=400, epsilon=1.0))
    for n in (50, 51, 52, 53, 202, 203):
        more, fewer = (whole.subset(np.arange(size)) for size in (n + 1, n))
        rows = [set_aside(own, held, np.random.default_rng(4))[0] for own in (more, fewer)]
        with_it, without = (set(map(tuple, own.values)) for own in rows)
        assert len(rows[0]) - len(rows[1]) in (0, 1) and without <= with_it
    # the control: without privacy nothing is promised, and the number of records set aside is fixed
    private, aside = set_aside(whole, replace(held, privacy=None), np.random.default_rng(4))
    assert len(aside) == round(0.2 * len(whole)) and len(private) + len(aside) == len(whole)


def test_a_lower_bound_above_the_claim_refutes_it_and_one_below_does_not() -> None:
    own = settled(Publication(graph=GRAPH, method="tables", privacy=PRIVACY))
    shown = {value: own.judged(LowerBound("epsilon", value, 0.95, "runs", delta=1e-4)) for value in (1.9, 2.1)}
    assert [one.status for one in shown.values() if one is not None] == ["not-refuted", "refuted"]
    untested = own.judged(None, reasons=["no generator was made"])
    assert untested is not None and untested.status == "not-testable" and abs(untested.value - 2) < 1e-3
    assert settled(Publication(graph=GRAPH, method="tables", privacy=None)).judged(None) is None
