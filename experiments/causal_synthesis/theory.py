"""Theorem 1 and its two claims where they can be computed: convex generators, every record, every neighbouring table.

``python experiments/causal_synthesis/theory.py`` writes ``results/experiments/causal_synthesis/theory`` (JSON and
markdown, quoted by ``theory.md``) and compares it with ``expected.json``. Parts that are there already are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
from convex import Conditionals, ConvexGenerator, counted, distances, records
from kept import Kept, place
from scipy import stats

from miaudit.arrays import BoolArray, FloatArray
from miaudit.io import atomic
from miaudit.metrics.classical import clopper_pearson
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.retraining_attack.membership import membership_attack
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.utility import placement

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/causal_synthesis/theory")
SEED = 20261124
TOLERANCE = 1e-9
KINDS = {"ordinary": (1.0, 2.0), "nearly deterministic": (4.0, 6.0)}  # weights of the worlds' mechanisms


@dataclass(frozen=True)
class Form:
    """Sizes: random worlds, their columns, records in a table, and the attack."""

    worlds: int = 200
    columns: int = 5
    sizes: tuple[int, ...] = (50, 500, 5000)
    enumerated: tuple[int, ...] = (2, 4, 8, 16)
    ridge: float = 0.01  # per record, the strong convexity
    against: tuple[str, ...] = ("causal", "reversed", "associational")
    attacked: int = 200
    attacked_ridge: float = 10.0  # in all: a public constant, as neighbouring tables may differ in one record only
    repeats: int = 150
    sets: int = 2
    set_size: int = 2500
    epsilon: float = 4.0
    drawn: int = 20_000


FORMS = {
    "tiny": Form(
        worlds=4,
        columns=3,
        sizes=(50,),
        enumerated=(2, 3),
        against=("causal",),
        repeats=4,
        sets=2,
        set_size=50,
        drawn=200,
    ),
    "small": Form(),
}


@dataclass(frozen=True, eq=False)
class World:
    """Binary columns along a random graph: their parents, and P(record) (2^d,)."""

    parents: BoolArray
    law: FloatArray

    @classmethod
    def drawn(cls, columns: int, weights: tuple[float, float], rng: np.random.Generator) -> World:
        """Each pair of columns is an edge with probability one half; logistic mechanisms, centred."""
        parents = np.tril(rng.random((columns, columns)) < 0.5, -1)
        model, theta = Conditionals.causal(parents), []
        for t in range(columns):
            size = rng.choice([-1, 1], size=int(parents[t].sum())) * rng.uniform(*weights, size=int(parents[t].sum()))
            theta.append(np.r_[rng.uniform(-1, 1) - size.sum() / 2, size][None])
        return cls(parents, model.law(theta)[0])


# -- an exact counterexample ------------------------------------------------------------------------------------------


def linear(width: float) -> dict[str, float]:
    """x1 uniform on [-1, 1], x2 = x1 + noise uniform on [-width, width]; linear predictors, squared loss, n infinite.

    Causal: x1 by its mean 0, x2 by x1. Associational: each by the other. All minimisers of the expected loss, with the
    true functions in both classes; the adversary may add any record that the process can generate. Sensitivities are
    limits of n ||theta - theta'||: of the inverse Hessian times the gradient of the added record.
    """
    one, two = 1 / 3, (1 + width**2) / 3  # variances of x1 and x2
    back = one / two
    x1 = np.array([[a, a, a, a] for a in (-1.0, 1.0)]).ravel()  # convex functions are largest at corners
    x2 = x1 + np.tile([-width, width], 4)
    root, effect, cause = np.abs(x1), np.abs(x2 - x1), np.abs(x1 - back * x2)
    moved = {  # of the intercept and the slope, for each conditional
        "root": root,
        "effect": effect * np.sqrt(1 + (x1 / one) ** 2),
        "cause": cause * np.sqrt(1 + (x2 / two) ** 2),
    }
    return {
        "largest causal loss": float((root**2 + effect**2).max()),
        "largest associational loss": float((cause**2 + effect**2).max()),
        "causal sensitivity, n times": float(np.hypot(moved["root"], moved["effect"]).max()),
        "associational sensitivity, n times": float(np.hypot(moved["cause"], moved["effect"]).max()),
    }


# -- every table ------------------------------------------------------------------------------------------------------


def every_table(n: int, ridge: float) -> dict[str, float]:
    """Largest ||theta - theta'|| over all tables of n records of two columns, and all records that can be added."""
    rows = np.array(list(combinations_with_replacement(range(4), n)))
    counts = np.stack([(rows == s).sum(axis=1) for s in range(4)], axis=1).astype(np.float64)
    parents = np.array([[False, False], [True, False]])
    models = {
        "causal": Conditionals.causal(parents),
        "reversed": Conditionals.reversed(parents),
        "associational": Conditionals.associational(2),
    }
    found: dict[str, float] = {"tables": float(len(counts))}
    for name, model in models.items():
        own = model.fit(counts, np.full(len(counts), ridge * n))
        moved = np.zeros(len(counts))
        for s in range(4):
            more = counts + np.eye(4)[s]
            moved = np.maximum(moved, distances(model.fit(more, np.full(len(counts), ridge * (n + 1))), own))
        found[name] = float(moved.max())
        found[f"{name}, of what the last step needs it to exceed"] = float(moved.max()) / _least(model, n, ridge)
    return found


