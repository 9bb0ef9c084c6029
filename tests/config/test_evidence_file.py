"""Evidence of a finished audit, read again from its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.plan import Plan
from miaudit.config import evidence_file
from miaudit.errors import InputError

N = 60
RNG = np.random.default_rng(0)
MEMBER = np.arange(N) % 2 == 0
LOSS = RNG.exponential(size=N)


def audited(evidence: ma.Evidence) -> ma.Findings:
    return ma.audit(evidence, plan=Plan(bounds=None), rng=np.random.default_rng(0))


def table(path: Path, **columns: object) -> Path:
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.long
@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
def test_saved_evidence_is_read_with_the_design_of_the_findings(tmp_path: Path, ending: str) -> None:
    evidence = ma.Evidence(score=-LOSS, member=MEMBER, unit=np.arange(N) // 2, design="one-run")
    evidence.replace(design=None).save(tmp_path / f"e.{ending}")
    read, ids = evidence_file.read(tmp_path / f"e.{ending}", audited(evidence))
    assert read.digest == evidence.digest and ids is None


@pytest.mark.long
def test_named_columns_are_read_as_an_audit_knows_them_and_ids_stay_text(tmp_path: Path) -> None:
    evidence = ma.Evidence(score={"loss": -LOSS}, member=MEMBER, design="one-run")
    names = [f"{i:03}" for i in range(N)]
    path = table(tmp_path / "t.csv", trained=MEMBER.astype(int), loss=LOSS, id=names)
    read, ids = evidence_file.read(path, audited(evidence))
    assert read.digest == evidence.digest
    assert ids is not None and ids.tolist() == names
    turned = ma.Evidence(score={"loss": LOSS}, member=MEMBER, design="one-run")  # the column as it is, a score
    assert evidence_file.read(path, audited(turned))[0].digest == turned.digest


@pytest.mark.long
def test_a_file_that_is_no_evidence_is_refused(tmp_path: Path) -> None:
    found = audited(ma.Evidence(score=-LOSS, member=MEMBER, design="one-run"))
    with pytest.raises(InputError, match="score"):
        evidence_file.read(table(tmp_path / "t.csv", age=np.arange(N)), found)
    with pytest.raises(InputError, match="does not exist"):
        evidence_file.read(tmp_path / "none.csv", found)
