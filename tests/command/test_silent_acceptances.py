"""What was accepted in silence, ended in a traceback, or steered the terminal of whoever read about it."""

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit import Plan
from miaudit.config.audit import AuditConfig, CampaignConfig
from miaudit.errors import InputError
from miaudit.io import tables

Run = Callable[..., tuple[int, str, str]]
N = 400
DESIGN = ("--design", "one-run", "--no-bounds")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    member = np.arange(N) % 2 == 0
    score = rng.normal(size=N) + member
    columns = {"score": score, "member": member, "label": np.arange(N) % 3, "x": rng.normal(size=N)}
    np.savez(tmp_path / "t.npz", allow_pickle=False, **columns)
    np.save(tmp_path / "in.npy", score[member])
    np.save(tmp_path / "out.npy", score[~member])
    pl.DataFrame(columns).write_csv(tmp_path / "table.csv")
    return tmp_path


def audit(file: str = "t.npz", *more: str) -> list[str]:
    return ["audit", file, "--score", "score", "--member", "member", "--json", *more]


def one_line(err: str) -> bool:
    return len(err.splitlines()) == 1 and "Traceback" not in err


@pytest.mark.parametrize("kind", ["[]", "{}", "[gaussian]", "1", "null", "true"])
def test_a_mechanism_of_no_kind_is_one_line(place: Path, run: Run, kind: str) -> None:
    (place / "m.yaml").write_text(f"kind: {kind}\n")
    code, _, err = run(*audit("t.npz", "--design", "one-run", "--mechanism", "m.yaml"))
    assert code == 1 and one_line(err) and "mechanism.kind" in err


@pytest.mark.parametrize("fpr", ["1e-320", "1e-300", "5e-324", "1e-13"])
def test_a_rate_that_nothing_resolves_is_one_line(place: Path, run: Run, fpr: str) -> None:
    for words in (audit("t.npz", *DESIGN, "--fpr", fpr), ["plan", "--members", "9", "--nonmembers", "9", "--fpr", fpr]):
        code, _, err = run(*words)
        assert code == 1 and one_line(err) and "1e-12" in err
    with pytest.raises(InputError, match="1e-12"):
        Plan(fpr_targets=(float(fpr),))
    del place


def test_the_smallest_rate_is_answered(place: Path, run: Run) -> None:
    code, out, _ = run(*audit("t.npz", *DESIGN, "--fpr", "1e-12"))
    assert code in (0, 3, 4) and '"tpr_at_fpr_1e-12"' in out
    assert run("plan", "--members", "9", "--nonmembers", "9", "--fpr", "1e-11")[0] == 0
    del place


@pytest.mark.parametrize("kind", [pl.Int128, pl.Decimal(38, 2), pl.Duration, pl.Time, pl.Binary, pl.Null, pl.Date])
def test_a_column_of_an_unusual_type_is_read_or_one_line(place: Path, run: Run, kind: pl.DataType) -> None:
    whole = pl.Series("score", range(N), dtype=pl.Int64)
    score = whole.cast(pl.String).cast(pl.Binary) if kind == pl.Binary else pl.Series("score", [None] * N)
    score = score if kind in (pl.Binary, pl.Null) else whole.cast(kind, strict=False)
    pl.DataFrame([score.alias("score"), pl.Series("member", np.arange(N) % 2 == 0)]).write_parquet(place / "t.parquet")
    code, _, err = run(*audit("t.parquet", *DESIGN))
    assert (code in (0, 3, 4) and kind == pl.Int128) or (code == 1 and one_line(err)), err


def test_numbers_beyond_64_bits_are_refused_and_others_of_their_type_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for values, kind in (([1, -5, 2**40], np.int64), ([1, 2**63 + 1], np.uint64)):
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Int128)}).write_parquet(path)
        found = tables.read_columns(path, ["a"])["a"]
        assert found.dtype == kind and found.tolist() == values
    pl.DataFrame({"a": pl.Series([2**70], dtype=pl.Int128)}).write_parquet(path)
    with pytest.raises(InputError, match="64 bits"):
        tables.read_columns(path, ["a"])


def test_a_damaged_parquet_file_is_one_line_whatever_its_reader_does(place: Path) -> None:
    pl.DataFrame({"score": np.arange(300.0), "member": np.arange(300) % 2 == 0}).write_parquet(place / "t.parquet")
    good, rng = (place / "t.parquet").read_bytes(), np.random.default_rng(2)
    for _ in range(12):  # among them files that make polars panic, or end its process
        damaged = bytearray(good)
        for at in rng.integers(0, len(good), 4):
            damaged[at] = rng.integers(0, 256)
        (place / "t.parquet").write_bytes(damaged)
        program = "import sys; from miaudit.cli import main; sys.argv[0] = 'miaudit'; main()"
        words = [sys.executable, "-c", program, *audit("t.parquet", *DESIGN)]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        assert ran.returncode in (0, 1, 3, 4), ran.stderr
        assert len(ran.stderr.splitlines()) <= 1, ran.stderr


