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
