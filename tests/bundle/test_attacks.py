"""Attacks on bundles: labels read out of sealed ones, bundles that lie, submissions that should not win.

Each attack that was found to work is kept here; the controls are the same attacks on what a bundle used to hold.
"""

import io
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.naive_bayes import GaussianNB

import miaudit as ma
from bundle.test_bundle import N, evidence, made, relisted, rewritten
from miaudit.auditing.headline import Declared, Exploratory
from miaudit.auditing.plan import Bounds, Plan
from miaudit.bundle import challenge, read, record, sealing, written_plan
from miaudit.bundle.verify import verify
from miaudit.causal.propensity import Nuisance
from miaudit.dp.mechanism import dp_sgd
from miaudit.errors import InputError
from report.test_vulnerability_page import audited

AUC = Plan(headline=Declared("loss"), primary_metric="auc", bounds=None)


def sealed(held, plan=None, **options):
    found = record(held, plan=plan or Plan(bounds=None), rng=np.random.default_rng(1), seal=True, **options)
    return found[1], found[2], found[0]


@cache
def _stored(design, share, own):
    plan, nuisance = Plan(bounds=None), Nuisance(classifier=GaussianNB()) if own else None
    rng = np.random.default_rng(5)
    return record(evidence(design), plan=plan, nuisance=nuisance, share=share, rng=rng)[1]


def stored(tmp_path, design="one-run", share="all", own=False):
    """A bundle that many tests start from, made once."""
    _stored(design, share, own).write(tmp_path / "b.zip")
    return tmp_path / "b.zip"


# -- labels read out of a sealed bundle -------------------------------------------------------------------------------


def guessed(bundle, score, findings):
    """Share of sealed labels that follow from open labels, scores, the histogram and the curve of some findings."""
    member, rows, shown = bundle.columns["member"], bundle.sealed.rows, findings["scores"][0]
    column, is_open = np.full(len(member), -1), member >= 0
    column[rows] = np.arange(len(rows))
    counts = findings["counts"]
    inside, outside = counts["member_records"], counts["nonmember_records"]
    equations = [(np.ones(len(member), dtype=bool), inside)]
    held = shown["distribution"]
    if held is not None:
        bins = np.clip(np.searchsorted(held["edges"], score, side="right") - 1, 0, len(held["members"]) - 1)
        equations += [(bins == b, share * inside) for b, share in enumerate(held["members"])]
    if shown["curve"] is not None:
        order = np.argsort(-score)
        for fpr, tpr in zip(shown["curve"]["fpr"], shown["curve"]["tpr"], strict=True):
            if tpr is None:
                continue
            accused = np.zeros(len(member), dtype=bool)
            accused[order[: round(tpr * inside + fpr * outside)]] = True
            equations.append((accused, tpr * inside))
    left = np.array([[(column[mask & ~is_open] == j).any() for j in range(len(rows))] for mask, _ in equations], float)
    right = np.array([total - member[mask & is_open].sum() for mask, total in equations])
    return lsq_linear(left, right, (0, 1)).x > 0.5


def test_curves_and_histograms_do_not_tell_sealed_labels():
    rng = np.random.default_rng(3)
    n = 200
    member = rng.random(n) < 0.5
    held = ma.Evidence(score=rng.normal(size=n) + 0.2 * member, member=member, design="one-run")
    bundle, keys, examined = sealed(held)
    score = bundle.columns["score"]
    told = np.mean(guessed(bundle, score, examined.findings.to_dict()) == keys.labels)
    kept = np.mean(guessed(bundle, score, bundle.findings.to_dict()) == keys.labels)
    spread = (0.25 / len(keys.rows)) ** 0.5  # which labels are sealed is not seeded; .83 told and .54 kept on average
    assert told > 0.5 + 3 * spread  # the control: with the whole findings most labels are told
    assert kept < 0.5 + 4 * spread


@pytest.mark.long
def test_an_open_record_of_a_unit_does_not_tell_the_sealed_one():
    member = np.repeat(np.arange(200) % 2 == 0, 3)
    unit = np.repeat(np.arange(200), 3)
    held = ma.Evidence(score=np.random.default_rng(0).normal(size=N), member=member, unit=unit, design="one-run")
    bundle, keys, _ = sealed(held)
    units = bundle.columns["unit"]
    assert not np.intersect1d(units[keys.rows], np.delete(units, keys.rows)).size
    assert len(keys.rows) == N // 2


