"""Is this DP-SGD right? An audit of what its steps release, next to what the accountant says of them.

Canary gradients have one coordinate each, and the norm of the clip or more. A fair coin decides for each canary whether
it is among the training records; those that are join batches by the mechanism's own sampling, are clipped by it and get
its noise. What a step releases at a canary's coordinate is the evidence, as for an attacker who sees every released sum
(white box). The attacker of differential privacy may choose the gradients of a record anew in each step: here their
sign alternates, which costs nothing against fresh noise and cancels noise that is not fresh.

What is tested is the mechanism's own trade-off function, by the one-run test of Mahloujifar et al.
(experiments/methods.md, sections 5 and 7). Whatever the implementation does, one that keeps the claim is refuted in at
most 1 - confidence of the audits. :mod:`miaudit.models.step_canaries` puts the canaries into
a PyTorch training; from anywhere else an array of released sums will do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import bdtrik, ndtri

from miaudit.dp import accounting, one_run, several_runs
from miaudit.dp.mechanism import Mechanism
from miaudit.dp.released_steps import (
    AgainstRerun,
    Released,
    SameBatch,
    Sampled,
    Statistic,
    Steps,
    Summed,
    check_sampling,
    evidence,
    strange_noise,
)
from miaudit.dp.schedule import gaussian_accuracy
from miaudit.dp.selection import numbers_of
from miaudit.dp.tradeoff import TradeOff
from miaudit.dp.verdict import LowerBound, UpperBound
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence
from miaudit.evidence import Evidence

__all__ = [
    "AgainstRerun",
    "Released",
    "SameBatch",
    "Sampled",
    "Statistic",
    "StepAudit",
    "Steps",
    "Summed",
    "audit",
    "check_sampling",
    "evidence",
    "strange_noise",
]

_USUAL = 0.8  # of the level, for the first statistic; the others share the rest
_TYPICAL = 0.05  # false-positive rate at which a claim that has no mu is likened to one
_SHARES = tuple(np.geomspace(0.0025, 1.0, 25).tolist())  # numbers of guesses that are considered, as shares of canaries
_ROOM = (0.2, 1.0)  # of the level, to which guesses without errors should refute the claim
_STRONGEST = 16.0  # mu of an attack without errors, in practice


@dataclass(frozen=True)
class StepAudit:
    """What steps showed of their privacy, next to what the accountant says.

    Attributes
    ----------
    lower : lower bound on mu, from all runs
    upper : the accountant's upper bound on epsilon at delta, of the claimed mechanism
    claimed_mu : mu of the claim: exact where every record is in every step, else the mu whose ROC curve meets the
        claim's at a false-positive rate of 5%
    p_value : of the claimed mechanism, its whole trade-off function, in (0, 1]
    refuted : whether it is at most 1 - confidence
    strange : where the noise is not as described, in sentences (:func:`strange_noise`), of each run
    noise_seen : standard deviation of what was released where no canary was, in multiples of the claimed noise
    testable : whether an attack without errors could have refuted the claim by so much evidence
    of_statistics : p-value of the claim by each statistic, before the level was shared between them
    """

    lower: LowerBound
    upper: UpperBound
    claimed_mu: float
    p_value: float
    refuted: bool
    strange: tuple[str, ...]
    noise_seen: float
    testable: bool
    steps: int
    canaries: int
    runs: int
    of_statistics: tuple[tuple[str, float], ...]

    @property
    def share(self) -> float:
        """Lower bound over claim, in mu; above 1 where the claim is refuted."""
        return self.lower.value / self.claimed_mu

    @property
    def exit_code(self) -> int:
        """0 not refuted; 3 refuted, or other noise than was described; 4 too little evidence to refute."""
        if self.refuted or self.strange:
            return 3
        return 0 if self.testable else 4

    def __str__(self) -> str:
        verdict = {
            0: "Not refuted:",
            3: "Concern: not refuted, but not as described:",
            4: "Not answered (not testable): so little evidence could not have refuted",
        }
        if self.refuted:
            verdict[3] = "Concern: refuted. These steps are not"
        more = "Even guesses without errors would not have refuted it: take more runs. "
        size = f"{self.steps:,} steps, {self.canaries:,} canaries, {self.runs} run{'s' * (self.runs > 1)}"
        return (
            f"{verdict[self.exit_code]} {self.upper.mechanism} (p = {self.p_value:.2g}; {size}).\n"
            f"Shown with {100 * self.lower.confidence:.6g}% confidence: mu of at least {self.lower.value:.3f}, "
            f"{100 * self.share:.0f}% of the claim's {self.claimed_mu:.3f}. "
            f"The accountant: epsilon at most {self.upper.value:.3f} at delta {self.upper.delta:g}.\n"
            f"Noise: {self.noise_seen:.3g} times what is claimed. "
            + (f"NOT AS DESCRIBED: {'; '.join(self.strange)}. " if self.strange else "")
            + (more if self.exit_code == 4 else "")
            + "What is not refuted is not proved."
        )


def audit(
    runs: Released | Sequence[Released],
    mechanism: Mechanism | Mapping[str, Any],
    *,
    statistics: Sequence[Statistic] = (),
    delta: float = 1e-5,
    confidence: float = 0.95,
    at_least: int | None = None,
    sampling: bool = True,
    rng: np.random.Generator,
) -> StepAudit:
    """Test whether released steps keep the guarantee that is claimed for them.

    Parameters
    ----------
    runs : what one training released, or several of the same, each with coins, noise and batches of its own
    mechanism : DP-SGD as claimed, as of :meth:`Steps.of`
    statistics : what the attacker computes, fixed before looking
        The first has four fifths of the level, the others share the rest. By default :class:`Sampled`;
        where records are sampled :class:`Summed`, and from two epochs :class:`SameBatch`; and :class:`AgainstRerun`
        where every run has ``again``.
    delta : in (0, 1), at which the accountant's epsilon is stated
    confidence : in (0, 1), one-sided
    at_least : of several runs, how many have to refute, as of :class:`miaudit.dp.several_runs.AtLeast`
    sampling : whether to refuse batches that are not drawn as claimed (:func:`check_sampling`)
    rng : draws ties, and canaries left out for balance

    Raises
    ------
    InputError
        For runs that are not independent or differ in size or number of steps, steps in other number than claimed, and
        sampling that contradicts the claim.

    Notes
    -----
    The number of guesses is the best one for steps that are just as claimed, and so fixed before any run.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> from miaudit.dp.mechanism import GaussianNoise, Repeated
    >>> claim = Repeated(GaussianNoise(4.0), 16)
    >>> def train(noise):
    ...     coins = rng.random(1_000) < 0.5
    ...     return Released(coins + noise * rng.normal(size=(16, 1_000)), coins)
    >>> audit([train(4.0) for _ in range(4)], claim, rng=rng).refuted
    False
    >>> audit([train(1.0) for _ in range(4)], claim, rng=rng).refuted
    True
    """
    releases = [runs] if isinstance(runs, Released) else list(runs)
    check_confidence(confidence)
    steps = Steps.of(mechanism)
    _check_runs(releases, steps)
    if sampling:
        for run in releases:
            check_sampling(run, steps)
    claim = _Claim.of(mechanism)
    chosen = tuple(statistics) or _usual(releases, steps)
    tests: list[_Test] = []
    for statistic, child in zip(chosen, rng.spawn(len(chosen)), strict=True):
        share = _share(len(tests), len(chosen))
        observed = [evidence(run, mechanism, statistic=statistic) for run in releases]
        tests.append(_test(observed, claim, share, 1 - share * (1 - confidence), at_least, child))
    p_value = min(1.0, *(test.p_value / test.share for test in tests))
    return StepAudit(
        lower=_best(tests, confidence),
        upper=accounting.upper_bound(mechanism, delta=delta),
        claimed_mu=claim.mu,
        p_value=p_value,
        refuted=p_value <= 1 - confidence,
        strange=tuple(dict.fromkeys(text for run in releases for text in strange_noise(run, steps))),
        noise_seen=_spread(releases) / steps.noise,
        testable=min(test.least / test.share for test in tests) <= 1 - confidence,
        steps=steps.count,
        canaries=len(releases[0].coins),
        runs=len(releases),
        of_statistics=tuple((str(one), test.p_value) for one, test in zip(chosen, tests, strict=True)),
    )


@dataclass(frozen=True, eq=False)
class _Claim:
    """The claimed trade-off function, and the mu that it is likened to (``StepAudit.claimed_mu``)."""

    curve: TradeOff
    mu: float

    @classmethod
    def of(cls, mechanism: Mechanism | Mapping[str, Any]) -> _Claim:
        curve = accounting.tradeoff(mechanism)
        return cls(curve, float(ndtri(1 - _TYPICAL) - ndtri(max(curve(_TYPICAL), 1e-300))))


@dataclass(frozen=True)
class _Test:
    """What one statistic showed of all runs.

    Attributes
    ----------
    share : of the level, that the statistic has
    lower : lower bound on mu, at this share of the level
    p_value : of the claim, as if the statistic had the whole level
    least : what ``p_value`` would be if no guess was wrong
    """

    share: float
    lower: LowerBound
    p_value: float
    least: float


def _test(
    runs: Sequence[Evidence],
    claim: _Claim,
    share: float,
    confidence: float,
    at_least: int | None,
    rng: np.random.Generator,
) -> _Test:
    """Test the claim by one statistic, whose confidence is that of its share of the level."""
    each = several_runs.level(len(runs), at_least=at_least, confidence=confidence)
    needed = several_runs.AtLeast(at_least).of(len(runs))
    guesses = _guesses(claim.curve, claim.mu, runs[0].n, 1 - each, luck=1 - needed / (len(runs) + 1))
    bounds = several_runs.of_each(runs, guesses=guesses, confidence=confidence, at_least=at_least, rng=rng)
    p_values, least = [], []
    for bound in bounds:
        assert bound.correct is not None and bound.guesses is not None and bound.canaries is not None  # noqa: S101 - from counts
        canaries = math.ceil(bound.canaries)
        p_values.append(_p_value(claim.curve, bound.correct, bound.guesses, canaries))
        least.append(_p_value(claim.curve, bound.guesses, bound.guesses, canaries))
    return _Test(
        share=share,
        lower=several_runs.combined(bounds, confidence=confidence, at_least=at_least) if len(runs) > 1 else bounds[0],
        p_value=several_runs.p_value(p_values, at_least=at_least),
        least=several_runs.p_value(least, at_least=at_least),
    )


def _best(tests: Sequence[_Test], confidence: float) -> LowerBound:
    """Return the largest lower bound, with the correction for several statistics."""
    best = max((test.lower for test in tests), key=lambda bound: bound.value)
    if len(tests) == 1:
        return best
    correction = f"{len(tests)} statistics; the first at {_USUAL:g} of the level, the others share the rest"
    return replace(best, confidence=confidence, corrections=(*best.corrections, correction))


def _spread(runs: Sequence[Released]) -> float:
    """Return the standard deviation of what all runs released where no canary was."""
    return math.sqrt(float(np.mean([(run.sums[:, ~run.coins] ** 2).mean() for run in runs])))


@lru_cache(maxsize=4_096)
def _p_value(claim: TradeOff, correct: int, guesses: int, canaries: int) -> float:
    return one_run.p_value(claim, correct=correct, guesses=guesses, canaries=canaries)


@lru_cache(maxsize=256)
def _guesses(claim: TradeOff, mu: float, canaries: int, confidence: float, *, luck: float) -> int:
    """Return the number of guesses whose bound is largest for steps that are just as claimed; looks at no run.

    Only numbers count that could refute the claim if all guesses were right, with some room, if there are any. Where
    steps as claimed would show nothing, it is the best for the weakest leak, in doublings, that would.
    ``luck`` is the quantile of the number of right guesses that counts: of several runs it is the last to refute.
    """

    def bound(guesses: int, right: int) -> float:
        return one_run.mu_lower_bound(correct=right, guesses=guesses, canaries=canaries, confidence=confidence).value

    def shown(guesses: int) -> float:
        right = bdtrik(luck, guesses, gaussian_accuracy(strength, guesses / canaries))
        return bound(guesses, math.floor(min(guesses, max(0.0, right))))

    def able(room: float) -> list[int]:
        level = room * (1 - confidence)
        return [
            one for one in tried if one_run.rejects(claim, correct=one, guesses=one, canaries=canaries, level=level)
        ]

    tried = sorted(set(numbers_of(_SHARES, canaries)))
    candidates = next(filter(None, (able(room) for room in _ROOM)), tried)
    strength = mu
    while not any(map(shown, candidates)) and strength < _STRONGEST:
        strength *= 2
    return int(max(candidates, key=shown))


def _usual(runs: Sequence[Released], steps: Steps) -> tuple[Statistic, ...]:
    usual: list[Statistic] = [Sampled()]
    if steps.rate < 1:
        usual.append(Summed())
        if steps.count >= 2 * round(1 / steps.rate):
            usual.append(SameBatch())
    if all(run.again is not None for run in runs):
        usual.append(AgainstRerun())
    return tuple(usual)


def _share(place: int, several: int) -> float:
    if several == 1:
        return 1.0
    return _USUAL if place == 0 else (1 - _USUAL) / (several - 1)


def _check_runs(runs: Sequence[Released], steps: Steps) -> None:
    if not runs or not all(isinstance(run, Released) for run in runs):
        raise InputError("runs", "what at least one training released", repr(runs)[:60], "pass Released(sums, coins)")
    for number, run in enumerate(runs, start=1):
        if len(run.sums) != steps.count:
            received = f"{len(run.sums):,} in run {number}"
            hint = "claim as many steps as were taken; a step that released nothing is one too"
            raise InputError("steps", f"the {steps.count:,} steps of the claim", received, hint)
