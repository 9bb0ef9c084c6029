"""A bundle from its making to its verification and to challenges; the controls are bundles that were tampered with."""

import io
import json
import stat
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import miaudit as ma
from miaudit.auditing.plan import Bootstrap, Bounds, Declared, Exploratory, Plan, Split
from miaudit.bundle import archive, challenge, contents, read, record, sealing, written_plan
from miaudit.bundle.sealing import Keys
from miaudit.bundle.verify import verify
from miaudit.causal import propensity
from miaudit.causal.nuisance import Nuisance
from miaudit.causal.propensity import Propensity
from miaudit.dp.mechanism import dp_sgd
from miaudit.dp.selection import Fixed
from miaudit.dp.selection import Schedule as GuessSchedule
from miaudit.dp.verdict import Claim
from miaudit.dp.zero_run.options import Composition, Thinning
from miaudit.errors import InputError, OutputError
from worlds import placebo

N = 600


def evidence(design="one-run", **fields):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    member = rng.random(N) < 1 / (1 + np.exp(-0.5 * x[:, 0]))
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


@pytest.mark.parametrize("share", ["all", "scores", "hashes"])
@pytest.mark.parametrize("units", [False, True])
def test_a_bundle_verifies(tmp_path, share, units):
    path, *_ = made(tmp_path, share=share, units=units)
    found = verify(path)
    assert found.tampered == found.differences == ()
    assert found.status == ("not-testable" if share == "hashes" else "verified")
    assert (found.recomputed > 300) == (share != "hashes")
    assert found.exit_code == (4 if share == "hashes" else 0)


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


@pytest.mark.parametrize("plan", [Plan(headline=Split()), Plan(n_bootstrap=100, bounds=None), Plan(row_level=3)])
def test_every_draw_is_repeated(tmp_path, plan):
    assert verify(made(tmp_path, plan=plan)[0]).status == "verified"


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


def test_a_generator_used_before_is_repeated(tmp_path):
    rng = np.random.default_rng(3)
    rng.spawn(2)
    rng.normal(size=7)
    plan = Plan(headline=Split())
    record(evidence(), plan=plan, rng=rng)[1].write(tmp_path / "b.zip")
    assert verify(tmp_path / "b.zip").status == "verified"


def test_a_group_and_texts_are_kept(tmp_path):
    texts = [f"text number {i}, naïve <b>" for i in range(N)]
    bundle = record(evidence(text=texts, group=np.arange(N) % 3), plan=Plan(bounds=None), rng=np.random.default_rng(1))[
        1
    ]
    bundle.write(tmp_path / "b.zip")
    back = read(tmp_path / "b.zip").evidence()
    assert back.digest == evidence(text=texts, group=np.arange(N) % 3).digest
    assert verify(tmp_path / "b.zip").status == "verified"


def test_a_given_propensity_is_used_again(tmp_path):
    given = Nuisance(propensity=Propensity.given(1 / (1 + np.exp(-0.5 * evidence().covariates[:, 0]))))
    found = verify(made(tmp_path, "zero-run", nuisance=given)[0])
    assert (found.status, found.not_recomputed) == ("verified", ())
    assert found.recomputed > 300


def test_the_authors_own_models_are_said_to_be_missing(tmp_path):
    found = verify(made(tmp_path, "zero-run", nuisance=Nuisance(classifier=GaussianNB()))[0])
    assert found.status == "in-part"
    assert "own models (classifier)" in found.not_recomputed[0]
    assert 0 < found.recomputed < 100


def test_a_propensity_learned_elsewhere_is_not_taken_for_a_given_one(tmp_path):
    """Bounds pay for what a learned one leaves uncertain; recomputed as if it were known, they would differ."""
    learned = Nuisance(propensity=propensity.fit(evidence(), rng=np.random.default_rng(3)))
    found = verify(made(tmp_path, "zero-run", nuisance=learned)[0])
    assert found.status == "in-part"
    assert found.differences == ()
    assert "own models (propensity, learned elsewhere)" in found.not_recomputed[0]


# -- what is withheld -------------------------------------------------------------------------------------------------


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


# -- tampered with ----------------------------------------------------------------------------------------------------


