"""Training and generators: known laws are learned, privacy follows public numbers only, bad input is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

import miaudit.synthesis as synthesis  # noqa: E402
from miaudit.dp.mechanism import dp_sgd  # noqa: E402
from miaudit.errors import InputError, MiauditError  # noqa: E402
from miaudit.synthesis.generators import training  # noqa: E402
from miaudit.synthesis.generators.generator import Generator  # noqa: E402
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy  # noqa: E402
from miaudit.synthesis.generators.vae import Network  # noqa: E402
from miaudit.synthesis.graph import CausalGraph  # noqa: E402
from miaudit.synthesis.schema import Column, Schema, Table  # noqa: E402

SCHEMA = Schema(
    (
        Column("exposed"),
        Column("dose", "ordinal", categories=("none", "low", "high")),
        Column("site", "categorical", categories=("x", "y", "z"), missing=True),
        Column("level", "continuous", low=0, high=10),
    )
)
GRAPH = CausalGraph(SCHEMA, None, [("exposed", "dose"), ("dose", "level"), ("site", "level")])
QUICK = GeneratorConfig(epochs=40, batch=50, learning_rate=0.01, hidden=16, latent=3, records=1200)


def world(n: int, rng: np.random.Generator, *, exposed: np.ndarray | None = None) -> Table:
    """exposed -> dose -> level <- site, with a fifth of the sites missing."""
    exposed = (rng.random(n) < 0.4).astype(float) if exposed is None else exposed
    dose = np.where(exposed == 1, rng.choice(3, n, p=[0.1, 0.3, 0.6]), rng.choice(3, n, p=[0.7, 0.2, 0.1]))
    site = rng.choice(3, n, p=[0.5, 0.3, 0.2]).astype(float)
    level = np.clip(2 + 2 * dose + (site == 1) + 0.5 * rng.standard_normal(n), 0, 10)
    site[rng.random(n) < 0.2] = np.nan
    return Table(SCHEMA, np.column_stack([exposed, dose, site, level]))


@pytest.fixture(scope="module")
def table() -> Table:
    return world(1200, np.random.default_rng(0))


@pytest.fixture(scope="module")
def learned(table: Table) -> Generator:
    return synthesis.fit(table, GRAPH, rng=np.random.default_rng(1), config=QUICK)


@pytest.mark.thorough
@pytest.mark.long
def test_marginals_and_mechanisms_are_learned(learned: Generator) -> None:
    rng = np.random.default_rng(2)
    made, fresh = learned.sample(8000, rng=rng), world(8000, rng)
    assert made.column("exposed").mean() == pytest.approx(0.4, abs=0.06)
    for exposed in (0, 1):
        shares = [
            np.bincount(t.column("dose")[t.column("exposed") == exposed].astype(int), minlength=3)
            for t in (made, fresh)
        ]
        gap = 0.5 * np.abs(shares[0] / shares[0].sum() - shares[1] / shares[1].sum()).sum()
        assert gap < 0.1
    for dose in range(3):
        means = [t.column("level")[t.column("dose") == dose].mean() for t in (made, fresh)]
        assert means[0] == pytest.approx(means[1], abs=0.3)
    # complete although sites are missing in the table, and missing at the same rate where that is drawn
    assert not np.isnan(made.values).any()


@pytest.mark.thorough
@pytest.mark.long
def test_an_intervention_moves_effects_and_leaves_causes(learned: Generator) -> None:
    rng = np.random.default_rng(3)
    made = learned.sample(6000, rng=rng, do={"dose": "high", "level": 5.0})
    assert set(made.column("dose")) == {2.0} and set(made.column("level")) == {5.0}
    assert made.column("exposed").mean() == pytest.approx(0.4, abs=0.06)
    forced = learned.sample(6000, rng=rng, do={"exposed": 1})
    truth = world(6000, rng, exposed=np.ones(6000))
    assert forced.column("level").mean() == pytest.approx(truth.column("level").mean(), abs=0.4)
    seen = learned.sample(6000, rng=rng)
    assert forced.column("level").mean() > seen.column("level").mean() + 0.5
    for bad in ({"dose": "huge"}, {"level": 11}, {"colour": 1}):
        with pytest.raises(InputError):
            learned.sample(5, rng=rng, do=bad)


def test_samples_are_outcomes_and_repeat_with_their_seed(learned: Generator) -> None:
    made = learned.sample(50, rng=np.random.default_rng(4))
    assert set(np.unique(made.column("exposed"))) <= {0.0, 1.0}
    assert made.values.tobytes() == learned.sample(50, rng=np.random.default_rng(4)).values.tobytes()
    assert made.values.tobytes() != learned.sample(50, rng=np.random.default_rng(5)).values.tobytes()
    assert len(learned.sample(1, rng=np.random.default_rng(0))) == 1
    for bad in (0, -1, 2.5, True):
        with pytest.raises(InputError, match="n: expected"):
            learned.sample(bad, rng=np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.long
def test_a_generator_in_a_stack_is_the_one_alone(table: Table) -> None:
    config = replace(QUICK, epochs=2)
    rows = np.ones((3, len(table)), dtype=bool)
    rows[1, :300] = False
    together = training.fit_many(table, GRAPH, rows=rows, rng=np.random.default_rng(6), config=config)
    apart = training.fit_many(
        [table.subset(own) for own in rows], GRAPH, rng=np.random.default_rng(6), config=replace(config, at_once=1)
    )
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=2e-3)
    assert np.abs(together[0].weights - together[2].weights).max() > 0.05  # another seed is another generator


@pytest.mark.thorough
@pytest.mark.long
def test_with_privacy_a_stack_repeats_and_pays_for_all_epochs(table: Table) -> None:
    privacy = Privacy(records=1000, epsilon=0.5, clip=2.0)
    config = replace(QUICK, epochs=2, records=None)
    options = {"config": config, "repeatable": True}
    pair = training.fit_many([table, table], GRAPH, privacy, rng=np.random.default_rng(7), **options)
    alone = synthesis.fit(table, GRAPH, privacy, rng=np.random.default_rng(7), **options)
    np.testing.assert_allclose(pair[0].weights, alone.weights, atol=2e-3)
    assert alone.mechanism == dp_sgd(records=1000, batch=50, epochs=2, noise=alone.noise)
    assert 0.48 < alone.guarantee().value <= 0.5
    claim = alone.claim()
    assert (claim.value, claim.delta) == (0.5, pytest.approx(1000**-1.1))
    assert synthesis.fit(table, GRAPH, rng=np.random.default_rng(7), config=config).claim() is None


@pytest.mark.long
@pytest.mark.parametrize("repeatable", [False, True])
def test_who_knows_the_seed_of_a_private_training_cannot_take_its_noise_away(table: Table, repeatable: bool) -> None:
    """An attacker who knows all records but whether the last is one trains both ways, and compares with what is out.

    The control: with noise that can be repeated they see it, and so it is said.
    """
    privacy, config = Privacy(records=1200, noise=4.0), replace(QUICK, epochs=1, records=None)

    def trained(n: int) -> Generator:
        rng, options = np.random.default_rng(7), {"config": config, "repeatable": repeatable}
        return synthesis.fit(table.subset(np.arange(n)), GRAPH, privacy, rng=rng, **options)

    out = trained(1200)
    with_it, without = (np.linalg.norm(trained(n).weights - out.weights) for n in (1200, 1199))
    assert (with_it == 0 < without) == repeatable == out.repeatable
    if not repeatable:  # the noise of two trainings parts them, as much as it parts either from the truth
        assert 0.7 < with_it / without < 1.4 and with_it > 1


def test_who_knows_the_numbers_that_are_published_knows_no_private_stream() -> None:
    known = np.random.default_rng(7)
    streams = training._Streams.of(np.random.default_rng(7), secret=True)
    spawned = [training._Streams.of(known, secret=False) for _ in range(3)]
    assert streams.initial.random() == spawned[0].initial.random()
    for name in ("order", "latent", "noise"):
        drawn = getattr(streams, name).random()
        assert all(drawn != getattr(one, name).random() for one in spawned)
        assert getattr(streams, name).bit_generator.seed_seq.entropy != known.bit_generator.seed_seq.entropy
        assert getattr(streams, name).bit_generator.seed_seq.entropy > 2**64


@pytest.mark.thorough
@pytest.mark.long
def test_noise_is_the_least_that_keeps_epsilon() -> None:
    from miaudit.dp.accounting import upper_bound

    config, privacy = GeneratorConfig(epochs=10, batch=100), Privacy(records=2000, epsilon=0.4)
    noise = privacy.resolved_noise(config)
    delta = privacy.resolved_delta
    assert upper_bound(privacy.mechanism(config), delta=delta).value <= 0.4
    less = Privacy(records=2000, noise=noise / 1.01)
    assert upper_bound(less.mechanism(config), delta=delta).value > 0.4


def test_training_moves_by_the_nominal_number_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: one more record changes neither the sampling rate, nor the steps, nor what the sum is divided by."""
    seen: list[tuple[float, int]] = []
    original = training.poisson

    def spy(rows: np.ndarray, *, rate: float, steps: int, rng: np.random.Generator) -> object:
        seen.append((rate, steps))
        return original(rows, rate=rate, steps=steps, rng=rng)

    monkeypatch.setattr(training, "poisson", spy)
    config = replace(QUICK, epochs=1, records=None)
    for n in (1200, 1199):
        synthesis.fit(
            table.subset(np.arange(n)),
            GRAPH,
            Privacy(records=900, noise=1.0),
            rng=np.random.default_rng(8),
            config=config,
        )
    assert seen == [(50 / 900, 18)] * 2


