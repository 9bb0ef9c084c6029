"""What a model discloses: uncertainty, calibration and the advantage that they leave an attacker."""

from miaudit.disclosure import decision_sets, dirichlet, logit_normal, tradeoff
from miaudit.disclosure.advantage import Advantage, advantage, advantage_of, curve_of, expected_size
from miaudit.disclosure.bounds import Bound, bound, bound_of, bound_of_logit_normal

__all__ = [
    "Advantage",
    "Bound",
    "advantage",
    "advantage_of",
    "bound",
    "bound_of",
    "bound_of_logit_normal",
    "curve_of",
    "decision_sets",
    "dirichlet",
    "expected_size",
    "groups",
    "logit_normal",
    "prediction",
    "tradeoff",
    "uncertainty",
]
