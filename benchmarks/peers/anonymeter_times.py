"""CPU seconds of Anonymeter on tables that ``benchmarks/table_audit.py`` writes; runs in an environment of its own.

``python anonymeter_times.py FOLDER`` reads synthetic.csv, members.csv and control.csv, and prints a line of JSON: for
each attack the seconds that all records would take, one thread, imports and compilation excluded. Two small numbers of
attacks are timed, and what one more attack costs is **extrapolated**: its work for a record does not depend on others.
The line also has the peak memory of this process in MB, which is measured with that number of attacks: before them, and
after each kind of attack, in the order of inference, linkability and singling out.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

FEW, MORE = 20, 120  # attacks on members that are timed, and as many on controls
QUERIES = 2_000, 100  # predicates of six columns: wanted, timed
NEIGHBOURS, COLUMNS = 10, 6


def spent(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def megabytes() -> float:
    """Peak memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def of_one_attack(evaluated: Callable[[int], Any]) -> float:
    """Seconds of one more attack on a member and one on a control."""
    evaluated(FEW)  # what is compiled and cached
    few, more = (spent(lambda n=n: evaluated(n)) for n in (FEW, MORE))
    return (more - few) / (MORE - FEW)


def main() -> None:
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    types = json.loads((folder / "types.json").read_text(encoding="utf-8"))
    synthetic, members, control = (pd.read_csv(folder / f"{name}.csv", dtype=types) for name in sys.argv[2:5])
    names = list(synthetic.columns)
    pairs = (len(members) + len(control)) / 2  # attacks on a member with one on a control
    half = len(names) // 2

    def inferred(secret: str, n: int) -> None:
        others = [name for name in names if name != secret]
        InferenceEvaluator(members, synthetic, others, secret, n_attacks=n, control=control).evaluate(n_jobs=1)

    def linked(n: int) -> None:
        columns = names[:half], names[half:]
        LinkabilityEvaluator(members, synthetic, columns, n, NEIGHBOURS, control).evaluate(n_jobs=1)

    def singled_out() -> None:
        SinglingOutEvaluator(members, synthetic, QUERIES[1], COLUMNS, control, seed=0).evaluate()

    measured: dict[str, Callable[[], float]] = {
        "inference": lambda: pairs * sum(of_one_attack(lambda n, secret=name: inferred(secret, n)) for name in names),
        "linkability": lambda: pairs * of_one_attack(linked),
        "singling out": lambda: QUERIES[0] / QUERIES[1] * spent(singled_out),
    }
    seconds, peaks = {}, {"before": megabytes()}
    for name, work in measured.items():
        seconds[name], peaks[name] = work(), megabytes()
    print(json.dumps({"version": version("anonymeter"), "seconds": seconds, "peaks": peaks}))


if __name__ == "__main__":
    main()
