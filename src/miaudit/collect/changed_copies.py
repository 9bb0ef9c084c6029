"""Changed copies of the records, for attacks that see labels alone: whether models are asked, in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.attacks import registry
from miaudit.collect.campaign import Campaign
from miaudit.errors import InputError
from miaudit.models.protocol import traits_of

__all__ = ["asks", "beside_records", "gives", "of_records"]


def gives(campaign: Campaign) -> bool:
    """Whether an attack looks at copies, and there are some."""
    needs = {need for name in campaign.names if name in registry.ATTACKS for need in registry.ATTACKS[name].needs}
    return campaign.copies is not None and bool(needs & {"correct", "shadow_correct", "pooled_correct"})


def asks(campaign: Campaign) -> bool:
    """Whether models are asked about copies here: outputs that are given hold what was said of them."""
    return not traits_of(campaign.target).by_row and gives(campaign)


def of_records(campaign: Campaign) -> NDArray[Any]:
    """The copies (n, k, ...), checked against the records."""
    x, copies = campaign.records.x, np.asarray(campaign.copies)
    shape = tuple(np.shape(x)[1:]) if isinstance(x, np.ndarray) else None
    if shape is None or copies.shape[:1] != x.shape[:1] or copies.shape[2:] != shape or not copies.size:
        allowed = f"copies of shape ({len(x)}, k{''.join(f', {d}' for d in shape or ('...',))})"
        hint = "k changed copies of every record, in the order of data.path"
        raise InputError("data.copies", allowed, f"shape {copies.shape}", hint)
    return copies


def beside_records(campaign: Campaign) -> NDArray[Any]:
    """The n records, then the k copies of the first, of the second, ..."""
    x, copies = np.asarray(campaign.records.x), of_records(campaign)
    return np.concatenate([x, copies.reshape(-1, *x.shape[1:]).astype(x.dtype, copy=False)])
