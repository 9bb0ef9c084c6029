"""Is a release any good? It is judged by real records that it was not made of, and compared with real samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.findings.fidelity import Fidelity
from miaudit.findings.release import Kept, Usefulness
from miaudit.synthesis.fidelity import fidelity
from miaudit.synthesis.generators.generator import Generator
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import TablesGenerator
from miaudit.synthesis.interventions import InterventionalError, interventional_error
from miaudit.synthesis.schema import Category, Table
from miaudit.synthesis.utility import Benchmark, compare_with_real

FEWEST = 40  # real records to judge by
_USEFUL, _HALF = 0.8, 0.5  # of what real records keep
_NEAR, _FAR = 0.05, 0.15  # marginals' distance above that of two real samples
_DEPENDENT = 0.05  # Cramer's V of a pair that depends, above that of shuffled columns
_PREDICTABLE = 0.55  # AUC from which an attribute counts as predictable
_SHOWN = 0.02  # effect of interventions above what samples differ by, below which there is nothing to keep
_TARGETS, _CLASSIFIERS, _ROWS = 5, ("logistic", "forest"), 2_000
_MOST_LEVELS = 12
_BRING = "more records to judge by: more private ones, or fidelity: public"
_SET, _DRAWS = 8, 2_000  # columns that are set, records drawn for each


def judged(
    synthetic: Table,
    generator: Generator,
    private: Table,
    real: Table,
    *,
    on: str,
    rng: np.random.Generator,
    first: str = "",
    larger: str = "",
) -> tuple[Usefulness, Fidelity | None]:
    """Judge a release by what it keeps of single columns, of dependences, of prediction and of interventions.

    Parameters
    ----------
    synthetic : the records that are released
    generator : that drew them; with a full graph it also shows what follows when columns are set
    private : the records that it was made of, or others of that population: they show what real records keep
    real : records of that population that it was not made of
    on : the real records, in words
    rng : of samples, classifiers and draws
    first : advice before any other
    larger : advice on a larger epsilon, where the ledger allows one or forbids it

    Returns
    -------
    The verdict, and the distances of columns and pairs that it rests on. Neither is covered by the guarantee.
    """
    look, predict, ask = rng.spawn(3)
    if len(real) < FEWEST:
        return _too_few(synthetic, private, real, on, look)
    near = fidelity(synthetic, real, private, rng=look)
    alone = fidelity(shuffled(private, look), real, private, rng=look)
    dependence = dependence_kept(near, alone)
    measures = [dependence, _prediction(synthetic, private, real, predict, _targets(generator))]
    if generator.graph.full and len(generator.graph.schema) > 1:
        measures.append(_interventions(generator, private, ask))
    measured = tuple(one for one in measures if one is not None)
    unseen = _unseen(near, private, real) if dependence is None else ""
    verdict = _verdict(measured, columns_off(near), on, len(real), unseen, _lost(near, alone))
    if verdict.status == "useful":
        return verdict, near
    advice = (*verdict.advice, *([first] if first else []), *_advice(generator, larger))
    return replace(verdict, advice=advice), near


def _too_few(
    synthetic: Table, private: Table, real: Table, on: str, rng: np.random.Generator
) -> tuple[Usefulness, Fidelity | None]:
    """Say that there are too few real records to judge by; with two or more their distances are measured."""
    text = f"Not judged: {len(real)} real records are too few to judge by; at least {FEWEST} are needed."
    near = fidelity(synthetic, real, private, rng=rng) if min(len(real), len(private)) > 1 else None
    off = 0.0 if near is None else columns_off(near)
    return Usefulness("unjudged", text, on, len(real), off, (), ("bring more records",)), near


def _verdict(measures: tuple[Kept, ...], off: float, on: str, records: int, unseen: str, lost: str) -> Usefulness:
    worst = min((one.share for one in measures), default=1.0)
    # the limits of a measure may not exclude that it is lost
    loosely = any(one.low is not None and one.low < _HALF for one in measures)
    good = worst >= _USEFUL and off <= _NEAR and not loosely and not lost
    status = "useful" if good else "not" if worst < _HALF or off > _FAR else "partly"
    if unseen and status != "not":
        return Usefulness("unjudged", f"Not judged: {unseen}.", on, records, off, measures, (_BRING,))
    words = ", ".join(f"{one.shown} of {one.of}" for one in measures)
    texts = {"useful": "Useful", "partly": "Partly useful", "not": "Not useful"}[status]
    nothing = "" if measures else "; the real records show no dependence that it could keep"
    columns = f"single columns are off by {max(off, 0):.1%} more than real samples are"
    but = f"; {lost}" if lost else ""
    text = f"{texts}: it keeps {words}; {columns}{but}." if measures else f"{texts}: {columns}{nothing}{but}."
    return Usefulness(status, text, on, records, off, measures)  # type: ignore[arg-type]  # one of three words


def _advice(generator: Generator, larger: str) -> tuple[str, ...]:
    """Return what to change, the most promising first."""
    advice = []
    privacy = generator.privacy
    if generator.method == "vae":
        advice.append("take method: tables, or leave method and generator out for a rehearsal of both")
    if privacy is not None:
        advice += [larger] if larger else []
        levels = "categories" if "stages" in generator.facts else "levels or bins"
        advice.append(f"fewer columns, {levels}: each cell then has more records for the same noise")
        advice.append("more records: the noise stays the same")
    if not generator.graph.full:
        advice.append("a full graph, a group for each column, if it is known: nothing is then spent on choosing pairs")
    else:
        advice.append("edges between columns that depend on each other: what the graph leaves apart is drawn apart")
    if generator.method == "tables" and "stages" not in generator.facts:
        advice.append("tables: {two_stages: true}: levels then follow from noisy counts, within the same epsilon")
    return tuple(advice)


def _unseen(near: Fidelity, private: Table, real: Table) -> str:
    """Say which columns depend on each other although the records set aside are too few to measure it; or nothing.

    Tested by chi-square of each pair on all real records, at 5% for all pairs together.
    """
    from scipy.stats import chi2_contingency  # noqa: PLC0415 - loads when used

    whole = np.concatenate([private.values, real.values])
    level = 0.05 / max(1, len(near.pairs))
    dependent = []
    for pair in near.pairs:
        counts = _crossed(*(whole[:, private.schema.position(name)] for name in (pair.left, pair.right)))
        if min(counts.shape) < 2:
            continue
        tested = chi2_contingency(counts, correction=False)
        if tested.pvalue < level:
            dependent.append((math.sqrt(tested.statistic / counts.sum() / (min(counts.shape) - 1)), pair))
    dependent = [one for one in dependent if one[0] >= _DEPENDENT]
    if not dependent:
        return ""
    strength, pair = max(dependent, key=lambda one: one[0])
    return (
        f"{pair.left} and {pair.right} depend on each other in the real records (Cramér's V {strength:.2f}), and the "
        f"{len(real):,} to judge by are too few to say how much of that is kept"
    )


def _crossed(a: FloatArray, b: FloatArray) -> FloatArray:
    """Count two columns against each other, numbers of many values in fifths, missing values as a level."""
    codes = []
    for own in (a, b):
        seen = own[~np.isnan(own)]
        values = np.unique(seen)
        if len(values) > _MOST_LEVELS:
            values = np.unique(np.quantile(seen, [0.2, 0.4, 0.6, 0.8]))
            code = np.searchsorted(values, own, side="right")
        else:
            code = np.searchsorted(values, own)
        codes.append(np.where(np.isnan(own), len(values) + 1, code))
    table = np.zeros((int(codes[0].max()) + 1, int(codes[1].max()) + 1))
    np.add.at(table, tuple(codes), 1)
    return np.asarray(table[table.sum(1) > 0][:, table.sum(0) > 0])


def columns_off(near: Fidelity) -> float:
    """Return how far off single columns are above two real samples: a total variation distance, averaged."""
    summary = near.summary
    return summary["marginal_distance"] - summary["marginal_floor"]


def dependence_kept(near: Fidelity, alone: Fidelity) -> Kept | None:
    """How much of the distance between the pairs and independence the release keeps, over pairs that depend.

    A pair depends if its association exceeds that of shuffled columns in as many records.
    """
    least = _DEPENDENT + 2 / math.sqrt(near.records)
    pairs = [
        (a, b)
        for a, b in zip(near.pairs, alone.pairs, strict=True)
        if a.real_association - b.synthetic_association >= least
    ]
    floor = float(np.mean([a.floor for a, _ in pairs])) if pairs else 0.0
    lost = float(np.mean([a.distance for a, _ in pairs])) if pairs else 0.0
    most = float(np.mean([b.distance for _, b in pairs])) if pairs else 0.0
    return (
        _share("dependence between columns", floor, lost, most, "distance of pairs") if most - floor >= _SHOWN else None
    )


def _lost(near: Fidelity, alone: Fidelity) -> str:
    """Name the pairs of which the release keeps less than half, beyond chance; or nothing. A mean would hide them."""
    lost = []
    noise = -NormalDist().inv_cdf(0.025 / max(1, len(near.pairs))) * math.sqrt(
        2 / near.records
    )  # of a difference of two V
    for own, apart in zip(near.pairs, alone.pairs, strict=True):
        true, synthetic = (v - apart.synthetic_association for v in (own.real_association, own.synthetic_association))
        if true >= _DEPENDENT + 2 / math.sqrt(near.records) and synthetic < _HALF * true and true - synthetic > noise:
            lost.append((true - synthetic, own))
    lost.sort(key=lambda one: -one[0])
    shown = ", ".join(
        f"{pair.left} and {pair.right} ({pair.synthetic_association:.2f} for {pair.real_association:.2f})"
        for _, pair in lost[:3]
    )
    more = f" and {len(lost) - 3} pairs more" if len(lost) > 3 else ""
    return f"less than half is kept of how {shown}{more} depend on each other (Cramér's V)" if lost else ""


def _targets(generator: Generator) -> Sequence[str]:
    """The columns that the publisher wants predicted; none if nobody said."""
    return generator.plan.config.targets if isinstance(generator, TablesGenerator) else ()


def _prediction(
    synthetic: Table, private: Table, real: Table, rng: np.random.Generator, named: Sequence[str] = ()
) -> Kept | None:
    """How much of the AUC above chance classifiers keep that are trained on the release, of the named attributes."""
    targets = named or _TARGETS
    try:
        benchmark = Benchmark.of(private, real, targets=targets, classifiers=_CLASSIFIERS, most_rows=_ROWS, rng=rng)
    except InputError:  # no attribute with two classes that occur often enough
        return None
    true, synthetic_score = benchmark.score(), benchmark.score(synthetic)
    row = next(
        row
        for row in compare_with_real(benchmark, true, [synthetic_score])
        if row.classifier == "mean" and row.metric == "auc"
    )
    reached, synthetic_value, lost = (_known(part.value) for part in (row.real, row.synthetic, row.change))
    if reached < _PREDICTABLE:
        return None
    names = ", ".join(benchmark.targets)
    of = f"the prediction of {names if len(benchmark.targets) <= 3 else f'{len(benchmark.targets)} attributes'}"
    above = reached - 0.5
    share = 1 - lost / above
    limits = (1 - row.change.high / above, 1 - row.change.low / above)
    return Kept(of, share, *limits, f"AUC of {names}", reached, synthetic_value, 0.5)


def _interventions(generator: Generator, private: Table, rng: np.random.Generator) -> Kept | None:
    """How much of what follows from setting columns the release's generator knows, by laws fitted to real records."""
    graph = generator.graph
    below = {name: graph.descendants(name) for name in graph.order}
    chosen = [name for name in graph.order if below[name]][:_SET]
    if not chosen:
        return None
    fit, pick, ask = rng.spawn(3)
    world = Recipe("tables", TablesConfig(draws_missing=False), None).fit_many([private], graph, rng=fit)[0]
    do = [(name, _value(private, name, pick)) for name in chosen]
    error: InterventionalError = interventional_error(
        generator, world, do, outcomes={name: below[name] for name in chosen}, n=_DRAWS, rng=ask
    )
    floor, lost, most = (_known(part.value) for part in (error.floor, error.error, error.effect))
    if most - floor < _SHOWN:
        return None
    return _share("what interventions do along this graph", floor, lost, most, "distance of what follows")


def _known(value: float | None) -> float:
    """Return an estimate's value, which a mean always has."""
    assert value is not None  # noqa: S101 - of means
    return value


def _share(of: str, floor: float, lost: float, most: float, measure: str) -> Kept:
    """Return the share kept: real records lose only the floor, independent columns lose everything."""
    return Kept(of, 1 - (lost - floor) / (most - floor), None, None, measure, floor, lost, most)


def _value(private: Table, name: str, rng: np.random.Generator) -> Category:
    """Return a value to set a column to: the second of its levels, or a number from the upper half of its range."""
    column = private.schema.column(name)
    if column.kind != "continuous":
        return column.categories[1]
    assert column.low is not None and column.high is not None  # noqa: S101 - by its check
    share = 0.5 + 0.5 * float(rng.random())
    number = column.low + share * (column.high - column.low)
    return number if column.decimals is None else min(math.floor(number), math.floor(column.high))


def shuffled(table: Table, rng: np.random.Generator) -> Table:
    """Each column permuted by itself: the right columns and nothing else."""
    return Table(table.schema, np.stack([rng.permutation(column) for column in table.values.T], axis=1))