def test_the_order_of_records_does_not_tell_sealed_labels():
    """Members before non-members, as two files make them: the nearest open label told every sealed one."""
    z = np.random.default_rng(0).normal(size=N)
    bundle, keys, _ = sealed(ma.Evidence.from_pair(z[:300], z[300:], design="one-run"))
    member = bundle.columns["member"]
    is_open = np.flatnonzero(member >= 0)
    nearest = member[is_open[np.abs(keys.rows[:, None] - is_open[None, :]).argmin(axis=1)]]
    assert abs(np.mean(nearest == keys.labels) - 0.5) < 4 * (0.25 / len(keys.rows)) ** 0.5
    assert sorted(keys.order.tolist()) == list(range(N))
    assert np.array_equal(bundle.columns["score"], z[keys.order])


@pytest.mark.thorough
@pytest.mark.long
def test_findings_of_a_sealed_bundle_are_of_open_records_alone(tmp_path):
    held = evidence("zero-run", group=np.arange(N) % 7)
    for _ in range(8):  # which records are sealed nobody can repeat: of one draw in twelve too few count as independent
        bundle, keys, examined = sealed(held, Plan(bounds=None, row_level=5))
        if bundle.findings.verdict.status != "refused":
            break
    found, is_open = bundle.findings.to_dict(), np.delete(np.arange(N), keys.rows)
    member = bundle.columns["member"][is_open]
    assert (found["counts"]["member_records"], found["counts"]["nonmember_records"]) == (
        sum(member == 1),
        sum(member == 0),
    )
    assert sum(group["members"] for group in found["groups"]) == sum(member == 1)
    assert len(bundle.propensity.values) == len(
        is_open
    )  # fitted to open labels: of all, one equation for each covariate
    assert f"{len(is_open)} open records alone" in found["notes"][0]
    score = bundle.columns[f"score.{found['scores'][0]['score']}"][is_open]
    assert all(score[row["row"]] == row["score"] for row in found["rows"])
    assert found["evidence"]["digest"] not in (held.digest, bundle.evidence(keys).digest)
    for row in examined.findings.rows:  # the owner sees them as they were handed in
        assert held.member[row["row"]]
        assert held.only(examined.findings.scores[0].score).score[row["row"]] == row["score"]
    bundle.write(tmp_path / "b.zip")
    assert verify(tmp_path / "b.zip", keys=keys).status == "verified"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("share", ["all", "scores"])
