"""A reference by shadow models: each record scored by one that did not learn it, as a test of zero-run corrections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from miaudit import Plan, Reference, audit
from miaudit.attacks import signals
from miaudit.auditing.reference import SHADOW_MODELS
from miaudit.collect import run_campaign
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import Answers
from miaudit.errors import InputError
from miaudit.findings.audit import ScoreFindings
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Precomputed, SklearnTarget

LINE = SklearnTarget(LogisticRegression())
TREE = SklearnTarget(DecisionTreeClassifier())


def campaign(
    target: SklearnTarget = LINE, *, trait: float = 0.0, n: int = 1000, seed: int = 0, **options: Any
) -> Campaign:
    """Members differ by two covariates, and by a trait that nobody recorded and that makes labels noisy."""
    rng = np.random.default_rng([5, seed])
    known, hidden, x = rng.normal(size=(n, 2)), rng.normal(size=n), rng.normal(size=(n, 4))
    noise = np.exp(-1.5 * (hidden if trait else known[:, 0]))
    y = (x[:, 0] + x[:, 1] + 0.4 * noise * rng.normal(size=n) > 0).astype(int)
    member = rng.random(n) < 1 / (1 + np.exp(-0.7 * known[:, 0] - 0.3 * known[:, 1] - trait * hidden))
    records = Records(x.astype(np.float32), y, member, {"covariates": known, **options.pop("fields", {})}, "labels")
    given = {"design": "zero-run", "attacks": ("loss",), "shadows": Shadows(models=8), "reference": True, **options}
    return Campaign(target, records, **given)


def audited(made: Campaign, seed: int = 0) -> ScoreFindings:
    found = run_campaign.collect(made, rng=np.random.default_rng(seed))
    plan = Plan(primary_metric="auc", bounds=None, propensity_model="line", reference=Reference(test=SHADOW_MODELS))
    return audit(found.evidence, plan=plan, notes=found.notes, rng=np.random.default_rng(seed))


def test_each_record_is_asked_of_a_model_that_did_not_learn_it_and_compared_with_the_others() -> None:
    made = campaign(TREE, n=60)
    answers = Answers.of(made, Draws.of(made, np.random.default_rng(1)), None)
    found, shadows = answers.of_shadow_models(), answers.shadows
    assert shadows is not None and found.shadows is not None and found.shadows.models == shadows.models - 1
    chosen = set()
    for i in range(60):  # the slow twin
        rows = [shadows.model(m)[i].tolist() for m in range(8)]
        others = [found.shadows.model(m)[i].tolist() for m in range(7)]
        candidates = [
            m
            for m in range(8)
            if not shadows.included[m, i]
            and rows[m] == found.outputs[i].tolist()
            and rows[:m] + rows[m + 1 :] == others
            and np.delete(shadows.included[:, i], m).tolist() == found.shadows.included[:, i].tolist()
        ]
        assert candidates, i
        chosen.add(candidates[0])
    assert len(chosen) > 4


def test_other_scores_are_what_they_are_without_a_reference() -> None:
    made = campaign(TREE, n=80, attacks=("lira_online", "loss", "gaussian_lira"))
    one, other = (
        run_campaign.collect(replace(made, reference=wanted), rng=np.random.default_rng(2)).evidence
        for wanted in (True, False)
    )
    assert set(one.scores) - set(other.scores) == {SHADOW_MODELS}
    assert all(np.array_equal(one.scores[name], other.scores[name]) for name in other.scores)


def test_a_unit_is_asked_of_models_that_learned_none_of_its_records() -> None:
    made = campaign(TREE, n=80, fields={"unit": np.arange(80) // 4})
    answers = Answers.of(made, Draws.of(made, np.random.default_rng(1)), None)
    right = np.asarray(answers.of_shadow_models().outputs).argmax(axis=1) == made.records.y
    assert right.mean() < 0.95
    learned = np.asarray(answers.outputs).argmax(axis=1) == made.records.y
    assert learned[made.records.member].all()  # the control: a tree knows what it learned


@pytest.mark.thorough
@pytest.mark.long
def test_what_covariates_leave_out_is_refuted_and_a_leak_is_not() -> None:
    missed = audited(campaign(trait=1.5))
    assert missed.verdict.status == "refused" and missed.exit_code == 4
    assert missed.reference is not None and missed.reference.refuted
    assert "A model that did not learn the record would have shown an AUC of" in missed.reference.text
    assert "did not learn it" in missed.reference.conditions
    leak = audited(campaign(TREE))
    assert leak.verdict.status == "flagged"
    assert leak.reference is not None and not leak.reference.refuted
    assert any(note.startswith(f"{SHADOW_MODELS}: loss as it would be") for note in leak.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"design": "one-run"}, "none, unless the design is zero-run"),
        ({"shadows": Shadows()}, "shadow.models: expected 2 or more"),
        ({"shadows": Shadows(models=2), "attacks": ("lira_online",)}, "shadow.models: expected"),
    ],
)
def test_what_gives_no_reference_is_refused_before_anything_is_trained(changes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_campaign.collect(replace(campaign(n=40), **changes), rng=np.random.default_rng(0))


def elsewhere(folder: Path, signal: str = "", n: int = 120, **options: Any) -> Campaign:
    """A campaign whose shadow models were trained elsewhere: their outputs, or one signal of these."""
    rng = np.random.default_rng(8)
    included = np.stack([rng.permutation(8) < 4 for _ in range(n)], axis=1)
    records = replace(campaign(n=n).records, x=np.arange(n))
    logits = (
        rng.normal(size=(9, n, 2)) + 4 * np.concatenate([[records.member], included])[..., None] * np.eye(2)[records.y]
    )
    of = {"outputs": logits[1:]}
    if signal:
        each = [signals.member_scores(labels=records.y, logits=one, names=[signal])[signal] for one in logits[1:]]
        of = {"signals": np.stack(each)}
    np.savez(folder / f"given_{signal}.npz", included=included, **of)
    given = GivenShadows.load(folder / f"given_{signal}.npz", signal=signal or "logit_confidence")
    options = {"design": "zero-run", "reference": True, "shadows": Shadows(given=given), **options}
    return Campaign(Precomputed(logits[0]), records, **options)


@pytest.mark.parametrize(
    ("signal", "attacks"),
    [
        ("logit_confidence", ("lira_online", "label_only")),
        ("logit_confidence", ()),
        ("logit_confidence", ("logit_confidence", "loss")),
        ("loss", ("loss",)),
    ],
)
def test_signals_that_were_given_make_the_reference_that_their_outputs_make(
    signal: str, attacks: tuple[str, ...], tmp_path: Path
) -> None:
    by_outputs, by_signals = (
        run_campaign.collect(elsewhere(tmp_path, kept, attacks=attacks), rng=np.random.default_rng(4)).evidence
        for kept in ("", signal)
    )
    assert list(by_outputs.scores) == list(by_signals.scores)
    for name, values in by_outputs.scores.items():
        np.testing.assert_allclose(by_signals.scores[name], values, rtol=1e-4, atol=1e-4)
    inside = by_signals.member
    auc = {name: np.mean(values[inside][:, None] > values[~inside]) for name, values in by_signals.scores.items()}
    assert abs(auc[SHADOW_MODELS] - 0.5) < 0.15 < auc[next(iter(auc))] - 0.5  # the control: the audited model leaks


def test_signals_of_a_target_that_gives_signals_are_a_reference_too(tmp_path: Path) -> None:
    made = elsewhere(tmp_path, "logit_confidence", attacks=("lira_offline",))
    given = GivenShadows.load(tmp_path / "given_logit_confidence.npz", given="signals")
    values = np.stack([np.arange(120.0), np.ones(120)], axis=1)
    made = replace(made, target=Precomputed(values, "signals"), shadows=Shadows(given=given))
    found = run_campaign.collect(made, rng=np.random.default_rng(4)).evidence.scores
    assert list(found) == ["lira_offline", "score_0", SHADOW_MODELS]
    answers = Answers.of(made, Draws.of(made, np.random.default_rng(4)), None)
    asked = np.asarray(answers.of_shadow_models().outputs)
    assert asked.shape == (120,)
    assert answers.shadows is not None
    own = np.stack([answers.shadows.model(m) for m in range(8)])
    assert ((own == asked) & ~answers.shadows.included).any(axis=0).all()


@pytest.mark.parametrize(
    ("signal", "options", "message"),
    [
        ("logit_confidence", {"attacks": ("loss",)}, r"for a reference of loss, received signals of logit_confidence"),
        ("loss", {"attacks": ("logit_confidence",)}, "for a reference of logit_confidence"),
        ("loss", {"attacks": ("lira_online",)}, "for a reference of lira_online, received signals of loss"),
        ("logit_confidence", {"attacks": ("gaussian_lira", "lira_online")}, "for a reference of gaussian_lira"),
        ("logit_confidence", {"attacks": ("label_only",)}, "or leave the reference out"),
        (
            "",
            {"attacks": ("label_only",), "copies": np.zeros((120, 3), int)},
            r"labels of data.copies, .* which has none",
        ),
    ],
)
def test_what_shadow_models_elsewhere_were_not_asked_is_refused(
    signal: str, options: Any, message: str, tmp_path: Path
) -> None:
    made = elsewhere(tmp_path, signal, **options)
    with pytest.raises(InputError, match=r"shadow\.outputs_path: expected .*" + message):
        run_campaign.collect(made, rng=np.random.default_rng(0))
    run_campaign.collect(replace(made, reference=False, attacks=("label_only",)), rng=np.random.default_rng(0))


@pytest.mark.parametrize("attack", ["label_only", "label_only_calibrated", "label_only_learned"])
def test_changed_copies_are_asked_of_the_model_that_is_asked_of_the_record(attack: str) -> None:
    made = campaign(TREE, n=60)
    copies = made.records.x[:, None] + 0.3 * np.random.default_rng(1).normal(size=(60, 3, 4))
    made = replace(made, attacks=(attack,), copies=copies.astype(np.float32))
    answers = Answers.of(made, Draws.of(made, np.random.default_rng(1)), None)
    found, shadows, on_copies = answers.of_shadow_models(), answers.shadows, answers.shadow_copies
    assert shadows is not None and on_copies is not None
    assert found.copies is not None and found.shadow_copies is not None and found.shadows is not None
    for i in range(60):  # the slow twin

        def said(m: int, of: Any, of_copies: Any, i: int = i) -> list[Any]:
            return [of.model(m)[i].tolist(), of_copies.model(m)[3 * i : 3 * i + 3].tolist()]

        everyone = [said(m, shadows, on_copies) for m in range(8)]
        mine = [found.outputs[i].tolist(), found.copies[i].tolist()]
        others = [said(m, found.shadows, found.shadow_copies) for m in range(7)]
        assert any(
            not shadows.included[m, i] and everyone[m] == mine and everyone[:m] + everyone[m + 1 :] == others
            for m in range(8)
        )
    scores = run_campaign.collect(made, rng=np.random.default_rng(1)).evidence.scores
    assert list(scores) == [attack, "loss", SHADOW_MODELS]
    assert not np.array_equal(scores[attack], scores[SHADOW_MODELS])


def test_it_is_no_covariate() -> None:
    with pytest.raises(InputError, match="use it as test"):
        Reference(covariate=SHADOW_MODELS, trained_on_neither=True)
