"""For the site: links that lead out of docs/ become the path in the repository, since the site stands alone."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace such links by their text and the path."""
    return _OUTSIDE.sub(lambda m: m[1] if m[2].strip("/") in m[1] else f"{m[1]} (`{m[2]}` in the repository)", markdown)
