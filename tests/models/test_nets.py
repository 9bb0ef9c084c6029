"""Networks: sizes known from the literature, records kept apart, descriptions that travel."""

from __future__ import annotations

import pickle

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import nets  # noqa: E402
from miaudit.models.private import check_records_stay_apart  # noqa: E402

FACTORIES = [
    (nets.mlp(12, 3, hidden=(8, 5)), (12,), 3),
    (nets.mlp(12, 3, hidden=()), (3, 2, 2), 3),
    (nets.small_convnet(1, 4, width=4), (1, 9, 7), 4),
    (nets.resnet16(3, 10, width=1), (3, 16, 16), 10),
    (nets.mlp(12, 3, hidden=(8, 5), dropout=0.5), (12,), 3),
    (nets.small_convnet(1, 4, width=4, dropout=0.5), (1, 9, 7), 4),
    (nets.resnet16(3, 10, width=1, dropout=0.5), (3, 16, 16), 10),
    (nets.resnet16(3, 10, width=1, normalisation="batch"), (3, 16, 16), 10),
]


@pytest.mark.long
@pytest.mark.parametrize(("factory", "shape", "classes"), FACTORIES, ids=str)
def test_logits_have_one_row_for_each_record_and_depend_on_it_alone(factory, shape, classes) -> None:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)  # a small network may draw rectifiers that are all at rest
        net, x = factory().eval(), torch.randn(4, *shape)
    assert net(x).shape == (4, classes)
    check_records_stay_apart(net, x)
    x.requires_grad_()
    slope = torch.autograd.grad(net(x)[1].sum(), x)[0]
    assert slope[1].abs().sum() > 0
    assert not slope[[0, 2, 3]].any()


@pytest.mark.parametrize(("factory", "shape", "classes"), FACTORIES, ids=str)
def test_a_description_travels_and_draws_from_torchs_generator(factory, shape, classes) -> None:
    other = pickle.loads(pickle.dumps(factory))
    assert other == factory
    assert hash(other) == hash(factory)
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        a = factory().state_dict()
        torch.manual_seed(3)
        b = other().state_dict()
        c = other().state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


def normalisations(net: nn.Module) -> list[nn.Module]:
    return [m for m in net.modules() if isinstance(m, nn.GroupNorm | nn.BatchNorm2d)]


def test_the_residual_network_normalises_as_it_is_asked_to_and_groups_are_as_if_there_were_no_such_option() -> None:
    group, batch = nets.resnet16(width=2), nets.resnet16(width=2, normalisation="batch")
    assert nets.resnet16(width=2, normalisation="group") == group
    assert "normalisation=batch" in str(batch)
    assert {type(m) for m in normalisations(group())} == {nn.GroupNorm}
    assert {type(m) for m in normalisations(batch())} == {nn.BatchNorm2d}
    assert len(normalisations(batch())) == len(normalisations(group()))
    assert [p.shape for p in batch().parameters()] == [p.shape for p in group().parameters()]
    for factory, _, _ in FACTORIES[:-1]:
        assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in factory().modules())


@pytest.mark.thorough
@pytest.mark.long
def test_noise_reaches_the_outputs_of_batch_normalisation_and_less_those_of_group_normalisation() -> None:
    """The reason of the option: groups scale a noisy image anew, running averages of clean ones do not."""
    found = {}
    for normalisation in ("group", "batch"):
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            net = nets.resnet16(normalisation=normalisation)()
            clean = torch.randn(64, 3, 4, 4).repeat_interleave(4, 2).repeat_interleave(4, 3)  # smooth, as images are
            with torch.no_grad():
                for _ in range(30):
                    net.train()(clean)
                net.eval()
                found[normalisation] = float(net(clean + torch.randn_like(clean)).std() / net(clean).std())
    assert found["batch"] > 1.2 * found["group"], found


def test_the_residual_network_has_depth_16_and_the_sizes_of_the_paper() -> None:
    """Wide residual networks of depth 16 (Zagoruyko and Komodakis, Table 4): 0.7M at width 2, 2.8M at 4, 11.0M at 8."""
    for width, millions in ((4, 2.75), (8, 10.96)):
        net = nets.resnet16(3, 10, width=width)()
        assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.005)
        convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
        assert len(convolutions) == 6 * 2 + 4
    shapes = []
    for layer in nets.resnet16()():
        layer.register_forward_hook(lambda _m, _i, out: shapes.append(out.shape[1:]))
    net = nets.resnet16()()
    x = torch.zeros(1, 3, 32, 32)
    for layer in net:
        x = layer(x)
        shapes.append(tuple(x.shape[1:]))
    assert (16, 32, 32) in shapes
    assert (32, 16, 16) in shapes
    assert (64, 8, 8) in shapes


@pytest.mark.parametrize(
    ("make", "layers"),
    [
        (lambda **given: nets.mlp(12, 3, hidden=(8, 5), **given), [nn.Dropout] * 2),
        (lambda **given: nets.small_convnet(1, 4, width=4, **given), [nn.Dropout2d] * 3),
        (lambda **given: nets.resnet16(3, 10, **given), [nn.Dropout] * 6),
    ],
)
def test_dropout_keeps_the_names_of_the_weights_and_none_is_as_if_there_were_no_such_option(make, layers) -> None:
    plain, dropping = make(), make(dropout=0.3)
    found = [m for m in dropping().modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    assert [type(m) for m in found] == layers
    assert {m.p for m in found} == {0.3}
    dropping().load_state_dict(plain().state_dict())
    assert make(dropout=0.0) == plain
    assert str(make(dropout=0)) == str(plain)
    assert "dropout=0.3" in str(dropping)
    assert not [m for m in plain().modules() if isinstance(m, nn.modules.dropout._DropoutNd)]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: nets.mlp(0, 2), "inputs"),
        (lambda: nets.mlp(3, 2, hidden=(4, 0)), r"hidden\[1\]"),
        (lambda: nets.small_convnet(1, 2, width=1.5), "width"),
        (lambda: nets.resnet16(classes=True), "classes"),
        (lambda: nets.mlp(3, 2, dropout=1.0), "dropout"),
        (lambda: nets.mlp(3, 2, hidden=(), dropout=0.5), "dropout: expected 0 without hidden layers"),
        (lambda: nets.small_convnet(3, 2, dropout=-0.1), "dropout"),
        (lambda: nets.resnet16(dropout=True), "dropout"),
        (lambda: nets.resnet16(normalisation="bath"), "normalisation: expected 'group' or 'batch', .*mean batch"),
        (lambda: nets.resnet16(normalisation=None), "normalisation"),
    ],
)
def test_sizes_that_are_none_are_refused(call, argument) -> None:
    with pytest.raises(InputError, match=argument):
        call()
