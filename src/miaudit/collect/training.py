"""What is trained for a campaign: the arguments of every fit, and what the models are asked about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.attacks import registry
from miaudit.collect.campaign import Campaign
from miaudit.collect.draws import Draws
from miaudit.collect.stability import Replacements
from miaudit.errors import InputError
from miaudit.jobs import resumable
from miaudit.jobs.resumable import Part
from miaudit.models import shadow
from miaudit.models.equal_outputs import require_different as require_different_outputs
from miaudit.models.protocol import traits_of
from miaudit.models.shadow import ShadowOutputs

Progress = Callable[[int, int], None]


def training(campaign: Campaign, draws: Draws) -> dict[str, Any]:
    """Arguments of :func:`miaudit.models.shadow.train`, and of its estimate, for all models of a campaign.

    In a multi-run whose attacks look at each record's own model only, a model keeps what it says of its own record, so
    a store grows with the runs and not with their square. One that kept all records is taken up as it is.
    """
    arguments = training_of_all(campaign, draws)
    if draws.base.design != "multi-run" or campaign.compares_models:
        return arguments
    a, places = len(draws.rows), np.arange(len(arguments["keep"]))
    return {**arguments, "own": np.concatenate([places[:a, None], places[a:].reshape(a, -1)], axis=1)}


def training_of_all(campaign: Campaign, draws: Draws) -> dict[str, Any]:
    """The same where every model keeps what it says of all audited records, also in a multi-run."""
    x, y, included, rows = campaign.inputs, draws.y, draws.included, draws.rows
    multiple, n = draws.base.design == "multi-run", campaign.records.n
    keep = rows if multiple else None
    if asks_copies(campaign):
        x, k = all_records(campaign), copies_of(campaign).shape[1]
        y = np.concatenate([y, np.repeat(y, k, axis=0)])
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
        "signal": campaign.kept_signals,
        "seed": draws.seed,
        "store": options.store,
        "executor": options.executor,
        "workers": options.workers,
        "at_once": options.at_once,
        **_times(campaign),
    }


def training_again(campaign: Campaign, draws: Draws, replaced: Replacements) -> dict[str, Any]:
    """The same for models with one record replaced, which have the seed of the audited one and all else of it.

    Where models are trained together, the audited one comes first once more, by itself: last digits would differ.
    """
    swaps = np.stack([replaced.train[replaced.places], replaced.by], axis=1)
    if campaign.shadows.at_once > 1:
        swaps = np.concatenate([np.full((1, 2), replaced.train[0]), swaps])
    included, models = np.repeat(draws.included[:1], len(swaps), axis=0), np.arange(len(swaps))
    for column, learned in ((0, False), (1, True)):
        included[models, swaps[:, column]] = learned
    options = campaign.shadows
    return {
        "target": campaign.trainable(),
        "x": campaign.inputs,
        "y": draws.y,
        "included": included,
        "seed": draws.seed,
        "store": options.store_of("stability"),
        "executor": options.executor,
        "workers": options.workers,
        "swaps": swaps,
    }


def training_apart(campaign: Campaign, draws: Draws) -> dict[str, Any]:
    """The same for models that tell what canaries cost, in a store of their own."""
    options = campaign.shadows
    return {
        "target": campaign.trainable(),
        "x": campaign.inputs,
        "y": draws.y,
        "included": draws.apart,
        "seed": draws.seed + 1,
        "store": options.store_of("without_canaries"),
        "executor": options.executor,
        "workers": options.workers,
        "at_once": options.at_once,
        **_times(campaign),
    }


def _times(campaign: Campaign) -> dict[str, Any]:
    """How often each record stands in a training, where that is not once."""
    return {} if campaign.records.times is None else {"times": campaign.records.times}


def trained_models(campaign: Campaign, draws: Draws, progress: Progress | None) -> ShadowOutputs:
    """Train all models of a campaign, the audited one first, but those whose records are replaced later."""
    more = 0 if draws.replaced is None else len(draws.replaced.places) + (campaign.shadows.at_once > 1)
    more += len(draws.apart)
    trained = train_part(training(campaign, draws), progress, 0, len(draws.included) + more)
    retained = trained.without(campaign.shadows.without)
    require_different(campaign, draws, retained)
    return retained


def require_different(campaign: Campaign, draws: Draws, trained: ShadowOutputs) -> None:
    """Refuse models that learned different records and say the same of all of them.

    The models of a multi-run differ by one record each, and may honestly agree: only all of them together count there.
    """
    if trained.labels.ndim > draws.y.ndim:  # each kept what it says of records of its own
        return
    numbers = np.delete(np.arange(len(draws.included)), np.asarray(campaign.shadows.without, dtype=np.intp))
    names = [f"model {number}" for number in numbers]
    require_different_outputs(map(trained.model, range(trained.models)), draws.included[numbers], names)


def train_part(arguments: dict[str, Any], progress: Progress | None, before: int, total: int) -> ShadowOutputs:
    """Train some of so many models, and report how many of all are trained."""
    report_progress = (
        None if progress is None else lambda state: progress(before + state.finished + state.failed, total)
    )
    return shadow.train(**arguments, progress=report_progress)


def train_one_part(
    campaign: Campaign, part: str, *, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[int, int]:
    """Train one part of all models of a campaign, and leave them in its store; no evidence is made.

    Tasks of a scheduler share a store that way. :func:`miaudit.collect.run_campaign.collect` then reads what is there.

    Parameters
    ----------
    part : "NUMBER/OF", such as "1/10" for the first of ten
    rng : generator as of :func:`miaudit.collect.run_campaign.collect`

    Returns
    -------
    how many models this part has, and how many there are in all

    Raises
    ------
    InputError
        Without a store, and for a campaign that trains nothing.
    JobsFailedError
        If models failed; the others are kept.
    """
    share = Part.of_text(part)
    if campaign.shadows.store is None:
        raise InputError("shadow.store", "a folder or URL beside a part", "none", "tasks leave their models there")
    draws = Draws.of(campaign, rng)
    if not len(draws.included):
        raise InputError("part", "a campaign that trains models", campaign.target.name, "leave --part out")
    groups = [training(campaign, draws)]
    if draws.replaced is not None:
        groups.append(training_again(campaign, draws, draws.replaced))
    if len(draws.apart):
        groups.append(training_apart(campaign, draws))
    total = sum(len(arguments["included"]) for arguments in groups)
    own, before = sum(len(share.numbers(len(arguments["included"]))) for arguments in groups), 0
    for arguments in groups:
        report = None if progress is None else partial(_shifted, progress, before, own)
        before += shadow.train_part(**arguments, part=share, progress=report)
    return own, total


def _shifted(progress: Progress, before: int, total: int, state: resumable.Progress) -> None:
    progress(before + state.finished + state.failed, total)


# -- changed copies of the records -------------------------------------------------------------------------------------


def gives_copies(campaign: Campaign) -> bool:
    """Whether an attack looks at copies, and there are some."""
    needs = {need for name in campaign.names if name in registry.ATTACKS for need in registry.ATTACKS[name].needs}
    return campaign.copies is not None and bool(needs & {"correct", "shadow_correct", "pooled_correct"})


def asks_copies(campaign: Campaign) -> bool:
    """Whether models are asked about copies here: outputs that are given hold what was said of them."""
    return not traits_of(campaign.target).by_row and gives_copies(campaign)


def copies_of(campaign: Campaign) -> NDArray[Any]:
    """The copies (n, k, ...), checked against the records."""
    x, copies = campaign.records.x, np.asarray(campaign.copies)
    shape = tuple(np.shape(x)[1:]) if isinstance(x, np.ndarray) else None
    if shape is None or copies.shape[:1] != x.shape[:1] or copies.shape[2:] != shape or not copies.size:
        allowed = f"copies of shape ({len(x)}, k{''.join(f', {d}' for d in shape or ('...',))})"
        hint = "k changed copies of every record, in the order of data.path"
        raise InputError("data.copies", allowed, f"shape {copies.shape}", hint)
    return copies


def all_records(campaign: Campaign) -> NDArray[Any]:
    """The n records, then the k copies of the first, of the second, ..."""
    x, copies = np.asarray(campaign.records.x), copies_of(campaign)
    return np.concatenate([x, copies.reshape(-1, *x.shape[1:]).astype(x.dtype, copy=False)])
