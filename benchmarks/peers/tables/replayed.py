"""Replay public generators of private tables exactly: ``python replayed.py TOOL``, in the tool's own environment.

The tool runs as installed. Its noise, its private choices and the values that it measures are replaced while it runs
(:mod:`miaudit.dp.query_replay`): what one record changes in each query, the noise of each, and what else depends on
the record. miaudit needs no installation there, only ``PYTHONPATH=src``. One line of JSON comes back; ``replayed.json``
holds the lines. The environments are those of ``replay_requirements/``.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import math
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from miaudit.dp import query_replay
from miaudit.dp.query_draws import QueryDraws
from miaudit.dp.replay import without_one

NAMES, LEVELS = ("age", "site", "sick", "stage"), (4, 3, 2, 3)
EPSILON, DELTA, RECORDS = 1.0, 1e-5, 200
Codes = np.ndarray[Any, Any]
Generator = Callable[[Codes, QueryDraws], Any]


def table() -> Codes:
    """Return records (n, d); no record has the last level of a column with more than two."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 3, RECORDS)
    sick = (rng.random(RECORDS) < 0.2 + 0.25 * age).astype(int)
    return np.column_stack([age, rng.integers(0, 2, RECORDS), sick, np.minimum(sick * rng.integers(0, 3, RECORDS), 1)])


def nearly_constant() -> Codes:
    """Return records of which one alone has the level 1 of two columns."""
    data = table()
    data[:, 1:3] = 0
    data[0, 1:3] = 1
    return data


def neighbours(data: Codes, *, replaced: bool, inside: bool) -> list[Codes]:
    """Return tables that differ by one record; with ``inside`` no neighbour has a level that the table lacks."""
    rare = np.array([[2, 1, 1, 1], [0, 0, 0, 0]] if inside else [[3, 2, 1, 2], [3, 0, 0, 0]])
    if replaced:
        own = query_replay.with_one_replaced(data[:3], rare)
        return [np.concatenate([each, data[3:]]) for each in own]
    return [*without_one(data)[:4], *query_replay.with_one(data, rare)]


# -- replacing a tool's randomness ------------------------------------------------------------------------------------


