"""A training script of one's own, called by a command line for each fit: rows and a seed go in, outputs come out."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import string
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, IndexArray, IntArray
from miaudit.errors import InputError, MiauditError, nearest, one_line
from miaudit.errors.options import check_choice
from miaudit.io import atomic, declared_kind, plain_files
from miaudit.jobs import program
from miaudit.jobs.resources import LIBRARIES, VARIABLE, dealt, visible
from miaudit.jobs.resumable import digest
from miaudit.models.fine_tuned import MODEL, FineTuned, checked_texts
from miaudit.models.outputs import check_label_columns, class_count, label_count
from miaudit.models.protocol import Kind, Traits
from miaudit.models.script_files import ScriptFiles, below, of_arguments
from miaudit.models.targets import Precomputed

__all__ = ["CommandOutputs", "CommandTarget"]

FileOutputs = Literal["losses", "logits", "probabilities"]
CommandOutputs = Literal["losses", "logits", "probabilities", "language-model"]
PLACEHOLDERS = ("rows", "seed", "out")
NEEDED = ("rows", "out")
ROWS_FILE, OUTPUTS_FILE, IDS_FILES = "rows.npy", "outputs.npy", ("ids.npy", "ids.txt")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MOST_COLUMNS = 100_000
_SEEDS = 2**31  # R and Java take no larger ones
_LAST_LINES, _LAST_CHARACTERS, _TAIL_BYTES = 3, 300, 1 << 14


@dataclass(frozen=True)
class CommandLine:
    """A command line with ``{rows}``, ``{seed}`` and ``{out}`` in it, as words; ``{{`` and ``}}`` stand for braces.

    Examples
    --------
    >>> CommandLine.of("python train.py --rows {rows} --out {out}").filled(rows="r.npy", seed=3, out="o")
    ['python', 'train.py', '--rows', 'r.npy', '--out', 'o']
    >>> CommandLine.of("python train.py --rows {rows}")
    Traceback (most recent call last):
    miaudit.errors.InputError: target.command: expected {rows} and {out} in it, received one without {out}; {rows} is
    the file of row numbers to train on, {out} the folder for outputs.npy
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> CommandLine:
        """Parse a command line as a shell would; nothing in it is run by one."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            received = f"{text!r:.80} ({str(error).lower().rstrip('.')})"
            raise InputError("target.command", "a command line with closed quotes", received, "close them") from error
        if any("\n" in word or "\r" in word for word in words):
            hint = "put them into a script"
            raise InputError("target.command", "words of one line", "a line break inside quotes", hint)
        known = {name for word in words for name in _placeholders(word)}
        without = [f"{{{name}}}" for name in NEEDED if name not in known]
        if without:
            hint = "{rows} is the file of row numbers to train on, {out} the folder for outputs.npy"
            raise InputError("target.command", "{rows} and {out} in it", f"one without {' and '.join(without)}", hint)
        if _placeholders(words[0]):
            raise InputError("target.command", "a program first", words[0], "write python train.py ...")
        return cls(tuple(words))

    def filled(self, *, rows: str, seed: int, out: str) -> list[str]:
        """Return the words with everything in its place.

        Raises
        ------
        InputError
            For a path that a shell would part or change, inside a text for a shell.
        """
        values = {"rows": rows, "seed": str(seed), "out": out}
        for word in self.words:
            for name in _placeholders(word):
                if any(ch.isspace() for ch in word) and shlex.quote(values[name]) != values[name]:
                    hint = """write bash -c 'python train.py "$1" "$2"' bash {rows} {out}"""
                    allowed = f"a plain path for {{{name}}} inside a text for a shell"
                    raise InputError("target.command", allowed, values[name], hint)
        return [word.format(**values) for word in self.words]


def _placeholders(word: str) -> list[str]:
    """Names of the placeholders in a word; refuses what is none."""
    hint = "write {{ and }} for braces of your own"
    allowed = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    try:
        parts = [part[1:] for part in string.Formatter().parse(word) if part[1] is not None]
    except ValueError:
        raise InputError("target.command", f"only {allowed} in braces", f"{word!r:.80}", hint) from None
    for name, form, conversion in parts:
        if name not in PLACEHOLDERS or form or conversion:
            received = f"{{{name}{'!' + conversion if conversion else ''}{':' + str(form) if form else ''}}}"
            near = nearest(str(name), PLACEHOLDERS)
            raise InputError("target.command", f"only {allowed} in braces", received[:80], near or hint)
    return [str(name) for name, _, _ in parts]


@dataclass(frozen=True, eq=False)
class CommandTarget(Traits):
    """A command that trains a model on some rows and leaves its outputs on all records. Runs that command.

    It reads its own data; records are row numbers here. What it writes outside its folder cannot be controlled.

    Parameters
    ----------
    command : template of the command line, with ``{rows}``, ``{out}`` and, if it wants one, ``{seed}``
        ``{rows}`` is a .npy file of row numbers (k,) of int64 in the order in which they are to be learned, ``{seed}``
        a whole number below 2^31, ``{out}`` an empty folder. No shell; ``bash -c`` is one.
    given : what it leaves in ``{out}/outputs.npy``, for all n records in their order
        "losses" (n,), lower for members, "logits" or "probabilities" (n, C), of classes or of each label by itself.
        "language-model" is a model in ``{out}/model``, which is asked here.
    folder : where it runs
    files : further files, or folders of them, whose change makes another training, below ``folder``
        Arguments of the command that are files there are among them already.
    timeout : seconds that a fit may take; None for no limit
    retries : how often a fit that failed is tried again, with the same seed
    threads : of the libraries for linear algebra, in the environment (OMP_NUM_THREADS and others)
    gpus : how many GPUs each fit is given, in the environment (CUDA_VISIBLE_DEVICES); None leaves it as it is
    env : further variables of the environment; their values are shown nowhere
    called : optional name
    ids : array (n,) of ids of the records, optional; what the script leaves in ids.npy or ids.txt must equal them
        Without them row numbers, from 0.
    labels : how many labels each record has, 0 for one class; :meth:`labelled` sets it
    asked : how language models are asked, for "language-model"; :meth:`on` sets the texts
    """

    runs_user_code = True
    by_row = True
    command: str
    given: CommandOutputs
    folder: Path
    files: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int = 0
    threads: int = 1
    gpus: int | None = None  # type: ignore[assignment, mutable-override, unused-ignore]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    called: str = ""
    ids: NDArray[Any] | None = None
    labels: int = 0
    asked: FineTuned | None = None
    scripts: ScriptFiles | None = None
    number: int | None = None
    logs: Path | None = None

    def __post_init__(self) -> None:
        check_choice("target.outputs", self.given, get_args(CommandOutputs))
        for name, least in (("retries", 0), ("threads", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                hint = f"{least} is the default"
                raise InputError(f"target.{name}", f"a whole number from {least}", repr(value), hint)
        if self.gpus is not None and (isinstance(self.gpus, bool) or not isinstance(self.gpus, int) or self.gpus < 0):
            raise InputError("target.gpus", "a whole number from 0", repr(self.gpus), "1 is one for each fit")
        for name, text in self.env.items():
            if not _VARIABLE.fullmatch(name) or "\0" in text:
                hint = "write NAME: value; the value is a text without NUL"
                raise InputError("target.env", "names of letters, digits and _", repr(name)[:60], hint)
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise InputError("target.timeout", "seconds above 0", str(self.timeout), "leave it out for no limit")
        line, folder = CommandLine.of(self.command), Path(self.folder).absolute()
        object.__setattr__(self, "folder", folder)
        if self.given == "language-model" and self.asked is None:
            object.__setattr__(self, "asked", FineTuned())
        if self.scripts is None:
            beside = [] if self.asked is None else [below(one, folder) for one in self.asked.folders]
            names = [*of_arguments(line.words, folder), *self.files, *beside]
            object.__setattr__(self, "scripts", ScriptFiles.of(folder, names))

    @property
    def line(self) -> CommandLine:
        """The command line, in words."""
        return CommandLine.of(self.command)

    @property
    def name(self) -> str:
        """The given name, or the command."""
        return self.called or one_line(self.command)

    @property
    def kind(self) -> Kind:
        """Losses are signals, turned to be higher for members, and so are scores of texts; all else is logits."""
        signals = self.given in ("losses", "language-model")
        return "signals" if signals else "multi-label" if self.labels else "logits"

    def labelled(self, y: Any) -> CommandTarget:
        """As of :meth:`Traits.labelled`."""
        return self if label_count(y) == self.labels else replace(self, labels=label_count(y))

    @property
    def columns(self) -> tuple[str, ...]:
        """Losses are called so, and scores of texts by their attacks."""
        return ("loss",) if self.given == "losses" else () if self.asked is None else self.asked.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """How language models were asked."""
        return () if self.asked is None else self.asked.notes

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of the script files, by name."""
        return {} if self.scripts is None else self.scripts.digests

    def identity(self) -> str:
        """The template, the kind of outputs, the environment that it sets, the script files and the ids."""
        ids = "" if self.ids is None else digest(np.asarray(self.ids).astype(np.str_))
        gpus = [] if self.gpus is None else [f"{self.gpus} GPUs"]
        files = sorted((Path(one).name if Path(one).is_absolute() else one, own) for one, own in self.digests.items())
        more = [*gpus] if self.asked is None else [*gpus, self.asked.identity()]
        return f"command {[self.line.words, self.given, self.threads, sorted(self.env.items()), files, ids, *more]}"

    def variables(self, *, dealt_here: bool = True) -> dict[str, str]:
        """What is set in the environment of a fit; its GPUs only where they are dealt here, and by no scheduler."""
        devices = self._devices() if dealt_here or not self.gpus else {}
        return {**dict.fromkeys(LIBRARIES, str(self.threads)), **devices, **self.env}

    def _devices(self) -> dict[str, str]:
        """The GPUs of this fit: the first of those that its worker was dealt, which are no more than it needs."""
        if self.gpus is None:
            return {}
        seen = visible()
        return {VARIABLE: dealt(seen, 1, self.gpus)[0] or ""}

    def at_work(self, number: int, folder: Path | None) -> CommandTarget:
        """As of :meth:`Traits.at_work`: the log goes to the folder ``logs`` of the store."""
        return replace(self, number=number, logs=None if folder is None else folder / "logs")

    def on(self, ids: NDArray[Any] | None, data: str, texts: NDArray[Any] | None = None) -> CommandTarget:
        """Return the target for data with these ids and texts (n,), whose file is one more that decides its fits.

        Raises
        ------
        InputError
            For a language model without texts to ask it about, or with an empty one.
        """
        fine_tuned = self.asked if self.asked is None else replace(self.asked, texts=checked_texts(texts))
        return replace(self, ids=ids, files=(*self.files, data), asked=fine_tuned, scripts=None)

    def row_numbers(self, x: Any, rows: IndexArray) -> IntArray:
        """Return the row numbers (k,) to train on, in order, of records x (n,) that are row numbers themselves.

        Raises
        ------
        InputError
            For records that are anything else.
        """
        numbers = np.asarray(x) if not isinstance(x, list) else np.empty(0)
        plain = numbers.ndim == 1 and numbers.dtype.kind in "iu"
        if not plain or not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
            hint = "leave data.x and data.text out here: the script reads its own data"
            raise InputError("x", "row numbers, for a command", "something else", hint)
        return numbers[rows].astype(np.int64)

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> Float32Array:
        """Run the command on some rows, in their order, and return its outputs (n, C) on all records.

        Raises
        ------
        MiauditError
            If it fails, in one line with its last words and the log's path.
        """
        numbers = self.row_numbers(x, rows)
        labels = y[np.argsort(x)]  # of the records in their own order
        if not program.found(self.line.words[0], self.folder) and self.line.words[0] != "python":
            hint = "write a path, or install it"
            raise InputError("target.command", "a program that is there", self.line.words[0], hint)
        with self._places(seed) as (scratch, log):
            for attempt in range(self.retries + 1):
                try:
                    return self._attempt(numbers, labels, seed, scratch, log, attempt)
                except MiauditError as error:
                    last = error
            times = f" (after {self.retries + 1} attempts)" if self.retries else ""
            raise MiauditError(f"{one_line(str(last)).rstrip('.')}{times}; log: {log}")

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        """Outputs of the records with these row numbers (k,)."""
        selected: Float32Array = np.asarray(fitted)[np.asarray(x)]
        return selected

    def _attempt(
        self, numbers: IntArray, y: NDArray[Any], seed: int, scratch: Path, log: Path, attempt: int
    ) -> Float32Array:
        out, rows = scratch / "out", scratch / ROWS_FILE
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        write_rows(rows, numbers)
        before = rows.read_bytes()
        self.require_unchanged()
        words = self.line.filled(rows=str(rows), seed=small(seed), out=str(out))
        with log.open("ab" if attempt else "wb") as handle:
            handle.write(f"$ {shlex.join(words)}\n".encode())
            handle.flush()
            more = {**_path_with_this_python(), **self.variables()}
            ended = program.run(words, folder=self.folder, scratch=scratch, log=handle, more=more, timeout=self.timeout)
        if ended.timed_out:
            raise MiauditError(f"the command took longer than target.timeout, {self.timeout:g} s, and was ended")
        if ended.code:
            raise MiauditError(f"the command ended with exit code {ended.code}{last_words(log)}")
        if not rows.is_file() or rows.read_bytes() != before:
            raise MiauditError("the command changed the file of its rows: read it, and write to {out} only")
        self.require_unchanged()
        return self.read(out, y)

    def left(self, out: Path) -> Path:
        """What a fit leaves in its folder: a file of outputs, or the folder of a model."""
        return out / (OUTPUTS_FILE if self.asked is None else MODEL)

    def read(self, out: Path, y: NDArray[Any], *, kept: Path | None = None) -> Float32Array:
        """Return outputs (n, C) on the n records with labels y, as a fit left them or as its model gives them.

        Parameters
        ----------
        kept : folder for what a model answered, which is then not asked again; default: none

        Raises
        ------
        InputError
            As of :func:`read_outputs` and :meth:`miaudit.models.fine_tuned.FineTuned.said`.
        """
        if self.given == "language-model":
            return (self.asked or FineTuned()).said(out, kept).scores
        return read_outputs(out, self.given, y, self.ids, ran=self.folder)

    def require_unchanged(self) -> None:
        """Refuse to go on where a script file is not what it was when the target was made."""
        name = "" if self.scripts is None else self.scripts.changed()
        if name:
            raise MiauditError(f"{name} changed since the campaign began: its models would be of two trainings")

    @contextmanager
    def _places(self, seed: int) -> Iterator[tuple[Path, Path]]:
        """A folder to work in, and the log: in the store, else in a folder that stays if the fit fails."""
        scratch = Path(tempfile.mkdtemp(prefix="miaudit-fit-"))
        name = f"fit-{seed}.log" if self.number is None else f"fit-{self.number:05d}.log"
        log = scratch / name
        try:
            if self.logs is not None:
                try:
                    self.logs.mkdir(exist_ok=True)
                    log = self.logs / name
                except OSError:  # on another machine, which does not see the store
                    log = scratch / name
            yield scratch, log
        except MiauditError:
            for part in (scratch / "out", scratch / ROWS_FILE):
                shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
            if log.parent != scratch:
                shutil.rmtree(scratch, ignore_errors=True)
            raise
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def small(seed: int) -> int:
    """The seed as a command gets it, below 2^31."""
    return seed % _SEEDS


