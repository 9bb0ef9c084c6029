"""A stand-in for the neuropathic pain data: injuries cause radiculopathies, which cause symptoms.

The public simulator has no licence and lacks its network. This model has its shape (synthesis.md): 222 binary columns
in three layers, 770 edges, noisy-max mechanisms, and the same numbers of positives in a record. Names are our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np
from scipy import optimize, special

from miaudit.arrays import FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema
from miaudit.synthesis.worlds import Mechanism, StructuralModel, Term

Split = Literal["79 | 143", "27 | 195"]

LEVELS = 26
IN_DEGREES = {2: 46, 4: 50, 6: 16, 8: 11, 10: 12, 12: 5, 18: 2, 20: 1}  # parents of a symptom: how many symptoms
POSITIVES = (2.8, 4.7, 9.7)  # in a record, by layer

_SIDES = ("left", "right")
_TOP = 3  # levels that a craniocervical injury reaches
_FLOOR, _ROOT_FLOOR = 0.01, 0.005
_SEED = 222


@dataclass(frozen=True)
class NoisyMax:
    """P(1) is the largest weight of a parent that is 1, and ``floor`` if that is larger or none is."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    floor: float

    def probability(self, inputs: FloatArray) -> FloatArray:
        """Return P(1) (n,)."""
        if not self.terms:
            return np.full(len(inputs), self.floor)
        return np.asarray(np.maximum((inputs * np.asarray(self.weights)).max(axis=1), self.floor))

    def draw(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw 0 or 1 (n,)."""
        return np.asarray(rng.random(len(inputs)) < self.probability(inputs), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PainParameters:
    """What the mechanisms are made of.

    Attributes
    ----------
    injury : (26,) P(injury) of each level
    craniocervical : P(craniocervical injury)
    from_injury : (26, 2) weight of a level's injury for its left and right radiculopathy
    from_craniocervical : (3, 2) weight of the craniocervical injury for the top three levels
    first, width : (143,) the levels of which a symptom takes both radiculopathies: ``width`` from ``first`` on
    from_radiculopathy : for each symptom its weights (2 * width,), level by level, left before right
    """

    injury: FloatArray
    craniocervical: float
    from_injury: FloatArray
    from_craniocervical: FloatArray
    first: IndexArray
    width: IndexArray
    from_radiculopathy: tuple[FloatArray, ...]

    @property
    def all_zero(self) -> float:
        """P(a record of zeros), before such records are drawn again."""
        none = float(np.prod(1 - self.injury)) * (1 - self.craniocervical)
        return none * (1 - _FLOOR) ** (2 * LEVELS + len(self.first))

    def radiculopathies(self) -> FloatArray:
        """P(1) (26, 2) of each, before records of zeros are drawn again; in closed form."""
        c = self.craniocervical
        return (1 - c) * (1 - self._silent(0)[1]) + c * (1 - self._silent(1)[1])

    def symptoms(self) -> FloatArray:
        """P(1) (143,) of each, before records of zeros are drawn again; in closed form."""
        return np.array(
            [
                self.leading(j) @ np.append(np.maximum(weights, _FLOOR), _FLOOR)
                for j, weights in enumerate(self.from_radiculopathy)
            ]
        )

    def leading(self, symptom: int) -> FloatArray:
        """P(parent k is 1 and none with a larger weight is) (parents,), and last P(no parent is 1).

        Given the craniocervical injury levels are independent, so a set of parents is silent with the product over
        levels of the mean, over the level's injury, of the product over its sides.
        """
        order = np.argsort(-self.from_radiculopathy[symptom], kind="stable")
        levels, sides = self.first[symptom] + order // 2, order % 2
        found = np.zeros(len(order) + 1)
        for c, share in ((0, 1 - self.craniocervical), (1, self.craniocervical)):
            both, one = self._silent(c)
            still, quiet = 1.0, dict[int, float]()
            for k, (level, side) in enumerate(zip(levels.tolist(), sides.tolist(), strict=True)):
                seen = level in quiet
                after = still / quiet[level] * both[level] if seen else still * one[level, side]
                quiet[level] = both[level] if seen else one[level, side]
                found[order[k]] += share * (still - after)
                still = after
            found[-1] += share * still
        return found

    def _silent(self, c: int) -> tuple[FloatArray, FloatArray]:
        """P(both radiculopathies of a level are 0) (26,), and of each alone (26, 2), given the craniocervical one."""
        active = np.full((2, LEVELS, 2), _FLOOR)
        active[1] = np.maximum(self.from_injury, _FLOOR)
        if c:
            active[:, :_TOP] = np.maximum(active[:, :_TOP], self.from_craniocervical)
        quiet = 1 - active
        weight = np.stack([1 - self.injury, self.injury])
        return (weight * quiet.prod(axis=2)).sum(axis=0), (weight[:, :, None] * quiet).sum(axis=0)


@lru_cache(maxsize=4)
def parameters(seed: int = _SEED) -> PainParameters:
    """Draw the parameters, and shift weights until each layer has its number of positives in a record.

    Shifts are on the logit scale and solved in closed form, records of zeros left out; no simulation is behind them.

    Examples
    --------
    >>> p = parameters()
    >>> kept = 1 - p.all_zero
    >>> roots = p.injury.sum() + p.craniocervical
    >>> [round(float(x) / kept, 6) for x in (roots, p.radiculopathies().sum(), p.symptoms().sum())]
    [2.8, 4.7, 9.7]
    """
    rng = np.random.default_rng(seed)
    raw = np.append(0.4 + 1.2 * rng.random(LEVELS), 0.5)
    u_injury, u_top = 0.6 + 0.35 * rng.random((LEVELS, 2)), 0.3 + 0.5 * rng.random((_TOP, 2))
    first, width = _ranges(rng)
    u_symptoms = [0.1 + 0.5 * rng.random(2 * int(w)) for w in width]

    def roots(scale: float) -> PainParameters:
        p = np.maximum(_ROOT_FLOOR, raw * scale)
        return PainParameters(p[:-1], float(p[-1]), u_injury, u_top, first, width, tuple(u_symptoms))

    def short_of_roots(scale: float) -> float:
        p = roots(scale)
        return float(p.injury.sum() + p.craniocervical) - POSITIVES[0] * (1 - p.all_zero)

    known = roots(float(optimize.brentq(short_of_roots, 0.01, 0.5, xtol=1e-14)))
    kept = 1 - known.all_zero

    def conditions(shift: float) -> PainParameters:
        moved = special.expit(special.logit(u_injury) + shift), special.expit(special.logit(u_top) + shift)
        return PainParameters(known.injury, known.craniocervical, *moved, first, width, tuple(u_symptoms))

    goal = POSITIVES[1] * kept
    shift = optimize.brentq(lambda s: float(conditions(s).radiculopathies().sum()) - goal, -8, 8, xtol=1e-13)
    known = conditions(float(shift))
    leading = [known.leading(j) for j in range(len(first))]  # shifts keep the order of weights

    def symptoms(shift: float) -> list[FloatArray]:
        return [np.asarray(special.expit(special.logit(u) + shift)) for u in u_symptoms]

    def short_of_symptoms(shift: float) -> float:
        moved = symptoms(shift)
        total = sum(
            float(lead @ np.append(np.maximum(w, _FLOOR), _FLOOR)) for lead, w in zip(leading, moved, strict=True)
        )
        return total - POSITIVES[2] * kept

    last = symptoms(float(optimize.brentq(short_of_symptoms, -8, 8, xtol=1e-13)))
    return PainParameters(
        known.injury, known.craniocervical, known.from_injury, known.from_craniocervical, first, width, tuple(last)
    )


@lru_cache(maxsize=4)
def pain(split: Split = "79 | 143", *, seed: int = _SEED) -> StructuralModel:
    """The stand-in for the Pain data; Pain1000 and Pain5000 are 1,000 and 5,000 records of it.

    Parameters
    ----------
    split : where the partial graph X1 (causes) -> X2 (conditions) divides the columns: injuries and radiculopathies
        against symptoms ("79 | 143", the default), or injuries against all else ("27 | 195", a sensitivity check)
    seed : of the parameters

    Returns
    -------
    StructuralModel
        With the full graph, and the partial one under ``partial["causes"]``.

    Examples
    --------
    >>> world = pain()
    >>> len(world.schema), len(world.graph.edges), [len(c) for c in world.partial["causes"].groups.values()]
    (222, 770, [79, 143])
    """
    counts = {"79 | 143": LEVELS + 1 + 2 * LEVELS, "27 | 195": LEVELS + 1}
    if split not in counts:
        raise InputError("split", " or ".join(counts), repr(split), "79 | 143 is the default")
    mechanisms = _mechanisms(seed)
    schema = Schema(tuple(Column(name) for name in mechanisms))
    edges = [(term.parent, name) for name, mechanism in mechanisms.items() for term in mechanism.terms]
    names = schema.names
    groups = {"causes": names[: counts[split]], "conditions": names[counts[split] :]}
    partial = CausalGraph(schema, groups, [("causes", "conditions")])
    return StructuralModel(
        name="pain stand-in",
        graph=CausalGraph(schema, None, edges),
        mechanisms=MappingProxyType(mechanisms),
        partial=MappingProxyType({"causes": partial}),
        redrawn=True,
    )


def _mechanisms(seed: int) -> dict[str, Mechanism]:
    p = parameters(seed)
    found: dict[str, Mechanism] = {}
    for level in range(LEVELS):
        found[f"injury_{level + 1:02d}"] = NoisyMax((), (), float(p.injury[level]))
    found["craniocervical"] = NoisyMax((), (), p.craniocervical)
    for level in range(LEVELS):
        for side, name in enumerate(_SIDES):
            terms, weights = [Term(f"injury_{level + 1:02d}")], [float(p.from_injury[level, side])]
            if level < _TOP:
                terms.append(Term("craniocervical"))
                weights.append(float(p.from_craniocervical[level, side]))
            found[f"radiculopathy_{level + 1:02d}_{name}"] = NoisyMax(tuple(terms), tuple(weights), _FLOOR)
    for j, weights_of in enumerate(p.from_radiculopathy):
        levels = range(int(p.first[j]), int(p.first[j] + p.width[j]))
        parents = tuple(Term(f"radiculopathy_{level + 1:02d}_{side}") for level in levels for side in _SIDES)
        found[f"symptom_{j + 1:03d}"] = NoisyMax(parents, tuple(weights_of.tolist()), _FLOOR)
    return found


def _ranges(rng: np.random.Generator) -> tuple[IndexArray, IndexArray]:
    """First level and number of levels of each symptom; those of one level cover the whole spine."""
    first, width = [], []
    for parents, count in IN_DEGREES.items():
        w = parents // 2
        if w == 1:
            first += [i * LEVELS // count for i in range(count)]
        else:
            first += [int(x) for x in np.floor(rng.random(count) * (LEVELS - w + 1))]
        width += [w] * count
    return np.array(first, dtype=np.intp), np.array(width, dtype=np.intp)
