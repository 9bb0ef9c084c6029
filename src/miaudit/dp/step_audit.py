"""Is this DP-SGD right? An audit of what its steps release, next to what the accountant says of them.

Canary gradients have one coordinate each, and the norm of the clip or more. A fair coin decides for each canary whether
it is among the training records; those that are join batches by the mechanism's own sampling, are clipped by it and get
its noise. What a step releases at a canary's coordinate is the evidence, as for an attacker who sees every released sum
(white box). The attacker of differential privacy may choose the gradients of a record anew in each step: here their
sign alternates, which costs nothing against fresh noise and cancels noise that is not fresh.

What is tested is the mechanism's own trade-off function, by the one-run test of Mahloujifar et al. (statistics.md,
sections 9 and 11): whatever the implementation does, one that keeps the claim is refuted in at most 1 - confidence of
the audits. :mod:`miaudit.models.step_canaries` puts the canaries into a PyTorch training; from anywhere else an array
of released sums will do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrik, betainc, gammainc, gammaincc, logsumexp, ndtri

from miaudit.arrays import BoolArray, FloatArray
from miaudit.dp import accounting, one_run, several_runs
from miaudit.dp.mechanism import GaussianNoise, Mechanism, PoissonSubsampled, Repeated, check_mechanism, from_mapping
from miaudit.dp.selection import gaussian_accuracy
from miaudit.dp.tradeoff import TradeOff
from miaudit.dp.verdict import LowerBound, UpperBound
from miaudit.errors import InputError, check_confidence
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
_CONTRADICTED = 1e-6  # probability under the claimed sampling below which it is refused
_MOST_COMPARED = 1_000  # steps whose noise is compared with each other's
_FEWEST_COMPARED = 20  # canaries that were left out, for that
_SILENT = 1e-12  # spread of released sums, in units of the clip, below which nothing was released


@dataclass(frozen=True)
class Steps:
    """What a claim says of each step.

    Attributes
    ----------
    rate : probability with which a record joins a batch, in (0, 1]
    noise : standard deviation of the noise on the sum, in units of the clipping norm
    count : number of steps
    """

    rate: float
    noise: float
    count: int

    @classmethod
    def of(cls, mechanism: Mechanism | Mapping[str, Any]) -> Steps:
        """Read them from a description of DP-SGD, sampled or with all records in each step.

        Examples
        --------
        >>> Steps.of(accounting.dp_sgd(records=1_000, batch=100, noise=1.5, steps=40))
        Steps(rate=0.1, noise=1.5, count=40)
        """
        described = from_mapping(mechanism) if isinstance(mechanism, Mapping) else check_mechanism(mechanism)
        match described:
            case Repeated(PoissonSubsampled(GaussianNoise(noise), rate), times):
                return cls(rate, noise, times)
            case Repeated(GaussianNoise(noise), times):
                return cls(1.0, noise, times)
        hint = "describe the training by accounting.dp_sgd(records=, batch=, noise=, steps=)"
        raise InputError("mechanism", "steps of DP-SGD: Gaussian noise, sampled or not, repeated", str(described), hint)


@dataclass(frozen=True, eq=False)
class Released:
    """What the steps of one training released at the canaries' coordinates.

    Attributes
    ----------
    sums : floats (T, m), released sums in units of the clipping norm
        With the sign that the canary's gradient had in that step, so that a canary in a batch adds 1.
    coins : bools (m,), whether each canary was among the training records; tossed for this training alone
    joined : bools (T, m), which canaries were in which batch, if that was seen; for :func:`check_sampling`
    again : floats (T, m), what a second training released that began in the same way, without any canary, optional
        An attacker who knows the seeds can make it; it serves :class:`AgainstRerun`.

    Raises
    ------
    InputError
        For arrays that do not fit together, canaries on one side only, sums that are not finite, and steps that
        release nothing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(500) < 0.5
    >>> Released(coins + rng.normal(size=(20, 500)), coins)
    Released(20 steps, 500 canaries, 246 of them in the training)
    """

    sums: FloatArray
    coins: BoolArray
    joined: BoolArray | None = None
    again: FloatArray | None = None

    def __post_init__(self) -> None:
        coins = _coins(self.coins)
        object.__setattr__(self, "coins", coins)
        for name in ("sums", "again"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _sums(name, given, len(coins)))
        for name in ("again", "joined"):
            given = getattr(self, name)
            if given is not None and np.shape(given) != self.sums.shape:
                received = f"shape {np.shape(given)}"
                raise InputError(name, f"an array of shape {self.sums.shape}", received, "one row for each step")
        if float(self.sums.std()) < _SILENT:
            hint = "does the step hand on its gradient, and did the canaries reach the model?"
            raise InputError("sums", "sums that steps released", "the same number everywhere", hint)

    def __repr__(self) -> str:
        steps, m = self.sums.shape
        return f"Released({steps:,} steps, {m:,} canaries, {int(self.coins.sum()):,} of them in the training)"


# -- what the attacker makes of the released sums ----------------------------------------------------------------------


@dataclass(frozen=True)
class Sampled:
    """Log-likelihood ratio of "in the training" where each step draws its batch anew: the best for a correct step."""

    def scores(self, run: Released, steps: Steps) -> FloatArray:
        """Return scores (m,)."""
        return np.asarray(_log_ratios(run.sums, steps.rate, steps.noise).sum(0))


@dataclass(frozen=True)
class Summed:
    """Plain sum of what was released; noise that is drawn once and used again cancels in it."""

    def scores(self, run: Released, steps: Steps) -> FloatArray:  # noqa: ARG002 - as the others
        """Return scores (m,)."""
        return np.asarray(run.sums.sum(0))


@dataclass(frozen=True)
class SameBatch:
    """The same where a record is in every ``period``-th batch, and in no other, whichever it is of the period.

    For batches that are drawn once and used in each epoch, though the claim says they are drawn anew.

    Parameters
    ----------
    period : steps of an epoch, 1 or more; None: 1 / rate, rounded
    """

    period: int | None = None

    def scores(self, run: Released, steps: Steps) -> FloatArray:
        """Return scores (m,)."""
        period = self.period or max(1, round(1 / steps.rate))
        whole = len(run.sums) // period * period
        if not whole:
            received = f"{len(run.sums)} steps"
            raise InputError("period", f"at most the steps, for a period of {period}", received, "take more steps")
        surely = _log_ratios(run.sums[:whole], 1.0, steps.noise).reshape(-1, period, run.sums.shape[1]).sum(0)
        return np.asarray(logsumexp(surely, axis=0))


@dataclass(frozen=True)
class AgainstRerun:
    """As :class:`Sampled`, of the difference to a training that began in the same way and that no canary joined.

    Noise whose seed is known cancels; fresh noise doubles its variance.
    """

    def scores(self, run: Released, steps: Steps) -> FloatArray:
        """Return scores (m,)."""
        if run.again is None:
            hint = "train again from the same seeds, with coins that are all False"
            raise InputError("again", "what a second training released", "none", hint)
        return np.asarray(_log_ratios(run.sums - run.again, steps.rate, steps.noise * math.sqrt(2)).sum(0))


Statistic = Sampled | Summed | SameBatch | AgainstRerun


def evidence(run: Released, mechanism: Mechanism | Mapping[str, Any], *, statistic: Statistic = Sampled()) -> Evidence:
    """Return the canaries of one training as evidence of design "one-run", for ``miaudit audit`` too.

    Parameters
    ----------
    run : what was released
    mechanism : DP-SGD as claimed, as of :meth:`Steps.of`; it decides how scores are made, not whether they are valid
    statistic : how

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(500) < 0.5
    >>> run = Released(coins + rng.normal(size=(20, 500)), coins)
    >>> evidence(run, Repeated(GaussianNoise(1.0), 20))
    Evidence(246 members, 254 non-members, score: score, design: one-run)
    """
    scores = statistic.scores(run, Steps.of(mechanism))
    return Evidence(score=scores, member=run.coins, design="one-run")


def check_sampling(run: Released, steps: Steps) -> None:
    """Refuse a training whose batches are not drawn as claimed: each record with the same chance, step by step anew.

    How often each canary joined, and how many did in each step, are compared with binomial counts, at a probability of
    one in a million each.

    Raises
    ------
    InputError
        If they do not fit, or a canary joined that the coins left out.
    """
    if run.joined is None:
        return
    seen = np.asarray(run.joined, dtype=bool)
    if seen[:, ~run.coins].any():
        received = f"{int(seen[:, ~run.coins].any(0).sum()):,} that were in batches"
        raise InputError("coins", "canaries left out by the coins to stay out", received, "train on the given records")
    seen = seen[:, run.coins]
    for counts, trials, what in (
        (seen.sum(), seen.size, "canaries in all batches"),
        (seen.sum(0), seen.shape[0], "batches that each canary is in"),
        (seen.sum(1), seen.shape[1], "canaries in each batch"),
    ):
        found = np.atleast_1d(counts)
        p = _binomial_fit(found, trials, steps.rate)
        if p < _CONTRADICTED:
            expected = f"{trials * steps.rate:.4g} with a spread of {_spread(trials, steps.rate):.3g}"
            received = f"{found.mean():.4g} with a spread of {found.std():.3g}" if len(found) > 1 else f"{found[0]:,}"
            hint = "claim the sampling that was done; shuffled or fixed batches are no Poisson samples"
            raise InputError("sampling", f"{what}: {expected}", received, hint)


def strange_noise(run: Released, steps: Steps) -> tuple[str, ...]:
    """Say where the noise is not as described: Gaussian of the claimed deviation, drawn anew in each step.

    It is looked at where no canary was. This is no test of a guarantee, which other noise could keep too, but of the
    description that the accountant was given; each of the three tests errs once in a million.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(200) < 0.5
    >>> once = rng.normal(size=200)
    >>> strange_noise(Released(coins + np.stack([once, -once]), coins), Steps(1.0, 1.0, 2))
    ('the noise of steps 1 and 2 has a correlation of -1.00: it is not drawn anew',)
    """
    noise = run.sums[:, ~run.coins] / steps.noise
    each = (noise**2).sum(1)
    said = []
    least = int(each.argmin())
    if gammainc(noise.size / 2, each.sum() / 2) < _CONTRADICTED:
        said.append(f"the noise is {math.sqrt(each.mean() / noise.shape[1]):.3g} times what is claimed")
    elif len(each) * gammainc(noise.shape[1] / 2, each[least] / 2) < _CONTRADICTED:
        found = math.sqrt(each[least] / noise.shape[1])
        said.append(f"the noise of step {least + 1:,} is {found:.3g} times what is claimed")
    alike = _alike(noise[:_MOST_COMPARED])
    if alike is not None:
        said.append(alike)
    return tuple(said)


def _alike(noise: FloatArray) -> str | None:
    """Name the two steps (T, k) whose noise is most alike, if independent noise could not be."""
    size = np.linalg.norm(noise, axis=1)
    if len(noise) < 2 or noise.shape[1] < _FEWEST_COMPARED or not size.all():
        return None
    products = (noise @ noise.T) / np.outer(size, size)
    np.fill_diagonal(products, 0)
    one, other = sorted(int(i) for i in np.unravel_index(np.abs(products).argmax(), products.shape))
    found = float(products[one, other])
    p = len(noise) * (len(noise) - 1) / 2 * betainc((noise.shape[1] - 1) / 2, 0.5, max(0.0, 1 - found**2))
    if p >= _CONTRADICTED:
        return None
    return f"the noise of steps {one + 1:,} and {other + 1:,} has a correlation of {found:.2f}: it is not drawn anew"


# -- the audit ---------------------------------------------------------------------------------------------------------


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
        """0 no concern; 3 refuted, or other noise than was described; 4 so much evidence could not have refuted it."""
        if self.refuted or self.strange:
            return 3
        return 0 if self.testable else 4

    def __str__(self) -> str:
        verdict = {0: "Not refuted:", 3: "Not refuted, but not as described:", 4: "NOT TESTABLE by so little:"}
        if self.refuted:
            verdict[3] = "REFUTED: these steps are not"
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
    MiauditError
        If the mechanism needs ``dp-accounting`` and it is not installed.

    Notes
    -----
    The number of guesses is the best one for steps that are just as claimed, and so fixed before any run.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> claim = Repeated(GaussianNoise(4.0), 16)
    >>> def train(noise):
    ...     coins = rng.random(1_000) < 0.5
    ...     return Released(coins + noise * rng.normal(size=(16, 1_000)), coins)
    >>> audit([train(4.0) for _ in range(4)], claim, rng=rng).refuted
    False
    >>> audit([train(1.0) for _ in range(4)], claim, rng=rng).refuted
    True
    """
    given = [runs] if isinstance(runs, Released) else list(runs)
    check_confidence(confidence)
    steps = Steps.of(mechanism)
    _check_runs(given, steps)
    if sampling:
        for run in given:
            check_sampling(run, steps)
    claim = accounting.tradeoff(mechanism)
    upper = accounting.upper_bound(mechanism, delta=delta)
    mu = float(ndtri(1 - _TYPICAL) - ndtri(max(claim(_TYPICAL), 1e-300)))
    asked = tuple(statistics) or _usual(given, steps)
    found: list[tuple[float, LowerBound, float, float]] = []
    for statistic, child in zip(asked, rng.spawn(len(asked)), strict=True):
        share = _share(len(found), len(asked))
        tried = [evidence(run, mechanism, statistic=statistic) for run in given]
        level = share * (1 - confidence)
        lower, p, least = _tested(tried, claim, mu, 1 - level, at_least, child)
        found.append((p / share, lower, p, least / share))
    best = max((lower for _, lower, _, _ in found), key=lambda bound: bound.value)
    if len(asked) > 1:
        paid = f"{len(asked)} statistics; the first at {_USUAL:g} of the level, the others share the rest"
        best = replace(best, confidence=confidence, corrections=(*best.corrections, paid))
    p_value = min(1.0, *(paid for paid, _, _, _ in found))
    spread = math.sqrt(float(np.mean([(run.sums[:, ~run.coins] ** 2).mean() for run in given])))
    return StepAudit(
        best,
        upper,
        mu,
        p_value,
        p_value <= 1 - confidence,
        tuple(dict.fromkeys(text for run in given for text in strange_noise(run, steps))),
        spread / steps.noise,
        min(least for _, _, _, least in found) <= 1 - confidence,
        steps.count,
        len(given[0].coins),
        len(given),
        tuple((str(one), p) for one, (_, _, p, _) in zip(asked, found, strict=True)),
    )


