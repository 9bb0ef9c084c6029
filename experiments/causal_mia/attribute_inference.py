"""Attribute inference on Adult: what an attacker guesses about members, about anybody, and because of the training.

``python experiments/causal_mia/attribute_inference.py --data ../shared/data`` trains models that predict income. The
attacker knows all of a record but its marital status, knows the income, and asks the model about each possible status
(Fredrikson et al. 2015). The guess is the status with the largest product of two numbers: how probable it is among
people like this one, learned from other public records, and how probable the model then finds the true income. The
attack "no model" uses the first number only, so that its true effect is 0.

Members are younger than the non-members of the audit, and more often have one of the two most frequent statuses. The
truth comes from non-members of the members' own population, which the corrections never see. ``--quick`` makes one
audit of each attack instead of five.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

from causal_mia import real_data
from causal_mia.domains import coins, z

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.attribute_inference import AttributeEffect, effect
from miaudit.causal.covariates import Categories

AUDITS = 5
SIZES = {"members": 2000, "drifted": 2000, "undrifted": 6000, "public": 4000}
SMALLEST = 0.02  # probability of an income that a model is taken to mean
ESTIMATES = ("raw", "weights without the secret", "weights", "AIPW")
COLUMNS = ("attack", "members", "undrifted", "truth", *ESTIMATES)


@dataclass(frozen=True, eq=False)
class People:
    """Columns (n, d) of Adult without the relationship, income (n,), positions of codes, and which column is secret."""

    x: np.ndarray
    income: np.ndarray
    codes: tuple[int, ...]
    secret: int

    @classmethod
    def read(cls, folder: Path) -> People:
        x, income, codes = real_data.adult(folder)
        marital, relationship = 4, 6  # husband and wife would give the secret away
        kept = tuple(j for j in range(x.shape[1]) if j != relationship)
        return cls(x[:, kept], income, tuple(kept.index(j) for j in codes if j in kept), kept.index(marital))

    @property
    def known(self) -> np.ndarray:
        """Return what the attacker knows of each record (n, d): all columns but the secret, and the income."""
        return np.column_stack([np.delete(self.x, self.secret, axis=1), self.income])

    def drawn(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return rows of each kind; a coin puts the young and the usual statuses on the members' side more often."""
        frequency = np.bincount(self.x[:, self.secret].astype(int))
        usual = np.isin(self.x[:, self.secret], np.argsort(frequency)[-2:])
        inside = coins(usual - 0.5 - 0.5 * z(self.x[:, 0]), rng)
        own, other = (rng.permutation(np.flatnonzero(inside == side)) for side in (True, False))
        members, undrifted, _ = np.split(own, np.cumsum([SIZES["members"], SIZES["undrifted"]]))
        drifted, public, _ = np.split(other, np.cumsum([SIZES["drifted"], SIZES["public"]]))
        return {"members": members, "undrifted": undrifted, "drifted": drifted, "public": public}


# -- models and the attack ------------------------------------------------------------------------------------------


def linear(codes: Sequence[int], columns: int) -> Any:
    numbers = [j for j in range(columns) if j not in codes]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), list(codes)), (StandardScaler(), numbers))
    return make_pipeline(encode, LogisticRegression(max_iter=1000))


def models(people: People) -> dict[str, Any]:
    """Return the models by name, from the one that memorises least to the one that memorises most."""
    return {
        "logistic regression": linear(people.codes, people.x.shape[1]),
        "boosting, 500 trees": HistGradientBoostingClassifier(max_iter=500, early_stopping=False, random_state=0),
        "trees grown to the end": ExtraTreesClassifier(50, random_state=0),
    }


