"""A release as it was settled: every choice is made once, before anything is fitted or spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from miaudit.dp.mechanism import GaussianNoise, Mechanism
from miaudit.dp.verdict import Claim, ClaimVerdict, LowerBound, judge
from miaudit.errors import InputError
from miaudit.synthesis.generators import fitting
from miaudit.synthesis.generators import ledger as ledgers
from miaudit.synthesis.generators.first_stage import FirstStage
from miaudit.synthesis.generators.generator import Generator
from miaudit.synthesis.generators.generator_config import GeneratorConfig, proved
from miaudit.synthesis.generators.recipe import Progress, Recipe
from miaudit.synthesis.generators.release_request import Publication
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table

MOST_ASIDE = 2_000
_MOST_NUMBERS = 1_000_000_000  # in a release: 8 GB
_NEARLY_NOTHING = GaussianNoise(1e9)


@dataclass(frozen=True, eq=False)
class SettledRelease:
    """The choices of one release, which travel through its stages: check, fit, spend, judge.

    Attributes
    ----------
    publication : what the publisher asked for
    recipe : method, options and privacy, chosen by public numbers; without privacy by the length of the table too
    private : the records that the release is made of
    aside : the private records that are set aside to judge the release by; none where others judge it
    first : counts of the first of two stages, once it is made and entered; else None
    """

    publication: Publication
    recipe: Recipe
    private: Table
    aside: Table
    first: FirstStage | None = None

    @classmethod
    def of(
        cls,
        table: Table,
        publication: Publication,
        *,
        rehearse: np.random.Generator,
        split: np.random.Generator,
        progress: Progress | None = None,
    ) -> SettledRelease:
        """Choose the recipe, and the records that are set aside.

        A ledger that would not take any release is refused first, since a rehearsal takes a while.

        Parameters
        ----------
        table : the private records
        publication : what the publisher asks for
        rehearse : random numbers of a rehearsal
        split : random numbers that set records aside
        progress : called with (finished, all) recipes of a rehearsal
        """
        privacy = publication.privacy
        if publication.ledger is not None:
            publication.ledger.with_entry(None if privacy is None else _NEARLY_NOTHING, publication.neighbours)
        recipe = fitting.settled(
            table.schema,
            publication.graph,
            privacy,
            method=publication.method,
            config=publication.config,
            records=len(table) if privacy is None else privacy.records,
            rng=rehearse,
            progress=progress,
        )
        return cls(publication, recipe, *set_aside(table, publication, split))

    @property
    def graph(self) -> CausalGraph | None:
        """The graph that the publisher asked for."""
        return self.publication.graph

    @property
    def records(self) -> int:
        """How many records are released, a public number."""
        privacy = self.publication.privacy
        return self.publication.records or (len(self.private) if privacy is None else privacy.records)

    @cached_property
    def plan(self) -> TablesPlan | None:
        """What noisy tables measure with which share of the budget; None for a network."""
        plan = self.recipe.plan(self.private.schema, self.graph, len(self.private))
        return plan if plan is None or self.first is None else replace(plan, first=self.first)

    @property
    def in_stages(self) -> bool:
        """Whether a first stage is entered by itself, and the rest may not follow."""
        return (
            self.plan is not None and self.plan.first_mechanism is not None and self.plan.second_mechanism is not None
        )

    @property
    def to_enter(self) -> Mechanism | None:
        """What is not entered in the ledger yet, as an accountant sees it; None without privacy."""
        return self.mechanism if self.first is None or self.plan is None else self.plan.second_mechanism

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The whole of the making as an accountant sees it; None without privacy."""
        return None if self.recipe.privacy is None else self.recipe.mechanism(self.plan)

    @property
    def stopping_records(self) -> Table | None:
        """The public records that decide when training stops, if any do."""
        stops = isinstance(self.recipe.config, GeneratorConfig) and self.recipe.config.patience is not None
        return self.publication.public if stops else None

    def check(self) -> ledgers.Ledger | None:
        """Refuse what the later stages would refuse, before anything is made, entered or written.

        Returns the ledger as it would be after the release; None without a ledger.

        Raises
        ------
        InputError
            As :func:`miaudit.synthesis.fit`, and if the ledger's budget forbids the release.
        """
        mechanism = self.to_enter  # public numbers first
        width = len(self.private.schema)
        if self.records * width > _MOST_NUMBERS:
            received = f"{self.records * width:.3g}, {width} for each record"
            hint = "state fewer records: release.records, or privacy.records where that is left out"
            raise InputError("release.records", f"at most {_MOST_NUMBERS:.0e} numbers in the release", received, hint)
        if not len(self.private):
            raise InputError("table", "records to make a release of", "none", "check that the file is the right one")
        if self.plan is None:  # a plan of tables is checked as it is made
            self.recipe.check(self.private, self.graph, public=self.stopping_records)
        self._check_real()
        ledger = self.publication.ledger
        return None if ledger is None else ledger.with_entry(mechanism, self.publication.neighbours)

    def _check_real(self) -> None:
        """Refuse too few records for fidelity, and records of another schema."""
        fidelity = self.publication.fidelity
        if fidelity not in ("public", "private"):
            return
        real = self.private if fidelity == "private" else self.publication.public
        assert real is not None  # noqa: S101 - by its check
        if len(real) < 2:
            hint = "bring more, or set fidelity: none"
            raise InputError("fidelity", "at least two real records", f"{len(real)}", hint)
        if real.schema != self.private.schema:
            received = "another schema"
            raise InputError("public", "records under the schema of the table", received, "read it with that")

    def fit(self, *, rng: np.random.Generator, progress: Progress | None = None) -> Generator:
        """Make the generator of the private records."""
        public = self.stopping_records
        return self.recipe.fit_many(
            [self.private], self.graph, rng=rng, plan=self.plan, public=public, progress=progress
        )[0]

    def judged(self, lower: LowerBound | None, *, reasons: Sequence[str] = ()) -> ClaimVerdict | None:
        """Judge the claim that this release would make against the lower bound of an attack; None without privacy.

        Parameters
        ----------
        lower : of epsilon at the delta of the release, from generators made alike
        reasons : why there is no lower bound, in sentences
        """
        privacy = self.recipe.privacy
        if privacy is None or self.mechanism is None:
            return None
        upper = proved(self.mechanism, privacy.resolved_delta, privacy.neighbours)
        return judge(Claim.epsilon_delta(upper.value, upper.delta), lower, upper=upper, reasons=reasons)

    def spend(self) -> ledgers.Ledger | None:
        """Enter the release in its ledger, before anything of it is shown; None without a ledger."""
        ledger = self.publication.ledger
        return None if ledger is None else ledger.spend(self.to_enter, self.publication.neighbours)


def set_aside(table: Table, publication: Publication, rng: np.random.Generator) -> tuple[Table, Table]:
    """Return the records that the release is made of, and those that are set aside to judge it by.

    With privacy each record is set aside by a coin of its own, whose chance is public. If the length of the table fixed
    their number, one more record could put another one aside, and the release would see two records change.
    """
    if publication.fidelity == "held-out" and publication.privacy is not None:
        chance = min(publication.held_out, MOST_ASIDE / publication.privacy.records)
        aside = rng.random(len(table)) < chance
        return table.subset(np.flatnonzero(~aside)), table.subset(np.flatnonzero(aside))
    count = 0
    if publication.fidelity == "held-out":
        count = min(round(publication.held_out * len(table)), MOST_ASIDE)
    order = rng.permutation(len(table))
    return table.subset(np.sort(order[count:])), table.subset(np.sort(order[:count]))
