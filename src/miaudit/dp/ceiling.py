"""A proven limit of what one run can show, against any test and any attack; several runs pass it.

``one_run_ceiling`` is a limit from above, not the least one: simulated figures are 5 to 11% lower (docs/bounds.md).
Every step errs upwards: the chance of release is taken at the worse end of each cell of a grid, the power at the lower
end of each cell of claims, and the distance of two laws by Pinsker's inequality.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence, is_number

__all__ = ["one_run_ceiling"]

_CAPS, _CLAIMS, _ODDS = 80, 150, 200  # grids: caps, claims, and hockey sticks below a cap
_TAILS = 9.0  # standard deviations of the log-odds on either side
_CELLS = 400  # of the integral beyond a cap


def one_run_ceiling(mu: float, canaries: int, *, confidence: float = 0.95) -> float:
    """Return a proven upper limit of the mean of min(bound, ``mu``), for any lower bound on mu from one run.

    The mechanism is Gaussian with exactly ``mu``: its scores are N(mu, 1) for members and N(0, 1) for others. Another
    one releases scores with chance lambda only, whose log-odds of membership are capped at c, and else nothing. With
    lambda small enough it satisfies a claim below mu, so that a valid test refutes that claim with probability
    1 - confidence at most: on capped scores in (1 - confidence) / lambda of the runs at most, and on the scores as they
    are in a total variation distance more at most (Pinsker: sqrt(KL / 2), and the KL of n canaries is n times that of
    one). The least of this over c limits any test's power, and the integral of that over claims from 0 to mu limits
    the mean of min(bound, mu). A bound above mu counts as mu there: it happens in 1 - confidence of audits at most.

    Parameters
    ----------
    mu : float above 0, of the mechanism
    canaries : int from 1
    confidence : float in (0, 1), one-sided, of the bound

    Returns
    -------
    float in (0, mu]

    References
    ----------
    experiments/methods.md, section 7; the cap here keeps the distribution of the scores and moves memberships alone,
    which leaves less total variation, so the limit is 2 to 5% below the one stated there.

    Examples
    --------
    >>> round(one_run_ceiling(2.0, 10_000, confidence=0.975), 2)
    1.63
    """
    if not (is_number(mu) and 0 < mu <= 50):
        raise InputError("mu", "a number in (0, 50]", repr(mu), "it is the parameter of Gaussian DP")
    if isinstance(canaries, bool) or not isinstance(canaries, int) or canaries < 1:
        raise InputError("canaries", "a whole number from 1", repr(canaries), "as many as one run has")
    level = 1 - check_confidence(confidence)
    claims = np.linspace(0, mu, _CLAIMS + 1)[:-1]  # power falls as the claim rises: the lower end of each cell counts
    power = np.ones(_CLAIMS)
    for cap in np.linspace(0, mu * mu / 2 + (_TAILS - 1) * mu, _CAPS + 1)[1:]:
        apart = _total_variation(mu, cap, canaries)
        if apart < 1 - level:
            power[1:] = np.minimum(power[1:], level / _released(claims[1:], mu, cap) + apart)
    return float(power.mean() * mu)


def _above(mu: float, odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the chance that log-odds of Gaussian scores exceed some, of members and of others."""
    return special.ndtr(mu / 2 - odds / mu), special.ndtr(-mu / 2 - odds / mu)


def _total_variation(mu: float, cap: float, canaries: int) -> float:
    """Return Pinsker's limit between memberships with scores as they are and with log-odds that are capped.

    The relative entropy of a membership grows with the distance of its log-odds from the cap, so the upper end of each
    cell counts for all of it. It is never above log 2.
    """
    edges = cap + np.linspace(0, max(2 * mu, mu * mu / 2 + _TAILS * mu - cap), _CELLS + 1)
    members, others = _above(mu, edges)
    weight = members + others  # of both signs, since half of the records are members
    share, capped_share = special.expit(edges[1:]), special.expit(cap)
    one = special.rel_entr(share, capped_share) + special.rel_entr(special.expit(-edges[1:]), special.expit(-cap))
    return float(np.sqrt(canaries * (-np.diff(weight) @ one + weight[-1] * np.log(2)) / 2))


def _released(claims: FloatArray, mu: float, cap: float) -> FloatArray:
    """Return a chance of releasing capped scores that satisfies each claim: hockey sticks compared below the cap.

    Of a claim: Phi(claim / 2 - e / claim) - exp(e) Phi(-claim / 2 - e / claim) at log-odds e. Both sticks fall with e,
    so between two places the claim's at the second over the other's at the first is a limit from below.
    """
    at = np.linspace(0, cap, _ODDS + 1)
    members, others = _above(mu, at)
    above = members[-1] + others[-1]  # of log-odds beyond the cap, where the capped ones are the cap
    inside = members - members[-1] + special.expit(cap) * above
    outside = others - others[-1] + special.expit(-cap) * above
    capped = np.maximum(inside - np.exp(at) * outside, 0.0)[:-1]
    claim = claims[:, None]
    claimed = special.ndtr(claim / 2 - at[1:] / claim) - np.exp(at[1:]) * special.ndtr(-claim / 2 - at[1:] / claim)
    reaches_cap = capped > 1e-12
    return np.asarray(np.clip((np.maximum(claimed, 0)[:, reaches_cap] / capped[reaches_cap]).min(axis=1), 1e-300, 1.0))
