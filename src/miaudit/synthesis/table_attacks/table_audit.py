"""Audit of a synthetic table without retraining: leakage about members, beyond that about controls.

Every attack is made on the members and on control records that the table was not made from. Differences in success are
the leak; the scores of the attacks are evidence for the record-wise audit, with its design, covariates and refusals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, IntArray
from miaudit.auditing import pipeline
from miaudit.auditing.plan import Plan
from miaudit.causal.duplicates import Repeats
from miaudit.errors import InputError, Option, check_options
from miaudit.evidence import Evidence
from miaudit.findings import table as found
from miaudit.findings.table import PositiveControl, Status, TableFindings, TableVerdict
from miaudit.findings.verdict import DECLARE, NOT_DECLARED
from miaudit.metrics.classical import Sample
from miaudit.metrics.definition import percent
from miaudit.metrics.units import Units
from miaudit.synthesis import fidelity as fidelity_of
from miaudit.synthesis.encoding import Features
from miaudit.synthesis.schema import Table, check_alike
from miaudit.synthesis.table_attacks import both_sides, inference, linkability, singling_out
from miaudit.synthesis.table_attacks.closest_record import Metric, nearest
from miaudit.synthesis.table_attacks.success_rates import Comparison, Rate, compare

__all__ = ["TableAttacks", "TablePlan", "attack", "audit_table"]

MOST_SECRETS = 20

CANNOT_SEE = (
    "Distances see copies and near copies. A table in which no record lies near a member can still give one away, by a "
    "frequency or a correlation that moved because it was there: miaudit.synthesis.membership_attack, which trains "
    "generators again, looks for that.",
    "Success on control records is knowledge of the population. It can harm people who are in neither table, and is "
    "not counted here.",
    "A stronger attack may find what these did not: no audit shows that a table is private, only a proof does.",
)
_TURN = "control records that lie nearer to the table than its members are hardly drawn from the same population"
_COPIED = 0.01
_GIANT = 0.1  # share of a class in one unit above which something is said
_MODES: tuple[singling_out.Mode, ...] = ("univariate", "multivariate")


@dataclass(frozen=True)
class TablePlan:
    """Options of an audit of a table, fixed before the tables are read.

    Parameters
    ----------
    records : int, optional
        At most so many members, and so many control records, are attacked by way of distances (drawn at random); None
        for all. Copies and predicates are always put to all of them.
    secrets, known : as in ``inference.attribute_inference``; of more than 20 columns, 20 drawn at random are the
        default secrets
    parts : as in :func:`miaudit.synthesis.table_attacks.linkability.linkability`
    neighbours : of linkability
    attempts, predicate_columns : predicates of each mode of singling out, and columns of the multivariate ones
    tolerance : of inferred numbers, as a share of their width
    threshold : difference in success above which an attack raises concern; for exact copies any excess does
    confidence : of all intervals of attacks together (Bonferroni)
    fidelity : whether marginals and pairs are compared too

    Examples
    --------
    >>> TablePlan(threshold=5)
    Traceback (most recent call last):
    miaudit.errors.InputError: threshold: expected a number in [0, 1), received 5; 0.05 is five points
    """

    records: Annotated[
        int | None,
        Option(
            "At most so many members and others are attacked by distances.",
            "5000 is the default",
            ge=10,
            allowed="10 or more, or None for all",
        ),
    ] = 5000
    secrets: Annotated[tuple[str, ...] | None, Option("Columns that an attacker would guess; default: all.")] = None
    known: Annotated[tuple[str, ...] | None, Option("Columns that the attacker knows; default: the others.")] = None
    parts: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    neighbours: int = 10
    attempts: int = 2000
    predicate_columns: int = 4
    tolerance: float = 0.05
    threshold: Annotated[
        float, Option("Difference in success that raises concern.", "0.05 is five points", ge=0, lt=1)
    ] = 0.05
    confidence: Annotated[
        float, Option("Of all intervals of attacks together.", "write 0.95 for 95%", gt=0.5, lt=1)
    ] = 0.95
    fidelity: bool = True

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, eq=False)
class TableAttacks:
    """Results of the attacks on a table.

    Attributes
    ----------
    evidence : scores ``distance``, ``singling_out``, ``linkability`` and ``inference`` of the attacked records
    comparisons : one for each attack, each with limits that hold for all of them
    control : the same count of copies, and the AUC of the distance, after copies of some members were added
    metric : the distance
    attacked : rows of the members and of the control records that were attacked
    units : of the members and then the control records, where several are of one unit; else None
    repeats : where equal records fall, of one record of each unit; None where these are of one class
    """

    evidence: Evidence
    comparisons: tuple[Comparison, ...]
    control: PositiveControl
    metric: Metric
    attacked: tuple[IntArray, IntArray]
    units: Units | None
    repeats: Repeats | None


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
        random split of one pool, None if nobody knows. For "zero-run" the records themselves become covariates
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
    draw, near_rng, *streams = rng.spawn(6)
    plan = plan or TablePlan()
    case = _Case.of(synthetic, members, control, plan, grouped, draw)
    told = progress or (lambda *_: None)
    planted = _planted(synthetic, members, near_rng)
    everyone = Table(synthetic.schema, np.concatenate([case.inside.values, case.outside.values]))
    tables = (synthetic, planted)
    near, added_near = (nearest(case.metric, everyone, table, rng=near_rng).distance[:, 0] for table in tables)
    made, added, in_members, in_control = (_keys(table) for table in (synthetic, planted, members, control))
    copies, seen = (_copied(rows, in_members, in_control, case.sure, case.units) for rows in (made, made + added))
    told(1, 4)
    every: dict[str, Any] = {"attempts": plan.attempts, "columns": min(plan.predicate_columns, len(synthetic.schema))}
    every |= {"confidence": case.sure, "units": case.units}
    singled = [
        singling_out.singling_out(synthetic, members, control, mode=mode, rng=stream, **every)
        for mode, stream in zip(_MODES, streams[:2], strict=True)
    ]
    told(2, 4)
    three, few = (synthetic, case.inside, case.outside), min(plan.neighbours, len(synthetic))
    alike: dict[str, Any] = {"metric": case.metric, "confidence": case.sure, "units": case.attacked_units}
    linked = linkability.linkability(*three, parts=plan.parts, k=few, rng=streams[2], **alike)
    told(3, 4)
    alike |= {"secrets": case.secrets, "known": plan.known, "tolerance": plan.tolerance}
    inferred = inference.attribute_inference(*three, rng=streams[3], **alike)
    told(4, 4)
    scores = {
        "distance": -near,
        "singling_out": (singled[0].score + singled[1].score)[np.r_[case.rows[0], len(members) + case.rows[1]]],
        "linkability": linked.score,
        "inference": inferred.score,
    }
    more = _covariates(design, case.inside, case.outside)
    unit = None if case.attacked_units is None else case.attacked_units.code
    evidence = Evidence(score=scores, member=case.member, design=design, unit=unit, source=source, **more)
    with_copies = evidence.replace(score=-np.minimum(near, added_near))
    return TableAttacks(
        evidence=evidence,
        comparisons=(copies, *(part.comparison for part in singled), linked.comparison, *inferred.comparisons),
        control=_positive_control(seen, len(planted), synthetic, with_copies, case.sure),
        metric=case.metric,
        attacked=case.rows,
        units=case.units,
        repeats=both_sides.repeats(members, control, grouped),
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
    Where equal records stand on one side far beyond chance, and no unit holds them together
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
    equal = attacked.repeats
    refuted = both_sides.contradicted(members, control, equal, design, units, plan.confidence, rng=design_rng)
    warned = equal is not None and equal.beyond_chance and not refuted
    evidence_plan = evidence_plan or Plan(confidence=plan.confidence)
    if refuted:
        evidence_plan = replace(evidence_plan, bounds=None)
    audited = pipeline.examine(attacked.evidence, plan=evidence_plan, rng=audit_rng, repeat=repeat, turn=_TURN)[0]
    audited = both_sides.withheld(audited, refuted) if refuted else audited
    attacks = tuple(_row(part, plan, refuted=bool(refuted)) for part in attacked.comparisons)
    kept = fidelity_of.fidelity(synthetic, members, control, rng=compare_rng) if plan.fidelity else None
    verdict = _declared(_verdict(attacks, plan, attacked.control), design)
    return TableFindings(
        verdict=TableVerdict("refused", f"No answer: {refuted}", plan.confidence) if refuted else verdict,
        attacks=attacks,
        positive_control=attacked.control,
        membership=audited,
        counts=_counts(synthetic, members, control, attacked),
        columns=tuple({"name": column.name, "kind": column.kind} for column in synthetic.schema.columns),
        schema=schema,
        fidelity=kept,
        cannot_see=CANNOT_SEE,
        notes=(
            *notes,
            *((equal.text(declared=units is not None),) if equal is not None and warned else ()),
            *_of_units(attacked.units),
            *_notes(attacks, attacked.control, attacked.attacked, members, control),
        ),
        plan=asdict(plan),
        source=source,
        repeat=dict(repeat or {}),
    )


# -- the attacks on one table -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Case:
    """The rows of members and control records that are attacked by distances, and how.

    ``sure`` is the confidence of each attack's interval with which all of them hold together; ``secrets`` are guessed.
    ``units`` are those of all members and control records, ``attacked_units`` of those attacked by way of distances.
    """

    rows: tuple[IntArray, IntArray]
    inside: Table
    outside: Table
    secrets: tuple[str, ...]
    metric: Metric
    sure: float
    units: Units | None
    attacked_units: Units | None

    @classmethod
    def of(
        cls,
        synthetic: Table,
        members: Table,
        control: Table,
        plan: TablePlan,
        units: Units | None,
        rng: np.random.Generator,
    ) -> _Case:
        rows = _rows(len(members), plan.records, rng), _rows(len(control), plan.records, rng)
        names = synthetic.schema.names
        secrets = (
            tuple(names[j] for j in _rows(len(names), MOST_SECRETS, rng)) if plan.secrets is None else plan.secrets
        )
        sure = 1 - (1 - plan.confidence) / (4 + len(secrets))
        inside, outside = members.subset(rows[0]), control.subset(rows[1])
        several = units if units is not None and units.repeat else None
        attacked = None if several is None else several.take(np.r_[rows[0], len(members) + rows[1]])
        metric = Metric.of(control)
        return cls(rows, inside, outside, secrets, metric, sure, several, attacked)

    @property
    def member(self) -> BoolArray:
        """Which of the attacked records, members first, are members."""
        return np.arange(len(self.inside) + len(self.outside)) < len(self.inside)


def _rows(n: int, most: int | None, rng: np.random.Generator) -> IntArray:
    if most is None or n <= most:
        return np.arange(n, dtype=np.int64)
    return np.sort(rng.permutation(n)[:most]).astype(np.int64)


def _planted(synthetic: Table, members: Table, rng: np.random.Generator) -> Table:
    """Return the members whose copies make up one per cent of the table."""
    copies = min(len(members), max(1, round(_COPIED * len(synthetic))))
    return members.subset(rng.permutation(len(members))[:copies])


def _keys(table: Table) -> list[bytes]:
    """Return each row as bytes, equal for equal rows; missing values equal each other."""
    values = np.ascontiguousarray(np.where(np.isnan(table.values), np.nan, table.values + 0.0))
    return [row.tobytes() for row in values]


def _copied(
    made: Sequence[bytes], members: Sequence[bytes], control: Sequence[bytes], sure: float, units: Units | None
) -> Comparison:
    """Compare the exact copies of members and of control records in a table."""
    known = set(made)
    return compare(
        "copies",
        [key in known for key in members],
        [key in known for key in control],
        confidence=sure,
        note="all columns equal",
        units=units,
    )


def _positive_control(
    seen: Comparison, copies: int, synthetic: Table, nearer: Evidence, confidence: float
) -> PositiveControl:
    """Audit the table with added copies of members: their count and the AUC of the distance."""
    auc = Sample.of(nearer).auc(confidence)
    return PositiveControl(
        copies=copies,
        share=copies / (len(synthetic) + copies),
        found=seen.leaks,
        members=seen.members.value,
        control=seen.control.value,
        difference_low=seen.difference.low,
        auc=auc.value or 0.5,
        auc_low=auc.low,
    )


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


def _of_units(units: Units | None) -> list[str]:
    """Describe the counts where several records are of one unit."""
    if units is None:
        return []
    said = [
        f"Intervals count {units.members:,} units of members and {units.nonmembers:,} of control records: records of "
        "one unit may depend on each other."
    ]
    if units.spanning:
        said.append(
            f"{units.spanning:,} units hold members and control records; that their success may be opposed is part of "
            "the intervals. If the two files number their units on their own, make the labels differ."
        )
    if units.largest_share > _GIANT:
        said.append(f"One unit holds {percent(units.largest_share)} of a class, which costs much of it.")
    return said


def _row(comparison: Comparison, plan: TablePlan, *, refuted: bool = False) -> found.Attack:
    threshold = 0.0 if comparison.attack == "copies" else plan.threshold
    low, high = comparison.difference.low, comparison.difference.high
    status: Status = (
        "flagged" if low > threshold else "clear" if high <= max(threshold, plan.threshold) else "inconclusive"
    )
    if refuted:
        status = "inconclusive"
    risk = comparison.risk
    return found.Attack(
        name=comparison.attack,
        members=_rate(comparison.members),
        control=_rate(comparison.control),
        difference=comparison.difference.value,
        difference_low=low,
        difference_high=high,
        risk=risk.value,
        risk_low=risk.low if math.isfinite(risk.low) else None,
        risk_high=risk.high if math.isfinite(risk.high) else None,
        by_chance=None if comparison.by_chance is None else comparison.by_chance.value,
        threshold=threshold,
        status=status,
        weak=comparison.weak,
        note=comparison.note,
    )


def _rate(rate: Rate) -> found.Rate:
    return found.Rate(rate.right, rate.trials, rate.value if rate.trials else None, rate.low, rate.high)


def _verdict(attacks: Sequence[found.Attack], plan: TablePlan, control: PositiveControl) -> TableVerdict:
    """Judge all attacks with at least one trial; an attack that cannot detect copies does not reassure."""
    attacks = [part for part in attacks if part.difference is not None]
    sure = f"with {percent(plan.confidence)} confidence for all {len(attacks)} attacks together"
    flagged = [part for part in attacks if part.status == "flagged"]
    open_ = [part for part in attacks if part.status == "inconclusive"]
    status: Status = "flagged" if flagged else "inconclusive" if open_ or not control.found else "clear"
    if flagged:
        worst = max(flagged, key=lambda part: part.difference_low)
        text = (
            f"Concern: {sure}, {worst.name} succeeds on at least {percent(worst.difference_low, 'down')} more of the "
            f"members than of the control records; {len(flagged)} of {len(attacks)} attacks raise concern."
        )
    elif open_:
        widest = max(open_, key=lambda part: part.difference_high)
        text = (
            f"Inconclusive: {sure}, no attack is shown to find more than {percent(plan.threshold)} more of the "
            f"members, but {widest.name} may find up to {percent(widest.difference_high, 'up')} more."
        )
    elif not control.found:
        text = (
            f"Inconclusive: no attack is shown to find more of the members, but the positive control was not found: of "
            f"the same table with {control.copies:,} copied members among its records this audit would have said the "
            "same. More control records, or columns that tell records apart, would let it see."
        )
    else:
        over = percent(max(0.0, *(part.difference_high for part in attacks)), "up")
        text = (
            f"No concern at this threshold: {sure}, no attack finds over {over} more "
            "of the members than of the control records. Other attacks were not looked for."
        )
    return TableVerdict(status, text, plan.confidence)


def _declared(would_be: TableVerdict, design: str | None) -> TableVerdict:
    """Withhold the verdict where members and control records may differ by selection."""
    if design is None:
        said = f"{NOT_DECLARED} {DECLARE} If membership was randomised it would be: {would_be.text}"
        return replace(would_be, status="not-testable", text=said)
    if design == "zero-run":
        said = (
            "No answer from differences in success: members and control records were not assigned at random "
            "(zero-run), so they mix what the table gives away with how the two differ. The record-wise audit corrects "
            "for that."
        )
        return replace(would_be, status="not-testable", text=said)
    return would_be


def _notes(
    attacks: Sequence[found.Attack],
    control: PositiveControl,
    attacked: tuple[IntArray, IntArray],
    members: Table,
    others: Table,
) -> list[str]:
    said = []
    idle = [part.name for part in attacks if part.difference is None]
    if idle:
        said.append(f"The table suggests no predicate to {', '.join(idle)}, which therefore had nothing to try.")
    if len(members.schema) > MOST_SECRETS:
        said.append(f"Of {len(members.schema)} columns at most {MOST_SECRETS} are guessed, unless secrets are named.")
    above = [part.name for part in attacks if part.status != "flagged" and part.difference_low > 0]
    if above:
        said.append(f"Above chance, though below the threshold: {', '.join(above)}.")
    weak = [part.name for part in attacks if part.weak]
    if weak:
        said.append(
            f"No better than a guess that looks at no record: {', '.join(weak)}. That they find no difference is no "
            "reassurance."
        )
    if not control.found:
        said.append(
            f"These tables are too small, or too coarse, for the audit to see even {control.copies:,} copied members "
            "among the synthetic records: that nothing was found means little."
        )
    for name, rows, table in (("members", attacked[0], members), ("control records", attacked[1], others)):
        if len(rows) < len(table):
            said.append(f"Of {len(table):,} {name}, {len(rows):,} drawn at random were attacked by distances.")
    return said
