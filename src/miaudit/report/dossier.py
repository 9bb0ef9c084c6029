"""The dossier: for each question of the guidelines, what the findings of a folder answer, or "not tested".

Nothing is computed here, and nothing is judged that findings do not judge. The questions restate the sources in
other words (``docs/reading_a_report.md``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from miaudit.errors import InputError, MiauditError, one_line
from miaudit.findings.about import About
from miaudit.findings.audit import Findings
from miaudit.findings.design import in_words
from miaudit.findings.disclosure import DisclosureFindings
from miaudit.findings.extraction import ExtractionFindings
from miaudit.findings.kind import FindingsRecord
from miaudit.findings.kinds import read as read_findings
from miaudit.findings.metric import foremost
from miaudit.findings.release import SynthesisFindings
from miaudit.findings.table import Attack, TableFindings, worded
from miaudit.findings.verdict import CONCERN, CONDITIONS
from miaudit.metrics.definition import amount, between, label
from miaudit.metrics.rounding import lower_text, percent, points, upper_text
from miaudit.report import kinds, page_frame

__all__ = ["FORMAT", "Answer", "Dossier", "Question", "collected"]

FORMAT = 1
_MOST = 200  # findings of one dossier
WP216 = "Article 29 Working Party, opinion 05/2014 (WP216)"
EDPB = "EDPB, opinion 28/2024 on AI models"
NIST = "NIST SP 800-226"
_NOT_STATED = "not stated"
_STATED = {
    "owner": "Owner",
    "model": "Model",
    "version": "Version",
    "purpose": "Purpose",
    "data": "Data",
    "by": "Audited by",
    "date": "Date",
}
_DECLARED = "membership was assigned as declared; not checked here"


def _tone(status: str, conditional: bool) -> str:
    return "inconclusive" if status not in ("flagged", "clear") or (conditional and status == "clear") else status


@dataclass(frozen=True)
class Answer:
    """What one findings file answers to a question.

    Attributes
    ----------
    what : was measured
    value, interval, confidence : as they are read
    design, assumption : on which the answer rests
    file : of the findings, relative to the folder
    status, word : of the verdict on it; empty where the findings give none
    """

    what: str
    value: str
    interval: str
    confidence: str
    design: str
    assumption: str
    file: str
    status: str = ""
    word: str = ""

    @property
    def tone(self) -> str:
        """The colour of its word on the page: none that says "all is well" where that holds on a condition."""
        return _tone(self.status, self.assumption in CONDITIONS.values()) if self.status else ""


@dataclass(frozen=True)
class Question:
    """A question of a source; ``not_tested`` says that no answer is there, or what the answers leave out."""

    name: str
    source: str
    text: str
    answers: tuple[Answer, ...]
    not_tested: str


@dataclass(frozen=True)
class Finding:
    """One findings file of the folder, with its verdict, and whether that holds on a condition only."""

    file: str
    kind: str
    word: str
    status: str
    exit_code: int
    conditional: bool = False

    @property
    def tone(self) -> str:
        """The colour of its word on the page."""
        return _tone(self.status, self.conditional)


@dataclass(frozen=True)
class Dossier:
    """All questions with their answers, and the findings that they come from.

    Attributes
    ----------
    about : what the authors state, by name; "not stated" where nothing is stated
    questions : of the sources, in their order
    findings : the files that were read
    unread : files that could not be read, with the reason
    repeat : version and command
    """

    about: Mapping[str, str]
    questions: tuple[Question, ...]
    findings: tuple[Finding, ...]
    unread: tuple[str, ...]
    repeat: Mapping[str, Any]

    def to_json(self) -> str:
        """Return the dossier as text of a JSON file: equal findings give equal bytes."""
        content = {"format": FORMAT, "kind": "dossier", **asdict(self)}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def page(self) -> str:
        """Return the dossier as one page that loads nothing; all text from findings is escaped."""
        by_source = {
            source: [one for one in self.questions if one.source == source]
            for source in dict.fromkeys(one.source for one in self.questions)
        }
        answered = [one for one in self.questions if one.answers]
        return page_frame.render(
            "dossier.html",
            {"repeat": self.repeat},
            {},
            about=[(name, self.about[key]) for key, name in _STATED.items()],
            title=self.about["model"],
            not_stated=_NOT_STATED,
            sources=by_source,
            listed=self.findings,
            unread=self.unread,
            cards=[
                ("Questions answered", f"{len(answered)} of {len(self.questions)}", "by at least one finding"),
                ("Not tested", str(len(self.questions) - len(answered)), "nothing is known about these"),
                ("Findings", str(len(self.findings)), f"{_concerns(self.findings)} with concern"),
            ],
        )


def _concerns(findings: Sequence[Finding]) -> int:
    return sum(one.exit_code == 3 for one in findings)


# -- from a folder to a dossier ----------------------------------------------------------------------------------------


def collected(folder: str | Path, repeat: Mapping[str, Any]) -> Dossier:
    """Make the dossier of a folder: of its findings.json, and of those of the folders in it.

    Raises
    ------
    InputError
        If there are no findings there, or more than 200.
    """
    place = Path(folder)
    files = [place] if place.is_file() else _files(place)
    if not files:
        hint = "name a results folder, or a folder that holds some"
        raise InputError("FOLDER", f"a folder with {kinds.FINDINGS}", one_line(str(folder)), hint)
    if len(files) > _MOST:
        received = f"{len(files):,}"
        raise InputError("FOLDER", f"at most {_MOST} findings", received, "take the folder of one model")
    by_file: dict[str, FindingsRecord] = {}
    unread = []
    for file in files:
        name = one_line(file.name if place.is_file() else file.relative_to(place).as_posix())
        try:
            by_file[name] = read_findings(file)
        except (MiauditError, OSError) as error:
            unread.append(one_line(f"{name}: {error}"))
    return Dossier(
        _about(by_file.values()),
        tuple(
            _question(name, source, text, tuple(_answers(answer, by_file)), missing, left_out)
            for name, source, text, answer, missing, left_out in _QUESTIONS
        ),
        tuple(_finding(name, one) for name, one in by_file.items()),
        tuple(unread),
        repeat,
    )


def _question(name: str, source: str, text: str, answers: tuple[Answer, ...], missing: str, left_out: str) -> Question:
    """Make a question; without an answer it says what would answer it, else what the answers leave out."""
    return Question(name, source, text, answers, left_out if answers else f"Not tested. {missing}".strip())


def _files(place: Path) -> list[Path]:
    own = place / kinds.FINDINGS
    inside = sorted(path for path in place.glob(f"*/{kinds.FINDINGS}") if not path.parent.name.startswith("."))
    return [*([own] if own.is_file() else []), *(path for path in inside if not path.parent.is_symlink())]


def _about(findings: Any) -> dict[str, str]:
    """What is stated: each key with its values, where several findings state different ones all of them."""
    stated = [one.about for one in findings if getattr(one, "about", None) is not None]
    names = [field.name for field in fields(About)]
    by_name = {name: dict.fromkeys(filter(None, (getattr(one, name) for one in stated))) for name in names}
    return {name: "; ".join(values) or _NOT_STATED for name, values in by_name.items()}


def _finding(file: str, findings: FindingsRecord) -> Finding:
    verdict = getattr(findings, "verdict", None)
    status = str(getattr(verdict, "status", getattr(findings, "status", "")))
    word = getattr(verdict, "word", None) or getattr(findings, "word", None)
    if isinstance(findings, TableFindings):
        status = findings.leading().status
        word = worded(status, findings.membership.design)
    if findings.exit_code == 3 and status != "flagged":  # by a claim, or by one of several verdicts
        status, word = "flagged", CONCERN
    conditional = bool(getattr(verdict, "condition", ""))
    return Finding(file, findings.KIND, str(word or status), status, findings.exit_code, conditional)


def _answers(answer: _Answering | None, held: Mapping[str, FindingsRecord]) -> Iterator[Answer]:
    if answer is not None:
        for file, findings in held.items():
            yield from answer(file, findings)


# -- what findings answer ----------------------------------------------------------------------------------------------

_Answering = Callable[[str, FindingsRecord], Iterator[Answer]]


def _assumed(findings: Findings) -> str:
    """What an audit rests on, in words."""
    if findings.sealed_coins is not None:
        return "none about membership: sealed coins drew it"
    if findings.design is None:
        return "none can be named: the design was not declared"
    if findings.design == "zero-run":
        known = findings.overlap is not None and findings.overlap.propensity == "given"
        return CONDITIONS["given" if known else "zero-run"]
    return _DECLARED


def _membership(file: str, findings: FindingsRecord) -> Iterator[Answer]:
    """Members that an attack identifies by a model: of an audit, or of what a disclosure releases."""
    if isinstance(findings, Findings):
        yield from _identified(file, findings)
    elif isinstance(findings, DisclosureFindings):
        released = next(one for one in findings.options if one.name == findings.release)
        own = ("as the configuration declares", _DECLARED, file, findings.verdict.status, findings.verdict.word)
        for name, measured in released.leakage.items():
            value = "not resolved" if measured.value is None else amount(name, measured.value)
            interval, sure = between(name, measured.low, measured.high), f"{percent(findings.confidence)} confidence"
            what = f"members identified, releasing {released.words}: {label(name)}"
            yield Answer(what, value, interval, sure, *own)


def _identified(file: str, findings: Findings, by: str = "") -> Iterator[Answer]:
    """Members that are identified, by a model or ``by`` what else the findings are about."""
    verdict = findings.verdict
    limits = [one.limit for one in verdict.limits] or [verdict.metric]
    shown = [one for one in foremost(findings.metrics) if one.name in {*limits, "auc"} and not findings.is_raw(one)]
    own = (in_words(findings.design), _assumed(findings), file, verdict.status, verdict.word)
    if not shown:
        yield Answer(f"members identified{by}", "no answer", "no interval", "", *own)
    for metric in shown:
        value = "not resolved" if metric.value is None else amount(metric.name, metric.value)
        sure = "" if metric.withheld else f"{percent(metric.confidence)} confidence"
        yield Answer(f"members identified{by}: {label(metric.name)}", value, metric.interval, sure, *own)


def _singled_out(file: str, findings: FindingsRecord) -> Iterator[Answer]:
    """Copies and singling out by a table, and members that it identifies: one form of singling out."""
    yield from _of_table(*_ISOLATING)(file, findings)
    if isinstance(findings, TableFindings):
        yield from _identified(file, findings.membership, " by the synthetic table")


def _of_table(*names: str) -> _Answering:
    """Attacks of a table audit whose names start so: success on members less that on control records."""

    def answers(file: str, findings: FindingsRecord) -> Iterator[Answer]:
        if isinstance(findings, TableFindings):
            for one in findings.attacks:
                if one.name.startswith(names):
                    yield _attack(one, findings, file)

    return answers


def _attack(one: Attack, findings: TableFindings, file: str) -> Answer:
    randomised = findings.membership.design in ("one-run", "multi-run")
    assumption = _DECLARED if randomised else "members and control records differ in membership alone"
    value = "no answer" if one.difference is None else points(one.difference)
    interval = f"{points(one.difference_low, 'down')} to {points(one.difference_high, 'up')}"
    # As on the page of the table: where its verdict answers nothing, no attack of it does.
    unanswered = findings.verdict.status in ("not-testable", "refused")
    status = findings.verdict.status if unanswered else one.status or ""
    decides = one.role == "blocking"
    return Answer(
        f"{one.name}: success on members minus success on control records",
        value,
        interval,
        f"{percent(findings.verdict.confidence)} confidence",
        in_words(findings.membership.design),
        assumption,
        file,
        status if decides else "",
        worded(status, findings.membership.design) if decides and status else "",
    )


def _extraction(*ways: str) -> _Answering:
    """Texts that come out of a language model, in ways whose names start so."""

    def answers(file: str, findings: FindingsRecord) -> Iterator[Answer]:
        if not isinstance(findings, ExtractionFindings):
            return
        design = in_words(findings.design or None)
        verdict, sure = findings.verdict, f"{percent(findings.verdict.confidence)} confidence"
        assumption = "control texts are like the training texts, and the model never saw them"
        own = (sure, design, assumption, file)
        for way in findings.ways:
            if way.name.startswith(ways):
                for what, rate in (("training texts", way.members), ("control texts", way.controls)):
                    value = "no answer" if rate.value is None else percent(rate.value)
                    interval = f"{percent(rate.low, 'down')} to {percent(rate.high, 'up')}"
                    yield Answer(f"{what} that come out: {way.words}", value, interval, *own)
                one = way.difference
                value = "no answer" if one.value is None else points(one.value)
                interval = f"{points(one.low, 'down')} to {points(one.high, 'up')}"
                yield Answer("difference of the two", value, interval, *own, verdict.status, verdict.word)

    return answers


def _claimed(file: str, findings: FindingsRecord) -> Iterator[Answer]:
    """The parameters that are claimed."""
    if isinstance(findings, SynthesisFindings) and findings.guarantee is not None:
        one = findings.guarantee
        value = f"epsilon = {one.epsilon:g} at delta = {one.delta:g}"
        yield Answer("guarantee of a synthetic table", value, "none: a theorem", "", "none needed", one.mechanism, file)
    elif isinstance(findings, Findings) and findings.claim is not None:
        claim = findings.claim
        at = f" at delta = {claim.delta:g}" if claim.parameter == "epsilon" else ""
        value = f"{claim.parameter} = {upper_text(claim.value, 6)}{at}"  # as the audit's page
        basis = claim.upper_from or "stated, and not proved here"
        yield Answer("claim that was audited", value, "none: a claim", "", in_words(findings.design), basis, file)
    elif isinstance(findings, TableFindings):
        yield from _claimed(file, findings.membership)


def _refuted(file: str, findings: FindingsRecord) -> Iterator[Answer]:
    """What the runs prove about a parameter, beside the claim."""
    if isinstance(findings, TableFindings):
        yield from _refuted(file, findings.membership)
        return
    if not isinstance(findings, Findings):
        return
    claim = findings.claim
    status, word = ("", "") if claim is None else _CLAIMS[claim.status]
    for bound in findings.bounds:
        at = f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else ""
        sure = "exploratory, no confidence" if bound.exploratory else f"{percent(bound.confidence)} confidence"
        value = f"at least {lower_text(bound.value)}" if bound.value > 0 else "nothing shown, not a sign of privacy"
        own = (in_words(findings.design), "; ".join(bound.assumptions) or _assumed(findings), file, status, word)
        yield Answer(f"lower bound on {bound.parameter}{at}", value, "one-sided", sure, *own)


_CLAIMS = {
    "refuted": ("flagged", "Claim refuted"),
    "not-refuted": ("inconclusive", "Claim not refuted"),
    "not-testable": ("not-testable", "Claim not testable"),
}


def _protected(file: str, findings: FindingsRecord) -> Iterator[Answer]:
    """Who is protected, or was audited: records, or all records of a unit."""
    if isinstance(findings, SynthesisFindings) and findings.guarantee is not None:
        changes = "the values of one record change" if findings.neighbours else "one record is added or removed"
        yield Answer(
            "unit of the guarantee", f"a record: {changes}", "no interval", "", "none needed", "a theorem", file
        )
    elif isinstance(findings, Findings) and (findings.claim is not None or findings.bounds):
        unit, sizes = findings.counts.of, " and ".join(findings.counts.in_words)
        basis = "a person may own several records" if unit == "records" else "units as they are named"
        yield Answer("unit of the audit", f"{unit}: {sizes}", "no interval", "", in_words(findings.design), basis, file)
    elif isinstance(findings, TableFindings):
        yield from _protected(file, findings.membership)


_ISOLATING = ("singling out", "copies", "near copies")
_QUESTIONS: tuple[tuple[str, str, str, _Answering | None, str, str], ...] = (
    (
        "singling-out",
        WP216,
        "Can an individual still be singled out?",
        _singled_out,
        "miaudit audit --synthetic measures it for a table. For a model, see membership inference below.",
        "Only the predicates and copies that were tried are tested. For a model, see membership inference below.",
    ),
    (
        "linkability",
        WP216,
        "Can records of one individual be linked?",
        _of_table("linkability"),
        "miaudit audit --synthetic measures it for a table.",
        "Links to other data are not tested here.",
    ),
    (
        "inference",
        WP216,
        "Can information about an individual be inferred?",
        _of_table("inference"),
        "miaudit audit --synthetic measures it for the columns of a table.",
        "Inference from a model is not tested here.",
    ),
    (
        "extraction",
        EDPB,
        "Can training data be extracted from the model?",
        _extraction("sampled", "greedy"),
        "miaudit extraction measures it for a language model.",
        "Model inversion and other ways of extraction are not tested here.",
    ),
    (
        "queries",
        EDPB,
        "Do queries obtain personal data, intentionally or not?",
        _extraction("asked", "answers"),
        "miaudit extraction measures it for a language model, with --model or --generations.",
        "Prompts that were not tried are not tested.",
    ),
    (
        "membership-inference",
        EDPB,
        "Does the model resist membership inference?",
        _membership,
        "miaudit audit, run and disclosure measure it.",
        "Attacks that were not run are not tested.",
    ),
    ("attribute-inference", EDPB, "Does the model resist attribute inference?", None, "", ""),
    ("reconstruction", EDPB, "Does the model resist reconstruction and model inversion?", None, "", ""),
    (
        "governance",
        EDPB,
        "Are collection, training and deployment designed and documented to protect people?",
        None,
        "miaudit does not measure it. This page can be part of that documentation.",
        "",
    ),
    (
        "claim",
        NIST,
        "Which parameters of differential privacy are claimed?",
        _claimed,
        "No claim is in these findings.",
        "",
    ),
    (
        "evidence",
        NIST,
        "Does evidence contradict the claim?",
        _refuted,
        "No lower bound is in these findings.",
        "A claim that is not refuted is not proven.",
    ),
    (
        "unit",
        NIST,
        "Who is protected: a record, or a person?",
        _protected,
        "No claim and no bound in these findings names a unit.",
        "",
    ),
    (
        "implementation",
        NIST,
        "Does the software do what the proof assumes?",
        None,
        "miaudit can test single steps of a training (docs/private_code.md), outside this dossier.",
        "",
    ),
    (
        "composition",
        NIST,
        "What else was computed on the same data?",
        None,
        "miaudit history --budget judges releases together, outside this dossier.",
        "",
    ),
    ("trust", NIST, "Who sees the raw data, and are there side channels?", None, "", ""),
)
