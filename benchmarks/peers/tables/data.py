"""The tables that generators are compared on: columns, public categories, graphs, and for each seed the same split.

Numbers are cut and categories grouped as written here, once and for every tool, and both are taken as public. Real
files may be absent: then the table is left out and the reason is named.
"""

from __future__ import annotations

import gzip
import itertools
import os
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.synthesis import CausalGraph, Column, Schema, Table
from miaudit.synthesis.worlds import StructuralModel, synthetic22

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint records of one population: what a tool may read, another real sample, and those held out for scores."""

    private: Table
    other: Table
    test: Table


@dataclass(frozen=True, eq=False)
class Subject:
    """A table to be synthesised.

    Attributes
    ----------
    title : on the page
    records : n of the private table, public
    delta : of every tool
    graph : over discrete columns, for tools that take one
    targets : name of the task -> column and the categories that count as 1; each is predicted from all other columns
    classifier : "boosting" or "logistic"
    draw : seed -> Split, the same for every tool
    world : the true mechanisms, where they are known
    interventions : what is set where the world is known
    """

    title: str
    records: int
    delta: float
    graph: CausalGraph
    targets: Mapping[str, tuple[str, frozenset[int]]]
    classifier: str
    draw: Callable[[int], Split]
    world: StructuralModel | None = None
    interventions: tuple[tuple[str, float], ...] = ()


def generator_of(name: str, seed: int) -> np.random.Generator:
    """Return the generator of a table's seed: private records, split and pairs are the same for every tool."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


# -- worlds -----------------------------------------------------------------------------------------------------------

TEST = 5_000


def world_subject(name: str, title: str, world: StructuralModel, targets: Sequence[str], do: Sequence[str]) -> Subject:
    """A subject whose records are drawn from a known world: 1,000 private, 1,000 other, 5,000 held out."""

    def draw(seed: int) -> Split:
        rng = generator_of(name, seed)
        return Split(*(world.sample(n, rng=rng) for n in (1_000, 1_000, TEST)))

    chosen = {target: (target, frozenset({1})) for target in targets}
    forced = tuple((column, 1.0) for column in do)
    return Subject(title, 1_000, 1e-5, world.graph, chosen, "logistic", draw, world, forced)


def read_synthetic22() -> Subject:
    names = [f"L{i}" for i in range(1, 9)]
    causes = [*(f"R{i}" for i in range(1, 7)), *(f"M{i}" for i in range(1, 9))]
    return world_subject("synthetic22", "synthetic22: 22 binary columns", synthetic22(), names, causes)


def read_pain() -> Subject:
    sys.path.insert(0, str(ROOT / "experiments"))
    try:
        from causal_synthesis.pain import pain, parameters
    finally:
        sys.path.remove(str(ROOT / "experiments"))
    frequent = np.argsort(-parameters().symptoms(), kind="stable")[:8]  # of the world, not of a table
    targets = [f"symptom_{j + 1:03d}" for j in sorted(int(j) for j in frequent)]
    world = pain()
    return world_subject("pain", "pain1000: 222 binary columns", world, targets, world.schema.names[0:27:3])


# -- real records -----------------------------------------------------------------------------------------------------

SHARED = "shared/data"  # beside the checkout


def data_folder() -> Path:
    """Return the folder of real data: $MIAUDIT_DATA, or shared/data beside the checkout or above it."""
    given = os.environ.get("MIAUDIT_DATA")
    if given:
        return Path(given)
    places = [parent / SHARED for parent in ROOT.parents]
    return next((place for place in places if place.is_dir()), ROOT.parent / SHARED)


def real_subject(
    name: str, title: str, schema: Schema, targets: Mapping[str, tuple[str, Sequence[str]]], codes: Any
) -> Subject:
    """A subject whose records are drawn from a file without replacement: 10,000 private, other and held out each."""

    def draw(seed: int) -> Split:
        order = generator_of(name, seed).permutation(len(codes))[:30_000]
        return Split(*(Table(schema, codes[rows]) for rows in np.split(order, 3)))

    found = {
        task: (column, frozenset(schema.column(column).categories.index(category) for category in categories))
        for task, (column, categories) in targets.items()
    }
    graph = CausalGraph.from_yaml(HERE / f"graphs/{name}.yaml", schema=schema)
    return Subject(title, 10_000, 10_000**-1.1, graph, found, "boosting", draw)


def cut(bounds: Sequence[float], values: Any) -> Any:
    """Return bins 0, 1, ... of numbers; a bound belongs to the bin above it.

    Examples
    --------
    >>> cut([20, 25], [19, 20, 24.5, 25]).tolist()
    [0, 1, 1, 2]
    """
    return np.searchsorted(np.asarray(bounds), np.asarray(values, dtype=np.float64), side="right")


