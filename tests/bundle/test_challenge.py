"""Challenges: who is stronger wins, others do not, and nobody chooses afterwards."""

from dataclasses import replace

import numpy as np
import pytest

import miaudit as ma
from bundle.test_bundle import N, attack, made, rewritten, with_score
from miaudit.auditing.headline import Declared
from miaudit.auditing.plan import Plan
from miaudit.bundle import challenge, read, record
from miaudit.errors import InputError
from worlds import placebo


@pytest.mark.long
def test_scores_decide_nothing_where_the_audit_was_refused(tmp_path):
    """Weights that miss the shift would let whoever scores by the shift win."""
    rng = np.random.default_rng(0)
    held = placebo.draw("product", 2000, rng)
    record(held, plan=Plan(propensity_model="line", bounds=None), rng=rng)[1].write(tmp_path / "b.zip")
    bundle = read(tmp_path / "b.zip")
    assert bundle.findings.verdict.status == "refused"
    found = challenge.by_scores(bundle, held.covariates[:, 0] * held.covariates[:, 1], rng=rng)
    assert (found.status, found.exit_code) == ("undecided", 4)
    assert found.text.startswith("Undecided: the bundle's audit was refused")


@pytest.mark.thorough
@pytest.mark.long
def test_a_submission_that_points_the_wrong_way_decides_nothing(tmp_path):
    """Losses without their sign would win if they had it: "the bundle stands" would be a wrong answer."""
    plan = Plan(headline=Declared("loss"), primary_metric="auc", bounds=None)
    bundle = read(made(tmp_path, plan=plan)[0])
    won, turned = (
        challenge.by_scores(bundle, sign * attack(1.5), rng=np.random.default_rng(1)) for sign in (1.0, -1.0)
    )
    assert won.status == "won"
    assert (turned.status, turned.exit_code) == ("undecided", 4)
    assert turned.text.startswith("Undecided: the submitted scores point the wrong way")


