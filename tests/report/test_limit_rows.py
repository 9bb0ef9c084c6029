"""The table of limits: one row for each limit, about the score that is nearest to exceeding it."""

from __future__ import annotations

from miaudit.findings.verdict import LimitResult
from miaudit.report.limit_rows import limit_rows


def test_a_limit_that_one_score_exceeds_is_exceeded() -> None:
    within = LimitResult("auc", "noise", 0.48, 0.52, 0.6, 1.0, "within")
    over = LimitResult("auc", "loss", 0.61, 0.66, 0.6, 0.001, "exceeded")
    for order in ((within, over), (over, within)):
        (row,) = limit_rows(order, several_scores=True)
        assert (row["outcome"], row["score"], row["tone"]) == ("above the limit", "loss", "flagged")
    (row,) = limit_rows([within])
    assert (row["outcome"], row["score"], row["measured"]) == ("below the limit", "", "at most 0.520")


def test_what_is_open_shows_both_ends_or_says_why_it_cannot() -> None:
    resolved = LimitResult("tpr_at_fpr_0.1", "loss", 0.2, 0.3, 0.25, 0.5, "open")
    few = LimitResult("tpr_at_fpr_0.001", "loss", 0.0, 0.3, 0.02, 1.0, "open", resolved=False)
    first, second = limit_rows([resolved, few])
    assert (first["measured"], first["note"]) == ("20% to 30%", "")
    assert second["measured"] == "at most 30%" and "so few non-members" in second["note"]


def test_the_surest_members_are_counts_and_silence_clears_nothing() -> None:
    (row,) = limit_rows([LimitResult("surest_members", "loss", 30.0, 36.0, 0.9, 0.7, "silent")])
    assert row["measured"] == "30 of the 36 highest scores are members"
    assert (row["outcome"], row["tone"]) == ("no alarm", "")


def test_what_is_within_its_limit_on_a_condition_is_not_green() -> None:
    within = LimitResult("auc", "loss", 0.48, 0.52, 0.6, 1.0, "within")
    over = LimitResult("auc", "loss", 0.61, 0.66, 0.6, 0.001, "exceeded")
    tones = {
        conditional: [limit_rows([one], conditional=conditional)[0]["tone"] for one in (within, over)]
        for conditional in (False, True)
    }
    assert tones == {False: ["clear", "flagged"], True: ["inconclusive", "flagged"]}
