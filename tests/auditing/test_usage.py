"""Usage and deletion: from scores to findings, their words, and their codes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from miaudit.auditing.usage import Scores, UsagePlan, audit_deletion, audit_usage
from miaudit.errors import InputError
from miaudit.findings import kinds


def decoys(shift: float = 0.0, used: int = 2000, seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    return Scores.of(rng.normal(size=2000) + shift * (np.arange(2000) < used), rng.normal(size=(2000, 20)))


def never_seen(shift: float = 0.0, seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    return Scores.of(rng.normal(size=4000) + shift, rng.normal(size=4000))


def test_without_a_limit_the_bound_is_stated_and_judged_by_nothing() -> None:
    found = audit_usage(decoys(6.0, used=500))
    assert (found.verdict.status, found.exit_code, found.verdict.word) == ("stated", 0, "Lower bound")
    assert found.verdict.text.startswith(f"At least {found.usage.used:,} of 2,000 records were used (")
    assert 450 < found.usage.used <= 500


def test_a_limit_makes_it_a_verdict_that_is_never_within_the_limit() -> None:
    plan = UsagePlan(limits={"used": 0.1})
    flagged, open_ = (audit_usage(decoys(6.0, used), plan) for used in (500, 0))
    assert (flagged.exit_code, [one.limit for one in flagged.verdict.exceeded]) == (3, ["used"])
    assert (open_.exit_code, [one.limit for one in open_.verdict.unresolved]) == (4, ["used"])
    assert "nothing shows that a record was not used" in open_.verdict.text
    assert "used" not in open_.verdict.text.split(":")[0]


@pytest.mark.parametrize("scored", [decoys, never_seen])
def test_every_end_of_a_deletion_has_its_code_and_its_words(scored: object) -> None:
    def of(after: float, before: float) -> tuple[str, int, str]:
        pair = scored(after, seed=1), scored(before, seed=2)  # type: ignore[operator]
        found = audit_deletion(*pair, rng=np.random.default_rng(0))
        return found.verdict.status, found.exit_code, found.verdict.text

    assert of(0.0, 1.0)[:2] == ("clear", 0) and "Passed does not mean gone." in of(0.0, 1.0)[2]
    assert of(0.5, 1.0)[:2] == ("flagged", 3) and "the deletion did not work" in of(0.5, 1.0)[2]
    assert of(0.1, 1.0)[:2] == ("inconclusive", 4) and "The margin is 0.03" in of(0.1, 1.0)[2]
    assert of(0.0, 0.0)[:2] == ("not-testable", 4) and "did not see the records before" in of(0.0, 0.0)[2]


def test_the_curve_starts_at_nothing_and_ends_at_all_and_counts_ties_against_a_record() -> None:
    for scores in (decoys(), never_seen()):
        curve = scores.curve
        assert (curve[0].chance, curve[0].share, curve[-1].chance, curve[-1].share) == (0, 0, 1, 1)
        assert max(abs(point.chance - point.share) for point in curve) < 0.05
    tied = Scores.of(np.zeros(10), np.zeros((10, 4))).curve
    assert [point.share for point in tied] == [0, 0, 0, 0, 0, 1]


def test_the_curve_beside_nonmembers_is_the_share_above_each_of_them() -> None:
    scores = Scores.of([3.0, 1.5, 1.0], [1.0, 2.0])
    assert [(round(p.chance, 3), round(p.share, 3)) for p in scores.curve] == [
        (0, 0),
        (0.333, 0.333),
        (0.667, 0.667),
        (1, 1),
    ]


def test_findings_are_read_again_as_they_were_written() -> None:
    for found in (audit_usage(decoys(1.0)), audit_deletion(decoys(), decoys(1.0), rng=np.random.default_rng(0))):
        again = kinds.from_dict(json.loads(found.to_json()))
        assert again == found and again.to_json() == found.to_json()
        assert "kind" in str(found.to_frame().columns)


def test_a_share_that_does_not_follow_is_refused() -> None:
    content = audit_usage(decoys(1.0)).to_dict()
    content["usage"]["share"] = 0.99
    with pytest.raises(InputError, match="findings"):
        kinds.from_dict(content)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": {"auc": 0.6}}, "limits: expected used, which this audit measures, received auc"),
        ({"limits": {"used": 1.5}}, "limits: expected a number in"),
        ({"margin": 0.0}, "margin: expected a number above 0"),
        ({"confidence": 2.0}, "confidence"),
    ],
)
def test_options_outside_their_range_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UsagePlan(**options)  # type: ignore[arg-type]


def test_scores_of_other_records_are_no_pair() -> None:
    with pytest.raises(InputError, match="before: expected scores of the same records"):
        audit_deletion(decoys(), never_seen(1.0), rng=np.random.default_rng(0))
