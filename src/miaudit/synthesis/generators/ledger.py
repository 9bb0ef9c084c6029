"""A ledger of the releases of one private table: each release adds to what all of them give away together.

A file beside the private table, in JSON. A release is refused if all releases together would exceed the budget that was
fixed with the first. It is entered once it is made, and before anything of it is shown: a run that fails or is killed
before shows nothing, and costs nothing. The composition holds however the trainings of later releases use earlier ones;
their noise and epochs, though, must be planned and not chosen after a look at what earlier releases showed.

Each entry holds the digest of what precedes it, the first that of table and budget, and the lock beside the ledger
remembers the digest of the last. So a ledger that was edited, cut short, replaced by an older one or deleted is seen.
A copy of both files, or a new pair of files, is not seen.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any, get_args

from miaudit.dp.mechanism import (
    Composed,
    GaussianNoise,
    LaplaceNoise,
    Mechanism,
    PoissonSubsampled,
    Repeated,
    Selection,
    from_mapping,
)
from miaudit.dp.verdict import Claim, UpperBound
from miaudit.errors import InputError, OutputError, one_line
from miaudit.errors.options import check_choice
from miaudit.io import atomic, plain_files
from miaudit.io.tables import require_suffix
from miaudit.metrics.rounding import upper_text
from miaudit.synthesis.generators.generator_config import Neighbours, proved

__all__ = ["Entry", "Ledger", "read", "spend"]

_FORMAT = 1
_USUAL: Neighbours = "add-or-remove"


_WORTHLESS = 0.02  # of a budget: with so little a release would be noise alone
NEW_PROMISE = (
    "a larger budget is a new promise to the people in the table, to be decided as one and written as a new ledger; "
    "what is spent here adds to it"
)


@dataclass(frozen=True)
class Entry:
    """One release, or the first of its two stages.

    Attributes
    ----------
    label : name of the release; both of its stages have it
    entered : when
    mechanism : None without privacy
    neighbours : tables that it does not distinguish
    first_stage : whether it is the first of two stages; the rest, if it follows, is an entry of its own
    """

    label: str
    entered: str
    mechanism: Mechanism | None
    neighbours: Neighbours = _USUAL
    first_stage: bool = False


@dataclass(frozen=True)
class Ledger:
    """All releases of one private table, in order.

    Attributes
    ----------
    table : what the publisher calls the private table; a name, nothing computed from it
    budget : the limit of all releases together, fixed with the first; None without a limit
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
        """Bound the epsilon at ``delta`` of all releases together; None without releases, or if one has no privacy."""
        mechanisms = [entry.mechanism for entry in self.entries if entry.mechanism is not None]
        if not mechanisms or len(mechanisms) < len(self.entries):
            return None
        return proved(_composed(mechanisms), delta)

    def has(self, label: str, *, first_stage: bool = False) -> bool:
        """Whether a release is entered, or the first of its two stages."""
        return any(entry.label == label and entry.first_stage == first_stage for entry in self.entries)

    @property
    def releases(self) -> tuple[str, ...]:
        """What was released, in order: each label once, with a word where it is the first of two stages alone."""
        labels = dict.fromkeys(entry.label for entry in self.entries)
        return tuple(label if self.has(label) else f"{label} (first stage alone)" for label in labels)

    def with_entry(
        self,
        label: str,
        mechanism: Mechanism | None,
        *,
        entered: str = "",
        neighbours: Neighbours = _USUAL,
        first_stage: bool = False,
    ) -> Ledger:
        """Return the ledger with one more release, or with the first of its two stages.

        Raises
        ------
        InputError
            If the label was used, the neighbours differ from those of earlier releases (an epsilon for the one
            does not bound the other), or all releases together would exceed the budget.
        """
        used = next((entry for entry in self.entries if entry.label == label), None)
        if used is not None and (first_stage or self.has(label)):
            when = f", entered {used.entered}" if used.entered else ""
            hint = "choose another label; one label is one table"
            raise InputError("label", "a name of its own for each release", f"{label!r}{when}", hint)
        other = next((e for e in self.entries if e.mechanism is not None and e.neighbours != neighbours), None)
        if other is not None and mechanism is not None:
            allowed = f"{other.neighbours}, as for the other releases of this ledger: epsilons of the two do not add up"
            raise InputError("privacy.neighbours", allowed, neighbours, "ask for the same, or keep another ledger")
        grown = replace(self, entries=(*self.entries, Entry(label, entered, mechanism, neighbours, first_stage)))
        if self.budget is None:
            return grown
        if mechanism is None:
            hint = "ask for privacy, or release without this ledger"
            allowed = f"a release with differential privacy, within a budget of {self.budget}"
            raise InputError("privacy", allowed, "one without", hint)
        together = grown.total(self.budget.delta)
        if together is None or together.value > self.budget.value:
            received = "nothing finite" if together is None else f"{upper_text(together.value, 4)} with this release"
            so_far = f"{upper_text(self.budget.value - (self.left or 0.0), 4)} is spent"
            hint = (
                f"{so_far} and nothing is left: {NEW_PROMISE}" if self.is_spent else f"{so_far}: take a smaller epsilon"
            )
            raise InputError("ledger", f"an epsilon of at most {self.budget.value:g} for all releases", received, hint)
        return grown

    @property
    def left(self) -> float | None:
        """The budget's epsilon less that of all releases together; None without a budget."""
        if self.budget is None:
            return None
        spent = self.total(self.budget.delta)
        return max(0.0, self.budget.value - (0.0 if spent is None else spent.value))

    @property
    def is_spent(self) -> bool:
        """Whether so little of a budget is left that a release within it would be noise alone."""
        return self.budget is not None and (self.left or 0.0) < _WORTHLESS * self.budget.value

    @property
    def digests(self) -> tuple[str, ...]:
        """SHA-256, in hexadecimal, of table and budget, and after each entry of all up to it."""
        return tuple(link["before"] for link in self._chain())

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values, as the file holds them."""
        return {**self._start(), "entries": self._chain()[:-1]}

    def _start(self) -> dict[str, Any]:
        budget = self.budget
        promise = None if budget is None else {"epsilon": float(budget.value), "delta": float(budget.delta)}
        return {"format": _FORMAT, "table": self.table, "budget": promise}

    def _chain(self) -> list[dict[str, Any]]:
        """Return the entries, each with the digest of what is before it, and the link that the next would start with.

        The digests are of what was read, not of how the file is laid out: 6 and 6.0 are one noise.
        """
        links: list[dict[str, Any]] = [{"before": _sha256(self._start())}]
        for entry in self.entries:
            mechanism = None if entry.mechanism is None else described(entry.mechanism)
            own: dict[str, Any] = {"label": entry.label, "entered": entry.entered, "mechanism": mechanism}
            own |= {"first_stage": True} if entry.first_stage else {}
            links[-1] = {**own, "neighbours": entry.neighbours, **links[-1]}
            links.append({"before": _sha256(links[-1])})
        return links


def read(path: str | Path) -> Ledger | None:
    """Read a ledger; None if there is none yet.

    Raises
    ------
    InputError
        If the file is damaged, of another format, or not what its lock remembers: what was spent is then unknown, and
        nothing may be released. Also if it has several names (hard links).
    """
    place = _Place.of(path)
    try:
        with atomic.unchanged(place.lock) as lock:
            return place.read(lock)
    except OSError as error:
        received = f"{place.lock.name} ({error.strerror or error})"
        raise InputError("ledger", "a ledger with a lock that can be read", received, "restore both") from error


def spend(
    path: str | Path,
    *,
    table: str,
    label: str,
    mechanism: Mechanism | None,
    budget: Claim | None = None,
    neighbours: Neighbours = _USUAL,
    first_stage: bool = False,
) -> Ledger:
    """Enter a release before anything of it is shown, and return the ledger with it.

    Parameters
    ----------
    path : the ledger's .json file, made with the first release, or a symbolic link to it; a file beside it with the
        ending .lock keeps two processes from spending the same budget, and remembers what was spent
    table : what the publisher calls the private table
    label : what the release is called
    mechanism : the whole training; None for a release without differential privacy
    budget : (epsilon, delta) that all releases together must keep; fixed with the first release
    neighbours : tables that the release does not distinguish, the same for all releases
    first_stage : whether this is the first of two stages of the release, whose second is entered under the same label

    Raises
    ------
    InputError
        If the ledger is of another table or budget, or the release would exceed the budget; and as :func:`read`.
    OutputError
        If the file cannot be written.
    """
    place = _Place.of(path)
    try:
        place.ledger.parent.mkdir(parents=True, exist_ok=True)
        with atomic.locked(place.lock, wait=True) as lock:
            for left in place.ledger.parent.glob(f".{escape(place.ledger.name)}.*.part"):  # by a killed process
                left.unlink(missing_ok=True)
            ledger = place.read(lock) or Ledger(table, budget, ())
            more = _grown(ledger, table, label, mechanism, budget, neighbours, first_stage)
            # The ledger is written between the two: one that is an entry ahead of its lock comes of a crash, or a full
            # disk, and counts as spent; one that is behind was cut short.
            _remember(lock, ledger)
            write_json(place.ledger, more.to_mapping())
            with contextlib.suppress(OSError):  # it is entered: on a full disk the next release is what remembers it
                _remember(lock, more)
            return more
    except OSError as error:
        raise OutputError(one_line(f"ledger {path}: cannot be written ({error.strerror or error})")) from error


def grown(
    path: str | Path,
    *,
    table: str,
    label: str,
    mechanism: Mechanism | None,
    budget: Claim | None = None,
    neighbours: Neighbours = _USUAL,
    first_stage: bool = False,
) -> Ledger:
    """Return the ledger as :func:`spend` would leave it, without writing; arguments and refusals are the same."""
    ledger = read(path) or Ledger(table, budget, ())
    return _grown(ledger, table, label, mechanism, budget, neighbours, first_stage)


def _grown(
    ledger: Ledger,
    table: str,
    label: str,
    mechanism: Mechanism | None,
    budget: Claim | None,
    neighbours: Neighbours,
    first_stage: bool,
) -> Ledger:
    if budget is not None and budget.parameter != "epsilon":
        raise InputError("budget", "an epsilon and a delta", str(budget), "use Claim.epsilon_delta")
    if ledger.table != table:
        hint = "keep one ledger for each private table"
        raise InputError("ledger", f"the ledger of {table}", f"that of {ledger.table}", hint)
    if budget is not None and ledger.budget != budget:
        hint = "the budget is fixed with the first release"
        if ledger.entries and ledger.budget is not None and budget.value > ledger.budget.value:
            hint = f"{hint}: keep it, or {NEW_PROMISE}"
        raise InputError("budget", str(ledger.budget or "none"), str(budget), hint)
    entered = datetime.now(UTC).isoformat(timespec="seconds")
    return ledger.with_entry(label, mechanism, entered=entered, neighbours=neighbours, first_stage=first_stage)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain values as JSON, whole or not at all."""
    atomic.write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


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
        case GaussianNoise() | LaplaceNoise():
            kind = "gaussian" if isinstance(mechanism, GaussianNoise) else "laplace"
            return {"kind": kind, "noise": float(mechanism.noise)}
        case Selection():
            return {"kind": "selection", "epsilon": float(mechanism.epsilon)}
        case PoissonSubsampled():
            return {"kind": "subsampled", "mechanism": described(mechanism.mechanism), "rate": float(mechanism.rate)}
        case Repeated():
            return {"kind": "repeated", "mechanism": described(mechanism.mechanism), "times": int(mechanism.times)}
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


