"""Processes for the simulations, started once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

import pytest

from worlds import coverage


@pytest.fixture(scope="session")
def pool() -> Iterator[Executor]:
    # Fresh processes and one thread of linear algebra each: the numbers do not depend on how many there are.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(coverage.WORKERS, mp_context=context) as executor:
        yield executor
