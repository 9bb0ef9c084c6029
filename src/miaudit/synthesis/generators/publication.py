"""A release of a private table, step by step: settle, check, fit, spend, judge.

What can fail before the table is written costs nothing, since nothing of it is shown. What can fail afterwards, such as
the judgement, adds to a table that is there. A release in two stages is fitted and entered in two parts, and may end
after the first (:mod:`miaudit.synthesis.generators.staging`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from miaudit.errors import MiauditError
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.release import SynthesisFindings, Usefulness
from miaudit.synthesis import fidelity as fidelity_of
from miaudit.synthesis.generators import ledger as ledgers
from miaudit.synthesis.generators import rehearsal, staging, usefulness
from miaudit.synthesis.generators.epsilon_advice import epsilon_advice
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.private_tables import over
from miaudit.synthesis.generators.recipe import Progress
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.generators.release_request import LedgerPlan, Publication
from miaudit.synthesis.generators.settled_release import MOST_ASIDE, SettledRelease
from miaudit.synthesis.generators.synthesis_findings import (
    ASIDE,
    PUBLIC,
    Judgement,
    privacy_notes,
    release_notes,
    synthesis_findings,
    unjudged,
)
from miaudit.synthesis.schema import Table

__all__ = ["Keep", "LedgerPlan", "Publication", "publish", "resumed", "trial"]

_STOPPED = "the run stopped after the table was written"

Keep = Callable[[Release, Callable[[], None]], None]


def publish(
    table: Table,
    publication: Publication,
    *,
    rng: np.random.Generator,
    file: str = "synthetic.csv",
    repeat: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> tuple[Release, SynthesisFindings]:
    """Make a generator, draw a release, and report what is claimed and proved of it and whether it is any good.

    Parameters
    ----------
    table : the private records
    publication : everything else about the release
    rng : of initial weights, released records, rehearsals and fidelity; without privacy of all the training. The noise
        of a private release never comes from it, see :func:`miaudit.synthesis.fit`
    file : what the synthetic table will be called
    repeat : how to repeat the release, for the findings
    progress : called with (finished, all) epochs, or recipes of a rehearsal
    keep : takes the release, and a function that enters it in the ledger; called before the release is judged. It
        writes the release to a hidden place, enters it, and then puts it in its place

    Returns
    -------
    The release and its findings. A judgement that fails is a note of the findings.

    Raises
    ------
    InputError
        As :func:`miaudit.synthesis.fit`, and if the ledger's budget forbids the release: nothing is then trained.
    ReleaseStopped
        After the first of two stages, with the findings of that, if the rest would be of no use.
    """
    learn, draw, look, rehearse, split = rng.spawn(5)
    started = staging.Started.of(publication)
    split = started.split(split)
    settled = SettledRelease.of(table, publication, rehearse=rehearse, split=split, progress=progress)
    settled = started.go_on(settled)
    advice = epsilon_advice(settled, settled.check())
    if settled.in_stages:
        settled = started.first(settled)
        settled = started.check_worth(settled, file=file, repeat=repeat)
    generator = settled.fit(rng=learn, progress=progress)
    release = Release.of(generator, settled.records, rng=draw)
    ledger = _spent(settled, release, keep)
    started.end()
    judgement = _judgement(settled, release, generator, advice, look)
    return release, synthesis_findings(release, publication, ledger, judgement, file=file, repeat=repeat)


def resumed(
    release: Release, publication: Publication, *, file: str, repeat: Mapping[str, Any] | None = None
) -> SynthesisFindings:
    """Return the findings of a release that is entered and written, and whose run stopped before it was judged.

    It is not judged any more, since nothing records which private records were set aside.
    """
    assert publication.ledger is not None  # noqa: S101 - what is entered has one
    ledger = ledgers.read(publication.ledger.path)
    assert ledger is not None  # noqa: S101 - by the caller
    method: Method = "vae" if dict(release.parameters).get("method") == "vae" else "tables"
    useful, stopped = unjudged(publication, _STOPPED)
    notes = (*privacy_notes(publication, method if release.claim is not None else None), *stopped)
    return synthesis_findings(release, publication, ledger, Judgement(useful, None, notes), file=file, repeat=repeat)


def trial(settled: SettledRelease, *, rng: np.random.Generator) -> str:
    """Try the judgement with records of a made-up law in place of the release; return why it fails, or nothing.

    Nothing is learned from the private records for that: the verdict on the made-up records is thrown away.
    """
    draw, look = rng.spawn(2)
    try:
        world = rehearsal.simulated_world(over(settled.private.schema, settled.graph), draw)
        synthetic = world.sample(min(settled.records, MOST_ASIDE), rng=draw)
        _measured(settled, synthetic, world, {}, look)
    except Exception as error:  # whatever it is, the run would meet it
        return _failed(error)
    return ""


def _spent(settled: SettledRelease, release: Release, keep: Keep | None) -> ledgers.Ledger | None:
    """Enter a release, by way of the function that keeps it; return the ledger with it, or None without a ledger."""
    if keep is None:
        return settled.spend()
    entered: list[ledgers.Ledger | None] = []
    keep(release, lambda: entered.append(settled.spend()))
    return entered[0] if entered else None


def _judgement(
    settled: SettledRelease,
    release: Release,
    generator: Generator,
    advice: Mapping[str, str],
    rng: np.random.Generator,
) -> Judgement:
    """Judge a release; the release is there, so a judgement that fails becomes a note."""
    try:
        useful, fidelity = _measured(settled, release.table, generator, advice, rng)
        return Judgement(useful, fidelity, release_notes(settled, len(settled.aside)))
    except Exception as error:  # whatever a judgement meets
        useful, failed = unjudged(settled.publication, _failed(error))
        return Judgement(useful, None, (*release_notes(settled, 0), *failed))


def _measured(
    settled: SettledRelease,
    synthetic: Table,
    generator: Generator,
    advice: Mapping[str, str],
    rng: np.random.Generator,
) -> tuple[Usefulness | None, Fidelity | None]:
    """Judge a release by records that it was not made of, or only compare it with the records that it was made of."""
    private, publication = settled.private, settled.publication
    match publication.fidelity:
        case "held-out":
            return usefulness.judged(synthetic, generator, private, settled.aside, on=ASIDE, rng=rng, **advice)
        case "public":
            assert publication.public is not None  # noqa: S101 - by its check
            real, other = _halves(publication.public, rng)
            return usefulness.judged(synthetic, generator, other, real, on=PUBLIC, rng=rng, **advice)
        case "private":
            real, other = _halves(private, rng)
            return None, fidelity_of.fidelity(synthetic, real, other, rng=rng)
    return None, None


def _halves(table: Table, rng: np.random.Generator) -> tuple[Table, Table]:
    order, half = rng.permutation(len(table)), len(table) // 2
    return table.subset(order[:half]), table.subset(order[half:])


def _failed(error: Exception) -> str:
    """Return what went wrong in a judgement; only texts of our own, since others may hold values of records."""
    return f"the judgement failed ({error if isinstance(error, MiauditError) else type(error).__name__})"
