"""What all charts share: palette, names that fit, histogram of two classes, frame; and a chart as a picture, offline.

The renderer runs JavaScript, reserves tens of gigabytes of addresses for it, and ends its process where it cannot have
them. So where addresses are limited (``ulimit -v``, as on clusters) a process of its own draws: its end is an error.
Where they are not, such a process draws for a command (:func:`prepare`) while that goes on computing.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, lru_cache
from html import escape
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from miaudit.errors import MiauditError, one_line
from miaudit.metrics.rounding import percent
from miaudit.report import chart_program
from miaudit.report.vega_lite import Chart, Layer, Part, channel, constant, over

if TYPE_CHECKING:
    from miaudit.findings.audit import Histogram

WIDTH = 560

# Okabe and Ito's palette: told apart by readers with any of the common kinds of colour blindness.
BLUE, ORANGE, INK, GREY, RED = "#0072b2", "#d55e00", "#1c2530", "#6b7683", "#b3261e"
DARK_ORANGE = "#a34700"  # for words: the orange of shapes is too light to read
_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
_LOOK: Mapping[str, Any] = {
    "font": _FONT,
    "background": "white",
    "padding": 10,
    "title": {
        "anchor": "start",
        "fontSize": 16,
        "color": INK,
        "offset": 12,
        "subtitleFontSize": 12,
        "subtitleColor": "#47515c",
        "subtitlePadding": 5,
    },
    "axis": {
        "labelFontSize": 12,
        "labelSeparation": 6,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": "#9aa4ae",
        "tickColor": "#9aa4ae",
        "gridColor": "#e3e7eb",
    },
    "legend": {"labelFontSize": 12, "labelColor": INK, "columns": 3, "labelLimit": 165, "symbolOpacity": 0.85},
    "view": {"stroke": None, "continuousWidth": 300, "continuousHeight": 300},
    "mark": {"aria": False},  # the chart as a whole has a text alternative
}
_SCALE = 2.0  # pixels of a picture for each unit of its size
_NO_ROOM = (
    "figures cannot be drawn within {} GiB of addresses (ulimit -v); "
    "draw them where there is no such limit: miaudit report findings.json --overwrite"
)
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from miaudit.report import drawing; drawing.serve()"


def scaled(title: str, domain: Sequence[float] | None = None, zero: bool | None = None, **axis: Any) -> dict[str, Any]:
    """Scale, axis and title of a quantity: over a domain, or over what the data have, then with round ends."""
    held = {"domain": domain, "nice": domain is None, "zero": zero}
    scale: Any = {name: value for name, value in held.items() if value is not None}
    return {"scale": scale, "axis": axis, "title": title}


def tips(**titles: str) -> list[Part]:
    """What the pointer shows: the title of each field."""
    return [channel(f"{field}:N", title=title) for field, title in titles.items()]


def share(title: str) -> dict[str, Any]:
    """Scale, axis and title of a share of 0 to 1, with a grid."""
    return scaled(title, [0, 1], values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~%", grid=True)


def in_rows(field: str, limit: int, *, sort: Sequence[str] | None = None, title: str | None = None) -> Part:
    """A row for each name, with so many pixels for it; without ``sort`` in the order of the data."""
    axis = {"labelLimit": limit, "ticks": False, "domain": False, "labelPadding": 8}
    return channel(f"{field}:N", sort=sort, title=title, axis=axis)


def upright(at: float, x: Mapping[str, Any], colour: str, *, width: float = 1.5, **look: Any) -> Layer:
    """A line from the bottom to the top of a chart."""
    line: Layer = over([{"at": at}]).mark("rule", color=colour, strokeWidth=width, **look)
    return line.encode(x=channel("at:Q", **x))


def coloured(field: str, colours: Mapping[str, str], **legend: Any) -> Part:
    """A colour for each kind, with a legend above the chart."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return channel(f"{field}:N", scale=scale, legend=dict(orient="top", title=None, **legend))


def finished(layers: Sequence[Layer], title: str, sentences: Sequence[str], description: str, height: int) -> Chart:
    """Put layers into one chart with its title, sentences under it, and its text alternative.

    ``height`` is in pixels. Title and words are wrapped so that they fit the width of a picture.
    """
    lines = [line for text in sentences for line in textwrap.wrap(text, 100)]
    heading = {"text": textwrap.wrap(title, 72), "subtitle": lines}
    return Chart(list(layers), heading, description, WIDTH, height, _LOOK)


def distinct(names: Sequence[str], most: int = 36) -> dict[str, str]:
    """Shorten names to ``most`` characters so that they can be drawn, and keep them distinct.

    Examples
    --------
    >>> list(distinct(["region: north-east, rural", "region: north-east, urban"], 18).values())
    ['region: nor…rural', 'region: nor…urban']
    >>> list(distinct(["a b c d e f", "a b x d e f"], 6).values())
    ['a b…f', 'a b…f #2']
    """
    shortened: dict[str, str] = {}
    taken: set[str] = set()
    for i, name in enumerate(names):
        text = short(name, most)
        shortened[name] = f"{text} #{i + 1}" if text in taken else text
        taken.add(shortened[name])
    return shortened