@contextlib.contextmanager
def replaced(*patches: Any) -> Iterator[None]:
    """Replace parts of a tool, with all other randomness seeded and its words on standard error."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what tools draw from
    with contextlib.ExitStack() as stack, contextlib.redirect_stdout(sys.stderr):
        for patch in patches:
            stack.enter_context(patch)
        yield


def chosen(draws: QueryDraws, name: str = "") -> Callable[..., Any]:
    """Return a choice by probabilities, as NumPy's: a private one where they are stated."""
    plain = np.random.RandomState(0)

    def choice(options: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        if p is None:
            return plain.choice(options, size=size, replace=replace)
        with np.errstate(divide="ignore"):
            scores = np.maximum(np.log(np.asarray(p, dtype=np.float64)), -700.0)
        at = draws.choose(scores, 1.0, name)
        value = at if np.ndim(options) == 0 else options[at]
        return value if size is None else np.array([value])

    return choice


def stated(noisy: Any, name: Any, scale: float | None, draws: QueryDraws) -> Any:
    """Pass a measured table through the replay, and return it in its shape."""
    label = name if isinstance(name, str) else ", ".join(map(str, name))
    return draws.answer(label, np.asarray(noisy), scale).reshape(np.shape(noisy))


# -- mbi, with the mechanisms of its repository -----------------------------------------------------------------------


def pgm(mechanism: str, **options: Any) -> Generator:
    """Return MST, AIM or MWEM of private-pgm; estimation is shortened, which follows the noise."""
    sys.path.insert(0, os.environ.get("MECHANISMS", str(Path(sys.prefix) / "mechanisms")))
    from mbi import Dataset, Domain, estimation

    module = importlib.import_module(mechanism)
    estimate, measure = remembered(estimation.mirror_descent), module.LinearMeasurement
    domain = Domain(NAMES, LEVELS)

    def generator(codes: Codes, draws: QueryDraws) -> Any:
        import pandas as pd

        def measurement(noisy: Any, clique: Any, stddev: float = 1.0, **more: Any) -> Any:
            known = None if mechanism == "mwem+pgm" else float(stddev)
            return measure(stated(noisy, clique, known, draws), clique, stddev, **more)

        def quiet(*values: Any, **settings: Any) -> Any:
            return estimate(*values, **{**settings, "callback_fn": lambda *_: None})

        numpy_random = mock.Mock(wraps=np.random)
        numpy_random.choice, numpy_random.normal, numpy_random.laplace = chosen(draws), draws.normal, draws.laplace
        patches = [mock.patch.object(estimation, "mirror_descent", quiet)]
        private = Dataset(pd.DataFrame(codes, columns=list(NAMES)), domain)
        released: list[Any] = []

        def no_records(model: Any, *_: Any, **__: Any) -> Any:
            pairs = itertools.combinations(NAMES, 2)
            released.append([np.asarray(model.project(pair).datavector()) for pair in pairs])
            raise Released

        from mbi import MarkovRandomField

        patches += [mock.patch.object(MarkovRandomField, "synthetic_data", no_records)]
        patches += [mock.patch.object(np.random, name, getattr(numpy_random, name)) for name in ("normal", "laplace")]
        patches += [mock.patch.object(np.random, "choice", numpy_random.choice)]
        if mechanism == "mst":
            own = module.measure

            def measured(*values: Any, **settings: Any) -> Any:
                with mock.patch.object(module, "LinearMeasurement", measurement):
                    return own(*values, **settings)

            patches += [mock.patch.object(module, "measure", measured)]
        else:
            patches += [mock.patch.object(module, "LinearMeasurement", measurement)]
        with replaced(*patches), contextlib.suppress(Released):
            if mechanism == "mst":
                module.MST(private, EPSILON, DELTA)
            elif mechanism == "aim":
                pairs = [(pair, 1.0) for pair in itertools.combinations(NAMES, 2)]
                module.AIM(EPSILON, DELTA, rounds=8).run(private, pairs, num_synth_rows=RECORDS, **options)
            else:
                module.mwem_pgm(private, EPSILON, DELTA, rounds=3, **options)
        return released

    return generator


def remembered(estimate: Callable[..., Any]) -> Callable[..., Any]:
    """Return an estimation that is short, and computed once for the same measurements: it follows the noise."""
    known: dict[Any, Any] = {}

    def short(domain: Any, measurements: Any, *values: Any, **settings: Any) -> Any:
        parts = [(tuple(own.clique), np.asarray(own.noisy_measurement).tobytes()) for own in measurements]
        key = (str(domain), tuple(parts), settings.get("known_total"))
        if key not in known:
            known[key] = estimate(domain, measurements, *values, **{**settings, "iters": 20})
        return known[key]

    return short


class Released(Exception):
    """The model is there; records would follow from it."""


def rho() -> float:
    """Return the rho that the tools' own conversion gives."""
    for name in ("cdp2adp", "dpmm.models.base.mechanisms", "snsynth.utils"):
        with contextlib.suppress(ImportError):
            return float(importlib.import_module(name).cdp_rho(EPSILON, DELTA))
    raise ImportError("no conversion to rho")


# -- dpmm -------------------------------------------------------------------------------------------------------------


def dpmm(pipeline: str, *, public: bool = True) -> Generator:
    """Return a pipeline of dpmm, one process; without ``public`` the categories are those of the table."""
    import pandas as pd
    from dpmm import pipelines
    from dpmm.models import aim
    from dpmm.models.base.mbi import FactoredInference
    from dpmm.models.base.mechanisms import mechanism

    def generator(codes: Codes, draws: QueryDraws) -> Any:
        source = np.random.RandomState(0)
        source = mock.Mock(wraps=source, spec=np.random.RandomState)
        source.choice = chosen(draws)
        domain = dict(zip(NAMES, LEVELS, strict=True)) if public else None
        frame = pd.DataFrame(codes, columns=list(NAMES))

        def noise(sigma: float, size: Any = None) -> Any:
            return draws.normal(0.0, sigma, size)

        own, one_way = mechanism.Mechanism._measure, aim.measure_one_way
        begin = FactoredInference.__init__

        def short(self: Any, *values: Any, **settings: Any) -> None:
            begin(self, *values, **{**settings, "iters": 20})

        def measured(self: Any, data: Any, proj: Any, wgt: float, *values: Any, **settings: Any) -> Any:
            q, noisy, sigma, clique = own(self, data, proj, wgt, *values, **settings)
            return q, stated(noisy, proj, self.sigma / wgt, draws), sigma, clique

        def one(clique: Any, data: Any, sigma: float, *values: Any) -> Any:
            q, noisy, deviation, _ = one_way(clique, data, sigma, *values)
            return q, stated(noisy, clique, sigma, draws), deviation, clique

        pinned: list[int] = []

        def estimated(self: Any, measurements: Any, *values: Any, **settings: Any) -> Any:
            """Pin what AIM has measured since the last estimation."""
            for at in range(len(measurements) if pipeline == "AIMPipeline" and pinned else 0):
                if at >= pinned[0]:
                    q, noisy, sigma, clique = measurements[at]
                    measurements[at] = (q, stated(noisy, clique, sigma, draws), sigma, clique)
            pinned[:] = [len(measurements)]
            return estimation(self, measurements, *values, **settings)

        estimation = FactoredInference.estimate
        patches = [
            mock.patch.object(FactoredInference, "estimate", estimated),
            mock.patch.object(mechanism, "gaussian_noise", noise),
            mock.patch.object(aim, "gaussian_noise", noise),
            mock.patch.object(mechanism.Mechanism, "_measure", measured),
            mock.patch.object(aim, "measure_one_way", one),
            mock.patch.object(FactoredInference, "__init__", short),
        ]
        made = getattr(pipelines, pipeline)(epsilon=EPSILON, delta=DELTA, disable_processing=True, n_jobs=1)
        made.gen.generator.n_iters = 20
        with replaced(*patches):
            made.set_random_state(source)
            made.gen.set_domain(domain)
            made.gen.check_fit(frame)
            made.gen.generator.set_random_state(source)
            made.gen.generator.fit(frame, marginals_only=True)
        return [np.asarray(noisy) for _, noisy, _, _ in made.gen.generator.measures]

    return generator


# -- DataSynthesizer --------------------------------------------------------------------------------------------------


class Serial:
    """A pool of processes that is none."""

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def map(self, function: Any, tasks: Any) -> list[Any]:
        return [function(task) for task in tasks]


def datasynthesizer(mode: str, *, public: bool = True) -> Generator:
    """Return a mode of DataSynthesizer; what it releases is its description of the table."""
    from DataSynthesizer import DataDescriber as describer
    from DataSynthesizer.datatypes import AbstractAttribute as attribute
    from DataSynthesizer.lib import PrivBayes as bayes

    inject, normalised = attribute.AbstractAttribute.inject_laplace_noise, attribute.utils.normalize_given_distribution
    counts = bayes.get_noisy_distribution_of_attributes

    def generator(codes: Codes, draws: QueryDraws) -> Any:
        import pandas as pd

        def injected(self: Any, *values: Any) -> None:
            def pinned(noisy: Any) -> Any:
                return normalised(stated(noisy, f"distribution of {self.name}", None, draws))

            with mock.patch.object(attribute.utils, "normalize_given_distribution", pinned):
                inject(self, *values)

        def counted(attributes: Any, *values: Any) -> Any:
            stats = counts(attributes, *values)
            stats["count"] = stated(stats["count"].to_numpy(dtype=float), attributes, None, draws)
            return stats

        patches = [
            mock.patch.object(attribute.AbstractAttribute, "inject_laplace_noise", injected),
            mock.patch.object(bayes, "get_noisy_distribution_of_attributes", counted),
            mock.patch.object(bayes, "Pool", Serial),
            mock.patch.object(np.random, "laplace", draws.laplace),
            mock.patch.object(np.random, "choice", chosen(draws, "parents")),
        ]
        with tempfile.TemporaryDirectory() as folder, replaced(*patches):
            path, domains = Path(folder) / "table.csv", Path(folder) / "domains.json"
            frame = pd.DataFrame({name: [f"v{code}" for code in codes[:, at]] for at, name in enumerate(NAMES)})
            frame.to_csv(path, index=False)
            all_levels = {
                name: [f"v{level}" for level in range(size)] for name, size in zip(NAMES, LEVELS, strict=True)
            }
            domains.write_text(json.dumps(all_levels), encoding="utf-8")
            known = {
                "attribute_to_datatype": dict.fromkeys(NAMES, "String"),
                "attribute_to_is_categorical": dict.fromkeys(NAMES, True),
                "attribute_to_is_candidate_key": dict.fromkeys(NAMES, False),
            }
            known |= {"categorical_attribute_domain_file": str(domains)} if public else {}
            own = describer.DataDescriber()
            getattr(own, f"describe_dataset_in_{mode}_attribute_mode")(str(path), epsilon=EPSILON, **known)
            return json.loads(json.dumps(own.data_description, default=float))

    return generator


# -- smartnoise-synth -------------------------------------------------------------------------------------------------


def smartnoise(name: str) -> Generator:
    """Return MST or AIM of smartnoise-synth, fitted to codes with public categories."""
    import pandas as pd
    from mbi import Dataset, Domain, estimation

    module = importlib.import_module(f"snsynth.{name}.{name}")
    from snsynth import utils

    estimate, measure = remembered(estimation.mirror_descent), module.LinearMeasurement

    def generator(codes: Codes, draws: QueryDraws) -> Any:
        def measurement(noisy: Any, clique: Any, stddev: float = 1.0) -> Any:
            return measure(stated(noisy, clique, float(stddev), draws), clique, stddev)

        def noise(sigma: float, size: Any = None) -> Any:
            return draws.normal(0.0, sigma, size)

        patches = [
            mock.patch.object(estimation, "mirror_descent", estimate),
            mock.patch.object(module, "gaussian_noise", noise),
            mock.patch.object(np.random, "choice", chosen(draws)),
            mock.patch.object(utils, "prng", mock.Mock(choice=chosen(draws)))
            if hasattr(utils, "prng")
            else mock.patch.dict({}),
        ]
        private = Dataset(pd.DataFrame(codes, columns=list(NAMES)).values, domain=Domain(NAMES, LEVELS))
        if name == "mst":
            own = module.MSTSynthesizer(epsilon=EPSILON, delta=DELTA)
            measured = own.measure

            def measures(*values: Any, **settings: Any) -> Any:
                with mock.patch.object(module, "LinearMeasurement", measurement):
                    return measured(*values, **settings)

            patches.append(mock.patch.object(own, "measure", measures))
            with replaced(*patches):
                own.MST(private, EPSILON, DELTA)
        else:
            own = module.AIMSynthesizer(epsilon=EPSILON, delta=DELTA, rounds=8)
            own.rho = rho()
            patches.append(mock.patch.object(module, "LinearMeasurement", measurement))
            with replaced(*patches):
                own.AIM(private, own.get_workload(private, degree=2, max_cells=10_000))
        model = own.synthesizer
        return [
            np.asarray(model.project(pair).datavector()) for pair in itertools.combinations(private.domain.attrs, 2)
        ]

    return generator


# -- what each claims -------------------------------------------------------------------------------------------------

# tool: its file in replay_requirements, generator, unit of the claim, whether neighbours replace a record,
# and whether they stay inside the levels that the table has
ROWS: dict[str, tuple[str, Callable[[], Generator], str, bool, bool]] = {
    "pgm-mst": ("pgm", lambda: pgm("mst"), "rho", False, False),
    "pgm-aim": ("pgm", lambda: pgm("aim"), "rho", False, False),
    "pgm-aim-initial-pairs": (
        "pgm",
        lambda: pgm("aim", initial_cliques=list(itertools.combinations(NAMES, 2))),
        "rho",
        False,
        False,
    ),
    "pgm-mwem": ("pgm", lambda: pgm("mwem+pgm"), "rho", False, False),
    "pgm-mwem-bounded": ("pgm", lambda: pgm("mwem+pgm", bounded=True), "rho", True, False),
    "dpmm-mst": ("dpmm", lambda: dpmm("MSTPipeline"), "rho", False, False),
    "dpmm-aim": ("dpmm", lambda: dpmm("AIMPipeline"), "rho", False, False),
    "dpmm-privbayes": ("dpmm", lambda: dpmm("PrivBayesPipeline"), "rho", False, False),
    "dpmm-privbayes-replaced": ("dpmm", lambda: dpmm("PrivBayesPipeline"), "rho", True, False),
    "dpmm-privbayes-rare": ("dpmm", lambda: dpmm("PrivBayesPipeline"), "rho", False, False),
    "dpmm-mst-no-domain": ("dpmm", lambda: dpmm("MSTPipeline", public=False), "rho", False, False),
    "datasynthesizer-independent": ("datasynthesizer", lambda: datasynthesizer("independent"), "epsilon", True, True),
    "datasynthesizer-correlated": ("datasynthesizer", lambda: datasynthesizer("correlated"), "epsilon", True, True),
    "datasynthesizer-added": ("datasynthesizer", lambda: datasynthesizer("correlated"), "epsilon", False, True),
    "datasynthesizer-no-domain": (
        "datasynthesizer",
        lambda: datasynthesizer("correlated", public=False),
        "epsilon",
        True,
        False,
    ),
    "smartnoise-mst": ("pgm", lambda: smartnoise("mst"), "rho", False, False),
    "smartnoise-aim": ("pgm", lambda: smartnoise("aim"), "rho", False, False),
}


def compared(tool: str, *, histories: int = 1) -> query_replay.QueryComparison:
    """Replay a tool, and compare it with what it claims."""
    _, prepared, unit, is_replaced, inside = ROWS[tool]
    generator = prepared()
    budget = EPSILON if unit == "epsilon" else rho()
    moved = math.sqrt(2) if is_replaced else 1.0
    sensitivity = None if unit == "epsilon" else moved
    # of a choice the scores are logarithms of its probabilities: its epsilon limits how far they move
    score = EPSILON / 2 / len(NAMES) if tool.startswith("dpmm-privbayes") else None
    if score is not None:
        sensitivity = None
    claim = query_replay.Claim(budget, unit, sensitivity, score)  # type: ignore[arg-type]
    data = nearly_constant() if tool.endswith("-rare") else table()
    others = neighbours(data, replaced=is_replaced, inside=inside)
    return query_replay.check(generator, data, others, claim, rng=np.random.default_rng(0), histories=histories)


def main() -> None:
    warnings.simplefilter("ignore")
    tool = sys.argv[1]
    result = compared(tool, histories=int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    queries = [
        [query.name, query.law, query.cells, round(query.change, 6), round(query.lowest, 6)] for query in result.queries
    ]
    print(
        json.dumps(
            {
                "tool": tool,
                "claim": result.claim.budget,
                "unit": result.claim.unit,
                "spent": result.spent,
                "differences": result.differences,
                "queries": queries,
            }
        )
    )


if __name__ == "__main__":
    main()
