"""What a model discloses: uncertainty, calibration and the advantage that they leave an attacker."""

from miaudit.disclosure import contraction, decision_sets, dirichlet, logit_normal, tradeoff
from miaudit.disclosure.advantage import Advantage, advantage, advantage_of, curve_of, expected_size
from miaudit.disclosure.bounds import Bound, bound, bound_of

__all__ = [
    "Advantage",
    "Bound",
    "advantage",
    "advantage_of",
    "bound",
    "bound_of",
    "contraction",
    "curve_of",
    "decision_sets",
    "dirichlet",
    "expected_size",
    "logit_normal",
    "tradeoff",
]
