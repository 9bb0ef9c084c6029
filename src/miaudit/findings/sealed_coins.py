"""What sealed coins show of how membership came about, and what they leave to trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Count, FloatArray, Positive, Text
from miaudit.errors import InputError
from miaudit.findings.kind import Pattern
from miaudit.io import sealed_coins
from miaudit.io.sealed_coins import Coins

__all__ = ["SealedCoins"]

_Digest = Annotated[str, Pattern("^[0-9a-f]{64}$")]
_SHOWN = 12  # digits of a digest in a sentence


class _Audited(Protocol):
    """What is needed of :class:`miaudit.Evidence`."""

    @property
    def scores(self) -> Mapping[str, FloatArray]: ...
    @property
    def member(self) -> BoolArray: ...
    @property
    def unit(self) -> NDArray[Any] | None: ...
    @property
    def run(self) -> NDArray[Any] | None: ...
    @property
    def design(self) -> str | None: ...


@dataclass(frozen=True)
class SealedCoins:
    """Memberships that follow from a published commitment, and from the answer of another party.

    Attributes
    ----------
    commitment : its digest
    answer : digest of the other party's answer, which holds that of the commitment; None where nobody answered
    by, answered_by : what the two call themselves
    answered_before : commitments that the other party answered before this one, as it says
    coins, runs : how many coins each run has, and how many runs
    records : SHA-256 of the list of records whose order the coins follow; None where none was committed to
    scores : those that were in before the coins were revealed, as the drawer signed
    text : what this shows, in words
    not_shown : what it does not, in sentences
    """

    commitment: _Digest
    answer: _Digest | None
    by: str
    answered_by: str | None
    answered_before: Count | None
    coins: Positive
    runs: Positive
    records: _Digest | None
    scores: tuple[str, ...]
    text: Text
    not_shown: tuple[str, ...]

    @classmethod
    def of(cls, coins: Coins, evidence: _Audited) -> SealedCoins:
        """Check that memberships are the coins that were drawn, and say what that shows.

        Parameters
        ----------
        coins : as the drawer revealed them
        evidence : Evidence of design one-run, of one run or several; the i-th record, or unit, has the i-th coin

        Raises
        ------
        InputError
            For another design, coins that do not fit their commitment, and memberships that are not these coins.
        """
        if evidence.design != "one-run":
            received = evidence.design or "none that was declared"
            hint = 'say --design one-run (design="one-run" in Python), or leave the coins out'
            raise InputError("coins", "evidence of design one-run", received, hint)
        coins.fitting()
        for said in coins.misfits(evidence.member, unit=evidence.unit, run=evidence.run):
            hint = "keep the records in the order of the coins, and all runs"
            raise InputError("coins", "memberships as the coins fell", said.rstrip("."), hint)
        in_time = tuple(
            name
            for name, values in evidence.scores.items()
            if sealed_coins.scores_of_runs(values, evidence.run, evidence.unit) in coins.scores
        )
        committed, answer = coins.commitment, coins.answer
        return cls(
            commitment=committed.digest,
            answer=None if answer is None else answer.digest,
            by=committed.by,
            answered_by=None if answer is None else answer.by,
            answered_before=None if answer is None else answer.before,
            coins=committed.coins,
            runs=committed.runs,
            records=committed.records,
            scores=in_time,
            text=_text(coins),
            not_shown=tuple(_not_shown(coins, in_time, tuple(evidence.scores))),
        )


def _text(coins: Coins) -> str:
    committed, answer = coins.commitment, coins.answer
    several = f" in each of {committed.runs:,} runs" if committed.runs > 1 else ""
    about = f", for {committed.about}" if committed.about else ""
    head = (
        f"Sealed coins: all {committed.coins:,} coins of membership{several} follow from commitment "
        f"{committed.digest[:_SHOWN]}... of {committed.by or 'the drawer'}{about}"
    )
    if answer is None:
        return f"{head}, which nobody answered: they were fixed by then, and are not shown to be fair."
    return (
        f"{head}, and from answer {answer.digest[:_SHOWN]}... of {answer.by or 'the other party'}, which was given to "
        "that commitment: neither of the two could choose them alone."
    )


def _not_shown(coins: Coins, in_time: tuple[str, ...], scores: tuple[str, ...]) -> list[str]:
    """Return what is left to trust, in sentences; what a stranger can do about it stands with it."""
    committed, answer = coins.commitment, coins.answer
    said = []
    if answer is None:
        said.append(
            "That the coins are fair: whoever drew them alone could try seeds until the coins pleased, and commit to "
            "those. Another party's answer to the commitment prevents that."
        )
        said.append("When the commitment was published: compare its digest with one that was public before training.")
    else:
        who = answer.by or "the other party"
        said.append(
            f"That it was {who} who answered, before training: compare the digest of the answer with what {who} tells "
            "or published. A drawer who wrote the answer too could choose the coins."
        )
        earlier = f"{answer.before:,} earlier {'commitment' if answer.before == 1 else 'commitments'}"
        said.append(
            f"That no draw or training was given up for what it showed: {who} says that it had answered {earlier} to "
            "draws of this training. Every run that was started counts."
        )
    if committed.records is None:
        said.append("Which record each coin is of: the commitment names no list of records, so their order is trusted.")
    else:
        said.append(
            f"That the records are, in their order, those of the list with SHA-256 {committed.records[:_SHOWN]}..., "
            "which the commitment names: whoever has the list can compare."
        )
    late = [name for name in scores if name not in in_time]
    if in_time:
        names = ", ".join(in_time)
        said.append(f"That the drawer told nobody the coins before the reveal. It signed that {names} was in by then.")
    if late:
        said.append(f"That {', '.join(late)} was made without the coins: it is not among what the drawer signed for.")
    said.append("That the model was trained on the records that the coins chose, and on none that they left out.")
    return said
