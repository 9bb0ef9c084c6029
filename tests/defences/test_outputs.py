"""Measures on outputs: what each discloses, and what each keeps."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from miaudit.config.disclosure import DisclosureSection
from miaudit.defences import registry
from miaudit.defences.outputs import AsItIs, Disclosed, Kind, LabelOnly, Rounding, Stateless, TopK, TrueLabel, checked
from miaudit.errors import InputError


def vectors(n: int = 50, classes: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), size=n)


@pytest.mark.long
@given(st.integers(0, 2**31), st.integers(2, 8), st.integers(1, 9))
def test_the_largest_are_kept_and_the_rest_is_flat(seed: int, classes: int, k: int) -> None:
    p = vectors(5, classes, seed)
    shown = TopK(k).apply(p, rng=np.random.default_rng(0)).values
    for before, after in zip(p, shown, strict=True):  # slow twin
        order = np.argsort(-before)
        assert after[order[:k]] == pytest.approx(before[order[:k]])
        if k < classes:
            assert after[order[k:]] == pytest.approx(
                np.full(classes - k, (1 - before[order[:k]].sum()) / (classes - k))
            )
    assert shown.sum(axis=1) == pytest.approx(np.ones(5))


QUICK = {"memguard": {"epochs": 2, "steps": 20}}


def test_what_keeps_the_label_does() -> None:
    rng = np.random.default_rng(1)
    p, y = vectors(300), rng.integers(0, 6, 300)
    for name in registry.DEFENCES:
        defence = registry.make(name, QUICK.get(name))
        fitted = defence.fit(p, y, learnt=vectors(200, seed=3), rng=rng)
        found = fitted.apply(p, rng=rng)
        assert found.kind == defence.kind
        assert found.values.shape == p.shape
        if defence.keeps_label:
            assert (found.values.argmax(axis=1) == p.argmax(axis=1)).all(), name
    coarse = Rounding(0).apply(np.array([[0.3, 0.4, 0.3]]), rng=rng).values
    assert coarse.argmax(axis=1) != 1  # the control: rounding may lose the label, and does not say that it keeps it


@pytest.mark.long
def test_every_measure_says_when_it_draws() -> None:
    rng = np.random.default_rng(2)
    p, y = vectors(300), rng.integers(0, 6, 300)
    options = {
        "threshold": {"temperature": 0.1},
        "noise": {"fixed": True},
        "adaptive-set": {"randomised": True},
        **QUICK,
    }
    for name in registry.DEFENCES:
        defence = registry.make(name, options.get(name))
        fitted = defence.fit(p, y, learnt=vectors(200, seed=3), rng=np.random.default_rng(0))
        one, other = (fitted.apply(p, rng=np.random.default_rng(seed)).values for seed in (1, 2))
        if name not in ("adversarial-noise", "memguard"):  # one draws only where the budget is short, one by a key
            assert np.array_equal(one, other) == (defence.randomness == "none"), name


@dataclass(frozen=True)
class Blunt(Stateless):
    """Probabilities that are drawn towards equal ones."""

    share: float = 0.5
    kind: Kind = "confidence-vector"
    words: str = "blunted"

    def apply(self, probabilities: np.ndarray, *, rng: np.random.Generator) -> Disclosed:
        p = checked(probabilities)
        return Disclosed(self.kind, (1 - self.share) * p + self.share / p.shape[-1])


def test_a_registered_measure_is_known_from_then_on() -> None:
    asked = {"defences": ["label", {"blunt": {"share": 0.2}}]}
    with pytest.raises(ValidationError, match="blunt"):
        DisclosureSection.model_validate(asked)
    registry.register("blunt", Blunt)
    try:
        assert registry.make("blunt", {"share": 0.2}) == Blunt(0.2)
        assert "blunt" in registry.DEFENCES
        assert ("blunt", {"share": 0.2}) in DisclosureSection.model_validate(asked).defences
        with pytest.raises(InputError, match="name: expected a new name, received 'blunt'"):
            registry.register("blunt", TopK)
    finally:
        registry._DEFENCES.pop("blunt")


@pytest.mark.parametrize(
    ("name", "measure", "words"),
    [
        ("label", Blunt, "name"),
        ("", Blunt, "name"),
        ("other", Blunt(), "measure: expected a dataclass"),
        ("other", dict, "measure: expected a dataclass"),
        ("other", Disclosed, "without a default of kind"),
        ("other", make_dataclass("Bare", ["a"], namespace={"a": 1}), "measure: expected a Defence"),
    ],
)
def test_what_is_no_measure_is_not_registered(name: str, measure: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        registry.register(name, measure)
    assert "other" not in registry.DEFENCES


def test_shapes_of_any_depth() -> None:
    p = vectors(24).reshape(4, 3, 2, 6)
    rng = np.random.default_rng(0)
    for defence in (AsItIs(), TrueLabel(), Rounding(2), TopK(2), LabelOnly()):
        flat = defence.apply(p.reshape(24, 6), rng=rng).values
        assert np.array_equal(defence.apply(p, rng=rng).values.reshape(24, 6), flat)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.5, 0.4]], "rows that add up to 1, received 0.9"),
        ([[1.5, -0.5]], "received a negative number"),
        ([[1.0]], "two classes or more, received K = 1"),
        ([["a", "b"]], "numbers"),
        ([[np.nan, 1.0]], "rows that add up to 1"),
    ],
)
def test_what_are_no_probabilities_is_refused(values: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(values)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("topk", {}, "did you mean top-k"),
        ("top-k", {"n": 1}, "options of top-k: k, received 'n'"),
        ("top-k", {"k": 0}, "defences.top-k.k: expected a whole number from 1 up"),
        ("top-k", {"k": 1.5}, "a whole number, received 1.5"),
        ("rounding", {"digits": -1}, "from 0 to 15"),
        ("threshold", {"threshold": 2}, r"a number in \[0, 1\]"),
        ("threshold", {"fixed": 1}, "true or false"),
        ("conformal", {"coverage": 1.0}, r"a number in \(0, 1\)"),
        ("noise", {"scale": 0.0}, "above 0"),
        ("adversarial-noise", {"budget": 3.0}, r"\(0, 2\]"),
        ("temperature", {"temperature": "hot"}, "a number, received 'hot'"),
        ("temperature", {"temperature": True}, "a number, received True"),
        ("label", {"kind": "x"}, "options of label: none"),
    ],
)
def test_options_are_checked(name: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.make(name, options)
