"""From findings to one self-contained page: no request leaves it, and text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from miaudit.findings.design import in_words
from miaudit.findings.metric import foremost, named
from miaudit.findings.plain_words import claim_is_refuted
from miaudit.findings.policy import SURE_LIST, in_units_of_score
from miaudit.findings.verdict import DECLARE, LEVEL_NAMES, NOT_DECLARED
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, between, chance, label
from miaudit.metrics.rounding import percent, rate_with_limits
from miaudit.report import audit_charts, matched_section, page_frame, privacy_page, unused_columns
from miaudit.report.by_covariates_section import section as by_covariates
from miaudit.report.limit_rows import limit_rows
from miaudit.report.overlap_charts import points
from miaudit.report.vulnerability_charts import p_value

if TYPE_CHECKING:
    from miaudit.findings.audit import (
        Findings,
        LackOfFit,
        LearningCurve,
        Mislabelled,
        VulnerableGroup,
        VulnerableRecord,
    )
    from miaudit.findings.metric import Metric
    from miaudit.report.page_frame import Built

_ESTIMATORS = {
    "hajek": "Hajek weights",
    "horvitz-thompson": "Horvitz-Thompson weights",
    "g": "G-formula",
    "aipw": "AIPW",
    "tilted": "Hajek weights, tilted along regressions",
}
_OVERLAP = {
    "answered": ("clear", "Answered"),
    "warned": ("inconclusive", "Answered, with a warning"),
    "refused": ("refused", "Refused"),
}


def page(findings: Findings, *, files: bool = False, built: Built | None = None) -> str:
    """Write findings, as :func:`miaudit.report.audit_charts.charts` takes them, as one HTML page.

    Parameters
    ----------
    findings : Findings
    files : whether the figures stand beside the page, in a folder ``figures``, so that it may link to them
    built : its charts, where they are built already

    Returns
    -------
    str
        A page that loads nothing: charts, their program and the style are inside, and its content security policy
        forbids the rest. It reads and prints without scripts; with them charts answer the pointer and a control reads
        the curve at any false-positive rate. Equal findings give equal text.
    """
    words = findings.in_words
    known = findings.claim.parameter if findings.claim is not None and _claim_leads(findings) else ""
    return page_frame.render(
        "page.html",
        findings,
        built or audit_charts.charts(findings),
        programs=["control.js"],
        files=files,
        left_out=audit_charts.left_out(findings),
        words=words,
        notes=_unsaid(findings, findings.notes),
        corrections=_unsaid(findings, findings.corrections),
        verdict=_verdict(findings, words.said),
        cards=_cards(findings),
        memorisation=_memorisation(findings),
        sensitivity="" if findings.sensitivity is None else findings.sensitivity.text,
        overlap=_overlap(findings),
        unused=unused_columns.section(findings.unused_columns),
        reference=_reference(findings),
        matched=matched_section.section(findings),
        size=matched_section.size(findings),
        control=_control(findings),
        metrics=[_metric_row(findings, metric) for metric in findings.metrics],
        bootstrapped=any(metric.bootstrap for metric in findings.metrics),
        groups=_groups(findings),
        kinds=by_covariates(findings),
        scores=_scores(findings),
        privacy=privacy_page.section(findings, known),
        vulnerability=_vulnerability(findings),
        raw=findings.is_raw_only,
        both=findings.is_corrected and any(findings.is_raw(metric) for metric in findings.metrics),
        design=_design(findings),
        levels=_levels(findings) if definition.of(findings.verdict.metric).has_levels else [],
        reading=_how_to_read(findings),
        repeat=_repeat(findings),
        options=[(name, _option(value)) for name, value in findings.plan.items()],
    )


# -- what stands on the page ------------------------------------------------------------------------------------------


def _design(findings: Findings) -> str:
    runs = findings.several_runs
    return in_words(findings.design) if runs is None else in_words("one-run", runs=runs.runs, records=runs.records)


def _claim_leads(findings: Findings) -> bool:
    """Whether the box tells of a refuted claim first, since the metric raised no concern."""
    return claim_is_refuted(findings) and findings.verdict.status != "flagged"


def _verdict(findings: Findings, lead: str) -> dict[str, Any]:
    """The box on the whole audit: a refuted claim leads, and what the metric says follows."""
    verdict, claim = findings.verdict, findings.claim
    status, word = verdict.status, verdict.word
    question = f"{NOT_DECLARED} {DECLARE} "
    text, explained = verdict.text.removeprefix(f"{word}: ").removeprefix(question), ""
    if claim is not None and _claim_leads(findings):
        status, word, text = "flagged", "Claim refuted", verdict.text
        explained = privacy_page.explained(findings)[claim.parameter]
    several, conditional = len(findings.scores) > 1, bool(verdict.condition)
    limits = limit_rows(verdict.limits, several_scores=several, conditional=conditional)
    if limits and all(one.limit != SURE_LIST for one in verdict.limits):  # shown also where no limit is on them
        limits += [
            {
                "limit": name,
                "measured": value,
                "threshold": "none stated",
                "outcome": "not judged",
                "tone": "",
                "note": note,
                "score": "",
            }
            for name, value, note in list(_lists(findings))[:1]
        ]
    return {
        **vars(verdict),
        "status": status,
        "tone": verdict.tone if status == verdict.status else status,
        "limits": limits,
        "stricter": _stricter(findings) if limits else "",
        "word": word,
        "lead": _without_badge(lead),
        "explained": explained,
        "text": "" if limits else text[:1].upper() + text[1:],
        "in_units_of_score": bool(findings.metrics) and in_units_of_score(verdict.metric),
        "level": f"Size in words: {verdict.level}" if verdict.level else "",
        "score": findings.scores[0].score,
        "corrected": _corrected_by(findings),
    }


def _without_badge(lead: str) -> str:
    """The first sentence without "Not answered", which the badge above it says."""
    rest = lead.removeprefix("Not answered: ")
    return rest[:1].upper() + rest[1:]


def _stricter(findings: Findings) -> str:
    """Say why a lower end in the table of limits may be below that of the same number further down."""
    differing = {metric.name: metric.low for metric in foremost(findings.metrics)}
    if all(one.low == differing.get(one.limit, one.low) for one in findings.verdict.limits if one.limit != SURE_LIST):
        return ""
    return (
        "The lower ends in this table are stricter than those of the intervals below: they hold for all limits and "
        "scores together."
    )


def _corrected_by(findings: Findings) -> str:
    """Name the correction of the numbers that the page leads with; empty where there is none."""
    if not findings.is_corrected:
        return ""
    leading = named(findings.metrics, findings.verdict.metric) or foremost(findings.metrics)[0]
    return f"Corrected for shift: {_ESTIMATORS[leading.estimator]}"


def _lists(findings: Findings) -> Iterator[tuple[str, str, str]]:
    """The surest members of each score, the list that is the most right first: how many are members."""
    for one in sorted(findings.surest_members, key=lambda one: one.p):
        shown = rate_with_limits(one.members / one.listed, one.low, one.high)
        of = "surest pairs, right" if one.of == "pairs" else "highest scores are members"
        name = "surest pairs" if one.of == "pairs" else "surest members"
        yield name, f"{one.members:,} of the {one.listed:,} {of}", f"{shown} of the list, by {one.score}"


def _list_card(findings: Findings) -> tuple[str, str, str]:
    """The list that is the most right as a card: a number that fits, and the words in small print."""
    one = min(findings.surest_members, key=lambda one: one.p)
    shown = rate_with_limits(one.members / one.listed, one.low, one.high)
    name, of = ("Surest pairs", "are right") if one.of == "pairs" else ("Surest members", "highest scores are members")
    return name, f"{one.members:,} of {one.listed:,}", f"{of}: {shown} of the list, by {one.score}"


def _cards(findings: Findings) -> list[tuple[str, str, str]]:
    counts, of = findings.counts, findings.counts.of
    prefix = "raw, not causal; " if findings.is_raw_only else "corrected; " if findings.is_corrected else ""
    cards = [
        (name, f"{number:,}", f"{of}, {records:,} records" if of == "units" else of)
        for name, number, records in (
            ("True strings" if of == "strings" else "Members", counts.members, counts.member_records),
            ("Decoys" if of == "strings" else "Non-members", counts.nonmembers, counts.nonmember_records),
        )
    ]
    if findings.surest_members and not findings.verdict.limits:
        cards.append(_list_card(findings))
    for metric in _card_metrics(findings):
        by_chance = chance(metric.name)
        limits = "upper limit only" if metric.value is None and metric.high is not None else metric.interval
        note = f"{limits}; chance is {amount(metric.name, by_chance)}"
        cards.append((label(metric.name), _value(metric), prefix + note))
        if metric.name == "auc":
            cards += _alone(findings)
    return cards


def _alone(findings: Findings) -> list[tuple[str, str, str]]:
    """The AUC of the covariates alone, beside that of the attack, where the design is not declared."""
    alone = findings.covariates_alone
    if not alone:
        return []
    return [("AUC of the covariates alone", amount("auc", alone.value), f"{alone.interval}; {alone.note}")]


def _card_metrics(findings: Findings) -> list[Metric]:
    """The primary metric, unless it is in units of the score, the AUC, and a TPR where the primary metric is none."""
    primary, auc = (named(findings.metrics, name) for name in (findings.verdict.metric, "auc"))
    of_rate = primary is not None and definition.of(primary.name).fpr is not None
    primary = primary if primary is not None and definition.of(primary.name).bounded else None
    rates = [metric for metric in foremost(findings.metrics) if definition.of(metric.name).fpr is not None]
    tpr = next((metric for metric in rates if metric.value is not None), rates[0] if rates else None)
    chosen: list[Metric] = []
    for metric in (primary, auc, tpr):
        if metric is not None and metric not in chosen:
            chosen.append(metric)
    return chosen[:2] if of_rate else chosen[:3]


def _control(findings: Findings) -> dict[str, Any] | None:
    """What the reader's control needs: the curve, with the metrics of the table at their targets."""
    curve = findings.curve
    if not curve:
        return None
    known = {fpr: [fpr, tpr, low, high] for fpr, tpr, low, high in curve.points if fpr > 0}
    for metric in foremost(findings.metrics):
        fpr = definition.of(metric.name).fpr
        if fpr is not None and metric.high is not None:
            value = metric.value
            known[fpr] = [fpr, value, metric.low or 0.0, metric.high]
    targets, smallest = findings.plan["fpr_targets"], findings.counts.smallest_fpr
    start = definition.of(findings.verdict.metric).fpr
    return {
        "points": [known[fpr] for fpr in sorted(known)],
        "smallest": smallest,
        "start": next((fpr for fpr in targets if fpr >= smallest), targets[-1]) if start is None else start,
        "prior": findings.plan["prior"],
        "nonmembers": audit_charts.nonmembers(findings),
    }


