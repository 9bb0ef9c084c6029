"""Drafts of an audit's configuration file, made of what its columns, or its two files, look like.

No value of the data is in a draft, and no design: a file does not show how membership came about.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from miaudit.collect.probe_scores import key_of
from miaudit.config.assumed import ANSWERS, QUESTION, WIDE, Assumed, assume, assume_pair
from miaudit.config.draft import relative, scalar, wrapped
from miaudit.errors import InputError, one_line
from miaudit.findings.policy import DRAFT
from miaudit.io import scored_probes
from miaudit.io.probes import KEY_SUFFIX
from miaudit.io.roles import ROWS, Roles

__all__ = ["AuditDraft", "of_pair", "of_probes", "of_table", "of_tokens"]

_WIDTH = 118
_FILES = {"loss": "losses", "score": "scores", "logits": "logits", "probabilities": "probabilities"}
_ATTACK = "attack:\n  type: [loss]  # or gaussian_lira, and others: docs/shadow_models.md\n"
_WITH_LOSS = "# attack: {{type: [loss]}}  # delete the # before it where {} is said below\n"
_DIRECTIONS = {
    "loss": "lower for members",
    "score": "higher for members",
    **dict.fromkeys(WIDE, "a loss is made of them, with the labels"),
}
_UNKNOWN = (
    "No file shows it, so it is not guessed. Until it is declared, numbers are raw, and the verdict is only what it "
    "would be if membership was randomised. Delete the # before one:"
)
ABOUT = """\
# about:  # for the page and the dossier: what you state here is shown and not checked
#   model: NAME
#   version: "1.0"
#   owner: WHO ANSWERS FOR IT
#   purpose: WHAT IT IS FOR
#   by: WHO AUDITS
#   date: 2026-01-31
"""
_COVARIATES = (
    "With zero-run, also this; take out what training, or the model, has changed, and what was not known before:"
)


@dataclass(frozen=True)
class AuditDraft:
    """A draft of what ``miaudit run`` reads.

    Attributes
    ----------
    config : the text of the file, with comments
    assumed : what was assumed and why, a line each
    open : what could not be told, or stands in the way, a line each
    fill_in : keys that have to be filled in before it runs
    declares : whether it declares a design, which only probes with decoys show
    """

    config: str
    assumed: tuple[str, ...]
    open: tuple[str, ...]
    fill_in: tuple[str, ...] = ()
    declares: bool = False


def of_table(table: Path, folder: Path) -> AuditDraft | None:
    """Draft the audit of a table with a column of membership; None for one that has neither that nor outputs.

    Parameters
    ----------
    table : .csv, .parquet or .npz, whose first rows are looked at
    folder : where the draft goes, to which its paths are relative

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    assumed, candidates = assume(table, {})
    outputs = "score" in assumed.options and candidates.columns <= len(candidates.signals) + 3
    if "member" in assumed.missing and not candidates.refused and not outputs:
        return None
    lines = [f"table_path: {relative(table, folder)}"]
    written = [one.name for one in candidates.signals if one.name.startswith("score.")]
    if written and "member" in candidates.members:
        assumed = Assumed(
            why={"score": "evidence, as miaudit writes it: all its scores, and what else it holds, are read"}
        )
        lines.append(f"# {assumed.why['score']}: {one_line(', '.join(written))}")
    for name in ("score", "signal", "labels", "member", "unit"):
        lines += _lines_of(name, assumed)
    if "member" in assumed.missing and candidates.refused:
        lines = [
            f"{line}: {one_line(candidates.doubts[0])}" if line.startswith("# member: ") else line for line in lines
        ]
    rows = candidates.lengths.get(assumed.options.get("member", ""))
    fitting = [
        name for name in (*candidates.covariates, *candidates.groups) if candidates.lengths.get(name) in (None, rows)
    ]
    lines += _proposed([name for name in candidates.groups if name in fitting], candidates.named)
    unclear = tuple(f"{assumed.options['score']}: {one}" for one in assumed.unclear)
    seen = () if candidates.complete else (f"only the first {ROWS:,} rows, or fewer of wide columns, were looked at",)
    assumptions = tuple(
        one_line(f"{name}: {value}" + (f" ({assumed.why[name]})" if name in assumed.why else ""))
        for name, value in assumed.options.items()
    ) or tuple(assumed.why.values())
    passed = tuple(
        f"{name}: {assumed.options[name]} was taken, and these could be it too: {', '.join(others)}"
        for name, others in assumed.others.items()
    )
    missing = tuple(f"{name}: no column could be told to be it" for name in assumed.missing)
    head = _ATTACK
    if assumed.options.get("signal", "score") == "score":
        head = _WITH_LOSS.format("signal: loss") if len(assumed.columns) == 1 and not written else ""
    return AuditDraft(
        _text(one_line(table.name), lines, assumed.missing, _covariates(assumed, candidates, fitting), head),
        assumptions,
        tuple(one_line(line) for line in (*missing, *unclear, *passed, *candidates.doubts, *seen)),
        tuple(assumed.missing),
    )


