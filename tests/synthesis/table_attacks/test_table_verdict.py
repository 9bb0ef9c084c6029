"""The verdict on a table: which attacks decide, the level of concern, what is clear, and what would settle the rest."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from miaudit.findings.table import PositiveControl, TableVerdict, opened_with
from miaudit.synthesis.table_attacks.success_rates import Comparison, compare
from miaudit.synthesis.table_attacks.table_verdict import judge, rows, without_answer

SEEN = PositiveControl(20, 0.01, 0.01, 0.0, 10, 10, 9, True)
LIMITS = {"threshold": 0.05, "confidence": 0.95}


def attack(name: str, members: float, control: float, n: int = 2000) -> Comparison:
    order = np.arange(n)
    return compare(name, order < round(members * n), order < round(control * n))


def verdict(
    *parts: Comparison, secrets: tuple[str, ...] = (), control: PositiveControl = SEEN, enough: int | None = 600
) -> TableVerdict:
    available = parts[0].members.trials, parts[0].control.trials
    return judge(rows(parts, secrets, **LIMITS), control, enough=enough, available=available, **LIMITS)


NO_COPIES = attack("copies", 0, 0)
WEAK = attack("inference: age", 0.5, 0.5, 200)  # an interval of ten points on either side


def test_a_weak_attack_that_informs_keeps_no_verdict_open() -> None:
    assert verdict(NO_COPIES, WEAK).status == "clear"
    declared = verdict(NO_COPIES, WEAK, secrets=("age",))  # the control: the same attack decides
    assert declared.status == "inconclusive"
    assert [one.limit for one in declared.unresolved] == ["secret: age"]
    assert (declared.unresolved[0].score, declared.unresolved[0].threshold) == ("inference: age", 0.05)


def test_an_informing_attack_never_flags_and_a_declared_secret_does() -> None:
    leak = attack("inference: age", 0.7, 0.5)
    assert verdict(NO_COPIES, leak).status == "clear"
    assert rows([NO_COPIES, leak], (), **LIMITS)[1].above_chance
    flagged = verdict(NO_COPIES, leak, secrets=("age",))
    assert (flagged.status, flagged.exit_code, flagged.unresolved) == ("flagged", 3, ())
    limited = flagged.exceeded[0]
    assert limited.limit == "secret: age" and limited.low is not None and 0.05 < limited.low < 0.2
    assert limited.p is not None and limited.p < 1e-6


def test_any_excess_of_copies_flags_and_one_within_the_limit_may_be_clear() -> None:
    assert verdict(attack("copies", 0.01, 0)).exceeded[0].limit == "copies"
    assert verdict(attack("copies", 0.012, 0.01)).status == "clear"  # no excess is shown, and at most 0.9 points
    wide = verdict(attack("copies", 0.5, 0.49))
    assert wide.status == "clear"
    assert verdict(attack("copies", 0.5, 0.49, 400)).status == "inconclusive"


def test_an_excess_within_a_stated_limit_is_proven_all_the_same() -> None:
    """Clear, and where the positive control was not seen: neither says that nothing was found."""
    part, stated = attack("copies", 0.02, 0.0), {**LIMITS, "copies": 0.05}
    blind = replace(SEEN, copies=5, seen=3, found=False)
    for control, status in ((SEEN, "clear"), (blind, "inconclusive")):
        found = judge(rows([part], (), **stated), control, available=(2000, 2000), **stated)
        assert found.status == status
        assert "Proven even so: exact copies are at least 1." in found.text
        assert "Proven" not in judge(rows([NO_COPIES], (), **stated), control, available=(2000, 2000), **stated).text


def test_near_copies_flag_and_else_keep_no_verdict_open() -> None:
    common = attack("copies but for one column", 0.5, 0.5, 200)  # an interval of ten points on either side
    assert verdict(NO_COPIES, common).status == "clear"
    assert [part.status for part in rows([NO_COPIES, common], (), **LIMITS)] == ["clear", None]
    found = verdict(
        NO_COPIES, attack("copies but for last digits", 0.02, 0.0), attack("copies but for one column", 0.2, 0.18)
    )
    assert (found.status, [one.score for one in found.exceeded]) == ("flagged", ["copies but for last digits"])
    assert "40 of 2,000 members and 0 of 2,000 control records are in the table but for the last digits" in found.text
    one = verdict(NO_COPIES, attack("copies but for one column", 0.03, 0.001))
    assert "60 of 2,000 members and 2 of 2,000 control records are in the table but for one column" in one.text


def test_of_copies_that_all_tests_see_only_the_strictest_is_named() -> None:
    kinds = "copies without patient_id", "copies but for last digits", "copies but for one column"
    found = verdict(*(attack(name, 0.02, 0.0) for name in kinds))
    assert [one.score for one in found.exceeded] == list(kinds)
    assert found.text.endswith("are in the table but for patient_id.") and "last digits" not in found.text
    more = verdict(attack("copies", 0.02, 0.0), attack("copies but for one column", 0.2, 0.0))
    assert "exact copies" in more.text and "400 of 2,000 members" in more.text  # the control: far more near copies


def test_tests_of_copies_share_one_part_of_the_level() -> None:
    """Copies alone, three tests of copies, and three tests of copies beside two secrets: one third, one ninth."""
    kinds = "copies", "copies but for last digits", "copies but for one column"
    parts = [attack(name, 0.006, 0.001) for name in kinds]
    low = {count: rows(parts[:count], (), **LIMITS)[0].corrected_low for count in (1, 3)}
    assert low[1] == pytest.approx(parts[0].low_at(0.95)) and low[3] == pytest.approx(parts[0].low_at(1 - 0.05 / 3))
    secrets = [attack(f"inference: {name}", 0.5, 0.5) for name in "ab"]
    joint = rows([*parts, *secrets], ("a", "b"), **LIMITS)
    assert joint[0].corrected_low == pytest.approx(parts[0].low_at(1 - 0.05 / 9))
    assert joint[3].corrected_low == pytest.approx(secrets[0].low_at(1 - 0.05 / 3))


def test_few_copies_need_fishers_test() -> None:
    few = attack("copies", 0.09, 0.02, 100)
    assert few.leaks and few.exact == pytest.approx(0.029, abs=0.001)
    found = rows([few], (), **LIMITS)[0]
    assert (found.status, found.p) == ("inconclusive", few.exact)
    assert verdict(attack("copies", 0.1, 0.02, 100)).status == "flagged"  # the control


def test_a_control_with_changed_cells_that_is_not_seen_is_named_and_blocks_nothing() -> None:
    near = replace(SEEN, seen=3, found=False, changed=1)
    judged = judge(rows([NO_COPIES], (), **LIMITS), SEEN, near, available=(2000, 2000), **LIMITS)
    assert judged.status == "clear" and "with one cell changed (1% of the members) in 3 of 10" in judged.text
    seen = judge(rows([NO_COPIES], (), **LIMITS), SEEN, replace(SEEN, changed=1), available=(2000, 2000), **LIMITS)
    assert seen.status == "clear" and "cell" not in seen.text


def test_clear_needs_no_correction_for_the_number_of_limits_and_concern_does() -> None:
    """An upper limit of 4.9 points alone is clear, however many secrets there are; a lower one must outlive them."""
    close = [attack(f"inference: {name}", 0.5, 0.4825) for name in "abcdef"]
    assert 0.045 < close[0].difference.high < 0.05
    assert verdict(NO_COPIES, *close, secrets=tuple("abcdef")).status == "clear"
    alone = attack("inference: a", 0.5, 0.415)
    assert 0.05 < alone.difference.low < 0.056
    assert verdict(NO_COPIES, alone, secrets=("a",)).status == "inconclusive"  # of two limits
    assert alone.p_value(0.05) == pytest.approx(0.02, abs=0.01)


def test_clear_needs_the_positive_control() -> None:
    blind = replace(SEEN, copies=5, seen=3, found=False)
    found = verdict(NO_COPIES, control=blind)
    assert (found.status, [one.limit for one in found.unresolved]) == ("inconclusive", ["copies"])
    assert "the positive control was not seen" in found.text and "in 3 of 10 repetitions" in found.text
    assert "About 630 members and 630 control records would settle it" in found.text
    none = verdict(NO_COPIES, control=blind, enough=None)
    assert "Columns that tell records apart would settle it" in none.text
    assert verdict(attack("copies", 0.05, 0), control=blind).status == "flagged"


@pytest.mark.parametrize("difference", [0.0, 0.02, 0.08])
def test_with_as_many_records_as_it_names_an_open_question_is_settled(difference: float) -> None:
    """The same difference with the named numbers of records is flagged or clear, and with half of the gap it is not."""

    def at(n: int) -> TableVerdict:
        return verdict(NO_COPIES, attack("inference: age", 0.5 + difference, 0.5, n), secrets=("age",))

    found = at(600)
    assert found.status == "inconclusive" and "secret 'age' is open" in found.text
    named = re.search(r"About ([\d,]+) members", found.text)
    assert named is not None
    needed = int(named[1].replace(",", ""))
    assert at(round(needed * 1.02)).status == ("flagged" if difference > 0.05 else "clear")
    assert at((600 + needed) // 2).status == "inconclusive"


def test_an_excess_at_the_limit_is_not_settled_by_more_records() -> None:
    found = verdict(NO_COPIES, attack("inference: age", 0.55, 0.5), secrets=("age",))
    assert "more records will hardly settle it" in found.text


def test_records_that_were_not_attacked_are_named_before_new_ones() -> None:
    part = attack("inference: age", 0.52, 0.5, 1000)
    attacks = rows([NO_COPIES, part], ("age",), **LIMITS)
    found = judge(attacks, SEEN, enough=600, available=(50_000, 50_000), **LIMITS)
    assert "the files hold as many, so raise the number of attacked records (records)" in found.text


@pytest.mark.thorough
@pytest.mark.long
def test_false_concern_and_false_clear_keep_their_levels() -> None:
    """Four secrets leak exactly five points, the limit: concern in 2.5% of audits, and one alone is clear in 2.5%."""
    rng = np.random.default_rng(5)
    n, runs, names = 1500, 300, "abcd"
    flagged = clear = uncorrected = 0
    for _ in range(runs):
        drawn = rng.binomial(n, [0.55, 0.5], (4, 2))
        parts = [
            compare(f"inference: {name}", np.arange(n) < inside, np.arange(n) < outside)
            for name, (inside, outside) in zip(names, drawn, strict=True)
        ]
        flagged += verdict(NO_COPIES, *parts, secrets=tuple(names)).status == "flagged"
        clear += verdict(NO_COPIES, parts[0], secrets=("a",)).status == "clear"
        uncorrected += any(part.difference.low > 0.05 for part in parts)
    most = 0.025 * runs + 2.5 * np.sqrt(0.025 * runs)  # 14
    assert flagged <= most and clear <= most
    assert uncorrected > most  # control: 1 - .975^4 = 10%


def test_without_a_design_or_without_an_interval_there_is_no_answer() -> None:
    judged = verdict(attack("copies", 0.02, 0))
    none = without_answer(judged, None, "")
    assert (none.status, none.reason, none.exceeded) == ("not-testable", "undeclared", ())
    assert none.text.startswith("Not answered (undeclared): ") and none.text.endswith(judged.text)
    shifted = without_answer(judged, "zero-run", "")
    assert (shifted.status, shifted.reason) == ("not-testable", None)
    refused = without_answer(judged, "one-run", "equal rows.")
    assert (refused.status, refused.text) == ("refused", "Not answered (refused): equal rows.")
    assert without_answer(judged, "one-run", "") is judged


@pytest.mark.parametrize("text", ["Concern: a.", "Within the limits: a.", "Not answered (inconclusive): a. b: c."])
def test_a_proof_stands_in_the_first_sentence_whatever_the_status(text: str) -> None:
    found = opened_with(text, "an epsilon of at least 0.3 is proven")
    assert "an epsilon of at least 0.3 is proven" in found.partition(". ")[0] + "."
    assert found.startswith(text.partition(":")[0]) and found.endswith(text.partition(": ")[2])
    assert opened_with(found, "an epsilon of at least 0.3 is proven") == found
    assert opened_with("Another text.", "an epsilon is proven") == "An epsilon is proven. Another text."
