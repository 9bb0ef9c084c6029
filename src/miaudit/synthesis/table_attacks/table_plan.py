"""Options of an audit of a table, fixed before the tables are read, and the plan of its record-wise part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from miaudit.auditing.headline import EVERY_SCORE, Declared
from miaudit.auditing.plan import Plan
from miaudit.errors import InputError, nearest
from miaudit.errors.options import Option, check_options
from miaudit.findings.policy import DEFAULT_LIMITS
from miaudit.synthesis.table_attacks.pool_scores import ADOPTION_AND_CLOSENESS

__all__ = ["TablePlan", "of_scores"]

_SHOWN = 8  # columns in a message


@dataclass(frozen=True)
class TablePlan:
    """Options of an audit of a table, fixed before the tables are read.

    Parameters
    ----------
    records : int, optional
        At most so many members, and so many control records, are attacked by way of distances (drawn at random); None
        for all. Copies and predicates are always put to all of them.
    secrets : columns whose inference decides the verdict; the inference of the other columns only informs. Of more than
        20 columns, 20 are guessed: the secrets and others drawn at random
    known : as in ``inference.attribute_inference``
    keep : columns that take part in the attacks although their values all differ, as an identifier's do. Those that
        ``secrets``, ``known`` and ``parts`` name take part as well
    parts : as in :func:`miaudit.synthesis.table_attacks.linkability.linkability`
    neighbours : of linkability
    attempts : predicates of each mode of singling out that are put to the records
    predicate_columns : columns of a multivariate predicate
    tolerance : of inferred numbers, as a share of their width
    threshold : excess that is within the limits. A greater one raises concern; of exact copies any excess does
    copies : excess of exact copies above which they raise concern; None: any excess does, and ``threshold`` is within
    confidence : of each interval alone. Concern needs it of all blocking attacks together (Bonferroni)
    fidelity : whether marginals and pairs are compared too

    Examples
    --------
    >>> TablePlan(threshold=5)
    Traceback (most recent call last):
    miaudit.errors.InputError: threshold: expected a number in [0, 1), received 5; write 0.05 for 5%
    """

    records: Annotated[
        int | None,
        Option(
            "At most so many members and others are attacked by distances.",
            "20000 is the default",
            ge=10,
            allowed="10 or more, or None for all",
            applies=("synthetic table",),
        ),
    ] = 20_000
    secrets: Annotated[
        tuple[str, ...] | None,
        Option("Columns whose inference decides the verdict; others only inform.", applies=("synthetic table",)),
    ] = None
    known: Annotated[
        tuple[str, ...] | None,
        Option("Columns that the attacker knows; default: the others.", applies=("synthetic table",)),
    ] = None
    keep: Annotated[
        tuple[str, ...] | None,
        Option("Columns that look like identifiers and are attacked all the same.", applies=("synthetic table",)),
    ] = None
    parts: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    neighbours: int = 10
    attempts: int = 2000
    predicate_columns: int = 6
    tolerance: float = 0.05
    threshold: Annotated[
        float, Option("Difference in success that raises concern.", "0.05 is five points", ge=0, lt=1)
    ] = 0.05
    copies: Annotated[
        float | None,
        Option("The limit of exact copies: by default any excess.", "0.01 is one point", ge=0, lt=1),
    ] = None
    confidence: Annotated[
        float, Option("Of each interval; concern corrects for several attacks.", "write 0.95 for 95%", gt=0.5, lt=1)
    ] = 0.95
    fidelity: bool = True

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def named(self) -> frozenset[str]:
        """Columns that the plan names, which are no keys."""
        parts = self.parts or ((), ())
        return frozenset((*(self.keep or ()), *(self.secrets or ()), *(self.known or ()), *parts[0], *parts[1]))

    def check_names(self, names: Collection[str], left_out: Mapping[str, str] | None = None) -> None:
        """Refuse a name of a column that takes part in no attack.

        Parameters
        ----------
        names : of the columns that take part
        left_out : why other columns of the files do not, by name

        Examples
        --------
        >>> TablePlan(secrets=("pid",)).check_names(["age", "job"], {"pid": "all its texts differ"})
        Traceback (most recent call last):
        miaudit.errors.InputError: secrets: expected columns that the attacks see (age, job), received 'pid', which was
        left out because all its texts differ; name another column
        """
        parts = self.parts or ((), ())
        options = {"secrets": self.secrets, "known": self.known, "keep": self.keep, "parts": (*parts[0], *parts[1])}
        for option, columns in options.items():
            for name in columns or ():
                if name in names:
                    continue
                allowed = f"columns that the attacks see ({', '.join(list(names)[:_SHOWN])})"
                if name in (left_out or {}):
                    received = f"{name!r}, which was left out because {(left_out or {})[name]}"
                    raise InputError(option, allowed, received, "name another column")
                raise InputError(option, allowed, repr(name), nearest(name, names) or "name a column of the table")


def of_scores(plan: Plan | None, confidence: float) -> Plan:
    """Return the plan of the record-wise audit of a table: one score, fixed beforehand, and no alarm of its own.

    Adoption and closeness decides; the other scores are shown. The two lists of the attacks on the table take the place
    of the alarm for the surest members. A score or limits that ``plan`` states stay as they are.

    Examples
    --------
    >>> of_scores(None, 0.95).headline, of_scores(None, 0.95).policy.sure
    (Declared(score='adoption_and_closeness'), None)
    >>> of_scores(Plan(limits={"auc": 0.6}), 0.95).policy.metrics
    ('auc',)
    """
    plan = plan or Plan(confidence=confidence)
    if plan.headline == EVERY_SCORE:
        plan = replace(plan, headline=Declared(ADOPTION_AND_CLOSENESS))
    stated = (plan.limits, plan.primary_metric, plan.threshold_for_concern)
    return replace(plan, limits=DEFAULT_LIMITS) if stated == (None, None, None) else plan
