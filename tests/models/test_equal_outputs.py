"""Fits on different records with equal outputs are refused with their numbers; honest ones are not."""

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.models.equal_outputs import EqualOutputs, require_different

N = 60


def names(count):
    return [f"model {m}" for m in range(count)]


def halves(count, seed=0):
    return np.random.default_rng(seed).random((count, N)) < 0.5


def soft(count, seed=1):
    return list(np.random.default_rng(seed).normal(size=(count, N, 2)))


def test_honest_fits_pass():
    require_different(soft(5), halves(5), names(5))


@pytest.mark.parametrize("same", [(0, 1), (2, 4)])
def test_two_fits_with_the_outputs_of_one_are_named(same):
    outputs = soft(5)
    outputs[same[1]] = outputs[same[0]].copy()
    with pytest.raises(InputError, match=f"equal outputs of model {same[0]} and model {same[1]}, which learned"):
        require_different(outputs, halves(5), names(5))


def test_a_stale_cache_is_named_by_all_its_fits():
    with pytest.raises(InputError, match="equal outputs of model 0, model 1, model 2, model 3 and model 4"):
        require_different(soft(1) * 5, halves(5), names(5))
    with pytest.raises(InputError, match="model 5 and 9 in all"):
        require_different(soft(1) * 9, halves(9), names(9))


def test_fits_on_the_same_records_may_say_the_same():
    require_different(soft(1) * 4, np.repeat(halves(1), 4, axis=0), names(4))


def test_labels_alone_may_be_equal_unless_all_are():
    rng = np.random.default_rng(2)
    labels = [np.eye(2)[rng.integers(0, 2, N)] for _ in range(3)]
    require_different([labels[0], labels[0], labels[1]], halves(3), names(3))
    with pytest.raises(InputError, match="equal outputs"):
        require_different([labels[0]] * 3, halves(3), names(3))


def test_models_that_differ_by_one_record_may_be_equal_unless_all_are():
    """A support vector machine forgets what lies far from its boundary: the control is a cache."""
    included = ~np.eye(N, dtype=np.bool_)[:3]
    outputs = soft(2)
    require_different([outputs[0], outputs[0], outputs[1]], included, names(3))
    with pytest.raises(InputError, match="equal outputs"):
        require_different([outputs[0]] * 3, included, names(3))


def test_one_fit_is_never_equal_to_itself():
    seen = EqualOutputs()
    seen.add("model 0", soft(1)[0], halves(1)[0])
    assert seen.sentence == ""
