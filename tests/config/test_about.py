"""The section about: texts, a day that is no clock's, and the findings that carry it."""

import json

import numpy as np
import pytest

from miaudit.config import audit as configuration
from miaudit.config.section import ConfigError
from miaudit.findings.about import About


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
