"""The claims of threshold-post: what one AUC can hide, what the likelihood ratio adds (C1), and early stopping.

``python experiments/threshold_post/run.py`` runs the small form in a minute, without data; ``--full`` has 400,000
records, ten times the repetitions, and trains on real data. Results go to ``results/experiments/threshold_post`` and
are compared with ``expected.json`` and, of what is trained, with ``trained_expected.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import early_stopping
import networks
import numpy as np
import pair
import yaml
from scipy import optimize, special

from miaudit import Evidence, Plan, audit
from miaudit.attacks import likelihood
from miaudit.attacks.likelihood import GaussianLira, GaussianStatistics
from miaudit.collect.outputs import Attack, from_outputs, one_run
from miaudit.metrics.classical import Sample

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/threshold_post")
PARTS = ("claims", "pair", "early-stopping")
CONTROLS = 400


@dataclass(frozen=True)
class TwoCurves:
    """Scores whose AUC and TPR at 0.1% FPR are as wanted.

    Non-members are standard normal. A share of the members stands far above all non-members (memorised), the others are
    shifted by an amount that makes up the rest of the AUC. Where the TPR is to be lower than by a shift alone, a share
    of the non-members stands far below all members (cleared) instead.
    """

    memorised: float
    shift: float
    cleared: float = 0.0

    @classmethod
    def solve(cls, auc: float, tpr: float, fpr: float) -> TwoCurves:
        """Find the share and the shift by the closed form of a two-part mixture."""
        cut = -special.ndtri(fpr)

        def tpr_of(share: float, shift: float) -> float:
            return share + (1 - share) * float(special.ndtr(shift - cut))

        def shift_for(share: float) -> float:
            rest = (auc - share) / (1 - share)
            return float(np.sqrt(2) * special.ndtri(rest))

        if tpr < tpr_of(0.0, shift_for(0.0)):
            # Of the other non-members a larger share is then accused; members are where they would be without.
            share = optimize.brentq(
                lambda c: float(special.ndtr(shift_for(c) + special.ndtri(fpr / (1 - c)))) - tpr, 0.0, 0.6
            )
            return cls(0.0, shift_for(share), share)
        share = optimize.brentq(lambda s: tpr_of(s, shift_for(s)) - tpr, -0.05, 0.6)
        return cls(share, shift_for(share))

    def draw(self, n: int, rng: np.random.Generator) -> Evidence:
        member = rng.random(n) < 0.5
        score = rng.normal(size=n)
        memorised = member & (rng.random(n) < self.memorised)
        score[member & ~memorised] += self.shift
        score[memorised] += 12.0
        if self.cleared:
            score[~member & (rng.random(n) < self.cleared)] -= 12.0
        return Evidence(score=score, member=member, design="one-run", source="two curves of one AUC")


def two_curves(n: int, wanted: list[dict[str, float]], rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = []
    for row in wanted:
        world = TwoCurves.solve(row["auc"], row["tpr"], row["fpr"])
        of_the_text = f"tpr_at_fpr_{row['fpr']:g}"  # the only limit: the two curves differ in it
        plan = Plan(fpr_targets=(row["fpr"], 0.01, 0.1), primary_metric=of_the_text)
        findings = audit(world.draw(n, rng), plan=plan, rng=rng)
        auc, tpr = findings.metric("auc"), findings.metric(of_the_text)
        rows.append(
            {
                "printed_auc": row["auc"],
                "printed_tpr": row["tpr"],
                "auc": [auc.low, auc.value, auc.high],
                "tpr": [tpr.low, tpr.value, tpr.high],
                "verdict": findings.verdict.status,
                "level": findings.verdict.level,
            }
        )
    return rows


def hold_out_before_training(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """The post's protocol on a model that is really trained: membership is drawn first, the rest is never seen.

    The target is ridge regression on random data with more columns than it needs, so that it memorises. The control
    audits non-members against other non-members, many times: its interval must hold one half as often as it says.
    """
    columns = n // 8
    features, truth = rng.normal(size=(n, columns)), rng.normal(size=columns) / np.sqrt(columns)
    target = features @ truth + rng.normal(size=n)

    def fit(rows: np.ndarray) -> np.ndarray:
        x = features[rows]
        return np.linalg.solve(x.T @ x + np.eye(columns), x.T @ target[rows])

    def score(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return -((target[rows] - features[rows] @ weights) ** 2) / 2

    held_out = one_run(fit, score, records=n, rng=rng, source="ridge regression")
    outside = held_out.score[~held_out.member]
    held = 0
    for _ in range(CONTROLS):
        control = Sample.of(Evidence(score=outside, member=rng.random(len(outside)) < 0.5)).auc(0.95)
        held += control.low <= 0.5 <= control.high
    auc = Sample.of(held_out).auc(0.95)
    return {"auc": [auc.low, auc.value, auc.high], "control_coverage": held / CONTROLS}


def likelihood_ratio_both_ways(n: int, repetitions: int, rng: np.random.Generator) -> dict[str, Any]:
    """Erratum C1: equal variances give the loss's own ROC; cross-fitting them costs; unequal ones can be worse."""
    rows: dict[str, list[float]] = {"given": [], "cross-fitted, pooled": [], "cross-fitted, separate": []}
    worse = []
    for _ in range(repetitions):
        member = np.arange(n) < n // 2
        loss = rng.normal(size=n) - 0.5 * member
        base = Sample.of(Evidence(score=-loss, member=member)).roc.auc
        given = likelihood.log_ratio(loss, GaussianStatistics(-0.5, 1.0, 0.0, 1.0))
        pooled = likelihood.cross_fitted(loss, member, variance="pooled", rng=rng)
        separate = likelihood.cross_fitted(loss, member, rng=rng)
        for name, ratio in zip(rows, (given, pooled, separate), strict=True):
            rows[name].append(Sample.of(Evidence(score=ratio, member=member)).roc.auc - base)
        # Losses as they are: members piled at 0, with a few hard ones; the parabola accuses high losses too.
        heavy = np.where(member, rng.exponential(0.05, n) + 3 * (rng.random(n) < 0.05), rng.exponential(1.0, n))
        attack = Attack(("gaussian_lira",), GaussianLira())
        both = from_outputs(member=member, losses=heavy, attack=attack, rng=rng).evidence
        ratio_auc, loss_auc = (Sample.of(both.only(name)).roc.auc for name in ("gaussian_lira", "loss"))
        worse.append(ratio_auc - loss_auc)
    means = {name: float(np.mean(values)) for name, values in rows.items()}
    return {"n": n, "auc_difference_to_loss": means, "unequal_variances_heavy_losses": float(np.mean(worse))}


