"""Figures 3(c) and 4 of causal-mia: a ResNet-16 on clean and noisy CIFAR images, raw and corrected.

``python experiments/causal_mia/clean_noisy.py --data ../shared/data`` runs a small form in minutes of CPU; ``--form
cpu`` takes all images and four seeds, three CPU-minutes each; ``--form table`` (all of the printed steps, small width)
and ``--full`` are for a GPU. What each seed gave is kept in ``--out``, so that the same command goes on where it
stopped.
Results are compared with ``clean_noisy_expected.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import miaudit as ma
from miaudit.attacks import signals
from miaudit.causal import balance, propensity
from miaudit.causal.propensity import Propensity
from miaudit.metrics.roc import Roc
from miaudit.models import nets, train
from miaudit.models.train import TrainConfig
from miaudit.report import kinds

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/causal_mia")
GRID = np.linspace(0.0, 1.0, 101)
PLAN = ma.Plan(fpr_targets=(0.01, 0.1), primary_metric="auc", bounds=None, propensity_model="line", estimator="hajek")
LEARNED = ("network", "grain")
CORRECTED = (*LEARNED, "oracle")


# -- the mixture ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mixture:
    """Images (n, 3, 32, 32) on [0, 1] with their noise, classes (n,), which are noisy (n,), and rows of each kind."""

    x: np.ndarray
    y: np.ndarray
    noisy: np.ndarray
    members: np.ndarray
    drifted: np.ndarray
    iid: np.ndarray

    @classmethod
    def draw(cls, data: Path, settings: Mapping[str, Any], rng: np.random.Generator) -> Mixture:
        """Deal the images out at random; then each is noisy by a coin of its kind, with noise that never changes."""
        with np.load(data / "cifar10" / settings.get("file", "cifar10_12k.npz"), allow_pickle=False) as z:
            images, classes = np.concatenate([z["x_train"], z["x_test"]]), np.concatenate([z["y_train"], z["y_test"]])
        sizes = [settings[kind] for kind in ("members", "drifted", "iid")]
        rows = rng.permutation(len(images))[: sum(sizes)]
        members, drifted, iid = np.split(np.arange(len(rows)), np.cumsum(sizes)[:-1])
        few, many = settings["shares"]
        noisy = rng.random(len(rows)) < np.repeat([few, many, few], sizes)
        x = images[rows].transpose(0, 3, 1, 2) / np.float32(255)
        x[noisy] += rng.normal(0.0, settings["noise"], x[noisy].shape).astype(np.float32)
        return cls(np.clip(x, 0.0, 1.0), classes[rows].astype(np.int64), noisy, members, drifted, iid)

    def scaled(self) -> np.ndarray:
        """Images as networks see them, on [-1, 1]."""
        return 2 * self.x - 1


def grain(x: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise of images (n, channels, height, width), from second differences alone (n,).

    Immerkaer (1996): the difference of two Laplacians is blind to edges and ramps; it has 36 times the noise variance.

    >>> x = np.full((1, 3, 32, 32), 0.5) + np.random.default_rng(0).normal(0.0, 0.1, (1, 3, 32, 32))
    >>> bool(abs(grain(x)[0] - 0.1) < 0.01), grain(np.full((1, 3, 32, 32), 0.5)).tolist()
    (True, [0.0])
    """
    down = x[:, :, :-2] - 2 * x[:, :, 1:-1] + x[:, :, 2:]
    both = down[..., :-2] - 2 * down[..., 1:-1] + down[..., 2:]
    found: np.ndarray = np.sqrt(np.pi / 2) / 6 * np.abs(both).mean(axis=(1, 2, 3))
    return found


def two_groups(values: np.ndarray) -> np.ndarray:
    """Split numbers (n,) where the squares within the two groups are least (2-means in one dimension; Otsu 1979)."""
    order = np.sort(values)
    count = np.arange(1, len(order))
    total = np.cumsum(order)[:-1]
    between = (total / count - (order.sum() - total) / (len(order) - count)) ** 2 * count * (len(order) - count)
    at = int(np.argmax(between))
    return np.asarray(values > (order[at] + order[at + 1]) / 2)


# -- what is trained --------------------------------------------------------------------------------------------------


def collect(data: Path, settings: Mapping[str, Any], seed: int, device: str) -> dict[str, np.ndarray]:
    """Train the target on the members and the propensity network on halves; return what the analysis needs."""
    rng = np.random.default_rng(seed)
    mixture = Mixture.draw(data, settings, rng)
    x, config = mixture.scaled(), TrainConfig(**settings["recipe"], device=device)
    network = _network(settings["network"])
    state = train.fit(network, config, x, mixture.y, mixture.members, seed=seed)
    logits = train.logits(network, state, x, device=device)
    kind = np.repeat([0, 1, 2], [len(mixture.members), len(mixture.drifted), len(mixture.iid)])
    audited = np.r_[mixture.members, mixture.drifted]
    covariate = np.full(len(x), np.nan)
    covariate[audited] = membership_log_odds(x[audited], kind[audited] == 0, settings["propensity"], device, rng)
    return {
        "kind": kind,
        "noisy": mixture.noisy,
        "score": signals.member_scores(labels=mixture.y, logits=logits)["loss"],
        "right": logits.argmax(axis=1) == mixture.y,
        "grain": grain(mixture.x),
        "network": covariate,
    }


