"""JSON of a bundle from a stranger."""

import numpy as np
import pytest

from bundle.test_attacks import AUC, lying, nested, stored
from bundle.test_bundle import N, evidence
from miaudit.bundle import challenge, read, record
from miaudit.bundle.verify import verify
from miaudit.errors import InputError


@pytest.mark.parametrize("depth", [70, 300, 900])
@pytest.mark.parametrize("where", ["notes", "random", "environment", "plan", "more"])
def test_deep_json_is_refused(tmp_path, depth, where):
    deep = nested(depth)
    values = {"notes": [deep], "random": {"entropy": deep}, "environment": {"numpy": deep}}
    path = lying(stored(tmp_path), lambda a: a.update({where: values.get(where, deep)}))
    with pytest.raises(InputError, match="levels"):
        verify(path)


def test_deep_findings_are_refused(tmp_path):
    path = lying(stored(tmp_path), findings=lambda c: c["repeat"].update(more=nested(500)))
    with pytest.raises(InputError):
        read(path)


@pytest.mark.parametrize("value", [1e300, -1e308])
def test_numbers_too_large_are_refused_in_one_line(value):
    _, bundle, _ = record(evidence(), plan=AUC, rng=np.random.default_rng(0))
    with pytest.raises(InputError) as caught:
        challenge.by_scores(bundle, np.where(np.arange(N) == 3, value, 0.0), rng=np.random.default_rng(1))
    assert "\n" not in str(caught.value)