def of_pair(members: Path, nonmembers: Path, folder: Path, *, told: bool) -> AuditDraft:
    """Draft the audit of two files, of members and of non-members, or of one .npz with arrays of both.

    Parameters
    ----------
    members, nonmembers : .npy or .npz
    folder : where the draft goes
    told : whether names say which of the two is of members; else it is the first one, and the draft says so

    Raises
    ------
    InputError
        If a file cannot be read, or what it holds cannot be told.
    """
    assumed = assume_pair(members, nonmembers)
    kind = assumed.options["signal"]
    lines = [f"{side}_{_FILES[kind]}_path: {relative(path, folder)}" for side, path in _both(members, nonmembers)]
    lines[0] += _comment(assumed.why["signal"])
    open_ = (
        [f"{kind} was taken: {assumed.why['signal']}; losses are lower for members, scores higher"]
        if assumed.unclear
        else []
    )
    fill_in: tuple[str, ...] = ()
    for side, path in _both(members, nonmembers):
        if f"{side}_labels" in assumed.options:
            lines.append(f"{side}_labels_path: {relative(path, folder)}")
        elif kind in WIDE:
            lines.append(f"# {side}_labels_path: FILE.npy  # fill in: labels, whole numbers from 0")
            fill_in += (f"{side}_labels_path",)
    if not told:
        open_.append(f"{one_line(members.name)} was taken for the members, as it came first: no name says so")
    assumptions = (f"members: {one_line(members.name)}", f"non-members: {one_line(nonmembers.name)}", f"signal: {kind}")
    named = " and ".join(dict.fromkeys((one_line(members.name), one_line(nonmembers.name))))
    beside = ("member_covariates_path: FILE.npy", "nonmember_covariates_path: FILE.npy")
    head = _WITH_LOSS.format("losses_path") if kind == "score" else _ATTACK
    text = _text(named, lines, fill_in, beside, head)
    return AuditDraft(text, assumptions, tuple(open_), fill_in)


def of_tokens(file: Path, folder: Path) -> AuditDraft:
    """Draft the audit of token log-probabilities, a text on each line; all scores that it allows are computed."""
    head = f"target: {{kind: token-logprobs}}\ndata: {{path: {relative(file, folder)}}}\n"
    lines = ["confidence: 0.95"]
    text = _text(one_line(file.name), lines, (), ("covariates are the texts themselves",), head)
    assumed = ("signal: token-logprobs (every line has id, member and logprobs)",)
    return AuditDraft(text, assumed, ())


def of_probes(file: Path, folder: Path) -> AuditDraft:
    """Draft the audit of scored probes with their key: the design is matched, since miaudit drew the decoys.

    Parameters
    ----------
    file : .jsonl of probes with scores
    folder : where the draft goes

    Raises
    ------
    InputError
        For a line that is no probe, and probes without a score.
    """
    lines = scored_probes.read_lines(file)
    names, key = scored_probes.score_names(lines[0]), key_of(file)
    if not names:
        hint = "let a model score them (miaudit collect), or add a number to each line: docs/canaries.md"
        raise InputError("file", "probes with scores", f"{file.name}, without one", hint)
    missing = tuple(name for name, absent in (("key_path", not key.is_file()), ("score", len(names) > 1)) if absent)
    could = " or ".join(map(scalar, names[:6]))
    keyed = (
        f"# key_path: PROBES{KEY_SUFFIX}  # fill in" if "key_path" in missing else f"key_path: {relative(key, folder)}"
    )
    scored = f"# score: NAME  # fill in; it could be {could}" if "score" in missing else f"score: {could}"
    standing = f"It does not run yet: fill in {', '.join(missing)}." if missing else "It runs as it stands."
    body = [
        f"# A draft of an audit of {one_line(file.name)}, by miaudit init. {standing}",
        "# Every key: docs/configuration.md; what is assumed: docs/canaries.md",
        "evaluation:",
        "  design: matched  # chance drew the true strings, and miaudit drew their decoys before any score",
        f"  table_path: {relative(file, folder)}",
        f"  {keyed}" + ("" if "key_path" in missing else "  # which strings are true; the scorer must not see it"),
        f"  {scored}" + ("" if "score" in missing else "  # higher for strings that were trained on"),
        "  # signal: loss  # delete the # before it where the score is lower for them",
        "  # reference_path: REFERENCE.jsonl  # the same probes, scored by a model that never saw the strings",
        "",
        *DRAFT.splitlines(),
    ]
    assumed = ["design: matched (probes with decoys)"]
    assumed += [] if "key_path" in missing else [f"key: {one_line(key.name)}"]
    assumed += [] if "score" in missing else [f"score: {could}"]
    check = (
        "the person who made the scores did not see the key",
        "signal: a log-probability is higher for strings that were trained on; a loss is lower, and needs signal: loss",
    )
    return AuditDraft("\n".join(body) + "\n", tuple(assumed), check, missing, declares=True)


