"""Reference scores over many audits: how often the test rejects, and what one more covariate repairs; run with ``-s``.

Membership and the scores of every model move with two covariates and with a trait that no covariate shows. Without the
trait in membership the covariates suffice. The truth of the AUC is then one half, unless the target leaks.
"""

from __future__ import annotations

from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causal_mia import shift_worlds
from scipy import special
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import miaudit as ma
from miaudit import Evidence, Plan, Reference
from miaudit.auditing.reference import parted
from miaudit.causal import effects, propensity
from miaudit.causal.covariates import Numbers
from miaudit.causal.outcome import Regression
from miaudit.metrics.classical import Estimate
from validity.claims import Claims

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2].parent / "shared" / "data"
of_data = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}")]
N, TRAIT, LEAK = 1000, 0.6, 1.0


def world(seed: int, *, trait: float = 0.0, leak: float = 0.0, saw: float = 0.0) -> Evidence:
    """``trait`` moves membership; the target leaks ``leak``, the reference ``small`` saw the members by ``saw``."""
    rng = np.random.default_rng(seed)
    x, hidden = rng.normal(size=(N, 2)), rng.normal(size=N)
    member = rng.random(N) < special.expit(0.8 * x[:, 0] - 0.5 * x[:, 1] + trait * hidden)
    ease = x[:, 0] + 0.5 * x[:, 1] + hidden
    added = {"loss": leak, "small": saw, "older": 0.0}
    scores = {name: ease + 0.5 * rng.normal(size=N) + more * member for name, more in added.items()}
    return Evidence(score=scores, member=member, covariates=x, design="zero-run")


def audit(seed: int, uses: dict[str, str], world_of: dict[str, float]) -> dict[str, Any]:
    evidence = world(seed, **world_of)
    kept = {name: evidence.scores[name] for name in ("loss", *uses.values())}
    reference = Reference(**uses, trained_on_neither=True) if uses else None  # type: ignore[arg-type]
    options: dict[str, Any] = {"propensity_model": "line", "estimator": "hajek", "primary_metric": "auc"}
    plan = Plan(**options, bounds=None, reference=reference, raw_only=True)
    found = ma.audit(evidence.replace(score=kept), plan=plan, rng=np.random.default_rng(seed))
    auc = found.metrics[[metric.name for metric in found.metrics].index("auc")]
    tested = None if found.reference is None else found.reference.corrected
    return {
        "status": found.verdict.status,
        "auc": auc.value if auc.estimator != "raw" else None,
        "low": auc.low,
        "test": None if tested is None else (tested.low, tested.high),
    }


def some(seeds: range, uses: dict[str, str], world_of: dict[str, float]) -> list[dict[str, Any]]:
    with threadpool_limits(1):
        return [audit(seed, uses, world_of) for seed in seeds]


def audits(pool: Executor, count: int, uses: dict[str, str], **world_of: float) -> list[dict[str, Any]]:
    parts = [pool.submit(some, range(k, count, 4), uses, world_of) for k in range(4)]
    return [row for part in parts for row in part.result()]


