"""The configuration file: as threshold-post prints it, and the superset."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from miaudit.auditing.plan import Bounds
from miaudit.config import audit as audit_config
from miaudit.dp.mechanism import dp_sgd
from miaudit.dp.selection import Bonferroni
from miaudit.dp.verdict import Claim
from miaudit.errors import ConfigError, InputError

# The file of threshold-post as printed; only the paths of the losses are made to exist.
PRINTED = """
# mia_config.yaml — membership inference audit configuration
model:
  architecture: resnet18
  checkpoint: checkpoints/resnet18_epoch100.pt
  num_classes: 10
attack:
  type: gaussian_lira
  fpr_targets: [0.001, 0.01, 0.1] # evaluate TPR at these FPR values
  n_bootstrap: 1000 # bootstrap samples for confidence intervals
evaluation:
  member_losses_path: data/member_losses.npy
  nonmember_losses_path: data/nonmember_losses.npy
  output_dir: results/mia_audit/
reporting:
  primary_metric: tpr_at_fpr_0.001 # 0.1% FPR
  threshold_for_concern: 0.05 # flag if TPR@0.1%FPR exceeds 5%
"""


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "member_losses.npy", rng.exponential(0.3, 2500))
    np.save(tmp_path / "data" / "nonmember_losses.npy", rng.exponential(1.0, 2500))
    path = tmp_path / "mia_config.yaml"
    path.write_text(PRINTED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


def test_the_printed_file_runs(printed: Path) -> None:
    settings = audit_config.read(printed)
    plan = settings.plan()
    assert plan.fpr_targets == (0.001, 0.01, 0.1)
    assert plan.n_bootstrap == 1000
    assert (plan.primary_metric, plan.threshold_for_concern) == ("tpr_at_fpr_0.001", 0.05)
    made = settings.collect(printed.parent, rng=np.random.default_rng(0))
    assert made.evidence.design is None
    assert list(made.evidence.scores) == ["gaussian_lira", "loss"]


@pytest.mark.thorough
@pytest.mark.long
def test_the_printed_file_runs_from_the_command_line(printed: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run("run", "mia_config.yaml")
    assert err == ""
    found = json.loads((printed.parent / "results" / "mia_audit" / "findings.json").read_text())
    assert found["verdict"]["metric"] == "tpr_at_fpr_0.001"
    assert found["repeat"]["model"]["checkpoint"] == "checkpoints/resnet18_epoch100.pt"
    assert run("report", "results/mia_audit/findings.json", "--out", "again")[0] == 0
    assert Path("again/report.html").read_bytes() == Path("results/mia_audit/report.html").read_bytes()
    first = found["metrics"][0]
    # 2,500 non-members cannot resolve 0.1% (erratum C3): an upper limit, no value, and never a flag.
    assert first["name"] == "tpr_at_fpr_0.001"
    assert first["value"] is None
    assert (found["verdict"]["status"], code) == ("not-testable", 4)  # the printed file declares no design
    assert "not declared" in found["verdict"]["text"]
    assert "would be: Concern" not in found["verdict"]["text"]
    assert found["metrics"][1]["bootstrap"]["replicates"] == 1000
    assert "the verdict would be: " in out
    # A second run does not touch the first one's results.
    before = (printed.parent / "results" / "mia_audit" / "findings.json").read_bytes()
    code, out, err = run("run", "mia_config.yaml")
    assert code == 4 and "results/mia_audit-2/report.html" in out
    assert (printed.parent / "results" / "mia_audit" / "findings.json").read_bytes() == before
    code, _, _ = run("run", "mia_config.yaml", "--overwrite")
    assert code == 4
    again = (printed.parent / "results" / "mia_audit" / "findings.json").read_bytes()
    assert again.replace(b" --overwrite", b"") == before


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("member_scores_path: a.npy\n  nonmember_scores_path: b.npy\n  unit: person", "member_units_path for unit"),
        (
            "member_losses_path: a.npy\n  nonmember_losses_path: b.npy\n  group: g\n  covariates: [x]",
            "covariates or group",
        ),
        ("member_losses_path: a.npy\n  nonmember_losses_path: b.npy\n  score: s", "no score without table_path"),
        (
            "table_path: t.npz\n  score: s\n  member: m\n  member_units_path: a.npy\n  nonmember_units_path: b.npy",
            "unit for member_units_path",
        ),
        ("member_scores_path: a.npy\n  nonmember_scores_path: b.npy\n  signal: loss", "expected signal score"),
        (
            "member_scores_path: a.npy\n  nonmember_scores_path: b.npy\nattack:\n  type: gaussian_lira\n  folds: 3",
            "attack.type: expected none, for scores",
        ),
        ("table_path: t.npz\n  score: s\n  member: m\nattack:\n  variance: pooled", "attack.variance: expected none"),
    ],
)
def test_what_would_not_be_read_is_refused_instead_of_ignored(tmp_path: Path, lines: str, said: str) -> None:
    scores = np.arange(4.0)
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, scores)
    np.savez(tmp_path / "t.npz", s=scores, m=scores > 1)
    path = tmp_path / "c.yaml"
    path.write_text(f"evaluation:\n  {lines}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        audit_config.read(path)


def test_the_superset(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 60
    for side in ("m", "o"):
        np.save(tmp_path / f"{side}_logits.npy", rng.normal(size=(n, 3)))
        np.save(tmp_path / f"{side}_labels.npy", rng.integers(0, 3, n))
        np.save(tmp_path / f"{side}_x.npy", rng.normal(size=(n, 2)))
        np.save(tmp_path / f"{side}_unit.npy", rng.integers(0, 30, n))
        np.save(tmp_path / f"{side}_group.npy", np.array(["a", "b"] * (n // 2)))
    (tmp_path / "c.yaml").write_text(
        """