def _least(model: Conditionals, n: int, ridge: float) -> float:
    """2 rho / (lambda (n + 1)); rho on the ball that holds all minimisers is twice that of the log-loss."""
    return 2 * 2 * model.lipschitz / (ridge * (n + 1))


# -- random worlds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trained:
    """One model on a table and on every neighbouring one: losses with the regulariser, and how far parameters move."""

    by_column: FloatArray  # (2^d, d) log-loss on the table
    loss: FloatArray  # (2^d,) of each record before it is added
    after: FloatArray  # (2^d,) of each record once it was added
    moved: FloatArray  # (2^d,)

    @classmethod
    def on(cls, model: Conditionals, counts: FloatArray, ridge: float) -> Trained:
        """Train on a table (2^d,) of counts and on that table with each record added."""
        n, size = counts.sum(), len(counts)
        own = model.fit(counts[None], np.array([ridge * n]))
        other = model.fit(counts + np.eye(size), np.full(size, ridge * (n + 1)))
        before, after = model.losses(own)[0], np.diagonal(model.losses(other).sum(axis=-1))
        norm, norms = (sum((part**2).sum(axis=-1) for part in theta) for theta in (own, other))
        loss = before.sum(axis=-1) + ridge / 2 * norm[0]
        return cls(before, loss, after + ridge / 2 * norms, distances(own, other))


def in_world(world: World, counts: FloatArray, ridge: float) -> dict[str, dict[str, float]]:
    """What holds in one world, of the causal graph and, as a control, of the reversed one."""
    n = round(counts.sum())
    every = Trained.on(Conditionals.associational(len(world.parents)), counts, ridge)
    models = {"causal": Conditionals.causal(world.parents), "reversed": Conditionals.reversed(world.parents)}
    found = {}
    for name, model in models.items():
        own = Trained.on(model, counts, ridge)
        mine, theirs = int(own.loss.argmax()), int(every.loss.argmax())
        assumed = [assumption(own.by_column[:, t], every.by_column[:, t], model, t) for t in range(model.columns)]
        largest = [own.by_column[:, t].max() <= every.by_column[:, t].max() + TOLERANCE for t in range(model.columns)]
        found[name] = {
            "claim 1": own.loss.max() <= every.loss.max() + TOLERANCE,
            "claim 1, a column alone": float(np.mean(largest)),
            "assumption 1, a column alone": float(np.mean(assumed)),
            "assumption 1 without claim 1": float(sum(a and not c for a, c in zip(assumed, largest, strict=True))),
            "equation 17": own.after[theirs] >= every.after[theirs] - TOLERANCE,
            "equation 18": own.loss[mine] - own.after[mine] <= every.loss[theirs] - every.after[theirs] + TOLERANCE,
            "claim 2": own.moved.max() <= every.moved.max() + TOLERANCE,
            "ratio of sensitivities": own.moved.max() / every.moved.max(),
            "the adversary's record moves most": own.moved[mine] >= own.moved.max() - TOLERANCE,
            "moves of the most": own.moved[mine] / own.moved.max(),
            "of what the last step needs": own.moved.max() / _least(model, n, ridge),
        }
    return {name: {key: float(value) for key, value in row.items()} for name, row in found.items()}


def assumption(own: FloatArray, every: FloatArray, model: Conditionals, t: int) -> bool:
    """Assumption 1 for the prediction of one column; losses (2^d,) of the two models in every record.

    Causal features are the column and what it is predicted from, associational ones all others.
    """
    inside = model.uses[t].copy()
    inside[t] = True
    rows = records(model.columns)
    if inside.all():
        return bool((own - every).max() <= TOLERANCE)
    weights = 2 ** np.arange(model.columns)
    _, c = np.unique(rows[:, inside] @ weights[: inside.sum()], return_inverse=True)
    _, a = np.unique(rows[:, ~inside] @ weights[: (~inside).sum()], return_inverse=True)
    change, theirs = (np.empty((c.max() + 1, a.max() + 1)) for _ in range(2))
    change[c, a], theirs[c, a] = own - every, every
    reach = (theirs.max(axis=1, keepdims=True) - theirs).min(axis=0)
    return bool((change.max(axis=0) <= reach + TOLERANCE).any())


