"""What the whole trade-off function of a shift gains over one pair of it, in worlds whose shift is not Gaussian.

``python experiments/zero_run/whole_shift.py`` prints the tables of ``whole_shift.md`` (about 5 CPU minutes), and
``--repetitions 2`` a first look. A Gaussian mechanism of a known mu releases a score of each record. The attacker adds
the log-odds of the covariates to it, which is the best that can be done with both. Without an algorithm (mu = 0) the
covariates alone are asked.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miaudit import Evidence
from miaudit.causal.propensity import Propensity
from miaudit.dp import one_run, zero_run
from miaudit.dp.directed_profile import DirectedProfile
from miaudit.dp.tradeoff import Gaussian, TradeOff
from miaudit.dp.zero_run import composition
from miaudit.dp.zero_run.composition import GRID, Composition

RECORDS, GUESSES, CONFIDENCE = 10_000, 200, 0.95
SAMPLE = 100_000  # of propensities, beside the audited records, to estimate the shift on
RESULTS = Path("results/experiments/zero_run/whole_shift.jsonl")
Log = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """A shift: log-odds of records of one class, their exact trade-off function, and the largest log-odds."""

    name: str
    log_odds: Callable[[NDArray[np.bool_], np.random.Generator], Log]
    exact: TradeOff
    largest: float  # infinite for a shift without a bound


def categorical(name: str, laws: list[tuple[Log, Log]]) -> World:
    """Independent covariates of few levels: their product, enumerated."""
    p = q = np.ones(1)
    for members, others in laws:
        p, q = np.multiply.outer(p, members).ravel(), np.multiply.outer(q, others).ravel()
    p, q = p / p.sum(), q / q.sum()
    ratio = np.log(p / q)

    def log_odds(member: NDArray[np.bool_], rng: np.random.Generator) -> Log:
        of_members, of_others = (rng.choice(ratio, size=len(member), p=law) for law in (p, q))
        return np.where(member, of_members, of_others)

    return World(name, log_odds, DirectedProfile.of_laws(p, q), float(np.abs(ratio).max()))


def worlds() -> list[World]:
    """Return a Gaussian shift, eight categorical covariates, one rare trait, and five of different rarity."""
    sd = 0.25

    def gaussian(member: NDArray[np.bool_], rng: np.random.Generator) -> Log:
        return rng.normal(np.where(member, sd * sd / 2, -sd * sd / 2), sd)

    rng, laws = np.random.default_rng(0), []
    for _ in range(8):
        others = rng.dirichlet(np.full(4, 3.0))
        members = others * np.exp(rng.normal(0, 0.12, 4))
        laws.append((members / members.sum(), others))
    traits = [np.array([1 - share, share]) for share in (0.02, 0.002)]
    five = [
        (np.array([1 - many, many]), np.array([1 - few, few]))
        for many, few in ((0.02, 0.002), (0.01, 0.002), (0.002, 0.01), (0.005, 0.0005), (0.05, 0.03))
    ]
    return [
        World("Gaussian, sd 0.25", gaussian, Gaussian(sd), math.inf),
        categorical("eight categorical covariates", laws),
        categorical("one rare trait", [(traits[0], traits[1])]),
        categorical("five rare traits", five),
    ]


def best_pair(world: World, size: int) -> Composition:
    """Return the pair of the exact delta_DS(epsilon) at which a faultless attack would show most, as an option."""

    def shown(epsilon: float) -> float:
        shift = composition.Shift(epsilon, world.exact.delta_at(epsilon))
        return composition.mu_lower_bound(shift, correct=GUESSES, guesses=GUESSES, canaries=size).value

    epsilon = max(GRID, key=shown)
    return Composition(eta=1 / (1 + math.exp(epsilon)), delta_ds=world.exact.delta_at(epsilon))


def audit(world: World, mu: float, rng: np.random.Generator, pair: Composition) -> dict[str, float]:
    """Audit one draw of a world in every way, and return the bounds."""
    member = np.arange(RECORDS) % 2 == 0
    logit = world.log_odds(member, rng)
    score = logit + (rng.normal(mu * mu * np.where(member, 0.5, -0.5), mu) if mu > 0 else 0.0)
    evidence = Evidence(score=score, member=member, covariates=logit, design="zero-run")
    propensity = Propensity.given(1 / (1 + np.exp(-logit)))
    inside = np.arange(SAMPLE) % 2 == 0
    sample = (world.log_odds(inside, rng), inside)
    ways: dict[str, Composition | str] = {
        "one pair, exact": pair,
        "whole, exact": Composition(tradeoff=world.exact),
        "one pair, estimated": Composition(sample=sample),
        "whole, estimated": Composition(sample=sample, whole=True),
        "thinning": "thinning",
    }
    if world.largest < math.inf:
        ways = {"largest log-odds": Composition(eta=1 / (1 + math.exp(world.largest))), **ways}
    options = {"guesses": GUESSES, "confidence": CONFIDENCE, "centre": "median"}
    bounds = {
        name: zero_run.mu_lower_bound(evidence, propensity, correction=way, rng=rng, **options).value
        for name, way in ways.items()
    }
    counts = order_of(evidence)
    return {"uncorrected": one_run.mu_lower_bound(**counts, confidence=CONFIDENCE).value, **bounds}


def order_of(evidence: Evidence) -> dict[str, int]:
    """Return the counts of an audit that takes membership for fair coins."""
    apart = evidence.score - np.median(evidence.score)
    first = np.argsort(-np.abs(apart), kind="stable")[:GUESSES]
    right = int(((apart > 0) == evidence.member)[first].sum())
    return {"correct": right, "guesses": GUESSES, "canaries": evidence.n}


def main() -> None:
    """Audit every world, and print mean bounds and how often they are above the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    count = parser.parse_args().repetitions
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    known = {(one["world"], one["mu"], one["seed"]): one["bounds"] for one in map(json.loads, lines)}
    for world in worlds():
        pair = best_pair(world, RECORDS)
        for mu in (0.0, 1.5):
            for seed in range(count):
                if (world.name, mu, seed) in known:
                    continue
                bounds = audit(world, mu, np.random.default_rng((seed, int(10 * mu))), pair)
                known[world.name, mu, seed] = bounds
                with RESULTS.open("a") as file:
                    file.write(json.dumps({"world": world.name, "mu": mu, "seed": seed, "bounds": bounds}) + "\n")
            rows = [known[world.name, mu, seed] for seed in range(count)]
            largest = f"{world.largest:.2f}" if world.largest < math.inf else "none"
            print(
                f"{world.name}, mu {mu:g}; largest log-odds {largest}, total variation {world.exact.delta_at(0.0):.3f}"
            )
            for name in rows[0]:
                values = np.array([row[name] for row in rows])
                print(f"  {name:22s} {values.mean():.3f}  above the truth {np.mean(values > mu):.2f}")


if __name__ == "__main__":
    main()