def test_the_noise_of_a_step_has_the_stated_scale(table: Table) -> None:
    """Without records in the sample, a step of SGD is noise alone: sigma clip / batch in every weight that exists."""
    config = replace(QUICK, epochs=1, optimiser="sgd", learning_rate=1.0, records=None, batch=40)
    privacy = Privacy(records=40 * 10**6, noise=1.7, clip=0.3)  # nearly every sample is empty
    network = training.Network.of(GRAPH, config)
    features = torch.from_numpy(network.encoding.encode(table.values))
    streams = training._Streams.of(np.random.default_rng(9), secret=False)
    setting = training._Setting(network, config, privacy, 1.7, features, None)
    run = training._Run(setting, [np.arange(60)], [streams])
    before = run._weights.values()
    run._step(0)
    moved = (run._weights.values() - before)[0].numpy()
    exists = network.exists.numpy() == 1
    assert not moved[~exists].any()
    expected = 1.7 * 0.3 / 40
    for scale, fits in ((expected, True), (expected * 1.5, False), (expected / 1.5, False)):
        assert (stats.kstest(moved[exists] / scale, "norm").pvalue > 1e-3) == fits


def test_training_with_privacy_is_in_float32_whatever_surrounds_it(table: Table) -> None:
    """Under autocast one record would move the sum by more than the clipping norm, if anything came out at all."""
    privacy, config = Privacy(records=1000, noise=1.0, clip=0.1), replace(QUICK, epochs=1, records=None)
    alone = synthesis.fit(table, GRAPH, privacy, rng=np.random.default_rng(3), config=config, repeatable=True)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            under = synthesis.fit(table, GRAPH, privacy, rng=np.random.default_rng(3), config=config, repeatable=True)
            norms = training.gradient_norms(table, GRAPH, rng=np.random.default_rng(3), config=config)
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_array_equal(under.weights, alone.weights)
    np.testing.assert_array_equal(
        norms, training.gradient_norms(table, GRAPH, rng=np.random.default_rng(3), config=config)
    )


