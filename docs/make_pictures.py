"""Draw the pictures of docs/concepts.md: ``python docs/make_pictures.py``. Laws in closed form, no simulation."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
from scipy.stats import norm

from miaudit.report import drawing

HERE = Path(__file__).parent / "images"
MEMBERS, OTHERS, GREY = "#d55e00", "#0072b2", "#8a8a8a"
FONT = "sans-serif"


def designs() -> str:
    """Three panels: what is random in a multi-run, a one-run and a zero-run audit."""
    panels = [
        ("multi-run", "many models, one coin for each", _models(), "inclusion was drawn: cause"),
        ("one-run", "one model, one coin for each record", _one(), "inclusion was drawn: cause"),
        ("zero-run", "one model, nobody drew", _shifted(), "members differ anyway: cause and shift"),
    ]
    body = [
        f'<g transform="translate({20 + 250 * i} 0)"><text x="110" y="24" class="head">{name}</text>'
        f'<text x="110" y="44">{said}</text>{drawn}<text x="110" y="212">{what}</text></g>'
        for i, (name, said, drawn, what) in enumerate(panels)
    ]
    style = (
        f"text{{font-family:{FONT};font-size:12px;text-anchor:middle;fill:#333}}"
        ".head{font-weight:bold;font-size:15px}"
    )
    frames = "".join(
        f'<rect x="{10 + 250 * i}" y="4" width="240" height="218" rx="6" fill="#fff" stroke="#ccc"/>' for i in range(3)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 228" role="img" aria-label="Three designs">'
        f"<style>{style}</style>{frames}{''.join(body)}</svg>\n"
    )


def _record(x: float, y: float, member: bool) -> str:
    fill = MEMBERS if member else "#fff"
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="7" fill="{fill}" stroke="{MEMBERS if member else OTHERS}" stroke-width="2"/>'
    )


def _model(x: float, y: float, width: float = 26) -> str:
    return (
        f'<rect x="{x - width / 2:g}" y="{y - 13:g}" width="{width:g}" height="26" rx="4" '
        f'fill="#e8e8e8" stroke="#666"/>'
        f'<text x="{x:g}" y="{y + 4:g}">f</text>'
    )


def _models() -> str:
    coins = (True, False, False, True, False, True)
    drawn = [_record(20 + 36 * i, 90, coin) + _model(20 + 36 * i, 150) for i, coin in enumerate(coins)]
    arrows = [
        f'<path d="M{20 + 36 * i} 99 V134" stroke="{MEMBERS if coin else "#ccc"}" '
        f'stroke-dasharray="{"none" if coin else "3 3"}" stroke-width="2"/>'
        for i, coin in enumerate(coins)
    ]
    return "".join(arrows + drawn) + '<text x="110" y="188">each model: with or without the record</text>'


def _one() -> str:
    coins = (True, False, True, True, False, False, True, False, False, True, False, True)
    places = [(20 + 36 * (i % 6), 76 + 26 * (i // 6)) for i in range(len(coins))]
    lines = [
        f'<path d="M{x} {y} L110 150" stroke="{MEMBERS}" stroke-opacity="0.35"/>'
        for (x, y), coin in zip(places, coins, strict=True)
        if coin
    ]
    drawn = [_record(x, y, coin) for (x, y), coin in zip(places, coins, strict=True)]
    return "".join([*lines, *drawn, _model(110, 158, 60)]) + '<text x="110" y="188">filled: trained on</text>'


def _shifted() -> str:
    inside = [(24, 100), (44, 84), (58, 104), (80, 82), (96, 104), (120, 90)]
    outside = [(104, 74), (134, 106), (150, 80), (170, 102), (184, 78), (204, 96)]
    lines = [f'<path d="M{x} {y} L110 150" stroke="{MEMBERS}" stroke-opacity="0.35"/>' for x, y in inside]
    drawn = [_record(x, y, True) for x, y in inside] + [_record(x, y, False) for x, y in outside]
    axis = '<path d="M16 124 H204" stroke="#999"/><text x="30" y="138">2016</text><text x="190" y="138">2024</text>'
    return (
        "".join([*lines, *drawn, axis, _model(110, 162, 60)])
        + '<text x="110" y="190">older ones were trained on</text>'
    )


def roc() -> alt.LayerChart:
    """Two attacks with one AUC: one finds a tenth of the members for certain, one is a little right about everybody."""
    fpr = np.logspace(-4, 0, 200)
    gap = np.sqrt(2) * norm.ppf(0.55)
    tables = [
        pl.DataFrame({"fpr": fpr, "tpr": 0.1 + 0.9 * fpr, "attack": "sure of one member in ten"}),
        pl.DataFrame({"fpr": fpr, "tpr": norm.sf(norm.isf(fpr) - gap), "attack": "a little right about everybody"}),
        pl.DataFrame({"fpr": fpr, "tpr": fpr, "attack": "guessing"}),
    ]
    names = [table["attack"][0] for table in tables]
    lines = (
        alt.Chart(pl.concat(tables))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("fpr:Q", title="false-positive rate", scale=alt.Scale(type="log"), axis=alt.Axis(format="%")),
            y=alt.Y("tpr:Q", title="members found (TPR)", scale=alt.Scale(type="log"), axis=alt.Axis(format="%")),
            color=_colours("attack", names, [MEMBERS, OTHERS, GREY]),
        )
    )
    rule = alt.Chart(pl.DataFrame({"fpr": [0.001]})).mark_rule(strokeDash=[4, 4], color="#555").encode(x="fpr:Q")
    return _finished(lines + rule, "Both have an AUC of 0.55")


def weighting() -> alt.LayerChart:
    """Densities of a covariate: members, non-members, and non-members weighted by the odds of membership."""
    x = np.linspace(-4, 5, 300)
    members, others = norm.pdf(x, 1), norm.pdf(x)
    names = ["members", "non-members", "non-members, weighted"]
    weighted = others * members / others  # odds at equal sizes: the ratio of densities
    tables = [
        pl.DataFrame({"x": x, "density": density, "who": name})
        for name, density in zip(names, (members, others, weighted), strict=True)
    ]
    lines = (
        alt.Chart(pl.concat(tables))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("x:Q", title="covariate"),
            y=alt.Y("density:Q", title="density"),
            color=_colours("who", names, [MEMBERS, OTHERS, OTHERS]),
            strokeDash=alt.StrokeDash(
                "who:N", sort=names, scale=alt.Scale(range=[[1, 0], [1, 0], [5, 5]]), legend=None
            ),
        )
    )
    area = (
        alt.Chart(pl.DataFrame({"x": x[x > 3], "density": members[x > 3]}))
        .mark_area(color=MEMBERS, opacity=0.25)
        .encode(x="x:Q", y="density:Q")
    )
    return _finished(area + lines, "Weighted by the odds, non-members look like members; shaded: hardly any to weight")


def thinning() -> alt.LayerChart:
    """Expected members and non-members by covariate, and how many of each are kept."""
    x = np.arange(-3, 4)
    chance = 1 / (1 + np.exp(-0.8 * x))
    total = 1000 * norm.pdf(x, scale=1.5)
    rows = []
    for name, count in (("members", total * chance), ("non-members", total * (1 - chance))):
        kept = total * np.minimum(chance, 1 - chance)
        for value, many, stay in zip(x, count, kept, strict=True):
            rows += [
                {"x": int(value), "who": name, "what": f"{name}, kept", "records": float(stay)},
                {"x": int(value), "who": name, "what": f"{name}, dropped", "records": float(many - stay)},
            ]
    names = ["members, kept", "members, dropped", "non-members, kept", "non-members, dropped"]
    bars = (
        alt.Chart(pl.DataFrame(rows))
        .mark_bar()
        .encode(
            x=alt.X("x:O", title="covariate", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("who:N"),
            y=alt.Y("records:Q", title="records"),
            color=_colours("what", names, [MEMBERS, "#f3cfb3", OTHERS, "#b3d4e8"]),
            order=alt.Order("what:N", sort="descending"),
        )
    )
    return _finished(alt.layer(bars), "What is kept: as many members as non-members wherever one looks")


def bounds() -> alt.LayerChart:
    """Where the lower bound of an audit and the upper bound of a theorem leave a claim of epsilon 2."""
    cases = ["refuted", "not refuted, nothing shown", "not refuted, little room left", "theorem and runs contradict"]
    table = pl.DataFrame({"case": cases, "low": [2.6, 0.0, 1.4, 3.4], "high": [5.0, 5.0, 1.9, 2.6]})
    order = alt.Y("case:N", sort=cases, title=None, axis=alt.Axis(labelLimit=260))
    between = alt.Chart(table).mark_rule(color="#bbb", strokeWidth=5).encode(x="low:Q", x2="high:Q", y=order)
    marks = [
        alt.Chart(table.select("case", pl.col(name).alias("value"), pl.lit(words).alias("which")))
        .mark_point(filled=True, size=130, opacity=1, shape=shape)
        .encode(
            x=alt.X("value:Q", title="epsilon", scale=alt.Scale(domain=[0, 5.5])),
            y=order,
            color=_colours("which", ["audit: at least", "theorem: at most"], [MEMBERS, OTHERS]),
        )
        for name, words, shape in (
            ("low", "audit: at least", "triangle-right"),
            ("high", "theorem: at most", "triangle-left"),
        )
    ]
    claim = alt.Chart(pl.DataFrame({"value": [2.0]})).mark_rule(strokeDash=[4, 4], strokeWidth=2).encode(x="value:Q")
    return _finished(alt.layer(between, claim, *marks), "A claim of epsilon = 2 (dashed)", height=190)


def _colours(field: str, names: list[str], colours: list[str]) -> alt.Color:
    scale = alt.Scale(domain=names, range=colours)
    return alt.Color(f"{field}:N", sort=names, scale=scale, legend=alt.Legend(title=None, orient="bottom", columns=2))


def _finished(chart: alt.LayerChart, title: str, height: int = 280) -> alt.LayerChart:
    drawn: alt.LayerChart = (
        chart.properties(width=520, height=height, title=title, background="white", padding=12)
        .configure(font=FONT)
        .configure_axis(labelFontSize=12, titleFontSize=13, grid=True, gridColor="#eee")
        .configure_legend(labelFontSize=12, labelLimit=260)
    )
    return drawn


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    (HERE / "designs.svg").write_text(designs(), encoding="utf-8")
    for name, chart in (("roc", roc()), ("weighting", weighting()), ("thinning", thinning()), ("bounds", bounds())):
        (HERE / f"{name}.svg").write_text(drawing.svg(chart.to_dict()), encoding="utf-8")
