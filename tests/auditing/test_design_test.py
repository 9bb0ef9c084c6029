"""A randomised design that covariates contradict has no verdict and no bound, in every design and by every door."""

import json

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.auditing.plan import Bounds
from miaudit.collect import from_tokens
from miaudit.command.results import summary
from miaudit.dp.verdict import Claim
from miaudit.report import audit_page


def published(design, *, fair=False, n=2000, runs=1, **fields):
    """Scores that follow a date, as membership does: nothing is memorised. ``fair``: coins decided."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 2))
    parts = []
    for _ in range(runs):
        member = rng.random(n) < (0.5 if fair else 1 / (1 + np.exp(-2 * x[:, 0])))
        score = 2 * x[:, 0] + rng.normal(size=n) + fair * member
        given = {"covariates": x, "covariate_names": ["date", "length"], "design": design, **fields}
        parts.append(Evidence(score=score, member=member, **given))
    return parts[0] if runs == 1 else Evidence.of_runs(parts)


def audited(evidence, **options):
    return audit(evidence, plan=Plan(**options), rng=0)


@pytest.mark.long
@pytest.mark.parametrize("design", ["one-run", "multi-run"])
def test_a_false_design_is_refuted_and_has_no_bound(design):
    claim = Claim("epsilon", 3.0)
    found = audited(published(design), bounds=Bounds(claim=claim))
    assert (found.verdict.status, found.exit_code) == ("refused", 4)
    assert f"although the declared design {design} says that chance decided" in found.verdict.text
    assert "date (0.8" in found.verdict.text
    assert found.bounds == ()
    assert "contradicts its design" in found.no_bound[0]
    assert found.claim.status == "not-testable"
    alone = found.covariates_alone
    assert alone.low > 0.75
    assert "identify members with an AUC of " + f"{alone.value:.3f}" in found.verdict.text


@pytest.mark.long
@pytest.mark.parametrize("design", ["one-run", "multi-run"])
def test_the_control_has_its_bound_and_its_verdict(design):
    found = audited(published(design, fair=True))
    assert found.verdict.status in ("flagged", "inconclusive", "clear")
    assert found.bounds
    assert found.covariates_alone.low < 0.5 < found.covariates_alone.high


@pytest.mark.thorough
@pytest.mark.long
def test_the_auc_of_the_covariates_is_shown_for_every_design():
    for design in ("one-run", "multi-run", None):
        found = audited(published(design, fair=True, n=200), bounds=None)
        assert "AUC of the covariates alone" in summary(found)
    assert "AUC of the covariates alone" in audit_page.page(found)
    assert audited(published("one-run", covariates=None, covariate_names=None)).covariates_alone is None


@pytest.mark.long
def test_several_runs_of_a_false_design_are_refuted():
    found = audited(published("one-run", runs=3))
    assert (found.verdict.status, found.bounds, found.several_runs) == ("refused", (), None)
    fair = audited(published("one-run", runs=3, fair=True))
    assert fair.bounds
    assert fair.verdict.status != "refused"


@pytest.mark.long
def test_without_covariates_the_same_scores_are_answered():
    assert audited(published("one-run", covariates=None, covariate_names=None)).bounds


def test_the_test_moves_no_other_draw():
    fair = published("one-run", fair=True)
    bare = fair.replace(covariates=None, covariate_names=None)
    both = [audit(one, plan=Plan(n_bootstrap=100, bounds=Bounds(guesses=50)), rng=3).to_dict() for one in (fair, bare)]
    assert both[0]["metrics"] == both[1]["metrics"]
    assert both[0]["bounds"] == both[1]["bounds"]


@pytest.mark.long
def test_the_page_and_the_terminal_say_why():
    found = audited(published("one-run"))
    for text in (summary(found), audit_page.page(found)):
        assert "contradicts its design" in text
    assert "zero-run" in found.in_words.steps[0].text


def token_lines(texts, member):
    rng = np.random.default_rng(0)
    for i, (text, inside) in enumerate(zip(texts, member, strict=True)):
        log_p = (-rng.exponential(size=4)).tolist()
        yield json.dumps({"id": i, "member": bool(inside), "logprobs": log_p, "text": text})


def test_texts_of_a_token_file_test_its_declared_design(tmp_path):
    rng = np.random.default_rng(9)
    year, path = rng.integers(2000, 2024, 400), tmp_path / "tokens.jsonl"
    texts = [f"report of {y}, number {i}" for i, y in enumerate(year)]
    for member, refused in ((year < 2012, True), (rng.random(400) < 0.5, False)):
        path.write_text("\n".join(token_lines(texts, member)))
        found = audited(from_tokens(path, names=["loss"], design="one-run").evidence, bounds=None)
        assert (found.verdict.status == "refused") is refused
        assert ("The texts alone identify members" in found.verdict.text) is refused
    twice = texts[:200] + texts[:60] + texts[260:]
    path.write_text("\n".join(token_lines(twice, np.arange(400) < 200)))
    found = audited(from_tokens(path, names=["loss"], design="one-run").evidence, bounds=None)
    assert "60 of 200 non-members are also members, by their texts" in found.verdict.text
