"""Units: intervals and counts are of persons, not of records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.metrics import bootstrap, classical
from miaudit.metrics.classical import Sample
from miaudit.metrics.definition import estimates
from miaudit.metrics.definition import names as metric_names
from miaudit.metrics.units import Units
from worlds.clusters import Clusters
from worlds.scores import WORLDS

TARGETS = (0.02, 0.1)


def drawn(n: int = 400, seed: int = 0) -> Evidence:
    score, member = WORLDS["gaussian"].draw(n, n, np.random.default_rng(seed))
    return Evidence(score=score, member=member)


def repeated(evidence: Evidence, k: int, *, with_units: bool) -> Evidence:
    rows = np.repeat(np.arange(evidence.n), k)
    return evidence.take(rows).replace(unit=rows if with_units else None)


@pytest.mark.parametrize("k", [2, 5])
def test_duplicates_with_unit_ids_change_nothing(k: int) -> None:
    alone = estimates(Sample.of(drawn()), metric_names(TARGETS), 0.95)
    units = estimates(Sample.of(repeated(drawn(), k, with_units=True)), metric_names(TARGETS), 0.95)
    records = estimates(Sample.of(repeated(drawn(), k, with_units=False)), metric_names(TARGETS), 0.95)
    for name, found in units.items():
        assert found.value == pytest.approx(alone[name].value, abs=1e-12)
        width, same = found.high - found.low, alone[name].high - alone[name].low
        most = 1.35 if name.startswith("tpr") else 1.02  # few accused units are not believed about their own variance
        assert 0.95 * same <= width <= most * same, name
        shrunk = records[name].high - records[name].low
        assert shrunk < 0.85 * same, name  # control: duplicates passed off as new records


def test_counts_are_of_units() -> None:
    evidence = repeated(drawn(50), 3, with_units=True)
    sample = Sample.of(evidence)
    assert (sample.independent_members, sample.independent_nonmembers) == (50, 50)
    findings = audit(evidence, plan=Plan(fpr_targets=(0.1,)), rng=np.random.default_rng(0))
    assert (findings.counts.members, findings.counts.nonmembers, findings.counts.of) == (50, 50, "units")
    assert (findings.counts.member_records, findings.counts.nonmember_records) == (150, 150)
    assert any("units of members" in text for text in findings.assumptions)


def test_units_that_never_repeat_are_records() -> None:
    evidence = drawn(50)
    named = evidence.replace(unit=[f"person {i}" for i in range(100)])
    assert named.unit_codes is None
    assert estimates(Sample.of(named), metric_names(TARGETS), 0.95) == estimates(
        Sample.of(evidence), metric_names(TARGETS), 0.95
    )


def test_the_variance_is_the_cluster_robust_one() -> None:
    """Against a plain loop over units, and against the variance of records where each is a unit of its own."""
    rng = np.random.default_rng(1)
    code = np.r_[np.arange(30), rng.integers(0, 30, 170)]
    member = rng.random(200) < 0.5
    influence = rng.normal(size=200)
    influence -= influence.mean()
    units = Units.of(code, member)
    total = sum(influence[code == u].sum() ** 2 for u in range(30))
    assert units.variance(influence) == pytest.approx(total * 30 / 29)
    alone = Units.of(np.arange(200), member)
    assert alone.variance(influence / 200) == pytest.approx(influence.var(ddof=1) / 200)
    hit = rng.random(200) < 0.3
    variance, holders = alone.share_variance(alone.code[hit & member], members=True)
    assert variance == pytest.approx(hit[member].var(ddof=1) / member.sum())
    assert holders == hit[member].sum()
    sizes = np.bincount(code[member])
    assert units.effective_members == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum())
    assert units.members == (sizes > 0).sum()


@pytest.mark.long
@pytest.mark.parametrize(
    "world",
    [
        Clusters(250, 5, 0.7, 1.0, varying=True),
        Clusters(250, 5, 0.7, 1.0, varying=True, mixed=True),
        Clusters(300, 3, 0.0, 0.5),
    ],
)
def test_obuchowski_and_the_unit_bootstrap_agree(world: Clusters) -> None:
    score, member, unit = world.draw(np.random.default_rng(2))
    sample = Sample.of(Evidence(score=score, member=member, unit=unit))
    drawn = bootstrap.replicates(sample, (0.1,), 1500, rng=np.random.default_rng(3))
    formula = np.sqrt(sample._clustered_auc_variance(sample.units))
    assert drawn.auc.std(ddof=1) == pytest.approx(formula, rel=0.1)
    influence = np.where(
        member, (score - score[member].mean()) / member.sum(), -(score - score[~member].mean()) / (~member).sum()
    )
    effect = np.sqrt(Units.of(sample.units.code, member).variance(influence))
    assert drawn.difference.std(ddof=1) == pytest.approx(effect, rel=0.1)
    alone = bootstrap.replicates(
        Sample.of(Evidence(score=score, member=member)), (0.1,), 600, rng=np.random.default_rng(3)
    )
    if world.correlation and not world.mixed:
        assert alone.auc.std(ddof=1) < 0.75 * formula  # control: records that are not independent


def test_units_of_both_classes_gain_from_the_pairing() -> None:
    """What a person adds to members and non-members alike cancels: the interval must know."""
    score, member, unit = Clusters(300, 4, 0.9, 0.3, mixed=True).draw(np.random.default_rng(4))
    paired = Sample.of(Evidence(score=score, member=member, unit=unit)).difference(0.95)
    apart = Sample.of(Evidence(score=score, member=member, unit=np.where(member, unit, unit + 1000))).difference(0.95)
    assert paired.value == apart.value
    assert paired.high - paired.low < 0.5 * (apart.high - apart.low)


@pytest.mark.parametrize("digits", [8, 1, 0])
@pytest.mark.parametrize("mixed", [True, False])
def test_what_is_read_off_the_sorted_scores_is_what_a_pass_over_the_records_finds(digits: int, mixed: bool) -> None:
    """To the byte: the records accused at an FPR, the variance of their rates, and that of the AUC."""
    score, member, unit = Clusters(150, 3, 0.7, 0.3, mixed=mixed).draw(np.random.default_rng(7))
    sample = Sample.of(Evidence(score=score.round(digits), member=member, unit=unit))
    units, roc = sample.units, sample.roc
    assert units is not None
    vertex = roc.blocks_of(sample.score)
    below = 1 - (roc.fpr[vertex] + roc.fpr[vertex - 1]) / 2
    above = (roc.tpr[vertex] + roc.tpr[vertex - 1]) / 2
    parts = (below - roc.auc) / roc.n_members, (above - roc.auc) / roc.n_nonmembers
    assert sample._clustered_auc_variance(units) == units.variance(np.where(member, *parts))
    seen = []
    share_variance = Units.share_variance

    def noted(self: Units, code: np.ndarray, *, members: bool) -> tuple[float, int]:
        seen.append(share_variance(self, code, members=members))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Units, "share_variance", noted)
        for fpr in (0.003, 0.05, 0.3, 0.97):
            sample._clustered_tpr_limits(units, fpr, 0.95)
    for i, fpr in enumerate((0.003, 0.05, 0.3, 0.97)):
        alarms = max(1.0, np.ceil(fpr * roc.n_nonmembers * (1 - 1e-12)))
        accused = sample.score >= roc.threshold[np.searchsorted(roc.false_positive, alarms, side="left")]
        expected = [
            units.share_variance(units.code[accused & of_class], members=of_class is member)
            for of_class in (~member, member)
        ]
        assert seen[2 * i : 2 * i + 2] == expected
    assert len(set(seen)) > 2  # the control: variances that differ between targets


@pytest.mark.parametrize("name", ["gaussian", "rounded", "constant"])
def test_obuchowski_of_single_records_is_delong(name: str) -> None:
    """Ties included: the sums of squares of the pairwise kernel, but for the small-sample factors."""
    score, member = WORLDS[name].draw(70, 50, np.random.default_rng(5))
    units = Units.of(np.arange(120), member)
    sample = replace(Sample.of(Evidence(score=score, member=member)), units=units)
    inside, outside = score[member], score[~member]
    kernel = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    expected = kernel.mean(axis=1).var() / 70 + kernel.mean(axis=0).var() / 50
    assert sample._clustered_auc_variance(units) == pytest.approx(expected * 120 / 119, rel=1e-9, abs=1e-15)


def test_few_accused_units_are_not_believed_about_their_own_variance() -> None:
    score, member, unit = Clusters(100, 4, 0.5, 1.0, varying=True).draw(np.random.default_rng(6))
    sample = Sample.of(Evidence(score=score, member=member, unit=unit))
    found = sample.tpr_at_fpr(0.05, 0.95)
    threshold = np.sort(score[~member])[::-1][int(np.ceil(0.05 * (~member).sum())) - 1]
    units, above = sample.units, score >= threshold
    measured, accused = units.share_variance(units.code[above & ~member], members=False)
    assert 3 < accused < 40
    tpr = np.mean(score[member] >= threshold)
    spread, _ = units.share_variance(units.code[above & member], members=True)
    effective = float(np.clip(tpr * (1 - tpr) / spread, units.effective_members, member.sum()))
    low, high = classical.tpr_limits_uncertain_level(sample.roc, 0.05, 0.95, measured, effective)
    assert found.low < low
    assert found.high > high


@pytest.mark.long
def test_pairs_of_a_member_and_a_nonmember_that_oppose_each_other_are_covered_where_they_are_declared() -> None:
    """Nothing leaks: every lower limit above chance is a false alarm, nominally in 2.5%."""
    n, audits = 200, 600
    alarms = {(name, declared): 0 for name in ("auc", "advantage", "ate") for declared in (True, False)}
    for i in range(audits):
        rng = np.random.default_rng([i, 9])
        first = rng.normal(size=n)
        score, member = np.r_[first, -first], np.arange(2 * n) < n
        for declared in (True, False):
            unit = np.r_[np.arange(n), np.arange(n)] if declared else None
            sample = Sample.of(Evidence(score=score, member=member, unit=unit))
            alarms["auc", declared] += sample.auc(0.95).low > 0.5
            alarms["advantage", declared] += sample.advantage(0.95).low > 0
            alarms["ate", declared] += sample.difference(0.95).low > 0
    for name in ("auc", "advantage", "ate"):
        assert alarms[name, True] <= 0.04 * audits, name
    assert alarms["auc", False] > 0.06 * audits  # control: 8%
    assert alarms["ate", False] > 0.06 * audits


def test_the_advantage_of_units_of_one_class_is_as_before() -> None:
    score, member, unit = Clusters(60, 4, 0.5, 1.0, varying=True).draw(np.random.default_rng(7))
    units = Units.of(unit, member)
    assert units.spanning == 0
    assert units.worst_variance == pytest.approx(1 / units.effective_members + 1 / units.effective_nonmembers)
    assert units.opposition(score > 0.5) == 0.0
    opposed = Units.of_classes(np.arange(50), np.arange(50))
    assert (opposed.spanning, opposed.worst_variance) == (50, pytest.approx(4 / 50))
    hit = np.arange(50) % 2 == 0
    assert opposed.opposition(np.r_[hit, ~hit]) == 1.0
    assert opposed.opposition(np.r_[hit, hit]) == 0.0


@pytest.mark.long
def test_a_household_that_was_never_accused_says_little_of_the_upper_limit_of_the_tpr() -> None:
    """Sixty households of ten equal records; a true TPR of 1% must lie below the upper limit in 97.5%."""
    missed, audits = 0, 400
    unit = np.repeat(np.arange(120), 10)
    member = unit < 60
    for i in range(audits):
        rng = np.random.default_rng([i, 11])
        score = (rng.random(120) + (rng.random(120) < 0.01))[unit]
        missed += Sample.of(Evidence(score=score, member=member, unit=unit)).tpr_at_fpr(0.01, 0.95).high < 0.01
    assert missed <= 0.04 * audits


@pytest.mark.long
@pytest.mark.parametrize(
    ("sizes", "rate", "alike"),
    [
        ([100] * 5 + [2] * 250, 0.25, 1.0),
        ([100] * 5 + [2] * 250, 0.05, 0.4),
        ([30] * 12 + [1] * 500, 0.1, 1.0),
        ([900] + [1] * 100, 0.25, 0.5),
    ],
    ids=["five giants", "giants, partly", "twelve of thirty", "one giant"],
)
def test_giant_units_that_were_not_hit_are_not_counted_as_safe(sizes: list[int], rate: float, alike: float) -> None:
    """Whole units leak, or their records more often together: the upper limit covers what a further giant would show.

    The control is the variance between units alone, which is small until a giant is hit.
    """
    rng, audits, missed, naive = np.random.default_rng(0), 200, 0, 0
    code, fpr = np.repeat(np.arange(len(sizes)), sizes), 0.1
    member = np.arange(len(code) + 1000) < len(code)
    unit = np.r_[code, len(sizes) + np.arange(1000)]
    for _ in range(audits):
        leaks = rng.random(len(sizes)) < rate
        hit = rng.random(len(code)) < np.where(leaks, alike + (1 - alike) * rate, (1 - alike) * rate)[code]
        score = np.r_[10.0 * hit + rng.normal(size=len(code)) - 5, rng.normal(size=1000)]
        sample = Sample.of(Evidence(score=score, member=member, unit=unit))
        missed += sample.tpr_at_fpr(fpr, 0.95).high < rate
        between, _ = sample.units.share_variance(code[hit], members=True)
        share = float(hit.mean())
        trials = share * (1 - share) / between if between > 0 else sample.units.effective_members
        naive += classical.wilson_limits(share, max(trials, 1.0), 0.95)[1] < rate
    assert missed <= 0.06 * audits
    assert naive > 0.09 * audits


def test_independent_trials_lie_between_units_and_records() -> None:
    rng = np.random.default_rng(8)
    code, member = np.repeat(np.arange(200), 5), np.arange(1000) < 500
    units = Units.of(code, member)
    alike = (rng.random(200) < 0.4)[code]
    assert units.independent_trials(alike, members=True) == pytest.approx(100)
    apart = rng.random(1000) < 0.4
    assert 280 < units.independent_trials(apart, members=True) <= 500
    assert units.independent_trials(np.zeros(1000, bool), members=False) == 100
    assert units.independent_trials(np.ones(1000, bool), members=False) == 100
    giant = Units.of(np.r_[np.zeros(400, int), np.arange(1, 101), np.arange(200, 700)], member)
    assert (
        giant.independent_trials(apart, members=True) == giant.effective_members < 2
    )  # what one unit shows is nothing
    kept = units.take(np.flatnonzero(code % 2 == 0))
    assert (kept.members, kept.nonmembers, kept.count, kept.repeat) == (50, 50, 100, True)


def test_counts_and_shares_of_a_handful_of_units() -> None:
    """By hand: members in units of 3, 1 and 1 records, non-members in units of 1 and 3, one unit of both classes."""
    units = Units.of(np.array([0, 0, 0, 1, 2, 2, 3, 3, 3]), np.arange(9) < 5)
    assert (units.count, units.members, units.nonmembers, units.spanning) == (4, 3, 2, 1)
    assert units.largest_share == 0.75
    assert units.effective_members == pytest.approx(25 / 11)
    assert units.effective_nonmembers == pytest.approx(16 / 10)
    assert units.freedom == 1.0  # never less
    assert units.worst_variance == pytest.approx((3 / 5) ** 2 + (1 / 5) ** 2 + (1 / 5 + 1 / 4) ** 2 + (3 / 4) ** 2)
    assert Units.of(np.zeros(0, int), np.zeros(0, bool)).count == 0
    enough = Units.of(np.repeat(np.arange(50), 2), np.arange(100) < 50)
    assert enough.freedom == 24.0


def test_the_variance_of_a_share_by_hand() -> None:
    """Of two units of 3 and 1 records, 2 and no hits: deviations of half a hit each way, times 2 / (2 - 1)."""
    units = Units.of(np.array([0, 0, 0, 1, 2, 3, 3, 4, 4]), np.arange(9) < 4)
    assert units.share_variance(np.array([0, 0]), members=True) == (pytest.approx(2 * 0.5 / 16), 1)
    # three units of the other class, of 1, 2 and 2 records, all hit but two records
    totals = np.array([1 - 3 / 5, 2 - 6 / 5, 0 - 6 / 5])
    expected = float(totals @ totals) / 25 * 3 / 2
    assert units.share_variance(np.array([2, 3, 3]), members=False) == (pytest.approx(expected), 2)


def correlated(size: int, hits: list[int], rate: float) -> float:
    """Intraclass correlation of hits in equally large units by its definition, with half of a further pair."""
    several = [one for one in hits if one > 0]
    again = sum((one - 1) / (size - 1) * one for one in several) / sum(several)
    pairs = sum(several) ** 2 / sum(one**2 for one in several)
    return max(0.0, ((again * pairs + 0.5) / (pairs + 1) - rate) / (1 - rate))


@pytest.mark.parametrize("most", [False, True])
def test_independent_trials_by_their_definition(most: bool) -> None:
    """Twenty units of four records; where most records are hits, the misses say how alike they are."""
    hits = [0] * 10 + [1] * 5 + [2, 2, 3, 4, 4]
    hits = [4 - one for one in hits] if most else hits
    code = np.repeat(np.arange(40), 4)
    units, records = Units.of(code, np.arange(160) < 80), 80
    rate = sum(hits) / records
    rare = [4 - one for one in hits] if most else hits
    alike = correlated(4, rare, sum(rare) / records)
    sized = 20 * (4 / records) ** 2 * (alike + (1 - alike) / 4)
    deviations = np.array(hits) - rate * 4
    between = float(deviations @ deviations) / records**2 * 20 / 19
    expected = min(records, max(20.0, min(rate * (1 - rate) / between, 1 / sized)))
    assert 20 < expected < 80
    of_hits = np.repeat(np.arange(20), hits)
    assert units.trials(of_hits, members=True) == pytest.approx(expected)
    assert units.trials(20 + of_hits, members=False) == pytest.approx(expected)


def test_large_units_without_a_hit_count_by_how_alike_the_records_of_the_others_are() -> None:
    """Five units of twenty records without a hit, and fifty pairs of which fifteen are hit and ten are half hit."""
    sizes = np.r_[np.full(5, 20), np.full(50, 2)]
    hits = np.r_[np.zeros(5, int), np.full(15, 2), np.full(10, 1), np.zeros(25, int)]
    code = np.r_[np.repeat(np.arange(55), sizes), 55 + np.arange(30)]
    units = Units.of(code, np.arange(230) < 200)
    rate = hits.sum() / 200
    again, pairs = 30 / 40, 40**2 / (15 * 2**2 + 10)  # of the other records of a hit, and how many equal pairs they are
    alike = ((again * pairs + 0.5) / (pairs + 1) - rate) / (1 - rate)
    sized = (sizes / 200) ** 2 @ (alike + (1 - alike) / sizes)
    totals = hits - rate * sizes
    between = totals @ totals / 200**2 * 55 / 54
    assert 200**2 / (sizes @ sizes) < 1 / sized < rate * (1 - rate) / between  # it is the sizes that decide
    assert units.trials(np.repeat(np.arange(55), hits), members=True) == pytest.approx(1 / sized)


def test_fewer_than_ten_units_say_nothing_of_how_alike_their_records_are() -> None:
    for count, learns in ((9, False), (10, True)):
        code = np.repeat(np.arange(2 * count), 5)
        units = Units.of(code, np.arange(len(code)) < 5 * count)
        trials = units.trials(np.arange(count // 2), members=True)  # a hit in a unit is alone: as unlike as can be
        assert trials == pytest.approx(5 * count if learns else count), count


def test_rates_of_both_classes_oppose_each_other_by_their_correlation() -> None:
    """Against a plain correlation over the units of both classes, widened by 1/sqrt(units)."""
    rng = np.random.default_rng(12)
    first, second = rng.random((2, 60)) < 0.4
    second = np.where(rng.random(60) < 0.4, ~first, second)
    units = Units.of(np.r_[np.arange(60), np.arange(60)], np.arange(120) < 60)
    expected = -np.corrcoef(first, second)[0, 1] + 1 / np.sqrt(60)
    assert 0.1 < expected < 0.9
    assert units.opposition(np.r_[first, second]) == pytest.approx(expected)
    assert units.opposition(np.r_[first, np.ones(60, bool)]) == pytest.approx(1 / np.sqrt(60))  # rates without errors


def test_what_is_said_of_units_names_a_giant_and_those_of_both_classes() -> None:
    score = np.random.default_rng(14).normal(size=100)
    member = np.arange(100) < 50
    single = np.arange(100)

    def said(first: int, both: int) -> str:
        unit = np.where(single < first, 0, single)
        unit[99 - np.arange(both)] = unit[49 - np.arange(both)]
        return Sample.of(Evidence(score=score, member=member, unit=unit)).independence

    assert "One unit holds 12% of the records of a class" in said(6, 0)
    assert "One unit" not in said(5, 0)  # a tenth is none
    assert "1 units hold both" in said(6, 1)
    assert "hold both" not in said(6, 0)
    assert "of 45 units of members and 50 of non-members" in said(6, 0)
