"""Findings of one small audit, kept as a file: what changes there is a change of the format or of the statistics.

Write it again with ``python tests/gold/test_findings.py`` and read the difference before committing it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from miaudit import Evidence, Plan, audit
from miaudit.auditing.headline import Bonferroni

GOLD = Path(__file__).with_name("findings.json")


def findings() -> dict[str, Any]:
    rng = np.random.default_rng(20)
    n = 900
    unit = rng.integers(0, 300, n)
    member = unit % 2 == 0
    score = np.round(rng.normal(size=n) + 0.8 * member + 0.5 * rng.normal(size=300)[unit], 1)
    evidence = Evidence(
        score={"loss": score, "noise": rng.normal(size=n)},
        member=member,
        design="one-run",
        unit=unit,
        group=np.where(rng.random(n) < 0.3, "north", "south"),
        source="gold",
    )
    plan = Plan(fpr_targets=(0.001, 0.1), n_bootstrap=100, headline=Bonferroni(), prior=0.2)
    found = audit(evidence, plan=plan, rng=np.random.default_rng(1)).to_dict()
    del found["repeat"]  # versions of the machine
    return found


def compare(path: str, new: Any, old: Any) -> None:
    assert type(new) is type(old), path
    if isinstance(new, dict):
        assert list(new) == list(old), path
        for key in new:
            compare(f"{path}.{key}", new[key], old[key])
    elif isinstance(new, list):
        assert len(new) == len(old), path
        for i, (a, b) in enumerate(zip(new, old, strict=True)):
            compare(f"{path}[{i}]", a, b)
    elif isinstance(new, float):
        assert np.isclose(new, old, rtol=1e-7, atol=1e-9), f"{path}: {new} {old}"
    else:
        assert new == old, path


def test_the_findings_are_those_on_file() -> None:
    compare("findings", findings(), json.loads(GOLD.read_text(encoding="utf-8")))


if __name__ == "__main__":
    GOLD.write_text(json.dumps(findings(), indent=1) + "\n", encoding="utf-8")
