"""How ``synthetic22.json`` came about: seeded weights, biases solved for prevalences. Run it to write the file."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, special

SEED = 22
ROOTS = (0.5, 0.4, 0.3, 0.3, 0.2, 0.1)
NAMES = [f"R{i}" for i in range(1, 7)] + [f"M{i}" for i in range(1, 9)] + [f"L{i}" for i in range(1, 9)]
CATEGORICAL = ("R5", "R6", "M4", "M5", "L4", "L5")  # of the mixed variant
GAUSSIAN = ("M6", "M7", "M8", "L6", "L7", "L8")
SD, RANGE = 1.0, 8.0
DRAWS = 200_000


def parents(name: str) -> list[str]:
    i = int(name[1:])
    if name[0] == "M":
        return [f"R{i % 6 + 1}", f"R{(i + 1) % 6 + 1}"]
    return [f"M{i}", f"M{i % 8 + 1}", f"R{i % 6 + 1}"] if name[0] == "L" else []


def weight(rng: np.random.Generator) -> float:
    return round(float(rng.choice([-1, 1]) * rng.uniform(1, 2)), 4)


def binary() -> dict[str, Any]:
    """Biases are solved exactly, over all values of the six roots and of the two middle parents."""
    rng = np.random.default_rng(SEED)
    nodes: list[dict[str, Any]] = []
    for name, p in zip(NAMES[:6], ROOTS, strict=True):
        nodes.append(node(name, [[]], [float(special.logit(p))]))
    for name in NAMES[6:]:
        weights, goal = [weight(rng) for _ in parents(name)], rng.uniform(0.2, 0.5)
        bias = optimize.brentq(
            lambda b, name=name, weights=weights, goal=goal: (
                prevalence([*nodes, node(name, [weights], [b])])[name] - goal
            ),
            -9,
            9,
        )
        nodes.append(node(name, [weights], [float(bias)]))
    return {"columns": [{"names": NAMES}], "nodes": nodes}


def node(name: str, weights: list[list[float]], bias: list[float]) -> dict[str, Any]:
    rounded = [round(b, 6) for b in bias]
    return {"name": name, "mechanism": "softmax", "parents": parents(name), "weights": weights, "bias": rounded}


def prevalence(nodes: list[dict[str, Any]]) -> dict[str, float]:
    """P(1) of every column of the binary variant by enumeration."""
    by_name = {one["name"]: one for one in nodes}

    def chance(name: str, values: dict[str, int]) -> float:
        one = by_name[name]
        return float(
            special.expit(
                one["bias"][0] + sum(w * values[q] for w, q in zip(one["weights"][0], one["parents"], strict=True))
            )
        )

    found = dict.fromkeys(by_name, 0.0)
    for roots in product((0, 1), repeat=6):
        values = {f"R{i + 1}": r for i, r in enumerate(roots)}
        mass = float(np.prod([p if r else 1 - p for r, p in zip(roots, ROOTS, strict=True)]))
        for name in by_name:
            if name[0] == "R":
                found[name] += mass * values[name]
            elif name[0] == "M":
                found[name] += mass * chance(name, values)
            else:
                first, second, _ = parents(name)
                for pair in product((0, 1), repeat=2):
                    given = [
                        chance(m, values) if v else 1 - chance(m, values)
                        for m, v in zip((first, second), pair, strict=True)
                    ]
                    inside = {**values, first: pair[0], second: pair[1]}
                    found[name] += mass * given[0] * given[1] * chance(name, inside)
    return found


def mixed() -> dict[str, Any]:
    """Biases are solved on one large seeded sample."""
    rng = np.random.default_rng(SEED + 1)
    draws = np.random.default_rng(SEED + 2)
    values: dict[str, np.ndarray] = {}
    nodes, columns = [], []
    for name in NAMES:
        terms = inputs(name, values)
        lost = {} if name[0] == "R" else {"missing": True}
        if name in GAUSSIAN:
            weights = [weight(rng) for _ in range(terms.shape[1])]
            bias = -float(np.mean(terms @ weights))
            one = {"name": name, "mechanism": "gaussian", "parents": parents(name), "weights": weights}
            nodes.append({**one, "bias": round(bias, 6), "sd": SD})
            columns.append({"name": name, "kind": "continuous", "low": -RANGE, "high": RANGE, **lost})
            drawn = terms @ weights + bias + SD * draws.standard_normal(DRAWS)
            values[name] = np.clip(drawn, -RANGE, RANGE)
            continue
        levels = 3 if name in CATEGORICAL else 2
        shares = goals(name, levels, rng)
        rows = [[weight(rng) for _ in range(terms.shape[1])] for _ in range(levels - 1)]
        bias_of = solved(terms, rows, shares)
        nodes.append(node(name, rows, bias_of))
        kind = {"kind": "categorical", "categories": ["a", "b", "c"]} if levels == 3 else {"kind": "binary"}
        columns.append({"name": name, **kind, **lost})
        below = np.cumsum(probabilities(terms, rows, bias_of), axis=1)[:, :-1]
        values[name] = (draws.random(DRAWS)[:, None] >= below).sum(axis=1).astype(float)
    missing = {"given": "R1", "probability": [0.05, 0.15]}
    return {"columns": columns, "nodes": nodes, "missing": missing}


def goals(name: str, levels: int, rng: np.random.Generator) -> list[float]:
    if name[0] == "R":
        p = ROOTS[int(name[1:]) - 1]
        return [p] if levels == 2 else [0.3, 0.2] if name == "R5" else [0.25, 0.25]
    if levels == 2:
        return [float(rng.uniform(0.2, 0.5))]
    first = rng.uniform(0.25, 0.45)
    return [float(first), float(rng.uniform(0.25, 0.7 - first))]


def inputs(name: str, values: dict[str, np.ndarray]) -> np.ndarray:
    found = []
    for parent in parents(name):
        found += [values[parent] == level for level in (1, 2)] if parent in CATEGORICAL else [values[parent]]
    return np.stack(found, axis=1).astype(float) if found else np.zeros((DRAWS, 0))


def probabilities(terms: np.ndarray, rows: list[list[float]], bias: list[float]) -> np.ndarray:
    odds = np.zeros((len(terms), len(bias) + 1))
    odds[:, 1:] = terms @ np.array(rows).reshape(len(bias), -1).T + bias
    return np.asarray(special.softmax(odds, axis=1))


def solved(terms: np.ndarray, rows: list[list[float]], shares: list[float]) -> list[float]:
    def off(bias: np.ndarray) -> np.ndarray:
        return probabilities(terms, rows, list(bias)).mean(axis=0)[1:] - shares

    found = optimize.root(off, np.log(np.array(shares) / (1 - sum(shares))))
    assert found.success
    return [float(b) for b in found.x]


def published() -> dict[str, Any]:
    return {"name": "synthetic22", "version": 1, "seed": SEED, "variants": {"binary": binary(), "mixed": mixed()}}


if __name__ == "__main__":
    target = Path(__file__).parents[2] / "src" / "miaudit" / "synthesis" / "synthetic22.json"
    target.write_text(json.dumps(published(), indent=1) + "\n", encoding="utf-8")
