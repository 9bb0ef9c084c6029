"""Laws that every registered attack obeys: scores are finite, tell members, and follow the records, not their order."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from miaudit.attacks import registry
from miaudit.errors import InputError
from worlds.shadow import World, auc

N, M, OTHERS, COPIES, TOKENS = 600, 32, 400, 6, 12

# How each input is laid out: which axis holds records, and which shadow models.
RECORDS = (
    *("target", "shadow", "included", "features", "logits", "labels", "correct", "shadow_correct", "compressed"),
    *("probabilities", "shadow_probabilities", "confidence", "shadow_confidence"),
)
MODELS = (
    *("shadow", "included", "population_shadow", "shadow_correct"),
    *("shadow_probabilities", "shadow_confidence"),
)
RAGGED = {
    "offsets": ("log_p", "token_mean", "token_std", "top1", "tokens", "prefixed_log_p", "frequency_log_p"),
    "reference_offsets": ("reference_log_p",),
    "neighbour_offsets": ("neighbour_log_p",),
}
# Labels alone cannot tell apart records whose copies are right equally often, nor votes texts with as many.
TIED = ("label_only", "label_only_calibrated", "label_only_learned", "window_votes", "surprise")
NAMES = sorted(registry.ATTACKS)


def log_probability(t: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -t)


def logits_of(t: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Outputs over four classes whose logit-scaled confidence is t."""
    z = rng.normal(size=(len(t), 4))
    rows = np.arange(len(t))
    z[rows, labels] = -np.inf
    others = np.logaddexp.reduce(z, axis=1)
    z[rows, labels] = t + others
    return z