def bins(name: str, bounds: Sequence[float]) -> Column:
    """Return the ordinal column of numbers cut at these bounds."""
    names = [f"under {bounds[0]:g}", *(f"{low:g} to under {high:g}" for low, high in itertools.pairwise(bounds))]
    return Column(name, "ordinal", categories=(*names, f"{bounds[-1]:g} and more"))


def grouped(name: str, groups: Mapping[str, Sequence[str]], ordered: bool = False) -> tuple[Column, dict[str, int]]:
    """Return a column of groups, and the group of each value of the file."""
    column = Column(name, "ordinal" if ordered else "categorical", categories=tuple(groups))
    return column, {value: code for code, values in enumerate(groups.values()) for value in values}


AGE = (20, 25, 30, 35, 40, 45, 50, 55, 60, 65)
HOURS = (20, 35, 40, 41, 50, 60)
GAINS, LOSSES = (1, 5_000, 10_000), (1, 2_000)

ADULT = {
    "workclass": (
        1,
        {
            "private": ["Private"],
            "own business, not incorporated": ["Self-emp-not-inc"],
            "own business, incorporated": ["Self-emp-inc"],
            "local government": ["Local-gov"],
            "state government": ["State-gov"],
            "federal government": ["Federal-gov"],
            "none, without pay or unknown": ["?", "Never-worked", "Without-pay"],
        },
    ),
    "education": (
        3,
        {
            "up to 8th grade": ["Preschool", "1st-4th", "5th-6th", "7th-8th"],
            "9th to 12th grade": ["9th", "10th", "11th", "12th"],
            "high school": ["HS-grad"],
            "some college": ["Some-college"],
            "associate": ["Assoc-voc", "Assoc-acdm"],
            "bachelor": ["Bachelors"],
            "master": ["Masters"],
            "professional school or doctorate": ["Prof-school", "Doctorate"],
        },
    ),
    "marital_status": (
        5,
        {
            "married": ["Married-civ-spouse", "Married-AF-spouse"],
            "never married": ["Never-married"],
            "divorced": ["Divorced"],
            "separated": ["Separated", "Married-spouse-absent"],
            "widowed": ["Widowed"],
        },
    ),
    "occupation": (
        6,
        {
            "professional": ["Prof-specialty"],
            "craft and repair": ["Craft-repair"],
            "executive": ["Exec-managerial"],
            "clerical": ["Adm-clerical"],
            "sales": ["Sales"],
            "other service": ["Other-service", "Priv-house-serv"],
            "machine operation": ["Machine-op-inspct"],
            "transport and handling": ["Transport-moving", "Handlers-cleaners"],
            "farming and fishing": ["Farming-fishing"],
            "technical support": ["Tech-support"],
            "protective service": ["Protective-serv", "Armed-Forces"],
            "unknown": ["?"],
        },
    ),
    "relationship": (
        7,
        {
            "husband": ["Husband"],
            "wife": ["Wife"],
            "own child": ["Own-child"],
            "unmarried": ["Unmarried"],
            "other relative": ["Other-relative"],
            "not in family": ["Not-in-family"],
        },
    ),
    "race": (
        8,
        {
            "white": ["White"],
            "black": ["Black"],
            "Asian or Pacific": ["Asian-Pac-Islander"],
            "American Indian or Eskimo": ["Amer-Indian-Eskimo"],
            "other": ["Other"],
        },
    ),
    "sex": (9, {"female": ["Female"], "male": ["Male"]}),
    "native_country": (13, {"United States": ["United-States"], "Mexico": ["Mexico"], "unknown": ["?"], "other": []}),
    "income": (14, {"up to 50K": ["<=50K"], "over 50K": [">50K"]}),
}


def adult_codes(rows: Sequence[Sequence[str]]) -> tuple[Schema, Any]:
    """Return the schema of Adult as compared here, and its codes (n, 13), from rows of 15 texts.

    Examples
    --------
    >>> row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
    >>> schema, codes = adult_codes([(row + "40, Cuba, <=50K").split(", ")])
    >>> [schema.columns[j].categories[int(c)] for j, c in enumerate(codes[0])][:3]
    ['35 to under 40', 'state government', 'bachelor']
    """
    columns: list[Column] = [bins("age", AGE)]
    parts: list[Any] = [cut(AGE, [row[0] for row in rows])]
    for name, (place, groups) in ADULT.items():
        column, code_of = grouped(name, groups, ordered=name == "education")
        columns.append(column)
        if name == "native_country":  # all that are not named
            code_of = {row[place]: code_of.get(row[place], column.levels - 1) for row in rows}
        parts.append([code_of[row[place]] for row in rows])
    for name, place, bounds in (("capital_gain", 10, GAINS), ("capital_loss", 11, LOSSES), ("hours", 12, HOURS)):
        columns.append(bins(name, bounds))
        parts.append(cut(bounds, [row[place] for row in rows]))
    return Schema(tuple(columns)), np.column_stack(parts)


