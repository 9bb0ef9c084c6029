"""The small forms of all experiments, two at a time: what ``make experiments`` runs.

``python experiments/small_forms.py`` takes about an hour on two free cores. ``--only lira zero_run`` runs some folders,
``--list`` says what would run. A form whose data is not in ``--data`` is left out with a line. Outputs go to
``results/experiments/small_forms``, one log for each script. The exit code is 1 if a script failed, or if its numbers
differ from what is expected.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LOGS = Path("results/experiments/small_forms")


@dataclass(frozen=True)
class Form:
    """A script in its small form.

    Attributes
    ----------
    script : below experiments/
    arguments : of the small form, without --data
    needs : folders of --data; a form without one of them is left out. None: it takes no data
    minutes : CPU minutes, roughly; the longest start first
    """

    script: str
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] | None = None
    minutes: float = 1

    def missing(self, data: Path) -> list[str]:
        """Return the folders that are not there."""
        return [name for name in self.needs or () if not (data / name).is_dir()]

    def command(self, data: Path) -> list[str]:
        """Return what is run."""
        place = [] if self.needs is None else ["--data", str(data)]
        return [sys.executable, str(HERE / self.script), *self.arguments, *place]


FORMS = (
    Form("causal_synthesis/utility_tables.py", minutes=32),
    Form("causal_synthesis/run.py", minutes=26),
    Form("lira/run.py", needs=("location30", "mnist", "cifar10", "mia_scores_location30"), minutes=12),
    Form("uncertainty_mia/trained.py", needs=("location30", "mnist", "cifar10", "office_caltech10"), minutes=10),
    Form("causal_synthesis/partial_vae.py", minutes=4),
    Form("uncertainty_mia/trainings.py", needs=("location30", "mnist"), minutes=5),
    Form("causal_mia/clean_noisy.py", needs=("cifar10",), minutes=3),
    Form("causal_synthesis/wrong_graphs.py", ("--seeds", "1"), needs=("adult", "acs_ct_income"), minutes=3),
    Form("zero_run/whole_shift.py", ("--repetitions", "1"), minutes=1),
    Form("causal_mia/propensity_error.py", ("--repetitions", "1"), minutes=1),
    Form("causal_synthesis/theory.py", minutes=2),
    Form("causal_mia/real_shift.py", ("--again",), needs=(), minutes=2),
    Form("causal_mia/attribute_inference.py", ("--quick",), needs=("adult",)),
    Form("causal_mia/run.py"),
    Form("causal_synthesis/adult_anonymeter.py", needs=("adult_anonymeter",)),
    Form(
        "causal_synthesis/disguised_copies.py",
        (
            *("--table", "adult", "--table", "world", "--level", "3", "--power", "1"),
            *("--out", "results/experiments/disguised_copies.json"),
        ),
        needs=("adult",),
    ),
    Form("threshold_post/run.py"),
    Form("uncertainty_mia/memguard.py", ("--form", "tiny"), needs=("location30", "mia_scores_location30")),
    Form("uncertainty_mia/run.py"),
    Form("uncertainty_mia/trainings.py", needs=("mnist",), minutes=10),
    Form("zero_run/real.py", ("--replicates", "60"), needs=("office_caltech10",)),
    Form("zero_run/run.py"),
    Form("step_audit/run.py"),
    Form("table_replay/run.py"),
)


def chosen(only: Sequence[str] | None) -> list[Form]:
    """Return the forms of some folders or scripts, the longest first.

    Raises
    ------
    ValueError
        If a name is of no form.
    """
    for name in only or ():
        if not any(form.script.startswith(name) for form in FORMS):
            raise ValueError(
                f"--only: expected the start of one of {', '.join(f.script for f in FORMS)}, received {name}"
            )
    picked = [form for form in FORMS if only is None or any(form.script.startswith(name) for name in only)]
    return sorted(picked, key=lambda form: -form.minutes)


def run(form: Form, data: Path, logs: Path) -> int:
    """Run a form, keep its output, and say in a line how it ended."""
    log = logs / f"{form.script.replace('/', '-').removesuffix('.py')}.log"
    began = time.perf_counter()
    with log.open("w") as out:
        own = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        code = subprocess.run(form.command(data), stdout=out, stderr=subprocess.STDOUT, env=own, check=False).returncode
    ended = "as expected" if code == 0 else f"exit code {code}, see {log}"
    print(f"{form.script}: {ended} ({time.perf_counter() - began:.0f} s)", flush=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", nargs="+", help="folders or scripts below experiments/; default all")
    parser.add_argument("--jobs", type=int, default=2, help="scripts at a time")
    parser.add_argument("--list", action="store_true", help="say what would run, and stop")
    parser.add_argument("--logs", type=Path, default=LOGS)
    options = parser.parse_args(arguments)
    try:
        forms = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    ready = []
    for form in forms:
        missing = form.missing(options.data)
        if missing:
            print(f"{form.script}: left out, no {', '.join(missing)} in {options.data} (--data)", flush=True)
        else:
            ready.append(form)
    if options.list:
        print(
            "\n".join(f"{' '.join(form.command(options.data)[1:])}  # {form.minutes:g} CPU minutes" for form in ready)
        )
        return 0
    options.logs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(pool.map(lambda form: run(form, options.data, options.logs), ready))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
