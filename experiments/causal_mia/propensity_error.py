"""How often an estimate of the propensity error (causal-mia, Theorem 6.4) covers the truth, in worlds that are known.

``python experiments/causal_mia/propensity_error.py`` prints the table of ``propensity_error.md``; ``--repetitions 2`` a
first look. It resumes. Each world draws covariates and memberships with known propensities; a line (cross-fitted
logistic regression) is learned, then Delta is estimated by its bootstrap and by the stack as its rival.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from miaudit import Evidence
from miaudit.causal import propensity as propensities
from miaudit.causal import propensity_error

Array = NDArray[np.float64]
RESULTS = Path("results/experiments/causal_mia/propensity_error.jsonl")
COLUMNS = 4


def line(x: Array) -> Array:
    """Log-odds that are a line: the model's own family."""
    return 0.6 * x[:, 0] - 0.4 * x[:, 1]


def product(x: Array) -> Array:
    """Log-odds that are a product of two covariates."""
    return 0.8 * x[:, 0] * x[:, 1]


def band(x: Array) -> Array:
    """Log-odds that are larger in a band of one covariate."""
    return np.where(np.abs(x[:, 0]) < 0.5, 1.1, -0.4)


def corner(x: Array) -> Array:
    """Log-odds that are larger in a corner of three covariates, one record in 16."""
    return np.where((x[:, 0] > 0.4) & (x[:, 1] > 0.4) & (x[:, 2] > 0.0), 1.5, -0.1)


def wave(x: Array) -> Array:
    """Log-odds that change sign every 0.35 along one covariate."""
    return np.sin(9 * x[:, 0])


def fine_wave(x: Array) -> Array:
    """Log-odds that change sign every 0.05 along one covariate: nothing sees it, so every estimate must fail."""
    return np.sin(60 * x[:, 0])


def tails(x: Array) -> Array:
    """Log-ratio of a heavy-tailed law (t with 4 degrees of freedom) to a normal one in one covariate, held within 3."""
    ratio = stats.t.logpdf(x[:, 0], 4) - stats.norm.logpdf(x[:, 0])
    return np.asarray(np.clip(ratio, -3.0, 3.0))


WORLDS: dict[str, Callable[[Array], Array]] = {
    "line": line, "product": product, "band": band, "corner": corner, "heavy tails": tails, "wave": wave,
    "fine wave": fine_wave,
}  # fmt: skip


def one(name: str, n: int, seed: int) -> dict[str, float]:
    """Draw a world, learn the line, estimate its error and compare with the truth."""
    rng = np.random.default_rng((list(WORLDS).index(name), n, seed))
    x = rng.standard_t(4, (n, COLUMNS)) if name == "heavy tails" else rng.normal(size=(n, COLUMNS))
    truth = special.expit(WORLDS[name](x))
    member = rng.random(n) < truth
    evidence = Evidence(score=rng.normal(size=n), member=member, covariates=x, design="zero-run")
    learned = propensities.fit(evidence, rng=rng)
    error = propensity_error.estimate(evidence, learned, rng=rng)
    return {
        "delta": propensity_error.of_known(evidence, learned, truth),
        "noise_upper": error.noise_upper,
        "rival": error.rivals[0],
        "at_least": error.at_least,
        "upper": error.upper,
    }


FIGURES = ("delta", "noise_upper", "rival", "at_least", "upper")
HEADER = (
    "world", "Delta", "bootstrap's limit", "rival's distance", "at least", "upper estimate",
    "bootstrap covers", "at least holds", "upper covers",
)  # fmt: skip


def row(name: str, figures: list[dict[str, float]]) -> str:
    """Return the means of one world, and the shares of its repetitions in which a limit holds, as a table row."""
    values = {key: np.array([run[key] for run in figures]) for key in FIGURES}
    delta = values["delta"]
    holds = (values["noise_upper"] >= delta, values["at_least"] <= delta, values["upper"] >= delta)
    means = [f"{values[key].mean():.3f}" for key in FIGURES]
    return f"| {' | '.join([name, *means, *(f'{share.mean():.2f}' for share in holds)])} |"


def main() -> None:
    """Run every world and print its row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--records", type=int, default=2000)
    options = parser.parse_args()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    known = {(run["world"], run["n"], run["seed"]): run["figures"] for run in map(json.loads, lines)}
    for seed in range(options.repetitions):
        for name in WORLDS:
            if (name, options.records, seed) not in known:
                figures = one(name, options.records, seed)
                known[name, options.records, seed] = figures
                written = {"world": name, "n": options.records, "seed": seed, "figures": figures}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(written) + "\n")
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for name in WORLDS:
        print(row(name, [known[name, options.records, seed] for seed in range(options.repetitions)]))


if __name__ == "__main__":
    main()
