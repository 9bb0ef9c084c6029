"""The section about: texts, a day that is no clock's, and the findings that carry it."""

import json

import numpy as np
import pytest

from miaudit.config import audit as configuration
from miaudit.config.about import pairs_of
from miaudit.config.section import ConfigError
from miaudit.errors import InputError
from miaudit.findings.about import About
from miaudit.report import dossier


def written(tmp_path, about):
    for side in ("member", "nonmember"):
        np.save(tmp_path / f"{side}.npy", np.random.default_rng(len(side)).normal(size=80) + (side == "member"))
    text = "evaluation: {member_scores_path: member.npy, nonmember_scores_path: nonmember.npy, design: one-run}\n"
    (tmp_path / "c.yaml").write_text(text + about)
    return tmp_path / "c.yaml"


def test_it_is_read(tmp_path):
    path = written(tmp_path, 'about: {model: triage, version: "2.10", by: us, date: 2026-03-01}\n')
    assert configuration.read(path).stated == About(model="triage", version="2.10", by="us", date="2026-03-01")


@pytest.mark.parametrize("about", ["", "about:\n", "about: {model: }\n"])
def test_nothing_stated_is_nothing(tmp_path, about):
    assert configuration.read(written(tmp_path, about)).stated is None


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ("version: 2.10", r'about\.version: .*received 2\.1; write it in quotes: version: "2\.1"'),
        ("date: today", r"about\.date: expected a date, such as 2026-03-01, received 'today'"),
        ("date: 2026-03-01 10:00:00", r"about\.date: expected a date"),
        ("model: [a]", r"about\.model: expected text of at most 200 characters"),
        (f"model: {'x' * 201}", r"about\.model: expected text of at most 200 characters"),
        ("who: me", r"about\.who: unknown key"),
    ],
)
def test_anything_else_is_refused_in_a_line(tmp_path, about, said):
    with pytest.raises(ConfigError, match=said):
        configuration.read(written(tmp_path, f"about: {{{about}}}\n"))


def test_pairs_are_a_section():
    assert pairs_of(["model=a=b", " date = 2026-03-01 "]) == {"model": "a=b", "date": "2026-03-01"}
    assert pairs_of([]) == {}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            ["model"],
            "expected NAME=VALUE with a name of model, version, owner, purpose, data, by, date, received 'model'",
        ),
        (["model="], "received 'model='"),
        (["mdel=x"], "did you mean model?"),
        (["by=me", "by=you"], "expected each name once, received by twice"),
    ],
    ids=["name alone", "no value", "near", "twice"],
)
def test_other_pairs_are_refused(pairs, message):
    with pytest.raises(InputError, match="about: ") as caught:
        pairs_of(pairs)
    assert message in str(caught.value)


def test_audits_by_command_enter_a_history(tmp_path, run):
    for release in (2, 1):
        rng = np.random.default_rng(release)
        np.savez(tmp_path / "s.npz", score=rng.normal(size=400), member=np.arange(400) % 2 == 0)
        stated = ["--about", "model=triage", "--about", f"date=2026-0{release}-01"]
        words = ["audit", str(tmp_path / "s.npz"), "--score", "score", "--member", "member", "--design", "one-run"]
        code, _, err = run(*words, "--no-bounds", *stated, "--out", str(tmp_path / "audits" / f"v{release}"))
        assert code in (0, 3, 4), err
    page = (tmp_path / "audits" / "v1" / "report.html").read_text(encoding="utf-8")
    assert "Model triage · 2026-01-01" in page
    code, out, err = run("history", str(tmp_path / "audits"), "--budget", "0.05", "--json")
    assert code in (0, 3, 4), err
    assert out.index("2026-01-01") < out.index("2026-02-01")


# What each other kind of findings is made by, beside the option or section that states what it is of.
@pytest.mark.parametrize("kind", ["table", "extraction", "disclosure"])
def test_it_reaches_the_findings_of_tables_texts_and_disclosures_and_the_dossier(tmp_path, run, kind):
    out, stated = tmp_path / "audits" / kind, ["--about", "model=triage", "--about", "owner=Clinic North"]
    rng = np.random.default_rng(0)
    if kind == "table":
        for name in "smn":
            (tmp_path / f"{name}.csv").write_text("a,b\n" + "".join(f"{x:.3f},{x > 0}\n" for x in rng.normal(size=60)))
        files = {"--synthetic": "s.csv", "--members": "m.csv", "--nonmembers": "n.csv"}
        words = ["audit", *(word for key, name in files.items() for word in (key, str(tmp_path / name)))]
    elif kind == "extraction":
        texts = [{"id": str(i), "member": i < 6, "logprobs": [-0.1] * 8} for i in range(12)]
        (tmp_path / "t.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
        words = ["extraction", str(tmp_path / "t.jsonl"), "--prefix", "4", "--suffix", "4"]
    else:
        np.savez(tmp_path / "d.npz", x=rng.normal(size=(160, 2)), y=np.arange(160) % 2)
        content = {
            "about": {"model": "triage", "owner": "Clinic North"},
            "target": {"kind": "sklearn", "estimator": "sklearn.naive_bayes:GaussianNB"},
            "data": {"path": "d.npz", "x": "x", "y": "y"},
            "disclosure": {"defences": ["label"]},
            "shadow": {"models": 8},
        }
        (tmp_path / "d.yaml").write_text(json.dumps(content))
        words, stated = ["disclosure", str(tmp_path / "d.yaml")], []
    code, _, err = run(*words, *stated, "--out", str(out))
    assert code in (0, 3, 4), err
    assert json.loads((out / "findings.json").read_bytes())["about"]["owner"] == "Clinic North"
    assert (out / "report.html").read_text(encoding="utf-8").count("Model triage · Owner: Clinic North") == 1
    assert dossier.collected(tmp_path / "audits", {}).about["owner"] == "Clinic North"


def test_what_is_stated_of_texts_is_checked_before_they_are_read(run):
    code, _, err = run("extraction", "missing.jsonl", "--about", "date=today")
    assert code == 1 and "date: expected a date, such as 2026-03-01" in err


@pytest.mark.thorough
@pytest.mark.long
def test_two_runs_of_one_file_give_equal_findings_with_it(tmp_path, run):
    path = written(tmp_path, "about: {model: triage, date: 2026-03-01}\n")
    texts = []
    for _ in range(2):
        code, _, err = run("run", str(path), "--out", str(tmp_path / "out"), "--overwrite")
        assert code in (0, 3, 4), err
        texts.append((tmp_path / "out" / "findings.json").read_bytes())
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["about"] == vars(About(model="triage", date="2026-03-01"))
    assert "Model triage · 2026-03-01" in (tmp_path / "out" / "report.html").read_text()
