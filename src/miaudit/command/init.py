"""``miaudit init``: from a file to a draft of what audits it, or of what makes a synthetic table of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from miaudit.command import right_command
from miaudit.command.terminal import say
from miaudit.errors import InputError, OutputError, one_line

if TYPE_CHECKING:
    from miaudit.config.audit_draft import AuditDraft


def init(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="A table (.csv, .parquet, .npz); token log-probabilities (.jsonl, .parquet); scored "
            "probes (.jsonl); or two files (.npy, .npz), of members and of non-members.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File for the draft (.yaml), by default named as FILE; of a private table, a folder."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier draft.")] = False,
) -> None:
    """Look at the columns of a file, and draft the configuration that audits it.

    The draft says what was assumed and why, what stayed unclear, and what to
    run next. Names and the first rows are looked at, no value is written into it,
    and how membership came about is never guessed. A table without a column of
    membership is taken for a private one, of which a synthetic table is to be made:
    its draft is that of miaudit synthesise.
    """
    from miaudit.io import scored_probes, token_files

    for file in files:
        right_command.check(file, "init")
    first = files[0]
    if len(files) > 2:
        raise typer.BadParameter("give one FILE, or two, of members and of non-members")
    if len(files) == 2:
        _pair(files[0], files[1], out, overwrite=overwrite)
    elif first.suffix.lower() == ".npy":
        _single(first)
    elif scored_probes.holds(first):
        from miaudit.config import audit_draft

        target = _target(first, out, overwrite=overwrite)
        words = f"miaudit usage {shlex.quote(str(first))} says how many of the strings were used, at least"
        _finish(audit_draft.of_probes(first, target.parent), first, target, besides=(words,), overwrite=overwrite)
    elif token_files.holds(first):
        from miaudit.config import audit_draft

        target = _target(first, out, overwrite=overwrite)
        words = f"miaudit extraction {shlex.quote(str(first))} says what it repeats word for word"
        _finish(audit_draft.of_tokens(first, target.parent), first, target, besides=(words,), overwrite=overwrite)
    else:
        _table(first, out, overwrite=overwrite)


def _table(file: Path, out: Path | None, *, overwrite: bool) -> None:
    """Draft for a table: its audit, or where nobody can be told to be a member, a synthetic one."""
    from miaudit.config import audit_draft
    from miaudit.io import sides
    from miaudit.io.tables import existing_file

    existing_file(file, "file", right_command.DATA)
    draft = audit_draft.of_table(file, (out or file).absolute().parent)
    archive = file.suffix.lower() == ".npz"
    if archive and (draft is None or "member" in draft.fill_in) and sides.both(file):
        _pair(file, file, out, overwrite=overwrite)
    elif draft is not None:
        plan = (
            f"No scores yet? miaudit plan {shlex.quote(str(file))} says what they would show, and what covariates tell"
        )
        besides = (plan,) if "score" in draft.fill_in else ()
        _finish(draft, file, _target(file, out, overwrite=overwrite), besides=besides, overwrite=overwrite)
    elif archive:
        allowed = "an array of membership beside losses, scores or outputs, or one of members and one of non-members"
        hint = "name them so, such as member and loss, or train_loss and test_loss; data of a model: docs/your_model.md"
        raise InputError("file", allowed, f"{file.name}, where no name says so", hint)
    else:
        _synthesis(file, out, overwrite=overwrite)


def _synthesis(file: Path, out: Path | None, *, overwrite: bool) -> None:
    """Draft what miaudit synthesise reads."""
    from miaudit.command import synthesise

    if out is not None and out.suffix:
        hint = "name one, or add a column member to audit scores"
        raise InputError("--out", "a folder, for the two files of a private table's draft", str(out), hint)
    say(
        "No column says who was a member, so this is taken for a private table, of which a synthetic one is made.\n"
        "To audit scores of a model instead, add a column member: 1 for those it was trained on, 0 for others.\n"
        "To audit a model that is trained on this table: docs/releasing_a_model.md, and miaudit run.\n"
    )
    say(synthesise.draft(file, out, None, overwrite=overwrite, dry_run=False))


def _pair(first: Path, second: Path, out: Path | None, *, overwrite: bool) -> None:
    """Draft for two files, of members and of non-members."""
    from miaudit.config import audit_draft
    from miaudit.io import sides
    from miaudit.io.tables import existing_file

    for file in (first, second):
        existing_file(file, "file", right_command.DATA)
        if file.suffix.lower() not in (".npy", ".npz"):
            hint = "put both into one table with a column member: 1 for members, 0 for others"
            raise InputError("file", "two files of arrays (.npy, .npz)", file.name, hint)
    sides.check_classes(first, second)
    whose = [sides.side_of(file.stem) for file in (first, second)]
    turned = whose in (["nonmember", "member"], ["nonmember", ""], ["", "member"])
    members, nonmembers = (second, first) if turned else (first, second)
    sides_known = first == second or turned or whose in (["member", "nonmember"], ["member", ""], ["", "nonmember"])
    target = _target(first, out, overwrite=overwrite)
    draft = audit_draft.of_pair(members, nonmembers, target.parent, told=sides_known)
    _finish(draft, first, target, overwrite=overwrite)


def _single(file: Path) -> NoReturn:
    """Refuse one array: nobody can tell members from others in it."""
    from miaudit.io.tables import existing_file

    existing_file(file, "file", (".npy",))
    hint = f"give both files: miaudit init {shlex.quote(str(file))} OTHER.npy; or one .npz with member beside it"
    raise InputError("file", "members and non-members", f"{file.name}, one array", hint)


def _target(file: Path, out: Path | None, *, overwrite: bool) -> Path:
    """Where a draft goes; a place that is taken, or cannot be written, is refused."""
    from miaudit.io.tables import require_suffix
    from miaudit.report import kinds

    target = out or file.with_suffix(".yaml")
    require_suffix(target, "--out", (".yaml", ".yml"))
    kinds.check_place(target.absolute().parent, f"--out {target}", "choose another --out")
    if target.is_dir() or (target.exists() and not overwrite):
        hint = "name another, or add --overwrite"
        raise InputError("--out", "a new file", f"{target}, which exists", hint)
    return target


def _finish(made: AuditDraft, file: Path, target: Path, *, overwrite: bool, besides: tuple[str, ...] = ()) -> None:
    """Write a draft, for those who may read the data, and say what is in it."""
    from miaudit.io import atomic

    try:
        atomic.write_text(target, made.config, mode=file.stat().st_mode & 0o666 | 0o600, replace=overwrite)
    except OSError as error:
        raise OutputError(one_line(f"--out {target}: cannot be written ({error.strerror}); choose another")) from error
    lines = [f"Draft: {target}", "", "Assumed:", *(f"  {line}" for line in made.assumed)]
    if made.open:
        lines += ["", "Check:", *(f"  {line}" for line in made.open)]
    if not made.declares:
        lines += ["", "Not told by the file: how membership came about. Answer it in the draft, by its line design."]
    name = shlex.quote(str(target))
    step = (
        f"Fill in {', '.join(made.fill_in)}, then: miaudit run {name}" if made.fill_in else f"Then: miaudit run {name}"
    )
    say("\n".join([*lines, "", step, *besides]))
