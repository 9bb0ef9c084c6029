"""Bounds of whole audits under shifts that are no line: how many are false, and how many find a leak?

``python experiments/zero_run/bounds_worlds.py --audits 6`` audits each world so many times as a user would, without
options, and prints how many audits give bounds, how many of these are above 0, and which model they rest on. Without a
leak nothing is memorised, so every bound above 0 is false. ``--leak 1`` adds a standard deviation to members' scores.

Beside each audit stand bounds that the audit does not show. *Uncorrected* takes membership for fair coins. *Line* takes
the logistic line whatever the tests of its fit say. *Withheld* takes the model that the tests have refuted. *At the
margin* takes that model at the smallest margin that its challenge does not refute. They say what the tests are for.
Corrections of the paper are computed in the same audits, with the same propensities. Every audit is a line of a file,
from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

from causal_mia import domains, shift_worlds
from causal_mia.audits import lines, named
from causal_mia.hidden_worlds import HIDDEN
from causal_mia.shift_worlds import Drawn

import miaudit
from miaudit import Evidence, Plan
from miaudit.auditing.plan import Bounds, Test
from miaudit.causal import propensity as propensities
from miaudit.causal.covariates import Categories, Encoding, Numbers
from miaudit.causal.propensity import Propensity
from miaudit.dp import one_run, zero_run
from miaudit.dp.verdict import LowerBound
from miaudit.findings.audit import Findings

RESULTS = Path("results/experiments/zero_run")
EXPECTED = Path(__file__).parent / "bounds_worlds_expected.json"  # the lines of the README
SEED = 29  # of all audits; that of the tests is another
CONFIDENCE = 0.95
PLACEBO, TRAINED = " (placebo)", " (trained)"  # the target learned other records, or the members
COINS = tuple(
    name for name, shift in domains.SHIFTS.items() if shift.suffice == "drawn" and domains.PLACEBO in shift.kinds
)
OF_DOMAINS = {f"{name}{kind}": (name, kind) for name in COINS for kind in (PLACEBO, TRAINED)}
NONLINEAR = (
    "product",
    "opposite correlations",
    "step",
    "log-normal",
    "t(2)",
    "30 sites as codes",
    "30 sites, declared",
    "category x log-income",
    "sign of three",
    "one product of 50 columns",
    "200 declared levels",
    "corner of 5%",
    "band of 20%",
    "sign of a sum of four",
    "ring",
    "sine",
)
REAL = ("Adult, prime age", "ACS 2018 / 2019", "ACS 2018 / 2021")
WORLDS = (*NONLINEAR, "line", "20 weak covariates", *REAL, *OF_DOMAINS)
# Of miaudit the first two, of the paper the others.
ARMS = ("mu: thinning", "epsilon: signed", "mu: conditional", "mu: composition", "epsilon: abs(log-odds)")
UNSHOWN = ("uncorrected", "line", "withheld", "at the margin")
RECORDS = 2000
SIZES = {name: n for name, (n, _) in HIDDEN.items()} | {
    name: 3000 for name in (*OF_DOMAINS, *REAL) if name.startswith("Adult")
}  # one-hot, Adult has 63 columns, and bounds need 40 records for each


@dataclass(frozen=True)
class EveryCorrection(Bounds):
    """Bounds of the corrections of ARMS, all of them or the first and the last; the model that they rest on is kept."""

    every: bool = True
    models: list[Propensity] = field(default_factory=list, compare=False)

    def tests(self, evidence: Evidence, propensity: Propensity | None, confidence: float) -> Sequence[Test]:  # noqa: ARG002
        assert propensity is not None
        self.models.append(propensity)
        mu, epsilon = (
            partial(bound, propensity=propensity, confidence=confidence)
            for bound in (zero_run.mu_lower_bound, zero_run.epsilon_lower_bound)
        )
        drawn: list[np.ndarray] = []

        def replicates(e: Evidence, rng: np.random.Generator) -> np.ndarray:
            """Return those that each of these corrections would draw by itself."""
            if not drawn:
                encoded = e.replace(covariates=propensity.features, covariate_names=None)
                how: dict[str, Any] = {"folds": propensity.folds, "clip": propensity.clip}
                drawn.append(propensities.bootstrap(encoded, screened=propensity.screened, **how, rng=rng))
            return drawn[0]

        def by_points(bound: Callable[..., LowerBound], correction: Any) -> Test:
            return lambda e, rng: bound(e, correction=correction, replicates=replicates(e, rng), rng=rng)

        own: list[Test] = [
            lambda e, rng: mu(e, correction=zero_run.Thinning(), rng=rng),
            by_points(epsilon, zero_run.PoissonBinomial()),
        ]
        if not self.every:
            return own
        return [
            *own,
            by_points(mu, zero_run.Conditional()),
            lambda e, rng: mu(e, correction=zero_run.Composition(), rng=rng),
            by_points(epsilon, zero_run.PoissonBinomial(signed=False)),
        ]


# -- one audit ------------------------------------------------------------------------------------------------------


def drawn(name: str, n: int, leak: float, rng: np.random.Generator, folder: Path) -> Drawn:
    """Covariates, members, scores with the leak, and positions of codes."""
    if name in OF_DOMAINS:
        world, kind = OF_DOMAINS[name]
        what = domains.PLACEBO if kind == PLACEBO else domains.REAL
        sample = domains.SHIFTS[world].draw(folder, what, n, rng)
        x, member, score, codes = sample.covariates, sample.member, sample.scores["loss"], sample.codes
    elif name in HIDDEN:
        x, member, score, codes = HIDDEN[name][1](n, rng)
    elif name in shift_worlds.MADE:
        x, member, score, codes = shift_worlds.MADE[name](n, rng)
    else:
        x, member, score, codes = shift_worlds.REAL[name](n, rng, folder)
    size = float(score.std()) if name in REAL or name in OF_DOMAINS else 1.0  # of the noise, elsewhere
    return x, member, score + leak * size * member, codes


def audit(
    name: str, n: int, leak: float, folder: Path, seed: int, margin: float | None = None, classifier: str | None = None
) -> dict[str, Any]:
    """What one audit says of privacy parameters, and what its bounds would be without the tests."""
    rng = np.random.default_rng([SEED, seed, *name.encode()])
    x, member, score, codes = drawn(name, n, leak, rng, folder)
    names = tuple(f"x{i}" for i in range(x.shape[1]))
    evidence = Evidence(score=score, member=member, covariates=x, covariate_names=names, design="zero-run")
    stated = margin is not None
    bounds = Bounds(margin=margin) if stated else EveryCorrection(every=name in REAL or name in OF_DOMAINS)
    plan = Plan(categories=tuple(names[i] for i in codes), classifier=classifier, bounds=bounds)
    begun = time.process_time()
    findings = miaudit.audit(evidence, plan=plan, rng=rng)
    row = {"status": findings.verdict.status, "seconds": time.process_time() - begun}
    row |= {"no bound": list(findings.no_bound), "challenge": _challenge(findings)}
    if stated or classifier is not None:
        return row | {"bounds": [bound.value for bound in findings.bounds]}
    row["bounds"] = {arm: bound.value for arm, bound in zip(ARMS, findings.bounds, strict=False)}
    row["screened"] = bounds.models[0].screened if bounds.models else None
    return row | unshown(evidence, Categories(codes) if codes else Numbers(), row, rng)


def _challenge(findings: Findings) -> dict[str, Any] | None:
    challenge = findings.challenge
    if challenge is None:
        return None
    return {"p": challenge.p_value, "smallest": challenge.smallest_gamma, "screened": "and " in challenge.text[:60]}


def unshown(evidence: Evidence, encoding: Encoding, row: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Bounds on mu that no audit shows: uncorrected, of the line whatever its fit, and of a refuted model."""
    of = partial(zero_run.mu_lower_bound, evidence, confidence=CONFIDENCE, rng=rng)
    coins = evidence.replace(design="one-run")
    found = {"uncorrected": one_run.audit(coins, parameter="mu", confidence=CONFIDENCE, rng=rng).value}
    found["line"] = _value(of, propensities.fit(evidence, encoding=encoding, rng=rng))
    challenge = row["challenge"]
    if row["bounds"] or challenge is None:
        return found
    screened = propensities.fit(evidence, encoding=encoding, screened=True, rng=rng)
    found["withheld"] = _value(of, screened)
    if challenge["smallest"] is not None:
        margin = math.ceil(100 * max(challenge["smallest"], 0.1)) / 100
        found["margin"] = margin
        found["at the margin"] = _value(partial(of, correction=zero_run.Thinning(half_width=margin)), screened)
    return found


