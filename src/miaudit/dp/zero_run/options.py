"""What a zero-run audit corrects for covariates with: the options, as frozen records, and their names.

:mod:`miaudit.dp.zero_run` is the door; its functions take these records or their names.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from miaudit.dp.bounds import LowerBound
from miaudit.dp.zero_run.composition import Shift
from miaudit.dp.zero_run.thinning import SeedStable
from miaudit.errors import InputError, Offered, nearest


@dataclass(frozen=True, eq=False)
class Thinning:
    """Drop records at random until membership of the rest is a fair coin (Theorem Z); the default.

    Attributes
    ----------
    half_width : how far the log-odds may be off
        A number, one for each record (n,), ``StandardErrors(2)``, ``Scheffe()``; None: 0 for given propensities and two
        standard errors for learned ones.
    seeds : 1, or ``SeedStable()``
        One set of coins, or forty of which three quarters must agree. There is no choosing the best of several.
    """

    half_width: Any = None
    seeds: int | SeedStable = 1

    def __post_init__(self) -> None:
        if not isinstance(self.seeds, SeedStable) and (isinstance(self.seeds, bool) or self.seeds != 1):
            raise InputError(
                "seeds",
                "1, or SeedStable()",
                repr(self.seeds),
                "the best of several sets of coins would be multiple testing: SeedStable(sets=40) pays for it",
            )


@dataclass(frozen=True)
class PoissonBinomial:
    """Pure epsilon from the number of right guesses, without coins (Theorem D.1, erratum B9); its default.

    Attributes
    ----------
    margin : pessimism on the log-odds, 0 or more; None: 0 for given propensities, 0.1 for learned ones
    signed : T lambda (statistics.md, section 7), or with False the paper's |lambda|
    smallest : use only so many records of smallest |lambda|; for given propensities only
    """

    margin: float | None = None
    signed: bool = True
    smallest: int | None = None

    def __post_init__(self) -> None:
        _check_margin(self.margin)


@dataclass(frozen=True)
class Conditional:
    """The published conditional audit (Theorem 5.1, Algorithms 1 and 9 with errata B3, B4, B13, B14).

    Attributes
    ----------
    aware : whether guesses are ranked by their expected success after tampering, or by the score alone
    signed : tamper with T lambda (statistics.md, section 7), or with the paper's |lambda|
    margin, smallest : as in :class:`PoissonBinomial`
    """

    aware: bool = False
    signed: bool = False
    margin: float | None = None
    smallest: int | None = None

    def __post_init__(self) -> None:
        _check_margin(self.margin)


@dataclass(frozen=True, eq=False)
class Composition:
    """The published composition audits (Algorithms 6 and 7 with Eq. 5; errata B1, B2, B12).

    Attributes
    ----------
    eta, delta_ds : propensities lie within [eta, 1 - eta] but for probability delta_ds, in equally many of both classes
    closeness : c, where non-members came from a generator that was fitted on other members: densities within e^c
    sample : (log-odds (k,), member (k,) of bool), a propensity sample to choose eta on; its records are not audited
    share : without any of these, that share of the records is set aside at random to choose eta on
    spend : share of the error probability for the upper limit on delta_DS then (Proposition 2)
    half_width : how far the log-odds may be off that eta is chosen on, as in :class:`Thinning`; None of a sample: 0
    """

    eta: float | None = None
    delta_ds: float = 0.0
    closeness: float | None = None
    sample: tuple[ArrayLike, ArrayLike] | None = None
    share: float = 0.2
    spend: float = 0.1
    half_width: Any = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.eta, self.closeness, self.sample)) > 1:
            raise InputError("composition", "one of eta, closeness and sample", "several", "say how close in one way")
        self.stated()
        for name in ("share", "spend"):
            if not (isinstance(getattr(self, name), int | float) and 0 < getattr(self, name) < 1):
                raise InputError(name, "a number strictly between 0 and 1", repr(getattr(self, name)), "0.2 is usual")

    def stated(self) -> Shift | None:
        """Return the shift that was stated, or None where it has to be estimated."""
        if self.closeness is not None:
            return Shift.of_closeness(self.closeness)
        if self.eta is not None:
            return Shift.of_overlap(self.eta, self.delta_ds)
        Shift.of_overlap(0.5, self.delta_ds)
        return None


@dataclass(frozen=True)
class Sides:
    """Algorithm 5 with k+ and k- explicit: guess "member" at the highest scores and "non-member" at the lowest.

    Attributes
    ----------
    members, nonmembers : numbers of guesses, 0 or more, not both 0
    """

    members: int
    nonmembers: int

    def __post_init__(self) -> None:
        for name in ("members", "nonmembers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(name, "a whole number from 0 up", repr(value), "how many such guesses?")
        if self.members + self.nonmembers < 1:
            raise InputError("members", "at least one guess in all", "none", "guess for some")


@dataclass(frozen=True)
class OwnCorrection(ABC):
    """A correction of another package: a class derived from this one, at an entry point of ``miaudit.corrections``.

    Attributes
    ----------
    margin : how far the log-odds may be off, as the auditor stated it; None where nothing was stated
    """

    margin: float | None = None

    @abstractmethod
    def lower_bound(self, job: Any, records: Any) -> LowerBound:
        """Bound the parameter of a job from below on records: a Job and Records of :mod:`miaudit.dp.zero_run.audit`."""


Correction = Thinning | PoissonBinomial | Conditional | Composition | OwnCorrection
_PURE = "poisson-binomial"  # of pure epsilon only
CORRECTIONS: Offered[Callable[[], Correction]] = Offered(
    "miaudit.corrections", type, {"thinning": Thinning, "conditional": Conditional, "composition": Composition}
)


def correction_of(chosen: Any) -> Correction:
    """Return the record that is meant: itself, or the default of its name.

    Raises
    ------
    InputError
        For an unknown name, or a value of another type.
    """
    if isinstance(chosen, str):
        if chosen == _PURE:
            return PoissonBinomial()
        if chosen not in CORRECTIONS:
            first, *others = CORRECTIONS
            names = (first, _PURE, *others)
            hint = nearest(chosen, names) or 'the default is "thinning"'
            raise InputError("correction", ", ".join(f'"{name}"' for name in names), repr(chosen), hint)
        return CORRECTIONS[chosen]()
    if isinstance(chosen, Correction):
        return chosen
    allowed = "Thinning, PoissonBinomial, Conditional, Composition, or one of their names"
    raise InputError("correction", allowed, repr(chosen), 'the default is "thinning"')


def stated(chosen: str | Correction, margin: float | None) -> Correction:
    """Return a correction with the margin on the log-odds that an auditor stated, where it has none of its own.

    Examples
    --------
    >>> stated("thinning", 0.2).half_width, stated(PoissonBinomial(margin=0.3), 0.2).margin
    (0.2, 0.3)
    """
    option = correction_of(chosen)
    if margin is None:
        return option
    match option:
        case Thinning() | Composition() if option.half_width is None:
            return replace(option, half_width=margin)
        case PoissonBinomial() | Conditional() | OwnCorrection() if option.margin is None:
            return replace(option, margin=margin)
    return option


def _check_margin(margin: Any) -> None:
    if margin is None:
        return
    if isinstance(margin, bool | str) or not (margin >= 0 and math.isfinite(margin)):
        raise InputError(
            "margin", "a finite number, 0 or more", repr(margin), "0.1 is the default for learned log-odds"
        )