def worlds(form: Form, kind: str, size: int | None) -> dict[str, Any]:
    """Random worlds, one table of each; ``size`` None for infinitely many records (and hardly a regulariser)."""
    rng = np.random.default_rng([SEED, list(KINDS).index(kind), size or 0])
    rows = []
    for _ in range(form.worlds):
        world = World.drawn(form.columns, KINDS[kind], rng)
        counts = world.law * 1e6 if size is None else rng.multinomial(size, world.law).astype(np.float64)
        rows.append(in_world(world, counts, 1e-6 if size is None else form.ridge))
    found: dict[str, Any] = {}
    for name in rows[0]:
        found[name] = {}
        for key in rows[0][name]:
            values = np.array([row[name][key] for row in rows])
            yes_or_no = key.startswith(("claim", "equation", "the adversary")) and not key.endswith("alone")
            found[name][key] = share(values) if yes_or_no else mean(values)
    return found


def share(values: FloatArray) -> list[float]:
    """Low, value and high of a share of independent worlds (Clopper and Pearson 1934, 95%)."""
    low, high = clopper_pearson(float(values.sum()), float(len(values)), 0.95)
    return [float(low), float(values.mean()), float(high)]


def mean(values: FloatArray) -> list[float]:
    """Low, value and high of a mean over independent worlds (t, 95%), and the largest value."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return [float(values.mean() - half), float(values.mean()), float(values.mean() + half), float(values.max())]


# -- the loss-maximising adversary ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Adversary:
    """A table, and the record that is added to it by whom.

    Attributes
    ----------
    model : of the generator that is attacked
    table : (n, d), without the target
    ridge : in all
    noise : standard deviation that keeps epsilon, by the proven sensitivity
    """

    model: Conditionals
    table: FloatArray
    ridge: float
    noise: float

    @classmethod
    def against(cls, model: Conditionals, table: FloatArray, form: Form) -> Adversary:
        """Noise for all parameters at once: adding a record moves them by lipschitz / ridge at most."""
        privacy = Privacy(records=form.attacked, epsilon=form.epsilon, delta=1e-5)
        return cls(model, table, form.attacked_ridge, privacy.relative_noise * model.lipschitz / form.attacked_ridge)

    def targets(self, rng: np.random.Generator) -> dict[str, int]:
        """The records by number: of the largest loss, of the largest effect, and one of the table's law."""
        counts, size = counted(self.table), 2**self.model.columns
        own = self.model.fit(counts[None], np.array([self.ridge]))
        moved = distances(self.model.fit(counts + np.eye(size), np.full(size, self.ridge)), own)
        return {
            "largest loss": int(self.model.losses(own)[0].sum(axis=-1).argmax()),
            "moves most": int(moved.argmax()),
            "a random record": int(rng.choice(size, p=counts / counts.sum())),
        }

    def exact(self, target: int, form: Form, rng: np.random.Generator) -> dict[str, float]:
        """How far the target moves the parameters, and what the best attacks there are would find.

        ``auc``: of all released records of one generator without privacy, by the likelihood ratio of the two laws
        (simulated). ``auc with noise``: of the noisy parameters themselves, of which records tell less.
        """
        counts = counted(self.table)
        both = self.model.fit(np.stack([counts, counts + np.eye(len(counts))[target]]), np.full(2, self.ridge))
        moved = float(distances([one[:1] for one in both], [one[1:] for one in both])[0])
        without, having = self.model.law(both)
        ratio = np.log(having / without)
        n = form.sets * form.set_size
        scores = [rng.multinomial(n, law / law.sum(), size=form.drawn) @ ratio for law in (having, without)]
        area = placement(scores[0], scores[1]).mean()
        mu = moved / self.noise
        return {
            "moved": moved,
            "moves at most": self.model.lipschitz / self.ridge,
            "auc": float(area),
            "mu": mu,
            "auc with noise": float(stats.norm.cdf(mu / np.sqrt(2))),
        }

    def attack(self, target: int, noise: float, form: Form, seed: int) -> dict[str, Any]:
        """The toolkit's attack on released sets, held out by generator, with a placebo and a bound."""
        d = self.model.columns
        schema = Schema(tuple(Column(f"x{t + 1}") for t in range(d)))
        table = Table(schema, np.concatenate([self.table, records(d)[target][None]]))
        fit = partial(ConvexGenerator.of, model=self.model, ridge=self.ridge, noise=noise)
        found = membership_attack(
            table,
            fit=fit,
            targets=[len(self.table)],
            repeats=form.repeats,
            sets=form.sets,
            set_size=form.set_size,
            folds=2 if form.repeats < 8 else 4,
            extractors=["naive", "correlation", "nearness"],
            classifiers=["logistic", "kernel"],
            delta=1e-5 if noise else 0.0,
            rng=np.random.default_rng(seed),
        )
        best = max(found.rows, key=lambda row: row.metrics["auc_of_models"].value or 0.0)
        limits = {
            name: [float(x or 0.0) for x in (given.low, given.value, given.high)]
            for name, given in (("auc", best.metrics["auc_of_models"]), ("placebo", best.placebo["auc_of_models"]))
        }
        bound = None if found.bound is None else found.bound.bound
        return limits | {
            "attack": f"{best.extractor}, {best.classifier}",
            "bound": 0.0 if bound is None else bound.value,
            "reachable": 0.0 if bound is None else float(bound.reachable or 0.0),
        }


