"""The ceiling of one run, beside printed numbers, slow integrals, and audits that cannot pass it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from miaudit import Evidence
from miaudit.dp import ceiling, one_run
from miaudit.dp.ceiling import one_run_ceiling
from miaudit.errors import InputError

# experiments/methods.md, section 7: another cap of the same argument, for m = 10,000 and 1,000 at p = .025
STATED = {0.66: (0.557, 0.522), 1.0: (0.848, 0.802), 2.0: (1.671, 1.581), 3.0: (2.416, 2.265)}

# experiments/validity/one_run.md: the least limit that mixtures give, simulated (standard error .003), 5 to 11% lower
LEAST = {0.66: (0.512, 0.443), 1.0: (0.785, 0.701), 2.0: (1.543, 1.396), 3.0: (2.206, 1.962)}


@pytest.mark.parametrize("mu", STATED)
def test_the_ceiling_is_a_little_below_that_of_a_coarser_cap(mu: float) -> None:
    for canaries, stated in zip((10_000, 1_000), STATED[mu], strict=True):
        found = one_run_ceiling(mu, canaries, confidence=0.975)
        assert 0.93 * stated < found < stated
        assert found > LEAST[mu][canaries == 1_000]  # by simulation; it is no limit that was proven


@pytest.mark.long
def test_it_grows_with_canaries_with_mu_and_with_doubt_and_stays_below_the_truth() -> None:
    of_canaries = [one_run_ceiling(1.0, m) for m in (1, 10, 100, 1_000, 100_000)]
    assert of_canaries == sorted(of_canaries)
    assert of_canaries[-1] < 1.0
    of_mu = [one_run_ceiling(mu, 1_000) for mu in (0.05, 0.5, 1.0, 4.0, 20.0)]
    assert of_mu == sorted(of_mu)
    assert one_run_ceiling(1.0, 1_000, confidence=0.5) > one_run_ceiling(1.0, 1_000, confidence=0.99)


def relative_entropy(e: float, mu: float, cap: float) -> float:
    share, kept = 1 / (1 + math.exp(-e)), 1 / (1 + math.exp(-math.copysign(cap, e)))
    weight = (stats.norm.pdf(e, mu * mu / 2, mu) + stats.norm.pdf(e, -mu * mu / 2, mu)) / 2
    return weight * (share * math.log(share / kept) + (1 - share) * math.log((1 - share) / (1 - kept)))


@pytest.mark.parametrize(("mu", "cap"), [(1.5, 2.5), (0.66, 1.0), (3.0, 6.0)])
def test_the_total_variation_is_that_of_an_integral_and_errs_upwards(mu: float, cap: float) -> None:
    canaries, far = 400, mu * mu / 2 + 9 * mu
    one = sum(integrate.quad(relative_entropy, *ends, args=(mu, cap))[0] for ends in ((cap, far), (-far, -cap)))
    exact = math.sqrt(canaries * one / 2)
    assert exact <= ceiling._total_variation(mu, cap, canaries) <= 1.1 * exact


def test_what_is_released_satisfies_the_claim_and_a_little_more_would_not() -> None:
    """Of the capped scores, by integration: lambda times its hockey stick is at most the claim's at every odds."""
    mu, claim, cap = 2.0, 1.2, 3.0
    odds = np.linspace(-1, 1, 80_001) * (mu * mu / 2 + 9 * mu)
    weight = (stats.norm.pdf(odds, mu * mu / 2, mu) + stats.norm.pdf(odds, -mu * mu / 2, mu)) * (odds[1] - odds[0]) / 2
    share = ceiling._released(np.array([claim]), mu, cap)[0]
    capped = 1 / (1 + np.exp(-np.clip(odds, -cap, cap)))
    at = np.linspace(0, cap, 997)
    stick = np.array([np.maximum(2 * weight * (capped - math.exp(e) * (1 - capped)), 0).sum() for e in at])
    allowed = stats.norm.cdf(claim / 2 - at / claim) - np.exp(at) * stats.norm.cdf(-claim / 2 - at / claim)
    assert (share * stick <= allowed + 1e-9).all()
    assert (1.05 * share * stick > allowed).any()  # the control


@pytest.mark.parametrize("mu", [0.66, 2.0])
def test_audits_stay_below_it_on_average(mu: float) -> None:
    rng = np.random.default_rng(0)
    found = []
    for child in rng.spawn(12):
        member = child.random(1_000) < 0.5
        run = Evidence(score=child.normal(mu * member), member=member, design="one-run")
        found.append(min(mu, one_run.audit(run, parameter="mu", confidence=0.975, rng=child).value))
    top = one_run_ceiling(mu, 1_000, confidence=0.975)
    assert 0.4 * top < np.mean(found) < top


@pytest.mark.parametrize(
    ("mu", "canaries", "argument"),
    [(0, 10, "mu"), (math.nan, 10, "mu"), (51, 10, "mu"), (1.0, 0, "canaries"), (1.0, 1.5, "canaries")],
)
def test_what_is_no_mu_or_no_number_is_refused(mu: float, canaries: int, argument: str) -> None:
    with pytest.raises(InputError, match=f"^{argument}: expected"):
        one_run_ceiling(mu, canaries)
