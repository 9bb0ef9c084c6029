"""The findings of a release: its privacy statement, the total of the ledger, and notes on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from miaudit.dp.tradeoff import EpsilonDelta
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.release import (
    Graph,
    Group,
    Guarantee,
    Released,
    Spent,
    SynthesisFindings,
    Usefulness,
    rounded_up,
)
from miaudit.synthesis.generators.foreseen import Foreseen
from miaudit.synthesis.generators.generator import Method
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Neighbours, proved
from miaudit.synthesis.generators.ledger import Ledger
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.generators.release_request import Publication
from miaudit.synthesis.generators.settled_release import SettledRelease
from miaudit.synthesis.graph import CausalGraph

ASIDE = "private records that were set aside"
PUBLIC = "public records"
MADE_UP = "made-up records"
_FPR = (0.001, 0.01, 0.1)
_FLOATING = (
    "The guarantee is proved for real numbers and ideal noise. It is drawn by numpy's PCG64 in single precision, "
    "which is neither a cryptographic generator nor proof against attacks on the last bits of floating-point numbers."
)
_WHOLE = (
    "The noise is normal, rounded to whole counts, and drawn by OpenDP with entropy of the operating system: no last "
    "bits of floating-point numbers are released, and the closed form of Gaussian DP holds for whole counts as it is."
)
_CHANGED: dict[Neighbours, str] = {
    "add-or-remove": "had any one record been added to the private table or removed from it",
    "replace-one": "had the values of any one record of the private table been others",
}
_GRAPH = (
    "The causal graph changes neither epsilon nor delta: they follow from the noise and from what is measured, and "
    "nothing else. What it can change is how well attacks do, and what the table is good for."
)
_SEED = (
    "The noise came from the operating system, apart from all random numbers that are published or could be repeated: "
    "no seed gives it again."
)


@dataclass(frozen=True)
class Judgement:
    """Whether a release is any good: its use, its distances from real records, and the notes on both.

    ``useful`` and ``fidelity`` are None where they were not measured.
    """

    useful: Usefulness | None
    fidelity: Fidelity | None
    notes: tuple[str, ...]


def synthesis_findings(
    release: Release,
    publication: Publication,
    ledger: Ledger | None,
    judgement: Judgement,
    *,
    file: str,
    repeat: Mapping[str, Any] | None,
) -> SynthesisFindings:
    """Return the findings of a release.

    Parameters
    ----------
    release : the synthetic table and what is claimed of it
    publication : what the publisher asked for
    ledger : with the release; None where it is not entered
    judgement : of the release
    file : what the synthetic table is called
    repeat : how to repeat the release, for the findings
    """
    guarantee = _guarantee(release)
    spent = None if ledger is None else _spent(ledger, None if guarantee is None else guarantee.delta)
    fidelity = judgement.fidelity
    return SynthesisFindings(
        text=_statement(guarantee, spent, release.neighbours),
        guarantee=guarantee,
        spent=spent,
        graph=None if publication.graph is None else _graph(publication.graph),
        release=Released(file, len(release.table)),
        columns=tuple({"name": column.name, "kind": column.kind} for column in release.schema.columns),
        generator=dict(release.parameters),
        fidelity=fidelity,
        fidelity_of=None if publication.fidelity == "none" or fidelity is None else publication.fidelity,
        useful=judgement.useful,
        neighbours="replace-one" if release.neighbours == "replace-one" else None,
        notes=judgement.notes,
        source=publication.source,
        repeat=dict(repeat or {}),
    )


def stopped_findings(
    settled: SettledRelease, outlook: Foreseen, *, file: str, repeat: Mapping[str, Any] | None
) -> SynthesisFindings:
    """Return the findings of a release that stopped after the first of two stages: the rest would be of no use."""
    publication, plan, privacy = settled.publication, settled.plan, settled.recipe.privacy
    assert plan is not None and privacy is not None  # noqa: S101 - of a release in two stages
    first, second = plan.first_mechanism, plan.second_mechanism
    assert first is not None and second is not None  # noqa: S101
    bound = proved(first, privacy.resolved_delta, privacy.neighbours)
    limits = EpsilonDelta(bound.value, bound.delta)
    ledger = None if publication.ledger is None else publication.ledger.read()
    left = proved(second, privacy.resolved_delta, privacy.neighbours).value
    text = f"Stopped: {outlook.text}; at most {plan.config.most_off:.1%} is accepted."
    advice = (
        "fewer columns, or fewer categories: each count then has less noise",
        "more records, if the nominal number is smaller than it has to be: the noise stays the same",
        f"another label for a changed release: what is left here allows it an epsilon of {left:.2g}",
        "tables: {most_off: 1}, and the same label, to go on all the same: what was counted is not charged again",
    )
    return SynthesisFindings(
        text=(
            f"No table was made. The first of two stages counted single columns, and {plan.first_share:.0%} of the "
            "budget (in squares of mu) was charged for that.",
            f"What was charged is ({rounded_up(bound.value, 3)}, {rounded_up(bound.delta)})-differentially private. "
            f"{1 - plan.first_share:.0%} is left: the decision to stop rests on the noisy counts alone, so it is free.",
        ),
        guarantee=Guarantee(
            epsilon=bound.value,
            delta=bound.delta,
            proved=bound.value,
            accountant=bound.accountant,
            mechanism=str(first),
            records=privacy.records,
            noise=privacy.relative_noise,
            clip=None,
            tpr_limits=tuple((fpr, float(limits.tpr_at_fpr(fpr))) for fpr in _FPR),
        ),
        spent=None if ledger is None else _spent(ledger, bound.delta),
        graph=None if publication.graph is None else _graph(publication.graph),
        release=Released(file, 0),
        columns=tuple({"name": column.name, "kind": column.kind} for column in settled.private.schema.columns),
        generator={"method": "tables", "stages": 2, "rehearsed": outlook.text},
        useful=Usefulness("stopped", text, MADE_UP, outlook.records, outlook.off, (), advice),
        neighbours="replace-one" if privacy.neighbours == "replace-one" else None,
        notes=privacy_notes(publication, "tables"),
        source=publication.source,
        repeat=dict(repeat or {}),
    )


def unjudged(publication: Publication, why: str) -> tuple[Usefulness | None, tuple[str, ...]]:
    """Return why a release was not judged, as its use and as a note; nothing if no judgement was required."""
    if publication.fidelity == "none":
        return None, ()
    note = f"What the table keeps was not measured: {why}. The table is whole, and its guarantee holds."
    if publication.fidelity == "private":  # there is no verdict on its use
        return None, (note,)
    on = ASIDE if publication.fidelity == "held-out" else PUBLIC
    advice = "compare the table with real records yourself: another release would be another entry in the ledger"
    return Usefulness("unjudged", f"Not judged: {why}.", on, 0, 0.0, (), (advice,)), (note,)


def privacy_notes(publication: Publication, method: Method | None) -> tuple[str, ...]:
    """Return the notes on the guarantee of a method; none without a guarantee."""
    if method is None:
        return ()
    graph = () if publication.graph is None else (_GRAPH,)
    people = "The guarantee is for records: a person with several of them is protected less, by the number of records."
    return (_WHOLE if method == "tables" else _FLOATING, _SEED, *graph, people)


def release_notes(settled: SettledRelease, aside: int) -> tuple[str, ...]:
    """Return the notes on a release that was judged by so many private records set aside."""
    publication, recipe = settled.publication, settled.recipe
    notes = list(privacy_notes(publication, None if recipe.privacy is None else recipe.method))
    if isinstance(recipe.config, GeneratorConfig) and recipe.config.patience is not None:
        notes.append("Training stopped by public records; the guarantee pays for all epochs nevertheless.")
    if publication.fidelity == "private":
        notes.append(
            "Fidelity was computed from the private records without noise: this page and its findings are for the "
            "publisher alone. You may publish the synthetic table with the .json and .html files of its name."
        )
    if aside:
        notes.append(
            f"Judged by {aside:,} private records that were set aside, of which the table was not made, and beside the "
            "others, both without noise: this page and its findings are for the publisher alone. You may publish the "
            "synthetic table with the .json and .html files of its name. If you make a release again until the verdict "
            "pleases, each is entered in the ledger."
        )
    return tuple(notes)


def _guarantee(release: Release) -> Guarantee | None:
    claim, bound, facts = release.claim, release.bound, dict(release.parameters)
    if claim is None or bound is None:
        return None
    limits = EpsilonDelta(claim.value, claim.delta)
    return Guarantee(
        epsilon=claim.value,
        delta=claim.delta,
        proved=bound.value,
        accountant=bound.accountant,
        mechanism=str(release.mechanism),
        records=int(facts["records"]),
        noise=float(facts["noise"]),
        clip=float(facts["clip"]) if "clip" in facts else None,
        tpr_limits=tuple((fpr, float(limits.tpr_at_fpr(fpr))) for fpr in _FPR),
    )


def _spent(ledger: Ledger, delta: float | None) -> Spent:
    """Return the total of a ledger, at the delta of its budget or else of its last release."""
    delta = delta if ledger.budget is None else ledger.budget.delta
    total = None if delta is None else ledger.total(delta)
    return Spent(
        table=ledger.table,
        releases=ledger.releases,
        epsilon=None if total is None else total.value,
        delta=delta,
        budget=None if ledger.budget is None else ledger.budget.value,
    )


def _statement(guarantee: Guarantee | None, spent: Spent | None, neighbours: Neighbours) -> tuple[str, ...]:
    if guarantee is None:
        return (
            "No guarantee: this table was made without differential privacy, and nothing limits what it gives away.",
            "Audit it before it is released: miaudit audit --synthetic, and an attack on generators trained again.",
        )
    fpr, tpr = guarantee.tpr_limits[1]
    lines = [
        f"This table is ({rounded_up(guarantee.epsilon, 6)}, {rounded_up(guarantee.delta)})-differentially private: "
        f"{_CHANGED[neighbours]}, no release would have become much more or less likely.",
        f"So if an attack wrongly says of a record that it was used in {100 * fpr:g}% of cases, it rightly says so in "
        f"at most {rounded_up(100 * tpr)}% of cases, whatever else the attacker knows.",
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


def _graph(graph: CausalGraph) -> Graph:
    groups = tuple(
        Group(name, tuple(graph.groups[name]), generation)
        for generation, names in enumerate(graph.generations)
        for name in names
    )
    return Graph(groups, graph.edges, graph.full)
