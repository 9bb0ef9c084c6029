"""From a private table to a release and its findings: made, entered in the ledger, kept; and only then judged.

What can fail before the table is written costs nothing, since nothing of it is shown. What can fail afterwards, such as
the judgement, adds to a table that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from miaudit.dp.mechanism import GaussianNoise
from miaudit.dp.tradeoff import EpsilonDelta
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError, MiauditError, Option, check_options
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
from miaudit.metrics.definition import at_least, at_most
from miaudit.synthesis import fidelity as fidelity_of
from miaudit.synthesis.generators import fitting, rehearsal, usefulness
from miaudit.synthesis.generators import ledger as ledgers
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Neighbours, Privacy
from miaudit.synthesis.generators.private_tables import over
from miaudit.synthesis.generators.recipe import Config, Progress, Recipe
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table

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
_ASIDE = "private records that were set aside"
_MOST_ASIDE = 2_000
_MOST_NUMBERS = 1_000_000_000  # in a release: 8 GB
_NEARLY_NOTHING = GaussianNoise(1e9)
_GRAPH = (
    "The causal graph changes neither epsilon nor delta: they follow from the noise and from what is measured, and "
    "nothing else. What it can change is how well attacks do, and what the table is good for."
)
_SEED = (
    "The noise came from the operating system, apart from all random numbers that are published or could be repeated: "
    "no seed gives it again."
)

Keep = Callable[[Release, Callable[[], None]], None]


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
    method : "tables", "vae", or None: what the config is for, and without one the better of the two in a rehearsal
    config : options of the method; None for the defaults of tables, and for networks what a rehearsal says
    privacy : None promises nothing
    records : how many are released; None is the nominal number, or without privacy the length of the table
    public : records of the same schema that are not private: they serve fidelity and, with a
        patience, decide when training stops
    ledger : where the release is entered; None for nowhere
    fidelity : what the table is compared with: "held-out", private records that are set aside and of which it is not
        made; "public" records; the "private" ones that it is made of, without a verdict; or "none". What private
        records say is for the publisher alone, since no noise covers it
    held_out : the share of the private records that are set aside for that
    source : what the private table is called
    """

    graph: CausalGraph | None
    method: Method | None = None
    config: Config | None = None
    privacy: Privacy | None = None
    records: int | None = None
    public: Table | None = None
    ledger: LedgerPlan | None = None
    fidelity: Literal["held-out", "public", "private", "none"] = "held-out"
    held_out: Annotated[float, Option("Share of the private records set aside.", gt=0, lt=1)] = 0.2
    source: str = ""

    def __post_init__(self) -> None:
        check_options(self)
        if self.fidelity not in ("held-out", "public", "private", "none"):
            allowed = "'held-out', 'public', 'private' or 'none'"
            raise InputError("fidelity", allowed, repr(self.fidelity), "held-out is the default")
        if self.fidelity == "public" and self.public is None:
            raise InputError("fidelity", "public records beside it", "none", "name their file under public")

    def settled(self, table: Table, *, rng: np.random.Generator, progress: Progress | None = None) -> Recipe:
        """Settle how the release is made, by public numbers; without privacy by the length of the table too.

        A ledger that would not take any release is refused first, since a rehearsal takes a while.
        """
        if self.ledger is not None:
            plan, least = self.ledger, None if self.privacy is None else _NEARLY_NOTHING
            related: Neighbours = "add-or-remove" if self.privacy is None else self.privacy.neighbours
            options: dict[str, Any] = {"mechanism": least, "budget": plan.budget, "neighbours": related}
            ledgers.grown(plan.path, table=plan.table, label=plan.label, **options)
        records = len(table) if self.privacy is None else self.privacy.records
        asked: dict[str, Any] = {"method": self.method, "config": self.config, "records": records}
        return fitting.settled(table.schema, self.graph, self.privacy, **asked, rng=rng, progress=progress)


