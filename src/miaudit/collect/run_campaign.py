"""Draw, train, ask, score: from a campaign to evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from miaudit.auditing import vulnerable_records
from miaudit.auditing.plan import Declared, Headline
from miaudit.collect.answers import Answers, Progress, squared_error, training
from miaudit.collect.campaign import Campaign
from miaudit.collect.memberships import Draws
from miaudit.collect.outputs import GAUSSIAN_LIRA, Attack, Collected, from_outputs, of_outputs
from miaudit.findings.audit import Vulnerability
from miaudit.models import shadow


def collect(campaign: Campaign, *, rng: np.random.Generator, progress: Progress | None = None) -> Collected:
    """Draw what is to be drawn, train what is to be trained, and score the records. Runs the target's code.

    Parameters
    ----------
    rng : generator of memberships, seeds and attacks; equal generators give equal evidence
    progress : function of models that are done and of their number, optional

    Raises
    ------
    InputError
        For records, designs and attacks that do not go together: before anything is trained.
    JobsFailedError
        If models failed; the others are kept where there is a store.
    """
    return _scored(Answers.of(campaign, Draws.of(campaign, rng), progress))


def cost(campaign: Campaign, *, rng: np.random.Generator) -> shadow.Cost | None:
    """Say beforehand what :func:`collect` with an equal generator will train; None where nothing is trained.

    Without a stated rate one model is trained for the time; nothing is written.
    """
    draws = Draws.of(campaign, rng)
    if not len(draws.included):
        return None
    rate, columns = campaign.shadows.seconds_per_fit, len(campaign.score_columns()) or None
    return shadow.estimate(**training(campaign, draws), seconds_per_fit=rate, columns=columns)


def _scored(answers: Answers) -> Collected:
    """Carry out the attacks; a single one is the score of the audit, with the loss beside it."""
    campaign, draws, columns = answers.campaign, answers.draws, answers.columns
    names = campaign.names or columns
    own = set(columns) or set(of_outputs())
    by_outputs = [name for name in names if name in own]
    beyond = [name for name in names if name not in own]
    plain = by_outputs or [columns[0] if columns else "loss"]
    direct = _by_outputs(answers, plain)
    scores = dict(direct.evidence.scores)
    if beyond:
        made = {name: answers.score(name) for name in beyond}
        scores = {**{name: made[name] for name in beyond}, **scores}
    ordered = {name: scores[name] for name in (*names, *scores) if name in scores}
    headline: Headline | None = Declared(names[0]) if len(names) == 1 else None
    if names == (GAUSSIAN_LIRA,):
        headline = direct.headline  # the loss itself, where the two order records alike
    notes = [*answers.said, *direct.notes, *answers.notes(beyond)]
    if campaign.user_code:
        notes.append(f"Code that came with the model was run: {campaign.user_code}.")
    if len(draws.population):
        notes.append(f"{len(draws.population):,} records were set aside as the population; no model learned them.")
    leaks = _vulnerability(answers)
    if isinstance(leaks, str):
        notes.append(leaks)
        leaks = None
    return Collected(draws.base.replace(score=ordered), tuple(notes), headline, leaks)


def _by_outputs(answers: Answers, names: list[str]) -> Collected:
    """Scores that the audited model's outputs give by themselves."""
    campaign, draws = answers.campaign, answers.draws
    outputs, y = np.asarray(answers.outputs)[draws.rows], draws.y[draws.rows]
    if answers.columns:
        scores = {name: outputs[:, answers.columns.index(name)].astype(np.float64) for name in names}
        return Collected(draws.base.replace(score=scores))
    attack = Attack(tuple(names), campaign.gaussian)
    options: dict[str, Any] = {"member": draws.base.member, "unit": draws.base.unit}
    if campaign.target.kind == "predictions":
        return from_outputs(losses=squared_error(outputs, y), attack=attack, rng=draws.rng, **options)
    return from_outputs(logits=outputs, labels=y, attack=attack, rng=draws.rng, **options)


def _vulnerability(answers: Answers) -> Vulnerability | str | None:
    """Which records leak, or why that cannot be said; None where nobody asks."""
    draws, options, shadows = answers.draws, answers.campaign.shadows, answers.shadows
    if options.vulnerability is False or shadows is None or answers.runs:
        return None
    if options.given is not None and not options.vulnerability:  # nobody here drew what those models learned
        return None
    n = draws.base.n_units
    if shadows.models < vulnerable_records.fewest(n):
        return vulnerable_records.too_few(n, shadows.models)
    signal, values = answers.signal
    return vulnerable_records.measure(
        values(),
        shadows.included[:, draws.rows],
        draws.base,
        draws.rows,
        signal=signal,
        names=bool(options.vulnerability),
        rng=draws.rng.spawn(1)[0],  # the attacks' own numbers stay what they are
    )
