"""The table of unused columns: what each says, and nothing where nothing was compared."""

from __future__ import annotations

from miaudit.causal.unused_columns import UnusedColumn, UnusedColumns
from miaudit.report.unused_columns import section


def test_rows_say_what_was_shown() -> None:
    apart = UnusedColumn("source", "category", 0.81, 0.2, True, 0.3, 0.1, True)
    alike = UnusedColumn("noise", "number", 0.51, None, False, 0.0, 0.0, False)
    found = section(UnusedColumns((apart, alike), left=3))
    assert found is not None
    assert [row["weighted"] for row in found["rows"]] == ["0.800", "–"]
    assert found["rows"][0]["result"] == "separates beyond the covariates; missing values differ"
    assert found["rows"][1]["result"] == "no difference shown"
    assert found["rows"][0]["members"] == "30%"
    assert found["rest"] == "3 more columns were not looked at."


def test_nothing_is_shown_where_nothing_was_compared() -> None:
    assert section(None) is None