def _memorisation(findings: Findings) -> dict[str, Any] | None:
    """The two numbers that a zero-run audit is about."""
    memorisation, auc = findings.memorisation, named(findings.metrics, "auc")
    if not memorisation:
        return None
    limits = ""
    if auc and auc.low is not None and auc.high is not None and findings.is_corrected:
        limits = (
            f"{points(auc.low - 0.5, 'down')} to {points(auc.high - 0.5, 'up')} at "
            f"{percent(auc.confidence)} confidence; "
        )
    tiles = [
        {
            "name": "Memorisation",
            "kind": "memorisation",
            "value": points(memorisation.memorisation),
            "note": f"{limits}corrected AUC {amount('auc', memorisation.causal)} less 0.5",
        },
        {
            "name": "Shift",
            "kind": "shift",
            "value": points(memorisation.shift),
            "note": f"raw AUC {amount('auc', memorisation.raw)} less the corrected one; explained by the covariates",
        },
    ]
    return {"tiles": tiles, "sentence": memorisation.sentence, "wrong": _wrong_labels(memorisation.mislabelling)}


def _wrong_labels(assumed: Sequence[Mislabelled]) -> list[tuple[str, str, str]]:
    """Say what wrong labels would mean: they hide memorisation, so the corrected AUC rises with them."""
    return [
        (
            percent(case.members),
            percent(case.nonmembers),
            f"{amount('auc', case.auc)} ({between('auc', case.low, case.high)})",
        )
        for case in assumed
        if case.auc is not None
    ]


