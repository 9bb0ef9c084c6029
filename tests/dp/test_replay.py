"""Loops in NumPy, right and wrong: what one record changes and how much noise there is, beside closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.dp import replay
from miaudit.dp.replay import Change, Claim, Comparison, Draws, StepNoise, check, without_one
from miaudit.errors import InputError

CLIP, NOISE, WIDTH = 2.0, 1.5, 12
CLAIM = Claim(clip=CLIP, noise_multiplier=NOISE)


def batch(seed: int = 0, records: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(records, WIDTH)) * np.exp(2 * rng.normal(size=(records, 1))) + 1e-3


def clipped(gradients: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients / np.maximum(1.0, norms / CLIP)).sum(axis=0)


def loop(
    total: Callable[[np.ndarray], np.ndarray] = clipped,
    noise: Callable[[Draws, dict[str, Any]], Any] = lambda draws, _: draws.normal(0.0, CLIP * NOISE, WIDTH),
) -> Callable[..., np.ndarray]:
    """Return a step whose gradients depend on what was released before."""

    def step(data: np.ndarray, state: dict[str, Any], draws: Draws) -> np.ndarray:
        gradients = data * (1 + 0.1 * np.tanh(state["weights"]).mean())
        released = np.asarray(total(gradients) + noise(draws, state))
        state["weights"] = state["weights"] - 0.1 * released
        state["step"] += 1
        return released

    return step


def compared(step: Callable[..., np.ndarray], seed: int = 0, steps: int = 4, records: int = 8) -> Comparison:
    data = batch(seed, records)
    return check(step, data, without_one(data), CLAIM, state={"weights": np.zeros(WIDTH), "step": 0}, steps=steps)


# -- what one record changes -------------------------------------------------------------------------------------------


def test_a_right_loop_changes_by_exactly_one_clip() -> None:
    result = compared(loop())
    assert result.passed
    assert result.largest.ratio == pytest.approx(1.0, abs=1e-12)
    assert [each.step for each in result.changes] == [1, 2, 3, 4]
    assert "No counterexample" in str(result)
    assert "proves nothing about other records" in str(result)


def by_layer(gradients: np.ndarray) -> np.ndarray:
    return np.concatenate([clipped(gradients[:, :6]), clipped(gradients[:, 6:])])


def views(gradients: np.ndarray) -> np.ndarray:
    return 2 * clipped(gradients)


def micro_means(gradients: np.ndarray) -> np.ndarray:
    return clipped(np.stack([gradients[at : at + 4].mean(axis=0) for at in range(0, len(gradients), 4)]))


def sampled_size(gradients: np.ndarray) -> np.ndarray:
    return clipped(gradients) * 8 / len(gradients)


@pytest.mark.parametrize(
    ("total", "low", "high"),
    [
        (by_layer, np.sqrt(2) - 1e-9, np.sqrt(2) + 1e-9),  # both layers beyond the clip
        (views, 2 - 1e-9, 2 + 1e-9),
        (micro_means, 1.2, 4.0),
        (sampled_size, 1.05, 2.0 + 1e-9),
        (lambda gradients: gradients.sum(axis=0), 5.0, np.inf),
        (lambda gradients: clipped(1.001 * clipped(gradients)[None]), 0.0, 1.0 + 1e-9),  # no bug: the sum is clipped
    ],
)
def test_wrong_clipping_changes_by_more_than_one_clip(total: Any, low: float, high: float) -> None:
    result = compared(loop(total), steps=1)
    assert low <= result.largest.ratio <= high
    assert result.passed == (high < 1.1)


def test_the_change_and_its_neighbour_are_those_of_a_direct_computation() -> None:
    data = batch(3)
    result = compared(loop(micro_means), seed=3, steps=1)
    direct = [np.linalg.norm(micro_means(data) - micro_means(np.delete(data, i, 0))) / CLIP for i in range(len(data))]
    assert result.largest == Change(1, int(np.argmax(direct)), pytest.approx(max(direct), abs=1e-12))
    assert f"neighbour {np.argmax(direct)}" in str(result)


def test_the_history_is_pinned_to_the_datas_own_run() -> None:
    """Without it a right loop drifts: the neighbour's run has other weights from its second step on."""
    step, data = loop(), np.full((8, WIDTH), -CLIP / 1.1 / np.sqrt(WIDTH))  # at most one clip, whatever the weights
    start = {"weights": np.zeros(WIDTH), "step": 0}
    pinned = check(step, data, without_one(data), CLAIM, state=start, steps=4)
    assert 0.9 < pinned.largest.ratio <= 1.0
    own, others = dict(start), dict(start)
    drift = [np.linalg.norm(step(data, own, Draws()) - step(data[1:], others, Draws())) / CLIP for _ in range(4)]
    assert drift[0] == pytest.approx(pinned.changes[0].ratio)
    assert max(drift) > 1.005


