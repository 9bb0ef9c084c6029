"""Finished results, one record for each kind: they hold the records of the statistics, and are what pages read."""

__all__ = [
    "about",
    "audit",
    "comparison",
    "disclosure",
    "extraction",
    "kind",
    "kinds",
    "plain_words",
    "release",
    "table",
    "verdict",
]