def test_one_changed_score_is_found_and_named(tmp_path):
    path = rewritten(made(tmp_path)[0], lambda entries: with_score(entries, 17, 9.0))
    found = verify(path)
    assert found.status == "failed"
    assert found.exit_code == 3
    assert any("records.npz was changed" in text for text in found.tampered)
    assert any("1 record changed: row 17" in text for text in found.tampered)
    assert any("auc" in d.place or "metrics" in d.place for d in found.differences)


def test_a_careful_forger_is_found_by_the_rows(tmp_path):
    def change(entries):
        with_score(entries, 17, 9.0)
        relisted(entries)

    found = verify(rewritten(made(tmp_path)[0], change))
    assert found.tampered == ("1 record changed: row 17 (counted from 0).",)


def test_a_number_of_the_findings_that_does_not_follow_is_named(tmp_path):
    def change(entries):
        findings = json.loads(entries["findings.json"])
        findings["metrics"][3]["value"] += 1e-6
        entries["findings.json"] = json.dumps(findings).encode()
        relisted(entries)

    found = verify(rewritten(made(tmp_path)[0], change))
    assert found.tampered == ()
    assert [d.place for d in found.differences] == ["findings.metrics[3].value"]


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


def test_a_difference_below_the_tolerance_is_none(tmp_path):
    def change(entries):
        findings = json.loads(entries["findings.json"])
        findings["metrics"][3]["value"] *= 1 + 1e-12
        entries["findings.json"] = json.dumps(findings).encode()
        relisted(entries)

    assert verify(rewritten(made(tmp_path)[0], change)).status == "verified"


def test_an_earlier_bundle_is_not_overwritten(tmp_path):
    path, _, bundle, keys = made(tmp_path)
    with pytest.raises(OutputError, match="--overwrite"):
        bundle.write(path)
    bundle.write(path, overwrite=True)
    keys.write(tmp_path / "k.json")
    with pytest.raises(OutputError, match="keys are there already"):
        keys.write(tmp_path / "k.json")


# -- hostile ----------------------------------------------------------------------------------------------------------


def hostile(path, make):
    with zipfile.ZipFile(path, "w") as held:
        make(held)
    return path


def link(held):
    info = zipfile.ZipInfo("records.npz")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    held.writestr(info, "/etc/passwd")


def twice(held):
    held.writestr("audit.json", "{}")
    with pytest.warns(UserWarning, match="Duplicate"):
        held.writestr("audit.json", "{}")


HOSTILE = {
    "a path out of it": lambda held: held.writestr("../../evil.json", "{}"),
    "an absolute path": lambda held: held.writestr("/tmp/evil.json", "{}"),
    "a backslash": lambda held: held.writestr("..\\evil.json", "{}"),
    "a link": link,
    "compressed": lambda held: held.writestr("audit.json", b"0" * 10_000_000, zipfile.ZIP_DEFLATED),
    "twice": twice,
    "many": lambda held: [held.writestr(f"a{i}.json", "{}") for i in range(40)],
    "no manifest": lambda held: held.writestr("audit.json", "{}"),
    "a strange entry": lambda held: [
        held.writestr(n, '{"format": 1, "files": {}}') for n in ("manifest.json", "x.npy")
    ],
    "deep": lambda held: held.writestr("manifest.json", "[" * 100_000 + "]" * 100_000),
    "a list": lambda held: held.writestr("manifest.json", "[]"),
    "numbers as text": lambda held: held.writestr("manifest.json", '{"format": "1"}'),
    "not a number": lambda held: held.writestr("manifest.json", '{"format": NaN}'),
    "nothing": lambda held: None,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archives_are_refused_in_one_line(tmp_path, make):
    path = hostile(tmp_path / "b.zip", make)
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.zip"]


def test_an_archive_larger_than_allowed_is_refused(tmp_path):
    path, *_ = made(tmp_path)
    with pytest.raises(InputError, match="more than 1,000"):
        archive.unpack(path, tmp_path / "into", largest=1000)


def test_a_bundle_that_nobody_could_read_is_not_made(tmp_path, monkeypatch):
    """Before the audit where the records alone are too large, else before a byte is written."""
    _, _, bundle, _ = made(tmp_path)
    monkeypatch.setattr(archive, "LARGEST", 10_000)
    monkeypatch.setattr(contents.pipeline, "examine", lambda *_, **__: pytest.fail("audited first"))
    with pytest.raises(InputError, match=r"at most 10,000 bytes.*scores only"):
        made(tmp_path, name="large.zip")
    with pytest.raises(InputError, match=r"at most 10,000 bytes"):
        bundle.write(tmp_path / "large.zip")
    assert not (tmp_path / "large.zip").exists()


def test_a_bundle_that_cannot_be_written_is_one_line(tmp_path):
    _, _, bundle, _ = made(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"--bundle .*x\.zip: cannot be written .*name another file"):
        bundle.write(tmp_path / "file" / "x.zip")


def test_a_truncated_archive_is_refused(tmp_path):
    path, *_ = made(tmp_path)
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 5):
        path.write_bytes(content[:length])
        with pytest.raises(InputError):
            read(path)


