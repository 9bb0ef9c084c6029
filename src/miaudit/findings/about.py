"""What was audited, when and by whom, as its author states it: nothing here was measured or checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from miaudit.arrays import Text

__all__ = ["About"]


@dataclass(frozen=True)
class About:
    """Statements of whoever ran an audit; each may be None.

    Attributes
    ----------
    model, version : what was audited
    owner : who answers for the model
    purpose : what the model is for
    data : what it was trained on, and who stood outside
    by : who ran the audit
    date : of the audit, as YYYY-MM-DD; no clock is read, so that two runs of one file give equal findings

    Examples
    --------
    >>> About(model="triage", version="2.1", date="2026-03-01").line
    'Model triage, version 2.1 · 2026-03-01'
    """

    model: Text | None = None
    version: Text | None = None
    owner: Text | None = None
    purpose: Text | None = None
    data: Text | None = None
    by: Text | None = None
    date: Text | None = None

    @property
    def line(self) -> str:
        """All that was stated, in one line."""
        return " · ".join(self._parts())

    @property
    def subject(self) -> str:
        """The model and its version; empty where neither was stated."""
        parts = (self.model and f"Model {self.model}", self.version and f"version {self.version}")
        return ", ".join(text for text in parts if text)

    def _parts(self) -> Iterator[str]:
        if self.subject:
            yield self.subject
        if self.owner:
            yield f"Owner: {self.owner}"
        if self.purpose:
            yield f"Purpose: {self.purpose}"
        if self.data:
            yield f"Data: {self.data}"
        if self.by:
            yield f"Audited by {self.by}"
        if self.date:
            yield self.date