def membership_log_odds(
    x: np.ndarray, member: np.ndarray, settings: Mapping[str, Any], device: str, rng: np.random.Generator
) -> np.ndarray:
    """Log-odds (n,) that an image is a member's, each from a network that learned from the other half."""
    network, config = _network(settings["network"]), TrainConfig(**settings["recipe"], device=device)
    half = rng.permutation(len(x)) % 2 == 0
    found = np.empty(len(x))
    for i, held_out in enumerate((half, ~half)):
        state = train.fit(network, config, x, member.astype(np.int64), np.flatnonzero(~held_out), seed=i)
        logits = train.logits(network, state, x[held_out], device=device)
        found[held_out] = logits[:, 1] - logits[:, 0]
    return found


def _network(described: Mapping[str, Any]) -> nets.Network:
    build = dict(described)
    network: nets.Network = getattr(nets, build.pop("name"))(**build)
    return network


# -- what is said of it -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Seed:
    """One seed's target, analysed: numbers, curves (on GRID) and what Figure 4 draws."""

    row: dict[str, Any]
    curves: dict[str, np.ndarray]
    drawn: dict[str, np.ndarray]

    @classmethod
    def of(cls, given: Mapping[str, np.ndarray], settings: Mapping[str, Any], out: Path, seed: int) -> Seed:
        """Audit members against undrifted and against drifted non-members, the latter raw and corrected."""
        kind, score, noisy = given["kind"], given["score"], given["noisy"]
        zero, one = kind != 2, kind != 1
        undrifted = Roc.of(score[one], kind[one] == 0)
        raw = Roc.of(score[zero], kind[zero] == 0)
        few, many = settings["shares"]
        odds = np.where(
            noisy, few / many, (1 - few) / (1 - many)
        )  # of the world itself; a constant makes no difference
        learned, row = {"oracle": Propensity.given((odds / (1 + odds))[zero])}, {}
        for name, covariate in (("network", given["network"]), ("grain", two_groups(np.log(given["grain"][zero])))):
            x = (covariate[zero] if len(covariate) == len(kind) else covariate).astype(float)
            evidence = ma.Evidence(
                score=score[zero],
                member=kind[zero] == 0,
                covariates=x,
                covariate_names=[name],
                design="zero-run",
                source=f"clean and noisy CIFAR-10, seed {seed}",
            )
            learned[name], row[name] = audit(evidence, out / f"clean-noisy-{name}-seed-{seed}", seed)
        rocs = {name: corrected(score[zero], kind[zero] == 0, pi) for name, pi in learned.items()}
        row |= {
            "seed": seed,
            "iid": undrifted.auc,
            "drifted": raw.auc,
            **{name: row.get(name, {}) | {"auc": roc.auc} for name, roc in rocs.items()},
            "accuracy": [float(given["right"][kind == k].mean()) for k in range(3)],
            "grain_finds_noise": float(np.mean(two_groups(np.log(given["grain"][zero])) == noisy[zero])),
        }
        curves = {"iid": undrifted, "drifted": raw, **rocs}
        drawn = {
            "member": kind[zero] == 0,
            "loss": -score[zero],
            "oracle": np.log(odds[zero]),
            "learned": learned["network"].logit,
        }
        return cls(row, {name: np.asarray(roc.tpr_at(GRID)) for name, roc in curves.items()}, drawn)


def audit(evidence: ma.Evidence, out: Path, seed: int) -> tuple[Propensity, dict[str, Any]]:
    """The zero-run audit with its page; and the propensity that it learns, for the curve."""
    findings = ma.audit(evidence, plan=PLAN, rng=np.random.default_rng(seed))
    kinds.write(findings, out, overwrite=True)
    pi = propensity.fit(evidence, rng=np.random.default_rng(seed))
    measured = balance.measure(evidence, pi)
    auc = findings.metric("auc") if findings.metrics else None
    return pi, {
        "status": findings.overlap.status if findings.overlap else findings.verdict.status,
        "audited_auc": None if auc is None else (auc.low, auc.value, auc.high),
        "blind_auc": measured.blind_auc.value,
        "effective": measured.effective_size,
    }