def _text(file: str, lines: Iterable[str], missing: Iterable[str], covariates: Iterable[str], head: str = "") -> str:
    """The text of a file."""
    need = ", ".join(missing)
    standing = f"It does not run yet: fill in {need}." if need else "It runs as it stands."
    body = [
        f"# A draft of an audit of {file}, by miaudit init. {standing}",
        "# Every key: docs/configuration.md",
        *head.splitlines(),
        "evaluation:",
        *(f"  {line}" for line in lines),
        "",
        *_commented(f"{QUESTION} {_UNKNOWN}"),
        *(f"  # design: {design:<9}  # {answer}" for answer, design in ANSWERS),
        *(_commented(_COVARIATES) if covariates else ()),
        *(f"  # {line}" for line in covariates),
        "",
        *ABOUT.splitlines(),
        *DRAFT.splitlines(),
    ]
    return "\n".join(body) + "\n"


def _lines_of(name: str, assumed: Assumed) -> list[str]:
    """The line of a key with the reason, and those of the columns that could be it too, commented out."""
    if name in assumed.missing:
        could = assumed.missing[name][:6]
        ones = ", with 1 for members" if name == "member" else ""
        return [
            f"# {name}: NAME  # fill in" + (f"; it could be {' or '.join(map(scalar, could))}{ones}" if could else "")
        ]
    if name not in assumed.options:
        return []
    value = assumed.options[name]
    columns = assumed.columns if name == "score" else [value]
    written = scalar(value) if len(columns) == 1 else f"[{', '.join(map(scalar, columns))}]"
    if name == "signal":
        about = "not told by the file: check it" if assumed.unclear else _DIRECTIONS[value]
        about += "; where they are lower: loss, and the line attack above" if value == "score" else ""
        return [f"signal: {written}" + _comment(about)]
    return [
        (wrapped(f"{name}: [", [*map(scalar, columns)], "]", "    ") if len(columns) > 1 else f"{name}: {written}")
        + _comment(assumed.why[name]),
        *(f"# or {one_line(other)}" for other in assumed.others.get(name, ())),
    ]


def _proposed(groups: Sequence[str], named: Iterable[str]) -> list[str]:
    """Keys that may be wanted, commented out."""
    lines = []
    if groups:
        more = f"; or {', '.join(map(scalar, groups[1:6]))}" if len(groups) > 1 else ""
        lines.append(f"# group: {scalar(groups[0])}  # metrics for each group, one by one{more}")
    for name in named:
        key = name if name in ("text", "run", "propensity") else "reference"
        use = {
            "text": "texts are a covariate of zero-run audits",
            "run": "where rows are of several trainings",
            "propensity": "known probabilities of membership, for zero-run",
            "reference": "scores of a reference model: docs/zero_run_in_depth.md",
        }[key]
        lines.append(f"# {key}: {scalar(name)}  # {use}" if key != "reference" else f"# {one_line(name)}: {use}")
    return lines


def _covariates(assumed: Assumed, candidates: Roles, fitting: Sequence[str]) -> list[str]:
    columns = [name for name in candidates.covariates if name in fitting and name not in assumed.options.values()]
    if not columns:
        return ["covariates: [NAMES]  # no column could be told to be one"]
    lists = {"covariates": columns, "categories": candidates.categories}
    return [
        line
        for name, columns in lists.items()
        if columns
        for line in wrapped(f"{name}: [", [*map(scalar, columns)], "]", "  ").splitlines()
    ]


def _commented(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  # ", subsequent_indent="  # ")


def _comment(text: str) -> str:
    return f"  # {one_line(text)}"


def _both(members: Path, nonmembers: Path) -> tuple[tuple[str, Path], tuple[str, Path]]:
    return ("member", members), ("nonmember", nonmembers)
