"""Each recipe of docs/extending.md, installed as a package of somebody else's and used as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import miaudit as ma
from miaudit.attacks import registry, signals
from miaudit.command.program import app
from miaudit.errors import InputError
from miaudit.findings import kinds

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PACKAGE = "example_plugin"


def recipes() -> dict[str, str]:
    """The sections of the page on packages, by their headings."""
    of_packages, _, _ = PAGE.read_text().partition("## Inside miaudit")
    parts = re.split(r"^## (.*)\n", of_packages, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


def installed(folder: Path, modules: dict[str, str], entries: dict[str, dict[str, str]], name: str) -> None:
    """What an installer leaves behind: the modules, and the entry points in the folder of their distribution."""
    (folder / PACKAGE).mkdir(exist_ok=True)
    (folder / PACKAGE / "__init__.py").touch()
    for module, code in modules.items():
        (folder / PACKAGE / f"{module}.py").write_text(code)
    kept = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    kept.mkdir()
    (kept / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {at}\n" for key, at in found.items()) for group, found in entries.items()
    ]
    (kept / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder into which the recipes of the page were installed, on the path."""
    modules, entries = {}, {}
    for heading, text in recipes().items():
        found = [tomllib.loads(block)["project"]["entry-points"] for block in blocks(text, "toml")]
        for groups in found:
            for group, names in groups.items():
                entries.setdefault(group, {}).update(names)
        at = next((at for groups in found for names in groups.values() for at in names.values()), None)
        module = heading.split()[-1] if at is None else at.partition(":")[0].removeprefix(f"{PACKAGE}.")
        modules[module] = blocks(text, "python")[0]
    folder = tmp_path / "site"
    folder.mkdir()
    installed(folder, modules, entries, "miaudit-example-plugin")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def run(*words: str | Path) -> Any:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code in (0, 3, 4), found.output
    return found


def findings(folder: Path) -> dict[str, Any]:
    return json.loads(next(folder.rglob("findings.json")).read_text())


def evidence(n: int = 2000, **fields: Any) -> ma.Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(n) < 0.5
    return ma.Evidence(score=rng.normal(size=n) + member, member=member, **{"design": "one-run", **fields})


def shifted(n: int = 2000) -> ma.Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    member = rng.random(n) < 1 / (1 + np.exp(-x))
    return ma.Evidence(score=x + 2 * member + rng.normal(size=n), member=member, covariates=x, design="zero-run")


def records(folder: Path, n: int = 80) -> Path:
    rng = np.random.default_rng(3)
    np.savez(folder / "data.npz", x=rng.normal(size=(n, 4)), y=rng.integers(0, 2, n))
    return folder


def test_every_recipe_of_the_page_has_its_code() -> None:
    listed = re.findall(r"^\| \[.*?\]\(#(.*?)\)", PAGE.read_text(), flags=re.M)
    assert sorted(heading.lower().replace(" ", "-") for heading in recipes()) == sorted(listed)


@pytest.mark.thorough
@pytest.mark.long
def test_an_attack(plugin: Path, tmp_path: Path) -> None:
    (records(tmp_path) / "audit.yaml").write_text(
        "target: {kind: sklearn, estimator: 'sklearn.tree:DecisionTreeClassifier'}\n"
        "data: {path: data.npz, x: x, y: y}\nshadow: {models: 2}\nattack: {type: above_shadows}\n"
        "evaluation: {output_dir: out}\n"
    )
    run("run", tmp_path / "audit.yaml")
    assert findings(tmp_path / "out")["scores"][0]["score"] == "above_shadows"