@pytest.mark.long
def test_a_public_table_stops_training_and_no_private_row_does(table: Table) -> None:
    public, fresh = world(300, np.random.default_rng(10)), world(600, np.random.default_rng(20))
    few = table.subset(np.arange(60))  # few enough to be learned by heart
    config = replace(QUICK, epochs=250, patience=8, learning_rate=0.02, records=None, head=16)
    stopped = synthesis.fit(few, GRAPH, rng=np.random.default_rng(11), config=config, public=public)
    rng = np.random.default_rng(12)
    long = synthesis.fit(few, GRAPH, rng=np.random.default_rng(11), config=replace(config, patience=None))
    gain = stopped.elbo(fresh, rng=rng, draws=5).mean() - long.elbo(fresh, rng=rng, draws=5).mean()
    assert gain > 0.1 and long.elbo(few, rng=rng, draws=5).mean() > stopped.elbo(few, rng=rng, draws=5).mean()
    with pytest.raises(InputError, match="none without a public table"):
        synthesis.fit(table, GRAPH, rng=rng, config=config)
    private = Privacy(records=1200, noise=2.0)
    early = synthesis.fit(table, GRAPH, private, rng=rng, config=replace(config, epochs=3, patience=1), public=public)
    assert early.mechanism.times == 72  # all epochs are paid for


