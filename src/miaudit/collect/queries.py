"""Train what is to be trained, and ask every model about every record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array
from miaudit.attacks import registry
from miaudit.collect.campaign import Campaign
from miaudit.collect.memberships import Draws
from miaudit.errors import InputError
from miaudit.jobs import resumable
from miaudit.models import shadow
from miaudit.models.protocol import traits_of
from miaudit.models.shadow import ShadowOutputs

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Asked:
    """What the models say.

    Attributes
    ----------
    outputs : array (n, C) of the audited model; in a multi-run of each record's own model
    shadows : outputs of the shadow models on the same n records; in a multi-run of all runs, with a record's own run as
        the one that is left out for it
    pooled : outputs of shadow models on records of any kind, where they were given
    copies : array (n, k, C) of outputs, or (n, k) of classes: what ``outputs`` are, on changed copies; None without
    shadow_copies : outputs of the shadow models on the n k copies, record by record
    runs : whether this is a multi-run
    notes : what is to be said of the target
    """

    outputs: Float32Array
    shadows: ShadowOutputs | None
    pooled: ShadowOutputs | None = None
    copies: NDArray[Any] | None = None
    shadow_copies: ShadowOutputs | None = None
    runs: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, campaign: Campaign, draws: Draws, progress: Progress | None) -> Asked:
        """Train and ask. Runs the target's code."""
        target, notes = campaign.target, traits_of(campaign.target).notes
        trained = _trained(campaign, draws, progress) if len(draws.included) else None
        given, n = campaign.shadows.given, campaign.records.n
        if not campaign.stands and trained is not None:
            outputs = trained.model(0)
            trained = replace(trained, included=trained.included[1:], sources=trained.sources[1:])
            trained = trained if trained.models else None
        else:
            x = _all_records(campaign) if _asks_copies(campaign) else campaign.records.x
            outputs, said = traits_of(target).explained(x)
            notes = (*notes, *said)
        on_copies = campaign.copies if _gives_copies(campaign) else None
        if _asks_copies(campaign):
            on_copies = np.asarray(outputs[n:]).reshape(n, -1, outputs.shape[1])
        if len(outputs[:n]) != n:
            raise InputError("target", f"outputs of {n} records", str(len(outputs)), "check the files")
        shadows, shadow_copies = (None, None) if trained is None else _parted(trained, n)
        pooled = None
        if given is not None:
            place = given.rows_in(n, campaign.records.y)
            shadows = None if place is None else given.on(place, draws.y)
            pooled = given.outputs if given.labelled else shadows  # with the labels of the data, which it is about
        return cls(outputs[:n], shadows, pooled, on_copies, shadow_copies, notes=notes)

    @classmethod
    def of_runs(cls, campaign: Campaign, draws: Draws, progress: Progress | None) -> Asked:
        """Train one model for each audited record, with or without it, on all other records; ask all of them."""
        trained, a = _trained(campaign, draws, progress), len(draws.rows)
        of_records, of_copies = _parted(trained, a)
        own = np.stack([of_records.model(i)[i] for i in range(a)])
        copies = None
        if of_copies is not None:
            k = of_copies.n // a
            copies = np.stack([of_copies.model(i)[i * k : (i + 1) * k] for i in range(a)])
        others = replace(of_records, included=np.eye(a, dtype=np.bool_))
        return cls(own, others, copies=copies, runs=True, notes=traits_of(campaign.target).notes)


def training(campaign: Campaign, draws: Draws) -> dict[str, Any]:
    """Arguments of :func:`miaudit.models.shadow.train`, and of its estimate, for all models of a campaign."""
    x, y, included, rows = campaign.records.x, draws.y, draws.included, draws.rows
    multiple, n = draws.base.design == "multi-run", campaign.records.n
    keep = rows if multiple else None
    if _asks_copies(campaign):
        x, k = _all_records(campaign), _copies_of(campaign).shape[1]
        y = np.concatenate([y, np.repeat(y, k)])
        included = np.concatenate([included, np.zeros((len(included), n * k), dtype=np.bool_)], axis=1)
        if multiple:
            keep = np.concatenate([rows, (n + rows[:, None] * k + np.arange(k)).ravel()])
    options = campaign.shadows
    return {
        "target": campaign.trainable(),
        "x": x,
        "y": y,
        "included": included,
        "keep": keep,
        "seed": draws.seed,
        "store": options.store,
        "workers": options.workers,
        "at_once": options.at_once,
    }


def _trained(campaign: Campaign, draws: Draws, progress: Progress | None) -> ShadowOutputs:
    told = None if progress is None else partial(_told, progress)
    return shadow.train(**training(campaign, draws), executor=campaign.shadows.executor, progress=told)


def _told(progress: Progress, state: resumable.Progress) -> None:
    progress(state.finished + state.failed, state.total)


def _parted(trained: ShadowOutputs, n: int) -> tuple[ShadowOutputs, ShadowOutputs | None]:
    """Outputs on the first n records, and on what follows them: their copies, if any."""
    if trained.n == n:
        return trained, None
    parts = []
    for part in (slice(None, n), slice(n, None)):
        sources = tuple(trained.model(m)[part] for m in range(trained.models))
        parts.append(
            replace(
                trained,
                included=trained.included[:, part],
                labels=trained.labels[part],
                sources=sources,
                shape=sources[0].shape,
            )
        )
    return parts[0], parts[1]


# -- changed copies of the records -----------------------------------------------------------------------------------


def _gives_copies(campaign: Campaign) -> bool:
    """Whether an attack looks at copies, and there are some."""
    needs = {need for name in campaign.names if name in registry.ATTACKS for need in registry.ATTACKS[name].needs}
    return campaign.copies is not None and bool(needs & {"correct", "shadow_correct", "pooled_correct"})


def _asks_copies(campaign: Campaign) -> bool:
    """Whether models are asked about copies here: outputs that are given hold what was said of them."""
    return not traits_of(campaign.target).by_row and _gives_copies(campaign)


def _copies_of(campaign: Campaign) -> NDArray[Any]:
    """The copies (n, k, ...), checked against the records."""
    x, copies = campaign.records.x, np.asarray(campaign.copies)
    shape = tuple(np.shape(x)[1:]) if isinstance(x, np.ndarray) else None
    if shape is None or copies.shape[:1] != x.shape[:1] or copies.shape[2:] != shape or not copies.size:
        allowed = f"copies of shape ({len(x)}, k{''.join(f', {d}' for d in shape or ('...',))})"
        hint = "k changed copies of every record, in the order of data.path"
        raise InputError("data.copies", allowed, f"shape {copies.shape}", hint)
    return copies


def _all_records(campaign: Campaign) -> NDArray[Any]:
    """The n records, then the k copies of the first, of the second, ..."""
    x, copies = np.asarray(campaign.records.x), _copies_of(campaign)
    return np.concatenate([x, copies.reshape(-1, *x.shape[1:]).astype(x.dtype, copy=False)])
