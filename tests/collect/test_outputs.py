"""Collecting: from outputs and files to the scores that the caller chose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit.attacks import likelihood
from miaudit.attacks.likelihood import GaussianLira, GaussianStatistics
from miaudit.collect import outputs as from_outputs
from miaudit.collect.outputs import Attack
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample


def outputs(n: int = 400) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    member = np.arange(n) < n // 2
    labels = rng.integers(0, 4, n)
    logits = rng.normal(size=(n, 4))
    logits[np.arange(n), labels] += 1.0 + 1.5 * member
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return {
        "member": member,
        "labels": labels,
        "logits": logits,
        "probabilities": np.exp(log_p),
        "losses": -log_p[np.arange(n), labels],
    }


def test_losses_logits_and_probabilities_give_one_score() -> None:
    data, rng = outputs(), np.random.default_rng(0)
    member, labels = data["member"], data["labels"]
    from_losses = from_outputs.from_outputs(member=member, losses=data["losses"], rng=rng).evidence
    for kind in ("logits", "probabilities"):
        other = from_outputs.from_outputs(member=member, labels=labels, rng=rng, **{kind: data[kind]}).evidence
        np.testing.assert_allclose(other.score, from_losses.score, atol=1e-12)
    np.testing.assert_array_equal(from_losses.score, -data["losses"])


def test_choosing_the_ratio_declares_no_headline_and_the_loss_counts_too() -> None:
    data, rng = outputs(), np.random.default_rng(0)
    made = from_outputs.from_outputs(
        member=data["member"], losses=data["losses"], attack=Attack(("gaussian_lira",)), rng=rng
    )
    assert list(made.evidence.scores) == ["gaussian_lira", "loss"]
    assert made.headline is None  # nobody declared one
    declared = made.evidence.replace(design="one-run")
    judged = ma.audit(declared, plan=ma.Plan(bounds=None), rng=rng).verdict.limits
    assert {one.score for one in judged} == {"gaussian_lira", "loss"}
    assert any("C2" in note for note in made.notes)
    several = from_outputs.from_outputs(
        member=data["member"], losses=data["losses"], attack=Attack(("gaussian_lira", "loss")), rng=rng
    )
    assert several.headline is None  # asked for several: the plan corrects for them


def test_pooled_variances_report_the_loss_itself() -> None:
    data, rng = outputs(), np.random.default_rng(0)
    attack = Attack(("gaussian_lira",), GaussianLira(variance="pooled"))
    made = from_outputs.from_outputs(member=data["member"], losses=data["losses"], attack=attack, rng=rng)
    assert list(made.evidence.scores) == ["loss"]
    np.testing.assert_array_equal(made.evidence.score, -data["losses"])
    assert any("C1" in note for note in made.notes)


def test_given_statistics_are_used_as_they_are() -> None:
    data = outputs()
    given = GaussianStatistics(0.1, 0.2, 1.0, 0.8)
    attack = Attack(("gaussian_lira",), GaussianLira(given=given))
    made = from_outputs.from_outputs(
        member=data["member"], losses=data["losses"], attack=attack, rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(made.evidence.scores["gaussian_lira"], likelihood.log_ratio(data["losses"], given))


def test_the_logit_confidence_of_losses_is_that_of_the_logits() -> None:
    data = outputs()
    attack = Attack(("logit_confidence",))
    rng = np.random.default_rng(0)
    made = from_outputs.from_outputs(
        member=data["member"], logits=data["logits"], labels=data["labels"], attack=attack, rng=rng
    )
    np.testing.assert_allclose(
        likelihood.logit_confidence_of(data["losses"]), made.evidence.score, rtol=1e-9, atol=1e-9
    )
    for statistic in ("loss", "logit_confidence"):
        lira = Attack(("gaussian_lira",), GaussianLira(statistic=statistic))  # type: ignore[arg-type]
        a = from_outputs.from_outputs(
            member=data["member"], losses=data["losses"], attack=lira, rng=np.random.default_rng(1)
        )
        b = from_outputs.from_outputs(
            member=data["member"],
            logits=data["logits"],
            labels=data["labels"],
            attack=lira,
            rng=np.random.default_rng(1),
        )
        np.testing.assert_allclose(
            a.evidence.scores["gaussian_lira"], b.evidence.scores["gaussian_lira"], rtol=1e-7, atol=1e-7
        )


def test_tables_and_pairs_of_every_kind_agree(tmp_path: Path) -> None:
    data, rng = outputs(), np.random.default_rng(0)
    member = data["member"]
    np.savez(tmp_path / "t.npz", **data)
    digests = set()
    for kind, signal in (("losses", "loss"), ("logits", "logits"), ("probabilities", "probabilities")):
        labels = None if signal == "loss" else "labels"
        table = from_outputs.from_table(
            tmp_path / "t.npz",
            score=kind,
            member="member",
            signal=signal,
            labels=labels,
            rng=rng,  # type: ignore[arg-type]
        )
        sides = []
        for side, rows in (("m", member), ("o", ~member)):
            np.save(tmp_path / f"{side}.npy", data[kind][rows])
            np.save(tmp_path / f"{side}l.npy", data["labels"][rows])
            files = {"signal": tmp_path / f"{side}.npy"}
            sides.append(files | ({"labels": tmp_path / f"{side}l.npy"} if labels else {}))
        pair = from_outputs.from_pairs(sides[0], sides[1], signal=signal, rng=rng)  # type: ignore[arg-type]
        np.testing.assert_array_equal(pair.evidence.score, table.evidence.score)  # members came first in both
        digests.add(round(Sample.of(table.evidence).roc.auc, 12))
    assert len(digests) == 1


def test_chances_of_a_table_and_of_a_pair(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    member, chance = np.arange(40) < 20, rng.uniform(0.2, 0.8, 40)
    np.savez(tmp_path / "t.npz", loss=rng.random(40), member=member, chance=chance)
    common = {"design": "one-run", "signal": "loss", "rng": rng}
    named = {"score": "loss", "member": "member", **common}
    for inclusion, expected in (("chance", chance), ("0.7", np.full(40, 0.7)), (0.7, np.full(40, 0.7))):
        read = from_outputs.from_table(tmp_path / "t.npz", inclusion=inclusion, **named)  # type: ignore[arg-type]
        np.testing.assert_array_equal(read.evidence.inclusion, expected)
    for side, rows in (("m", member), ("o", ~member)):
        np.save(tmp_path / f"{side}.npy", rng.random(40)[rows])
    files = [{"signal": tmp_path / f"{side}.npy"} for side in "mo"]
    pair = from_outputs.from_pairs(*files, inclusion=0.7, **common)  # type: ignore[arg-type]
    np.testing.assert_array_equal(pair.evidence.inclusion, np.full(40, 0.7))
    with pytest.raises(InputError, match="one number, for files without a table"):
        from_outputs.from_pairs(*files, inclusion="chance", **common)  # type: ignore[arg-type]


def test_one_run_states_the_chance_of_its_coins() -> None:
    def evidence(inclusion: float) -> Evidence:
        options = {"records": 50, "inclusion": inclusion, "rng": np.random.default_rng(0)}
        return from_outputs.one_run(lambda rows: 0, lambda model, rows: rows, **options)  # type: ignore[arg-type]

    assert evidence(0.5).inclusion is None
    np.testing.assert_array_equal(evidence(0.8).inclusion, np.full(50, 0.8))


def test_class_columns_of_a_csv_are_logits(tmp_path: Path) -> None:
    data = outputs(40)
    rows = [
        ",".join(map(repr, [*z.tolist(), int(y), int(a)]))
        for z, y, a in zip(data["logits"], data["labels"], data["member"], strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["z0,z1,z2,z3,y,a", *rows]))
    made = from_outputs.from_table(
        tmp_path / "t.csv",
        score=["z0", "z1", "z2", "z3"],
        member="a",
        signal="logits",
        labels="y",
        rng=np.random.default_rng(0),
    )
    np.testing.assert_allclose(made.evidence.score, -data["losses"])


def test_one_run_draws_membership_before_it_trains() -> None:
    seen: list[np.ndarray] = []

    def fit(rows: np.ndarray) -> float:
        seen.append(rows)
        return float(rows.sum())

    evidence = from_outputs.one_run(
        fit, lambda total, rows: rows + total, records=1000, inclusion=0.3, rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(np.flatnonzero(evidence.member), seen[0])
    assert abs(evidence.member.mean() - 0.3) < 0.05
    assert evidence.design == "one-run"
    with pytest.raises(InputError, match="inclusion"):
        from_outputs.one_run(fit, lambda total, rows: rows, records=10, inclusion=1.0, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="all drawn alike"):  # said before the training, not after it
        from_outputs.one_run(fit, lambda total, rows: rows, records=3, inclusion=0.001, rng=np.random.default_rng(0))
    assert len(seen) == 1


def test_folds_keep_units_together() -> None:
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(100), 3)
    member = unit < 50
    loss = rng.exponential(1.0, 300)
    a = from_outputs.from_outputs(
        member=member, losses=loss, unit=unit, attack=Attack(("gaussian_lira",)), rng=np.random.default_rng(3)
    ).evidence.scores["gaussian_lira"]
    # Changing one record of a unit must leave the scores of its siblings alone: they share its fold.
    changed = loss.copy()
    changed[0] = 50.0
    b = from_outputs.from_outputs(
        member=member, losses=changed, unit=unit, attack=Attack(("gaussian_lira",)), rng=np.random.default_rng(3)
    ).evidence.scores["gaussian_lira"]
    np.testing.assert_array_equal(a[1:3], b[1:3])
    assert not np.array_equal(a[3:], b[3:])


def test_what_is_known_before_any_score_is_read_from_a_table_and_from_files_of_both_classes(tmp_path: Path) -> None:
    member, x = np.array([True, True, False]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    said, who = np.array(["a b", "c", "d"]), np.array([7, 7, 8])
    np.savez(tmp_path / "table.npz", member=member, covariates=x, said=said, who=who)
    names = {"covariates": "covariates", "text": "said", "unit": "who"}
    table = from_outputs.unscored(tmp_path / "table.npz", **names)
    sides = []
    for side, rows in (("in", member), ("out", ~member)):
        paths = {kind: tmp_path / f"{side}_{kind}.npy" for kind in ("covariates", "texts", "units")}
        for path, values in zip(paths.values(), (x, said, who), strict=True):
            np.save(path, values[rows])
        sides.append(paths)
    pair = from_outputs.unscored(None, members=sides[0], nonmembers=sides[1])
    assert pair.digest == table.replace(covariate_names=()).digest
    assert (pair.design, pair.score.tolist(), pair.text.tolist()) == ("zero-run", [0, 0, 0], said.tolist())
    found = from_outputs.unscored(tmp_path / "table.npz")  # the names that evidence is saved with
    assert (found.covariates.tolist(), found.text) == (x.tolist(), None)
    with pytest.raises(InputError, match="covariates or texts of both classes"):
        from_outputs.unscored(None, members={"units": sides[0]["units"]}, nonmembers={"units": sides[1]["units"]})
    np.save(sides[1]["texts"], np.array(["d", "e"]))
    with pytest.raises(InputError, match="2 and 1 rows, as in the covariates"):
        from_outputs.unscored(None, members=sides[0], nonmembers=sides[1])
