"""Verification: integrity of a bundle, and whether its findings follow from its evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from miaudit.arrays import IndexArray
from miaudit.auditing import pipeline
from miaudit.auditing.case import Case, choose, paid
from miaudit.auditing.headline import Split
from miaudit.auditing.seed import AuditStreams
from miaudit.bundle import contents, reading, sealed_audits, sharing, workload, written_plan
from miaudit.bundle.contents import Bundle
from miaudit.bundle.sealing import Opening
from miaudit.causal import effects
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError, one_line
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings, SealedCoins
from miaudit.findings.kind import plain
from miaudit.findings.verification import AuditStated, Difference, VerificationFindings, not_checked
from miaudit.io import sealed_coins
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample

__all__ = ["Difference", "verify"]

TOLERANCE = 1e-9
_LAST_DIGIT = 1.1e-9  # findings have nine decimals, and another processor may turn the last one
_MOST_NAMED = 200
# The environment; what rests on shadow models or on unused columns, which no bundle holds; and what somebody states.
_OTHERS = ("repeat", "vulnerability", "about", "unused_columns")
_SKIPPED = tuple(f"findings.{name}" for name in _OTHERS)
_ESTIMATED = "value"
_NOTHING = "Every number: the bundle holds keyed hashes of the records, neither scores nor membership."
_SEALED = (
    "The audit of all records, of which a commitment is published: {:,} labels are sealed. What came out again is the "
    "audit of the open records. Verify again with the opening when there is one."
)
# Small numbers that are not zero, however near to it.
_SMALL = re.compile(r"findings\.plan\.|.*(delta|p_value|smallest_p|smallest_fpr)$")
# What an audit raises where plan and evidence, each well-formed, do not go together.
_NO_AUDIT = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError, MemoryError)


def verify(
    path: str | Path | Bundle,
    *,
    keys: Opening | None = None,
    commitment: str | None = None,
    longest: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> VerificationFindings:
    """Check the digests of a bundle and recompute its findings: counts and words exactly, numbers to 1e-9.

    Parameters
    ----------
    path : path of the .zip, or what :func:`miaudit.bundle.read` made of it
    keys : Opening or Keys, optional
        They open sealed labels; without them the audit of the open records is recomputed, and no other.
    commitment : digest of sealed coins' commitment, or of the answer to it, as it was published; optional
        A bundle whose coins have another one, or that has none, fails.
    longest : seconds, for a bundle of somebody whom you do not know: an audit that would take longer is not begun, and
        one that has taken so much processor time is stopped (in the main thread alone); 0 is no limit
    progress : function of how much of the work is done and of the whole, optional

    Raises
    ------
    InputError
        If the file cannot be read as a bundle at all, or its audit takes longer than ``longest``.
    """
    held = path if isinstance(path, Bundle) else reading.read(path)
    workload.require_short(held, longest)
    with workload.at_most(longest):
        return _checked(held, keys, commitment, progress)


def _checked(
    held: Bundle,
    keys: Opening | None,
    commitment: str | None,
    progress: Callable[[int, int], None] | None,
) -> VerificationFindings:
    bundle, published = _with_digest(held, commitment)
    audits = [sealed_audits.open_part(bundle)]
    if keys is not None and bundle.sealed is not None:
        audits.append(sealed_audits.opened(bundle, keys))
    repeated = [_audit_repeated(audit, _part(progress, i, len(audits))) for i, audit in enumerate(audits)]
    left = list(dict.fromkeys(text for part in repeated for text in part.left))
    sealed = bundle.sealed is not None and keys is None
    if bundle.sealed is not None and keys is None:
        left.insert(0, _SEALED.format(len(bundle.sealed.rows)))
    differing = _differences(repeated)
    recomputed = sum(len(part.pairs) for part in repeated) - len(differing)
    complete = all(part.complete for part in repeated) and not sealed
    coins = None if bundle.tampered else _sealed_coins(bundle, bundle.evidence())
    failed = bool(bundle.tampered or differing)
    checked = VerificationFindings(
        status="failed" if failed else "not-testable" if not recomputed else "verified" if complete else "in-part",
        text="",
        digest=bundle.digest or "",
        tampered=bundle.tampered,
        recomputed=recomputed,
        differences=tuple(differing[:_MOST_NAMED]),
        not_recomputed=tuple(left),
        environment=_environment(bundle),
        repeat={},
        sealed_coins=coins,
        published=published,
        audit=None if failed else AuditStated.of(bundle.findings, coins=coins is not None),
        not_checked=() if failed else not_checked(bundle.findings, coins=coins is not None),
    )
    return replace(checked, text=_text(checked, sealed=sealed))


def _differences(audits: Sequence[_Repeated]) -> list[Difference]:
    """Return what differs between stated and recomputed values: of the open records, and of all."""
    return [
        Difference(_cut(one_line(which + place)), _shown(stated), _shown(recomputed))
        for which, audit in zip(("", "all records: "), audits, strict=False)
        for place, stated, recomputed in audit.pairs
        if not _same(place, stated, recomputed)
    ]


def _text(result: VerificationFindings, *, sealed: bool) -> str:
    if result.status == "failed":
        parts = []
        if result.tampered:
            parts.append(f"{len(result.tampered)} {'place does' if len(result.tampered) == 1 else 'places do'} not fit")
        if result.differences:
            parts.append(
                f"{len(result.differences)} of the findings {'does' if len(result.differences) == 1 else 'do'} "
                "not come out again"
            )
        first = result.tampered[0] if result.tampered else result.differences[0].place
        return f"The bundle does not hold: {', and '.join(parts)}. First: {first}"
    if result.status == "not-testable":
        return "Digests fit, and nothing could be recomputed: what it needs is withheld."
    if sealed and result.status == "in-part":
        return (
            f"Every digest fits, and {result.recomputed:,} numbers and words of the findings of the open records "
            "came out again. The findings of all records are sealed."
        )
    if result.status == "in-part":
        return (
            f"Every digest fits, and {result.recomputed:,} numbers and words of the findings came out again, but not "
            "the verdict: what it rests on is withheld."
        )
    left = " Some things were not recomputed." if result.not_recomputed else ""
    return f"Every digest fits, and {result.recomputed:,} numbers and words of the findings came out again.{left}"


@dataclass(frozen=True)
class _Repeated:
    """Result of a repeated audit: stated and recomputed values by place, and what was left out."""

    pairs: Sequence[tuple[str, Any, Any]]
    left: tuple[str, ...]
    complete: bool


def _part(
    progress: Callable[[int, int], None] | None, before: int, all_of_them: int
) -> Callable[[int, int], None] | None:
    """Return what reports one of several audits as a part of all."""
    if progress is None:
        return None
    return lambda done, total: progress(before * total + done, all_of_them * total)


def _audit_repeated(bundle: Bundle, progress: Callable[[int, int], None] | None) -> _Repeated:
    """Repeat an audit with open labels, as far as the bundle allows."""
    evidence = bundle.evidence()
    if evidence is None:
        return _Repeated((), (_NOTHING,), complete=False)
    complete = _is_complete(bundle, evidence)
    left: tuple[str, ...] = ()
    if complete:
        again, _, _ = repeated(bundle, evidence, progress)
        came, _ = sharing.findings_of(again, bundle.share, bundle.columns)
        differences = list(_paired("findings", bundle.findings.to_dict(), came.to_dict(), _SKIPPED))
    else:
        left = _why_in_part(bundle)
        with refusing():
            differences = list(_in_part(bundle, evidence))
    if bundle.findings.vulnerability:
        left = (*left, "Per-record vulnerability: it rests on shadow models, which the bundle does not hold.")
    if bundle.findings.unused_columns:
        left = (*left, "What unused columns of the file show: the bundle holds the columns of the audit only.")
    return _Repeated(differences, left, complete)


def repeated(
    bundle: Bundle, evidence: Evidence, progress: Callable[[int, int], None] | None = None
) -> tuple[Findings, Propensity | None, IndexArray | None]:
    """Audit the evidence of a bundle under its plan and random numbers, as :func:`miaudit.auditing.pipeline.examine`.

    Raises
    ------
    InputError
        If plan and evidence do not make an audit.
    """
    rng = written_plan.generator_at(bundle.random)
    options: dict[str, Any] = {"plan": bundle.plan, "nuisance": _nuisance(bundle), "notes": bundle.notes}
    options["coins"] = _sealed_coins(bundle, evidence)
    with refusing():
        return pipeline.examine(evidence, rng=rng, progress=progress, **options)


def _sealed_coins(bundle: Bundle, evidence: Evidence | None) -> SealedCoins | None:
    """Say what sealed coins show; None where there are none, or where they do not fit, which ``tampered`` says."""
    if bundle.coins is None or evidence is None:
        return None
    try:
        return SealedCoins.of(bundle.coins, evidence)
    except InputError:
        return None


def _with_digest(bundle: Bundle, digest: str | None) -> tuple[Bundle, Literal["commitment", "answer"] | None]:
    """Compare what was published of sealed coins with the bundle; what does not fit is said in ``tampered``."""
    if digest is None:
        return bundle, None
    digest = sealed_coins.checked_digest(digest, "commitment")
    if bundle.coins is None:
        sentence = "The bundle has no sealed coins, and a commitment to some was given."
        return replace(bundle, tampered=(*bundle.tampered, sentence)), None
    committed, answer = bundle.coins.commitment.digest, bundle.coins.answer
    if digest == committed:
        return bundle, "commitment"
    if answer is not None and digest == answer.digest:
        return bundle, "answer"
    answered = "no answer" if answer is None else f"answer {answer.digest[:12]}..."
    sentence = f"The coins follow from commitment {committed[:12]}... and {answered}; published was {digest[:12]}..."
    return replace(bundle, tampered=(*bundle.tampered, sentence)), None


@contextmanager
def refusing() -> Iterator[None]:
    """Report in one line that plan and evidence, each well-formed, are incompatible."""
    try:
        yield
    except _NO_AUDIT as error:
        received = one_line(f"{type(error).__name__}: {error}")[:80]
        raise InputError("bundle", "a plan and evidence that make an audit", received, "ask for it again") from error


def stated_otherwise(bundle: Bundle, evidence: Evidence) -> tuple[Difference, ...]:
    """Return raw metrics that do not follow from opened evidence; none where rows were split."""
    if isinstance(bundle.plan.headline, Split) and bundle.rows is None:
        return ()
    with refusing():
        raw = [part for part in _metrics_in_part(bundle, evidence) if part[3] == "raw"]
    return tuple(Difference(place, _shown(a), _shown(b)) for place, a, b, _ in raw if not _same(place, a, b))


def _is_complete(bundle: Bundle, evidence: Evidence) -> bool:
    """Return whether all models of the audit are in the bundle."""
    if evidence.design == "matched" and "texts" in bundle.withheld:
        return False  # the test of the format needs them
    if evidence.design != "zero-run":  # a design that covariates refuted is refuted again with them only
        withheld = any(name in ("covariates", "texts") for name in bundle.withheld)
        return not (withheld and bundle.findings.verdict.status == "refused")
    return bundle.share == "all" and (not bundle.programs or _nuisance(bundle) is not None)


def _nuisance(bundle: Bundle) -> Nuisance | None:
    """Return the given propensity of the bundle, row by row, as a nuisance model."""
    design = {str(name) for name in bundle.columns.get("design", np.empty(0)).tolist()[:1]}
    if design != {"zero-run"}:
        return None
    if bundle.programs != contents.GIVEN or bundle.propensity is None or bundle.rows is not None:
        return None
    return Nuisance(propensity=bundle.propensity)


def _why_in_part(bundle: Bundle) -> tuple[str, ...]:
    missing = bundle.programs and f"the author's own models ({bundle.programs}) are not in the bundle"
    missing = missing or "covariates are withheld"
    if bundle.findings.design == "matched":
        return ("The test of the format, the rank test, bounds and the verdict: texts are withheld.",)
    return (
        f"Overlap, balance and the learning curve; intervals of corrected metrics; sensitivity; bounds: {missing}. The "
        "values of corrected metrics are recomputed from the propensities in the bundle.",
    )


def _in_part(bundle: Bundle, evidence: Evidence) -> Iterator[tuple[str, Any, Any]]:
    """Yield what needs neither covariates nor the author's models: metrics, counts, plan, digest."""
    stated = bundle.findings
    audited = _audited(bundle, evidence)
    digest = evidence.digest
    if bundle.share != "all":
        digest = sharing.digest_of(bundle.columns)
    yield "findings.evidence.digest", stated.evidence["digest"], digest
    yield "findings.design", stated.design, evidence.design
    yield "findings.counts.member_records", stated.counts.member_records, audited.n_members
    yield "findings.counts.nonmember_records", stated.counts.nonmember_records, audited.n_nonmembers
    chosen = {name: option for name, option in plain(bundle.plan.to_dict()).items() if option is not None}
    yield from _paired("findings.plan", {name: stated.plan.get(name) for name in chosen}, chosen, ())
    if stated.metrics != stated.scores[0].metrics:  # two places for one thing: nothing to count as recomputed
        content = stated.to_dict()
        yield from _paired("findings.metrics", content["metrics"], content["scores"][0]["metrics"], ())
    for place, a, b, _ in _metrics_in_part(bundle, evidence):
        yield place, a, b