@pytest.mark.long
def test_missing_values_are_drawn_if_asked_for(table: Table) -> None:
    config = replace(QUICK, draws_missing=True, epochs=15)
    made = synthesis.fit(table, GRAPH, rng=np.random.default_rng(13), config=config).sample(
        5000, rng=np.random.default_rng(0)
    )
    assert np.isnan(made.column("site")).mean() == pytest.approx(0.2, abs=0.05)
    assert not np.isnan(made.values[:, [0, 1, 3]]).any()


@pytest.mark.long
def test_rows_and_columns_without_information_are_survived() -> None:
    schema = Schema((Column("a", missing=True), Column("b", missing=True), Column("c", "continuous", low=0, high=1)))
    values = np.column_stack([np.ones(100), np.full(100, np.nan), np.full(100, 0.25)])
    values[:50, 0] = np.nan
    graph = CausalGraph(schema, None, [("a", "b"), ("b", "c")])
    config = GeneratorConfig(epochs=80, batch=50, learning_rate=0.02)
    made = synthesis.fit(Table(schema, values), graph, rng=np.random.default_rng(0), config=config).sample(
        500, rng=np.random.default_rng(1)
    )
    assert made.column("a").mean() > 0.95 and abs(made.column("c").mean() - 0.25) < 0.05
    assert 0.2 < made.column("b").mean() < 0.8  # never seen: whatever the weights started from
    lost = Schema((Column("a", missing=True), Column("b", missing=True)))
    nothing = Table(lost, np.full((60, 2), np.nan))
    found = synthesis.fit(
        nothing, rng=np.random.default_rng(0), config=replace(config, epochs=1), privacy=Privacy(records=60, noise=1.0)
    )
    assert np.isfinite(found.weights).all()


def test_causes_can_be_drawn_from_the_table_without_privacy_only(table: Table) -> None:
    graph = CausalGraph(SCHEMA, {"x1": ["exposed", "dose"], "x2": ["site", "level"]}, [("x1", "x2")])
    config = replace(QUICK, epochs=1, empirical=("x1",), without_latent=("x1",), decoder="product")
    found = synthesis.fit(table, graph, rng=np.random.default_rng(0), config=config)
    pairs = {tuple(row) for row in found.sample(300, rng=np.random.default_rng(1)).values[:, :2]}
    assert pairs <= {tuple(row) for row in table.values[:, :2]}
    assert np.isnan(found.causes[:, 2:]).all()
    without = replace(found, causes=None, config=replace(config, empirical=()))  # the groups are drawn as learned
    assert len(without.sample(5, rng=np.random.default_rng(2))) == 5
    with pytest.raises(InputError, match="empirical: expected no groups with privacy"):
        synthesis.fit(table, graph, Privacy(records=1200, epsilon=1), rng=np.random.default_rng(0), config=config)