def imputed(people: People, public: np.ndarray, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the log probability (n, k) of each level of the secret, learned from public records."""
    codes = [j - (j > people.secret) for j in people.codes if j != people.secret]
    model = linear(codes, people.known.shape[1]).fit(people.known[public], people.x[public, people.secret])
    found = np.full((len(rows), len(levels)), 1e-6)
    found[:, np.searchsorted(levels, model.classes_)] = model.predict_proba(people.known[rows])
    return np.log(np.maximum(found, 1e-6))


def answers(people: People, model: Any, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the log probability (n, k) that a model gives the true income if the secret had each level."""
    x, answer = people.x[rows].copy(), np.empty((len(rows), len(levels)))
    for k, level in enumerate(levels):
        x[:, people.secret] = level
        answer[:, k] = model.predict_proba(x)[np.arange(len(rows)), people.income[rows]]
    return np.log(np.maximum(answer, SMALLEST))


# -- one audit ------------------------------------------------------------------------------------------------------


def audit(people: People, seed: int) -> dict[str, dict[str, AttributeEffect]]:
    """Return the truth and every estimate of the effect, for each attack."""
    rng = np.random.default_rng([23, seed])
    rows = people.drawn(rng)
    everyone = np.concatenate([rows["members"], rows["drifted"], rows["undrifted"]])
    levels = np.unique(people.x[:, people.secret])
    plain = imputed(people, rows["public"], everyone, levels)
    attacks = {"no model": plain}
    for name, model in models(people).items():
        model.fit(people.x[rows["members"]], people.income[rows["members"]])
        attacks[name] = plain + answers(people, model, everyone, levels)
    learned = propensities(people, rows, rng)
    truth = people.x[everyone, people.secret]
    right = {name: levels[value.argmax(axis=1)] == truth for name, value in attacks.items()}
    return {name: estimates(own, learned, rng) for name, own in right.items()}


def propensities(people: People, rows: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, Any]:
    """Return propensities of members and drifted non-members, with the secret among the covariates and without it."""
    audited = np.concatenate([rows["members"], rows["drifted"]])
    member = np.arange(len(audited)) < len(rows["members"])
    every = np.column_stack([people.x, people.income])[audited]
    codes = [j - (j > people.secret) for j in people.codes if j != people.secret]
    found = {}
    for name, x, own in (("all", every, people.codes), ("no secret", people.known[audited], tuple(codes))):
        evidence = Evidence(score=np.zeros(len(x)), member=member, covariates=x, design="zero-run")
        found[name] = propensity.stacked(evidence, encoding=Categories(own), rng=rng)
    return found


def estimates(right: np.ndarray, learned: Mapping[str, Any], rng: np.random.Generator) -> dict[str, AttributeEffect]:
    """Estimate the effect of one attack in each way; its guesses are of members, drifted and undrifted records."""
    members, drifted, undrifted = np.split(right, np.cumsum([SIZES["members"], SIZES["drifted"]]))
    same = Evidence.from_pair(members.astype(float), undrifted.astype(float), design="one-run")
    audited = Evidence.from_pair(members.astype(float), drifted.astype(float), design="zero-run")
    of = partial(effect, audited, rng=rng)
    return {
        "truth": effect(same, rng=rng),
        "raw": of(method="difference"),
        "weights without the secret": of(learned["no secret"]),
        "weights": of(learned["all"]),
        "AIPW": of(learned["all"], method="aipw"),
    }


# -- the table ------------------------------------------------------------------------------------------------------


def line(name: str, audits: Sequence[Mapping[str, AttributeEffect]]) -> str:
    """Return a line of the table: means, and how many intervals hold the truth."""
    truths = [float(one["truth"].difference.value or 0.0) for one in audits]
    cells = [name, *(f"{np.mean([value(one['truth']) for one in audits]):.3f}" for value in (inside, outside))]
    cells.append(f"{np.mean(truths):+.3f}")
    for key in ESTIMATES:
        own = [one[key].difference for one in audits]
        held = sum(one.low <= truth <= one.high for one, truth in zip(own, truths, strict=True))
        cells.append(f"{np.mean([one.value for one in own]):+.3f} ({held} of {len(own)})")
    return f"| {' | '.join(cells)} |"


def inside(of: AttributeEffect) -> float | None:
    return of.members.value


def outside(of: AttributeEffect) -> float | None:
    return of.controls.value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--quick", action="store_true", help=f"one audit instead of {AUDITS}")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")  # levels of codes that training has not seen
    people = People.read(options.data)
    with threadpool_limits(1):
        audits = [audit(people, seed) for seed in range(1 if options.quick else AUDITS)]
    print(f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", sep="\n")
    for name in audits[0]:
        print(line(name, [one[name] for one in audits]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
