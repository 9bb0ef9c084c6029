"""Descriptions of mechanisms."""

from __future__ import annotations

import math

import pytest
import yaml

from miaudit.dp.accounting import dp_sgd, from_mapping, upper_bound
from miaudit.dp.mechanism import Composed, GaussianNoise, LaplaceNoise, PoissonSubsampled, Repeated
from miaudit.dp.tradeoff import Gaussian
from miaudit.errors import InputError


def test_a_description_in_yaml() -> None:
    text = """
    kind: composed
    parts:
      - {kind: dp-sgd, records: 2000, batch: 128, epochs: 75, noise: 3}
      - {kind: repeated, times: 2, mechanism: {kind: subsampled, rate: 0.1, mechanism: {kind: laplace, noise: 5}}}
      - {kind: gaussian, noise: 20}
    """
    assert from_mapping(yaml.safe_load(text)) == Composed(
        (
            Repeated(PoissonSubsampled(GaussianNoise(3.0), 0.064), 1172),
            Repeated(PoissonSubsampled(LaplaceNoise(5.0), 0.1), 2),
            GaussianNoise(20.0),
        )
    )
    assert upper_bound({"kind": "gaussian", "noise": 2.0}, parameter="mu").value == 0.5


SGD = {"kind": "dp-sgd", "records": 2000, "batch": 128, "epochs": 75, "noise": 3}


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({"kind": "exponential"}, "mechanism.kind: expected one of gaussian"),
        ({"kind": "dpsgd"}, "did you mean dp-sgd"),
        ({}, "mechanism.kind"),
        ("dp-sgd", "a mapping"),
        ({"kind": "gaussian"}, "mechanism.noise: expected a value"),
        ({"kind": "gaussian", "noise": 0}, "mechanism.noise"),
        ({"kind": "gaussian", "noise": "3"}, "mechanism.noise"),
        ({"kind": "gaussian", "noise": math.nan}, "mechanism.noise"),
        ({"kind": "gaussian", "noise": True}, "mechanism.noise"),
        ({**SGD, "noize": 1}, "did you mean noise"),
        ({**SGD, "steps": 5}, "received both"),
        ({k: v for k, v in SGD.items() if k != "epochs"}, "received neither"),
        ({**SGD, "batch": 3000}, "at most the 2,000 records"),
        ({**SGD, "records": 2000.5}, "whole number"),
        ({**SGD, "sampling": "shuffle"}, "give up the amplification"),
        ({"kind": "composed", "parts": []}, "at least one"),
        ({"kind": "composed", "parts": "x"}, "a list"),
        ({"kind": "composed", "parts": [SGD, {"kind": "laplace"}]}, r"mechanism.parts\[1\].noise"),
        ({"kind": "repeated", "times": 0, "mechanism": SGD}, "mechanism.times"),
        ({"kind": "subsampled", "rate": 1.5, "mechanism": {"kind": "gaussian", "noise": 1}}, "mechanism.rate"),
        ({"kind": "subsampled", "rate": 0.5, "mechanism": SGD}, "sample before the noise"),
    ],
)
def test_a_description_that_cannot_be_read_says_where_and_why(description, said: str) -> None:
    with pytest.raises(InputError, match=said):
        from_mapping(description)


def test_unknown_mechanisms_and_questions_are_refused() -> None:
    for unknown in ("dp-sgd", None, Gaussian(1.0), 3.0):
        with pytest.raises(InputError, match="cannot be accounted for"):
            upper_bound(unknown, delta=0.1)
    with pytest.raises(InputError, match="without its delta"):
        upper_bound(GaussianNoise(1.0))
    with pytest.raises(InputError, match="not subsampled"):
        upper_bound(dp_sgd(records=100, batch=10, steps=5, noise=1.0), parameter="mu")
    with pytest.raises(InputError, match="not subsampled"):
        upper_bound(Composed((GaussianNoise(1.0), LaplaceNoise(1.0))), parameter="mu")
    with pytest.raises(InputError, match="parameter"):
        upper_bound(GaussianNoise(1.0), parameter="rho")
