"""One run of one tool, in the tool's own environment: ``python call_tool.py FOLDER`` fits, samples, says what it took.

The folder holds ``job.json`` (tool, table, epsilon, delta, seed, records, limit) and ``private.npz`` (codes (n, d),
levels (d,), names); ``synthetic.npy`` with as many records comes back, and one line of JSON on standard output.
Categories are public and given to each tool; nothing is learned about the columns from the table. Nothing here imports
miaudit, except the file that calls ours.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Private = dict[str, Any]  # codes, levels, names
Job = dict[str, Any]
Made = Callable[[], Any]  # fits and samples: codes (n, d)
Run = Callable[[Job, Private], tuple[Made, str]]  # imports, and returns the call and the versions


def frame(private: Private) -> Any:
    import pandas as pd

    return pd.DataFrame(private["codes"], columns=private["names"])


# -- dpmm -------------------------------------------------------------------------------------------------------------


def dpmm(pipeline: str) -> Run:
    def run(job: Job, private: Private) -> tuple[Made, str]:
        from dpmm import pipelines

        table = frame(private)
        domain = dict(zip(private["names"], (int(k) for k in private["levels"]), strict=True))

        def made() -> Any:
            generator = getattr(pipelines, pipeline)(
                epsilon=job["epsilon"], delta=job["delta"], disable_processing=True, n_jobs=1
            )
            generator.fit(table, domain=domain, random_state=job["seed"])
            return generator.generate(job["records"], random_state=job["seed"] + 1)[private["names"]].to_numpy()

        return made, f"dpmm {version('dpmm')}"

    return run


# -- smartnoise-synth -------------------------------------------------------------------------------------------------


def every_category(private: Private) -> Any:
    """A public frame in which each column shows all its categories."""
    import pandas as pd

    rows = int(max(private["levels"]))
    return pd.DataFrame(
        {name: np.arange(rows) % int(k) for name, k in zip(private["names"], private["levels"], strict=True)}
    )


class Drawn:
    """A fitted model of mbi that draws records independently of each other.

    The default of mbi 1.1.0, rounding, deals records out in one order for all columns, so that two columns that share a
    parent come out as copies of each other; its other documented method does not.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def synthetic_data(self, rows: int) -> Any:
        return self.model.synthetic_data(rows=rows, method="sample")


def smartnoise(name: str, style: str, as_shipped: bool = False, **options: Any) -> Run:
    def run(job: Job, private: Private) -> tuple[Made, str]:
        from snsynth import Synthesizer
        from snsynth.transform import TableTransformer

        public, table = every_category(private), frame(private)
        np.random.seed(job["seed"])  # noqa: NPY002 - what it draws categories and candidates from
        if style == "gan":
            import torch

            torch.set_num_threads(1)
            torch.manual_seed(job["seed"])

        def made() -> Any:
            names = private["names"]
            seen = TableTransformer.create(public, style=style, categorical_columns=names)
            seen.fit(public)
            generator = Synthesizer.create(name, epsilon=job["epsilon"], delta=job["delta"], **options)
            generator.fit(table, transformer=seen, categorical_columns=names)
            if style == "cube" and not as_shipped:
                generator.synthesizer = Drawn(generator.synthesizer)
            if hasattr(generator, "epsilon_list"):
                made.more = lambda: {"spent": float(generator.epsilon_list[-1])}  # type: ignore[attr-defined]
            found = generator.sample(job["records"])
            return np.asarray(found[names] if hasattr(found, "columns") else found)

        below = "mbi" if style == "cube" else "opacus"
        return made, f"smartnoise-synth {version('smartnoise-synth')} with {below} {version(below)}"

    return run


# -- mbi, with the mechanisms of its repository -----------------------------------------------------------------------


def mechanisms() -> Path:
    """The folder of MST and AIM beside this environment's interpreter: they are in no package."""
    return Path(sys.prefix) / "mechanisms"


def known_number(records: int) -> None:
    """Let a model of mbi draw so many records where no number is passed: MST passes none, and the number is public."""
    import functools

    from mbi import MarkovRandomField

    draw = MarkovRandomField.synthetic_data
    MarkovRandomField.synthetic_data = functools.wraps(draw)(  # type: ignore[method-assign]
        lambda model, rows=None, method="round": draw(model, rows or records, method)
    )


