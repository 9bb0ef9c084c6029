"""A bundle from its making to its verification and to challenges; the controls are bundles that were tampered with."""

import io
import json
import zipfile

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Split
from miaudit.auditing.plan import Plan
from miaudit.bundle import archive, contents, read, record
from miaudit.bundle.verify import verify
from miaudit.causal import propensity
from miaudit.causal.propensity import Nuisance, Propensity

N = 600


def evidence(design="one-run", **fields):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    by_chance = design in ("one-run", "multi-run")
    member = rng.random(N) < 1 / (1 + np.exp(-(0.0 if by_chance else 0.5) * x[:, 0]))
    z = rng.normal(size=N)
    scores = {"loss": z + 0.6 * member, "margin": rng.normal(size=N) + 0.4 * member}
    return ma.Evidence(score=scores, member=member, covariates=x, design=design, source="a test", **fields)


def made(tmp_path, design="one-run", plan=None, name="b.zip", **options):
    fields = {"unit": np.array([f"person {i // 2}" for i in range(N)])} if options.pop("units", False) else {}
    plan = plan or Plan(bounds=None)
    found = record(evidence(design, **fields), plan=plan, rng=np.random.default_rng(5), **options)
    path = tmp_path / name
    found[1].write(path)
    return path, *found


def rewritten(path, change):
    """The same archive with entries changed by a function of {name: bytes}; as careless as a forger."""
    with zipfile.ZipFile(path) as held:
        entries = {name: held.read(name) for name in held.namelist()}
    change(entries)
    archive.write(path, entries)
    return path


def relisted(entries):
    """A careful forger: the manifest gets the new digests."""
    manifest = json.loads(entries["manifest.json"])
    for name in manifest["files"]:
        manifest["files"][name] = {"bytes": len(entries[name]), "sha256": contents._sha256(entries[name])}
    entries["manifest.json"] = json.dumps(manifest).encode()


def with_score(entries, row, to):
    held = dict(np.load(io.BytesIO(entries["records.npz"])))
    held["score.loss"] = held["score.loss"].copy()
    held["score.loss"][row] = to
    handle = io.BytesIO()
    np.savez(handle, **held)
    entries["records.npz"] = handle.getvalue()


# -- whole ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("plan", [Plan(headline=Split()), Plan(n_bootstrap=100, bounds=None), Plan(row_level=3)])
def test_every_draw_is_repeated(tmp_path, plan):
    assert verify(made(tmp_path, plan=plan)[0]).status == "verified"


@pytest.mark.long
def test_the_audit_of_a_bundle_is_the_audit():
    alone = ma.audit(evidence(), plan=Plan(bounds=None), rng=np.random.default_rng(5))
    examined, bundle, _ = record(evidence(), plan=Plan(bounds=None), rng=np.random.default_rng(5))
    assert examined.findings.to_dict() == alone.to_dict() == bundle.findings.to_dict()


def test_equal_audits_give_equal_bytes(tmp_path):
    first, second = (made(tmp_path, name=name)[0].read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second


@pytest.mark.parametrize("seal", [False, True])
def test_a_remark_on_equal_covariates_is_kept_where_they_are_withheld_and_tells_no_sealed_label(tmp_path, seal):
    rng = np.random.default_rng(3)
    x, member = np.repeat(rng.normal(size=(80, 2)), 5, axis=0), np.arange(400) < 200  # households on one side
    households = ma.Evidence(score=rng.normal(size=400), member=member, covariates=x, design="one-run")
    found = record(households, plan=Plan(bounds=None), share="scores", seal=seal, rng=np.random.default_rng(5))
    found[1].write(tmp_path / "b.zip")
    assert any("name the unit" in note for note in found[1].findings.notes) != seal
    assert verify(tmp_path / "b.zip", keys=found[2] if seal else None).exit_code == 0


@pytest.mark.long
def test_a_generator_used_before_is_repeated(tmp_path):
    rng = np.random.default_rng(3)
    rng.spawn(2)
    rng.normal(size=7)
    plan = Plan(headline=Split())
    record(evidence(), plan=plan, rng=rng)[1].write(tmp_path / "b.zip")
    assert verify(tmp_path / "b.zip").status == "verified"


@pytest.mark.long
def test_a_group_and_texts_are_kept(tmp_path):
    texts = [f"text number {i}, naïve <b>" for i in range(N)]
    bundle = record(evidence(text=texts, group=np.arange(N) % 3), plan=Plan(bounds=None), rng=np.random.default_rng(1))[
        1
    ]
    bundle.write(tmp_path / "b.zip")
    back = read(tmp_path / "b.zip").evidence()
    assert back.digest == evidence(text=texts, group=np.arange(N) % 3).digest
    assert verify(tmp_path / "b.zip").status == "verified"


@pytest.mark.thorough
@pytest.mark.long
def test_a_given_propensity_is_used_again(tmp_path):
    given = Nuisance(propensity=Propensity.given(1 / (1 + np.exp(-0.5 * evidence().covariates[:, 0]))))
    found = verify(made(tmp_path, "zero-run", nuisance=given)[0])
    assert (found.status, found.not_recomputed) == ("verified", ())
    assert found.recomputed > 300


@pytest.mark.long
def test_a_propensity_learned_elsewhere_is_not_taken_for_a_given_one(tmp_path):
    """Bounds pay for what a learned one leaves uncertain; recomputed as if it were known, they would differ."""
    learned = Nuisance(propensity=propensity.fit(evidence(), rng=np.random.default_rng(3)))
    found = verify(made(tmp_path, "zero-run", nuisance=learned)[0])
    assert found.status == "in-part"
    assert found.differences == ()
    assert "own models (propensity, learned elsewhere)" in found.not_recomputed[0]


# -- what is withheld -------------------------------------------------------------------------------------------------


# -- tampered with ----------------------------------------------------------------------------------------------------


# -- hostile ----------------------------------------------------------------------------------------------------------


# -- challenged -------------------------------------------------------------------------------------------------------


def attack(gap, noise=0.3):
    held = evidence()
    z = held.only("loss").score - 0.6 * held.member
    return z + noise * np.random.default_rng(8).normal(size=N) + gap * held.member