def test_a_change_within_rounding_passes_and_one_beyond_it_does_not() -> None:
    slightly = loop(lambda gradients: 1.0005 * clipped(gradients))
    assert not compared(slightly).passed
    data = batch()
    state = {"weights": np.zeros(WIDTH), "step": 0}
    assert check(slightly, data, without_one(data), CLAIM, state=state, tolerance=1e-3).passed


# -- noise by impulses -------------------------------------------------------------------------------------------------


def scaled(factor: float) -> Callable[[Draws, dict[str, Any]], Any]:
    return lambda draws, _: draws.normal(0.0, factor * CLIP * NOISE, WIDTH)


def in_parts(draws: Draws, _: dict[str, Any]) -> Any:
    return sum(draws.normal(0.0, CLIP * NOISE / 4, WIDTH) for _ in range(4))


def for_each_record(draws: Draws, _: dict[str, Any]) -> Any:
    """Noise for each of four records, summed: twice the deviation."""
    return draws.normal(0.0, CLIP * NOISE, (4, WIDTH)).sum(axis=0)


def of_two(draws: Draws, _: dict[str, Any]) -> Any:
    """Right: two draws whose squares add up."""
    return CLIP * NOISE * (0.6 * draws.standard_normal(WIDTH) + 0.8 * draws.standard_normal((WIDTH,)))


@pytest.mark.parametrize(
    ("noise", "expected"),
    [(scaled(1.0), 1.0), (of_two, 1.0), (scaled(0.5), 0.5), (scaled(2.0), 2.0), (in_parts, 0.5), (for_each_record, 2.0),
     (scaled(1 / CLIP), 1 / CLIP), (lambda *_: 0.0, 0.0)],
)  # fmt: skip
def test_impulses_return_the_deviation(noise: Any, expected: float) -> None:
    result = compared(loop(noise=noise), steps=2)
    assert [each.lowest for each in result.noise] == pytest.approx([expected] * 2)
    assert [each.highest for each in result.noise] == pytest.approx([expected] * 2)
    assert result.passed == (expected == 1.0)


def test_impulses_agree_with_the_deviation_of_a_simulation() -> None:
    rng = np.random.default_rng(0)
    simulated = np.std([in_parts(rng, {}) for _ in range(4_000)]) / (CLIP * NOISE)  # type: ignore[arg-type]
    assert compared(loop(noise=in_parts), steps=1).noise[0].lowest == pytest.approx(simulated, rel=0.02)


def test_noise_that_is_missing_in_some_steps() -> None:
    result = compared(
        loop(noise=lambda draws, state: draws.normal(0, CLIP * NOISE, WIDTH) if state["step"] % 4 == 0 else 0.0)
    )
    assert [each.lowest for each in result.noise] == pytest.approx([1, 0, 0, 0])
    assert str(result) == "Steps 2 to 4: no fresh noise."


