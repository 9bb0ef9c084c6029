"""Making generators of a private table, by noisy tables or by networks: one door for both.

A rehearsal on simulated records settles what a recipe leaves open; the private records never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.errors.options import check_choice
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.private_tables import over, records_of
from miaudit.synthesis.generators.recipe import METHODS, Config, Progress, Recipe
from miaudit.synthesis.generators.rehearsal import rehearsed
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Schema, Table


def settled(
    schema: Schema,
    graph: CausalGraph | None,
    privacy: Privacy | None,
    *,
    method: Method | None = None,
    config: Config | None = None,
    records: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Recipe:
    """Settle how a generator is made, by public numbers alone.

    The type of the options decides the method. Networks without options, and a choice between the methods, are
    rehearsed; tables need no rehearsal.

    Parameters
    ----------
    records : public number of records; only without privacy the length of the table
    rng : of the simulated records, and of rehearsals
    """
    if method is not None:
        check_choice("method", method, METHODS)
    meant: Method | None = None if config is None else "tables" if isinstance(config, TablesConfig) else "vae"
    if None not in (method, meant) and method != meant:
        hint = "TablesConfig goes with tables, GeneratorConfig with vae"
        raise InputError("config", f"options of the method {method}", type(config).__name__, hint)
    privacy_wanted: Any = privacy
    if not isinstance(privacy_wanted, Privacy | None):
        hint = "write Privacy(records=..., epsilon=...)"
        raise InputError("privacy", "Privacy(...) or none", type(privacy_wanted).__name__, hint)
    decided = method or meant
    if decided is not None and config is not None:
        return Recipe(decided, config, privacy)
    if decided == "tables":
        return Recipe("tables", TablesConfig(), privacy)
    tried = METHODS if decided is None else (decided,)
    return rehearsed(over(schema, graph), privacy, methods=tried, records=records, rng=rng, progress=progress)


def fit(
    table: Table,
    graph: CausalGraph | None = None,
    privacy: Privacy | None = None,
    *,
    method: Method | None = None,
    rng: np.random.Generator,
    config: Config | None = None,
    public: Table | None = None,
    progress: Progress | None = None,
    repeatable: bool = False,
) -> Generator:
    """Make a generator of a table's records along a causal graph.

    Parameters
    ----------
    table : the private records, n of them
    graph : over the columns of the table's schema; None where none is known
    privacy : the differential privacy that is required; with None the generator claims nothing
    method : "tables", noisy counts (experiments/methods.md, section 8), "vae", a network (causal-synthesis), or None:
        what the options are for, and without options the better of the two in a rehearsal on simulated records
    rng : of everything that differential privacy does not rest on. With privacy what it does rest on comes from the
        operating system, and from nothing that could be published: anyone who knows how it was drawn can subtract the
        noise
    config : TablesConfig or GeneratorConfig; None is the default of tables, and for networks the choice of a rehearsal
    public : for networks, records of the same schema that are public or simulated: training stops when their ELBO no
        longer improves, and the best weights are used; the claim still accounts for all epochs
    progress : called with (finished, all) epochs, or tables
    repeatable : with privacy, draw everything from ``rng`` all the same, for experiments that are repeated. The claim
        then does not hold against anyone who knows its seed, and the generator and its releases say so

    Raises
    ------
    InputError
        For a table, graph, privacy and config that do not fit together, or an epsilon that no noise reaches or that
        leaves nothing but noise.
    MiauditError
        If something that has to be installed is not.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> schema = Schema((Column("a"), Column("b")))
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 400)
    >>> table = Table(schema, np.column_stack([a, a]))
    >>> graph = CausalGraph(schema, None, [("a", "b")])
    >>> privacy = Privacy(records=400, epsilon=1.0)
    >>> generator = fit(table, graph, privacy, method="tables", rng=rng, repeatable=True)
    >>> synthetic = generator.sample(1000, rng=rng)
    >>> bool(np.mean(synthetic.values[:, 0] == synthetic.values[:, 1]) > 0.85), generator.claim().value
    (True, 1.0)
    """
    options: dict[str, Any] = {"config": config, "public": public, "progress": progress, "repeatable": repeatable}
    return fit_many([table], graph, privacy, method=method, rng=rng, **options)[0]


def fit_many(
    tables: Table | Sequence[Table],
    graph: CausalGraph | None = None,
    privacy: Privacy | None = None,
    *,
    rows: ArrayLike | None = None,
    method: Method | None = None,
    rng: np.random.Generator,
    config: Config | None = None,
    public: Table | None = None,
    progress: Progress | None = None,
    repeatable: bool = False,
) -> list[Generator]:
    """Make many generators by one recipe; each is what it would be alone, up to rounding.

    Parameters
    ----------
    tables : a table for each generator, all under one schema; or one table, with ``rows``
    rows : (M, n) true and false: which records of the one table each of M generators is made of
    graph, privacy, method, rng, config, public, progress, repeatable : as in :func:`fit`

    Returns
    -------
    list of Generator
        In the order of the tables or rows.
    """
    check_generator(rng)
    base, own = records_of(tables, rows)
    records = privacy.records if isinstance(privacy, Privacy) else len(own[0])
    streams = (rng, rng) if config is not None or method == "tables" else rng.spawn(2)
    recipe = settled(
        base.schema, graph, privacy, method=method, config=config, records=records, rng=streams[1], progress=progress
    )
    return recipe.fit_many(
        tables, graph, rows=rows, rng=streams[0], public=public, progress=progress, repeatable=repeatable
    )


def check_fit(
    table: Table,
    graph: CausalGraph | None = None,
    privacy: Privacy | None = None,
    *,
    config: Config | None = None,
    public: Table | None = None,
) -> None:
    """Refuse what :func:`fit` would refuse, before a budget is spent on it; the arguments are those of :func:`fit`.

    Without a config the options of a network are the defaults.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> check_fit(Table(Schema((Column("a"), Column("b"))), [[0, 1]]))
    Traceback (most recent call last):
    miaudit.errors.InputError: table: expected at least as many records as a batch of 100, received 1; lower batch, or
    bring more records
    """
    settings = GeneratorConfig() if config is None else config
    recipe = Recipe("tables" if isinstance(settings, TablesConfig) else "vae", settings, privacy)
    recipe.check(table, graph, public=public)
