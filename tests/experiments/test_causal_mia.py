"""The trainer of experiments/causal_mia against a loop, and its tiny form against expected.json."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import yaml
from causal_mia import dpsgd
from scipy.stats import norm

import miaudit
from miaudit.findings.verdict import no_answer

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "causal_mia"


def one_record_at_a_time(features, targets, plan, *, models, rng, extra):
    """DP-SGD as one would write it down: for each model, for each record of the batch, clip its gradient and add it."""
    n, d = features.shape
    share = plan.batch / n
    weights = [np.zeros(d) for _ in range(models)]
    for _ in range(plan.steps):
        in_batch = rng.random(n) < share
        coins = rng.random(models) < share
        noise = rng.standard_normal((models, d))
        for j in range(models):
            w = weights[j]
            records = [(features[i], targets[i]) for i in range(n) if in_batch[i]]
            if extra[2][j] and coins[j]:
                records.append((extra[0][j], extra[1][j]))
            total = np.zeros(d)
            for a, y in records:
                gradient = (a @ w - y) * a + (plan.l2 * w if plan.l2_clipped else 0.0)
                size = np.sqrt(np.sum(gradient**2))
                total = total + (gradient if size <= plan.clip else gradient * plan.clip / size)
            step = (total + plan.noise * plan.clip * noise[j]) / plan.batch
            weights[j] = w - plan.rate * (step if plan.l2_clipped else step + plan.l2 * w)
    return np.array(weights)


@pytest.mark.long
@pytest.mark.parametrize("l2_clipped", [False, True])
@pytest.mark.parametrize("clip", [0.3, 5.0, 1e6])
def test_dpsgd_equals_a_loop(l2_clipped: bool, clip: float) -> None:
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(60, 4)), rng.normal(size=60)
    extra = (rng.normal(size=(3, 4)), rng.normal(size=3), np.array([True, False, True]))
    plan = dpsgd.DPSGD(steps=40, batch=12, rate=0.1, noise=0.5, clip=clip, l2=0.7, l2_clipped=l2_clipped)
    options = {"models": 3, "extra": extra}
    fast = dpsgd.train(features, targets, plan, rng=np.random.default_rng(1), **options)
    slow = one_record_at_a_time(features, targets, plan, rng=np.random.default_rng(1), **options)
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-12)
    other = dpsgd.train(features, targets, replace(plan, clip=clip * 1.1), rng=np.random.default_rng(1), **options)
    assert np.abs(other - slow).max() > 1e-6  # the control


@pytest.mark.long
def test_an_extra_record_is_seen_by_its_own_model_only() -> None:
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(60, 4)), rng.normal(size=60)
    plan = dpsgd.DPSGD(steps=20, batch=12)
    extra = (rng.normal(size=(3, 4)), rng.normal(size=3), np.array([True, False, False]))
    some = dpsgd.train(features, targets, plan, models=3, rng=np.random.default_rng(1), extra=extra)
    none = dpsgd.train(
        features, targets, plan, models=3, rng=np.random.default_rng(1), extra=(*extra[:2], np.zeros(3, bool))
    )
    assert np.abs(some - none).max(axis=1).astype(bool).tolist() == [True, False, False]


@pytest.mark.long
def test_evaluations_are_kept_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("synthetic", "figures", "dpsgd"):  # other experiments have modules of the same names
        monkeypatch.delitem(sys.modules, name, raising=False)
    run = import_module("causal_mia.run")
    rng = np.random.default_rng(0)
    rows = {
        name: dict(zip(run.FIELDS, rng.random(len(run.FIELDS)).tolist(), strict=True)) | {"curve": rng.random(101)}
        for name in ("one_run", "zero_run_raw")
    }
    again = run.unpacked(run.packed(rows))
    assert list(again) == list(rows)  # evaluations that a repetition does not have are left out
    for name, row in rows.items():
        assert {key: value for key, value in again[name].items() if key != "curve"} == {
            key: value for key, value in row.items() if key != "curve"
        }
        assert np.array_equal(again[name]["curve"], row["curve"])
    for name in ("synthetic", "figures", "dpsgd"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.slow
@pytest.mark.long
def test_the_tiny_form(tmp_path: Path) -> None:
    command = [sys.executable, FOLDER / "run.py", "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    rows = {name: row["mean"] for name, row in found["targets"]["ridge"].items()}
    assert rows["zero_run_raw"]["auc"] > rows["one_run"]["auc"] + 0.08
    assert abs(rows["zero_run_oracle"]["auc"] - rows["one_run"]["auc"]) < 0.02
    drawn = {"roc-ridge", "roc-dpsgd", "roc-dpsgd_calibrated", "figure-4-loss"}
    drawn |= {f"figure-4-{what}-{which}" for what in ("log-odds", "weights") for which in ("oracle", "learned")}
    assert {path.name for path in tmp_path.iterdir()} >= {f"{name}.{kind}" for name in drawn for kind in ("svg", "png")}
    raw = found["crossings"]["dpsgd"]["zero_run_raw"]
    assert raw["printed"]["above"] > 0
    assert found["crossings"]["dpsgd_calibrated"]["zero_run_raw"]["guaranteed"]["above"] > 0


@pytest.mark.slow
@pytest.mark.long
def test_the_guarantee_by_an_accountant() -> None:
    pytest.importorskip("dp_accounting", reason="the accountant is the extra `dp`")
    plan, expected = dpsgd.DPSGD(), json.loads((FOLDER / "expected.json").read_text())["accountant"]
    for name, noise in (("noise variance 3", 3**0.5), ("noise standard deviation 3", 3.0)):
        assert abs(dpsgd.epsilon(replace(plan, noise=noise), 2000, 0.01) - expected[name]) < 0.05
    forms = yaml.safe_load((FOLDER / "config.yaml").read_text())
    used = {forms[form]["dpsgd_calibrated"]["plan"]["noise"] for form in forms}
    assert len(used) == 1
    noise = dpsgd.calibrated(plan, 2000, 0.602, 0.01)
    assert abs(noise - used.pop()) < 5e-3
    # One step without sampling is the Gaussian mechanism, whose delta has a closed form.
    one = replace(plan, steps=1, batch=2000, noise=2.0)
    epsilon = dpsgd.epsilon(one, 2000, 0.01)
    delta = norm.cdf(1 / 4 - epsilon * 2) - np.exp(epsilon) * norm.cdf(-1 / 4 - epsilon * 2)
    assert abs(delta - 0.01) < 1e-4


@pytest.mark.long
def test_the_limit_of_epsilon_delta() -> None:
    figures = import_module("causal_mia.figures")
    fpr = np.linspace(0, 1, 11)
    for epsilon, delta in ((0.602, 0.01), (3.6, 0.01), (0.0, 0.2)):
        edge = figures.limit(fpr, epsilon, delta)
        # The two tests of the definition, for each rejection region: tpr <= e^eps fpr + delta, and that of complements.
        assert (edge <= np.exp(epsilon) * fpr + delta + 1e-12).all()
        assert (1 - fpr <= np.exp(epsilon) * (1 - edge) + delta + 1e-12).all()
        touched = np.isclose(edge, np.exp(epsilon) * fpr + delta)
        touched |= np.isclose(1 - fpr, np.exp(epsilon) * (1 - edge) + delta) | (edge == 1)
        assert touched.all()


@pytest.mark.slow
@pytest.mark.long
def test_an_answer_is_one_of_the_audit_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever makes ``miaudit.audit`` refuse, refuses here: overlap, a challenge, a learning curve."""
    real_shift = import_module("causal_mia.real_shift")
    shift = ("Digits, ink", "real", 1000, FOLDER, 1)
    told = real_shift.audit(*shift)
    assert all("value" in told[plan] for plan in real_shift.PLANS)
    honest = miaudit.audit

    def refusing(evidence, **options):
        found = honest(evidence, **options)
        kept = {name: getattr(found.verdict, name) for name in ("metric", "threshold", "confidence")}
        return replace(found, verdict=no_answer("refused", "the propensities are refuted", **kept))

    monkeypatch.setattr(miaudit, "audit", refusing)
    refused = real_shift.audit(*shift)
    assert all(refused[plan]["status"] == "refused" and "value" not in refused[plan] for plan in real_shift.PLANS)
    assert real_shift.summary([told, refused])["stack"]["answered"] == 1
