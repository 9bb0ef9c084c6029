"""Stability of the training of a campaign: equal to a direct measurement, zero and large where it must be, refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from miaudit import audit
from miaudit.attacks import signals
from miaudit.auditing.plan import Plan
from miaudit.collect import run_campaign, stability
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.outputs import Collected
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.models import shadow
from miaudit.models.targets import Precomputed, SklearnTarget

FOREST = SklearnTarget(RandomForestClassifier(3, max_depth=3))  # its trees draw rows by their places
SMOOTH = SklearnTarget(LogisticRegression())
HALF = np.arange(200) % 2 == 0


def noise(n: int = 200, member: Any = None, **fields: Any) -> Records:
    rng = np.random.default_rng(3)
    return Records(rng.normal(size=(n, 5)), rng.integers(0, 2, n), member, fields, "noise")


def collected(made: Campaign, **options: Any) -> Collected:
    return run_campaign.collect(made, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("target", [FOREST, SMOOTH])
@pytest.mark.parametrize(
    ("data", "options", "score"),
    [
        (noise(), {}, "loss"),
        (noise(), {"attacks": ("margin", "loss"), "shadows": Shadows(population=40)}, "margin"),
        (noise(), {"attacks": ("gaussian_lira",), "shadows": Shadows(models=2)}, "loss"),
        (noise(member=HALF), {"design": "zero-run"}, "loss"),
    ],
)
def test_it_is_that_of_a_direct_measurement(target: Any, data: Records, options: Any, score: str) -> None:
    """The slow way: one model after another with the rows in their places, and the scores by hand."""
    made = Campaign(target, data, stability=6, **options)
    found = collected(made)
    drawn = Draws.of(made, np.random.default_rng(0))
    _, _, seeds, _ = np.random.default_rng(0).spawn(4)
    seed, own = int(seeds.integers(2**31)), seeds.spawn(1)[0]
    model_seed = int(np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0])
    outside, fresh = drawn.rows[~drawn.base.member], drawn.population
    if not len(fresh):
        fresh = np.sort(own.permutation(outside)[: len(outside) // 5])

    def scores(model: Any, rows: Any) -> Any:
        logits = target.outputs(model, data.x)
        return signals.member_scores(labels=data.y, logits=logits, names=[score])[score][rows]

    direct = stability.estimate(
        lambda rows: target.fit(data.x, data.y, rows, seed=model_seed),
        scores,
        records=np.flatnonzero(drawn.included[0]),
        replacements=fresh,
        test=np.setdiff1d(outside, fresh),
        pairs=6,
        rng=own,
    )
    assert found.stability == replace(direct, score=score)
    assert direct.beta > 0
    assert found.evidence.digest == collected(replace(made, stability=0)).evidence.digest


def test_a_regressor_is_measured_by_its_squared_errors() -> None:
    data = replace(noise(), y=np.random.default_rng(0).normal(size=200))
    found = collected(Campaign(SklearnTarget(LinearRegression()), data, stability=5)).stability
    assert found is not None
    assert 0 < found.alpha < found.beta < 1


# -- controls: trainers whose stability is known ----------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A trainer that ignores its data but for a record that it leans on; its seed, and company, add a constant."""

    leans_on: float | None = None
    name: str = "made"
    kind: str = "logits"
    runs_user_code: bool = False

    def identity(self) -> str:
        return repr(self)

    def fit(self, x: Any, _y: Any, rows: Any, *, seed: int) -> float:
        start = (seed % 997) / 997  # fits differ by where they start, as trainings do
        return start + 3.0 * (self.leans_on in {float(x[row][0]) for row in rows})

    def fit_many(self, x: Any, y: Any, included: Any, *, seeds: Any) -> list[float]:
        fits = zip(included, seeds, strict=True)
        return [0.5 + self.fit(x, y, np.flatnonzero(own), seed=seed) for own, seed in fits]

    def outputs(self, fitted: float, x: Any) -> Any:
        first = np.asarray(x)[:, 0] + fitted
        return np.stack([first, -first], axis=1).astype(np.float32)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_trainer_that_ignores_its_data_is_stable(at_once: int) -> None:
    told: list[tuple[int, int]] = []
    shadows = Shadows(models=4, at_once=at_once)
    found = collected(
        Campaign(Made(), noise(), stability=9, shadows=shadows), progress=lambda *state: told.append(state)
    )
    assert found.stability is not None
    assert (found.stability.alpha, found.stability.beta, found.stability.pairs) == (0.0, 0.0, 9)
    total = 5 + 9 + (at_once > 1)  # the audited model alone once more, where it was trained beside others
    assert told[-1] == (total, total)
    assert {whole for _, whole in told} == {total}


@pytest.mark.long
def test_a_trainer_that_leans_on_one_record_is_not() -> None:
    data, shadows = noise(), Shadows(population=120)
    calm = Campaign(Made(), data, shadows=shadows)
    drawn = Draws.of(calm, np.random.default_rng(0))
    train = drawn.rows[drawn.base.member]
    leaning = replace(calm, target=Made(float(data.x[train[0], 0])), stability=len(train))
    found = collected(leaning).stability
    assert found is not None
    assert found.beta > 2
    assert np.count_nonzero(found.betas) == 1  # each is replaced once
    assert collected(replace(leaning, target=Made())).stability.beta == 0


