"""DoubleML's effect on the treated, in an environment of its own: ``python doubleml_times.py WORLD.npz``.

The file holds ``score``, ``member`` and ``covariates``. Prints a line of JSON: CPU seconds of one thread without
imports, peak memory above what the imports held, the effect and its standard error. Learners are those of
``benchmarks/ratios.py``: logistic regression for membership, ridge regression for the score, five folds.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before numpy

import json
import resource
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    from doubleml import DoubleMLData, DoubleMLIRM
    from sklearn.linear_model import LogisticRegression, Ridge

    warnings.simplefilter("ignore")
    np.random.seed(0)  # noqa: NPY002 - DoubleML draws its folds from the global generator
    with np.load(sys.argv[1]) as held:
        score, member, x = held["score"], held["member"], held["covariates"]

    def effect() -> DoubleMLIRM:
        data = DoubleMLData.from_arrays(x, score, member.astype(float))
        return DoubleMLIRM(data, Ridge(), LogisticRegression(), n_folds=5, score="ATTE").fit()

    effect()  # what is done once
    before, start = megabytes(), time.process_time()
    found = effect()
    took = time.process_time() - start
    print(
        json.dumps(
            {
                "version": version("doubleml"),
                "cpu": took,
                "megabytes": megabytes() - before,
                "effect": float(found.coef[0]),
                "standard_error": float(found.se[0]),
            }
        )
    )


if __name__ == "__main__":
    main()
