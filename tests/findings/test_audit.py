"""findings.json: the schema holds for every kind of audit, and the text is a function of evidence, plan and rng."""

import copy
import json
from functools import cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Declared, Exploratory, Split
from miaudit.auditing.plan import Bootstrap
from miaudit.errors import InputError
from miaudit.findings.audit import Findings


def evidence(n=1200, *, several=False, design="one-run", **more):
    rng = np.random.default_rng(7)
    member = rng.random(n) < 0.5
    score = rng.normal(size=n) + member
    scores = {"loss": score, "noise": rng.normal(size=n), "rounded": np.round(score)} if several else score
    return ma.Evidence(score=scores, member=member, design=design, **more)


AUDITS = {
    "default": (evidence(), ma.Plan()),
    "groups": (evidence(group=np.repeat(["a", "b", "c", "d"], 300)), ma.Plan()),
    "a tiny group": (evidence(group=np.r_[np.zeros(1199, int), 1]), ma.Plan()),
    "units": (evidence(unit=np.arange(1200) // 3), ma.Plan()),
    "several": (evidence(several=True), ma.Plan()),
    "declared": (evidence(several=True), ma.Plan(headline=Declared("noise"))),
    "split": (evidence(several=True), ma.Plan(headline=Split(0.4))),
    "exploratory": (evidence(several=True), ma.Plan(headline=Exploratory())),
    "bootstrap": (evidence(), ma.Plan(n_bootstrap=100)),
    "bootstrap intervals": (evidence(), ma.Plan(n_bootstrap=100, intervals=Bootstrap())),
    "zero-run": (evidence(design="zero-run"), ma.Plan()),
    "undeclared": (evidence(design=None), ma.Plan()),
    "unresolved": (evidence(200), ma.Plan(fpr_targets=(0.001,))),
    "rows": (evidence(unit=np.arange(1200).astype(str)), ma.Plan(row_level=5)),
    "effect": (evidence(), ma.Plan(primary_metric="ate", threshold_for_concern=0.5)),
    "tiny": (ma.Evidence(score=[0.0, 1.0], member=[False, True]), ma.Plan()),
    "tied": (ma.Evidence(score=np.zeros(40), member=np.arange(40) % 2 == 0, design="one-run"), ma.Plan()),
}


@cache
def audited(name):
    return afresh(name)


def afresh(name):
    data, plan = AUDITS[name]
    return ma.audit(data, plan=plan, rng=np.random.default_rng(3), repeat={"command": "miaudit audit", "seed": 3})


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(Findings.json_schema())


@pytest.mark.long
@pytest.mark.parametrize("name", AUDITS)
def test_every_audit_follows_the_schema(name):
    content = json.loads(audited(name).to_json())
    assert Findings.from_dict(content).to_json() == audited(name).to_json()


@pytest.mark.long
@pytest.mark.parametrize("name", ["several", "bootstrap", "rows"])
def test_equal_generators_give_equal_bytes(name):
    assert afresh(name).to_json() == audited(name).to_json()


def test_round_trip_through_a_file(tmp_path):
    found = audited("several")
    path = tmp_path / "findings.json"
    path.write_text(found.to_json(), encoding="utf-8")
    assert Findings.read(path).to_dict() == found.to_dict()


def test_rows_are_absent_unless_asked_for():
    assert audited("units").to_dict()["rows"] == []
    assert len(audited("rows").to_dict()["rows"]) == 5


def without(key):
    return lambda content: content.pop(key)


def put(*path, value):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


BROKEN = {
    "another version": put("format", value=2),
    "no verdict": without("verdict"),
    "no metrics": without("metrics"),
    "an unknown key": put("surprise", value=1),
    "an unknown key of a metric": put("metrics", 0, "surprise", value=1),
    "confidence of 95": put("metrics", 0, "confidence", value=95),
    "a rate above one": put("metrics", 0, "high", value=1.5),
    "an unknown metric": put("metrics", 0, "name", value="accuracy"),
    "an unknown estimator": put("metrics", 0, "estimator", value="magic"),
    "an unknown status": put("verdict", "status", value="fine"),
    "a design that was guessed": put("design", value="random"),
    "a digest that is none": put("evidence", "digest", value="abc"),
    "no score": put("scores", value=[]),
    "text for a number": put("counts", "members", value="many"),
    "a bound without a method": put("bounds", value=[{"parameter": "epsilon", "value": 1.0}]),
    "no exit code": without("exit_code"),
    "a negative row": put("rows", value=[{"row": -1, "unit": None, "score": 0.0}]),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_what_does_not_follow_the_schema_is_refused(change):
    content = copy.deepcopy(audited("default").to_dict())
    Findings.from_dict(content)
    change(content)
    with pytest.raises(InputError):
        Findings.from_dict(content)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": NaN}', "[" * 5000])
def test_a_file_that_is_no_findings_is_refused(tmp_path, text):
    path = tmp_path / "findings.json"
    path.write_text(text)
    with pytest.raises(InputError):
        Findings.read(path)


def test_every_field_is_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")

    schema = Findings.json_schema()
    parts = (schema, *schema["$defs"].values(), *schema["properties"].values())
    wanted = {name for part in parts for name in part.get("properties", {})}
    assert {name for name in wanted if f"`{name}`" not in text} == set()


def test_a_metric_of_any_score_by_name():
    found = audited("several")
    by_score = {one.score: one for one in found.scores}
    assert found.metric("auc", score="noise") in by_score["noise"].metrics
    assert found.metric("auc", estimator="raw") == found.metric("auc")
    assert str(found.metric("auc")).startswith(f"auc {found.metric('auc').value:.4g} [")
    for options, word in (
        ({"name": "auk"}, "did you mean auc"),
        ({"name": "auc", "score": "nois"}, "one of .*did you mean noise"),
        ({"name": "auc", "estimator": "hajek"}, "one of raw"),
    ):
        with pytest.raises(InputError, match=word):
            found.metric(**options)
