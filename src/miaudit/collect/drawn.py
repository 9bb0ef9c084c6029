"""The fits of a campaign as files: drawn into folders for any scheduler, and gathered into evidence when they are done.

A folder of fits holds ``fits/NUMBER-DIGEST/`` with ``rows.npy`` and the folder ``out`` for each, ``commands.txt`` with
one line for each, an example for SLURM, and ``manifest.json``: what was drawn, with the digests of all that decides it.
The manifest is what a folder of ours is recognised by. While a draw is being written it says so. What the
configuration sets in the environment may be secret. It is in ``environment.sh`` only, which no other user can read;
each line reads it before it starts the script.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, IndexArray, IntArray
from miaudit.collect import run_campaign, training
from miaudit.collect.campaign import Campaign
from miaudit.collect.draws import Draws
from miaudit.collect.outputs import Collected
from miaudit.errors import InputError, MiauditError, OutputError, one_line
from miaudit.io import atomic, plain_files, storage
from miaudit.jobs import executor as execution
from miaudit.models.command import ROWS_FILE, CommandTarget, last_words, small, write_rows
from miaudit.models.equal_outputs import EqualOutputs
from miaudit.models.fits import Fits
from miaudit.models.protocol import Kind, Traits
from miaudit.models.script_files import file_digest

__all__ = ["Drawn", "draw", "gather", "read"]

MANIFEST, COMMANDS, SLURM, FITS, ENVIRONMENT = "manifest.json", "commands.txt", "slurm.sh", "fits", "environment.sh"
LOG, FAILED = "log.txt", "failed.txt"
_FORMAT = "miaudit draw 1"
_OWN = {MANIFEST, COMMANDS, SLURM, FITS, ENVIRONMENT}
_SCRATCH = ".gather-"
_PARTS = "|".join((MANIFEST, COMMANDS, SLURM, ENVIRONMENT, ROWS_FILE))
_LEFT = rf"\.({_PARTS})\.{atomic.RANDOM}\.part"  # by a process that was killed
_FOLDER = re.compile("([a-z_]+-)?[0-9]{5,}-[0-9a-f]{8}")  # of a fit
_NAMED = 10  # fits spelt out in a message
_LARGEST_MANIFEST = 1_000_000_000
_HOURS = 24
_FOR = {"stability": "the stability of training", "without_canaries": "what canaries cost"}
_TASKS = 1000  # of an array job: clusters allow 1,001 unless they say otherwise


@dataclass(frozen=True, eq=False)
class Fit:
    """One fit: its group and its number in it, its seed, the rows (k,) that it learns in order, and its folder."""

    group: str
    number: int
    seed: int
    rows: IntArray
    folder: str

    @property
    def what(self) -> str:
        """What the model is for, in words."""
        if self.group:
            return f"model {self.number} for {_FOR[self.group]}"
        return f"model {self.number}"

    @property
    def digest(self) -> str:
        """SHA-256 of the row numbers, as int64."""
        return _key(self.seed, self.rows)[1]


@dataclass(frozen=True, eq=False)
class Drawn:
    """All fits of a campaign, and what decides them, by name."""

    campaign: Campaign
    target: CommandTarget
    draws: Draws
    fits: tuple[Fit, ...]
    decides: Mapping[str, str]

    @classmethod
    def of(cls, campaign: Campaign, rng: np.random.Generator) -> Drawn:
        """Draw all memberships and seeds, exactly as :func:`miaudit.collect.run_campaign.collect` would.

        Raises
        ------
        InputError
            For a target that is no command, and for whatever stands against the campaign.
        """
        target = campaign.target
        if not isinstance(target, CommandTarget):
            hint = "miaudit collect asks or trains it here"
            raise InputError("target.kind", "command, whose fits any scheduler can run", target.name, hint)
        draws = Draws.of(campaign, rng)
        groups = {"": training.training_of_all(campaign, draws)}  # a script gives outputs of all records
        if draws.replaced is not None:
            groups["stability"] = training.training_again(campaign, draws, draws.replaced)
        if len(draws.apart):
            groups["without_canaries"] = training.training_apart(campaign, draws)
        fits, decides = list[Fit](), dict[str, str]()
        for group, arguments in groups.items():
            planned = Fits(**{k: v for k, v in arguments.items() if k not in ("store", "executor", "workers")})
            decides |= {f"{group} {name}".strip(): digest for name, digest in planned.decides().items()}
            fits += _fits_of(group, planned, target)
        return cls(campaign, target, draws, tuple(fits), decides)


def _fits_of(group: str, planned: Fits, target: CommandTarget) -> Iterator[Fit]:
    identity = target.identity()
    for number, seed in enumerate(planned.seeds()):
        x, _, rows = planned.learned(number)
        fit = Fit(group, number, small(seed), target.row_numbers(x, rows), "")
        key = hashlib.sha256(f"{identity} {fit.seed} {fit.digest}".encode()).hexdigest()
        yield replace(fit, folder=f"{group}{'-' * bool(group)}{number:05d}-{key[:8]}")


# -- draw ------------------------------------------------------------------------------------------------------------


def draw(
    campaign: Campaign, out: Path, *, config: Path, rng: np.random.Generator, overwrite: bool = False
) -> tuple[int, int]:
    """Write a folder for each fit of a campaign, and the lines that run them; nothing is trained.

    Parameters
    ----------
    out : the folder of all fits
    config : the campaign's file, whose folder is where the lines run
    overwrite : whether an earlier draw gives way; fits that are the same keep their outputs, others are removed

    Returns
    -------
    how many fits there are, and how many of them have outputs already

    Raises
    ------
    InputError
        For a folder with anything in it, and for a target that is no command.
    """
    batch, place = Drawn.of(campaign, rng), out.absolute()
    wanted = {fit.folder for fit in batch.fits}
    _check_place(place, wanted, overwrite=overwrite)
    lines = [_line(batch.target, fit, place) for fit in batch.fits]
    with atomic.locked_folder(place):
        _check_place(place, wanted, overwrite=overwrite)
        try:
            _write(batch, place, wanted, lines, config)
        except OSError as error:
            why = f"cannot be written ({error.strerror or error})"
            raise OutputError(one_line(f"--out {place}: {why}; make room, and run the same command again")) from error
    return len(batch.fits), sum(_left(batch, fit, place).exists() for fit in batch.fits)


def _write(batch: Drawn, place: Path, wanted: Collection[str], lines: Sequence[str], config: Path) -> None:
    atomic.sweep(place, _LEFT, lambda left: left.unlink(missing_ok=True))
    atomic.write_text(place / MANIFEST, json.dumps({"format": _FORMAT, "unfinished": True}) + "\n")
    (place / FITS).mkdir(exist_ok=True)
    for fit in batch.fits:
        (place / FITS / fit.folder / "out").mkdir(parents=True, exist_ok=True)
        atomic.sweep(place / FITS / fit.folder, _LEFT, lambda left: left.unlink(missing_ok=True))
        write_rows(place / FITS / fit.folder / ROWS_FILE, fit.rows, durable=False)
    atomic.sync_many(place / FITS / fit.folder / ROWS_FILE for fit in batch.fits)  # before the manifest says: whole
    for old in _fits_in(place):
        if old.name not in wanted:
            shutil.rmtree(old)
    (place / ENVIRONMENT).unlink(missing_ok=True)
    if batch.target.env:
        atomic.write_text(place / ENVIRONMENT, _environment(batch.target.env), mode=0o600)
    atomic.write_text(place / COMMANDS, "".join(f"{line}\n" for line in lines))
    atomic.write_text(place / SLURM, _slurm(batch, place))
    atomic.write_text(place / MANIFEST, json.dumps(_manifest(batch, place, config), indent=1) + "\n")


def _fits_in(place: Path) -> list[Path]:
    """Return the folders of fits that a draw wrote; links, files and folders of other names are somebody else's."""
    if not (place / FITS).is_dir():
        return []
    return [path for path in (place / FITS).iterdir() if _FOLDER.fullmatch(path.name) and not _is_other(path)]