def corrected(score: np.ndarray, member: np.ndarray, pi: Propensity) -> Roc:
    """Weight drifted non-members by their odds of membership (Hajek, erratum A1)."""
    return Roc.of(score, member, np.where(member, 1.0, pi.odds))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean over the seeds of each AUC and of its distance from the undrifted one, with standard errors."""
    auc = {name: np.array([row[name] for row in rows]) for name in ("iid", "drifted")}
    auc |= {name: np.array([row[name]["auc"] for row in rows]) for name in CORRECTED}
    return {
        name: {
            "auc": float(values.mean()),
            "above_iid": float((values - auc["iid"]).mean()),
            "standard_error": _standard_error(values - auc["iid"]),
        }
        for name, values in auc.items()
    }


def _standard_error(values: np.ndarray) -> float | None:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else None


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold; fewer than four seeds are allowed twice the distance, or three standard errors."""
    means, problems, seeds = found["mean"], [], len(found["seeds"])
    if means["iid"]["auc"] < expected["iid_auc_above"]:
        problems.append(f"the target hardly memorises: undrifted AUC {means['iid']['auc']:.3f}")
    if means["drifted"]["above_iid"] < expected["drifted_above_iid_by"][found["form"]]:
        problems.append(f"drifted less undrifted AUC: {means['drifted']['above_iid']:+.3f}")
    for name in CORRECTED:
        allowed = expected["corrected_within"]
        if seeds < 4:
            allowed = max(2 * allowed, 3 * (means[name]["standard_error"] or 0.0))
        if abs(means[name]["above_iid"]) > allowed:
            problems.append(
                f"corrected ({name}) less undrifted AUC: {means[name]['above_iid']:+.3f}, within {allowed:.3f}"
            )
    for row in found["seeds"]:
        refused = [name for name in expected["answered"][found["form"]] if row[name]["status"] == "refused"]
        problems += [f"seed {row['seed']}: refused with {name}" for name in refused]
    return problems


def table(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """AUCs as markdown, seed by seed and their mean, beside the printed ones."""
    names = ("iid", "drifted", *CORRECTED)
    lines = [
        "| seed | undrifted | drifted, raw | corrected: network | grain | oracle | blind AUC | effective | audit |"
    ]
    lines.append("|---" * 9 + "|")
    for row in found["seeds"]:
        cells = [row["iid"], row["drifted"], *(row[name]["auc"] for name in CORRECTED), row["network"]["blind_auc"]]
        audited = f"{row['network']['effective']:.0f} | {row['network']['status']}"
        lines.append(f"| {row['seed']} | {' | '.join(f'{cell:.3f}' for cell in cells)} | {audited} |")
    means = " | ".join(f"**{found['mean'][name]['auc']:.3f}**" for name in names)
    printed = expected["printed"]
    lines.append(f"| mean | {means} | | | |")
    lines.append(f"| printed | {printed['iid']} | {printed['drifted']} | {printed['corrected']} | | | | | |")
    return "\n".join(lines)


def draw(seeds: list[Seed], out: Path) -> None:
    """Figure 3(c), mean curves; Figure 4, histograms of the first seed."""
    import figures  # noqa: PLC0415 - altair is not everywhere where models are trained

    named = {"one_run": "iid", "zero_run_raw": "drifted", "zero_run_oracle": "oracle", "zero_run_learned": "network"}
    curves = {shown: np.mean([seed.curves[name] for seed in seeds], axis=0) for shown, name in named.items()}
    title = f"Clean and noisy CIFAR-10, mean of {len(seeds)} (Figure 3c)"
    figures.save(figures.roc(curves, GRID, title, {}), out / "roc-clean-noisy")
    for name, chart in figures.comparability(seeds[0].drawn, len(seeds[0].drawn["member"]) // 2).items():
        figures.save(chart, out / f"figure-4-clean-noisy-{name}")


def kept(options: argparse.Namespace, settings: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """What one seed's networks gave, from the file of an earlier run with these very settings if there is one."""
    described = json.dumps({name: value for name, value in settings.items() if name != "seeds"}, sort_keys=True)
    path = options.out / f"clean-noisy-{hashlib.sha256(described.encode()).hexdigest()[:12]}-seed-{seed}.npz"
    if not path.is_file():
        start = time.perf_counter()
        given = collect(options.data, settings, seed, options.device)
        part = path.with_suffix(".part.npz")
        np.savez(part, **given)
        part.replace(path)
        print(f"seed {seed}: trained in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    with np.load(path, allow_pickle=False) as z:
        return {name: z[name] for name in z.files}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds cifar10/")
    parser.add_argument("--full", action="store_true", help="all images, four seeds and width 4: for a GPU")
    parser.add_argument("--form", help="any other form of clean_noisy.yaml")
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="these only; the others can run beside, into the same --out"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--collect-only", action="store_true", help="train and keep the scores; analyse elsewhere")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    form = options.form or ("full" if options.full else "small")
    settings = yaml.safe_load((HERE / "clean_noisy.yaml").read_text())[form]
    options.out.mkdir(parents=True, exist_ok=True)
    numbers = range(settings["seeds"]) if options.seeds is None else options.seeds
    collected = {seed: kept(options, settings, seed) for seed in numbers}
    if options.collect_only:
        return 0
    seeds = [Seed.of(given, settings, options.out, seed) for seed, given in collected.items()]
    rows = [seed.row for seed in seeds]
    found = {"form": form, "seeds": rows, "mean": summary(rows)}
    found["curves"] = {
        name: np.mean([s.curves[name] for s in seeds], axis=0).round(5).tolist() for name in seeds[0].curves
    }
    (options.out / "clean_noisy.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(seeds, options.out)
    expected = json.loads((HERE / "clean_noisy_expected.json").read_text())
    print(table(found, expected))
    problems = differences(found, expected)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
