"""A chart's specification as a picture, offline: SVG text and PNG bytes.

The renderer runs JavaScript, reserves tens of gigabytes of addresses for it, and ends its process where it cannot have
them. So where addresses are limited (``ulimit -v``, as on clusters) a process of its own draws: its end is an error.
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
from collections.abc import Mapping
from functools import cache
from typing import Any

from miaudit.errors import MiauditError

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from miaudit.report import chart_images; chart_images.serve()"


class DrawingError(MiauditError):
    """The renderer died; what it was to draw cannot be drawn here."""


def svg(spec: Mapping[str, Any]) -> str:
    """Render a Vega-Lite specification (``chart.to_dict()``) as SVG text, offline; equal ones give equal text.

    Raises
    ------
    DrawingError
        If the renderer dies for want of addresses, here as below.
    """
    drawn = _asked("svg", json.dumps(spec)).decode()
    # The renderer numbers its clipping paths through the life of the process.
    numbers = {name: f"clip{i}" for i, name in enumerate(re.findall(r'<clipPath id="(clip\d+)"', drawn))}
    return re.sub(r'(<clipPath id="|clip-path="url\(#)(clip\d+)', lambda m: m[1] + numbers.get(m[2], m[2]), drawn)


def png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """Render a Vega-Lite specification as PNG bytes, offline; ``scale`` pixels for each unit of its size."""
    return _asked("png", json.dumps(spec), scale)


@cache
def program() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that can stand inside a page."""
    text = _asked("program").decode().replace("\r", "")
    if "</script" in text.lower() or "<!--" in text:
        raise RuntimeError("the charts' program cannot stand inside a page: it holds the end of a script")
    return text


def serve() -> None:
    """Answer requests of another process, a line each, until it ends."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        print(base64.b64encode(_drawn(*json.loads(line))).decode(), flush=True)  # noqa: T201 - to the process that asks


def _asked(what: str, *of: Any) -> bytes:
    limit = _limit()
    if limit is None or not sys.executable:
        return _drawn(what, *of)
    try:
        renderer = _renderer(os.getpid())
        assert renderer.stdin is not None and renderer.stdout is not None  # noqa: S101 - pipes, as below
        renderer.stdin.write(json.dumps([what, *of]) + "\n")
        renderer.stdin.flush()
        answer = renderer.stdout.readline()
    except OSError:
        answer = ""
    if not answer:
        raise DrawingError(
            f"figures cannot be drawn within {limit / 2**30:.3g} GiB of addresses (ulimit -v); "
            "draw them where there is no such limit: miaudit report findings.json --overwrite"
        )
    return base64.b64decode(answer)


def _drawn(what: str, *of: Any) -> bytes:
    import vl_convert

    match what:
        case "svg":
            return str(vl_convert.vegalite_to_svg(of[0], allowed_base_urls=[])).encode()
        case "png":
            return bytes(vl_convert.vegalite_to_png(of[0], scale=of[1], allowed_base_urls=[]))
    everything: Any = vl_convert.javascript_bundle
    return str(everything()).encode()


def _limit() -> int | None:
    """Bytes of addresses that a process may have, if they are limited."""
    with contextlib.suppress(ImportError):  # Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if limit == resource.RLIM_INFINITY else limit
    return None


@cache
def _renderer(_asking: int) -> subprocess.Popen[str]:
    """One renderer for the life of the process that asks; it ends when its standard input does."""
    words = [sys.executable, "-I", "-c", _PROGRAM, *(path for path in sys.path if path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    renderer = subprocess.Popen(words, text=True, encoding="utf-8", **pipes)  # noqa: S603 - this interpreter, our words
    atexit.register(_end, renderer)
    return renderer


def _end(renderer: subprocess.Popen[str]) -> None:
    for pipe in (renderer.stdin, renderer.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    renderer.kill()
    renderer.wait()
