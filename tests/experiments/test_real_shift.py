"""experiments/causal_mia/real_shift.py in its smallest form, one split of each world, on the real data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

SCRIPT = Path(__file__).parents[2] / "experiments" / "causal_mia" / "real_shift.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
NEEDED = (
    "acs_ct_income/acs_ct_income.npz",
    "mnist/mnist.npz",
    "office_caltech10/office_caltech10_googlenet1024.npz",
    "office_caltech10/office_caltech10_surf.npz",
)
ABSENT = [name for name in NEEDED if not (DATA / name).is_file()]

pytestmark = [pytest.mark.data, pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")]


@pytest.mark.long
def test_real_shift_is_corrected_or_refused(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--data", DATA, "--splits", "1", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: rows[0] for name, rows in json.loads((tmp_path / "real_shift.json").read_text()).items()}
    answered = {name for name, row in found.items() if row["verdict"] in ("flagged", "clear", "inconclusive")}
    assert not answered & {"SURF amazon / webcam", "GoogLeNet amazon / webcam"}
    assert "MNIST clean / noisy" in answered
    for name in answered & {"SURF amazon / caltech10", "MNIST clean / noisy"}:
        row = found[name]
        assert abs(row["corrected"] - row["truth"]) < abs(row["raw"] - row["truth"]) - 0.02, name


@pytest.mark.long
def test_the_command_line_bounds_a_real_shift_and_refuses_a_near_disjoint_one(tmp_path: Path) -> None:
    """ACS 2018 against 2019: metrics, challenge, bound and verdict on one page. GoogLeNet amazon, webcam: refused."""
    overlapping, disjoint = tmp_path / "acs.npz", tmp_path / "office.npz"
    acs_years(overlapping)
    with np.load(DATA / "office_caltech10" / "office_caltech10_googlenet1024.npz") as data:
        domain = data["domains"].astype(str)[data["domain"]]
        rows = np.flatnonzero((domain == "amazon") | (domain == "webcam"))
        x, member = data["x"][rows].astype(float), domain[rows] == "amazon"
    np.savez(disjoint, score=x[:, 0], member=member, covariates=x)
    found = {}
    for table, more in ((overlapping, []), (disjoint, ["--components", "10"])):
        out = tmp_path / table.stem
        command = [sys.executable, "-m", "miaudit", "audit", table, "--score", "score", "--member", "member", *more]
        command += ["--covariates", "covariates", "--design", "zero-run", "--claim-mu", "0.3", "--out", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        page = (out / "report.html").read_text(encoding="utf-8")
        found[table.stem] = (done, json.loads((out / "findings.json").read_text()), page)
    done, findings, page = found["acs"]
    assert done.returncode == 3, (
        done.stdout + done.stderr
    )  # the claim is refuted, as a one-run audit of 2018 alone does
    assert findings["claim"]["status"] == "refuted"
    assert not findings["challenge"]["rejected"]
    assert [bound["parameter"] for bound in findings["bounds"]] == ["mu", "epsilon", "epsilon"]
    assert all(text in page for text in ("Claim refuted", "Privacy bounds", "stood the challenge", "Hajek"))
    done, findings, page = found["office"]
    assert done.returncode == 4
    assert not findings["bounds"]
    assert findings["no_bound"]
    assert "No privacy bound" in page


def acs_years(path: Path, n: int = 3000) -> None:
    with np.load(DATA / "acs_ct_income" / "acs_ct_income.npz") as data:
        x, income, year = data["x"].astype(float), data["income"], data["year"]
    y = (income > np.median(income[year == 2018])).astype(int)
    rng = np.random.default_rng(0)
    inside, outside = (rng.permutation(np.flatnonzero(year == which))[:n] for which in (2018, 2019))
    rows = np.r_[inside, outside]
    target = HistGradientBoostingClassifier(max_iter=120, random_state=0).fit(x[inside], y[inside])
    likelihood = target.predict_proba(x[rows])[np.arange(2 * n), y[rows]]
    missing, middle = np.isnan(x[rows]), np.nanmedian(x[inside], axis=0)
    known = [np.where(missing, middle, x[rows]), missing[:, missing.any(axis=0)], y[rows]]
    member = np.arange(2 * n) < n
    np.savez(path, score=np.log(np.clip(likelihood, 1e-12, 1)), member=member, covariates=np.column_stack(known))