def test_flipped_bytes_never_pass_as_verified(tmp_path):
    path, *_ = made(tmp_path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 25):
        changed = bytearray(content)
        changed[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        try:
            found = verify(path)
        except InputError:
            continue
        # a flag, a date or a comment of the archive says nothing of the audit
        assert found.status == "failed" or found.digest != archive.sha256(path) or found.differences == ()


@pytest.mark.parametrize(
    "plan",
    [
        {"record": "os.system", "command": "true"},
        {"record": "plan", "confidence": 7},
        {"record": "plan", "nonsense": 1},
        {"record": "claim", "parameter": "mu", "value": 1.0},
        [],
        "plan",
    ],
    ids=str,
)
def test_plans_from_strangers(plan):
    with pytest.raises(InputError):
        written_plan.plan_of(plan)


def test_a_deep_plan_is_refused():
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(InputError, match="levels"):
        written_plan.decode(deep)


def test_the_state_of_a_generator_from_a_stranger():
    state = written_plan.state_of(np.random.default_rng(0))
    for change in ({"pool_size": 10**9}, {"entropy": "x"}, {"children": -1}, {"state": {}}, {"spawn_key": [-1]}):
        with pytest.raises(InputError):
            written_plan.generator_at({**state, **change})


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(fpr_targets=(0.02,), confidence=0.9, headline=Split(0.3), n_bootstrap=200, intervals=Bootstrap()),
        Plan(headline=Declared("loss"), primary_metric="auc", threshold_for_concern=0.6, categories=("a",)),
        Plan(headline=Exploratory(), bounds=None, components=4),
        Plan(bounds=Bounds(claim=Claim.gaussian(0.5), guesses=Fixed(10), correction=Composition(eta=0.1))),
        Plan(bounds=Bounds(mechanism=dp_sgd(records=1000, batch=10, noise=1.0, steps=10), guesses=GuessSchedule())),
    ],
    ids=range(6),
)
def test_a_plan_comes_back(plan):
    assert written_plan.plan_of(json.loads(json.dumps(written_plan.encode(plan)))).to_dict() == plan.to_dict()


def test_a_plan_with_an_array_comes_back():
    plan = Plan(bounds=Bounds(correction=Thinning(half_width=np.array([0.1, 0.2]))))
    back = written_plan.plan_of(json.loads(json.dumps(written_plan.encode(plan))))
    assert back.bounds.correction.half_width.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(("share", "seal"), [("all", False), ("scores", False), ("all", True)])
def test_an_undeclared_audit_is_recomputed_without_what_rests_on_withheld_covariates(tmp_path, share, seal):
    path, _, _, keys = made(tmp_path, design=None, share=share, seal=seal)
    assert (read(path).findings.covariates_alone is not None) is (share == "all")  # sealed: of open records
    found = verify(path, keys=keys if seal else None)
    assert (found.status, found.differences) == ("verified", ())


# -- challenged -------------------------------------------------------------------------------------------------------


def attack(gap, noise=0.3):
    held = evidence()
    z = held.only("loss").score - 0.6 * held.member
    return z + noise * np.random.default_rng(8).normal(size=N) + gap * held.member


def test_scores_decide_nothing_where_the_audit_was_refused(tmp_path):
    """Weights that miss the shift would let whoever scores by the shift win."""
    rng = np.random.default_rng(0)
    held = placebo.draw("product", 2000, rng)
    record(held, plan=Plan(bounds=None), rng=rng)[1].write(tmp_path / "b.zip")
    bundle = read(tmp_path / "b.zip")
    assert bundle.findings.verdict.status == "refused"
    found = challenge.by_scores(bundle, held.covariates[:, 0] * held.covariates[:, 1], rng=rng)
    assert (found.status, found.exit_code) == ("undecided", 4)
    assert found.text.startswith("Undecided: the bundle's audit was refused")


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


