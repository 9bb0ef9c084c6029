"""The policy of a verdict: several limits by name, one record for every command that judges.

Default limits, and the alarm for the surest members that belongs to them, were chosen by simulation
(``docs/validity.md``): more data never turn a concern into "within the limits".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from miaudit.errors import InputError, nearest, share
from miaudit.errors.checks import is_number
from miaudit.metrics import definition
from miaudit.metrics.classical import SMALLEST_FPR
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import Rounding, lower_text, percent, upper_text

__all__ = [
    "DEFAULT_LIMITS",
    "OF_COMMANDS",
    "SURE",
    "SURE_LIST",
    "USED",
    "Policy",
    "checked",
    "in_units_of_score",
    "label_of",
    "written_limit",
]

DEFAULT_LIMITS = {"tpr_at_fpr_0.001": 0.02, "tpr_at_fpr_0.01": 0.05, "tpr_at_fpr_0.1": 0.25}
SURE = 0.9  # the default of the alarm: at even odds a list of the surest members is that right
SURE_LIST = "surest_members"
EXTRACTION, COPIES, USED = "extraction", "copies", "used"
PARAMETERS = ("epsilon", "mu")
OF_COMMANDS = {  # limits that one command alone measures, with their defaults
    EXTRACTION: 0.05,
    COPIES: 0.0,
}
_LABELS = {
    "epsilon": "epsilon",
    "mu": "mu",
    SURE_LIST: "surest members",
    EXTRACTION: "extraction",
    COPIES: "copies",
    USED: "used records",
}
_SHARES = (*OF_COMMANDS, USED)  # limits that are shares of records
DRAFT = """\
reporting:
  limits:  # the default limits: state your own before you know the numbers
    tpr_at_fpr_0.001: 0.02  # 20 of 1,000 members identified, at 1 false accusation per 1,000 non-members
    tpr_at_fpr_0.01: 0.05  # 50 of 1,000, at 10
    tpr_at_fpr_0.1: 0.25  # 250 of 1,000, at 100
    surest_members: 0.9  # an alarm where an attacker can name a list of records that is more than 90% right
