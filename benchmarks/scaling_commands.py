"""The work of further commands at growing size, for ``benchmarks/scaling.py``: what each does, without its page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import miaudit as ma

Prepared = Callable[[], Any]
DECOYS = 20


def matched(n: int) -> Prepared:
    """``miaudit audit`` of random strings, each with its decoys."""
    rng = np.random.default_rng(0)
    evidence = ma.Evidence.matched(true=rng.normal(0.5, size=n), decoys=rng.normal(size=(n, DECOYS)))
    return lambda: ma.audit(evidence, rng=np.random.default_rng(0))


def usage(n: int) -> Prepared:
    """``miaudit usage`` of probes, each with its decoys."""
    from miaudit.auditing.usage import Scores, audit_usage

    rng = np.random.default_rng(0)
    scores = Scores.of(rng.normal(size=n) + 6.0 * (np.arange(n) < n // 4), rng.normal(size=(n, DECOYS)))
    return lambda: audit_usage(scores)


def extraction(n: int) -> Prepared:
    """``miaudit extraction`` of texts, near duplicates between members and others included."""
    from extraction import documents

    from miaudit.collect.extraction import audit_extraction

    records = documents(n, np.random.default_rng(0))
    return lambda: audit_extraction(records, design="one-run", names=True)


def table(n: int) -> Prepared:
    """``miaudit audit --synthetic``: every attack on a table."""
    from table_audit import tables

    from miaudit.synthesis.table_attacks.table_audit import audit_table

    synthetic, members, control = tables(None, n)
    return lambda: audit_table(synthetic, members, control, design="one-run", rng=np.random.default_rng(0))


def release(n: int) -> Prepared:
    """``miaudit synthesise`` by noisy counts in two stages, without its judgement."""
    from table_audit import tables

    from miaudit.synthesis import Privacy, Release, TablesConfig, fit

    private = tables(None, n)[0]

    def work() -> Any:
        rng = np.random.default_rng(0)
        options = {"rng": rng, "config": TablesConfig(), "repeatable": True}
        return Release.of(fit(private, None, Privacy(records=n, epsilon=1.0), **options), n, rng=rng)

    return work


def plan(n: int) -> Prepared:
    """``miaudit plan``: what so many members and non-members can show."""
    from miaudit.auditing import power

    return lambda: (
        power.reach("one-run", members=n, nonmembers=n),
        [power.at_fpr(f, members=n, nonmembers=n, rng=np.random.default_rng(0)) for f in (0.001, 0.01, 0.1)],
    )


def verification(n: int) -> Prepared:
    """``miaudit verify``: write a bundle of scores, read it, and repeat its audit."""
    from miaudit import bundle
    from miaudit.bundle.verify import verify

    rng = np.random.default_rng(0)
    member = rng.random(n) < 0.5
    evidence = ma.Evidence(score=rng.normal(size=n) + 0.1 * member, member=member, design="one-run")
    written = bundle.record(evidence, rng=np.random.default_rng(0))[1]

    def work() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "audit.zip"
            written.write(path)
            return verify(path)

    return work


def history(n: int) -> Prepared:
    """``miaudit history`` of so many audits, without reading their files."""
    from miaudit.findings import comparison

    rng = np.random.default_rng(0)
    member = rng.random(2_000) < 0.5
    evidence = ma.Evidence(score=rng.normal(size=2_000) + member, member=member, design="one-run")
    found = ma.audit(evidence, rng=np.random.default_rng(0))
    audits = [(f"{i:05d}", found) for i in range(n)]
    return lambda: comparison.history(audits)


def token_attacks(n: int) -> Prepared:
    """``miaudit audit`` of token log-probabilities: the attacks on texts."""
    from token_attacks import drawn

    from miaudit.attacks import tokens

    given = drawn(n, 256)
    return lambda: tokens.member_scores(**given)