def write_rows(path: Path, numbers: IntArray, *, durable: bool = True) -> None:
    """Write row numbers (k,) of int64, whole; ``durable`` as of :func:`miaudit.io.atomic.write_atomically`."""

    def write(target: Path) -> None:
        with target.open("wb") as handle:
            np.save(handle, np.asarray(numbers, dtype=np.int64), allow_pickle=False)

    atomic.write_atomically(path, write, durable=durable)


def read_outputs(
    out: Path, given: FileOutputs, y: NDArray[Any], ids: NDArray[Any] | None, *, ran: Path | None = None
) -> Float32Array:
    """Return what a command left in its folder: outputs (n, C) of float32 on the n records with labels y.

    Losses are turned, so that higher is more member-like. Where nothing was left, the folder where it ran is looked at.

    Raises
    ------
    InputError
        For no file, another number of rows, another shape or type, NaN, what is no probability, losses of which none
        is above 0, and other ids.
    """
    n, path = len(y), out / OUTPUTS_FILE
    shape = f"({n},)" if given == "losses" else f"({n}, classes)"
    allowed = f"{given} of shape {shape}, a row for each record of the data"
    try:
        values = np.load(plain_files.checked(path, OUTPUTS_FILE), mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        left = sorted(one.name for one in out.iterdir())[:5] if out.is_dir() else []
        received = f"no such file in {{out}}{', but ' + ', '.join(left) if left else ', which is empty'}"
        if ran is not None and (ran / OUTPUTS_FILE).is_file():
            received += f", though there is one in {ran}, where the command ran"
        raise InputError(OUTPUTS_FILE, allowed, received, "save it there with numpy.save") from None
    except (OSError, ValueError, EOFError) as error:
        received = f"a file that is no array of numbers ({one_line(str(error))[:80]})"
        raise InputError(OUTPUTS_FILE, allowed, received, "save it with numpy.save") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf" or values.shape[:1] != (n,):
        raise InputError.of_array(OUTPUTS_FILE, allowed, values, "give outputs of all records, learned or not")
    if values.ndim != (1 if given == "losses" else 2):
        raise InputError.of_array(OUTPUTS_FILE, allowed, values, "target.outputs says what they are")
    if values.ndim == 2 and values.shape[1] > _MOST_COLUMNS:  # of a sparse file they would fill the memory
        allowed = f"{given} with at most {_MOST_COLUMNS:,} columns"
        raise InputError(OUTPUTS_FILE, allowed, f"{values.shape[1]:,}", "write one for each label")
    _check_ids(out, ids if ids is not None else np.arange(n), own=ids is None)
    if given == "losses":
        declared_kind.refuse_turned_losses(values, OUTPUTS_FILE, allowed)
        values = -values.astype(np.float64)
    elif y.ndim == 2:
        check_label_columns(values.shape[1], y.shape[1], OUTPUTS_FILE)
    elif values.shape[1] < max(2, class_count(y)):
        allowed = f"{given} with a column for each of {max(2, class_count(y))} classes"
        raise InputError(OUTPUTS_FILE, allowed, f"{values.shape[1]}", "write one for each label 0, 1, ...")
    kind = "signals" if given == "losses" else given
    try:
        outputs = np.asarray(Precomputed(values, kind, OUTPUTS_FILE, labels=label_count(y)).values)
    except InputError as error:
        raise InputError(OUTPUTS_FILE, error.allowed, error.received, "mend the script") from error
    return outputs.copy() if np.may_share_memory(outputs, values) else outputs  # the file may go


def _check_ids(out: Path, ids: NDArray[Any], *, own: bool) -> None:
    """Refuse outputs in another order than the data, where the command says which record each row is."""
    path = next((out / name for name in IDS_FILES if (out / name).exists()), None)
    if path is None:
        return
    known = [str(one) for one in ids.tolist()]
    # in an array of texts each takes four times the longest
    largest = 1000 + 20 * len(known) + 4 * max(map(len, known), default=0) * len(known)
    plain_files.checked(path, path.name, largest)
    try:
        if path.suffix == ".npy":
            entries: Sequence[Any] = np.load(path, allow_pickle=False).ravel().tolist()
        else:
            entries = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, EOFError) as error:
        received = f"a file that cannot be read ({one_line(str(error))[:80]})"
        raise InputError(path.name, "one id for each record", received, "save texts or whole numbers") from error
    file_ids = [str(one).strip() for one in entries]
    what = "row numbers from 0, as data.ids names no column," if own else "the ids of the data"
    allowed = f"{what} in their order"
    if len(file_ids) != len(known):
        raise InputError(path.name, allowed, f"{len(file_ids)} of {len(known)}", "give outputs of all records")
    other = next((i for i, (a, b) in enumerate(zip(known, file_ids, strict=True)) if a != b), None)
    if other is not None:
        received = f"{file_ids[other]!r:.40} where the data have {known[other]!r:.40}, in row {other}"
        raise InputError(path.name, allowed, received, "write outputs in the order of the data")


def last_words(log: Path) -> str:
    """Return the last lines of a log, in one, after a colon; nothing where there are none."""
    try:
        with plain_files.checked(log, "log").open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = handle.read().decode("utf-8", errors="replace")
    except (OSError, InputError):
        return ""
    lines = [one_line(line) for line in text.splitlines() if line.strip() and not line.startswith("$ ")]
    message = " | ".join(lines[-_LAST_LINES:])
    return f": {message[-_LAST_CHARACTERS:]}" if message else ""


def _path_with_this_python() -> dict[str, str]:
    """The path of commands, with this Python's folder at its end: ``python`` is then there in every environment."""
    return {"PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])}
