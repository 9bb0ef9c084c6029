"""One line of a list of audits: what finished findings of any kind come to, read without checking all the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from miaudit.findings.comparison import estimate_in_words
from miaudit.findings.metric import Metric
from miaudit.findings.verdict import code_of
from miaudit.metrics.definition import label

_LONGEST = 300


@dataclass(frozen=True)
class Entry:
    """What a list says of one audit.

    Attributes
    ----------
    name : of its folder
    kind : of findings, such as "audit"
    status : of its verdict, such as "flagged"; empty where a kind has none
    exit_code : 0 within the limits, 3 concern, 4 not answered
    said : the primary metric with its interval, or the first sentence of what was found
    subject : the model, or else the source of the data
    metric : name of the primary metric of an audit, else empty
    score : name of the score that it was measured with
    value, low, high : of that metric; None where there is none, or where it is raw and not causal
    date, version : of the audit and of the model, as the findings state them; empty where they do not
    reason : of a verdict that is not answered, where it has one beside its status ("undeclared"), else empty
    """

    name: str
    kind: str
    status: str
    exit_code: int
    said: str
    subject: str = ""
    metric: str = ""
    score: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    date: str = ""
    version: str = ""
    reason: str = ""


def entry(name: str, content: Mapping[str, Any]) -> Entry:
    """Read what a list says of findings from the plain values of their findings.json.

    Parameters
    ----------
    name : of the folder
    content : of the file, as :func:`miaudit.findings.kind.parse` returns it; only what is listed is looked at

    Raises
    ------
    ValueError
        If these are no findings.
    """
    try:
        listed = _audit(name, content) if content.get("kind", "audit") == "audit" else _other(name, content)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"no findings of miaudit ({type(error).__name__}: {error})") from error
    for field in fields(Entry):
        held = getattr(listed, field.name)
        numbers = (float, int, type(None)) if field.type == "float | None" else (int,)
        if isinstance(held, bool) or not isinstance(held, str if field.type == "str" else numbers):
            raise ValueError(f"no findings of miaudit ({field.name}: {held!r:.60})")
    return listed


def _audit(name: str, content: Mapping[str, Any]) -> Entry:
    primary = content["verdict"]["metric"]
    known = {field.name for field in fields(Metric)}
    measured = [
        Metric(**{key: value for key, value in m.items() if key in known})
        for m in content["metrics"]
        if m["name"] == primary
    ]
    sentence, limits = estimate_in_words(measured, content["design"])
    return Entry(
        name,
        "audit",
        content["verdict"]["status"],
        content["exit_code"],
        f"{label(primary)}: {sentence}",
        _model(content) or content["evidence"]["source"],
        primary,
        content["scores"][0]["score"] if content["scores"] else "",
        **limits,
        **_stated(content),
        reason=content["verdict"].get("reason") or "",
    )


def _other(name: str, content: Mapping[str, Any]) -> Entry:
    verdict: Mapping[str, Any] = content.get("verdict") or {}
    second = (content.get("membership") or {}).get("verdict") or {}  # of a table's attacks, as evidence
    if second and code_of(verdict["status"]) != content["exit_code"] == code_of(second["status"]):
        verdict = second
    sentence = verdict.get("text") or content.get("text") or ""
    text = (sentence if isinstance(sentence, str) else sentence[0]).removeprefix("Concern: ")
    return Entry(
        name,
        content["kind"],
        verdict.get("status") or content.get("status") or "",
        content["exit_code"],
        text[:1].upper() + (text[1:] if len(text) <= _LONGEST else f"{text[1:_LONGEST].rstrip()}…"),
        _model(content) or content.get("source") or "",
        **_stated(content),
        reason=verdict.get("reason") or "",
    )


def _about(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return content.get("about") or {}


def _model(content: Mapping[str, Any]) -> str:
    return _about(content).get("model") or ""


def _stated(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _about(content).get(name) or "" for name in ("date", "version")}
