"""What sealed coins are said to show, and what they are said not to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Declared
from miaudit.auditing.plan import Plan
from miaudit.errors import InputError
from miaudit.findings.audit import Findings
from miaudit.findings.sealed_coins import SealedCoins
from miaudit.io.agreed_plan import AgreedPlan
from miaudit.io.sealed_coins import Answer, Coins, Secret, of_scores, scores_of_runs

N = 300


@pytest.fixture(autouse=True)
def known_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bytes of the system, each verdict below would be another one in as many runs as its confidence allows."""
    monkeypatch.setattr("miaudit.io.sealed_coins.secrets.token_bytes", np.random.default_rng(5).bytes)


def evidence(coins: Coins, runs: int = 1, **fields: Any) -> ma.Evidence:
    rng = np.random.default_rng(0)
    members = [coins.members(k, records=N, unit=fields.get("unit")) for k in range(1, runs + 1)]
    made = [
        ma.Evidence(score=rng.normal(size=N) + member, member=member, design="one-run", **fields) for member in members
    ]
    return ma.Evidence.of_runs(made) if runs > 1 else made[0]


def coins(
    *,
    answered: bool = True,
    scores: Sequence[str] = (),
    before: int = 2,
    plan: AgreedPlan | None = None,
    **terms: Any,
) -> Coins:
    secret = Secret.new(**{"coins": N, "by": "Trainer", **terms})
    answer = Answer.to(secret.commitment, by="Auditor", before=before, plan=plan) if answered else None
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


@pytest.mark.thorough
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
    assert ma.audit(held, plan=Plan(bounds=None), rng=0).sealed_coins is None


def test_coins_of_one_party_leave_the_design_declared() -> None:
    drawn = coins(answered=False)
    held = evidence(drawn)
    found = ma.audit(held, plan=Plan(bounds=None), rng=0, coins=SealedCoins.of(drawn, held))
    assert any("(declared, not checked)" in text and "at random" in text for text in found.assumptions)


# -- how many scores were tried ---------------------------------------------------------------------------------------

TIGHT: dict[str, float] = {"auc": 0.5}
PLAN = Plan(bounds=None, limits=TIGHT)


def strongest_of(noise: np.ndarray, drawn: Coins) -> ma.Evidence:
    """Evidence of the one of these scores that names members best."""
    member = drawn.of_run(1)
    gaps = [np.mean(z[member]) - np.mean(z[~member]) for z in noise]
    return ma.Evidence(score=noise[int(np.argmax(gaps))], member=member, design="one-run")


@pytest.mark.long
@pytest.mark.parametrize("answered", [True, False])
def test_the_best_of_a_thousand_noise_scores_is_no_concern(answered: bool) -> None:
    """The control: the same score, of which nobody knows that it is the best of a thousand."""
    noise = np.random.default_rng(3).normal(size=(1000, N))
    agreed = AgreedPlan(limits=TIGHT, tries=1000)
    drawn = coins(answered=answered, before=0, plan=agreed, scores=[of_scores([z]) for z in noise])
    held = strongest_of(noise, drawn)
    assert ma.audit(held, plan=PLAN, rng=0).verdict.status == "flagged"
    shown = SealedCoins.of(drawn, held)
    found = ma.audit(held, plan=PLAN, rng=0, coins=shown)
    assert found.verdict.status not in ("flagged", "clear")
    assert (shown.tries, shown.missing) == (1000, 999)
    assert "signed for 1,000 scores, of which 1 is in this audit" in shown.text
    assert any("corrected for 1,000 scores" in text for text in found.corrections)
    assert Findings.from_dict(found.to_dict()) == found


@pytest.mark.long
def test_what_is_corrected_anyway_is_not_corrected_twice() -> None:
    noise = np.random.default_rng(3).normal(size=(4, N))
    drawn = coins(before=0, plan=AgreedPlan(limits=TIGHT, tries=4), scores=[of_scores([z]) for z in noise])
    held = ma.Evidence(score={f"s{i}": z for i, z in enumerate(noise)}, member=drawn.of_run(1), design="one-run")
    alone, together = (ma.audit(held, plan=PLAN, rng=0, coins=c) for c in (None, SealedCoins.of(drawn, held)))
    assert alone.metrics == together.metrics
    declared = Plan(bounds=None, limits=TIGHT, headline=Declared("s0"))  # of which nobody sees that it was beforehand
    wide, narrow = (ma.audit(held, plan=declared, rng=0, coins=c) for c in (SealedCoins.of(drawn, held), None))
    assert wide.metric("auc").low < narrow.metric("auc").low


@pytest.mark.long
def test_earlier_draws_of_the_training_are_corrected_for() -> None:
    for before, wider in ((0, False), (9, True)):
        drawn = coins(before=before)
        held = evidence(drawn)
        found = ma.audit(held, plan=Plan(bounds=None), rng=0, coins=SealedCoins.of(drawn, held))
        plain = ma.audit(held, plan=Plan(bounds=None), rng=0)
        assert (found.metric("auc").low < plain.metric("auc").low) is wider
        assert any("10 draws of this training" in text for text in found.corrections) is wider


@pytest.mark.long
def test_nothing_is_within_the_limits_while_signed_scores_are_left_out() -> None:
    plan = Plan(bounds=None, limits={"auc": 0.9})
    for signed, status in ((["a" * 64], "not-testable"), ([], "clear")):
        drawn = coins(before=0, plan=AgreedPlan(limits={"auc": 0.9}), scores=signed)
        held = evidence(drawn).replace(score=np.random.default_rng(1).normal(size=N))
        found = ma.audit(held, plan=plan, rng=0, coins=SealedCoins.of(drawn, held))
        assert found.verdict.status == status
        assert ("1 signed score is not in this audit" in found.verdict.text) is bool(signed)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Plan(bounds=None), "limits: expected auc=0.5, as the answer to the coins says, received surest_members=0.9"),
        (Plan(bounds=None, limits={"auc": 0.51}), "expected auc=0.5, .* received auc=0.51"),
        (Plan(bounds=None, limits={"auc": 0.5, "advantage": 0.2}), "received advantage=0.2, auc=0.5"),
        (Plan(bounds=None, primary_metric="auc", threshold_for_concern=0.4), "received auc=0.4"),
        (Plan(bounds=None, limits=TIGHT, confidence=0.9), "confidence: expected 0.95, .* received 0.9"),
    ],
)
def test_an_audit_by_another_plan_than_the_answer_fixed_is_refused(plan: Plan, said: str) -> None:
    drawn = coins(plan=AgreedPlan(limits=TIGHT))
    held = evidence(drawn)
    with pytest.raises(InputError, match=said):
        ma.audit(held, plan=plan, rng=0, coins=SealedCoins.of(drawn, held))


def test_one_plan_said_in_two_ways_is_one() -> None:
    drawn = coins(plan=AgreedPlan(limits=TIGHT))
    held = evidence(drawn)
    plan = Plan(bounds=None, primary_metric="auc", threshold_for_concern=0.5)
    assert ma.audit(held, plan=plan, rng=0, coins=SealedCoins.of(drawn, held)).sealed_coins is not None
