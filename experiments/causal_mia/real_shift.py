"""Real shift: does the correction bring the AUC back to that of undrifted non-members?

ACS years, Office-Caltech domains, MNIST noise: ``python experiments/causal_mia/real_shift.py --data ../shared/data``
runs 3 splits of each, ``--full`` 20. In every split the target is trained on members only; the truth comes from
non-members of the members' own domain, which the audit never sees. What is found is compared with ``expected.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from miaudit import Evidence, runs
from miaudit.causal import balance, propensity
from miaudit.causal.roc import Roc

RESULTS = Path("results/experiments/causal_mia")


@dataclass(frozen=True)
class Split:
    """Features and labels of members, of undrifted and of shifted non-members, and what the propensity sees of them."""

    members: tuple[np.ndarray, np.ndarray]
    undrifted: tuple[np.ndarray, np.ndarray]
    shifted: tuple[np.ndarray, np.ndarray]
    covariates: Callable[[np.ndarray, np.ndarray], np.ndarray]


def log_likelihood(target: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss attack: log probability of the label, higher for members."""
    column = np.searchsorted(target.classes_, y)
    return np.log(np.clip(target.predict_proba(x)[np.arange(len(x)), column], 1e-12, 1.0))


def audit(split: Split, target: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Truth, raw and corrected AUC of one split; the audit proper sees members and shifted non-members only."""
    target.fit(*split.members)
    scores = [log_likelihood(target, *part) for part in (split.members, split.undrifted, split.shifted)]
    n1 = len(scores[0])

    def evidence_against(other: int, x: np.ndarray | None) -> Evidence:
        both = np.concatenate([scores[0], scores[other]])
        rows = {"members": np.arange(n1), "nonmembers": np.arange(n1, len(both))}
        return runs.zero_run(lambda at: both[at], covariates=x, **rows)

    truth = evidence_against(1, None)
    x = split.covariates(*(np.concatenate(pair) for pair in zip(split.members, split.shifted, strict=True)))
    shifted = evidence_against(2, x)
    pi = propensity.fit(shifted, rng=rng)
    measured = balance.measure(shifted, pi)
    weight = np.where(shifted.member, 1.0, pi.odds)
    return {
        "truth": Roc.of(truth.score, truth.member).auc,
        "raw": Roc.of(shifted.score, shifted.member).auc,
        "corrected": Roc.of(shifted.score, shifted.member, weight).auc,
        "blind": measured.blind_auc.value,
        "effective": measured.effective_size,
        "status": balance.judge_overlap(measured).status,
    }


# -- the worlds -----------------------------------------------------------------------------------------------------


def acs(folder: Path, year: int, rng: np.random.Generator, n: int = 3000) -> tuple[Split, Any]:
    """Members of 2018, non-members of another year; the label is an income above the median of 2018."""
    with np.load(folder / "acs_ct_income" / "acs_ct_income.npz") as data:
        x, income, years = data["x"].astype(float), data["income"], data["year"]
    y = (income > np.median(income[years == 2018])).astype(int)
    own, other = rng.permutation(np.flatnonzero(years == 2018)), rng.permutation(np.flatnonzero(years == year))
    middle = np.nanmedian(x[own], axis=0)
    holes = np.isnan(x[own]).any(axis=0)

    def covariates(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        missing = np.isnan(rows)
        return np.column_stack([np.where(missing, middle, rows), missing[:, holes], labels]).astype(float)

    parts = [(x[rows], y[rows]) for rows in (own[:n], own[n : 2 * n], other[:n])]
    return Split(*parts, covariates), HistGradientBoostingClassifier(max_iter=120, random_state=0)


def office(folder: Path, features: str, other: str, rng: np.random.Generator) -> tuple[Split, Any]:
    """Members: half of the pictures from amazon; non-members from another domain; the propensity sees 10 components."""
    with np.load(folder / "office_caltech10" / f"office_caltech10_{features}.npz") as data:
        x, y = data["x"].astype(float), data["y"]
        domain = data["domains"].astype(str)[data["domain"]]
    if features == "surf":
        x /= np.maximum(x.sum(axis=1, keepdims=True), 1.0)  # shares of visual words, not their number
    own, away = rng.permutation(np.flatnonzero(domain == "amazon")), rng.permutation(np.flatnonzero(domain == other))
    half = len(own) // 2
    # Without labels and over both domains: components are chosen by spread, never by membership.
    components = make_pipeline(StandardScaler(), PCA(10, random_state=0)).fit(x[np.r_[own[:half], away]])
    parts = [(x[rows], y[rows]) for rows in (own[:half], own[half:], away)]
    target = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=500))
    return Split(*parts, lambda rows, _: components.transform(rows)), target


def mnist(folder: Path, rng: np.random.Generator, n: int = 2500) -> tuple[Split, Any]:
    """Members 90% clean and 10% noisy, non-members the reverse (errata A9: sd 0.2 on [0, 1], drawn once an image)."""
    with np.load(folder / "mnist" / "mnist.npz") as data:
        rows = rng.permutation(len(data["x_train"]))[: 3 * n]
        x, y = data["x_train"][rows].reshape(3 * n, -1) / 255.0, data["y_train"][rows].astype(int)

    def part(k: int, noisy: float) -> tuple[np.ndarray, np.ndarray]:
        images = x[k * n : (k + 1) * n].copy()
        chosen = rng.random(n) < noisy
        images[chosen] = np.clip(images[chosen] + rng.normal(0.0, 0.2, images[chosen].shape), 0.0, 1.0)
        return images, y[k * n : (k + 1) * n]

    frame = np.ones((28, 28), bool)
    frame[1:-1, 1:-1] = False

    def grey_frame(images: np.ndarray, _: np.ndarray) -> np.ndarray:
        return (images[:, frame.ravel()].mean(axis=1, keepdims=True) > 0.04).astype(float)

    target = MLPClassifier((64,), max_iter=15, random_state=0)
    return Split(part(0, 0.1), part(1, 0.1), part(2, 0.9), grey_frame), target


WORLDS: dict[str, Callable[[Path, np.random.Generator], tuple[Split, Any]]] = {
    "ACS 2018 / 2019": lambda folder, rng: acs(folder, 2019, rng),
    "ACS 2018 / 2021": lambda folder, rng: acs(folder, 2021, rng),
    "SURF amazon / caltech10": lambda folder, rng: office(folder, "surf", "caltech10", rng),
    "SURF amazon / webcam": lambda folder, rng: office(folder, "surf", "webcam", rng),
    "GoogLeNet amazon / webcam": lambda folder, rng: office(folder, "googlenet1024", "webcam", rng),
    "MNIST clean / noisy": mnist,
}


def differences(name: str, rows: list[dict[str, Any]], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold: refused or answered as expected, and what the correction did, averaged over splits."""
    statuses = {row["status"] for row in rows}
    if name in expected["refused"]:
        return [] if statuses == {"refused"} else [f"{name}: {statuses}, expected refused in every split"]
    problems = [f"{name}: refused, expected an answer"] if "refused" in statuses else []
    truth, raw, corrected = (np.mean([row[key] for row in rows]) for key in ("truth", "raw", "corrected"))
    allowed = abs(raw - truth) + (0.0 if abs(raw - truth) > expected["bias"] else expected["no_harm"])
    if abs(corrected - truth) >= allowed:
        problems.append(f"{name}: truth {truth:.3f}, raw {raw:.3f}, corrected {corrected:.3f}")
    return problems


def main() -> int:
    warnings.filterwarnings("ignore", module="sklearn")  # the network is stopped early on purpose
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--full", action="store_true", help="20 splits instead of 3")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    count = options.splits or (20 if options.full else 3)
    expected = json.loads((Path(__file__).parent / "expected.json").read_text())["real_shift"]
    found, problems = {}, []
    print("| world | splits | truth | raw | corrected | blind AUC | effective | answered, warned, refused |")
    print("|---" * 8 + "|")
    for name in options.worlds:
        # Threads of boosting that wait for each other on busy cores cost many times as much.
        with threadpool_limits(1):
            rows = [audit(*WORLDS[name](options.data, rng), rng) for rng in np.random.default_rng(0).spawn(count)]
        found[name] = rows
        problems += differences(name, rows, expected)
        mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key != "status"}
        statuses = [sum(row["status"] == s for row in rows) for s in ("answered", "warned", "refused")]
        print(
            f"| {name} | {count} | {mean['truth']:.3f} | {mean['raw']:.3f} | {mean['corrected']:.3f} | "
            f"{mean['blind']:.2f} | {mean['effective']:.0f} | {', '.join(map(str, statuses))} |",
            flush=True,
        )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "real_shift.json").write_text(json.dumps(found, indent=1) + "\n")
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
