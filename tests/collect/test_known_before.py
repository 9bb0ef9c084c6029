"""Columns that follow from training are no covariates, by role and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.collect import known_before, outputs
from miaudit.errors import InputError

RNG = np.random.default_rng(0)


@pytest.fixture(params=["csv", "npz"])
def table(request: Any, tmp_path: Path) -> Path:
    columns = {"loss": RNG.random(60), "in_training": np.arange(60) % 2, "age": RNG.normal(size=60)}
    path = tmp_path / f"losses.{request.param}"
    if request.param == "npz":
        np.savez(path, **columns)
    else:
        np.savetxt(path, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments="")
    return path


@pytest.mark.parametrize("signal", ["loss", "score"])
@pytest.mark.parametrize(("covariate", "what"), [("loss", "score"), ("in_training", "membership")])
def test_what_is_audited_is_no_covariate(table: Path, signal: Any, covariate: str, what: str) -> None:
    named = {"score": "loss", "member": "in_training", "signal": signal, "rng": np.random.default_rng(0)}
    with pytest.raises(InputError, match=f"covariates: .* received {covariate}, which is also given as the {what}"):
        outputs.from_table(table, covariates=["age", covariate], design="zero-run", **named)
    assert outputs.from_table(table, covariates="age", design="zero-run", **named).evidence.n == 60


def test_an_outlook_refuses_membership_and_doubts_names_of_scores(table: Path) -> None:
    with pytest.raises(InputError, match="in_training, which is also given as the membership"):
        outputs.unscored(table, member="in_training", covariates=["age", "in_training"])
    assert known_before.doubts(table, ["age"]) == ()
    (said,) = known_before.doubts(table, ["age", "loss"])
    assert said.startswith("By name, loss may be what a model or an attack says of each record.")
