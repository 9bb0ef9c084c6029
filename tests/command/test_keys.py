"""Whatever a configuration file of an audit can say, the command line can, and the other way round."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import BaseModel

from miaudit.command.audit import audit
from miaudit.command.keys import KEYS
from miaudit.config.audit import AuditConfig, TableConfig
from miaudit.config.section import Keys, keys_in, sections_in

Run = Callable[..., tuple[int, str, str]]

# Keys whose option has another shape on the command line.
OF_THE_FILE = {
    "evaluation.table_path": "the argument FILE",
    "evaluation.output_dir": "--out, which other commands have too",
    "evaluation.seed": "--seed, which other commands have too",
    "coins.secret": "of a configuration that trains; outputs that are there have --coins, the reveal",
    "coins.answer": "beside the secret",
    **{
        f"about.{name}": "--about NAME=VALUE, all of them"
        for name in ("model", "version", "owner", "purpose", "data", "by", "date")
    },
    **{
        f"evaluation.{side}_{kind}_path": "--members, --nonmembers and --signal"
        for side in ("member", "nonmember")
        for kind in ("losses", "scores", "logits", "probabilities")
    },
}
# Parameters that are no matter of a file.
OF_THE_COMMAND = {
    "context": "of typer",
    "files": "evaluation.table_path, or data.path with token-logprobs",
    "about": "the section about",
    "out": "evaluation.output_dir",
    "seed": "evaluation.seed",
    "bundle": "says where to write, as it does for miaudit run",
    "share": "of the bundle",
    "seal": "of the bundle",
    "overwrite": "may replace files: never by what a file says",
    "json": "says where to print",
}


def leaves(section: type[BaseModel] | Keys, above: str = "") -> Iterator[str]:
    for name, kind in keys_in(section).items():
        inner = next(sections_in(kind), None)
        if inner is None:
            yield f"{above}{name}"
        else:
            yield from leaves(inner, f"{above}{name}.")


def test_every_key_has_an_option_and_every_option_a_key() -> None:
    keys = {*leaves(AuditConfig), *leaves(TableConfig)}
    paths = {path for path, _ in KEYS.values()}
    assert keys == paths | set(OF_THE_FILE)
    assert not paths & set(OF_THE_FILE)
    assert set(inspect.signature(audit).parameters) == set(KEYS) | set(OF_THE_COMMAND)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for side, scale in (("in", 0.5), ("out", 1.0)):
        np.save(tmp_path / f"{side}.npy", rng.exponential(scale, 300))
        np.save(tmp_path / f"{side}_units.npy", np.arange(300) // 2 + 1000 * (side == "out"))
    return tmp_path


def found(ran: tuple[int, str, str]) -> dict[str, object]:
    code, out, err = ran
    assert code in (0, 3, 4), err
    return {key: value for key, value in json.loads(out).items() if key != "repeat"}


@pytest.mark.thorough
@pytest.mark.long
def test_both_doors_lead_to_the_same_findings(place: Path, run: Run) -> None:
    (place / "c.yaml").write_text(
        """
model: {name: m, num_classes: 3}
attack: {type: gaussian_lira, variance: separate, statistic: logit_confidence, folds: 3, fpr_targets: [0.1, 0.2],
  n_bootstrap: 100}
evaluation: {member_losses_path: in.npy, nonmember_losses_path: out.npy, member_units_path: in_units.npy,
  nonmember_units_path: out_units.npy, design: one-run, intervals: bootstrap, confidence: 0.9, seed: 5}
reporting: {primary_metric: auc, threshold_for_concern: 0.6, levels: [0.01, 0.02, 0.03], prior: 0.2, row_level: 2}
privacy: {claim: {epsilon: 3}, delta: 1.0e-6, guesses: 40}
"""
    )
    words = (
        "--model-name m --num-classes 3 --attack gaussian-lira --variance separate --statistic logit_confidence "
        "--folds 3 --fpr-targets 0.1,0.2 --n-bootstrap 100 --members in.npy --nonmembers out.npy --signal loss "
        "--member-units in_units.npy --nonmember-units out_units.npy --design one-run --intervals bootstrap "
        "--confidence 0.9 --seed 5 --primary-metric auc --threshold-for-concern 0.6 "
        "--levels 0.01,0.02,0.03 --prior 0.2 --show-rows 2 --claim-epsilon 3 --delta 1e-6 --guesses 40"
    )
    typed, filed = run("audit", *words.split(), "--json"), run("run", "c.yaml", "--json")
    assert typed[0] == filed[0]
    assert found(typed) == found(filed)
    assert json.loads(typed[1])["repeat"]["model"] == json.loads(filed[1])["repeat"]["model"]


def test_statistics_from_elsewhere_are_four_options(place: Path, run: Run) -> None:
    pair = ("audit", "--members", "in.npy", "--nonmembers", "out.npy", "--signal", "loss", "--attack", "gaussian_lira")
    four = ("--mu-in", "-0.5", "--sigma-in", "0.5", "--mu-out", "-1", "--sigma-out", "1")
    assert "with statistics that were given" in run(*pair, *four, "--json", "--no-bounds")[1]
    code, _, err = run(*pair, *four[:2], "--json")
    assert code == 1 and "sigma_in: expected a value" in err
    code, _, err = run(*pair[:5], *four, "--json")
    assert code == 2 and "--mu-in would not be used" in " ".join(err.replace("│", " ").split())
    del place


@pytest.mark.thorough
@pytest.mark.long
def test_a_synthetic_table_in_a_file(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    for name in ("made", "members", "others"):
        columns = {"age": rng.normal(size=60), "job": rng.choice(["a", "b", "c"], size=60)}
        pl.DataFrame(columns).write_csv(place / f"{name}.csv")
    (place / "c.yaml").write_text(
        "synthetic: {table_path: made.csv, members_path: members.csv, nonmembers_path: others.csv, secrets: [job],\n"
        "  records: 50}\nevaluation: {design: one-run}\nreporting: {threshold_for_concern: 0.2}\n"
    )
    words = "--synthetic made.csv --members members.csv --nonmembers others.csv --secret job --records 50"
    typed = run("audit", *words.split(), "--design", "one-run", "--threshold-for-concern", "0.2", "--json")
    both = [found(typed), found(run("run", "c.yaml", "--json"))]
    for one in both:
        assert one["membership"].pop("repeat")  # type: ignore[attr-defined]  # the command that was typed
    assert both[0] == both[1]
    (place / "c.yaml").write_text((place / "c.yaml").read_text().replace("secrets: [job]", "secret: job"))
    code, _, err = run("run", "c.yaml")
    assert code == 1 and "synthetic.secret: unknown key; did you mean secrets?" in err
    code, _, err = run("collect", "c.yaml")
    assert code == 1
