"""From a private table to a release and its findings: ledger first, then training, sampling, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from miaudit import synthesis
from miaudit.dp.tradeoff import EpsilonDelta
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.release import Graph, Group, Guarantee, Released, Spent, SynthesisFindings, rounded_up
from miaudit.synthesis import fidelity as fidelity_of
from miaudit.synthesis.generators import ledger as ledgers
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table

_FPR = (0.001, 0.01, 0.1)
_FLOATING = (
    "The guarantee is proved for real numbers and ideal noise. It is drawn by numpy's PCG64 in single precision, "
    "which is neither a cryptographic generator nor proof against attacks on the last bits of floating-point numbers."
)
_GRAPH = (
    "The causal graph changes neither epsilon nor delta: they follow from the sampling rate, the noise, the steps and "
    "nothing else. What it can change is how well attacks do, and what the table is good for."
)
_SEED = (
    "The noise came from the operating system, apart from all random numbers that are published or could be repeated: "
    "no seed gives it again."
)


@dataclass(frozen=True)
class LedgerPlan:
    """Where releases of a private table are entered: the file, the table's name, this release's label, the budget."""

    path: Path
    table: str
    label: str
    budget: Claim | None = None


@dataclass(frozen=True, eq=False)
class Publication:
    """Everything about a release but the private table; all of it public.

    Attributes
    ----------
    graph : the causal graph; None for a plain generator
    config, privacy : of the training; a privacy of None promises nothing
    records : how many are released; None is the nominal number, or without privacy the length of the table
    public : records of the same schema that are not private: they serve fidelity and, with a
        patience, decide when training stops
    ledger : where the release is entered; None for nowhere
    fidelity : what the table is compared with: "public" records, the "private" ones, or "none". What the private
        records say is for the publisher alone, since no noise covers it
    source : what the private table is called
    """

    graph: CausalGraph | None
    config: GeneratorConfig = field(default_factory=GeneratorConfig)
    privacy: Privacy | None = None
    records: int | None = None
    public: Table | None = None
    ledger: LedgerPlan | None = None
    fidelity: Literal["none", "public", "private"] = "none"
    source: str = ""

    def __post_init__(self) -> None:
        if self.fidelity not in ("none", "public", "private"):
            raise InputError("fidelity", "'none', 'public' or 'private'", repr(self.fidelity), "none is the default")
        if self.fidelity == "public" and self.public is None:
            raise InputError("fidelity", "public records beside it", "none", "name their file under public")


def publish(
    table: Table,
    publication: Publication,
    *,
    rng: np.random.Generator,
    file: str = "synthetic.csv",
    repeat: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Release, SynthesisFindings]:
    """Train, draw a release, and say what is claimed and proved of it.

    Parameters
    ----------
    table : the private records
    rng : of initial weights, released records and fidelity; without privacy of all the training. The noise of a private
        one never comes from it, see :func:`miaudit.synthesis.fit`
    file : what the synthetic table will be called
    repeat : what the findings say of how to repeat it
    progress : told (finished, all) epochs

    Raises
    ------
    InputError
        As :func:`miaudit.synthesis.fit`, and if the ledger's budget forbids the release: nothing is then trained.
    """
    config, privacy = publication.config, publication.privacy
    check(table, publication)
    entered = _entered(publication)  # after the check, so that nothing is paid for what cannot be made
    public = _watched(publication)
    learn, draw, look = rng.spawn(3)
    generator = synthesis.fit(
        table, publication.graph, privacy, rng=learn, config=config, public=public, progress=progress
    )
    records = publication.records or (len(table) if privacy is None else privacy.records)
    release = Release.of(generator, records, rng=draw)
    fidelity = _fidelity(release.table, table, publication, look)
    guarantee = None if privacy is None else _guarantee(release, privacy)
    findings = SynthesisFindings(
        text=_statement(guarantee, entered),
        guarantee=guarantee,
        spent=entered,
        graph=None if publication.graph is None else _drawn(publication.graph),
        release=Released(file, records),
        columns=tuple({"name": column.name, "kind": column.kind} for column in table.schema.columns),
        generator=dict(release.parameters),
        fidelity=fidelity,
        fidelity_of=None if publication.fidelity == "none" else publication.fidelity,
        notes=_notes(publication),
        source=publication.source,
        repeat=dict(repeat or {}),
    )
    return release, findings


def check(table: Table, publication: Publication) -> None:
    """Refuse what :func:`publish` would refuse, before anything is trained, entered or written.

    Raises
    ------
    InputError
        As :func:`publish`.
    """
    config, privacy, plan = publication.config, publication.privacy, publication.ledger
    mechanism = None if privacy is None else privacy.mechanism(config)  # public numbers first
    synthesis.check_fit(table, publication.graph, privacy, config=config, public=_watched(publication))
    _real(table, publication)
    if plan is not None:
        ledgers.grown(plan.path, table=plan.table, label=plan.label, mechanism=mechanism, budget=plan.budget)


def _watched(publication: Publication) -> Table | None:
    """Return the public records that decide when training stops, if any do."""
    return None if publication.config.patience is None else publication.public


def _entered(publication: Publication) -> Spent | None:
    """Enter the release in its ledger before the training looks at the table."""
    plan, privacy = publication.ledger, publication.privacy
    if plan is None:
        return None
    mechanism = None if privacy is None else privacy.mechanism(publication.config)
    ledger = ledgers.spend(plan.path, table=plan.table, label=plan.label, mechanism=mechanism, budget=plan.budget)
    delta = ledger.budget.delta if ledger.budget is not None else None if privacy is None else privacy.resolved_delta
    total = None if delta is None else ledger.total(delta)
    return Spent(
        table=ledger.table,
        releases=tuple(entry.label for entry in ledger.entries),
        epsilon=None if total is None else total.value,
        delta=delta,
        budget=None if ledger.budget is None else ledger.budget.value,
    )


def _real(table: Table, publication: Publication) -> Table | None:
    """Return the records that fidelity is about; refuse too few of them, and records of another schema."""
    real = {"none": None, "private": table, "public": publication.public}[publication.fidelity]
    if real is not None and len(real) < 2:
        raise InputError("fidelity", "at least two real records", f"{len(real)}", "bring more, or set fidelity: none")
    if real is not None and real.schema != table.schema:
        raise InputError("public", "records under the schema of the table", "another schema", "read it with that")
    return real


def _fidelity(synthetic: Table, table: Table, publication: Publication, rng: np.random.Generator) -> Fidelity | None:
    """Compare with one half of the real records, and that half with the other for what real samples differ by."""
    real = _real(table, publication)
    if real is None:
        return None
    order = rng.permutation(len(real))
    half = len(real) // 2
    return fidelity_of.fidelity(synthetic, real.subset(order[:half]), real.subset(order[half:]), rng=rng)


def _guarantee(release: Release, privacy: Privacy) -> Guarantee:
    claim, bound, facts = release.claim, release.bound, dict(release.parameters)
    assert claim is not None and bound is not None  # noqa: S101 - the training had privacy
    limits = EpsilonDelta(claim.value, claim.delta)
    return Guarantee(
        epsilon=claim.value,
        delta=claim.delta,
        proved=bound.value,
        accountant=bound.accountant,
        mechanism=str(release.mechanism),
        records=privacy.records,
        noise=float(facts["noise"]),
        clip=privacy.clip,
        tpr_limits=tuple((fpr, float(limits.tpr_at_fpr(fpr))) for fpr in _FPR),
    )


def _statement(guarantee: Guarantee | None, spent: Spent | None) -> tuple[str, ...]:
    if guarantee is None:
        return (
            "No guarantee: this table was made without differential privacy, and nothing limits what it gives away.",
            "Audit it before it is released: miaudit audit --synthetic, and an attack on generators trained again.",
        )
    fpr, tpr = guarantee.tpr_limits[1]
    lines = [
        f"This table is ({rounded_up(guarantee.epsilon, 6)}, {rounded_up(guarantee.delta)})-differentially private: "
        "had any one record been added to the private table or removed from it, no release would have become much more "
        "or less likely.",
        f"So an attack on any one record that would claim it wrongly {100 * fpr:g}% of the time claims it rightly at "
        f"most {rounded_up(100 * tpr)}% of the time, whoever makes it and whatever else they know.",
    ]
    if spent is None:
        return tuple(lines)
    if spent.epsilon is not None and spent.delta is not None and len(spent.releases) > 1:
        lines.append(
            f"It is one of {len(spent.releases)} releases of {spent.table}, which together are "
            f"({rounded_up(spent.epsilon)}, {rounded_up(spent.delta)})-differentially private."
        )
    elif spent.epsilon is None:
        lines.append(
            f"It is one of {len(spent.releases)} releases of {spent.table}, at least one of which was made without "
            "differential privacy: nothing limits what all of them together give away."
        )
    return tuple(lines)


def _notes(publication: Publication) -> tuple[str, ...]:
    notes = []
    if publication.privacy is not None:
        notes += [_FLOATING, _SEED]
        if publication.graph is not None:
            notes.append(_GRAPH)
        notes.append(
            "The guarantee is for records: a person with several of them is protected less, by the number of records."
        )
    if publication.config.patience is not None:
        notes.append("Training stopped by public records; the guarantee pays for all epochs nevertheless.")
    if publication.fidelity == "private":
        notes.append(
            "Fidelity was computed from the private records without noise: this page and its findings are for the "
            "publisher alone. The synthetic table and the file beside it may be released, this page may not."
        )
    return tuple(notes)


def _drawn(graph: CausalGraph) -> Graph:
    groups = tuple(
        Group(name, tuple(graph.groups[name]), generation)
        for generation, names in enumerate(graph.generations)
        for name in names
    )
    return Graph(groups, graph.edges, graph.full)
