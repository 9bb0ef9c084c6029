"""Coins that two parties draw together through files, neither of them trusting the other.

1. The drawer, who trains, draws a secret seed and publishes a **commitment** to it: how many coins, for how many runs.
2. The other party, once it has seen the commitment, **answers** with random bytes of its own.
3. Seed and answer together give the **coins**. The drawer was bound before it saw the answer, and the other party does
   not know the seed: neither can choose, and nobody but the drawer can tell the coins.
4. After the audit's scores are fixed the drawer **reveals** the seed, signed together with the answer and the scores.
   It signs one reveal: the secret's file records which, before it is signed (:class:`miaudit.io.signature.Use`).

Digests are SHA-256 of the file as it is written here: one line of JSON with sorted keys and a line feed at its end, so
``sha256sum`` gives them too. Coin i of run k is bit i % 8, the lowest first, of byte i // 8 of SHAKE-256 of a tag, the
seed, the digest of the answer (of the commitment, where nobody answered) and k in eight bytes, the lowest first.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, one_line
from miaudit.io import atomic, signature, tables
from miaudit.io.agreed_plan import MOST_SCORES, AgreedPlan
from miaudit.io.score_digests import in_order, of_scores, runs_of, scores_of_runs

__all__ = [
    "AgreedPlan",
    "Answer",
    "Coins",
    "Commitment",
    "Secret",
    "in_order",
    "of_file",
    "of_scores",
    "published",
    "scores_of_runs",
]

BYTES = 32
LARGEST_FILE = 1_000_000
_MOST_COINS, _MOST_RUNS, _LONGEST = 10**9, 10_000, 200
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SEED, _ANSWERED, _ALONE = (f"miaudit coins {what}\x00".encode() for what in ("seed", "answered", "alone"))
_SIGNED = b"miaudit coins reveal\x00"
_FIT = "reveal the seed, the answer and the scores that belong to the commitment"


class _Published:
    """A file that one party publishes, and the other reads with suspicion."""

    KIND: ClassVar[str]

    @property
    def digest(self) -> str:
        """SHA-256 of the file in hexadecimal: what is to be published."""
        return _digest_of(self._plain())

    def write(self, path: Path) -> None:
        """Write the file; an earlier one is kept, and refused."""
        _write_new(path, self._plain())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the file, also a stranger's."""
        return cls.of(_read(path, cls.KIND))

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Make it of plain values."""
        names = [one.name for one in fields(cls)]  # type: ignore[arg-type] # those below are dataclasses
        return cls(**_fields(content, cls.KIND, names))

    def _plain(self) -> dict[str, Any]:
        return {**_head(self.KIND), **vars(self)}


@dataclass(frozen=True)
class Commitment(_Published):
    """What the drawer publishes before training.

    Attributes
    ----------
    seal : SHA-256 of the secret seed
    signer : public key under which the drawer signs its reveal (:mod:`miaudit.io.signature`)
    coins : number of records, or of units, of each run; coin i is of the i-th in the order of the records
    runs : number of trainings, each with coins of its own
    records : SHA-256 of the list of records whose order the coins follow, or None
    by, about : who commits, and for what, in words
    """

    KIND = "commitment"

    seal: str
    signer: str
    coins: int
    runs: int = 1
    records: str | None = None
    by: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        for name in ("seal", "signer"):
            checked_digest(getattr(self, name), name)
        _count("coins", self.coins, 2, _MOST_COINS)
        _count("runs", self.runs, 1, _MOST_RUNS)
        if self.records is not None:
            checked_digest(self.records, "records")
        _words("by", self.by)
        _words("about", self.about)


@dataclass(frozen=True)
class Answer(_Published):
    """What the other party says to a commitment that it has seen; its digest covers both.

    Attributes
    ----------
    commitment : digest of what it answers
    random : 32 random bytes in hexadecimal, drawn after the commitment came; or a public random value of a later time
    by : who answers
    before : how many commitments to draws of the same training it answered before this one
    plan : what it fixes of the audit: limits, confidence, and how many scores may be handed in
    """

    KIND = "answer"

    commitment: str
    random: str
    by: str = ""
    before: int = 0
    plan: AgreedPlan = field(default_factory=AgreedPlan)

    def __post_init__(self) -> None:
        checked_digest(self.commitment, "commitment")
        checked_digest(self.random, "random", "32 bytes as 64 digits from 0 to f")
        _words("by", self.by)
        _count("before", self.before, 0, 10**6)

    @classmethod
    def to(
        cls,
        commitment: Commitment,
        *,
        by: str = "",
        before: int = 0,
        random: str | None = None,
        plan: AgreedPlan | None = None,
    ) -> Self:
        """Answer a commitment, **once**, with random bytes of the operating system or with those that are given."""
        random_bits = secrets.token_bytes(BYTES).hex() if random is None else random
        return cls(commitment.digest, random_bits, by, before, plan or AgreedPlan())

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Make it of plain values."""
        values = _fields(content, cls.KIND, [one.name for one in fields(cls)])
        return cls(**{**values, "plan": AgreedPlan.of(values["plan"])})

    def _plain(self) -> dict[str, Any]:
        return {**super()._plain(), "plan": self.plan.plain()}


