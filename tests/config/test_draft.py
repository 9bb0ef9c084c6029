"""Drafts for a table: refused until their marks are settled, then run as they stand; and what they never tell."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
import yaml
from typer.testing import CliRunner

from miaudit.config import draft as drafts
from miaudit.config import synthesise as synthesise_config
from miaudit.config.draft import draft, round_number
from miaudit.dp.tradeoff import EpsilonDelta
from miaudit.errors import ConfigError, InputError
from miaudit.io import profile
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import read_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "synthesis"
N = 300
RNG = np.random.default_rng(0)
MIXED = pl.DataFrame(
    {
        "patient_id": [f"P{i:05}" for i in range(N)],
        "full name": [f"Jane {i} Doe" for i in range(N)],
        "income": RNG.permutation(np.arange(20_000, 20_000 + 17 * N, 17)),  # a number of its own in each row
        "born": ["1980-02-03", "1990-11-30", "2001-07-07"] * (N // 3),
        "note": [f"came in with pain in the {i % 90} and left again" for i in range(N)],
        "age": np.r_[np.full(N - 2, 40), 17, 90],
        "town": ["Ahausen"] * 150 + ["Behausen"] * 141 + ["Hermitage"] * 9,
        "code": [f"0{i % 3}" for i in range(N)],
        "answer": [None if i % 9 == 0 else ("yes", "no")[i % 2] for i in range(N)],
        "children": [i % 4 for i in range(N)],
        "sick": [i % 2 == 0 for i in range(N)],
        "weight": np.round(RNG.normal(75, 9, N), 1),
    }
)
LEFT_OUT = ("patient_id", "full name", "income", "born", "note")


def settled(graph: str, config: str = "") -> tuple[str, str]:
    """The files of a draft without their marks."""
    return graph.replace("unchecked: true, ", ""), config.replace("\nunchecked: true\n", "\n")


def run(*words: str) -> tuple[int, str]:
    from miaudit.command.synthesise import synthesise

    program = typer.Typer()
    program.command()(synthesise)
    result = CliRunner().invoke(program, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, re.sub(r"\s+", " ", result.output)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    MIXED.write_csv(tmp_path / "mixed.csv")
    return tmp_path / "mixed.csv"


@pytest.mark.thorough
@pytest.mark.long
def test_a_draft_of_the_example_runs_once_its_marks_are_settled(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from miaudit.synthesis.generators import publication

    (tmp_path / "patients.csv").write_bytes((EXAMPLE / "patients.csv").read_bytes())
    code, said = run(str(tmp_path / "patients.csv"))
    graph, config = tmp_path / "patients" / "graph.yaml", tmp_path / "patients" / "synthesise.yaml"
    assert code == 4 and "No synthetic table was made." in said and f"miaudit synthesise {config} --dry-run" in said
    assert all(f" {name}: " in said for name in ("age", "smoker", "visits", "edges", "records", "epsilon", "ledger"))
    with pytest.raises(ConfigError, match=r"unchecked: expected a draft that was settled"):
        run(str(config))
    without, numbers = settled(graph.read_text(), config.read_text())
    assert "  epsilon: 1\n  delta: 0.0002" in numbers
    config.write_text(numbers)
    with pytest.raises(InputError, match=r"unchecked: true at age, smoker, district and 4 more"):
        run(str(config))
    graph.write_text(without)
    table, plan = synthesise_config.read(config).read(config.parent)
    release, findings = publication.publish(table, plan, rng=np.random.default_rng(0))
    made = release.table.frame()
    assert (
        findings.exit_code in (0, 4)  # private noise: mostly partly useful
        and findings.useful is not None
        and 330 < findings.useful.records < 490  # coins: a fifth of 2,052 on average
        and made.columns == pl.read_csv(EXAMPLE / "patients.csv").columns
        and made.height == 2000
    )
    assert set(made["smoker"]) == {"yes", "no"} and made["breathless"].null_count()
    pairs = [made.filter(pl.col("lung_disease") == sick)["breathless"].eq("often").mean() for sick in (0, 1)]
    assert pairs[1] > pairs[0]  # without a graph, too, columns are not drawn by themselves
    assert (tmp_path / "patients" / "ledger.json").is_file()


def test_what_was_read_is_marked_and_ranges_are_round(tmp_path: Path) -> None:
    made = draft(EXAMPLE / "patients.csv", tmp_path)
    columns = yaml.safe_load(made.graph)["columns"]
    assert made.marked and all(column["unchecked"] for column in columns) and yaml.safe_load(made.config)["unchecked"]
    assert made.graph.count("# check this: read off the private table") == len(columns) == 7
    assert len(made.columns) == 8 and made.columns[0] == "age: continuous, 0 to 100, 0 decimals"  # and the edges
    settled_, _ = settled(made.graph)
    graph = CausalGraph.from_mapping(yaml.safe_load(settled_))
    assert graph.edges == () and graph.isolated == graph.schema.names
    assert [column.missing for column in graph.schema.columns] == [False] * 5 + [True, False]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_follows_its_settled_draft(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mixed{suffix}"
    frame = MIXED.with_columns(town=pl.col("town").replace("Hermitage", "other"), born=pl.col("born").str.to_date())
    frame = pl.concat([frame, frame.head(3).with_columns(town=pl.lit("other"))])  # ten or more of them
    (frame.write_csv if suffix == ".csv" else frame.write_parquet)(path)
    made = draft(path, tmp_path / "mixed")
    graph = CausalGraph.from_mapping(yaml.safe_load(settled(made.graph)[0]))
    kinds = {column.name: column.kind for column in graph.schema.columns}
    assert kinds == {
        "age": "continuous",
        "town": "categorical",
        "code": "categorical",
        "answer": "binary",
        "children": "ordinal",
        "sick": "binary",
        "weight": "continuous",
    }
    found = read_table(path, graph.schema)  # nothing is outside, or not declared
    assert len(found) == N + 3 and found.frame()["weight"].to_list() == frame["weight"].to_list()
    assert f"format: {suffix[1:]}" in made.config


def test_no_value_of_few_rows_or_of_a_left_out_column_is_told(table: Path, tmp_path: Path) -> None:
    made = draft(table, tmp_path / "mixed")
    told = "\n".join([made.graph, made.config, *made.columns, *made.left_out, *made.decisions])
    secrets = ["Hermitage", *MIXED["patient_id"], "Jane", "Doe", *MIXED["income"].cast(pl.String), "1980", "pain"]
    assert not [secret for secret in secrets if secret in told]
    assert "Behausen" in told  # so a value that enough rows have would be seen
    assert not re.search(r"\b(17|90)\b", told)  # the least and the largest age
    assert [line.split(":")[0] for line in made.left_out] == list(LEFT_OUT)
    assert all(f"#   {line}" in made.graph for line in made.left_out)
    warning = next(line for line in made.columns if line.startswith("town"))
    assert "values that fewer than 10 rows have are not named here" in warning and "Behausen" in warning
    schema = CausalGraph.from_mapping(yaml.safe_load(settled(made.graph)[0])).schema
    others = yaml.safe_load(made.config)["data"]["others"]
    assert schema.column("town").categories == ("Ahausen", "Behausen", "other") and others == {"town": "other"}
    assert np.bincount(read_table(table, schema, others=others).column("town").astype(int)).tolist() == [150, 141, 9]
    with pytest.raises(InputError, match="town: expected one of Ahausen, Behausen, other"):
        read_table(table, schema)


def test_undeclared_categories_stop_a_run_once_with_the_lines_to_add(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({name: rng.choice(["x", "y", "z"], 60) for name in ("a", "b")} | {"c": rng.integers(0, 2, 60)})
    frame = frame.with_columns(a=pl.when(pl.int_range(60) == 7).then(pl.lit("rare: one")).otherwise(pl.col("a")))
    frame = frame.with_columns(b=pl.when(pl.int_range(60) < 2).then(pl.lit("other")).otherwise(pl.col("b")))
    frame.write_csv(tmp_path / "t.csv")
    columns = [{"name": name, "kind": "categorical", "categories": ["x", "y"]} for name in ("a", "b")]
    config = {
        "data": {"file": "t.csv"},
        "graph": {"columns": [*columns, {"name": "c", "kind": "binary"}], "edges": [], "isolated": ["a", "b", "c"]},
        "privacy": {"epsilon": 4, "delta": 1e-3, "records": 60},
        "tables": {"two_stages": True},
        "fidelity": "none",
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [sys.executable, "-m", "miaudit", "synthesise", str(tmp_path / "s.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stdout == ""
    lines = [line.removeprefix("miaudit: ") for line in done.stderr.splitlines()]
    assert lines[1].startswith("a: z (") and '"rare: one" (1)' in lines[1]
    assert lines[2].strip() == 'in graph.yaml: categories: [x, y, z, "rare: one"]'
    assert lines[4].strip() == "in graph.yaml: categories: [x, y, z, other]"
    assert "under data: others: {a: other, b: other}" in lines[5]
    assert lines[6].startswith("2 columns: expected categories that are declared") and "rare" not in lines[6]
    assert not (tmp_path / "results").exists()  # nothing of it reaches a file
    for own, line in zip(columns, (lines[2], lines[4]), strict=True):
        own["categories"] = yaml.safe_load(line.strip().removeprefix("in graph.yaml: "))["categories"]
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(config))
    table, _ = synthesise_config.read(tmp_path / "s.yaml").read(tmp_path)  # the lines are what was missing
    assert len(table) == 60


def test_the_draft_asks_for_no_bins_and_takes_two_stages(tmp_path: Path) -> None:
    made = draft(EXAMPLE / "patients.csv", tmp_path)
    assert yaml.safe_load(made.config)["tables"] == {"two_stages": True} and "method" not in yaml.safe_load(made.config)
    asked = "\n".join([made.graph, *made.columns, *made.decisions])
    assert "edges of the bins" not in asked and "bins" not in asked
    assert "A wide range costs little" in made.graph


def test_public_records_take_the_place_of_private_ones(tmp_path: Path) -> None:
    made = draft(EXAMPLE / "patients.csv", tmp_path, EXAMPLE / "simulated.csv")
    content = yaml.safe_load(made.graph)
    assert not made.marked and "unchecked" not in made.graph and "check this" not in made.graph
    graph = CausalGraph.from_mapping(content)
    assert len(graph.edges) == 6 and not graph.isolated and "directions are guesses" in " ".join(made.columns)
    assert {frozenset(edge) for edge in graph.edges} > {frozenset(("lung_disease", "breathless"))}
    config = yaml.safe_load(made.config)
    assert config["fidelity"] == "public" and (tmp_path / config["public"]).samefile(EXAMPLE / "simulated.csv")


def test_what_public_records_lack_is_marked(tmp_path: Path) -> None:
    private = {"a": ["x", "y"] * 50, "b": ["u", "v", None, "w"] * 25, "c": [0, 1] * 50, "d": list(np.arange(100) / 7)}
    public = {"a": ["y", "x"] * 3, "b": ["u", "v"] * 3, "d": [1, 2, 3] * 2, "e": [0, 1] * 3}
    for name, columns in (("private", private), ("public", public)):
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    made = draft(tmp_path / "private.csv", tmp_path, tmp_path / "public.csv")
    content = yaml.safe_load(made.graph)
    marked = {column["name"]: column.get("unchecked", False) for column in content["columns"]}
    assert marked == {"a": False, "b": True, "c": True, "d": True}  # d has more values than the public levels
    assert content["edges"] == [["a", "b"]] and content["isolated"] == ["c", "d"]
    said = next(line for line in made.columns if line.startswith("b:"))
    assert "missing: read off the private table" in said and "has other values too, which a run refuses" in said
    assert "other values too" not in made.graph  # one private record would decide it
    with pytest.raises(InputError, match=r"--public: expected columns of the table"):
        draft(tmp_path / "private.csv", tmp_path, EXAMPLE / "simulated.csv")


ODD = ["yes", "7", "a: b", "a, b", "#x", "tab\there", "Ünï 名", "{x}", "$table", "null", "1e5", "'\"\\", "-", "a\nb: c"]


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_and_categories_come_back_as_they_are(tmp_path: Path, suffix: str) -> None:
    odd = [name for name in ODD if suffix == ".parquet" or not set('\n"') & set(name)]  # which polars would change
    frame = pl.DataFrame({name: [category for category in (f"{name} 1", name) for _ in range(40)] for name in odd})
    path = tmp_path / f"odd '$' \"n\"{suffix}"
    (frame.write_csv if suffix == ".csv" else frame.write_parquet)(path)
    made = draft(path, tmp_path / "new" / "folder")
    assert max(map(len, made.graph.splitlines())) < 170
    (tmp_path / "new" / "folder").mkdir(parents=True)
    graph, config = settled(made.graph, made.config)
    for name, text in ((drafts.GRAPH, graph), (drafts.CONFIG, config)):
        (tmp_path / "new" / "folder" / name).write_text(text)
    found, _ = synthesise_config.read(tmp_path / "new" / "folder" / drafts.CONFIG).read(tmp_path / "new" / "folder")
    assert list(found.schema.names) == odd and found.frame().equals(frame)


def test_tiny_numbers_are_numbers_for_every_reader_of_yaml(tmp_path: Path) -> None:
    frame = pl.DataFrame({"dose": [1e-07, 0.5] * 20, "tiny": 1e-9 * np.arange(-20, 20) / 3})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_csv(tmp_path / "public.csv")
    made = draft(tmp_path / "t.csv", tmp_path, tmp_path / "public.csv")  # which also reads what it wrote
    dose, tiny = yaml.safe_load(made.graph)["columns"]
    assert dose["categories"] == [1e-07, 0.5] and tiny["low"] == -1e-08 and tiny["high"] == 1e-08


@pytest.mark.parametrize("rows", [1, 7, 95, 950, 2050, 120_000, 3_000_000_000])
def test_numbers_of_a_budget_go_together(tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"a": [0, 1]}).write_csv(tmp_path / "t.csv")
    frame = profile.head(tmp_path / "t.csv")[0]
    monkeypatch.setattr(drafts, "head", lambda *_: (frame, rows))
    content = yaml.safe_load(settled("", draft(tmp_path / "t.csv", tmp_path).config)[1])
    content["graph"] = {"columns": [{"name": "a"}]}
    config = synthesise_config.SynthesiseConfig.model_validate(content)
    records = round_number(rows)
    assert config.privacy is not None and config.release.records == config.privacy.records == records
    assert config.privacy.resolved_delta <= min(0.1, records**-1.1) * (1 + 1e-9)
    assert config.privacy.resolved_delta > 0.4 * min(0.1, records**-1.1)
    assert config.method is None and config.fidelity == "held-out"
    assert config.config() == TablesConfig(two_stages=True)
    assert len(str(records).rstrip("0")) == 1 and abs(records - rows) <= 0.5 * 10 ** (len(str(rows)) - 1)


def test_what_epsilon_is_said_to_promise_is_what_it_does(tmp_path: Path) -> None:
    made = draft(EXAMPLE / "patients.csv", tmp_path)
    assert "accuses 1% of the non-members finds at most 2.8% of the members" in " ".join(made.decisions)
    said = {
        float(eps): float(share)
        for share, eps in re.findall(r"([\d.]+)% (?:of the members )?at (?:epsilon )?([\d.]+\d|\d)", made.config)
    }
    assert set(said) == {0.5, 1, 2, 4} and "nearly all at 8" in made.config
    for epsilon, share in said.items():
        exact = 100 * EpsilonDelta(epsilon, 0.0002).tpr_at_fpr(0.01)
        assert exact <= share < exact + 0.1


def test_one_decimal_is_singular_on_the_screen(tmp_path: Path) -> None:
    file = tmp_path / "numbers.csv"
    rows = [f"{10 + i / 10:.1f},{i / 100:.2f}" for i in range(200)]
    file.write_text("\n".join(["weight,height", *rows]) + "\n")
    guesses = "\n".join(draft(file, tmp_path).columns)
    assert "1 decimal\n" in guesses and "2 decimals" in guesses, guesses


def test_a_draft_says_what_the_release_will_need(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from miaudit.command import synthesise

    assert "not installed" not in run(str(table), "--dry-run")[1]
    monkeypatch.setattr(synthesise, "missing_modules", lambda _: ["opendp"])
    assert "needs what is not installed yet: pip install '" in run(str(table), "--dry-run")[1]


def test_a_draft_that_was_stopped_between_its_files_goes_on(table: Path, tmp_path: Path) -> None:
    assert run(str(table))[0] == 4
    before = {path.name: path.read_bytes() for path in (tmp_path / "mixed").iterdir()}
    (tmp_path / "mixed" / "synthesise.yaml").unlink()
    assert run(str(table))[0] == 4
    assert {path.name: path.read_bytes() for path in (tmp_path / "mixed").iterdir()} == before


def test_earlier_files_stay_unless_they_may_go(table: Path, tmp_path: Path) -> None:
    assert run(str(table), "--dry-run")[0] == 4 and not (tmp_path / "mixed").exists()
    table.chmod(0o640)
    assert run(str(table))[0] == 4
    graph = tmp_path / "mixed" / "graph.yaml"
    assert stat.S_IMODE(graph.stat().st_mode) == 0o640  # for those who may read the table
    graph.write_text("decided")
    with pytest.raises(
        InputError, match=r"no draft in .* yet, received its graph.yaml; go on with it: miaudit syn.*run"
    ):
        run(str(table))
    (tmp_path / "mixed" / "synthesise.yaml").unlink()
    with pytest.raises(InputError, match=r"received its graph.yaml; name another --out, or add --overwrite, which"):
        run(str(table))
    assert graph.read_text() == "decided" and not (tmp_path / "mixed" / "synthesise.yaml").exists()
    assert run(str(table), "--overwrite")[0] == 4 and "decided" not in graph.read_text()
    assert run(str(table), "--out", str(tmp_path / "elsewhere"))[0] == 4
    config = synthesise_config.SynthesiseConfig.model_validate(
        yaml.safe_load(settled("", (tmp_path / "elsewhere" / "synthesise.yaml").read_text())[1])
    )
    assert (tmp_path / "elsewhere" / config.data.file).samefile(table)


def test_first_rows_of_a_large_table_are_said_to_be_all_that_was_read(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = draft(table, table.parent)
    assert "looked at" not in whole.graph
    monkeypatch.setattr(drafts, "head", lambda path, argument: profile.head(path, argument, rows=100))
    made = draft(table, table.parent)
    assert "rows were looked at" not in made.graph  # public input, which the length of the table does not enter
    assert any(line.startswith("the first 100 of 300 rows") for line in made.columns)
    assert "records: 300" in made.config


def test_the_private_table_is_no_public_one(table: Path) -> None:
    with pytest.raises(InputError, match=r"--public: expected another file than the private table, received"):
        draft(table, table.parent, table)


def test_what_cannot_be_drafted_is_refused_in_one_line(tmp_path: Path) -> None:
    pl.DataFrame({"id": range(50), "x": ["a"] * 50}).write_csv(tmp_path / "t.csv")
    with pytest.raises(
        InputError, match=r"at least one column that can be modelled, received 'id': its name"
    ) as caught:
        draft(tmp_path / "t.csv", tmp_path)
    assert "\n" not in str(caught.value)
    for name, message in (
        (".", "received the directory"),
        ("none.csv", "does not exist"),
        ("t.txt", "a name ending in"),
    ):
        (tmp_path / "t.txt").touch()
        with pytest.raises(InputError, match=f"^config: .*{message}"):
            run(str(tmp_path / name))
    assert run(str(tmp_path / "t.csv"), "--json")[0] == 2
    assert run(str(EXAMPLE / "synthesise.yaml"), "--public", str(EXAMPLE / "simulated.csv"))[0] == 2