def _is_other(path: Path) -> bool:
    """Whether a path is there and no folder of its own, such as a link to one."""
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir())


def _check_place(place: Path, wanted: Collection[str], *, overwrite: bool) -> None:
    """Refuse a folder that is neither new nor that of a draw, and links in the place of the folders of one."""
    if place.exists() and not place.is_dir():
        raise InputError("--out", "a folder", f"{place}, which is a file", "name another")
    names = {path.name for path in place.iterdir() if path.name[0] != "."} if place.is_dir() else set()
    if not names:
        return
    if names - _OWN:
        received = f"{place}, which holds {min(names - _OWN)}"
        raise InputError("--out", "a new folder, or that of an earlier draw", received, "name another")
    content = _content(place)
    if content is None:
        received = f"{place}, which holds {min(names)} and no {MANIFEST} of a draw"
        raise InputError("--out", "a new folder, or that of an earlier draw", received, "name another")
    for path in (place / FITS, *(place / FITS / name for name in wanted)):
        if _is_other(path):
            received = f"{path}, which is {'a link' if path.is_symlink() else 'a file'}"
            raise InputError("--out", "folders of its own, since links are not followed", received, "name another")
    if overwrite or (content.get("unfinished") is True and not _loses(place, wanted)):
        return
    hint = "name another, or add --overwrite: fits that stay the same keep their outputs"
    raise InputError("--out", "a new folder", f"{place}, which exists", hint)


