"""The Dirichlet model against scipy, closed forms and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from disclosure import truths
from miaudit.disclosure import dirichlet
from miaudit.disclosure.dirichlet import World
from miaudit.errors import InputError

PAPER = World(classes=10, aleatoric=0.5, epistemic=0.25, calibration_error=0.2)


def test_parameters_have_the_meaning_of_section_iv() -> None:
    for law in (PAPER.alpha_in, PAPER.alpha_out):
        assert law.sum() == pytest.approx(1 / 0.25)  # Eq. (28)
    assert PAPER.alpha_out[0] * 0.25 == pytest.approx(1 - 0.5)  # Eq. (23)
    assert PAPER.alpha_in[0] * 0.25 == pytest.approx(1.2 * 0.5)  # Eq. (24)
    np.testing.assert_allclose(PAPER.alpha_in[1:], (0.5 * 0.2 + 0.5 - 0.2) / (9 * 0.25))  # Eq. (30b) as printed


def test_check_values_of_the_errata() -> None:
    """Erratum E7, to the printed digits, and E2: the factor stands before all four digamma terms of Eq. (31)."""
    of_vector = truths.symmetrised_divergence(PAPER.alpha_in, PAPER.alpha_out)
    assert of_vector == pytest.approx(0.56458, abs=5e-6)
    both = [dirichlet.marginal(law, 0) for law in (PAPER.alpha_in, PAPER.alpha_out)]
    assert truths.symmetrised_divergence(*both) == pytest.approx(0.21074, abs=5e-6)
    from scipy.special import digamma as psi

    terms = psi(2.4) - psi(2.0), psi(0.5 / 2.25) - psi((0.6 - 0.2) / 2.25)
    assert 0.4 * sum(terms) == pytest.approx(0.56458, abs=5e-6)
    assert abs(0.4 * terms[0] + terms[1] - 0.56458) > 0.1  # control: as printed


@pytest.mark.parametrize(("a", "b"), [([2.0, 0.3, 1.1], [1.0, 2.0, 0.7]), ([40.0, 30.0], [39.0, 35.0])])
def test_divergences_agree_with_draws_and_with_each_other(a: list[float], b: list[float]) -> None:
    p = stats.dirichlet.rvs(a, size=200_000, random_state=np.random.default_rng(0))
    keep = (p > 0).all(axis=1)
    ratio = dirichlet.log_density(p[keep], a) - dirichlet.log_density(p[keep], b)
    assert dirichlet.divergence(a, b) == pytest.approx(ratio.mean(), abs=5 * ratio.std() / 400)
    both = dirichlet.divergence(a, b) + dirichlet.divergence(b, a)
    assert truths.symmetrised_divergence(a, b) == pytest.approx(float(both), rel=1e-10)
    assert dirichlet.divergence(a, a) == 0


def test_density_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1.0, 2.0, 3.0], size=5)
    for row in p:
        assert dirichlet.log_density(row, [0.4, 2.0, 5.0]) == pytest.approx(
            stats.dirichlet([0.4, 2.0, 5.0]).logpdf(row)
        )


def test_draws_have_the_marginals_of_the_law() -> None:
    alpha = np.array([2.0, 0.3, 0.05])
    p = dirichlet.sample(alpha, 20_000, rng=np.random.default_rng(2))
    for k in range(3):
        own, others = dirichlet.marginal(alpha, k)
        assert stats.kstest(np.clip(p[:, k], 1e-300, 1), stats.beta(own, others).cdf).pvalue > 0.001
    assert stats.kstest(p[:, 0], stats.beta(2.0, 0.45).cdf).pvalue < 1e-4  # control
    many = dirichlet.sample(np.stack([alpha, 10 * alpha]), 7, rng=np.random.default_rng(3))
    assert many.shape == (2, 7, 3)
    np.testing.assert_allclose(many.sum(axis=2), 1)
    assert np.isfinite(dirichlet.sample([1e-4, 1e-4], 1000, rng=np.random.default_rng(4))).all()


def test_the_marginal_density_of_erratum_e3_integrates_to_one() -> None:
    own, others = dirichlet.marginal(PAPER.alpha_out, 0)

    def density(x: float, power: float) -> float:
        return float(x**power * (1 - x) ** (others - 1) / np.exp(dirichlet.log_beta(np.array([own, others]))))

    assert integrate.quad(density, 0, 1, args=(own - 1,))[0] == pytest.approx(1)
    assert abs(integrate.quad(density, 0, 1, args=(own,))[0] - 1) > 0.3  # control: the printed exponent


def test_marginals_of_many_records_and_labels() -> None:
    alpha = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 1e-9]])
    np.testing.assert_allclose(dirichlet.marginal(alpha, [2, 0]), [[3.0, 3.0], [4.0, 5.0 + 1e-9]])
    np.testing.assert_allclose(dirichlet.marginal([1.0, 2.0, 3.0], [0, 1]), [[1.0, 5.0], [2.0, 4.0]])
    for label in (3, -1, 0.5, [0, 1, 2]):
        with pytest.raises(InputError, match="label"):
            dirichlet.marginal(alpha, label)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"classes": 1}, "K >= 2, received 1"),
        ({"classes": 2.5}, "whole number"),
        ({"aleatoric": 0.95}, r"0 < aleatoric <= 1 - 1/K, which is 0.9 for K = 10, received 0.95"),
        ({"aleatoric": 0.0, "calibration_error": 0.0}, "0 < aleatoric"),
        ({"aleatoric": 0.1}, r"Delta / \(1 \+ Delta\) < aleatoric, which is 0.166667 at calibration_error = 0.2"),
        ({"epistemic": 0.0}, "epistemic > 0, received 0"),
        ({"epistemic": float("nan")}, "epistemic: expected a finite number"),
        ({"calibration_error": -0.1}, "calibration_error >= 0, received -0.1"),
        ({"calibration_error": "0.2"}, "finite number"),
    ],
)
def test_the_domain_of_erratum_e5_is_checked(changed: dict[str, object], message: str) -> None:
    values = {"classes": 10, "aleatoric": 0.5, "epistemic": 0.25, "calibration_error": 0.2} | changed
    with pytest.raises(InputError, match=message):
        World(**values)  # type: ignore[arg-type]


def test_the_edge_of_the_domain_is_inside() -> None:
    edge = World(classes=10, aleatoric=1 - 1 / 10, epistemic=0.25, calibration_error=0.0)
    np.testing.assert_allclose(edge.alpha_in, edge.alpha_out)
    np.testing.assert_allclose(edge.alpha_in, 0.4)


@pytest.mark.parametrize("alpha", [[1.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [1.0], 3.0, [1.0, np.inf]])
def test_bad_parameters_are_refused(alpha: object) -> None:
    with pytest.raises(InputError, match="parameters"):
        dirichlet.divergence(alpha, alpha)


@pytest.mark.long
def test_goodness_accepts_the_right_law_and_refuses_others() -> None:
    rng = np.random.default_rng(5)
    right = np.stack([rng.dirichlet([4.0, 1.0, 0.5], size=40) for _ in range(40)])
    found = dirichlet.goodness(right, dirichlet.fit(right).alpha, replicates=39, rng=rng)
    assert found.p_value is not None
    assert 0.3 < found.p_value.mean() < 0.7
    assert found.pooled < 0.03
    # two kinds of models, half of them sure and half of them not: no Dirichlet
    wrong = np.stack(
        [np.concatenate([rng.dirichlet([50.0, 2.0, 2.0], 20), rng.dirichlet([4.0, 25.0, 25.0], 20)]) for _ in range(40)]
    )
    refused = dirichlet.goodness(wrong, dirichlet.fit(wrong).alpha, replicates=39, rng=rng)
    assert refused.p_value is not None
    assert np.mean(refused.p_value < 0.05) > 0.9
    assert refused.pooled > 0.1


def test_goodness_of_the_labels_asked_for() -> None:
    rng = np.random.default_rng(6)
    p = np.stack([rng.dirichlet([4.0, 1.0, 0.5], size=30) for _ in range(3)])
    alpha = dirichlet.fit(p).alpha
    each = [dirichlet.goodness(p, alpha, label=k).distance for k in range(3)]
    mixed = dirichlet.goodness(p, alpha, label=[0, 1, 2]).distance
    np.testing.assert_allclose(mixed, [each[k][k] for k in range(3)])
    by_scipy = stats.kstest(p[1, :, 1], stats.beta(*dirichlet.marginal(alpha[1], 1)).cdf).statistic
    assert mixed[1] == pytest.approx(by_scipy)
    with pytest.raises(InputError, match="rng"):
        dirichlet.goodness(p, alpha, replicates=5)
    with pytest.raises(InputError, match="alpha"):
        dirichlet.goodness(p, alpha[:2])
