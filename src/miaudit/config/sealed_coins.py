"""The section of a configuration file on sealed coins: the drawer's secret with the answer to it, or the reveal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from miaudit.config.section import Keys
from miaudit.errors import InputError
from miaudit.errors.options import Option
from miaudit.io import sealed_coins
from miaudit.io.sealed_coins import Answer, Coins, Secret

Mapped = dict[str, Any]


def _secret_or_reveal(coins: Mapped) -> Mapped:
    if ("secret" in coins) == ("reveal" in coins):
        received = "both" if "secret" in coins else "neither"
        raise ValueError(f"expected secret or reveal, one of them, received {received}; the reveal holds it all")
    if "reveal" in coins and "answer" in coins:
        raise ValueError("expected no answer beside reveal, received one; leave it out: the reveal holds it")
    return coins


COINS = Keys(
    {
        "secret": Annotated[str | None, Option("The drawer's secret, as miaudit coins commit wrote it.")],
        "answer": Annotated[str | None, Option("The other party's answer to its commitment.")],
        "reveal": Annotated[
            str | None,
            Option(
                "Sealed coins as they were revealed (miaudit coins reveal): memberships must be these (one-run).",
                applies=("record order",),
            ),
        ],
    },
    make=_secret_or_reveal,
)


def coins_of(section: Mapped, base: Path, records: str | None = None) -> Coins | None:
    """Read the coins that a section names, with paths relative to ``base``; None where it names none.

    Those of a secret are drawn and not revealed: ``Coins.revealed`` signs.

    Parameters
    ----------
    records : the file of records that the coins are for, where it is known: refused if another one was committed to

    Raises
    ------
    InputError
        For files that are none of these, and coins that do not fit their commitment.
    """
    if "reveal" in section:
        coins = Coins.read(base / section["reveal"])
    elif "secret" in section:
        answer = Answer.read(base / section["answer"]) if "answer" in section else None
        coins = Secret.read(base / section["secret"]).drawn(answer)
    else:
        return None
    listed = coins.commitment.records
    if records is not None and listed is not None and sealed_coins.of_file(base / records) != listed:
        received = f"coins for the list with SHA-256 {listed[:12]}..."
        hint = "the commitment is made before training, with --list and this file"
        raise InputError("coins", f"coins for the records of {records}", received, hint)
    return coins
