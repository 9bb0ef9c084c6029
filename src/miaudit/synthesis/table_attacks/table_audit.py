"""Audit of a synthetic table without retraining: leakage about members, beyond that about controls.

Every attack is made on the members and on control records that the table was not made from. Differences in success are
the leak; the scores of the attacks are evidence for the record-wise audit, with its design, covariates and refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.auditing import pipeline
from miaudit.auditing.plan import Plan
from miaudit.causal.duplicates import Repeats
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings import table as table_findings
from miaudit.findings.audit import Findings
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.table import PositiveControl, TableFindings, TableVerdict
from miaudit.metrics.units import Units
from miaudit.synthesis import fidelity as fidelity_of
from miaudit.synthesis.encoding import Features
from miaudit.synthesis.schema import Table, check_alike
from miaudit.synthesis.table_attacks import (
    both_sides,
    inference,
    linkability,
    planted_control,
    secret_values,
    singling_out,
    table_verdict,
)
from miaudit.synthesis.table_attacks.closest_record import Metric
from miaudit.synthesis.table_attacks.copies import CLOSEST, SUREST, TESTS, CopyTests
from miaudit.synthesis.table_attacks.keys import WithoutKeys
from miaudit.synthesis.table_attacks.pool_scores import ADOPTION_AND_CLOSENESS, PoolScores
from miaudit.synthesis.table_attacks.success_rates import Comparison
from miaudit.synthesis.table_attacks.table_notes import attack_notes, key_notes, unit_notes
from miaudit.synthesis.table_attacks.table_plan import TablePlan, of_scores
from miaudit.synthesis.table_attacks.top_records import compare_top

__all__ = ["TableAttacks", "TablePlan", "attack", "audit_table"]

CANNOT_SEE = (
    "Distances see copies and near copies. A table in which no record lies near a member can still give one away, by a "
    "frequency or a correlation that moved because it was there: miaudit.synthesis.membership_attack, which trains "
    "generators again, looks for that.",
    "Success on control records is knowledge of the population. It can harm people who are in neither table, and is "
    "not counted here.",
    "A stronger attack may find what these did not: no audit shows that a table is private, only a proof does.",
)
_TURN = "control records that lie nearer to the table than its members are hardly drawn from the same population"
_MODES: tuple[singling_out.Mode, ...] = ("univariate", "multivariate")


@dataclass(frozen=True, eq=False)
class TableAttacks:
    """Results of the attacks on a table.

    Attributes
    ----------
    evidence : scores ``adoption_and_closeness``, ``distance``, ``singling_out``, ``linkability`` and ``inference`` of
        the attacked records
    comparisons : one for each attack, each with an interval of its own
    by_value : success of the inference of each secret of the plan, by the value of the secret
    control, near_control : whether copies of one per cent of the members would be seen, and copies with a changed cell
    enough : members of which they would be seen; None where no number would do
    metric : the distance
    attacked : rows of the members and of the control records that were attacked
    units : of the members and then the control records, where several are of one unit; else None
    repeats : where equal records fall, of one record of each unit; None where these are of one class
    tables : the three tables without their keys
    """

    evidence: Evidence
    comparisons: tuple[Comparison, ...]
    by_value: tuple[secret_values.OfValue, ...]
    control: PositiveControl
    near_control: PositiveControl
    enough: int | None
    metric: Metric
    attacked: tuple[IntArray, IntArray]
    units: Units | None
    repeats: Repeats | None
    tables: WithoutKeys


def attack(
    synthetic: Table,
    members: Table,
    control: Table,
    *,
    plan: TablePlan | None = None,
    design: str | None = None,
    units: tuple[ArrayLike, ArrayLike] | None = None,
    source: str = "",
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> TableAttacks:
    """Run every attack that needs the table alone, on members and on control records.

    Parameters
    ----------
    synthetic : Table that was released
    members : Table of records that it was made from
    control : Table of records of the same population that it was not made from
    plan : TablePlan
    design : how membership came about, as in :class:`miaudit.Evidence`; "one-run" if members and control records are a
        random split of one pool, None if that is unknown. For "zero-run" the records themselves become covariates
    units : labels (n1,) of the members' units and (n0,) of the control records', where a person, account or household
        holds several records. Intervals then count units; equal labels are one unit, on both sides too
    rng : draws records, predicates and parts, and breaks ties
    progress : function of the attacks done and their number, optional

    Raises
    ------
    InputError
        For tables with different schemas, without rows or with fewer than two columns, or another number of labels.
    """
    check_alike(synthetic=synthetic, members=members, control=control)
    if len(synthetic.schema) < 2:
        raise InputError("schema", "two columns or more", "one", "give the table all of its columns")
    grouped = _grouped(units, members, control)
    case_rng, *streams, control_rng, pool_rng = rng.spawn(7)
    plan = plan or TablePlan()
    plan.check_names(synthetic.schema.names)
    tables = WithoutKeys.of(synthetic, members, control, plan.named)
    case = _Case.of(tables, plan, grouped, case_rng)
    copies = _CopyResults.of(tables, plan, case, control_rng)
    scores = PoolScores.of(tables.synthetic, case.pool, case.attacked_code, rng=pool_rng)
    results = _Results.of(tables, plan, case, streams, progress or (lambda *_: None))
    return TableAttacks(
        evidence=Evidence(
            score={ADOPTION_AND_CLOSENESS: scores.together, **results.scores(case, len(members))},
            member=case.member,
            design=design,
            unit=case.attacked_code,
            source=source,
            **_covariates(design, case.inside, case.outside),
        ),
        comparisons=(*copies.comparisons, *case.lists(scores, plan.confidence), *results.comparisons),
        by_value=case.by_value(results.inferred, tables.synthetic, plan),
        control=copies.planted,
        near_control=copies.changed,
        enough=copies.enough,
        metric=case.metric,
        attacked=case.rows,
        units=case.units,
        repeats=both_sides.repeats(tables.members, tables.control, grouped),
        tables=tables,
    )


def audit_table(
    synthetic: Table,
    members: Table,
    control: Table,
    *,
    plan: TablePlan | None = None,
    evidence_plan: Plan | None = None,
    design: str | None = None,
    units: tuple[ArrayLike, ArrayLike] | None = None,
    schema: str = "The schema was given.",
    source: str = "",
    rng: np.random.Generator,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TableFindings:
    """Attack a table, audit the evidence and judge both.

    Parameters
    ----------
    synthetic, members, control, plan, design, units, source, rng, progress : as in :func:`attack`
    evidence_plan : Plan of the record-wise audit; its confidence is that of ``plan`` unless one is given
    schema : where the schema came from, as a sentence for the report
    notes, repeat : as in :func:`miaudit.audit`

    Returns
    -------
    TableFindings
        ``membership`` in it holds the findings of the record-wise audit.

    Notes
    -----
    Where equal records are on one side far beyond chance, and no unit holds them together
    (:meth:`miaudit.causal.duplicates.Repeats.forbids`), no interval is valid: the verdict is "refused" (exit code 4).

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> rng = np.random.default_rng(0)
    >>> schema = Schema(tuple(Column(name, "continuous", low=-9, high=9) for name in "abc"))
    >>> draw = lambda n: Table(schema, rng.normal(size=(n, 3)))
    >>> members, control = draw(500), draw(500)
    >>> leaky = Table(schema, np.r_[draw(400).values, members.values[:100]])  # a fifth are copies
    >>> findings = audit_table(leaky, members, control, design="one-run", rng=rng)
    >>> findings.verdict.status, findings.attacks[0].name, findings.attacks[0].members.right
    ('flagged', 'copies', 100)
    """
    plan = plan or TablePlan()
    attack_rng, audit_rng, compare_rng, design_rng = rng.spawn(4)
    attacked = attack(
        synthetic,
        members,
        control,
        plan=plan,
        design=design,
        units=units,
        source=source,
        rng=attack_rng,
        progress=progress,
    )
    tables = attacked.tables
    answer = _Answer.of(
        attacked,
        plan,
        evidence_plan,
        design,
        units,
        repeat,
        audit_rng=audit_rng,
        design_rng=design_rng,
    )
    return TableFindings(
        verdict=answer.verdict,
        attacks=answer.attacks,
        by_value=tuple(one.shown() for one in attacked.by_value),
        positive_control=attacked.control,
        near_control=attacked.near_control,
        membership=answer.membership,
        counts=_counts(synthetic, members, control, attacked),
        columns=tuple({"name": column.name, "kind": column.kind} for column in tables.synthetic.schema.columns),
        schema=schema,
        fidelity=_fidelity(tables, compare_rng) if plan.fidelity else None,
        cannot_see=CANNOT_SEE,
        notes=(*notes, *answer.notes),
        plan=asdict(plan),
        source=source,
        repeat=dict(repeat or {}),
    )


@dataclass(frozen=True, eq=False)
class _Answer:
    """The answer of an audit: the record-wise findings, every attack against its limit, the verdict on both, notes."""

    membership: Findings
    attacks: tuple[table_findings.Attack, ...]
    verdict: TableVerdict
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        attacked: TableAttacks,
        plan: TablePlan,
        evidence_plan: Plan | None,
        design: str | None,
        units: tuple[ArrayLike, ArrayLike] | None,
        repeat: Mapping[str, Any] | None,
        *,
        audit_rng: np.random.Generator,
        design_rng: np.random.Generator,
    ) -> _Answer:
        """Judge the attacks, and withhold the answer where members and control records allow none."""
        equal, members, control = attacked.repeats, attacked.tables.members, attacked.tables.control
        refuted = both_sides.contradicted(members, control, equal, design, units, plan.confidence, rng=design_rng)
        evidence_plan = of_scores(evidence_plan, plan.confidence)
        if refuted:
            evidence_plan = replace(evidence_plan, bounds=None)
        audited = pipeline.examine(attacked.evidence, plan=evidence_plan, rng=audit_rng, repeat=repeat, turn=_TURN)[0]
        audited = both_sides.withheld(audited, refuted) if refuted else audited
        attacks, verdict = _judged(attacked, plan, design, refuted, (len(members), len(control)))
        notes = [
            *key_notes(attacked.tables.keys, attacked.tables.shared, len(members) + len(control)),
            *unit_notes(attacked.units),
            *attack_notes(attacks, attacked.attacked, members, control),
        ]
        if equal is not None and equal.beyond_chance and not refuted:
            notes = [equal.text(declared=units is not None), *notes]
        return cls(audited, attacks, table_verdict.with_membership(verdict, audited), tuple(notes))


def _judged(
    attacked: TableAttacks, plan: TablePlan, design: str | None, refuted: str, available: tuple[int, int]
) -> tuple[tuple[table_findings.Attack, ...], TableVerdict]:
    """Return every attack with its limit, and the verdict on the attacks that decide."""
    limits: dict[str, Any] = {"threshold": plan.threshold, "confidence": plan.confidence}
    named = plan.secrets or ()
    attacks = table_verdict.rows(attacked.comparisons, named, copies=plan.copies, refuted=bool(refuted), **limits)
    sizes: dict[str, Any] = {"enough": attacked.enough, "available": available}
    sizes["near"] = attacked.near_control
    verdict = table_verdict.judge(attacks, attacked.control, copies=plan.copies, **sizes, **limits)
    return attacks, table_verdict.without_answer(verdict, design, refuted)


# -- the attacks on one table -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Case:
    """The rows of members and control records that are attacked by distances, and how.

    ``guessed`` are the columns that inference guesses, the plan's secrets and others. ``units`` are those of all
    members and control records, ``attacked_units`` of those attacked by way of distances.
    """

    rows: tuple[IntArray, IntArray]
    inside: Table
    outside: Table
    guessed: tuple[str, ...]
    metric: Metric
    units: Units | None
    attacked_units: Units | None

    @classmethod
    def of(cls, tables: WithoutKeys, plan: TablePlan, units: Units | None, rng: np.random.Generator) -> _Case:
        members, control = tables.members, tables.control
        rows = _rows(len(members), plan.records, rng), _rows(len(control), plan.records, rng)
        names = members.schema.names
        secrets = plan.secrets or ()
        others = [name for name in names if name not in secrets]
        more = _rows(len(others), max(inference.MOST_SECRETS - len(secrets), 0), rng)
        guessed = (*secrets, *(others[j] for j in more))
        inside, outside = members.subset(rows[0]), control.subset(rows[1])
        several = units if units is not None and units.repeat else None
        attacked = None if several is None else several.take(np.r_[rows[0], len(members) + rows[1]])
        metric = Metric.of(control)
        return cls(rows, inside, outside, guessed, metric, several, attacked)

    @property
    def member(self) -> BoolArray:
        """Which of the attacked records, members first, are members."""
        return np.arange(len(self.inside) + len(self.outside)) < len(self.inside)

    @property
    def pool(self) -> Table:
        """The attacked members and then the attacked control records."""
        return Table(self.inside.schema, np.concatenate([self.inside.values, self.outside.values]))

    @property
    def attacked_code(self) -> IntArray | None:
        """The units (n,) of the attacked records, where several are of one."""
        return None if self.attacked_units is None else self.attacked_units.code

    def by_value(
        self, inferred: inference.Inference, synthetic: Table, plan: TablePlan
    ) -> tuple[secret_values.OfValue, ...]:
        """Compare the guesses of each secret of the plan by the value of the secret."""
        options: dict[str, Any] = {"confidence": plan.confidence, "units": self.attacked_units}
        return secret_values.by_value(inferred, synthetic, self.pool, len(self.inside), plan.secrets or (), **options)

    def lists(self, scores: PoolScores, confidence: float) -> tuple[Comparison, ...]:
        """Compare members with control records on the lists of the highest scores."""
        of = (CLOSEST, scores.closeness, "by closeness"), (SUREST, scores.together, "by adoption and closeness")
        options: dict[str, Any] = {"confidence": confidence, "units": self.attacked_units}
        return tuple(compare_top(name, score, len(self.inside), note=note, **options) for name, score, note in of)


@dataclass(frozen=True, eq=False)
class _CopyResults:
    """Exact and near copies, whether planted ones would be seen, and the members of which they would be."""

    comparisons: tuple[Comparison, ...]
    planted: PositiveControl
    changed: PositiveControl
    enough: int | None

    @classmethod
    def of(cls, tables: WithoutKeys, plan: TablePlan, case: _Case, rng: np.random.Generator) -> _CopyResults:
        """Compare copies; the positive controls are compared at the level at which they would raise concern."""
        copies = CopyTests.of(tables, case.units)
        concern = table_verdict.corrected(plan.confidence, TESTS * (1 + len(plan.secrets or ())))
        planted, changed = copies.controls(concern, case.units, rng=rng)
        enough = planted_control.enough_members(planted, len(tables.members), len(tables.control), concern)
        return cls(copies.comparisons(plan.confidence, case.units), planted, changed, enough)


@dataclass(frozen=True, eq=False)
class _Results:
    """Results of the attacks that learn from the table: predicates of both modes, linkability and inference."""

    singled: tuple[singling_out.SinglingOut, ...]
    linked: linkability.Linkability
    inferred: inference.Inference

    @classmethod
    def of(
        cls,
        tables: WithoutKeys,
        plan: TablePlan,
        case: _Case,
        streams: Sequence[np.random.Generator],
        progress: Callable[[int, int], None],
    ) -> _Results:
        """Run the attacks, each with random numbers of its own, and report after each."""
        synthetic, members, control = tables.synthetic, tables.members, tables.control
        progress(1, 4)  # copies were counted
        singled = tuple(
            singling_out.singling_out(
                synthetic,
                members,
                control,
                mode=mode,
                attempts=plan.attempts,
                columns=min(plan.predicate_columns, len(synthetic.schema)),
                confidence=plan.confidence,
                units=case.units,
                rng=stream,
            )
            for mode, stream in zip(_MODES, streams[:2], strict=True)
        )
        progress(2, 4)
        linked = linkability.linkability(
            synthetic,
            case.inside,
            case.outside,
            parts=plan.parts,
            k=min(plan.neighbours, len(synthetic)),
            metric=case.metric,
            confidence=plan.confidence,
            units=case.attacked_units,
            rng=streams[2],
        )
        progress(3, 4)
        inferred = inference.attribute_inference(
            synthetic,
            case.inside,
            case.outside,
            secrets=case.guessed,
            known=plan.known,
            tolerance=plan.tolerance,
            metric=case.metric,
            confidence=plan.confidence,
            units=case.attacked_units,
            rng=streams[3],
        )
        progress(4, 4)
        return cls(singled, linked, inferred)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """One comparison for each attack."""
        return (*(own.comparison for own in self.singled), self.linked.comparison, *self.inferred.comparisons)

    def scores(self, case: _Case, members: int) -> dict[str, FloatArray]:
        """Return the scores of the attacked records; predicates were put to all records, the first of them members."""
        singled = self.singled[0].score + self.singled[1].score
        return {
            "distance": -np.asarray(self.inferred.distance),
            "singling_out": singled[np.r_[case.rows[0], members + case.rows[1]]],
            "linkability": self.linked.score,
            "inference": self.inferred.score,
        }


def _rows(n: int, most: int | None, rng: np.random.Generator) -> IntArray:
    if most is None or n <= most:
        return np.arange(n, dtype=np.int64)
    return np.sort(rng.permutation(n)[:most]).astype(np.int64)


def _fidelity(tables: WithoutKeys, rng: np.random.Generator) -> Fidelity:
    return fidelity_of.fidelity(tables.synthetic, tables.members, tables.control, rng=rng)


def _covariates(design: str | None, inside: Table, outside: Table) -> dict[str, Any]:
    """Return the records as covariates where the design needs some."""
    if design != "zero-run":
        return {}
    features = Features.of(outside, range(len(outside.schema)))
    values = np.concatenate([inside.values, outside.values])
    return {"covariates": features.transform(values), "covariate_names": features.names}


def _grouped(units: tuple[ArrayLike, ArrayLike] | None, members: Table, control: Table) -> Units | None:
    if units is None:
        return None
    for name, labels, table in (("members", units[0], members), ("control", units[1], control)):
        if np.shape(labels) != (len(table),):
            received = f"shape {np.shape(labels)}"
            raise InputError("units", f"a label for each of {len(table):,} {name}", received, "pass one for each row")
    return Units.of_classes(*units)


# -- what they mean ---------------------------------------------------------------------------------------------------


def _counts(synthetic: Table, members: Table, control: Table, attacked: TableAttacks) -> dict[str, int]:
    inside, outside = attacked.attacked
    units = attacked.units
    counted = {} if units is None else {"member_units": units.members, "control_units": units.nonmembers}
    return {
        "synthetic": len(synthetic),
        "members": len(members),
        "control": len(control),
        "members_attacked": len(inside),
        "control_attacked": len(outside),
        **counted,
    }
