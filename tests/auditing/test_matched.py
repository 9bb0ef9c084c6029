"""An audit of the design "matched", from arrays to findings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit import bundle
from miaudit.auditing.headline import Exploratory, Split
from miaudit.auditing.matched import surest_pairs
from miaudit.auditing.paired_records import Audited, correlations
from miaudit.auditing.plan import Bounds
from miaudit.bundle.verify import verify
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError

PLAN = ma.Plan(fpr_targets=(0.01, 0.1))


def evidence(shift: float, n: int = 400, k: int = 8, seed: int = 0, **more: object) -> ma.Evidence:
    rng = np.random.default_rng(seed)
    decoys = rng.normal(size=(n, k))
    return ma.Evidence.matched(true=rng.normal(shift, size=n), decoys=decoys, **more)  # type: ignore[arg-type]


def test_a_leak_is_flagged_with_bounds_for_both_neighbours() -> None:
    found = ma.audit(evidence(2.0), plan=PLAN, rng=0)
    assert (found.verdict.status, found.design) == ("flagged", "matched")
    assert found.matched is not None
    assert (found.matched.units, found.matched.decoys, found.matched.pairs) == (400, 8, 400)
    assert found.matched.ranks[0].p_value < 1e-20
    assert [(b.parameter, b.neighbours) for b in found.bounds] == [
        ("mu", "add-or-remove"),
        ("epsilon", "add-or-remove"),
        ("mu", "replace-one"),
        ("epsilon", "replace-one"),
    ]
    assert found.bounds[0].value == found.bounds[2].value / 2 > 0
    assert (found.counts.members, found.counts.nonmembers, found.counts.of) == (400, 3200, "strings")
    assert ma.Findings.from_dict(found.to_dict()) == found


def test_nothing_is_found_where_nothing_leaks() -> None:
    found = ma.audit(evidence(0.0), plan=PLAN, rng=0)
    assert found.verdict.status in ("clear", "inconclusive")
    assert found.matched is not None
    assert found.matched.ranks[0].p_value > 0.01
    assert all(bound.value == 0 for bound in found.bounds)


def test_ranks_prove_a_leak_that_exceeds_no_limit() -> None:
    plan = ma.Plan(fpr_targets=(0.1,), limits={"auc": 0.9})
    proven = ma.audit(evidence(1.0), plan=plan, rng=0).verdict.proven
    assert "The exact rank test refutes that nothing leaks" in proven
    assert "rank test" not in ma.audit(evidence(0.0), plan=plan, rng=0).verdict.proven


def test_the_same_generator_gives_the_same_findings() -> None:
    one = evidence(0.5, n=100)
    assert ma.audit(one, plan=PLAN, rng=3) == ma.audit(one, plan=PLAN, rng=3)


def test_a_file_is_audited_as_its_arrays(tmp_path: Path) -> None:
    one = evidence(0.5, n=60)
    one.save(tmp_path / "strings.npz")
    again = ma.audit(ma.Evidence.load(tmp_path / "strings.npz"), plan=PLAN, rng=1)
    direct = ma.audit(one, plan=PLAN, rng=1)
    assert (again.metrics, again.bounds, again.matched) == (direct.metrics, direct.bounds, direct.matched)


def test_a_reference_that_ranks_by_chance_lets_the_audit_answer() -> None:
    rng = np.random.default_rng(5)
    one = evidence(2.0, reference=(rng.normal(size=400), rng.normal(size=(400, 8))))
    found = ma.audit(one, plan=PLAN, rng=0)
    assert found.matched is not None
    assert [(check.by, check.refuted) for check in found.matched.law] == [("reference", False)]
    assert [score.score for score in found.scores] == ["score"]
    assert found.verdict.status == "flagged"


def test_a_reference_that_identifies_true_strings_refuses_the_audit() -> None:
    rng = np.random.default_rng(6)
    one = evidence(2.0, reference=(rng.normal(0.5, size=400), rng.normal(size=(400, 8))))
    found = ma.audit(one, plan=PLAN, rng=0)
    assert (found.verdict.status, found.exit_code) == ("refused", 4)
    assert "reference model" in found.verdict.text
    assert not found.bounds
    assert found.no_bound
    assert all(found.is_raw(metric) for metric in found.metrics)


def test_texts_of_another_format_refuse_the_audit() -> None:
    texts = np.array([[f"t{i:04d}", *(f"d{i:04d}-{j}" for j in range(8))] for i in range(400)], dtype=object)
    found = ma.audit(evidence(2.0, text=texts), plan=PLAN, rng=0)
    assert found.verdict.status == "refused"
    assert "format" in found.verdict.text


def test_without_reference_and_texts_the_law_is_unchecked() -> None:
    found = ma.audit(evidence(1.0, n=50), plan=PLAN, rng=0)
    assert found.matched is not None
    assert any("Nothing tested" in text for text in found.matched.sentences)


def two_scores(seed: int, shift: float) -> ma.Evidence:
    rng = np.random.default_rng(seed)
    true = {"loss": rng.normal(shift, size=200), "zlib": rng.normal(size=200)}
    return ma.Evidence.matched(true=true, decoys={name: rng.normal(size=(200, 5)) for name in true})


def test_several_scores_are_paid_for() -> None:
    both = two_scores(1, 1.0)
    found = ma.audit(both, plan=PLAN, rng=0)
    assert found.matched is not None
    assert {test.score for test in found.matched.ranks} == {"loss", "zlib"}
    alone = ma.audit(both.only("loss"), plan=PLAN, rng=0)
    assert alone.matched is not None
    of_loss = next(test for test in found.matched.ranks if test.score == "loss")
    assert of_loss.p_value == pytest.approx(2 * alone.matched.ranks[0].p_value)


def test_a_split_ranks_the_half_that_chose_no_score() -> None:
    found = ma.audit(two_scores(2, 2.0), plan=ma.Plan(fpr_targets=(0.1,), headline=Split()), rng=0)
    assert found.matched is not None
    assert [test.score for test in found.matched.ranks] == ["loss"]
    assert found.matched.units < 200


def test_claims_are_judged_by_adding_or_removing() -> None:
    plan = ma.Plan(fpr_targets=(0.1,), bounds=Bounds(claim=Claim.gaussian(0.9)))
    found = ma.audit(evidence(3.0, n=1000), plan=plan, rng=0)
    assert found.claim is not None
    assert found.bounds[2].value > 0.9
    assert found.claim.lower == found.bounds[0].value


def test_the_surest_pairs_are_counted_where_every_pick_is_right() -> None:
    shown = surest_pairs(
        evidence(50.0), score="loss", level=0.025, sure=0.9, confidence=0.95, rng=np.random.default_rng(0)
    )
    assert shown is not None
    assert (shown.of, shown.exceeded, shown.members) == ("pairs", True, shown.listed)


def test_groups_have_metrics_of_their_own() -> None:
    group = np.repeat(["a", "b"], 200)
    found = ma.audit(evidence(2.0, group=group), plan=PLAN, rng=0)
    assert [(one.group, one.members, one.nonmembers) for one in found.groups] == [("a", 200, 1600), ("b", 200, 1600)]


def test_bundles_come_out_again_and_say_what_withheld_texts_leave_out() -> None:
    one = evidence(1.0, n=60, text=np.array([[f"{i:02d}{j}" for j in range(9)] for i in range(60)], dtype=object))
    whole, part = (
        bundle.record(one, plan=PLAN, share=share, rng=np.random.default_rng(5))[1] for share in ("all", "scores")
    )
    assert verify(whole).status == "verified"
    checked = verify(part)
    assert (checked.status, checked.differences) == ("in-part", ())
    assert any("texts are withheld" in text for text in checked.not_recomputed)


def test_two_audits_of_the_same_strings_are_compared_by_their_units() -> None:
    rng = np.random.default_rng(9)
    hard = rng.normal(size=(300, 9))
    sides = []
    for name, shift in (("before", 0.5), ("after", 0.8)):
        noise = hard + 0.2 * rng.normal(size=hard.shape)
        one = ma.Evidence.matched(true=noise[:, 0] + shift, decoys=noise[:, 1:])
        sides.append(Audited(name, ma.audit(one, plan=PLAN, rng=1), one))
    shared = correlations(*sides)
    assert shared is not None
    assert shared.correlation["auc"] > 0.7  # the noise of both is mostly the same


def test_the_most_exposed_strings_exceed_their_own_decoys() -> None:
    decoys = np.random.default_rng(0).normal(size=(50, 8))
    true = np.zeros(50)
    decoys[7] += 100.0  # a string that is likely in any model
    true[7], true[3] = 100.0, 5.0
    one = ma.Evidence.matched(true=true, decoys=decoys, unit=[f"r{i:02d}" for i in range(50)])
    found = ma.audit(one, plan=ma.Plan(fpr_targets=(0.1,), row_level=1), rng=0)
    assert found.rows[0]["unit"] == "r03"


def test_a_bootstrap_and_an_exploratory_headline_work() -> None:
    plan = ma.Plan(fpr_targets=(0.1,), n_bootstrap=100, headline=Exploratory())
    found = ma.audit(two_scores(3, 1.0), plan=plan, rng=0)
    assert found.metric("auc").bootstrap is not None
    assert all(bound.exploratory for bound in found.bounds)


def test_a_reference_alone_is_nothing_to_audit() -> None:
    one = evidence(1.0, n=20, reference=(np.zeros(20), np.zeros((20, 8))))
    alone = one.replace(score={"reference": one.scores["reference"]})
    with pytest.raises(InputError, match="a score beside reference"):
        ma.audit(alone, plan=PLAN, rng=0)
