"""A user's own command: its template, its files, what it may leave, and what becomes of one that fails or hangs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError, MiauditError
from miaudit.jobs.resumable import JobsFailedError
from miaudit.models import shadow
from miaudit.models.command import CommandLine, CommandTarget, last_words, read_outputs
from miaudit.models.inclusion import inclusion

N = 12
ALL, EVEN = np.arange(N), np.arange(0, N, 2)
Y = ALL % 2
PYTHON = shlex.quote(sys.executable)
START = "import sys, os, time, pathlib, numpy as np\nrows, seed, out = sys.argv[1:4]\nout = pathlib.Path(out)\n"
GOOD = (
    "r = np.load(rows)\nnp.save(out / 'outputs.npy', np.c_[np.zeros(12), np.isin(np.arange(12), r) + int(seed) % 7])\n"
)


def target(folder: Path, body: str, given: str = "logits", **options) -> CommandTarget:
    (folder / "train.py").write_text(START + body, encoding="utf-8")
    return CommandTarget(f"{PYTHON} train.py {{rows}} {{seed}} {{out}}", given, folder, **options)


def fitted(made: CommandTarget, rows=EVEN, x=ALL):
    return made.outputs(made.fit(x, Y, rows, seed=5), np.arange(N))


def failure(made: CommandTarget) -> str:
    with pytest.raises(MiauditError) as caught:
        fitted(made)
    text = str(caught.value)
    assert "\n" not in text
    log = Path(text.rpartition("; log: ")[2])
    assert log.is_file(), text
    assert [path.name for path in log.parent.iterdir()] == [log.name]  # nothing else stays
    log.unlink()
    log.parent.rmdir()
    return text


# -- the template ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("python t.py {rows}", "one without {out}"),
        ("python t.py {out} {seed}", "one without {rows}"),
        ("python t.py", "one without {rows} and {out}"),
        ("", "one without {rows} and {out}"),
        ("python t.py {row} {out}", "received {row}; did you mean rows?"),
        ("python t.py {rows} {out} {epochs}", "received {epochs}; write {{ and }}"),
        ("python t.py {rows} {out} {}", "received {}"),
        ("python t.py {rows!r} {out}", "received {rows!r}"),
        ("python t.py {seed:04d} {rows} {out}", "received {seed:04d}"),
        ("python t.py {rows} {out} {", "in braces"),
        ("python t.py '{rows} {out}", "closed quotes"),
        ("bash -c 'a {rows}\n b {out}'", "a line break inside quotes"),
        ("{rows} {out}", "a program first"),
    ],
)
def test_a_template_that_cannot_be_called_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=r"^target.command: ") as caught:
        CommandLine.of(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_template_is_words_and_no_shell() -> None:
    line = CommandLine.of("prog --rows={rows} '{out}/x y' {{a}} ; rm -rf $HOME \n")
    words = line.filled(rows="/a b/r.npy", seed=1, out="/o")
    assert words == ["prog", "--rows=/a b/r.npy", "/o/x y", "{a}", ";", "rm", "-rf", "$HOME"]
    with pytest.raises(InputError, match=r"a plain path for \{rows\} inside a text for a shell"):
        CommandLine.of("bash -c 'p {rows} {out}'").filled(rows="/a b/r", seed=0, out="/o")


# -- what goes in and comes out --------------------------------------------------------------------------------------


def test_a_command_gets_its_rows_in_order_a_seed_and_an_empty_folder_where_it_runs(tmp_path: Path) -> None:
    body = (
        "r = np.load(rows); assert r.dtype == np.int64 and list(out.iterdir()) == []\n"
        "assert pathlib.Path('train.py').is_file() and os.environ['OMP_NUM_THREADS'] == '3'\n"
        "assert os.environ['MORE'] == 'yes'\n"
        "o = np.zeros((12, 2)); o[:len(r), 1] = r; o[-1, 0] = int(seed); np.save(out / 'outputs.npy', o)\n"
    )
    made = target(tmp_path, body, threads=3, env={"MORE": "yes"})
    x = np.arange(N)
    x[[2, 11]] = x[[11, 2]]  # as for stability: 11 stands where 2 stood
    found = fitted(made, rows=np.array([0, 2, 4]), x=x)
    assert found[:3, 1].tolist() == [0, 11, 4]
    assert found[-1, 0] == 5
    assert found.dtype == np.float32


@pytest.mark.thorough
def test_a_command_sees_the_gpus_that_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of GPUs are enough: they are dealt in the environment, and the command says what it found there."""
    said = GOOD + "(pathlib.Path('seen') / seed).write_text(os.environ.get('CUDA_VISIBLE_DEVICES', 'unset'))\n"
    (tmp_path / "seen").mkdir()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x,GPU-y")

    def seen(gpus: int | None, workers: int = 1) -> set[str]:
        included = inclusion(N, 4, rng=np.random.default_rng(0))
        shadow.train(target(tmp_path, said, gpus=gpus), ALL, Y, included, seed=1, workers=workers)
        return {path.read_text() for path in (tmp_path / "seen").iterdir()}

    assert seen(None) == {"GPU-x,GPU-y"}
    assert seen(0) == {""}
    assert seen(2) == {"GPU-x,GPU-y"}
    assert seen(1) == {"GPU-x"}
    assert seen(1, workers=2) == {"GPU-x", "GPU-y"}
    with pytest.raises(InputError, match="gpus: expected at most the 2 GPUs that this machine shows, received 3"):
        seen(3)
    with pytest.raises(InputError, match=r"target\.gpus: expected a whole number from 0, received 0\.5"):
        seen(0.5)  # type: ignore[arg-type]
    plain, one = (target(tmp_path, said, gpus=gpus).identity() for gpus in (None, 1))
    assert plain != one
    assert "GPU" not in plain


