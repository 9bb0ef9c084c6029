"""Bundles: one file that repeats an audit, written, verified and challenged by independent parties."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

if TYPE_CHECKING:
    from miaudit.bundle.contents import Bundle
    from miaudit.bundle.reading import read
    from miaudit.bundle.recording import record

__all__ = ["Bundle", "challenge", "read", "record", "verify"]

_HOMES = {"Bundle": "contents", "read": "reading", "record": "recording"}
__getattr__, __dir__ = on_demand(__name__, __all__, _HOMES)
