"""The synthetic world of causal-mia G.1, its two targets, and one repetition of Table 2 for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dpsgd
import numpy as np
from sklearn.linear_model import LogisticRegression

from miaudit import Evidence
from miaudit.collect import ridge, runs
from miaudit.metrics.roc import Roc
from miaudit.models import inclusion

GRID = np.linspace(0.0, 1.0, 101)
METRICS = ("auc", "sup", "ate_loss", "tpr")
STRENGTHS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2, 1e-1)
Draw = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Population:
    """Members have a ~ N(0, I), shifted non-members a ~ N(mu, I); always b | a ~ N(a'w, 1).

    mu is the first unit vector; w has the norm of a standard Gaussian vector and cosine 0.90 with mu (errata A6).
    """

    w: np.ndarray

    @classmethod
    def create(cls, d: int, cosine: float, rng: np.random.Generator) -> Population:
        gaussian = rng.normal(size=d)
        across = gaussian.copy()
        across[0] = 0.0
        w = np.sqrt(1 - cosine**2) * across / np.linalg.norm(across)
        w[0] = cosine
        return cls(np.linalg.norm(gaussian) * w)

    def draw(self, n: int, rng: np.random.Generator, *, shifted: bool = False) -> Draw:
        a = rng.standard_normal((n, len(self.w)))
        if shifted:
            a[:, 0] += 1.0
        return a, a @ self.w + rng.standard_normal(n)

    @staticmethod
    def oracle_log_odds(a: np.ndarray) -> np.ndarray:
        """log P(A=1|a)/P(A=0|a) for classes of one size: the log density ratio of N(0, I) to N(mu, I)."""
        return 0.5 - a[:, 0]


@dataclass(frozen=True)
class LearnedPropensity:
    """L2 logistic regression, strength chosen and slope calibrated (Platt) on a quarter of its own rows."""

    model: LogisticRegression
    calibration: LogisticRegression
    strength: float

    @classmethod
    def fit(cls, x: np.ndarray, member: np.ndarray, rng: np.random.Generator, strengths=STRENGTHS) -> LearnedPropensity:
        order = rng.permutation(len(x))
        held, kept = order[: len(x) // 4], order[len(x) // 4 :]
        best, best_loss = None, np.inf
        for strength in strengths:
            model = LogisticRegression(C=strength, tol=1e-3).fit(x[kept], member[kept])
            decision = model.decision_function(x[held])[:, None]
            calibration = LogisticRegression(C=1e6).fit(decision, member[held])
            loss = -calibration.predict_log_proba(decision)[np.arange(len(held)), member[held].astype(int)].mean()
            if loss < best_loss:
                best, best_loss = cls(model, calibration, strength), loss
        return best

    def log_odds(self, x: np.ndarray) -> np.ndarray:
        return self.calibration.decision_function(self.model.decision_function(x)[:, None])

    @classmethod
    def cross_fitted(cls, x: np.ndarray, member: np.ndarray, rng: np.random.Generator, folds: int = 5) -> np.ndarray:
        """Log odds (n,) of the audited rows themselves, each from a fit without its fold."""
        found, fold = np.empty(len(x)), rng.permutation(len(x)) % folds
        for k in range(folds):
            found[fold == k] = cls.fit(x[fold != k], member[fold != k], rng).log_odds(x[fold == k])
        return found


def measure(evidence: Evidence, log_odds: np.ndarray | None = None) -> dict[str, Any]:
    """Table 2's metrics; with log odds, non-members weigh their odds (Hajek) and members one."""
    weight = np.ones(evidence.n)
    if log_odds is not None:
        weight[~evidence.member] = np.exp(log_odds[~evidence.member])
    roc = Roc.of(evidence.score, evidence.member, weight)
    loss, inside = -evidence.score, evidence.member
    return {
        "auc": roc.auc,
        "sup": roc.advantage,
        "ate_loss": float(loss[inside].mean() - np.average(loss[~inside], weights=weight[~inside])),
        "tpr": float(roc.tpr_at(0.2)),
        "tpr_step": roc.step_tpr_at(0.2),
        "effective": float(weight[~inside].sum() ** 2 / (weight[~inside] ** 2).sum()),
        "curve": roc.tpr_at(GRID),
    }


# A scorer is a model that already stands: from features and targets to scores (n,), higher for members.
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]