def _overlap(findings: Findings) -> dict[str, Any] | None:
    """How comparable members and non-members are, in numbers."""
    overlap, counts = findings.overlap, findings.counts
    if not overlap:
        return None
    tone, word = _OVERLAP[overlap.status]
    limits = between("auc", overlap.blind_low, overlap.blind_high)
    facts = (
        ("Blind AUC", amount("auc", overlap.blind_auc), f"{limits}; by the covariates alone, chance is 0.5"),
        (
            "Effective sample size",
            f"{math.floor(overlap.effective_sample_size):,}",
            f"of {counts.nonmembers:,} non-member {counts.of}, after weighting",
        ),
        ("Largest weight", percent(overlap.largest_weight), "of all the weight is on one non-member"),
        ("Without a match", percent(overlap.without_match), "of members: hardly any non-member is like them"),
        ("Clipped", percent(overlap.clipped), "of propensities were moved to the clipping bounds"),
    )
    return {
        **vars(overlap),
        "tone": tone,
        "word": word,
        "facts": facts,
        "learned": _learned(overlap.learning),
        "fit": _fit(overlap.fit),
        "left_out": overlap.status == "refused" and not findings.metrics,
    }


def _unsaid(findings: Findings, texts: Sequence[str]) -> list[str]:
    """Texts that do not already stand among the warnings of the page."""
    warnings = findings.overlap.warnings if findings.overlap else ()
    return [text for text in texts if text not in warnings]


