"""Evidence as sorted counts: what shards of scores add up to, for audits that need no record by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence, check_design
from miaudit.metrics.sorted_counts import SortedCounts

__all__ = ["CountedEvidence", "needs_records"]

_ABSENT = ("covariates", "text", "unit", "group", "run", "inclusion", "unit_codes")


def needs_records() -> NoReturn:
    """Refuse what reads records one by one.

    Raises
    ------
    InputError
        Always.
    """
    raise InputError(
        "shards",
        "an audit of scores and memberships: metrics with intervals, one-run bounds, the surest members",
        "an option that reads records one by one",
        "leave out bootstrap replicates, listed rows, levels, splits, pilots and bundles, or audit one file",
    )


class _Names(Mapping[str, FloatArray]):
    """The name of the one score; its values are refused."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, name: str) -> FloatArray:
        if name != self._name:
            raise KeyError(name)
        needs_records()

    def __iter__(self) -> Iterator[str]:
        return iter((self._name,))

    def __len__(self) -> int:
        return 1

    def __contains__(self, name: object) -> bool:
        return name == self._name


class CountedEvidence(Evidence):
    """Evidence of one score whose records are known by their counts alone.

    Its rows are in one order: by score, and at each score non-members first. Findings are those of evidence with these
    rows in this order.

    Parameters
    ----------
    counts : of the score, with at least one member and one non-member; higher is more member-like
    name : of the score
    digest : of the evidence with the rows in their order
    design : "one-run", or None where none was declared
    source : where the scores came from, for the report

    Raises
    ------
    InputError
        For another design, and for one class alone. Whatever reads single records is refused when it does.

    Examples
    --------
    >>> import numpy as np
    >>> counts = SortedCounts.of(np.array([2.0, 1.0, 1.0]), np.array([True, False, False]))
    >>> evidence = CountedEvidence(counts, name="score", digest="", design="one-run")
    >>> evidence, evidence.n
    (Evidence(1 members, 2 non-members, score: score, design: one-run), 3)
    """

    counts: SortedCounts

    def __init__(self, counts: SortedCounts, *, name: str, digest: str, design: str | None, source: str = "") -> None:
        if check_design(design) not in (None, "one-run"):
            hint = "audit one file: the other designs read records one by one"
            raise InputError("design", "one-run, or none, for shards", str(design), hint)
        if not (counts.members and counts.nonmembers):
            missing = "members" if counts.nonmembers else "non-members"
            raise InputError("member", "members and non-members", f"no {missing}", f"add records that are {missing}")
        self._set(
            {
                **dict.fromkeys(_ABSENT),
                "scores": _Names(name),
                "covariate_names": (),
                "levels": {},
                "design": design,
                "source": source,
                "digest": digest,
                "counts": counts,
            }
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("member", "ascending", "candidate_rows"):
            needs_records()
        raise AttributeError(name)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.counts.records

    @property
    def n_members(self) -> int:
        """Number of member records."""
        return self.counts.members

    def replace(self, **changes: Any) -> Evidence:  # noqa: ARG002
        """Refuse: there are no records to make evidence of."""
        needs_records()

    def columns(self, *, one_number_each: bool = False) -> dict[str, Any]:  # noqa: ARG002
        """Refuse: there are no records to write."""
        needs_records()

    def __reduce__(self) -> tuple[Any, ...]:
        needs_records()