@pytest.mark.long
def test_the_elbo_is_below_the_likelihood_and_near_it_for_a_simple_law() -> None:
    rng = np.random.default_rng(14)
    schema = Schema((Column("a"), Column("b")))
    table = Table(schema, (rng.random((3000, 2)) < [0.3, 0.8]).astype(float))
    config = GeneratorConfig(epochs=30, learning_rate=0.01, hidden=8, latent=2)
    found = synthesis.fit(table, rng=rng, config=config)
    p = table.values.mean(0)
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum()
    assert -entropy - 0.03 < found.elbo(table, rng=rng, draws=10).mean() < -entropy + 0.005
    rare = Table(schema, [[1, 0], [0, 1]])
    unlikely, likely = found.elbo(rare, rng=rng, draws=20)
    assert unlikely < likely - 1


@pytest.mark.long
def test_a_saved_generator_draws_the_same(learned: Generator, table: Table, tmp_path: Path) -> None:
    private = synthesis.fit(
        table, GRAPH, Privacy(records=1200, epsilon=0.2), rng=np.random.default_rng(0), config=replace(QUICK, epochs=1)
    )
    for found in (learned, private):
        found.save(tmp_path / "generator.npz")
        again = Generator.load(tmp_path / "generator.npz")
        assert (again.config, again.privacy, again.graph) == (found.config, found.privacy, found.graph)
        assert again.mechanism == found.mechanism and not again.repeatable
        draws = [g.sample(20, rng=np.random.default_rng(0)).values.tobytes() for g in (found, again)]
        assert draws[0] == draws[1]
    with np.load(tmp_path / "generator.npz") as held:
        damaged = json.loads(str(held["description"]))
        del damaged["repeatable"]
        np.savez(tmp_path / "damaged.npz", weights=held["weights"], description=np.array(json.dumps(damaged)))
    with pytest.raises(InputError, match="a file with a generator"):
        Generator.load(tmp_path / "damaged.npz")
    (tmp_path / "generator.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InputError, match="a file with a generator"):
        Generator.load(tmp_path / "generator.npz")


def test_a_plain_vae_of_the_same_capacity(table: Table) -> None:
    graph = CausalGraph(SCHEMA, {"x1": ["exposed", "dose"], "x2": ["site", "level"]}, [("x1", "x2")])
    for config in (GeneratorConfig(hidden=32, head=16), GeneratorConfig(hidden=7, latent=2, layers=1)):
        wanted = training.Network.of(graph, config).parameters
        plain = training.Network.of(training.over(SCHEMA, None), training.same_capacity(graph, config))
        assert len(plain.blocks) == 1 and abs(plain.parameters - wanted) / wanted < 0.05


@pytest.mark.long
def test_norms_of_public_records_are_those_that_are_clipped(table: Table) -> None:
    norms = training.gradient_norms(table, GRAPH, rng=np.random.default_rng(0), config=QUICK)
    later = training.gradient_norms(table, GRAPH, rng=np.random.default_rng(0), config=QUICK, after=5)
    assert norms.shape == (1200,) and (norms > 0).all() and later.std() > 0 and (norms != later).any()


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"records": 1200}, "epsilon or noise, one of them, received neither"),
        ({"records": 1200, "epsilon": 1, "noise": 1}, "received both"),
        ({"records": 0, "epsilon": 1}, "privacy.records"),
        ({"records": 1200, "epsilon": -1}, "privacy.epsilon"),
        ({"records": 1200, "epsilon": float("inf")}, "privacy.epsilon"),
        ({"records": 1200, "epsilon": 1, "delta": 1.0}, "privacy.delta"),
        ({"records": 1200, "epsilon": 1, "clip": 0}, "privacy.clip"),
    ],
)
def test_bad_privacy_is_refused(privacy: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Privacy(**privacy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latent": 0}, "latent"),
        ({"epochs": 1.5}, "epochs"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"optimiser": "adan"}, "did you mean adam"),
        ({"patience": 0}, "patience"),
        ({"empirical": "x1"}, "names of groups"),
        ({"draws_missing": 1}, "draws_missing"),
    ],
)
def test_bad_configs_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GeneratorConfig(**change)  # type: ignore[arg-type]