@pytest.mark.parametrize("design", ["one-run", "zero-run"])
def test_sealed_bundles_verify_once_opened(tmp_path, share, design):
    groups = {"group": np.arange(N) % 3, "unit": np.arange(N) // 2}
    member = np.repeat(np.random.default_rng(1).random(N // 2) < 0.5, 2)
    held = evidence(design, **groups).replace(member=member)
    _, bundle, keys = record(
        held, plan=Plan(bounds=None, row_level=3), rng=np.random.default_rng(2), share=share, seal=True
    )
    bundle.write(tmp_path / "b.zip")
    found = verify(tmp_path / "b.zip", keys=keys)
    assert found.differences == found.tampered == ()
    assert found.status == ("in-part" if (share, design) == ("scores", "zero-run") else "verified")
    before = verify(tmp_path / "b.zip")
    assert before.differences == before.tampered == ()
    assert (before.status, before.exit_code) == ("in-part", 4)
    assert 0 < before.recomputed < found.recomputed
    assert "labels are sealed" in before.not_recomputed[0]


@pytest.mark.long
@pytest.mark.parametrize("which", ["open", "all"])
def test_both_audits_of_a_sealed_bundle_are_held_to_their_records(tmp_path, which):
    """What is published before the opening, and what the commitment opens to."""
    bundle, keys, _ = sealed(evidence(), AUC)
    if which == "all":
        content = json.loads(keys.audit)
        content["findings"]["verdict"]["text"] = "All is well."
        keys = replace(keys, audit=json.dumps(content))
        bundle = replace(bundle, sealed=keys.sealed())
    bundle.write(tmp_path / "b.zip")
    path = lying(tmp_path / "b.zip", findings=verdict_of_peace) if which == "open" else tmp_path / "b.zip"
    assert verify(path).status == ("failed" if which == "open" else "in-part")
    found = verify(path, keys=keys)
    assert found.status == "failed"
    places = [d.place for d in found.differences]
    assert places[0].startswith("findings." if which == "open" else "all records: findings.")


def damaged(keys, change):
    content = json.loads(keys.audit)
    change(content)
    return replace(keys, audit=json.dumps(content))


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.clear(),
        lambda c: c.update(findings=[]),
        lambda c: c.update(notes=None),
        lambda c: c.update(propensity=[0.5], rows=[0, 2**62]),
        lambda c: c.update(propensity=[0.5] * 5, rows=[0, 2**63 - 1, -(2**63), -1, 3]),
        lambda c: c.update(propensity=[2.0] * N),
        lambda c: c.update(propensity="x"),
        lambda c: c.update(propensity=nested(50)),
        lambda c: c.update(more=nested(100)),
    ],
    ids=range(9),
)
def test_strange_audits_behind_a_commitment_are_one_line(tmp_path, change):
    """An owner can commit to anything."""
    bundle, keys, _ = sealed(evidence(), AUC)
    keys = damaged(keys, change)
    replace(bundle, sealed=keys.sealed()).write(tmp_path / "b.zip")
    with pytest.raises(InputError) as caught:
        verify(tmp_path / "b.zip", keys=keys)
    assert "\n" not in str(caught.value)


def test_hashes_cannot_be_sealed():
    with pytest.raises(InputError, match="hashes hold no labels"):
        record(evidence(), rng=np.random.default_rng(0), share="hashes", seal=True)


@pytest.mark.long
def test_pseudonyms_stand_in_an_order_of_their_own(tmp_path):
    """Names in alphabetic order give pseudonyms in no order."""
    path, *_ = made(tmp_path, share="scores", units=True)
    names = read(path).columns["unit"][::2]
    assert list(names) != sorted(names)
    assert abs(np.corrcoef(np.argsort(np.argsort(names)), np.arange(len(names)))[0, 1]) < 4 / len(names) ** 0.5


@pytest.mark.long
@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("share", ["all", "scores", "hashes"])
def test_names_of_vulnerable_records_leave_only_with_everything(share, seal):
    if share == "hashes" and seal:
        return
    found = audited(units=True)
    held = ma.Evidence(score=np.arange(240.0), member=np.arange(240) % 2 == 0, design="one-run")
    options = {"vulnerability": found.vulnerability, "plan": Plan(bounds=None), "rng": np.random.default_rng(0)}
    examined, bundle, _ = record(held, share=share, seal=seal, **options)
    named = "person 0" in bundle.findings.to_json()
    assert named == (share == "all" and not seal)
    assert "person 0" in examined.findings.to_json()  # the owner's own page keeps them


# -- bundles that lie -------------------------------------------------------------------------------------------------


def lying(path, about=None, findings=None, manifest=None):
    """The bundle rewritten by a careful forger, with functions that change parts of it."""

    def change(entries):
        for name, edit in (("audit.json", about), ("findings.json", findings)):
            if edit is not None:
                content = json.loads(entries[name])
                edit(content)
                entries[name] = json.dumps(content).encode()
        relisted(entries)
        if manifest is not None:
            content = json.loads(entries["manifest.json"])
            manifest(content)
            entries["manifest.json"] = json.dumps(content).encode()

    return rewritten(path, change)


def verdict_of_peace(content):
    content["verdict"]["text"] = "All is well."


@pytest.mark.long
def test_models_of_the_author_excuse_nothing_where_they_have_no_part(tmp_path):
    path = lying(stored(tmp_path), lambda a: a.update(programs="classifier"), verdict_of_peace)
    found = verify(path)
    assert found.status == "failed"
    assert [d.place for d in found.differences] == ["findings.verdict.text"]


@pytest.mark.thorough
@pytest.mark.long
def test_in_part_is_not_verified(tmp_path):
    """A zero-run bundle without covariates may say any verdict; then it must not count as verified."""
    path = lying(stored(tmp_path, "zero-run", "scores"), findings=verdict_of_peace)
    assert (verify(path).status, verify(path).exit_code) == ("in-part", 4)


@pytest.mark.long
def test_the_headline_of_a_part_must_be_its_first_score(tmp_path):
    def change(content):
        next(m for m in content["metrics"] if m["name"] == "auc")["value"] = 0.5

    path = lying(stored(tmp_path, "zero-run", own=True), findings=change)
    assert verify(path).status == "failed"


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("counts.member_records", lambda c: c["counts"].update(member_records=7)),
        ("plan.confidence", lambda c: c["plan"].update(confidence=0.99)),
        ("evidence.digest", lambda c: c["evidence"].update(digest="0" * 64)),
        ("design", lambda c: c.update(design="one-run")),
    ],
)
def test_what_a_part_still_checks(tmp_path, place, change):
    found = verify(lying(stored(tmp_path, "zero-run", "scores"), findings=change))
    assert [d.place for d in found.differences] == [f"findings.{place}"]


