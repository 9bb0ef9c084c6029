"""Charts of zero-run audits: memorisation or shift, and how comparable members and non-members are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from miaudit.metrics.definition import amount, between
from miaudit.metrics.rounding import Rounding, lower_text, percent, upper_text, written
from miaudit.report.drawing import (
    BLUE,
    DARK_ORANGE,
    GREY,
    INK,
    ORANGE,
    RED,
    distinct,
    finished,
    histogram,
    in_rows,
    scaled,
    share,
    short,
    tips,
    upright,
)
from miaudit.report.vega_lite import Chart, Layer, channel, constant, over

if TYPE_CHECKING:
    from miaudit.findings.audit import Difference, Memorisation, Overlap

_MOST_FEATURES = 30
_LONGEST_NAME = 22  # characters that fit beside the love plot


def points(difference: float, rounding: Rounding = "nearest") -> str:
    """Write a difference of two AUCs in points, hundredths of AUC, with its sign.

    Examples
    --------
    >>> points(0.0812), points(-0.012), points(0.0003), points(0.0)
    ('+8.1', '−1.2', '+0.03', '0.0')
    >>> points(-0.01211, "down"), points(-0.01211, "up")
    ('−1.3', '−1.2')
    """
    if difference == 0:
        return "0.0"
    size = abs(100 * difference)
    form = "+.1f" if size >= 0.05 else "+.1g"
    if rounding == "nearest" and size < 5e-5:
        return "−0.0" if difference < 0 else "+0.0"
    exact = Decimal(repr(float(difference))) * 100 if rounding != "nearest" else 100 * difference
    return written(exact, form, rounding).replace("-", "−", 1)


@dataclass(frozen=True)
class _Part:
    """A part of the bar from chance to the raw AUC: from where to where, and the rows of pixels that it fills."""

    name: str
    start: float
    end: float
    size: float
    colour: str
    top: int
    bottom: int


def _leads_back(auc: Memorisation) -> bool:
    """Whether memorisation and shift point in opposite directions."""
    return (auc.causal - 0.5) * (auc.raw - auc.causal) < 0


def shift(auc: Memorisation) -> Chart:
    """One bar from chance by memorisation and then by shift to the raw AUC."""
    low, high = min(0.5, auc.causal, auc.raw), max(0.5, auc.causal, auc.raw)
    room = max(0.06 * (high - low), 0.004)
    domain = [max(0.0, low - room), min(1.0, high + room)]
    x = scaled("AUC", domain, zero=False, format="~g", grid=False, tickCount=6, labelFlush=False)
    parts = _shift_parts(auc)
    layers = [*(_shift_bar(part, x) for part in parts), *_shift_words(parts), *_shift_rules(auc, x)]
    sums = ", ".join(f"{part.name} {points(part.size)} points" for part in parts)
    title = f"Raw AUC {amount('auc', auc.raw)} = chance 0.5, {sums}"
    sentence = "The raw AUC (thin line at its end) is what an attack seems to achieve; only memorisation is leakage."
    if _leads_back(auc):
        sentence += " One part leads back, so each has its own row."
    return finished(layers, title, [sentence], f"Stacked bar. {title}. Corrected AUC {amount('auc', auc.causal)}.", 104)


def _shift_parts(auc: Memorisation) -> tuple[_Part, _Part]:
    """Parts that point the same way share one row; a part that leads back gets a row of its own below the other."""
    back = _leads_back(auc)
    middle = 46 if back else 64
    return (
        _Part("memorisation", 0.5, auc.causal, auc.memorisation, BLUE, 28, middle),
        _Part("shift", auc.causal, auc.raw, auc.shift, ORANGE, middle if back else 28, 64),
    )


def _shift_bar(part: _Part, x: dict[str, Any]) -> Layer:
    row = {"from": part.start, "to": part.end, "part": part.name, "points": points(part.size)}
    bar: Layer = over([row]).mark("rect", color=part.colour, opacity=0.85)
    return bar.encode(
        x=channel("from:Q", **x),
        x2="to:Q",
        y=constant(part.top),
        y2=constant(part.bottom),
        tooltip=tips(part="Part", points="AUC points"),
    )


def _shift_words(parts: Iterable[_Part]) -> list[Layer]:
    """The name of each part at a fixed place, so that no width of the chart lets them meet."""
    inks: dict[str, tuple[str, float | str, int, str]] = {
        "memorisation": ("left", 0, 16, BLUE),
        "shift": ("right", "width", 80, DARK_ORANGE),
    }
    layers = []
    for part in parts:
        side, at, row, ink = inks[part.name]
        text = f"{part.name} {points(part.size)} points: {amount('auc', part.start)} to {amount('auc', part.end)}"
        words = over([{"text": text}]).mark(
            "text", align=side, baseline="middle", fontSize=12, fontWeight=600, color=ink
        )
        layers.append(words.encode(x=constant(at), y=constant(row), text="text:N"))
    return layers


def _shift_rules(auc: Memorisation, x: dict[str, Any]) -> list[Layer]:
    left, right = x["scale"]["domain"]
    lines = (
        (0.5, GREY, [2, 3], 24, 104),
        (auc.causal, INK, [1, 0], 26, 66),
        (auc.raw, INK, [1, 0], 26, 66),
    )
    rules = [
        over([{"at": at}])
        .mark("rule", color=colour, strokeDash=dash, strokeWidth=1.4)
        .encode(x=channel("at:Q", **x), y=constant(top), y2=constant(bottom))
        for at, colour, dash, top, bottom in lines
    ]
    leans = (left + right) / 2 < 0.5
    words = over([{"at": 0.5}]).mark(
        "text",
        text="chance",
        color=GREY,
        fontSize=11,
        fontWeight=600,
        align="right" if leans else "left",
        dx=-5 if leans else 5,
    )
    return [*rules, words.encode(x=channel("at:Q", **x), y=constant(97))]


def comparability(overlap: Overlap) -> dict[str, Chart]:
    """How comparable members and non-members are: shown whether the audit was answered or refused."""
    by_name = {"overlap": _overlap(overlap)}
    if overlap.calibration:
        by_name["calibration"] = _calibration(overlap)
    if overlap.features:
        by_name["balance"] = _balance(overlap)
    return by_name


def _overlap(overlap: Overlap) -> Chart:
    """Shares of members and non-members over the log-odds of membership that their covariates give them."""
    layers = histogram(overlap.log_odds, "Log-odds of membership, from the covariates alone", "Log-odds")
    limits = between("auc", overlap.blind_low, overlap.blind_high)
    title = (
        f"Without the model, the covariates separate members from non-members with an AUC of "
        f"{amount('auc', overlap.blind_auc)} ({limits})"
    )
    sentence = (
        "Before weighting. Where there are only members, no non-member can be compared with them: "
        f"{percent(overlap.without_match)} of members have no match. The first and the last bin hold the tails."
    )
    alternative = f"Histogram of the log-odds of membership for members and for non-members. {title}. {sentence}"
    return finished(layers, title, [sentence], alternative, 260)


def _calibration(overlap: Overlap) -> Chart:
    """The propensity against the share of members that was observed, with the diagonal."""
    bins = overlap.calibration
    x, y = share("Predicted: the propensity"), share("Observed share of members")
    rows = [
        {**vars(one), "p": percent(one.predicted), "o": percent(one.observed), "n": f"{one.count:,}"} for one in bins
    ]
    size = channel("count:Q", scale={"domain": [0, max(one.count for one in bins)], "range": [14, 260]}, legend=None)
    diagonal = over([{"predicted": 0, "observed": 0}, {"predicted": 1, "observed": 1}])
    marks = over(rows).mark("point", filled=True, color=BLUE, opacity=0.8, clip=False)
    across, up = channel("predicted:Q", **x), channel("observed:Q", **y)
    layers = [
        diagonal.mark("line", color=GREY, strokeDash=[5, 4], strokeWidth=1.4).encode(x=across, y=up),
        marks.encode(x=across, y=up, size=size, tooltip=tips(p="Predicted", o="Observed", n="Records")),
    ]
    total = sum(one.count for one in bins)
    off = 100 * sum(one.count * abs(one.predicted - one.observed) for one in bins) / total
    points = "point" if f"{off:.2g}" == "1" else "points"
    title = f"Propensity and observed share of members differ by {off:.2g} percentage {points} on average"
    sentence = "On the dashed line the propensity equals the observed share. A larger point stands for more records."
    alternative = f"Calibration of the propensity in {len(bins)} bins, with the diagonal. {title}."
    return finished(layers, title, [sentence], alternative, 260)


def _balance(overlap: Overlap) -> Chart:
    """A love plot: how far each covariate and its square differ before and after weighting, the worst first."""
    limit = overlap.feature_limit
    features = sorted(overlap.features, key=lambda f: (-abs(f.after), -abs(f.before)))
    shown = features[:_MOST_FEATURES]
    names = distinct([feature.name for feature in shown], _LONGEST_NAME)
    x = scaled("Absolute standardised difference", zero=True, format="~r", tickCount=6)
    y = in_rows("feature", 140)
    kinds = ("before", "after")
    rows = [
        {"feature": names[f.name], "at": abs(getattr(f, kind)), "when": kind, "text": f"{getattr(f, kind):+.3f}"}
        for f in shown
        for kind in kinds
    ]
    pairs = [{"feature": names[f.name], "from": abs(f.before), "to": abs(f.after)} for f in shown]
    fill = channel(
        "when:N",
        scale={"domain": list(kinds), "range": ["#ffffff", BLUE]},
        legend={"orient": "top", "title": None, "columns": 2, "symbolStrokeColor": BLUE, "symbolStrokeWidth": 2},
    )
    lines = over(pairs).mark("rule", color=BLUE, opacity=0.35, strokeWidth=1.5)
    marks = over(rows).mark("point", shape="circle", stroke=BLUE, strokeWidth=2, size=64, opacity=1)
    layers = [
        lines.encode(x=channel("from:Q", **x), x2="to:Q", y=y),
        upright(limit, x, RED, strokeDash=[6, 3]),
        marks.encode(
            x=channel("at:Q", **x),
            y=y,
            fill=fill,
            tooltip=tips(feature="Covariate", when="Weighting", text="Difference"),
        ),
    ]
    title, sentence = _balance_in_words(features, limit, stacked=", a stack (" in overlap.propensity)
    values = "; ".join(f"{names[f.name]}: {abs(f.before):.2g} before, {abs(f.after):.2g} after" for f in shown)
    return finished(layers, title, sentence, f"{title}. {values}.", max(90, 19 * len(shown) + 10))


def _balance_in_words(features: Sequence[Difference], limit: float, *, stacked: bool) -> tuple[str, list[str]]:
    worst = features[0]
    most = f"{short(worst.name)}, {abs(worst.after):.2g}"
    over = sum(abs(feature.after) > limit for feature in features)
    if over:
        title = f"After weighting {over} of {len(features)} covariates and squares still differ by more than "
        title += f"{lower_text(limit, 2)} (most: {most})"
    else:
        title = f"After weighting no covariate and no square differs by more than {upper_text(limit, 2)} (most: {most})"
    dashes = "the limit after it"
    if over and stacked:
        dashes = "the limit of a line after it; a stack is refused by standard errors"
    sentences = [f"Hollow: before weighting. Filled: after it. Red dashes: {dashes}."]
    rest = features[_MOST_FEATURES:]
    if rest:
        sentences.append(
            f"The {_MOST_FEATURES} that differ most after weighting; the other {len(rest)} differ by at most "
            f"{upper_text(abs(rest[0].after), 2)}."
        )
    return title, sentences
