"""experiments/causal_mia/real_shift.py: its samples, its lines and its claims; a few shifts on the real data."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causal_mia import audits, domains, real_shift
from sklearn.ensemble import HistGradientBoostingClassifier

SCRIPT = Path(__file__).parents[2] / "experiments" / "causal_mia" / "real_shift.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
NEEDED = (
    "acs_ct_income/acs_ct_income.npz",
    "adult/adult.data.gz",
    "office_caltech10/office_caltech10_googlenet1024.npz",
    "office_caltech10/office_caltech10_surf.npz",
)
ABSENT = [name for name in NEEDED if not (DATA / name).is_file()]
of_data = [pytest.mark.data, pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")]


# -- samples --------------------------------------------------------------------------------------------------------


@dataclass
class Memory:
    """A target that remembers its rows: the score of a row says whether it was learned."""

    learned: set[int] = field(default_factory=set)

    def fit(self, x: np.ndarray, _: np.ndarray) -> Memory:
        self.learned = set(x[:, 0].astype(int))
        return self

    @staticmethod
    def score(model: Memory, x: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.array([float(int(row) in model.learned) for row in x[:, 0]])


def population(n: int = 1200, references: int = 0) -> domains.Population:
    x = np.arange(n, dtype=float)[:, None]
    inside = np.arange(n) % 2 == 0
    return domains.Population(x, np.zeros(n), inside, x.__getitem__, Memory, references=references, score=Memory.score)


@pytest.mark.parametrize(("kind", "truth"), [("placebo", 0.5), ("real", 1.0)])
def test_a_placebo_has_learned_none_of_the_audited_and_a_real_target_all_members(kind: str, truth: float) -> None:
    sample = domains.drawn(population(references=2), kind, 200, np.random.default_rng(0))
    assert sample.truth == sample.oracle == truth
    assert np.array_equal(sample.scores["loss"] == 1.0, sample.member if kind == "real" else np.zeros(200, bool))
    assert np.array_equal(sample.covariates[:, 0] % 2 == 0, sample.member)
    assert not any(sample.scores[name].any() for name in ("reference", "older"))  # they learned other records


def test_a_small_population_is_divided_and_a_large_one_cut() -> None:
    small = domains.drawn(population(90, references=1), "placebo", 2000, np.random.default_rng(0))
    assert int(small.member.sum()) == 45 // 4
    assert int((~small.member).sum()) == 45
    large = domains.drawn(population(9000), "real", 2000, np.random.default_rng(0))
    assert (int(large.member.sum()), len(large.member)) == (1000, 2000)


def test_a_coin_decides_with_the_odds_of_the_covariate() -> None:
    column = np.repeat([-1.0, 0.0, 1.0], 20_000)
    shares = domains.coins(column, np.random.default_rng(0)).reshape(3, -1).mean(axis=1)
    assert np.allclose(shares, 1 / (1 + np.exp([1.0, 0.0, -1.0])), atol=0.015)


@pytest.mark.parametrize("name", ["Digits, ink", "Breast cancer, radius", "Diabetes, age and body mass"])
def test_what_scikit_learn_ships_has_a_shift_and_comes_again(name: str) -> None:
    first, again = (
        domains.SHIFTS[name].draw(Path(), "placebo", 2000, np.random.default_rng([11, 3])) for _ in range(2)
    )
    assert np.array_equal(first.scores["loss"], again.scores["loss"])
    shown = first.covariates[:, 0]
    assert shown[first.member].mean() - shown[~first.member].mean() > 0.3 * shown.std()


# -- lines and the table --------------------------------------------------------------------------------------------


def test_lines_go_on_where_they_were_interrupted(tmp_path: Path) -> None:
    asked: list[int] = []

    def audit(seed: int) -> dict[str, Any]:
        asked.append(seed)
        if seed == 2 and asked.count(2) == 1:
            raise KeyboardInterrupt
        return {"value": seed / 2}

    path = audits.named(tmp_path / "new", "real_shift", 2000, "a / b")
    with pytest.raises(KeyboardInterrupt):
        list(audits.lines(path, 3, audit))
    assert [row["value"] for row in audits.lines(path, 3, audit)] == [0.0, 0.5, 1.0]
    assert asked == [0, 1, 2, 2]
    assert path.name == "real_shift_2000_a_-_b.jsonl"


def of_plan(status: str, low: float, high: float) -> dict[str, Any]:
    row: dict[str, Any] = {"status": status, "seconds": 1.0}
    return row | ({"value": (low + high) / 2, "low": low, "high": high} if status in audits.ANSWERED else {})


def rows(*limits: tuple[float, float] | None) -> list[dict[str, Any]]:
    found = []
    for pair in limits:
        own = of_plan("refused", 0, 0) if pair is None else of_plan("clear", *pair)
        common = {"records": 2000, "truth": 0.5, "oracle": 0.51, "raw": 0.7}
        found.append({**common, "line": of_plan("refused", 0, 0), "stack": own})
    return found


def test_a_line_counts_answers_misses_and_errors() -> None:
    found = rows((0.4, 0.56), (0.51, 0.61), (0.41, 0.49), None)
    assert audits.misses([row["stack"] for row in found], [0.5] * 4) == (1, 1)
    line = real_shift.summary(found)
    assert (line["stack"]["answered"], line["stack"]["right"]) == (3, 1)
    assert line["stack"]["error"] == pytest.approx((-0.02 + 0.06 - 0.05) / 3)
    assert (line["line"]["answered"], line["line"]["error"]) == (0, None)
    told = real_shift.in_words("Digits, ink", "placebo", line)
    assert told.startswith("| Digits, ink | drawn | placebo | 2,000 | 4 | 0.500 | 0.510 | 0.700 | 0 |  |  | 1.0 |")
    assert told.endswith("| 1.0 | 3 | -0.003 | 1 of 3 | 1.0 |")


def test_claims_and_numbers_that_do_not_hold_are_told() -> None:
    good, wrong = rows(*[(0.4, 0.6)] * 8), rows(*[(0.4, 0.6)] * 4, *[(0.6, 0.7)] * 4)
    key = real_shift.key_of("Digits, ink", "real", 2000)
    expected = {"refused": ["Digits, writers"], "first": {}, "table": {key: real_shift.summary(good)}}
    named = ("Digits, ink", "real", 2000)
    assert real_shift.compared(*named, good, expected) == []
    assert any("4 of 8 intervals miss" in problem for problem in real_shift.compared(*named, wrong, expected))
    assert any("error" in problem for problem in real_shift.compared(*named, wrong, expected))
    assert len(real_shift.compared("Digits, writers", "real", 2000, good, expected)) == 1
    assert real_shift.compared("Digits, writers", "real", 2000, rows(None, None), expected) == []
    moved = [{**row, "raw": 0.71} for row in good]
    assert len(real_shift.compared(*named, moved, expected)) == 1
    assert real_shift.compared(*named, moved[:7], expected) == []  # fewer audits than the README has


# -- on the data ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("data", [pytest.param(DATA, marks=of_data)])
def test_real_shift_is_corrected_or_refused(tmp_path: Path, data: Path) -> None:
    worlds = ("Adult, age x hours", "SURF amazon / webcam", "GoogLeNet amazon / webcam")
    command = [sys.executable, SCRIPT, "--data", data, "--kinds", "real", "--out", tmp_path, "--worlds", *worlds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(audits.named(tmp_path, "real_shift", 2000, "real", name).read_text()) for name in worlds]
    answered, *refused = found
    assert "value" not in answered["line"]
    assert abs(answered["stack"]["value"] - answered["truth"]) < abs(answered["raw"] - answered["truth"]) - 0.02
    assert not any("value" in row[plan] for row in refused for plan in ("line", "stack"))


@pytest.mark.slow
@pytest.mark.long
def test_without_the_data_the_shipped_shifts_are_left(tmp_path: Path) -> None:
    worlds = ("Adult, prime age", "Diabetes, age and body mass")
    command = [sys.executable, SCRIPT, "--data", tmp_path, "--kinds", "placebo", "--out", tmp_path, "--worlds", *worlds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "left out: Adult, prime age" in done.stderr
    assert "| Diabetes, age and body mass | drawn | placebo |" in done.stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")
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
