"""The page of a comparison of disclosures, from the plain values of its findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from miaudit.findings.disclosure import Compared, DisclosureFindings, Driver, Limits
from miaudit.findings.next_steps import Intent, Step, origin_of
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, between, chance, label
from miaudit.metrics.rounding import Rounding, in_points, percent, written
from miaudit.report import defence_charts, disclosure_charts, page_frame
from miaudit.report.limit_rows import limit_rows
from miaudit.report.vega_lite import Chart

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

_PREDICTED = "predicted-"
NAMES = ("tradeoff", "reductions", "steps", *(f"{_PREDICTED}{name}" for name in disclosure_charts.NAMES))
_AGAINST = {
    "within": ("clear", "within"),
    "exceeded": ("flagged", "exceeded"),
    "open": ("inconclusive", "open"),
}  # tone and word of an option against the limits
_EFFECTS = {"helps": "shown to help", "harms": "shown to harm", "not shown": "no effect shown"}
_RANDOMNESS = {"none": "", "fixed": "drawn once for each record", "redrawn": "drawn anew with each query"}
_NOTHING_LOST = {"value": "none", "limits": "the label stays", "beside": ""}
_GROUPS = {"output": "on outputs", "training": "another training", "given": "given outputs"}


def charts(findings: DisclosureFindings) -> dict[str, Chart]:
    """Draw the charts whose data are there, by name."""
    by_name = {"tradeoff": defence_charts.tradeoff(findings)}
    if any(one.reduction is not None for one in findings.options):
        by_name["reductions"] = defence_charts.reductions(findings)
    if findings.predictions:
        by_name["steps"] = disclosure_charts.steps(findings.predictions)
        for one in findings.predictions:
            by_name[f"{_PREDICTED}{one['disclosure']}"] = disclosure_charts.predicted_against_measured(one)
    return by_name


def page(findings: DisclosureFindings, *, built: Built | None = None) -> str:
    """Write findings as one HTML page.

    Returns
    -------
    str
        A page that loads nothing from anywhere. Equal findings give equal text.
    """
    built = built or page_frame.built(charts(findings))
    return page_frame.render(
        "disclosure_page.html",
        findings,
        built,
        verdict=_verdict(findings),
        plain=_in_pairs(findings),
        steps=_steps(findings),
        cards=_cards(findings),
        rates=[label(name) for name in _rates(findings)],
        rows=[_row(findings, i, one) for i, one in enumerate(findings.options)],
        shared=_shared(findings),
        leaks=[_leak_row(findings, i, one) for i, one in enumerate(findings.options)],
        drivers=[_driver(one) for one in findings.drivers],
        assumption=next((one.assumption for one in findings.drivers if one.assumption), ""),
        predicted=[name for name in built.specs if name.startswith(_PREDICTED)],
        predicted_notes=list(dict.fromkeys(note for one in findings.predictions for note in one["notes"])),
        confidence=percent(findings.confidence),
        repeat=_repeat(findings),
        options=[(name, _plain(value)) for name, value in findings.plan.items()],
    )


def _shared(findings: DisclosureFindings) -> list[str]:
    """Notes that hold for every option."""
    first, *others = (one.notes for one in findings.options)
    return [text for text in first if others and all(text in notes for notes in others)]


def _released(findings: DisclosureFindings) -> Compared:
    return next(one for one in findings.options if one.name == findings.release)


def _verdict(findings: DisclosureFindings) -> dict[str, Any]:
    verdict = findings.verdict
    text = verdict.text.removeprefix(f"{verdict.word}: ")
    tone = "refused" if verdict.status == "not-testable" else verdict.status
    return {
        **vars(verdict),
        "tone": "warned" if verdict.status == "clear" and verdict.proven else tone,
        "word": verdict.word,
        "text": text[:1].upper() + text[1:],
        "limits": limit_rows(verdict.limits),
        "whose": "Limits of this audit" if verdict.stated else "Default limits",
        "release": _released(findings).words,
    }


def _in_pairs(findings: DisclosureFindings) -> str:
    """Say how well the attack on the release does in a number that anybody knows."""
    auc = _released(findings).leakage["auc"]
    if auc.value is None or findings.verdict.status == "not-testable":
        return ""
    limits = f"{written(100 * auc.low, '.0f', 'down')} to {written(100 * auc.high, '.0f', 'up')}"
    return (
        f"Of 100 pairs of a member and a non-member, the attack picks the member in {100 * auc.value:.0f} ({limits}). "
        "Random guessing picks it in 50."
    )


def _steps(findings: DisclosureFindings) -> list[Step]:
    """What to do next: take what is recommended, or look for something else."""
    command = origin_of(findings.repeat).command(Intent("repeat"))
    again = Step("Then audit it anew, with what is released.", command)
    status, better = findings.verdict.status, [one for one in findings.options if one.recommended]
    if status == "not-testable":
        return [Step("Bring audited records whose membership chance decided, or more of them.", command)]
    if better and not any(one.name == findings.release for one in better):
        names = " or ".join(f"“{one.words}” (option {findings.options.index(one)})" for one in better[:3])
        return [Step(f"Release {names} in place of “{_released(findings).words}”."), again]
    if status == "flagged":
        return [
            Step("Do not release it as it is; nothing that was compared is recommended in its place."),
            Step("Train with fewer epochs, more regularisation or differential privacy. " + again.text, again.command),
        ]
    if status == "inconclusive":
        return [Step("Audit more records: four times as many about halve the intervals.", command)]
    return [Step("Release it as it was audited; another training, or more outputs, is another audit.")]


def _cards(findings: DisclosureFindings) -> list[tuple[str, str, str]]:
    one, counts = _released(findings), findings.counts
    cards = [
        ("Members / non-members", f"{counts.members:,} / {counts.nonmembers:,}", "records that were audited"),
        ("Shadow models", f"{counts.shadow_models:,}", "through every defence, as the audited model"),
    ]
    for name in ("auc", *_rates(findings)[:1]):
        metric = one.leakage[name]
        value = f"≤ {amount(name, metric.high, 'up')}" if metric.value is None else amount(name, metric.value)
        cards.append((label(name), value, f"{_between(name, metric)}; chance is {amount(name, chance(name))}"))
    right = _cell(one.accuracy, percent)
    return [*cards, ("A guess is right", right["value"], f"{right['limits']}; on records not learned")]


def _rates(findings: DisclosureFindings) -> list[str]:
    return [name for name in findings.options[0].leakage if definition.of(name).fpr is not None]


def _row(findings: DisclosureFindings, number: int, one: Compared) -> dict[str, Any]:
    auc, gain = one.leakage["auc"], one.reduction
    kind = defence_charts.KINDS[one.kind][0]
    keeps_the_label = gain is not None and one.cost is None  # by construction
    chance_words = _RANDOMNESS[one.randomness]
    tone, within = _AGAINST[one.within]
    below = "; ".join(text for text in (kind, _GROUPS[one.group], chance_words) if text)
    return {
        "number": number,
        "name": one.words,
        "below": below,
        "within": within,
        "tone": tone,
        "released": one.name == findings.release,
        "recommended": one.recommended,
        "cells": [
            _cell(auc, _auc),
            _cell(gain, in_points, "" if gain is None else _EFFECTS[one.effect]),
            _cell(one.accuracy, percent),
            _NOTHING_LOST if keeps_the_label else _cell(one.cost, in_points),
            _cell(one.calibration_error, _number(".3f")),
            _cell(one.size, _number(".2f"), _odd(one)),
            _cell(one.coverage, percent),
        ],
        "notes": one.notes,
    }


def _cell(metric: Limits | None, shown: Callable[[float, Rounding], str], beside: str = "") -> dict[str, str]:
    if metric is None or metric.value is None:
        return {"value": "–", "limits": "", "beside": ""}
    limits = f"{shown(metric.low, 'down')} to {shown(metric.high, 'up')}"
    return {"value": shown(metric.value, "nearest"), "limits": limits, "beside": beside}


def _number(form: str) -> Callable[[float, Rounding], str]:
    return lambda value, rounding: written(value, form, rounding)


def _auc(value: float, rounding: Rounding) -> str:
    return amount("auc", value, rounding)


def _odd(one: Compared) -> str:
    shares = ("empty", one.empty), ("full", one.full)
    return ", ".join(f"{percent(share)} {name}" for name, share in shares if share > 0)


def _leak_row(findings: DisclosureFindings, number: int, one: Compared) -> dict[str, Any]:
    averaged = one.averaged_advantage
    rates = [one.leakage[name] for name in _rates(findings)]
    return {
        "number": number,
        "name": one.words,
        "attack": one.attack,
        "tried": _tried(one),
        "cells": [
            _cell(averaged, _number(".3f")),
            _cell(one.leakage["advantage"], _number(".3f")),
            *(_unresolved(metric) if metric.value is None else _cell(metric, percent) for metric in rates),
        ],
    }


def _driver(one: Driver) -> dict[str, Any]:
    epistemic = one.epistemic
    alone = {"value": "–" if epistemic is None else f"{epistemic:.3f}", "limits": "", "beside": ""}
    return {
        "group": one.group,
        "counts": f"{one.members:,} members, {one.nonmembers:,} non-members",
        "cells": [
            _cell(one.auc, _auc),
            _cell(one.calibration_error, _number("+.3f")),
            _cell(one.aleatoric, _number(".3f")),
            alone,
        ],
    }


def _tried(one: Compared) -> str:
    """AUC of the best attacks on shadow models, the chosen one first."""
    if not one.tried:
        return ""
    (_, chosen), *others = sorted(one.tried.items(), key=lambda item: -item[1])[:3]
    weaker = ", ".join(f"{name} {value:.3f}" for name, value in others)
    return f"on shadow models {chosen:.3f}; {weaker}" if weaker else f"on shadow models {chosen:.3f}"


def _unresolved(metric: Limits) -> dict[str, str]:
    return {"value": f"≤ {percent(metric.high, 'up')}", "limits": "upper limit only", "beside": ""}


def _between(name: str, metric: Limits) -> str:
    if metric.value is None:
        return f"at most {amount(name, metric.high, 'up')}"
    return between(name, metric.low, metric.high)


def _repeat(findings: DisclosureFindings) -> list[tuple[str, str]]:
    rows = [("Target", findings.target or "not stated"), ("Records", findings.source or "not stated")]
    rows += [
        (key if key == "miaudit" else key.capitalize(), _plain(value))
        for key, value in findings.repeat.items()
        if key != "command"
    ]
    return [*rows, ("Format of findings.json", f"{findings.FORMAT}, {findings.KIND}")]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
