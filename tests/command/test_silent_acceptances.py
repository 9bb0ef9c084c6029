"""What was accepted in silence, ended in a traceback, or steered the terminal of whoever read about it."""

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit import Plan
from miaudit.config.audit import CampaignConfig
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
    for words in (
        audit("t.npz", *DESIGN, "--fpr-targets", fpr),
        ["plan", "--members", "9", "--nonmembers", "9", "--fpr-targets", fpr],
    ):
        code, _, err = run(*words)
        assert code == 1 and one_line(err) and "1e-12" in err
    with pytest.raises(InputError, match="1e-12"):
        Plan(fpr_targets=(float(fpr),))
    del place


@pytest.mark.long
def test_the_smallest_rate_is_answered(place: Path, run: Run) -> None:
    code, out, _ = run(*audit("t.npz", *DESIGN, "--fpr-targets", "1e-12"))
    assert code in (0, 3, 4) and '"tpr_at_fpr_1e-12"' in out
    assert run("plan", "--members", "9", "--nonmembers", "9", "--fpr-targets", "1e-11")[0] == 0
    del place


@pytest.mark.long
@pytest.mark.parametrize("kind", [pl.Int128, pl.Decimal(38, 2), pl.Duration, pl.Time, pl.Binary, pl.Null, pl.Date])
def test_a_column_of_an_unusual_type_is_read_or_one_line(place: Path, run: Run, kind: pl.DataType) -> None:
    whole = pl.Series("score", range(N), dtype=pl.Int64)
    score = whole.cast(pl.String).cast(pl.Binary) if kind == pl.Binary else pl.Series("score", [None] * N)
    score = score if kind in (pl.Binary, pl.Null) else whole.cast(kind, strict=False)
    pl.DataFrame([score.alias("score"), pl.Series("member", np.arange(N) % 2 == 0)]).write_parquet(place / "t.parquet")
    code, _, err = run(*audit("t.parquet", *DESIGN))
    assert (code in (0, 3, 4) and kind == pl.Int128) or (code == 1 and one_line(err)), err


@pytest.mark.long
def test_numbers_beyond_64_bits_are_refused_and_others_of_their_type_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for values, kind in (([1, -5, 2**40], np.int64), ([1, 2**63 + 1], np.uint64)):
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Int128)}).write_parquet(path)
        found = tables.read_columns(path, ["a"])["a"]
        assert found.dtype == kind and found.tolist() == values
    pl.DataFrame({"a": pl.Series([2**70], dtype=pl.Int128)}).write_parquet(path)
    with pytest.raises(InputError, match="64 bits"):
        tables.read_columns(path, ["a"])


@pytest.mark.thorough
@pytest.mark.long
def test_a_damaged_parquet_file_is_one_line_whatever_its_reader_does(place: Path) -> None:
    pl.DataFrame({"score": np.arange(300.0), "member": np.arange(300) % 2 == 0}).write_parquet(place / "t.parquet")
    good, rng = (place / "t.parquet").read_bytes(), np.random.default_rng(2)
    for _ in range(12):  # among them files that make polars panic, or end its process
        damaged = bytearray(good)
        for at in rng.integers(0, len(good), 4):
            damaged[at] = rng.integers(0, 256)
        (place / "t.parquet").write_bytes(damaged)
        program = "import sys; from miaudit.command.program import main; sys.argv[0] = 'miaudit'; main()"
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


def test_true_is_no_number_for_a_target_either() -> None:
    content = {"target": {"kind": "sklearn", "estimator": "sklearn.svm:SVC"}, "data": {"path": "a.npz", "x": "x"}}
    CampaignConfig.model_validate({**content, "shadow": {"models": 8}})
    with pytest.raises(ValueError, match="expected a number, received true"):
        CampaignConfig.model_validate({**content, "shadow": {"models": True}})


@pytest.mark.parametrize("options", [{"row_level": True}, {"n_bootstrap": False}, {"components": True}])
def test_true_is_no_number_in_a_plan(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Plan(**options)  # type: ignore[arg-type]
