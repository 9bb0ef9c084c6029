"""The section on privacy of an audit's configuration file: the claim, and what is asked of bounds."""

from __future__ import annotations

from typing import Annotated, Any

from miaudit.auditing.plan import Bounds
from miaudit.config.section import Keys, keys_of
from miaudit.dp.verdict import Claim
from miaudit.errors.options import Option, options_of

Mapped = dict[str, Any]


def _one_parameter(claim: Mapped) -> Mapped:
    if ("epsilon" in claim) == ("mu" in claim):
        received = "both" if "mu" in claim else "neither"
        raise ValueError(f"expected epsilon or mu, one of them, received {received}; a claim is about one parameter")
    if "mu" in claim and "delta" in claim:
        raise ValueError(f"expected no delta beside mu, received {claim['delta']:g}; remove it, or claim epsilon")
    return claim


def _bounds_for_a_claim(privacy: Mapped) -> Mapped:
    beside = next((name for name in ("claim", "mechanism") if name in privacy), None)
    if not privacy.get("bounds", True) and beside is not None:
        raise ValueError(f"expected bounds: true beside {beside}, received false; without a bound nothing is judged")
    return privacy


CLAIM = Keys(
    {
        name: Annotated[float | None, options_of(source)[name][1]]
        for source, names in ((Claim.epsilon_delta, ("epsilon", "delta")), (Claim.gaussian, ("mu",)))
        for name in names
    },
    make=_one_parameter,
)
PRIVACY = Keys(
    {
        "bounds": Annotated[bool, Option("Leave privacy parameters alone.")],
        "claim": Annotated[Mapped, CLAIM] | None,
        **keys_of(Bounds, "mechanism", "delta", "guesses", "correction", "margin", "at_least"),
    },
    make=_bounds_for_a_claim,
)


def bounds_of(section: Mapped) -> Bounds | None:
    """Return what a section asks of privacy bounds; None where none are wanted."""
    options = dict(section)
    if not options.pop("bounds", True):
        return None
    claim = options.pop("claim", None)
    if claim is not None:
        delta = options.get("delta", Bounds.delta)
        privacy_claim = Claim.gaussian(**claim) if "mu" in claim else Claim.epsilon_delta(**{"delta": delta, **claim})
        options["claim"] = privacy_claim
    return Bounds(**options)
