"""Reference scores from the command line and from files: columns, files of either side, losses, log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

Run = Callable[..., tuple[int, str, str]]
OPTIONS = ("--design", "zero-run", "--primary-metric", "auc", "--no-bounds")
TABLE = ("t.npz", "--score", "loss", "--member", "member", "--covariates", "age", *OPTIONS)
N = 1000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One covariate and a hidden trait move membership; both move the losses of the target and of two references."""
    rng = np.random.default_rng(8)
    age, trait = rng.normal(size=N), rng.normal(size=N)
    member = rng.random(N) < special.expit(0.5 * age + 1.2 * trait)
    scores = {name: age + trait + 0.5 * rng.normal(size=N) for name in ("loss", "small", "older")}
    np.savez(tmp_path / "t.npz", member=member, age=age, **scores)
    both = np.column_stack([scores["small"], scores["older"]])
    for side, rows in (("in", member), ("out", ~member)):
        for name, values in (("score", scores["loss"]), ("age", age[:, None]), ("one", scores["older"]), ("two", both)):
            np.save(tmp_path / f"{side}_{name}.npy", values[rows])
            np.save(tmp_path / f"{side}_minus_{name}.npy", -values[rows])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(run: Run, *words: Any) -> dict[str, Any]:
    _, out, err = run(*words, "--json")
    assert out, err
    return dict(json.loads(out))


@pytest.mark.thorough
@pytest.mark.long
def test_a_column_of_the_table_tests_the_correction(place: Path, run: Run) -> None:
    code, out, err = run("audit", *TABLE, "--reference-score", "older", "--out", "o", "--bundle", "b.zip")
    assert code == 4, err
    assert "It should be one half: the correction is refuted" in out
    page = " ".join((place / "o/report.html").read_text().split())
    assert "What a reference model shows" in page
    assert "Correction refuted" in page
    assert "which is not stated: the reference was trained on neither" in page
    code, out, err = run("verify", "b.zip")
    assert code == 0, err
    assert "came out again" in out


@pytest.mark.thorough
def test_the_first_of_two_repairs_it_and_the_second_tests_it(place: Path, run: Run) -> None:
    words = ("--reference-score", "small,older", "--trained-on-neither")
    code, out, _ = run("audit", *TABLE, *words, "--out", "o")
    assert code in (0, 4)
    assert "A model that never saw these records would have shown an AUC of" in out
    assert "The reference score small is a covariate" in out
    assert "Correction not refuted" in (place / "o/report.html").read_text()
    named = found(run, "audit", *TABLE, *words)["reference"]
    assert (named["covariate"], named["test"], named["refuted"]) == ("small", "older", False)


@pytest.mark.thorough
@pytest.mark.long
def test_files_of_either_side_and_a_configuration_say_the_same(place: Path, run: Run) -> None:
    pair = ("--members", "in_score.npy", "--nonmembers", "out_score.npy")
    pair = (*pair, "--member-covariates", "in_age.npy", "--nonmember-covariates", "out_age.npy", *OPTIONS)
    one = found(run, "audit", *pair, "--member-references", "in_one.npy", "--nonmember-references", "out_one.npy")
    assert one["reference"]["test"] == "reference"
    assert one["evidence"]["scores"] == ["score", "reference"]
    files = ("--member-references", "in_two.npy", "--nonmember-references", "out_two.npy")
    two = found(run, "audit", *pair, *files, "--reference-score", "small,older", "--trained-on-neither")
    (place / "c.yaml").write_text(
        "evaluation: {member_scores_path: in_score.npy, nonmember_scores_path: out_score.npy, design: zero-run,\n"
        "  member_covariates_path: in_age.npy, nonmember_covariates_path: out_age.npy,\n"
        "  member_references_path: in_two.npy, nonmember_references_path: out_two.npy}\n"
        "reference: {score: [small, older], trained_on_neither: true}\n"
        "reporting: {primary_metric: auc}\nprivacy: {bounds: false}\n"
    )
    assert found(run, "run", "c.yaml")["reference"] == two["reference"]
    code, _, err = run("audit", *pair, *files)
    assert code == 1
    assert "references: expected 1 column, for reference, received shape (1000, 2)" in err


@pytest.mark.long
def test_of_losses_the_reference_is_a_loss_too(place: Path, run: Run) -> None:
    pair = ("--members", "in_minus_score.npy", "--nonmembers", "out_minus_score.npy", "--signal", "loss", *OPTIONS)
    pair = (*pair, "--member-covariates", "in_age.npy", "--nonmember-covariates", "out_age.npy")
    files = ("--member-references", "in_minus_one.npy", "--nonmember-references", "out_minus_one.npy")
    found_raw = found(run, "audit", *pair, *files)["reference"]["raw"][0]["value"]
    assert found_raw > 0.6  # turned as the losses are


@pytest.mark.thorough
@pytest.mark.long
def test_a_file_of_log_probabilities_has_its_own(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(400):
        ease = rng.normal()
        own, other = (-np.exp(0.3 * rng.normal(size=4) - 0.3 * ease) for _ in range(2))
        words = " ".join(rng.choice(["sun", "sea", "tree", "house", "cat"], 3))
        line = {"id": i, "member": i % 2 == 0, "logprobs": own.tolist(), "reference_logprobs": other.tolist()}
        rows.append(json.dumps({**line, "text": words}))
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    words = ("audit", tmp_path / "t.jsonl", "--signal", "token-logprobs", "--attack", "loss", *OPTIONS)
    findings = found(run, *words, "--reference-score", "reference_loss")
    assert findings["reference"]["test"] == "reference_loss"
    assert [score["score"] for score in findings["scores"]] == ["loss"]
    code, _, err = run(*words, "--reference-score", "reference_ratio")
    assert code == 1
    assert "expected reference_loss, for token-logprobs, received 'reference_ratio'" in err


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--reference-score", "oldr"), 1, "did you mean older?"),
        (("--reference-score", "loss"), 1, "expected a score beside it to audit"),
        (("--reference-score", "older,older"), 1, "expected two different scores, received older twice"),
        (("--reference-score", "small", "--reference-use", "covariate"), 1, "expected true, for a covariate"),
        (("--reference-score", "small", "--reference-use", "both"), 1, "reference.use: expected test or"),
        (("--reference-use", "test"), 1, "expected one or two names, received 0"),
        (("--reference-score", "older", "--design", "one-run"), 2, "--reference-score would not be used with design"),
        (("--member-references", "in_one.npy"), 2, "--member-references would not be used"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    place: Path, run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    found_code, out, err = run("audit", *TABLE, *words, "--json")
    assert (found_code, out) == (code, "")
    assert said in " ".join(err.replace("│", " ").split())
    del place


@pytest.mark.long
def test_without_files_there_are_no_names_and_without_a_design_no_use(place: Path, run: Run) -> None:
    pair = ("--members", "in_score.npy", "--nonmembers", "out_score.npy", "--json")
    code, _, err = run("audit", *pair, "--reference-score", "older", "--design", "zero-run")
    assert code == 2
    assert "without files of reference scores" in " ".join(err.replace("│", " ").split())
    undeclared = [word for word in TABLE if word not in ("--design", "zero-run")]
    code, out, err = run("audit", *undeclared, "--reference-score", "older", "--json")
    assert code == 4
    assert "--reference-score is of use with --design zero-run" in err
    assert [score["score"] for score in json.loads(out)["scores"]] == ["loss"]
    del place
