"""What a publisher asks of a release: everything about it but the private table, and all of it public."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from miaudit.dp.mechanism import Mechanism
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.synthesis.generators import ledger as ledgers
from miaudit.synthesis.generators.generator import Method
from miaudit.synthesis.generators.generator_config import Neighbours, Privacy
from miaudit.synthesis.generators.recipe import Config
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table


@dataclass(frozen=True)
class LedgerPlan:
    """Where releases of a private table are entered: the file, the table's name, this release's label, the budget."""

    path: Path
    table: str
    label: str
    budget: Claim | None = None

    def read(self) -> ledgers.Ledger | None:
        """Return the ledger as it is; None before the first release."""
        return ledgers.read(self.path)

    def with_entry(
        self, mechanism: Mechanism | None, neighbours: Neighbours, *, first_stage: bool = False
    ) -> ledgers.Ledger:
        """Return the ledger as it would be with the release, without writing; refuse what it does not allow."""
        return ledgers.grown(
            self.path,
            table=self.table,
            label=self.label,
            mechanism=mechanism,
            budget=self.budget,
            neighbours=neighbours,
            first_stage=first_stage,
        )

    def spend(
        self, mechanism: Mechanism | None, neighbours: Neighbours, *, first_stage: bool = False
    ) -> ledgers.Ledger:
        """Enter the release, or the first of its two stages, and return the ledger with it."""
        return ledgers.spend(
            self.path,
            table=self.table,
            label=self.label,
            mechanism=mechanism,
            budget=self.budget,
            neighbours=neighbours,
            first_stage=first_stage,
        )


@dataclass(frozen=True, eq=False)
class Publication:
    """Everything about a release but the private table; all of it public.

    Attributes
    ----------
    graph : the causal graph; None for a plain generator
    method : "tables", "vae", or None: the method that the config belongs to, and without a config the better one in a
        rehearsal
    config : options of the method; None for the defaults of tables, and for networks the choice of a rehearsal
    privacy : None promises nothing
    records : how many records are released; None is the nominal number, or without privacy the length of the table
    public : records of the same schema that are not private: the table is compared with them, and with a patience they
        decide when training stops
    ledger : where the release is entered; None for nowhere
    fidelity : what the table is compared with: "held-out", private records that are set aside and that the table is not
        made of; "public" records; the "private" records that it is made of, without a verdict; or "none". No noise
        covers what private records say, so it is for the publisher alone
    held_out : the share of the private records that are set aside for that
    source : what the private table is called
    """

    graph: CausalGraph | None
    method: Method | None = None
    config: Config | None = None
    privacy: Privacy | None = None
    records: int | None = None
    public: Table | None = None
    ledger: LedgerPlan | None = None
    fidelity: Literal["held-out", "public", "private", "none"] = "held-out"
    held_out: Annotated[float, Option("Share of the private records set aside.", gt=0, lt=1)] = 0.2
    source: str = ""

    def __post_init__(self) -> None:
        check_options(self)
        if self.fidelity not in ("held-out", "public", "private", "none"):
            allowed = "'held-out', 'public', 'private' or 'none'"
            raise InputError("fidelity", allowed, repr(self.fidelity), "held-out is the default")
        if self.fidelity == "public" and self.public is None:
            raise InputError("fidelity", "public records beside it", "none", "name their file under public")

    @property
    def neighbours(self) -> Neighbours:
        """The tables that the release does not distinguish; without privacy the usual ones."""
        return "add-or-remove" if self.privacy is None else self.privacy.neighbours