def test_seeds_stay_below_what_r_and_java_take(tmp_path: Path) -> None:
    made = target(tmp_path, "o = np.zeros((12, 2)); o[0, 0] = int(seed) < 2**31; np.save(out / 'outputs.npy', o)\n")
    assert made.fit(np.arange(N), Y, np.arange(3), seed=2**32 - 1)[0, 0] == 1


@pytest.mark.long
def test_losses_are_turned_and_probabilities_become_logarithms(tmp_path: Path) -> None:
    losses = target(tmp_path, "np.save(out / 'outputs.npy', np.arange(12.0))\n", "losses")
    assert (losses.kind, losses.columns) == ("signals", ("loss",))
    assert fitted(losses)[:, 0].tolist() == (-np.arange(12.0)).tolist()
    sure = target(tmp_path, "np.save(out / 'outputs.npy', np.tile([0.25, 0.75], (12, 1)))\n", "probabilities")
    np.testing.assert_allclose(np.exp(fitted(sure)), np.tile([0.25, 0.75], (N, 1)), rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "given", "says"),
    [
        ("print('one'); print('two'); sys.exit(3)", "logits", "ended with exit code 3: one | two; log:"),
        ("raise ValueError('boom')", "logits", "exit code 1: "),
        ("os.kill(os.getpid(), 9)", "logits", "exit code 137"),
        ("pass", "logits", "outputs.npy: expected logits of shape (12, classes), a row for each record of the data"),
        ("np.save(out / 'output.npy', np.zeros(12))", "losses", "no such file in {out}, but output.npy"),
        ("np.save(out / 'outputs.npy', np.zeros(6))", "losses", "received float64 of shape (6,)"),
        ("np.save(out / 'outputs.npy', np.zeros((12, 2)))", "losses", "target.outputs says what they are"),
        ("np.save(out / 'outputs.npy', np.zeros(12))", "logits", "received float64 of shape (12,)"),
        ("np.save(out / 'outputs.npy', np.zeros((12, 1)))", "logits", "a column for each of 2 classes, received 1"),
        ("np.save(out / 'outputs.npy', np.full(12, np.nan))", "losses", "NaN or infinity in 12 of 12 records"),
        ("np.save(out / 'outputs.npy', -np.arange(12.0))", "losses", "losses with their sign turned: none is above 0"),
        ("np.save(out / 'outputs.npy', np.full((12, 2), np.inf))", "logits", "NaN or infinity in 12 of 12"),
        ("np.save(out / 'outputs.npy', np.full((12, 2), np.nan))", "probabilities", "add up to 1"),
        (
            "np.save(out / 'outputs.npy', np.full((12, 2), 0.6))",
            "probabilities",
            "expected probabilities that add up to 1, received others in row 0",
        ),
        ("np.save(out / 'outputs.npy', np.tile([1.5, -0.5], (12, 1)))", "probabilities", "others in row 0"),
        ("np.save(out / 'outputs.npy', np.array([object()] * 12))", "losses", "no array of numbers"),
        ("(out / 'outputs.npy').write_text('1,2')", "losses", "no array of numbers"),
        ("np.save(rows, np.arange(3))\n" + GOOD, "logits", "changed the file of its rows"),
        ("open('train.py', 'a').write('# more')\n" + GOOD, "logits", "train.py changed since the campaign began"),
    ],
)
def test_what_cannot_be_used_is_one_line_with_the_log(tmp_path: Path, body: str, given: str, says: str) -> None:
    assert says in failure(target(tmp_path, body + "\n", given))