def claims(settings: dict[str, Any]) -> dict[str, Any]:
    """Everything that needs no network."""
    rng = np.random.default_rng(settings["seed"])
    return {
        "two_curves": two_curves(settings["n"], settings["two_curves"], rng),
        "hold_out_before_training": hold_out_before_training(settings["hold_out_n"], rng),
        "likelihood_ratio": likelihood_ratio_both_ways(settings["ratio_n"], settings["repetitions"], rng),
        "curves_of_the_text": two_curves(
            settings["n"], settings["curves_of_the_text"], np.random.default_rng([settings["seed"], 60])
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="more records and repetitions, and real data")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds mnist/")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    form = "full" if options.full else "small"
    settings = yaml.safe_load((HERE / "config.yaml").read_text())[form]
    trained = {name: of[form] for name, of in yaml.safe_load((HERE / "trained.yaml").read_text()).items()}
    wanted = {name: own for name, own in trained.items() if name.replace("_", "-") in options.parts}
    if absent := networks.missing(wanted, options.data):
        parser.error(f"--data: {options.data} has no {', '.join(absent)}; the small form needs none")
    found: dict[str, Any] = claims(settings) if "claims" in options.parts else {}
    for name, module in (("pair", pair), ("early_stopping", early_stopping)):
        if name in wanted:
            found[name] = module.measured(wanted[name], options.data, settings["seed"])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: part for name, part in found.items() if name not in wanted}, indent=1))
    for name, module in (("pair", pair), ("early_stopping", early_stopping)):
        if name in wanted:
            print("", *module.table(found[name]), sep="\n")
    problems = compared(found, form, trained)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


