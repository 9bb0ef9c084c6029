"""The designs in words, the same on every page: how it was decided who was a member."""

from __future__ import annotations

__all__ = ["in_words"]

_NOT_DECLARED = "not declared"
_WORDS = {
    "one-run": "one-run: one model, members assigned at random",
    "multi-run": "multi-run: one model for each record, members assigned at random",
    "matched": "matched: random strings, beside decoys of the same law",
    "zero-run": "zero-run: members not assigned at random",
    None: _NOT_DECLARED,
}


def in_words(design: str | None, *, runs: int = 1, records: int = 0) -> str:
    """Say a design, and for ``runs`` of the same training on so many ``records`` how many there were.

    Examples
    --------
    >>> in_words("one-run")
    'one-run: one model, members assigned at random'
    >>> in_words("one-run", runs=3, records=1200)
    'one-run: 3 runs on 1,200 records, members assigned at random anew in each'
    """
    if runs > 1:
        return f"{design}: {runs} runs on {records:,} records, members assigned at random anew in each"
    return _WORDS.get(design or None, _NOT_DECLARED)
