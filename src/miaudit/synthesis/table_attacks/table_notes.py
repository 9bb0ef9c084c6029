"""Notes on an audit of a table: columns that hide copies, units, and attacks that show little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from miaudit.arrays import IntArray
from miaudit.findings.table import Attack
from miaudit.metrics.rounding import percent
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Table
from miaudit.synthesis.table_attacks.copies import unmatched
from miaudit.synthesis.table_attacks.inference import MOST_SECRETS

_GIANT = 0.1  # share of a class in one unit, above which a note says so


def unit_notes(units: Units | None) -> list[str]:
    """Return what a reader must know where several records belong to one unit; nothing where none do."""
    if units is None:
        return []
    sentences = [
        f"Intervals count {units.members:,} units of members and {units.nonmembers:,} of control records: records of "
        "one unit may depend on each other."
    ]
    if units.spanning:
        sentences.append(
            f"{units.spanning:,} units hold members and control records; that their success may be opposed is part of "
            "the intervals. If the two files number their units on their own, make the labels differ."
        )
    if units.largest_share > _GIANT:
        sentences.append(f"One unit holds {percent(units.largest_share)} of a class, which costs much of it.")
    return sentences


def key_notes(keys: Sequence[str], shared: Mapping[str, tuple[int, int]], records: int) -> list[str]:
    """Return which columns were left out as keys, how many of the real records have their key in the table.

    Row numbers, which all of them share with the table, are not counted.
    """
    if not keys:
        return []
    verb = "looks like an identifier and was" if len(keys) == 1 else "look like identifiers and were"
    sentences = [
        f"{', '.join(keys)} {verb} left out of copies and of every attack, because such values number the "
        "records. To keep a column, name it with --keep (keep in a configuration or a TablePlan)."
    ]
    sentences += [
        f"The table holds the {name} of {inside:,} members and of {outside:,} control records."
        for name, (inside, outside) in shared.items()
        if inside + outside < records and inside + outside
    ]
    return sentences


def attack_notes(
    attacks: Sequence[Attack],
    attacked: tuple[IntArray, IntArray],
    members: Table,
    others: Table,
) -> list[str]:
    """Return what a reader must know of the columns and the attacks, and on how many records these ran."""
    sentences = []
    strange = unmatched(members, others)
    if strange:
        shares = ", ".join(f"{name} ({percent(share)})" for name, share in strange.items())
        sentences.append(
            f"Most real records have a text that no synthetic record has, in these columns: {shares}. No copy can be "
            "seen there, so copies are counted without these columns. If the three files write "
            "the texts differently, write them alike and audit again."
        )
    idle = [part.name for part in attacks if part.difference is None]
    if idle:
        sentences.append(f"The table suggests no predicate to {', '.join(idle)}, which therefore had nothing to try.")
    if len(members.schema) > MOST_SECRETS:
        sentences.append(
            f"Of {len(members.schema)} columns, {MOST_SECRETS} are guessed: the secrets, and others at random."
        )
    above = [part.name for part in attacks if part.status != "flagged" and part.above_chance]
    if above:
        sentences.append(f"Above chance, without deciding the verdict: {', '.join(above)}.")
    weak = [part.name for part in attacks if part.weak]
    if weak:
        sentences.append(
            f"No better than a guess that looks at no record: {', '.join(weak)}. That they find no difference is no "
            "reassurance."
        )
    for name, rows, table in (("members", attacked[0], members), ("control records", attacked[1], others)):
        if len(rows) < len(table):
            sentences.append(f"Of {len(table):,} {name}, {len(rows):,} drawn at random were attacked by distances.")
    return sentences
