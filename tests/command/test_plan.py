"""``miaudit plan``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from command.test_audit import Run


@pytest.mark.thorough
@pytest.mark.long
def test_plan_speaks_and_encodes(run: Run) -> None:
    code, out, _ = run("plan", "--members", "1000", "--nonmembers", "1000", "--tpr", "0.05")
    assert code == 0
    assert "needs 3,690 non-members" in out
    code, out, _ = run("plan", "--members", "1000", "--nonmembers", "1000", "--json")
    assert [t["nonmembers_needed"] for t in json.loads(out)["targets"]] == [3690, 369, 37]


@pytest.mark.thorough
@pytest.mark.long
def test_plan_says_what_bounds_and_claims_are_within_reach(run: Run) -> None:
    size = ("--members", "1000", "--nonmembers", "1000")
    code, out, _ = run("plan", *size, "--claim-mu", "0.5")
    assert code == 0
    assert "one run: at most mu 2.39" in out
    assert "an algorithm with true mu = 1 (epsilon = 4.38) would show, with the best attack, about mu 0.63" in out
    assert "one run: refutable, by about 172 of 200 guesses right (86.0%)" in out
    found = json.loads(run("plan", *size, "--claim-epsilon", "7", "--delta", "1e-6", "--json")[1])
    assert [(b["design"], b["delta"]) for b in found["bounds"]] == [("one-run", 1e-6), ("multi-run", 1e-6)]
    assert [c["refutable"] for c in found["claim"]] == [False, False]
    assert found["claim"][0]["reachable"] == found["bounds"][0]["epsilon"] < 7
    assert "not refutable by so many records" in run("plan", *size, "--claim-epsilon", "7")[1]


@pytest.mark.long
def test_plan_takes_how_guesses_are_settled(run: Run) -> None:
    size = ("--members", "30", "--nonmembers", "30", "--json")
    found = json.loads(run("plan", *size, "--guesses", "hedged")[1])
    assert found["bounds"][0]["audited"] == 60
    assert json.loads(run("plan", *size, "--guesses", "pilot")[1])["bounds"][0]["audited"] == 48
    code, _, err = run("plan", *size, "--guesses", "61")
    assert code == 1
    assert "expected at most the 60 records" in err
    code, _, err = run("plan", *size, "--guesses", "hegded")
    assert code == 1
    assert "did you mean hedged?" in err


# -- zero-run ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def covariates(tmp_path: Path) -> Callable[[float], Path]:
    """Write a table of members and non-members who differ by a slope, without any score."""

    def written(slope: float) -> Path:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(1500, 2))
        member = rng.random(1500) < 1 / (1 + np.exp(-slope * x[:, 0]))
        path = tmp_path / "records.npz"
        np.savez(path, member=member, age=x[:, 0], hours=x[:, 1])
        return path

    return written


@pytest.mark.long
def test_by_covariates_plan_says_how_wide_and_how_many_more(run: Run, covariates: Callable[[float], Path]) -> None:
    line = ("--propensity-model", "line", "--estimator", "hajek")
    asked = (str(covariates(0.7)), "--covariates", "age,hours", *line, "--half-width", "0.02", "--auc", "0.9")
    code, out, _ = run("plan", *asked)
    assert code == 0
    assert "would be answered, as far as covariates decide" in out
    assert "AUC: within 0.0" in out
    assert "To know the AUC within 0.02: " in out
    assert "To tell from 0.5 an AUC of 0.9: the records there are suffice" in out
    code, out, _ = run("plan", *asked, "--json")
    found = json.loads(out)
    assert (code, found["answered"]) == (0, True)
    assert found["half_width"][0] < found["half_width"][1]
    assert [level["fpr"] for level in found["levels"]] == [0.001, 0.01, 0.1]


@pytest.mark.thorough
@pytest.mark.long
def test_by_covariates_a_refusal_says_what_would_help(run: Run, covariates: Callable[[float], Path]) -> None:
    code, out, _ = run("plan", str(covariates(4.0)), "--covariates", "age", "--covariates", "hours")
    assert code == 4
    assert "would be refused" in out
    assert "What would help, each by itself:\n  Leave out the " in out
    assert "Without age, which alone tells" in out


@pytest.mark.long
def test_files_of_both_classes_say_what_a_table_says(
    run: Run, covariates: Callable[[float], Path], tmp_path: Path
) -> None:
    table = np.load(covariates(0.7))
    x, member = np.column_stack([table["age"], table["hours"]]), table["member"]
    sides = []
    for name, rows in (("member", member), ("nonmember", ~member)):
        np.save(tmp_path / f"{name}.npy", x[rows])
        sides += [f"--{name}-covariates", str(tmp_path / f"{name}.npy")]
    order = np.argsort(~member, kind="stable")
    np.savez(tmp_path / "sorted.npz", member=member[order], covariates=x[order])
    one = run("plan", *sides, "--json", "--propensity-model", "line", "--estimator", "hajek")
    two = run("plan", str(tmp_path / "sorted.npz"), "--json", "--propensity-model", "line", "--estimator", "hajek")
    assert one[0] == two[0] == 0
    assert json.loads(one[1]) == json.loads(two[1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--members", "10", "--nonmembers", "10", "--half-width", "0.1"), "--half-width goes with covariates"),
        (("--members", "10", "--nonmembers", "10", "--categories", "age"), "--categories goes with covariates"),
        (("TABLE", "--members", "10"), "--members goes with numbers of records"),
        (("TABLE", "--claim-mu", "1"), "--claim-mu goes with numbers of records"),
        (("TABLE", "--member-units", "u.npy"), "--member-units would not be used beside a FILE"),
        (("--covariates", "age"), "--covariates would not be used without a FILE"),
    ],
)
def test_what_goes_with_numbers_and_what_with_covariates(
    run: Run, covariates: Callable[[float], Path], arguments: tuple[str, ...], said: str
) -> None:
    table = str(covariates(0.5))
    code, _, err = run("plan", *(table if a == "TABLE" else a for a in arguments))
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("TABLE",), "covariates: expected names of columns"),
        (("TABLE", "--covariates", "age", "--half-width", "3"), "half_width: expected a number in (0, 0.5)"),
        (("TABLE", "--covariates", "age", "--categories", "sex"), "categories"),
        (("--member-covariates", "a.npy"), "only one"),
        (("--member-units", "a.npy", "--nonmember-units", "b.npy"), "a.npy"),
    ],
)
def test_bad_covariates_are_one_line(
    run: Run, covariates: Callable[[float], Path], arguments: tuple[str, ...], said: str
) -> None:
    table = str(covariates(0.5))
    code, _, err = run("plan", *(table if a == "TABLE" else a for a in arguments))
    assert code == 1
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.long
def test_a_table_says_what_was_assumed_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 2},{20 + i % 7},{'north' if i % 3 else 'south'}\n" for i in range(40))
    Path("t.csv").write_text(f"in_train,age,region\n{rows}")
    assert "assumed: --member in_train;" in run("plan", "t.csv", "--covariates", "age")[2]
    err = run("plan", "t.csv")[2]
    assert "--covariates NAMES" in err and "--member NAME" in err and err.count("\n") == 1
    assert "(--categories region)" in run("plan", "t.csv", "--covariates", "age,region")[2]
    assert "--covariates age,region" in run("plan", "t.csv", "--covariates", "age", "--categories", "region")[2]


def test_plan_says_what_questions_about_usage_would_show(run: Run) -> None:
    code, out, _ = run("plan", "--members", "1000", "--decoys", "20")
    assert code == 0 and "With 1,000 records and 20 decoys each" in out and "passes in" in out
    found = json.loads(run("plan", "--members", "1000", "--decoys", "20", "--json")[1])
    assert found["bounds"][2][2] > 0.9 and found["decoys"] == 20
    matched = found["matched"]
    assert 0.52 < matched["smallest_auc"] < 0.53 and matched["shown"][0] < matched["shown"][1] < matched["most"]
    assert "AUC: 0.526 or more is distinguished from 0.5 in 80% of audits" in out
    assert "in 90% of audits" in run("plan", "--members", "1000", "--decoys", "20", "--power", "0.9")[1]
    assert "it needs at least 20 records with 9 decoys" in run("plan", "--members", "1000", "--decoys", "2")[1]
    for wrong in (("--decoys", "20"), ("--members", "10", "--decoys", "20", "--claim-mu", "1")):
        assert run("plan", *wrong)[0] == 2