def _reference(findings: Findings) -> dict[str, Any] | None:
    """What scores of a reference model say of the correction, and the conditions of it."""
    reference = findings.reference
    if not reference:
        return None
    tone, word = ("refused", "Correction refuted") if reference.refuted else ("clear", "Correction not refuted")
    if reference.corrected is None:
        tone, word = "inconclusive", "Not tested"
    facts = [
        (f"Raw AUC of {name}", amount("auc", metric.value), f"{metric.interval}; a reference, no target")
        for name, metric in zip(
            (n for n in (reference.covariate, reference.test) if n is not None), reference.raw, strict=True
        )
    ]
    if reference.corrected is not None:
        shown = amount("auc", reference.corrected.value)
        facts.append((f"Corrected AUC of {reference.test}", shown, f"{reference.corrected.interval}; it should be 0.5"))
    return {"tone": tone, "word": word, "facts": facts, "text": reference.text, "conditions": reference.conditions}


def _learned(learning: LearningCurve | None) -> str:
    if learning is None:
        return ""
    half, full = amount("auc", learning.half), amount("auc", learning.full)
    sentence = (
        f"Learning curve: from half of the records the covariates reach a blind AUC of {half}, from all of them {full}"
    )
    if learning.rising:
        return (
            f"{sentence}. It is still rising: more records would change the propensity, so it is not to be trusted yet."
        )
    return f"{sentence}: more records would teach the propensity little."


