"""Which came first, a submission or the opening of the labels: whoever cannot show it wins nothing.

The control is the honest challenger, whom the owner signed for: the same scores win.
"""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

import miaudit as ma
from bundle.test_bundle import N, attack, evidence
from miaudit.auditing.headline import Declared
from miaudit.auditing.plan import Plan
from miaudit.bundle import challenge, read, record, sealing
from miaudit.bundle.sealing import SealKeys
from miaudit.errors import InputError, OutputError
from miaudit.io import signature

AUC = Plan(headline=Declared("loss"), primary_metric="auc", bounds=None)


@pytest.fixture(scope="module")
def recorded():
    _, bundle, keys = record(evidence(), plan=AUC, rng=np.random.default_rng(1), seal=True)
    return bundle, keys


@pytest.fixture
def made(recorded):
    """The bundle, and keys that have signed nothing."""
    bundle, keys = recorded
    return bundle, replace(keys, use=signature.Use())


def submission(bundle, scores):
    return challenge.by_scores(bundle, scores, rng=np.random.default_rng(0)).submission


def judged(bundle, scores, keys, seed=0):
    return challenge.by_scores(bundle, scores, keys=keys, rng=np.random.default_rng(seed))


def of_labels(bundle, opening):
    """What a cheat submits who has the opened key: the labels themselves."""
    return bundle.labels(opening) + 1e-3 * np.random.default_rng(3).random(bundle.n)


@pytest.mark.thorough
@pytest.mark.long
def test_who_has_the_opened_key_wins_nothing_by_submitting_the_labels(made):
    bundle, keys = made
    honest = attack(1.5)[keys.order]
    opening = keys.opening(bundle.mark, [submission(bundle, honest)])
    won = judged(bundle, honest, opening)
    assert (won.status, won.exit_code, won.order, won.labels_visible) == ("won", 3, challenge.COMMITTED, False)
    cheat = judged(bundle, of_labels(bundle, opening), opening)
    assert cheat.difference["low"] > won.difference["low"]
    assert (cheat.status, cheat.exit_code, cheat.order) == ("undecided", 4, challenge.UNKNOWN)
    assert cheat.text.startswith("Nothing is decided: order unknown.")
    assert cheat.labels_visible


@pytest.mark.long
def test_the_owners_keys_say_nothing_of_the_order(made):
    bundle, keys = made
    assert judged(bundle, of_labels(bundle, keys), keys).order == challenge.UNKNOWN


@pytest.mark.long
def test_a_bundle_stands_whatever_the_order(made):
    bundle, keys = made
    found = judged(bundle, attack(0.2)[keys.order], keys)
    assert (found.status, found.exit_code, found.order) == ("stands", 0, challenge.UNKNOWN)


def forged_list(opening, mine, bundle):
    return replace(opening, submissions=tuple(sorted((*opening.submissions, mine))))


def signed_by_the_cheat(opening, mine, bundle):
    keys = SealKeys.new(np.zeros(4, dtype=bool), seal=True)
    return replace(opening, submissions=(mine,), signature=keys.opening(bundle.mark, [mine]).signature)


def without_signature(opening, mine, bundle):
    return replace(opening, submissions=(mine,), signature=b"")


def of_swapped_parts(opening, mine, bundle):
    """Values of one place put where another's are asked for."""
    parts = bytearray(opening.signature)
    parts[16:32] = parts[32:48]
    return replace(opening, submissions=(mine,), signature=bytes(parts))


FORGED = [forged_list, signed_by_the_cheat, without_signature, of_swapped_parts]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("forge", FORGED, ids=lambda forge: forge.__name__)
def test_a_list_that_the_owner_did_not_sign_counts_for_nothing(made, forge):
    bundle, keys = made
    opening = keys.opening(bundle.mark, ["0" * 64])
    scores = of_labels(bundle, opening)
    found = judged(bundle, scores, forge(opening, submission(bundle, scores), bundle))
    assert (found.status, found.order) == ("undecided", challenge.UNKNOWN)


def test_a_commitment_binds_every_number_the_subject_and_the_bundle(made):
    bundle, _ = made
    scores = attack(1.5)
    nudged = scores.copy()
    nudged[7] = np.nextafter(nudged[7], 9)
    _, other, _ = record(evidence(), plan=AUC, rng=np.random.default_rng(1), seal=True)
    replanned = replace(bundle, plan=replace(AUC, confidence=0.9))
    digests = {
        *(submission(which, values) for which in (bundle, other, replanned) for values in (scores, nudged)),
        challenge._digest(bundle, "propensity at 0.1", scores),
        challenge._digest(bundle, "propensity at 0.2", scores),
    }
    assert len(digests) == 8


