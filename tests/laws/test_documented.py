"""What is registered by name is documented: a name that a page does not mention is one that nobody finds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from miaudit.attacks.registry import ATTACKS
from miaudit.attacks.signals import BUILT_IN as SIGNALS
from miaudit.collect.canaries import KINDS as CANARIES
from miaudit.config.canaries import OPTIONS as OF_CANARIES
from miaudit.config.canaries import CanarySection
from miaudit.config.target import _BUILT_IN as TARGETS
from miaudit.defences.registry import DEFENCES
from miaudit.dp.mechanism import _KINDS as MECHANISMS
from miaudit.dp.zero_run.bounds import CORRECTIONS
from miaudit.findings.kinds import BUILT_IN as FINDINGS
from miaudit.io.tables import FORMATS
from miaudit.metrics.definition import BUILT_IN as METRICS

DOCS = Path(__file__).parents[2] / "docs"
REGISTERED: dict[str, tuple[Iterable[str], tuple[str, ...]]] = {
    "attacks": (ATTACKS, ("shadow_models", "text")),
    "signals": (SIGNALS, ("shadow_models", "text")),
    "metrics": (METRICS, ("findings",)),
    "canaries": (CANARIES, ("canaries",)),
    "options of canaries": (OF_CANARIES, ("canaries",)),
    "targets": (TARGETS, ("configuration",)),
    "measures": (DEFENCES, ("disclosure",)),
    "mechanisms": (MECHANISMS, ("bounds",)),
    "corrections": (CORRECTIONS, ("configuration",)),
    "kinds of findings": (FINDINGS, ("findings",)),
    "formats": (FORMATS, ("configuration",)),
}


def missing(names: Iterable[str], text: str) -> list[str]:
    """The names that a text does not have as words of their own."""
    return [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


@pytest.mark.parametrize("what", REGISTERED)
def test_its_page_names_everything_that_is_registered(what: str) -> None:
    names, pages = REGISTERED[what]
    built_in = [name for name in names if not name.startswith("example_")]
    assert missing(built_in, "\n".join((DOCS / f"{page}.md").read_text("utf-8") for page in pages)) == []


def test_a_name_inside_another_is_not_documented_by_it() -> None:
    assert missing(["loss", "top-k"], "reference_loss and top-k-like") == ["loss", "top-k"]
    assert missing(["loss", "top-k"], "`loss`, or top-k.") == []


def test_every_option_of_a_kind_of_canary_has_a_key() -> None:
    assert set(OF_CANARIES) <= set(CanarySection.model_fields)
