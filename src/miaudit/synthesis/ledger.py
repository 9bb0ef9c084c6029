"""A ledger of what was released of one private table: each release adds to what all of them give away together.

A file beside the private table, in JSON. A release is entered before its training looks at the table, so that a killed
run stays paid for, and is refused if all releases together would exceed the budget that was fixed with the first. The
composition holds however the trainings of later releases use earlier ones; their noise and epochs, though, must be
planned and not chosen after a look at what earlier releases showed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from miaudit.dp.bounds import UpperBound
from miaudit.dp.mechanism import (
    Composed,
    GaussianNoise,
    LaplaceNoise,
    Mechanism,
    PoissonSubsampled,
    Repeated,
    from_mapping,
)
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError, OutputError, one_line
from miaudit.synthesis.generator_config import proved
from miaudit.tables import require_suffix, write_atomically
from miaudit.wording import at_most

_FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """One release: a name, when it was entered, and its mechanism; None for one without differential privacy."""

    label: str
    entered: str
    mechanism: Mechanism | None


@dataclass(frozen=True)
class Ledger:
    """All releases of one private table, in order.

    Attributes
    ----------
    table : what the publisher calls the private table; a name, nothing computed from it
    budget : what all releases together must keep, fixed with the first; None for none
    entries : the releases

    Examples
    --------
    >>> from miaudit.dp.mechanism import GaussianNoise
    >>> twice = (Entry("a", "", GaussianNoise(10.0)), Entry("b", "", GaussianNoise(10.0)))
    >>> print(f"{Ledger('patients', None, twice).total(1e-5).value:.3f}")
    0.497
    """

    table: str
    budget: Claim | None
    entries: tuple[Entry, ...]

    def total(self, delta: float) -> UpperBound | None:
        """Bound the epsilon at ``delta`` of all releases together; None if one has no privacy, or there is none."""
        mechanisms = [entry.mechanism for entry in self.entries if entry.mechanism is not None]
        if not mechanisms or len(mechanisms) < len(self.entries):
            return None
        return proved(_composed(mechanisms), delta)

    def with_entry(self, label: str, mechanism: Mechanism | None, *, entered: str = "") -> Ledger:
        """Return the ledger with one more release.

        Raises
        ------
        InputError
            If the label was used, or all releases together would exceed the budget.
        """
        if any(entry.label == label for entry in self.entries):
            raise InputError("label", "a name of its own for each release", repr(label), "choose another")
        grown = replace(self, entries=(*self.entries, Entry(label, entered, mechanism)))
        if self.budget is None:
            return grown
        if mechanism is None:
            hint = "ask for privacy, or release without this ledger"
            allowed = f"a release with differential privacy, within a budget of {self.budget}"
            raise InputError("privacy", allowed, "one without", hint)
        together = grown.total(self.budget.delta)
        if together is None or together.value > self.budget.value:
            received = "nothing finite" if together is None else f"{at_most(together.value, 4)} with this release"
            spent = self.total(self.budget.delta)
            so_far = at_most(0.0 if spent is None else spent.value, 4)
            hint = f"{so_far} is spent: take a smaller epsilon or fewer epochs"
            raise InputError("ledger", f"an epsilon of at most {self.budget.value:g} for all releases", received, hint)
        return grown

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values, as the file holds them."""
        return {
            "format": _FORMAT,
            "table": self.table,
            "budget": None if self.budget is None else {"epsilon": self.budget.value, "delta": self.budget.delta},
            "entries": [
                {
                    "label": entry.label,
                    "entered": entry.entered,
                    "mechanism": None if entry.mechanism is None else described(entry.mechanism),
                }
                for entry in self.entries
            ],
        }