def _loses(place: Path, wanted: Collection[str]) -> bool:
    """Whether a fit would be removed that has begun."""
    others = [path for path in _fits_in(place) if path.name not in wanted]
    return any((path / LOG).exists() or next((path / "out").glob("*"), None) is not None for path in others)


def _content(place: Path) -> dict[str, Any] | None:
    """Return what the manifest of a draw says, whole or not; None where there is none of a draw."""
    try:
        content = json.loads(plain_files.read_text(place / MANIFEST, MANIFEST, _LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError, InputError):
        return None
    return content if isinstance(content, dict) and content.get("format") == _FORMAT else None


def _left(batch: Drawn, fit: Fit, place: Path) -> Path:
    return batch.target.left(place / FITS / fit.folder / "out")


def _line(target: CommandTarget, fit: Fit, place: Path) -> str:
    """One line for a shell: in the configuration's folder, with the environment of a fit, its words kept in a log."""
    folder = place / FITS / fit.folder
    words = target.line.filled(rows=str(folder / ROWS_FILE), seed=fit.seed, out=str(folder / "out"))
    own = target.env  # never in the line: a file of commands, and the list of processes, can be read by all
    variables = [f"{k}={v}" for k, v in target.variables(dealt_here=False).items() if k not in own]
    if "\n" in (line := f"{target.folder}{place}{''.join(variables)}") or "\r" in line:
        raise InputError("--out", "a path of one line", "a line break in it", "rename it")
    failed, log = shlex.quote(str(folder / FAILED)), shlex.quote(str(folder / LOG))
    secret = shlex.quote(str(place / ENVIRONMENT))
    sourced = f"test -r {secret} && . {secret} && " if own else ""
    call = f"rm -f {failed}; {{ {sourced}env {shlex.join([*variables, *words])}; }} > {log} 2>&1"
    return f"cd {shlex.quote(str(target.folder))} && ({call} || {{ code=$?; echo $code > {failed}; exit $code; }})"


def _environment(variables: Mapping[str, str]) -> str:
    """Return lines for a shell that set variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _slurm(batch: Drawn, place: Path) -> str:
    """An example of an array job, with what the configuration asks for each fit; GPUs are dealt by the scheduler."""
    target, fits, lines = batch.target, len(batch.fits), shlex.quote(str(place / COMMANDS))
    each = execution.chosen(batch.campaign.shadows.executor, batch.campaign.shadows.workers).each
    tasks, own = min(fits, _TASKS), -(-fits // _TASKS)
    seconds = own * (target.timeout or each.timeout or _HOURS * 3600)
    gpus = math.ceil(each.gpus or 0) if target.gpus is None else target.gpus  # a share is no request of SLURM's
    directives = {
        "job-name": "miaudit",
        "array": f"0-{tasks - 1}",
        "cpus-per-task": math.ceil(max(target.threads, each.cpus or 1)),
        **({"gres": f"gpu:{gpus}"} if gpus else {}),
        **({"mem": f"{math.ceil(each.memory * 1000)}M"} if each.memory else {}),
        "time": max(1, -(-int(seconds + 0.5) // 60)),
        "output": "/dev/null",
    }
    options = "".join(f"#SBATCH --{name}={value}\n" for name, value in directives.items())
    if own == 1:
        work, runs = (
            f"""\
line=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {lines})
exec bash -c "$line"
""",
            f"one line of {COMMANDS}",
        )
    else:
        work, runs = (
            f"""\
