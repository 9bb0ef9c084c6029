"""Labels solved for from all that a sealed bundle publishes: each number computed on them is an exact equation.

The attacks get the file and nothing else. The control gives them what a bundle once held: the findings of all records
beside the scores. There they must recover the labels; here they must not beat a coin.
"""

import hashlib
import json
import zipfile
from io import BytesIO

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

import miaudit as ma
from miaudit.auditing import pipeline
from miaudit.auditing.headline import Declared, Exploratory, Split
from miaudit.auditing.plan import Bounds, Plan
from miaudit.bundle import contents, read, record, recording, sealing, written_plan
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.collect.outputs import Attack, from_outputs
from miaudit.dp.zero_run import Thinning
from miaudit.errors import InputError

CHANCE = 1e-6  # which labels are sealed comes from the operating system, so no test here has a seed of its own


def published(path):
    """Everything in the file: JSON as plain values, arrays by name."""
    found = {}
    with zipfile.ZipFile(path) as held:
        for name in held.namelist():
            content = held.read(name)
            if name.endswith(".json"):
                found[name] = json.loads(content)
            elif name.endswith(".npz"):
                found[name] = dict(np.load(BytesIO(content)))
            else:
                found[name] = np.load(BytesIO(content))
    return found


def numbers(tree):
    """Every number of a tree of plain values, wherever it stands."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return {value for item in tree for value in numbers(item)}
    return {float(tree)} if isinstance(tree, int | float) and not isinstance(tree, bool) else set()


def values_of(findings, name):
    """The value of a metric for each score, raw."""
    return {
        score["score"]: metric["value"]
        for score in findings["scores"]
        for metric in score["metrics"]
        if (metric["name"], metric["estimator"]) == (name, "raw")
    }


def subset_sums(z):
    sums, sizes = np.zeros(1), np.zeros(1, dtype=int)
    for value in z:
        sums, sizes = np.r_[sums, sums + value], np.r_[sizes, sizes + 1]
    return sums, sizes


def met_in_the_middle(z, member, values):
    """Labels of the sealed records (-1) for which a difference of means is one of the values; None where none fits."""
    is_open = member >= 0
    sealed, n = z[~is_open], len(z)
    inside, total = z[member == 1].sum(), z.sum()
    known, half = np.count_nonzero(member == 1), len(sealed) // 2
    (left, left_sizes), (right, right_sizes) = subset_sums(sealed[:half]), subset_sums(sealed[half:])
    order, other = np.argsort(right), np.argsort(-left)  # sorted questions are answered faster
    right, right_sizes = right[order], right_sizes[order]
    left, left_sizes = left[other], left_sizes[other]
    for value in values:
        for k in range(len(sealed) + 1):
            members = known + k
            if members in (0, n):
                continue
            wanted = (value + total / (n - members)) / (1 / members + 1 / (n - members)) - inside
            near = np.searchsorted(right, wanted - left - 1e-12)
            near = np.minimum(near, len(right) - 1)
            fits = (np.abs(left + right[near] - wanted) < 1e-12) & (left_sizes + right_sizes[near] == k)
            if fits.any():
                found = int(np.argmax(fits))
                i, j = int(other[found]), int(order[near[found]])
                return np.array(
                    [i >> b & 1 for b in range(half)] + [j >> b & 1 for b in range(len(sealed) - half)], dtype=bool
                )
    return None


def solved(scores, member, values):
    """Labels from one difference of means for each score: linear equations for every possible number of members."""
    is_open, best = member >= 0, (np.inf, None)
    names = [name for name in values if values[name] is not None]
    a = np.array([scores[name][~is_open] for name in names])
    n, known = len(member), np.count_nonzero(member == 1)
    for k in range(1, a.shape[1]):
        members = known + k
        wanted = [
            (values[name] + scores[name].sum() / (n - members)) / (1 / members + 1 / (n - members))
            - scores[name][member == 1].sum()
            for name in names
        ]
        x, *_ = np.linalg.lstsq(np.vstack([a, np.ones(a.shape[1])]), np.r_[wanted, k], rcond=None)
        miss = np.abs(x - np.round(np.clip(x, 0, 1))).max()
        best = min(best, (miss, tuple(x > 0.5)))
    return np.array(best[1])


def right(guess, keys):
    """How many sealed labels a guess gets right; a coin where there is none."""
    guess = np.random.default_rng(9).random(len(keys.rows)) < 0.5 if guess is None else guess
    return int(np.count_nonzero(guess == keys.labels))


def coin(m):
    """More right ones than this are no chance."""
    return binom.ppf(1 - CHANCE, m, 0.5)


def sealed(tmp_path, n, names=("score",), plan=None, share="all", **fields):
    rng = np.random.default_rng(4)
    member = np.arange(n) % 2 == 0
    scores = {name: rng.normal(size=n) for name in names}  # they say nothing of membership by themselves
    held = ma.Evidence(score=scores, member=member, design="one-run", **fields)
    plan = plan or Plan(headline=Declared(names[0]), bounds=None)
    examined, bundle, keys = record(held, plan=plan, rng=rng, seal=True, share=share)
    bundle.write(tmp_path / "b.zip")
    content = published(tmp_path / "b.zip")
    return content, content["records.npz"], keys, examined.findings.to_dict()


# -- the attacks, and what a bundle once held as their control --------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
def test_one_score_does_not_tell_forty_sealed_labels(tmp_path):
    told = []
    for draw in range(4):  # of 2^40 subsets another one fits as well in one draw of ten, and is met first
        (tmp_path / f"{draw}").mkdir()
        content, records, keys, whole = sealed(tmp_path / f"{draw}", 80, share="scores")
        z, member = records["score"], records["member"]
        assert len(keys.rows) == 40
        once, now = (values_of(found, "ate").values() for found in (whole, content["findings.json"]))
        assert right(met_in_the_middle(z, member, now), keys) <= coin(40)
        told.append(right(met_in_the_middle(z, member, once), keys))
        if told[-1] == 40:
            break
    assert max(told) == 40  # the control


@pytest.mark.long
def test_no_number_of_a_sealed_bundle_is_an_equation_in_its_labels(tmp_path):
    groups = {"group": np.arange(44) % 2}
    plan = Plan(headline=Declared("score"), bounds=None, n_bootstrap=100)
    content, records, keys, whole = sealed(tmp_path, 44, plan=plan, **groups)
    z, member = records["score"], records["member"]
    now = numbers([part for name, part in content.items() if name.endswith(".json")])
    assert len(now) > 50
    assert right(met_in_the_middle(z, member, sorted(numbers(whole))), keys) == 22  # the control
    assert right(met_in_the_middle(z, member, sorted(now)), keys) <= coin(22)


@pytest.mark.thorough
@pytest.mark.long
def test_many_scores_do_not_tell_sealed_labels(tmp_path):
    names = [f"s{i}" for i in range(110)]
    content, records, keys, whole = sealed(tmp_path, 200, names, Plan(headline=Exploratory(), bounds=None))
    assert len(keys.rows) == 100
    n, scores = 200, {name: records[f"score.{name}"] for name in names}
    ranks = {name: np.argsort(np.argsort(values)).astype(float) for name, values in scores.items()}
    for metric, basis in (("ate", scores), ("auc", ranks)):
        once, now = (values_of(findings, metric) for findings in (whole, content["findings.json"]))
        if metric == "auc":  # of ranks the difference of means is (AUC - 1/2) n
            once, now = ({name: (value - 0.5) * n for name, value in found.items()} for found in (once, now))
        assert right(solved(basis, records["member"], once), keys) == 100  # the control
        assert right(solved(basis, records["member"], now), keys) <= coin(100)


def test_the_seed_of_a_sealed_bundle_does_not_tell_labels_that_were_drawn_from_it(tmp_path):
    """A campaign draws memberships and audits with one generator: its seed is all that an attacker needs."""
    rng = np.random.default_rng(77)
    member = rng.random(400) < 0.5
    x = np.arange(400.0)  # known of each record, so that the shuffled ones are told apart
    held = ma.Evidence(score=rng.normal(size=400), member=member, covariates=x, design="one-run")
    repeat = {"command": "miaudit run a.yaml", "seed": 77}
    _, bundle, keys = record(held, plan=Plan(bounds=None), rng=rng, seal=True, repeat=repeat)
    bundle.write(tmp_path / "b.zip")
    content = published(tmp_path / "b.zip")
    place = content["records.npz"]["covariates"].reshape(-1).astype(int)[keys.rows]
    told = {77} & {content["findings.json"]["repeat"].get("seed"), content["audit.json"]["random"]["entropy"]}
    drawn = np.random.default_rng(77).random(400) < 0.5
    assert right(drawn[place], keys) == 200  # the control: who has the seed has the labels
    assert not told
    again = np.random.default_rng(content["audit.json"]["random"]["entropy"]).random(400) < 0.5
    assert right(again[place], keys) <= coin(200)


# -- non-interference: two audits that differ in sealed labels alone give the same file, but for commitments -----------


class Fixed:
    """What the operating system draws, the same for both audits; salts too, so that commitments alone may differ."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def sample(self, population, k):
        return self.rng.permutation(len(population))[:k].tolist()

    def token_bytes(self, n):
        return self.rng.bytes(n)

    def randbits(self, k):
        return int.from_bytes(self.rng.bytes(k // 8), "little")


def of_flipped(monkeypatch, make, seed=3):
    """The entries of a bundle, and of the one of the same records with all sealed labels flipped."""
    found, flipped = [], np.empty(0, dtype=int)
    for _ in range(2):
        system = Fixed(seed)
        for name, value in (("SystemRandom", lambda system=system: system), ("randbits", system.randbits)):
            monkeypatch.setattr(f"miaudit.bundle.sealing.secrets.{name}", value)
        monkeypatch.setattr("miaudit.bundle.sealing.secrets.token_bytes", system.token_bytes)
        bundle, keys = make(flipped)
        flipped = keys.order[keys.rows]
        found.append(contents._entries(bundle))
    return found


CASES = {
    "one run": ({"design": "one-run"}, Plan(), {}),
    "undeclared": ({"design": None}, Plan(bounds=None), {}),
    "a split": ({"design": "one-run"}, Plan(bounds=None, headline=Split()), {}),
    "bootstrap, groups, rows": (
        {"design": "one-run", "group": np.arange(240) % 3},
        Plan(bounds=None, n_bootstrap=100, row_level=4),
        {},
    ),
    "units, scores alone": (
        {"design": "one-run", "unit": np.array([f"p{i // 2}" for i in range(240)])},
        Plan(bounds=None),
        {"share": "scores"},
    ),
    "zero run": ({"design": "zero-run"}, Plan(bounds=None), {}),
    "zero run, scores alone": ({"design": "zero-run"}, Plan(bounds=None), {"share": "scores"}),
    "zero run, own classifier": (
        {"design": "zero-run"},
        Plan(bounds=None),
        {"nuisance": lambda _: Nuisance(classifier=GaussianNB())},
    ),
    "zero run, propensities that learned from all labels": (
        {"design": "zero-run"},
        Plan(bounds=None),
        {"nuisance": lambda member: Nuisance(propensity=Propensity.given(0.3 + 0.4 * member))},
    ),
    "what the collector says": (
        {"design": "one-run"},
        Plan(bounds=None),
        {"notes": lambda member: (f"{member[:9]}",), "repeat": lambda member: {"labels": member.tolist()}},
    ),
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sealed_labels_change_nothing_but_commitments(monkeypatch, case):
    fields, plan, options = case
    rng = np.random.default_rng(0)
    z, x = rng.normal(size=240), rng.normal(size=(240, 2))
    first = rng.random(240) < 0.5
    if "unit" in fields:
        first = np.repeat(first[:120], 2)
    covariates = {"covariates": x} if fields["design"] == "zero-run" else {}

    def make(flipped):
        member = first.copy()
        member[flipped] ^= True
        held = ma.Evidence(score=z, member=member, **covariates, **fields)
        own = {name: option(member) if callable(option) else option for name, option in options.items()}
        _, bundle, keys = record(held, plan=plan, rng=np.random.default_rng(1), seal=True, **own)
        return bundle, keys

    one, two = of_flipped(monkeypatch, make)
    assert set(one) == set(two)
    assert {name for name in one if one[name] != two[name]} <= {"sealed.npz", "manifest.json"}
    assert {name: len(content) for name, content in one.items()} == {name: len(two[name]) for name in two}
    a, b = (dict(np.load(BytesIO(content["sealed.npz"]))) for content in (one, two))
    assert {name for name in a if not np.array_equal(a[name], b[name])} == {"commitments", "audit"}
    lists = [json.loads(content["manifest.json"]) for content in (one, two)]
    for content in lists:
        content["files"].pop("sealed.npz")
    assert lists[0] == lists[1]


@pytest.mark.long
def test_the_commitment_to_the_audit_confirms_no_guess(tmp_path):
    """Plan and random numbers are published: of few sealed labels every audit there could be is made and compared."""
    _, records, keys, _ = sealed(tmp_path, 24)
    bundle = read(tmp_path / "b.zip")
    stated, hits = bundle.sealed.audit.tobytes(), []
    rows = keys.rows[:6]  # the other six are given to the attacker
    for guess in range(2 ** len(rows)):
        member = bundle.labels(keys)
        member[rows] = [guess >> i & 1 for i in range(len(rows))]
        held = ma.Evidence(score=records["score"], member=member, design="one-run")
        found, _, _ = pipeline.examine(held, plan=bundle.plan, rng=written_plan.generator_at(bundle.random))
        text = recording._Statement(found, (), "", None, None, ()).text
        if hashlib.sha256(text.encode()).digest() == hashlib.sha256(keys.audit.encode()).digest():
            hits.append(guess)  # the control: without a salt the right guess is confirmed
        for salt in (b"", bytes(32), keys.salts[0].tobytes(), keys.pseudonyms):
            assert sealing._commitment(text, salt).tobytes() != stated
    assert hits == [sum(int(label) << i for i, label in enumerate(keys.labels[:6]))]
    assert sealing._commitment(keys.audit, keys.audit_salt).tobytes() == stated
    assert keys.audit_salt not in (tmp_path / "b.zip").read_bytes()


def test_scores_that_learned_from_the_labels_are_not_sealed():
    """Their statistics are sums over members: with the losses beside them, four equations for each fold."""
    rng = np.random.default_rng(0)
    held = from_outputs(
        member=np.arange(200) < 100,
        losses=rng.random(200),
        attack=Attack(("gaussian_lira",)),
        rng=rng,
        design="one-run",
    ).evidence
    assert "gaussian_lira" in held.scores
    with pytest.raises(InputError, match=r"learned nothing from the labels.*audit the loss"):
        record(held, rng=rng, seal=True)


def test_a_margin_for_each_record_is_not_sealed():
    """It would stand in the plan in the owner's order, and may come from a model that saw the labels."""
    rng = np.random.default_rng(0)
    held = ma.Evidence(
        score=rng.normal(size=200), member=np.arange(200) < 100, design="zero-run", covariates=rng.normal(size=200)
    )
    plan = Plan(bounds=Bounds(correction=Thinning(half_width=np.full(200, 0.1))))
    with pytest.raises(InputError, match="one margin for all records"):
        record(held, plan=plan, rng=rng, seal=True)


def test_too_few_open_records_are_one_line():
    held = ma.Evidence(score=np.arange(4.0), member=[True, True, True, False], design="one-run")
    with pytest.raises(InputError, match="open records that can be audited alone") as caught:
        for _ in range(20):  # the one non-member is sealed in half of the draws
            record(held, plan=Plan(bounds=None), rng=np.random.default_rng(0), seal=True)
    assert "\n" not in str(caught.value)
