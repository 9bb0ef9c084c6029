"""From files to a release: what the findings say, what the ledger keeps, what the page shows, and every bad file."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
import yaml
from typer.testing import CliRunner

pytest.importorskip("torch")

from miaudit.command.synthesise import synthesise
from miaudit.config import synthesise as synthesise_config
from miaudit.dp.tradeoff import EpsilonDelta
from miaudit.errors import ConfigError, InputError, MiauditError, OutputError
from miaudit.findings import release as release_findings
from miaudit.report import graph_charts, synthesis_page
from miaudit.synthesis.generators import ledger, publication
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.release import Release

EXAMPLE = Path(__file__).parents[3] / "examples" / "synthesis"
NOISE: dict[str, Any] = {"noise": 6.0, "records": 400, "clip": 1.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The example with a small table and a quick training."""
    for name in ("graph.yaml", "synthesise.yaml"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    rng = np.random.default_rng(0)
    for name, n in (("patients.csv", 420), ("simulated.csv", 200)):
        smoker, lung = rng.random(n) < 0.3, rng.random(n) < 0.2
        pl.DataFrame(
            {
                "age": rng.integers(18, 96, n),
                "smoker": np.where(smoker, "yes", "no"),
                "district": rng.choice(["north", "south", "harbour"], n),
                "heart_disease": (rng.random(n) < 0.2).astype(int),
                "lung_disease": lung.astype(int),
                "breathless": [None if i % 9 == 0 else "often" if sick else "never" for i, sick in enumerate(lung)],
                "visits": rng.integers(0, 9, n),
            }
        ).write_csv(tmp_path / name)
    change(tmp_path, privacy=NOISE, generator={"epochs": 2, "batch": 50, "draws_missing": True})
    return tmp_path


def change(folder: Path, **sections: Any) -> Path:
    """Replace sections of the configuration; None removes one."""
    path = folder / "synthesise.yaml"
    content = yaml.safe_load(path.read_text()) | sections
    path.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return path


def published(folder: Path) -> tuple[Release, release_findings.SynthesisFindings]:
    table, plan = synthesise_config.read(folder / "synthesise.yaml").read(folder)
    return publication.publish(table, plan, rng=np.random.default_rng(0))


@pytest.mark.thorough
@pytest.mark.long
def test_the_findings_say_what_is_claimed_and_proved(folder: Path) -> None:
    release, findings = published(folder)
    found = findings.guarantee
    assert found is not None and release.claim is not None
    assert (found.epsilon, found.delta) == (release.claim.value, release.claim.delta) and found.proved <= found.epsilon
    limit = EpsilonDelta(found.epsilon, found.delta)
    assert all(tpr == pytest.approx(limit.tpr_at_fpr(fpr)) for fpr, tpr in found.tpr_limits)
    assert len(release.table) == 400 and findings.release == release_findings.Released("synthetic.csv", 400)
    assert np.isnan(release.table.column("breathless")).any()
    assert findings.fidelity is not None and findings.fidelity_of == "public"
    assert findings.spent is not None and findings.spent.releases == ("first release",)
    assert findings.useful is not None and findings.useful.status == "not"  # two epochs under so much noise
    assert findings.exit_code == 4 and "take method: tables" in findings.useful.advice[0]
    assert findings.spent.epsilon == pytest.approx(
        ledger.read(folder / "ledger.json").total(findings.spent.delta).value  # type: ignore[union-attr]
    )
    assert release_findings.SynthesisFindings.from_dict(json.loads(findings.to_json())) == findings


def test_findings_hold_no_record_and_no_seed(folder: Path) -> None:
    change(folder, fidelity="none")
    release, findings = published(folder)
    assert findings.fidelity is None and "seed" not in findings.repeat and not release.repeatable
    assert any("apart from all random numbers that are published" in note for note in findings.notes)
    with pytest.raises(InputError, match="findings"):
        release_findings.SynthesisFindings.from_dict(findings.to_dict() | {"status": "sure"})


@pytest.mark.long
def test_without_privacy_nothing_is_claimed(folder: Path) -> None:
    change(folder, privacy="none", ledger=None)
    release, findings = published(folder)
    assert release.claim is None and findings.guarantee is None and findings.exit_code == 4
    assert findings.text[0].startswith("No guarantee") and len(release.table) == 420
    assert "limit" not in synthesis_page.charts(findings)


@pytest.mark.long
def test_private_fidelity_marks_the_page(folder: Path) -> None:
    change(folder, fidelity="private", public=None)
    _, findings = published(folder)
    assert findings.fidelity_of == "private" and any("publisher alone" in note for note in findings.notes)
    assert "For the publisher alone" in synthesis_page.page(findings)


@pytest.mark.long
def test_a_plain_generator_has_no_graph_to_draw(folder: Path) -> None:
    change(folder, generator={"kind": "plain", "epochs": 1, "batch": 50})
    release, findings = published(folder)
    assert findings.graph is None and release.graph is None
    assert "graph" not in synthesis_page.charts(findings)


@pytest.mark.thorough
@pytest.mark.long
def test_the_budget_is_asked_before_the_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(folder)
    content = yaml.safe_load((folder / "synthesise.yaml").read_text())
    change(folder, ledger=content["ledger"] | {"label": "second"}, privacy=NOISE | {"noise": 0.6})

    def never(*_: object, **__: object) -> None:
        raise AssertionError("training must not start")

    monkeypatch.setattr(Recipe, "fit_many", never)
    with pytest.raises(InputError, match="an epsilon of at most 5 for all releases"):
        published(folder)
    assert len(ledger.read(folder / "ledger.json").entries) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"generator": {"epochs": 1, "batch": 300}, "data": {"file": "few.csv"}}, "as many records as a batch of 300"),
        ({"generator": {"epochs": 1, "batch": 50}, "public": "one.csv"}, "at least two real records"),
    ],
)
def test_what_cannot_be_made_is_not_paid_for(folder: Path, sections: dict[str, Any], message: str) -> None:
    for name, n in (("few.csv", 200), ("one.csv", 1)):
        pl.read_csv(folder / "patients.csv", infer_schema_length=None).head(n).write_csv(folder / name)
    change(folder, **sections)
    with pytest.raises(InputError, match=message):
        published(folder)
    assert not (folder / "ledger.json").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_a_release_beside_one_without_privacy_says_so(folder: Path) -> None:
    entry = {"file": "ledger.json", "table": "clinic-2024", "label": "open"}
    change(folder, ledger=entry, privacy="none", generator={"epochs": 1, "batch": 50})
    published(folder)
    change(folder, ledger=entry | {"label": "private"}, privacy=NOISE)
    _, findings = published(folder)
    assert findings.guarantee is not None and findings.spent is not None and findings.spent.epsilon is None
    assert "without differential privacy: nothing limits" in findings.text[-1]