def publish(
    table: Table,
    publication: Publication,
    *,
    rng: np.random.Generator,
    file: str = "synthetic.csv",
    repeat: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> tuple[Release, SynthesisFindings]:
    """Make a generator, draw a release, and say what is claimed and proved of it, and whether it is any good.

    Parameters
    ----------
    table : the private records
    rng : of initial weights, released records, rehearsals and fidelity; without privacy of all the training. The noise
        of a private one never comes from it, see :func:`miaudit.synthesis.fit`
    file : what the synthetic table will be called
    repeat : what the findings say of how to repeat it
    progress : told (finished, all) epochs, or recipes of a rehearsal
    keep : takes the release, and a function that enters it in the ledger; called before anything judges the release.
        It writes the release where nobody takes it for one, enters it, and puts it in its place

    Returns
    -------
    The release and its findings. A judgement that fails is a note of the findings.

    Raises
    ------
    InputError
        As :func:`miaudit.synthesis.fit`, and if the ledger's budget forbids the release: nothing is then trained.
    """
    learn, draw, look, rehearse, split = rng.spawn(5)
    recipe = publication.settled(table, rng=rehearse, progress=progress)
    private, aside = set_aside(table, publication, split)
    advice = _on_epsilon(private, publication, recipe, check(private, publication, recipe))
    records = _released(private, publication, recipe)
    generator = recipe.fit_many(
        [private], publication.graph, rng=learn, public=_watched(publication, recipe), progress=progress
    )[0]
    release = Release.of(generator, records, rng=draw)
    held: list[ledgers.Ledger | None] = []

    def enter() -> None:
        held.append(_entered(private, publication, recipe))

    if keep is None:
        enter()
    else:
        keep(release, enter)
    try:
        useful, fidelity = _judged(release.table, generator, private, aside, publication, look, advice)
        notes = _notes(publication, recipe, len(aside))
    except Exception as error:  # the release is there, whatever a judgement of it meets
        fidelity, (useful, failed) = None, unjudged(publication, _failed(error))
        notes = (*_notes(publication, recipe, 0), *failed)
    return release, _findings(release, publication, held, useful, fidelity, file, notes, repeat)


def resumed(
    release: Release, publication: Publication, *, file: str, repeat: Mapping[str, Any] | None = None
) -> SynthesisFindings:
    """Return the findings of a release that is entered and written, and whose run stopped before it was judged.

    It is not judged any more: which private records were set aside is not written down.
    """
    assert publication.ledger is not None  # noqa: S101 - what is entered has one
    ledger = ledgers.read(publication.ledger.path)
    assert ledger is not None  # noqa: S101 - by the caller
    method: Method = "vae" if dict(release.parameters).get("method") == "vae" else "tables"
    notes = _notes_on_privacy(publication, method if release.claim is not None else None)
    useful, stopped = unjudged(publication, _STOPPED)
    return _findings(release, publication, [ledger], useful, None, file, (*notes, *stopped), repeat)


def _findings(
    release: Release,
    publication: Publication,
    held: Sequence[ledgers.Ledger | None],
    useful: Usefulness | None,
    fidelity: Fidelity | None,
    file: str,
    notes: tuple[str, ...],
    repeat: Mapping[str, Any] | None,
) -> SynthesisFindings:
    guarantee = _guarantee(release)
    ledger = held[0] if held else None
    spent = None if ledger is None else _spent(ledger, None if guarantee is None else guarantee.delta)
    return SynthesisFindings(
        text=_statement(guarantee, spent, release.neighbours),
        guarantee=guarantee,
        spent=spent,
        graph=None if publication.graph is None else _drawn(publication.graph),
        release=Released(file, len(release.table)),
        columns=tuple({"name": column.name, "kind": column.kind} for column in release.schema.columns),
        generator=dict(release.parameters),
        fidelity=fidelity,
        fidelity_of=None if publication.fidelity == "none" or fidelity is None else publication.fidelity,
        useful=useful,
        neighbours="replace-one" if release.neighbours == "replace-one" else None,
        notes=notes,
        source=publication.source,
        repeat=dict(repeat or {}),
    )


_STOPPED = "the run stopped after the table was written"


def unjudged(publication: Publication, why: str) -> tuple[Usefulness | None, tuple[str, ...]]:
    """Say that a release was not judged and why, as its use and in a note; nothing where no judgement was due."""
    if publication.fidelity == "none":
        return None, ()
    note = f"What the table keeps was not measured: {why}. The table is whole, and its guarantee holds."
    if publication.fidelity == "private":  # there is no verdict on its use
        return None, (note,)
    on = _ASIDE if publication.fidelity == "held-out" else "public records"
    advice = "compare the table with real records yourself: another release would be another entry in the ledger"
    return Usefulness("unjudged", f"Not judged: {why}.", on, 0, 0.0, (), (advice,)), (note,)


def _failed(error: Exception) -> str:
    """Say what went wrong in a judgement; only texts of our own, since others may hold values of records."""
    return f"the judgement failed ({error if isinstance(error, MiauditError) else type(error).__name__})"


def trial(table: Table, publication: Publication, recipe: Recipe, *, rng: np.random.Generator) -> str:
    """Try the judgement with records of a made-up law in the place of the release; return why it fails, or nothing.

    Nothing is learned from the private records for that: the verdict on the made-up records is thrown away.
    """
    split, make, look = rng.spawn(3)
    private, aside = set_aside(table, publication, split)
    try:
        world = rehearsal.simulated_world(over(table.schema, publication.graph), make)
        synthetic = world.sample(min(_released(private, publication, recipe), _MOST_ASIDE), rng=make)
        _judged(synthetic, world, private, aside, publication, look, {})
    except Exception as error:  # whatever it is, the run would meet it
        return _failed(error)
    return ""


def check(table: Table, publication: Publication, recipe: Recipe) -> ledgers.Ledger | None:
    """Refuse what :func:`publish` would refuse, before anything is made, entered or written.

    Returns the ledger as it would be after the release; None without one.

    Raises
    ------
    InputError
        As :func:`publish`.
    """
    plan = publication.ledger
    # public numbers first
    mechanism = recipe.mechanism(table.schema, publication.graph, len(table))
    numbers = _released(table, publication, recipe) * len(table.schema)
    if numbers > _MOST_NUMBERS:
        received = f"{numbers:.3g}, {len(table.schema)} for each record"
        hint = "state fewer records: release.records, or privacy.records where that is left out"
        raise InputError("release.records", f"at most {_MOST_NUMBERS:.0e} numbers in the release", received, hint)
    if not len(table):
        raise InputError("table", "records to make a release of", "none", "check that the file is the right one")
    recipe.check(table, publication.graph, public=_watched(publication, recipe))
    _check_real(table, publication)
    if plan is None:
        return None
    related: Neighbours = "add-or-remove" if recipe.privacy is None else recipe.privacy.neighbours
    options: dict[str, Any] = {"mechanism": mechanism, "budget": plan.budget, "neighbours": related}
    return ledgers.grown(plan.path, table=plan.table, label=plan.label, **options)


def _released(table: Table, publication: Publication, recipe: Recipe) -> int:
    return publication.records or (len(table) if recipe.privacy is None else recipe.privacy.records)


def set_aside(table: Table, publication: Publication, rng: np.random.Generator) -> tuple[Table, Table]:
    """Return the records that the release is made of, and those that are set aside to judge it by.

    With privacy each record is set aside by a coin of its own, whose chance is public: were their number fixed by the
    length of the table, one record more could put another one aside, and the release would see two records change.
    """
    if publication.fidelity == "held-out" and publication.privacy is not None:
        chance = min(publication.held_out, _MOST_ASIDE / publication.privacy.records)
        aside = rng.random(len(table)) < chance
        return table.subset(np.flatnonzero(~aside)), table.subset(np.flatnonzero(aside))
    many = 0
    if publication.fidelity == "held-out":
        many = min(round(publication.held_out * len(table)), _MOST_ASIDE)
    order = rng.permutation(len(table))
    return table.subset(np.sort(order[many:])), table.subset(np.sort(order[:many]))


def _watched(publication: Publication, recipe: Recipe) -> Table | None:
    """Return the public records that decide when training stops, if any do."""
    stops = isinstance(recipe.config, GeneratorConfig) and recipe.config.patience is not None
    return publication.public if stops else None


def _entered(table: Table, publication: Publication, recipe: Recipe) -> ledgers.Ledger | None:
    """Enter the release in its ledger before anything of it is shown."""
    plan, privacy = publication.ledger, recipe.privacy
    if plan is None:
        return None
    mechanism = recipe.mechanism(table.schema, publication.graph, len(table))
    related: Neighbours = "add-or-remove" if privacy is None else privacy.neighbours
    options: dict[str, Any] = {"mechanism": mechanism, "budget": plan.budget, "neighbours": related}
    return ledgers.spend(plan.path, table=plan.table, label=plan.label, **options)


def _spent(ledger: ledgers.Ledger, delta: float | None) -> Spent:
    """Say what a ledger holds, at the delta of its budget or else of its last release."""
    delta = delta if ledger.budget is None else ledger.budget.delta
    total = None if delta is None else ledger.total(delta)
    return Spent(
        table=ledger.table,
        releases=tuple(entry.label for entry in ledger.entries),
        epsilon=None if total is None else total.value,
        delta=delta,
        budget=None if ledger.budget is None else ledger.budget.value,
    )


def _check_real(table: Table, publication: Publication) -> None:
    """Refuse too few records for fidelity, and records of another schema."""
    if publication.fidelity not in ("public", "private"):
        return
    real = table if publication.fidelity == "private" else publication.public
    assert real is not None  # noqa: S101 - by its check
    if len(real) < 2:
        raise InputError("fidelity", "at least two real records", f"{len(real)}", "bring more, or set fidelity: none")
    if real.schema != table.schema:
        raise InputError("public", "records under the schema of the table", "another schema", "read it with that")


def _judged(
    synthetic: Table,
    generator: Generator,
    private: Table,
    aside: Table,
    publication: Publication,
    rng: np.random.Generator,
    advice: Mapping[str, str],
) -> tuple[Usefulness | None, Fidelity | None]:
    """Judge the release by records that it was not made of, or only compare it with those that it was."""
    match publication.fidelity:
        case "held-out":
            return usefulness.judged(synthetic, generator, private, aside, on=_ASIDE, rng=rng, **advice)
        case "public":
            assert publication.public is not None  # noqa: S101 - by its check
            real, other = _halves(publication.public, rng)
            return usefulness.judged(synthetic, generator, other, real, on="public records", rng=rng, **advice)
        case "private":
            real, other = _halves(private, rng)
            return None, fidelity_of.fidelity(synthetic, real, other, rng=rng)
    return None, None


def _on_epsilon(
    table: Table, publication: Publication, recipe: Recipe, ledger: ledgers.Ledger | None
) -> dict[str, str]:
    """Say by the ledger whether a release with twice the epsilon may follow; where not, what is honest instead.

    Returns ``larger``, or, where nothing is left for any other release, ``first``.
    """
    asked = recipe.privacy
    if asked is None:
        return {}
    if ledger is None:
        such = "" if asked.epsilon is None else f", such as {2 * asked.epsilon:g}"
        return {"larger": f"a larger epsilon{such}: all releases of this table add up"}
    total, such, then, adds = None, "", "", ""
    if asked.epsilon is not None:
        twice = f"{2 * asked.epsilon:g}"
        total = _with_another(
            table, publication, replace(recipe, privacy=replace(asked, epsilon=2 * asked.epsilon)), ledger
        )
        such = f", such as {twice}"
        if total is not None:
            shown = at_most(total, 3)
            adds, then = f", to a total epsilon of {shown}", f"; with epsilon {twice} the total would be {shown}"
    if ledger.budget is None:
        return {"larger": f"a larger epsilon{such}: all releases of this table add up{adds}"}
    budget, left = ledger.budget.value, ledger.left or 0.0
    if ledger.is_spent:
        none = f"nothing is left of the ledger's budget of {budget:g}, and whatever is changed is another release"
        return {"first": f"{none}: the budget was decided beforehand, and {ledgers.NEW_PROMISE}{then}"}
    room = f"the ledger has {at_least(left, 3)} of {budget:g} left"
    if asked.epsilon is not None and (total is None or total > budget):
        return {"larger": f"a larger epsilon: {room}, too little for twice as much; {ledgers.NEW_PROMISE}{then}"}
    return {"larger": f"a larger epsilon{such}: {room}, and all releases add up{adds}"}


def share(ledger: ledgers.Ledger) -> str:
    """Say which share of the budget the last release of a ledger takes, and what is left for others."""
    budget, left = ledger.budget, ledger.left
    if budget is None or left is None:
        return "The ledger has no budget: nothing limits what all releases of this table give away together."
    before = replace(ledger, entries=ledger.entries[:-1]).left or 0.0
    spends = f"This release spends {at_most(before - left, 3)} of the ledger's budget of {budget.value:g}"
    if ledger.is_spent:
        return f"{spends}: nothing is left for a second. If you may need one, decide on a larger budget now."
    return f"{spends}: {at_least(left, 3)} is left for others."


def _with_another(table: Table, publication: Publication, recipe: Recipe, ledger: ledgers.Ledger) -> float | None:
    """Return the epsilon of all releases of a ledger with one more; None where no noise gives it."""
    assert recipe.privacy is not None  # noqa: S101 - only asked of private ones
    delta = recipe.privacy.resolved_delta if ledger.budget is None else ledger.budget.delta
    try:
        mechanism = recipe.mechanism(table.schema, publication.graph, len(table))
        more = replace(ledger, budget=None).with_entry("", mechanism, neighbours=recipe.privacy.neighbours)
        total = more.total(delta)
    except MiauditError:
        return None
    return None if total is None else total.value


def _halves(table: Table, rng: np.random.Generator) -> tuple[Table, Table]:
    order, half = rng.permutation(len(table)), len(table) // 2
    return table.subset(order[:half]), table.subset(order[half:])


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


def _notes_on_privacy(publication: Publication, method: Method | None) -> tuple[str, ...]:
    """What must be said with a guarantee of a method; nothing without a guarantee."""
    if method is None:
        return ()
    graph = () if publication.graph is None else (_GRAPH,)
    people = "The guarantee is for records: a person with several of them is protected less, by the number of records."
    return (_WHOLE if method == "tables" else _FLOATING, _SEED, *graph, people)


def _notes(publication: Publication, recipe: Recipe, aside: int) -> tuple[str, ...]:
    notes = list(_notes_on_privacy(publication, None if recipe.privacy is None else recipe.method))
    if isinstance(recipe.config, GeneratorConfig) and recipe.config.patience is not None:
        notes.append("Training stopped by public records; the guarantee pays for all epochs nevertheless.")
    if publication.fidelity == "private":
        notes.append(
            "Fidelity was computed from the private records without noise: this page and its findings are for the "
            "publisher alone. The synthetic table and the file beside it may be released, this page may not."
        )
    if aside:
        notes.append(
            f"Judged by {aside:,} private records that were set aside, of which the table was not made, and beside the "
            "others, both without noise: this page and its findings are for the publisher alone. The synthetic table "
            "and the file beside it may be released, this page may not. Whoever makes a release again until the "
            "verdict pleases enters each in the ledger."
        )
    return tuple(notes)


def _drawn(graph: CausalGraph) -> Graph:
    groups = tuple(
        Group(name, tuple(graph.groups[name]), generation)
        for generation, names in enumerate(graph.generations)
        for name in names
    )
    return Graph(groups, graph.edges, graph.full)
