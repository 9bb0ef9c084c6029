"""Signals against the formulas of the papers, in decimal arithmetic with 80 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from miaudit.attacks import signals
from miaudit.errors import InputError

NAMES = tuple(signals.SIGNALS)


def naive(name: str, logits: list[float], label: int) -> float:
    """The definition, spelt out; plain Python numbers so precise that nothing rounds to 0 or 1."""
    with localcontext() as context:
        context.prec = 80
        # exp of a difference of 2e4 needs exponents of 1e4: decimal has them.
        top = max(Decimal(z) for z in logits)
        weights = [(Decimal(z) - top).exp() for z in logits]
        total = sum(weights)
        p = [w / total for w in weights]
        rest = [sum(w for j, w in enumerate(weights) if j != i) / total for i in range(len(weights))]  # 1 - p
        own = p[label]
        value = {
            "loss": lambda: -own.ln(),
            "logit_confidence": lambda: own.ln() - rest[label].ln(),
            "margin": lambda: Decimal(logits[label]) - max(Decimal(z) for i, z in enumerate(logits) if i != label),
            "entropy": lambda: -sum(q * q.ln() for q in p),
            "modified_entropy": lambda: (
                -rest[label] * own.ln() - sum(p[i] * rest[i].ln() for i in range(len(p)) if i != label)
            ),
        }[name]()
        return float(value)


@pytest.mark.long
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_definition(name: str, data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from([1.0, 30.0, 1e4]))
    classes = data.draw(st.integers(2, 6))
    row = [scale * z for z in data.draw(st.lists(st.floats(-1, 1), min_size=classes, max_size=classes))]
    label = data.draw(st.integers(0, classes - 1))
    function, _ = signals.SIGNALS[name]
    found = function(np.array([row]), np.array([label]))
    assert found.shape == (1,)
    assert float(found[0]) == pytest.approx(naive(name, row, label), rel=1e-9, abs=1e-11 * max(scale, 1))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_overflows_at_ten_thousand(name: str) -> None:
    function, _ = signals.SIGNALS[name]
    logits = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [1e4, 1e4, 1e4], [-1e4, -1e4, -1e4]])
    for label in range(3):
        found = function(logits, np.full(4, label))
        assert np.isfinite(found).all()
        expected = [naive(name, row.tolist(), label) for row in logits]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", ["loss", "logit_confidence", "entropy", "modified_entropy"])
def test_digits_survive_where_p_rounds_to_one(name: str) -> None:
    logits, label = np.array([[60.0, 0.0, 1.0], [61.0, 0.0, 1.0]]), np.zeros(2, dtype=int)
    p = special.softmax(logits, axis=1)[:, 0]
    assert (p == 1).all()
    with np.errstate(divide="ignore"):
        assert (-np.log(p) == 0).all()  # control: the textbook formula loses them
        assert np.isinf(np.log(p / (1 - p))).all()
    found = signals.SIGNALS[name][0](logits, label)
    expected = [naive(name, row.tolist(), 0) for row in logits]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found[0] != found[1]


def test_agrees_with_scipy_on_ordinary_outputs() -> None:
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(200, 7)) * 3, rng.integers(0, 7, 200)
    p = special.softmax(logits, axis=1)
    own = p[np.arange(200), labels]
    np.testing.assert_allclose(signals.loss(logits, labels), -np.log(own), rtol=1e-10)
    np.testing.assert_allclose(signals.logit_confidence(logits, labels), special.logit(own), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(signals.entropy(logits, labels), stats.entropy(p, axis=1), rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_and_logits_agree(name: str) -> None:
    rng = np.random.default_rng(2)
    logits, labels = rng.normal(size=(100, 5)) * 4, rng.integers(0, 5, 100)
    from_logits = signals.member_scores(logits=logits, labels=labels, names=[name])[name]
    p = special.softmax(logits, axis=1)
    from_p = signals.member_scores(probabilities=p, labels=labels, names=[name])[name]
    np.testing.assert_allclose(from_p, from_logits, rtol=1e-7, atol=1e-10)
    shifted = signals.member_scores(logits=logits + 100, labels=labels, names=[name])[name]
    np.testing.assert_allclose(shifted, from_logits, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_probability_of_zero_or_one_is_finite(name: str) -> None:
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0005, 0.0, 0.0]]
    for label in range(3):
        found = signals.member_scores(probabilities=rows, labels=[label] * 4, names=[name])[name]
        assert np.isfinite(found).all()


@pytest.mark.parametrize("name", NAMES)
def test_higher_is_more_member_like(name: str) -> None:
    """A confident right answer scores above an unsure one, whatever the signal."""
    found = signals.member_scores(logits=[[9.0, 0.0, 0.0], [0.2, 0.0, 0.0]], labels=[0, 0], names=[name])[name]
    assert found[0] > found[1]


def test_entropy_does_not_see_the_label_and_modified_entropy_does() -> None:
    logits = np.array([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0]])
    labels = np.array([0, 1])
    assert np.ptp(signals.entropy(logits, labels)) == 0
    assert np.ptp(signals.modified_entropy(logits, labels)) > 5


def test_several_signals_come_by_name() -> None:
    found = signals.member_scores(logits=[[1.0, 0.0]], labels=[0], names=NAMES)
    assert tuple(found) == NAMES
    assert found["margin"][0] == 1.0
    assert found["loss"][0] == pytest.approx(-np.log1p(np.exp(-1)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"logits": [[0.0, 1.0]], "labels": [2]}, "labels"),
        ({"logits": [[0.0, 1.0]], "labels": [-1]}, "labels"),
        ({"logits": [[0.0, 1.0]], "labels": [0.5]}, "labels"),
        ({"logits": [[0.0, 1.0]], "labels": ["0"]}, "labels"),
        ({"logits": [[0.0, 1.0]], "labels": [0, 1]}, "labels"),
        ({"logits": [[0.0, 1.0]], "labels": [[0, 1]]}, "labels"),
        ({"logits": [[0.0, np.nan]], "labels": [0]}, "logits"),
        ({"logits": [[0.0, -np.inf]], "labels": [0]}, "logits"),
        ({"logits": [[0.0]], "labels": [0]}, "logits"),
        ({"logits": [0.0, 1.0], "labels": [0, 1]}, "logits"),
        ({"logits": [["a", "b"]], "labels": [0]}, "logits"),
        ({"probabilities": [[0.5, 0.6]], "labels": [0]}, "probabilities"),
        ({"probabilities": [[-0.5, 1.5]], "labels": [0]}, "probabilities"),
        ({"probabilities": [[0.5, 0.4989]], "labels": [0]}, "probabilities"),
        ({"labels": [0]}, "outputs"),
        ({"logits": [[0.0, 1.0]], "probabilities": [[0.5, 0.5]], "labels": [0]}, "outputs"),
        ({"logits": [[0.0, 1.0]], "labels": [0], "names": ["los"]}, "signal"),
    ],
)
def test_bad_outputs_are_refused_in_one_line(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        signals.member_scores(**arguments)
    assert caught.value.argument == said
    assert "\n" not in str(caught.value)


def test_a_sum_within_a_thousandth_is_accepted() -> None:
    found = signals.member_scores(probabilities=[[0.5, 0.4995]], labels=[0])["loss"]
    assert found[0] == pytest.approx(np.log(0.5 / 0.9995))


def test_labels_of_one_column_are_labels() -> None:
    logits = [[0.0, 1.0], [2.0, 0.5]]
    found, flat = (signals.member_scores(logits=logits, labels=y) for y in ([[1], [0]], [1, 0]))
    assert all(np.array_equal(found[name], flat[name]) for name in flat)


def test_probabilities_in_percent_are_named() -> None:
    with pytest.raises(InputError, match="percent\\? divide by 100"):
        signals.member_scores(probabilities=[[40.0, 60.0], [1.0, 99.0]], labels=[0, 1])