def vectors(t: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Probabilities over four classes: the own class as the statistic says, the others in the same shares."""
    p = 1 / (1 + np.exp(-np.asarray(t, dtype=float)))
    shares = (1 - p)[:, None] * np.array([0.5, 0.3, 0.2])
    found = np.empty((len(t), 4))
    for k in range(4):
        rows = labels == k
        found[rows] = np.insert(shares[rows], k, p[rows], axis=1)
    return found


def texts(member: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    lengths = rng.integers(TOKENS, 3 * TOKENS, len(member))
    offsets = np.r_[0, np.cumsum(lengths)]
    inside = np.repeat(member, lengths)
    hard = rng.gamma(2.0, 1.0, offsets[-1])
    log_p = -hard * np.where(inside, 0.7, 1.0) * rng.gamma(8.0, 0.125, len(hard))
    return {
        "log_p": log_p,
        "offsets": offsets,
        "token_mean": -hard * rng.gamma(2.0, 0.5, len(hard)),  # some tokens surprise a model that was sure of others
        "token_std": np.sqrt(hard),
        "compressed": 3 * lengths + 8,
        "reference_log_p": -hard * rng.gamma(8.0, 0.125, len(hard)),
        "reference_offsets": offsets,
        "top1": log_p > -0.5,
        "tokens": rng.integers(0, 200, len(hard)),
        "prefixed_log_p": log_p * np.where(inside, 1.0, 0.8) * rng.gamma(8.0, 0.125, len(hard)),
        "frequency_log_p": -rng.uniform(0.001, 0.05, len(hard)),
        "neighbour_log_p": np.repeat(-np.add.reduceat(hard, offsets[:-1]) / lengths, 3)
        * rng.normal(1, 0.1, 3 * len(member)),
        "neighbour_offsets": 3 * np.arange(len(member) + 1),
    }


@cache
def world(statistic: str, gain: float = 2.0) -> tuple[dict[str, Any], np.ndarray]:
    """Every input of one audit, and the membership that scores should tell."""
    rng = np.random.default_rng(1)
    w = World.draw(N, M, rng, gain=gain, hardness=1.0, spread=0.2)
    z = World.draw(OTHERS, M + 1, rng, gain=gain, hardness=1.0, spread=0.2)
    none = np.zeros((OTHERS, M + 1), dtype=bool)
    population = z.laws.statistics(none, rng)
    transform = log_probability if statistic == "log_probability" else np.asarray
    labels, other_labels = rng.integers(0, 4, N), rng.integers(0, 4, OTHERS)
    noise = {k: 0.7 * rng.normal(size=(*shape, COPIES)) for k, shape in
             {"t": (N,), "s": (N, M), "z": (OTHERS,)}.items()}  # fmt: skip
    given = {
        "target": transform(w.target),
        "shadow": transform(w.shadow),
        "included": w.included,
        "population": transform(population[:, 0]),
        "population_shadow": transform(population[:, 1:]),
        "features": np.c_[w.laws.mean_out + 0.3 * rng.normal(size=N), rng.normal(size=N)],
        "population_features": np.c_[z.laws.mean_out + 0.3 * rng.normal(size=OTHERS), rng.normal(size=OTHERS)],
        "logits": logits_of(w.target, labels, rng),
        "labels": labels,
        "shadow_logits": logits_of(z.target, other_labels, rng),
        "shadow_labels": other_labels,
        "shadow_member": z.member,
        "probabilities": vectors(w.target, labels),
        "shadow_probabilities": np.stack([vectors(t, labels) for t in w.shadow.T], axis=1),
        "confidence": 1 / (1 + np.exp(-w.target)),
        "shadow_confidence": 1 / (1 + np.exp(-w.shadow)),
        "correct": w.target[:, None] + noise["t"] > 1.5,
        "shadow_correct": w.shadow[:, :, None] + noise["s"] > 1.5,
        "pooled_correct": z.target[:, None] + noise["z"] > 1.5,
        "pooled_member": z.member,
        **texts(w.member if gain > 0 else rng.permutation(w.member), rng),
    }
    return given, w.member


def scores(name: str, given: dict[str, Any]) -> np.ndarray:
    return registry.get(name).score(given, rng=np.random.default_rng(5))


def inputs(name: str, gain: float = 2.0) -> tuple[dict[str, Any], np.ndarray]:
    attack = registry.get(name)
    given, member = world(attack.statistic, gain)
    return {need: given[need] for need in attack.needs}, member


def with_records(given: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Take records in another order, ragged texts included."""
    out = {name: value[rows] if name in RECORDS else value for name, value in given.items()}
    for offsets, flat in RAGGED.items():
        if offsets in given:
            spans = [np.arange(given[offsets][i], given[offsets][i + 1]) for i in rows]
            out[offsets] = np.r_[0, np.cumsum([len(s) for s in spans])]
            out.update({name: given[name][np.concatenate(spans)] for name in flat if name in given})
    return out


def with_models(given: dict[str, Any], models: np.ndarray) -> dict[str, Any]:
    return {name: value[:, models] if name in MODELS else value for name, value in given.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_finite_numbers_one_for_each_record_that_tell_members(name: str) -> None:
    given, member = inputs(name)
    before = {need: value.copy() for need, value in given.items()}
    found = scores(name, given)
    assert found.shape == (N,)
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    assert auc(found, member) > 0.55, "higher must mean more member-like"
    if name not in TIED:
        assert len(np.unique(found)) > 0.97 * N, "a continuous tie-breaker"
    for need, value in before.items():
        np.testing.assert_array_equal(given[need], value)  # inputs are read only
    np.testing.assert_array_equal(found, scores(name, given))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_without_leakage_there_is_nothing_to_tell(name: str) -> None:
    given, member = inputs(name, gain=0.0)
    if "offsets" in given:
        member = np.random.default_rng(7).permutation(member)
    assert auc(scores(name, given), member) == pytest.approx(0.5, abs=0.085)  # 3.6 standard errors


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_records_does_not_matter(name: str) -> None:
    given, _ = inputs(name)
    rows = np.random.default_rng(2).permutation(N)
    np.testing.assert_allclose(scores(name, with_records(given, rows)), scores(name, given)[rows], rtol=1e-7, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_shadow_models_does_not_matter(name: str) -> None:
    given, _ = inputs(name)
    models = np.random.default_rng(3).permutation(M)
    np.testing.assert_allclose(scores(name, with_models(given, models)), scores(name, given), rtol=1e-7, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_second_copy_of_every_shadow_model_reverses_no_order(name: str) -> None:
    given, _ = inputs(name)
    first, doubled = scores(name, given), scores(name, with_models(given, np.r_[np.arange(M), np.arange(M)]))
    # The parameter of RMIA and the smoothing of rates see twice the models; LiRA keeps every order.
    assert stats.spearmanr(first, doubled).statistic > (0.9999999 if name.startswith("lira") else 0.99)


# A likelihood ratio falls with the statistic where in models lie below out models, a distance on one side of zero.
RISING = ("lira_offline", "lira_offline_global", "quantile_regression", "rmia_offline", "rmia_online")


@pytest.mark.long
@pytest.mark.parametrize("name", RISING)
def test_a_higher_statistic_of_the_target_model_raises_a_one_sided_score(name: str) -> None:
    given, _ = inputs(name)
    higher = {**given, "target": given["target"] * 0.5 if "rmia" in name else given["target"] + 0.5}
    assert (scores(name, higher) > scores(name, given)).all()


@pytest.mark.parametrize("name", NAMES)
def test_missing_inputs_are_named(name: str) -> None:
    given, _ = inputs(name)
    for need in given:
        with pytest.raises(InputError, match=rf"^{need}: expected .*received nothing; {name} needs"):
            scores(name, {k: v for k, v in given.items() if k != need})
        with pytest.raises(InputError):
            scores(name, {**given, need: None})


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_not_finite_are_refused(name: str) -> None:
    given, _ = inputs(name)
    for need, value in given.items():
        if value.dtype.kind != "f" or "features" in need:
            continue  # a missing feature is a value of its own
        for bad in (np.nan, np.inf, -np.inf):
            spoilt = value.copy()
            spoilt[len(spoilt) // 2] = bad
            with pytest.raises(InputError) as error:
                scores(name, {**given, need: spoilt})
            assert "\n" not in str(error.value)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_record_too_few_is_refused(name: str) -> None:
    given, _ = inputs(name)
    for need in given:
        if need in RECORDS and len(set(given) & set(RECORDS)) == 1:
            continue  # nothing to disagree with
        with pytest.raises(InputError):
            scores(name, {**given, need: given[need][1:]})


OF_TEXTS = [name for name in NAMES if "offsets" in registry.ATTACKS[name].needs]


@pytest.mark.long
@pytest.mark.parametrize("name", OF_TEXTS)
def test_texts_scored_in_parts_have_the_scores_of_all_together(name: str) -> None:
    given, _ = inputs(name)
    parts = np.split(np.arange(N), [1, 7, 300])
    found = np.concatenate([scores(name, with_records(given, rows)) for rows in parts])
    np.testing.assert_allclose(found, scores(name, given), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OF_TEXTS)
def test_positive_log_probabilities_are_refused(name: str) -> None:
    given, _ = inputs(name)
    for need in [need for need in given if need.endswith(("log_p", "token_mean"))]:
        losses = given[need].copy()
        losses[len(losses) // 2] = 0.5
        with pytest.raises(InputError, match="log-probabilities, at most 0"):
            scores(name, {**given, need: losses})


@pytest.mark.parametrize("name", OF_TEXTS)
def test_offsets_that_do_not_part_the_tokens_are_refused(name: str) -> None:
    given, _ = inputs(name)
    for need in [need for need in given if need in RAGGED]:
        good = given[need]
        nothing, later, short = good.copy(), good.copy(), good.copy()
        nothing[3], later[0], short[-1] = good[2], 1, good[-1] - 1
        for bad in (nothing, later, short, good[::-1], good.astype(float), good + 0.5, good[:1], good[:, None]):
            with pytest.raises(InputError):
                scores(name, {**given, need: bad})


@pytest.mark.parametrize("name", [name for name in OF_TEXTS if "reference_offsets" in registry.ATTACKS[name].needs])
def test_a_reference_of_other_texts_is_refused(name: str) -> None:
    """As many records and tokens, but cut otherwise: a ratio of losses allows it, what goes token by token does not."""
    given, _ = inputs(name)
    other = given["reference_offsets"].copy()
    other[1] += 1
    if name == "reference_ratio":
        assert np.isfinite(scores(name, {**given, "reference_offsets": other})).all()
        return
    with pytest.raises(InputError, match="use one tokenizer for both"):
        scores(name, {**given, "reference_offsets": other})


@pytest.mark.parametrize("name", [name for name in OF_TEXTS if "tokens" in registry.ATTACKS[name].needs])
def test_the_numbers_of_tokens_are_names_only(name: str) -> None:
    given, _ = inputs(name)
    renamed = np.random.default_rng(4).permutation(10_000)[given["tokens"]]
    np.testing.assert_allclose(scores(name, {**given, "tokens": renamed}), scores(name, given), rtol=1e-12)


def test_what_the_registry_holds_is_what_can_be_provided() -> None:
    provided = world("logit_confidence")[0]
    assert set(provided) == set(registry.INPUTS)
    used = {need for attack in registry.ATTACKS.values() for need in attack.needs}
    assert used == set(registry.INPUTS)
    words = [attack.words for attack in registry.ATTACKS.values()]
    assert len(set(words)) == len(words)


def test_registering_refuses_what_nobody_provides() -> None:
    with pytest.raises(InputError, match="a new name"):
        registry.register("lira_online", np.asarray, "target", "again")
    with pytest.raises(InputError, match="did you mean shadow"):
        registry.register("new", np.asarray, "shadows", "new")
    with pytest.raises(InputError, match="log_probability"):
        registry.register("new", np.asarray, "target", "new", statistic="loss")  # type: ignore[arg-type]
    assert "new" not in registry.ATTACKS
    with pytest.raises(InputError, match="did you mean rmia_online"):
        registry.get("rmia_onlin")