def adversary(form: Form, kept: Kept) -> dict[str, Any]:
    """Each generator against three choices of the added record, without and with noise."""
    rng = np.random.default_rng([SEED, 9])
    world = World.drawn(form.columns, KINDS["ordinary"], rng)
    table = records(form.columns)[rng.choice(len(world.law), size=form.attacked, p=world.law)]
    models = {
        "causal": Conditionals.causal(world.parents),
        "reversed": Conditionals.reversed(world.parents),  # the control: as few parameters, and not causal
        "associational": Conditionals.associational(form.columns),
    }
    found: dict[str, Any] = {}
    for name in form.against:
        model = models[name]
        against = Adversary.against(model, table, form)
        for who, target in against.targets(np.random.default_rng([SEED, 10])).items():
            row: dict[str, Any] = {"record": "".join(f"{x:.0f}" for x in records(form.columns)[target])}
            row |= against.exact(target, form, np.random.default_rng([SEED, 11]))
            for arm, noise in (("no DP", 0.0), ("DP", against.noise)):
                sizes = (form.columns, form.attacked, form.attacked_ridge, form.repeats, form.sets, form.set_size)
                made_of = {"sizes": sizes, "model": name, "target": target, "noise": noise}
                make = partial(_attack, against, target, noise, form)
                row[arm] = kept.part(f"{name}, {who}, {arm}", made_of, make)
            found[f"{name}: {who}"] = row
    return found


def _worlds(form: Form, kind: str, size: int | None, _: Path) -> dict[str, Any]:
    return worlds(form, kind, size)


def _attack(against: Adversary, target: int, noise: float, form: Form, _: Path) -> dict[str, Any]:
    return against.attack(target, noise, form, SEED)


# -- words and tables -------------------------------------------------------------------------------------------------


def measured(form: Form, folder: Path) -> dict[str, Any]:
    """Everything, part by part."""
    kept = Kept(folder / "parts")
    found: dict[str, Any] = {
        "linear": {f"{width:g}": linear(width) for width in (0.05, 0.1, 0.5, 1.0)},
        "every table": {str(n): every_table(n, form.ridge) for n in form.enumerated},
        "worlds": {},
    }
    for kind in KINDS:
        for size in (*form.sizes, None):
            name = f"{kind}, {'infinitely many' if size is None else format(size, ',')} records"
            made_of = {"worlds": form.worlds, "columns": form.columns, "ridge": form.ridge, "kind": kind, "size": size}
            made = partial(_worlds, form, kind, size)
            found["worlds"][name] = kept.part(name.replace(",", ""), made_of, made)
    found["adversary"] = adversary(form, kept)
    return found


def tables(found: Mapping[str, Any]) -> str:
    """Markdown, which theory.md quotes."""
    parts = (
        _linear_table(found["linear"]),
        _every_table(found["every table"]),
        _worlds_table(found["worlds"]),
        _adversary_table(found["adversary"]),
    )
    return "\n".join(line for part in parts for line in (*part, ""))