def compared(found: dict[str, Any], form: str, trained: dict[str, Any]) -> list[str]:
    """Return how all that was found differs from what is expected."""
    problems = []
    if "two_curves" in found:
        expected = json.loads((HERE / "expected.json").read_text())
        problems += [*differences(found, expected), *departures(found, expected["readme"][form])]
    kept = json.loads((HERE / "trained_expected.json").read_text())
    if "pair" in found:
        problems += pair.differences(found["pair"], kept["pair"]["claims"][form])
        problems += networks.departures(found["pair"], kept["pair"][form], kept["tolerance"])
    if "early_stopping" in found:
        own, expected = trained["early_stopping"], kept["early_stopping"]
        problems += early_stopping.differences(found["early_stopping"], own, expected["claims"][form])
        problems += networks.departures(found["early_stopping"], expected[form], kept["tolerance"])
    return problems


def printed(found: dict[str, Any]) -> dict[str, list[float]]:
    """Return the rows of the README's table, by their names."""
    held_out, ratio = found["hold_out_before_training"], found["likelihood_ratio"]
    fitted = ratio["auc_difference_to_loss"]
    return {
        "AUC of the two worlds": [row["auc"][1] for row in found["two_curves"]],
        "their TPR at 0.1% FPR": [row["tpr"][1] for row in found["two_curves"]],
        "AUC of the two worlds of 0.60": [row["auc"][1] for row in found["curves_of_the_text"]],
        "TPR of the worlds of 0.60 at 0.1% FPR": [row["tpr"][1] for row in found["curves_of_the_text"]],
        "AUC of the trained ridge regression": [held_out["auc"][1]],
        "share of the control's intervals that hold one half": [held_out["control_coverage"]],
        "ratio less loss: equal variances, pooled; separate": [
            fitted["cross-fitted, pooled"],
            fitted["cross-fitted, separate"],
        ],
        "ratio less loss: unequal variances, losses as they are": [ratio["unequal_variances_heavy_losses"]],
    }


def departures(found: dict[str, Any], readme: dict[str, list[float]]) -> list[str]:
    """Return which figures are not those of the README, which has three decimals."""
    return [
        f"{name}: {values}, in the README {readme[name]}"
        for name, values in printed(found).items()
        if not np.allclose(values, readme[name], rtol=0, atol=0.00051)
    ]


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Compare what was found with the printed values and the errata; return what does not hold."""
    problems = []
    for row in [*found["two_curves"], *found["curves_of_the_text"]]:
        for name in ("auc", "tpr"):
            low, _, high = row[name]
            if not low <= row[f"printed_{name}"] <= high:
                problems.append(f"{name} {row[name]} does not hold {row[f'printed_{name}']}")
    for part in ("two_curves", "curves_of_the_text"):
        statuses = [row["verdict"] for row in found[part]]
        if statuses != expected["verdicts"]:
            problems.append(f"{part}: verdicts {statuses}, expected {expected['verdicts']}")
    low, _, _ = found["hold_out_before_training"]["auc"]
    if low <= expected["held_out_auc_above"]:
        problems.append(
            f"the trained model's AUC is at least {low}, expected more than {expected['held_out_auc_above']}"
        )
    coverage = found["hold_out_before_training"]["control_coverage"]
    if coverage < expected["control_coverage_above"]:
        problems.append(f"the control's intervals hold one half in {coverage:.1%} of the splits only")
    ratio = found["likelihood_ratio"]["auc_difference_to_loss"]
    for name, (low, high) in expected["auc_difference_to_loss"].items():
        if not low <= ratio[name] <= high:
            problems.append(f"AUC of the ratio less that of the loss, {name}: {ratio[name]}, expected {low} to {high}")
    if found["likelihood_ratio"]["unequal_variances_heavy_losses"] >= expected["heavy_losses_below"]:
        problems.append("unequal variances on heavy-tailed losses were expected to be worse than the loss")
    return problems


if __name__ == "__main__":
    sys.exit(main())
