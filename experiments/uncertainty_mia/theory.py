"""The numbers behind Figures 4, 6 to 10, 12 and 13 of uncertainty-mia, from the library, without draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from miaudit import disclosure
from miaudit.disclosure.bounds import lemma_1
from miaudit.disclosure.contraction import contraction
from miaudit.disclosure.dirichlet import World

KINDS = ("confidence-vector", "true-label", "decision-set")
FORMS = ("printed", "tight", "region")
Settings = Mapping[str, Any]


def world(settings: Settings, **changed: float) -> dict[str, float]:
    names = ("classes", "aleatoric", "epistemic", "calibration_error")
    return {name: settings[name] for name in names} | changed


def spaced(grid: Mapping[str, Any]) -> list[float]:
    return [round(float(x), 10) for x in np.linspace(grid["from"], grid["to"], grid["points"])]


def checks(settings: Settings) -> dict[str, Any]:
    """Erratum E7, and the same advantages by simulation."""
    values = world(settings)
    found: dict[str, Any] = {}
    for kind, child in zip(KINDS, np.random.default_rng(settings["seed"]).spawn(3), strict=True):
        options = {"threshold": settings["threshold"]}
        exact = disclosure.advantage(kind, **values, **options)
        drawn = disclosure.advantage(kind, **values, **options, method="simulation", draws=settings["draws"], rng=child)
        bound = disclosure.bound(kind, **values, **options)
        found[kind] = {
            "averaged": exact.value,
            "simulated": drawn.value,
            "simulation_error": drawn.error,
            "symmetrised_divergence": bound.out_in + bound.in_out,
        }
    return found


def factor(settings: Settings) -> list[dict[str, float]]:
    """Figure 4: delta_{T,q} with two classes, and with the paper's ten, where it lies between two values."""
    return [
        {"classes": classes, "temperature": heat, "threshold": q, "lower": found.lower, "upper": found.upper}
        for classes in (2, settings["classes"])
        for heat in settings["temperatures"]
        for q in spaced(settings["thresholds"])
        for found in [contraction(classes, q, heat)]
    ]


def curves(settings: Settings) -> list[dict[str, Any]]:
    """Figure 6: beta_alpha and its lower bound by Lemma 1."""
    model = World(**world(settings))
    rates = np.linspace(0, 1, 101)
    rows = []
    for kind in KINDS:
        curve = disclosure.curve_of(model.alpha_in, model.alpha_out, kind, threshold=settings["threshold"])
        bound = disclosure.bound(kind, **world(settings), threshold=settings["threshold"], form="region")
        lower = lemma_1(rates, bound.out_in, bound.in_out)
        rows += [
            {"disclosure": kind, "tnr": float(a), "fnr": float(b), "lower": float(c)}
            for a, b, c in zip(rates, curve(rates), lower, strict=True)
        ]
    return rows


def sweep(settings: Settings, parameter: str) -> list[dict[str, Any]]:
    """One of Figures 7 to 9, with its row of Figure 12: advantages and bounds as one parameter changes."""
    grid, rows = settings["sweeps"][parameter], []
    for x in spaced(grid):
        values = world(settings, **{parameter: x})
        for kind in KINDS:
            options = {"threshold": grid["threshold"]}
            high = {**options, "alpha": settings["high_tnr"]}
            averaged = disclosure.advantage(kind, **values, **options)
            bounds = {form: disclosure.bound(kind, **values, **options, form=form).value for form in FORMS}
            rows.append(
                {
                    "x": x,
                    "disclosure": kind,
                    "averaged": averaged.value,
                    "error": averaged.error,
                    **bounds,
                    "approximate": disclosure.bound(kind, **values, **options, form="approximate").value,
                    "high": disclosure.advantage(kind, **values, **high).value,
                    "high_region": disclosure.bound(kind, **values, **high, form="region").value,
                }
            )
    return rows


def sets(settings: Settings) -> list[dict[str, Any]]:
    """Figures 10 and 13: set size and advantage as the threshold changes, at each temperature."""
    model, rows = World(**world(settings)), []
    for heat in settings["temperatures"]:
        for q in spaced(settings["thresholds"]):
            options = {"threshold": q, "temperature": heat}
            sizes = disclosure.expected_size(np.stack([model.alpha_out, model.alpha_in]), **options)
            rows.append(
                {
                    **options,
                    "size_out": float(sizes[0]),
                    "size_in": float(sizes[1]),
                    "averaged": disclosure.advantage("decision-set", **world(settings), **options).value,
                    "high": disclosure.advantage(
                        "decision-set", **world(settings), **options, alpha=settings["high_tnr"]
                    ).value,
                    "bound": disclosure.bound("decision-set", **world(settings), **options).value,
                }
            )
    return rows
