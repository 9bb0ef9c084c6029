"""A share as people write it: 0.05 or 5%."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["is_percent", "meant", "read"]

_PERCENT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*%\s*", flags=re.I)


def is_percent(value: object) -> bool:
    """Whether a value is a text such as 5% or 0.1 %.

    Examples
    --------
    >>> is_percent("5%"), is_percent("0.1 %"), is_percent("5"), is_percent("fat%")
    (True, True, False, False)
    """
    return isinstance(value, str) and _PERCENT.fullmatch(value) is not None


def read(value: Any) -> Any:
    """Return the number of a percent; any other value comes back as it is.

    Examples
    --------
    >>> read("5%"), read("0.1 %"), read("0.05"), read(0.05)
    (0.05, 0.001, '0.05', 0.05)
    """
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return float(f"{float(match[1]) / 100:.15g}") if match else value  # 0.07, and not 0.07 and a rounding error


def meant(value: Any) -> str:
    """Say how to write the share that a number above 1 probably means; empty where it means none.

    Examples
    --------
    >>> meant(5), meant("95"), meant(0.5), meant(500), meant("5 per cent")
    ('write 0.05 for 5%', 'write 0.95 for 95%', '', '', '')
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return ""
    return f"write {number / 100:g} for {number:g}%" if 1 < number < 100 else ""