"""
_EXAMPLE = "write limits: {tpr_at_fpr_0.01: 0.05, auc: 0.6}"


@dataclass(frozen=True)
class Policy:
    """The limits that a verdict compares its measurements with.

    Attributes
    ----------
    limits : pairs of a name and its limit
        Names are metrics (``auc``, ``advantage``, ``balanced_accuracy``, ``tpr_at_fpr_X``, ``ate``), the parameters
        ``epsilon`` and ``mu``, and ``copies``, ``extraction`` and ``used`` of the commands that measure them.
    sure : probability of the alarm for the surest members, in (0.5, 1); None: no alarm
    stated : whether they are limits of this audit; else they are the default limits

    Examples
    --------
    >>> Policy.of({"auc": 0.6, "surest_members": 0.9})
    Policy(limits=(('auc', 0.6),), sure=0.9, stated=True)
    >>> Policy.of(None).sure, Policy.of(None).metrics
    (0.9, ('tpr_at_fpr_0.001', 'tpr_at_fpr_0.01', 'tpr_at_fpr_0.1'))
    """

    limits: tuple[tuple[str, float], ...]
    sure: float | None = None
    stated: bool = True

    @classmethod
    def of(cls, limits: Mapping[str, float] | Iterable[tuple[str, float]] | None) -> Policy:
        """Return the policy of stated limits, or the default one.

        Raises
        ------
        InputError
            For a name that is no limit, a limit outside its range, or none at all.
        """
        if limits is None:
            return cls(tuple(DEFAULT_LIMITS.items()), SURE, stated=False)
        stated = checked(limits)
        sure = dict(stated).get(SURE_LIST)
        default = dict(stated) == {**DEFAULT_LIMITS, SURE_LIST: SURE}
        return cls(tuple(pair for pair in stated if pair[0] != SURE_LIST), sure, stated=not default)

    @property
    def thresholds(self) -> dict[str, float]:
        """The limits by name, without that of the surest members."""
        return dict(self.limits)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the limits on metrics of a score."""
        return tuple(name for name, _ in self.limits if name not in _LABELS)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the limits on privacy parameters: epsilon and mu."""
        return tuple(name for name, _ in self.limits if name in PARAMETERS)

    @property
    def fpr_targets(self) -> tuple[float, ...]:
        """False-positive rates of the limits."""
        return tuple(fpr for name in self.metrics if (fpr := definition.of(name).fpr) is not None)

    def only(self, names: Sequence[str], command: str) -> Policy:
        """Return the same for a command that measures no other limits than these.

        Raises
        ------
        InputError
            For a stated limit that the command does not measure.
        """
        other = [name for name, _ in self.limits if name not in names and not (name in self.metrics and "auc" in names)]
        if self.sure is not None and self.stated and SURE_LIST not in names:
            other.append(SURE_LIST)
        if other and self.stated:
            known = ", ".join("any metric" if name == "auc" else name for name in names)
            raise InputError("limits", f"{known}, which {command} measures", other[0], "leave this limit out")
        return self


def checked(limits: Any) -> tuple[tuple[str, float], ...]:
    """Return stated limits as pairs, each name once and as findings write it.

    Parameters
    ----------
    limits : a mapping of names to numbers, pairs of both, or texts such as "auc=0.6"

    Examples
    --------
    >>> checked(["auc=0.6", "tpr_at_fpr_0.010=0.05"])
    (('auc', 0.6), ('tpr_at_fpr_0.01', 0.05))
    >>> checked({"auc": 1.6})
    Traceback (most recent call last):
    miaudit.errors.InputError: limits: expected a number in [0, 1) for auc, received 1.6; 0.6 is customary
    """
    pairs = limits.items() if isinstance(limits, Mapping) else limits
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError("limits", "names with numbers", repr(limits)[:60], _EXAMPLE)
    found: dict[str, float] = {}
    for pair in pairs:
        name, value = _parted(pair) if isinstance(pair, str) else _pair(pair)
        name = _known(name)
        if name in found:
            raise InputError("limits", "each name once", f"{name} twice", "leave one of them out")
        found[name] = _in_range(name, value)
    if not found:
        raise InputError("limits", "a limit or more", "none", f"{_EXAMPLE}, or leave it out for the default limits")
    return tuple(found.items())


def _pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise InputError("limits", "names with numbers", repr(pair)[:60], _EXAMPLE)
    return pair[0], pair[1]


def _parted(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), value if share.is_percent(value) else float(value)
    except ValueError:
        name = name.strip() or "auc"
        is_share = name in _SHARES or name.startswith("tpr_at_fpr_")
        hint = f"write {name}={0.05 if is_share else 0.6}"
        raise InputError("limits", "NAME=NUMBER", repr(text)[:60], hint) from None


def _known(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError("limits", "names with numbers", repr(name)[:60], _EXAMPLE)
    if name in _LABELS:
        return str(name)
    metric = definition.of(str(name))
    if metric.fpr is not None:
        if not SMALLEST_FPR <= metric.fpr < 1:
            raise InputError("limits", "an FPR in (0, 1)", str(name)[:60], "write tpr_at_fpr_0.01")
        return metric.name
    known = (*definition.METRICS, *_LABELS, *DEFAULT_LIMITS)
    if metric.name not in definition.METRICS:
        hint = nearest(str(name), known) or "or tpr_at_fpr_ and a rate"
        raise InputError("limits", f"names among {', '.join(known)}", repr(name)[:60], hint)
    return metric.name


def _in_range(name: str, value: Any) -> float:
    if name not in PARAMETERS:
        value = share.read(value)
    if isinstance(value, str) or not is_number(value) or not -1e300 < value < 1e300:  # whole numbers of any length
        raise InputError("limits", f"a number for {name}", repr(value)[:60], _EXAMPLE)
    if name == SURE_LIST and not 0.5 < value < 1:
        raise InputError(
            "limits", f"a probability in (0.5, 1) for {name}", f"{value:g}", share.meant(value) or "0.9 is the default"
        )
    if name in PARAMETERS and value < 0:
        raise InputError("limits", f"0 or more for {name}", f"{value:g}", f"{name}: 1 is a strong demand")
    shares = name in _SHARES or (name not in _LABELS and definition.of(name).bounded)
    if shares and not 0 <= value < 1:  # nothing lies above 1
        is_share = name in _SHARES or definition.of(name).form == "percent"
        hint = "write 0.05 for 5%" if is_share else "0.6 is customary"
        hint = (share.meant(value) if is_share or value >= 10 else "") or hint  # an AUC of 1.6 is no percent
        raise InputError("limits", f"a number in [0, 1) for {name}", f"{value:g}", hint)
    return float(value)


def in_units_of_score(name: str) -> bool:
    """Whether a limit is in units of the score, which mean nothing to a reader who does not know the score.

    Examples
    --------
    >>> in_units_of_score("ate"), in_units_of_score("auc"), in_units_of_score("epsilon")
    (True, False, False)
    """
    return name not in _LABELS and not definition.of(name).bounded


def label_of(name: str) -> str:
    """Name a limit for a reader.

    Examples
    --------
    >>> label_of("tpr_at_fpr_0.01"), label_of("surest_members")
    ('TPR at 1% FPR', 'surest members')
    """
    return _LABELS.get(name) or definition.label(name)


def written_limit(name: str, value: float | None, rounding: Rounding = "nearest") -> str:
    """Write a value of a limit in its unit.

    Examples
    --------
    >>> written_limit("tpr_at_fpr_0.01", 0.05), written_limit("mu", 0.30119, "down"), written_limit("copies", 0.01)
    ('5%', '0.301', '1%')
    """
    if value is None:
        return "–"
    if name in PARAMETERS:
        return upper_text(value) if rounding == "up" else lower_text(value)
    return percent(value, rounding) if name in _SHARES or name == SURE_LIST else amount(name, value, rounding)
