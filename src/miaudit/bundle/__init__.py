"""One file with all that repeats an audit: written, verified and challenged by people who do not trust each other."""

from miaudit.bundle.contents import Bundle, record
from miaudit.bundle.reading import read

__all__ = ["Bundle", "challenge", "read", "record", "verify"]
