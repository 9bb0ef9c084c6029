"""For the site: links that lead out of docs/ become paths, and blocks of commands consoles, copied without output."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = (
    r"\[([^\]]+)\]\((?:\.\./){{{depth}}}([^.)#][^)#]*)(?:#[^)]*)?\)"  # out of docs/, from a page so many folders deep
)
_COMMANDS = re.compile(r"^```\n(?=\$ )", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Replace links out of docs/ by text and path, since the site stands alone; mark blocks of commands."""
    depth = 1 if page is None else 1 + page.file.src_uri.count("/")
    inside = re.sub(
        _OUTSIDE.format(depth=depth),
        lambda m: m[1] if m[2].strip("/") in m[1] else f"{m[1]} (`{m[2]}` in the repository)",
        markdown,
    )
    return _COMMANDS.sub("```console\n", inside)
