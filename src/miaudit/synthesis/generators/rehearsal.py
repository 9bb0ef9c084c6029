"""Recipes tried on simulated records, so that none is chosen on the private ones.

The records are drawn from worlds over the same columns and along the same graph, with effects drawn at random. So that
no method meets worlds of its own form, effects of ordered columns are smooth and parents act on each
other. A training is as long, as large and as noisy in its rehearsal as it will be: steps, batch and noise multiplier
are those of the private table, whatever the number of simulated records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError, MiauditError
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.noisy_tables import Law, places
from miaudit.synthesis.generators.private_tables import over
from miaudit.synthesis.generators.recipe import Progress, Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import TablesGenerator, encoded
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table

_BINS = 8  # of the worlds' continuous columns
_FEWEST, _MOST = 400, 2_000  # simulated records that networks are trained on
_JUDGED = 4_000  # records of a world, and of a generator, that are compared
_PAIRS = 300
_MOST_CELLS = 4_000  # of a world's table; parents beyond act apart
_OPEN_PARENTS = 2  # of a column in a world whose graph does not state them
_MAIN, _BETWEEN = 1.0, 0.5  # standard deviations of effects on logits, and of effects between parents
_RATES, _STEPS, _CLIPS = (0.003, 0.01, 0.03), (250, 1_000), (0.3, 3.0)
_WORTH = 0.05  # what networks must be able to gain for a rehearsal of them
_FAR = 2.0  # times the error of tables, from which the search for a network is broken off
_DEPENDENT = 0.05  # distance of shuffled columns above that of two samples, from which a pair depends
_HOPELESS = 0.2  # of dependence kept
_NARROW = 12  # columns, up to which two worlds are quick
_MOST_WORK = 6e10  # parameters times steps times a batch, of one training: above it networks are not rehearsed


@dataclass(frozen=True)
class _Tried:
    """A recipe with its error in a rehearsal: mean total variation distance of pairs that depend, 0 to 1."""

    recipe: Recipe
    error: float


def rehearsed(
    graph: CausalGraph,
    privacy: Privacy | None,
    *,
    methods: Sequence[Method],
    records: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Recipe:
    """Return the recipe that does best on simulated records.

    Of networks first the learning rate, then the number of steps, then batch and clipping norm are chosen in one world;
    methods are compared in a second one. Where tables come so near to a sample of the world that a network could hardly
    gain anything, none is tried; where the networks are twice as far off, the search is broken off.

    Parameters
    ----------
    graph : over the columns; the worlds follow it
    privacy : the privacy that is required for the private table
    methods : that may be taken
    records : public number of records
    rng : of worlds and trainings
    progress : called with (finished, all) recipes
    """
    first, second, judge = rng.spawn(3)
    world = simulated_world(graph, second)
    floor = _distance(world.sample(_JUDGED, rng=judge), world.sample(_JUDGED, rng=judge), world)
    advance = _RecipeCount(progress, len(_RATES) + 1 + len(_CLIPS) + 1)
    tried: list[_Tried] = []
    reach = math.inf  # the error from which a network is worth a longer search
    if "tables" in methods:
        tables = Recipe("tables", TablesConfig(), privacy)
        tried.append(_Tried(tables, _error(tables, world, graph, records, judge)))
        reach = _FAR * tried[0].error
    left_out = ""
    if "vae" in methods and tried and tried[0].error <= floor + _WORTH:
        left_out = "; networks were not tried, since they could gain no more than the difference"
    elif "vae" in methods:
        try:
            network = _network(graph, simulated_world(graph, first), privacy, records, rng, advance, reach)
            tried.append(_Tried(network, _error(network, world, graph, records, judge)))
        except MiauditError as error:  # such as a table of more work than a rehearsal may take
            if len(methods) == 1:
                raise
            left_out = f"; networks were left out ({error})"
    advance.all_done()
    best = min(tried, key=lambda one: one.error).recipe
    return replace(best, rehearsed=f"{_compared(tried, floor)}{left_out}{_foreseen(best, graph, records, judge)}")


def _compared(tried: Sequence[_Tried], floor: float) -> str:
    errors = ", ".join(f"{_words(one.recipe)} {one.error:.3f}" for one in tried)
    return f"on simulated records: errors of pairs of columns are {errors} (two real samples: {floor:.3f})"


def _foreseen(recipe: Recipe, graph: CausalGraph, records: int, rng: np.random.Generator) -> str:
    """Say what share of dependence tables keep in simulated worlds; nothing for networks, which take long.

    A graph without edges states no dependence: the columns of its worlds depend on each other all the same.
    Where few columns depend strongly, tables keep more than that. The limit of a fifth was set on 18 releases of one
    made-up law (500 to 2,000 records, 8 to 20 columns, epsilon 1): 10 of 12 below it were "not useful", none of 6 above
    it was. It was not tried on others.
    """
    if recipe.method != "tables" or len(graph.schema) < 2:
        return ""
    law = over(graph.schema, None) if graph.full and not graph.edges else graph
    worlds = (simulated_world(law, rng) for _ in range(2 if len(graph.schema) <= _NARROW else 1))
    shares = [share for world in worlds if (share := _kept(recipe, world, graph, records, rng)) is not None]
    if not shares:
        return ""
    share_kept = max(0.0, min(1.0, float(np.mean(shares))))
    sentence = f"; the best keeps {share_kept:.0%} of dependence between columns"
    if share_kept >= _HOPELESS:
        return sentence
    return (
        f"{sentence}: a release would probably be useless, so take more records, fewer columns or levels, or a larger "
        "epsilon before anything is spent"
    )


def _kept(
    recipe: Recipe, world: TablesGenerator, graph: CausalGraph, records: int, rng: np.random.Generator
) -> float | None:
    """Return the share of dependence that a recipe keeps, over pairs that depend, as a release is judged."""
    one, other, private = (world.sample(n, rng=rng) for n in (_JUDGED, _JUDGED, records))
    synthetic = recipe.fit_many([private], graph, rng=rng, repeatable=True)[0].sample(_JUDGED, rng=rng)
    floor, apart, off = (_distances(table, other, world) for table in (one, _shuffled(one), synthetic))
    depend = apart - floor >= _DEPENDENT
    return 1 - float(np.mean((off - floor)[depend]) / np.mean((apart - floor)[depend])) if depend.any() else None


def _network(
    graph: CausalGraph,
    world: TablesGenerator,
    privacy: Privacy | None,
    records: int,
    rng: np.random.Generator,
    progress: _RecipeCount,
    reach: float,
) -> Recipe:
    """Choose the rate of a network, then its steps, then batch and clipping norm; stop where it is out of reach."""
    _check_work(graph, privacy, records)
    best: _Tried | None = None
    for search in (_short, _longer, _around):
        for recipe in search(best.recipe if best else Recipe("vae", GeneratorConfig(), privacy), records):
            tried = _Tried(recipe, _error(recipe, world, graph, records, rng))
            best = tried if best is None or tried.error < best.error else best
            progress.one_more()
        if best is not None and best.error > reach:
            break
    assert best is not None  # noqa: S101 - there are rates
    return best.recipe


def _short(recipe: Recipe, records: int) -> list[Recipe]:
    """Each learning rate with few steps."""
    batch = _batch(records)
    few = GeneratorConfig(batch=batch, epochs=_epochs(min(_STEPS), batch, records))
    return [replace(recipe, config=replace(few, learning_rate=rate)) for rate in _RATES]


def _longer(recipe: Recipe, records: int) -> list[Recipe]:
    """More steps."""
    config = _of_network(recipe)
    return [replace(recipe, config=replace(config, epochs=_epochs(max(_STEPS), config.batch, records)))]


def _epochs(steps: int, batch: int, records: int) -> int:
    return max(1, round(steps * batch / records))


def _of_network(recipe: Recipe) -> GeneratorConfig:
    assert isinstance(recipe.config, GeneratorConfig)  # noqa: S101 - by its method
    return recipe.config


def _around(recipe: Recipe, records: int) -> list[Recipe]:
    """Twice the batch, and other clipping norms."""
    config = _of_network(recipe)
    larger = min(2 * config.batch, records)
    recipes = [replace(recipe, config=replace(config, batch=larger, epochs=2 * config.epochs))]
    if recipe.privacy is not None:
        recipes += [replace(recipe, privacy=replace(recipe.privacy, clip=clip)) for clip in _CLIPS]
    return recipes


def _batch(records: int) -> int:
    """A tenth of a small table, and of a large one what a thousand steps pass through once."""
    return min(records, max(min(100, math.ceil(records / 4)), records // max(_STEPS)))


def _check_work(graph: CausalGraph, privacy: Privacy | None, records: int) -> None:
    from miaudit.synthesis.generators.vae import Network  # noqa: PLC0415 - torch loads for networks alone

    longest = _of_network(_longer(_short(Recipe("vae", GeneratorConfig(), privacy), records)[0], records)[0])
    work = Network.of(graph, longest).parameters * longest.steps(records) * longest.batch
    if work > _MOST_WORK:
        allowed = "a table small enough to rehearse networks, or options for them"
        received = f"{len(graph.schema)} columns of {records:,} records"
        raise InputError("method", allowed, received, "take method tables, or state learning_rate, epochs and batch")


def _error(recipe: Recipe, world: TablesGenerator, graph: CausalGraph, records: int, rng: np.random.Generator) -> float:
    """Make a generator of simulated records by a recipe, and return how far off its records are."""
    learn, draw = rng.spawn(2)
    if recipe.method == "tables":
        private = world.sample(records, rng=draw)
        generator = recipe.fit_many([private], graph, rng=learn, repeatable=True)[0]
    else:
        generator = _trained(recipe, world, graph, records, learn, draw)
    return _distance(generator.sample(_JUDGED, rng=draw), world.sample(_JUDGED, rng=draw), world)


def _trained(
    recipe: Recipe,
    world: TablesGenerator,
    graph: CausalGraph,
    records: int,
    learn: np.random.Generator,
    draw: np.random.Generator,
) -> Generator:
    """Train a network for as many steps, with the batch and noise that the private table would have."""
    config, privacy = _of_network(recipe), recipe.privacy
    few = max(min(records, _MOST), _FEWEST, config.batch)
    epochs = max(1, round(config.steps(records) * config.batch / few))
    shorter, privacy_wanted = replace(config, epochs=epochs), privacy
    if privacy is not None:
        noise = privacy.resolved_noise(config)
        privacy_wanted = replace(privacy, records=few, epsilon=None, noise=noise, delta=privacy.resolved_delta)
    rehearsal = Recipe("vae", shorter, privacy_wanted)
    return rehearsal.fit_many([world.sample(few, rng=draw)], graph, rng=learn, repeatable=privacy_wanted is not None)[0]


def _words(recipe: Recipe) -> str:
    config = recipe.config
    if isinstance(config, TablesConfig):
        return "tables"
    clip = "" if recipe.privacy is None else f", clip {recipe.privacy.clip:g}"
    return f"vae (rate {config.learning_rate:g}, {config.epochs:,} epochs, batch {config.batch:,}{clip})"


class _RecipeCount:
    """How many recipes of a rehearsal are done."""

    def __init__(self, progress: Progress | None, every: int) -> None:
        self._progress, self._every, self._done = progress, every, 0

    def one_more(self) -> None:
        self._done = min(self._done + 1, self._every)
        if self._progress is not None:
            self._progress(self._done, self._every)

    def all_done(self) -> None:
        self._done = self._every
        self.one_more()


# -- worlds -----------------------------------------------------------------------------------------------------------


def simulated_world(graph: CausalGraph, rng: np.random.Generator) -> TablesGenerator:
    """Draw laws over a schema: along the graph, and within its groups along parents drawn at random."""
    plan = TablesPlan(graph, TablesConfig(bins=_BINS), None, _JUDGED)
    laws: list[Law] = []
    for name in graph.order:
        outer = [i for cause in graph.parents(name) for i in graph.positions(cause)]
        own = rng.permutation(graph.positions(name)).tolist()
        for place, column in enumerate(own):
            parents = outer + own[:place]
            if plan.chooses:
                parents = rng.permutation(parents)[:_OPEN_PARENTS].tolist() if parents else []
            laws.append(_law(column, parents, plan, rng))
    return TablesGenerator(plan, tuple(laws))


def _law(column: int, parents: Sequence[int], plan: TablesPlan, rng: np.random.Generator) -> Law:
    """Draw the law of a column: effects of each parent, and between those that share a table."""
    sizes = plan.sizes
    sets: list[list[int]] = [[]]
    for parent in parents:
        if math.prod(sizes[i] for i in (*sets[-1], parent, column)) > _MOST_CELLS and sets[-1]:
            sets.append([])
        sets[-1].append(parent)
    logits = []
    for own in sets:
        shape = [sizes[i] for i in own]
        total = np.zeros((*shape, sizes[column]))
        for axis, parent in enumerate(own):
            effect = _MAIN * _effect(plan, parent, column, rng)
            total += effect.reshape([*(sizes[parent] if a == axis else 1 for a in range(len(own))), sizes[column]])
        if len(own) > 1:
            total += _BETWEEN * rng.standard_normal(total.shape)
        logits.append(total.reshape(-1, sizes[column]))
    logits[0] = logits[0] + _MAIN * _smooth(plan, column, rng)
    return Law(column, tuple(tuple(own) for own in sets), tuple(logits))


def _effect(plan: TablesPlan, parent: int, column: int, rng: np.random.Generator) -> FloatArray:
    """Effects (levels of the parent, levels of the column): smooth in the levels of ordered columns."""
    rows = _basis(plan, parent)
    columns = _basis(plan, column)
    return rows @ rng.standard_normal((rows.shape[1], columns.shape[1])) @ columns.T


def _smooth(plan: TablesPlan, column: int, rng: np.random.Generator) -> FloatArray:
    basis = _basis(plan, column)
    return np.asarray(basis @ rng.standard_normal(basis.shape[1]))


def _basis(plan: TablesPlan, column: int) -> FloatArray:
    """Functions (levels, k) of a column's levels: a slope of ordered ones, an indicator for each of others."""
    size, declared = plan.sizes[column], plan.graph.schema.columns[column]
    if declared.kind in ("categorical", "binary"):
        return np.eye(size)
    slope = np.linspace(-1.5, 1.5, size)
    return np.column_stack([slope, 0.5 * (slope**2 - np.mean(slope**2))])


def _distance(synthetic: Table, real: Table, world: TablesGenerator) -> float:
    """Return the mean total variation distance of pairs: causes with their effects, or within groups all pairs."""
    return float(np.mean(_distances(synthetic, real, world)))


def _distances(synthetic: Table, real: Table, world: TablesGenerator) -> FloatArray:
    """Return the distance of each pair."""
    plan = world.plan
    pairs: tuple[tuple[int, ...], ...] = plan.candidates or tuple((i,) for i in range(len(plan.sizes)))
    if len(pairs) > _PAIRS:
        pairs = tuple(pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))[:_PAIRS])
    codes = [encoded(table, plan) for table in (synthetic, real)]
    distances = []
    for pair in pairs:
        cells = math.prod(plan.sizes[i] for i in pair)
        one, other = (np.bincount(places(own, pair, plan.sizes), minlength=cells) / len(own) for own in codes)
        distances.append(float(np.abs(one - other).sum() / 2))
    return np.array(distances)


def _shuffled(table: Table) -> Table:
    """Each column by itself, moved on by a number of rows of its own: no dependence is left."""
    turned = [np.roll(column, 97 * place) for place, column in enumerate(table.values.T)]
    return Table(table.schema, np.stack(turned, axis=1))
