"""Theory on networks trained here: predicted beside measured advantage, and Figures 5, 11 and 14 of uncertainty-mia.

``python experiments/uncertainty_mia/trained.py --data ../shared/data`` runs the small form in minutes on 2 cores.
Networks are kept in ``--out``, so the same command again goes on where it stopped. Results go to
``results/experiments/uncertainty_mia/trained`` and are compared with ``trained_expected.json``; ``trained.md`` says
what they mean.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import trained_subgroups as subgroups
import yaml
from numpy.typing import NDArray
from scipy import special
from trained_networks import network

from miaudit.attacks import dirichlet_fit
from miaudit.disclosure import dirichlet, groups, prediction, uncertainty
from miaudit.disclosure.fitted_laws import LawName
from miaudit.errors import MiauditError
from miaudit.io import atomic, tables
from miaudit.jobs import resumable
from miaudit.models import shadow, train
from miaudit.models.targets import TorchTarget
from miaudit.models.train import TrainConfig

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/uncertainty_mia/trained")
PARTS = ("records", "laws", "classes", "size", "shift")
# Name of a comparison, its law and its form.
FORMS: Mapping[str, tuple[LawName, uncertainty.Form]] = {
    "fitted": ("dirichlet", "fitted"),
    "three-numbers": ("dirichlet", "three-numbers"),
    "logit-normal": ("logit-normal", "fitted"),
}
FIGURES = ("calibration_error", "aleatoric", "epistemic", "epistemic_in", "epistemic_out")
Floats = NDArray[np.float64]
Labelled = tuple[NDArray[np.float32], NDArray[np.intp]]


# -- data -------------------------------------------------------------------------------------------------------------


def location30(data: Path) -> Labelled:
    """Check-ins (5010, 446) of 30 classes."""
    with np.load(data / "location30" / "location30.npz", allow_pickle=False) as z:
        x = np.unpackbits(z["x_packed"], axis=1)[:, : int(z["n_features"])]
        return x.astype(np.float32), z["y"].astype(np.intp)


def mnist(data: Path) -> Labelled:
    """Digits (70000, 28, 28) on [0, 1]."""
    with np.load(data / "mnist" / "mnist.npz", allow_pickle=False) as z:
        x, y = np.concatenate([z["x_train"], z["x_test"]]), np.concatenate([z["y_train"], z["y_test"]])
        return (x / np.float32(255)).astype(np.float32), y.astype(np.intp)


def cifar10(data: Path) -> Labelled:
    """Images (12000, 3, 32, 32) on [-1, 1]."""
    with np.load(data / "cifar10" / "cifar10_12k.npz", allow_pickle=False) as z:
        x = np.concatenate([z["x_train"], z["x_test"]]).transpose(0, 3, 1, 2)
        return (x / np.float32(127.5) - 1).astype(np.float32), np.concatenate([z["y_train"], z["y_test"]]).astype(int)


def office(data: Path) -> Labelled:
    """Features (1410, 1024) that a pre-trained GoogLeNet gives of office photographs, ten classes."""
    with np.load(data / "office_caltech10" / "office_caltech10_googlenet1024.npz", allow_pickle=False) as z:
        x = z["x"].astype(np.float32)
        return x / x.std(), z["y"].astype(np.intp)


READ: Mapping[str, Callable[[Path], Labelled]] = {
    "location30": location30,
    "mnist": mnist,
    "cifar10": cifar10,
    "office": office,
}


# -- predicted against measured, record by record ---------------------------------------------------------------------


def compared(name: str, settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Train shadow models of one data set; compare prediction and measurement on some of its records."""
    own, seed = settings["records"][name], settings["seed"]
    x, y = READ[name](options.data)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[: own["records"]]
    x, y = x[rows].reshape(len(rows), -1), y[rows]
    included = shadow.inclusion(len(y), own["models"], rng=rng)
    built, start = network(own), time.perf_counter()
    outputs = shadow.train(
        TorchTarget(built, TrainConfig(**own["recipe"], device="cpu"), called=str(built)),
        x,
        y,
        included,
        seed=seed,
        store=options.out / "models" / options.form / name,
        workers=settings["workers"],
        progress=lambda done: print(f"\r{name}: {done}    ", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    trained = time.perf_counter() - start
    few = own["compared"]
    p = special.softmax(outputs.block(0, few).astype(np.float64), axis=2)
    inside = np.ascontiguousarray(included.T[:few])
    right = p.argmax(axis=2) == y[:few, None]
    figures = uncertainty.estimate(p, inside, y[:few])
    tables.write_columns(options.out / f"{options.form}-{name}.csv", figures.table())
    found = {name: _compare(p, inside, y[:few], name, settings, rng) for name in FORMS}
    measured = np.array(found["fitted"]["true-label"]["measured"])
    drivers = {key: prediction.spearman(getattr(figures, key)[None], measured[None])[0] for key in FIGURES}
    return {
        "records": few,
        "models": own["models"],
        "accuracy": {"members": float(right[inside].mean()), "nonmembers": float(right[~inside].mean())},
        "figures": {key: _quartiles(getattr(figures, key)) for key in FIGURES},
        "ranks_with_true_label": {key: float(value) for key, value in drivers.items()},
        "notes": list(figures.notes),
        "goodness": _goodness(figures, p, inside, y[:few], rng),
        **found,
        "seconds": {"training": round(trained, 1), "all": round(time.perf_counter() - start, 1)},
    }


def _compare(
    p: Floats,
    inside: NDArray[np.bool_],
    y: NDArray[np.intp],
    name: str,
    settings: Mapping[str, Any],
    rng: np.random.Generator,
) -> dict[str, Any]:
    law, form = FORMS[name]
    found = prediction.compare(p, inside, y, law=law, form=form, threshold=settings["threshold"], rng=rng)
    return {one.disclosure: one.to_dict() for one in found}


def _quartiles(values: Floats) -> list[float]:
    return [float(value) for value in np.quantile(values, (0.25, 0.5, 0.75))]


def _goodness(
    figures: uncertainty.Uncertainty,
    p: Floats,
    inside: NDArray[np.bool_],
    y: NDArray[np.intp],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Test whether the label's confidence, over models, follows the Beta marginal of each record's own fitted law.

    "vector": of the Dirichlet law of all classes; "label": of the Beta law fitted to that confidence alone.
    """
    first = uncertainty.label_first(p, y)
    two = _label_alone(first)
    found: dict[str, Any] = {"vector": {}, "label": {}}
    for side, alpha, mask in (("members", figures.alpha_in, inside), ("nonmembers", figures.alpha_out, ~inside)):
        for law, values, parameters in (
            ("vector", first, alpha),
            ("label", two, dirichlet_fit.fit(two, mask).alpha),
        ):
            tested = dirichlet.goodness(values, parameters, mask, replicates=39, rng=rng)
            assert tested.p_value is not None
            rejected = float((tested.p_value <= 0.05).mean())
            found[law][side] = {"rejected": rejected, "distance": _quartiles(tested.distance)}
    return found


def _label_alone(first: Floats) -> Floats:
    """The label's confidence and the rest, as two classes."""
    return np.stack([first[..., 0], first[..., 1:].sum(axis=-1)], axis=-1)


# -- Figures 5 and 11: the law of a class -----------------------------------------------------------------------------


def laws(settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Train one network on each data set, if it is not kept, and fit the laws of its confidence vectors."""
    own, names = settings["laws"], list(settings["laws"])
    folder = options.out / "models" / options.form / "laws"
    decides = {"settings": json.dumps([own, settings["seed"]]), "torch": torch.__version__}
    with resumable.Store.alone(folder, decides, "law") as store:
        kept = resumable.finish(
            lambda shared, batch: [law_trained(name, *shared) for name in batch],
            (settings, options.data),
            names,
            place=store,
            what="networks",
            failure=lambda number, problem: f"{names[number]}: {problem}",
            workers=settings["workers"],
            progress=lambda done: print(f"\rlaws: {done}    ", end="", file=sys.stderr, flush=True),
        )
        print(file=sys.stderr)
        outputs = [np.load(kept[number]) for number in range(len(names))]
    return {name: law_of_class(name, one, settings, options.data) for name, one in zip(names, outputs, strict=True)}


def split(name: str, settings: Mapping[str, Any], data: Path) -> tuple[NDArray[np.float32], NDArray[np.intp], Any, Any]:
    """Return records, classes, who is learned, and the generator behind that draw."""
    x, y = READ[name](data)
    rng = np.random.default_rng(settings["seed"])
    inside = np.zeros(len(y), dtype=np.bool_)
    inside[rng.permutation(len(y))[: settings["laws"][name]["members"]]] = True
    return x, y, inside, rng


def law_trained(name: str, settings: Mapping[str, Any], data: Path) -> NDArray[np.float32]:
    """Train one network; return its logits on all records."""
    own, (x, y, inside, _) = settings["laws"][name], split(name, settings, data)
    built = network(own)
    state = train.fit(built, TrainConfig(**own["recipe"], device="cpu"), x, y, inside, seed=settings["seed"])
    return train.logits(built, state, x)


def law_of_class(name: str, logits: NDArray[np.float32], settings: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """Fit the laws of confidence vectors on images of class 0, learned and not, as the paper does."""
    _, y, inside, rng = split(name, settings, data)
    p = special.softmax(logits.astype(np.float64), axis=1)
    right = p.argmax(axis=1) == y
    zero = y == 0
    (fitted,) = groups.pooled(p[zero][:, None], inside[zero][:, None], y[zero], rng=rng)
    return {
        "accuracy": {"members": float(right[inside].mean()), "nonmembers": float(right[~inside].mean())},
        "group": fitted.to_dict(),
        "confidences": {
            "members": [float(value) for value in p[zero & inside, 0]],
            "nonmembers": [float(value) for value in p[zero & ~inside, 0]],
        },
    }


# -- all together -----------------------------------------------------------------------------------------------------


def run(part: str, settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One part, if the form has it."""
    if not settings[part]:
        return {}
    if part == "records":
        return {part: {name: compared(name, settings, options) for name in settings[part]}}
    if part == "laws":
        return {part: laws(settings, options)}
    images = () if part == "classes" else READ["mnist"](options.data)
    population = subgroups.Population(part, settings[part], settings["truth"], settings["seed"], *images)
    folder = options.out / "models" / options.form / part
    return {part: subgroups.measured(population, folder, settings["workers"])}


def known(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is finished of a form, without parts whose settings were others."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    of = found.get("settings", {})
    parts = {part: found[part] for part in PARTS if part in found and of.get(part) == decided(part, settings)}
    return {**parts, "settings": {part: of[part] for part in parts}}


def decided(part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings that decide a part's figures."""
    return {name: settings[name] for name in (part, "seed", "truth", "threshold")}


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what trained_expected.json says."""
    problems = []
    for name, row in found.get("records", {}).items():
        for form in FORMS:
            for disclosure, limits in expected["records"].get(name, {}).get(form, {}).items():
                one = row[form][disclosure]
                for key, (low, high) in limits.items():
                    value = one[key]["value"] if isinstance(one[key], Mapping) else one[key]
                    if not low <= value <= high:
                        problems.append(f"{name}, {form}, {disclosure}: {key} is {value:.3f}, not {low} to {high}")
    for name, distances in expected["laws"].items():
        if name in found.get("laws", {}):
            group = found["laws"][name]["group"]
            for key, (low, high) in distances.items():
                worst = max(group[side][key] for side in ("members", "nonmembers"))
                if not low <= worst <= high:
                    problems.append(f"{name}: the largest {key} is {worst:.3f}, not {low} to {high}")
    for key, what in (("trend", "calibration error"), ("advantage_trend", "advantage")):
        for part, sign in expected[key].items():
            if part in found and sign * found[part][key]["value"] <= 0:
                problems.append(f"{part}: the {what} changes by {found[part][key]['value']:+.3f}")
    return problems


# -- tables -----------------------------------------------------------------------------------------------------------


def table(found: Mapping[str, Any]) -> str:
    """Everything measured, as markdown."""
    lines: list[str] = []
    for name, row in found.get("records", {}).items():
        lines += [
            f"{name}: {row['records']} records, {row['models']} models, accuracy {row['accuracy']['members']:.3f} on "
            f"members and {row['accuracy']['nonmembers']:.3f} on others",
            "",
            "| law | disclosure | predicted | transferred | measured | rank correlation | noise allows | mean error | "
            "mean distance | placebo | bound | refuted |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for form in FORMS:
            lines += [f"| {form} | {disclosure} | {_cells(one)} |" for disclosure, one in row[form].items()]
        lines += ["", "| law of | members: rejected at 5%, median distance | others |", "|---|---|---|"]
        for law, sides in row["goodness"].items():
            cells = (f"{side['rejected']:.1%}, {side['distance'][1]:.2f}" for side in sides.values())
            lines.append(f"| {law} | {' | '.join(cells)} |")
        ranks = ", ".join(f"{key} {value:+.2f}" for key, value in row["ranks_with_true_label"].items())
        lines += ["", f"Rank correlation with the measured true-label advantage: {ranks}", "", *row["notes"], ""]
    for name, row in found.get("laws", {}).items():
        group = row["group"]
        sides = "; ".join(
            f"{side}: {group[side]['records']} images, confidence {group[side]['confidence']['value']:.3f}, epistemic "
            f"{group[side]['epistemic']['value']:.3f}, distance {group[side]['distance']:.3f} (confidence alone "
            f"{group[side]['distance_alone']:.3f})"
            for side in ("members", "nonmembers")
        )
        lines += [f"{name}, class 0: calibration error {_cell(group['calibration_error'])}; {sides}", ""]
    for part in ("classes", "size", "shift"):
        if part in found:
            lines += [*subgroups.table(part, found[part]), ""]
    return "\n".join(lines)


def _cells(one: Mapping[str, Any]) -> str:
    ranks = "none" if one["rank_correlation"] is None else _cell(one["rank_correlation"])
    allows = "" if one["attainable"] is None else f"{one['attainable']:.2f}"
    shown = (one[f"mean_{key}"] for key in ("predicted", "transferred", "measured"))
    means = ("" if limits is None else _cell(limits) for limits in shown)
    errors = (_cell(one[key]) for key in ("mean_error", "mean_absolute_error"))
    refuted = "" if one["refuted"] is None else f"{one['refuted']:.0%}"
    return " | ".join([*means, ranks, allows, *errors, f"{one['placebo']:.3f}", f"{one['mean_bound']:.3f}", refuted])


def _cell(limits: Mapping[str, float]) -> str:
    return f"{limits['value']:.3f} ({limits['low']:.3f} to {limits['high']:.3f})"


def main() -> int:
    """Run it; what cannot be done is said in one line."""
    try:
        return made()
    except MiauditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def made() -> int:
    """Make the parts that are asked for, and compare them with what is expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds location30/")
    parser.add_argument("--form", choices=("tiny", "small", "full", "paper"), default="small")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--workers", type=int, help="networks trained at a time; as in trained.yaml by default")
    parser.add_argument("--numbers-only", action="store_true", help="no figures: needs no altair")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    settings = yaml.safe_load((HERE / "trained.yaml").read_text())[options.form]
    settings["workers"] = options.workers or settings["workers"]
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / f"{options.form}.json"
    found = known(kept, settings)
    for part in options.parts:
        measured = run(part, settings, options)
        found = known(kept, settings)  # again: another process may have finished another part meanwhile
        found |= measured
        found["settings"][part] = decided(part, settings)
        # After each part, so that what is done is there if the next one is interrupted.
        atomic.write_text(kept, json.dumps(found, indent=1) + "\n")
        atomic.write_text(kept.with_suffix(".md"), table(found) + "\n")
    if not options.numbers_only:
        import trained_figures  # noqa: PLC0415 - altair is not everywhere where models are trained

        charts = options.out / options.form
        charts.mkdir(exist_ok=True)
        trained_figures.draw(found, charts)
    print(table(found))
    problems = differences(found, json.loads((HERE / "trained_expected.json").read_text())[options.form])
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
