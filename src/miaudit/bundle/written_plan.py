"""Plans and states of generators as plain values, and back; only known records are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from miaudit.auditing.headline import Bonferroni as BonferroniHeadline
from miaudit.auditing.headline import Declared, Exploratory, Split
from miaudit.auditing.plan import Bootstrap, Bounds, Calibrated, Plan
from miaudit.auditing.reference import Reference
from miaudit.dp import (
    directed_profile,
    mechanism,
    privacy_profile,
    selection,
    several_runs,
    tradeoff,
    verdict,
    zero_run,
)
from miaudit.errors import InputError

_RECORDS: dict[str, type] = {
    "plan": Plan,
    "bounds": Bounds,
    "reference": Reference,
    "headline-bonferroni": BonferroniHeadline,
    "headline-split": Split,
    "headline-declared": Declared,
    "headline-exploratory": Exploratory,
    "calibrated": Calibrated,
    "bootstrap": Bootstrap,
    "claim": verdict.Claim,
    "guesses-fixed": selection.Fixed,
    "guesses-pilot": selection.Pilot,
    "guesses-bonferroni": selection.Bonferroni,
    "guesses-schedule": selection.Schedule,
    "guesses-hedged": selection.Hedged,
    "guesses-exploratory": selection.Exploratory,
    "runs-anytime": several_runs.Anytime,
    "thinning": zero_run.Thinning,
    "poisson-binomial": zero_run.PoissonBinomial,
    "conditional": zero_run.Conditional,
    "composition": zero_run.Composition,
    "seed-stable": zero_run.SeedStable,
    "standard-errors": zero_run.StandardErrors,
    "scheffe": zero_run.Scheffe,
    "shift-directed": directed_profile.DirectedProfile,
    "shift-profile": privacy_profile.PrivacyProfile,
    "shift-gaussian": tradeoff.Gaussian,
    "shift-epsilon-delta": tradeoff.EpsilonDelta,
    "gaussian-noise": mechanism.GaussianNoise,
    "laplace-noise": mechanism.LaplaceNoise,
    "selection": mechanism.Selection,
    "poisson-subsampled": mechanism.PoissonSubsampled,
    "composed": mechanism.Composed,
    "repeated": mechanism.Repeated,
}
_NAMES = {record: name for name, record in _RECORDS.items()}
_DEEPEST = 40
_LONGEST = 10_000
# What a stranger's plan may ask for: more would keep a machine busy for days.
_MOST_REPLICATES, _MOST_TARGETS, _MOST_STEPS = 100_000, 100, 10_000_000


def encode(value: Any) -> Any:
    """Return a plan, or an option of one, as plain values.

    Raises
    ------
    InputError
        For an option that is a program (a function of the caller's): it cannot be handed on.

    Examples
    --------
    >>> decode(encode(Plan(confidence=0.9))) == Plan(confidence=0.9)
    True
    """
    if is_dataclass(value) and not isinstance(value, type):
        name = _NAMES.get(type(value))
        if name is None:
            raise _unwritable(value)
        return {
            "record": name,
            **{f.name: encode(getattr(value, f.name)) for f in fields(value) if f.init},
        }
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _unwritable(value)


def decode(value: Any, *, depth: int = 0) -> Any:
    """Return the records of plain values; sequences become tuples.

    Raises
    ------
    InputError
        For an unknown record or field, a value that its record refuses, or deep nesting.
    """
    if depth > _DEEPEST:
        raise InputError("plan", f"at most {_DEEPEST} levels", "more", "this plan was not written by miaudit")
    if isinstance(value, list):
        if len(value) > _LONGEST:
            raise InputError("plan", f"lists of at most {_LONGEST:,}", f"{len(value):,}", "write the bundle again")
        return tuple(decode(item, depth=depth + 1) for item in value)
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"array"}:
        return _array(value["array"])
    name = value.get("record")
    record = _RECORDS.get(name) if isinstance(name, str) else None
    if record is None:
        raise InputError("plan", "records that miaudit knows", repr(name)[:60], "use the version that wrote it")
    steps = [item for item in value.values() if isinstance(item, int | float)] if record is mechanism.Repeated else []
    if max(steps, default=0) > _MOST_STEPS:
        raise InputError("plan", f"at most {_MOST_STEPS:,} steps", f"{max(steps):,}"[:40], "ask for a smaller plan")
    known = {f.name for f in fields(record) if f.init}
    unknown = set(value) - known - {"record"}
    if unknown:
        raise InputError("plan", f"fields of {name}", ", ".join(sorted(map(str, unknown)))[:80], "use the same version")
    try:
        return record(**{key: decode(item, depth=depth + 1) for key, item in value.items() if key != "record"})
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, MemoryError) as error:
        raise InputError("plan", f"values that {name} takes", str(error)[:80], "write the bundle again") from error


def _array(value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    numbers = isinstance(value, list) and all(type(x) in (int, float) for x in value)
    if not numbers:
        raise InputError("plan", "an array of numbers", "something else", "write the bundle again")
    return np.array([float(x) for x in value])


def plan_of(value: Any) -> Plan:
    """Return the plan of plain values; refuse anything else."""
    plan = decode(value)
    if not isinstance(plan, Plan):
        raise InputError("plan", "a plan", type(plan).__name__, "write the bundle again")
    fields = (
        ("bootstrap replicates", plan.n_bootstrap, _MOST_REPLICATES),
        ("FPR targets", len(plan.fpr_targets), _MOST_TARGETS),
    )
    for what, count, most in fields:
        if count > most:
            raise InputError("plan", f"at most {most:,} {what}", f"{count:,}", "ask for a bundle of a smaller plan")
    return plan


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as plain values, spawned children included."""
    bits: Any = rng.bit_generator
    seed: Any = bits.seed_seq
    if not isinstance(bits, np.random.PCG64) or not isinstance(seed, np.random.SeedSequence):
        received = f"a generator of {type(bits).__name__}"
        raise InputError("rng", "numpy.random.default_rng(seed)", received, "pass such a generator to make a bundle")
    entropy = seed.entropy
    inside: Any = bits.state
    return {
        "state": {key: int(value) for key, value in inside["state"].items()},
        "has_uint32": int(inside["has_uint32"]),
        "uinteger": int(inside["uinteger"]),
        "entropy": [int(e) for e in entropy] if isinstance(entropy, list | tuple) else entropy,
        "spawn_key": [int(k) for k in seed.spawn_key],
        "pool_size": int(seed.pool_size),
        "children": int(seed.n_children_spawned),
    }


def generator_at(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator in the state of :func:`state_of`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> again = generator_at(state_of(rng))
    >>> float(again.spawn(2)[1].normal()) == float(rng.spawn(2)[1].normal())
    True
    """
    try:
        usual = 4 <= int(state["pool_size"]) <= 64 and len(state["spawn_key"]) <= 64
        if not usual or len(str(state["entropy"])) > 5000:
            raise ValueError("sizes that numpy does not use")
        seed = np.random.SeedSequence(
            state["entropy"],
            spawn_key=tuple(state["spawn_key"]),
            pool_size=state["pool_size"],
            n_children_spawned=state["children"],
        )
        bits: Any = np.random.PCG64(seed)
        bits.state = {
            "bit_generator": "PCG64",
            "state": {key: int(state["state"][key]) for key in ("state", "inc")},
            "has_uint32": int(state["has_uint32"]),
            "uinteger": int(state["uinteger"]),
        }
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InputError("random", "the state of a generator", str(error)[:80], "ask for the bundle again") from error
    return np.random.Generator(bits)


def _unwritable(value: Any) -> InputError:
    return InputError(
        "plan", "options that are data", f"a {type(value).__name__}", "a program cannot be put into a bundle"
    )
