"""What a second reader found could mislead, each with the case that showed it."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence, Findings, Plan, audit
from miaudit.auditing.headline import Exploratory, Split
from miaudit.errors import InputError
from miaudit.metrics.classical import Sample


def audited(evidence: Evidence, plan: Plan | None = None) -> Findings:
    return audit(evidence, plan=plan, rng=np.random.default_rng(0))


def scores(n: int, shifts: dict[str, float], **fields: object) -> Evidence:
    rng = np.random.default_rng(1)
    member = np.arange(2 * n) < n
    named = {name: rng.normal(size=2 * n) + shift * member for name, shift in shifts.items()}
    return Evidence(score=named, member=member, design="one-run", **fields)


@pytest.mark.long
def test_a_limit_can_only_be_exceeded_where_it_can_be_resolved_at_the_corrected_level() -> None:
    """5,000 non-members resolve 0.1% FPR for three limits of one score, but not for those of two scores."""
    both, one = scores(5000, {"a": 3.0, "b": 3.0}), scores(5000, {"a": 3.0})
    found = audited(one), audited(both)
    exceeded = [{limit.limit for limit in each.verdict.exceeded} for each in found]
    assert "tpr_at_fpr_0.001" in exceeded[0]
    assert "tpr_at_fpr_0.001" not in exceeded[1]
    assert {"tpr_at_fpr_0.01", "tpr_at_fpr_0.1"} <= exceeded[1]
    assert [each.verdict.status for each in found] == ["flagged", "flagged"]


@pytest.mark.thorough
@pytest.mark.long
def test_groups_of_the_best_of_several_scores_pay_for_the_choice() -> None:
    group = np.tile([0, 1], 500)
    names = {f"s{i}": 0.0 for i in range(20)}
    many = audited(scores(500, names, group=group), Plan(fpr_targets=(0.1,)))
    best = many.scores[0].score
    alone = audited(scores(500, names, group=group).only(best), Plan(fpr_targets=(0.1,)))
    for wide, narrow in zip(many.groups, alone.groups, strict=True):
        a, b = (next(m for m in one.metrics if m.name == "auc") for one in (wide, narrow))
        assert a.value == b.value
        assert a.high - a.low > 1.2 * (b.high - b.low)
    loose = audited(scores(500, names, group=group), Plan(fpr_targets=(0.1,), headline=Exploratory()))
    assert all(g.note.startswith("exploratory") for g in loose.groups)


@pytest.mark.long
def test_a_giant_unit_counts_for_what_it_is() -> None:
    """150 single records and one unit of 200 in each class: three units that count, not 151."""
    rng = np.random.default_rng(0)
    runs, misses = 300, {"auc": 0, "ate": 0}
    member = np.arange(700) < 350
    unit = np.r_[np.arange(150), np.full(200, 1000), 150 + np.arange(150), np.full(200, 2000)]
    for _ in range(runs):
        effect = dict.fromkeys([1000, 2000], 0.0) | {u: rng.normal() for u in (1000, 2000)}
        shared = np.array([effect.get(int(u), 0.0) for u in unit])
        score = np.where(unit >= 1000, shared, rng.normal(size=700))
        sample = Sample.of(Evidence(score=score, member=member, unit=unit))
        misses["auc"] += sample.auc(0.95).low > 0.5
        misses["ate"] += sample.difference(0.95).low > 0
    assert misses["auc"] / runs < 0.05
    assert misses["ate"] / runs < 0.05
    found = audited(Evidence(score=score, member=member, unit=unit, design="one-run"))
    assert found.metric("tpr_at_fpr_0.1").value is None  # three units that count resolve nothing
    assert any("One unit holds" in text for text in found.assumptions)


def test_few_units_know_little_of_their_variance() -> None:
    rng = np.random.default_rng(0)
    runs, hits = 300, 0
    unit = np.repeat(np.arange(6), 20)
    member = unit < 3
    for _ in range(runs):
        score = rng.normal(size=6)[unit] + rng.normal(size=120)
        estimate = Sample.of(Evidence(score=score, member=member, unit=unit)).auc(0.95)
        hits += estimate.low <= 0.5 <= estimate.high
    assert hits / runs > 0.93


def test_no_tpr_is_shown_below_the_resolution() -> None:
    found = audited(scores(20, {"a": 1.0}), Plan(fpr_targets=(0.1,)))
    curve = found.scores[0].curve
    assert curve is not None
    for fpr, tpr, high in zip(curve.fpr, curve.tpr, curve.high, strict=True):
        assert (tpr is None) == (fpr < found.counts.smallest_fpr * (1 - 1e-6))
        assert high > 0
    assert None in curve.tpr


def test_rows_are_those_of_the_input_even_on_a_split() -> None:
    evidence = scores(300, {"a": 1.0, "b": 0.9}, unit=np.array([f"u{i}" for i in range(600)]))
    found = audited(evidence, Plan(headline=Split(), row_level=5))
    name = found.scores[0].score
    for row in found.rows:
        assert row["unit"] == f"u{row['row']}"
        assert evidence.member[row["row"]]
        assert evidence.scores[name][row["row"]] == row["score"]


@pytest.mark.parametrize("factor", [-1.0, 0.0])
def test_scores_that_point_the_wrong_way_or_nowhere_are_remarked_upon(factor: float) -> None:
    evidence = scores(500, {"a": 2.0})
    found = audited(evidence.replace(score={"a": factor * evidence.score}))
    assert found.verdict.status != "flagged"
    words = "below one half" if factor else "says nothing of anybody"
    assert any(words in note for note in found.notes)
    assert not any(words in note for note in audited(evidence).notes)


def test_audit_says_what_it_needs() -> None:
    evidence = scores(20, {"a": 1.0})
    for arguments in ({"rng": "0"}, {"rng": -1}, {"rng": np.random.default_rng(0), "plan": {"confidence": 0.9}}):
        with pytest.raises(InputError):
            audit(evidence, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="six digits"):
        Plan(fpr_targets=(0.9999999,))
