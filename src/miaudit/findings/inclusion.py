"""Stated chances of inclusion in findings: whether memberships fit them, and how many records thinning leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from miaudit.arrays import Count, Inside, NotNegative, Positive, Text
from miaudit.findings.kind import Pattern

__all__ = ["Inclusion"]


@dataclass(frozen=True)
class Inclusion:
    """What the chances of inclusion say of an audit; of units, where records share them.

    Attributes
    ----------
    lowest, highest : chance of inclusion
    of : "records" or "units"
    records : how many of these chance decided about
    members : how many are members; a unit on both sides counts by its share
    expected_members : sum of the chances
    fewest, most : members that the chances allow, but for less than one audit in 1,000
    remaining : that are left after thinning to fair coins, on which bounds rest
    expected_remaining : sum of twice the smaller of chance and its complement
    thinned_metrics : whether metrics use the remaining records only, as chances differ
    text : the same in words
    """

    lowest: Inside
    highest: Inside
    of: Annotated[str, Pattern("^(records|units)$")]
    records: Positive
    members: NotNegative
    expected_members: NotNegative
    fewest: Count
    most: Count
    remaining: Count
    expected_remaining: NotNegative
    thinned_metrics: bool
    text: Text