@pytest.mark.long
def test_a_signal(plugin: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    member, y = rng.random(400) < 0.5, rng.integers(0, 3, 400)
    logits = rng.normal(size=(400, 3)) + 3 * (np.arange(3) == y[:, None]) * member[:, None]
    np.savez(tmp_path / "outputs.npz", logits=logits, labels=y, member=member)
    words = ("--score", "logits", "--labels", "labels", "--member", "member", "--signal", "logits")
    run(
        "audit", tmp_path / "outputs.npz", *words, "--attack", "brier", "--design", "one-run", "--out", tmp_path / "out"
    )
    found = findings(tmp_path / "out")
    assert found["scores"][0]["score"] == "brier"
    assert next(m["value"] for m in found["metrics"] if m["name"] == "auc") > 0.7
    assert registry.get("brier").needs == ("logits", "labels")


@pytest.mark.thorough
@pytest.mark.long
def test_a_metric(plugin: Path, tmp_path: Path) -> None:
    evidence().save(tmp_path / "scores.npz")
    words = ("--design", "one-run", "--primary-metric", "gini", "--no-bounds", "--out", tmp_path / "out")
    found = run("audit", tmp_path / "scores.npz", *words)
    assert "the Gini coefficient, 2 AUC - 1 (0 is chance) is at least" in " ".join(found.output.split())
    written = findings(tmp_path / "out")
    metrics = {metric["name"]: metric for metric in written["metrics"]}
    assert metrics["gini"]["value"] == pytest.approx(2 * metrics["auc"]["value"] - 1)
    assert (written["verdict"]["metric"], written["verdict"]["threshold"]) == ("gini", 0.1)
    assert "Gini coefficient" in (tmp_path / "out" / "report.html").read_text()
    run("report", tmp_path / "out" / "findings.json", "--out", tmp_path / "again")


@pytest.mark.long
def test_a_metric_of_zero_run_evidence(plugin: Path) -> None:
    plan = ma.Plan(primary_metric="gini", bounds=None, estimator="hajek")
    found = ma.audit(shifted(), plan=plan, rng=np.random.default_rng(0))
    corrected = {metric.name: metric for metric in found.metrics if metric.estimator == "hajek"}
    assert found.verdict.metric == "gini"
    assert corrected["gini"].value == pytest.approx(2 * corrected["auc"].value - 1)


@pytest.mark.thorough
@pytest.mark.long
def test_a_target(plugin: Path, tmp_path: Path) -> None:
    rest = "data: {path: data.npz, x: x, y: y}\nattack: {type: loss}\nevaluation: {output_dir: out}\n"
    (records(tmp_path) / "audit.yaml").write_text("target: {kind: nearest, sureness: 4}\n" + rest)
    run("run", tmp_path / "audit.yaml")
    found = findings(tmp_path / "out")
    assert next(m["value"] for m in found["metrics"] if m["name"] == "auc") > 0.6
    for wrong, words in (
        ("{kind: nearest, sureness: much}", r"target\.sureness: .*number, received 'much'"),
        ("{kind: nearest, sure: 4}", r"target\.sure: unknown key; did you mean sureness"),
        (
            "{kind: nearst}",
            r"target\.kind: expected one of sklearn, .*nearest, received 'nearst'; did you mean nearest",
        ),
    ):
        (tmp_path / "audit.yaml").write_text(f"target: {wrong}\n" + rest)
        refused = CliRunner().invoke(app, ["run", str(tmp_path / "audit.yaml")])
        assert re.search(words, str(refused.exception)), refused.exception


@pytest.mark.long
def test_a_file_format(plugin: Path, tmp_path: Path) -> None:
    evidence().save(tmp_path / "scores.tsv")
    assert "\t" in (tmp_path / "scores.tsv").read_text()
    assert ma.Evidence.load(tmp_path / "scores.tsv").n == 2000
    run("audit", tmp_path / "scores.tsv", "--no-bounds", "--out", tmp_path / "out")
    assert findings(tmp_path / "out")["design"] == "one-run"
    (tmp_path / "scores.tsv").write_bytes(b"")
    with pytest.raises(InputError, match=r"expected a complete \.tsv file"):
        ma.Evidence.load(tmp_path / "scores.tsv")


@pytest.mark.thorough
@pytest.mark.long
def test_a_correction(plugin: Path, tmp_path: Path) -> None:
    shifted().save(tmp_path / "scores.npz")
    bounds = []
    for name in ("thinning", "wide-thinning"):
        run("audit", tmp_path / "scores.npz", "--correction", name, "--out", tmp_path / name)
        written = findings(tmp_path / name)
        assert written["plan"]["bounds"]["correction"] == name
        bounds.append(next(bound for bound in written["bounds"] if bound["parameter"] == "mu"))
    assert bounds[0]["value"] > bounds[1]["value"] > 0
    assert bounds[0]["assumptions"] == bounds[1]["assumptions"]


@pytest.mark.thorough
@pytest.mark.long
def test_a_bound(plugin: Path) -> None:
    from example_plugin import bound

    plan = ma.Plan(bounds=bound.AtThreshold(threshold=0.5))
    found = ma.audit(evidence(), plan=plan, rng=np.random.default_rng(0))
    assert [(b.parameter, b.guesses) for b in found.bounds] == [("mu", 2000)]
    assert 0.3 < found.bounds[0].value < 1.0
    assert found.plan["bounds"]["threshold"] == 0.5
    assert len(ma.audit(shifted(), plan=plan, rng=np.random.default_rng(0)).bounds) > 1  # the tests of the design


def test_a_kind_of_findings(plugin: Path, tmp_path: Path) -> None:
    from example_plugin.canaries import Canaries

    (tmp_path / "findings.json").write_text(Canaries(planted=100, repeated=3).to_json())
    run("report", tmp_path)
    assert "3 of 100 canaries were repeated" in (tmp_path / "report.html").read_text()
    assert "<svg" in (tmp_path / "figures" / "canaries.svg").read_text()
    assert kinds.read(tmp_path / "findings.json").exit_code == 3
    (tmp_path / "findings.json").write_text(Canaries(planted=100, repeated="some").to_json())
    with pytest.raises(InputError, match=r"findings\['repeated'\]"):
        kinds.read(tmp_path / "findings.json")


# -- what a package may not do, and what it may break -----------------------------------------------------------------


@pytest.mark.long
def test_nothing_is_loaded_before_its_name_is_asked_for(plugin: Path) -> None:
    code = (
        "import sys, miaudit as ma; from miaudit.attacks import registry, signals; from miaudit.config import audit\n"
        "list(registry.ATTACKS), list(signals.SIGNALS), ma.Plan(primary_metric='auc'), signals.SIGNALS['loss']\n"
        f"assert not any(name.startswith('{PACKAGE}') for name in sys.modules)\n"
        "assert 'brier' in registry.ATTACKS and 'above_shadows' in registry.ATTACKS\n"
        f"assert not any(name.startswith('{PACKAGE}') for name in sys.modules)"
    )
    path = os.pathsep.join([str(plugin), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_what_is_no_longer_on_the_path_is_forgotten(plugin: Path) -> None:
    assert "canaries" not in kinds.KINDS.loaded()
    assert kinds.KINDS["canaries"] is kinds.KINDS.loaded()["canaries"]
    sys.path.remove(str(plugin))
    assert "canaries" not in kinds.KINDS.loaded()


def test_messages_list_what_packages_add(plugin: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one of .*above_shadows.*brier.*did you mean brier"):
        registry.get("briar")
    with pytest.raises(InputError, match=r"one of .*gini.*did you mean gini"):
        ma.Plan(primary_metric="ginni")
    with pytest.raises(InputError, match=r"\.npz or \.parquet or \.csv or \.tsv"):
        ma.Evidence.load(plugin / PACKAGE / "__init__.py")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "raise RuntimeError('no such\\nmachine')",
            "expected odd of broken-plugin to load, received RuntimeError: no such machine",
        ),
        ("import nowhere_to_be_found", "received ModuleNotFoundError"),
        ("raise SystemExit(3)", "received SystemExit: 3"),
        ("", "received AttributeError"),
        ("ODD = 3", "expected Signal named odd at example_plugin.broken:ODD of broken-plugin, received 3"),
    ],
)
def test_a_package_that_is_broken_is_named_and_breaks_nothing_else(
    plugin: Path, code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (plugin / PACKAGE / "broken.py").write_text(code)
    installed(elsewhere, {}, {"miaudit.signals": {"odd": f"{PACKAGE}.broken:ODD"}}, "broken-plugin")
    (elsewhere / PACKAGE / "__init__.py").unlink()
    sys.path.append(str(elsewhere))
    try:
        with pytest.raises(InputError, match="repair or uninstall broken-plugin") as raised:
            signals.member_scores(labels=[0], logits=[[1.0, 0.0]], names=["odd"])
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)
        assert set(signals.member_scores(labels=[0], logits=[[1.0, 0.0]], names=["loss", "brier"])) == {"loss", "brier"}
    finally:
        sys.path.remove(str(elsewhere))


def test_a_name_that_is_taken_is_refused_and_said(
    plugin: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = {"loss": f"{PACKAGE}.signal:SIGNAL", "brier": f"{PACKAGE}.metric:METRIC"}
    installed(elsewhere, {}, {"miaudit.signals": again}, "greedy-plugin")
    sys.path.append(str(elsewhere))
    try:
        found = signals.member_scores(labels=[0], logits=[[1.0, 0.0]], names=["loss"])
        assert found["loss"][0] == pytest.approx(-np.log1p(np.exp(-1)))
        assert signals.SIGNALS["brier"].sign == -1.0
        assert "'loss' of greedy-plugin is refused: the name is built in" in caplog.text
        assert "'brier' of greedy-plugin is refused: the name is taken by miaudit-example-plugin" in caplog.text
    finally:
        sys.path.remove(str(elsewhere))
