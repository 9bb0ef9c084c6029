"""What one run can show at most, against any test and any attack: the ceiling that several runs pass."""

from __future__ import annotations

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.errors import InputError, check_confidence, is_number

__all__ = ["one_run_ceiling"]

_STEPS, _CAPS, _CLAIMS, _ODDS = 8001, 160, 61, 160  # grids: log-odds, caps, claims, and hockey sticks below a cap
_TAILS = 9.0  # standard deviations of the log-odds on either side


def one_run_ceiling(mu: float, canaries: int, *, confidence: float = 0.95) -> float:
    """Return what a lower bound on mu from one run can be at most on average, whatever the test and the attack.

    The mechanism is Gaussian with exactly ``mu``: its scores are N(mu, 1) for members and N(0, 1) for others. Another
    one releases scores with chance lambda only, whose log-odds of membership are capped at c, and else nothing. With
    lambda small enough it satisfies a claim below mu, so that a valid test refutes that claim with probability
    1 - confidence at most: on capped scores in (1 - confidence) / lambda of the runs at most, and on the scores as they
    are in a total variation distance more at most (Pinsker: sqrt(KL / 2), and the KL of n canaries is n times that of
    one). The least of this over c is what any test's power can be, and its integral over claims from 0 to mu is the
    mean of min(bound, mu).

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
    statistics.md, section 11; the cap here keeps the distribution of the scores and moves memberships alone, which
    leaves less total variation, so the ceiling is 2 to 6% below the one stated there.

    Examples
    --------
    >>> round(one_run_ceiling(2.0, 10_000, confidence=0.975), 2)
    1.61
    """
    if not (is_number(mu) and 0 < mu <= 50):
        raise InputError("mu", "a number in (0, 50]", repr(mu), "it is the parameter of Gaussian DP")
    if isinstance(canaries, bool) or not isinstance(canaries, int) or canaries < 1:
        raise InputError("canaries", "a whole number from 1", repr(canaries), "as many as one run has")
    level = 1 - check_confidence(confidence)
    odds = np.linspace(-1, 1, _STEPS) * (mu * mu / 2 + _TAILS * mu)
    density = np.exp(-0.5 * (odds / mu - mu / 2) ** 2) / (mu * np.sqrt(2 * np.pi))  # of members; of others mirrored
    weight = (density + density[::-1]) * (odds[1] - odds[0]) / 2
    claims = np.linspace(0, mu, _CLAIMS)
    power = np.ones(_CLAIMS)
    for cap in np.linspace(0, mu * mu / 2 + (_TAILS - 1) * mu, _CAPS + 1)[1:]:
        apart = _total_variation(odds, weight, cap, canaries)
        if apart < 1 - level:
            power[1:] = np.minimum(power[1:], level / _released(claims[1:], odds, weight, cap) + apart)
    return float(np.trapezoid(power, claims))


def _total_variation(odds: FloatArray, weight: FloatArray, cap: float, canaries: int) -> float:
    """Pinsker's limit between memberships with scores as they are and with log-odds that are capped."""
    beyond = np.abs(odds) > cap
    far, share = odds[beyond], special.expit(odds[beyond])
    kept = special.expit(np.clip(far, -cap, cap))
    one = special.rel_entr(share, kept) + special.rel_entr(special.expit(-far), 1 - kept)
    return float(np.sqrt(canaries * (weight[beyond] @ one) / 2))


def _released(claims: FloatArray, odds: FloatArray, weight: FloatArray, cap: float) -> FloatArray:
    """The largest chance of releasing capped scores that satisfies each claim: hockey sticks compared below the cap.

    Equal ones at log-odds e: Phi(mu / 2 - e / mu) - exp(e) Phi(-mu / 2 - e / mu) of the claim.
    """
    share = special.expit(np.clip(odds, -cap, cap))
    inside = np.cumsum((2 * weight * share)[::-1])[::-1]
    outside = np.cumsum((2 * weight * (1 - share))[::-1])[::-1]
    at = np.linspace(0, cap, _ODDS, endpoint=False)
    place = np.searchsorted(odds, at)
    capped = inside[place] - np.exp(at) * outside[place]
    mu = claims[:, None]
    claimed = special.ndtr(mu / 2 - at / mu) - np.exp(at) * special.ndtr(-mu / 2 - at / mu)
    told = capped > 1e-12
    if not told.any():
        return np.ones(len(claims))
    return np.asarray(np.clip((np.maximum(claimed, 0)[:, told] / capped[told]).min(axis=1), 1e-300, 1.0))