def panics(*_: object) -> str:
    return "its reader was ended by signal 6"


def test_what_ends_a_reader_is_not_read(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"score": [1.0]}).write_parquet(place / "t.parquet")
    monkeypatch.setattr(tables, "_trial", panics)
    monkeypatch.setattr(pl, "scan_parquet", lambda *_, **__: pytest.fail("it was read"))
    code, _, err = run(*audit("t.parquet"))
    assert code == 1 and one_line(err) and "signal 6" in err


@pytest.mark.parametrize(
    "header", ["score,member,score", 'score,member,"score"', "member,score,score", "score,member,,"]
)
def test_a_column_that_stands_twice_in_a_csv_is_refused(place: Path, run: Run, header: str) -> None:
    (place / "t.csv").write_text(
        header + "\n" + "".join(f"0.{i},{i % 2},0.{i}{',' * (header.count(',') - 2)}\n" for i in range(50))
    )
    code, _, err = run(*audit("t.csv", *DESIGN))
    assert code == 1 and one_line(err) and "stands twice" in err


def test_a_name_that_only_looks_like_a_second_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,a_duplicated_0\n1,2\n")
    assert tables.column_names(tmp_path / "t.csv") == ["a", "a_duplicated_0"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["score.npy", "score"])
def test_an_array_that_stands_twice_in_an_npz_is_refused(place: Path, run: Run, second: str) -> None:
    def entry(values: np.ndarray) -> bytes:
        held = io.BytesIO()
        np.save(held, values)
        return held.getvalue()

    with zipfile.ZipFile(place / "t.npz", "w") as archive:
        archive.writestr("score.npy", entry(np.arange(10.0)))
        archive.writestr("member.npy", entry(np.arange(10) % 2 == 0))
        archive.writestr(second, entry(np.zeros(10)))
    code, _, err = run(*audit("t.npz", *DESIGN))
    assert code == 1 and one_line(err) and "stands twice" in err


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("evaluation", "seed", True),
        ("evaluation", "components", True),
        ("attack", "n_bootstrap", False),
        ("attack", "fpr_targets", [0.1, True]),
        ("reporting", "row_level", True),
        ("reporting", "threshold_for_concern", True),
        ("reporting", "raw_only", 1),
        ("reporting", "raw_only", "yes"),
        ("privacy", "delta", False),
        ("privacy", "margin", True),
        ("privacy", "bounds", 0),
    ],
)
def test_true_is_no_number_and_a_number_is_not_true(section: str, key: str, value: object) -> None:
    content: dict[str, dict[str, object]] = {"evaluation": {"table_path": "t.npz", "design": "zero-run"}}
    content.setdefault(section, {})[key] = value
    with pytest.raises(ValueError, match=r"expected (a number|true or false), received"):
        AuditConfig.model_validate(content)


def test_true_is_no_number_for_a_target_either() -> None:
    content = {"target": {"kind": "sklearn", "estimator": "sklearn.svm:SVC"}, "data": {"path": "a.npz", "x": "x"}}
    CampaignConfig.model_validate({**content, "shadow": {"models": 8}})
    with pytest.raises(ValueError, match="expected a number, received true"):
        CampaignConfig.model_validate({**content, "shadow": {"models": True}})


@pytest.mark.parametrize("options", [{"row_level": True}, {"n_bootstrap": False}, {"components": True}])
def test_true_is_no_number_in_a_plan(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Plan(**options)  # type: ignore[arg-type]


EVIL = "red\x1b[31m\x9b31m"


def evil(*words: str, where: Path) -> subprocess.CompletedProcess[bytes]:
    program = "import sys; from miaudit.cli import main; sys.argv[0] = 'miaudit'; main()"
    told = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=where, capture_output=True, env=told, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        audit()[:-1] + [*DESIGN, "--out", EVIL],
        audit("t.npz", *DESIGN, "--bundle", f"{EVIL}.zip"),
        audit("t.npz", *DESIGN, "--seed", EVIL),
        audit("t.npz", EVIL),
        audit("t.npz", f"--{EVIL}"),
        [EVIL],
        ["run", f"{EVIL}.yaml"],
        ["collect", "c.yaml", "--out", f"{EVIL}.npz"],
        ["report", EVIL],
    ],
    ids=["out", "bundle", "value", "argument", "option", "command", "configuration", "evidence", "report"],
)
def test_nothing_that_steers_a_terminal_reaches_it(place: Path, words: list[str]) -> None:
    (place / f"{EVIL}.yaml").write_text("attack: {type: nothing, folds: 1}\nevaluation: {}\n")
    (place / "c.yaml").write_text("evaluation: {table_path: t.npz, score: score, member: member, design: one-run}\n")
    ran = evil(*words, where=place)
    for said in (ran.stdout.decode(), ran.stderr.decode()):
        assert not [ch for ch in said if ch != "\n" and not ch.isprintable()], said
    assert ran.stdout + ran.stderr and b"Traceback" not in ran.stderr


