"""What a bundle holds of the records, and what it withholds."""

import numpy as np
import pytest

import miaudit as ma
from bundle.test_bundle import made
from miaudit.auditing.plan import Plan
from miaudit.bundle import read, record
from miaudit.bundle.verify import verify


@pytest.mark.long
def test_names_of_units_do_not_leave(tmp_path):
    path, _, _, keys = made(tmp_path, share="scores", units=True)
    content = path.read_bytes()
    assert b"person" not in content
    assert "person".encode("utf-32-le") not in content
    assert keys.pseudonyms not in content
    other = made(tmp_path, share="scores", units=True, name="c.zip")[0]
    assert not np.array_equal(read(path).evidence().unit, read(other).evidence().unit)  # another key, other names


def test_hashes_hold_no_number_of_a_record(tmp_path):
    path, *_ = made(tmp_path, share="hashes")
    bundle = read(path)
    assert set(bundle.columns) == {"hash"}
    assert bundle.evidence() is None
    assert bundle.propensity is None


def test_rows_of_the_findings_are_withheld(tmp_path):
    path, examined, *_ = made(tmp_path, plan=Plan(row_level=3, bounds=None), share="scores", units=True)
    assert examined.findings.rows
    assert read(path).findings.rows == ()


@pytest.mark.long
@pytest.mark.parametrize(("share", "seal"), [("all", False), ("scores", False), ("all", True)])
def test_an_undeclared_audit_is_recomputed_without_what_rests_on_withheld_covariates(tmp_path, share, seal):
    path, _, _, keys = made(tmp_path, design=None, share=share, seal=seal)
    assert (read(path).findings.covariates_alone is not None) is (share == "all")  # sealed: of open records
    found = verify(path, keys=keys if seal else None)
    assert (found.status, found.differences) == ("verified", ())


@pytest.mark.long
@pytest.mark.parametrize(("share", "status"), [("all", "verified"), ("scores", "in-part"), ("hashes", "not-testable")])
def test_a_refuted_design_is_refuted_again_where_its_covariates_are_shared(tmp_path, share, status):
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    member = rng.random(400) < 1 / (1 + np.exp(-3 * x))
    evidence = ma.Evidence(score=x, member=member, covariates=x, design="one-run")
    made_of = record(evidence, rng=np.random.default_rng(1), share=share)[1]
    assert made_of.findings.verdict.status == "refused"
    path = tmp_path / "refuted.zip"
    made_of.write(path)
    found = verify(path)
    assert (found.status, found.differences) == (status, ())
    fair = evidence.replace(member=rng.random(400) < 0.5)  # the control
    record(fair, rng=np.random.default_rng(1), share=share)[1].write(tmp_path / "fair.zip")
    assert verify(tmp_path / "fair.zip").status == ("not-testable" if share == "hashes" else "verified")
