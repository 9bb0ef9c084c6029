"""What an audit of the design "matched" rests on and shows beside its metrics: ranks of true strings, and their law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from miaudit.arrays import Count, Positive, Share, Text
from miaudit.findings.kind import Pattern
from miaudit.metrics.rounding import percent, upper_text

__all__ = ["UNCHECKED", "LawCheck", "Matched", "RankTest"]

UNCHECKED = (
    "Nothing tested whether true strings and decoys follow one law: there is neither a reference model nor the text of "
    "the candidates. That is declared, not checked."
)


@dataclass(frozen=True)
class RankTest:
    """The exact test of ranks: where nothing leaks, each true string is equally likely to have any rank.

    Attributes
    ----------
    score : its name
    mean : mean share of the decoys that a true string exceeds, 0.5 where nothing leaks; ties in random order
    p_value : one-sided, of "nothing leaks", after the correction for several scores
    """

    score: str
    mean: Share
    p_value: Share


@dataclass(frozen=True)
class LawCheck:
    """A test of "true strings and decoys follow one law", from what the audited model cannot have touched.

    Attributes
    ----------
    by : "reference" (scores of a model that never saw the strings) or "format" (character n-grams, cross-fitted)
    p_value : of one law
    refuted : whether it is refuted; then the audit has no answer
    text : the same as a sentence
    """

    by: Annotated[str, Pattern("^(reference|format)$")]
    p_value: Share
    refuted: bool
    text: Text


@dataclass(frozen=True)
class Matched:
    """True strings that chance drew, beside decoys of the same law.

    Attributes
    ----------
    units : how many true strings are audited, one for each unit
    decoys : K, of each of them
    pairs : how many pairs of a true string and one decoy the privacy bounds are of; 0 without bounds
    ranks : the rank test of each score that counts
    law : what tested that true strings and decoys follow one law; empty where nothing did
    text : why these numbers are causal, in sentences
    """

    units: Positive
    decoys: Positive
    pairs: Count
    ranks: tuple[RankTest, ...]
    law: tuple[LawCheck, ...]
    text: Text

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was tested beside the metrics: the law of the strings, and their ranks by each score."""
        of_ranks = [
            f"Rank test of {one.score}: true strings exceed {percent(one.mean)} of their decoys, chance gives 50% "
            f"(p = {upper_text(one.p_value, 2)} of no leakage)."
            for one in self.ranks
        ]
        return (*(one.text for one in self.law), *([] if self.law else [UNCHECKED]), *of_ranks)

    @property
    def obstacle(self) -> str:
        """Why the audit has no answer; empty where no test refutes the law."""
        return " ".join(one.text for one in self.law if one.refuted)
