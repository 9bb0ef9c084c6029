"""What the other party of sealed coins fixes of the audit in its answer, before there is anything to choose by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from miaudit.errors import InputError
from miaudit.errors.checks import is_number, is_whole

__all__ = ["AgreedPlan"]

MOST_SCORES = 1000
_MOST_LIMITS, _LONGEST = 50, 60


@dataclass(frozen=True)
class AgreedPlan:
    """Limits, confidence and number of scores of an audit.

    Attributes
    ----------
    limits : what the audit compares, by name (:class:`miaudit.findings.policy.Policy`); None: the default limits
    confidence : of the audit, in (0.5, 1)
    tries : how many scores may be handed in before the reveal

    Examples
    --------
    >>> AgreedPlan(limits={"auc": 0.6}).plain()
    {'limits': {'auc': 0.6}, 'confidence': 0.95, 'tries': 1}
    """

    limits: Mapping[str, float] | None = None
    confidence: float = 0.95
    tries: int = 1

    def __post_init__(self) -> None:
        if not is_number(self.confidence) or not 0.5 < self.confidence < 1:
            raise InputError("confidence", "a number in (0.5, 1)", repr(self.confidence)[:40], "0.95 is usual")
        if not is_whole(self.tries) or not 1 <= self.tries <= MOST_SCORES:
            allowed = f"a whole number from 1 to {MOST_SCORES:,}"
            raise InputError("tries", allowed, repr(self.tries)[:40], "say how many scores will be handed in")
        if self.limits is None:
            return
        named = isinstance(self.limits, Mapping) and 0 < len(self.limits) <= _MOST_LIMITS
        if not named or not all(
            isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST and is_number(value)
            for name, value in self.limits.items()
        ):
            raise InputError("limits", "numbers by name, or none", repr(self.limits)[:80], "write {'auc': 0.6}")

    def plain(self) -> dict[str, Any]:
        """Return the plain values of the plan."""
        limits = None if self.limits is None else {name: float(value) for name, value in self.limits.items()}
        return {"limits": limits, "confidence": float(self.confidence), "tries": int(self.tries)}

    @classmethod
    def of(cls, content: Any) -> Self:
        """Make it of plain values; refuse missing keys and unknown ones."""
        names = {one.name for one in fields(cls)}
        if not isinstance(content, Mapping) or set(content) != names:
            raise InputError("plan", ", ".join(sorted(names)), repr(content)[:60], "ask for the answer again")
        return cls(**content)
