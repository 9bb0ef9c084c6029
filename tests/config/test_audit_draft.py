"""Drafts of an audit: what they say can be read back, runs with every answer on the design, and holds no value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from miaudit import Evidence
from miaudit.collect import decoys
from miaudit.config import audit as configuration
from miaudit.config import audit_draft
from miaudit.config.audit import AuditConfig
from miaudit.config.audit_draft import AuditDraft
from miaudit.errors import InputError
from miaudit.findings.policy import DEFAULT_LIMITS

N = 400
RNG = np.random.default_rng(0)
MEMBER = RNG.random(N) < 0.5
TABLE = {
    "member": MEMBER,
    "loss": RNG.exponential(size=N) + ~MEMBER,
    "person": RNG.integers(1000, 1150, N),
    "age": RNG.integers(18, 90, N),
    "town": RNG.choice(["Ahausen", "Behausen", "Cehausen"], N),
    "password": ["hunter2"] * N,
}


def drafted(folder: Path, name: str = "t.csv", **columns: object) -> AuditDraft:
    frame = pl.DataFrame(columns)
    (frame.write_csv if name.endswith(".csv") else frame.write_parquet)(folder / name)
    made = audit_draft.of_table(folder / name, folder)
    assert made is not None
    return made


def settings(made: AuditDraft, folder: Path, design: str = "") -> AuditConfig:
    """The draft as it stands, or with one answer on the design, and covariates where it needs them."""
    keep = {"one-run": "design: one-run", "multi-run": "design: multi-run", "zero-run": "design: zero-run"}
    text = made.config
    if design:
        text = re.sub(rf"  # ({keep[design]})", r"  \1", text)
    if design == "zero-run":
        text = re.sub(r"  # ((covariates|categories): \[.*\])", r"  \1", text)
    (folder / "draft.yaml").write_text(text)
    found = configuration.read(folder / "draft.yaml")
    assert isinstance(found, AuditConfig)
    return found


@pytest.mark.parametrize("design", ["", "one-run", "multi-run", "zero-run"])
def test_a_draft_is_read_with_every_answer(design: str, tmp_path: Path) -> None:
    found = settings(drafted(tmp_path, **TABLE), tmp_path, design)
    evidence = found.collect(tmp_path, rng=np.random.default_rng(0)).evidence
    assert evidence.design == (design or None)
    assert (evidence.covariates is not None) == (design == "zero-run")
    assert evidence.n_members == MEMBER.sum() and evidence.n_units == len(np.unique(TABLE["person"]))
    np.testing.assert_allclose(evidence.scores["loss"], -np.asarray(TABLE["loss"]))


def test_a_draft_holds_no_value_and_no_secret(tmp_path: Path) -> None:
    made = drafted(tmp_path, **TABLE)
    told = "\n".join((made.config, *made.assumed, *made.open))
    values = {str(value) for name, column in TABLE.items() if name != "member" for value in column}  # type: ignore[attr-defined]
    words = set(re.findall(r"[\w.]+", told))
    assert not words & {value for value in values if len(value) > 2}
    assert "password" not in told and "a column with a name that looks like a secret was left out" in told
    assert "age" in words and "town" in words  # a control: names are in it


def test_the_design_is_asked_and_never_said(tmp_path: Path) -> None:
    made = drafted(tmp_path, **TABLE)
    found = yaml.safe_load(made.config)
    assert found == {
        "attack": {"type": ["loss"]},
        "evaluation": {"table_path": "t.csv", "score": "loss", "signal": "loss", "member": "member", "unit": "person"},
        "reporting": {"limits": {**DEFAULT_LIMITS, "surest_members": 0.9}},
    }
    assert "Were members drawn at random?" in made.config


@pytest.mark.long
@pytest.mark.parametrize("name", ["loss: x", "# loss", "loss\nseed: 7", 'lo"ss', "loss, ß", "yes loss", "loss\x1b[2J"])
def test_odd_names_come_back_as_they_are(name: str, tmp_path: Path) -> None:
    made = drafted(
        tmp_path, "t.parquet", member=MEMBER, **{name: TABLE["loss"], f"{name} of age": RNG.integers(18, 90, N)}
    )
    found = yaml.safe_load(made.config)["evaluation"]
    assert found["score"] == name and "seed" not in found
    assert all(line.isprintable() for line in (*made.config.splitlines(), *made.assumed, *made.open))


def test_what_is_missing_is_to_be_filled_in(tmp_path: Path) -> None:
    made = drafted(tmp_path, loss=TABLE["loss"], smoker=MEMBER)
    assert made.fill_in == ("member",) and "it could be smoker" in made.config
    with pytest.raises(Exception, match=r"evaluation\.member: expected the column of membership"):
        settings(made, tmp_path)


def test_membership_in_other_words_is_the_column_to_rewrite(tmp_path: Path) -> None:
    words = ["yes" if one else "no" for one in MEMBER]
    made = drafted(tmp_path, loss=TABLE["loss"], trained=words, smoker=MEMBER[::-1])
    assert "# member: NAME  # fill in: trained, named as membership, holds two other values: write 1" in made.config
    assert "could be smoker" not in made.config


def test_a_table_without_membership_is_no_audit(tmp_path: Path) -> None:
    pl.DataFrame({name: TABLE[name] for name in ("age", "town", "person")}).write_csv(tmp_path / "t.csv")
    assert audit_draft.of_table(tmp_path / "t.csv", tmp_path) is None


@pytest.mark.parametrize("kind", ["losses", "scores", "logits"])
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_two_files_are_drafted_and_read(kind: str, ending: str, tmp_path: Path) -> None:
    wide = kind == "logits"
    for side, rows in (("train", 60), ("test", 80)):
        values = RNG.normal(size=(rows, 3)) if wide else RNG.exponential(size=rows)
        labels = {"labels": RNG.integers(0, 3, rows)} if wide else {}
        if ending == ".npz":
            np.savez(tmp_path / f"{side}.npz", **{kind: values, **labels})
        else:
            np.save(tmp_path / f"{side}_{kind}.npy", values)
    inside, outside = sorted(tmp_path.glob("train*"))[0], sorted(tmp_path.glob("test*"))[0]
    made = audit_draft.of_pair(inside, outside, tmp_path, told=True)
    assert f"member_{kind}_path" in made.config
    if made.fill_in:
        assert wide and ending == ".npy" and made.fill_in == ("member_labels_path", "nonmember_labels_path")
        return
    evidence = settings(made, tmp_path).collect(tmp_path, rng=np.random.default_rng(0)).evidence
    assert (evidence.n_members, evidence.n_nonmembers) == (60, 80)


def test_a_direction_that_no_name_tells_is_said(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", RNG.exponential(size=50))
    made = audit_draft.of_pair(tmp_path / "a.npy", tmp_path / "b.npy", tmp_path, told=False)
    assert len(made.open) == 2 and "losses are lower for members" in made.open[0] and "came first" in made.open[1]


@pytest.mark.parametrize("ending", [".npz", ".csv"])
def test_evidence_that_miaudit_wrote_is_read_whole(ending: str, tmp_path: Path) -> None:
    score = {"loss": -np.asarray(TABLE["loss"]), "margin": RNG.normal(size=N)}
    kept = Evidence(score=score, member=MEMBER, covariates=TABLE["age"], covariate_names=["age"], unit=TABLE["person"])
    kept.save(tmp_path / f"e{ending}")
    made = audit_draft.of_table(tmp_path / f"e{ending}", tmp_path)
    assert made is not None and not made.fill_in
    assert settings(made, tmp_path).collect(tmp_path, rng=np.random.default_rng(0)).evidence.digest == kept.digest


def test_tokens_are_drafted(tmp_path: Path) -> None:
    made = audit_draft.of_tokens(tmp_path / "t.jsonl", tmp_path)
    found = yaml.safe_load(made.config)
    assert found["target"] == {"kind": "token-logprobs"} and found["data"] == {"path": "t.jsonl"}


def test_scores_that_are_losses_take_the_attack_of_losses_from_the_draft(tmp_path: Path) -> None:
    made = drafted(tmp_path, member=MEMBER, score=TABLE["loss"])
    assert "attack" not in yaml.safe_load(made.config)  # which scores refuse
    text = made.config.replace("# attack: {type: [loss]}", "attack: {type: [loss]}")
    (tmp_path / "draft.yaml").write_text(text.replace("signal: score", "signal: loss"))
    found = configuration.read(tmp_path / "draft.yaml")
    assert isinstance(found, AuditConfig) and found.attack_options().names == ("loss",)


def probes(folder: Path, *numbers: str, name: str = "probes.jsonl") -> Path:
    """Probes of 30 orders with their key; each of the numbers is a score."""
    rng = np.random.default_rng(1)
    texts = [f"Order {number} came." for number in rng.integers(10**11, 10**12, size=30)]
    documents = [decoys.Document(f"o{i}", text) for i, text in enumerate(texts)]
    made = decoys.make(documents, find=["digits"], count=4, seed=decoys.Seed.of(1))
    decoys.write(folder / "probes.jsonl", made.probes, made.key)
    lines = [{**probe._asdict(), **{one: float(rng.normal()) for one in numbers}} for probe in made.probes]
    (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("numbers", [("score",), ("length", "log_probability")])
def test_probes_are_drafted_with_their_key_as_matched(numbers: tuple[str, ...], tmp_path: Path) -> None:
    made = audit_draft.of_probes(probes(tmp_path, *numbers, name="scored.jsonl"), tmp_path)
    assert made.declares and made.fill_in == () and "It runs as it stands" in made.config
    evidence = settings(made, tmp_path).collect(tmp_path, rng=np.random.default_rng(0)).evidence
    assert evidence.design == "matched" and list(evidence.scores) == [numbers[-1]]
    held = yaml.safe_load(made.config)
    assert held["evaluation"]["key_path"] == "probes.key.json" and held["reporting"]["limits"]
    assert "Order" not in made.config  # no value of the data


def test_what_probes_do_not_say_is_to_be_filled_in(tmp_path: Path) -> None:
    file = probes(tmp_path, "a", "b", name="scored.jsonl")
    (tmp_path / "probes.key.json").unlink()
    made = audit_draft.of_probes(file, tmp_path)
    assert made.fill_in == ("key_path", "score") and "it could be a or b" in made.config
    assert set(yaml.safe_load(made.config)["evaluation"]) == {"design", "table_path"}
    with pytest.raises(InputError, match="file: expected probes with scores, received probes"):
        audit_draft.of_probes(tmp_path / "probes.jsonl", tmp_path)