def short(name: str, most: int = 36) -> str:
    """A name in one line of printable characters: Vega cannot parse a title with a line separator in it.

    A long name loses its middle, since names that belong together often differ at their ends only.
    """
    name = one_line(name)
    if len(name) <= most:
        return name
    tail = (most - 1) * 2 // 5
    return f"{name[: most - 1 - tail].rstrip()}…{name[-tail:].lstrip()}"


def histogram(shape: Histogram, axis: str, of: str) -> list[Layer]:
    """Shares of members and non-members in bins of ``of``; the end bins are named as tails."""
    edges = shape.edges
    top = max(*shape.members, *shape.nonmembers) * 1.14
    x = scaled(axis, [edges[0], edges[-1]], zero=False, grid=False, tickCount=7)
    y = scaled("Share of the class in each bin", [0, top], format="~%", tickCount=5)
    steps, look = _steps(shape), {"columns": 2, "symbolType": "square", "symbolStrokeWidth": 0}
    colour = coloured("class", {"members": BLUE, "non-members": ORANGE}, **look)
    across, up = channel("score:Q", **x), channel("share:Q", stack=None, **y)
    fill = over(steps).mark("area", interpolate="step-after", fillOpacity=0.26)
    outlines = [
        over([row for row in steps if row["class"] == kind])
        .mark("line", interpolate="step-after", strokeWidth=2, strokeDash=dash)
        .encode(x=across, y=up, color=colour)
        for kind, dash in (("members", [1, 0]), ("non-members", [5, 3]))
    ]
    return [fill.encode(x=across, y=up, color=colour), *outlines, *_tail_names(edges, x), _bins(shape, x, of)]


def _steps(shape: Histogram) -> list[dict[str, Any]]:
    return [
        {"score": edge, "share": share, "class": kind}
        for kind, shares in (("members", shape.members), ("non-members", shape.nonmembers))
        for edge, share in zip(shape.edges, [*shares, shares[-1]], strict=True)
    ]


def _bins(shape: Histogram, x: dict[str, Any], of: str) -> Layer:
    """Invisible bars that answer the pointer."""
    edges, last = shape.edges, len(shape.members) - 1
    rows = []
    for i, (inside, outside) in enumerate(zip(shape.members, shape.nonmembers, strict=True)):
        left, right = ("below" if i == 0 else f"{edges[i]:g} to"), ("and above" if i == last else f"{edges[i + 1]:g}")
        words = {"range": f"{left} {right}", "members": percent(inside), "nonmembers": percent(outside)}
        rows.append({"left": edges[i], "right": edges[i + 1], **words})
    places: dict[str, Any] = {"x": channel("left:Q", **x), "x2": "right:Q", "y": constant(0), "y2": constant("height")}
    bars: Layer = over(rows).mark("rect", opacity=0).encode(**places)
    return bars.encode(tooltip=tips(range=of, members="Members", nonmembers="Non-members"))


def _tail_names(edges: Sequence[float], x: dict[str, Any]) -> list[Layer]:
    ends: tuple[tuple[Literal["left", "right"], float, str, int], ...] = (
        ("left", edges[0], f"‹ and all below {edges[1]:g}", 4),
        ("right", edges[-1], f"{edges[-2]:g} and above ›", -4),
    )
    return [
        over([{"at": at, "text": text}])
        .mark("text", align=side, dx=dx, baseline="top", fontSize=11, color="#47515c")
        .encode(x=channel("at:Q", **x), y=constant(3), text="text:N")
        for side, at, text, dx in ends
    ]


# -- a chart as a picture ----------------------------------------------------------------------------------------------


class DrawingError(MiauditError):
    """The renderer died; what it was to draw cannot be drawn here."""


def reason_in(text: str) -> str:
    """Find why a page could not be drawn with its figures where it was made; empty where it does not say so.

    Examples
    --------
    >>> reason_in("<p>" + _NO_ROOM.format("1.5") + ".</p>").startswith("figures cannot be drawn within 1.5 GiB")
    True
    >>> reason_in("figures cannot be drawn within no GiB")
    ''
    """
    reason = re.search(re.escape(_NO_ROOM).replace(r"\{\}", "[0-9.e+-]{1,12}"), text)
    return reason[0] if reason else ""


def svg(spec: Mapping[str, Any]) -> str:
    """Render a Vega-Lite specification (``chart.to_dict()``) as SVG text, offline; equal ones give equal text.

    A chart with its title has it, and its text alternative, as ``<title>`` and ``<desc>``.

    Raises
    ------
    DrawingError
        If the renderer dies for want of addresses, here as below.
    """
    picture = _result_of("svg", json.dumps(_still(spec))).decode()
    # The renderer numbers its clipping paths through the life of the process.
    numbers = {name: f"clip{i}" for i, name in enumerate(re.findall(r'<clipPath id="(clip\d+)"', picture))}
    picture = re.sub(r'(<clipPath id="|clip-path="url\(#)(clip\d+)', lambda m: m[1] + numbers.get(m[2], m[2]), picture)
    title = spec.get("title")
    if not isinstance(title, Mapping) or "description" not in spec:  # inside a page, which says them itself
        return picture
    text = title["text"] if isinstance(title["text"], str) else " ".join(title["text"])
    words = (one_line(text), one_line(spec["description"]))
    return picture.replace(">", ' role="img"><title>{}</title><desc>{}</desc>'.format(*map(escape, words)), 1)