def _tested(
    runs: Sequence[Evidence],
    claim: TradeOff,
    mu: float,
    confidence: float,
    at_least: int | None,
    rng: np.random.Generator,
) -> tuple[LowerBound, float, float]:
    """Return the lower bound on mu, the p-value of the claim, and that of guesses without errors, by one statistic."""
    each = several_runs.level(len(runs), at_least=at_least, confidence=confidence)
    needed = several_runs.AtLeast(at_least).of(len(runs))
    guesses = _guesses(claim, mu, runs[0].n, 1 - each, luck=1 - needed / (len(runs) + 1))
    bounds = several_runs.of_each(runs, guesses=guesses, confidence=confidence, at_least=at_least, rng=rng)
    p_values, least = [], []
    for bound in bounds:
        assert bound.correct is not None and bound.guesses is not None and bound.canaries is not None  # noqa: S101 - from counts
        counts = {"correct": bound.correct, "guesses": bound.guesses, "canaries": math.ceil(bound.canaries)}
        p_values.append(one_run.p_value(claim, **counts))
        least.append(one_run.p_value(claim, **{**counts, "correct": bound.guesses}))
    lower = several_runs.combined(bounds, confidence=confidence, at_least=at_least) if len(runs) > 1 else bounds[0]
    return lower, *(several_runs.p_value(values, at_least=at_least) for values in (p_values, least))


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
        counts = [{"correct": one, "guesses": one, "canaries": canaries} for one in tried]
        return [each["guesses"] for each in counts if one_run.rejects(claim, **each, level=room * (1 - confidence))]

    tried = sorted({max(1, round(share * canaries)) for share in _SHARES})
    candidates = next(filter(None, (able(room) for room in _ROOM)), tried)
    strength = mu
    while not any(map(shown, candidates)) and strength < _STRONGEST:
        strength *= 2
    return int(max(candidates, key=shown))


