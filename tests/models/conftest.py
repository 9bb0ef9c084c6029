from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def asked_for_tf32() -> Iterator[None]:
    """A process in which TF32 was asked for, whatever the library is told."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("an older torch")
    places = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [place.fp32_precision for place in places]
    for place in places:
        place.fp32_precision = "tf32"
    yield
    for place, value in zip(places, before, strict=True):
        place.fp32_precision = value
