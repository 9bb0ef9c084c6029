"""Print the tables of experiments/validity/zero_run.md: ``python tests/slow/zero_run_table.py [--quick]``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from test_zero_run_validity import LEARNED, LEARNED_CONTROLS, LEVEL, ORACLE, OTHER, UNCORRECTED

from miaudit.dp import zero_run
from worlds.noisy_sum import NoisySum
from worlds.zero_run import audits, learned

RHO = (1.0, 0.75, 0.5, 0.25)
WAYS = {
    "thinning, known pi, centred on covariates": {"centre": "covariates"},
    "thinning, known pi, centred on the median": {},
    "thinning, half-width 0.2, centred on covariates": {
        "centre": "covariates",
        "correction": zero_run.Thinning(half_width=0.2),
    },
    "conditional, aware": {"correction": zero_run.Conditional(aware=True)},
    "conditional, unaware": {"correction": "conditional"},
    "uncorrected": {"correction": zero_run.Composition(closeness=0.0)},
}


def main(quick: bool) -> None:
    sums = [NoisySum.draw(seed) for seed in range(2 if quick else 12)]
    print(f"\n| mean mu bound, truth 0.66, r = 500, p = 0.025, {len(sums)} data sets | 1 | 0.75 | 0.5 | 0.25 |")
    print("|---|---|---|---|---|")
    for name, options in WAYS.items():
        cells = []
        for rho in RHO:
            found = []
            for k, world in enumerate(sums):
                ev, oracle = world.evidence(rho)
                rng = np.random.default_rng(k)
                found.append(
                    zero_run.mu_lower_bound(ev, oracle, guesses=500, confidence=0.975, rng=rng, **options).value
                )
            cells.append(f"{np.mean(found):.3f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| algorithm | shift | correction | selection | above the truth | mean bound | truth | audits |")
    print("|---|---|---|---|---|---|---|---|")
    for row in [*ORACLE, *OTHER, *UNCORRECTED]:
        rate = audits(*row, count=100 if quick else 2000, level=LEVEL, seed=11)
        cells = f"{rate.above:.4f} | {rate.mean:.3f} | {rate.truth:.3f} | {rate.audits:,}"
        print(f"| {' | '.join(row)} | {cells} |".replace("|lambda|", "abs(lambda)"), flush=True)
    print("\n| covariates | rows for each | way | false alarms | audits |")
    print("|---|---|---|---|---|")
    for d, rows, way, count in [*LEARNED, *LEARNED_CONTROLS]:
        number = 10 if quick else count
        print(
            f"| {d} | {rows} | {way} | {learned(d, rows, way, count=number, seed=14).above:.3f} | {number} |",
            flush=True,
        )


if __name__ == "__main__":
    main("--quick" in sys.argv)