def rejected(rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    """How many audits were tested, and how many of them rejected for an AUC above and below one half."""
    tested = [row["test"] for row in rows if row["test"] is not None]
    return len(tested), sum(low > 0.5 for low, _ in tested), sum(high < 0.5 for _, high in tested)


def bias(rows: list[dict[str, Any]]) -> float:
    """By how much the corrected AUC of the audits that are answered is above one half."""
    answered = [row["auc"] for row in rows if row["auc"] is not None]
    assert len(answered) >= 0.7 * len(rows)
    return float(np.mean(answered)) - 0.5


def rejects(uses: dict[str, str], rng: np.random.Generator, **world_of: float) -> dict[str, bool | None]:
    """Whether one audit rejects; None where it was not tested."""
    with threadpool_limits(1):
        test = audit(int(rng.integers(2**32)), uses, world_of)["test"]
    return {"rejected": None if test is None else test[0] > 0.5 or test[1] < 0.5}


@pytest.mark.validity
@pytest.mark.parametrize(
    ("uses", "leak"),
    [({"test": "older"}, 0.0), ({"test": "older"}, LEAK), ({"covariate": "small", "test": "older"}, 0.0)],
)
def test_where_the_covariates_suffice_it_rejects_at_most_at_its_level(
    claim: Claims, uses: dict[str, str], leak: float
) -> None:
    """A leak of the target is no reason to reject, and a trait that no covariate shows is one: the control."""
    claim(lambda rng: rejects(uses, rng, leak=leak), holds={"rejected": 0.05})
    claim(lambda rng: rejects({"test": "older"}, rng, trait=TRAIT), fails={"rejected": 0.05})


def test_a_leak_beside_a_reference_is_found(pool: Executor) -> None:
    rows = audits(pool, 40, {"test": "older"}, leak=LEAK)
    assert sum(row["status"] == "flagged" for row in rows) >= 34


def test_a_correction_that_misses_a_trait_is_rejected(pool: Executor) -> None:
    count, above, below = rejected(audits(pool, 40, {"test": "older"}, trait=TRAIT))
    print(f"\nhidden trait: {above} above and {below} below one half of {count}")
    assert above >= 0.9 * count
    assert not below


def test_one_more_covariate_halves_the_bias_and_keeps_the_leak(pool: Executor) -> None:
    none, repaired = (bias(audits(pool, 40, uses, trait=TRAIT)) for uses in ({}, {"covariate": "small"}))
    leaks = audits(pool, 40, {"covariate": "small"}, trait=TRAIT, leak=LEAK)
    flagged = sum(row["status"] == "flagged" for row in leaks)
    print(f"\nbias without {none:+.3f}, with {repaired:+.3f}; flagged leaks {flagged} of 40, {bias(leaks):+.3f}")
    assert none > 0.08
    assert abs(repaired) < none / 2
    assert flagged >= 32


def test_the_conditions_matter(pool: Executor) -> None:
    """A covariate that saw members hides the leak, one that saw the non-members invents one; a second one tells."""
    leak, uses = 0.7, {"covariate": "small"}
    fair, hidden, invented = (
        audits(pool, 40, uses, leak=own, saw=saw) for own, saw in ((leak, 0), (leak, leak), (0, -leak))
    )
    told = audits(pool, 40, {"covariate": "small", "test": "older"}, leak=leak, saw=leak)
    count, above, below = rejected(told)
    found = [sum(row["status"] == "flagged" for row in rows) for rows in (fair, hidden, invented)]
    print(f"\nfair {bias(fair):+.3f}, saw members {bias(hidden):+.3f}, saw non-members {bias(invented):+.3f}")
    print(f"flagged {found} of 40; the second reference rejects {above} above, {below} below of {count}")
    assert bias(hidden) < bias(fair) / 3
    assert bias(invented) > 0.05
    assert found[0] >= 30
    assert found[1] <= 4
    assert below >= 0.9 * count


def test_the_test_by_itself_cannot_see_a_reference_that_saw_members(pool: Executor) -> None:
    """As a test such a reference only rejects too often: it refuses, and never lets pass."""
    count, above, _ = rejected(audits(pool, 40, {"test": "small"}, leak=LEAK, saw=LEAK))
    print(f"\ntest that saw members: {above} of {count} rejected")
    assert above >= 0.9 * count


# -- real shifts, where nothing is memorised: every model was trained on other records --------------------------------


@cache
def adult_scored() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """People, scored by a target and by two references that were trained on 4,000 others each."""
    x, target, _ = shift_worlds.adult_scored(DATA)
    parts = np.split(np.random.default_rng(3).permutation(len(x)), [4000, 8000])
    scores, rest = {"loss": target[parts[2]]}, parts[2]
    for name, rows in zip(("small", "older"), parts, strict=False):
        model = HistGradientBoostingClassifier(max_iter=80, random_state=0).fit(x[rows, :-1], x[rows, -1])
        scores[name] = shift_worlds.log_likelihood(model, x[rest, :-1], x[rest, -1])
    return x[rest], scores


def adult(rng: np.random.Generator, n: int = 2000) -> Evidence:
    """Members are people of 35 to 55 three times as often; only schooling and capital losses are covariates."""
    x, scores = adult_scored()
    inside, away = np.split(rng.permutation(len(x)), [len(x) // 2])
    weight = np.where((x[inside, 0] >= 35) & (x[inside, 0] <= 55), 3.0, 1.0)
    members = rng.choice(inside, n // 2, replace=False, p=weight / weight.sum())
    rows = np.r_[members, away[: n // 2]]
    scored = {name: values[rows] for name, values in scores.items()}
    return Evidence(score=scored, member=np.arange(n) < n // 2, covariates=x[rows][:, [2, 10]], design="zero-run")


def pictures(rng: np.random.Generator) -> Evidence:
    """Members and non-members are pictures of two domains; a target and a reference learned others of the first."""
    with np.load(DATA / "office_caltech10" / "office_caltech10_surf.npz") as data:
        x, y, domain = data["x"].astype(float), data["y"], data["domains"].astype(str)[data["domain"]]
    x /= np.maximum(x.sum(axis=1, keepdims=True), 1.0)
    own, away = rng.permutation(np.flatnonzero(domain == "amazon")), np.flatnonzero(domain == "caltech10")
    *trained, members = np.split(own, [320, 640])
    rows, scores = np.r_[members, away], {}
    for name, part in zip(("loss", "small"), trained, strict=True):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=500)).fit(x[part], y[part])
        scores[name] = shift_worlds.log_likelihood(model, x[rows], y[rows])
    components = make_pipeline(StandardScaler(), PCA(10, random_state=0)).fit_transform(x[rows])
    member = np.arange(len(rows)) < len(members)
    return Evidence(score=scores, member=member, covariates=components, design="zero-run")


def corrected(evidence: Evidence, rng: np.random.Generator, **uses: str) -> tuple[Estimate, Estimate | None]:
    """The AUC of the target and of the test by the stack and AIPW, whatever the other gates say."""
    reference = Reference(**uses, trained_on_neither=True)  # type: ignore[arg-type]
    audited, found = parted(evidence, reference)
    learned = propensity.stacked(audited, encoding=Numbers(), rng=rng)
    options: dict[str, Any] = {"method": "aipw", "outcome": Regression(()), "rng": rng}
    own = effects.auc(audited.only("loss"), learned, **options)
    if reference.test is None:
        return own, None
    return own, effects.auc(audited.replace(score=found[reference.test]), learned, **options)


def outside(found: Estimate | None) -> bool:
    assert found is not None
    return found.low > 0.5 or found.high < 0.5


@pytest.mark.parametrize("world_of", [pytest.param(adult, marks=of_data), pytest.param(pictures, marks=of_data)])
def test_on_real_shifts_it_rejects_what_is_wrong_and_repairs_half(world_of: Any) -> None:
    wrong, repaired, rejections, after = [], [], 0, 0
    for seed in range(12):
        rng = np.random.default_rng([9, seed])
        evidence = world_of(rng)
        two = "older" in evidence.scores
        found, test = corrected(evidence, rng, test="older" if two else "small")
        better, again = corrected(evidence, rng, covariate="small", **({"test": "older"} if two else {}))
        wrong.append(found.value)
        repaired.append(better.value)
        rejections += outside(test)
        after += two and outside(again)
    bias_before, bias_after = np.mean(wrong) - 0.5, np.mean(repaired) - 0.5
    print(
        f"\n{world_of.__name__}: {bias_before:+.3f}, with a covariate {bias_after:+.3f}; rejected {rejections}, {after}"
    )
    assert rejections >= 11
    assert abs(bias_after) < abs(bias_before) / 2
    assert after <= 2
