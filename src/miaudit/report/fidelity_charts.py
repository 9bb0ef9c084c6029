"""Charts of fidelity: marginals and pairs of a synthetic table against real ones, and the pair plot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from miaudit.findings.fidelity import Fidelity, PairPlot
from miaudit.metrics.rounding import percent
from miaudit.report.drawing import BLUE, GREY, ORANGE, coloured, distinct, finished, in_rows, scaled
from miaudit.report.vega_lite import Chart, channel, over

NAMES = ("marginals", "associations", "pair-plot")
_MOST_COLUMNS = 30
_LONGEST = 24
_CELL = 0.86  # share of a cell of the pair plot that its bubbles take


def charts(fidelity: Fidelity) -> dict[str, Chart]:
    """Draw what is known of a table; a chart without data is left out."""
    by_name = {"marginals": _marginals(fidelity)}
    if fidelity.pairs:
        by_name["associations"] = _associations(fidelity)
    if len(fidelity.plot.columns) > 1:
        by_name["pair-plot"] = _pair_plot(fidelity.plot)
    return by_name


def cards(fidelity: Fidelity | None) -> dict[str, Any] | None:
    """Return the means as cards of a page, each with what it is, and how many records were compared."""
    if fidelity is None:
        return None
    means = {name: percent(value) for name, value in fidelity.summary.items()}
    two = "mean distance; two real samples"
    cards = [("Marginals", means["marginal_distance"], f"{two} {means['marginal_floor']}")]
    if fidelity.pairs:
        error = f"{fidelity.summary['association_error']:.3f}"
        cards += [
            ("Pairs", means["pair_distance"], f"{two} {means['pair_floor']}"),
            ("Associations", error, "mean error of Cramér's V, 0 to 1"),
        ]
    return {"cards": cards, "records": fidelity.records}


def _marginals(fidelity: Fidelity) -> Chart:
    """The distance of each column's shares, the largest first, beside what two real samples differ by."""
    ordered = sorted(fidelity.marginals, key=lambda one: -one.distance)[:_MOST_COLUMNS]
    names = distinct([one.column for one in ordered], _LONGEST)
    rows = [
        {
            "column": names[one.column],
            "distance": one.distance,
            "floor": one.floor,
            "text": f"{percent(one.distance)}, two real samples {percent(one.floor)}",
        }
        for one in ordered
    ]
    base = over(rows).encode(y=in_rows("column", 170, title="Column"))
    x = scaled("Distance", zero=True, format="~%")
    layers = [
        base.mark("rule", strokeWidth=2, color=BLUE, opacity=0.4).encode(x=channel("floor:Q", **x), x2="distance:Q"),
        base.mark("tick", thickness=2.5, color=GREY, size=15).encode(x=channel("floor:Q", **x)),
        base.mark("point", filled=True, size=75, color=BLUE, opacity=1).encode(
            x=channel("distance:Q", **x), tooltip=[channel("column:N"), channel("text:N", title="Distance")]
        ),
    ]
    summary = fidelity.summary
    title = (
        f"Marginals differ by {percent(summary['marginal_distance'])} on average; two real samples of this size by "
        f"{percent(summary['marginal_floor'])}"
    )
    sentences = ["Total variation distance. Dots: synthetic against real. Ticks: real against other real records."]
    if len(fidelity.marginals) > len(rows):
        sentences.append(f"The {len(rows)} of {len(fidelity.marginals)} columns that differ most.")
    alternative = "; ".join(f"{row['column']}: {row['text']}" for row in rows)
    return finished(layers, title, sentences, f"{title}. {alternative}.", max(90, 20 * len(rows) + 10))