def _related(value: Any) -> Neighbours:
    check_choice("neighbours", value, get_args(Neighbours))
    neighbours: Neighbours = value
    return neighbours


def _from_mapping(content: Mapping[str, Any]) -> Ledger:
    if content["format"] != _FORMAT:
        raise ValueError(f"format {content['format']!r}")
    budget = content["budget"]
    entries = tuple(
        Entry(
            str(entry["label"]),
            str(entry["entered"]),
            None if entry["mechanism"] is None else from_mapping(entry["mechanism"]),
            _related(entry["neighbours"]),
            entry.get("first_stage") is True,
        )
        for entry in content["entries"]
    )
    claim = None if budget is None else Claim.epsilon_delta(budget["epsilon"], budget["delta"])
    ledger = Ledger(str(content["table"]), claim, entries)
    for entry, before in zip(content["entries"], ledger.digests, strict=False):
        if entry["before"] != before:
            raise ValueError(f"what stands before {str(entry['label'])!r} was changed")
    return ledger


# -- the file, and what its lock remembers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """The file of a ledger, with links followed, and the lock beside it."""

    ledger: Path
    lock: Path

    @classmethod
    def of(cls, path: str | Path) -> _Place:
        real = require_suffix(os.path.realpath(require_suffix(path, "ledger", (".json",))), "ledger", (".json",))
        return cls(real, real.with_suffix(".lock"))

    def read(self, lock: int | None) -> Ledger | None:
        """Read the ledger, None if there is none yet, and refuse one that is not what its lock remembers."""
        remembered = None if lock is None else _remembered(lock, self.lock.name)
        try:
            links = self.ledger.stat().st_nlink
            content = json.loads(plain_files.read_text(self.ledger, "ledger"))
            ledger = _from_mapping(content)
        except FileNotFoundError as error:
            if remembered is None or remembered[0] == 0:
                return None
            hint = "restore it from a copy: what may still be spent is unknown; for another table name another file"
            raise InputError("ledger", self._as_remembered(remembered[0]), f"no {self.ledger.name}", hint) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError) as error:
            hint = "restore it from a copy: without it what was spent is unknown"
            received = f"{self.ledger.name} ({one_line(str(error))[:100]})"
            raise InputError("ledger", f"a ledger of format {_FORMAT}", received, hint) from error
        if links > 1:
            received = f"{self.ledger.name}, which has {links} hard links"
            hint = "delete all names but one: under another the same budget could be spent again"
            raise InputError("ledger", "a file of one name", received, hint)
        self._check(ledger, remembered)
        return ledger

    def _check(self, ledger: Ledger, remembered: tuple[int, str] | None) -> None:
        if remembered is None:
            allowed, received = f"a ledger beside its {self.lock.name}", f"{self.ledger.name} without it"
            hint = "restore both: the lock alone knows whether this is the whole ledger"
            raise InputError("ledger", allowed, received, hint)
        releases, head = remembered
        if len(ledger.entries) - releases not in (0, 1) or ledger.digests[releases] != head:
            many = len(ledger.entries)
            received = f"{self.ledger.name} with {many} that are not those" if many else f"{self.ledger.name} with none"
            hint = "restore it from a copy: it was changed, or is an older one"
            raise InputError("ledger", self._as_remembered(releases), received, hint)

    def _as_remembered(self, releases: int) -> str:
        return f"the {releases} release{'s' * (releases != 1)} that {self.lock.name} remembers"