def test_where_all_scores_are_equal_nothing_is_trained_for_it() -> None:
    data = noise()
    same = replace(data, x=np.zeros_like(data.x), y=np.zeros(200, dtype=int))
    found = collected(Campaign(Made(), same, stability=3))
    assert found.stability is None
    assert found.notes[-1].startswith("Every record has the same loss")


# -- what it costs, what is kept --------------------------------------------------------------------------------------


@pytest.mark.long
def test_its_models_are_kept_beside_the_others_and_counted(tmp_path: Path) -> None:
    shadows = Shadows(models=2, store=tmp_path / "store", seconds_per_fit=72)
    plain = Campaign(SMOOTH, noise(), attacks=("loss",), shadows=shadows)
    made = replace(plain, stability=10)
    cost = run_campaign.cost(made, rng=np.random.default_rng(0))
    assert cost is not None
    assert (cost.fits, cost.reused, round(cost.hours, 6)) == (13, 0, 0.26)
    assert "10 models are for the stability" in cost.how
    collected(plain)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").glob("*.npy")}
    cost = run_campaign.cost(made, rng=np.random.default_rng(0))
    assert cost is not None
    assert (cost.fits, cost.reused) == (10, 3)  # asked for later, nothing is trained twice
    first = collected(made).stability
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").glob("*.npy")} == before
    kept = sorted((tmp_path / "store" / "stability").glob("*.npy"))
    assert len(kept) == 10
    kept[4].unlink()
    cost = run_campaign.cost(made, rng=np.random.default_rng(0))
    assert cost is not None
    assert (cost.fits, cost.reused) == (1, 12)
    assert collected(made).stability == first


def test_models_learn_what_their_swaps_say() -> None:
    """Texts too: the other record stands where the first one stood, and all have one seed."""
    seen: list[tuple[list[str], int]] = []

    class Noted(Made):
        def fit(self, x: Any, _y: Any, rows: Any, *, seed: int) -> float:
            seen.append(([x[row] for row in rows], seed))
            return 0.0

        def outputs(self, fitted: float, x: Any) -> Any:
            return np.full((len(x), 2), fitted, dtype=np.float32)

    included = np.array([[True, False, True, True, False], [True, True, False, True, False]])
    options: Any = {"x": list("abcde"), "y": np.zeros(5, dtype=int), "seed": 1}
    shadow.train(Noted(), included=included, swaps=[[0, 0], [2, 1]], **options)
    assert [rows for rows, _ in seen] == [["a", "c", "d"], ["a", "b", "d"]]
    assert seen[0][1] == seen[1][1]
    for swaps in ([[0, 0]], [[0, 0], [2, 5]], [[0.0, 0.0], [2.0, 1.0]]):
        with pytest.raises(InputError, match="swaps: expected two row numbers from 0 to 4"):
            shadow.train(Noted(), included=included, swaps=swaps, **options)
    with pytest.raises(InputError, match="at_once=1"):
        shadow.train(Noted(), included=included, swaps=[[0, 0], [2, 1]], at_once=2, **options)


# -- refused, before anything is trained ------------------------------------------------------------------------------


class Untrainable(Made):
    def fit(self, *_given: Any, **_options: Any) -> float:
        raise AssertionError("it was trained")


ROWS = Records(np.arange(200), noise().y, HALF, {}, "rows")
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "outputs": ({"target": Precomputed(np.ones((200, 2))), "records": ROWS}, "stability: expected a target that is"),
    "multi-run": ({"design": "multi-run"}, "stability: expected design one-run or zero-run, received multi-run"),
    "no design": ({"records": noise(member=HALF)}, "received none; declare evaluation.design"),
    "units": ({"records": noise(unit=np.arange(200) // 2)}, "stability: expected records that are drawn one by one"),
    "too many": ({"stability": 200}, r"stability.pairs: expected at most \d+, for \d+ training records.*; set fewer"),
    "population": ({"shadows": Shadows(population=3)}, "at most 3, for .* 3 in the population.*shadow.population"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused_before_training(case: str) -> None:
    changes, said = REFUSED[case]
    made = replace(Campaign(Untrainable(), noise(), stability=4), **changes)
    with pytest.raises(InputError, match=said) as caught:
        collected(made)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(InputError, match=said):
        run_campaign.cost(made, rng=np.random.default_rng(0))


@pytest.mark.parametrize("pairs", [-1, True, 2.0, None])
def test_pairs_are_a_whole_number(pairs: Any) -> None:
    with pytest.raises(InputError, match="stability: expected a whole number from 0"):
        Campaign(Made(), noise(), stability=pairs)


# -- what an audit makes of it ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("attacks", "of"), [(("loss",), ""), (("lira_online",), " (of loss)")])
def test_the_audit_says_what_was_measured_or_that_nothing_was(attacks: tuple[str, ...], of: str) -> None:
    found = collected(Campaign(Made(), noise(), attacks=attacks, shadows=Shadows(models=4), stability=4))
    plan = Plan(primary_metric="auc", bounds=None)
    seen, blind = (
        audit(found.evidence, plan=plan, stability=one, rng=np.random.default_rng(0)) for one in (found.stability, None)
    )
    note = next(note for note in seen.notes if note.startswith(f"Stability of training was measured{of}: one record"))
    assert "effect on loss" in note if of else "effect on the score" in note
    assert seen.unmeasured == ""
    assert "can measure it (stability:)" in blind.unmeasured
    several = audit(found.evidence.replace(design="multi-run"), plan=plan, rng=np.random.default_rng(0))
    assert several.unmeasured == ""
