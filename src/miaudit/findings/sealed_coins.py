"""What sealed coins show of how membership came about, and what they leave to trust."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Count, FloatArray, Positive, Text
from miaudit.errors import InputError
from miaudit.findings.kind import Pattern
from miaudit.findings.policy import SURE_LIST, Policy
from miaudit.io import sealed_coins
from miaudit.io.agreed_plan import AgreedPlan
from miaudit.io.sealed_coins import Coins

__all__ = ["SealedCoins", "check_agreed", "departure"]

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
    tries : how many scores the drawer signed for, also those that are not here; the audit corrects for them
    missing : how many of these are not here
    agreed : the plan that the answer fixed, limits, confidence and number of scores; None where nobody answered
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
    tries: Count
    missing: Count
    agreed: AgreedPlan | None
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
        for misfit in coins.misfits(evidence.member, unit=evidence.unit, run=evidence.run):
            hint = "keep the records in the order of the coins, and all runs"
            raise InputError("coins", "memberships as the coins fell", misfit.rstrip("."), hint)
        digests = {
            name: sealed_coins.scores_of_runs(values, evidence.run, evidence.unit)
            for name, values in evidence.scores.items()
        }
        in_time = tuple(name for name, digest in digests.items() if digest in coins.scores)
        missing = len(set(coins.scores) - set(digests.values()))
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
            tries=len(coins.scores),
            missing=missing,
            agreed=None if answer is None else answer.plan,
            text=_text(coins, missing),
            not_shown=tuple(_not_shown(coins, in_time, tuple(evidence.scores), missing)),
        )

    def price(self, corrected: int) -> float:
        """Return by how much the level is divided beyond the scores that an audit corrects for anyway (Bonferroni).

        Scores that were signed for count although they are not here, and so do earlier draws of the same training.

        Examples
        --------
        >>> from miaudit.evidence import Evidence
        >>> coins = sealed_coins.Secret.new(coins=80).coins(None, ["a" * 64, "b" * 64])
        >>> evidence = Evidence(score=range(80), member=coins.of_run(1), design="one-run")
        >>> SealedCoins.of(coins, evidence).price(1)
        2.0
        """
        return max(1.0, self.tries / corrected) * (1 + (self.answered_before or 0))

    @property
    def paid_for(self) -> tuple[str, ...]:
        """What the audit corrects for, as a sentence; empty where there was one score and no earlier draw."""
        draws = 1 + (self.answered_before or 0)
        if self.tries <= 1 and draws == 1:
            return ()
        parts = [f"{self.tries:,} scores that the drawer signed for"] if self.tries > 1 else []
        parts += [f"{draws:,} draws of this training"] if draws > 1 else []
        return (f"Every interval, bound and limit is corrected for {' and '.join(parts)} (Bonferroni).",)


def departure(agreed: AgreedPlan | None, policy: Policy, confidence: float) -> tuple[str, str, str] | None:
    """Return where a plan is not the one that was agreed on, and both values in words; None where it is.

    Parameters
    ----------
    agreed : of the answer to sealed coins
    policy, confidence : of the plan
    """
    if agreed is None:
        return None
    if (fixed := _limits(Policy.of(agreed.limits))) != (own := _limits(policy)):
        return "limits", fixed, own
    if not math.isclose(agreed.confidence, confidence):
        return "confidence", f"{agreed.confidence:g}", f"{confidence:g}"
    return None


def check_agreed(agreed: AgreedPlan | None, policy: Policy, confidence: float) -> None:
    """Refuse another plan than the one that the answer to sealed coins fixed; arguments as of :func:`departure`.

    Raises
    ------
    InputError
        With what was fixed.
    """
    difference = departure(agreed, policy, confidence)
    if difference is not None:
        hint = "use what the other party fixed before the training, or have other coins answered with other limits"
        raise InputError(difference[0], f"{difference[1]}, as the answer to the coins says", difference[2], hint)


def _limits(policy: Policy) -> str:
    """Write the limits of a policy in one order."""
    sure = {} if policy.sure is None else {SURE_LIST: policy.sure}
    return ", ".join(f"{name}={value:g}" for name, value in sorted({**policy.thresholds, **sure}.items()))


def _text(coins: Coins, missing: int) -> str:
    return f"{_of_draw(coins)}{_of_tries(coins, missing)}"


def _of_tries(coins: Coins, missing: int) -> str:
    """Say how many scores were signed for, and what the answer fixed."""
    tries, answer = len(coins.scores), coins.answer
    sentence = ""
    if tries == 1:
        sentence = f" The drawer signed for 1 score, which is {'not ' * missing}in this audit."
    elif tries:
        verb = "is" if tries - missing == 1 else "are"
        sentence = f" The drawer signed for {tries:,} scores, of which {tries - missing:,} {verb} in this audit."
    if answer is not None:
        limits = _limits(Policy.of(answer.plan.limits))
        sentence += (
            f" The answer fixed the plan: limits {limits}; confidence {answer.plan.confidence:g}; at most "
            f"{answer.plan.tries:,} {'score' if answer.plan.tries == 1 else 'scores'}."
        )
    return sentence


def _of_draw(coins: Coins) -> str:
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


def _not_shown(coins: Coins, in_time: tuple[str, ...], scores: tuple[str, ...], missing: int) -> list[str]:
    """Return what is left to trust, in sentences; what a stranger can do about it stands with it."""
    committed, answer = coins.commitment, coins.answer
    sentences = []
    if answer is None:
        sentences.append(
            "That the coins are fair: whoever drew them alone could try seeds until the coins pleased, and commit to "
            "those. Another party's answer to the commitment prevents that."
        )
        sentences.append("That limits and confidence were chosen before the scores: only an answer fixes a plan.")
        sentences.append(
            "When the commitment was published: compare its digest with one that was public before training."
        )
    else:
        who = answer.by or "the other party"
        sentences.append(
            f"That it was {who} who answered, before training: compare the digest of the answer with what {who} tells "
            "or published. A drawer who wrote the answer too could choose the coins."
        )
        earlier = f"{answer.before:,} earlier {'commitment' if answer.before == 1 else 'commitments'}"
        sentences.append(
            f"That no draw or training was given up for what it showed: {who} says that it had answered {earlier} to "
            "draws of this training. Every run that was started counts."
        )
    if committed.records is None:
        sentences.append(
            "Which record each coin is of: the commitment names no list of records, so their order is trusted."
        )
    else:
        sentences.append(
            f"That the records are, in their order, those of the list with SHA-256 {committed.records[:_SHOWN]}..., "
            "which the commitment names: whoever has the list can compare."
        )
    if missing:
        sentences.append(
            f"What {missing:,} of the signed scores show: they are not in this audit, so that it is never within the "
            "limits. Whoever has them can hand them in."
        )
    late = [name for name in scores if name not in in_time]
    if in_time:
        names = ", ".join(in_time)
        sentences.append(
            f"That the drawer told nobody the coins before the reveal. It signed that {names} was in by then."
        )
    if late:
        sentences.append(
            f"That {', '.join(late)} was made without the coins: it is not among what the drawer signed for."
        )
    sentences.append("That the model was trained on the records that the coins chose, and on none that they left out.")
    return sentences