def _linear_table(part: Mapping[str, Any]) -> list[str]:
    names = list(next(iter(part.values())))
    lines = [f"| noise of x2 at most | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    return lines + [f"| {width} | {' | '.join(f'{row[name]:.4f}' for name in names)} |" for width, row in part.items()]


def _every_table(part: Mapping[str, Any]) -> list[str]:
    lines = ["| n | tables | causal | reversed | associational | causal, of what the last step needs it to exceed |"]
    lines += ["|---" * 6 + "|"]
    for n, row in part.items():
        cells = " | ".join(f"{row[name]:.6f}" for name in ("causal", "reversed", "associational"))
        needed = row["causal, of what the last step needs it to exceed"]
        lines.append(f"| {n} | {row['tables']:,.0f} | {cells} | {needed:.3f} |")
    return lines


def _worlds_table(part: Mapping[str, Any]) -> list[str]:
    asked = (
        ("claim 1", "claim 2", "ratio of sensitivities", "equation 17", "equation 18"),
        (
            *("claim 1, a column alone", "assumption 1, a column alone", "assumption 1 without claim 1"),
            *("the adversary's record moves most", "moves of the most", "of what the last step needs"),
        ),
    )
    lines = []
    for names in asked:
        lines += [f"| worlds | graph | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
        for world, row in part.items():
            for graph in ("causal", "reversed"):
                cells = " | ".join(_of_worlds(name, row[graph][name]) for name in names)
                lines.append(f"| {world} | {graph} | {cells} |")
        lines.append("")
    return lines[:-1]


def _of_worlds(name: str, given: list[float]) -> str:
    """A share with its limits; of ratios the largest as well; of what must never be, the largest alone."""
    if name == "assumption 1 without claim 1":
        return f"{given[3]:.0f}"
    if "of the most" in name or "ratio" in name or "needs" in name:
        return _limits(given)
    return _limits([min(max(x, 0.0), 1.0) for x in given[:3]])


def _adversary_table(part: Mapping[str, Any]) -> list[str]:
    lines = [
        "| generator: added record | record | moves the parameters by (at most) | no DP: best possible AUC | "
        "no DP: best attack's AUC (placebo) | no DP: epsilon at least (could have shown) | DP: best possible AUC | "
        "DP: best attack's AUC (placebo) | DP: epsilon at least (could have shown) |",
        "|---" * 9 + "|",
    ]
    for name, row in part.items():
        cells = [f"{row['moved']:.3f} ({row['moves at most']:.3f})"]
        for arm, best in (("no DP", "auc"), ("DP", "auc with noise")):
            own = row[arm]
            cells += [f"{row[best]:.3f}", f"{_limits(own['auc'])} (placebo {_limits(own['placebo'])})"]
            cells += [f"{own['bound']:.2f} ({own['reachable']:.2f})"]
        lines.append(f"| {name} | {row['record']} | {' | '.join(cells)} |")
    return lines


def _limits(given: list[float]) -> str:
    text = f"{given[1]:.3f} ({given[0]:.3f} to {given[2]:.3f})"
    return text if len(given) == 3 else f"{text}, at most {given[3]:.3f}"


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """What does not hold of what is expected: the counterexamples stand, and no bound crosses its promise."""
    problems = []
    for width, row in found["linear"].items():
        smaller = row["largest associational loss"] < row["largest causal loss"] - TOLERANCE
        if smaller != (float(width) < expected["counterexample_below"]):
            problems.append(f"the linear counterexample at {width}: {row}")
    for n, row in found["every table"].items():
        if abs(row["causal"] - row["reversed"]) > TOLERANCE:
            problems.append(f"{n} records: the reversed graph's sensitivity is {row['reversed']}, not {row['causal']}")
        if row["causal, of what the last step needs it to exceed"] >= 1:
            problems.append(f"{n} records: the last step's condition can be met")
    for name, row in found["worlds"].items():
        if row["causal"]["of what the last step needs"][-1] >= 1:
            problems.append(f"{name}: the last step's condition can be met")
        if row["causal"]["assumption 1 without claim 1"][-1] > 0:
            problems.append(f"{name}: assumption 1 does not give claim 1 for a column")
    for name, row in found["adversary"].items():
        if row["DP"]["bound"] > expected["epsilon"]:
            problems.append(f"{name}: the bound {row['DP']['bound']} crosses epsilon {expected['epsilon']}")
        if row["moved"] > row["moves at most"]:
            problems.append(f"{name}: the proven sensitivity is exceeded")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=FORMS, default="small", help="tiny or small (default)")
    parser.add_argument("--out", type=Path, help=f"default {RESULTS}, of tiny with the form's name")
    options = parser.parse_args()
    out = options.out or place(RESULTS, options.form)
    out.mkdir(parents=True, exist_ok=True)
    found = measured(FORMS[options.form], out)
    atomic.write_text(out / "theory.json", json.dumps(found, indent=1) + "\n")
    atomic.write_text(out / "theory.md", tables(found))
    print(tables(found))
    problems = differences(found, json.loads((HERE / "expected.json").read_text())["theory"])
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
