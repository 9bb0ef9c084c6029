"""The audits of one model in a folder, ordered by date, under one budget of false alarms for all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from miaudit.auditing.paired_records import Audited, correlations, repeated_members
from miaudit.bundle.reading import read as read_bundle
from miaudit.errors import InputError, one_line
from miaudit.errors.options import check_choice
from miaudit.findings import comparison, kind
from miaudit.findings.about import About
from miaudit.findings.audit import Findings
from miaudit.findings.budget import Budget, Memberships
from miaudit.metrics.alarm_budget import check_budget

__all__ = ["history", "names", "read_audit"]

_FINDINGS, _KEYS, _BUNDLE = "findings.json", ".key.json", ".zip"
_RANDOM = ("one-run", "multi-run")
_ANYWAY = "The rule for shared members is used, which holds however the releases depend on each other."


def history(
    *places: str | Path,
    budget: float,
    memberships: Memberships | None = None,
    repeat: Mapping[str, Any] | None = None,
) -> comparison.History:
    """Order the audits of one model by their dates, and judge all of them with one budget of false alarms.

    Parameters
    ----------
    places : folders of audits, and single audits
        In a folder each results folder, each bundle (.zip) and each findings file (.json) is an audit. Hidden files and
        links are left out, and so are findings of other kinds. An audit that is there twice, say as a results folder
        and as a bundle, counts once. A bundle states no date, so the findings file of its audit has to be there too.
    budget : probability of one or more false alarms over the whole life of the model, in (0, 0.5]
    memberships : "fresh" where every release has new random memberships, "shared" where it has not
        Default: what the audits show. Sealed coins with an answer, new ones at every release, show fresh memberships.
        Everything else counts as shared, which is valid in any case.
    repeat : how to repeat the history

    Raises
    ------
    InputError
        If there is no audit, one cannot be read or states no date, the audits are of several models, or memberships are
        declared as fresh and the audits show otherwise.

    Examples
    --------
    >>> import tempfile, numpy as np, miaudit as ma
    >>> from dataclasses import replace
    >>> from miaudit.findings.about import About
    >>> rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
    >>> for release in (1, 2, 3):
    ...     member = rng.random(1000) < 0.5
    ...     evidence = ma.Evidence(score=rng.normal(size=1000), member=member, design="one-run")
    ...     findings = ma.audit(evidence, plan=ma.Plan(limits={"auc": 0.6}, bounds=None), rng=rng)
    ...     dated = replace(findings, about=About(model="triage", date=f"2026-0{release}-01"))
    ...     _ = (folder / f"v{release}.json").write_text(dated.to_json())
    >>> life = history(folder, budget=0.05, memberships="fresh")
    >>> life.exit_code, [audit.name for audit in life.audits], round(life.budget.releases[-1].left, 3)
    (0, ['v1', 'v2', 'v3'], 0.011)
    """
    check_budget(budget)
    if memberships is not None:
        check_choice("memberships", memberships, ("fresh", "shared"))
    files, others = _ordered([Path(place) for place in places])
    audits: list[tuple[str, Findings]] = []
    shared: list[comparison.SharedRecords | None] = []
    same: list[str] = []
    before: Audited | None = None
    for name, one in zip(names([one.path for one in files]), files, strict=True):
        after = one.read(name)  # no more than two hold their records at a time
        if before is not None:
            shared.append(correlations(before, after))
            same += _same_members(before, after)
        audits.append((name, after.findings))
        before = after
    spending = Budget.of(audits, budget, *_decided(audits, memberships, same), others)
    return comparison.history(audits, shared=shared, repeat=repeat, budget=spending)


def read_audit(path: Path, name: str) -> Audited:
    """Read an audit from a results folder, a findings.json or a bundle; the records of a bundle that shares all too.

    Raises
    ------
    InputError
        If it cannot be read, does not fit its manifest, or is not an audit.
    """
    if path.suffix.lower() == _BUNDLE:
        bundle = read_bundle(path)
        if bundle.tampered:
            received = bundle.tampered[0].rstrip(".")
            raise InputError("bundle", "one that fits its manifest", received, "run miaudit verify on it")
        return Audited(name, bundle.findings, bundle.evidence() if bundle.share == "all" else None)
    content = kind.parse(path / _FINDINGS if path.is_dir() else path)
    if content.get("kind", "audit") != "audit":
        received = f"{content['kind']!r}"[:40]
        raise InputError("findings", "findings of an audit", received, "name a folder that miaudit audit wrote")
    return Audited(name, Findings.from_dict(content))


def names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell them apart."""
    parts = [path.resolve().with_suffix("").parts if path.suffix else path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(part[-length:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return [f"{i + 1}: {path}" for i, path in enumerate(paths)]


# -- which audits there are, and their order ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Files:
    """Where an audit is: its dated findings, and the bundle with its records if there is one."""

    path: Path
    bundle: Path | None = None

    def read(self, name: str) -> Audited:
        """Return the dated findings, with the records of the bundle."""
        dated = read_audit(self.path, name)
        if self.bundle is None or self.bundle == self.path:
            return dated
        return Audited(name, dated.findings, read_audit(self.bundle, name).evidence)


def _ordered(places: Sequence[Path]) -> tuple[list[_Files], tuple[str, ...]]:
    """Return where each audit is, oldest first, and what was left out, in sentences."""
    copies: dict[str, list[tuple[Path, Findings]]] = {}
    others: list[str] = []
    for path in _entries(places):
        try:
            other = _other_kind(path)
            findings = None if other else read_audit(path, path.name).findings
        except InputError as error:
            hint = "mend this file or take it out of the history"
            raise InputError("history", "audits that can be read", one_line(f"{path}: {error}"), hint) from error
        if findings is None:
            others.append(f"Not counted: {path.name}, which holds findings of kind {other}.")
        else:
            copies.setdefault(_content(findings), []).append((path, findings))
    if not copies:
        received = ", ".join(map(str, places)) or "no folder"
        raise InputError("history", "a folder with audits", f"{received}, without one", "name the folder of audits")
    dated = [_dated(audit) for audit in copies.values()]
    _check_model({about.model or "": one.path.name for _, about, one in reversed(dated)})
    return [one for _, _, one in sorted(dated, key=lambda row: (row[0], row[2].path.name))], tuple(others)


def _dated(copies: Sequence[tuple[Path, Findings]]) -> tuple[str, About, _Files]:
    """Return the date of an audit, what its findings state, and its files: one copy at least has to state the date."""
    path, findings = max(copies, key=lambda copy: bool(copy[1].about and copy[1].about.date))
    bundle = next((path for path, _ in copies if path.suffix.lower() == _BUNDLE), None)
    return _date(findings, path), findings.about or About(), _Files(path, bundle)


def _check_model(models: Mapping[str, str]) -> None:
    """Refuse audits of several models; ``models`` are an audit for each."""
    if len(models) > 1:
        received = " and ".join(f"{model or 'no model'} in {name}" for model, name in list(models.items())[:2])
        raise InputError("history", "audits of one model", one_line(received), "make a folder for each about.model")


def _entries(places: Sequence[Path]) -> Iterator[Path]:
    """Yield what may be an audit: the places themselves, or what stands in them."""
    for place in places:
        if not place.is_dir() or (place / _FINDINGS).is_file():
            yield place
            continue
        for path in sorted(place.iterdir()):
            if path.name.startswith(".") or path.is_symlink():
                continue
            file = path.suffix.lower() in (".json", _BUNDLE) and not path.name.endswith(_KEYS)
            if (path / _FINDINGS).is_file() if path.is_dir() else file:
                yield path


def _other_kind(path: Path) -> str:
    """Return the kind of findings that are not of an audit, else nothing."""
    if path.suffix.lower() == _BUNDLE:
        return ""
    name = kind.parse(path / _FINDINGS if path.is_dir() else path).get("kind", "audit")
    if not isinstance(name, str):
        raise InputError("kind", "a name", repr(name)[:40], "take the file as miaudit wrote it")
    return "" if name == "audit" else name[:40]


def _content(findings: Findings) -> str:
    """Return a text that all copies of one audit have in common; the bundle of an audit does not state its date."""
    return json.dumps({key: value for key, value in findings.to_dict().items() if key not in ("about", "repeat")})


def _date(findings: Findings, path: Path) -> str:
    stated = (findings.about.date if findings.about else None) or ""
    try:
        if len(stated) > 10:
            datetime.fromisoformat(stated)
        return date.fromisoformat(stated[:10]).isoformat() + stated[10:]
    except ValueError:
        received = one_line(f"{stated[:40]!r} in {path.name}" if stated else f"none in {path.name}")
        hint = (
            "state about: {date: 2026-03-01} in the audit's configuration; a bundle needs its findings file beside it"
        )
        raise InputError("date", "a date YYYY-MM-DD in every audit", received, hint) from None


# -- fresh or shared memberships ---------------------------------------------------------------------------------------


def _same_members(before: Audited, after: Audited) -> list[str]:
    """Say that two releases share members, where their records show it."""
    seen = repeated_members(before, after)
    if seen is None or not seen.repeated:
        return []
    return [
        f"{before.name} and {after.name} have {seen.both:,} records in common, and {seen.same:,} of these have the "
        "same membership in both."
    ]


def _decided(
    audits: Sequence[tuple[str, Findings]], declared: Memberships | None, same: Sequence[str]
) -> tuple[Memberships, str]:
    """Return whether memberships are fresh, and why."""
    against = next(iter([*_not_fresh(audits), *same]), "")
    if declared == "fresh" and against:
        hint = "declare them as shared, or leave the declaration out"
        raise InputError("memberships", "fresh ones at every release", one_line(against).rstrip("."), hint)
    if declared is not None:
        return declared, "Declared by the person who made this history; the audits do not contradict it."
    if against:
        return "shared", f"{against} {_ANYWAY}"
    coins = [findings.sealed_coins for _, findings in audits]
    if len(coins) > 1 and all(one is not None and one.answer is not None for one in coins):
        return "fresh", "Seen: each release has sealed coins of its own, which two parties drew together."
    return "shared", f"Nothing shows new random memberships at every release. {_ANYWAY}"


def _not_fresh(audits: Sequence[tuple[str, Findings]]) -> Iterator[str]:
    """Yield why memberships cannot be new random ones at every release."""
    for name, findings in audits:
        if findings.design not in _RANDOM:
            design = findings.design or "that was not declared"
            yield f"{name} has the design {design}: members were not chosen at random."
    for what, key in (("evidence", _evidence), ("sealed coins", _coins)):
        seen: dict[str, str] = {}
        for name, findings in audits:
            first = seen.setdefault(key(findings) or f"none in {name}", name)
            if first != name:
                yield f"{first} and {name} have the same {what}."


def _evidence(findings: Findings) -> str:
    return str(findings.evidence["digest"])


def _coins(findings: Findings) -> str:
    return "" if findings.sealed_coins is None else findings.sealed_coins.commitment
