"""Worlds in which a shift hides: what the simulation leaves out changes no result, and its count of wrong limits."""

from __future__ import annotations

from pathlib import Path

from causal_mia import hidden_worlds
from threadpoolctl import threadpool_limits


def test_what_is_left_out_of_a_simulated_audit_changes_nothing_that_it_counts() -> None:
    with threadpool_limits(1):
        quick, whole = (hidden_worlds.audit("ring", 600, 3, Path(), drawn=drawn) for drawn in (False, True))
    assert quick == whole
    assert quick["tpr_at_fpr_0.1"][1] > 0  # of an audit that has an answer


def test_limits_on_the_wrong_side_of_the_truth_are_counted() -> None:
    rows = [{"auc": [0.55, 0.51, 0.6]}, {"auc": [0.5, 0.45, 0.55]}, {"auc": [0.4, 0.3, 0.49]}, {"auc": None}, {}]
    assert hidden_worlds.wrong(rows, "ring", "auc") == (1, 1)
    assert hidden_worlds.wrong(rows, "hide50", "auc")[1] == 4 - 1  # its truth is far above