@pytest.mark.long
def test_a_small_number_is_compared_by_its_size(tmp_path):
    """Both are below the tolerance; a delta of 1e-12 is another promise than one of 9e-10."""
    path = made(tmp_path, plan=Plan(bounds=Bounds(delta=9e-10)))[0]
    assert verify(path).status == "verified"

    def change(content):
        content["plan"]["bounds"]["delta"] = 1e-12
        for bound in content["bounds"]:
            bound["delta"] = min(bound["delta"], 1e-12)

    found = verify(lying(path, findings=change))
    assert any(d.place == "findings.plan.bounds.delta" for d in found.differences)


@pytest.mark.long
@pytest.mark.parametrize(
    "manifest",
    [
        lambda m: m["files"].pop("records.npz"),
        lambda m: m["files"].clear(),
        lambda m: m.update(files=None),
        lambda m: m["files"].update({"more.npz": {}}),
        lambda m: m["files"].update({"records.npz": 1}),
        lambda m: m.update(records=N - 1),
    ],
    ids=["one fewer", "none", "no list", "one more", "no digest", "another count"],
)
def test_a_manifest_that_does_not_fit(tmp_path, manifest):
    found = verify(lying(stored(tmp_path), manifest=manifest))
    assert found.tampered
    assert found.status == "failed"


def with_arrays(entries, name, change):
    held = dict(np.load(io.BytesIO(entries[name])))
    held = change(held) or held
    handle = io.BytesIO()
    np.savez(handle, **held)
    entries[name] = handle.getvalue()
    relisted(entries)


STRANGE_PLANS = {
    "an array of text": {"record": "plan", "fpr_targets": {"array": ["x"]}},
    "an array alone": {"array": ["x"]},
    "an array of arrays": {"record": "plan", "fpr_targets": {"array": [[1]]}},
    "a number too large": {"record": "plan", "confidence": 10**400},
    "another record inside": {"record": "plan", "bounds": {"record": "plan"}},
    "a mechanism in place of a claim": {
        "record": "plan",
        "bounds": {"record": "bounds", "claim": {"record": "bootstrap"}},
    },
    "years of replicates": {"record": "plan", "n_bootstrap": 1_000_000},
    "thousands of targets": {"record": "plan", "fpr_targets": [i / 2000 for i in range(1, 1000)]},
    "a very long list": {"record": "plan", "categories": ["a"] * 20_000},
    "gigabytes of steps": Plan(bounds=Bounds(mechanism=dp_sgd(records=1000, batch=10, noise=1.0, steps=10**10))),
    "a metric that is none": {"record": "plan", "primary_metric": "tpr_at_fpr_x"},
    "a metric that is a number": {"record": "plan", "primary_metric": 7},
    "components of a fraction": {"record": "plan", "components": 1.5},
}


@pytest.mark.parametrize("plan", STRANGE_PLANS.values(), ids=STRANGE_PLANS)
def test_strange_plans_are_refused(tmp_path, plan):
    plan = written_plan.encode(plan) if isinstance(plan, Plan) else plan
    with pytest.raises(InputError):
        verify(lying(stored(tmp_path), lambda a: a.update(plan=plan)))
    with pytest.raises(InputError):
        written_plan.plan_of(plan)


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("entry", ["records.npz", "rows.npy", "audit.json", "findings.json"])
def test_entries_that_are_missing(tmp_path, entry):
    def change(entries):
        del entries[entry]
        manifest = json.loads(entries["manifest.json"])
        del manifest["files"][entry]
        entries["manifest.json"] = json.dumps(manifest).encode()

    path = rewritten(stored(tmp_path), change)
    try:
        assert verify(path).status == "failed"
    except InputError as error:
        assert "\n" not in str(error)