@dataclass(frozen=True)
class Coins:
    """Coins of every run, with all that proves where they came from. Secret until they are revealed.

    Attributes
    ----------
    commitment : Commitment
    answer : Answer, or None where there is no answer
    seed : 32 bytes in hexadecimal
    scores : digests (:func:`of_scores`) of scores that the drawer had before the reveal
    signature : the drawer's, of all of this; empty while the coins are only drawn, and not revealed
    drawer : the secret of coins that are not revealed yet; None of others
    """

    commitment: Commitment
    answer: Answer | None
    seed: str = field(repr=False)
    scores: tuple[str, ...] = ()
    signature: str = field(default="", repr=False)
    drawer: Secret | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_digest(self.seed, "seed", "32 bytes as 64 digits from 0 to f")
        if len(self.scores) > MOST_SCORES:
            raise InputError("scores", f"at most {MOST_SCORES:,} digests", f"{len(self.scores):,}", "list fewer")
        for text in self.scores:
            checked_digest(text, "scores")

    def of_run(self, run: int) -> NDArray[np.bool_]:
        """Draw the coins (coins,) of a run, counted from 1: true is a member, each with probability 1/2.

        Examples
        --------
        >>> coins = Secret.new(coins=8, runs=2).coins(None)
        >>> coins.of_run(1).shape, bool((coins.of_run(2) == coins.of_run(2)).all())
        ((8,), True)
        """
        _count("run", run, 1, self.commitment.runs)
        tag, last = (_ALONE, self.commitment) if self.answer is None else (_ANSWERED, self.answer)
        n, public = self.commitment.coins, bytes.fromhex(last.digest)
        stream = hashlib.shake_256(tag + bytes.fromhex(self.seed) + public + run.to_bytes(8, "little"))
        random_bits = np.frombuffer(stream.digest(-(-n // 8)), dtype=np.uint8)
        return np.unpackbits(random_bits, count=n, bitorder="little").astype(np.bool_)

    def members(self, run: int, *, records: int, unit: NDArray[Any] | None = None) -> NDArray[np.bool_]:
        """Draw which records (n,) are members in a run: records of one unit share the coin of that unit.

        Parameters
        ----------
        run : from 1
        records : their number n
        unit : array (n,), optional
            Whose each record is; the first unit is that of the first record, and so on.

        Raises
        ------
        InputError
            For another number of records, or units, than was committed to, and where all coins fell alike.
        """
        codes = in_order(unit, records)
        count = int(codes.max()) + 1 if len(codes) else 0
        if count != self.commitment.coins:
            what = "records" if unit is None else "units"
            hint = "commit to as many coins as there are records, or units"
            raise InputError("coins", f"{self.commitment.coins:,} {what}, as committed", f"{count:,}", hint)
        coins = self.of_run(run)
        if coins.all() or not coins.any():
            received = f"{count:,}, all drawn alike in run {run}"
            raise InputError("coins", "enough for members and non-members", received, "use more records")
        return coins[codes]

    def misfits(
        self,
        member: NDArray[np.bool_] | None = None,
        *,
        unit: NDArray[Any] | None = None,
        run: NDArray[Any] | None = None,
    ) -> Iterator[str]:
        """Say in sentences what does not fit the commitment: seed, answer, signature; and memberships (n,), if given.

        Parameters
        ----------
        unit, run : arrays (n,), optional
            As of :class:`miaudit.Evidence`.
        """
        committed = self.commitment
        if _sealed(self.seed) != committed.seal:
            yield "The coins that were revealed do not fit their commitment: the seed is another one."
        if self.answer is not None and self.answer.commitment != committed.digest:
            yield "The answer to the coins' commitment is to another commitment."
        if self.answer is not None and len(self.scores) > self.answer.plan.tries:
            yield f"The reveal lists {len(self.scores):,} scores, and the answer allows {self.answer.plan.tries:,}."
        if self.drawer is None and not self._is_signed():
            yield "The reveal of the coins is not as the drawer signed it: seed, answer or scores were changed."
        if member is None:
            return
        parts = list(runs_of(run, len(member)))
        if len(parts) != committed.runs:
            yield f"Coins were committed to for {committed.runs:,} runs, and {len(parts):,} are here: all must be."
            return
        for number, rows in enumerate(parts, start=1):
            codes = in_order(None if unit is None else unit[rows], len(rows))
            if int(codes.max()) + 1 != committed.coins:
                yield f"Run {number} has {int(codes.max()) + 1:,} records or units, and {committed.coins:,} coins."
                continue
            wrong = np.flatnonzero(self.of_run(number)[codes] != member[rows])
            if len(wrong):
                first = ", ".join(str(rows[i]) for i in wrong[:5]) + (", ..." if len(wrong) > 5 else "")
                counted = f"{len(wrong):,} of the {len(rows):,} memberships of run {number}"
                yield f"{counted} are not the coins that were drawn: row {first} (counted from 0)."

    def fitting(self, name: str = "coins") -> Self:
        """Return the coins if seed, answer and signature fit the commitment, or refuse them.

        Raises
        ------
        InputError
            With what does not fit.
        """
        for misfit in self.misfits():
            raise InputError(name, "coins that fit their commitment", misfit.rstrip("."), _FIT)
        return self

    def revealed(self) -> Coins:
        """Return the signed reveal: of coins that are only drawn, as if no scores were in before.

        Raises
        ------
        InputError
            If their secret signed another reveal.
        """
        return self if self.drawer is None else self.drawer.coins(self.answer)

    def check_revealable(self) -> None:
        """Refuse coins whose secret signed another reveal than :meth:`revealed` would; nothing is signed."""
        if self.drawer is not None:
            self.drawer.use.check(_use(self.answer, ()))

    def write(self, path: Path) -> None:
        """Write the reveal; an earlier file is kept, and refused."""
        _write_new(path, self.plain())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a reveal, also a stranger's.

        Raises
        ------
        InputError
            Also if it does not fit its commitment.
        """
        return cls.of(_read(path, "reveal")).fitting(Path(path).name)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Make coins of the plain values of a reveal, which may not fit: see :meth:`misfits`."""
        values = _fields(content, "reveal", ("commitment", "answer", "seed", "scores", "signature"))
        scores, signed = values["scores"], values["signature"]
        if not isinstance(scores, list) or not isinstance(signed, str) or len(signed) > 4 * signature.BYTES:
            raise InputError("reveal", "a list of scores and a signature", "something else", "ask the drawer for it")
        answer = None if values["answer"] is None else Answer.of(values["answer"])
        return cls(Commitment.of(values["commitment"]), answer, values["seed"], tuple(scores), signed)

    def plain(self) -> dict[str, Any]:
        """Return the plain values of the reveal."""
        return {**self._unsigned(), "signature": self.signature}

    def _unsigned(self) -> dict[str, Any]:
        answer = None if self.answer is None else self.answer._plain()
        parts = {"commitment": self.commitment._plain(), "answer": answer}
        return {**_head("reveal"), **parts, "seed": self.seed, "scores": list(self.scores)}

    @property
    def message(self) -> bytes:
        """What the drawer signs."""
        return _SIGNED + bytes.fromhex(_digest_of(self._unsigned()))

    def _is_signed(self) -> bool:
        try:
            signature_bytes = bytes.fromhex(self.signature)
        except ValueError:
            return False
        return signature.holds(bytes.fromhex(self.commitment.signer), self.message, signature_bytes)


@dataclass(frozen=True)
class Secret:
    """What the drawer keeps: the commitment, the seed, and the key that signs one reveal.

    ``use`` is what it signed, which its file records too.

    Examples
    --------
    >>> secret = Secret.new(coins=1_000, by="the trainer")
    >>> answer = Answer.to(secret.commitment, by="the auditor")
    >>> member = secret.drawn(answer).of_run(1)  # to train on; signs nothing
    >>> coins = secret.coins(answer)  # the reveal
    >>> member.shape, list(coins.misfits(member))
    ((1000,), [])
    """

    commitment: Commitment
    seed: str = field(repr=False)
    signing: str = field(repr=False)
    use: signature.Use = field(default_factory=signature.Use, repr=False, compare=False)

    @classmethod
    def new(cls, *, coins: int, runs: int = 1, records: str | None = None, by: str = "", about: str = "") -> Self:
        """Draw a seed and a signing key from the operating system, and commit to them; as of :class:`Commitment`."""
        seed, signing = (secrets.token_bytes(BYTES).hex() for _ in range(2))
        signer = signature.public_of(bytes.fromhex(signing)).hex()
        return cls(Commitment(_sealed(seed), signer, coins, runs, records, by, about), seed, signing)

    def drawn(self, answer: Answer | None) -> Coins:
        """Return the coins that this and the answer give, to train on: nothing is signed, and nothing revealed.

        Parameters
        ----------
        answer : Answer, or None where there is no answer: then the coins are the drawer's choice

        Raises
        ------
        InputError
            For an answer to another commitment.
        """
        if answer is not None and answer.commitment != self.commitment.digest:
            received = f"one to {answer.commitment[:12]}..., and this is {self.commitment.digest[:12]}..."
            raise InputError("answer", "an answer to this commitment", received, "ask for an answer to this one")
        return Coins(self.commitment, answer, self.seed, drawer=self)

    def coins(self, answer: Answer | None, scores: Iterable[str] = ()) -> Coins:
        """Return the coins that this and the answer give, signed as the reveal: **one**, which may be signed again.

        What is signed is recorded first, in the file too that the secret was read from, or written to.

        Parameters
        ----------
        answer : as of :meth:`drawn`
        scores : digests of scores that are in before the reveal

        Raises
        ------
        InputError
            For an answer to another commitment, for more scores than the answer allows, and where another answer or
            other scores were signed before.
        OutputError
            If it cannot be recorded.
        """
        unsigned = replace(self.drawn(answer), scores=tuple(sorted(set(scores))), drawer=None)
        if answer is not None and len(unsigned.scores) > answer.plan.tries:
            allowed, received = f"at most {answer.plan.tries:,}, as the answer says", f"{len(unsigned.scores):,}"
            raise InputError(
                "scores", allowed, received, "sign those that were agreed on (miaudit coins answer --tries)"
            )
        self.use.record(_use(answer, unsigned.scores))
        return replace(unsigned, signature=signature.sign(bytes.fromhex(self.signing), unsigned.message).hex())

    def write(self, path: Path) -> None:
        """Write the secret, readable by its owner only; an earlier file is kept, and refused."""
        plain = {"commitment": self.commitment._plain(), "seed": self.seed, "signing": self.signing}
        _write_new(path, {**_head("secret"), **plain, "signed": self.use.signed}, mode=0o600)
        self.use.path = path

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a secret.

        Raises
        ------
        InputError
            Also if seed or key are not those that were committed to.
        """
        fields = _fields(_read(path, "secret"), "secret", ("commitment", "seed", "signing", "signed"))
        for name in ("seed", "signing"):
            checked_digest(fields[name], name, "32 bytes as 64 digits from 0 to f")
        use = signature.Use(Path(path), fields["signed"])
        secret = cls(Commitment.of(fields["commitment"]), fields["seed"], fields["signing"], use)
        secret.drawn(None).fitting(Path(path).name)
        if signature.public_of(bytes.fromhex(secret.signing)).hex() != secret.commitment.signer:
            raise InputError(Path(path).name, "the signing key of its commitment", "another", "use the file as it was")
        return secret


def of_file(path: Path) -> str:
    """Return the SHA-256 of a list of records: of the bytes of its file, as ``sha256sum`` gives it."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def published(text: str) -> str:
    """Return the digest that a stranger has: as 64 digits, or of a file of a commitment or of an answer.

    Raises
    ------
    InputError
        For anything else.
    """
    if _DIGEST.fullmatch(text):
        return text
    if not Path(text).is_file():
        allowed = "the SHA-256 that was published (64 digits from 0 to f), or the file of a commitment or an answer"
        raise InputError("--commitment", allowed, repr(text)[:80], "ask the drawer, or the party that answered")
    content = _read(text, "commitment or answer")
    return (Answer.of(content) if kind_of(text) == "answer" else Commitment.of(content)).digest


def kind_of(path: str | Path) -> str:
    """Return what a file says it is: commitment, answer, secret or reveal; empty for anything else."""
    stated = _read(path, "file").get("kind")
    return next((kind for kind in ("commitment", "answer", "secret", "reveal") if stated == _head(kind)["kind"]), "")


def checked_digest(value: Any, name: str, allowed: str = "a SHA-256 (64 digits from 0 to f)") -> str:
    """Return a digest, or refuse what is none."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise InputError(name, allowed, repr(value)[:80], "copy it whole")
    return value


# -- parts ------------------------------------------------------------------------------------------------------------


def _use(answer: Answer | None, scores: Sequence[str]) -> dict[str, Any]:
    """Return what a secret signs, as its file records it."""
    return {"answer": None if answer is None else answer.digest, "scores": list(scores)}


def _sealed(seed: str) -> str:
    return hashlib.sha256(_SEED + bytes.fromhex(seed)).hexdigest()


def _head(kind: str) -> dict[str, Any]:
    return {"kind": f"miaudit coins {kind}", "format": 2}


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False) + "\n"


def _digest_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(content).encode()).hexdigest()


def _write_new(path: Path, content: Mapping[str, Any], mode: int | None = None) -> None:
    def write(target: Path) -> None:
        target.write_text(_text(content), encoding="utf-8", newline="\n")

    atomic.write_once(path, write, mode=mode)


def _read(path: str | Path, kind: str) -> dict[str, Any]:
    path = tables.existing_file(path, kind, (".json",))
    if path.stat().st_size > LARGEST_FILE:
        raise InputError(kind, f"at most {LARGEST_FILE:,} bytes", f"{path.stat().st_size:,}", "ask for it again")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        received = f"{path.name}, which is no JSON ({one_line(str(error))[:60]})"
        raise InputError(kind, f"the {kind} that miaudit coins wrote", received, "ask for it again") from error
    if not isinstance(content, dict):
        raise InputError(kind, f"the {kind} that miaudit coins wrote", path.name, "ask for it again")
    return content


def _fields(content: Any, kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the named values of a file of this kind, or refuse another kind, missing keys and unknown ones."""
    head, allowed = _head(kind), f"the {kind} that miaudit coins wrote"
    if not isinstance(content, Mapping):
        raise InputError(kind, allowed, type(content).__name__, "ask for it again")
    by_name = {name: content.get(name) for name in head}
    if by_name != head or isinstance(content.get("format"), bool):
        received = f"{content.get('kind')!r}, format {content.get('format')!r}"[:80]
        raise InputError(kind, allowed, received, "give the right file, or use the version that wrote it")
    odd = sorted(map(str, set(content) ^ {*head, *names}))
    if odd:
        raise InputError(kind, allowed, f"one with {odd[0][:40]!r} missing or unknown", "ask for it again")
    return {name: content[name] for name in names}


def _count(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(name, f"a whole number from {least:,} to {most:,}", repr(value)[:60], "count them again")


def _words(name: str, value: Any) -> None:
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        allowed = f"at most {_LONGEST} printable characters"
        raise InputError(name, allowed, repr(value)[:60], "choose a short name")
