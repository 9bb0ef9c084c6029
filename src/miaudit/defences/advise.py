"""What a comparison of defences supports, in words: never the smallest point estimate.

A measure is shown to help where the lower limit of what it takes off the AUC is above zero, with limits that hold for
all measures together; its price is known where the upper limit of what it takes off the accuracy stays within what
the owner can bear. Measures that help are then told apart only where their own difference has limits off zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from miaudit.defences.compare import DefenceComparison, MeasuredOption
from miaudit.defences.differences import PairedDifference
from miaudit.errors import InputError
from miaudit.metrics.rounding import in_points, percent

Effect = Literal["helps", "harms", "not shown"]
Price = Literal["none", "bearable", "too high", "not shown"]
_NEARLY = 0.05  # share of all labels below which sets leave out next to nothing; share of sets that are not empty


@dataclass(frozen=True)
class JudgedOption:
    """What the limits say of one option.

    Attributes
    ----------
    name : of the option
    effect : "helps" (AUC shown to be smaller), "harms" (shown to be larger) or "not shown"; always the last where no
        shadow model went through the measure, since an attack that ignores it shows what it misses, not what is hidden,
        and where the AUC is shown to be below one half: turned round, that attack finds members
    price : of accuracy: "none" (the label is kept by construction), "bearable" (the upper limit is within tolerance),
        "too high" (the lower limit is above it) or "not shown"
    front : whether no other option has both a smaller AUC and a larger accuracy, by the estimates
    """

    name: str
    effect: Effect
    price: Price
    front: bool


@dataclass(frozen=True)
class Advice:
    """A recommendation and what it rests on.

    Attributes
    ----------
    text : the recommendation
    parts : one sentence for each use: where probabilities must stay, where a set is enough, where a label is enough,
        and where the model may be trained again; a use for which nothing was compared has none
    rests_on : what it assumes, and what was looked at
    judged : one for each option, in their order; of the reference only ``front`` means anything
    recommended : names of the options that the sentences name
    """

    text: str
    parts: tuple[str, ...]
    rests_on: tuple[str, ...]
    judged: tuple[JudgedOption, ...]
    recommended: tuple[str, ...]


def advise(comparison: DefenceComparison, *, tolerance: float = 0.02, within: Sequence[bool] | None = None) -> Advice:
    """Say which measures help, at what price, and which of them the data tell apart.

    Parameters
    ----------
    comparison : as :func:`miaudit.defences.compare.compare` gives it
    tolerance : accuracy that may be lost, 0 to 1
    within : whether each option is within every limit; only such options are recommended. None: no limits were judged

    Raises
    ------
    InputError
        For a tolerance outside its range.
    """
    if not 0 <= tolerance < 1:
        raise InputError("tolerance", "a share in [0, 1)", repr(tolerance), "0.02 is two points of accuracy")
    front = _front(comparison)
    judged = [JudgedOption(comparison.measured[0].option.name, "not shown", "none", front[0])]
    for i, (one, gain, cost) in enumerate(_beside(comparison), start=1):
        effect = _effect(gain) if _adapts(one) and not _is_inverted(one) else "not shown"
        judged.append(JudgedOption(one.option.name, effect, _price(cost, tolerance), front[i]))
    parts: list[str] = []
    recommended: list[str] = []
    for use, places in _uses(comparison):
        text, named = _part(comparison, judged, use, places, tolerance, within)
        parts.append(text)
        recommended += named
    return Advice(
        _summary(comparison, judged, recommended, tolerance, within),
        tuple(parts),
        tuple(_rests_on(comparison, tolerance)),
        tuple(judged),
        tuple(dict.fromkeys(recommended)),
    )


def _beside(comparison: DefenceComparison) -> list[tuple[MeasuredOption, PairedDifference, PairedDifference | None]]:
    return list(zip(comparison.measured[1:], comparison.reductions, comparison.costs, strict=True))


def _effect(gain: PairedDifference) -> Effect:
    return "helps" if gain.low > 0 else "harms" if gain.high < 0 else "not shown"


def _adapts(one: MeasuredOption) -> bool:
    """Whether the attack knew of the measure: shadow models went through it. Otherwise it shows only what it misses."""
    return one.option.adaptive and len(one.option.models.logits) > 1


def _is_inverted(one: MeasuredOption) -> bool:
    """Whether the attack points the wrong way, so that its small AUC is its own mistake and hides nothing."""
    return one.leakage["auc"].high < 0.5


def _price(cost: PairedDifference | None, tolerance: float) -> Price:
    if cost is None:
        return "none"
    return "bearable" if cost.high <= tolerance else "too high" if cost.low > tolerance else "not shown"


def _front(comparison: DefenceComparison) -> list[bool]:
    points = [(one.leakage["auc"].value or 0.0, one.accuracy.value or 0.0) for one in comparison.measured]
    return [not any((a <= auc and b >= right) and (a < auc or b > right) for a, b in points) for auc, right in points]


def _uses(comparison: DefenceComparison) -> list[tuple[str, list[int]]]:
    """What the options are for, with their places."""
    uses: dict[str, list[int]] = {
        "Where probabilities must be released": [],
        "Where a set of labels is enough": [],
        "Where a label is enough": [],
        "Where the model may be trained again": [],
    }
    kinds = dict(zip(("confidence-vector", "decision-set", "label"), uses, strict=False))
    kinds["true-label"] = kinds["confidence-vector"]
    for i, one in enumerate(comparison.measured[1:], start=1):
        use = list(uses)[3] if one.option.group == "training" else kinds[one.option.defence.kind]
        uses[use].append(i)
    return [(use, places) for use, places in uses.items() if places]


def _part(
    comparison: DefenceComparison,
    judged: list[JudgedOption],
    use: str,
    places: list[int],
    tolerance: float,
    within: Sequence[bool] | None,
) -> tuple[str, list[str]]:
    helping = [i for i in places if judged[i].effect == "helps"]
    if not helping:
        count = "the one measure" if len(places) == 1 else f"none of the {len(places)} measures"
        return f"{use}: {count} compared is {'not ' if len(places) == 1 else ''}shown to help.", []
    sets = comparison.measured[helping[0]].option.defence.kind == "decision-set"
    useful = [i for i in helping if _says_something(comparison.measured[i])]
    affordable = useful if sets else [i for i in useful if judged[i].price in ("none", "bearable")]
    if not affordable:
        return f"{use}: {_unaffordable(comparison, helping, tolerance, sets=sets)}", []
    safe = affordable if within is None else [i for i in affordable if within[i]]
    if not safe:
        names = _list([comparison.measured[i].option.called for i in affordable])
        verb = "is" if len(affordable) == 1 else "are"
        return f"{use}: {names} {verb} shown to help, but not shown to be within the limits.", []
    best = _not_worse(comparison, safe)
    others = [i for i in safe if i not in best]
    return f"{use}: {_recommendation(comparison, best, others)}", [comparison.measured[i].option.name for i in best]


def _unaffordable(comparison: DefenceComparison, helping: list[int], tolerance: float, *, sets: bool) -> str:
    """Say why no measure that helps can be recommended: it costs too much accuracy, or its sets say nothing."""
    names = _list([comparison.measured[i].option.called for i in helping])
    one = len(helping) == 1
    price = f"{'is not' if one else 'none of them is'} shown to cost at most {percent(tolerance)} of accuracy"
    wholly = all(1.0 in (comparison.measured[i].empty, comparison.measured[i].full) for i in helping)
    empty = f"{'its' if one else 'their'} sets are {'all' if wholly else 'nearly all'} full or {'all ' * wholly}empty"
    return f"{names} {'is' if one else 'are'} shown to help, but {empty if sets else price}."


def _recommendation(comparison: DefenceComparison, best: list[int], others: list[int]) -> str:
    """Recommend the best measures, and name the others that help."""
    described = _list([_described(comparison, i) for i in best])
    verb = "is" if len(best) == 1 else "are"
    apart = "" if len(best) == 1 else " The data do not tell these apart."
    names = [comparison.measured[i].option.called for i in others]
    behind = f" Also shown to help, less: {_list(names)}." if names else ""
    return f"{described} {verb} shown to help.{apart}{behind}"


def _says_something(one: MeasuredOption) -> bool:
    """Whether the release is informative: no sets, or sets that are neither nearly all empty nor nearly all full."""
    size = one.option.models.classes if one.size is None or one.size.value is None else one.size.value
    most = one.option.models.classes * (1 - _NEARLY)
    return one.size is None or (one.empty < 1 - _NEARLY and size < most)


def _not_worse(comparison: DefenceComparison, places: list[int]) -> list[int]:
    """Return the measures not shown to leak more than the leader, whose reduction has the largest lower limit."""
    leader = max(places, key=lambda i: comparison.reductions[i - 1].low)
    retained = []
    for i in places:
        pair = next((d for d in comparison.between if {d.first, d.second} == {i, leader}), None)
        if pair is None:
            retained.append(i)
            continue
        worse_low = pair.low if pair.first == i else -pair.high  # AUC of i less the leader's
        if worse_low <= 0:
            retained.append(i)
    return retained


def _described(comparison: DefenceComparison, i: int) -> str:
    one, gain, cost = comparison.measured[i], comparison.reductions[i - 1], comparison.costs[i - 1]
    low, high = in_points(gain.low, "down", sign=False), in_points(gain.high, "up", sign=False)
    parts = [f"takes {low} to {high} points off the AUC"]
    if one.coverage is not None and one.size is not None:
        held = f"{one.size.value:.2f} of {one.option.models.classes} labels in a set"
        parts.append(f"{held}, which holds the true one in {percent(_value(one))}")
    elif cost is None:
        parts.append("the label stays as it is")
    else:
        parts.append(f"accuracy changes by {in_points(-cost.high, 'down')} to {in_points(-cost.low, 'up')} points")
    if one.option.defence.randomness == "redrawn":
        times = comparison.queries
        parts.append(f"asked {times:,} times" if times > 1 else "asked once: asking again undoes part of it")
    return f"{one.option.called} ({'; '.join(parts)})"


def _value(one: MeasuredOption) -> float:
    return 0.0 if one.coverage is None or one.coverage.value is None else one.coverage.value


def _summary(
    comparison: DefenceComparison,
    judged: list[JudgedOption],
    recommended: list[str],
    tolerance: float,
    within: Sequence[bool] | None,
) -> str:
    count = len(judged) - 1
    if count == 0:
        return "Nothing was compared with the outputs as they are."
    sure = percent(comparison.confidence)
    measures = "one measure" if count == 1 else f"{count} measures"
    if not any(one.effect == "helps" for one in judged[1:]):
        known = "" if all(map(_adapts, comparison.measured[1:])) else " against an attack that knows of it"
        return (
            f"No defence is shown to help: of {measures}, none has a lower limit of its effect on the AUC above zero"
            f"{known} ({sure} confidence for all together). That is no proof that none does."
        )
    if not recommended and within is not None and not any(within):
        return (
            "No defence can be recommended: none of the options is shown to be within the limits. Train in another "
            "way, with fewer epochs, more regularisation or differential privacy."
        )
    if not recommended:
        return (
            f"No defence can be recommended: what is shown to help is not shown to be within the limits, or costs more "
            f"than {percent(tolerance)} of accuracy, or may."
        )
    names = {one.option.name: one.option.called for one in comparison.measured}
    recommendations = _list([names[name] for name in dict.fromkeys(recommended)])
    helped = sum(one.effect == "helps" for one in judged[1:])
    return (
        f"Of {measures}, {helped} {'is' if helped == 1 else 'are'} shown to make the attack weaker ({sure} confidence "
        f"for all together). Depending on what users need: {recommendations}."
    )


def _rests_on(comparison: DefenceComparison, tolerance: float) -> list[str]:
    reference = comparison.measured[0]
    models, member = reference.option.models, reference.option.models.member
    shadows = len(models.logits) - 1
    sentences = [
        f"One audited model: {int(member.sum()):,} members and {int((~member).sum()):,} non-members, the same for "
        "every measure, so that differences are paired. Another training of it may differ by more than these limits.",
        f"{shadows} shadow models with the records' true membership, through the same defence: an attacker with fewer "
        "or poorer ones learns less."
        if shadows
        else "No shadow models: a plain threshold stands in for the attacker, so that leakage is understated, and a "
        "measure that stops a threshold need not stop a better attack.",
        "The attack on each disclosure was the best of those tried, as chosen on shadow models. A stronger attack may "
        "find more.",
        f"Accuracy is that of a reader's best guess from what is released, on records that the model did not learn; up "
        f"to {percent(tolerance)} of it may be lost.",
    ]
    if models.source == "held-out":
        sentences.append(
            f"{len(models.calibration):,} records that no model learnt were set aside for what defences learn from."
        )
    else:
        sentences.append(
            f"Defences learned from {len(models.calibration):,} of each model's own members, which is not how "
            "calibration and conformal sets are meant: their promises do not hold."
        )
    ignored = [one.option.called for one in comparison.measured[1:] if not _adapts(one)]
    if ignored:
        them = "it" if len(ignored) == 1 else "them"
        sentences.append(
            f"No shadow model went through {_list(ignored)}, so the attack knew nothing of {them}: a smaller AUC there "
            "may be its ignorance, and is not counted as help."
        )
    inverted = [one.option.called for one in comparison.measured[1:] if _is_inverted(one)]
    if inverted:
        sentences.append(
            f"The attack on {_list(inverted)} points the wrong way: its AUC is shown to be below one half. That is its "
            "mistake, and is not counted as help."
        )
    trained = [one.option.called for one in comparison.measured if one.option.group == "training"]
    if trained:
        sentences.append(
            f"Other trainings ({_list(trained)}) were done once on the same records; the limits do not hold for the "
            "chance in training."
        )
    return sentences


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
