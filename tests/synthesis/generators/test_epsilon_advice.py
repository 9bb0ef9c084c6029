"""Advice on epsilon reads the ledger: it never recommends what the budget forbids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.dp.verdict import Claim
from miaudit.synthesis.generators.epsilon_advice import budget_share, epsilon_advice
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.release_request import LedgerPlan, Publication
from miaudit.synthesis.generators.settled_release import SettledRelease
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema((Column("a"), Column("b"), Column("c")))
PRIVACY = Privacy(records=4_000, epsilon=1.0, delta=1e-4)


def settled(privacy: Privacy | None, ledger: LedgerPlan | None) -> SettledRelease:
    rng = np.random.default_rng(0)
    table = Table(SCHEMA, rng.integers(0, 2, (400, 3)))
    publication = Publication(None, "tables", privacy=privacy, ledger=ledger)
    return SettledRelease.of(table, publication, rehearse=rng, split=rng)


@pytest.mark.parametrize(
    ("budget", "first", "larger"),
    [
        (1.0, "nothing is left of the ledger's budget of 1, and whatever is changed is another release", ""),
        (1.5, "", "the ledger has 0.5"),
        (4.0, "", "a larger epsilon, such as 2: the ledger has 3 of 4 left, and all releases add up, to a total"),
        (None, "", "a larger epsilon, such as 2: all releases of this table add up, to a total epsilon of 2."),
    ],
)
def test_advice_on_epsilon_reads_the_ledger(tmp_path: Path, budget: float | None, first: str, larger: str) -> None:
    claim = None if budget is None else Claim.epsilon_delta(budget, 1e-4)
    release = settled(PRIVACY, LedgerPlan(tmp_path / "l.json", "t", "a", claim))
    ledger = release.check()
    assert ledger is not None
    advice = epsilon_advice(release, ledger)
    assert advice.get("first", "").startswith(first) and advice.get("larger", "").find(larger) >= 0
    assert ("with epsilon 2 the total would be" in str(advice)) == (budget in (1.0, 1.5))
    share = budget_share(ledger)
    assert ("nothing is left for a second" in share) == (budget == 1.0) and ("spends 1 of" in share) == bool(budget)


def test_without_a_ledger_all_releases_add_up_and_without_privacy_there_is_no_advice() -> None:
    advice = epsilon_advice(settled(PRIVACY, None), None)
    assert advice == {"larger": "a larger epsilon, such as 2: all releases of this table add up"}
    by_noise = epsilon_advice(settled(Privacy(records=4_000, noise=3.0), None), None)
    assert by_noise == {"larger": "a larger epsilon: all releases of this table add up"}
    assert epsilon_advice(settled(None, None), None) == {}
