"""How often audits of strings that chance drew are wrong: intervals, bounds, ranks, and the tests of the law."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.auditing import candidate_law
from miaudit.dp import matched
from miaudit.metrics.classical import Sample
from miaudit.metrics.matched_scores import rank_p_value, ranks
from validity.claims import Claims, outside, outside_half

pytestmark = pytest.mark.slow
World = Callable[[np.random.Generator, int, int, float], tuple[np.ndarray, np.ndarray]]
N, K = 300, 10
LARGE = 60_000  # records of the sample that stands for the truth


def equal(rng: np.random.Generator, n: int, k: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Equal scales, contexts that differ."""
    context = 5 * rng.normal(size=(n, 1))
    scores = context + rng.normal(size=(n, k + 1))
    return scores[:, 0] + shift, scores[:, 1:]


def scales(rng: np.random.Generator, n: int, k: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Scales that differ between records, e^(.7 N)."""
    scale = np.exp(0.7 * rng.normal(size=(n, 1)))
    scores = scale * rng.normal(size=(n, k + 1))
    return scores[:, 0] + shift * scale[:, 0], scores[:, 1:]


def few(rng: np.random.Generator, n: int, k: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """A fifth of the strings is memorised, with heavy tails."""
    scores = rng.standard_t(4, size=(n, k + 1))
    return scores[:, 0] + 5 * shift * (rng.random(n) < 0.2), scores[:, 1:]


def rounded(rng: np.random.Generator, n: int, k: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties."""
    true, decoys = equal(rng, n, k, shift)
    return np.round(true / 2), np.round(decoys / 2)


WORLDS: dict[str, World] = {"equal": equal, "scales": scales, "few": few, "rounded": rounded}


def sample(world: World, rng: np.random.Generator, shift: float, n: int = N) -> Sample:
    true, decoys = world(rng, n, K, shift)
    return Sample.of(Evidence.matched(true=true, decoys=decoys))


@cache
def truth(name: str, shift: float) -> tuple[float, float]:
    """The AUC and the TPR at 10% FPR of a large sample."""
    large = sample(WORLDS[name], np.random.default_rng(1), shift, LARGE)
    return large.roc.auc, float(large.roc.tpr_at(0.1))


@pytest.mark.validity
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_cover(claim: Claims, name: str) -> None:
    auc, tpr = truth(name, 1.0)

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        one = sample(WORLDS[name], rng, 1.0)
        of_auc, of_tpr = one.auc(0.95), one.tpr_at_fpr(0.1, 0.95)
        return {
            "AUC": outside(of_auc.low, auc, of_auc.high),
            "TPR at 10%": outside(of_tpr.low, tpr, of_tpr.high),
            "half of the AUC's": outside_half(of_auc.low, auc, of_auc.high),
        }

    claim(replicate, holds={"AUC": 0.065, "TPR at 10%": 0.065}, fails={"half of the AUC's": 0.05})


def largest(evidence: Evidence, rng: np.random.Generator) -> float:
    """The bound on mu for replacing a record."""
    return matched.bounds(evidence, confidence=0.95, rng=rng)[2].value


@pytest.mark.validity
@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_shown_where_nothing_leaks(claim: Claims, name: str) -> None:
    """Controls: the best of six scores that nobody corrects for; ranks that count the decoys strictly below."""

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        true, decoys = WORLDS[name](rng, N, K, 0.0)
        below = (decoys < true[:, None]).sum(axis=1)
        others = [Evidence.matched(true=t, decoys=d) for t, d in (WORLDS[name](rng, N, K, 0.0) for _ in range(5))]
        mu = largest(Evidence.matched(true=true, decoys=decoys), rng)
        return {
            "mu > 0": mu > 0,
            "ranks": rank_p_value(ranks(true, decoys, rng), K) <= 0.05,
            "best of six": mu > 0 or any(largest(one, rng) > 0 for one in others),
            "ties against the true string": rank_p_value(K - below, K) <= 0.05,
        }

    fails = {"ties against the true string": 0.05} if name == "rounded" else {"best of six": 0.05}
    claim(replicate, holds={"mu > 0": 0.05, "ranks": 0.05}, fails=fails)


@pytest.mark.validity
def test_a_law_that_is_right_is_seldom_refuted(claim: Claims) -> None:
    """Control: decoys whose first character is a letter a little more often."""

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        true, decoys = equal(rng, N, K, 0.0)
        texts = np.array([[rng.bytes(4).hex() for _ in range(K + 1)] for _ in range(60)], dtype=object)
        other = texts.copy()
        other[:, 1:] = np.array([[f"a{text[1:]}" for text in row[1:]] for row in texts], dtype=object)
        right, wrong = candidate_law.of_format(texts, rng), candidate_law.of_format(other, rng)
        assert right is not None
        assert wrong is not None
        return {
            "reference": candidate_law.of_reference(true, decoys, rng).refuted,
            "format": right.refuted,
            "another format": wrong.refuted,
        }

    level = candidate_law.LEVEL
    claim(replicate, holds={"reference": level, "format": level}, fails={"another format": level})
