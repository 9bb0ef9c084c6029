"""How long the plan of somebody else keeps this machine busy: estimated before it starts, stopped when it is due."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from miaudit.bundle.contents import Bundle
from miaudit.errors import InputError, MiauditError

__all__ = ["LONGEST", "at_most", "require_short", "seconds"]

LONGEST = 60.0
# Seconds of one processor core, measured; half as fast is as good.
_REPLICATE, _OF_TARGET, _OF_RECORD, _OF_BOTH = 3e-4, 2e-5, 1.5e-7, 1.2e-8
_ZERO_RUN_RECORD, _COVARIATE = 1e-3, 3e-5


class _DueError(BaseException):
    """The time is up; no handler of errors on the way may take it for one of its own."""


def seconds(bundle: Bundle) -> float:
    """Estimate the processor seconds of one audit of a bundle's records under its plan, to a factor of about 3."""
    n, plan = bundle.n, bundle.plan
    scores = sum(name == "score" or name.startswith("score.") for name in bundle.columns)
    targets = len(plan.fpr_targets)
    one = _REPLICATE + _OF_TARGET * targets + n * (_OF_RECORD + _OF_BOTH * targets)
    total = 1.0 + scores * (plan.n_bootstrap + 10) * one
    covariates = sum(
        values.shape[1] if values.ndim == 2 else 1
        for name, values in bundle.columns.items()
        if name.startswith("covariate")
    )
    return float(total + covariates * n * _COVARIATE + (n * _ZERO_RUN_RECORD if covariates else 0.0))


def require_short(bundle: Bundle, longest: float) -> None:
    """Refuse a bundle whose audit is estimated to take longer than some seconds; 0 for no limit.

    Raises
    ------
    InputError
        That says how long it would take.
    """
    expected = seconds(bundle)
    if longest and expected > longest:
        plan = bundle.plan
        received = (
            f"about {_words(expected)} ({plan.n_bootstrap:,} bootstrap replicates, {len(plan.fpr_targets):,} FPR "
            f"targets, {bundle.n:,} records)"
        )
        hint = f"add --longest {2 * expected:.0f} to allow it, or --longest 0 for no limit"
        raise InputError("bundle", f"an audit of at most {longest:g} seconds", received, hint)


@contextmanager
def at_most(longest: float) -> Iterator[None]:
    """Stop what runs in the main thread after some seconds of processor time, where the system can; 0 for no limit.

    Raises
    ------
    MiauditError
        When the time is up.
    """
    able: Any = getattr(signal, "setitimer", None)
    if not longest or able is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def due(*_: object) -> None:
        raise _DueError

    before = signal.signal(signal.SIGPROF, due)
    able(signal.ITIMER_PROF, longest)
    try:
        yield
    except _DueError:
        hint = f"add --longest {10 * longest:g} to allow more, or --longest 0 for no limit"
        raise MiauditError(
            f"bundle: its audit was stopped after {longest:g} seconds of processor time; {hint}"
        ) from None
    finally:
        able(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _words(duration: float) -> str:
    if duration < 120:
        return f"{duration:.0f} seconds"
    return f"{duration / 60:,.0f} minutes" if duration < 7200 else f"{duration / 3600:,.0f} hours"
