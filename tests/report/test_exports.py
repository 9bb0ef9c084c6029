"""Exports say what findings say, in forms that other programs read, and nothing in them is markup from data."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import miaudit as ma
from miaudit.errors import InputError, OutputError
from miaudit.findings.comparison import compare
from miaudit.findings.disclosure import Compared, Counts, DisclosureFindings, Limits
from miaudit.findings.release import Guarantee, Released, SynthesisFindings
from miaudit.findings.table import Attack, PositiveControl, Rate, TableFindings, TableVerdict
from miaudit.report import exports, kinds

HOSTILE = (
    '"]|<script>alert(1)</script> **bold** [x](javascript:1) ![i](//e) `c` $m$\n---\n# head\nkey: !!python/none &a *a'
)


def findings(**options: Any) -> ma.Findings:
    rng = np.random.default_rng(3)
    member = rng.random(800) < 0.5
    evidence = ma.Evidence(score=rng.normal(size=800) + member, member=member, design="one-run")
    return ma.audit(evidence, plan=ma.Plan(fpr_targets=(0.001, 0.1), **options), rng=rng)


@pytest.fixture(scope="module")
def content() -> ma.Findings:
    return findings()


def metadata(card: str) -> dict[str, Any]:
    assert card.startswith("---\n")
    block: dict[str, Any] = yaml.safe_load(card.split("\n---\n", maxsplit=1)[0].removeprefix("---\n"))
    return block


def section(card: str) -> str:
    return card[card.index("## Membership") :]


def rendered(text: str) -> list[Any]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def test_the_metadata_hold_the_metrics_that_are_resolved(content: ma.Findings) -> None:
    (entry,) = metadata(exports.model_card(content, model="m"))["model-index"]
    (result,) = entry["results"]
    shown = {one["type"]: one["value"] for one in result["metrics"]}
    assert entry["name"] == "m"
    assert shown["auc"] == content.metric("auc").value
    assert "tpr_at_fpr_0.001" not in shown  # 400 non-members resolve no such rate
    assert "tpr_at_fpr_0.1" in shown
    assert shown["epsilon_lower_bound"] == next(b.value for b in content.bounds if b.parameter == "epsilon")


def test_bounds_at_two_deltas_keep_two_names(content: ma.Findings) -> None:
    """A zero-run audit has one epsilon at its delta and one at 0: the second is about another promise."""
    first = next(b for b in content.bounds if b.parameter == "epsilon")
    both = replace(content, bounds=(*content.bounds, replace(first, delta=0.0, value=first.value + 1)))
    expected = {"epsilon_lower_bound": first.value, "epsilon_lower_bound_at_delta_0": first.value + 1}
    (entry,) = metadata(exports.model_card(both, model="m"))["model-index"]
    shown = {one["type"]: one["value"] for one in entry["results"][0]["metrics"]}
    for held in (shown, exports.numbers(both)):
        assert {name: value for name, value in held.items() if name.startswith("epsilon")} == expected


def test_the_hub_reads_the_metadata(content: ma.Findings) -> None:
    """Their reader is the second truth of the form."""
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard(exports.model_card(content, model="m", data="d", url="https://example.org/r.html"))
    results = card.data.eval_results
    assert {one.metric_type for one in results} >= {"auc", "mu_lower_bound"}
    assert {(one.dataset_name, one.task_type, one.source_url) for one in results} == {
        ("d", "membership-inference", "https://example.org/r.html")
    }


def test_the_hub_refuses_metadata_of_another_form() -> None:
    """The control of the test above."""
    hub = pytest.importorskip("huggingface_hub")
    card = "---\nmodel-index:\n- name: m\n  results:\n  - metrics:\n    - {type: auc}\n---\n"
    with pytest.raises(Exception, match=r"task|type|dataset"):
        hub.ModelCard(card, ignore_metadata_errors=False)


def test_the_section_says_the_verdict_and_every_metric(content: ma.Findings) -> None:
    text = section(exports.model_card(content, model="m"))
    said = " ".join(t.content for t in rendered(text) if t.type == "text")
    assert content.verdict.text in said
    assert "at most" in said  # the unresolved TPR, as an upper limit
    rows = [t for t in rendered(text) if t.type == "tr_open"]
    assert len(rows) == 1 + len(content.metrics)


def test_text_from_data_is_shown_as_text(content: ma.Findings) -> None:
    hostile = replace(
        content,
        notes=(HOSTILE,),
        scores=(replace(content.scores[0], score=HOSTILE),),
        metrics=(replace(content.metrics[0], note=HOSTILE), *content.metrics[1:]),
        verdict=replace(content.verdict, text=HOSTILE),
        evidence={**content.evidence, "source": "/home/person/secret.npz"},
        repeat={**content.repeat, "command": "miaudit audit /home/person/secret.npz"},
    )
    card = exports.model_card(hostile, model=HOSTILE, data=HOSTILE)
    assert metadata(card)["model-index"][0]["name"] == " ".join(HOSTILE.split())
    tokens = rendered(section(card))
    kinds = {t.type for t in tokens}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "strong_open", "em_open", "code_inline"}
    assert len([t for t in tokens if t.type == "heading_open"]) == 1
    assert len([t for t in tokens if t.type == "tr_open"]) == 1 + len(content.metrics)
    assert "secret" not in card


def test_the_parser_of_these_tests_sees_markup_that_is_not_escaped() -> None:
    """The control of the test above."""
    kinds = {t.type for t in rendered(f"- a {HOSTILE}")}
    assert {"html_inline", "image", "strong_open", "code_inline"} <= kinds


@pytest.mark.long
@given(st.text(max_size=40))
def test_escaped_text_comes_back(text: str) -> None:
    shown = MarkdownIt("commonmark").enable("table").parseInline(f"a {exports.escaped(text)} z")[0].children or []
    assert {t.type for t in shown} <= {"text", "text_special"}
    plain = " ".join("".join(ch if ch.isprintable() or ch.isspace() else "?" for ch in text).split())
    assert "".join(t.content for t in shown) == f"a {plain} z"


@pytest.mark.long
@given(st.text(max_size=40))
def test_escaped_text_starts_nothing(text: str) -> None:
    shown = MarkdownIt("commonmark").enable("table").parse(f"- {exports.escaped(text) or 'x'}")
    assert [t.type for t in shown] == [
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "paragraph_close", "list_item_close",
        "bullet_list_close",
    ]  # fmt: skip


def test_numbers_that_do_not_count_are_not_in_the_metadata(content: ma.Findings) -> None:
    bounds = tuple(replace(bound, exploratory=True) for bound in content.bounds)
    exploratory = replace(content, verdict=replace(content.verdict, exploratory=True), bounds=bounds)
    card = exports.model_card(exploratory, model="m")
    assert card.startswith("## ")
    raw = replace(content, design="zero-run", bounds=())
    assert exports.model_card(raw, model="m").startswith("## ")
    assert "raw, not causal" in exports.model_card(raw, model="m")
    assert "auc" not in exports.numbers(raw)
    assert "raw.auc" in exports.numbers(raw)
    auc = next(metric for metric in content.metrics if metric.name == "auc")
    corrected = replace(auc, estimator="aipw", value=0.75), replace(auc, estimator="hajek", value=0.5), auc
    both = replace(raw, metrics=corrected, scores=(replace(raw.scores[0], metrics=corrected),))
    named = exports.numbers(both)
    assert (named["auc"], named["hajek.auc"], named["raw.auc"]) == (0.75, 0.5, auc.value)
    assert both.scores[0].above_chance.count("AUC") == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"model": " "}, "--model: expected a name"),
        ({"model": "m", "url": "javascript:alert(1)"}, "--url: expected an address"),
        ({"model": "m", "url": "https://e.org/> <script>"}, "--url"),
    ],
)
def test_a_card_needs_names_and_a_web_address(content: ma.Findings, options: dict[str, str], match: str) -> None:
    with pytest.raises(InputError, match=match):
        exports.model_card(content, **options)


def test_a_number_that_starts_a_line_stays_a_number() -> None:
    assert exports.escaped("100.0% of members") == "100.0% of members"
    assert exports.escaped("1. x") == "1\\. x"


def test_a_password_in_an_address_is_not_repeated() -> None:
    assert exports._LOGIN.sub("//", "API request to http://me:secret@host/api failed") == (
        "API request to http://host/api failed"
    )


def test_a_card_is_about_an_audit() -> None:
    with pytest.raises(InputError, match="a model card is about a model"):
        exports.model_card(compare(findings(), findings()), model="m")


def test_numbers_and_tags_are_those_of_the_findings(content: ma.Findings) -> None:
    shown = exports.numbers(content)
    metric = content.metric("auc")
    assert (shown["auc"], shown["auc_low"], shown["auc_high"]) == (metric.value, metric.low, metric.high)
    assert "tpr_at_fpr_0.001" not in shown
    assert shown["tpr_at_fpr_0.001_high"] > 0
    assert shown["exit_code"] == content.exit_code
    assert exports.tags(content)["miaudit.evidence"] == content.evidence["digest"]


def test_other_kinds_have_numbers_of_their_own(content: ma.Findings) -> None:
    limits, other = Limits(0.6, 0.5, 0.7), Limits(0.9, 0.8, 1.0)
    options = tuple(option(name, leakage) for name, leakage in (("label", limits), ("as-it-is", other)))
    disclosure = DisclosureFindings(
        verdict=replace(content.verdict, status="inconclusive"), release="label", recommendation="", parts=(),
        rests_on=(), options=options, counts=Counts(1, 1, 0, 0, 2), confidence=0.95,
    )  # fmt: skip
    assert exports.numbers(disclosure) == {"exit_code": 4.0, "auc": 0.6, "auc_low": 0.5, "auc_high": 0.7}
    rate = Rate(1, 2, 0.5, 0.0, 1.0)
    unlimited = float("-inf")
    attack = Attack(
        "inference: a/b <c>", rate, rate, 0.1, unlimited, 1, None, None, None, None,
        "blocking", 0.05, "clear", 1.0, unlimited, None, False,
    )  # fmt: skip
    control = PositiveControl(1, 0.01, 0.01, 0.0, 10, 10, 9, True)
    audited = TableFindings(TableVerdict("flagged", "", 0.95), (attack,), control, content, {}, (), "")
    table = exports.numbers(audited)
    assert table["difference.inference_a_b_c"] == 0.1  # MLflow refuses other characters
    assert table["membership.auc"] == exports.numbers(content)["auc"]
    assert "difference.inference_a_b_c_low" not in table
    synthesis = SynthesisFindings(("One.", "Two."), None, None, None, Released("x.csv", 1), (), {})
    assert exports.numbers(synthesis) == {"exit_code": 4.0}
    proved = replace(synthesis, guarantee=Guarantee(2, 1e-5, 1.9, "", "", 1, 1, 1, ()))
    assert exports.numbers(proved)["epsilon_proved"] == 1.9
    assert exports.tags(synthesis)["miaudit.text"] == "One. Two."


def option(name: str, auc: Limits) -> Compared:
    return Compared(
        name=name, words=name, group="output", kind="label", randomness="none", attack="", tried={},
        leakage={"auc": auc}, averaged_advantage=auc, accuracy=auc, calibration_error=None, coverage=None, size=None,
        empty=0, full=0, reduction=None, cost=None, effect="helps", price="none", front=True, recommended=False,
        within="within", limits=(),
    )  # fmt: skip


def test_only_files_of_an_audit_are_sent(content: ma.Findings, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("report.html", "figures/verdict.svg", "figures/other.svg", "secret.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "figures" / "roc.svg").symlink_to(tmp_path / "secret.txt")
    assert [p.name for p in exports._files(tmp_path, content)] == ["report.html", "verdict.svg"]


def test_without_mlflow_a_line_says_what_to_install(content: ma.Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.exceptions", None)
    with pytest.raises(InputError, match=r"pip install .*\[mlflow\]"):
        exports.to_mlflow(".", content, tracking_uri="sqlite:///x.db")


@pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports
def test_mlflow_gives_back_what_was_logged(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed")
    pytest.importorskip("sqlalchemy", reason="its store of the test is not installed")
    from mlflow.tracking import MlflowClient

    found, results = findings(), tmp_path / "results"
    kinds.write(found, results)
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    client = MlflowClient(tracking_uri=uri)
    client.create_experiment("miaudit", artifact_location=(tmp_path / "artefacts").as_uri())
    run = client.get_run(exports.to_mlflow(results, found, tracking_uri=uri))
    assert run.info.status == "FINISHED"
    assert run.data.metrics == pytest.approx(exports.numbers(found))
    assert run.data.tags.items() >= exports.tags(found).items()
    kept = {a.path for a in client.list_artifacts(run.info.run_id, "miaudit")}
    assert kept == {"miaudit/findings.json", "miaudit/report.html", "miaudit/figures"}
    stored = client.download_artifacts(run.info.run_id, "miaudit/findings.json", str(tmp_path))
    assert json.loads(Path(stored).read_text()) == json.loads(found.to_json())

    mine = client.create_run(client.get_experiment_by_name("miaudit").experiment_id).info.run_id
    assert exports.to_mlflow(results, found, tracking_uri=uri, run_id=mine) == mine
    assert client.get_run(mine).info.status == "RUNNING"  # it was open and stays open
    with pytest.raises(OutputError, match="MLflow refused"):
        exports.to_mlflow(results, found, tracking_uri=uri, run_id="0" * 32)
