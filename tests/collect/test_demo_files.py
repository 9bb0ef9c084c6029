"""What the demo leaves behind can be gone on with, and never takes the place of something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.collect import demo_files
from miaudit.config import audit, disclosure
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import tables


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(1797) < 0.5
    return Evidence(score=-rng.exponential(size=1797), member=member, design="one-run", group=np.arange(1797) % 10)


def test_every_file_is_read_by_the_command_that_it_is_for(evidence: Evidence, tmp_path: Path) -> None:
    demo_files.leave(demo_files.contents(evidence), tmp_path / "data", overwrite=False)
    folder = tmp_path / "data"
    scores = tables.read_columns(folder / "scores.csv", ["member", "loss", "digit"])
    np.testing.assert_array_equal(scores["member"].astype(bool), evidence.member)
    np.testing.assert_allclose(scores["loss"], -evidence.score, rtol=1e-5)
    for side, inside in (("member", evidence.member), ("nonmember", ~evidence.member)):
        np.testing.assert_array_equal(np.load(folder / f"{side}_losses.npy"), -evidence.score[inside])
    assert audit.read(folder / "audit.yaml").plan().policy.thresholds == {"tpr_at_fpr_0.1": 0.15, "auc": 0.6}
    assert disclosure.read(folder / "disclosure.yaml").shadow.models == 16
    assert tables.column_names(folder / "patients.csv") == ["age", "sex", "bmi", "pressure", "progression"]


def test_the_same_files_twice_are_no_conflict_and_others_are_not_lost(evidence: Evidence, tmp_path: Path) -> None:
    files = demo_files.contents(evidence)
    for _ in range(2):
        demo_files.leave(files, tmp_path, overwrite=False)
    (tmp_path / "scores.csv").write_text("mine")
    (tmp_path / "audit.yaml").unlink()
    with pytest.raises(InputError, match=r"scores\.csv, which holds something else"):
        demo_files.leave(files, tmp_path, overwrite=False)
    assert not (tmp_path / "audit.yaml").exists()
    assert (tmp_path / "scores.csv").read_text() == "mine"
    demo_files.leave(files, tmp_path, overwrite=True)
    assert (tmp_path / "scores.csv").read_bytes() == files["scores.csv"]
