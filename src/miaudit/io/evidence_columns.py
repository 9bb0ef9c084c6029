"""Which columns of a file or data frame hold evidence: those that a caller names, else those that ``save`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from miaudit.errors import InputError
from miaudit.io import level_names, roles
from miaudit.io.inclusion import column_or_chance
from miaudit.io.secret_names import looks_secret

__all__ = ["ColumnNames", "EvidenceColumns"]


class ColumnNames(TypedDict, total=False):
    """Columns by name, as a caller states them: see :meth:`miaudit.evidence.Evidence.load`."""

    score: str | Sequence[str] | None
    member: str | None
    covariates: str | Sequence[str] | None
    text: str | None
    unit: str | None
    group: str | None
    run: str | None
    categories: str | Sequence[str]
    inclusion: str | float | None


@dataclass(frozen=True)
class EvidenceColumns:
    """The columns that hold evidence.

    Attributes
    ----------
    scores, covariates : names of columns
    member : the column of membership
    text, unit, group, run : names of columns, or None
    categories : covariates that may hold text
    inclusion : the column of chances of inclusion, or one chance for all records, or None
    levels : columns that name the levels of saved covariates
    origin : the columns "design" and "source", which hold one value each, where the file has them
    named : whether the caller named the scores; then a column "design" may be anything
    """

    scores: tuple[str, ...]
    member: str
    covariates: tuple[str, ...]
    text: str | None
    unit: str | None
    group: str | None
    run: str | None
    categories: tuple[str, ...]
    inclusion: str | float | None
    levels: tuple[str, ...]
    origin: tuple[str, ...]
    named: bool

    @classmethod
    def of(
        cls,
        known: Sequence[str],
        *,
        score: str | Sequence[str] | None = None,
        member: str | None = None,
        covariates: str | Sequence[str] | None = None,
        text: str | None = None,
        unit: str | None = None,
        group: str | None = None,
        run: str | None = None,
        categories: str | Sequence[str] = (),
        inclusion: str | float | None = None,
    ) -> EvidenceColumns:
        """Return the columns that a caller names; where no score is named, those that ``save`` writes.

        Parameters
        ----------
        known : all columns of the file

        Raises
        ------
        InputError
            If no score is named and the file has no column ``score`` or ``score.NAME``.

        Examples
        --------
        >>> columns = EvidenceColumns.of(["score", "member", "covariate.age", "unit", "design"])
        >>> columns.scores, columns.covariates, columns.unit, columns.wanted
        (('score',), ('covariate.age',), 'unit', ['score', 'member', 'covariate.age', 'unit', 'design'])
        """
        named = score is not None
        if score is None:
            score = _saved_scores(known)
            if covariates is None:
                covariates = roles.saved("covariate", known)
            text, unit, group, run = (
                name or (usual if usual in known else None)
                for name, usual in ((text, "text"), (unit, "unit"), (group, "group"), (run, "run"))
            )
            if inclusion is None and {"inclusion", "design"} <= set(known):  # a design goes with saved chances
                inclusion = "inclusion"
        chosen = _listed(covariates)
        return cls(
            scores=_listed(score),
            member=member or "member",
            covariates=chosen,
            text=text,
            unit=unit,
            group=group,
            run=run,
            categories=_listed(categories),
            inclusion=None if inclusion is None else column_or_chance(inclusion, known),
            levels=tuple(name for name in known if level_names.is_saved(name, chosen)),
            origin=tuple(name for name in ("design", "source") if name in known),
            named=named,
        )

    @property
    def labels(self) -> list[str]:
        """Columns that are read as text."""
        return [*(name for name in (self.text, self.unit, self.group, self.run) if name), *self.levels]

    @property
    def wanted(self) -> list[str]:
        """All columns that are read."""
        chances = [self.inclusion] if isinstance(self.inclusion, str) else []
        return [*self.scores, self.member, *self.covariates, *self.labels, *chances, *self.origin]

    @property
    def gaps(self) -> list[str]:
        """Columns in which values may be missing: covariates that are nothing else."""
        return [name for name in self.covariates if name not in {*self.scores, self.member, *self.labels}]


def _saved_scores(known: Sequence[str]) -> Sequence[str]:
    scores = roles.saved("score", known)
    if not scores:
        shown = ", ".join([name for name in known if not looks_secret(name)][:12])
        raise InputError(
            "score", "the name of a score column", "none, and the file has no column 'score'", f"it has {shown}"
        )
    return scores


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())
