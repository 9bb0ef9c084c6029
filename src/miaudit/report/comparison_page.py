"""The page of a comparison of two audits, and that of the history of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from miaudit.findings import kind
from miaudit.findings.wording import amount, chance, difference, difference_limits, label
from miaudit.metrics import definition
from miaudit.report import interval_chart, page_frame
from miaudit.report.chart_style import distinct

if TYPE_CHECKING:
    import altair as alt

FORMAT = 1
NAMES = ("differences", "history")
_STATUS = {
    "rose": ("flagged", "Leakage rose"),
    "fell": ("clear", "Leakage fell"),
    "no-difference": ("inconclusive", "No difference shown"),
    "not-comparable": ("refused", "Not comparable"),
}
VERDICTS = {
    "flagged": "concern",
    "clear": "no concern",
    "inconclusive": "inconclusive",
    "not-testable": "not testable",
    "refused": "refused",
}
_NOT_CAUSAL = "raw, not causal"  # how the note of such a change begins
_MOST_DRAWN = 60
_NUMBER = {"type": ["number", "null"]}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SAID = {
    "format": {"const": FORMAT},
    "exit_code": {"enum": [0, 3, 4]},
    "text": {"type": "string"},
    "primary": {"type": "string"},
    "repeat": {"type": "object"},
}
_CHANGE = {
    "name": {"type": "string"},
    "estimator": {"type": "string"},
    "note": {"type": "string"},
    **dict.fromkeys(("before", "after", "value", "low", "high"), _NUMBER),
}
_AUDIT = {
    **{key: {"type": "string"} for key in ("name", "said", "design", "digest")},
    "status": {"enum": list(VERDICTS)},
    "members": {"type": "integer", "minimum": 0},
    **dict.fromkeys(("value", "low", "high"), _NUMBER),
}
_STEP = {
    **{key: {"type": "string"} for key in ("before", "after", "text")},
    "status": {"enum": list(_STATUS)},
    "cautions": _TEXTS,
}


def _objects(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _object(properties)}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "properties": dict(properties),
        "additionalProperties": False,
    }


_COMPARISON = {
    **_SAID,
    "kind": {"const": "comparison"},
    "status": {"enum": list(_STATUS)},
    "before": {"type": "string"},
    "after": {"type": "string"},
    "confidence": {"type": "number"},
    "cautions": _TEXTS,
    "changes": _objects(_CHANGE),
}
_HISTORY = {**_SAID, "kind": {"const": "history"}, "audits": _objects(_AUDIT), "changes": _objects(_STEP)}


def check(content: Any) -> dict[str, Any]:
    """Check plain values against the schema of their kind, and return them.

    Raises
    ------
    InputError
        With the place that does not follow it.
    """
    many = isinstance(content, Mapping) and content.get("kind") == "history"
    return kind.check(_object(_HISTORY if many else _COMPARISON), content, FORMAT)


def charts(findings: Mapping[str, Any]) -> dict[str, alt.LayerChart]:
    """Draw the differences of metrics, or one metric over the audits; nothing where nothing has an interval."""
    if findings["kind"] == "comparison":
        return _differences(findings)
    return _course(findings)


def page(findings: Mapping[str, Any]) -> str:
    """Write a comparison or a history as one self-contained HTML page."""
    many = findings["kind"] == "history"
    status = (findings["changes"][-1] if many else findings)["status"]
    tone, word = _STATUS[status]
    what = "Audits over time" if many else "Two audits compared"
    return page_frame.render(
        "comparison_page.html",
        findings,
        charts(findings),
        verdict={"status": tone, "word": word, "what": what},
        rows=[] if many else [_row(change) for change in findings["changes"]],
        audits=[{**audit, "verdict": VERDICTS[audit["status"]]} for audit in findings["audits"]] if many else [],
        steps=findings["changes"] if many else [],
    )


def _row(change: Mapping[str, Any]) -> dict[str, str]:
    name = change["name"]
    known = change["value"] is not None
    return {
        "name": _name(change),
        "before": amount(name, change["before"]),
        "after": amount(name, change["after"]),
        "difference": f"{change['value']:+.4f}" if known else "–",
        "limits": difference_limits(change["low"], change["high"]) if known else change["note"],
    }


def _name(change: Mapping[str, Any]) -> str:
    said = "" if change["estimator"] == "raw" else f" ({change['estimator']})"
    if _is_not_causal(change):
        said = f" ({_NOT_CAUSAL})"
    return f"{label(change['name'])}{said}"


def _is_not_causal(change: Mapping[str, Any]) -> bool:
    return bool(change["note"].startswith(_NOT_CAUSAL))


def _differences(findings: Mapping[str, Any]) -> dict[str, alt.LayerChart]:
    drawn = [
        c
        for c in findings["changes"]
        if c["value"] is not None and definition.of(c["name"]).bounded and not _is_not_causal(c)
    ]
    if not drawn:
        return {}
    rows = [
        {
            "name": _name(c).replace(", largest TPR − FPR", ""),
            "text": difference(c["value"], c["low"], c["high"]),
            **_limits(c),
        }
        for c in drawn
    ]
    title = f"{findings['after']} less {findings['before']}, with intervals"
    said = ["Right of the dashed line: more leakage. Intervals as for independent audits, wide where they are not."]
    return {
        "differences": interval_chart.intervals(rows, axis="difference", against=0.0, title=title, said=said),
    }


def _course(findings: Mapping[str, Any]) -> dict[str, alt.LayerChart]:
    drawn = [a for a in findings["audits"] if a["high"] is not None][-_MOST_DRAWN:]
    if not drawn:
        return {}
    names = distinct([audit["name"] for audit in drawn])
    rows = [{"name": names[a["name"]], "text": a["said"], **_limits(a)} for a in drawn]
    primary = findings["primary"]
    title = f"{label(primary)} over {len(drawn)} audits, oldest first"
    said = ["Dashed: an attack that knows nothing. A row without a point has an upper limit only."]
    return {
        "history": interval_chart.intervals(rows, axis=label(primary), against=chance(primary), title=title, said=said)
    }


def _limits(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("value", "low", "high")}
