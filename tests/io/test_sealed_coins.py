"""Sealed coins: drawn again from hashlib alone, fair, bound by the commitment, and hidden until the reveal.

Controls that must fail: one party that draws alone does bias its coins; and whoever has the seed tells every coin.
"""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError, MiauditError, OutputError
from miaudit.io import sealed_coins, signature
from miaudit.io.agreed_plan import AgreedPlan
from miaudit.io.sealed_coins import Answer, Coins, Commitment, Secret

SEED, SIGNING, RANDOM = (bytes([k]) * 32 for k in (1, 2, 3))


def secret(**terms: Any) -> Secret:
    """A secret whose seed is known to all."""
    seal = hashlib.sha256(b"miaudit coins seed\x00" + SEED).hexdigest()
    terms = {"coins": 1000, "runs": 3, "by": "T", "about": "v1", **terms}
    return Secret(Commitment(seal, signature.public_of(SIGNING).hex(), **terms), SEED.hex(), SIGNING.hex())


def drawn(**terms: Any) -> Coins:
    kept = secret(**terms)
    return kept.coins(Answer.to(kept.commitment, by="A", random=RANDOM.hex()))


MANY = AgreedPlan(tries=10)


def of_hashlib(text: str, run: int) -> list[bool]:
    """Draw the coins of a reveal again, as the page on bundles describes it, with nothing of miaudit's."""

    def sha256(content: dict[str, Any]) -> bytes:
        return hashlib.sha256((json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n").encode()).digest()

    held = json.loads(text)
    commitment, answer, seed = held["commitment"], held["answer"], bytes.fromhex(held["seed"])
    assert hashlib.sha256(b"miaudit coins seed\x00" + seed).hexdigest() == commitment["seal"]
    public, tag = sha256(commitment), b"miaudit coins alone\x00"
    if answer is not None:
        assert answer["commitment"] == public.hex()
        public, tag = sha256(answer), b"miaudit coins answered\x00"
    stream = hashlib.shake_256(tag + seed + public + run.to_bytes(8, "little")).digest(commitment["coins"] // 8 + 1)
    return [bool(stream[i // 8] >> (i % 8) & 1) for i in range(commitment["coins"])]


# -- the coins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("coins", [2, 8, 9, 1000])
def test_the_coins_are_those_that_hashlib_gives(tmp_path: Path, coins: int, answered: bool) -> None:
    made = drawn(coins=coins) if answered else secret(coins=coins).coins(None)
    made.write(tmp_path / "r.json")
    for run in (1, 2, 3):
        assert made.of_run(run).tolist() == of_hashlib((tmp_path / "r.json").read_text(), run)


def test_known_answers_stay() -> None:
    """What was committed to in 2026 is drawn the same for ever."""
    made = drawn()
    assert made.commitment.digest == "f7188e477606d0b91e869a16d9b623a13b6ff56c3682c6f7706ed68daa7f1f2b"
    assert made.answer is not None
    assert made.answer.digest == "b7c04aa208c18cc0baa489f26c26d86810a9223e276c5098ce4fe9204ecd443c"
    for run, first in ((1, "10111001110111101100100110110011"), (2, "01110101011011001110000110100110")):
        assert "".join("01"[int(bit)] for bit in made.of_run(run)[:32]) == first
    assert "".join("01"[int(bit)] for bit in secret().coins(None).of_run(1)[:32]) == "10010011101010110011001110010100"
    assert hashlib.sha256(made.signature.encode()).hexdigest()[:16] == "8a76a2262b0e479a"


def test_a_digest_is_the_sha256_of_the_file(tmp_path: Path) -> None:
    made = drawn()
    assert made.answer is not None
    for name, part in (("c.json", made.commitment), ("a.json", made.answer)):
        part.write(tmp_path / name)
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == part.digest
        assert sealed_coins.published(str(tmp_path / name)) == sealed_coins.published(part.digest) == part.digest


def test_coins_are_fair_and_independent_between_runs_and_records() -> None:
    n, runs = 100_000, 8
    made = Secret.new(coins=n, runs=runs).coins(None)
    coins = np.array([made.of_run(k) for k in range(1, runs + 1)])
    limit = 5 / math.sqrt(n)  # in standard errors of a correlation, and of twice a share
    assert np.abs(2 * coins.mean(axis=1) - 1).max() < limit
    assert np.abs(np.corrcoef(coins)[np.triu_indices(runs, 1)]).max() < limit
    neighbours = [np.corrcoef(row[:-lag], row[lag:])[0, 1] for row in coins for lag in (1, 8, 64)]
    assert np.abs(neighbours).max() < limit


def test_units_share_a_coin_whatever_they_are_called() -> None:
    unit = np.array(["z", "z", "b", "a", "b"])
    made = drawn(coins=3, runs=1, about="v7")
    fallen = made.of_run(1)
    assert made.members(1, records=5, unit=unit).tolist() == fallen[[0, 0, 1, 2, 1]].tolist()
    renamed = np.array([{"z": "1", "b": "3", "a": "2"}[name] for name in unit])  # as pseudonyms are
    assert np.array_equal(made.members(1, records=5, unit=renamed), made.members(1, records=5, unit=unit))


# -- what binds, and what hides ---------------------------------------------------------------------------------------


def test_an_honest_reveal_fits(tmp_path: Path) -> None:
    made = drawn()
    members = np.concatenate([made.of_run(k) for k in (1, 2, 3)])
    assert list(made.misfits(members, run=np.repeat([7, 5, 6], 1000))) == []
    made.write(tmp_path / "r.json")
    assert Coins.read(tmp_path / "r.json") == made


FORGED: dict[str, Callable[[Coins], Coins]] = {
    "seed": lambda made: replace(made, seed=(b"\x09" * 32).hex()),
    "answer": lambda made: replace(made, answer=Answer.to(made.commitment, by="A")),
    "no answer": lambda made: replace(made, answer=None),
    "other commitment": lambda made: replace(made, commitment=replace(made.commitment, coins=999)),
    "scores": lambda made: replace(made, scores=("0" * 64,)),
    "signature": lambda made: replace(made, signature=made.signature[:-2] + "00"),
    "no signature": lambda made: replace(made, signature=""),
    "signer": lambda made: replace(made, commitment=replace(made.commitment, signer="0" * 64)),
}


@pytest.mark.parametrize("forged", FORGED)
def test_coins_that_do_not_fit_their_commitment_are_refused(forged: str, tmp_path: Path) -> None:
    made = FORGED[forged](drawn())
    assert list(made.misfits())
    made.write(tmp_path / "r.json")
    with pytest.raises(InputError, match="coins that fit their commitment"):
        Coins.read(tmp_path / "r.json")


def test_another_seed_is_named_as_such() -> None:
    assert next(FORGED["seed"](drawn()).misfits()).startswith(
        "The coins that were revealed do not fit their commitment"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.__setitem__(1007, ~m[1007]), "1 of the 1,000 memberships of run 2 are not .*: row 1007 "),
        (
            lambda m: m.__setitem__(slice(None), np.roll(m, 1000)),
            "memberships of run 1 are not",
        ),  # runs in another order
        (lambda m: m.__setitem__(slice(None), ~m), "1,000 of the 1,000"),
    ],
)
def test_memberships_that_are_not_the_coins_are_named(change: Callable[[Any], None], said: str) -> None:
    import re

    made = drawn()
    members = np.concatenate([made.of_run(k) for k in (1, 2, 3)])
    change(members)
    assert re.search(said, " ".join(made.misfits(members, run=np.repeat([1, 2, 3], 1000))))


def test_runs_and_records_are_counted() -> None:
    made = drawn()
    members = np.concatenate([made.of_run(k) for k in (1, 2, 3)])
    assert "3 runs, and 2 are here" in next(made.misfits(members[:2000], run=np.repeat([1, 2], 1000)))
    assert "Run 3 has 999" in next(made.misfits(members[:-1], run=np.repeat([1, 2, 3], 1000)[:-1]))


def test_nothing_that_is_public_before_the_reveal_tells_a_coin() -> None:
    """Control: the seed tells all of them."""
    kept = Secret.new(coins=20_000, runs=1)
    answer = Answer.to(kept.commitment)
    made = kept.coins(answer)
    truth, public = (
        made.of_run(1),
        (kept.commitment.seal, kept.commitment.signer, kept.commitment.digest, answer.digest),
    )
    for guess in (*public, answer.random, "0" * 64):
        alike = np.mean(replace(made, seed=guess).of_run(1) == truth)
        assert abs(alike - 0.5) < 5 * 0.5 / math.sqrt(len(truth))
    assert np.array_equal(replace(made, seed=kept.seed).of_run(1), truth)


def _best_alone(wanted: int, tries: int) -> tuple[Secret, int]:
    """Of many commitments the one whose coins make the most of the first records members."""
    drawn_alone = [Secret.new(coins=wanted, runs=1) for _ in range(tries)]
    counts = [int(one.drawn(None).of_run(1).sum()) for one in drawn_alone]
    return drawn_alone[int(np.argmax(counts))], max(counts)


def test_one_party_alone_chooses_its_coins_and_an_answer_takes_that_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grinding works (the control): an answer that came after the commitment gives fair coins again."""
    monkeypatch.setattr(signature, "public_of", lambda _: bytes(32))  # nobody reveals here, and keys take time
    wanted, tries = 400, 1500
    chosen, most = _best_alone(wanted, tries)
    assert most > wanted / 2 + 2.5 * math.sqrt(wanted) / 2
    answered = [int(chosen.drawn(Answer.to(chosen.commitment)).of_run(1).sum()) for _ in range(200)]
    assert abs(np.mean(answered) - wanted / 2) < 5 * math.sqrt(wanted / 200) / 2


def test_an_answer_is_to_one_commitment() -> None:
    with pytest.raises(InputError, match="an answer to this commitment"):
        secret().coins(Answer.to(secret(about="v2").commitment))


SIGNED: dict[str, Callable[[Secret, Answer], Coins]] = {
    "other scores": lambda kept, answer: kept.coins(answer, ["b" * 64]),
    "more scores": lambda kept, answer: kept.coins(answer, ["a" * 64, "b" * 64]),
    "no scores": lambda kept, answer: kept.coins(answer),
    "no answer": lambda kept, answer: kept.coins(None, ["a" * 64]),
    "another answer": lambda kept, answer: kept.coins(Answer.to(kept.commitment), ["a" * 64]),
    "the reveal of a bundle": lambda kept, answer: kept.drawn(answer).revealed(),
}


@pytest.mark.long
@pytest.mark.parametrize("second", SIGNED)
@pytest.mark.parametrize("place", ["memory", "written", "read", "read before", "link", "relative"])
def test_a_secret_signs_one_reveal(second: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it lies; the same reveal is signed again, as after a kill between the record and the reveal."""
    monkeypatch.chdir(tmp_path)
    kept, path = Secret.new(coins=20), tmp_path / "s.json"
    answer, again = Answer.to(kept.commitment, plan=MANY), kept
    if place != "memory":
        kept.write(path)
        (tmp_path / "link.json").symlink_to(path)
        again = Secret.read(path)
        kept = Secret.read({"link": tmp_path / "link.json", "relative": Path("s.json")}.get(place, path))
    first = kept.coins(answer, ["a" * 64])
    if place == "read":
        again = Secret.read(path)
    if place == "memory":
        again = kept
    with pytest.raises(InputError, match="a secret signs once"):
        SIGNED[second](again, answer)
    assert again.coins(answer, ["a" * 64]) == first
    if place != "memory":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert json.loads(path.read_text())["signed"] == {"answer": answer.digest, "scores": ["a" * 64]}
        assert sorted(part.name for part in tmp_path.iterdir()) == ["link.json", "s.json"]


def test_more_scores_than_the_answer_allows_are_not_signed(tmp_path: Path) -> None:
    """And nothing is recorded."""
    Secret.new(coins=20).write(tmp_path / "s.json")
    kept = Secret.read(tmp_path / "s.json")
    with pytest.raises(InputError, match="at most 1, as the answer says, received 2"):
        kept.coins(Answer.to(kept.commitment), ["a" * 64, "b" * 64])
    assert json.loads((tmp_path / "s.json").read_text())["signed"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"tries": 0},
        {"tries": True},
        {"tries": 1001},
        {"confidence": 1.0},
        {"confidence": "0.95"},
        {"limits": {}},
        {"limits": [["auc", 0.6]]},
        {"limits": {"auc": True}},
        {"limits": {"a\nb": 0.5}},
        {"limits": {str(i): 0.5 for i in range(51)}},
        {"other": 1},
    ],
)
def test_odd_plans_of_a_stranger_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    made = drawn()
    assert made.answer is not None
    content = made.answer._plain()
    assert Answer.of(content) == made.answer
    with pytest.raises(InputError):
        Answer.of({**content, "plan": {**content["plan"], **change}})
    for plan in (None, [], "auc"):
        with pytest.raises(InputError):
            Answer.of({**content, "plan": plan})


def test_nothing_is_signed_where_the_use_cannot_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Secret.new(coins=20).write(tmp_path / "s.json")
    kept = Secret.read(tmp_path / "s.json")
    signed: list[bytes] = []
    monkeypatch.setattr(signature, "sign", lambda *_: signed.append(b"") or b"")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("miaudit.io.atomic.write_text", full)
        with pytest.raises(OutputError, match="nothing was signed"):
            kept.coins(None)
    (tmp_path / "s.json").unlink()
    with pytest.raises(OutputError, match="nothing was signed"):
        kept.coins(None)
    assert not signed


def test_the_record_is_on_the_disk_before_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill in between: what was recorded can be signed later, and nothing else."""
    Secret.new(coins=20).write(tmp_path / "s.json")

    def killed(*_: Any) -> bytes:
        assert json.loads((tmp_path / "s.json").read_text())["signed"]["scores"] == ["a" * 64]
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(signature, "sign", killed)
        with pytest.raises(KeyboardInterrupt):
            Secret.read(tmp_path / "s.json").coins(None, ["a" * 64])
    with pytest.raises(InputError, match="signs once"):
        Secret.read(tmp_path / "s.json").coins(None, ["b" * 64])
    assert list(Secret.read(tmp_path / "s.json").coins(None, ["a" * 64]).misfits()) == []


def test_drawing_signs_nothing_and_an_unsigned_reveal_is_refused(tmp_path: Path) -> None:
    kept = Secret.new(coins=20)
    kept.write(tmp_path / "s.json")
    drawn_only = Secret.read(tmp_path / "s.json").drawn(None)
    assert drawn_only.of_run(1).shape == (20,)
    assert json.loads((tmp_path / "s.json").read_text())["signed"] is None
    drawn_only.write(tmp_path / "r.json")
    with pytest.raises(InputError, match="not as the drawer signed it"):
        Coins.read(tmp_path / "r.json")


@pytest.mark.long
def test_reveals_of_five_copies_of_a_secret_forge_no_sixth(tmp_path: Path) -> None:
    """Copies know nothing of each other; with one-time signatures five of them gave a sixth in seconds.

    The forger has every value that the five signatures show, under its place and under any, and puts them together as
    another answer needs them.
    """
    Secret.new(coins=20).write(tmp_path / "s.json")
    made = []
    for i in range(5):
        copy = tmp_path / f"copy{i}.json"
        copy.write_bytes((tmp_path / "s.json").read_bytes())
        made.append(Secret.read(copy).coins(None, [f"{i}" * 64]))
    size, forged = 16, replace(made[0], scores=("f" * 64,))
    parts = [[bytes.fromhex(one.signature)[i : i + size] for one in made] for i in range(0, signature.BYTES, size)]
    rng = np.random.default_rng(0)
    for _ in range(200):
        mixed = b"".join(column[k] for column, k in zip(parts, rng.integers(0, 5, len(parts)), strict=True))
        assert list(replace(forged, signature=mixed.hex()).misfits())
    below = 1 + 33 * 7  # the secrets that sign a digest lie below; they are of a key that each message chooses anew
    shown = [{column[k] for column in parts[1:below]} for k in range(5)]
    assert all(not one & other for i, one in enumerate(shown) for other in shown[:i])


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_secret_is_its_owners_alone_and_nothing_is_overwritten(tmp_path: Path) -> None:
    made = drawn()
    assert made.answer is not None
    for part in (secret(), made.commitment, made.answer, made):
        path = tmp_path / f"{type(part).__name__}.json"
        part.write(path)
        before = path.read_bytes()
        with pytest.raises(OutputError, match="is there already, and kept"):
            part.write(path)
        assert path.read_bytes() == before
    assert stat.S_IMODE((tmp_path / "Secret.json").stat().st_mode) == 0o600
    assert Secret.read(tmp_path / "Secret.json") == secret()
    assert SEED.hex() not in repr(secret()) + repr(made)


GARBAGE = {
    "empty": b"",
    "no json": b"\xff\xfe",
    "a list": b"[1]",
    "deep": b"[" * 100_000,
    "another kind": b'{"kind":"miaudit coins answer","format":2}',
    "true as format": b'{"kind":"miaudit coins commitment","format":true}',
    "keys missing": b'{"kind":"miaudit coins commitment","format":1}',
    "large": b" " * (sealed_coins.LARGEST_FILE + 1),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(GARBAGE[name])
    for kind in (Commitment, Answer, Coins, Secret):
        with pytest.raises(MiauditError) as refused:
            kind.read(path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"coins": 1},
        {"coins": True},
        {"coins": 10.0},
        {"coins": 10**12},
        {"runs": 0},
        {"runs": 10**9},
        {"records": "abc"},
        {"seal": "A" * 64},
        {"by": "x" * 300},
        {"by": "\x1b[2J"},
        {"about": 7},
        {"other": 1},
    ],
)
def test_odd_values_of_a_stranger_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({**json.loads(sealed_coins._text(secret().commitment._plain())), **change}))
    with pytest.raises(InputError):
        Commitment.read(path)


def test_a_damaged_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    replace(secret(), seed="0" * 64).write(path)
    with pytest.raises(InputError, match="the seed is another one"):
        Secret.read(path)


@pytest.mark.long
def test_counts_that_do_not_fit_are_refused_before_training() -> None:
    with pytest.raises(InputError, match="1,000 records, as committed, received 5"):
        drawn().members(1, records=5)
    alike = next(one for k in range(100) if len(set((one := drawn(coins=2, about=str(k))).of_run(1))) == 1)
    with pytest.raises(InputError, match="all drawn alike in run 1"):
        alike.members(1, records=2)


def test_scores_are_told_apart_by_run_and_by_value() -> None:
    one, two = np.array([0.5, -0.0]), np.array([1.0, 2.0])
    digest = sealed_coins.of_scores([one, two])
    assert digest == sealed_coins.of_scores([np.array([0.5, 0.0]), two])
    assert digest == sealed_coins.scores_of_runs(np.r_[two, one][[2, 0, 3, 1]], np.array(["a", "b", "a", "b"]), None)
    others = ([two, one], [np.r_[one, two]], [one, two + 1e-12])
    assert digest not in {sealed_coins.of_scores(runs) for runs in others}
    assert digest == sealed_coins.of_scores([one, two], [np.array(["x", "y"]), None])
    assert digest != sealed_coins.of_scores([one, two], [np.array(["x", "x"]), None])  # one coin for both: other coins
