"""Work on the processor's cores: one piece on each, and no more threads than cores whatever the environment says."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.arrays import BoolArray, Float32Array, FloatArray
from miaudit.causal import progress

T = TypeVar("T")
R = TypeVar("R")
_MOST = 4  # at a time; more would hold more in memory, and five folds gain little


def available() -> int:
    """Return how many pieces to work on at a time: 1 inside somebody's process or thread of many."""
    if multiprocessing.parent_process() is not None or threading.current_thread() is not threading.main_thread():
        return 1
    from joblib import cpu_count  # type: ignore[import-untyped]  # noqa: PLC0415 (knows of containers' shares)

    return min(_MOST, int(cpu_count()))


def at_once(work: Callable[[T], R], pieces: Iterable[T], *models: Any) -> list[R]:
    """Do work on each piece, several at a time, each with a single thread of linear algebra and of boosting.

    Threads of boosting that wait for each other on busy cores cost many times as much. The results do not depend on
    the number of cores. Where one of the ``models`` is the caller's own, neither None nor of scikit-learn, it is one
    after another: it may not bear threads. So it is with forests, whose joblib sets and resets the process's filters of
    warnings.

    Examples
    --------
    >>> at_once(lambda k: k * k, range(5))
    [0, 1, 4, 9, 16]
    """
    cores = available() if all(map(_bears_threads, models)) else 1
    with threadpool_limits(1):
        if cores == 1:
            return list(_counted(map(work, pieces)))
        with ThreadPoolExecutor(cores, initializer=_alone) as pool:
            return list(_counted(pool.map(work, pieces)))


def _counted(results: Iterable[R]) -> Iterator[R]:
    """Yield results, each of them a finished piece of the work."""
    for result in results:
        yield result
        progress.piece()


def _bears_threads(model: Any) -> bool:
    return model is None or (type(model).__module__.startswith("sklearn.") and not hasattr(model, "n_jobs"))


def _alone() -> None:
    """OpenMP counts its threads by the thread that asks; the limit of the one that started this does not hold here."""
    threadpool_limits(1, user_api="openmp")


def grown(tree: Any, count: int, x: Float32Array, y: FloatArray | BoolArray, *, seed: int) -> list[Any]:
    """Grow the trees of scikit-learn's forest without bootstrap, by the seed that it would have.

    A forest goes through joblib, which sets and resets the process's filters of warnings: not safe between threads.
    Rows and options are checked once and not for each tree, which takes a tenth of the time of small trees.

    Examples
    --------
    >>> from sklearn.tree import ExtraTreeRegressor
    >>> x, y = np.arange(8, dtype=np.float32)[:, None], np.arange(8.0)
    >>> [tree.get_depth() for tree in grown(ExtraTreeRegressor(max_depth=2), 3, x, y, seed=0)]
    [2, 2, 2]
    """
    from sklearn import config_context  # noqa: PLC0415 (heavy, and only needed here)

    draws, options = np.random.RandomState(seed), tree.get_params()
    rows = np.asfortranarray(x)
    if not np.isfinite(rows).all():
        raise ValueError("a tree needs finite rows")
    forests = []
    for _ in range(count):
        options["random_state"] = int(draws.randint(np.iinfo(np.int32).max))
        with config_context(skip_parameter_validation=True):
            forests.append(type(tree)(**options).fit(rows, y, check_input=False))
    return forests
