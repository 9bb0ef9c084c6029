"""Zero-run audits of records that are texts: what a text says is a covariate, from the door to the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence, Findings, Plan, audit
from miaudit.collect import outputs
from miaudit.errors import InputError


def line(**options: object) -> Plan:
    """A plan as it was before the stack: weights of a straight line, which is what these tests are about."""
    return Plan(**{"propensity_model": "line", "estimator": "hajek", **options})  # type: ignore[arg-type]


PLAN = line(fpr_targets=(0.1,), primary_metric="auc")
WORDS = np.array(
    ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf"]
    + ["hotel", "india", "juliet", "kilo", "lima", "mike", "november"]
)


def world(n: int = 3000, effect: float = 0.0, share: float = 0.75, seed: int = 0, **fields: object) -> Evidence:
    """One word is common among members and raises the score; membership itself raises it by ``effect``."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) < n // 2
    snow = rng.random(n) < np.where(member, share, 1 - share)
    text = [" ".join(rng.permutation([*rng.choice(WORDS, 6), *(["snow"] if said else [])])) for said in snow]
    score = 1.5 * snow + rng.normal(size=n) + effect * member
    return Evidence(score=score, member=member, text=text, design="zero-run", **fields)


def shuffled(evidence: Evidence) -> Evidence:
    assert evidence.text is not None
    return evidence.replace(text=np.random.default_rng(1).permutation(evidence.text))


def true_auc(effect: float, share: float = 0.75) -> float:
    """Members with their scores against members without: P(Y(1) > Y(0)), the word independent in the two."""
    gaps = {1.5: share * (1 - share), 0.0: share**2 + (1 - share) ** 2, -1.5: share * (1 - share)}
    return float(sum(p * special.ndtr((gap + effect) / np.sqrt(2)) for gap, p in gaps.items()))


def audited(evidence: Evidence, plan: Plan = PLAN) -> Findings:
    found = audit(evidence, plan=plan, rng=np.random.default_rng(0))
    Findings.from_dict(found.to_dict())
    return found


def pick(found: Findings, name: str, estimator: str):
    return next(m for m in found.metrics if (m.name, m.estimator) == (name, estimator))


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_a_word_that_moves_membership_and_score_is_corrected_for(effect: float) -> None:
    found = audited(world(effect=effect))
    raw, causal = pick(found, "auc", "raw"), pick(found, "auc", "hajek")
    assert raw.low > true_auc(effect) + 0.05
    assert causal.low < true_auc(effect) < causal.high
    assert causal.high - causal.low < 0.1
    assert found.verdict.status == ("flagged" if effect else "clear")
    assert found.overlap is not None
    assert "TF-IDF of texts" in found.overlap.propensity
    assert {f.name.split(",")[0].rsplit(" ", 1)[0] for f in found.overlap.features} == {"text component"}


@pytest.mark.thorough
@pytest.mark.long
def test_texts_that_are_shuffled_correct_nothing() -> None:
    """The control: the same words, but not those of the record."""
    found = audited(shuffled(world()))
    assert pick(found, "auc", "hajek").low > 0.55
    assert found.verdict.status == "flagged"


@pytest.mark.thorough
@pytest.mark.long
def test_texts_with_aipw_groups_units_and_numbers_beside() -> None:
    n = 3000
    rng = np.random.default_rng(2)
    both = world(
        n, 1.0, covariates=np.c_[rng.normal(size=n), rng.integers(0, 4, n)], covariate_names=["length", "site"],
        group=np.arange(n) % 2, unit=np.arange(n) // 2,
    )  # fmt: skip
    found = audited(both, line(fpr_targets=(0.1,), primary_metric="auc", estimator="aipw", categories=("site",)))
    causal = pick(found, "auc", "aipw")
    assert causal.low < true_auc(1.0) < causal.high
    assert found.counts.of == "units"
    for group in found.groups:
        first = next(m for m in group.metrics if m.name == "auc")
        assert first.estimator == "aipw"
        assert first.low < true_auc(1.0) < first.high
    assert found.overlap is not None
    assert "TF-IDF of texts beside columns with coded categories" in found.overlap.propensity
    assert {"length", "site", "text component 1"} <= {f.name for f in found.overlap.features}


@pytest.mark.thorough
@pytest.mark.long
def test_components_condense_texts_and_numbers_each_by_themselves() -> None:
    evidence = world(covariates=np.random.default_rng(3).normal(size=(3000, 12)))
    found = audited(evidence, line(fpr_targets=(0.1,), primary_metric="auc", components=5))
    assert found.overlap is not None
    plain = [f.name for f in found.overlap.features if "squared" not in f.name]
    assert sorted(plain) == sorted([f"{kind} {i}" for kind in ("component", "text component") for i in range(1, 6)])


@pytest.mark.thorough
@pytest.mark.long
def test_a_word_that_the_components_leave_out_is_not_corrected_for() -> None:
    """The limit that docs/zero_run_in_depth.md states: the word has the least variance, and the SVD keeps the most."""
    found = audited(world(), line(fpr_targets=(0.1,), primary_metric="auc", components=3))
    assert found.verdict.status in ("refused", "not-testable") or pick(found, "auc", "hajek").low > 0.5