def test_outputs_beside_the_folder_are_found_and_named(tmp_path: Path) -> None:
    said = failure(target(tmp_path, "np.save('outputs.npy', np.zeros((12, 2)))\n"))
    assert f"no such file in {{out}}, which is empty, though there is one in {tmp_path}, where the command ran" in said


@pytest.mark.long
def test_ids_must_be_those_of_the_data_in_their_order(tmp_path: Path) -> None:
    names = np.array([f"r{i}" for i in range(N)])
    same = GOOD + "np.save(out / 'ids.npy', np.array([f'r{i}' for i in range(12)]))\n"
    assert fitted(target(tmp_path, same, ids=names)).shape == (N, 2)
    text = GOOD + "(out / 'ids.txt').write_text('\\n'.join(f'r{i}' for i in range(12)) + '\\n')\n"
    assert fitted(target(tmp_path, text, ids=names)).shape == (N, 2)
    other = GOOD + "np.save(out / 'ids.npy', np.array([f'r{i}' for i in range(12)])[::-1])\n"
    assert "'r11' where the data have 'r0', in row 0" in failure(target(tmp_path, other, ids=names))
    assert "received 3 of 12" in failure(target(tmp_path, GOOD + "np.save(out / 'ids.npy', np.arange(3))\n", ids=names))
    assert "row numbers from 0, as data.ids names no column" in failure(target(tmp_path, same))
    plain = GOOD + "np.save(out / 'ids.npy', np.arange(12))\n"
    assert fitted(target(tmp_path, plain)).shape == (N, 2)


