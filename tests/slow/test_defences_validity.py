"""Defences that do nothing are shown to help, or to harm, as seldom as promised; an uncorrected rule would not do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from miaudit.defences.advise import advise
from miaudit.defences.compare import DefenceComparison, Models, ReleaseOption, compare
from miaudit.defences.outputs import AsItIs
from validity.claims import Claims
from worlds import disclosing

pytestmark = pytest.mark.slow
_TRAININGS = 8


def trained_again(models: Models, effect: float, rng: np.random.Generator) -> Models:
    """The same records and memberships, models of the same kind: the truth is no difference."""
    logits = []
    for m in range(len(models.logits)):
        z = rng.normal(size=models.logits[0].shape)
        z[np.arange(len(models.labels)), models.labels] += 1.0 + effect * models.included[m]
        logits.append(z.astype(np.float32))
    return replace(models, logits=logits)


def comparison(seed: int, effect: float) -> DefenceComparison:
    rng = np.random.default_rng(seed)
    drawn = disclosing.models(n=300, held=20, shadows=6, seed=seed)
    options = [
        ReleaseOption(str(i), "training" if i else "output", trained_again(drawn, effect, rng), AsItIs())
        for i in range(1 + _TRAININGS)
    ]
    return compare(options, rng=rng)


@pytest.mark.validity
@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_nothing_is_shown_more_often_than_promised(claim: Claims, effect: float) -> None:
    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        found = comparison(int(rng.integers(2**32)), effect)
        judged = advise(found).judged[1:]
        widths = [(d.high - d.low) / 2 for d in found.reductions]
        critical = special.ndtri(1 - 0.025 / _TRAININGS)  # about that of all together
        uncorrected = any(
            abs(d.value) > 1.96 * width / critical for d, width in zip(found.reductions, widths, strict=True)
        )
        return {"any": any(one.effect != "not shown" for one in judged), "any, uncorrected": uncorrected}

    claim(replicate, holds={"any": 0.05}, fails={"any, uncorrected": 0.05})
