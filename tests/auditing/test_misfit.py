"""What a refuted propensity misses, in words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from miaudit import Evidence, Plan
from miaudit.auditing import misfit
from miaudit.causal import lack_of_fit


@pytest.mark.parametrize(
    ("missed", "said"),
    [
        (("education = 9",), "40.0% of members have education = 9, and 10.0% of the weighted non-members: add"),
        (("education",), "declare education as categories"),
        (("site = 2",), "site = 2"),  # the name of a column may read like a level
        (("hours", "education = 9"), "education"),
        (("hours, curved",), "of members have high hours"),
    ],
)
def test_a_level_that_still_stands_out_is_said_with_what_to_do(missed: tuple[str, ...], said: str) -> None:
    education = np.r_[np.repeat([9.0, 1.0, 2.0], [40, 30, 30]), np.repeat([9.0, 1.0, 2.0], [10, 45, 45])]
    x = np.column_stack([education, np.arange(200.0) / 7, np.arange(200.0) / 9])
    names = ("education", "hours", "site = 2")
    evidence = Evidence(score=education, member=np.arange(200) < 100, covariates=x, covariate_names=names)
    fit = lack_of_fit.LackOfFit(0.0, lack_of_fit.STACKED_LIMIT, 3.6, 3.5, missed[:1], missed, True)
    learned = SimpleNamespace(stacked=True, odds=np.ones(200))
    text = misfit.in_words(fit, evidence, learned, Plan())
    assert said in text
    assert "of the weighted non-members: add" in text


def refuted(missed: tuple[str, ...], rejected: bool = True) -> lack_of_fit.LackOfFit:
    return lack_of_fit.LackOfFit(9.0, lack_of_fit.LIMIT, 1.0, 4.0, (), missed, rejected)


def test_a_way_to_a_bound_is_named_only_where_it_gives_one() -> None:
    """Codes to declare, as long as 40 records for each level are left; the default model; else nothing."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.arange(2000) % 30, rng.normal(size=2000)])
    evidence = Evidence(score=x[:, 1], member=np.arange(2000) < 1000, covariates=x, covariate_names=("site", "pay"))
    line = SimpleNamespace(features=x)
    ways = {
        (missed, n, model): misfit.way_to_a_bound(
            refuted((missed,)), evidence.take(np.arange(n)), line, Plan(bounds_model=model)
        )
        for missed in ("site", "pay")
        for n in (2000, 1200)
        for model in ("line", "line-or-screened")
    }
    declare = "Next: declare site as categories (--categories)."
    assert {key for key, text in ways.items() if text == declare} == {
        ("site", 2000, "line"),
        ("site", 2000, "line-or-screened"),
    }
    assert all("leave out bounds_model: line" in ways[key] for key in ways if key[2] == "line" and ways[key] != declare)
    assert not any(ways[key] for key in ways if key[2] == "line-or-screened" and key[:2] != ("site", 2000))
    assert not misfit.way_to_a_bound(refuted(("site",), rejected=False), evidence, line, Plan())
    assert not misfit.way_to_a_bound(None, evidence, line, Plan())
    assert not misfit.way_to_a_bound(refuted(("site",)), evidence, line, Plan(categories=("site",)))


@pytest.mark.parametrize(
    ("logistic", "rows", "text"),
    [
        (True, 500.0, "leave out propensity_model: line"),
        (False, 500.0, "leave out the classifier"),
        (False, None, "leave out the propensities that were given"),
    ],
)
def test_a_refused_model_of_the_caller_is_sent_to_the_stack(logistic: bool, rows: float | None, text: str) -> None:
    x = np.random.default_rng(0).normal(size=(20, 1))
    evidence = Evidence(score=x[:, 0], member=np.arange(20) < 10, covariates=x, covariate_names=("pay",))
    learned = SimpleNamespace(stacked=False, logistic=logistic, rows_per_covariate=rows)
    assert text in misfit.in_words(refuted(("pay",)), evidence, learned, Plan())
