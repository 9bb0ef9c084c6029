"""Figure 2(a) of zero-run: lower bounds on mu under a shift, uncorrected and by every correction.

``python experiments/zero_run/run.py`` runs the small form in about a minute of CPU; ``--full`` 200 repetitions.
Results go to ``results/experiments/zero_run`` and are compared with ``expected.json``: validity and power in every
form, the README's figures number by number in the form that they were measured with (``--form table``).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import figures
import numpy as np
import yaml
from synthetic import Drawn, NoisySum, covariates_only, draw, draw_with_covariates, draw_with_few

from miaudit import Evidence
from miaudit.causal import propensity as propensities
from miaudit.causal.propensity import Propensity
from miaudit.dp import one_run, zero_run
from miaudit.dp.selection import PAPERS_SIX, Bonferroni

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/zero_run")
ERROR = 0.025  # p of the test and p' of the bootstrap
# Rows of the README's tables, and whose means and shares above the truth they have.
ROWS = {
    "oracle": {
        "uncorrected one-run audit": "uncorrected",
        "composition (Algorithm 7 with Eq. 5)": "composition",
        "conditional, unaware (Theorem 5.1.2)": "conditional, unaware",
        "conditional, aware": "conditional, aware",
        "thinning to fair coins": "thinning",
        "thinning, log-odds known within 0.2": "thinning, half-width 0.2",
    },
    "learned": {
        "uncorrected one-run audit, propensity learned": "uncorrected",
        "conditional, unaware, bootstrap": "conditional, unaware",
        "conditional, aware, bootstrap": "conditional, aware",
        "thinning, two standard errors": "thinning",
    },
    "few": {
        "uncorrected, ten covariates": "uncorrected",
        "conditional, unaware, bootstrap, ten covariates": "conditional, unaware",
        "conditional, aware, bootstrap, ten covariates": "conditional, aware",
        "thinning, two standard errors, ten covariates": "thinning",
    },
}
Rows = dict[str, list[float]]


def oracle(
    world: NoisySum, settings: Mapping[str, Any], rhos: list[float], rng: np.random.Generator
) -> dict[str, Rows]:
    """Known propensities: every procedure on the same data sets, one release for all rhos."""
    found: dict[str, Rows] = {f"{rho:g}": {} for rho in rhos}
    samples = {rho: covariates_only(world, rho, settings["shift_sample"], rng) for rho in rhos}
    for i, child in enumerate(rng.spawn(settings["repetitions"])):
        for rho, data in zip(rhos, draw(world, tuple(rhos), child), strict=True):
            ways = known(data, settings, zero_run.Composition(sample=samples[rho], spend=0.1))
            for name, way in ways.items():
                found[f"{rho:g}"].setdefault(name, []).append(way(child))
        _told("known propensities", i, settings["repetitions"])
    return found


def known(
    data: Drawn, settings: Mapping[str, Any], composition: zero_run.Composition
) -> dict[str, Callable[[np.random.Generator], float]]:
    """Return the procedures of the figure, each from a generator to a bound at error probability 0.025."""
    evidence = Evidence(score=data.score, member=data.member, covariates=data.x, design="zero-run")
    pi, sweep = Propensity.given(data.propensity), Bonferroni(PAPERS_SIX)

    def corrected(correction: Any, guesses: Any = None) -> Callable[[np.random.Generator], float]:
        return lambda rng: (
            zero_run.mu_lower_bound(
                evidence, pi, guesses=guesses, confidence=1 - ERROR, correction=correction, rng=rng
            ).value
        )

    randomised = evidence.replace(design="one-run", covariates=None)
    return {
        "uncorrected": lambda rng: one_run.audit(randomised, confidence=1 - ERROR, rng=rng).value,
        "composition": corrected(composition, sweep),
        "conditional, unaware": corrected(zero_run.Conditional(), sweep),
        "conditional, aware": corrected(zero_run.Conditional(aware=True), sweep),
        "thinning": corrected("thinning"),
        f"thinning, half-width {settings['half_width']:g}": corrected(
            zero_run.Thinning(half_width=settings["half_width"])
        ),
    }


def learned(
    world: NoisySum, settings: Mapping[str, Any], rhos: list[float], rng: np.random.Generator
) -> dict[str, Rows]:
    """Propensities learned on a separate sample; the bootstrap where log-odds are used as points (Algorithm 3, B7).

    From every dimension of a small sum, or from ``covariates`` of a large one, of which the first suffices.
    """
    few = settings.get("covariates")
    found: dict[str, Rows] = {f"{rho:g}": {} for rho in rhos}
    for i, child in enumerate(rng.spawn(settings["repetitions"])):
        for rho in rhos:
            half = settings["rows"] // 2
            audited, others = (
                draw_with_few(world, rho, half, few, child) if few else draw_with_covariates(world, rho, half, child)
            )
            evidence, train = (
                Evidence(score=part.score, member=part.member, covariates=part.x, design="zero-run")
                for part in (audited, others)
            )
            pi = propensities.fit(evidence, train=train, rng=child)
            drawn = propensities.bootstrap(evidence, train, settings["replicates"], rng=child)
            shared: dict[str, Any] = {"guesses": Bonferroni(PAPERS_SIX), "confidence": 1 - 2 * ERROR, "rng": child}
            bounds = {
                "uncorrected": one_run.audit(evidence.replace(design="one-run"), confidence=1 - 2 * ERROR, rng=child),
                "conditional, unaware": zero_run.mu_lower_bound(
                    evidence, pi, correction="conditional", replicates=drawn, **shared
                ),
                "conditional, aware": zero_run.mu_lower_bound(
                    evidence, pi, correction=zero_run.Conditional(aware=True), replicates=drawn, **shared
                ),
                "thinning": zero_run.mu_lower_bound(evidence, pi, confidence=1 - 2 * ERROR, rng=child),
            }
            for name, bound in bounds.items():
                found[f"{rho:g}"].setdefault(name, []).append(bound.value)
        _told(f"learned propensities{f', {few} covariates' if few else ''}", i, settings["repetitions"])
    return found


def not_learned(world: NoisySum, settings: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Erratum B20: many covariates, few rows, no algorithm at all. What a bound would have said, and what is said."""
    audited, others = draw_with_covariates(world, settings["rho"], settings["rows"] // 2, rng)
    # The score is the part along the direction of the shift: it knows the covariates, and no algorithm's output.
    evidence, train = (
        Evidence(score=part.x[:, 0], member=part.member, covariates=part.x, design="zero-run")
        for part in (audited, others)
    )
    pi = propensities.fit(evidence, train=train, rng=rng)
    curve = propensities.learning_curve(train, rng=rng)
    said = zero_run.testability(evidence, pi, curve=curve)
    stated = zero_run.mu_lower_bound(
        evidence, pi, guesses=200, correction=zero_run.Thinning(half_width=0.0), confidence=1 - 2 * ERROR, rng=rng
    )
    return {
        "testable": said.testable,
        "reasons": list(said.reasons),
        "blind_auc": {"half": curve.half, "full": curve.full},
        "bound_if_the_propensity_were_trusted": stated.value,
    }


def summary(found: Mapping[str, Rows], truth: float) -> dict[str, dict[str, Any]]:
    """Mean, standard error, band and share above the truth, for each rho and procedure."""

    def of(values: list[float]) -> dict[str, Any]:
        v = np.asarray(values)
        low, high = np.quantile(v, (0.05, 0.95))
        error = float(v.std(ddof=1) / len(v) ** 0.5) if len(v) > 1 else None
        return {
            "mean": float(v.mean()),
            "standard_error": error,
            "low": float(low),
            "high": float(high),
            "above_truth": float((v > truth).mean()),
            "repetitions": len(v),
        }

    return {rho: {name: of(values) for name, values in rows.items()} for rho, rows in found.items()}


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold: validity of every correction, failure without one, and the power to reach."""
    problems = []
    for part, allowed in (("oracle", ERROR), ("learned", 2 * ERROR), ("few", 2 * ERROR)):
        for rho, rows in found.get(part, {}).items():
            for name, row in rows.items():
                limit = allowed + 3 * math.sqrt(allowed * (1 - allowed) / row["repetitions"])
                if name != "uncorrected" and row["above_truth"] > limit:
                    problems.append(
                        f"{part}, rho {rho}, {name}: {row['above_truth']:.3f} of the bounds above the truth"
                    )
    strongest = found["oracle"][expected["uncorrected_fails_at"]]["uncorrected"]
    if strongest["mean"] <= found["truth"]:
        problems.append(f"uncorrected at the strongest shift: {strongest['mean']:.3f}, expected above {found['truth']}")
    for part in ("oracle", "few"):
        for rho, least in expected["thinning_at_least"][part].items():
            row = found[part][rho]["thinning"]
            if found["comparable"] and row["mean"] + 3 * (row["standard_error"] or 0.0) < least:
                problems.append(f"{part}, thinning, rho {rho}: {row['mean']:.3f}, expected at least {least}")
    if found["not_learned"]["testable"]:
        problems.append("B20: the audit with too few propensity rows was called testable")
    return problems


def printed(found: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the README's figures by row: for each rho a mean and a share above the truth; what erratum B20 gives."""
    said = found["not_learned"]
    blind = said["blind_auc"]
    rows = {"no algorithm": [blind["half"], blind["full"], said["bound_if_the_propensity_were_trusted"]]}
    for part, names in ROWS.items():
        for label, name in names.items():
            cells = [found[part][rho][name] for rho in found[part]]
            rows[label] = [cell[key] for cell in cells for key in ("mean", "above_truth")]
    return rows


def departures(found: Mapping[str, Any], readme: Mapping[str, list[float]]) -> list[str]:
    """Return which figures are not those of the README; the last of its decimals may differ by one and a half."""
    return [
        f"{label}: {[round(value, 4) for value in values]}, in the README {readme[label]}"
        for label, values in printed(found).items()
        if not np.allclose(values, readme[label], rtol=0, atol=0.0055 if label == "no algorithm" else 0.0016)
    ]


def table(found: Mapping[str, Any]) -> str:
    """Mean bounds as markdown; in brackets the share above the truth."""
    lines = []
    for part in ROWS:
        rows = found[part]
        names = list(next(iter(rows.values())))
        repetitions = next(iter(next(iter(rows.values())).values()))["repetitions"]
        lines += [
            "",
            f"| {part} propensities, {repetitions} repetitions | " + " | ".join(f"rho {r}" for r in rows) + " |",
        ]
        lines.append("|---" * (1 + len(rows)) + "|")
        for name in names:
            cells = [f"{rows[rho][name]['mean']:.3f} ({rows[rho][name]['above_truth']:.3f})" for rho in rows]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines).strip()