attack:
  type: [margin, loss]
  fpr_targets: [1e-1, 0.2]
  n_bootstrap: 200
  headline: split
evaluation:
  member_logits_path: m_logits.npy
  nonmember_logits_path: o_logits.npy
  member_labels_path: m_labels.npy
  nonmember_labels_path: o_labels.npy
  member_covariates_path: m_x.npy
  nonmember_covariates_path: o_x.npy
  member_units_path: m_unit.npy
  nonmember_units_path: o_unit.npy
  member_groups_path: m_group.npy
  nonmember_groups_path: o_group.npy
  design: one-run
  intervals: bootstrap
  confidence: 0.9
  seed: 7
reporting:
  primary_metric: auc
  threshold_for_concern: 0.6
  levels: [0.01, 0.02, 0.03]
  prior: 0.2
  row_level: 3
"""
    )
    settings = audit_config.read(tmp_path / "c.yaml")
    made = settings.collect(tmp_path, rng=np.random.default_rng(7))
    assert list(made.evidence.scores) == ["margin", "loss"]
    assert made.evidence.design == "one-run"
    assert made.evidence.covariates is not None
    assert made.evidence.covariates.shape == (2 * n, 2)
    assert made.evidence.unit_codes is not None
    assert made.evidence.group is not None
    assert type(made.headline).__name__ == "Split"
    assert type(settings.plan().intervals).__name__ == "Bootstrap"
    assert settings.plan().fpr_targets == (0.1, 0.2)


def test_a_table_as_source(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", l=rng.exponential(size=40), a=np.arange(40) % 2, u=np.arange(40) // 2)
    (tmp_path / "c.yaml").write_text(
        "evaluation: {table_path: t.npz, score: l, member: a, unit: u, signal: loss}\nattack: {type: loss}\n"
    )
    made = audit_config.read(tmp_path / "c.yaml").collect(tmp_path, rng=rng)
    assert list(made.evidence.scores) == ["loss"]
    assert made.evidence.score.max() <= 0


def described(folder: Path, privacy: str) -> Path:
    np.savez(folder / "t.npz", score=np.arange(8.0), member=np.arange(8) % 2)
    path = folder / "c.yaml"
    path.write_text(f"evaluation: {{table_path: t.npz, score: score, member: member}}\n{privacy}\n")
    return path


@pytest.mark.parametrize(
    ("privacy", "bounds"),
    [
        ("", Bounds()),
        ("privacy:", Bounds()),
        ("privacy: {bounds: false}", None),
        ("privacy: {guesses: 30, delta: 1e-6}", Bounds(guesses=30, delta=1e-6)),
        ("privacy: {guesses: bonferroni, margin: 0}", Bounds(guesses=Bonferroni(), margin=0.0)),
        ("privacy: {claim: {mu: 0.5}, correction: conditional}", Bounds(Claim.gaussian(0.5), correction="conditional")),
        ("privacy: {claim: {epsilon: 8}, delta: 1e-7}", Bounds(Claim.epsilon_delta(8.0, 1e-7), delta=1e-7)),
        ("privacy: {claim: {epsilon: 8, delta: 0}}", Bounds(Claim.epsilon_delta(8.0))),
        (
            "privacy: {mechanism: {kind: dp-sgd, records: 60, batch: 6, noise: 1e0, epochs: 2}}",
            Bounds(mechanism=dp_sgd(records=60, batch=6, noise=1.0, epochs=2)),
        ),
    ],
)
def test_the_privacy_section(privacy: str, bounds: Bounds | None, tmp_path: Path) -> None:
    found = audit_config.read(described(tmp_path, privacy)).plan().bounds
    assert found == bounds


def test_one_rate_stands_for_a_list_of_one(tmp_path: Path) -> None:
    assert audit_config.read(described(tmp_path, "attack: {fpr_targets: 0.05}")).plan().fpr_targets == (0.05,)
    with pytest.raises(ConfigError, match=r"attack\.fpr_targets\.0: expected numbers in \(0, 1\), received 5"):
        audit_config.read(described(tmp_path, "attack: {fpr_targets: 5}"))


@pytest.mark.parametrize("value", ["[1]", "{}", "1", "''", "[[1]]"])
def test_a_value_of_another_kind_is_one_problem_of_its_key(value: str, tmp_path: Path) -> None:
    keys = ("attack.type", "attack.variance", "evaluation.design", "evaluation.intervals", "privacy.correction")
    for section, key in (path.split(".") for path in keys):
        config = described(tmp_path, "")
        at = f"{section}: {{{key}: {value}}}"
        text = config.read_text().replace("member: member}", f"member: member, {key}: {value}}}")
        config.write_text(text if section == "evaluation" else config.read_text() + at)
        with pytest.raises(ConfigError) as caught:
            audit_config.read(config)
        assert [problem.partition(": ")[0] for problem in caught.value.problems] == [f"{section}.{key}"]


def test_the_problems_of_the_privacy_section_are_listed_together(tmp_path: Path) -> None:
    privacy = """
