"""``miaudit plan``: what an audit will be able to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from miaudit.command import options
from miaudit.command.options import OUTPUT, Seed, taken, takes
from miaudit.command.results import say
from miaudit.config.audit import Options
from miaudit.errors import InputError
from miaudit.metrics.definition import amount, percent, written

_DESIGNS = {"one-run": "one run", "multi-run": "one model for each record"}


@takes(**{name: taken(name) for name in ("fpr", "confidence", "delta", "claim_epsilon", "claim_delta", "claim_mu")})
def plan(
    context: typer.Context,
    members: Annotated[int | None, typer.Option(help="Members (or units of members) that you can audit.")] = None,
    nonmembers: Annotated[int | None, typer.Option(help="Non-members that you can audit.")] = None,
    tpr: Annotated[
        float | None, typer.Option(help="A TPR that you wish to detect: how many records does it need?")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="To tell from this TPR instead of from chance.")] = None,
    power: Annotated[float, typer.Option(help="Share of such audits that should succeed.")] = 0.8,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print plain values.", rich_help_panel=OUTPUT)] = False,
    seed: Seed = 0,
    **chosen: Any,
) -> None:
    """Say what an audit will be able to see, before any data is collected."""
    import json as encoder
    from dataclasses import asdict

    import numpy as np

    from miaudit.auditing import power as power_of

    if (members is None) != (nonmembers is None) or (members is None and tpr is None):
        raise typer.BadParameter("give --members and --nonmembers, or a --tpr to detect, or all three")
    confidence, delta = chosen["confidence"], chosen["delta"]
    given = {name: value for name, value in options.given(context).items() if name in chosen}
    asked = options.validated(options.content(given), Options).plan()
    claim = None if asked.bounds is None else asked.bounds.claim
    if claim is not None and members is None:
        raise typer.BadParameter("a claim is refuted by records: give --members and --nonmembers too")
    targets = asked.fpr_targets
    if tpr is not None and not min(targets) < tpr < 1:
        raise InputError(
            "--tpr", f"a number above the smallest FPR ({min(targets):g}) and below 1", str(tpr), "change it"
        )
    answer: dict[str, Any] = {"confidence": confidence, "power": power}
    rng = np.random.default_rng(seed)
    if members is not None and nonmembers is not None:
        wanted: dict[str, Any] = {"confidence": confidence, "power": power, "threshold": threshold}
        answer["targets"] = [
            asdict(power_of.at_fpr(t, members=members, nonmembers=nonmembers, rng=rng, **wanted)) for t in targets
        ]
        answer["smallest_auc"] = power_of.smallest_auc(members, nonmembers, confidence, power)
        sizes: dict[str, Any] = {"members": members, "nonmembers": nonmembers, "confidence": confidence}
        designs: tuple[power_of.BoundedDesign, ...] = ("one-run", "multi-run")
        answer["bounds"] = [asdict(power_of.reach(design, delta=delta, **sizes)) for design in designs]
        if claim is not None:
            answer["claim"] = [asdict(power_of.refutation(claim, design, **sizes)) for design in designs]
    if tpr is not None:
        answer["needed"] = [
            {
                "fpr": t,
                "tpr": tpr,
                "records_per_class": power_of.records_needed(
                    t, tpr, confidence=confidence, power=power, threshold=threshold, rng=rng
                ),
            }
            for t in targets
            if t < tpr
        ]
    say(encoder.dumps(answer, indent=1) if json else _text(answer, members, nonmembers, claim))


def _text(answer: dict[str, Any], members: int | None, nonmembers: int | None, claim: object) -> str:
    lines = []
    if "targets" in answer:
        lines.append(
            f"With {members:,} members and {nonmembers:,} non-members ({percent(answer['confidence'])} intervals):"
        )
        for t in answer["targets"]:
            if t["smallest_tpr"] is None:
                lines.append(
                    f"  FPR {percent(t['fpr'])}: not resolvable, an upper limit only; "
                    f"needs {t['nonmembers_needed']:,} non-members"
                )
            else:
                lines.append(
                    f"  FPR {percent(t['fpr'])}: a TPR of {percent(t['smallest_tpr'], 'up')} or more would be told "
                    f"from {percent(t['against'])} in {answer['power']:.0%} of audits"
                )
            lines.append(f"    without any leakage, the upper limit would be {percent(t['clear_from'], 'up')} or less")
        auc = answer["smallest_auc"]
        lines.append(
            f"  AUC: {amount('auc', auc, 'up')} or more would be told from 0.5" if auc < 1 else "  AUC: too few for any"
        )
        lines += _reach_text(answer)
    if claim is not None:
        lines.append(f"Claim: {claim}.")
        lines += [f"  {_refutation_text(found)}" for found in answer["claim"]]
    for wish in answer.get("needed", ()):
        lines.append(
            f"To detect a TPR of {percent(wish['tpr'])} at an FPR of {percent(wish['fpr'])}: "
            f"{wish['records_per_class']:,} members and as many non-members"
        )
    return "\n".join(lines)


def _reach_text(answer: dict[str, Any]) -> Iterator[str]:
    delta = answer["bounds"][0]["delta"]
    yield f"Lower bounds on mu, and on epsilon at delta = {delta:g} ({100 * answer['confidence']:.6g}%, one-sided):"
    for found in answer["bounds"]:
        yield (
            f"  {_DESIGNS[found['design']]}: at most mu {written(found['mu'], '.2f', 'up')} "
            f"({found['mu_guesses']:,} guesses, all right) and epsilon {written(found['epsilon'], '.2f', 'up')}"
        )
        for typical in found["typical"]:
            true = "" if typical["epsilon"] is None else f" (epsilon = {typical['epsilon']:.2f})"
            yield (
                f"    an algorithm with true mu = {typical['mu']:g}{true} would show, with the "
                f"best attack, about mu {typical['mu_shown']:.2f} and epsilon {typical['epsilon_shown']:.2f}"
            )


def _refutation_text(found: dict[str, Any]) -> str:
    design, name = _DESIGNS[found["design"]], found["parameter"]
    if not found["refutable"]:
        most = written(found["reachable"], ".2f", "up")
        return f"{design}: not refutable by so many records, which show at most {name} {most}"
    return (
        f"{design}: refutable, by about {found['correct']:,} of {found['guesses']:,} guesses right "
        f"({found['accuracy']:.1%}), as the best attack on a true mu of {found['true_mu']:.2f} would have"
    )