@pytest.mark.long
def test_an_epsilon_that_no_noise_reaches_is_refused(table: Table) -> None:
    with pytest.raises(InputError, match=r"privacy.epsilon: expected one that some noise reaches.*received 1e-09"):
        synthesis.fit(
            table, GRAPH, Privacy(records=1200, epsilon=1e-9, delta=1e-12), rng=np.random.default_rng(0), config=QUICK
        )


def test_what_does_not_fit_together_is_refused(table: Table) -> None:
    rng = np.random.default_rng(0)
    other, free = Schema((Column("a"), Column("b"))), replace(QUICK, records=None)
    cases = [
        ((table.subset(np.arange(20)), GRAPH), {}, "at least as many records as a batch of 50, received 20"),
        (
            (table, CausalGraph(other, None, [("a", "b")])),
            {},
            "a graph over the schema of the table, received a in only",
        ),
        ((table, "graph"), {}, "a CausalGraph or none"),
        ((table, GRAPH, 1.0), {}, r"Privacy\(...\) or none"),
        (
            (table, GRAPH, Privacy(records=30, epsilon=1)),
            {"config": free},
            "at most the nominal 30 records, received 50",
        ),
        ((table, GRAPH, Privacy(records=900, epsilon=1)), {}, "the 900 of privacy, received 1,200"),
        ((table, GRAPH), {"public": Table(other, [[0, 1]])}, "another schema"),
        (("table", GRAPH), {}, "tables, at least one"),
    ]
    for arguments, options, message in cases:
        with pytest.raises(InputError, match=message):
            synthesis.fit(*arguments, rng=rng, **{"config": QUICK} | options)  # type: ignore[arg-type]
    for rows in (None, np.ones((2, 5), bool), np.ones((2, len(table)))):
        with pytest.raises(InputError, match="rows"):
            training.fit_many(table, GRAPH, rows=rows, rng=rng, config=QUICK)


def test_weights_that_explode_are_reported(table: Table) -> None:
    config = replace(QUICK, optimiser="sgd", learning_rate=1e30, epochs=2)
    with pytest.raises(MiauditError, match="infinite or NaN"):
        synthesis.fit(table, GRAPH, rng=np.random.default_rng(0), config=config)


def test_noise_is_brought_to_the_device_as_it_was_drawn(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere the noise is drawn into numbers of its own and copied; here that path on the CPU, beside the usual."""
    config, privacy = GeneratorConfig(epochs=2, batch=50), Privacy(records=400, noise=1.0)
    options = {"config": config, "repeatable": True}
    usual = training.fit(table, GRAPH, privacy, rng=np.random.default_rng(3), **options)
    monkeypatch.setattr(Network, "on", lambda self, device: replace(self))
    away = training.fit(table, GRAPH, privacy, rng=np.random.default_rng(3), **options)
    np.testing.assert_array_equal(away.weights, usual.weights)
    monkeypatch.setattr(training, "standard_normal", lambda count, rng: np.zeros(count, dtype=np.float32))
    silent = training.fit(table, GRAPH, privacy, rng=np.random.default_rng(3), **options)
    assert np.abs(silent.weights - usual.weights).max() > 1e-4


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_and_none_is_stored(table: Table, learned: Generator) -> None:
    with pytest.raises(InputError, match=r"device: expected auto or cpu on this machine, received cuda; torch sees no"):
        training.check_fit(table, config=GeneratorConfig(device="cuda"))
    with pytest.raises(InputError, match=r"device: expected cpu, cuda, cuda:N or auto, received 'gpu'"):
        GeneratorConfig(device="gpu")
    assert GeneratorConfig(device="auto") == GeneratorConfig()
    assert "device" not in learned._stored()[0]["config"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_trains_what_the_cpu_does(table: Table) -> None:
    config, privacy = GeneratorConfig(epochs=2, batch=50), Privacy(records=400, noise=1.0)
    found = [
        training.fit(
            table,
            GRAPH,
            privacy,
            rng=np.random.default_rng(3),
            config=replace(config, device=device),
            public=table,
            repeatable=True,
        ).weights
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)
