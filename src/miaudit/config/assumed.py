"""Which columns an audit reads where none is named: assumed where one fits, else the message asks for a name."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from miaudit.errors import InputError, one_line
from miaudit.io import roles, sides
from miaudit.io.roles import Kind, Roles, Signal

__all__ = [
    "ANSWERS",
    "QUESTION",
    "WIDE",
    "Assumed",
    "assume",
    "assume_file",
    "assume_pair",
    "assume_sides",
    "check_tables",
    "covariates",
]

# How membership came about, which no file shows: each answer with the design that it means.
QUESTION = "Were members drawn at random?"
ANSWERS = (
    ("yes, by coins, for one training", "one-run"),
    ("yes, one record for each of many trainings", "multi-run"),
    ("no; then covariates are needed, what was known of each record before", "zero-run"),
)
_SHOWN = 6
WIDE, NARROW = ("logits", "probabilities"), ("score", "loss")  # signals of several numbers a record, and of one
_NO_WORD = "no word of its name says what it is"
Choices = tuple[str, ...]
Signals = tuple[Signal, ...]
_ROLES = {
    "member": "membership, by a name such as member, is_member, in_train or split",
    "score": "scores, losses, logits or probabilities",
    "labels": "labels, beside logits or probabilities",
    "unit": "units, to whom records belong",
}


@dataclass(frozen=True)
class Assumed:
    """What was assumed of a file: options with the reason for each, and what is left open.

    Attributes
    ----------
    options : by name, as of ``miaudit audit``: member, score, signal, labels, unit
    why : the reason for each
    others : candidates that were passed over, by option, each as the options that choose it
    unclear : why the signal could not be told, if so
    columns : those of the signal, one or one for each class
    missing : options that have to be given and that no column could be, each with what could be meant
    """

    options: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    others: dict[str, Choices] = field(default_factory=dict)
    missing: dict[str, Choices] = field(default_factory=dict)
    unclear: Choices = ()
    columns: Choices = ()

    @property
    def words(self) -> Choices:
        """What was assumed, as words of a command line."""
        pairs = [(_flag(name), value) for name, value in self.options.items()]
        return tuple(w for name, value in pairs for w in ([f"{name}={value}"] if value[:1] == "-" else [name, value]))

    @property
    def typed(self) -> str:
        """What was assumed, as options."""
        return one_line(shlex.join(self.words))

    @property
    def sentence(self) -> str:
        """What was assumed, for a terminal."""
        return f"assumed: {self.typed}; give {'them' if len(self.options) > 1 else 'it'} to change that"

    @property
    def note(self) -> str:
        """What was assumed, for the page."""
        return f"Assumed from names and first rows, as it was not given: {self.typed}."

    def check(self, file: Path, found: Roles | None = None) -> None:
        """Refuse what is missing or could be several, with the options that would say it.

        Raises
        ------
        InputError
            For the first of them.
        """
        look = f"or miaudit init {shlex.quote(str(file))}"
        for name, candidates in self.missing.items():
            columns = f"none among the {found.columns:,} columns" if found is not None else "none"
            doubts = [one for one in (() if found is None else found.doubts) if name == "member" and "member" in one]
            could = f"; it could be {' or '.join(candidates[:_SHOWN])}" if candidates else ""
            received = "; ".join([columns + could, *doubts[:2]])
            raise InputError(name, f"a column of {_ROLES[name]}", received, f"name it: {_flag(name)} NAME, {look}")
        for name, candidates in self.others.items():
            every = (f"{_flag(name)} {shlex.quote(self.options[name])}{self._of_signal(name)}", *candidates)
            received = f"{len(every):,} that could be it"
            raise InputError(name, f"one column of {_ROLES[name]}", received, f"choose {_either(every)}, {look}")
        comma = next((name for name in self.columns if "," in name), None)
        if comma is not None:
            hint = f"rename it, {look}"
            raise InputError("score", "a name without a comma, on the command line", repr(comma), hint)
        if self.unclear:
            of = f"--score {shlex.quote(self.options['score'])} " if "score" in self.options else ""
            received = f"{self.options.get('score', file.name)}: {self.unclear[0]}"
            hint = _either([f"{of}--signal {kind}" for kind in (NARROW if self.options["signal"] in NARROW else WIDE)])
            raise InputError("signal", "columns that say what they are", received, f"choose {hint}, {look}")

    def _of_signal(self, name: str) -> str:
        return f" --signal {self.options['signal']}" if name == "score" and "signal" in self.options else ""


def assume(path: str | Path, given: Mapping[str, str]) -> tuple[Assumed, Roles]:
    r"""Say which columns of a table an audit reads; nothing is chosen by what an audit would find.

    Parameters
    ----------
    path : .csv, .parquet or .npz
    given : options that were given, which stay: member, score, signal, labels, unit

    Returns
    -------
    what is assumed beside them, and what each column could be. Where several fit, the first one is assumed, and the
    others are named: :meth:`Assumed.check` refuses that.

    Raises
    ------
    InputError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "scores.csv"
    ...     _ = file.write_text("trained,loss,age\n1,0.2,31\n0,1.4,45\n1,0.3,52\n")
    ...     assume(file, {})[0].sentence
    'assumed: --member trained --score loss --signal loss; give them to change that'
    """
    candidates = roles.find(path)
    options, why, others, missing = dict[str, str](), dict[str, str](), dict[str, Choices](), dict[str, Choices]()

    def settle(name: str, fitting: Iterable[tuple[str, str]], beside: Choices, could_be: Choices) -> None:
        if (first := next(iter(fitting), None)) is None:
            missing[name] = could_be
            return
        options[name], why[name] = first
        if beside:
            others[name] = beside[:_SHOWN]

    def settle_column(name: str, columns: Mapping[str, str], could_be: Choices = ()) -> None:
        settle(name, columns.items(), _flags(name, list(columns)[1:]), could_be)

    if "member" not in given:
        settle_column("member", candidates.members, () if candidates.refused else candidates.binary)
    unclear: Choices = ()
    columns: Choices = ()
    if "score" not in given:
        rows = candidates.lengths.get(given.get("member", options.get("member", "")))
        fitting, numbers = _fitting(candidates, given.get("signal"), rows)
        chosen = fitting or (numbers if len(numbers) == 1 else ())
        settle("score", ((one.name, one.why) for one in chosen), _signals(chosen[1:]), tuple(n.name for n in numbers))
        if chosen:
            columns = chosen[0].columns
            kind = given.get("signal") or chosen[0].kind or ("score" if len(chosen[0].columns) == 1 else "logits")
            unclear = () if chosen[0].kind or "signal" in given else (chosen[0].why,)
            if "signal" not in given:
                options["signal"] = kind
            here = {n: candidates.lengths.get(n) in (None, rows) for n in (*candidates.labels, *candidates.units)}
            if kind in WIDE and "labels" not in given:
                settle_column("labels", {name: "by its name" for name in candidates.labels if here[name]})
            units = {name: "by its name; its values repeat" for name in candidates.units if here[name]}
            if units and "unit" not in given:
                settle_column("unit", units)
    return Assumed(options, why, others, missing, unclear, columns), candidates


def assume_file(files: Sequence[Path], given: Mapping[str, str]) -> Assumed:
    """Say which columns an audit of files reads, of which the first decides, or which arrays of one .npz.

    Raises
    ------
    InputError
        Where more than one column could be it, or none, with the options that say it.
    """
    first = files[0]
    if first.suffix.lower() == ".npy":
        if len(files) == 2 and files[1].suffix.lower() == ".npy" and first.is_file() and files[1].is_file():
            sides.check_classes(first, files[1])
        names = (
            " --nonmembers ".join(shlex.quote(str(file)) for file in files) if len(files) == 2 else "M --nonmembers N"
        )
        received = f"{first.name}, which has one array"
        raise InputError("file", "a table, or files of members and of non-members", received, f"say --members {names}")
    assumed, candidates = assume(first, given)
    if "member" in assumed.missing and first.suffix.lower() == ".npz" and len(files) == 1 and sides.both(first):
        pair = assume_pair(first, first)
        both = {"members": str(first), "nonmembers": str(first)}
        assumed = replace(pair, options={**both, **pair.options}, unclear=() if "signal" in given else pair.unclear)
        assumed.check(first)
        return assumed
    if "member" in assumed.missing and len(files) == 2 and first.suffix.lower() in roles.TABLES:
        check_tables(*files)
    assumed.check(first, candidates)
    return assumed


def check_tables(*files: str | Path) -> None:
    """Refuse tables of members and of non-members, one each, which are read as one.

    Raises
    ------
    InputError
        If one of the files is a .csv or .parquet.
    """
    named = [Path(file).name for file in files if Path(file).suffix.lower() in roles.TABLES]
    if named:
        allowed = "one table with a column of membership, or an array (.npy, .npz) of each class"
        hint = "put both into one table with a column member: 1 for members, 0 for others"
        raise InputError("file", allowed, " and ".join(named), hint)


def assume_sides(members: str | Path, nonmembers: str | Path, given: Collection[str]) -> Assumed:
    """Say what two files are, as :func:`assume_pair`, and refuse outputs without labels.

    Parameters
    ----------
    given : names of options that were given
    """
    assumed = assume_pair(members, nonmembers)
    wanted = {"member_labels", "nonmember_labels"} - {*given, *assumed.options}
    if assumed.options["signal"] in WIDE and wanted:
        received = f"{assumed.options['signal']} without labels"
        hint = "add --member-labels L.npy --nonmember-labels L.npy"
        raise InputError("labels", "a label for each record", received, hint)
    return assumed


def assume_pair(members: str | Path, nonmembers: str | Path) -> Assumed:
    """Say what the arrays of two files are, of members and of non-members; the signal alone is assumed.

    Raises
    ------
    InputError
        If a file cannot be read, or the two hold different things.
    """
    signal = sides.signal_of_pair(members, nonmembers)
    if signal is None:
        received = "arrays that differ in it, or several"
        raise InputError("signal", "one array in each file, of one kind", received, "save one .npy of each side")
    options: dict[str, str] = {"signal": signal.kind or "score"}
    if signal.kind in WIDE:
        options |= {"member_labels": str(members)} if sides.has_labels(members, "member") else {}
        options |= {"nonmember_labels": str(nonmembers)} if sides.has_labels(nonmembers, "nonmember") else {}
    return Assumed(options, {"signal": signal.why}, unclear=() if signal.kind else (signal.why,))


def covariates(path: str | Path, given: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Columns of a table that could be covariates, beside those that are given to be something else; and its texts.

    Which of them were known before the training, no file shows.
    """
    try:
        candidates = roles.find(path)
    except InputError:  # an audit may read what nothing is to be guessed of
        return [], []
    values = [value for name, value in given.items() if name != "categories"]
    used = {name for value in values for name in (value if isinstance(value, list) else [str(value)])}
    rows = candidates.lengths.get(str(given.get("member", "member")))
    fitting = [
        n for n in candidates.covariates if n not in used and "," not in n and candidates.lengths.get(n) in (None, rows)
    ]
    return fitting, [name for name in candidates.categories if name in fitting and "categories" not in given]


def _fitting(found: Roles, signal: str | None, rows: int | None) -> tuple[Signals, Signals]:
    """Signals with as many rows as membership has, known kinds first, and other numbers, which may be scores."""
    numbers = [Signal((name,), "", _NO_WORD, found.lengths.get(name)) for name in found.numbers]
    fitting, numbers = ([one for one in some if one.rows == rows or not rows] for some in (found.signals, numbers))
    kind: Kind = "loss" if signal == "loss" else "score"
    if signal == kind and all(one.kind != kind for one in fitting):  # whoever says what it is knows better
        fitting = [replace(one, kind=kind) if one.kind in NARROW else one for one in fitting]
    fitting = [one for one in fitting if signal in (None, one.kind) or not one.kind]
    return tuple(sorted(fitting, key=lambda one: not one.kind)), tuple(numbers)


def _signals(several: Iterable[Signal]) -> Choices:
    return tuple(f"--score {shlex.quote(one.name)} --signal {one.kind or 'KIND'}" for one in several)


def _flags(name: str, columns: Iterable[str]) -> Choices:
    return tuple(f"{_flag(name)} {shlex.quote(column)}" for column in columns)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"