@pytest.mark.thorough
@pytest.mark.long
def test_the_mark_of_a_bundle_is_that_of_its_file(tmp_path):
    texts = [f"text {i}, naïve" for i in range(N)]
    held = evidence("zero-run", text=texts, unit=np.array([f"p{i}" for i in range(N)]), group=np.arange(N) % 3)
    _, bundle, _ = record(held, plan=Plan(), rng=np.random.default_rng(1), seal=True)
    bundle.write(tmp_path / "b.zip")
    assert read(tmp_path / "b.zip").mark == bundle.mark


@pytest.mark.long
def test_an_opening_of_another_bundle_is_refused(made):
    bundle, _ = made
    _, other, theirs = record(evidence(), plan=AUC, rng=np.random.default_rng(1), seal=True)
    with pytest.raises(InputError, match="key file that belongs"):
        judged(bundle, attack(1.0), theirs.opening(other.mark, []))


@pytest.mark.thorough
@pytest.mark.long
def test_nobody_chooses_the_random_numbers_of_a_sealed_contest(made):
    bundle, keys = made
    scores = attack(0.8)[keys.order]
    first, second = (judged(bundle, scores, keys, seed) for seed in (1, 2))
    assert first.difference == second.difference


def test_an_opening_comes_back_and_gives_away_no_name(made, tmp_path):
    bundle, keys = made
    opening = keys.opening(bundle.mark, ["ab" * 32, "00" * 32])
    opening.write(tmp_path / "o.json")
    back = sealing.read(tmp_path / "o.json")
    assert not isinstance(back, SealKeys)
    assert back.opens(bundle.sealed)
    assert back.lists("ab" * 32, bundle.mark, bundle.sealed)
    assert not back.lists("cd" * 32, bundle.mark, bundle.sealed)
    text = (tmp_path / "o.json").read_text()
    assert not {"pseudonyms", "signing", "order"} & set(json.loads(text))
    assert keys.signing.hex() not in text
    assert keys.pseudonyms.hex() not in text
    with pytest.raises(OutputError, match=r"opening is there already"):
        opening.write(tmp_path / "o.json")
    with pytest.raises(InputError, match="signs nothing"):
        SealKeys.read(tmp_path / "o.json")


@pytest.mark.parametrize("digest", ["", "x" * 64, "AB" * 32, "ab" * 31, "ab" * 33, "ab" * 32 + "\n"])
def test_what_is_no_digest_is_not_signed(made, digest):
    bundle, keys = made
    with pytest.raises(InputError, match="64 digits"):
        keys.opening(bundle.mark, [digest])


def test_signatures_are_those_of_fips_205():
    """SLH-DSA-SHA2-128f: a key of NIST's (ACVP keyGen, tcId 31), and what the package slh-dsa 0.2.5 signs."""
    secret, public, root = (
        bytes.fromhex(text)
        for text in (
            "c42bcb3b5a6f331f5cce899253c6d9e2",
            "a868f1bd5debc12d4c9fad66aabd0a94",
            "b546df247be4c457f3d467cdfcfabd39",
        )
    )
    assert signature._Key(secret, bytes(16), public).public == public + root
    for seed, key, signed in (
        (
            bytes(32),
            "531718e336d2a4ebe0b208ae9feba3435d2d7a4c5568512763463253a993c952",
            "3a599074b2687689f2d1c96d8cb2df5f46f82df288d5d83b5d282ab4b19e1428",
        ),
        (
            b"\x01" * 32,
            "cc70afa6e41ae2fd585f25a41cb8a009dda1278f68089537e9d99b69691e00af",
            "61ea030735d3875209ac1532f8baac8cee99e5ac0fb0a35ed1c195a58d44cbb3",
        ),
    ):
        made = signature.sign(seed, b"a message %d" % seed[0])
        assert signature.public_of(seed).hex() == key
        assert (len(made), hashlib.sha256(made).hexdigest()) == (signature.BYTES, signed)


SECOND = [[], ["cd" * 32], ["ab" * 32, "cd" * 32]]


