"""Table 2 and Figures 3(a), 3(b), 4 of causal-mia: multi-run, one-run and zero-run, raw and corrected.

``python experiments/causal_mia/run.py`` runs the small form in under a minute of CPU; ``--full`` 100 repetitions.
Results go to ``results/experiments/causal_mia`` and are compared with ``expected.json``. Finished repetitions are kept
there, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dpsgd
import figures
import numpy as np
import yaml
from synthetic import GRID, METRICS, Population, dpsgd_repetition, ridge_repetition, ridge_zero_run

from miaudit.jobs import resumable

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/causal_mia")
Repetition = Callable[..., dict[str, dict[str, Any]]]
TARGETS: dict[str, Repetition] = {
    "ridge": ridge_repetition,
    "dpsgd": dpsgd_repetition,
    "dpsgd_calibrated": dpsgd_repetition,  # noise such that the printed guarantee holds (errata A7)
}
PRINTED_PRIVACY = (0.602, 0.01)
READINGS = {"noise variance 3": 3.0**0.5, "noise standard deviation 3": 3.0}
ROWS = (
    "multi_run",
    "multi_run_large",
    "one_run",
    "zero_run_raw",
    "zero_run_oracle",
    "zero_run_learned",
    "zero_run_default",
)


FIELDS = (*METRICS, "tpr_step", "effective")


def repeat(target: str, settings: Mapping[str, Any], rng: np.random.Generator, folder: Path) -> dict[str, Any]:
    """Mean and standard deviation of each metric over the repetitions, and the mean curve, for each evaluation.

    Finished repetitions are kept in the folder. Their number does not decide what each gives, so a longer run takes
    over those of a shorter one.
    """
    population = Population.create(settings["d"], settings["cosine"], rng)
    count, learned = settings["repetitions"], settings["learn_first"]
    own = {key: value for key, value in settings.items() if key not in ("repetitions", "learn_first")}
    found: dict[str, list[dict[str, Any]]] = {}
    jobs = rng.spawn(count)
    for learn, part in ((own["learn"], jobs[:learned]), (0, jobs[learned:])):
        if not part:
            continue
        part_settings = {**own, "learn": learn}
        decides = {"settings": json.dumps([target, part_settings]), "seed": str(part[0].bit_generator.seed_seq)}
        place = folder / f"{target}-{resumable.digest(list(decides.values()))[:12]}"
        with resumable.Store.alone(place, decides, "repetition") as store:
            kept = resumable.finish(
                repetitions,
                (target, population, part_settings),
                part,
                place=store,
                what="repetitions",
                failure=lambda number, problem: f"{target}, repetition {number}: {problem}",
                progress=lambda done: print(
                    f"\r{target}: {done.finished} of {done.total}    ", end="", file=sys.stderr, flush=True
                ),
            )
            print(file=sys.stderr)
            for number in range(len(part)):
                for name, row in unpacked(np.load(kept[number])).items():
                    found.setdefault(name, []).append(row)
    return {name: summary(found[name]) for name in ROWS if name in found}


def repetitions(shared: Any, batch: list[np.random.Generator]) -> list[np.ndarray]:
    """Return the evaluations of each repetition of a batch as an array (evaluations, fields and curve)."""
    target, population, settings = shared
    return [packed(TARGETS[target](population, settings, child)) for child in batch]


def packed(rows: Mapping[str, Mapping[str, Any]]) -> np.ndarray:
    """Put the evaluations in the order of ``ROWS`` into one array; NaN where there is none."""
    values = np.full((len(ROWS), len(FIELDS) + len(GRID)), np.nan)
    for name, row in rows.items():
        values[ROWS.index(name)] = [*(row[field] for field in FIELDS), *row["curve"]]
    return values


def unpacked(values: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the evaluations that an array of :func:`packed` holds."""
    fields = len(FIELDS)
    return {
        name: dict(zip(FIELDS, row[:fields].tolist(), strict=True)) | {"curve": row[fields:]}
        for name, row in zip(ROWS, values, strict=True)
        if not np.isnan(row[0])
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = {name: np.array([row[name] for row in rows]) for name in FIELDS}
    several = len(rows) > 1
    curves = np.array([row["curve"] for row in rows])
    return {
        "repetitions": len(rows),
        "mean": {name: float(v.mean()) for name, v in values.items()},
        "sd": {name: float(v.std(ddof=1)) if several else None for name, v in values.items()},
        "sup_of_mean_curve": float(np.max(curves.mean(axis=0) - GRID)),
        "curve": curves.mean(axis=0).round(5).tolist(),
        "curve_sd": curves.std(axis=0, ddof=1).round(5).tolist() if several else None,
    }


def privacy(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the DP-SGD runs guarantee at the printed delta, by an accountant, under both readings of N(0, 3 I) (A7)."""
    plan, n, delta = dpsgd.DPSGD(**settings["dpsgd"]["plan"]), settings["dpsgd"]["train"], PRINTED_PRIVACY[1]
    found = {name: dpsgd.epsilon(replace(plan, noise=noise), n, delta) for name, noise in READINGS.items()}
    own = replace(plan, **settings["dpsgd_calibrated"]["plan"])
    if None in found.values():
        note = (
            "No accountant is installed (pip install dp-accounting): the printed (0.602, 0.01) stands alone. "
            "It does not follow from the printed noise (errata A7: epsilon 3.6 or 1.6)."
        )
        return {"delta": delta, "epsilon": None, "note": note}
    note = (
        f"By the accountant, epsilon at delta {delta} is "
        + " and ".join(f"{value:.2f} ({name})" for name, value in found.items())
        + f"; the paper prints {PRINTED_PRIVACY[0]}. "
        + f"Noise {own.noise} gives {dpsgd.epsilon(own, n, delta):.4f}."
    )
    return {
        "delta": delta,
        "epsilon": found,
        "calibrated": {"noise": own.noise, "epsilon": dpsgd.epsilon(own, n, delta)},
        "noise_for_the_printed_epsilon": dpsgd.calibrated(plan, n, *PRINTED_PRIVACY),
        "note": note,
    }


def limits_of(target: str, guarantee: Mapping[str, Any] | None) -> dict[str, tuple[float, float]]:
    """Return the (epsilon, delta) whose ROC limits belong to a target: the printed one, and those of the accountant."""
    if guarantee is None or target not in ("dpsgd", "dpsgd_calibrated"):
        return {}
    if target == "dpsgd_calibrated":
        return {"guaranteed": PRINTED_PRIVACY}
    others = guarantee["epsilon"] or {}
    return {"printed": PRINTED_PRIVACY} | {name: (value, guarantee["delta"]) for name, value in others.items()}


def crossings(rows: Mapping[str, Any], limits: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, Any]]:
    """By how much each mean curve rises above each limit, where it does so most; negative: it stays below by that."""
    found: dict[str, dict[str, Any]] = {}
    for name, row in rows.items():
        for what, (epsilon, delta) in limits.items():
            edge = figures.limit(GRID, epsilon, delta)
            inside = edge < 1.0  # where the limit is 1 nothing can cross it
            above = np.where(inside, np.asarray(row["curve"]) - edge, -np.inf)
            at = int(np.argmax(above))
            error = None if row["curve_sd"] is None else row["curve_sd"][at] / row["repetitions"] ** 0.5
            found.setdefault(name, {})[what] = {"above": above[at], "fpr": GRID[at], "standard_error": error}
    return found


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what the printed table and the errata say."""
    problems = []
    for target in found["targets"]:
        problems += outside_printed(target, found["targets"][target], expected)
    problems += ridge_differences(found["targets"], expected) + dpsgd_differences(found["targets"], expected)
    return problems + privacy_differences(found, expected)


def outside_printed(target: str, rows: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    problems = []
    many = expected["within_printed_from_20_repetitions"].get(target, {})
    for name, metrics in expected["within_printed"].get(target, {}).items():
        for metric in metrics + (many.get(name, []) if rows[name]["repetitions"] >= 20 else []):
            value = rows[name]["mean"][metric]
            middle, width = expected["printed"][target][name][expected["columns"].index(metric)]
            if abs(value - middle) > max(width, 3 * standard_error(rows[name], metric)):
                problems.append(f"{target} {name} {metric}: {value:.4g}, printed {middle} ± {width}")
    return problems


def standard_error(row: Mapping[str, Any], metric: str) -> float:
    """Standard error of the mean; with few repetitions three of them are allowed for, if that is more."""
    return (row["sd"][metric] or 0.0) / row["repetitions"] ** 0.5


def ridge_differences(targets: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    if "ridge" not in targets:
        return []
    auc, problems = {name: row["mean"]["auc"] for name, row in targets["ridge"].items()}, []
    if abs(auc["zero_run_oracle"] - auc["one_run"]) > expected["oracle_auc_within"]:
        problems.append(f"ridge: corrected AUC {auc['zero_run_oracle']}, undrifted {auc['one_run']}")
    middle, width = expected["printed"]["ridge"]["zero_run_learned"][0]
    if auc.get("zero_run_learned", 0.0) > middle + width:  # one-sided: nearer to the truth is no fault (A10)
        problems.append(f"ridge learned AUC: {auc['zero_run_learned']}, at most {middle} + {width}")
    return problems


def dpsgd_differences(targets: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    problems = []
    for target in ("dpsgd", "dpsgd_calibrated"):
        for name, row in targets.get(target, {}).items():
            allowed = max(expected["half_within"], 3 * standard_error(row, "auc"))
            if name in ("one_run", "multi_run", "zero_run_oracle") and abs(row["mean"]["auc"] - 0.5) > allowed:
                problems.append(f"{target} {name}: AUC {row['mean']['auc']}, expected one half within {allowed:.3f}")
    return problems


def privacy_differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """The accountant's epsilons, and which limits the raw and the corrected curve cross (errata A7)."""
    guarantee, problems = found.get("privacy"), []
    if guarantee is None:
        return []
    for name, value in (guarantee["epsilon"] or {}).items():
        if abs(value - expected["accountant"][name]) > 0.05:
            problems.append(f"accountant, {name}: epsilon {value:.3f}, expected {expected['accountant'][name]}")
    if guarantee["epsilon"] and abs(guarantee["calibrated"]["epsilon"] - PRINTED_PRIVACY[0]) > 1e-3:
        problems.append(f"calibrated noise: epsilon {guarantee['calibrated']['epsilon']:.4f}")
    for target, rows in found.get("crossings", {}).items():
        low, high = expected["raw_crosses_printed_limit"]
        for what, crossing in rows["zero_run_raw"].items():
            above, slack = crossing["above"], 3 * (crossing["standard_error"] or 0.0)
            crosses = what in ("printed", "guaranteed")
            if (crosses and not low - slack <= above <= high + slack) or (not crosses and above > slack):
                problems.append(f"{target}: the raw curve is {above:+.3f} from the limit {what}")
        for what, crossing in rows["zero_run_oracle"].items():
            if crossing["above"] > 3 * (crossing["standard_error"] or 0.0):
                problems.append(f"{target}: the corrected curve is {crossing['above']:+.3f} from the limit {what}")
    return problems


def table(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Measured beside printed, as markdown."""
    lines = ["| target, evaluation | repetitions | AUC | sup | ATE of the loss | TPR at FPR 0.2 |"]
    lines.append("|---" * 6 + "|")
    for target, rows in found["targets"].items():
        for name, row in rows.items():
            cells = []
            for i, metric in enumerate(expected["columns"]):
                digits = 0 if metric == "ate_loss" else 3
                cell = f"**{row['mean'][metric]:.{digits}f}**"
                if name in expected["printed"].get(target, {}):
                    middle, width = expected["printed"][target][name][i]
                    cell += f" (printed {middle:.{digits}f} ± {width:.{digits}f})"
                cells.append(cell)
            rows_learned = f" on {found['learn'][target]:,} other rows" if name == "zero_run_learned" else ""
            lines.append(
                f"| {target}, {name.replace('_', ' ')}{rows_learned} | {row['repetitions']} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def draw(found: Mapping[str, Any], out: Path) -> None:
    titles = {
        "ridge": "Ridge regression, d = 2,500 (Figure 3a)",
        "dpsgd": "DP-SGD, d = 400 (Figure 3b)",
        "dpsgd_calibrated": "DP-SGD, d = 400, noise calibrated to the printed guarantee",
    }
    for target, rows in found["targets"].items():
        limits = limits_of(target, found.get("privacy"))
        named = {f"{what}: epsilon {epsilon:.3g}": (epsilon, delta) for what, (epsilon, delta) in limits.items()}
        curves = {name: np.asarray(row["curve"]) for name, row in rows.items()}
        figures.save(figures.roc(curves, GRID, titles[target], named), out / f"roc-{target}")


def draw_figure_4(settings: Mapping[str, Any], rng: np.random.Generator, out: Path) -> None:
    """The raw zero-run of ridge, one repetition, records shown as histograms."""
    drawn = ridge_zero_run(settings, rng)
    for name, chart in figures.comparability(drawn, settings["learn"]).items():
        figures.save(chart, out / f"figure-4-{name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="100 repetitions instead of the small form")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--target", choices=TARGETS, nargs="+", default=list(TARGETS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    forms = yaml.safe_load((HERE / "config.yaml").read_text())
    settings = forms[options.form or ("full" if options.full else "small")]
    # One stream for each target, so that a change in one leaves the other's numbers alone.
    names = (*TARGETS, "figure 4")
    streams = dict(zip(names, np.random.default_rng(settings["seed"]).spawn(len(names)), strict=True))
    found: dict[str, Any] = {
        "learn": {name: settings[name]["learn"] for name in options.target},
        "targets": {
            name: repeat(name, settings[name], streams[name], options.out / "repetitions") for name in options.target
        },
    }
    guarded = [name for name in options.target if name != "ridge"]
    if guarded:
        found["privacy"] = privacy(settings)
        found["crossings"] = {n: crossings(found["targets"][n], limits_of(n, found["privacy"])) for n in guarded}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, options.out)
    if "ridge" in found["targets"]:
        draw_figure_4(settings["ridge"], streams["figure 4"], options.out)
    expected = json.loads((HERE / "expected.json").read_text())
    print(table(found, expected))
    if "privacy" in found:
        print(found["privacy"]["note"])
    for target, rows in found.get("crossings", {}).items():
        for name in ("zero_run_raw", "zero_run_oracle"):
            for what, at in rows[name].items():
                error = "" if at["standard_error"] is None else f" (standard error {at['standard_error']:.3f})"
                side = "crosses the limit by" if at["above"] > 0 else "stays below the limit by at least"
                print(f"{target}, {name}, {what}: {side} {abs(at['above']):.3f}{error}, FPR {at['fpr']:.2f}")
    problems = differences(found, expected)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