def _told(what: str, i: int, of: int) -> None:
    print(f"\r{what}: {i + 1} of {of}", end="\n" if i + 1 == of else "", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="200 repetitions instead of the small form")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    form = options.form or ("full" if options.full else "small")
    settings = yaml.safe_load((HERE / "config.yaml").read_text())[form]
    streams = np.random.default_rng(settings["seed"]).spawn(4)

    def world(part: str) -> NoisySum:
        return NoisySum(settings[part]["d"], settings["m"], settings["gamma"], settings["mu"])

    found: dict[str, Any] = {"truth": settings["mu"], "comparable": form != "tiny"}
    for part, way, rng in (
        ("oracle", oracle, streams[0]),
        ("learned", learned, streams[1]),
        ("few", learned, streams[3]),
    ):
        found[part] = summary(way(world(part), settings[part], settings["rhos"], rng), settings["mu"])
    found["not_learned"] = not_learned(world("not_learned"), settings["not_learned"], streams[2])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    for part in ROWS:
        figures.save(figures.bounds(found[part], settings["mu"], part), options.out / f"figure-2a-{part}")
    print(table(found))
    said = found["not_learned"]
    sizes, claimed = settings["not_learned"], said["bound_if_the_propensity_were_trusted"]
    print(
        f"\nNo algorithm at all, d = {sizes['d']}, {sizes['rows']} propensity rows: "
        f"{'testable' if said['testable'] else 'not testable'} ({'; '.join(said['reasons'])}); "
        f"a bound that trusted the propensity would have claimed mu >= {claimed:.2f}"
    )
    expected = json.loads((HERE / "expected.json").read_text())
    problems = differences(found, expected)
    if form == "table":
        problems += departures(found, expected["readme"])
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
