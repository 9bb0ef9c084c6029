"""The kinds of findings by name, and a findings.json of any kind read into its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from miaudit.errors import InputError
from miaudit.errors.entry_points import Offered
from miaudit.findings.kind import FindingsRecord, parse

__all__ = ["AUDIT", "KINDS", "Kind", "from_dict", "read"]

AUDIT = "audit"


@dataclass(frozen=True)
class Kind:
    """One kind of findings: where its record is defined, and what draws it. Each is imported when it is needed.

    Attributes
    ----------
    record : class of the findings, as ``module.name``; of the built-in kinds without ``miaudit.findings``
    drawing : module of a package of your own with its ``page``, its ``charts``, and ``NAMES`` of all its charts; empty
        for the built-in kinds, which the report knows
    """

    record: str
    drawing: str = ""

    @property
    def findings(self) -> type[FindingsRecord]:
        """The record that its files are read into."""
        module, _, name = self.record.rpartition(".")
        record: type[FindingsRecord] = getattr(
            import_module(module if "." in module else f"{__package__}.{module}"), name
        )
        return record


BUILT_IN = {
    AUDIT: Kind("audit.Findings"),
    "disclosure": Kind("disclosure.DisclosureFindings"),
    "table": Kind("table.TableFindings"),
    "synthesis": Kind("release.SynthesisFindings"),
    "verification": Kind("verification.VerificationFindings"),
    "challenge": Kind("verification.ChallengeFindings"),
    "comparison": Kind("comparison.Comparison"),
    "history": Kind("comparison.History"),
    "extraction": Kind("extraction.ExtractionFindings"),
    "usage": Kind("usage.UsageFindings"),
    "deletion": Kind("usage.DeletionFindings"),
}
KINDS = Offered("miaudit.findings", Kind, BUILT_IN)


def from_dict(content: Mapping[str, Any]) -> FindingsRecord:
    """Make the findings that plain values of a findings.json of any kind describe.

    Raises
    ------
    InputError
        If their ``kind`` is none that this version knows, or they do not follow its schema.
    """
    name = content.get("kind", AUDIT)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        hint = "use the version of miaudit that wrote these findings"
        raise InputError("kind", ", ".join(KINDS), repr(name)[:40], hint)
    return kind.findings.from_dict(content)


def read(path: str | Path) -> FindingsRecord:
    """Read and check a findings.json of any kind, as :meth:`miaudit.findings.kind.FindingsRecord.read`."""
    return from_dict(parse(path))
