"""Options of corrections in the words of a file and of the command line: the same records, and refusals that help."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from miaudit.auditing.plan import Bounds, Plan
from miaudit.bundle import written_plan
from miaudit.dp.zero_run import Composition, Conditional, Scheffe, SeedStable, StandardErrors, Thinning
from miaudit.dp.zero_run.correction_options import OPTIONS, correction_said
from miaudit.errors import InputError

SAME = [
    ("thinning", "thinning", "thinning"),
    ("conditional:aware,signed", {"kind": "conditional", "aware": True, "signed": True}, Conditional(True, True)),
    (
        "conditional: margin = 0.1, smallest=500, signed=false",
        {"kind": "conditional", "margin": 0.1, "smallest": 500, "signed": False},
        Conditional(margin=0.1, smallest=500),
    ),
    (
        "composition:eta=0.1,delta-ds=0.01",
        {"kind": "composition", "eta": 0.1, "delta_ds": 0.01},
        Composition(0.1, 0.01),
    ),
    ("composition:closeness=1", {"kind": "composition", "closeness": 1}, Composition(closeness=1.0)),
    (
        "thinning:half-width=0.2,seeds=40",
        {"kind": "thinning", "half_width": 0.2, "seeds": 40},
        Thinning(0.2, SeedStable()),
    ),
    ("thinning:standard-errors=3", {"kind": "thinning", "standard_errors": 3}, Thinning(StandardErrors(3.0))),
    ("thinning:scheffe=0.5,seeds=1", {"kind": "thinning", "scheffe": 0.5, "seeds": 1}, Thinning(Scheffe(0.5))),
]


@pytest.mark.parametrize(("typed", "filed", "meant"), SAME)
def test_both_doors_lead_to_the_record(typed: str, filed: object, meant: object) -> None:
    for said in (typed, filed):
        found = correction_said(said)
        assert type(found) is type(meant)
        assert isinstance(meant, str) or vars(found) == vars(meant)


@pytest.mark.parametrize(("typed", "filed", "meant"), SAME)
def test_a_bundle_holds_it_and_a_plan_says_it_in_plain_values(typed: str, filed: object, meant: object) -> None:
    del filed, meant
    plan = Plan(bounds=Bounds(correction=correction_said(typed)))
    again = written_plan.decode(written_plan.encode(plan))
    assert again.to_dict() == plan.to_dict()


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("conditionl:aware", "correction: expected thinning, conditional, composition, received 'conditionl'; did you"),
        ({"aware": True}, "correction: expected thinning, conditional, composition, received 'none'"),
        (7, "correction: expected thinning, conditional, composition, received '7'"),
        ("conditional:awre", "options of conditional (aware, signed, margin, smallest), received 'awre'; did you mean"),
        ("conditional:eta=0.1", "options of conditional (aware, signed, margin, smallest), received 'eta'"),
        ("conditional:aware=maybe", "correction.aware: expected true or false, received 'maybe'"),
        ("composition:eta=0.7", "correction.eta: expected a number in (0, 0.5], received 0.7"),
        ("composition:eta", "correction.eta: expected a number, received true"),
        ("composition:eta=nan", "correction.eta: expected a number in (0, 0.5], received nan"),
        ({"kind": "conditional", "smallest": 5.5}, "correction.smallest: expected 1 or more, received 5.5"),
        ("thinning:seeds=3", "correction.seeds: expected 1, or 4 to 1,000 sets of coins, received 3"),
        ("thinning:half-width=0.1,scheffe=0.5", "correction.scheffe: expected none, beside half_width"),
        ("composition:whole,eta=0.1", "whole: expected false where the shift is stated, received true"),
        ("composition:whole=2", "correction.whole: expected true or false, received '2'"),
        ("composition:eta=0.1,closeness=1", "expected one of eta, closeness, sample and tradeoff, received several"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(said: object, line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        correction_said(said)


def test_every_option_of_a_published_correction_can_be_said() -> None:
    """A new field of a record is thought about here; samples, arrays and functions are no words."""
    widths = {"standard_errors", "scheffe"}
    for kind, record in {"thinning": Thinning, "conditional": Conditional, "composition": Composition}.items():
        assert set(OPTIONS[kind]) - widths == {field.name for field in fields(record)} - {"sample", "tradeoff"}


def test_the_whole_function_of_a_shift_can_be_said() -> None:
    for said in ("composition:whole,share=0.3", {"kind": "composition", "whole": True, "share": 0.3}):
        option = correction_said(said)
        assert isinstance(option, Composition)
        assert (option.whole, option.share, option.tradeoff) == (True, 0.3, None)