def older_names() -> None:
    """Let mbi 2.0 answer to the two names that it dropped and that the mechanisms of its repository still use."""
    from mbi import Domain, estimation

    Domain.attrs = property(lambda domain: domain.attributes)  # type: ignore[attr-defined]
    estimate = estimation.Estimator.estimate
    estimation.Estimator.estimate = (  # type: ignore[method-assign]
        lambda *given, potentials=None, **options: estimate(*given, warm_start=potentials, **options)
    )


def mbi(mechanism: str) -> Run:
    def run(job: Job, private: Private) -> tuple[Made, str]:
        from mbi import Dataset, Domain

        sys.path.insert(0, str(mechanisms()))
        known_number(job["records"])
        older_names()
        if mechanism == "mst":
            from mst import MST
        else:
            from aim import AIM
        names = private["names"]
        domain = Domain(names, [int(k) for k in private["levels"]])
        data = Dataset(dict(zip(names, private["codes"].T, strict=True)), domain)
        np.random.seed(job["seed"])  # noqa: NPY002 - all the noise and the choices come from it

        def made() -> Any:
            if mechanism == "mst":
                found = MST(data, job["epsilon"], job["delta"])
            else:
                pairs = [(pair, 1.0) for pair in itertools.combinations(names, 2)]  # as its own command has it
                with contextlib.redirect_stdout(sys.stderr):
                    _model, found = AIM(job["epsilon"], job["delta"]).run(data, pairs, num_synth_rows=job["records"])
            by_name = found.to_dict()
            return np.column_stack([by_name[name] for name in names])

        return made, f"mbi {version('mbi')}"

    return run


# -- ours, and what is no tool ----------------------------------------------------------------------------------------


def ours(method: str, along_graph: bool) -> Run:
    def run(job: Job, private: Private) -> tuple[Made, str]:
        import ours

        return ours.prepared(method, along_graph, job, private)

    return run


RUN: dict[str, tuple[str, Run]] = {  # name of a row -> environment, and how it is called
    "miaudit-graph": ("miaudit", ours("tables", True)),
    "miaudit-tables": ("miaudit", ours("tables", False)),
    "miaudit-stages": ("miaudit", ours("stages", False)),
    "miaudit-vae": ("miaudit", ours("vae", True)),
    "mst": ("smartnoise-synth", smartnoise("mst", "cube")),
    "aim": ("smartnoise-synth", smartnoise("aim", "cube")),
    "privbayes": ("dpmm", dpmm("PrivBayesPipeline")),
    "dpctgan": ("smartnoise-synth", smartnoise("dpctgan", "gan", cuda=False, verbose=False)),
    "mst-shipped": ("smartnoise-synth", smartnoise("mst", "cube", as_shipped=True)),
    "dpmm-mst": ("dpmm", dpmm("MSTPipeline")),
    "dpmm-aim": ("dpmm", dpmm("AIMPipeline")),
    "mbi-mst": ("mbi", mbi("mst")),
    "mbi-aim": ("mbi", mbi("aim")),
}


def limited(seconds: float) -> None:
    """End this process when it has used so many more CPU seconds."""
    used = time.process_time()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, int(used + seconds) + 30))


def main() -> None:
    folder = Path(sys.argv[1])
    warnings.simplefilter("ignore")
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    with np.load(folder / "private.npz") as file:
        private = {"codes": file["codes"], "levels": file["levels"], "names": [str(name) for name in file["names"]]}
    _environment, run = RUN[job["tool"]]
    made, versions = run(job, private)
    limited(job["limit"])
    before = time.process_time()
    found = made()
    cpu = time.process_time() - before
    # a tool may add what it likes to measure beside the table, off the clock
    more = made.more() if hasattr(made, "more") else {}  # type: ignore[attr-defined]
    np.save(folder / "synthetic.npy", np.asarray(found, dtype=np.int64))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": cpu, "peak": peak, "versions": versions} | more))


if __name__ == "__main__":
    main()
