"""Bad input: one clear line, exit code 1, nothing written. Every row of the table is a mistake that people make."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

CONFIG = """
evaluation:
  member_losses_path: m.npy
  nonmember_losses_path: o.npy
"""


PRIVACY = {
    "key": "{claims: {mu: 1}}",
    "neither": "{claim: {delta: 1e-5}}",
    "both": "{claim: {mu: 1, epsilon: 1}}",
    "mixed": "{claim: {mu: 1, delta: 1e-5}}",
    "below": "{claim: {epsilon: -1}}",
    "number": "{claim: 8}",
    "misspelt": "{claim: {epsilonn: 8}}",
    "delta": "{delta: 1}",
    "guesses": "{guesses: pilott}",
    "none": "{guesses: 0}",
    "true": "{guesses: true}",
    "digits": "{guesses: '" + "9" * 5000 + "'}",
    "correction": "{correction: poisson-binomial}",
    "margin": "{margin: -0.1}",
    "infinite": "{margin: .inf}",
    "off": "{bounds: false, claim: {mu: 1}}",
    "kind": "{mechanism: {kind: dpsgd}}",
    "part": "{mechanism: {kind: composed, parts: [{kind: gaussian, noise: 1}, {kind: laplace, noise: 0}]}}",
    "word": "{mechanism: gaussian}",
    "mu": "{claim: {mu: 1}, mechanism: {kind: laplace, noise: 1}}",
}
MECHANISMS = {
    "good": "kind: dp-sgd\nrecords: 2000\nbatch: 128\nnoise: 3\nsteps: 100\n",
    "gaussian": "kind: gaussian\nnoise: 1\n",
    "laplace": "kind: laplace\nnoise: 1\n",
    "tag": "kind: !!python/object/apply:os.system ['touch broken']\n",
    "open": "kind: [1, 2\n",
    "blank": "",
    "key": "kind: gaussian\nnoize: 1\n",
    "unknown": "kind: exponential\n",
    "shuffled": "kind: dp-sgd\nrecords: 2000\nbatch: 128\nnoise: 3\nsteps: 100\nsampling: shuffle\n",
    "alias": "kind: repeated\ntimes: 2\nmechanism: &a {kind: repeated, times: 2, mechanism: *a}\n",
    "deep": "{kind: repeated, times: 1, mechanism: " * 60 + "{kind: gaussian, noise: 1}" + "}" * 60,
    "bottomless": "{kind: repeated, times: 1, mechanism: " * 5000 + "1" + "}" * 5000,
    "large": "#" * 1_000_001,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    n = 40
    score, member = rng.normal(size=n), np.arange(n) < n // 2
    logits = rng.normal(size=(n, 3))
    table = {"score": score, "member": member, "label": rng.integers(0, 3, n), "logits": logits}
    np.savez(tmp_path / "good.npz", **table)
    np.savez(
        tmp_path / "odd.npz",
        **table,
        nan=np.where(np.arange(n) == 7, np.nan, score),
        infinite=np.where(np.arange(n) == 7, np.inf, score),
        nothing=np.full(n, np.nan),
        inf=np.where(np.arange(n) == 3, np.inf, score),
        matrix=np.ones((n, 2)),
        text=np.full(n, "high"),
        short=score[:-1],
        fewer=np.arange(n - 1),
        empty=np.empty(0),
        complex=score + 0j,
        ones=np.ones(n, bool),
        none=np.zeros(n, bool),
        codes=rng.integers(0, 3, n),
        far=np.full(n, 3),
        minus=np.full(n, -1),
        half=np.full(n, 0.5),
        loose=np.full((n, 3), 0.4),
        negative=np.c_[np.full((n, 2), 0.6), np.full(n, -0.2)],
        nanlogits=np.where(np.arange(n)[:, None] == 2, np.nan, logits),
        onecolumn=np.ones((n, 1)),
    )
    pl.DataFrame({"score": score, "member": member}).write_parquet(tmp_path / "good.parquet")
    objects = np.array([{}] * n, dtype=object)
    np.savez(tmp_path / "objects.npz", member=member, score=objects)
    (tmp_path / "truncated.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:300])
    (tmp_path / "scores.txt").write_text("1\n2\n")
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    (tmp_path / "noise.parquet").write_bytes(b"PAR1" + bytes(range(256)) + b"PAR1")
    (tmp_path / "words.jsonl").write_text("high\n")
    (tmp_path / "data.yaml").write_text("data: {path: good.npz, x: score}\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("score,member\n")
    (tmp_path / "words.csv").write_text("score,member\nhigh,1\nlow,0\n")
    (tmp_path / "holes.csv").write_text("score,member\n1.5,1\n,0\n2.5,0\n")
    (tmp_path / "maybe.csv").write_text("score,member\n1.5,yes\n0.5,no\n")
    (tmp_path / "design.csv").write_text("score,member,design\n1.5,1,random\n0.5,0,random\n")
    (tmp_path / "folder.npz").mkdir()
    pl.DataFrame({"score": [[1.0], [2.0, 3.0]], "member": [True, False]}).write_parquet(tmp_path / "ragged.parquet")
    np.save(tmp_path / "m.npy", rng.exponential(0.3, n))
    np.save(tmp_path / "o.npy", rng.exponential(1.0, n))
    np.save(tmp_path / "wide.npy", np.ones((n, 2)))
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    np.save(tmp_path / "none.npy", np.empty(0))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "m.npy").read_bytes()[:200])
    with zipfile.ZipFile(tmp_path / "inner.npz", "w") as archive:
        archive.writestr("score.npy", b"not an array")
        archive.writestr("member.npy", b"not an array")
    (tmp_path / "good.yaml").write_text(CONFIG)
    (tmp_path / "tag.yaml").write_text("evaluation: !!python/object/apply:os.system ['touch broken']\n")
    (tmp_path / "unreadable.yaml").write_text("evaluation: [1, 2\n")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "blank.yaml").write_text("")
    (tmp_path / "twice.yaml").write_text(CONFIG + "  seed: 1\n  seed: 2\n")
    (tmp_path / "key.yaml").write_text("attack:\n  fpr_target: [0.01]\n" + CONFIG)
    (tmp_path / "section.yaml").write_text("reports:\n  x: 1\n" + CONFIG)
    (tmp_path / "targets.yaml").write_text("attack:\n  fpr_targets: [1.5]\n" + CONFIG)
    (tmp_path / "attack.yaml").write_text("attack:\n  type: gausian_lira\n" + CONFIG)
    (tmp_path / "few.yaml").write_text("attack:\n  n_bootstrap: 3\n" + CONFIG)
    (tmp_path / "metric.yaml").write_text("reporting:\n  primary_metric: tpr_at_fpr_0.002\n" + CONFIG)
    (tmp_path / "level.yaml").write_text("reporting:\n  levels: [0.1, 0.05, 0.02]\n" + CONFIG)
    (tmp_path / "absent.yaml").write_text(CONFIG.replace("o.npy", "gone.npy"))
    (tmp_path / "half.yaml").write_text(CONFIG.replace("  nonmember_losses_path: o.npy\n", ""))
    (tmp_path / "two.yaml").write_text(CONFIG + "  table_path: good.npz\n")
    (tmp_path / "nothing.yaml").write_text("evaluation: {}\n")
    for name, privacy in PRIVACY.items():
        (tmp_path / f"privacy_{name}.yaml").write_text(f"privacy: {privacy}\n" + CONFIG)
    for name, mechanism in MECHANISMS.items():
        (tmp_path / f"mechanism_{name}.yaml").write_text(mechanism)
    (tmp_path / "findings.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "a_file").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(file: str = "odd.npz", **options: str) -> list[str]:
    chosen = {"score": "score", "member": "member", "out": "out"} | options
    return ["audit", file, *(part for name, value in chosen.items() for part in (f"--{name}", value))]


def logits(**options: str) -> list[str]:
    return table(**{"score": "logits", "signal": "logits", "labels": "label"} | options)


def pair(inside: str, outside: str, *more: str) -> list[str]:
    return ["audit", "--members", inside, "--nonmembers", outside, "--out", "out", *more]


# What was typed, and a word that the one line must contain.
TABLE: dict[str, tuple[list[str], str]] = {
    "NaN score": (table(score="nan"), "row 7"),
    "infinite score": (table(score="inf"), "row 3"),
    "two-dimensional score": (table(score="matrix"), "shape (40, 2)"),
    "text score": (table(score="text"), "text"),
    "complex score": (table(score="complex"), "complex"),
    "scores too short": (table(score="short"), "39"),
    "no scores": (table(score="empty"), "rows"),
    "members only": (table(member="ones"), "no non-members"),
    "non-members only": (table(member="none"), "no members"),
    "membership codes": (table(member="codes"), "1/0"),
    "membership fractions": (table(member="half"), "1/0"),
    "misspelt score": (table(score="scor"), "did you mean score?"),
    "misspelt member": (table(member="membr"), "did you mean member?"),
    "unknown unit": (table(unit="person"), "person"),
    "unknown group": (table(group="site"), "site"),
    "unknown covariates": (table(covariates="age,sex"), "age"),
    "text covariates": (table(covariates="text"), "text"),
    "infinite covariates": (table(covariates="infinite"), "row 7"),
    "covariates of nothing but NaN": (table(covariates="nothing"), "leave it out"),
    "fractional units": (table(unit="half"), "integers or text"),
    "short unit": (table(unit="fewer"), "39"),
    "unknown design": (table(design="two-run"), "one-run"),
    "unknown signal": (table(signal="logit"), "did you mean logits?"),
    "attack on scores": (table(attack="loss"), "already an attack"),
    "unknown attack": (table(signal="loss", attack="gausian-lira"), "did you mean gaussian_lira?"),
    "margin of losses": (table(signal="loss", attack="margin"), "logits or probabilities"),
    "two losses": (table(signal="loss", score="score,nan"), "one column of losses"),
    "labels with losses": (table(signal="loss", labels="label"), "none, for losses"),
    "logits without labels": (table(score="logits", signal="logits"), "label"),
    "labels beyond the logits": (logits(labels="far"), "classes 0 to 2"),
    "negative labels": (logits(labels="minus"), "classes 0 to 2"),
    "fractional labels": (logits(labels="half"), "whole numbers"),
    "text labels": (logits(labels="text"), "whole numbers"),
    "NaN logits": (logits(score="nanlogits"), "row 2"),
    "one class of logits": (logits(score="onecolumn"), "two classes"),
    "logits of one dimension": (logits(score="score"), "classes"),
    "probabilities that do not add up": (logits(score="loose", signal="probabilities"), "add up to 1"),
    "negative probabilities": (logits(score="negative", signal="probabilities"), "[0, 1]"),
    "objects in an archive": (table("objects.npz"), "never unpickled"),
    "truncated archive": (table("truncated.npz"), "cannot be read"),
    "noise as an archive": (table("noise.npz"), "cannot be read"),
    "archive of no arrays": (table("inner.npz"), "inner.npz"),
    "noise as parquet": (table("noise.parquet"), "cannot be read"),
    "empty table": (table("empty.csv"), "empty.csv, which is empty"),
    "table of a header": (table("header.csv"), "rows"),
    "words in a number column": (table("words.csv"), "text"),
    "holes in a column": (table("holes.csv"), "finite numbers"),
    "yes and no": (table("maybe.csv"), "1/0"),
    "lists of unequal length": (table("ragged.parquet"), "same length"),
    "undeclarable design": (["audit", "design.csv", "--out", "out"], "design"),
    "wrong extension": (table("scores.txt"), ".npz"),
    "missing file": (table("gone.npz"), "does not exist"),
    "a directory": (table("folder.npz"), "directory"),
    "FPR of 1": (table(**{"fpr-targets": "1"}), "(0, 1)"),
    "FPR of 0": (table(**{"fpr-targets": "0,0.1"}), "(0, 1)"),
    "FPR in words": (table(**{"fpr-targets": "low"}), "numbers in (0, 1)"),
    "confidence in percent": (table(confidence="95"), "0.95"),
    "prior of 1": (table(prior="1"), "(0, 1)"),
    "threshold in percent": (table(**{"threshold-for-concern": "5"}), "[0, 1)"),
    "unknown primary metric": (table(**{"primary-metric": "aucc"}), "did you mean auc?"),
    "primary metric off the targets": (table(**{"primary-metric": "tpr_at_fpr_0.02"}), "fpr_targets"),
    "too few replicates": (table(**{"n-bootstrap": "5"}), "100"),
    "unknown headline": (table(headline="loss"), "headline"),
    "too few records for folds": (table("good.npz", signal="loss", attack="gaussian_lira", member="gone"), "gone"),
    "pair of matrices": (pair("wide.npy", "wide.npy"), "one number for each record"),
    "pair of unequal shapes": (pair("wide.npy", "o.npy"), "shape"),
    "pair of objects": (pair("objects.npy", "o.npy"), "never unpickled"),
    "pair with none": (pair("none.npy", "o.npy"), "at least one row"),
    "pair truncated": (pair("cut.npy", "o.npy"), "cannot be read"),
    "token-logprobs of a table": (["audit", "good.npz", "--signal", "token-logprobs", "--out", "out"], ".jsonl"),
    "token-logprobs in a pair": (pair("m.npy", "o.npy", "--signal", "token-logprobs"), ".jsonl"),
    "token-logprobs of no JSON": (["audit", "words.jsonl", "--signal", "token-logprobs", "--out", "out"], "line 1"),
    "token-logprobs of scores in columns": (
        ["audit", "good.parquet", "--signal", "token-logprobs", "--out", "out"],
        "columns id, member and logprobs (a list in each row)",
    ),
    "token-logprobs of damaged columns": (
        ["audit", "noise.parquet", "--signal", "token-logprobs", "--out", "out"],
        "cannot be read",
    ),
    "tokens of what is no model": (["collect", "good.yaml", "--tokens", "--out", "t.parquet"], "target: expected"),
    "tokens to another format": (["collect", "good.yaml", "--tokens", "--out", "t.csv"], "target: expected"),
    "signal like token-logprobs": (
        ["audit", "good.npz", "--signal", "token-logprob", "--out", "out"],
        "token-logprobs",
    ),
    "evidence of another format": (["collect", "good.yaml", "--out", "evidence.txt"], ".npz"),
    "evidence over a file": (["collect", "good.yaml", "--out", "good.npz"], "--overwrite"),
    "collecting from what is missing": (["collect", "gone.yaml", "--out", "e.npz"], "does not exist"),
    "data without a target in YAML": (["collect", "data.yaml", "--out", "e.npz"], "target: expected a value"),
    "claim in words": (table(**{"claim-mu": "nan"}), "mu"),
    "negative claim": (table(**{"claim-epsilon": "-1"}), "epsilon"),
    "infinite claim": (table(**{"claim-epsilon": "inf"}), "epsilon"),
    "claim with a delta of 1": (table(**{"claim-epsilon": "1", "claim-delta": "1"}), "[0, 1)"),
    "delta of 1": (table(delta="1"), "[0, 1)"),
    "negative delta": (table(delta="-0.1"), "[0, 1)"),
    "delta that is NaN": (table(delta="nan"), "[0, 1)"),
    "misspelt guesses": (table(guesses="bonferoni"), "did you mean bonferroni?"),
    "no guesses": (table(guesses="0"), "guesses: expected a whole number from 1 up"),
    "thousands of digits of guesses": (table(guesses="9" * 5000), "5,000 digits"),
    "no finite epsilon to claim": (
        table("good.npz", mechanism="mechanism_gaussian.yaml", delta="0", design="one-run"),
        "above 0 beside a mechanism",
    ),
    "half a guess": (table(guesses="1.5"), "whole number"),
    "more guesses than records": (table("good.npz", guesses="41", design="one-run"), "at most the 40 records"),
    "misspelt correction": (table(correction="thining"), "did you mean thinning?"),
    "correction without a mu": (table(correction="poisson-binomial"), "composition"),
    "negative margin": (table(margin="-1"), "from 0 up"),
    "infinite margin": (table(margin="inf"), "from 0 up"),
    "missing mechanism": (table(mechanism="gone.yaml"), "does not exist"),
    "mechanism of another format": (table(mechanism="scores.txt"), ".yaml"),
    "mechanism with a tag": (table(mechanism="mechanism_tag.yaml"), "tag"),
    "unreadable mechanism": (table(mechanism="mechanism_open.yaml"), "line"),
    "blank mechanism": (table(mechanism="mechanism_blank.yaml"), "kind"),
    "misspelt key of a mechanism": (table(mechanism="mechanism_key.yaml"), "did you mean noise?"),
    "unknown mechanism": (table(mechanism="mechanism_unknown.yaml"), "mechanism.kind"),
    "mechanism with shuffled batches": (table(mechanism="mechanism_shuffled.yaml"), "mechanism.sampling"),
    "mechanism inside itself": (table(mechanism="mechanism_alias.yaml"), "alias"),
    "deep mechanism": (table(mechanism="mechanism_deep.yaml"), "at most 20"),
    "bottomless mechanism": (table(mechanism="mechanism_bottomless.yaml"), "mechanism"),
    "large mechanism": (table(mechanism="mechanism_large.yaml"), "1 MB"),
    "binary mechanism": (table(mechanism="binary.yaml"), "UTF-16"),
    "mu of a mechanism that has none": (table(mechanism="mechanism_laplace.yaml", **{"claim-mu": "1"}), "Gaussian"),
    "out is a file": (table("good.npz", out="a_file"), "a_file"),
    "YAML tag": (["run", "tag.yaml"], "tag"),
    "unreadable YAML": (["run", "unreadable.yaml"], "line"),
    "binary YAML": (["run", "binary.yaml"], "UTF-16"),
    "YAML list": (["run", "list.yaml"], "mapping"),
    "blank YAML": (["run", "blank.yaml"], "empty"),
    "key given twice": (["run", "twice.yaml"], "stands twice"),
    "unknown key": (["run", "key.yaml"], "did you mean fpr_targets?"),
    "unknown section": (["run", "section.yaml"], "did you mean reporting?"),
    "FPR target in YAML": (["run", "targets.yaml"], "attack.fpr_targets.0"),
    "attack in YAML": (["run", "attack.yaml"], "did you mean gaussian_lira?"),
    "replicates in YAML": (["run", "few.yaml"], "attack.n_bootstrap"),
    "metric in YAML": (["run", "metric.yaml"], "reporting.primary_metric"),
    "levels in YAML": (["run", "level.yaml"], "increasing"),
    "missing file in YAML": (["run", "absent.yaml"], "evaluation.nonmember_losses_path"),
    "half a pair in YAML": (["run", "half.yaml"], "nonmember_losses_path"),
    "two sources in YAML": (["run", "two.yaml"], "exactly one source"),
    "privacy key in YAML": (["run", "privacy_key.yaml"], "privacy.claims: unknown key; did you mean claim?"),
    "claim of nothing in YAML": (["run", "privacy_neither.yaml"], "privacy.claim: expected epsilon or mu"),
    "claim of two in YAML": (["run", "privacy_both.yaml"], "received both"),
    "claim of mu at a delta in YAML": (["run", "privacy_mixed.yaml"], "no delta beside mu"),
    "negative claim in YAML": (["run", "privacy_below.yaml"], "privacy.claim.epsilon"),
    "claim without a parameter in YAML": (["run", "privacy_number.yaml"], "privacy.claim: expected a section"),
    "misspelt claim in YAML": (["run", "privacy_misspelt.yaml"], "did you mean epsilon?"),
    "delta in YAML": (["run", "privacy_delta.yaml"], "privacy.delta"),
    "guesses in YAML": (["run", "privacy_guesses.yaml"], "privacy.guesses: expected"),
    "no guesses in YAML": (["run", "privacy_none.yaml"], "privacy.guesses: expected a whole number"),
    "digits of guesses in YAML": (["run", "privacy_digits.yaml"], "privacy.guesses"),
    "true guesses in YAML": (["run", "privacy_true.yaml"], "privacy.guesses"),
    "correction in YAML": (["run", "privacy_correction.yaml"], "privacy.correction"),
    "margin in YAML": (["run", "privacy_margin.yaml"], "privacy.margin"),
    "infinite margin in YAML": (["run", "privacy_infinite.yaml"], "privacy.margin"),
    "claim without bounds in YAML": (["run", "privacy_off.yaml"], "bounds: true beside claim"),
    "mechanism in YAML": (["run", "privacy_kind.yaml"], "privacy.mechanism.kind: expected one of"),
    "part of a mechanism in YAML": (["run", "privacy_part.yaml"], "privacy.mechanism.parts[1].noise: expected"),
    "mechanism as a word in YAML": (["run", "privacy_word.yaml"], "privacy.mechanism: expected a mapping"),
    "mechanism without a mu in YAML": (["run", "privacy_mu.yaml"], "privacy.mechanism: expected Gaussian noise"),
    "no source in YAML": (["run", "nothing.yaml"], "exactly one source"),
    "wrong extension of YAML": (["run", "scores.txt"], ".yaml"),
    "findings of no format": (["report", "findings.json"], "format"),
    "findings that are no JSON": (["report", "broken.json"], "JSON"),
    "plan of no records": (["plan", "--members", "0", "--nonmembers", "10"], "members"),
    "plan for a negative claim": (["plan", "--members", "9", "--nonmembers", "9", "--claim-mu", "-1"], "mu"),
    "plan for a delta of 2": (["plan", "--members", "9", "--nonmembers", "9", "--delta", "2"], "[0, 1)"),
    "plan for a TPR of 2": (["plan", "--tpr", "2"], "tpr"),
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("case", TABLE)
def test_one_line_exit_1_nothing_written(case: str, folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    arguments, word = TABLE[case]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    code, out, err = run(*arguments)
    assert code == 1, err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("miaudit: ")
    assert word in err
    assert "Traceback" not in err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 40


@pytest.mark.thorough
@pytest.mark.long
def test_the_same_calls_with_good_input_succeed(folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    """The control: the table fails because of its mistakes and not because of its form."""
    private = table("good.npz", mechanism="mechanism_good.yaml", guesses="20", design="one-run")
    calls = (table("good.npz"), logits(), pair("m.npy", "o.npy"), private, ["run", "good.yaml"])
    for number, arguments in enumerate(calls):
        chosen = [f"out{number}" if part == "out" else part for part in arguments]
        code, out, err = run(*chosen)
        assert code in (0, 3, 4), err
        assert "members" in out
    assert (folder / "out0" / "findings.json").is_file()
    assert (folder / "results" / "mia_audit" / "report.html").is_file()


def test_every_problem_of_a_configuration_is_listed(folder: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    (folder / "many.yaml").write_text(
        "attack:\n  fpr_targets: [2]\n  folds: one\nevaluation:\n  confidence: 95\n  seeds: 1\nreportin: 1\n"
        "privacy:\n  claim: {mu: -1}\n  guesses: many\n  correction: thin\n  mechanism: {kind: gaussian, noise: 0}\n"
    )
    code, _, err = run("run", "many.yaml")
    assert code == 1
    lines = err.splitlines()
    assert lines[0] == "miaudit: many.yaml: 9 problems"
    audit = ("attack.fpr_targets.0", "attack.folds", "evaluation.confidence", "evaluation.seeds", "reportin")
    privacy = ("claim.mu", "guesses", "correction", "mechanism.noise")
    for path in (*audit, *(f"privacy.{key}" for key in privacy)):
        assert sum(line.strip().startswith(f"{path}:") for line in lines) == 1, err