def read(path: str | Path) -> Ledger | None:
    """Read a ledger; None if there is none yet.

    Raises
    ------
    InputError
        If the file is damaged or of another format: what was spent is then unknown, and nothing may be released.
    """
    path = require_suffix(path, "ledger", (".json",))
    if not path.exists():
        return None
    try:
        return _from_mapping(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        hint = "restore it from a copy: without it nobody knows what was spent"
        received = f"{path.name} ({one_line(str(error))[:100]})"
        raise InputError("ledger", f"a ledger of format {_FORMAT}", received, hint) from error


def spend(
    path: str | Path, *, table: str, label: str, mechanism: Mechanism | None, budget: Claim | None = None
) -> Ledger:
    """Enter a release before its training starts, and return the ledger with it.

    Parameters
    ----------
    path : the ledger's .json file, made with the first release; a file beside it with the ending .lock keeps two
        processes from spending the same budget
    table : what the publisher calls the private table
    label : what the release is called
    mechanism : the whole training; None for a release without differential privacy
    budget : (epsilon, delta) that all releases together must keep; fixed with the first release

    Raises
    ------
    InputError
        If the ledger is of another table or budget, or the release would exceed the budget.
    OutputError
        If the file cannot be written.
    """
    path = require_suffix(path, "ledger", (".json",))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            ledger = grown(path, table=table, label=label, mechanism=mechanism, budget=budget)
            write_json(path, ledger.to_mapping())
            return ledger
    except OSError as error:
        raise OutputError(one_line(f"ledger {path}: cannot be written ({error.strerror or error})")) from error


def grown(
    path: str | Path, *, table: str, label: str, mechanism: Mechanism | None, budget: Claim | None = None
) -> Ledger:
    """Return the ledger as :func:`spend` would leave it, without writing; arguments and refusals are the same."""
    if budget is not None and budget.parameter != "epsilon":
        raise InputError("budget", "an epsilon and a delta", str(budget), "use Claim.epsilon_delta")
    ledger = read(path) or Ledger(table, budget, ())
    if ledger.table != table:
        hint = "keep one ledger for each private table"
        raise InputError("ledger", f"the ledger of {table}", f"that of {ledger.table}", hint)
    if budget is not None and ledger.budget != budget:
        hint = "the budget is fixed with the first release"
        raise InputError("budget", str(ledger.budget or "none"), str(budget), hint)
    return ledger.with_entry(label, mechanism, entered=datetime.now(UTC).isoformat(timespec="seconds"))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain values as JSON, whole or not at all."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def write(target: Path) -> None:
        target.write_text(text, encoding="utf-8")

    write_atomically(path, write)


def described(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism as :func:`miaudit.dp.mechanism.from_mapping` reads it.

    Examples
    --------
    >>> from miaudit.dp.mechanism import dp_sgd
    >>> described(dp_sgd(records=100, batch=10, noise=2.0, steps=30))
    {'kind': 'repeated', 'mechanism': {'kind': 'subsampled', 'mechanism': {'kind': 'gaussian', 'noise': 2.0},
    'rate': 0.1}, 'times': 30}
    """
    match mechanism:
        case GaussianNoise():
            return {"kind": "gaussian", "noise": mechanism.noise}
        case LaplaceNoise():
            return {"kind": "laplace", "noise": mechanism.noise}
        case PoissonSubsampled():
            return {"kind": "subsampled", "mechanism": described(mechanism.mechanism), "rate": mechanism.rate}
        case Repeated():
            return {"kind": "repeated", "mechanism": described(mechanism.mechanism), "times": mechanism.times}
        case Composed():
            return {"kind": "composed", "parts": [described(part) for part in mechanism.parts]}


def _composed(mechanisms: list[Mechanism]) -> Mechanism:
    """Compose mechanisms, equal ones as one repeated, which accountants handle faster."""
    counts: dict[Mechanism, int] = {}
    for mechanism in mechanisms:
        inner, times = (mechanism.mechanism, mechanism.times) if isinstance(mechanism, Repeated) else (mechanism, 1)
        counts[inner] = counts.get(inner, 0) + times
    parts: list[Mechanism] = [inner if times == 1 else Repeated(inner, times) for inner, times in counts.items()]
    return parts[0] if len(parts) == 1 else Composed(tuple(parts))


def _from_mapping(given: Mapping[str, Any]) -> Ledger:
    if given["format"] != _FORMAT:
        raise ValueError(f"format {given['format']!r}")
    budget = given["budget"]
    entries = tuple(
        Entry(
            str(entry["label"]),
            str(entry["entered"]),
            None if entry["mechanism"] is None else from_mapping(entry["mechanism"]),
        )
        for entry in given["entries"]
    )
    claim = None if budget is None else Claim.epsilon_delta(budget["epsilon"], budget["delta"])
    return Ledger(str(given["table"]), claim, entries)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process spends from this ledger."""
    with path.with_suffix(".lock").open("a") as handle:
        try:
            import fcntl  # noqa: PLC0415 - not on every system

            fcntl.flock(handle, fcntl.LOCK_EX)
        except ImportError:  # pragma: no cover - then a person must not run two releases at once
            pass
        yield