def _fit(fit: LackOfFit | None) -> str:
    """Say what the propensity was tested by, where it stood; where it did not, the reasons do."""
    if fit is None or fit.rejected:
        return ""
    tried = f"z {fit.z:.1f}, refuted above {fit.limit:g}"
    if fit.product_z is None:
        return f"A forest predicts membership no better from the same covariates ({tried})."
    product = f"{' times '.join(fit.product)}: z {fit.product_z:.1f}, refuted above {fit.product_limit:.1f}"
    return (
        f"Neither a forest ({tried}){_sum(fit)} nor any product or square of covariates ({product}) predicts "
        "membership better. This does not prove the propensity."
    )


def _sum(fit: LackOfFit) -> str:
    measured = fit.by_sum_in_words
    return f", nor a threshold of a weighted sum ({measured})," if measured else ""


def _value(metric: Metric) -> str:
    """A metric, or its upper limit where that is all there is."""
    if metric.value is None and metric.high is not None:
        return f"≤ {amount(metric.name, metric.high, 'up')}"
    return amount(metric.name, metric.value)


def _metric_row(findings: Findings, metric: Metric) -> dict[str, Any]:
    name, precision, bootstrap = metric.name, metric.precision, metric.bootstrap
    not_causal = findings.is_raw(metric)
    by_chance = chance(name)
    return {
        "name": label(name),
        "estimator": "raw, not causal" if not_causal else _ESTIMATORS.get(metric.estimator, metric.estimator),
        "muted": not_causal and findings.is_corrected,
        "value": _value(metric),
        "interval": metric.interval,
        "chance": "–" if by_chance is None else amount(name, by_chance),
        "precision": _precision(precision) if precision else "–",
        "step": amount(name, metric.step_value),
        "bootstrap": between(name, bootstrap["low"], bootstrap["high"]) if bootstrap else "–",
        "note": metric.note,
        "primary": name in findings.plan["limits"] and metric in foremost(findings.metrics),
    }


def _precision(precision: Mapping[str, float | None]) -> str:
    value, low, high = precision["value"], precision["low"], precision["high"]
    if value is None:
        return "–" if high is None else f"≤ {percent(high, 'up')}"
    limits = "" if low is None or high is None else f" ({percent(low, 'down')} to {percent(high, 'up')})"
    return percent(value) + limits


def _groups(findings: Findings) -> dict[str, Any] | None:
    if not findings.groups:
        return None
    names = [metric.name for metric in foremost(findings.metrics)]
    sentence = sorted({group.note for group in findings.groups if group.metrics and group.note})
    rows = [
        {
            "group": group.group,
            "members": f"{group.members:,}",
            "nonmembers": f"{group.nonmembers:,}",
            "cells": [_cell(findings, group.metrics, name) for name in names],
            "note": "" if group.note in sentence else group.note,
        }
        for group in findings.groups
    ]
    return {"names": [label(name) for name in names], "rows": rows, "said": sentence}


def _scores(findings: Findings) -> dict[str, Any] | None:
    """Every score beside the headline, where there are several."""
    if len(findings.scores) == 1:
        return None
    names = [metric.name for metric in foremost(findings.metrics)]
    rows = [
        {"score": score.score, "cells": [_cell(findings, score.metrics, name) for name in names]}
        for score in findings.scores
    ]
    return {"names": [label(name) for name in names], "rows": rows}


def _cell(findings: Findings, metrics: Iterable[Metric], name: str) -> dict[str, str]:
    """One metric in a table of groups or scores, and its raw value beside a corrected one."""
    of_name = [metric for metric in metrics if metric.name == name]
    if not findings.is_corrected:
        return {"text": _short(of_name[0].reading) if of_name else "–", "raw": ""}
    raw = next((metric for metric in of_name if metric.estimator == "raw"), None)
    corrected = next((metric for metric in of_name if metric.estimator != "raw"), None)
    uncorrected = "" if raw is None or raw.value is None else f"raw, not causal: {amount(name, raw.value)}"
    return {"text": _short(corrected.reading) if corrected else "–", "raw": uncorrected}


def _short(reading: str) -> str:
    return reading.replace("at most ", "≤ ")


