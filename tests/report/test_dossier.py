"""The dossier: every question has an answer of the findings or says that it was not tested, and invents no number."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from frozen import make
from miaudit.auditing.plan import Bounds
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError
from miaudit.findings.about import About
from miaudit.findings.audit import Findings
from miaudit.findings.kinds import read as read_findings
from miaudit.findings.verdict import CONDITIONS
from miaudit.metrics.definition import amount
from miaudit.report import dossier
from report.test_audit_page import EVIL

Run = Callable[..., tuple[int, str, str]]
MODELS = ("attribute-inference", "reconstruction", "governance", "implementation", "composition", "trust")


@cache
def audit(design: str | None = "one-run") -> Findings:
    rng = np.random.default_rng(0)
    member = np.arange(600) % 2 == 0
    held = ma.Evidence(score=rng.normal(size=600) + 0.8 * member, member=member, design=design)
    plan = ma.Plan(limits={"auc": 0.6}, bounds=Bounds(claim=Claim.gaussian(0.01)))
    return ma.audit(held, plan=plan, rng=0)


def placed(folder: Path, **findings: str) -> Path:
    for name, text in findings.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "findings.json").write_text(text, encoding="utf-8")
    return folder


def questions(folder: Path) -> dict[str, dossier.Question]:
    return {one.name: one for one in dossier.collected(folder, {}).questions}


def test_the_numbers_are_those_of_the_findings(tmp_path: Path) -> None:
    found = questions(placed(tmp_path, audit=audit().to_json()))
    auc = next(metric for metric in audit().metrics if metric.name == "auc")
    (answer,) = found["membership-inference"].answers
    assert (answer.value, answer.interval) == (amount("auc", auc.value), auc.interval)
    assert (answer.confidence, answer.word, answer.file) == ("95% confidence", "Concern", "audit/findings.json")
    assert answer.design.startswith("one-run")
    assert "not checked" in answer.assumption
    assert found["claim"].answers[0].value == "mu = 0.01"
    bounds = found["evidence"].answers
    assert [one.word for one in bounds] == ["Claim refuted"] * len(audit().bounds)
    assert len(bounds) == len(audit().bounds) > 0
    assert "records" in found["unit"].answers[0].value


def test_an_audit_whose_claim_is_refuted_is_listed_with_concern(tmp_path: Path) -> None:
    within = replace(audit(), verdict=replace(audit().verdict, status="clear"))
    (one,) = dossier.collected(placed(tmp_path, claim=within.to_json()), {}).findings
    assert (one.exit_code, one.status, one.word) == (3, "flagged", "Concern")


def test_what_nothing_measures_is_not_tested(tmp_path: Path) -> None:
    found = questions(placed(tmp_path, audit=audit().to_json()))
    for name in (*MODELS, "singling-out", "linkability", "inference", "extraction", "queries"):
        assert found[name].answers == ()
        assert found[name].not_tested.startswith("Not tested.")
    assert len(found) == 15


def test_a_table_answers_the_three_criteria_and_a_model_does_not(tmp_path: Path) -> None:
    found = questions(placed(tmp_path, table=make.sample("table"), synthesis=make.sample("synthesis-private")))
    assert [one.what.partition(":")[0] for one in found["linkability"].answers] == ["linkability"]
    assert any(one.what.startswith("copies") for one in found["singling-out"].answers)
    assert all(one.what.startswith("inference: ") for one in found["inference"].answers)
    assert any(
        one.what.startswith("members identified by the synthetic table") for one in found["singling-out"].answers
    )
    assert found["membership-inference"].answers == ()  # that question is about a model
    assert found["claim"].answers[0].what == "guarantee of a synthetic table"
    assert found["claim"].answers[0].confidence == ""


@pytest.mark.parametrize(("design", "word"), [("zero-run", "not testable"), (None, "undeclared")])
def test_a_table_without_an_answer_has_the_word_of_its_own_page(tmp_path: Path, design: str | None, word: str) -> None:
    table = read_findings(next(placed(tmp_path, table=make.sample("table")).glob("*/findings.json")))
    verdict = replace(table.verdict, status="not-testable", text="Not answered: differences answer nothing.")
    membership = replace(table.membership, design=design)
    row, own = (
        dossier._attack(table.attacks[0], replace(table, verdict=verdict, membership=membership), "findings.json"),
        dossier._attack(table.attacks[0], table, "findings.json"),
    )
    assert row.status == "not-testable" and word in row.word
    assert own.word == "Concern"  # the control


def test_numbers_without_a_design_or_that_are_not_causal_are_no_answer(tmp_path: Path) -> None:
    found = questions(placed(tmp_path, bare=audit(None).to_json(), refused=make.sample("refused")))
    answers = {one.file: one for one in found["membership-inference"].answers}
    assert answers["refused/findings.json"].value == "no answer"
    assert answers["bare/findings.json"].word == "Not answered (undeclared)"
    assert answers["bare/findings.json"].design == "not declared"
    assert "not declared" in answers["bare/findings.json"].assumption


def test_what_the_authors_state_is_shown_and_what_is_missing_is_not_stated(tmp_path: Path) -> None:
    first = replace(audit(), about=About(model="triage", owner="Clinic North"))
    second = replace(audit(), about=About(model="triage", owner="Clinic South"))
    content = dossier.collected(placed(tmp_path, a=first.to_json(), b=second.to_json(), c=audit().to_json()), {})
    assert content.about["model"] == "triage"
    assert content.about["owner"] == "Clinic North; Clinic South"
    assert content.about["purpose"] == content.about["date"] == "not stated"
    assert "not stated" in content.page()


def test_text_from_findings_stays_text(tmp_path: Path) -> None:
    name = EVIL.replace("\u2028", " ")
    strange = replace(audit(), about=About(model=name, owner=name, purpose=name))
    text = dossier.collected(placed(tmp_path, strange=strange.to_json()), {}).page()
    assert "<script>alert(1)" not in text
    assert name in unescape(text)
    assert text.count("<script") == 1  # the empty list of charts


def test_a_file_that_cannot_be_read_is_named_and_the_rest_shown(tmp_path: Path) -> None:
    placed(tmp_path, good=audit().to_json(), broken="{", alien='{"format": 1, "kind": "nonsense"}')
    content = dossier.collected(tmp_path, {})
    assert [one.file for one in content.findings] == ["good/findings.json"]
    assert [text.partition(":")[0] for text in content.unread] == ["alien/findings.json", "broken/findings.json"]
    assert "broken/findings.json" in content.page()


def test_a_folder_without_findings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a folder with findings\.json"):
        dossier.collected(tmp_path, {})


def test_the_command_writes_page_and_values_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(placed(tmp_path, audit=audit().to_json()))
    code, out, err = run("export", ".", "--to", "dossier")
    assert (code, err) == (0, "")
    assert out.split() == ["dossier.json", "dossier.html"]
    content = json.loads(Path("dossier.json").read_text(encoding="utf-8"))
    assert (content["format"], content["kind"], len(content["questions"])) == (1, "dossier", 15)
    assert content["repeat"]["miaudit"]
    before = Path("dossier.html").read_bytes()
    code, _, err = run("export", ".", "--to", "dossier")
    assert (code, "--overwrite" in err) == (1, True)
    Path("dossier.json").unlink()
    assert run("export", ".", "--to", "dossier")[0] == 1
    assert not Path("dossier.json").exists()  # nothing is written where the page is in the way
    assert run("export", "audit", "--to", "dossier", "--out", "one.html")[0] == 0
    assert run("export", "audit/findings.json", "--to", "dossier", "--out", "one.pdf")[0] == 1
    assert run("export", ".", "--to", "dossier", "--overwrite")[0] == 0
    assert Path("dossier.html").read_bytes() == before


def test_an_answer_that_holds_on_a_condition_is_not_green() -> None:
    answer = dossier.Answer("members", "0.500", "0.480 to 0.520", "95% confidence", "", "", "findings.json", "clear")
    assert answer.tone == "clear"
    assert replace(answer, assumption=CONDITIONS["zero-run"]).tone == "inconclusive"
    assert replace(answer, assumption=CONDITIONS["zero-run"], status="flagged").tone == "flagged"


def test_a_finding_that_holds_on_a_condition_is_not_green() -> None:
    finding = dossier.Finding("findings.json", "audit", "Within the limits", "clear", 0)
    assert finding.tone == "clear"
    assert replace(finding, conditional=True).tone == "inconclusive"
    assert replace(finding, conditional=True, status="flagged").tone == "flagged"
