"""What the rest of a release in two stages would be like, tried on made-up records before it is paid for.

The records have the single columns that the first stage shows, and dependence that is invented (a Gaussian copula), so
no private record is looked at: the decision to stop is a function of noisy counts. The whole release is made of them
again, the noise of both stages included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.synthesis.fidelity import fidelity
from miaudit.synthesis.generators.noisy_tables import nearest_shares
from miaudit.synthesis.generators.tables_generator import fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.generators.usefulness import columns_off, dependence_kept, shuffled
from miaudit.synthesis.schema import Table

_MOST = 100_000  # records that are made up; of more, so many with as much noise in relation
_JUDGED = 4_000  # records of each table that is compared
_FACTORS, _LOADING = 2, 0.8  # of the invented correlations


@dataclass(frozen=True)
class Foreseen:
    """How a release did on made-up records.

    Attributes
    ----------
    off : distance of single columns above that of two samples, averaged; what a stop rests on
    dependence : share of the invented dependence that was kept, or None; foreseen badly, so nothing rests on it
    records : how many made-up records it was made of: the nominal number, up to 100,000
    """

    off: float
    dependence: float | None
    records: int

    @property
    def text(self) -> str:
        """In a sentence."""
        share = (
            ""
            if self.dependence is None
            else f", and {min(max(self.dependence, 0), 1):.0%} of invented dependence kept"
        )
        return (
            f"made of {self.records:,} records with the single columns of the first stage and invented dependence, "
            f"single columns were off by {max(self.off, 0):.1%}{share}"
        )


def foreseen(plan: TablesPlan, *, rng: np.random.Generator) -> Foreseen:
    """Make a release of made-up records with the single columns of the first stage, and judge it.

    Parameters
    ----------
    plan : of both stages, with the counts of the first
    rng : of records, noise and comparison; it says nothing of private records
    """
    made_up, draw, look = rng.spawn(3)
    blank = _without_first(plan)
    mixing = _LOADING * made_up.standard_normal((_FACTORS, len(plan.cells)))
    private, real = (_records(plan, n, mixing, made_up) for n in (blank.records, _JUDGED))
    synthetic = fit_tables(private, blank, rng=draw, repeatable=True).sample(_JUDGED, rng=draw)
    near = fidelity(synthetic, real, private, rng=look)
    kept = dependence_kept(near, fidelity(shuffled(private, look), real, private, rng=look))
    return Foreseen(columns_off(near), None if kept is None else kept.share, blank.records)


def _without_first(plan: TablesPlan) -> TablesPlan:
    """Return the plan of both stages for made-up records, with the noise that goes with their number."""
    records, privacy = min(plan.records, _MOST), plan.privacy
    if privacy is not None and records < plan.records:
        noise = privacy.relative_noise * records / plan.records
        privacy = replace(privacy, records=records, epsilon=None, noise=noise, delta=privacy.resolved_delta)
    return TablesPlan(plan.graph, plan.config, privacy, records)


def _records(plan: TablesPlan, n: int, mixing: FloatArray, rng: np.random.Generator) -> Table:
    """Draw records (n, d) whose columns follow the noisy counts, and whose dependence is that of normal factors."""
    from scipy.special import ndtr  # noqa: PLC0415 - loads when used

    assert plan.first is not None  # noqa: S101 - by its caller
    factors, scale = rng.standard_normal((n, len(mixing))), np.sqrt(1 + (mixing**2).sum(axis=0))
    values = np.empty((n, len(plan.cells)))
    for column, (cells, counts) in enumerate(zip(plan.cells, plan.first.counts, strict=True)):
        normal = (factors @ mixing[:, column] + rng.standard_normal(n)) / scale[column]
        upto = np.cumsum(nearest_shares(counts))[:-1]
        values[:, column] = cells.decode(np.searchsorted(upto, ndtr(normal), side="right"), rng)
    return Table(plan.graph.schema, values)
