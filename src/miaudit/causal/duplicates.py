"""Exact and near duplicates across members and non-members, and equal rows that reveal undeclared units.

The model was in effect trained on a non-member that equals a member, or nearly does. Such records make an attack look
worse than it is. This module returns only counts, never a row.

Equal rows by themselves are no sign of units: a table of few categories is full of them. Their classes are the sign. If
records are independent, equal rows are members or non-members independently of each other, whatever the values are.
Rows of one household that were all assigned to the same class are not.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import BoolArray, Count, FloatArray, IntArray
from miaudit.causal import equal_by_chance
from miaudit.errors import InputError
from miaudit.evidence import Evidence

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

_NEAR = 0.1  # of the typical distance to the nearest record of the same class
_BY_CHANCE = 0.05  # expected number of members that would be called near duplicates in a smooth density
_QUERIES = 2000  # records from which the typical distance is measured
_DIMENSIONS = 16  # beyond which distances are taken in a random projection
_SHINGLE = 5
_BANDS, _ROWS = 32, 4
_MOST_CANDIDATES = 1_000_000
_PRIME = np.uint64((1 << 31) - 1)


@dataclass(frozen=True)
class Twins:
    """Counts of records with an equal or similar record in the other class.

    Attributes
    ----------
    exact_pairs : pairs of one member and one non-member with equal content
    near_pairs : further such pairs that are nearly equal
    members_affected, nonmembers_affected : records with an equal or nearly equal twin in the other class
    members_alike : members with such a twin among the **other members**: how common twins are in this kind of data
    beyond_chance : whether chance does not explain the twins across the classes
        (:func:`miaudit.causal.equal_by_chance.beyond_chance`)
    """

    exact_pairs: Count
    near_pairs: Count
    members_affected: Count
    nonmembers_affected: Count
    members_alike: Count
    beyond_chance: bool = False


def of_covariates(evidence: Evidence, *, rng: np.random.Generator) -> tuple[Twins, str]:
    """Count duplicates among the rows of the covariates.

    Columns are standardised. Near means closer than a tenth of the typical (median) distance from a record to the
    nearest one of its own class, or less where there are few effective dimensions, so that in a smooth density less
    than 0.05 members are expected to be called near by chance. With more than 16 columns, distances are taken in a
    random projection to 16, which keeps each to about 18%.

    Parameters
    ----------
    evidence : Evidence with covariates (n, d)
    rng : generator for the projection and for the records from which the typical distance is measured

    Returns
    -------
    counts, and a note that defines near in words and states the limits of the counts

    Raises
    ------
    InputError
        If the evidence has no covariates.

    Notes
    -----
    O(n log n) for data without many distinct records at the same tiny distance; every record is compared. The
    effective dimension is the two-nearest-neighbour estimate of Facco et al. (2017).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 5))
    >>> x[500:510] = x[:10]             # ten members again among the non-members
    >>> x[510:530] = x[20:40] + 1e-4    # twenty more, slightly changed
    >>> evidence = Evidence(score=np.zeros(1000), member=np.arange(1000) < 500, covariates=x)
    >>> twins, _ = of_covariates(evidence, rng=rng)
    >>> twins.exact_pairs, twins.near_pairs, twins.members_affected, twins.members_alike
    (10, 20, 30, 0)
    """
    if evidence.covariates is None:
        raise InputError("covariates", "covariates of every record", "none", "add them, or compare texts")
    x = evidence.covariates + 0.0  # -0.0 and 0.0 are the same value
    m, o, first = _tally([row.tobytes() for row in np.ascontiguousarray(x)], evidence.member)
    z, projected = _reduced(x[first], x, rng)
    return _near_rows(z, m, o, projected, rng, expected=equal_by_chance.expected_pairs(x, evidence.member))


def of_texts(
    texts: Sequence[str], member: ArrayLike, *, threshold: float = 0.7, rng: np.random.Generator
) -> tuple[Twins, str]:
    """Count duplicates among texts; letter case and white space are ignored.

    Near means a Jaccard similarity of the sets of character 5-grams of at least ``threshold``. Candidates come from
    MinHash (Broder 1997) in 32 bands of 4, which finds a pair of similarity 0.7 with probability 0.9998; candidates are
    compared exactly.

    Parameters
    ----------
    texts : n str
    member : array (n,) of bool
    threshold : in [0.5, 1]; below, MinHash would miss pairs
    rng : generator of the hash functions

    Returns
    -------
    counts, and a note that defines near in words and states the limits of the counts

    Raises
    ------
    InputError
        For another number of texts than members, one class only, or a threshold out of range.

    Examples
    --------
    >>> texts = ["the cat sat on the mat today", "Dogs bark", "dogs  bark", "the cat sat on the mat todax", "rain"]
    >>> twins, _ = of_texts(texts, [True, True, False, False, False], rng=np.random.default_rng(0))
    >>> twins.exact_pairs, twins.near_pairs, twins.members_affected, twins.nonmembers_affected
    (1, 1, 2, 2)
    """
    inside = np.asarray(member, dtype=np.bool_)
    if inside.shape != (len(texts),):
        raise InputError(
            "texts", f"{inside.size} texts, as in member", str(len(texts)), "pass one text for each record"
        )
    if not len(texts) or inside.all() or not inside.any():
        raise InputError("member", "members and non-members", "one class only", "add records of the other class")
    if not 0.5 <= threshold <= 1:
        raise InputError("threshold", "a similarity from 0.5 to 1", f"{threshold:g}", "0.7 is the default")
    plain = [" ".join(text.lower().split()) for text in texts]
    m, o, first = _tally([text.encode(errors="surrogatepass") for text in plain], inside)
    distinct = [plain[i] for i in first]
    pairs, skipped = _similar_pairs(distinct, threshold, rng)
    near = f"Near: a Jaccard similarity of character {_SHINGLE}-grams of at least {threshold:g}."
    if skipped:
        near += f" Only the first {_MOST_CANDIDATES:,} candidate pairs were compared: the near counts are lower limits."
    both = np.concatenate([pairs, pairs[:, ::-1]])  # of distinct contents
    near_of = [np.isin(np.arange(len(m)), both[other[both[:, 1]] > 0, 0]) for other in (o, m, m)]
    return _summary(m, o, int((m[both[:, 0]] * o[both[:, 1]]).sum()), near_of, near)


# -- counting ---------------------------------------------------------------------------------------------------------


def _summary(
    m: IntArray,
    o: IntArray,
    near_pairs: int,
    near_of: Sequence[BoolArray | bool],
    near: str,
    *,
    expected: float = 0.0,
    chance: float = 0.0,
) -> tuple[Twins, str]:
    """Combine exact and near duplicates into counts, from members and non-members with each distinct content (k,).

    ``near_of``: which contents of members have a near one among non-members, of non-members among members, and of
    members among members. ``expected``: equal pairs across the classes by chance, ``chance``: members with a near twin.
    """
    across = int(m[(o > 0) | near_of[0]].sum())
    alike = int(m[(m > 1) | near_of[2]].sum())
    note = near
    if across and alike >= across:
        note += (
            f" Twins are as common among members themselves ({alike:,} members have one): the data are coarse or "
            "clustered, so equal values alone do not mean the same record."
        )
    beyond = equal_by_chance.beyond_chance(m, o, expected, across=across, alike=alike, near=chance)
    return Twins(int(m @ o), near_pairs, across, int(o[(m > 0) | near_of[1]].sum()), alike, beyond), note


def _tally(contents: Sequence[bytes], member: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """Count equal contents of members and non-members by hash (collisions below 1e-25), and find the first of each."""
    seen: dict[bytes, int] = {}
    code = np.array([seen.setdefault(hashlib.blake2b(c, digest_size=16).digest(), len(seen)) for c in contents])
    first = np.unique(code, return_index=True)[1]
    m, o = (np.bincount(code[side], minlength=len(seen)).astype(np.int64) for side in (member, ~member))
    return m, o, first.astype(np.int64)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _reduced(distinct: FloatArray, every: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, bool]:
    """Standardise the columns that vary, and project many of them to few dimensions."""
    sd = every.std(axis=0)
    varying = sd > 1e-12 * np.abs(every).max(axis=0)
    z = (distinct[:, varying] - every[:, varying].mean(axis=0)) / sd[varying]
    if z.shape[1] <= _DIMENSIONS:
        return z, False
    return z @ rng.normal(size=(z.shape[1], _DIMENSIONS)) / math.sqrt(_DIMENSIONS), True


def _near_rows(
    z: FloatArray, m: IntArray, o: IntArray, projected: bool, rng: np.random.Generator, *, expected: float
) -> tuple[Twins, str]:
    nothing = (False, False, False)
    if z.shape[1] == 0:
        return _summary(
            m, o, 0, nothing, "The covariates are constant: every record equals every other.", expected=expected
        )
    inside, outside = (np.flatnonzero(count) for count in (m, o))
    members, nonmembers = trees = [_tree(z[rows]) for rows in (inside, outside)]
    nearness = _Nearness.of(trees, len(inside), z.shape[1], rng)
    if nearness is None:
        few = "Too few distinct records to say what near means: equal ones were counted."
        return _summary(m, o, 0, nothing, few, expected=expected)
    radius = nearness.radius
    near_of = (
        _reaches(nonmembers, outside, radius, z, inside),
        _reaches(members, inside, radius, z, outside),
        _reaches(members, inside, radius, z, inside),
    )
    weights = m[inside].astype(np.float64), o[outside].astype(np.float64)
    pairs = members.count_neighbors(nonmembers, radius, weights=weights)  # equal ones included
    near = round(float(pairs)) - int(m @ o)
    how = nearness.text(projected=projected)
    return _summary(m, o, near, near_of, how, expected=expected, chance=_BY_CHANCE)


@dataclass(frozen=True)
class _Nearness:
    """How close two records are that count as near.

    Attributes
    ----------
    fraction : of the typical distance between neighbours of one class
    typical : that distance
    dimension : effective number of dimensions (two nearest neighbours, Facco et al. 2017)
    """

    fraction: float
    typical: float
    dimension: float

    @classmethod
    def of(cls, trees: Sequence[cKDTree], members: int, columns: int, rng: np.random.Generator) -> _Nearness | None:
        """Measure the distances between neighbours in the tree of each class; None where no tree has three records."""
        measured = [_spacing(tree, rng) for tree in trees if tree.n > 2]
        if not measured:
            return None
        typical = float(np.median(np.concatenate([first for first, _ in measured])))
        dimension = 1 / float(np.mean(np.log(np.concatenate([second / first for first, second in measured]))) + 1e-9)
        rate = _BY_CHANCE / (math.log(2) * max(members, 1))
        dimension = min(dimension, float(columns))
        return cls(min(_NEAR, rate ** (1 / max(dimension, 0.5))), typical, dimension)

    @property
    def radius(self) -> float:
        """Largest distance between two records that are near."""
        return self.fraction * self.typical

    def text(self, *, projected: bool) -> str:
        """Define near in words."""
        where = f", in a random projection of the covariates to {_DIMENSIONS} dimensions." if projected else "."
        return (
            f"Near: closer than {self.fraction:.2g} of the typical distance between neighbours of one class "
            f"(effective dimension {self.dimension:.1f}){where}"
        )


def _tree(z: FloatArray) -> cKDTree:
    from scipy.spatial import cKDTree  # noqa: PLC0415

    return cKDTree(z)


def _spacing(tree: cKDTree, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return distances of some rows to the nearest and second nearest other row."""
    chosen = np.sort(rng.choice(tree.n, size=min(tree.n, _QUERIES), replace=False))
    distance = np.asarray(tree.query(tree.data[chosen], k=3)[0])
    usable = distance[:, 1] > 0
    return distance[usable, 1], distance[usable, 2]


