"""Privacy in a test suite of pytest: ``assert_private``, a function, and a fixture once miaudit is installed.

Nothing of the audit is loaded before it is called, so pytest starts as fast as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from miaudit.errors.options import check_choice

if TYPE_CHECKING:
    import numpy as np

    from miaudit import Evidence, Findings, Plan

__all__ = ["assert_private"]


def assert_private(
    audited: Evidence | Findings | str | Path,
    *,
    threshold: float | None = None,
    fpr: float | None = None,
    metric: str | None = None,
    limits: Mapping[str, float] | None = None,
    design: str | None = None,
    plan: Plan | None = None,
    rng: np.random.Generator | int | None = 0,
    on_no_answer: Literal["fail", "skip"] = "fail",
    page: str | Path | None = None,
    budget: float | None = None,
    memberships: Literal["fresh", "shared"] | None = None,
) -> Findings:
    """Fail a test where an audit raises concern, or is not answered: do not treat that as a pass.

    Parameters
    ----------
    audited : Evidence, which is audited, or findings of any kind, which are taken as they are
        Or a path of either: a file of evidence that :meth:`miaudit.Evidence.load` reads without being told columns, an
        audit's findings.json, or its results folder. With a budget, a folder with the audits of all releases.
    threshold : of the metric, in its unit (0.05 of the members, an AUC of 0.6); default: that of the metric
    fpr : the only limit is then on the share of members identified at this false-positive rate, in (0, 1)
    metric : of the only limit, such as "auc" or "tpr_at_fpr_0.01", in the place of ``fpr``
    limits : as of :class:`miaudit.Plan`, in the place of the three; default: the default limits of every audit
    design : how membership came about, "one-run", "multi-run", "matched" or "zero-run", where the evidence does not say
    plan : miaudit.Plan, optional
        Every other option of the audit; ``threshold``, ``metric``, ``fpr`` and ``limits`` go before it.
    rng : as of :func:`miaudit.audit`; the default is a fixed seed, so that the same evidence always passes or fails
    on_no_answer : "fail", or "skip" the test, where an audit is inconclusive, not testable or refused
    page : path, optional
        Where the page goes, whatever the outcome; an earlier one is replaced.
    budget : probability of a false alarm over the whole life of a model, in (0, 0.5]
        The folder is then a history, as of :func:`miaudit.history`: the test fails where any release raised an alarm.
    memberships : "fresh" or "shared", as of :func:`miaudit.history`

    Returns
    -------
    Findings
        Of an audit within the limits, or of a history without an alarm.

    Raises
    ------
    InputError
        For anything else to audit, and options for findings, which were decided before the audit.

    Examples
    --------
    >>> import numpy as np, miaudit as ma
    >>> rng = np.random.default_rng(0)
    >>> member, noise = rng.random(4000) < 0.5, rng.normal(size=4000)
    >>> assert_private(ma.Evidence(score=noise, member=member), fpr=0.1, threshold=0.2, design="one-run").exit_code
    0
    >>> assert_private(ma.Evidence(score=noise + 2 * member, member=member), fpr=0.1, threshold=0.2, design="one-run")
    Traceback (most recent call last):
    Failed: assert_private: concern
    Concern: with 95% confidence, the share of members found at a false-positive rate of 10% is at least ...
    """
    __tracebackhide__ = True
    import miaudit as ma

    check_choice("on_no_answer", on_no_answer, ("fail", "skip"))
    chosen = {"threshold": threshold, "fpr": fpr, "metric": metric, "limits": limits, "design": design, "plan": plan}
    if budget is not None:
        audited = _history(audited, budget, memberships)
    elif memberships is not None:
        raise ma.errors.InputError("memberships", "none without a budget", repr(memberships)[:60], "state a budget")
    if isinstance(audited, str | Path):
        audited = ma.Findings.read(audited) if _holds_findings(Path(audited)) else ma.Evidence.load(audited)
    if isinstance(audited, ma.Evidence):
        evidence = audited if design is None else audited.replace(design=design)
        findings = ma.audit(evidence, plan=_planned(plan, threshold, fpr, metric, limits), rng=rng)
    elif hasattr(audited, "exit_code") and hasattr(audited, "to_html"):
        given = [name for name, value in chosen.items() if value is not None]
        if given:
            hint = "it was decided before the audit: pass the evidence to decide it here"
            raise ma.errors.InputError(given[0], "none, for findings", repr(chosen[given[0]])[:60], hint)
        findings = audited
    else:
        hint = "pass miaudit.Evidence(...), what an audit returns, or the path of either"
        raise ma.errors.InputError("audited", "Evidence, findings or a path", type(audited).__name__, hint)
    if page is not None:
        findings.to_html(page, overwrite=True)
    said = "" if page is None else f"\nPage: {page}"
    if findings.exit_code == 3:
        pytest.fail(f"assert_private: concern\n{findings}{said}", pytrace=False)
    if findings.exit_code == 4:
        if on_no_answer == "skip":
            pytest.skip(f"assert_private: not answered: {str(findings).splitlines()[0]}{said}")
        advice = 'on_no_answer="skip" lets it through'
        pytest.fail(f"assert_private: not answered, which is not a pass ({advice})\n{findings}{said}", pytrace=False)
    return findings


def _holds_findings(path: Path) -> bool:
    """Whether a path is that of findings, and not of evidence."""
    return path.is_dir() or path.suffix.lower() == ".json"


def _history(folder: Any, budget: float, memberships: Literal["fresh", "shared"] | None) -> Any:
    """Judge the audits of all releases in a folder with one budget of false alarms."""
    import miaudit as ma

    if not isinstance(folder, str | Path):
        hint = "pass the folder that holds the audits of all releases"
        raise ma.errors.InputError("audited", "a folder, with a budget", type(folder).__name__, hint)
    return ma.history(folder, budget=budget, memberships=memberships)


def _planned(
    plan: Plan | None,
    threshold: float | None,
    fpr: float | None,
    metric: str | None,
    limits: Mapping[str, float] | None,
) -> Plan:
    """Put the limits, or the threshold and the rate or the metric, into a plan; those of the plan go."""
    from dataclasses import replace

    import miaudit as ma

    if fpr is not None and metric is not None:
        received = f"{metric!r} and fpr={fpr}"[:60]
        raise ma.errors.InputError("metric", "a metric or a rate", received, "leave one of them out")
    plan, changes = plan or ma.Plan(), dict[str, Any]()
    alone = {"threshold": threshold, "fpr": fpr, "metric": metric}
    if limits is not None:
        for name, value in alone.items():
            if value is not None:
                raise ma.errors.InputError(name, "none beside limits", repr(value)[:60], "write it as a limit")
        return replace(plan, limits=limits, primary_metric=None, threshold_for_concern=None)
    if any(value is not None for value in alone.values()):
        changes["limits"] = None
    if metric is not None:
        changes["primary_metric"] = metric
        fpr = ma.metrics.definition.of(metric).fpr
    if fpr is not None:
        changes |= {"fpr_targets": tuple(sorted({*plan.fpr_targets, fpr})), "primary_metric": f"tpr_at_fpr_{fpr:g}"}
    if threshold is not None:
        changes["threshold_for_concern"] = threshold
    return replace(plan, **changes)


@pytest.fixture(name="assert_private")
def _assert_private() -> Callable[..., Findings]:
    """Fail the test where an audit of evidence raises concern or is not answered: miaudit.testing.assert_private."""
    return assert_private
