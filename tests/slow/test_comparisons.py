"""Audits of the same records compared: how often a difference is shown where there is none.

The worlds are no Gaussian laws of influence: a ridge regression trained on halves, whose members' residuals shrink; the
same with labels of heavy tails; a memoriser, which has seen a record or not, on records of heavy-tailed difficulty. By
symmetry both audits have the same expected metrics, so every difference that is shown is a miss. The control is the sum
of squares, which takes audits of the same records for independent: it must fail on opposite halves.

Two ridge models of the same half differ by their random features too. That chance of training is in no interval about
one model, and with it up to 9% of such pairs show a difference, where the records alone would give 5%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing import paired_records
from miaudit.findings.comparison import SharedRecords, compare
from miaudit.findings.metric import Metric
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample

pytestmark = [pytest.mark.slow, pytest.mark.long]
N, FEATURES = 1000, 150
FOLLOWED = ("tpr_at_fpr_0.01", "tpr_at_fpr_0.1", "auc")


def trained(rng: np.random.Generator, member: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log of the squared residuals, turned, of a ridge regression on random features of the members."""
    columns = rng.permutation(FEATURES)[: FEATURES * 4 // 5]
    a = x[member][:, columns]
    weights = np.linalg.solve(a.T @ a + np.eye(len(columns)), a.T @ y[member])
    return -np.log((y - x[:, columns] @ weights) ** 2 + 1e-3)


def ridge(rng: np.random.Generator, members: list[np.ndarray], tails: float = np.inf) -> list[np.ndarray]:
    n = len(members[0])
    x = rng.normal(size=(n, FEATURES))
    noise = rng.normal(size=n) if np.isinf(tails) else rng.standard_t(tails, size=n)
    y = x @ rng.normal(size=FEATURES) / FEATURES**0.5 + noise
    return [trained(rng, member, x, y) for member in members]


def heavy_ridge(rng: np.random.Generator, members: list[np.ndarray]) -> list[np.ndarray]:
    return ridge(rng, members, tails=2.5)


def memoriser(rng: np.random.Generator, members: list[np.ndarray]) -> list[np.ndarray]:
    """Nine in ten members score higher than they would have, and how hard a record is has heavy tails."""
    hard = rng.standard_t(3, size=len(members[0]))
    return [hard + 0.5 * rng.normal(size=len(m)) + 0.6 * m * (rng.random(len(m)) < 0.9) for m in members]


World = Callable[[np.random.Generator, list[np.ndarray]], list[np.ndarray]]
WORLDS: dict[str, World] = {"ridge": ridge, "heavy ridge": heavy_ridge, "memoriser": memoriser}


def halves(rng: np.random.Generator, kind: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Memberships (n,) of both audits over all records of the world, and the rows that each audit has."""
    n = 3 * N // 2 if kind == "half shared" else 2 * N if kind == "independent" else N
    rows = {"half shared": [np.arange(N), np.arange(N // 2, n)], "independent": [np.arange(N), np.arange(N, n)]}
    member = np.zeros(n, dtype=bool)
    member[rng.permutation(n)[: n // 2]] = True
    return [member, ~member if kind == "opposite" else member], rows.get(kind, [np.arange(n)] * 2)


@dataclass
class Tally:
    """Misses of one kind of interval, and its mean width, by metric; and rises of any of three metrics."""

    misses: dict[str, int] = field(default_factory=dict)
    width: dict[str, float] = field(default_factory=dict)
    pairs: dict[str, int] = field(default_factory=dict)
    shown: int = 0

    def rate(self, name: str) -> float:
        return self.misses.get(name, 0) / self.pairs[name]


def audited(name: str, template: ma.Findings, evidence: ma.Evidence) -> paired_records.Audited:
    """An audit of the evidence with the metrics that decide, in a fraction of the time."""
    sample = Sample.of(evidence)
    found = {metric: definition.of(metric).estimate(sample, confidence=0.95) for metric in FOLLOWED}
    metrics = tuple(Metric(metric, "raw", e.value, e.low, e.high, 0.95) for metric, e in found.items())
    stated = {**template.evidence, "digest": evidence.digest}
    findings = ma.Findings(**{**vars(template), "metrics": metrics, "evidence": stated})
    return paired_records.Audited(name, findings, evidence)


def simulated(world: World, kind: str, replicates: int) -> dict[str, Tally]:
    rng = np.random.default_rng(0)
    first = ma.Evidence(score=rng.normal(size=200), member=np.arange(200) % 2 == 0, design="one-run")
    template = ma.audit(first, plan=ma.Plan(bounds=None), rng=rng)
    tallies = {name: Tally() for name in ("by records", "sum of squares", "findings alone")}
    for seed in range(replicates):
        rng = np.random.default_rng([seed, len(kind)])
        members, rows = halves(rng, kind)
        scores = world(rng, members)
        sides = []
        for k, (score, member, kept) in enumerate(zip(scores, members, rows, strict=True)):
            held = ma.Evidence(score=score[kept], member=member[kept], unit=kept, design="one-run")
            sides.append(audited("ab"[k], template, held))
        ways = {
            "by records": paired_records.correlations(*sides),
            "sum of squares": SharedRecords(dict.fromkeys(FOLLOWED, 0.0), "as if they were independent"),
            "findings alone": None,
        }
        for way, shared in ways.items():
            tally = tallies[way]
            compared = compare(sides[0].findings, sides[1].findings, shared=shared, followed=FOLLOWED)
            tally.shown += compared.status in ("rose", "fell")
            for change in compared.changes:
                if change.low is None or change.high is None:
                    continue
                tally.pairs[change.name] = tally.pairs.get(change.name, 0) + 1
                tally.misses[change.name] = tally.misses.get(change.name, 0) + (not change.low <= 0 <= change.high)
                tally.width[change.name] = tally.width.get(change.name, 0.0) + change.high - change.low
    for way, tally in tallies.items():
        text = {m: (round(tally.rate(m), 3), round(tally.width[m] / tally.pairs[m], 4)) for m in tally.pairs}
        print(f"{world.__name__:12} {kind:12} {way:15} {text} any of three {tally.shown / replicates:.3f}")
    return tallies


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", ["same", "opposite", "independent", "half shared"])
def test_a_difference_is_shown_in_five_of_a_hundred_pairs_that_have_none(world: str, kind: str) -> None:
    """At most 5% and three Monte-Carlo errors; 4 points more where chance of training is all that differs."""
    replicates = 400
    found = simulated(WORLDS[world], kind, replicates)
    error = 3 * (0.05 * 0.95 / replicates) ** 0.5
    most = 0.05 + error + (0.04 if kind == "same" and world != "memoriser" else 0)
    for name in found["by records"].pairs:
        assert found["by records"].rate(name) <= most, (name, found["by records"])
    assert found["by records"].shown / replicates <= most
    assert max(map(found["findings alone"].rate, found["findings alone"].pairs)) <= 0.05 + error
    assert found["findings alone"].shown / replicates <= 0.05 + error
    if kind == "same":
        ratio = found["by records"].width["auc"] / found["sum of squares"].width["auc"]
        assert ratio < 0.75
    if kind == "independent":
        assert found["by records"].width == found["sum of squares"].width


@pytest.mark.parametrize("world", ["heavy ridge", "memoriser"])
def test_the_sum_of_squares_shows_differences_of_opposite_halves_too_often(world: str) -> None:
    """The control: what holds for independent audits is wrong in about twice as many pairs as it should be."""
    assert simulated(WORLDS[world], "opposite", 400)["sum of squares"].rate("auc") > 0.075


def test_a_leak_that_grew_is_found_with_fewer_records() -> None:
    """Power: the same halves, and a second training that leaks more; the interval by records sees it more often."""
    grown: World = lambda rng, members: [  # noqa: E731 - a world of one line
        hard + 0.5 * rng.normal(size=N) + gap * m
        for hard in [rng.standard_t(3, size=N)]
        for gap, m in zip((0.4, 0.55), members, strict=True)
    ]
    found = simulated(grown, "same", 200)
    assert found["by records"].rate("auc") > found["findings alone"].rate("auc") + 0.4
