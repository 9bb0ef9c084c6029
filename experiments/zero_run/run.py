"""Figure 2(a) of zero-run: lower bounds on mu under a shift, uncorrected and by every correction.

``python experiments/zero_run/run.py`` runs the small form in about a minute of CPU; ``--full`` 200 repetitions.
Results go to ``results/experiments/zero_run`` and are compared with ``expected.json``: validity and power in every
form, the README's figures number by number in the form that they were measured with (``--form table``).
Finished repetitions are kept in ``--out``, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from miaudit.jobs import resumable

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
PUBLISHED = ("uncorrected", "composition", "conditional, unaware", "conditional, aware", "thinning")
LEARNED = ("uncorrected", "conditional, unaware", "conditional, aware", "thinning")


@dataclass(frozen=True)
class Part:
    """One part of the figure: its name, world, settings and shifts, and the folder of finished repetitions."""

    name: str
    world: NoisySum
    settings: Mapping[str, Any]
    rhos: tuple[float, ...]
    folder: Path

    def repeated(
        self,
        once: Callable[[Any, list[np.random.Generator]], list[np.ndarray]],
        shared: Any,
        ways: Sequence[str],
        rng: np.random.Generator,
    ) -> dict[str, Rows]:
        """Bounds by shift and procedure, of all repetitions; those that are in the folder are not made again.

        The number of repetitions does not decide what each of them gives, so a longer run takes over a shorter one's.
        """
        settings = {key: value for key, value in self.settings.items() if key != "repetitions"}
        source = rng.bit_generator.seed_seq
        decides = {
            "settings": json.dumps([self.name, str(self.world), settings, self.rhos]),
            "seed": f"{source.entropy} {source.spawn_key}",
        }
        place = self.folder / f"{self.name}-{resumable.digest(list(decides.values()))[:12]}"
        jobs = rng.spawn(self.settings["repetitions"])
        with resumable.Store.alone(place, decides, "repetition") as store:
            kept = resumable.finish(
                once,
                shared,
                jobs,
                place=store,
                what="repetitions",
                failure=lambda number, problem: f"{self.name}, repetition {number}: {problem}",
                progress=lambda done: print(
                    f"\r{self.name}: {done.finished} of {done.total}    ", end="", file=sys.stderr, flush=True
                ),
            )
            print(file=sys.stderr)
            values = np.stack([np.load(kept[number]) for number in range(len(jobs))])
        return {
            f"{rho:g}": {way: values[:, i, j].tolist() for j, way in enumerate(ways)} for i, rho in enumerate(self.rhos)
        }


def oracle(part: Part, rng: np.random.Generator) -> dict[str, Rows]:
    """Known propensities: every procedure on the same data sets, one release for all rhos."""
    samples = {rho: covariates_only(part.world, rho, part.settings["shift_sample"], rng) for rho in part.rhos}
    ways = (*PUBLISHED, f"thinning, half-width {part.settings['half_width']:g}")
    return part.repeated(oracle_once, (part, samples), ways, rng)


def oracle_once(shared: Any, batch: list[np.random.Generator]) -> list[np.ndarray]:
    """Return the bounds (rhos, procedures) of each repetition of a batch."""
    part, samples = shared
    found = []
    for child in batch:
        bounds = []
        for rho, data in zip(part.rhos, draw(part.world, part.rhos, child), strict=True):
            ways = known(data, part.settings, zero_run.Composition(sample=samples[rho], spend=0.1))
            bounds.append([way(child) for way in ways.values()])
        found.append(np.array(bounds))
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


def learned(part: Part, rng: np.random.Generator) -> dict[str, Rows]:
    """Propensities learned on a separate sample; the bootstrap where log-odds are used as points (Algorithm 3, B7).

    From every dimension of a small sum, or from ``covariates`` of a large one, of which the first suffices.
    """
    return part.repeated(learned_once, part, LEARNED, rng)


def learned_once(part: Part, batch: list[np.random.Generator]) -> list[np.ndarray]:
    """Return the bounds (rhos, procedures) of each repetition of a batch."""
    return [np.array([learned_bounds(part, rho, child) for rho in part.rhos]) for child in batch]


def learned_bounds(part: Part, rho: float, rng: np.random.Generator) -> list[float]:
    """Return the bounds of one data set, in the order of ``LEARNED``."""
    settings, half, few = part.settings, part.settings["rows"] // 2, part.settings.get("covariates")
    audited, others = (
        draw_with_few(part.world, rho, half, few, rng) if few else draw_with_covariates(part.world, rho, half, rng)
    )
    evidence, train = (
        Evidence(score=data.score, member=data.member, covariates=data.x, design="zero-run")
        for data in (audited, others)
    )
    pi = propensities.fit(evidence, train=train, rng=rng)
    drawn = propensities.bootstrap(evidence, train, settings["replicates"], rng=rng)
    shared: dict[str, Any] = {"guesses": Bonferroni(PAPERS_SIX), "confidence": 1 - 2 * ERROR, "rng": rng}
    aware = zero_run.Conditional(aware=True)
    bounds = [
        one_run.audit(evidence.replace(design="one-run"), confidence=1 - 2 * ERROR, rng=rng),
        zero_run.mu_lower_bound(evidence, pi, correction="conditional", replicates=drawn, **shared),
        zero_run.mu_lower_bound(evidence, pi, correction=aware, replicates=drawn, **shared),
        zero_run.mu_lower_bound(evidence, pi, confidence=1 - 2 * ERROR, rng=rng),
    ]
    return [bound.value for bound in bounds]


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
    for name, way, rng in (
        ("oracle", oracle, streams[0]),
        ("learned", learned, streams[1]),
        ("few", learned, streams[3]),
    ):
        part = Part(name, world(name), settings[name], tuple(settings["rhos"]), options.out / "repetitions")
        found[name] = summary(way(part, rng), settings["mu"])
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
