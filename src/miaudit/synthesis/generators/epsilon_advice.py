"""Advice on epsilon: whether the ledger leaves room for another release, and what this one takes."""

from __future__ import annotations

from dataclasses import replace

from miaudit.errors import MiauditError
from miaudit.metrics.rounding import lower_text, upper_text
from miaudit.synthesis.generators.ledger import NEW_PROMISE, Ledger
from miaudit.synthesis.generators.settled_release import SettledRelease


def epsilon_advice(settled: SettledRelease, ledger: Ledger | None) -> dict[str, str]:
    """Say whether the ledger, with this release, leaves room for a release with twice the epsilon; if not, what to do.

    Returns ``larger``, or, where nothing is left for any other release, ``first``; nothing without privacy.
    """
    privacy = settled.recipe.privacy
    if privacy is None:
        return {}
    twice = None if privacy.epsilon is None else 2 * privacy.epsilon
    such = "" if twice is None else f", such as {twice:g}"
    if ledger is None:
        return {"larger": f"a larger epsilon{such}: all releases of this table add up"}
    total = None if twice is None else _total_with_another(settled, ledger, twice)
    adds, then = "", ""
    if total is not None:
        adds = f", to a total epsilon of {upper_text(total, 3)}"
        then = f"; with epsilon {twice:g} the total would be {upper_text(total, 3)}"
    if ledger.budget is None:
        return {"larger": f"a larger epsilon{such}: all releases of this table add up{adds}"}
    budget = ledger.budget.value
    if ledger.is_spent:
        none = f"nothing is left of the ledger's budget of {budget:g}, and whatever is changed is another release"
        return {"first": f"{none}: the budget was decided beforehand, and {NEW_PROMISE}{then}"}
    room = f"the ledger has {lower_text(ledger.left or 0.0, 3)} of {budget:g} left"
    if twice is not None and (total is None or total > budget):
        return {"larger": f"a larger epsilon: {room}, too little for twice as much; {NEW_PROMISE}{then}"}
    return {"larger": f"a larger epsilon{such}: {room}, and all releases add up{adds}"}


def budget_share(ledger: Ledger) -> str:
    """Say which share of the budget the last release of a ledger takes, and what is left for others."""
    budget, left = ledger.budget, ledger.left
    if budget is None or left is None:
        return "The ledger has no budget: nothing limits what all releases of this table give away together."
    before = replace(ledger, entries=ledger.entries[:-1]).left or 0.0
    spends = f"This release spends {upper_text(before - left, 3)} of the ledger's budget of {budget.value:g}"
    if ledger.is_spent:
        return f"{spends}: nothing is left for a second. If you may need one, decide on a larger budget now."
    return f"{spends}: {lower_text(left, 3)} is left for others."


def _total_with_another(settled: SettledRelease, ledger: Ledger, epsilon: float) -> float | None:
    """Return the epsilon of all releases of a ledger and one more at an epsilon; None where no noise gives it."""
    assert settled.recipe.privacy is not None  # noqa: S101 - by its caller
    privacy = replace(settled.recipe.privacy, epsilon=epsilon)
    another = replace(settled, recipe=replace(settled.recipe, privacy=privacy))
    delta = privacy.resolved_delta if ledger.budget is None else ledger.budget.delta
    try:
        more = replace(ledger, budget=None).with_entry("", another.mechanism, neighbours=privacy.neighbours)
        total = more.total(delta)
    except MiauditError:
        return None
    return None if total is None else total.value