def test_no_claim_is_rounded_below_what_is_proved() -> None:
    rng = np.random.default_rng(0)
    for value in 10 ** rng.uniform(-9, 3, 2000):
        for digits in (3, 4, 6):
            shown = float(release_findings.rounded_up(float(value), digits))
            assert value * (1 - 1e-11) <= shown <= value * (1 + 1.01 * 10.0 ** (1 - digits))
    assert release_findings.rounded_up(1000**-1.1) == "0.000502"  # 0.00050118..., which ".3g" makes 0.000501


@pytest.mark.thorough
@pytest.mark.long
def test_the_seed_of_what_is_published_does_not_repeat_a_private_release(folder: Path) -> None:
    change(folder, ledger=None, generator={"epochs": 1, "batch": 50})
    first, again = (published(folder)[0].table.values for _ in range(2))  # both with the generator of seed 0
    assert first.tobytes() != again.tobytes()
    change(folder, privacy="none")
    first, again = (published(folder)[0].table.values for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_a_seed_is_refused_with_privacy(folder: Path) -> None:
    for seed in (0, 2**100):
        change(folder, seed=seed)
        with pytest.raises(ConfigError, match="expected no seed with privacy"):
            synthesise_config.read(folder / "synthesise.yaml")
    change(folder, seed=0, privacy="none")
    assert synthesise_config.read(folder / "synthesise.yaml").seed == 0


@pytest.mark.thorough
@pytest.mark.long
def test_the_command_spends_one_budget_through_links(folder: Path, tmp_path_factory: Any, command: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    for path in folder.iterdir():
        (other / path.name).symlink_to(path)
    entry = yaml.safe_load((folder / "synthesise.yaml").read_text())["ledger"]
    assert command(folder / "synthesise.yaml", "--out", folder / "out").exit_code == 4  # of no use after two epochs
    (other / "ledger.json").symlink_to(folder / "ledger.json")
    (other / "synthesise.yaml").unlink()
    shutil.copy(folder / "synthesise.yaml", other / "synthesise.yaml")
    change(other, ledger=entry | {"label": "again"})
    assert command(other / "synthesise.yaml", "--out", other / "out").exit_code == 4
    assert len(ledger.read(folder / "ledger.json").entries) == 2  # type: ignore[union-attr]
    (folder / "ledger.json").unlink()
    gone = command(folder / "synthesise.yaml", "--out", folder / "out2")
    assert isinstance(gone.exception, InputError) and "ledger.lock remembers" in str(gone.exception)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_training_that_stops_shows_nothing_and_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stops(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Recipe, "fit_many", stops)
    with pytest.raises(error):
        published(folder)
    assert not (folder / "ledger.json").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_the_page_holds_statement_graph_and_numbers(folder: Path) -> None:
    _, findings = published(folder)
    page = synthesis_page.page(findings)
    assert findings.word == "Private, but not useful" and f"</svg>\n    {findings.word}" in page
    assert page.index('<p class="lead">') < page.index("differentially private: had")  # badge before
    assert (
        page.index("What to do next") < page.index("Key numbers")
        and "What is proved" in page
        and 'data-chart="graph"' in page
    )
    assert all(name in page for name in ("clinic-2024", "first release", "noise multiplier"))
    drawn = synthesis_page.charts(findings)
    assert tuple(name for name in synthesis_page.NAMES if name in drawn) == tuple(drawn)
    evil = replace(findings, source="<script>alert(1)</script>")
    assert "<script>alert" not in synthesis_page.page(evil)


def test_places_follow_generations_and_untangle_edges() -> None:
    groups = [release_findings.Group(f"{side}{i}", (side,), g) for g, side in enumerate("ab") for i in range(6)]
    order = [3, 0, 5, 1, 4, 2]
    edges = [(f"a{i}", f"b{j}") for i, j in enumerate(order)]
    places = graph_charts.places_of(groups, edges)
    assert all(places[name][0] == g for g, side in enumerate("ab") for name in (f"{side}{i}" for i in range(6)))
    pairs = [(places[cause][1], places[effect][1]) for cause, effect in edges]
    assert sorted(pairs) == sorted(pairs, key=lambda pair: pair[1])  # no two edges cross
    straight, bowed = graph_charts._path((0, 0.5), (1, 0.5)), graph_charts._path((0, 0.5), (2, 0.5))
    assert len(straight) == 2 and abs(bowed[8][1] - 0.5) > 0.1


@pytest.fixture
def command() -> Any:
    """The command alone."""
    app = typer.Typer()
    app.command()(synthesise)

    def run(*arguments: str | Path) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.mark.thorough
@pytest.mark.long
def test_the_command_writes_release_and_report(folder: Path, command: Any) -> None:
    out = folder / "out"
    result = command(folder / "synthesise.yaml", "--out", out)
    assert result.exit_code == 4 and "To change: take method: tables" in result.output
    assert {"synthetic.csv", "synthetic.json", "findings.json", "report.html", "figures"} <= {
        p.name for p in out.iterdir()
    }
    assert (out / "figures" / "graph.svg").is_file() and not list(out.glob(".*"))
    assert "differentially private" in result.output and "Ledger of clinic-2024: 1 release," in result.output
    frame = pl.read_csv(out / "synthetic.csv")
    assert frame.columns[:2] == ["age", "smoker"] and set(frame["smoker"]) <= {"yes", "no"}
    assert frame["age"].is_between(18, 95).all()
    assert Release.load(out / "synthetic.csv").claim is not None
    again = command(folder / "synthesise.yaml", "--out", out)
    assert isinstance(again.exception, OutputError) and "overwrite" in str(again.exception)
    content = yaml.safe_load((folder / "synthesise.yaml").read_text())
    change(folder, ledger=content["ledger"] | {"label": "second"}, release={"format": "parquet", "records": 30})
    replaced = command(folder / "synthesise.yaml", "--out", out, "--overwrite", "--json")
    assert replaced.exit_code == 4 and json.loads(replaced.output)["release"]["records"] == 30
    assert not (out / "synthetic.csv").exists() and len(pl.read_parquet(out / "synthetic.parquet")) == 30


@pytest.mark.thorough
@pytest.mark.long
def test_a_dry_run_says_and_writes_nothing(folder: Path, command: Any) -> None:
    before = sorted(folder.iterdir())
    result = command(folder / "synthesise.yaml", "--dry-run")
    assert result.exit_code == 0
    assert "Gaussian noise (standard deviation 6 times what one record can change)" in result.output
    assert sorted(folder.iterdir()) == before and "of the ledger's budget of" in result.output
    change(folder, privacy="none", ledger=None)
    assert "nothing would be claimed" in command(folder / "synthesise.yaml", "--dry-run").output


def test_a_dry_run_tries_the_judgement(folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("a value")

    monkeypatch.setattr(publication.usefulness, "judged", fails)
    result = command(folder / "synthesise.yaml", "--dry-run")
    assert result.exit_code == 4 and "would not be judged: in a trial with made-up records the" in result.output
    assert not (folder / "ledger.json").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_a_dry_run_refuses_what_the_run_would_refuse(folder: Path, command: Any) -> None:
    published(folder)  # its label is taken now
    before = (folder / "ledger.json").read_text()
    result = command(folder / "synthesise.yaml", "--dry-run")
    assert isinstance(result.exception, InputError) and "a name of its own for each release" in str(result.exception)
    assert (folder / "ledger.json").read_text() == before


def test_a_release_without_privacy_ends_with_four(folder: Path, command: Any) -> None:
    change(folder, privacy="none", ledger=None, fidelity="none", generator={"epochs": 1, "batch": 50})
    result = command(folder / "synthesise.yaml", "--out", folder / "out")
    assert result.exit_code == 4 and "No guarantee" in result.output


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privcy": {}}, "privcy: unknown key; did you mean privacy"),
        ({"generator": {"epoch": 3}}, "generator.epoch: unknown key; did you mean epochs"),
        ({"generator": {"epochs": 0}}, "generator.epochs: "),
        ({"generator": {"patience": 3}, "public": None, "fidelity": "none"}, "private records cannot decide"),
        ({"generator": {"empirical": ["person"]}}, "no empirical groups with privacy"),
        ({"privacy": None}, "privacy: expected a value, received none"),
        ({"privacy": {"epsilon": 1}}, "privacy.records: expected a value"),
        ({"privacy": {"epsilon": 1, "noise": 1, "records": 10}}, "privacy: expected epsilon or noise, one of them"),
        ({"privacy": {"epsilon": -1, "records": 10}}, "privacy.epsilon: "),
        ({"privacy": "nothing"}, "privacy: expected a section with epsilon and records, or none"),
        ({"graph": 3}, "graph: expected a file, or a mapping"),
        ({"ledger": {"file": "l.json", "table": "t", "label": "a", "epsilon": 1}}, "epsilon with delta"),
        ({"data": {"file": "none.csv"}}, "data.file: expected an existing file"),
        ({"graph": "none.yaml"}, "graph: expected an existing file"),
        ({"public": None}, "beside fidelity: public"),
        ({"release": {"format": "xlsx"}}, "release.format"),
    ],
)
def test_bad_files_are_refused_with_every_path(folder: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        synthesise_config.read(change(folder, **sections))
    assert not re.search(r"Section|function|literal\[", str(caught.value))


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"graph": {"columns": [{"name": "age"}, {"name": "b"}], "edges": [["age", "b"], ["b", "age"]]}}, "-> "),
        ({"generator": {"without_latent": ["persons"]}}, "did you mean person"),
        ({"privacy": {"epsilon": 1e-9, "records": 400, "delta": 1e-12}, "ledger": None}, "some noise reaches"),
        ({"generator": {"batch": 500}}, "at most the nominal 400 records"),
        (
            {"privacy": "none", "ledger": None, "generator": {"batch": 500}},
            "at least as many records as a batch of 500",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(folder: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(MiauditError, match=message) as caught:
        change(folder, **sections)
        published(folder)
    assert "\n" not in str(caught.value)


def test_a_value_that_was_not_declared_names_its_column(folder: Path) -> None:
    path = folder / "patients.csv"
    path.write_text(path.read_text().replace("harbour", "airport"))
    with pytest.raises(InputError, match="expected one of north, south, harbour, received 1 other") as caught:
        published(folder)
    assert "airport" not in str(caught.value)


def test_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    for text, message in (("", "an empty file"), ("- a", "list"), ("a: [", "a YAML file")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            synthesise_config.read(path)


# -- tables -----------------------------------------------------------------------------------------------------------


def tabled(folder: Path, **sections: Any) -> tuple[Release, release_findings.SynthesisFindings]:
    """The example by noisy tables, compared with what is set aside."""
    plain: dict[str, Any] = {"generator": None, "public": None, "fidelity": None, "method": "tables"}
    change(folder, **plain | {"privacy": {"epsilon": 4.0, "records": 400}} | sections)
    return published(folder)


@pytest.mark.thorough
@pytest.mark.long
def test_tables_are_released_judged_and_entered_as_networks_are(folder: Path) -> None:
    release, findings = tabled(folder)
    assert findings.guarantee is not None and findings.guarantee.clip is None and findings.guarantee.proved <= 4.0
    assert findings.guarantee.accountant == "the closed form of Gaussian DP"
    assert findings.generator["method"] == "tables" and findings.generator["parents"] == "chosen privately"
    assert findings.fidelity_of == "held-out" and findings.useful is not None and 55 < findings.useful.records < 115
    said = f"{findings.useful.records} private records that were set aside"
    assert "whole counts" in " ".join(findings.notes) and said in findings.notes[-1]
    assert release.graph is not None and len(release.table) == 400
    page = synthesis_page.page(findings)
    assert findings.useful.text.split(":")[0] in page and "For the publisher alone" in page
    assert "clipping norm" not in page and "Is this release any good?" in page
    again = type(findings).from_dict(json.loads(findings.to_json()))
    assert again.useful == findings.useful and synthesis_page.page(again.as_written()) == page


def test_without_records_to_judge_by_nothing_is_judged_useful(folder: Path) -> None:
    table, plan = synthesise_config.read(folder / "synthesise.yaml").read(folder)
    free = replace(plan, ledger=None, fidelity="held-out", public=None, method="tables", config=None)
    _, findings = publication.publish(table.subset(np.arange(2)), free, rng=np.random.default_rng(0))
    assert findings.useful is not None and findings.useful.status == "unjudged" and findings.exit_code == 4
    with pytest.raises(InputError, match="table: expected records to make a release of, received none"):
        publication.publish(table.subset(np.arange(0)), free, rng=np.random.default_rng(0))


@pytest.mark.parametrize(("fidelity", "status"), [("public", "unjudged"), ("private", None)])
def test_a_judgement_that_fails_is_a_note(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fidelity: str, status: str | None
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("the value 63 of Mrs Smith")

    change(folder, fidelity=fidelity)
    monkeypatch.setattr(publication.usefulness, "judged", fails)
    monkeypatch.setattr(publication.fidelity_of, "fidelity", fails)
    kept = []
    table, plan = synthesise_config.read(folder / "synthesise.yaml").read(folder)

    def keep(release: Release, enter: Any) -> None:
        assert not (folder / "ledger.json").exists()
        enter()
        kept.append(release)

    release, findings = publication.publish(table, plan, rng=np.random.default_rng(0), keep=keep)
    assert kept == [release] and (findings.useful.status if findings.useful else None) == status
    assert "was not measured: the judgement failed (ValueError)" in findings.notes[-1]
    assert "Smith" not in findings.to_json() and "Judged by" not in " ".join(findings.notes)
    assert synthesis_page.page(findings) and findings.guarantee is not None
    assert findings.exit_code == (0 if status is None else 4)


def test_a_release_of_too_many_numbers_is_refused_before_it_is_paid_for(folder: Path) -> None:
    table, plan = synthesise_config.read(folder / "synthesise.yaml").read(folder)
    with pytest.raises(InputError, match=r"release.records: expected at most 1e[+]09 numbers in the release"):
        publication.publish(table, replace(plan, records=10**9), rng=np.random.default_rng(0))
    assert not (folder / "ledger.json").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_one_ledger_adds_up_both_methods(folder: Path) -> None:
    content = yaml.safe_load((folder / "synthesise.yaml").read_text())
    published(folder)
    _, second = tabled(folder, ledger=content["ledger"] | {"label": "tables"})
    entered = ledger.read(folder / "ledger.json")
    assert entered is not None and [entry.label for entry in entered.entries] == ["first release", "tables"]
    alone = [ledger.Ledger("t", None, (entry,)).total(0.001).value for entry in entered.entries]  # type: ignore[union-attr]
    together = entered.total(0.001).value  # type: ignore[union-attr]
    assert max(alone) < together < sum(alone) + 0.01 and second.spent is not None
    assert second.spent.epsilon == together
    with pytest.raises(InputError, match="an epsilon of at most 5 for all releases"):
        tabled(folder, ledger=content["ledger"] | {"label": "third"})


@pytest.mark.thorough
@pytest.mark.long
def test_replaced_records_are_said_in_every_place(folder: Path, tmp_path: Path) -> None:
    release, findings = tabled(folder, privacy={"epsilon": 4.0, "records": 400, "neighbours": "replace-one"})
    assert "had the values of any one record of the private table been others" in findings.text[0]
    assert findings.neighbours == "replace-one" and "one record replaced by another" in synthesis_page.page(findings)
    release.save(tmp_path / "r.csv")
    assert json.loads((tmp_path / "r.json").read_text())["neighbours"].endswith("in the values of one record")
    assert Release.load(tmp_path / "r.csv").to_mapping() == release.to_mapping()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {"epsilon": 0.01, "records": 400}}, "half of a column's records at most moved by it"),
        ({"tables": {"edges": {"ages": [40]}}}, "did you mean age"),
        ({"privacy": {"epsilon": 1.0, "records": 400}, "ledger": {"file": "l.json", "table": "t", "label": "a",
          "epsilon": 0.5, "delta": 0.001}}, "an epsilon of at most 0.5 for all releases"),
    ],
)  # fmt: skip
def test_what_tables_cannot_be_made_of_is_not_paid_for(folder: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tabled(folder, **sections)
    assert not (folder / "ledger.json").exists() and not (folder / "l.json").exists()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"tables": {"bins": "auto"}}, "bins read off the private table would have to be paid for"),
        ({"tables": {"edges": {"age": "quantiles"}}}, "bins read off the private table would have to be paid for"),
        ({"tables": {"bin": 3}}, "did you mean bins"),
        ({"tables": {"bins": 3}, "generator": {"epochs": 3}}, "options of one method, received tables beside"),
        ({"tables": {"bins": 3}, "method": "vae"}, "no options of tables with method: vae"),
        ({"method": "gan"}, "method"),
        ({"held_out": 1.5}, "held_out"),
    ],
)
def test_options_of_tables_that_cannot_be_are_refused(folder: Path, sections: dict[str, Any], message: str) -> None:
    change(folder, **{"generator": None} | sections)
    with pytest.raises(ConfigError, match=message):
        synthesise_config.read(folder / "synthesise.yaml")