def _value(of: Callable[..., LowerBound], model: Propensity) -> float | None:
    try:
        return of(model).value
    except miaudit.errors.InputError:  # too few rows for each covariate
        return None


# -- a line of the table --------------------------------------------------------------------------------------------

COLUMNS = ("world", "leak", "audits", "with bounds", "screened", "mu", "epsilon", *UNSHOWN)
OF_CORRECTIONS = ("world", "leak", "audits with bounds", *(ARMS[i] for i in (0, 2, 3, 1, 4)))


def in_words(name: str, leak: float, rows: Sequence[Mapping[str, Any]]) -> str:
    """Counts of audits with a bound above 0, with the mean bound; the last columns are not shown by audits."""
    some = [row for row in rows if row["bounds"]]
    bounds = [_above([row["bounds"].get(arm) for row in some]) for arm in ARMS[:2]]
    unshown_bounds = [_above([row.get(key) for row in rows]) for key in UNSHOWN]
    screened = sum(bool(row["screened"]) for row in some)
    counts = (f"{leak:g}", str(len(rows)), str(len(some)), str(screened))
    return f"| {' | '.join([name, *counts, *bounds, *unshown_bounds])} |"


def of_corrections(name: str, leak: float, rows: Sequence[Mapping[str, Any]]) -> str:
    """The same of each correction, in the audits that give bounds; empty where there are none."""
    some = [row["bounds"] for row in rows if ARMS[-1] in row["bounds"]]
    cells = [_above([bounds[arm] for bounds in some]) for arm in OF_CORRECTIONS[3:]]
    return f"| {' | '.join([name, f'{leak:g}', str(len(some)), *cells])} |" if some else ""