def test_noise_drawn_once_is_missing_from_the_second_step_on() -> None:
    def once(draws: Draws, state: dict[str, Any]) -> Any:
        state.setdefault("noise", None)
        if state["noise"] is None:
            state["noise"] = draws.normal(0, CLIP * NOISE, WIDTH)
        return state["noise"]

    assert [each.lowest for each in compared(loop(noise=once), steps=3).noise] == pytest.approx([1, 0, 0])


def test_a_generator_that_starts_again_is_noticed_by_its_state() -> None:
    def again(draws: Draws, _: dict[str, Any]) -> Any:
        return CLIP * NOISE * draws.standard_normal(WIDTH, source=b"seed 0")

    result = compared(loop(noise=again), steps=2)
    assert [each.reused for each in result.noise] == [False, True]
    assert "already used" in str(result)


def test_coordinates_without_noise_and_coordinates_that_share_it() -> None:
    def one_layer(draws: Draws, _: dict[str, Any]) -> Any:
        return np.concatenate([draws.normal(0, CLIP * NOISE, 6), np.zeros(6)])

    def one_number(draws: Draws, _: dict[str, Any]) -> Any:
        return draws.normal(0, CLIP * NOISE)

    silent, shared = (compared(loop(noise=noise), steps=1) for noise in (one_layer, one_number))
    assert silent.noise[0].silent == 6
    assert str(silent) == "Step 1: no noise at 6 of 12 coordinates."
    assert shared.noise[0] == StepNoise(1, pytest.approx(1.0), pytest.approx(1.0), WIDTH, 0, 1, False)
    assert "12 noisy coordinates share 1 random numbers" in str(shared)


def test_both_faults_are_named() -> None:
    text = str(compared(loop(views, scaled(0.5)), steps=1))
    assert "2.0000 clips" in text
    assert "0.5 of the claimed deviation 3" in text


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, -1.0), (np.nan, 1.0), (1.0, np.inf), ("1", 1.0), (True, 1.0)])
def test_claims_are_finite_and_above_0(values: Any) -> None:
    with pytest.raises(InputError, match="above 0"):
        Claim(*values)


def right(data: Any, _state: Any, draws: Draws) -> Any:
    return clipped(data) + draws.normal(0, CLIP * NOISE, WIDTH)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"claim": (1.0, 1.1)}, "claim: expected a replay.Claim"),
        ({"neighbours": []}, "neighbours: expected"),
        ({"step": 3}, "step: expected a function"),
        ({"steps": 0}, "steps: expected a whole number"),
        ({"tolerance": -1.0}, "tolerance: expected"),
        ({"step": lambda *_: np.full(3, np.nan)}, "NaN or infinity"),
        ({"step": lambda *_: None}, "step: expected"),
        ({"step": lambda *_: "words"}, "return the released sum"),
        ({"step": lambda *_: []}, "empty"),
        ({"step": lambda data, *_: data}, "sums of one length"),
        ({"step": lambda *_: np.random.default_rng().normal(size=3)}, "randomness is its normal draws alone"),
        ({"step": lambda _data, _state, draws: draws.laplace(size=3)}, "a step that uses laplace"),
        ({"step": lambda _data, _state, draws: np.cumsum(draws.normal(size=WIDTH))}, "mixed"),
        ({"step": lambda _data, _state, draws: draws.normal(size=(500, WIDTH)).sum(0)}, "6,000 numbers that are mixed"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, Any], message: str) -> None:
    data = batch()
    arguments = {"step": right, "data": data, "neighbours": without_one(data), "claim": CLAIM, **changed}
    with pytest.raises(InputError, match=message):
        check(
            arguments.pop("step"),
            arguments.pop("data"),
            arguments.pop("neighbours"),
            arguments.pop("claim"),
            **arguments,
        )


def test_neighbours_of_nothing_are_refused() -> None:
    for data in ([], 3.0):
        with pytest.raises(InputError, match="at least one record"):
            without_one(data)


def test_the_public_name() -> None:
    assert ma.dp.replay is replay
