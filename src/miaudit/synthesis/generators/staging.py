"""A release in two stages: the first is charged and kept, then made-up records decide whether the rest follows.

The first stage is written beside the ledger, then entered, like a release. So a run that is killed between the stages
goes on with the counts that are entered, and charges them once. The seed that set records aside, and that of the
rehearsal, are kept with them: the same command decides the same. A stop is a function of noisy counts alone, so it
costs nothing, and leaves all that the second stage would have spent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from miaudit.errors import InputError, MiauditError
from miaudit.findings.release import SynthesisFindings
from miaudit.synthesis.generators.entered_release import EnteredRelease
from miaudit.synthesis.generators.first_stage import FirstStage, counted
from miaudit.synthesis.generators.foreseen import foreseen
from miaudit.synthesis.generators.release_request import Publication
from miaudit.synthesis.generators.settled_release import SettledRelease
from miaudit.synthesis.generators.synthesis_findings import stopped_findings
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import secret_noise
from miaudit.synthesis.generators.tables_plan import TablesPlan

_SEEDS = 2**62


class ReleaseStopped(MiauditError):
    """A release that ends after the first of two stages; the rest of the budget is left.

    Attributes
    ----------
    findings : what was charged, what was foreseen and what is left
    """

    def __init__(self, findings: SynthesisFindings) -> None:
        super().__init__(findings.text[0])
        self.findings = findings


@dataclass(eq=False)
class Started:
    """Where a release in two stages is kept between them, and what an earlier run left there.

    Attributes
    ----------
    place : beside the ledger; None without a ledger, or in one stage
    content : of an earlier run whose first stage is entered; None where there is none
    seed : of the records set aside, and of the rehearsal
    """

    place: EnteredRelease | None = None
    content: Mapping[str, Any] | None = None
    seed: int = 0

    @classmethod
    def of(cls, publication: Publication) -> Started:
        """Look for the first stage of a release.

        Raises
        ------
        InputError
            If it is entered, and its counts are lost.
        """
        config = publication.config
        if publication.ledger is None or not (isinstance(config, TablesConfig) and config.two_stages):
            return cls()
        place = EnteredRelease.of(publication.ledger.path, publication.ledger.label)
        return cls(place, place.first)

    def split(self, rng: np.random.Generator) -> np.random.Generator:
        """Return the random numbers that set records aside, those of an earlier run if there was one."""
        self.seed = int(rng.integers(_SEEDS)) if self.content is None else int(self.content["seed"])
        return np.random.default_rng(self.seed)

    def go_on(self, settled: SettledRelease) -> SettledRelease:
        """Return a release with the counts that an earlier run left.

        Raises
        ------
        InputError
            If they are of other columns, or were made for another privacy.
        """
        if self.content is None or settled.plan is None:
            return settled
        first = FirstStage.from_mapping(self.content)
        if self.content.get("of") != _digest(settled.plan):
            allowed = "the columns, the privacy and the release of its first stage, which is entered"
            hint = "state them as they were, or choose another label, which is another release"
            raise InputError("ledger.label", allowed, "others", hint)
        first.check([cells.count for cells in settled.plan.cells])
        return replace(settled, first=first)

    def first(self, settled: SettledRelease) -> SettledRelease:
        """Count single columns and enter these counts, unless an earlier run did; return the release with them."""
        plan, publication = settled.plan, settled.publication
        if settled.first is not None or plan is None:
            return settled
        sds = [plan.sd(share) for share in plan.single_shares()]
        first = counted(settled.private, plan.cells, sds, secret_noise(plan))
        if publication.ledger is not None and self.place is not None:
            self.place.write_first({"of": _digest(plan), "seed": self.seed, **first.to_mapping()})
            publication.ledger.spend(plan.first_mechanism, publication.neighbours, first_stage=True)
        return replace(settled, first=first)

    def check_worth(self, settled: SettledRelease, *, file: str, repeat: Mapping[str, Any] | None) -> SettledRelease:
        """Rehearse the release on made-up records, and return it with what that showed.

        Raises
        ------
        ReleaseStopped
            If single columns would be off by more than the publisher accepts.
        """
        plan = settled.plan
        assert plan is not None  # noqa: S101 - by its caller
        outlook = foreseen(plan, rng=np.random.default_rng([self.seed, 1]))
        if outlook.off > plan.config.most_off:
            raise ReleaseStopped(stopped_findings(settled, outlook, file=file, repeat=repeat))
        return replace(settled, recipe=replace(settled.recipe, rehearsed=outlook.text))

    def end(self) -> None:
        """Remove the counts of a first stage, now that the release is entered."""
        if self.place is not None:
            self.place.forget_first()


def _digest(plan: TablesPlan) -> str:
    """Return what a first stage is of: its columns, the privacy, and the share that it takes."""
    assert plan.privacy is not None  # noqa: S101 - a ledger's stages have it
    content = [plan.graph.schema.to_mapping(), asdict(plan.privacy), plan.first_share]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