code=0
for ((i = SLURM_ARRAY_TASK_ID; i < {fits}; i += {tasks})); do
  bash -c "$(sed -n "$((i + 1))p" {lines})" || code=$?
done
exit $code
""",
            f"every {tasks:,}th line of {COMMANDS}",
        )
    return f"""\
#!/bin/bash
# An example: sbatch {shlex.quote(str(place / SLURM))}
# Each task runs {runs}; most clusters want an account or a partition, too.
{options}set -eu
{work}"""


def _manifest(batch: Drawn, place: Path, config: Path) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "config": Path(os.path.relpath(config.absolute(), place)).as_posix(),
        "config_sha256": file_digest(config),
        "command": batch.target.command,
        "outputs": batch.target.given,
        "records": batch.campaign.records.n,
        "files": dict(sorted(batch.target.digests.items())),
        "decides": dict(batch.decides),
        "fits": [
            {
                "group": fit.group or "models",
                "number": fit.number,
                "seed": fit.seed,
                "rows": len(fit.rows),
                "rows_sha256": fit.digest,
                "folder": f"{FITS}/{fit.folder}",
            }
            for fit in batch.fits
        ],
    }


# -- gather ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manifest:
    """What a folder of fits says of itself: where its configuration is, and what decides its fits."""

    place: Path
    config: Path
    config_sha256: str
    files: Mapping[str, str]
    decides: Mapping[str, str]
    folders: tuple[str, ...]


def read(place: Path) -> Manifest:
    """Read the manifest of a folder of fits.

    Raises
    ------
    InputError
        If there is none, or it is damaged.
    """
    path = place / MANIFEST
    try:
        content = json.loads(plain_files.read_text(path, MANIFEST, _LARGEST_MANIFEST))
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r:.40}")
        if content.get("unfinished") is True:
            hint = "run miaudit draw again, with --overwrite if it asks for it: outputs that are there are kept"
            raise InputError("folder", "a whole draw", f"{place}, whose draw was stopped half-way", hint)
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        decides = {str(name): str(digest) for name, digest in content["decides"].items()}
        folders = tuple(str(fit["folder"]) for fit in content["fits"])
        config = Path(os.path.normpath(place.absolute() / str(content["config"])))
        return Manifest(place.absolute(), config, str(content["config_sha256"]), files, decides, folders)
    except (FileNotFoundError, NotADirectoryError):
        hint = "miaudit draw CONFIG --out FOLDER makes one"
        raise InputError("folder", f"a folder of fits, with {MANIFEST}", str(place), hint) from None
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        received = f"{path}, which is none ({one_line(f'{type(error).__name__}: {error}')[:80]})"
        raise InputError("folder", f"a whole {MANIFEST} of a draw", received, "draw again into a new folder") from error


def config_changed(manifest: Manifest, config: Path) -> bool:
    """Whether the configuration file is another one, by its digest, than when the fits were drawn."""
    return file_digest(config) != manifest.config_sha256


def gather(
    campaign: Campaign,
    manifest: Manifest,
    *,
    rng: np.random.Generator,
    partial: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Collected:
    """Read the outputs of all fits, and make the evidence that local processes would have made, to the byte.

    Parameters
    ----------
    campaign : that of the draw's configuration
    rng : generator as it was when the fits were drawn
    partial : whether shadow models may be missing; they are left out, and a note says so
    progress : called with (read, all) fits

    Raises
    ------
    InputError
        For another draw: other records, memberships, seeds, command or script files.
    MiauditError
        For fits that are missing, stale or unusable; it names them.
    """
    batch = Drawn.of(campaign, copy.deepcopy(rng))  # a generator that spawned before would spawn others
    require_same(batch, manifest)
    shape, problems, seen = (0, 0), dict[int, str](), EqualOutputs()
    for i, fit in enumerate(batch.fits):
        try:
            read_now = _read(batch, fit, manifest.place)  # which is let go of: one fit's outputs are held at a time
            shape = read_now.shape
            if not fit.group:
                learned = np.isin(np.arange(batch.campaign.records.n), fit.rows)
                seen.add(f"{fit.what} ({FITS}/{fit.folder})", read_now, learned)
        except MiauditError as error:
            problems[i] = str(error)
        if progress is not None:
            progress(i + 1, len(batch.fits))
    seen.require_none("folder")
    note = _what_is_missing(batch, problems, manifest.place) if problems else ""
    if problems:
        _require_partial(batch, problems, note, partial=partial)
    left_out = tuple(batch.fits[i].number for i in problems)
    with _scratch(manifest.place) as store:
        shadows = replace(
            campaign.shadows, store=storage.Disk(store, durable=False), executor="local", workers=1, without=left_out
        )
        whole = replace(campaign, target=_Gathered(batch, manifest.place, frozenset(problems), shape), shadows=shadows)
        if left_out:
            whole.check_attacks(batch.draws.base.design)
        collected = run_campaign.collect(whole, rng=rng)
    if not note:
        return collected
    return replace(collected, notes=(f"A partial gather: {note}", *collected.notes))


@contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    """A folder for outputs in one form, on the disk of the fits, or where temporary files go if that is read-only."""
    folder = place if os.access(place, os.W_OK) else None
    if folder is not None:
        atomic.sweep(folder, rf"\{_SCRATCH}{atomic.RANDOM}", lambda left: shutil.rmtree(left, ignore_errors=True))
    with atomic.scratch(_SCRATCH, folder) as store:
        yield store


def require_same(batch: Drawn, manifest: Manifest) -> None:
    """Refuse a folder whose fits are not those of the campaign as it is now.

    Raises
    ------
    InputError
        If a file, or what decides the fits, is another one.
    """
    now = batch.target.digests
    other = next((name for name in sorted({*now, *manifest.files}) if now.get(name) != manifest.files.get(name)), None)
    if other is not None:
        hint = "put it back as it was, or draw and train again"
        raise InputError("folder", "fits of the files as they are", f"stale ones: {other} changed since the draw", hint)
    differ = [name for name in {**manifest.decides, **batch.decides} if not _alike(name, manifest, batch)]
    folders = tuple(f"{FITS}/{fit.folder}" for fit in batch.fits)
    if differ or folders != manifest.folders:
        received = f"those of another draw, with another {' and '.join(differ) or 'list of fits'}"
        hint = "draw again with this configuration, or put it back as it was"
        raise InputError("folder", f"the fits of {manifest.config.name}", received, hint)


def _alike(name: str, manifest: Manifest, batch: Drawn) -> bool:
    return manifest.decides.get(name) == batch.decides.get(name)


def finished(batch: Drawn, fit: Fit, place: Path) -> Path:
    """Return the folder ``out`` of a fit that is done.

    Raises
    ------
    MiauditError
        For one that failed, is missing or stale.
    """
    folder = place / FITS / fit.folder
    if (folder / FAILED).exists():
        code = one_line(
            plain_files.checked(folder / FAILED, FAILED, 1000).read_text(encoding="utf-8", errors="replace")
        )[:20]
        raise MiauditError(f"failed: its command ended with exit code {code}{last_words(folder / LOG)}")
    if not _left(batch, fit, place).exists():
        raise MiauditError(f"is missing{_begun(batch, folder)}")
    try:
        file = plain_files.checked(folder / ROWS_FILE, ROWS_FILE, 8 * len(fit.rows) + 1000)
        rows = np.load(file, allow_pickle=False)
        same = rows.dtype == np.int64 and np.array_equal(rows, fit.rows)
    except (OSError, ValueError, EOFError, InputError):
        same = False
    if not same:
        raise MiauditError(f"is stale: its {ROWS_FILE} is not the one that was drawn")
    return folder / "out"


def _read(batch: Drawn, fit: Fit, place: Path) -> Float32Array:
    out = finished(batch, fit, place)
    try:
        return batch.target.read(out, batch.draws.y, kept=out.parent)
    except InputError as error:
        raise MiauditError(f"is unusable: {error}") from error


def _begun(batch: Drawn, folder: Path) -> str:
    """What is known of a fit that did not fail and has no outputs: that it runs still, or left them elsewhere."""
    if not (folder / LOG).is_file():
        return ""
    astray = batch.target.left(batch.target.folder)
    where = f", though there is one in {astray.parent}, where it ran" if astray.exists() else ""
    return f": it began, and there is no {astray.name} in its folder out{where}{last_words(folder / LOG)}"


def _what_is_missing(batch: Drawn, problems: Mapping[int, str], place: Path) -> str:
    """Say which fits cannot be used and why, each kind of reason once."""
    parts = []
    for kind in ("is missing", "failed", "is stale", "is unusable"):
        those = [i for i, problem in problems.items() if problem.startswith(kind)]
        if not those:
            continue
        named = ", ".join(batch.fits[i].what for i in those[:_NAMED])
        more = f" and {len(those) - _NAMED} more" if len(those) > _NAMED else ""
        first = problems[those[0]].removeprefix(kind).lstrip(": ")
        why = f" (the first: {one_line(first)}; log: {place / FITS / batch.fits[those[0]].folder / LOG})" * bool(first)
        are = kind if len(those) == 1 else kind.replace("is ", "are ", 1)
        parts.append(f"{len(those)} of {len(batch.fits)} fits {are}: {named}{more}{why}")
    return "; ".join(parts)


def _require_partial(batch: Drawn, problems: Mapping[int, str], note: str, *, partial: bool) -> None:
    """Refuse what is not whole, but for missing shadow models where they may be missing."""
    lines = ", ".join(str(i + 1) for i in list(problems)[:_NAMED])
    again = f"run line{'s' * (len(problems) > 1)} {lines} of {COMMANDS} again"
    if not partial:
        raise MiauditError(f"{note}; {again}, or add --partial to leave shadow models out")
    needed = [batch.fits[i].what for i in problems if batch.fits[i].group or batch.fits[i].number == 0]
    if batch.draws.base.design == "multi-run":
        needed = [batch.fits[i].what for i in problems]
    if needed:
        whose = "the audited one" if needed[0] == "model 0" else "which no other can stand for"
        raise MiauditError(f"{note}; --partial leaves out shadow models only, not {needed[0]}, {whose}: {again}")


def _key(seed: int, rows: NDArray[Any]) -> tuple[int, str]:
    """What tells one fit from another: its seed, and the digest of its rows."""
    return seed, hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Gathered(Traits):
    """The target of a draw, whose fits have been made: their outputs by seed and rows, read when they are asked for."""

    runs_user_code = False
    by_row = True
    batch: Drawn
    place: Path
    without: frozenset[int]
    shape: tuple[int, ...]
    numbers: Mapping[tuple[int, str], int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = {_key(fit.seed, fit.rows): i for i, fit in enumerate(self.batch.fits)}
        object.__setattr__(self, "numbers", numbers)

    @property
    def command(self) -> CommandTarget:
        return self.batch.target

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def kind(self) -> Kind:
        return self.command.kind

    @property
    def columns(self) -> tuple[str, ...]:
        return self.command.columns

    @property
    def notes(self) -> tuple[str, ...]:
        return self.command.notes

    def identity(self) -> str:
        return self.command.identity()

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> Float32Array:  # noqa: ARG002 - was done
        i = self.numbers[_key(small(seed), self.command.row_numbers(x, rows))]
        if i in self.without:
            return np.zeros(self.shape, dtype=np.float32)
        return _read(self.batch, self.batch.fits[i], self.place)

    def outputs(self, fitted: Any, x: Any) -> Float32Array:
        return self.command.outputs(fitted, x)
