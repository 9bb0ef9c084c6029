"""What a bundle holds of the records, and what it withholds."""

import json
import re
import zipfile

import numpy as np
import pytest

import miaudit as ma
from bundle.test_bundle import made
from miaudit.auditing.plan import Bounds, Plan
from miaudit.bundle import read, record
from miaudit.bundle.verify import verify
from miaudit.bundle.written_plan import generator_at
from miaudit.dp.zero_run import Thinning
from miaudit.errors import InputError


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


def seeds_of(path):
    """Every whole number in the texts of a bundle, and every state of a generator, as generators."""
    with zipfile.ZipFile(path) as held:
        texts = {name: held.read(name).decode() for name in held.namelist() if name.endswith(".json")}
    for number in {int(digits) for text in texts.values() for digits in re.findall(r"\d+", text)}:
        yield np.random.default_rng(number)
    if state := json.loads(texts["audit.json"])["random"]:
        yield generator_at(state)
        yield np.random.default_rng(state["entropy"])


def recovered(path, member):
    """How many memberships the best of these generators draws again, as a campaign or a few lines of numpy would."""
    n = len(member)
    draws = [
        guess
        for rng in seeds_of(path)
        for guess in (rng.spawn(4)[0].random(n) < 0.5, rng.random(n) < 0.5, rng.permutation(n) < n // 2)
    ]
    return max((int(np.count_nonzero(guess == member)) for guess in draws), default=0)


SEED = 9_876_543_210  # no digits of a digest
OF_RECORD = {
    "a plain audit": {},
    "a seed in the command": {"repeat": {"command": "miaudit run a.yaml --seed 9876543210", "seed": SEED}},
    "a seed in a note": {"notes": ("No seed was given: rng=9876543210 repeats this audit.",)},
    "groups, rows, a bootstrap": {"plan": Plan(bounds=None, n_bootstrap=100, row_level=3)},
}


@pytest.mark.parametrize("options", OF_RECORD.values(), ids=OF_RECORD)
def test_no_seed_in_a_bundle_of_hashes_repeats_the_memberships(tmp_path, options):
    """300 of 300 were drawn again from the state of the generator; the control is a bundle that shares them anyway."""
    for share, options_of in (("hashes", options), ("scores", options)):
        rng = np.random.default_rng(SEED)
        member = rng.random(300) < 0.5
        held = ma.Evidence(score=rng.normal(size=300) + member, member=member, design="one-run", source="a.npz")
        record(held, **{"plan": Plan(bounds=None), **options_of}, rng=rng, share=share)[1].write(
            tmp_path / f"{share}.zip"
        )
    assert recovered(tmp_path / "scores.zip", member) == 300
    assert recovered(tmp_path / "hashes.zip", member) < 200
    assert read(tmp_path / "hashes.zip").random == {}
    assert verify(tmp_path / "hashes.zip").status == "not-testable"


@pytest.mark.long
def test_no_curve_or_histogram_of_hashes_tells_who_has_the_scores(tmp_path):
    path, examined, *_ = made(tmp_path, share="hashes")
    assert examined.findings.scores[0].curve is not None  # the owner's own findings
    found = read(path).findings
    assert [(one.curve, one.distribution) for one in found.scores] == [(None, None)] * 2
    assert "curves and histograms" in read(path).withheld
    path, examined, *_ = made(tmp_path, design="zero-run", share="hashes", name="zero.zip")
    assert len(examined.findings.overlap.log_odds.members) > 1
    assert read(path).findings.overlap.log_odds.members == (1.0,)


def test_a_margin_for_each_record_is_no_hash():
    rng = np.random.default_rng(0)
    held = ma.Evidence(
        score=rng.normal(size=200), member=np.arange(200) < 100, design="zero-run", covariates=rng.normal(size=200)
    )
    plan = Plan(bounds=Bounds(correction=Thinning(half_width=np.full(200, 0.1))))
    with pytest.raises(InputError, match="one margin for all records"):
        record(held, plan=plan, rng=rng, share="hashes")


@pytest.mark.long
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
