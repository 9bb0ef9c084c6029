"""Which kinds of records leak, where nobody drew the members: how often differences are wrong, and limits miss.

``python experiments/validity/record_kinds.py --audits 40`` audits worlds in which members are older (``--shift`` says
how much), by ``heterogeneity.measure`` with propensities fitted on the same records. Scores follow the covariates and
have heavy tails. What is done is kept in ``record_kinds.json`` of the working folder; the same command goes on where it
was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.causal import heterogeneity, propensity
from miaudit.io.atomic import write_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from worlds import leaking_kinds

SEED = 20261128


def audit(effect: str, records: int, shift: float, number: int) -> dict[str, Any]:
    """Audit one draw of a world, and compare it with the truth."""
    rng = np.random.default_rng([SEED, sorted(leaking_kinds.EFFECTS).index(effect), number])
    world = leaking_kinds.world(effect, records, rng, shift=shift)
    fitted = propensity.fit(world.evidence, rng=rng)
    result = heterogeneity.measure(world.evidence, fitted, categories=("site",), rng=rng)
    groups = [(kind.auc, world.auc(kind.kind, rng)) for kind in result.kinds if kind.auc]
    true = groups[0][1] - groups[-1][1] if len(groups) > 1 else 0.0
    difference = result.difference
    return {
        "groups": len(groups),
        "missed": any(not auc.low <= truth <= auc.high for auc, truth in groups),
        "worst": max((abs(auc.value - truth) for auc, truth in groups), default=0.0),
        "established": bool(result.established),
        "wrong": bool(result.established and difference is not None and difference.value * true <= 0),
        "difference missed": difference is not None and not difference.low <= true <= difference.high,
        "slope": any(slope.low > 0 or slope.high < 0 for slope in result.slopes),
    }


def main() -> None:
    """Audit the worlds, and print a line for each."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--audits", type=int, default=40, help="of each world")
    options.add_argument("--records", type=int, default=4000)
    options.add_argument("--shift", type=float, default=1.0, help="log odds of membership for each 21 years of age")
    asked = options.parse_args()
    kept = Path("record_kinds.json")
    done: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    for number in range(asked.audits):
        for effect in leaking_kinds.EFFECTS:
            name = f"{effect}, {asked.records}, {asked.shift:g}, {number}"
            if name not in done:
                done[name] = audit(effect, asked.records, asked.shift, number)
                write_text(kept, json.dumps(done, indent=1))
    print(
        f"{'effect':<10}{'audits':>8}{'established':>13}{'slope':>8}{'wrong':>8}{'missed':>8}{'difference missed':>19}"
    )
    for effect in leaking_kinds.EFFECTS:
        ours = f"{effect}, {asked.records}, {asked.shift:g}, "
        rows = [row for name, row in done.items() if name.startswith(ours)]
        shares = [
            sum(row[key] for row in rows) for key in ("established", "slope", "wrong", "missed", "difference missed")
        ]
        print(
            f"{effect:<10}{len(rows):>8}"
            + "".join(f"{share:>{w}}" for share, w in zip(shares, (13, 8, 8, 8, 19), strict=True))
        )


if __name__ == "__main__":
    main()