def png(spec: Mapping[str, Any], scale: float = _SCALE) -> bytes:
    """Render a Vega-Lite specification as PNG bytes, offline; ``scale`` pixels for each unit of its size."""
    return _result_of("png", json.dumps(_still(spec)), scale)


@cache
def program() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that can stand inside a page."""
    text = chart_program.program(lambda: _result_of("program").decode().replace("\r", ""))
    if "</script" in text.lower() or "<!--" in text:
        raise RuntimeError("the charts' program cannot stand inside a page: it holds the end of a script")
    return text


def prepare() -> None:
    """Let a process of its own draw from now on, where there are cores for it, and make ready what a page needs."""
    if (os.cpu_count() or 1) > 1 and sys.executable:
        _renderer(os.getpid())
        if chart_program.stored() is None:
            _ahead("program")


def draw_ahead(specs: Iterable[Mapping[str, Any]], *, pictures: bool = False) -> None:
    """Let charts be drawn that :func:`svg`, and with ``pictures`` also :func:`png`, are asked for later."""
    for text in map(json.dumps, map(_still, specs)):
        _ahead("svg", text)
        if pictures:
            _ahead("png", text, _SCALE)


def serve() -> None:
    """Answer requests of another process, a line each, until it ends."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        print(base64.b64encode(_draw(*json.loads(line))).decode(), flush=True)  # noqa: T201 - to the process that asks


def _still(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chart without the invisible marks that answer the pointer: in a picture they show nothing, and cost time."""
    layers = [layer for layer in spec.get("layer", ()) if _is_seen(layer.get("mark"))]
    return {**spec, "layer": layers} if layers else spec


def _is_seen(mark: object) -> bool:
    return not (isinstance(mark, Mapping) and mark.get("opacity") == 0)


def _result_of(what: str, *of: Any) -> bytes:
    return _ahead(what, *of).result()


def _ahead(what: str, *of: Any) -> Future[bytes]:
    process = os.getpid()
    apart = _limit() is not None and bool(sys.executable)
    return _answer(process, apart or process in _renderers, what, *of)


@lru_cache(maxsize=64)
def _answer(process: int, apart: bool, what: str, *of: Any) -> Future[bytes]:
    if apart:
        return _renderer(process).submitted(what, *of)
    answer: Future[bytes] = Future()
    answer.set_result(_draw(what, *of))
    return answer


def _draw(what: str, *of: Any) -> bytes:
    import vl_convert

    match what:
        case "svg":
            return _vector(of[0]).encode()
        case "png":
            return bytes(vl_convert.svg_to_png(_vector(of[0]), scale=of[1]))
    everything: Any = vl_convert.javascript_bundle
    return str(everything()).encode()


@lru_cache(maxsize=2)  # the vector and the picture of a chart are asked for one after the other
def _vector(spec: str) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def _limit() -> int | None:
    """Bytes of addresses that a process may have, if they are limited."""
    with contextlib.suppress(ImportError):  # Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if limit == resource.RLIM_INFINITY else limit
    return None


class _Renderer:
    """A process that draws for the life of the process that asks: what is asked of it is answered in turn."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-c", _PROGRAM, *(path for path in sys.path if path)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(words, text=True, encoding="utf-8", **pipes)  # noqa: S603 - our own words
        self._waiting: SimpleQueue[tuple[Future[bytes], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()
        atexit.register(self._end)

    def submitted(self, *request: Any) -> Future[bytes]:
        answer: Future[bytes] = Future()
        self._waiting.put((answer, request))
        return answer

    def _work(self) -> None:
        while True:
            answer, request = self._waiting.get()
            try:
                answer.set_result(self._draw(*request))
            except BaseException as error:
                answer.set_exception(error)

    def _draw(self, *request: Any) -> bytes:
        pipe, output = self._process.stdin, self._process.stdout
        assert pipe is not None and output is not None  # noqa: S101 - pipes, as above
        try:
            pipe.write(json.dumps(request) + "\n")
            pipe.flush()
            answer = output.readline()
        except OSError:
            answer = ""
        if answer:
            return base64.b64decode(answer)
        limit = _limit()
        if limit is None:
            return _draw(*request)
        raise DrawingError(_NO_ROOM.format(f"{limit / 2**30:.3g}"))

    def _end(self) -> None:
        self._process.kill()  # a thread that waits for an answer has none, and lets go of the pipe
        self._process.wait()


_renderers: dict[int, _Renderer] = {}


def _renderer(process: int) -> _Renderer:
    if process not in _renderers:
        _renderers[process] = _Renderer()
    return _renderers[process]