def read_adult() -> Subject:
    rows = []
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(data_folder() / "adult" / name, "rt", encoding="utf-8") as file:
            lines = (line.strip().rstrip(".") for line in file)
            rows += [line.split(", ") for line in lines if line.count(",") == 14]
    targets = {
        "income over 50K": ("income", ["over 50K"]),
        "sex": ("sex", ["male"]),
        "works for a private employer": ("workclass", ["private"]),
    }
    return real_subject("adult", "Adult: 13 columns, 10,000 records", *_with(targets, adult_codes(rows)))


def _with(targets: Any, found: tuple[Schema, Any]) -> tuple[Schema, Any, Any]:
    return found[0], targets, found[1]


# Census codes -> groups; -1 stands for a missing code.
ACS = {
    "sex": ("Sex", {"male": [1], "female": [2]}),
    "race": ("Race", {"white": [1], "black": [2], "Asian": [6], "other or several": [3, 4, 5, 7, 8, 9]}),
    "born": (
        "Place_of_Birth",
        {
            "United States": [1],
            "Puerto Rico or islands": [2],
            "Latin America": [3],
            "Asia": [4],
            "Europe": [5],
            "elsewhere": [6, 7, 8],
        },
    ),
    "education": (
        "Education",
        {
            "up to 8th grade": range(1, 12),
            "9th to 12th grade": range(12, 16),
            "high school": [16, 17],
            "some college": [18, 19],
            "associate": [20],
            "bachelor": [21],
            "master": [22],
            "professional or doctorate": [23, 24],
        },
    ),
    "marital_status": (
        "Marital_Status",
        {"married": [1], "widowed": [2], "divorced": [3], "separated": [4], "never married": [5]},
    ),
    "disability": ("Disability", {"yes": [1], "no": [2]}),
    "employment": ("Employment", {"employed": [1, 2, 4, 5], "unemployed": [3], "not in the labour force": [6, -1]}),
    "workclass": (
        "COW",
        {
            "private": [1],
            "non-profit": [2],
            "local government": [3],
            "state government": [4],
            "federal government": [5],
            "own business": [6, 7],
            "none or without pay": [8, 9, -1],
        },
    ),
    "tenure": ("Tenure", {"owned with a mortgage": [1], "owned": [2], "rented": [3, 4], "group quarters": [-1]}),
    "private_insurance": ("Private_HI", {"yes": [1], "no": [2]}),
    "public_insurance": ("Public_HI", {"yes": [1], "no": [2]}),
}
ACS_AGE, ACS_HOURS, ACS_INCOME = (*AGE, 75), (1, 20, 35, 40, 41, 50), (50_000,)


def acs_codes(found: Mapping[str, Any], income: Any) -> tuple[Schema, Any]:
    """Return the schema of the ACS records as compared here, and their codes (n, 14), from columns of census codes."""
    columns, parts = [bins("age", ACS_AGE)], [cut(ACS_AGE, found["Age"])]
    for name, (source, groups) in ACS.items():
        texts = {group: [str(code) for code in codes] for group, codes in groups.items()}
        column, code_of = grouped(name, texts, ordered=name == "education")
        values = np.nan_to_num(np.asarray(found[source], dtype=np.float64), nan=-1).astype(np.int64)
        columns.append(column)
        parts.append(np.array([code_of[str(value)] for value in values]))
    for name, bounds, values in (("hours", ACS_HOURS, found["Hours_Worked"]), ("income", ACS_INCOME, income)):
        columns.append(bins(name, bounds))
        parts.append(cut(bounds, values))
    return Schema(tuple(columns)), np.column_stack(parts)


def read_acs() -> Subject:
    with np.load(data_folder() / "acs_ct_income" / "acs_ct_income.npz", allow_pickle=False) as file:
        names = [name.decode() for name in file["columns"]]
        found = dict(zip(names, file["x"].T, strict=True))
        codes = acs_codes(found, file["income"])
    targets = {
        "income of 50,000 and more": ("income", ["50000 and more"]),
        "public insurance": ("public_insurance", ["yes"]),
        "employed": ("employment", ["employed"]),
    }
    return real_subject("acs", "ACS Connecticut: 14 columns, 10,000 records", *_with(targets, codes))


# -- all of them ------------------------------------------------------------------------------------------------------

READ: Mapping[str, Callable[[], Subject]] = {
    "adult": read_adult,
    "synthetic22": read_synthetic22,
    "acs": read_acs,
    "pain": read_pain,
}


@lru_cache(maxsize=4)
def subject(name: str) -> Subject:
    """Return a subject by its name.

    Raises
    ------
    FileNotFoundError
        If its real records are not on this machine.
    """
    return READ[name]()
