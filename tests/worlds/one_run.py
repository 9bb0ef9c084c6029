"""Worlds in which the privacy parameter is known exactly, for audits of one run; and bounds that are not valid there.

Each world draws fair coins and a score of each record. The score is all that the attack gets to see, and the parameters
are those of the mechanism that releases the scores: in closed form, or the supremum of one over a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from miaudit import Evidence
from miaudit.dp import one_run
from miaudit.dp.ranking import Ranking
from miaudit.dp.selection import Bonferroni, Exploratory, Fixed, Pilot, Schedule, choose, two_sided
from miaudit.dp.verdict import LowerBound

N = 1_000
LEVEL = 0.05
PHI, INVERSE_PHI = stats.norm.cdf, stats.norm.ppf
Draw = Callable[[np.random.Generator], tuple[NDArray[np.float64], NDArray[np.bool_]]]
Audit = Callable[["World", NDArray[np.float64], NDArray[np.bool_], np.random.Generator], LowerBound]


@dataclass(frozen=True)
class World:
    """A mechanism that releases one score per record, and one of its true parameters.

    Attributes
    ----------
    name : in words
    parameter, delta, truth : what is audited; ``truth`` is the smallest value for which the claim holds
    draw : from a generator to scores (N,) and membership (N,)
    guesses : of the option Fixed
    """

    name: str
    parameter: str
    truth: float
    draw: Draw
    delta: float = 0.0
    guesses: int = 100


@dataclass(frozen=True)
class Row:
    """How a procedure fared in a world, over so many audits."""

    world: str
    parameter: str
    procedure: str
    false_alarms: float
    mean: float
    truth: float
    audits: int

    @property
    def allowed(self) -> float:
        """The level and three standard errors."""
        return LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / self.audits)


# -- mechanisms -------------------------------------------------------------------------------------------------------


def coins(rng: np.random.Generator) -> NDArray[np.bool_]:
    return rng.random(N) < 0.5


def silent(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return rng.normal(size=N), coins(rng)


def additive(noise: Callable[..., NDArray[np.float64]], rng: np.random.Generator):
    member = coins(rng)
    return member + noise(rng, size=N), member


def randomised_response(rng: np.random.Generator, *, accuracy: float, released: float = 1.0, count: int = N):
    """With probability ``released`` the bits of a random subset, each right with probability ``accuracy``."""
    member, score = coins(rng), rng.normal(scale=1e-3, size=N)
    if rng.random() < released:
        rows = rng.permutation(N)[:count]
        score[rows] = np.where((rng.random(count) < accuracy) == member[rows], 1.0, -1.0)
    return score, member


# -- true parameters --------------------------------------------------------------------------------------------------


def mu_of_released_bits(accuracy: float, chance: float = 1.0) -> float:
    """Mu of a bit that is released with some chance, right with probability ``accuracy``.

    See experiments/methods.md, section 6.

    The trade-off function is piecewise linear, so the smallest Gaussian one below it touches it at a kink.
    """
    return float(INVERSE_PHI(chance * accuracy) - INVERSE_PHI(chance * (1 - accuracy)))


def epsilon_of_released_bits(accuracy: float, chance: float, delta: float) -> float:
    """Epsilon of the same: delta(eps) = chance (accuracy - e^eps (1 - accuracy))."""
    return max(0.0, math.log((accuracy - delta / chance) / (1 - accuracy))) if delta < chance * accuracy else 0.0


def mu_of_laplace(epsilon: float) -> float:
    alpha = np.linspace(1e-6, 0.5, 200_001)
    f = np.where(alpha < math.exp(-epsilon) / 2, 1 - math.exp(epsilon) * alpha, math.exp(-epsilon) / (4 * alpha))
    return float(np.max(INVERSE_PHI(1 - alpha) - INVERSE_PHI(np.minimum(f, 1 - alpha))))


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    def excess(e: float) -> float:
        return float(PHI(mu / 2 - e / mu) - math.exp(e) * PHI(-mu / 2 - e / mu)) - delta

    return float(optimize.brentq(excess, 0, 50))


ALL_OR_NOTHING = partial(randomised_response, accuracy=0.95, released=0.2)
SELDOM = partial(randomised_response, accuracy=0.95, released=0.04)  # where the f-DP test is least slack
HALF = partial(randomised_response, accuracy=0.8, released=0.2, count=500)
LEAK = partial(randomised_response, accuracy=1.0, released=0.1, count=100)
RARE_LEAK = partial(randomised_response, accuracy=1.0, released=0.01, count=100)
GAUSS = partial(additive, np.random.Generator.normal)
ONE = 1 / (1 + math.exp(-1))


def laplace(epsilon: float) -> Draw:
    return partial(additive, lambda rng, size: rng.laplace(scale=1 / epsilon, size=size))


WORLDS = (
    World("nothing leaks", "mu", 0.0, silent),
    World("nothing leaks", "epsilon", 0.0, silent),
    World("nothing leaks", "epsilon", 0.0, silent, delta=1e-4),
    World("randomised response", "epsilon", 1.0, partial(randomised_response, accuracy=ONE)),
    World("randomised response", "mu", mu_of_released_bits(ONE), partial(randomised_response, accuracy=ONE)),
    World("Laplace", "epsilon", 2.0, laplace(2.0)),
    World("Laplace", "mu", mu_of_laplace(2.0), laplace(2.0)),
    World("Gaussian", "mu", 1.0, GAUSS),
    World("Gaussian", "epsilon", epsilon_of_gaussian(1.0, 1e-4), GAUSS, delta=1e-4),
    World("all bits, chance 0.04", "mu", mu_of_released_bits(0.95, 0.04), SELDOM, guesses=N),
    World("bits of a random 500, chance 0.2", "mu", mu_of_released_bits(0.8, 0.2 * 0.5), HALF, guesses=500),
    World("all bits, chance 0.2", "mu", mu_of_released_bits(0.95, 0.2), ALL_OR_NOTHING, guesses=N),
    World("all bits, chance 0.2", "epsilon", epsilon_of_released_bits(0.95, 0.2, 0.18), ALL_OR_NOTHING, delta=0.18),
    World("100 bits of 1,000, chance 0.1", "epsilon", 0.0, LEAK, delta=0.01),
    World("100 bits of 1,000, chance 0.01", "epsilon", 0.0, RARE_LEAK, delta=0.001),
)


# -- procedures: valid, and not ---------------------------------------------------------------------------------------


def audited(option: object, world: World, score: NDArray[np.float64], member: NDArray[np.bool_], rng) -> LowerBound:
    evidence = Evidence(score=score, member=member, design="one-run")
    return one_run.audit(evidence, parameter=world.parameter, delta=world.delta, guesses=option, rng=rng)


def fixed(world: World, score: NDArray[np.float64], member: NDArray[np.bool_], rng) -> LowerBound:
    return audited(Fixed(world.guesses), world, score, member, rng)


VALID: dict[str, Audit] = {
    "fixed": fixed,
    "pilot": partial(audited, Pilot()),
    "Bonferroni": partial(audited, Bonferroni()),
    "schedule": partial(audited, Schedule()),
}
WIDE = tuple(np.geomspace(0.004, 1, 60).tolist())
WIDE_VALID: dict[str, Audit] = {
    "pilot, 60 candidates": partial(audited, Pilot(fractions=WIDE)),
    "Bonferroni, 60 candidates": partial(audited, Bonferroni(fractions=WIDE)),
    "schedule, 60 candidates": partial(audited, Schedule(fractions=WIDE)),
}


@cache
def independent_bound(correct: int, guesses: int, canaries: int, parameter: str) -> float:
    """Treat guesses as independent trials: Clopper-Pearson for their accuracy, read as rates of true and false alarm.

    The rates are shares of all records, since abstention counts as no alarm. No theorem supports it.
    """
    low = float(stats.beta.ppf(LEVEL, correct, guesses - correct + 1)) if correct else 0.0
    if low <= 0.5:
        return 0.0
    if parameter == "epsilon":
        return math.log(low / (1 - low))
    share = guesses / canaries
    return (
        float(INVERSE_PHI(share * low) - INVERSE_PHI(share * (1 - low))) if share < 1 else 2 * float(INVERSE_PHI(low))
    )


def independent(*, correct: int, guesses: int, canaries: float, confidence: float, parameter: str) -> LowerBound:
    value = independent_bound(correct, guesses, int(canaries), parameter)
    return LowerBound(parameter, value, confidence, "independent guesses", p_value=1.0, reachable=0.0)  # type: ignore[arg-type]


def clopper_pearson(world: World, score: NDArray[np.float64], member: NDArray[np.bool_], rng) -> LowerBound:
    """Guesses of the fixed number, as if they were independent."""
    bound = partial(independent, parameter=world.parameter)
    ranking = two_sided(Ranking.of(score), member, bound, rng=rng)
    return choose(Fixed(world.guesses), [ranking], confidence=1 - LEVEL, rng=rng)


def order_statistics(world: World, score: NDArray[np.float64], member: NDArray[np.bool_], rng) -> LowerBound:
    """The best over thresholds, records taken as independent and the sweep paid for (erratum B17)."""
    counts = (10, 20, 50, 100, 200)
    right = np.concatenate([[0], np.cumsum(member[np.argsort(-score)])])
    values = []
    for count in counts:  # (TPR - delta) / FPR at a threshold, by Clopper-Pearson at a tenth of the level each
        tpr = stats.beta.ppf(LEVEL / 10, right[count], N / 2 - right[count] + 1) if right[count] else 0.0
        fpr = stats.beta.ppf(1 - LEVEL / 10, count - right[count] + 1, N / 2 - count + right[count])
        values.append(max(0.0, math.log(max(tpr - world.delta, 1e-300) / fpr)))
    return LowerBound("epsilon", max(values), 1 - LEVEL, "order statistics", delta=world.delta)


def without_delta(world: World, score: NDArray[np.float64], member: NDArray[np.bool_], rng) -> LowerBound:
    """The pure-epsilon test, offered as a statement about (epsilon, delta)."""
    evidence = Evidence(score=score, member=member, design="one-run")
    return one_run.audit(evidence, parameter="epsilon", guesses=world.guesses, rng=rng)


INVALID: dict[str, tuple[str, str, Audit]] = {
    # name: (world, parameter, audit)
    "best of 60, unpaid (mu)": ("nothing leaks", "mu", partial(audited, Exploratory(fractions=WIDE))),
    "best of 60, unpaid (epsilon)": ("nothing leaks", "epsilon", partial(audited, Exploratory(fractions=WIDE))),
    "independent guesses (500 bits)": ("bits of a random 500, chance 0.2", "mu", clopper_pearson),
    "independent guesses (all bits)": ("all bits, chance 0.2", "mu", clopper_pearson),
    "order statistics": ("all bits, chance 0.2", "epsilon", order_statistics),
    "pure epsilon, delta ignored": ("100 bits of 1,000, chance 0.1", "epsilon", without_delta),
}


def world_named(name: str, parameter: str) -> World:
    return next(world for world in WORLDS if (world.name, world.parameter) == (name, parameter))


def run(world: World, procedure: str, audit: Audit, *, audits: int, seed: int) -> Row:
    """Audit so many draws of a world; every draw and audit comes from one generator."""
    rng = np.random.default_rng(seed)
    values = np.empty(audits)
    for i in range(audits):
        score, member = world.draw(rng)
        values[i] = audit(world, score, member, rng).value
    wrong = float(np.mean(values > world.truth + 1e-9))
    of = world.parameter if not world.delta else f"{world.parameter}, delta {world.delta:g}"
    return Row(world.name, of, procedure, wrong, float(values.mean()), world.truth, audits)


def rows(audits: int = 2_000, seed: int = 0) -> list[Row]:
    """Every world under every procedure, the invalid ones last."""
    found = [run(world, name, audit, audits=audits, seed=seed) for world in WORLDS for name, audit in VALID.items()]
    found += [run(WORLDS[0], name, audit, audits=audits, seed=seed) for name, audit in WIDE_VALID.items()]
    for name, (world, parameter, audit) in INVALID.items():
        found.append(run(world_named(world, parameter), f"not valid: {name}", audit, audits=audits, seed=seed))
    return found


def table(found: list[Row]) -> str:
    """Rows as a Markdown table."""
    lines = ["| world | truth | procedure | false alarms | mean bound |", "|---|---|---|---|---|"]
    for row in found:
        lines.append(
            f"| {row.world} | {row.parameter}: {row.truth:.3f} | {row.procedure} "
            f"| {row.false_alarms:.3f} | {row.mean:.3f} |"
        )
    return "\n".join(lines)