def _remembered(lock: int, name: str) -> tuple[int, str] | None:
    """Return how many releases the last whole line of a lock counts, and the digest after them; None where it is new.

    A line without an end comes of a crash, and counts for nothing.
    """
    lines = _content(lock).split(b"\n")[:-1]
    if not lines:
        return None
    try:
        line = json.loads(lines[-1])
        releases, head = line["releases"], line["head"]
        if isinstance(releases, bool) or not isinstance(releases, int) or releases < 0 or not isinstance(head, str):
            raise ValueError("other values")
    except (ValueError, KeyError, TypeError) as error:
        hint = "restore both from a copy: without it what was spent is unknown"
        raise InputError("ledger", "a lock that remembers releases", f"{name}, which is damaged", hint) from error
    return releases, head


def _remember(lock: int | None, ledger: Ledger) -> None:
    """Add a line for the last entry of a ledger, unless it is remembered; lines are only ever added."""
    now = (len(ledger.entries), ledger.digests[-1])
    if lock is None or _remembered(lock, "") == now:
        return
    end = _content(lock).rfind(b"\n") + 1
    line = json.dumps({"releases": now[0], "head": now[1]}).encode() + b"\n"
    os.ftruncate(lock, end)
    os.lseek(lock, end, os.SEEK_SET)
    if os.write(lock, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(lock)


def _content(lock: int) -> bytes:
    os.lseek(lock, 0, os.SEEK_SET)
    return os.read(lock, os.fstat(lock).st_size)


def _sha256(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
