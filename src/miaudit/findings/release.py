"""Findings of a release of a synthetic table: frozen, versioned, plain values in and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import MinLen

from miaudit.arrays import Count, NotNegative, Share
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.kind import Entries, FindingsRecord
from miaudit.metrics.rounding import upper_text

_COLUMN = Entries({"name": str, "kind": Literal["binary", "categorical", "ordinal", "continuous"]})
Status = Literal["proved", "unproved"]
Useful = Literal["useful", "partly", "not", "unjudged", "stopped"]


@dataclass(frozen=True)
class Guarantee:
    """What differential privacy the release has.

    Attributes
    ----------
    epsilon, delta : what is claimed
    proved, accountant : the epsilon that the accountant gives at this delta, and which one it is
    mechanism : the training in words
    records : the public, nominal number of records
    noise, clip : of a step of training: standard deviation over ``clip``, and the norm to which gradients are clipped;
        of tables the noise of all counts together over their sensitivity, and no clip
    tpr_limits : (FPR, TPR) pairs: at this rate of false positives no attack on any record finds more true ones
    """

    epsilon: NotNegative
    delta: Share
    proved: NotNegative
    accountant: str
    mechanism: str
    records: Count
    noise: NotNegative
    clip: NotNegative | None
    tpr_limits: tuple[tuple[Share, Share], ...]


@dataclass(frozen=True)
class Kept:
    """How much of one thing a release keeps.

    Attributes
    ----------
    of : what, in words
    share : 1 for as much as real records keep, 0 for what columns without any dependence keep; may lie outside
    low, high : limits of the share at 95%, where there are some
    measure : what was measured
    real, synthetic, nothing : of real records, of the release, and of columns without dependence
    """

    of: str
    share: float
    low: float | None
    high: float | None
    measure: str
    real: float
    synthetic: float
    nothing: float

    @property
    def shown(self) -> str:
        """The share as it is shown, with a word where it lies outside."""
        shown_share = f"{max(0.0, min(self.share, 1.0)):.0%}"
        return (
            f"{shown_share} (or less)"
            if self.share < -0.005
            else f"{shown_share} (or more)"
            if self.share > 1.005
            else shown_share
        )


@dataclass(frozen=True)
class Usefulness:
    """Whether a release is any good.

    Attributes
    ----------
    status : "useful", "partly" or "not"; "unjudged" where too few real records were at hand; "stopped" where no table
        was made, since made-up records showed that it would be of no use
    text : in a sentence
    on : which real records it was judged by, in words
    records : how many of them
    marginals : distance of single columns above that of two real samples
    kept : shares of dependence, prediction and interventions, as far as real records show any
    advice : what to change, in words, the likeliest first
    """

    status: Useful
    text: str
    on: str
    records: Count
    marginals: float
    kept: tuple[Kept, ...]
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spent:
    """The ledger after this release: the table's name, releases, their total epsilon at ``delta``, and the budget."""

    table: str
    releases: tuple[str, ...]
    epsilon: NotNegative | None
    delta: Share | None
    budget: NotNegative | None


@dataclass(frozen=True)
class Group:
    """Columns that are drawn together; causes have a smaller generation than their effects."""

    name: str
    columns: Annotated[tuple[str, ...], MinLen(1)]
    generation: Count


@dataclass(frozen=True)
class Graph:
    """The causal graph as it is drawn: groups with their columns and generation, and edges between groups."""

    groups: Annotated[tuple[Group, ...], MinLen(1)]
    edges: tuple[tuple[str, str], ...]
    full: bool


@dataclass(frozen=True)
class Released:
    """The file of the synthetic table, how many records it has, and its SHA-256 (empty where no file was written)."""

    file: str
    records: Count
    sha256: str = ""


@dataclass(frozen=True)
class SynthesisFindings(FindingsRecord):
    """Everything about a release but its records.

    Attributes
    ----------
    text : the privacy statement, in sentences
    guarantee : None without differential privacy
    spent : the ledger; None without one
    graph : None for a plain generator
    release : file, records and format of the synthetic table
    columns : name and kind of each
    generator : public facts of the network and its training, by name
    fidelity : of the table; None where it was not asked for
    fidelity_of : "held-out", "public" or "private": which records the table was compared with; None without
    useful : whether the release is any good; None where it was not asked for
    neighbours : "replace-one" where the guarantee is of tables that differ in the values of one record; None where of
        tables with one record more or less, or without a guarantee
    notes : what must be said with it
    source : what the private table is called
    repeat : version and command; no seed with privacy, since none repeats its noise
    """

    KIND = "synthesis"
    DERIVED = ("exit_code", "status", "fidelity.summary")

    text: Annotated[tuple[str, ...], MinLen(1)]
    guarantee: Guarantee | None
    spent: Spent | None
    graph: Graph | None
    release: Released
    columns: Annotated[tuple[Annotated[Mapping[str, str], _COLUMN], ...], MinLen(1)]
    generator: Mapping[str, float | str | bool | None]
    fidelity: Fidelity | None = None
    fidelity_of: Literal["held-out", "public", "private"] | None = None
    useful: Usefulness | None = None
    neighbours: Literal["replace-one"] | None = None
    notes: tuple[str, ...] = ()
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The guarantee, and what the table keeps of each use."""
        if self.guarantee is not None:
            own = {"name": "epsilon", "estimator": self.guarantee.accountant, "delta": self.guarantee.delta}
            yield {"kind": "guarantee", "value": self.guarantee.epsilon, **own}
        for one in () if self.useful is None else self.useful.kept:
            limits = {"value": one.share, "low": one.low, "high": one.high}
            yield {"kind": "kept", "name": one.of, "estimator": one.measure, **limits}

    @property
    def status(self) -> Status:
        """Say "proved" where differential privacy is claimed and accounted for, else "unproved"."""
        return "unproved" if self.guarantee is None else "proved"

    @property
    def stopped(self) -> bool:
        """Whether no table was made, since it would be of no use."""
        return self.useful is not None and self.useful.status == "stopped"

    @property
    def word(self) -> str:
        """Both verdicts in a few words: of privacy, and of use where it is less than full."""
        if self.guarantee is None:
            return "No guarantee"
        if self.stopped:
            return "Stopped, with budget left"
        besides = {"not": "not useful", "partly": "only partly useful", "unjudged": "its use was not judged"}
        besides_word = None if self.useful is None else besides.get(self.useful.status)
        return "Differentially private" if besides_word is None else f"Private, but {besides_word}"

    @property
    def exit_code(self) -> int:
        """0 where a guarantee is proved; 4 where none is, where the table is not useful, and where none was made."""
        useless = self.useful is not None and self.useful.status in ("not", "unjudged", "stopped")
        return 4 if self.guarantee is None or useless else 0


def rounded_up(value: float, digits: int = 3) -> str:
    """Write an upper limit with so many digits, never below itself: what is claimed must be no more than is proved.

    Examples
    --------
    >>> rounded_up(3.8912), rounded_up(2.0), rounded_up(8.5335e-05), rounded_up(0.0)
    ('3.9', '2', '8.54e-05', '0')
    """
    # what floating point alone has put above a short number, as 0.1 + 0.2, is none
    return upper_text(value * (1 - 1e-12), digits)
