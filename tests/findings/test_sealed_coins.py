"""What sealed coins are said to show, and what they are said not to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.plan import Plan
from miaudit.errors import InputError
from miaudit.findings.audit import Findings
from miaudit.findings.sealed_coins import SealedCoins
from miaudit.io.sealed_coins import Answer, Coins, Secret, scores_of_runs

N = 300


def evidence(coins: Coins, runs: int = 1, **fields: Any) -> ma.Evidence:
    rng = np.random.default_rng(0)
    members = [coins.members(k, records=N, unit=fields.get("unit")) for k in range(1, runs + 1)]
    made = [
        ma.Evidence(score=rng.normal(size=N) + member, member=member, design="one-run", **fields) for member in members
    ]
    return ma.Evidence.of_runs(made) if runs > 1 else made[0]


def coins(*, answered: bool = True, scores: tuple[str, ...] = (), **terms: Any) -> Coins:
    secret = Secret.new(**{"coins": N, "by": "Trainer", **terms})
    answer = Answer.to(secret.commitment, by="Auditor", before=2) if answered else None
    return secret.coins(answer, scores)


def test_two_parties_could_not_choose_alone() -> None:
    drawn = coins()
    found = SealedCoins.of(drawn, evidence(drawn))
    assert "neither of the two could choose them alone" in found.text
    assert (found.by, found.answered_by, found.answered_before) == ("Trainer", "Auditor", 2)
    said = " ".join(found.not_shown)
    for part in ("who answered", "2 earlier commitments", "Which record", "without the coins", "was trained on"):
        assert part in said


def test_one_party_alone_is_said_to_choose() -> None:
    drawn = coins(answered=False)
    found = SealedCoins.of(drawn, evidence(drawn))
    assert "neither of the two" not in found.text
    assert "not shown to be fair" in found.text
    assert "could try seeds until the coins pleased" in found.not_shown[0]
    assert found.answer is found.answered_by is found.answered_before is None


def test_scores_that_were_in_before_the_reveal_are_named() -> None:
    drawn = coins()
    held = evidence(drawn).replace(score={"early": evidence(drawn).score, "late": np.arange(N)})
    secret = Secret.new(coins=N)
    drawn = secret.coins(Answer.to(secret.commitment), [scores_of_runs(held.scores["early"], None, None)])
    held = held.replace(member=drawn.of_run(1))
    found = SealedCoins.of(drawn, held)
    assert found.scores == ("early",)
    assert "It signed that early was in by then" in " ".join(found.not_shown)
    assert "That late was made without the coins" in " ".join(found.not_shown)
    moved = SealedCoins.of(drawn, held.replace(score={"early": held.scores["early"] + 1e-9}))
    assert moved.scores == ()


def test_several_runs_and_units_are_checked_together() -> None:
    drawn = coins(runs=3)
    assert SealedCoins.of(drawn, evidence(drawn, runs=3)).runs == 3
    drawn = coins(coins=N // 2, records="a" * 64)
    found = SealedCoins.of(drawn, evidence(drawn, unit=np.arange(N) // 2))
    assert (found.coins, found.records) == (N // 2, "a" * 64)
    assert "the list with SHA-256 aaaaaaaaaaaa..." in " ".join(found.not_shown)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: held.replace(design=None), "evidence of design one-run, received none"),
        (lambda held: held.replace(member=~held.member), "memberships as the coins fell"),
        (lambda held: held.take(np.arange(N - 1)), "299 records or units, and 300 coins"),
        (lambda held: held.replace(unit=np.arange(N) // 2), "150 records or units"),
    ],
)
def test_other_evidence_is_refused(change: Any, said: str) -> None:
    drawn = coins()
    with pytest.raises(InputError, match=said):
        SealedCoins.of(drawn, change(evidence(drawn)))


@pytest.mark.long
def test_the_findings_and_their_page_say_it_and_are_read_again() -> None:
    drawn = coins(by="T <b>", about="model")
    held = evidence(drawn)
    shown = SealedCoins.of(drawn, held)
    found = ma.audit(held, plan=Plan(bounds=None), rng=0, coins=shown)
    assert Findings.from_dict(found.to_dict()).sealed_coins == shown
    assert any("sealed coins chose" in text for text in found.assumptions)
    from miaudit.report.audit_page import page

    text = page(found)
    assert "Sealed coins" in text
    assert "What this does not show" in text
    assert "T &lt;b&gt;" in text
    assert "<b>, of" not in text
    assert "sealed_coins" not in ma.audit(held, plan=Plan(bounds=None), rng=0).to_dict()


def test_coins_of_one_party_leave_the_design_declared() -> None:
    drawn = coins(answered=False)
    held = evidence(drawn)
    found = ma.audit(held, plan=Plan(bounds=None), rng=0, coins=SealedCoins.of(drawn, held))
    assert any("(declared, not checked)" in text and "at random" in text for text in found.assumptions)
