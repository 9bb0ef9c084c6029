"""How far the weights and the regressions disagree about one AUC (experiments/methods.md, section 10).

Two estimates of the corrected AUC rest on two models: that by weights alone on the propensity, that by AIPW on the
propensity and on regressions of the score. Where the propensity misses a part of the shift, the regressions may still
see it, and then the two differ. A metric that no regression corrects (a TPR at a low FPR, the advantage) then shows the
part that was missed as if it were memorisation, or hides a leak behind it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from miaudit.metrics.classical import Estimate

__all__ = ["LIMIT", "Disagreement"]

LIMIT = 2.0  # standard errors; 0 of 227 sound audits were above it (experiments/methods.md, section 10)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Disagreement:
    """Two estimates of one corrected AUC.

    Attributes
    ----------
    modelled : by AIPW
    weighted : by the weights alone
    errors : their distance on the logit scale in standard errors; not negative
    """

    modelled: float
    weighted: float
    errors: float

    @classmethod
    def of(cls, modelled: Estimate, weighted: Estimate) -> Disagreement:
        """Compare estimates of :func:`miaudit.causal.effects.auc`, by AIPW and by Hajek weights.

        The standard error is the larger of the two, moved to the logit scale at the modelled value. At an AUC of 0 or
        1, which has no logit, the distance is that of the AUCs themselves.

        Examples
        --------
        >>> gap = Disagreement.of(
        ...     Estimate(0.5, 0.46, 0.6, 0.95, standard_error=0.02),
        ...     Estimate(0.42, 0.38, 0.46, 0.95, standard_error=0.018),
        ... )
        >>> round(gap.errors, 1), gap.exceeds
        (4.0, True)
        """
        p, q = (0.5 if one.value is None else one.value for one in (modelled, weighted))
        error = max(one.standard_error or 0.0 for one in (modelled, weighted))
        inside = min(p, q) > 0.0 and max(p, q) < 1.0
        distance = abs(special.logit(p) - special.logit(q)) * p * (1 - p) if inside else abs(p - q)
        if distance <= _ROUNDING:
            return cls(p, q, 0.0)
        return cls(p, q, float(distance) / error if error > 0 else math.inf)

    @property
    def exceeds(self) -> bool:
        """Whether metrics that rest on the weights alone are to be withheld."""
        return self.errors > LIMIT

    @property
    def sentence(self) -> str:
        """The disagreement in words."""
        apart = f"{self.errors:.1f} standard errors" if math.isfinite(self.errors) else "more than any standard error"
        return (
            f"the weights and the regressions disagree: the AUC is {self.weighted:.3f} by the weights alone and "
            f"{self.modelled:.3f} by AIPW, {apart} apart (limit {LIMIT:g})"
        )
