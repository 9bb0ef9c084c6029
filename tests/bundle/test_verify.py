"""Verification: an honest bundle passes, and whatever was changed is found and named."""

import json

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from bundle.test_bundle import made, relisted, rewritten, with_score
from miaudit.bundle import read
from miaudit.bundle.verify import _same, verify
from miaudit.causal.propensity import Nuisance


@pytest.mark.long
@pytest.mark.parametrize("share", ["all", "scores", "hashes"])
@pytest.mark.parametrize("units", [False, True])
def test_a_bundle_verifies(tmp_path, share, units):
    path, *_ = made(tmp_path, share=share, units=units)
    found = verify(path)
    assert found.tampered == found.differences == ()
    assert found.status == ("not-testable" if share == "hashes" else "verified")
    assert (found.recomputed > 300) == (share != "hashes")
    assert found.exit_code == (4 if share == "hashes" else 0)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("share", ["all", "scores"])
def test_a_zero_run_bundle_verifies_as_far_as_it_shares(tmp_path, share):
    path, examined, bundle, _ = made(tmp_path, "zero-run", share=share)
    assert np.array_equal(bundle.propensity.values, examined.propensity.values)
    found = verify(path)
    assert (found.status, found.exit_code) == (("in-part", 4) if share == "scores" else ("verified", 0))
    assert bool(found.not_recomputed) == (share == "scores")
    back = read(path)
    assert np.array_equal(back.propensity.values, examined.propensity.values)
    assert back.propensity.how == examined.propensity.how
    assert (back.evidence().covariates is None) == (share == "scores")


@pytest.mark.long
def test_the_authors_own_models_are_said_to_be_missing(tmp_path):
    found = verify(made(tmp_path, "zero-run", nuisance=Nuisance(classifier=GaussianNB()))[0])
    assert found.status == "in-part"
    assert "own models (classifier)" in found.not_recomputed[0]
    assert 0 < found.recomputed < 100


@pytest.mark.long
def test_one_changed_score_is_found_and_named(tmp_path):
    path = rewritten(made(tmp_path)[0], lambda entries: with_score(entries, 17, 9.0))
    found = verify(path)
    assert found.status == "failed"
    assert found.exit_code == 3
    assert any("records.npz was changed" in text for text in found.tampered)
    assert any("1 record changed: row 17" in text for text in found.tampered)
    assert any("auc" in d.place or "metrics" in d.place for d in found.differences)


@pytest.mark.long
def test_a_careful_forger_is_found_by_the_rows(tmp_path):
    def change(entries):
        with_score(entries, 17, 9.0)
        relisted(entries)

    found = verify(rewritten(made(tmp_path)[0], change))
    assert found.tampered == ("1 record changed: row 17 (counted from 0).",)


@pytest.mark.long
def test_a_number_of_the_findings_that_does_not_follow_is_named(tmp_path):
    def change(entries):
        findings = json.loads(entries["findings.json"])
        findings["metrics"][3]["value"] += 1e-6
        entries["findings.json"] = json.dumps(findings).encode()
        relisted(entries)

    found = verify(rewritten(made(tmp_path)[0], change))
    assert found.tampered == ()
    assert [d.place for d in found.differences] == ["findings.metrics[3].value"]


@pytest.mark.long
def test_names_from_a_stranger_forge_no_line(tmp_path):
    """A place of a difference is made of names in the findings, and is printed on a terminal."""
    path, *_ = made(tmp_path)

    def forge(entries):
        found = json.loads(entries["findings.json"])
        found["plan"]["\x1b[2Jx\nEvery digest fits" + "y" * 3000] = 1
        entries["findings.json"] = json.dumps(found).encode()
        relisted(entries)

    (difference,) = verify(rewritten(path, forge)).differences
    assert difference.place.isprintable()
    assert len(difference.place) <= 120


@pytest.mark.long
def test_a_difference_below_the_tolerance_is_none(tmp_path):
    def change(entries):
        findings = json.loads(entries["findings.json"])
        findings["metrics"][3]["value"] *= 1 + 1e-12
        entries["findings.json"] = json.dumps(findings).encode()
        relisted(entries)

    assert verify(rewritten(made(tmp_path)[0], change)).status == "verified"


@pytest.mark.parametrize(("again", "same"), [(0.836733495, True), (0.836733493, True), (0.836733497, False)])
def test_a_turned_last_decimal_is_the_same_number(again: float, same: bool) -> None:
    """Another processor turned the ninth decimal of a limit, and the bundle did not verify."""
    assert _same("findings.scores[0].curve.high[57]", 0.836733494, again) == same