def _reaches(tree: cKDTree, rows: IntArray, radius: float, z: FloatArray, queries: IntArray) -> BoolArray:
    """Return which contents (k,), among the queries, have another one among the rows of a tree within the radius."""
    reached = np.zeros(len(z), dtype=np.bool_)
    distance, index = tree.query(z[queries], k=2, distance_upper_bound=np.nextafter(radius, np.inf))
    neighbours = np.append(rows, -1)[index]
    reached[queries] = (np.isfinite(distance) & (neighbours != queries[:, None])).any(axis=1)
    return reached


# -- texts ------------------------------------------------------------------------------------------------------------


def _shingles(text: str) -> NDArray[np.uint64]:
    """Return hashes (k,) of the distinct character 5-grams of a text, or of a shorter text itself."""
    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4").astype(np.uint64)
    if len(codes) < _SHINGLE:
        codes = np.pad(codes, (0, _SHINGLE - len(codes)))
    mixed = np.zeros(len(codes) - _SHINGLE + 1, dtype=np.uint64)
    for j in range(_SHINGLE):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + codes[j : len(codes) - _SHINGLE + 1 + j]
        mixed ^= mixed >> np.uint64(29)
    return np.unique(mixed)


def _similar_pairs(texts: Sequence[str], threshold: float, rng: np.random.Generator) -> tuple[IntArray, bool]:
    """Return pairs (k, 2) of similar texts, and whether there were too many candidates."""
    multiply = rng.integers(1, int(_PRIME), size=(_BANDS * _ROWS, 1), dtype=np.uint64)
    add = rng.integers(0, int(_PRIME), size=(_BANDS * _ROWS, 1), dtype=np.uint64)
    buckets: dict[bytes, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        least = ((multiply * (_shingles(text) % _PRIME) + add) % _PRIME).min(axis=1).reshape(_BANDS, _ROWS)
        for band, row in enumerate(least):
            buckets[band.to_bytes(1, "little") + row.tobytes()].append(i)
    candidates: set[tuple[int, int]] = set()
    skipped = False
    for bucket in buckets.values():
        for place, i in enumerate(bucket):
            if len(candidates) + place > _MOST_CANDIDATES:
                skipped = True
                break
            candidates.update((j, i) for j in bucket[:place])
    sets: dict[int, NDArray[np.uint64]] = {}

    def similar(i: int, j: int) -> bool:
        a, b = (sets.setdefault(k, sets[k] if k in sets else _shingles(texts[k])) for k in (i, j))
        common = len(np.intersect1d(a, b, assume_unique=True))
        return common >= threshold * (len(a) + len(b) - common)

    similar_pairs = [pair for pair in sorted(candidates) if similar(*pair)]
    return np.array(similar_pairs, dtype=np.int64).reshape(-1, 2), skipped


LEVEL = 1e-4
NOTICED = 1.05  # a nominal 2.5% is then 2.8%
MATTERS = 1.25  # and then 4%
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64; 64 bits distinguish rows
_MOST_BY_A_SHIFT = 0.5  # propensities that are uniform on (0, 1) reach 1/3


@dataclass(frozen=True)
class Repeats:
    """Pairs of equal rows, and how many of them join a member and a non-member.

    Attributes
    ----------
    rows : records that have an equal one
    pairs : pairs of equal rows
    across : pairs of one member and one non-member
    expected : number of such pairs if the records are independent
    effect : factor by which the variance of a difference between members and non-members exceeds that of independent
        records, as far as equal rows make it (Kish's design effect); about 1 if records are independent
    p_value : probability of an effect as large if records are independent and of one population

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coarse, member = rng.integers(0, 4, size=(400, 2)), np.arange(400) < 200  # sixteen kinds of records
    >>> repeats = Repeats.of(coarse, member)
    >>> repeats.pairs > 4000, repeats.beyond_chance
    (True, False)
    >>> fives = Repeats.of(np.repeat(rng.normal(size=(80, 2)), 5, axis=0), member)  # households of five equal rows
    >>> fives.pairs, fives.across, round(fives.effect, 1), fives.beyond_chance
    (800, 0, 5.0, True)
    """

    rows: int
    pairs: int
    across: int
    expected: float
    effect: float
    p_value: float

    @classmethod
    def of(cls, rows: ArrayLike, member: ArrayLike) -> Repeats:
        """Compare rows (n, d) of numbers (NaN equals NaN), or n texts, of members and non-members.

        Notes
        -----
        There are c_k equal rows of which a_k are members, and members are a share p of all n rows. By chance the sum
        of (a_k - p c_k)^2 is n p (1 - p) on average, apart from a correction because the number of members is fixed;
        the excess over that gives the effect. The tail is that of a scaled chi-square with the mean and the variance
        of binomial a_k. O(n log n).

        Raises
        ------
        InputError
            For another number of rows than of members, or one class only.
        """
        inside = np.asarray(member, dtype=np.bool_)
        values = np.asarray(rows)
        if len(values) != len(inside) or inside.all() or not inside.any():
            received = f"{len(values)} rows, {np.count_nonzero(inside)} of {len(inside)} members"
            raise InputError("member", "as many as rows, of both classes", received, "pass one for each row")
        code, n, p = content_codes(values), len(inside), float(inside.mean())
        count, inner = np.bincount(code).astype(np.float64), np.bincount(code, weights=inside)
        many = count > 1
        c, a, v = count[many], inner[many], p * (1 - p)
        excess = float(((a - p * c) ** 2).sum())
        pairs, across = float((c * (c - 1)).sum() / 2), float((a * (c - a)).sum())
        # The number of members is fixed: the variance is less than binomial where one row is most of all.
        effect = 1 + (excess - v * float((c * ((n - c) / (n - 1))).sum())) / (n * v)
        expected = 2 * v * pairs * n / (n - 1)
        return cls(int(c.sum()), round(pairs), round(across), expected, effect, _tail_by_chance(c, v, excess))

    @property
    def apart(self) -> float:
        """How much more often than by chance equal rows share a class: 0 as by chance, 1 always."""
        return 1 - self.across / self.expected if self.pairs else 0.0

    @property
    def beyond_chance(self) -> bool:
        """Whether equal rows share a class more often than by chance, so that intervals are too narrow."""
        return self.p_value < LEVEL and self.effect >= NOTICED

    def forbids(self, design: str | None) -> bool:
        """Return whether equal rows refute intervals that treat records as independent.

        Where membership was not assigned at random (zero-run), members and non-members may differ, so that equal rows
        share a class more often than by chance. In that design only rows that almost always share a class refute.
        """
        if not (self.beyond_chance and self.effect >= MATTERS):
            return False
        return design != "zero-run" or self.apart > _MOST_BY_A_SHIFT

    def text(self, *, declared: bool = False) -> str:
        """Describe the finding and what to do; ``declared``: the rows are one record of each unit."""
        one = "records of different units" if declared else "records"
        name = "name the unit that holds them together" if declared else "name the unit (--unit)"
        return (
            f"{self.rows:,} {one} have an equal one, and of the {self.pairs:,} pairs of equal records {self.across:,} "
            f"are of a member and a non-member, where independent records would give about {self.expected:,.0f} "
            f"(p = {self.p_value:.2g}): several records of one person seem to stand on one side, or equal ones were "
            "taken out of the other, or the two are of different populations. Intervals that take records as "
            f"independent are then too narrow (the variance is about {self.effect:.1f} times as large): {name}, or "
            "keep one of several equal records."
        )


def _tail_by_chance(c: FloatArray, v: float, excess: float) -> float:
    """Return the chance of as large a sum of (a_k - p c_k)^2 for binomial a_k of c_k, where v = p (1 - p)."""
    mean = v * float(c.sum())
    variance = float((c * v * (1 + 3 * (c - 2) * v) - (c * v) ** 2).sum())
    return float(special.gammaincc(mean**2 / variance, excess * mean / variance)) if variance > 0 else 1.0


def content_codes(rows: ArrayLike) -> IntArray:
    """Number the distinct rows (n,) of numbers (n, d), NaN equal to NaN, or of n texts."""
    values = np.asarray(rows)
    if values.dtype.kind in "OUS":
        return np.unique(values.astype(np.str_), return_inverse=True)[1].astype(np.int64)
    mixed = np.zeros(len(values), dtype=np.uint64)
    for column in values.reshape(len(values), -1).astype(np.float64).T:
        numbers = np.where(np.isnan(column), np.nan, column + 0.0)  # one NaN, and no negative zero
        for multiplier in _MULTIPLIERS:
            mixed = (mixed ^ (numbers.view(np.uint64))) * multiplier
            mixed ^= mixed >> np.uint64(31)
    return np.unique(mixed, return_inverse=True)[1].astype(np.int64)
