"""Columns of evidence: named ones, saved ones, and what may be missing in them."""

from __future__ import annotations

import pytest

from miaudit.errors import InputError
from miaudit.io.evidence_columns import EvidenceColumns

SAVED = ("score.a", "score.b", "member", "covariate.age", "text", "unit", "run", "design", "source", "note")


def test_without_a_name_the_saved_columns_are_wanted_and_no_others() -> None:
    columns = EvidenceColumns.of(SAVED)
    assert columns.scores == ("score.a", "score.b") and not columns.named
    assert columns.wanted == [name for name in SAVED if name != "note"]
    assert columns.labels == ["text", "unit", "run"] and columns.group is None
    assert columns.gaps == ["covariate.age"]


def test_a_named_score_wants_only_what_is_named_and_where_it_came_from() -> None:
    columns = EvidenceColumns.of(SAVED, score="note", covariates=["covariate.age"], categories="covariate.age")
    assert columns.named
    assert columns.wanted == ["note", "member", "covariate.age", "design", "source"]
    assert columns.categories == ("covariate.age",)


def test_a_covariate_that_is_a_label_or_a_score_too_has_no_gaps() -> None:
    columns = EvidenceColumns.of(SAVED, score="score.a", unit="unit", covariates=["unit", "score.a", "note"])
    assert columns.gaps == ["note"]


def test_names_take_the_place_of_saved_columns() -> None:
    columns = EvidenceColumns.of(SAVED, unit="note", covariates=(), member="design")
    assert (columns.unit, columns.covariates, columns.member) == ("note", (), "design")


def test_a_file_without_a_score_is_refused_by_what_it_has() -> None:
    with pytest.raises(InputError, match="it has loss, member"):
        EvidenceColumns.of(["loss", "member"])