# -- challengers and owners who cheat ---------------------------------------------------------------------------------


@pytest.mark.long
def test_an_owner_who_commits_to_other_labels_is_found(tmp_path):
    """With false commitments no challenger could ever win, and the keys would fit."""
    bundle, keys, _ = sealed(evidence(), AUC)
    false = replace(keys, labels=~keys.labels)
    path = tmp_path / "b.zip"
    bundle.write(path)

    def change(entries):
        with_arrays(entries, "sealed.npz", lambda h: h.update(commitments=false.sealed().commitments))

    held = read(rewritten(path, change))
    assert held.tampered == ()
    assert false.opens(held.sealed)
    with pytest.raises(InputError, match="follow from its records"):
        challenge.by_scores(held, evidence().member[keys.order] * 1.0, keys=false, rng=np.random.default_rng(0))
    assert verify(path, keys=false).status == "failed"


@pytest.mark.long
def test_keys_of_another_bundle_do_not_open(tmp_path):
    bundle, _, _ = sealed(evidence(), AUC)
    _, other, _ = sealed(evidence(), AUC)
    with pytest.raises(InputError, match="key file that belongs"):
        bundle.evidence(other)


def test_commitments_bind_row_label_and_salt():
    salts = np.arange(32, dtype=np.uint8).reshape(2, 16)
    rows = np.array([0, 1])
    first = sealing._commitments(rows, np.array([True, False]), salts)
    for changed in (
        sealing._commitments(rows, np.array([False, False]), salts),
        sealing._commitments(rows + 1, np.array([True, False]), salts),
        sealing._commitments(rows, np.array([True, False]), salts[::-1]),
    ):
        assert not np.array_equal(changed[0], first[0])


NO_STRONGER = {
    "constants": lambda held: np.zeros(N),
    "the bundle's own": lambda held: held.only("loss").score,
    "the same in other units": lambda held: 1e100 * held.only("loss").score,
    "the same by rank": lambda held: np.argsort(np.argsort(held.only("loss").score)).astype(float),
    "two values": lambda held: (held.only("loss").score > 0).astype(float),
    "noise": lambda held: np.random.default_rng(5).normal(size=N),
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("submit", NO_STRONGER.values(), ids=NO_STRONGER)
@pytest.mark.parametrize("metric", ["auc", "tpr_at_fpr_0.1"])
@pytest.mark.parametrize("units", [False, True])
def test_what_is_no_stronger_does_not_win(tmp_path, submit, metric, units):
    plan = Plan(headline=Declared("loss"), primary_metric=metric, bounds=None)
    held = evidence(**({"unit": np.arange(N) // 2} if units else {}))
    _, bundle, _ = record(held, plan=plan, rng=np.random.default_rng(0))
    found = challenge.by_scores(bundle, submit(held), rng=np.random.default_rng(1))
    assert (found.status, found.metric) == ("stands", metric)


@pytest.mark.long
@pytest.mark.parametrize("submit", [np.zeros(N), np.random.default_rng(4).normal(size=N)], ids=["constants", "noise"])
def test_to_be_better_than_an_attack_below_chance_is_no_win(submit):
    held = evidence()
    upside_down = held.replace(score=-2 * held.only("loss").score)
    _, bundle, _ = record(
        upside_down, plan=Plan(headline=Exploratory(), primary_metric="auc", bounds=None), rng=np.random.default_rng(0)
    )
    found = challenge.by_scores(bundle, submit, rng=np.random.default_rng(1))
    assert found.difference["low"] > 0
    assert found.status == "stands"
    assert "better than chance" in found.text


@pytest.mark.long
def test_too_few_false_alarms_are_judged_by_the_auc():
    plan = Plan(headline=Declared("loss"), primary_metric="tpr_at_fpr_0.01", fpr_targets=(0.01,), bounds=None)
    _, bundle, _ = record(evidence(), plan=plan, rng=np.random.default_rng(0))  # about 3 false alarms
    found = challenge.by_scores(bundle, evidence().only("margin").score, rng=np.random.default_rng(1))
    assert found.metric == "auc"