def test_records_that_are_no_row_numbers_are_refused(tmp_path: Path) -> None:
    made = target(tmp_path, GOOD)
    for x in (np.zeros((N, 3)), np.zeros(N), np.full(N, 3), ["a"] * N):
        with pytest.raises(InputError, match=r"leave data\.x and data\.text out"):
            made.fit(x, Y, np.arange(3), seed=0)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a program that is there, received no-such-program"):
        CommandTarget("no-such-program {rows} {out}", "losses", tmp_path).fit(np.arange(N), Y, np.arange(2), seed=0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retries": -1}, "target.retries"),
        ({"threads": 0}, "target.threads"),
        ({"timeout": 0.0}, "target.timeout"),
        ({"timeout": float("nan")}, "target.timeout"),
        ({"files": ("not-there.py",)}, "target.files"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        target(tmp_path, GOOD, **options)


def test_outputs_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"target\.outputs: expected losses or logits or probabilities"):
        target(tmp_path, GOOD, "scores")


# -- identity --------------------------------------------------------------------------------------------------------


def test_identity_is_the_template_and_the_script_and_no_path(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    first = target(one, GOOD)
    assert target(other, GOOD).identity() == first.identity()
    assert str(tmp_path) not in first.identity()
    assert set(first.digests) == {"train.py"}
    changes = [
        target(other, GOOD + "#"),
        target(other, GOOD, "probabilities"),
        target(other, GOOD, threads=2),
        target(other, GOOD, env={"A": "b"}),
        target(other, GOOD, ids=np.arange(N)),
    ]
    assert first.identity() not in {change.identity() for change in changes}
    assert target(other, GOOD, timeout=9.0, retries=2).identity() == first.identity()


def test_files_of_the_command_are_found_and_others_can_be_named(tmp_path: Path) -> None:
    for name in ("train.py", "conf.yaml", "pkg/train.py", "lib/a.py", "lib/__pycache__/a.pyc", "lib/.hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")

    def found(command: str, *files: str) -> list[str]:
        return sorted(CommandTarget(f"{command} {{rows}} {{out}}", "losses", tmp_path, files=files).digests)

    assert found("python train.py --config=conf.yaml") == ["conf.yaml", "train.py"]
    assert found("bash -c 'python ./train.py \"$@\"' bash") == ["train.py"]
    assert found("python -m pkg.train") == ["pkg/train.py"]
    assert found("python train.py", "lib") == ["lib/a.py", "train.py"]
    assert found(f"python {tmp_path}/train.py ../x.py /etc/hostname") == ["train.py"]


# -- a campaign ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_failed_fit_takes_no_other_with_it_and_is_tried_again(tmp_path: Path) -> None:
    body = "if not pathlib.Path('mended').exists() and 3 in np.load(rows): sys.exit('not yet')\n" + GOOD
    included = inclusion(N, 4, rng=np.random.default_rng(0))
    store = tmp_path / "store"
    with pytest.raises(JobsFailedError) as caught:
        shadow.train(target(tmp_path, body), np.arange(N), Y, included, seed=0, store=store)
    text = str(caught.value)
    bad = np.flatnonzero(included[:, 3])
    assert f"2 of 4 shadow models failed: model {bad[0]} " in text
    assert f"exit code 1: not yet; log: {store / 'logs' / f'fit-{bad[0]:05d}.log'}" in text
    before = {path.name: path.stat().st_mtime_ns for path in store.glob("model-*.npy")}
    assert len(before) == 2
    (tmp_path / "mended").touch()
    trained = shadow.train(target(tmp_path, body), np.arange(N), Y, included, seed=0, store=store)
    assert trained.models == 4
    assert all((store / name).stat().st_mtime_ns == stamp for name, stamp in before.items())
    with pytest.raises(InputError, match="a folder of the same target"):
        shadow.train(target(tmp_path, body + "# edited\n"), np.arange(N), Y, included, seed=0, store=store)


@pytest.mark.thorough
def test_workers_change_nothing(tmp_path: Path) -> None:
    included = inclusion(N, 4, rng=np.random.default_rng(0))
    made = [
        shadow.train(target(tmp_path, GOOD), np.arange(N), Y, included, seed=0, workers=workers) for workers in (1, 2)
    ]
    for m in range(4):
        assert np.array_equal(made[0].model(m), made[1].model(m))


@pytest.mark.slow
def test_ray_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    included = inclusion(N, 4, rng=np.random.default_rng(0))
    made = [
        shadow.train(target(tmp_path, GOOD), ALL, Y, included, seed=0, executor=executor, workers=2)
        for executor in ("local", "ray")
    ]
    for m in range(4):
        assert np.array_equal(made[0].model(m), made[1].model(m))


@pytest.mark.long
def test_retries_run_the_same_fit_again(tmp_path: Path) -> None:
    body = (
        "c = pathlib.Path('count'); k = int(c.read_text()) if c.exists() else 0; c.write_text(str(k + 1))\n"
        "assert list(out.iterdir()) == []\n"
        "if k < 2:\n    np.save(out / 'junk.npy', np.zeros(2)); sys.exit('no luck')\n" + GOOD
    )
    assert fitted(target(tmp_path, body, retries=2)).shape == (N, 2)
    (tmp_path / "count").unlink()
    assert "no luck (after 2 attempts)" in failure(target(tmp_path, body, retries=1))


# -- time limits and interruptions -----------------------------------------------------------------------------------

HANG = (
    "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "pathlib.Path('pids').write_text(f'{os.getpid()} {child.pid}')\ntime.sleep(600)\n"
)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(folder: Path, seconds: float = 20) -> bool:
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(map(alive, pids)):
        time.sleep(0.05)
    return not any(map(alive, pids))


posix = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process groups, read from /proc")


@pytest.mark.thorough
@pytest.mark.long
@posix
def test_a_hung_fit_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    text = failure(target(tmp_path, HANG, timeout=8.0))
    assert "took longer than target.timeout, 8 s" in text
    assert gone(tmp_path, 2)


@pytest.mark.thorough
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_command_dies_with_the_audit(tmp_path: Path, number: int, workers: int) -> None:
    (tmp_path / "train.py").write_text(START + HANG, encoding="utf-8")
    np.savez(tmp_path / "data.npz", y=Y)
    (tmp_path / "audit.yaml").write_text(
        f'target: {{kind: command, command: "{sys.executable} train.py {{rows}} {{seed}} {{out}}", outputs: logits}}\n'
        f"data: {{path: data.npz, y: y}}\nshadow: {{models: 4, workers: {workers}}}\n",
        encoding="utf-8",
    )
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    audit = subprocess.Popen(
        [sys.executable, "-m", "miaudit", "collect", "audit.yaml", "--out", "e.npz"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 90
    while not (tmp_path / "pids").exists() or len((tmp_path / "pids").read_text().split()) < 2:
        assert time.monotonic() < until
        assert audit.poll() is None
        time.sleep(0.05)
    audit.send_signal(number)
    audit.wait(30)
    assert gone(tmp_path)
    until = time.monotonic() + 20
    while list(scratch.glob("miaudit-fit-*")) and time.monotonic() < until:
        time.sleep(0.05)
    if workers == 1:  # of two, one may be killed before it has started its command
        assert list(scratch.glob("miaudit-fit-*")) == []


def test_reading_needs_no_command(tmp_path: Path) -> None:
    np.save(tmp_path / "outputs.npy", np.arange(12, dtype=np.float16))
    assert read_outputs(tmp_path, "losses", np.zeros(N), None).dtype == np.float32


def giant(path: Path, size: int = 20_000_000_000) -> None:
    with path.open("ab") as handle:
        handle.truncate(size)


def sparse_array(path: Path, shape: tuple[int, ...], dtype: str) -> None:
    np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)


@pytest.mark.parametrize(
    ("name", "left", "said"),
    [
        ("outputs.npy", os.mkfifo, "a device, pipe or folder"),
        ("outputs.npy", Path.mkdir, "a device, pipe or folder"),
        ("outputs.npy", lambda path: sparse_array(path, (6, 500_000_000), "<f4"), "at most 100,000 columns"),
        ("ids.txt", os.mkfifo, "a device, pipe or folder"),
        ("ids.txt", giant, "ids.txt: expected at most 1,.* bytes, received 20,000,000,000"),
        ("ids.npy", giant, "ids.npy: expected at most 1,.* bytes, received 20,000,000,000"),
        ("ids.npy", lambda path: sparse_array(path, (6,), "<U100000000"), "ids.npy: expected at most"),
    ],
)
def test_what_a_script_leaves_is_a_plain_file_of_its_size(tmp_path: Path, name: str, left: Any, said: str) -> None:
    np.save(tmp_path / "outputs.npy", np.zeros((6, 2)))
    if name == "outputs.npy":
        (tmp_path / name).unlink()
    left(tmp_path / name)
    with pytest.raises(InputError, match=said):
        read_outputs(tmp_path, "logits", np.arange(6) % 2, None)


def test_a_log_that_is_a_pipe_has_no_last_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.txt")
    assert last_words(tmp_path / "log.txt") == ""