def _vulnerability(findings: Findings) -> dict[str, Any] | None:
    """Which records leak: the counts of groups, and the records that were to be named."""
    vulnerability = findings.vulnerability
    if not vulnerability:
        return None
    of, sure = vulnerability.of, percent(vulnerability.confidence)
    error = 1 - vulnerability.confidence
    rows = [
        {
            "record": one.record,
            "group": "–" if one.group is None else one.group,
            "member": "yes" if one.member else "no",
            "apart": _with_limits(one, "separation"),
            "found": _with_limits(one, "detected"),
            "p": p_value(one.p_value),
            "leaks": one.p_value <= error,
        }
        for one in vulnerability.named
    ]
    groups = [
        {"group": one.group, "records": f"{one.records:,}", "leaking": _at_least(one)} for one in vulnerability.groups
    ]
    return {
        "text": vulnerability.text,
        "each": of.removesuffix("s"),
        "of": of,
        "fpr": percent(vulnerability.fpr),
        "how": (
            f"Memorised {of} are told apart by {vulnerability.models} shadow models: each {of.removesuffix('s')} was "
            f"in a random part of them, and an exact rank test compares the {vulnerability.signal} of the models that "
            f"learnt it with that of the others. With Holm's correction for looking at all {vulnerability.records:,} "
            f"{of}, no {of.removesuffix('s')} counts as vulnerable by chance, with {sure} confidence; so the count is "
            f"a lower limit. This is about training of this kind, not about the audited model alone."
        ),
        "limits": (
            f"Limits hold for all {vulnerability.records:,} {of} at once, with {sure} confidence, so they are wide; "
            f"the rank test behind p asks only whether learning the {of.removesuffix('s')} changes anything, and "
            f"settles who is marked."
        ),
        "rows": rows,
        "groups": groups,
        "grouped": any(one.group is not None for one in vulnerability.named),
    }


def _at_least(group: VulnerableGroup) -> str:
    share = percent(group.leaking / group.records, "down")
    return f"at least {group.leaking:,} ({share})" if group.leaking else "none seen"


def _with_limits(one: VulnerableRecord, name: str) -> str:
    return rate_with_limits(*(getattr(one, f"{name}{end}") for end in ("", "_low", "_high")))


def _levels(findings: Findings) -> list[dict[str, str]]:
    cuts = [percent(level) for level in findings.plan["levels"]]
    ranges = (f"Below {cuts[0]}", f"{cuts[0]} to {cuts[1]}", f"{cuts[1]} to {cuts[2]}", f"{cuts[2]} and above")
    return [{"name": name, "range": span} for name, span in zip(LEVEL_NAMES, ranges, strict=True)]


def _how_to_read(findings: Findings) -> dict[str, str]:
    rates = [percent(fpr) for fpr in findings.plan["fpr_targets"]]
    return {
        "baseline": rates[0],
        "limit": percent(findings.counts.smallest_fpr, "down"),
        "nonmembers": audit_charts.nonmembers(findings),
        "confidence": percent(findings.plan["confidence"]),
        "prior": percent(findings.plan["prior"]),
    }


def _repeat(findings: Findings) -> list[tuple[str, str]]:
    evidence, repeat = findings.evidence, findings.repeat
    titles = {"seed": "Seed", "python": "Python", "numpy": "NumPy"}
    rows = [("Digest of the evidence", evidence["digest"]), ("Source", evidence["source"] or "not stated")]
    rows += [(titles.get(key, key), str(value)) for key, value in repeat.items() if key != "command"]
    return [*rows, ("Format of findings.json", str(findings.FORMAT))]


def _option(value: Any) -> str:
    if isinstance(value, Mapping):
        kind, rest = value.get("kind", ""), {k: v for k, v in value.items() if k != "kind"}
        inside = ", ".join(f"{key} {_option(item)}" for key, item in rest.items())
        return f"{kind} ({inside})" if inside else str(kind)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(_option(item) for item in value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
