"""Generators in NumPy, right and wrong, beside the closed forms of marginals and of composition."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.dp import query_replay
from miaudit.dp.mechanism import Selection
from miaudit.dp.query_draws import QueryDraws
from miaudit.dp.query_replay import Claim, QueryComparison, check, with_one, with_one_replaced
from miaudit.dp.replay import without_one
from miaudit.errors import InputError

SIZES = (3, 2, 4)
PAIRS = tuple(combinations(range(3), 2))


def records(seed: int = 0, n: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SIZES, size=(n, 3))


def counts(data: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    shape = tuple(SIZES[column] for column in columns)
    return np.bincount(np.ravel_multi_index(tuple(data[:, columns].T), shape), minlength=math.prod(shape)).astype(float)


def tables(data: np.ndarray, draws: QueryDraws, sd: float = 2.0) -> Any:
    """Each column with normal noise, then one pair, which is chosen, with Laplace noise."""
    single = [draws.answer(f"{j}", counts(data, (j,)) + draws.normal(0.0, sd, SIZES[j]), sd) for j in range(3)]
    scores = [np.abs(counts(data, pair) - np.outer(*(single[j] for j in pair)).ravel() / 12).sum() for pair in PAIRS]
    pair = PAIRS[draws.choose(scores, 4.0, "pair")]
    noisy = counts(data, pair)
    return {"single": single, "pair": draws.answer("pair", noisy + draws.laplace(0.0, 3.0, noisy.size), 3.0)}


def compared(generator: Any, claim: Claim, *, replaced: bool = False, **options: Any) -> QueryComparison:
    data, options = records(), {"rng": np.random.default_rng(0), **options}
    one = np.array([[2, 1, 3]])
    return check(
        generator, data, with_one_replaced(data, one) if replaced else [*without_one(data), *with_one(data, one)],
        claim, **options,
    )  # fmt: skip


# -- closed forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True], ids=["add or remove", "replace"])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_the_change_of_all_pairs_together(replaced: bool, law: str) -> None:
    """K tables of counts move by sqrt(K) or K if one record is missing, and by sqrt(2 K) or 2 K if it is replaced."""

    def all_pairs(data: np.ndarray, draws: QueryDraws) -> Any:
        whole = np.concatenate([counts(data, pair) for pair in PAIRS])
        return draws.answer("pairs", whole + getattr(draws, law)(0.0, 5.0, whole.size), 5.0)

    cells = len(PAIRS) * (2 if replaced else 1)
    expected = math.sqrt(cells) if law == "normal" else cells
    unit: Any = "mu" if law == "normal" else "epsilon"
    result = compared(all_pairs, Claim(expected / 5, unit, sensitivity=expected), replaced=replaced)
    assert result.passed, str(result)
    assert result.queries[0].change == pytest.approx(expected)
    assert [result.spent, result.ledger] == pytest.approx([expected / 5] * 2)
    short = compared(all_pairs, Claim(expected / 5, unit, sensitivity=0.99 * expected), replaced=replaced)
    assert [text.split(":")[0] for text in short.differences] == ["Answer 1 (pairs)"]
    assert not compared(all_pairs, Claim(0.99 * expected / 5, unit, sensitivity=expected), replaced=replaced).passed


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("mu", math.sqrt(3 / 4 + Selection(2 * 1 / 4).mu ** 2 + Selection(2 / 3).mu ** 2)),
        ("rho", 3 / 8 + 0.5**2 / 8 + 1 / 18),
        ("epsilon", math.inf),
    ],
)
def test_the_ledger_is_the_composition_of_the_queries(unit: Any, expected: float) -> None:
    result = compared(tables, Claim(2.0, unit))
    assert result.ledger == pytest.approx(expected)
    assert result.spent <= expected
    assert result.passed == math.isfinite(expected)
    assert [query.law for query in result.queries] == ["normal"] * 3 + ["choice", "Laplace"]


def test_a_pure_claim_adds_up_the_epsilons() -> None:
    def pure(data: np.ndarray, draws: QueryDraws) -> None:
        for j in range(3):
            draws.answer("", counts(data, (j,)) + draws.laplace(0.0, 4.0, SIZES[j]))
        draws.choose(counts(data, (0,)), 8.0)

    result = compared(pure, Claim(1.0, "epsilon"))
    assert result.passed
    assert result.ledger == pytest.approx(3 / 4 + 2 / 8)
    assert result.spent == pytest.approx(3 / 4 + 1 / 8)  # counts of a choice move to one side


def test_a_choice_counts_by_the_range_of_its_log_probabilities() -> None:
    data, other = records(), records()[1:]

    def probabilities(rows: np.ndarray) -> np.ndarray:
        weights = np.exp(np.sqrt(counts(rows, (2,))) / 0.7)
        return np.asarray(weights / weights.sum())

    result = check(
        lambda rows, draws: draws.choose(np.sqrt(counts(rows, (2,))), 0.7), data, [other], Claim(9.0, "epsilon"),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert result.spent == pytest.approx(np.ptp(np.log(probabilities(data) / probabilities(other))))


def test_what_one_neighbour_spends_is_a_direct_computation() -> None:
    """Two tables with other noise: the squares of changes over deviations, cell by cell."""

    def generator(rows: np.ndarray, draws: QueryDraws) -> None:
        for j, sd in enumerate((1.0, 3.0)):
            draws.answer(f"{j}", 1.3 * counts(rows, (j,)) + draws.normal(0.0, sd, SIZES[j]), sd)

    result = compared(generator, Claim(5.0, sensitivity=1.3))
    assert result.spent == pytest.approx(math.hypot(1.3 / 1.0, 1.3 / 3.0))
    assert [query.change for query in result.queries] == pytest.approx([1.3, 1.3])


# -- what a right generator shows --------------------------------------------------------------------------------------


def test_a_right_generator_passes_in_several_histories() -> None:
    result = compared(tables, Claim(3.0), histories=3)
    assert result.passed, str(result)
    assert {query.history for query in result.queries} == {1, 2, 3}
    assert "12 answers and 3 choices of 3 histories, each with 13 neighbours" in str(result)
    assert "proves nothing about other records" in str(result)


def test_the_same_seed_gives_the_same_comparison() -> None:
    assert compared(tables, Claim(3.0)) == compared(tables, Claim(3.0))


def test_an_open_sensitivity_compares_the_sum_alone() -> None:
    def doubled(data: np.ndarray, draws: QueryDraws) -> None:
        draws.answer("", 2 * counts(data, (0,)) + draws.normal(0.0, 8.0, 3), 8.0)

    assert not compared(doubled, Claim(0.25)).passed
    result = compared(doubled, Claim(0.25, sensitivity=None))
    assert result.passed and result.ledger is None


# -- noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "sentence"),
    [
        (lambda draws, own: draws.normal(0.0, 1.0, 4), "the noise is 0.5 of the stated one."),
        (lambda draws, own: draws.normal(0.0, 3.0, 4), "more noise than stated, 1.5 of it."),
        (lambda draws, own: sum(draws.normal(0.0, 0.5, 4) for _ in range(4)), "the noise is 0.5 of the stated one."),
        (lambda draws, own: draws.normal(0.0, 2.0, 4) * (own > 3), "no noise at 2 of 4 cells."),
        (lambda draws, own: draws.normal(0.0, 2.0), "4 noisy cells share 1 random numbers."),
        (lambda draws, own: 0.0, "it has no noise."),
        (
            lambda draws, own: draws.normal(0.0, 2.0, 4) + draws.laplace(0.0, 1.0, 4),
            "more noise than stated, 1.118 of it; its noise is a sum of normal and Laplace draws.",
        ),
    ],
    ids=["half", "more", "in parts", "some cells", "one number", "none", "mixed"],
)
def test_wrong_noise_is_named(noise: Any, sentence: str) -> None:
    def generator(data: np.ndarray, draws: QueryDraws) -> None:
        own = counts(data, (2,))
        draws.answer("level", own + noise(draws, own), 2.0)

    result = compared(generator, Claim(9.0))
    assert result.differences[0] == f"Answer 1 (level): {sentence}"


def test_noise_that_two_answers_share_is_named() -> None:
    def generator(data: np.ndarray, draws: QueryDraws) -> None:
        noise = draws.normal(0.0, 2.0, 4)
        for name in ("one", "two"):
            draws.answer(name, counts(data, (2,)) + noise, 2.0)

    assert "Answer 1 (one) and 1 more: its noise also reaches another answer." in str(compared(generator, Claim(9.0)))


def test_an_answer_that_moves_without_noise_spends_everything() -> None:
    result = compared(lambda data, draws: draws.answer("", counts(data, (0,)), 2.0), Claim(1.0))
    assert result.spent == math.inf
    assert "the queries spend mu = inf" in str(result)


# -- what no budget pays for -------------------------------------------------------------------------------------------


def released(what: Any) -> Any:
    def generator(data: np.ndarray, draws: QueryDraws) -> Any:
        draws.answer("", counts(data, (0,)) + draws.normal(0.0, 2.0, 3), 2.0)
        return what(data, draws)

    return generator


def stops(data: np.ndarray, _draws: QueryDraws) -> None:
    if len(data) > 12:
        raise KeyError("h")


def asks(data: np.ndarray, draws: QueryDraws) -> None:
    if (data[:, 2] == 3).sum() > 1:
        draws.answer("more", draws.normal(0.0, 2.0, 1))


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (
            lambda data, _: {"total": len(data)},
            "with neighbour 0 and 12 more, the release['total'] is 11 instead of 12.",
        ),
        (lambda data, _: [np.zeros(len(data))], "the release[0] has the shape (11,) instead of (12,)."),
        (lambda data, _: tuple(data[:, 0].tolist()), "the release has 11 parts instead of 12."),
        (lambda data, _: {str(len(data)): 0}, "the release has other keys."),
        (lambda data, _: {"mean": data.mean(axis=0)}, "the release['mean'] differs in"),
        (lambda data, draws: draws.normal(0.0, 1 / len(data), 2).shape, "call 2 of the random generator has another"),
        (lambda data, draws: draws.normal(0.0, 1.0, data.max()).shape, None),
        (stops, "with neighbour 12, the generator stops with KeyError: 'h'."),
        (asks, "ends after 1 of its queries."),
        (lambda data, draws: [draws.normal() for _ in data] and None, "is called another number of times."),
    ],
    ids=["total", "length", "records", "keys", "mean", "scale", "equal", "stops", "asks", "calls"],
)
def test_whatever_else_depends_on_a_record_is_named(what: Any, sentence: str | None) -> None:
    result = compared(released(what), Claim(0.5 if what is not asks else 2.0))
    if sentence is None:
        assert result.passed
    else:
        assert len(result.differences) == 1 and sentence in result.differences[0], str(result)
        assert result.differences[0].startswith("No budget pays for this: with neighbour ")


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        (lambda data: data[:, 0].max() + 1, "Answer 1 (age) has 4 cells instead of 3."),
        (lambda data: 5, None),
    ],
    ids=["read off", "public"],
)
def test_a_new_category_changes_the_domain_where_it_was_read_off_the_table(levels: Any, sentence: str | None) -> None:
    def generator(data: np.ndarray, draws: QueryDraws) -> None:
        size = int(levels(data))
        draws.answer("age", np.bincount(data[:, 0], minlength=size) + draws.normal(0.0, 2.0, size), 2.0)

    neighbours = [*without_one(records()), *with_one(records(), [[3, 0, 0]])]
    result = check(generator, records(), neighbours, Claim(0.5), rng=np.random.default_rng(0))
    assert result.passed == (sentence is None)
    assert sentence is None or sentence in str(result)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.0,), "budget: expected a finite number above 0"),
        ((1.0, "sigma"), "unit: expected"),
        ((1.0, "mu", -1.0), "sensitivity"),
        ((1.0, "mu", 1.0, np.nan), "score_sensitivity"),
        ((None,), "budget"),
    ],
    ids=["zero", "unit", "negative", "nan", "none"],
)
def test_bad_claims_are_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Claim(*values)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"claim": 1.0}, "claim: expected a query_replay.Claim"),
        ({"neighbours": []}, "neighbours: expected"),
        ({"generator": 3}, "generator: expected a function"),
        ({"rng": 0}, "rng: expected a numpy.random.Generator"),
        ({"histories": 0}, "histories: expected a whole number"),
        ({"generator": lambda data, draws: None}, "one that asks none"),
        ({"generator": released(lambda data, draws: draws.normal(size=2))}, "noise reaches its answers alone"),
        ({"generator": released(lambda data, draws: np.random.default_rng().normal())}, "noise reaches its answers"),
        ({"generator": lambda data, draws: draws.answer(f"{draws.normal()}", [1.0])}, "in place of Answer 1"),
        ({"generator": lambda data, draws: draws.answer("", np.cumsum(draws.normal(size=4)))}, "mixed"),
    ],
    ids=["claim", "neighbours", "generator", "rng", "histories", "none", "leak", "unseeded", "name", "mixed"],
)
def test_bad_input_is_refused(changed: dict[str, Any], message: str) -> None:
    data = records()
    options = {"generator": tables, "neighbours": without_one(data), "claim": Claim(3.0), **changed}
    options = {"rng": np.random.default_rng(0), **options}
    with pytest.raises(InputError, match=message):
        check(options.pop("generator"), data, options.pop("neighbours"), options.pop("claim"), **options)


@pytest.mark.parametrize("one", [[], [[1, 2]], 3.0], ids=["none", "short", "number"])
def test_neighbours_by_other_records_are_refused(one: Any) -> None:
    for made_of in (with_one, with_one_replaced):
        with pytest.raises(InputError, match="records: expected at least one record"):
            made_of(records(), one)


def test_the_public_name() -> None:
    assert ma.dp.query_replay is query_replay
