"""A stranger checks sealed coins from the bundle alone; each forgery is caught with exit code 3.

The control is the honest bundle, which verifies; and a drawer who forged everything, who is caught by the digest that
was published and by nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from bundle.test_bundle import relisted, rewritten
from miaudit.auditing.plan import Plan
from miaudit.bundle import contents, read, record
from miaudit.bundle.verify import verify
from miaudit.errors import InputError
from miaudit.findings.verification import VerificationFindings
from miaudit.io.agreed_plan import AgreedPlan
from miaudit.io.sealed_coins import Answer, Coins, Secret, of_scores
from miaudit.report.bundle_page import page

N, RUNS = 120, 2
KEPT = Path(__file__).parents[1] / "frozen" / "files" / "coins"
PLAN = Plan(bounds=None)


@cache
def drawn() -> Coins:
    secret = Secret.new(coins=N, runs=RUNS, by="Trainer")
    return secret.coins(Answer.to(secret.commitment, by="Auditor"))


def evidence(coins: Coins, change: Callable[[list[Any]], list[Any]] = list) -> ma.Evidence:
    """Scores of each run and who was a member; ``change`` forges the memberships."""
    rng = np.random.default_rng(0)
    members = [coins.of_run(k) for k in range(1, RUNS + 1)]
    scores = [rng.normal(size=N) + member for member in members]
    made = [ma.Evidence(score=s, member=m, design="one-run") for s, m in zip(scores, change(members), strict=True)]
    return ma.Evidence.of_runs(made)


def written(path: Path, held: ma.Evidence, **options: Any) -> Path:
    record(held, plan=PLAN, rng=np.random.default_rng(1), **options)[1].write(path, overwrite=True)
    return path


def with_coins(path: Path, coins: Coins | None) -> Path:
    """The bundle with these coins in it, as a careful forger lists them."""

    def change(entries: dict[str, bytes]) -> None:
        entries.pop("coins.json", None)
        manifest = json.loads(entries["manifest.json"])
        manifest["files"].pop("coins.json", None)
        if coins is not None:
            entries["coins.json"] = json.dumps(coins.plain()).encode()
            manifest["files"]["coins.json"] = {}
        entries["manifest.json"] = json.dumps(manifest).encode()
        relisted(entries)

    return rewritten(path, change)


def said(found: VerificationFindings) -> str:
    return " ".join(found.tampered)


@pytest.mark.long
@pytest.mark.parametrize("share", ["all", "scores"])
def test_an_honest_bundle_verifies_and_says_what_it_does_not_show(tmp_path: Path, share: str) -> None:
    coins = drawn()
    found = verify(written(tmp_path / "b.zip", evidence(coins), coins=coins, share=share))
    assert (found.status, found.exit_code, found.tampered) == ("verified", 0, ())
    assert found.sealed_coins is not None
    assert found.sealed_coins.commitment == coins.commitment.digest
    assert "What this does not show" in page(found)
    assert "neither of the two could choose" in found.sealed_coins.text
    assert read(tmp_path / "b.zip").coins == coins
    answer = coins.answer
    assert answer is not None
    for what, digest in (("commitment", coins.commitment.digest), ("answer", answer.digest)):
        compared = verify(tmp_path / "b.zip", commitment=digest)
        assert (compared.exit_code, compared.published) == (0, what)


def test_a_bundle_that_somebody_has_verifies_for_ever() -> None:
    """Its answer was published, as the SHA-256 of the answer's file."""
    digest = hashlib.sha256((KEPT / "coins.answer.json").read_bytes()).hexdigest()
    found = verify(KEPT / "two-runs.zip", commitment=digest)
    assert (found.status, found.published) == ("verified", "answer")
    assert found.sealed_coins is not None
    assert (found.sealed_coins.coins, found.sealed_coins.runs, found.sealed_coins.scores) == (40, 2, ("score",))


@pytest.mark.long
def test_pseudonyms_of_units_keep_their_coins(tmp_path: Path) -> None:
    unit = np.array([f"person {(i * 7) % 60}" for i in range(N)])
    secret = Secret.new(coins=60)
    coins = secret.coins(Answer.to(secret.commitment))
    member = coins.members(1, records=N, unit=unit)
    held = ma.Evidence(score=np.random.default_rng(0).normal(size=N), member=member, unit=unit, design="one-run")
    assert verify(written(tmp_path / "b.zip", held, coins=coins, share="scores")).status == "verified"


