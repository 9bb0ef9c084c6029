"""Findings of a release of a synthetic table: frozen, versioned, plain values in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from miaudit.report import findings

FORMAT = 1
KIND = "synthesis"
Status = Literal["proved", "unproved"]


@dataclass(frozen=True)
class Guarantee:
    """What differential privacy the release has.

    Attributes
    ----------
    epsilon, delta : what is claimed
    proved, accountant : the epsilon that the accountant gives at this delta, and which one it is
    mechanism : the training in words
    records : the public, nominal number of records
    noise, clip : of a step: standard deviation over ``clip``, and the norm to which gradients are clipped
    tpr_limits : (FPR, TPR) pairs: at this rate of false positives no attack on any record finds more true ones
    """

    epsilon: float
    delta: float
    proved: float
    accountant: str
    mechanism: str
    records: int
    noise: float
    clip: float
    tpr_limits: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Spent:
    """The ledger after this release: the table's name, releases, their total epsilon at ``delta``, and the budget."""

    table: str
    releases: tuple[str, ...]
    epsilon: float | None
    delta: float | None
    budget: float | None


@dataclass(frozen=True)
class Graph:
    """The causal graph as it is drawn: groups with their columns and generation, and edges between groups."""

    groups: tuple[Mapping[str, Any], ...]
    edges: tuple[tuple[str, str], ...]
    full: bool


@dataclass(frozen=True)
class SynthesisFindings:
    """Everything about a release but its records.

    Attributes
    ----------
    text : the privacy statement, in sentences
    guarantee : None without differential privacy
    spent : the ledger; None without one
    graph : None for a plain generator
    release : file, records and format of the synthetic table
    columns : name and kind of each
    generator : public facts of the network and its training, by name
    fidelity : plain values of a Fidelity; None where it was not asked for
    fidelity_of : "public" or "private": which records the table was compared with; None without
    notes : what must be said with it
    source : what the private table is called
    repeat : version and command; no seed where a seed is a secret
    """

    text: tuple[str, ...]
    guarantee: Guarantee | None
    spent: Spent | None
    graph: Graph | None
    release: Mapping[str, Any]
    columns: tuple[Mapping[str, str], ...]
    generator: Mapping[str, Any]
    fidelity: Mapping[str, Any] | None = None
    fidelity_of: Literal["public", "private"] | None = None
    notes: tuple[str, ...] = ()
    source: str = ""
    repeat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """Say "proved" where differential privacy is claimed and accounted for, else "unproved"."""
        return "unproved" if self.guarantee is None else "proved"

    @property
    def exit_code(self) -> int:
        """0 where a guarantee is proved, 4 where nothing answers what the table gives away."""
        return 4 if self.guarantee is None else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; numbers that are not finite become None."""
        content = {"format": FORMAT, "kind": KIND, "exit_code": self.exit_code, "status": self.status, **asdict(self)}
        plain: dict[str, Any] = findings.plain(content)
        return plain

    def to_json(self) -> str:
        """Return findings.json as text: equal releases give equal bytes."""
        return findings.to_text(self.to_dict())


def check(content: Any) -> dict[str, Any]:
    """Check plain values against the schema of this format version, and return them.

    Raises
    ------
    InputError
        With the place that does not follow the schema.
    """
    return findings.check_against(schema(), content, FORMAT)


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of this kind of findings."""
    text = resources.files("miaudit.report").joinpath("synthesis.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