def of_options(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Counts of audits with a bound on mu, and of those above 0, where a margin or a classifier was asked for."""
    values = [row["bounds"][0] for row in rows if row["bounds"]]
    return f"| {name} | {len(rows)} | {len(values)} | {_above(values)} |"


def _key(line: str) -> tuple[str, ...]:
    """World, leak and number of audits."""
    return tuple(line.split(" | ")[:3])


def _above(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(value > 0 for value in known)} of {len(known)}, {np.mean(known):.2f}" if known else ""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--audits", type=int, default=2)
    parser.add_argument("--leak", type=float, default=0.0, help="what membership adds to a score, in its noise")
    parser.add_argument("--margin", type=float, help="on the log-odds, stated beforehand")
    parser.add_argument("--classifier", help="in the place of the stack and of the line of the bounds")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> int:
    warnings.filterwarnings("ignore", module="sklearn")
    options, corrections, problems = parsed(), [], []
    known = {_key(line): line for line in json.loads(EXPECTED.read_text())}
    stated = {"margin": options.margin, "classifier": options.classifier}
    parts = [f"{key}_{value}" for key, value in stated.items() if value is not None]
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    with threadpool_limits(1):
        for name in options.worlds:
            n = SIZES.get(name, RECORDS)
            path = named(options.out, "bounds_worlds", f"{options.leak:g}", n, *parts, name)
            once = partial(audit, name, n, options.leak, options.data, **stated)
            rows = list(lines(path, options.audits, once))
            line = of_options(name, rows) if parts else in_words(name, options.leak, rows)
            print(line, flush=True)
            recorded = known.get(_key(line))
            if recorded is not None and recorded != line:
                problems.append(f"{line}\n  in the README {recorded}")
            corrections += [] if parts else [of_corrections(name, options.leak, rows)]
    print(
        "", f"| {' | '.join(OF_CORRECTIONS)} |\n{'|---' * len(OF_CORRECTIONS)}|", *filter(None, corrections), sep="\n"
    )
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
