"""Count what a reader has to read: pages, words, and habits that plain English does without.

``python tools/words.py [FILE ...]`` counts README and ``docs/``, code blocks and pictures left out. Pages of the
Python interface (``docs/api``) are made from docstrings; they and ``docs/commands.md``, which is made from the help,
are not counted as words.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE = ("commands.md",)
HABITS = {
    "semicolons": r";",
    "whoever": r"\bwhoever\b",
    "nobody": r"\bnobody\b",
    "afterwards you": r"\bafterwards you\b",
    "told": r"\btold\b",
    "is no, is none": r"\bis (?:no|none)\b",
}


def pages() -> list[Path]:
    """Return README and the written pages of ``docs/``."""
    written = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "papers").glob("*.md")]
    return [ROOT / "README.md", *sorted(path for path in written if path.name not in MADE)]


def prose(text: str) -> str:
    """Return a page without blocks of code, HTML and the targets of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"&\w+;", " ", text)


def words(text: str) -> int:
    """Return the number of words of a text: those with a letter or a digit."""
    return sum(bool(re.search(r"\w", one)) for one in text.split())


def counts(text: str) -> dict[str, int]:
    """Return the number of words and of each habit in the prose of a page."""
    plain = prose(text)
    without_code = re.sub(r"`[^`\n]*`", " ", plain)
    return {"words": words(plain)} | {
        name: len(re.findall(habit, without_code, flags=re.IGNORECASE)) for name, habit in HABITS.items()
    }


def main() -> None:
    """Print a row for each page, then the sum."""
    chosen = [Path(name) for name in sys.argv[1:]] or pages()
    rows = {path.name: counts(path.read_text(encoding="utf-8")) for path in chosen}
    columns = ["words", *HABITS]
    print(f"{'':<32}" + "".join(f"{name:>16}" for name in columns))
    for name, row in rows.items():
        print(f"{name:<32}" + "".join(f"{row[column]:>16}" for column in columns))
    print(f"{len(rows):<32}" + "".join(f"{sum(row[column] for row in rows.values()):>16,}" for column in columns))


if __name__ == "__main__":
    main()