def opened(bundle, keys, submit, what=challenge.by_scores):
    """The opening of an owner who has received these submissions."""
    found = [what(bundle, values, rng=np.random.default_rng(0)).submission for values in submit]
    return keys.opening(bundle.mark, found)


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


def test_earlier_challenges_are_paid_for(tmp_path):
    plan = Plan(headline=Declared("loss"), primary_metric="auc", bounds=None)
    bundle = read(made(tmp_path, plan=plan)[0])
    widths = []
    for before in (0, 99):
        found = challenge.by_scores(bundle, attack(0.8), made_before=before, rng=np.random.default_rng(1)).difference
        widths.append(found.high - found.low)
    assert widths[1] > 1.3 * widths[0]


def test_sealed_labels_are_not_in_the_bundle(tmp_path):
    path, _, bundle, keys = made(tmp_path, seal=True)
    back = read(path)
    assert back.has_sealed_labels
    assert back.evidence() is None
    assert np.all(back.columns["member"][keys.rows] == sealing.SEALED)
    assert back.evidence(keys).digest == evidence().take(keys.order).replace(source="").digest
    assert verify(path).status == "in-part"  # the audit of the open records came out again
    assert verify(path, keys=keys).status == "verified"
    guessed = [sealing._commitments(keys.rows[:1], np.array([label]), keys.salts[1:2]) for label in (False, True)]
    assert not any(
        np.array_equal(g[0], bundle.sealed.commitments[0]) for g in guessed
    )  # without its salt, no guess can be checked


def test_labels_cannot_be_swapped_after_the_submission(tmp_path):
    path, _, _, keys = made(tmp_path, seal=True)
    lying = replace(keys, labels=~keys.labels)
    with pytest.raises(InputError, match="key file that belongs"):
        challenge.by_scores(read(path), attack(1.0), keys=lying, rng=np.random.default_rng(0))


def test_a_challenge_waits_for_the_key(tmp_path):
    path, *_ = made(tmp_path, seal=True)
    outcome = challenge.by_scores(read(path), attack(1.0), rng=np.random.default_rng(0))
    assert (outcome.status, outcome.exit_code, outcome.findings) == ("undecided", 4, None)
    assert len(outcome.submission) == 64


def test_keys_come_back_and_are_private(tmp_path):
    _, _, _, keys = made(tmp_path, seal=True)
    where = tmp_path / "keys.json"
    keys.write(where)
    assert stat.S_IMODE(where.stat().st_mode) == 0o600
    back = Keys.read(where)
    assert back.opens(keys.sealed())
    assert (back.signing, back.audit) == (keys.signing, keys.audit)
    for text in ("", "[]", "{}", '{"format": 1, "rows": [1], "labels": ["x"], "salts": "", "pseudonyms": ""}'):
        where.write_text(text)
        with pytest.raises(InputError, match="key file"):
            Keys.read(where)


@pytest.mark.parametrize("seal", [False, True])
def test_a_better_propensity_wins_and_a_worse_does_not(tmp_path, seal):
    rng = np.random.default_rng(2)
    x = rng.normal(size=2000) * 1.5
    member = rng.random(2000) < 1 / (1 + np.exp(1.5 - x**2))  # a line in x cannot see it
    held = ma.Evidence(score=rng.normal(size=2000), member=member, covariates=x, design="zero-run")
    _, bundle, keys = record(held, plan=Plan(bounds=None), rng=rng, seal=seal)
    x = x[keys.order] if seal else x
    right, wrong = 1 / (1 + np.exp(1.5 - x**2)), np.clip(1 / (1 + np.exp(3 * x)), 0.01, 0.99)
    keys = opened(bundle, keys, (right, wrong), challenge.by_propensity) if seal else None
    outcomes = [challenge.by_propensity(bundle, p, keys=keys, rng=np.random.default_rng(1)) for p in (right, wrong)]
    assert [o.status for o in outcomes] == ["won", "stands"]
    assert outcomes[0].findings.overlap.propensity.startswith("the challenger's")


def test_a_propensity_needs_something_to_challenge(tmp_path):
    with pytest.raises(InputError, match="without propensities"):
        challenge.by_propensity(read(made(tmp_path)[0]), np.full(N, 0.5), rng=np.random.default_rng(0))


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