def _metrics_in_part(bundle: Bundle, evidence: Evidence) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield the raw metrics of every score, and Hajek metrics from stored propensities."""
    confidence, audited = _case(bundle, evidence).confidence, _audited(bundle, evidence)
    for i, stated in enumerate(bundle.findings.scores):
        one = audited.only(stated.score)
        for j, metric in enumerate(stated.metrics):
            place = f"findings.scores[{i}].metrics[{j}]"
            if metric.estimator == "raw":
                estimate = definition.of(metric.name).estimate(Sample.of(one), confidence=confidence)
                for name in ("value", "low", "high"):
                    yield f"{place}.{name}", getattr(metric, name), _finite(getattr(estimate, name)), "raw"
            elif metric.estimator == "hajek" and bundle.propensity is not None:
                value = _hajek(one, bundle, metric.name)
                if value is not None:
                    yield f"{place}.{_ESTIMATED}", getattr(metric, _ESTIMATED), _finite(value), "hajek"


def _audited(bundle: Bundle, evidence: Evidence) -> Evidence:
    """Return the audited records: a bundle without propensities names none, and the stored generator chooses again."""
    if bundle.rows is not None:
        return evidence.take(bundle.rows)
    return evidence if evidence.inclusion is None else _case(bundle, evidence).audited


def _case(bundle: Bundle, evidence: Evidence) -> Case:
    plan = paid(bundle.plan, evidence, _sealed_coins(bundle, evidence))
    return choose(evidence, plan, rng=AuditStreams.of(written_plan.generator_at(bundle.random)).choice)


def _hajek(one: Evidence, bundle: Bundle, name: str) -> float | None:
    metric = definition.of(name)
    if bundle.propensity is None or (metric.fpr is None and name not in ("auc", "ate")):
        return None
    rng = np.random.default_rng(0)  # the value draws nothing
    return effects.of(metric)(one, bundle.propensity, method="hajek", rng=rng).value


def _paired(place: str, stated: Any, again: Any, skipped: Sequence[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the leaves of two trees of plain values by place; a branch of one tree is one leaf."""
    if place in skipped:
        return
    if isinstance(stated, Mapping) and isinstance(again, Mapping):
        for key in dict.fromkeys([*stated, *again]):
            yield from _paired(f"{place}.{key}", stated.get(key), again.get(key), skipped)
    elif isinstance(stated, list) and isinstance(again, list) and len(stated) == len(again):
        for i, (a, b) in enumerate(zip(stated, again, strict=True)):
            yield from _paired(f"{place}[{i}]", a, b, skipped)
    else:
        yield place, stated, again


def _same(place: str, a: Any, b: Any) -> bool:
    """Compare counts and words exactly, numbers to 1e-9."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    numbers = all(isinstance(x, int | float) for x in (a, b))
    if numbers and (isinstance(a, float) or isinstance(b, float)):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=0.0 if _SMALL.match(place) else _LAST_DIGIT)
    return bool(a == b)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _shown(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


def _environment(bundle: Bundle) -> tuple[str, ...]:
    here = contents.environment()
    return tuple(
        f"{name} {bundle.environment.get(name, 'unknown')!s:.40} there, {version} here"
        for name, version in here.items()
        if bundle.environment.get(name) != version
    )
