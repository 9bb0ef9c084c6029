"""From evidence to a bundle: the audit, what is shared of it, and what its owner keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IndexArray, IntArray
from miaudit.auditing import pipeline, remarks
from miaudit.auditing.plan import Plan
from miaudit.auditing.unused_columns import UnusedValues
from miaudit.bundle import archive, plain_json, sealing, sharing, written_plan
from miaudit.bundle.contents import GIVEN, Bundle, environment
from miaudit.bundle.sealing import SEALED, Sealed, SealKeys
from miaudit.bundle.sharing import Columns, Share
from miaudit.causal import concentration
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError, one_line
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings, SealedCoins, Vulnerability
from miaudit.io.sealed_coins import Coins


@dataclass(frozen=True, eq=False)
class Examined:
    """An audit with its intermediate results, row by row, as its owner sees it.

    Attributes
    ----------
    findings : Findings
    propensity : Propensity of the audited rows, or None where nothing was corrected
    rows : array of indices of the audited rows, or None for all of them
    """

    findings: Findings
    propensity: Propensity | None
    rows: IndexArray | None


def record(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: np.random.Generator,
    share: str = "all",
    seal: bool = False,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    stability: concentration.Measured | None = None,
    coins: Coins | None = None,
    unused: UnusedValues | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Examined, Bundle, SealKeys]:
    """Audit evidence as :func:`miaudit.audit` does, and keep what repeats the audit.

    Parameters
    ----------
    share : "all", "scores" or "hashes"
        With ``"scores"`` covariates and texts are left out and units carry pseudonyms; with ``"hashes"`` a record is a
        hash under a key that its owner keeps, and the operating system seeds the audit in place of ``rng``, whose
        state stays out of the bundle: it may have drawn the memberships.
    seal : bool
        Keep the labels of a random half of the units sealed, so that a challenger cannot win by submitting the labels.
        The bundle then holds the audit of the open records, and a commitment to that of all; what was handed in beside
        the evidence (notes, repeat, vulnerability, propensities) stays out of it. Records are shuffled,
        ``SealKeys.order`` says where each stood, and the operating system seeds the audit in place of ``rng``.
    coins : Coins, optional
        Sealed coins that membership came from; they are checked, and revealed by the bundle: their secret signs.
    evidence, plan, nuisance, rng, notes, repeat, vulnerability, stability, unused, progress : as in
        :func:`miaudit.audit`

    Returns
    -------
    (Examined, Bundle, SealKeys)
        Findings as the audit gives them; the bundle, to be written; the keys, to be kept (``SealKeys.write``).

    Raises
    ------
    InputError
        As :func:`miaudit.audit`, for a plan or generator that cannot be written down, and for more records than a
        bundle holds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(400) < 0.5
    >>> evidence = Evidence(score=rng.normal(size=400) + member, member=member, design="one-run")
    >>> examined, bundle, keys = record(evidence, rng=rng)
    >>> bundle.n, bundle.evidence().digest == evidence.digest
    (400, True)
    """
    level, plan = sharing.check(share), plan or Plan()
    sharing.check_sealing(level, seal=seal)
    coins_shown = _checked(coins, evidence, level, seal=seal)
    revealed = None if coins is None else coins.revealed()
    # Remarks on equal rows count labels, and covariates that may be withheld.
    notes = (*notes, *remarks.beforehand(evidence, plan, stability, rows=not seal))
    prepared = _Prepared.of(evidence, plan, nuisance, rng, level=level, seal=seal)
    of_open_records = prepared.statement_of_open_records() if seal else None  # before any sealed label is used
    examined = prepared.audit(
        notes=notes, repeat=repeat, vulnerability=vulnerability, coins=coins_shown, unused=unused, progress=progress
    )
    statement = prepared.statement(examined, notes)
    if of_open_records is not None:
        prepared, statement = prepared.committed_to(statement), of_open_records
    return _unshuffled(examined, prepared.keys.order), prepared.bundle(statement, revealed), prepared.keys


@dataclass(frozen=True, eq=False)
class _Statement:
    """What a bundle states of an audit.

    ``withheld`` says in words what of the findings is not in it; the other attributes are those of :class:`Bundle`.
    """

    findings: Findings
    notes: tuple[str, ...]
    programs: str
    propensity: Propensity | None
    rows: NDArray[Any] | None
    withheld: tuple[str, ...]

    @property
    def text(self) -> str:
        """The audit of all records as the text to commit to."""
        propensity = self.propensity
        content = {
            "findings": self.findings.to_dict(),
            "notes": list(self.notes),
            "programs": self.programs,
            "how": None if propensity is None else propensity.how,
            "propensity": None if propensity is None else propensity.values.tolist(),
            "rows": None if self.rows is None else self.rows.tolist(),
        }
        return plain_json.dump(content).decode()


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Evidence as it is audited and shared, with all that decides its audit.

    Attributes
    ----------
    level : how much of each record is shared
    evidence : in the order of the bundle, with pseudonyms of units unless everything is shared
    plan, nuisance, rng : of the audit
    state : where the generator stood before the audit
    keys : what the owner keeps
    columns, withheld : what is shared of the records, and what is not, in words
    sealed : commitments to the sealed labels, once the keys hold the audit of all records; else None
    """

    level: Share
    evidence: Evidence
    plan: Plan
    nuisance: Nuisance | None
    rng: np.random.Generator
    state: Mapping[str, Any]
    keys: SealKeys
    columns: Columns
    withheld: tuple[str, ...]
    sealed: Sealed | None = None

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        plan: Plan,
        nuisance: Nuisance | None,
        rng: np.random.Generator,
        *,
        level: Share,
        seal: bool,
    ) -> Self:
        """Draw the keys, and prepare what is shared; refuse before the work what no bundle holds."""
        order = None
        if sharing.hides_members(level, seal=seal):
            sealing.check_margin(plan)
            rng = sealing.generator()
        if seal:
            sealing.check(evidence)
            order = sealing.shuffled(evidence.n)
            evidence, nuisance = evidence.take(order), None if nuisance is None else nuisance.of_rows(order)
        keys = SealKeys.new(evidence.member, seal=seal, unit=evidence.unit_codes, order=order)
        audited = sharing.prepared(evidence, level, keys.pseudonyms)
        state = written_plan.state_of(rng)
        written_plan.encode(plan)  # refused before the work, not after it
        columns, withheld = sharing.columns_of(audited, level, keys.pseudonyms)
        _check_size(columns)
        return cls(level, audited, plan, nuisance, rng, state, keys, columns, withheld)

    def audit(
        self,
        *,
        notes: Sequence[str],
        repeat: Mapping[str, Any] | None,
        vulnerability: Vulnerability | None,
        coins: SealedCoins | None,
        unused: UnusedValues | None,
        progress: Callable[[int, int], None] | None,
    ) -> Examined:
        """Audit all records."""
        findings, propensity, rows = pipeline.examine(
            self.evidence,
            plan=self.plan,
            nuisance=self.nuisance,
            rng=self.rng,
            notes=notes,
            repeat=repeat,
            vulnerability=vulnerability,
            coins=coins,
            unused=None if unused is None else unused.of_rows(self.keys.order),
            progress=progress,
        )
        return Examined(findings, propensity, rows)

    def statement(self, examined: Examined, notes: tuple[str, ...]) -> _Statement:
        """Return what may be stated of the audit of all records."""
        findings, withheld = sharing.findings_of(examined.findings, self.level, self.columns)
        programs = _programs(self.nuisance)
        if self.level == "hashes":
            return _Statement(findings, (), programs, None, None, withheld)
        return _Statement(findings, notes, programs, examined.propensity, examined.rows, withheld)

    def statement_of_open_records(self) -> _Statement:
        """Audit the open records alone.

        The caller's own propensities are not used: it cannot be shown that they were not learned from all labels.
        """
        is_open = np.delete(np.arange(self.evidence.n), self.keys.rows)
        nuisance = None if self.nuisance is None else replace(self.nuisance, propensity=None)
        notes = (
            f"{len(self.keys.rows):,} labels are sealed: these findings are of the {len(is_open):,} open records "
            "alone, and rows are counted among these. A commitment to the findings of all records is in the bundle.",
        )
        try:
            part = self.evidence.take(is_open)
            rng = written_plan.generator_at(self.state)
            audited, propensity, rows = pipeline.examine(part, plan=self.plan, nuisance=nuisance, rng=rng, notes=notes)
        except InputError as error:
            received = one_line(f"too few ({error})")[:160]
            allowed = "open records that can be audited alone"
            raise InputError("seal", allowed, received, "seal a larger audit") from error
        columns, _ = sharing.columns_of(part, self.level, self.keys.pseudonyms)
        findings, _ = sharing.findings_of(audited, self.level, columns)
        withheld = f"the labels of {len(self.keys.rows):,} records, and all that was computed on them: sealed"
        return _Statement(findings, notes, _programs(nuisance), propensity, rows, (withheld,))

    def committed_to(self, statement: _Statement) -> Self:
        """Seal the labels, and commit to the audit of all records."""
        keys = replace(self.keys, audit=statement.text)
        member = self.columns["member"].astype(np.int8)
        member[keys.rows] = SEALED
        return replace(self, keys=keys, sealed=keys.sealed(), columns={**self.columns, "member": member})

    def bundle(self, statement: _Statement, coins: Coins | None) -> Bundle:
        """Return the bundle that makes a statement."""
        return Bundle(
            share=self.level,
            withheld=(*self.withheld, *statement.withheld),
            columns=self.columns,
            sealed=self.sealed,
            findings=statement.findings,
            plan=self.plan,
            random={} if self.level == "hashes" else self.state,
            notes=statement.notes,
            propensity=statement.propensity,
            rows=statement.rows,
            programs=statement.programs,
            environment=environment(),
            coins=coins,
        )