def around_one_model(
    population: Population, base: Draw, score: Scorer, settings: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, dict[str, Any]]:
    """One-run and zero-run rows (raw, oracle, learned): the same members, undrifted or shifted non-members."""
    n = settings["train"]
    found = {}
    rows = {"members": np.arange(n), "nonmembers": np.arange(n, 2 * n)}
    for name, shifted in (("one_run", False), ("zero_run_raw", True)):
        other = population.draw(n, rng, shifted=shifted)
        a, y = np.concatenate([base[0], other[0]]), np.concatenate([base[1], other[1]])
        evidence = runs.zero_run(lambda at, a=a, y=y: score(a[at], y[at]), covariates=a, **rows)
        if not shifted:  # inclusion of these records was a matter of chance: they are exchangeable
            evidence = evidence.replace(design="one-run", covariates=None)
        found[name] = measure(evidence)
    found["zero_run_oracle"] = measure(evidence, population.oracle_log_odds(a))
    if settings["learn"]:
        found["zero_run_learned"] = measure(evidence, separate_sample(population, settings["learn"], rng).log_odds(a))
        found["zero_run_default"] = measure(evidence, LearnedPropensity.cross_fitted(a, evidence.member, rng))
    return found


def separate_sample(population: Population, n: int, rng: np.random.Generator) -> LearnedPropensity:
    """A propensity learned on n rows, half of each class, that are not audited (errata A10)."""
    x = np.concatenate([population.draw(n // 2, rng)[0], population.draw(n - n // 2, rng, shifted=True)[0]])
    return LearnedPropensity.fit(x, np.arange(n) < n // 2, rng)


def ridge_repetition(
    population: Population, settings: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, dict[str, Any]]:
    """Ridge regression, penalty 10^4 on the sum of squares, half the squared error (errata A6).

    The multi-run has the printed 400 models; beside them ``many``, which the closed form gives at little cost and which
    have the spread that the paper prints.
    """
    base, evaluated = population.draw(settings["train"], rng), population.draw(settings["many"], rng)
    a, y = np.concatenate([evaluated[0], base[0]]), np.concatenate([evaluated[1], base[1]])
    many = ridge.multi_run(
        a,
        y,
        records=settings["many"],
        base=np.arange(settings["many"], len(a)),
        penalty=settings["penalty"],
        rng=rng,
        source="ridge, one rank-one update for each record",
    )
    model = ridge.Ridge.fit(*base, penalty=settings["penalty"])
    found = {"multi_run": measure(many.take(np.arange(settings["models"]))), "multi_run_large": measure(many)}
    return found | around_one_model(population, base, lambda x, b: -(model.residual(x, b) ** 2) / 2, settings, rng)


def ridge_zero_run(settings: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One zero-run of ridge for Figure 4, record by record: member, loss, and log odds (oracle, learned)."""
    population, n = Population.create(settings["d"], settings["cosine"], rng), settings["train"]
    inside, outside = population.draw(n, rng), population.draw(n, rng, shifted=True)
    a, y = np.concatenate([inside[0], outside[0]]), np.concatenate([inside[1], outside[1]])
    model = ridge.Ridge.fit(*inside, penalty=settings["penalty"])
    return {
        "member": np.arange(2 * n) < n,
        "loss": model.residual(a, y) ** 2 / 2,
        "oracle": population.oracle_log_odds(a),
        "learned": separate_sample(population, settings["learn"], rng).log_odds(a),
    }


def dpsgd_repetition(
    population: Population, settings: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, dict[str, Any]]:
    """DP-SGD: all models of the multi-run and the one of the one-run are trained together on one base set.

    With ``models`` 0 there is no multi-run.
    The loss is the squared error, **not** its half: with it the printed ATE of -322 is met, with the half it is -161.
    """
    plan = replace(dpsgd.DPSGD(), **settings["plan"])
    m = settings["models"]
    if not m:  # the one model of the one-run and the zero-run alone
        base = population.draw(settings["train"], rng)
        w = dpsgd.train(*base, plan, models=1, rng=rng)[0]
        return around_one_model(population, base, lambda x, b: -((b - x @ w) ** 2), settings, rng)
    base, (x, b) = population.draw(settings["train"], rng), population.draw(m, rng)
    member = inclusion.coins(m, rng=rng)
    # One model more, whose extra record is never included, is the target of the one-run and the zero-run.
    extra = (np.concatenate([x, x[:1]]), np.concatenate([b, b[:1]]), np.append(member, False))
    weights = dpsgd.train(*base, plan, models=m + 1, rng=rng, extra=extra)
    own = np.einsum("ij,ij->i", x, weights[:m]) - b
    many = Evidence(score=-(own**2), member=member, design="multi-run", source="DP-SGD")
    found = {"multi_run": measure(many)}
    return found | around_one_model(population, base, lambda x, b: -((b - x @ weights[m]) ** 2), settings, rng)
