"""A chart's specification as a picture, offline: SVG text and PNG bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def svg(spec: Mapping[str, Any]) -> str:
    """Render a Vega-Lite specification (``chart.to_dict()``) as SVG text, offline; equal ones give equal text."""
    import vl_convert

    drawn = str(vl_convert.vegalite_to_svg(json.dumps(spec), allowed_base_urls=[]))
    # The renderer numbers its clipping paths through the life of the process.
    numbers = {name: f"clip{i}" for i, name in enumerate(re.findall(r'<clipPath id="(clip\d+)"', drawn))}
    return re.sub(r'(<clipPath id="|clip-path="url\(#)(clip\d+)', lambda m: m[1] + numbers.get(m[2], m[2]), drawn)


def png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """Render a Vega-Lite specification as PNG bytes, offline; ``scale`` pixels for each unit of its size."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(json.dumps(spec), scale=scale, allowed_base_urls=[]))