def _associations(fidelity: Fidelity) -> Chart:
    """Cramer's V of each pair of columns, real against synthetic."""
    rows = [
        {
            "real": pair.real_association,
            "synthetic": pair.synthetic_association,
            "pair": f"{pair.left} and {pair.right}",
        }
        for pair in fidelity.pairs
    ]
    x = scaled("Cramér's V, real", [0, 1], format="~g", tickCount=5, grid=True)
    y: dict[str, Any] = {**x, "title": "Cramér's V, synthetic"}
    diagonal = over([{"a": 0, "b": 1}]).mark("rule", strokeDash=[4, 3], color=GREY)
    points = over(rows).mark("point", filled=True, size=34, color=BLUE, opacity=0.45)
    tooltips = [channel("pair:N"), channel("real:Q", format=".2f"), channel("synthetic:Q", format=".2f")]
    layers = [
        diagonal.encode(x=channel("a:Q", **x), x2="b:Q", y=channel("a:Q", **y), y2="b:Q"),
        points.encode(x=channel("real:Q", **x), y=channel("synthetic:Q", **y), tooltip=tooltips),
    ]
    weaker = sum(pair.synthetic_association < pair.real_association for pair in fidelity.pairs)
    title = (
        f"Associations: {weaker:,} of {len(rows):,} pairs are weaker in the synthetic table; the mean error is "
        f"{fidelity.summary['association_error']:.2f}"
    )
    sentences = ["Each dot is a pair of columns; on the dashed line it is as strong as in the real records."]
    return finished(layers, title, sentences, f"Scatter of {len(rows):,} pairs of columns. {title}.", 380)


def _pair_plot(plot: PairPlot) -> Chart:
    """Joint shares of a few columns as bubbles: the real ones above the diagonal, the synthetic ones below it."""
    names = list(distinct(plot.columns, 14).values())
    rows = []
    for pair, (i, j) in enumerate(combinations(range(len(names)), 2)):
        rows += _bubbles(plot.real[pair], plot.levels, i, j, names, real=True)
        rows += _bubbles(plot.synthetic[pair], plot.levels, i, j, names, real=False)
    edge: dict[str, Any] = {"domain": [-0.5, len(names) - 0.5], "nice": False, "zero": False}
    label = "[" + ",".join(f"'{_escaped(name)}'" for name in names) + "][datum.value]"
    axis: dict[str, Any] = {
        "values": list(range(len(names))),
        "labelExpr": label,
        "labelOverlap": False,
        "ticks": False,
        "domain": False,
    }
    x: dict[str, Any] = {
        "scale": dict(**edge),
        "axis": dict(grid=False, labelAngle=-40, **axis),
        "title": None,
    }
    y: dict[str, Any] = {"scale": dict(**edge, reverse=True), "axis": dict(grid=False, **axis), "title": None}
    lines = [{"at": k + 0.5} for k in range(len(names) - 1)]
    faint: dict[str, Any] = {"color": GREY, "opacity": 0.25}
    tooltips = [channel("which:N", title="Records"), channel("cell:N"), channel("text:N", title="Share")]
    layers = [
        over(lines).mark("rule", **faint).encode(x=channel("at:Q", **x)),
        over(lines).mark("rule", **faint).encode(y=channel("at:Q", **y)),
        over(rows)
        .mark("point", filled=True, opacity=0.8)
        .encode(
            x=channel("x:Q", **x),
            y=channel("y:Q", **y),
            size=channel("share:Q", scale={"type": "sqrt", "domain": [0, 1], "range": [0, 190]}, legend=None),
            color=coloured("which", {"real": ORANGE, "synthetic": BLUE}),
            tooltip=tooltips,
        ),
    ]
    title = f"Pairs of {len(names)} columns: the shape above the diagonal should return, mirrored, below it"
    sentences = [
        "The area of a bubble is the share of records with this pair of levels; shares below 0.2% are not drawn."
    ]
    return finished(layers, title, sentences, f"Pair plot of {', '.join(names)}. {title}.", 480)


def _bubbles(
    shares: Sequence[Sequence[float]],
    levels: Sequence[Sequence[str]],
    i: int,
    j: int,
    names: Sequence[str],
    *,
    real: bool,
) -> list[dict[str, Any]]:
    """Bubbles of one pair; above the diagonal the column is j and the row i, below it the other way round."""
    bubbles = []
    for a, row in enumerate(shares):
        for b, share in enumerate(row):
            if share < 0.002:
                continue
            of_i, of_j = ((k + 0.5) / count - 0.5 for k, count in ((a, len(levels[i])), (b, len(levels[j]))))
            place = (j + _CELL * of_j, i + _CELL * of_i) if real else (i + _CELL * of_i, j + _CELL * of_j)
            bubbles.append(
                {
                    "x": round(place[0], 4),
                    "y": round(place[1], 4),
                    "share": share,
                    "which": "real" if real else "synthetic",
                    "cell": f"{names[i]}: {levels[i][a]}; {names[j]}: {levels[j][b]}",
                    "text": percent(share),
                }
            )
    return bubbles


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
