"""The token file of a language model that was trained elsewhere on drawn memberships: one of the fits of a draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from miaudit.arrays import BoolArray, IndexArray
from miaudit.collect.asked_tokens import collect_tokens
from miaudit.collect.campaign import Campaign
from miaudit.collect.drawn import Drawn, Manifest, finished, require_same
from miaudit.collect.records import Records
from miaudit.errors import InputError, MiauditError

__all__ = ["TokensGathered", "gather_tokens"]


@dataclass(frozen=True)
class TokensGathered:
    """What was written: texts and members among them, and what is to be said of the file."""

    texts: int
    members: int
    notes: tuple[str, ...]


def gather_tokens(
    campaign: Campaign,
    manifest: Manifest,
    path: str | Path,
    *,
    rng: np.random.Generator,
    run: int = 1,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> TokensGathered:
    """Ask the audited model of a run for the log-probabilities of the audited texts, and write them beside membership.

    Texts that are in every training, or in none, have no coin and are left out.

    Parameters
    ----------
    campaign, manifest, rng : as of :func:`miaudit.collect.drawn.gather`
    path : .jsonl file, as of :func:`miaudit.collect.asked_tokens.collect_tokens`; after a kill it goes on
    run : of several runs which, from 1
    overwrite : whether a file of that name may be replaced
    progress : called with (finished, all) texts

    Raises
    ------
    InputError
        For another draw, one whose fits are no language models, and a run that is none.
    MiauditError
        For a fit that failed, is missing or stale.
    """
    batch = Drawn.of(campaign, rng)
    require_same(batch, manifest)
    language_model, draws = batch.target.asked, batch.draws
    if language_model is None:
        received = f"outputs: {batch.target.given}"
        raise InputError("--out", ".npz, .parquet or .csv, unless outputs: language-model", received, "name another")
    if draws.base.design == "multi-run":
        hint = "draw with design one-run, which audits one model"
        raise InputError("evaluation.design", "one-run, for tokens of the audited model", "multi-run", hint)
    if not 1 <= run <= campaign.runs:
        raise InputError("--run", f"1 to {campaign.runs}, of the runs that were drawn", str(run), "1 is the first")
    number = 0 if run == 1 else len(draws.included) - len(draws.further) + run - 2
    fit = next(one for one in batch.fits if not one.group and one.number == number)
    try:
        target = language_model.saved(finished(batch, fit, manifest.place), reference=True)
    except MiauditError as error:
        raise MiauditError(f"the audited model of run {run} {error}: run its line of commands.txt again") from error
    member = draws.base.member if run == 1 else draws.further[run - 2]
    records = _of(campaign.records, [language_model.texts[row] for row in draws.rows], draws.rows, member)
    notes = collect_tokens(Campaign(target, records), path, overwrite=overwrite, progress=progress)
    if others := campaign.records.n - records.n:
        without = f"{others:,} other texts have no coin, so they are not in the file: no control is like them."
        notes = (without, *notes)
    return TokensGathered(records.n, int(np.count_nonzero(member)), notes)


def _of(records: Records, texts: list[str], rows: IndexArray, member: BoolArray) -> Records:
    """The audited records (a,), with their texts, ids (or row numbers), units and groups."""
    fields = {name: np.asarray(values)[rows] for name, values in records.fields.items() if name in ("unit", "group")}
    return Records(texts, None, member, fields, records.source, ids=rows if records.ids is None else records.ids[rows])