def _usual(runs: Sequence[Released], steps: Steps) -> tuple[Statistic, ...]:
    found: list[Statistic] = [Sampled()]
    if steps.rate < 1:
        found.append(Summed())
    if steps.rate < 1 and steps.count >= 2 * round(1 / steps.rate):
        found.append(SameBatch())
    if all(run.again is not None for run in runs):
        found.append(AgainstRerun())
    return tuple(found)


def _share(place: int, several: int) -> float:
    if several == 1:
        return 1.0
    return _USUAL if place == 0 else (1 - _USUAL) / (several - 1)


# -- parts -------------------------------------------------------------------------------------------------------------


def _log_ratios(sums: FloatArray, rate: float, noise: float) -> FloatArray:
    """Log-likelihood ratios (T, m) of "joined with probability ``rate``, and added 1" against "was not there"."""
    surely = (sums - 0.5) / noise**2
    if rate == 1:
        return surely
    return np.logaddexp(math.log1p(-rate), math.log(rate) + surely)


def _binomial_fit(counts: FloatArray, trials: int, rate: float) -> float:
    """Two-sided p-value of counts (k,) as independent Bin(trials, rate): of one its tail, of several their spread."""
    if len(counts) == 1 or rate == 1:
        k = float(counts.sum())
        n = float(trials * len(counts))
        if rate == 1:
            return float(k == n)
        above = betainc(k, n - k + 1, rate) if k > 0 else 1.0
        below = betainc(n - k, k + 1, 1 - rate) if k < n else 1.0
        return float(min(1.0, 2 * min(above, below)))
    spread = float(((counts - trials * rate) ** 2).sum()) / (trials * rate * (1 - rate))
    half = len(counts) / 2
    return float(2 * min(gammaincc(half, spread / 2), gammainc(half, spread / 2)))


