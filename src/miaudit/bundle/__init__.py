"""Bundles: one file that repeats an audit, written, verified and challenged by independent parties."""

from miaudit.bundle.contents import Bundle, record
from miaudit.bundle.reading import read

__all__ = ["Bundle", "challenge", "read", "record", "verify"]
