"""Findings about a bundle: of its verification, and of a challenge to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from miaudit.arrays import Count
from miaudit.findings.audit import Findings, SealedCoins
from miaudit.findings.design import in_words
from miaudit.findings.kind import FindingsRecord, Whole
from miaudit.findings.metric import Measured
from miaudit.findings.verdict import CONCERN

_VERIFIED = {"verified": 0, "failed": 3, "in-part": 4, "not-testable": 4}
_RECEIVED = {"same": 0, "words": 4, "other": 3, "undecided": 4}
_CHALLENGED = {"won": 3, "stands": 0, "undecided": 4}


@dataclass(frozen=True)
class Difference:
    """One number or word of the findings that does not come out again: its place in findings.json, and both as text."""

    place: str
    stated: str
    recomputed: str


_OF_DESIGN = {
    "one-run": "that members were assigned at random",
    "multi-run": "that members were assigned at random",
    "matched": "that the strings and their decoys are random and of the same law",
    "zero-run": "that the covariates hold every difference between members and non-members but membership",
}


@dataclass(frozen=True)
class AuditStated:
    """What a bundle says of its audit: its verdict, the model, and the design with who declared it.

    Attributes
    ----------
    status, word, text : of the verdict; of a claim that is refuted, where the verdict raises no concern
    even_so : what is proven all the same
    model : name and version, as its author states them; empty where nothing is stated
    design : as declared, in words
    declared_by : who ran the audit, as its author states it; empty where nothing is stated
    coins : whether sealed coins of the bundle show that members were assigned at random
    """

    status: Literal["flagged", "clear", "inconclusive", "not-testable", "refused"]
    word: str
    text: str
    even_so: tuple[str, ...]
    model: str
    design: str
    declared_by: str
    coins: bool = False

    @classmethod
    def of(cls, findings: Findings, *, coins: bool) -> AuditStated:
        """Read it from the findings in a bundle."""
        verdict, about = findings.verdict, findings.about
        text, author = "" if about is None else about.subject, None if about is None else about.by
        stated = findings.repeat.get("model")
        name = stated.get("name") if isinstance(stated, Mapping) else None
        status, word, sentences = verdict.status, verdict.word, [verdict.text, *verdict.even_so]
        if findings.claim is not None:
            sentences.append(findings.claim.text)
            if findings.claim.exit_code == 3 and status != "flagged":  # it decides the exit code of the audit
                status, word = "flagged", f"{CONCERN}: a privacy claim is refuted"
                sentences.insert(0, sentences.pop())
        return cls(
            status,
            word,
            sentences[0],
            tuple(sentences[1:]),
            text.removeprefix("Model ") or str(name or ""),
            in_words(findings.design),
            author or "",
            coins,
        )

    @property
    def declared(self) -> str:
        """Who declared the design, as a sentence."""
        if self.design == in_words(None):
            return "Without a design there is no verdict."
        author = f"the author of the audit ({self.declared_by})" if self.declared_by else "the author of the audit"
        proof = "Sealed coins in the bundle support it." if self.coins else "Nothing in the bundle proves it."
        return f"Declared by {author}. {proof}"


@dataclass(frozen=True)
class Received:
    """What became of a report page that was received beside a bundle.

    Attributes
    ----------
    name : of the file or folder
    status : "same" where the page is, byte for byte, the one that the bundle's findings make; "words" where all words
        and numbers agree, but figures, style or programs differ; "other" where it belongs to other findings;
        "undecided" where the bundle withholds what the page shows, or another version drew it
    text : the same in words, with what was checked
    """

    name: str
    status: Literal["same", "words", "other", "undecided"]
    text: str


@dataclass(frozen=True)
class VerificationFindings(FindingsRecord):
    """What became of checking a bundle.

    Attributes
    ----------
    status : "verified", "failed", "in-part", or "not-testable" where nothing could be recomputed. In part is not
        verified: the verdict, or a bound, may be among what does not follow
    digest : SHA-256 of the file; compare it with the one that its author published
    tampered : what does not fit the manifest
    recomputed : how many numbers and words of the findings came out again
    differences : between the findings as stated and as recomputed; the first 200
    not_recomputed : what withheld data, or programs of the author, prevent, in sentences
    environment : versions that differ here, in words
    sealed_coins : what the bundle's sealed coins show; None without, and where anything does not fit
    published : what the digest is of that was given for them, their commitment or the answer; None without one
    audit : what the bundle says of its audit; None where the bundle does not hold
    not_checked : what no bundle can show, in sentences
    received : what became of a page that was received beside the bundle; None without one
    """

    KIND = "verification"

    status: Literal["verified", "failed", "in-part", "not-testable"]
    text: str
    digest: str
    tampered: tuple[str, ...]
    recomputed: Count
    differences: tuple[Difference, ...]
    not_recomputed: tuple[str, ...]
    environment: tuple[str, ...]
    repeat: Mapping[str, Any]
    sealed_coins: SealedCoins | None = None
    published: Literal["commitment", "answer"] | None = None
    audit: AuditStated | None = None
    not_checked: tuple[str, ...] = ()
    received: Received | None = None

    @property
    def exit_code(self) -> int:
        """0 only where everything but per-record vulnerability came out again, 3 for a failure, else 4.

        A page of other findings is a failure too, and a page that was not compared whole gives 4.
        """
        codes = {_VERIFIED[self.status], 0 if self.received is None else _RECEIVED[self.received.status]}
        return 3 if 3 in codes else max(codes)


def not_checked(findings: Findings, *, coins: bool) -> tuple[str, ...]:
    """Say what no bundle can show of the audit that it holds."""
    design = "" if coins else _OF_DESIGN.get(findings.design or "", "")
    return (
        "That the scores come from the model that is named, and that the members were in its training. Only the people "
        "who trained it can show this.",
        *([f"The declared design: {design}."] if design else []),
        "That this is the bundle which its author published. Compare the SHA-256.",
    )


@dataclass(frozen=True, kw_only=True)
class ChallengeFindings(FindingsRecord):
    """The outcome of a challenge and its evidence.

    Attributes
    ----------
    status : "won" by the challenger, "stands" for the bundle, or "undecided" while labels are sealed, where a
        submission is ahead that may have come after they were opened, where the submitted scores
        are shown to point the wrong way, and where the bundle's audit was refused
    digest : SHA-256 of the bundle
    labels_visible : whether the challenger could see the labels of the records that decided
    order : of submission and opening, where labels were sealed and are open now; else None
    made_before : challenges to this bundle before this one, which this one pays for
    listed : submissions that the owner of sealed labels signed for, which this one pays for too
    judged : number of records that decided
    submission : SHA-256 of what was submitted and of the bundle that it is about: the commitment that the owner signs
    metric : the metric that decided, and ``difference``: challenger less bundle, with its interval; None where none
    bet : the test of the bundle's propensity, or None
    bundle : metrics of the audit that was challenged
    findings : of the audit with the challenger's scores or propensities, or None while labels are sealed
    """

    KIND = "challenge"

    status: Literal["won", "stands", "undecided"]
    text: str
    digest: str
    subject: Literal["scores", "propensity"]
    labels_visible: bool
    order: Literal["committed before the opening", "order unknown"] | None = None
    made_before: Count
    listed: Count = 0
    judged: Count
    submission: str
    metric: str | None = None
    difference: Mapping[str, Any] | None = None
    bet: Mapping[str, Any] | None = None
    bundle: tuple[Measured, ...] = ()
    findings: Annotated[Findings, Whole()] | None = None
    environment: tuple[str, ...] = ()
    repeat: Mapping[str, Any] = field(default_factory=dict)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """Metrics of the bundle and of the challenger, and the difference of the one that decided."""
        for name, metrics in (
            ("bundle", self.bundle),
            ("challenger", () if self.findings is None else self.findings.metrics),
        ):
            for one in metrics:
                limits = {key: getattr(one, key) for key in ("value", "low", "high", "confidence", "note")}
                yield {"kind": "metric", "score": name, "name": one.name, "estimator": one.estimator, **limits}
        if self.difference is not None:
            limits = {key: self.difference.get(key) for key in ("value", "low", "high", "confidence")}
            yield {"kind": "difference", "name": self.metric, **limits}

    @property
    def exit_code(self) -> int:
        """3 where the challenger won, 4 while nothing is decided, else 0."""
        return _CHALLENGED[self.status]