def flipped(members: list[Any]) -> list[Any]:
    first = members[0].copy()
    first[7] = ~first[7]
    return [first, *members[1:]]


def with_answer(coins: Coins, **terms: Any) -> Coins:
    """The coins of another answer, by a drawer who answers itself, or with whom the auditor agrees afterwards."""
    assert coins.answer is not None
    return replace(coins, answer=replace(coins.answer, **terms))


FORGED: dict[str, tuple[Callable[[list[Any]], list[Any]], Callable[[Coins], Coins | None], str]] = {
    "a flipped member": (flipped, lambda c: c, "1 of the 120 memberships of run 1 are not the coins .* row 7 "),
    "swapped runs": (lambda m: m[::-1], lambda c: c, "memberships of run 1 are not"),
    "another seed": (list, lambda c: replace(c, seed="ab" * 32), "do not fit their commitment: the seed"),
    "another answer": (
        list,
        lambda c: replace(c, answer=Answer.to(c.commitment, by="Auditor")),
        "as the drawer signed",
    ),
    "no answer": (list, lambda c: replace(c, answer=None), "as the drawer signed"),
    "fewer coins": (list, lambda c: replace(c, commitment=replace(c.commitment, coins=N - 1)), "120 .*, and 119 coins"),
    "fewer runs": (list, lambda c: replace(c, commitment=replace(c.commitment, runs=1)), "for 1 runs, and 2 are here"),
    "scores that came later": (list, lambda c: replace(c, scores=("0" * 64,)), "as the drawer signed"),
    "another plan": (
        list,
        lambda c: with_answer(c, plan=AgreedPlan(limits={"auc": 0.6})),
        "fixed the limits auc=0.6, not surest_members=0.9",
    ),
    "another confidence": (
        list,
        lambda c: with_answer(c, plan=AgreedPlan(confidence=0.9)),
        "fixed the confidence 0.9, not 0.95",
    ),
    "more scores than the answer allows": (
        list,
        lambda c: replace(c, scores=("0" * 64, "1" * 64)),
        "lists 2 scores, and the answer allows 1",
    ),
    "coins of others": (list, lambda _: Secret.new(coins=N, runs=RUNS).coins(None), "memberships of run 1 are not"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_coins_are_caught_from_the_bundle_alone(tmp_path: Path, name: str) -> None:
    members, forge, named = FORGED[name]
    forged = with_coins(written(tmp_path / "b.zip", evidence(drawn(), members)), forge(drawn()))
    found = verify(forged)
    assert (found.status, found.exit_code, found.sealed_coins) == ("failed", 3, None)
    import re

    assert re.search(named, said(found))


@pytest.mark.long
def test_coins_that_are_left_out_of_the_bundle_are_missed(tmp_path: Path) -> None:
    """The findings still speak of them; and where those are forged too, whoever knows the commitment asks for it."""
    coins = drawn()
    path = with_coins(written(tmp_path / "b.zip", evidence(coins), coins=coins), None)
    found = verify(path)
    assert found.exit_code == 3
    assert any("sealed_coins" in d.place for d in found.differences)
    plain = written(tmp_path / "c.zip", evidence(coins))
    assert verify(plain).exit_code == 0
    assert "has no sealed coins" in said(verify(plain, commitment=coins.commitment.digest))


@pytest.mark.long
def test_who_forged_everything_is_caught_by_what_was_published_and_by_nothing_else(tmp_path: Path) -> None:
    """The control of the rest: a drawer who wrote the answer too can draw until the coins please."""
    honest, again = drawn(), Secret.new(coins=N, runs=RUNS, by="Trainer")
    coins = again.coins(Answer.to(again.commitment, by="Auditor"))
    path = written(tmp_path / "b.zip", evidence(coins), coins=coins)
    assert verify(path).exit_code == 0
    assert honest.answer is not None
    for digest in (honest.commitment.digest, honest.answer.digest):
        found = verify(path, commitment=digest)
        assert (found.exit_code, found.sealed_coins, "published was" in said(found)) == (3, None, True)


@pytest.mark.long
def test_a_verification_counts_the_scores_that_were_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of a thousand noise scores: its bundle verifies, says so, and is no concern."""
    # With bytes of the system the best of a thousand would be a concern in 2.5% of all runs, as it is stated.
    monkeypatch.setattr("miaudit.io.sealed_coins.secrets.token_bytes", np.random.default_rng(5).bytes)
    secret, noise = Secret.new(coins=N), np.random.default_rng(3).normal(size=(1000, N))
    plan = AgreedPlan(limits={"auc": 0.5}, tries=1000)
    coins = secret.coins(Answer.to(secret.commitment, plan=plan), [of_scores([z]) for z in noise])
    member = coins.of_run(1)
    best = max(noise, key=lambda z: float(np.mean(z[member]) - np.mean(z[~member])))
    held = ma.Evidence(score=best, member=member, design="one-run")
    statuses = []
    for given in (coins, None):
        made = record(held, plan=Plan(bounds=None, limits={"auc": 0.5}), rng=np.random.default_rng(1), coins=given)[1]
        made.write(tmp_path / "b.zip", overwrite=True)
        statuses.append(read(tmp_path / "b.zip").findings.verdict.status)
        found = verify(tmp_path / "b.zip")
        assert found.status == "verified"
        assert (found.sealed_coins is not None) is (given is not None)
        if found.sealed_coins is not None:
            assert "signed for 1,000 scores, of which 1 is in this audit" in page(found)
    assert statuses[0] != "flagged"
    assert statuses[1] == "flagged"  # the control


@pytest.mark.long
def test_a_single_party_verifies_and_is_said_to_prove_little(tmp_path: Path) -> None:
    coins = Secret.new(coins=N, runs=RUNS).coins(None)
    found = verify(written(tmp_path / "b.zip", evidence(coins), coins=coins))
    assert found.exit_code == 0
    assert found.sealed_coins is not None
    assert "could try seeds until the coins pleased" in found.sealed_coins.not_shown[0]


@pytest.mark.parametrize("options", [{"seal": True}, {"share": "hashes"}])
def test_coins_are_not_revealed_beside_labels_that_are_kept(options: dict[str, Any]) -> None:
    coins = drawn()
    with pytest.raises(InputError, match="none, beside memberships that are not shared"):
        record(evidence(coins), plan=PLAN, rng=np.random.default_rng(1), coins=coins, **options)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"kind":"miaudit coins reveal","format":1}', b"x" * 2_000_000])
def test_garbage_in_the_place_of_coins_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path / "b.zip", evidence(drawn()), coins=drawn())

    def change(entries: dict[str, bytes]) -> None:
        entries["coins.json"] = content
        relisted(entries)

    with pytest.raises(InputError) as refused:
        verify(rewritten(path, change))
    assert "\n" not in str(refused.value)


def test_coins_that_promise_a_billion_cost_nothing(tmp_path: Path) -> None:
    coins = replace(drawn(), commitment=replace(drawn().commitment, coins=10**9))
    found = verify(with_coins(written(tmp_path / "b.zip", evidence(drawn())), coins))
    assert found.exit_code == 3


def test_another_design_has_no_coins(tmp_path: Path) -> None:
    secret = Secret.new(coins=N)
    coins = secret.coins(None)
    held = ma.Evidence(score=np.random.default_rng(0).normal(size=N), member=coins.of_run(1), design="multi-run")
    assert "design of this one is multi-run" in said(verify(with_coins(written(tmp_path / "b.zip", held), coins)))


def test_a_bundle_without_coins_has_no_new_entry(tmp_path: Path) -> None:
    held = record(evidence(drawn()), plan=PLAN, rng=np.random.default_rng(1))[1]
    entries = contents._entries(held)
    assert "coins.json" not in entries
    assert json.loads(entries["findings.json"])["sealed_coins"] is None
    assert verify(written(tmp_path / "b.zip", evidence(drawn()))).sealed_coins is None
    assert io.BytesIO(entries["records.npz"]).read(2) == b"PK"
