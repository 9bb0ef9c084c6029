"""Real shift: does the correction bring the AUC back to that of undrifted non-members?

ACS years, Office-Caltech domains, MNIST noise: ``python experiments/causal_mia/real_shift.py --data ../shared/data``
runs 3 splits of each, ``--full`` 20. In every split the target is trained on members only; the truth comes from
non-members of the members' own domain, which the audit never sees; all else is what ``miaudit.audit`` says. What is
found is compared with ``real_shift_expected.json``: number by number where the README's table has as many splits.
``--full --record`` writes these numbers anew and prints the lines of that table.
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

import miaudit
from miaudit import Evidence
from miaudit.collect import runs
from miaudit.metrics.roc import Roc

RESULTS = Path("results/experiments/causal_mia")
EXPECTED = Path(__file__).parent / "real_shift_expected.json"
COLUMNS = ("members / non-members", "truth", "raw", "corrected", "blind AUC", "effective non-members", "verdicts")
LINE = miaudit.Plan(propensity_model="line", estimator="hajek")
VERDICTS = ("flagged", "clear", "inconclusive")  # all others are no answer
WITHIN = {"truth": 0.0015, "raw": 0.0015, "corrected": 0.0015, "blind": 0.006, "effective": 5.0}  # other machines


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
    found = miaudit.audit(shifted, plan=LINE, rng=rng)
    answered = found.verdict.status in VERDICTS
    assert found.overlap is not None
    return {
        "truth": Roc.of(truth.score, truth.member).auc,
        "raw": Roc.of(shifted.score, shifted.member).auc,
        "corrected": found.metric("auc").value if answered else None,
        "blind": found.overlap.blind_auc,
        "effective": found.overlap.effective_sample_size,
        "verdict": found.verdict.status,
        "text": found.verdict.text,
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


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a line of the table: means over splits, the corrected AUC over those with an answer, and the verdicts."""
    corrected = [row["corrected"] for row in rows if row["corrected"] is not None]
    line: dict[str, Any] = {key: float(np.mean([row[key] for row in rows])) for key in WITHIN if key != "corrected"}
    counts = [sum(row["verdict"] == status for row in rows) for status in VERDICTS]
    line["corrected"] = float(np.mean(corrected)) if corrected else None
    return line | {"verdicts": [*counts, len(rows) - sum(counts)]}


def in_words(name: str, line: Mapping[str, Any]) -> str:
    """Return that line as the README has it."""
    corrected = "no answer" if line["corrected"] is None else f"**{line['corrected']:.3f}**"
    return (
        f"| {name} | {line['truth']:.3f} | {line['raw']:.3f} | {corrected} | {line['blind']:.2f} | "
        f"{line['effective']:,.0f} | {', '.join(map(str, line['verdicts']))} |"
    )


def differences(name: str, line: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold: answered or not, what the correction did, and the numbers that the README has."""
    answered, splits, problems = sum(line["verdicts"][:-1]), sum(line["verdicts"]), []
    if name in expected["refused"] and answered:
        problems.append(f"{name}: an answer in {answered} of {splits} splits, expected in none")
    if name in expected["answered"] and 2 * answered < splits:
        problems.append(f"{name}: an answer in {answered} of {splits} splits only")
    truth, raw, corrected = (line[key] for key in ("truth", "raw", "corrected"))
    allowed = abs(raw - truth) + (0.0 if abs(raw - truth) > expected["bias"] else expected["no_harm"])
    if corrected is not None and abs(corrected - truth) >= allowed:
        problems.append(f"{name}: truth {truth:.3f}, raw {raw:.3f}, corrected {corrected:.3f}")
    return problems + (departures(name, line, expected["table"][name]) if splits == expected["splits"] else [])


def departures(name: str, line: Mapping[str, Any], printed: Mapping[str, Any]) -> list[str]:
    """Return which numbers are not those of the README."""
    problems = []
    for key, allowed in {**WITHIN, "verdicts": 0.0}.items():
        found, expected = line[key], printed[key]
        same = found == expected
        if not same and isinstance(found, float) and isinstance(expected, float):
            same = abs(found - expected) <= allowed
        if not same:
            problems.append(f"{name}, {key}: {found}, in the README {expected}")
    return problems


def main() -> int:
    warnings.filterwarnings("ignore", module="sklearn")  # the network is stopped early on purpose
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--full", action="store_true", help="20 splits instead of 3")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--record", action="store_true", help="make what is found the numbers to expect")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.record and len(options.worlds) < len(WORLDS):
        parser.error("--record takes every world: the README's table is of one form")
    count = options.splits or (20 if options.full else 3)
    expected = json.loads(EXPECTED.read_text())
    found, table, problems = {}, {}, []
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for name in options.worlds:
        # Threads of boosting that wait for each other on busy cores cost many times as much.
        with threadpool_limits(1):
            streams = np.random.default_rng(0).spawn(count)
            found[name] = [audit(*WORLDS[name](options.data, rng), rng) for rng in streams]
        table[name] = summary(found[name])
        problems += [] if options.record else differences(name, table[name], expected)
        print(in_words(name, table[name]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "real_shift.json").write_text(json.dumps(found, indent=1) + "\n")
    if options.record:
        EXPECTED.write_text(json.dumps({**expected, "splits": count, "table": table}, indent=1) + "\n")
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
