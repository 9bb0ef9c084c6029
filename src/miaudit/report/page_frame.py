"""What every page has: one self-contained file, its style, its charts, and a policy under which nothing is loaded."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from miaudit.findings.verdict import word_of
from miaudit.report import drawing
from miaudit.report.vega_lite import Drawn

if TYPE_CHECKING:
    import jinja2

Spec = dict[str, Any]
_ONE = r"[+\-−]?[0-9][0-9.,]*(?:e[+\-]?[0-9]+)?%?"
_NUMBER = re.compile(
    rf"<td>(?P<value>(?:at (?:least|most) |[≤≥] )?{_ONE}(?: to {_ONE})?)"
    rf"(?: \((?P<below>{_ONE} (?:to|of) {_ONE})\))?(?=<)"
)
_POWER = re.compile(r"(?<![\w.])[0-9][0-9.]*e-[0-9]+(?=[^<>]*<)")  # breaks after its hyphen
WORDS = {status: word_of(status) for status in ("flagged", "clear", "inconclusive", "not-testable", "refused")}


@dataclass(frozen=True)
class Built:
    """The charts of one set of findings, built once for the page and for the files of its figures.

    Attributes
    ----------
    specs : the specification of each chart by name, in the order of the page
    missing : why there are none, in words; empty where nothing is missing
    """

    specs: Mapping[str, Spec]
    missing: str = ""


def built(charts: Mapping[str, Drawn]) -> Built:
    """Return the specifications of charts."""
    return Built({name: chart.to_dict(validate=False) for name, chart in charts.items()})


def render(
    template: str,
    findings: Any,
    charts: Mapping[str, Drawn] | Built,
    *,
    programs: Sequence[str] = (),
    **values: Any,
) -> str:
    """Write a page from a template that extends ``frame.html``.

    Parameters
    ----------
    template : str
        Name of a file in this folder. It fills the blocks ``title``, ``heading``, ``main`` and, where a program of its
        own reads plain values, ``data``; ``{{ figure(name) }}``, imported from ``parts.html``, places a chart.
    findings : record or mapping
        Findings as they are written to findings.json; the template knows them as ``f``.
    charts : mapping of str to chart, or Built
        Made with :func:`miaudit.report.drawing.finished`; one that the template does not place must not be passed.
    programs : sequence of str
        Names of script files in this folder, allowed by their digests and run after the charts.
    values
        What else the template uses. All text is escaped.

    Returns
    -------
    str
        The page. Equal arguments give equal text. Where charts cannot be drawn it says so, and has none.
    """
    shown = charts if isinstance(charts, Built) else built(charts)
    undrawn, specs = shown.missing, shown.specs
    try:
        drawing.draw_ahead(map(_untitled, specs.values()))
        pictures = {name: _figure(spec) for name, spec in specs.items()}
        scripts = [drawing.program(), _text("frame.js")] if pictures else []
    except drawing.DrawingError as error:
        undrawn, pictures, scripts = str(error), {}, []
    return (
        _environment()
        .get_template(template)
        .render(
            f=findings,
            figures=pictures,
            specs={name: figure["spec"] for name, figure in pictures.items()},
            undrawn=undrawn,
            scripts=[*scripts, *map(_text, programs)],
            style=_text("frame.css"),
            **values,
        )
    )


def digest(script: str) -> str:
    """Return the source expression that allows exactly this script in a content security policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode() + "'"


def data(value: Any) -> Any:
    """Write JSON that cannot end the script element that it stands in."""
    import markupsafe

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return markupsafe.Markup(text)  # noqa: S704 - escaped for its place just above


def labelled(rows: str, names: Sequence[str]) -> Any:
    """Write the name of its column into each cell of a table's rows: on a phone a row is a card, without a header.

    A cell with a dash alone is marked, too: a card leaves it out. A number stays on one line, and what stands in
    brackets after it goes below it.

    Examples
    --------
    >>> str(labelled('<tr><th scope="row">AUC</th><td>raw</td></tr>', ["Metric", "Estimator"]))
    '<tr><th data-label="Metric" scope="row">AUC</th><td data-label="Estimator">raw</td></tr>'
    >>> str(labelled("<tr><td>0.6 (0.5 to 0.7)</td></tr>", ["Value"]))
    '<tr><td data-label="Value" class="number">0.6<small class="limits">0.5 to 0.7</small></td></tr>'
    """
    import markupsafe

    rows = _POWER.sub(r'<span class="whole">\g<0></span>', _NUMBER.sub(_stacked, rows))

    def row(match: re.Match[str]) -> str:
        columns = (markupsafe.escape(" ".join(name.split())) for name in names)
        return re.sub(r"<t[dh]\b", lambda cell: f'{cell[0]} data-label="{next(columns, "")}"', match[0])

    rows = re.sub(r"<tr\b.*?</tr>", row, rows, flags=re.DOTALL).replace(">–</td>", " data-none>–</td>")
    return markupsafe.Markup(rows)  # noqa: S704 - was escaped before


def _stacked(cell: re.Match[str]) -> str:
    """A cell with a number: its interval, or the counts behind it, in small print below."""
    below = f'<small class="limits">{cell["below"]}</small>' if cell["below"] else ""
    return f'<td class="number">{cell["value"]}{below}'


def _untitled(spec: Spec) -> Spec:
    """A chart without its title, which the page has as a caption."""
    return {key: part for key, part in spec.items() if key != "title"}


def _figure(spec: Spec) -> dict[str, Any]:
    """A chart as a caption, a still picture, and a specification that follows the width of the page."""
    title, live = spec["title"], copy.deepcopy(_untitled(spec))
    still = base64.b64encode(drawing.svg(_untitled(spec)).encode()).decode()
    live["width"] = "container"
    live["config"]["legend"].update(columns=1, labelLimit=240)  # a phone has room for one name in a row
    live["autosize"] = {"type": "fit-x", "contains": "padding"}
    return {
        "title": " ".join(title["text"]),
        "said": " ".join(title.get("subtitle", [])),
        "alternative": spec["description"],
        "still": f"data:image/svg+xml;base64,{still}",
        "spec": live,
    }


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["digest"] = digest
    environment.filters["data"] = data
    environment.filters["labelled"] = labelled
    return environment


@cache
def _text(name: str) -> str:
    return resources.files("miaudit.report").joinpath(name).read_text(encoding="utf-8")