@pytest.mark.long
@pytest.mark.parametrize("second", SECOND, ids=len)
@pytest.mark.parametrize("place", ["memory", "written", "read", "link"])
def test_a_key_file_opens_once(made, tmp_path, second, place):
    """The same list may be signed again, as after a kill between the record and the opening; no other."""
    bundle, keys = made
    path, first = tmp_path / "k.json", ["ab" * 32]
    again = keys
    if place != "memory":
        keys.write(path)
        (tmp_path / "link.json").symlink_to(path)
        again = SealKeys.read(tmp_path / "link.json") if place == "link" else SealKeys.read(path)
    opening = keys.opening(bundle.mark, first)
    if place == "read":
        again = SealKeys.read(path)
    with pytest.raises(InputError, match="a secret signs once"):
        again.opening(bundle.mark, second)
    with pytest.raises(InputError, match="signs once"):
        again.opening(bytes(32), first)  # of another bundle
    assert again.opening(bundle.mark, first).signature == opening.signature
    if place != "memory":
        assert json.loads(path.read_text())["signed"]["submissions"] == first
        assert SealKeys.read(path).opens(bundle.sealed)
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_signatures_against_every_flipped_bit_of_key_and_message():
    seed = bytes(range(32))
    public, signed = signature.public_of(seed), signature.sign(seed, b"a")
    assert signature.holds(public, b"a", signed)
    assert not signature.holds(public, b"b", signed)
    assert not signature.holds(signature.public_of(bytes(32)), b"a", signed)
    for position in range(0, len(signed), 97):
        changed = bytearray(signed)
        changed[position] ^= 1
        assert not signature.holds(public, b"a", bytes(changed))
    for changed in (b"", signed[:-1], signed + b"\0"):
        assert not signature.holds(public, b"a", changed)


def test_an_audit_that_was_not_committed_to_does_not_open(made):
    """The owner may not show other findings of all records than those that the bundle is bound to."""
    bundle, keys = made
    content = json.loads(keys.audit)
    content["findings"]["verdict"]["text"] = "All is well."
    with pytest.raises(InputError, match="key file that belongs"):
        judged(bundle, np.zeros(N), replace(keys, audit=json.dumps(content)))


@pytest.mark.long
def test_propensities_that_an_owner_made_of_the_labels_stand_no_bet():
    """Committed to unseen, near 0 and 1, they would foresee every label; what counts is what the covariates give."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=1000) * 1.5
    member = rng.random(1000) < 1 / (1 + np.exp(1.5 - x**2))  # a line in x cannot see it
    held = ma.Evidence(score=rng.normal(size=1000), member=member, covariates=x, design="zero-run")
    _, bundle, keys = record(held, plan=Plan(propensity_model="line", bounds=None), rng=rng, seal=True)
    content = json.loads(keys.audit)
    content["propensity"] = (0.001 + 0.998 * bundle.labels(keys)).tolist()
    keys = replace(keys, audit=json.dumps(content))
    bundle = replace(bundle, sealed=keys.sealed())
    right = 1 / (1 + np.exp(1.5 - x[keys.order] ** 2))
    submitted = challenge.by_propensity(bundle, right, rng=rng).submission
    found = challenge.by_propensity(bundle, right, keys=keys.opening(bundle.mark, [submitted]), rng=rng)
    assert (found.status, found.order) == ("won", challenge.COMMITTED)


@pytest.mark.thorough
@pytest.mark.long
def test_the_best_of_many_submissions_does_not_win(made):
    """Of 150 that know nothing new seven won, and each was said to be the first. The control is the best one alone."""
    bundle, keys = made
    rng = np.random.default_rng(4)
    plain = evidence().scores["loss"][keys.order]
    noisy = [plain + 0.8 * rng.normal(size=N) for _ in range(150)]
    rows, member = keys.rows, keys.labels

    def auc(z):
        return np.mean(z[rows][member][:, None] > z[rows][~member][None, :])

    best = max(noisy, key=auc)
    digests = [submission(bundle, z) for z in noisy]
    among = judged(bundle, best, keys.opening(bundle.mark, digests))
    assert (among.status, among.order, among.listed) == ("stands", challenge.COMMITTED, 150)
    assert "It is one of 150 submissions that the owner signed for, and pays for all of them" in among.text
    assert "first challenge" not in among.text
    alone = judged(bundle, best, replace(keys, use=signature.Use()).opening(bundle.mark, [submission(bundle, best)]))
    assert alone.listed == 1
    assert "the only submission" in alone.text
    assert among.difference["low"] < alone.difference["low"]
    assert ("Alone it would be ahead" in among.text) is (alone.difference["low"] > 0)
    strong = attack(2.5)[keys.order]  # what is really stronger wins among them all the same
    listed = replace(keys, use=signature.Use()).opening(bundle.mark, [*digests, submission(bundle, strong)])
    assert judged(bundle, strong, listed).status == "won"
