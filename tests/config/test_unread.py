"""Which keys nothing reads, by source and design; what the commands make of it is in command/test_unread_options.py."""

from __future__ import annotations

import pytest

from miaudit import Evidence
from miaudit.config.audit import OPTIONS, AuditConfig, TableConfig
from miaudit.config.section import options_in
from miaudit.config.unread import CIRCUMSTANCES, unread
from miaudit.errors.options import Option

GIVEN = "evaluation.propensity"
SAMPLE, MODEL, CLASSIFIER = (
    f"evaluation.{name}" for name in ("propensity_sample_path", "propensity_model", "classifier")
)


def names(*given: str, **known: object) -> set[str]:
    return {key for key, _, _ in unread(given, OPTIONS, **{"source": "table", "design": "zero-run", **known})}


def test_each_way_to_a_propensity_excludes_the_others() -> None:
    assert names(GIVEN) == names(SAMPLE) == names(MODEL) == names(SAMPLE, CLASSIFIER) == set()
    assert names(GIVEN, SAMPLE, MODEL, CLASSIFIER) == {SAMPLE, MODEL, CLASSIFIER}
    assert names(MODEL, CLASSIFIER) == names(MODEL, SAMPLE) == {MODEL}
    sides = ("evaluation.member_propensities_path", "evaluation.nonmember_propensities_path")
    assert names(*sides, CLASSIFIER, source="pair") == {CLASSIFIER}
    assert names(*sides) == set(sides)  # files of two sides say nothing of a table
    assert names(GIVEN, source="pair") == names(GIVEN, source="tokens") == {GIVEN}


@pytest.mark.parametrize("design", ["one-run", "multi-run"])
def test_of_drawn_memberships_nothing_is_learned(design: str) -> None:
    of_zero_run = {key for key, option in OPTIONS.items() if "zero-run" in option.applies}
    assert {MODEL, CLASSIFIER, SAMPLE, GIVEN, "privacy.margin", "reporting.raw_only"} < of_zero_run
    assert names(*of_zero_run, design=design) == of_zero_run


def test_every_circumstance_is_known_and_of_use() -> None:
    """An option whose circumstance is misspelt would be accepted everywhere."""
    used = {name for file in (AuditConfig, TableConfig) for *_, option in options_in(file) for name in option.applies}
    assert used == set(CIRCUMSTANCES)


def test_a_new_option_is_refused_by_what_it_says_of_itself() -> None:
    options = {"evaluation.caliper": Option("Widest match.", applies=("zero-run",)), "evaluation.any": Option("Any.")}
    refused = list(unread(options, options, "table", design="one-run"))
    assert refused == [("evaluation.caliper", "with design one-run", "it goes with zero-run")]
    assert list(unread(options, options, "table", design="zero-run")) == []


def test_an_option_of_several_circumstances_needs_them_all() -> None:
    margin = "privacy.margin"
    assert names(margin) == set()
    assert (
        names(margin, bounds=False) == names(margin, design="one-run") == names(margin, source="synthetic") == {margin}
    )


def test_without_covariates_there_is_nothing_to_learn_from() -> None:
    bare = Evidence(score=[0.0, 1.0], member=[0, 1], design="zero-run")
    assert names(SAMPLE, CLASSIFIER, evidence=bare) == {SAMPLE, CLASSIFIER}
    assert names(GIVEN, evidence=bare) == set()
    worded = bare.replace(text=["a", "b"])
    assert names(SAMPLE, CLASSIFIER, evidence=worded) == set()


def test_what_bounds_learn_with_goes_with_a_line_and_with_bounds() -> None:
    model = "evaluation.bounds_model"
    assert names(model) == names(model, MODEL) == set()
    assert names(model, GIVEN) == names(model, bounds=False) == names(model, design="one-run") == {model}
    assert names(model, CLASSIFIER) == names(model, SAMPLE) == {model}
