"""MemGuard and its linear variant on Location-30, under attacks that know the defence and attacks that do not.

``python experiments/uncertainty_mia/memguard.py --data ../shared/data`` takes about a quarter of an hour on 2 cores.
What each model gives out is kept in ``--out``, so the same command again goes on where it stopped. The table goes to
``memguard.md`` as it is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy import special

from miaudit.attacks import shadow_classifier
from miaudit.defences import adaptive, registry
from miaudit.defences.adaptive import Observed
from miaudit.defences.differences import PairedFamily
from miaudit.defences.memguard import FittedMemGuard
from miaudit.evidence import Evidence
from miaudit.io import atomic
from miaudit.jobs import resumable
from miaudit.metrics.classical import Estimate, Sample, tpr_name
from miaudit.models import inclusion, nets, train
from miaudit.models.train import TrainConfig

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/uncertainty_mia/memguard")
UNDEFENDED = "as it is"
FLOOR = 1e-30
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Labels = NDArray[np.intp]


# -- models trained here ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class World:
    """Records, what each model learns, the audited model first, and who is audited or held out."""

    x: NDArray[np.float32]
    y: Labels
    included: Bools
    rows: Labels
    held_out: Labels


def world(settings: Mapping[str, Any], data: Path) -> World:
    """Draw the records and the memberships."""
    with np.load(data / "location30" / "location30.npz", allow_pickle=False) as z:
        x = np.unpackbits(z["x_packed"], axis=1)[:, : int(z["n_features"])].astype(np.float32)
        y = z["y"].astype(np.intp)
    rng = np.random.default_rng(settings["seed"])
    audited, count = settings["audited"], settings["audited"] + settings["held_out"]
    chosen = rng.permutation(len(y))[:count]
    rows = np.arange(audited)
    member = inclusion.coins(audited, rng=rng)
    included = inclusion.audited_and_shadows(count, rows, member, settings["models"], rng=rng)
    return World(x[chosen], y[chosen], included, rows, np.arange(audited, count))


def given_out(shared: tuple[World, Mapping[str, Any]], model: int) -> NDArray[np.float32]:
    """Train one model; return what it gives out about the audited records under each option (options, n, K)."""
    place, settings = shared
    built, config = nets.mlp(**settings["network"]), TrainConfig(**settings["recipe"], device="cpu")
    state = train.fit(built, config, place.x, place.y, place.included[model], seed=settings["seed"] + model)
    p = special.softmax(train.logits(built, state, place.x, device="cpu").astype(np.float64), axis=1)
    learnt = p[place.rows][place.included[model, place.rows]]
    rng = np.random.default_rng([settings["seed"], model])
    outside = p[place.held_out], place.y[place.held_out]
    return np.stack(list(defended(p[place.rows], outside, learnt, settings, rng).values())).astype(np.float32)


def defended(
    p: Floats, outside: tuple[Floats, Labels], learnt: Floats, settings: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, Floats]:
    """Return what becomes of vectors (n, K) under each option, whose classifiers learn from this model's outputs."""
    found = {UNDEFENDED: p}
    for name, (measure, options) in settings["options"].items():
        fitted = registry.make(measure, options).fit(*outside, learnt=learnt, rng=rng)
        if not isinstance(fitted, FittedMemGuard):
            found[name] = fitted.apply(p, rng=rng).values
            continue
        noisy, share = fitted.noise(p)
        length, coins = np.abs(noisy - p).sum(axis=1), fitted.coins(p)
        for called, budget in {name: fitted.options.budget, **settings["budgets"]}.items():
            reach = np.where(share > 0, np.minimum(1.0, budget / np.maximum(length, FLOOR)), 0.0)
            found[called] = np.where((coins < reach)[:, None], noisy, p)
    return found


