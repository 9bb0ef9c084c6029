"""``miaudit audit --synthetic S --members M --nonmembers N``: what a synthetic table gives away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from miaudit.command.results import check_free, deliver, repeat
from miaudit.command.terminal import progress
from miaudit.errors import one_line
from miaudit.findings.table import opened_with, proven, worded
from miaudit.metrics.rounding import percent, written

if TYPE_CHECKING:
    from miaudit.config.audit import TableConfig
    from miaudit.findings.table import Attack, PositiveControl, SecretValue, TableFindings


def audit_table(
    settings: TableConfig, base: Path, out: Path | None, seed: int, *, overwrite: bool, json: bool
) -> NoReturn:
    """Audit the synthetic table of a configuration, with paths relative to ``base``, deliver the findings, and exit."""
    import numpy as np

    check_free(out, overwrite=overwrite, figures=settings.figures)
    with progress("attacks", meanwhile="distances, predicates, links, guesses") as advance:
        findings = settings.findings(base, rng=np.random.default_rng(seed), repeat=repeat(seed=seed), progress=advance)
    deliver(findings, lambda: text(findings), out, overwrite=overwrite, json=json, figures=settings.figures)


def text(findings: TableFindings) -> str:
    """The verdict and the attacks as lines of text."""
    counts, control = findings.counts, findings.positive_control
    lead, audited = findings.leading().text, findings.membership
    both = {"Copies and secrets": findings.verdict.text, "Record by record": audited.verdict.text}
    of_units = ""
    if "member_units" in counts:
        of_units = f" (of {counts['member_units']:,} and {counts['control_units']:,} units)"
    lines = [
        lead,
        *map(one_line, audited.verdict.even_so),
        *(f"  {of}: {sentence}" for of, sentence in both.items() if opened_with(sentence, proven(audited)) != lead),
        "",
        f"{counts['synthetic']:,} synthetic records, {counts['members']:,} members, {counts['control']:,} controls"
        + of_units,
        "What decides:",
        *(_line(attack) for attack in findings.attacks if attack.role == "blocking"),
        f"  {'record by record':<28} {worded(audited.verdict.status, audited.design)}",
        "What informs, and never decides:",
        *(_line(attack) for attack in findings.attacks if attack.role == "informing"),
        *(["The secrets by their values (intervals hold for all values of a secret):"] if findings.by_value else []),
        *map(_value_line, findings.by_value),
        f"Positive control: {control.copies:,} copies planted under permuted labels were seen in {control.seen} of "
        f"{control.repetitions} repetitions ({control.needed} are needed).{_changed(findings.near_control)}",
        findings.schema,
        *(f"Note: {one_line(note)}" for note in findings.notes),
    ]
    return "\n".join(lines)


def _changed(control: PositiveControl | None) -> str:
    """The positive control with copies of which one cell was changed."""
    return f" With one cell changed: in {control.seen}." if control is not None else ""


def _value_line(part: SecretValue) -> str:
    """The guesses about records with one value of a secret."""
    rates = " ".join(
        f"{percent(rate.value or 0.0):>7} of {rate.trials:,} {side}"
        for rate, side in ((part.members, "members"), (part.control, "control"))
    )
    limits = f"[{written(part.difference_low, '+.4f', 'down')}, {written(part.difference_high, '+.4f', 'up')}]"
    named = one_line(f"{part.secret} = {part.value}")
    detects = "no excess" if (part.detectable or 1.0) >= 1 else percent(part.detectable or 1.0, "up")
    return f"  {named:<28} {rates}  difference {part.difference:+.4f} {limits}  would detect {detects}"


def _line(attack: Attack) -> str:
    """One attack: its rates, their difference, and what follows from it."""
    if attack.difference is None or attack.members.value is None or attack.control.value is None:
        return f"  {one_line(attack.name):<28} {attack.note}"
    limits = f"[{written(attack.difference_low, '+.4f', 'down')}, {written(attack.difference_high, '+.4f', 'up')}]"
    rates = f"{percent(attack.members.value):>7} members {percent(attack.control.value):>7} control"
    detects = "no excess" if attack.detectable is None or attack.detectable >= 1 else percent(attack.detectable, "up")
    follows = f"would detect {detects}" if attack.status is None else worded(attack.status, attack.status)
    weak = "; no better than a guess" if attack.weak else ""
    return f"  {one_line(attack.name):<28} {rates}  difference {attack.difference:+.4f} {limits}  {follows}{weak}"