@pytest.mark.thorough
@pytest.mark.long
def test_reference_scores_stay_beside_a_submission(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    member = rng.random(800) < 1 / (1 + np.exp(-x))
    scores = {"loss": x + rng.normal(size=800), "older": x + rng.normal(size=800)}
    held = ma.Evidence(score=scores, member=member, covariates=x, design="zero-run")
    plan = Plan(bounds=None, primary_metric="auc", reference=ma.Reference(test="older"))
    record(held, plan=plan, rng=rng)[1].write(tmp_path / "b.zip")
    found = challenge.by_scores(read(tmp_path / "b.zip"), scores["loss"] + member, rng=rng)
    assert found.status == "won"
    assert [score.score for score in found.findings.scores] == ["challenger"]
    assert found.findings.reference.test == "older"


def opened(bundle, keys, submit, what=challenge.by_scores):
    """The opening of an owner who has received these submissions."""
    found = [what(bundle, values, rng=np.random.default_rng(0)).submission for values in submit]
    return keys.opening(bundle.mark, found)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("seal", [False, True])
def test_a_stronger_attack_wins_and_a_weaker_does_not(tmp_path, seal):
    plan = Plan(headline=Declared("loss"), primary_metric="auc", bounds=None)
    path, _, _, keys = made(tmp_path, plan=plan, seal=seal)
    bundle = read(path)
    order = keys.order if seal else np.arange(N)
    submitted = [attack(gap)[order] for gap in (1.5, 0.2)]
    opening = opened(bundle, keys, submitted) if seal else None
    outcomes = [challenge.by_scores(bundle, z, keys=opening, rng=np.random.default_rng(1)) for z in submitted]
    assert [o.status for o in outcomes] == ["won", "stands"]
    assert [o.exit_code for o in outcomes] == [3, 0]
    assert outcomes[0].labels_visible is not seal
    assert ("Labels visible" in outcomes[0].text) is not seal
    assert outcomes[0].findings.metric("auc").value > 0.7
    assert outcomes[0].judged == (N // 2 if seal else N)


@pytest.mark.long
@pytest.mark.parametrize(("limits", "metric"), [(None, "tpr_at_fpr_0.1"), ({"auc": 0.6}, "auc")])
def test_a_challenge_compares_the_first_limit_that_the_records_resolve(tmp_path, limits, metric):
    plan = Plan(headline=Declared("loss"), limits=limits, bounds=None)
    bundle = read(made(tmp_path, plan=plan)[0])
    assert "primary_metric" not in bundle.findings.plan
    found = challenge.by_scores(bundle, attack(1.5), rng=np.random.default_rng(1))
    assert found.metric == metric


@pytest.mark.thorough
@pytest.mark.long
def test_earlier_challenges_are_paid_for(tmp_path):
    plan = Plan(headline=Declared("loss"), primary_metric="auc", bounds=None)
    bundle = read(made(tmp_path, plan=plan)[0])
    widths = []
    for before in (0, 99):
        found = challenge.by_scores(bundle, attack(0.8), made_before=before, rng=np.random.default_rng(1)).difference
        widths.append(found["high"] - found["low"])
    assert widths[1] > 1.3 * widths[0]


def test_labels_cannot_be_swapped_after_the_submission(tmp_path):
    path, _, _, keys = made(tmp_path, seal=True)
    lying = replace(keys, labels=~keys.labels)
    with pytest.raises(InputError, match="key file that belongs"):
        challenge.by_scores(read(path), attack(1.0), keys=lying, rng=np.random.default_rng(0))


@pytest.mark.long
def test_a_challenge_waits_for_the_key(tmp_path):
    path, *_ = made(tmp_path, seal=True)
    outcome = challenge.by_scores(read(path), attack(1.0), rng=np.random.default_rng(0))
    assert (outcome.status, outcome.exit_code, outcome.findings) == ("undecided", 4, None)
    assert len(outcome.submission) == 64


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("seal", [False, True])
def test_a_better_propensity_wins_and_a_worse_does_not(tmp_path, seal):
    rng = np.random.default_rng(2)
    x = rng.normal(size=2000) * 1.5
    member = rng.random(2000) < 1 / (1 + np.exp(1.5 - x**2))  # a line in x cannot see it
    held = ma.Evidence(score=rng.normal(size=2000), member=member, covariates=x, design="zero-run")
    _, bundle, keys = record(held, plan=Plan(bounds=None, propensity_model="line"), rng=rng, seal=seal)
    x = x[keys.order] if seal else x
    right, wrong = 1 / (1 + np.exp(1.5 - x**2)), np.clip(1 / (1 + np.exp(3 * x)), 0.01, 0.99)
    keys = opened(bundle, keys, (right, wrong), challenge.by_propensity) if seal else None
    outcomes = [challenge.by_propensity(bundle, p, keys=keys, rng=np.random.default_rng(1)) for p in (right, wrong)]
    assert [o.status for o in outcomes] == ["won", "stands"]
    assert outcomes[0].findings.overlap.propensity.startswith("the challenger's")


def test_a_propensity_needs_something_to_challenge(tmp_path):
    with pytest.raises(InputError, match="without propensities"):
        challenge.by_propensity(read(made(tmp_path)[0]), np.full(N, 0.5), rng=np.random.default_rng(0))


@pytest.mark.long
@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.zeros(3), "600 numbers"),
        (np.full(N, np.nan), "row 0"),
        (np.array(["x"] * N), "numbers"),
        (np.zeros((N, 2)), "shape"),
    ],
)
def test_bad_submissions(tmp_path, scores, said):
    bundle = read(made(tmp_path)[0])
    with pytest.raises(InputError, match=said):
        challenge.by_scores(bundle, scores, rng=np.random.default_rng(0))


def test_a_tampered_bundle_is_not_challenged(tmp_path):
    path = rewritten(made(tmp_path)[0], lambda entries: with_score(entries, 3, 9.0))
    with pytest.raises(InputError, match="fits its manifest"):
        challenge.by_scores(read(path), attack(1.0), rng=np.random.default_rng(0))


def test_hashes_are_not_challenged(tmp_path):
    with pytest.raises(InputError, match="shares scores"):
        challenge.by_scores(read(made(tmp_path, share="hashes")[0]), attack(1.0), rng=np.random.default_rng(0))
