"""Evidence whose non-members are members too has no verdict, by texts, covariates or scores, in every design."""

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.auditing.shared_records import obstacle
from miaudit.collect import from_pairs

SIDES = np.arange(800) < 400


def scored(copied=0, *, coarse=False, **fields):
    rng = np.random.default_rng(2)
    score = rng.normal(size=800) + SIDES
    score = np.round(score, 1) if coarse else score
    score[400 : 400 + copied] = score[:copied]
    return Evidence(score=score, member=SIDES, **{name: make(copied, rng) for name, make in fields.items()})


def audited(evidence, design):
    return audit(evidence.replace(design=design), plan=Plan(), rng=0)


@pytest.mark.parametrize("design", ["one-run", "multi-run", None])
def test_scores_of_the_same_records_are_refused_with_their_number(design):
    found = audited(scored(120), design)
    assert (found.verdict.status, found.exit_code, found.bounds) == ("refused", 4, ())
    assert "120 of 400 non-members are also members, by their scores" in found.verdict.text
    control = audited(scored(), design)
    assert control.verdict.status != "refused"
    assert bool(control.bounds) is (design is not None)


def test_two_files_of_losses_with_the_same_records_are_refused(tmp_path):
    rng = np.random.default_rng(3)
    losses = rng.exponential(size=500)
    files = [{"signal": tmp_path / name} for name in ("members.npy", "others.npy")]
    for own, values in zip(files, (losses[:300], losses[200:]), strict=True):
        np.save(own["signal"], values)
    read = from_pairs(*files, signal="loss", design="one-run", rng=rng).evidence
    assert obstacle(read).startswith("100 of 300 non-members are also members")


def test_labels_and_rounded_scores_are_no_records():
    assert obstacle(scored(120, coarse=True)) == ""
    labels = Evidence(score=np.arange(800) % 2, member=SIDES)
    assert obstacle(labels) == ""


def test_saturated_scores_are_no_records():
    rng = np.random.default_rng(4)
    score = np.minimum(rng.normal(size=800), 1 / 3)  # a third of the records has one value with many digits
    assert obstacle(Evidence(score=score, member=SIDES)) == ""


def test_texts_tell_records_apart_where_scores_do_not():
    def texts(copied, rng):
        return [f"text {i if i < 400 or i >= 400 + copied else i - 400}" for i in range(800)]

    assert "by their texts" in obstacle(scored(30, coarse=True, text=texts))
    assert obstacle(scored(0, coarse=True, text=texts)) == ""


def test_covariates_of_pairs_are_equal_by_design_where_the_pair_is_the_unit():
    def covariates(copied, rng):
        x = rng.normal(size=(400, 2))
        return np.r_[x, x]

    paired = scored(0, covariates=covariates)
    assert "400 of 400 non-members are also members, by their covariates" in obstacle(paired)
    assert obstacle(paired.replace(unit=np.arange(800) % 400)) == ""


def test_coarse_covariates_do_not_stand_for_records():
    coarse = scored(0, covariates=lambda copied, rng: rng.integers(0, 3, size=(800, 3)))
    assert obstacle(coarse) == ""


@pytest.mark.long
def test_zero_run_evidence_is_refused_for_the_same_reason():
    evidence = scored(120, covariates=lambda copied, rng: rng.normal(size=(800, 2)))
    found = audited(evidence, "zero-run")
    assert found.verdict.status == "refused"
    assert found.verdict.text.startswith("Not answered (refused): 120 of 400 non-members are also members")
    assert found.bounds == ()