@pytest.mark.long
def test_vocabularies_that_do_not_meet_are_refused() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(800) < 400
    text = [" ".join(rng.choice(WORDS[:7] if inside else WORDS[7:], 8)) for inside in member]
    found = audited(Evidence(score=rng.normal(size=800), member=member, text=text, design="zero-run"))
    assert found.verdict.status == "refused"
    assert found.metrics == ()


def test_texts_without_words_make_no_propensity() -> None:
    evidence = Evidence(score=np.arange(80), member=np.arange(80) % 2 == 0, text=["?!"] * 80, design="zero-run")
    found = audited(evidence)
    assert found.verdict.status == "not-testable"
    assert "texts with words" in found.verdict.text


@pytest.mark.thorough
@pytest.mark.long
def test_copied_texts_are_reported_whatever_their_case_and_spaces() -> None:
    evidence = world()
    assert evidence.text is not None
    text = evidence.text.copy()
    text[2000:2040] = [copied.upper().replace(" ", "  ") for copied in text[:40]]
    text[2040:2060] = [copied + "s" for copied in text[40:60]]
    found = audited(evidence.replace(text=text))
    assert found.overlap is not None
    assert found.overlap.duplicates is not None
    assert found.overlap.duplicates.exact_pairs == 40
    assert found.overlap.duplicates.near_pairs >= 20
    assert any("really non-members" in warning for warning in found.overlap.warnings)
    clean = audited(evidence)
    assert clean.overlap is not None
    assert clean.overlap.duplicates is not None
    assert clean.overlap.duplicates.exact_pairs == 0


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("suffix", ["parquet", "csv", "npz"])
def test_the_command_line(tmp_path: Path, run: Callable[..., tuple[int, str, str]], suffix: str) -> None:
    evidence = world(2000, 1.0)
    evidence.save(tmp_path / f"e.{suffix}")
    options = [
        "--score",
        "score",
        "--member",
        "member",
        "--design",
        "zero-run",
        "--fpr-targets",
        "0.1",
        "--primary-metric",
        "auc",
    ]
    if suffix == "npz":  # the whole of it once: page and figures
        code, out, err = run("audit", tmp_path / "e.npz", *options, "--text", "text", "--out", tmp_path / "out")
        assert (code, err) == (3, "")
        assert "text component" in (tmp_path / "out" / "report.html").read_text()
        return
    code, out, _ = run("audit", tmp_path / f"e.{suffix}", *options, "--text", "text", "--json")
    assert code == 3
    assert json.loads(out)["evidence"]["digest"] == evidence.replace(source=f"e.{suffix}").digest
    code, out, _ = run("audit", tmp_path / f"e.{suffix}", *options, "--json")
    assert code == 4  # without the texts nothing is known of the records
    code, _, err = run("audit", tmp_path / f"e.{suffix}", *options, "--text", "texts")
    assert code == 1
    assert "did you mean text" in err


@pytest.mark.thorough
@pytest.mark.long
def test_the_configuration_file_and_pairs_of_files(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    evidence = world(2000, 1.0)
    assert evidence.text is not None
    table = tmp_path / "t.parquet"
    evidence.save(table)
    for side, kept in (("m", evidence.member), ("o", ~evidence.member)):
        np.save(tmp_path / f"{side}.npy", evidence.score[kept])
        np.save(tmp_path / f"{side}_texts.npy", evidence.text[kept].astype(np.str_))
    shared = "  design: zero-run\n  components: 15\nreporting: {primary_metric: auc}\nattack: {fpr_targets: [0.1]}\n"
    (tmp_path / "table.yaml").write_text(
        f"evaluation:\n  table_path: t.parquet\n  score: score\n  member: member\n  text: text\n{shared}"
    )
    (tmp_path / "pair.yaml").write_text(
        "evaluation:\n  member_scores_path: m.npy\n  nonmember_scores_path: o.npy\n  member_texts_path: m_texts.npy\n"
        f"  nonmember_texts_path: o_texts.npy\n{shared}"
    )
    found = []
    for name in ("table", "pair"):
        code, out, err = run("run", tmp_path / f"{name}.yaml", "--out", tmp_path / name, "--json")
        assert (code, err) == (3, "")
        found.append(json.loads(out)["metrics"])
    assert found[0] == found[1]


@pytest.mark.long
def test_losses_keep_their_texts(tmp_path: Path) -> None:
    evidence = world(200)
    evidence.replace(score={"loss": -evidence.score}).save(tmp_path / "e.parquet")
    collected = outputs.from_table(
        tmp_path / "e.parquet", score="score.loss", member="member", signal="loss", text="text",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert collected.evidence.text is not None
    assert evidence.text is not None
    assert collected.evidence.text.tolist() == evidence.text.tolist()


def test_categories_need_covariates_by_that_name() -> None:
    with pytest.raises(InputError, match="it has none"):
        audited(world(200), line(categories=("site",)))