def _spread(trials: int, rate: float) -> float:
    return math.sqrt(trials * rate * (1 - rate))


def _check_runs(runs: Sequence[Released], steps: Steps) -> None:
    if not runs or not all(isinstance(run, Released) for run in runs):
        raise InputError("runs", "what at least one training released", repr(runs)[:60], "pass Released(sums, coins)")
    for number, run in enumerate(runs, start=1):
        if len(run.sums) != steps.count:
            received = f"{len(run.sums):,} in run {number}"
            hint = "claim as many steps as were taken; a step that released nothing is one too"
            raise InputError("steps", f"the {steps.count:,} steps of the claim", received, hint)


def _coins(given: ArrayLike) -> BoolArray:
    coins = np.asarray(given)
    if coins.ndim != 1 or coins.dtype != np.bool_:
        received = f"shape {coins.shape} of type {coins.dtype}"
        raise InputError("coins", "an array (m,) of bool", received, "True: among the training records")
    if coins.all() or not coins.any():
        received = f"{int(coins.sum()):,} of {len(coins):,} in the training"
        raise InputError("coins", "canaries on both sides", received, "toss a fair coin for each of many canaries")
    return coins


def _sums(name: str, given: ArrayLike, canaries: int) -> FloatArray:
    sums = np.asarray(given, dtype=np.float64)
    if sums.ndim != 2 or sums.shape[1] != canaries or not len(sums):
        received, hint = f"shape {sums.shape}", "one row for each step, one column for each canary"
        raise InputError(name, f"released sums (T, {canaries})", received, hint)
    if not np.isfinite(sums).all():
        received = f"{int((~np.isfinite(sums)).sum()):,} that are not"
        raise InputError(name, "finite numbers", received, "did the training diverge?")
    return sums