def trained(settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Train the audited model and its shadow models, and attack what they give out."""
    place = world(settings, options.data)
    decides = {"data": resumable.digest([place.x, place.y, place.included]), "settings": json.dumps(settings)}
    models = list(range(len(place.included)))
    with resumable.Store.alone(options.out / "models" / options.form, decides, "model") as store:
        kept = resumable.finish(
            lambda shared, batch: [given_out(shared, model) for model in batch],
            (place, settings),
            models,
            place=store,
            what="models",
            failure=lambda number, problem: f"model {number}: {problem}",
            workers=settings["workers"],
            progress=lambda state: print(f"\r{state}    ", end="", file=sys.stderr, flush=True),
        )
        print(file=sys.stderr)
        values = np.stack([np.load(kept[model]) for model in models], axis=2)  # (options, n, models, K)
    names = [UNDEFENDED, *settings["options"], *settings["budgets"]]
    inside, y = place.included[:, place.rows].T, place.y[place.rows]
    plain = values[0, :, 0].astype(np.float64)
    right = plain.argmax(axis=1) == y
    found: dict[str, Any] = {
        "records": len(y),
        "models": len(models) - 1,
        "accuracy": {"members": float(right[inside[:, 0]].mean()), "nonmembers": float(right[~inside[:, 0]].mean())},
        "options": {},
    }
    scores: dict[str, dict[str, Floats]] = {}
    for name, mine in zip(names, values, strict=True):
        shown = {"knows": mine[:, 1:], "does not know": values[0][:, 1:]}
        scores[name] = {}
        for who, shadow in shown.items():
            seen = Observed("confidence-vector", mine[:, 0], shadow, inside[:, 1:].copy(), y)
            attacked = adaptive.attack(seen, rng=np.random.default_rng(settings["seed"]))
            scores[name][f"LiRA and others, {who}"] = attacked.scores
            scores[name][f"classifier, {who}"] = classifier(mine[:, 0], shadow, inside[:, 1:], y)
        found["options"][name] = {"distortion": mean_distortion(mine[:, 0], plain)}
        found["options"][name]["label kept"] = bool((mine[:, 0].argmax(axis=1) == plain.argmax(axis=1)).all())
    return found | {"attacks": judged(scores, inside[:, 0])}


def classifier(target: NDArray[Any], shadow: NDArray[Any], inside: Bools, y: Labels) -> Floats:
    """Scores (n,) of a classifier that learns membership on all shadow models' outputs (n, M, K), as NSH and NN do."""
    models = shadow.shape[1]
    rows = shadow.swapaxes(0, 1).reshape(-1, shadow.shape[2])
    return shadow_classifier.score(logs(target), y, logs(rows), np.tile(y, models), inside.T.ravel())


# -- the published outputs --------------------------------------------------------------------------------------------


def published(settings: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Defend the published outputs of one target and one shadow model, beside the published defended ones.

    The owner's held-out records are half of the published non-members; those of MemGuard's authors are not published.
    """
    with np.load(options.data / "mia_scores_location30" / "location30_mia_scores.npz", allow_pickle=False) as z:
        given = {name: z[name] for name in z.files}
    sides: dict[str, dict[str, Floats]] = {}
    audited: dict[str, Bools] = {}
    for i, side in enumerate(("target", "shadow")):
        member, y = given[f"{side}_member"].astype(bool), given[f"{side}_label"].astype(np.intp)
        p = special.softmax(given[f"{side}_logits"].astype(np.float64), axis=1)
        outside = np.flatnonzero(~member)[::2]
        rng = np.random.default_rng([settings["seed"], i])
        sides[side] = defended(p, (p[outside], y[outside]), p[member], settings, rng)
        sides[side]["MemGuard, published outputs"] = given[f"{side}_prob_memguard"].astype(np.float64)
        audited[side] = ~np.isin(np.arange(len(y)), outside)
    rows, known = audited["target"], audited["shadow"]
    y, shadow_y = given["target_label"].astype(np.intp)[rows], given["shadow_label"].astype(np.intp)[known]
    member, shadow_member = given["target_member"].astype(bool)[rows], given["shadow_member"].astype(bool)[known]
    scores: dict[str, dict[str, Floats]] = {}
    found: dict[str, Any] = {"records": int(rows.sum()), "options": {}}
    theirs = sides["target"]["MemGuard, published outputs"]
    for name, mine in sides["target"].items():
        scores[name] = {"confidence in the label": logs(mine[rows])[np.arange(len(y)), y]}
        for who, shadow in (("knows", sides["shadow"][name]), ("does not know", sides["shadow"][UNDEFENDED])):
            scores[name][f"classifier, {who}"] = shadow_classifier.score(
                logs(mine[rows]), y, logs(shadow[known]), shadow_y, shadow_member
            )
        plain = sides["target"][UNDEFENDED]
        found["options"][name] = {
            "distortion": mean_distortion(mine, plain),
            "distance from the published": mean_distortion(mine, theirs),
            "label kept": bool((mine.argmax(axis=1) == plain.argmax(axis=1)).all()),
        }
    return found | {"attacks": judged(scores, member)}


# -- judged -----------------------------------------------------------------------------------------------------------


def judged(scores: Mapping[str, Mapping[str, Floats]], member: Bools) -> dict[str, Any]:
    """AUC, TPR and the AUC taken off by each option, for each attack, with 95% limits.

    Limits of what is taken off hold for all options under one attack together, paired by record.
    """
    found: dict[str, Any] = {}
    names = list(scores)
    for kind in scores[UNDEFENDED]:
        family = PairedFamily.aucs(np.stack([scores[name][kind] for name in names]), member)
        less = {names[one.first]: one for one in family.against(0, 0.95, rng=np.random.default_rng(0))}
        found[kind] = {}
        for name in names:
            sample = Sample.of(Evidence(score=scores[name][kind], member=member, design="one-run"))
            auc, tpr = sample.auc(0.95), sample.tpr_at_fpr(0.01, 0.95)
            found[kind][name] = {"auc": limits(auc), tpr_name(0.01): limits(tpr)}
            if name in less:
                one = less[name]
                found[kind][name]["taken off"] = {"low": -one.high, "value": -one.value, "high": -one.low}
    return found


def limits(one: Estimate) -> dict[str, float | None]:
    """An estimate as numbers by name."""
    return {"low": one.low, "value": one.value, "high": one.high}


def mean_distortion(shown: NDArray[Any], plain: NDArray[Any]) -> float:
    """Mean over records of the sum of absolute changes."""
    return float(np.abs(shown.astype(np.float64) - plain).sum(axis=1).mean())


def logs(p: NDArray[Any]) -> Floats:
    """Log-probabilities, those of zeros finite."""
    return np.log(np.maximum(p.astype(np.float64), FLOOR))


def table(part: str, row: Mapping[str, Any]) -> list[str]:
    """Everything measured of one part, as markdown."""
    lines = ["| released | mean distortion | attack | AUC, does not know | AUC, knows | taken off | TPR at 1%, knows |"]
    lines.append("|---|---|---|---|---|---|---|")
    kinds = dict.fromkeys(kind.partition(", ")[0] for kind in row["attacks"] if ", " in kind)
    for name, one in row["options"].items():
        for kind in kinds:
            knows, ignorant = (row["attacks"][f"{kind}, {who}"][name] for who in ("knows", "does not know"))
            off = cell(knows["taken off"], "+") if "taken off" in knows else ""
            cells = (cell(ignorant["auc"]), cell(knows["auc"]), off, cell(knows[tpr_name(0.01)]))
            lines.append(f"| {name} | {one['distortion']:.2f} | {kind} | {' | '.join(cells)} |")
    return [f"{part}: {row['records']} records", "", *lines, ""]


def cell(one: Mapping[str, Any], sign: str = "") -> str:
    """A value with its limits; nothing where there are too few records for it."""
    if one["value"] is None:
        return ""
    return f"{one['value']:{sign}.3f} ({one['low']:{sign}.3f} to {one['high']:{sign}.3f})"


def differences(found: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what docs/disclosure.md says."""
    problems = []
    for part, row in found.items():
        problems += [f"{part}: {name} changes labels" for name, one in row["options"].items() if not one["label kept"]]
        for kind, options in row["attacks"].items():
            for name, one in options.items():
                if kind.endswith("does not know") and name != UNDEFENDED:
                    knows = row["attacks"][kind.replace("does not know", "knows")][name]
                    if knows["auc"]["high"] < one["auc"]["low"]:
                        problems.append(f"{part}, {kind}, {name}: an attack that knows the defence finds less")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds location30/")
    parser.add_argument("--form", choices=("tiny", "small"), default="small")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    settings = yaml.safe_load((HERE / "memguard.yaml").read_text())[options.form]
    options.out.mkdir(parents=True, exist_ok=True)
    found = {"published outputs": published(settings, options), "trained here": trained(settings, options)}
    shown = "\n".join(line for part, row in found.items() for line in table(part, row))
    for name, text in ((f"{options.form}.json", json.dumps(found, indent=1) + "\n"), (f"{options.form}.md", shown)):
        atomic.write_text(options.out / name, text)
    print(shown)
    problems = differences(found)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