PAIR = ("audit", "--members", "in.npy", "--nonmembers", "out.npy", "--json")
SYNTHETIC = ("audit", "--synthetic", "table.csv", "--members", "table.csv", "--nonmembers", "table.csv", "--json")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (audit("t.npz", "--labels", "label"), "labels"),
        (audit("t.npz", "--member-labels", "in.npy"), "member-labels"),
        (audit("t.npz", "--records", "9"), "records"),
        (audit("t.npz", "--secret", "x"), "secret"),
        (audit("t.npz", *DESIGN, "--guesses", "9"), "guesses"),
        (audit("t.npz", *DESIGN, "--delta", "0.1"), "delta"),
        (audit("t.npz", *DESIGN, "--margin", "0.1"), "margin"),
        (audit("t.npz", "--categories", "x"), "categories"),
        (audit("t.npz", "--design", "zero-run", "--categories", "x"), "categories"),
        (audit("t.npz", "--design", "zero-run", "--components", "2"), "components"),
        (audit("t.npz", "--design", "one-run", "--covariates", "x", "--categories", "x"), "categories"),
        (audit("t.npz", "--design", "one-run", "--components", "2"), "components"),
        (audit("t.npz", "--design", "one-run", "--estimator", "aipw"), "estimator"),
        (audit("t.npz", "--design", "one-run", "--raw-only"), "raw-only"),
        (audit("t.npz", "--design", "one-run", "--correction", "composition"), "correction"),
        (audit("t.npz", "--design", "multi-run", "--guesses", "9"), "guesses"),
        ([*PAIR, "--member-labels", "in.npy", "--nonmember-labels", "out.npy"], "member-labels"),
        ([*PAIR, "--schema", "s.yaml"], "schema"),
        ([*SYNTHETIC, "--score", "x"], "score"),
        ([*SYNTHETIC, "--signal", "loss"], "signal"),
        ([*SYNTHETIC, "--attack", "loss"], "attack"),
        ([*SYNTHETIC, "--group", "x"], "group"),
        ([*SYNTHETIC, "--seal"], "seal"),
        ([*SYNTHETIC, "--categories", "x"], "categories"),
        ([*SYNTHETIC, "--headline", "split"], "headline"),
    ],
)
def test_an_option_that_nothing_uses_is_refused(place: Path, run: Run, words: list[str], option: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "") and f"--{option} would not be used" in " ".join(err.replace("│", " ").split())
    del place


def test_an_option_that_nothing_uses_yet_is_said(place: Path, run: Run) -> None:
    code, _, err = run(*audit("t.npz", "--covariates", "x", "--categories", "x", "--no-bounds"))
    assert code in (0, 3, 4) and "--categories is of use with --design zero-run" in err
    code, _, err = run(*audit("t.npz", "--covariates", "x", "--design", "zero-run", "--categories", "nothing"))
    assert code == 1 and one_line(err)
    del place


@pytest.mark.parametrize("more", ["components: 2", "estimator: aipw", "categories: [x]"])
def test_an_option_that_nothing_uses_is_refused_in_a_file_too(place: Path, run: Run, more: str) -> None:
    (place / "c.yaml").write_text(
        f"evaluation: {{table_path: t.npz, score: score, member: member, design: one-run, {more}}}\n"
    )
    code, _, err = run("run", "c.yaml")
    assert code == 1 and one_line(err) and "goes with zero-run" in err


def test_every_option_of_an_audit_has_its_place() -> None:
    """A new option is thought about here: where nothing reads it, it is refused."""
    import inspect

    from miaudit.command.audit import audit as command
    from miaudit.command.options import KEYS
    from miaudit.config import audit as configuration

    options = set(inspect.signature(command).parameters)
    always = {"context", "file", "members", "nonmembers", "synthetic", "design", "fpr", "confidence", "primary"}
    always |= {
        "threshold",
        "prior",
        "n_bootstrap",
        "claim_epsilon",
        "claim_delta",
        "claim_mu",
        "mechanism",
        "no_bounds",
    }
    always |= {"show_rows", "out", "bundle", "overwrite", "json", "seed", "levels", "intervals"}
    always |= {"architecture", "checkpoint", "num_classes", "model_name"}
    of_some = {key for name, keys in vars(configuration).items() if name.lstrip("_").startswith("OF_") for key in keys}
    parameters = {key: name for name, (key, _) in KEYS.items()}
    statistics = {"mu_in", "sigma_in", "mu_out", "sigma_out"}
    assert "attack.statistics" in of_some
    placed = {parameters.get(key, key) for key in of_some - {"attack.statistics"}} | statistics | {"unit"}
    assert options == always | placed