privacy:
  claim: {epsilon: -1, deltas: 0}
  delta: 1
  guesses: pilots
  margin: .nan
  mechanism: {kind: repeated, times: 2, mechanism: {kind: gausian, noise: 1}}
"""
    with pytest.raises(ConfigError) as caught:
        audit_config.read(described(tmp_path, privacy))
    problems = dict(problem.split(": ", 1) for problem in caught.value.problems)
    keys = ("claim.epsilon", "claim.deltas", "delta", "guesses", "margin", "mechanism.mechanism.kind")
    assert set(problems) == {f"privacy.{key}" for key in keys}
    assert problems["privacy.claim.deltas"] == "unknown key; did you mean delta?"
    assert problems["privacy.guesses"].endswith("did you mean pilot?")
    assert problems["privacy.mechanism.mechanism.kind"].endswith("did you mean gaussian?")


def test_a_mechanism_from_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("kind: dp-sgd\nrecords: 60000\nbatch: 600\nnoise: 1.1e0\nsteps: 100\n")
    assert audit_config.read_mechanism(path) == dp_sgd(records=60_000, batch=600, noise=1.1, steps=100)
    path.write_text("kind: composed\nparts: [{kind: gaussian, noise: 2}, 3]\n")
    with pytest.raises(InputError, match=r"^mechanism\.parts\[1\]: expected a mapping"):
        audit_config.read_mechanism(path)