def _checked(coins: Coins | None, evidence: Evidence, level: Share, *, seal: bool) -> SealedCoins | None:
    """Check sealed coins, if there are any, before the work."""
    if coins is None:
        return None
    sharing.check_coins(level, seal=seal)
    return SealedCoins.of(coins, evidence)


def _check_size(columns: Columns) -> None:
    """Refuse more records than a bundle holds."""
    texts = sum(map(len, columns["text"])) if "text" in columns else 0
    archive.check_size(texts + sum(values.nbytes for name, values in columns.items() if name != "text"))


def _programs(nuisance: Nuisance | None) -> str:
    """Name the caller's own models, which no bundle holds."""
    if nuisance is None:
        return ""
    used = [name for name in ("encoding", "classifier", "outcome") if getattr(nuisance, name) is not None]
    propensity = nuisance.propensity
    if propensity is not None:  # a bundle holds the values of a learned one, not what it was learned from
        used.append(GIVEN if propensity.rows_per_covariate is None else "propensity, learned elsewhere")
    return ", ".join(used)


def _unshuffled(examined: Examined, order: IntArray | None) -> Examined:
    """Return the audit with rows counted as in the evidence of its owner."""
    if order is None:
        return examined
    named = tuple({**row, "row": int(order[row["row"]])} for row in examined.findings.rows)
    rows, propensity = examined.rows, examined.propensity
    if rows is not None:
        rows = order[rows]
    elif propensity is not None:
        propensity = propensity.of_rows(np.argsort(order))
    return Examined(replace(examined.findings, rows=named), propensity, rows)
