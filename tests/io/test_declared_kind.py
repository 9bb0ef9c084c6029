"""Declared kind x actual kind x entry: contradictions are refused or noted, and what is declared rightly is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special
from sklearn.svm import SVC

import miaudit as ma
from miaudit.collect.campaign import Campaign
from miaudit.collect.outputs import from_outputs, from_pairs, from_table, from_tokens
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError
from miaudit.io import declared_kind
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Precomputed

Run = Callable[..., tuple[int, str, str]]
RNG = np.random.default_rng(7)
N, C = 120, 3
Y = RNG.integers(0, C, N)
MEMBER = np.arange(N) < N // 2
LOGITS = RNG.normal(size=(N, C)) + 2.0 * np.eye(C)[Y]
P = special.softmax(LOGITS, axis=1)
X = RNG.normal(size=(N, 4)) + np.eye(4)[Y]
VOTES = SVC(gamma=5, C=10, decision_function_shape="ovo").fit(X, Y).decision_function(X)

# What outputs may be, and what each is when it is declared to be logits: refused for a reason, or left alone.
ACTUAL: dict[str, Any] = {
    "logits": LOGITS,
    "logits in single precision": LOGITS.astype(np.float32),
    "log-probabilities": np.log(P),
    "logits in a narrow range": 1 / C + 1e-3 * LOGITS,
    "logits above 0": LOGITS + 10.0,
    "untrained": 1e-3 * LOGITS,
    "centred": LOGITS - LOGITS.mean(axis=1, keepdims=True),
    "all alike": np.tile([[0.2, 0.3, 0.7]], (N, 1)),
    "probabilities": P,
    "in single precision": P.astype(np.float32),
    "in half precision": P.astype(np.float16),
    "rounded": np.round(P, 2),
    "percentages": 100 * P,
    "counts of trees": np.stack([RNG.multinomial(50, row) for row in P]),
    "one-hot": np.eye(C)[P.argmax(axis=1)],
    "one-hot whole numbers": np.eye(C, dtype=np.int64)[P.argmax(axis=1)],
    "losses of classes": -np.log(P),
    "log-odds of classes": special.logit(P),
    "one-against-one votes": VOTES,
}
REFUSED = {
    "probabilities": "looks like probabilities",
    "in single precision": "looks like probabilities",
    "in half precision": "looks like probabilities",
    "rounded": "looks like probabilities",
    "percentages": "adds up to 100",
    "counts of trees": "adds up to 50",
    "one-hot": "one-hot labels",
    "one-hot whole numbers": "one-hot labels",
    "losses of classes": "losses of each class",
    "log-odds of classes": "log-odds of each class",
    "one-against-one votes": "one-against-one votes",
}
# Declared to be probabilities: what is to be done instead.
INSTEAD = {
    "log-probabilities": "log-probabilities, which are logits",
    "percentages": "percent. divide by 100",
    "counts of trees": "adds up to 50: divide by that",
    "rounded": "divide each row by its sum",
}
RIGHT = {"probabilities", "in single precision", "in half precision", "one-hot", "one-hot whole numbers"}


def by_hand(values: Any, kind: str, folder: Path) -> tuple[str, ...]:
    given = {kind: values, "labels": Y}
    return from_outputs(member=MEMBER, **given, rng=np.random.default_rng(0), design="one-run").notes


def by_table(values: Any, kind: str, folder: Path) -> tuple[str, ...]:
    np.savez(folder / "t.npz", z=values, y=Y, m=MEMBER)
    rng = np.random.default_rng(0)
    return from_table(folder / "t.npz", score="z", member="m", labels="y", signal=kind, rng=rng).notes  # type: ignore[arg-type]


def by_pairs(values: Any, kind: str, folder: Path) -> tuple[str, ...]:
    sides = []
    for name, rows in (("m", MEMBER), ("n", ~MEMBER)):
        np.save(folder / f"{name}.npy", values[rows])
        np.save(folder / f"{name}y.npy", Y[rows])
        sides.append({"signal": folder / f"{name}.npy", "labels": folder / f"{name}y.npy"})
    return from_pairs(*sides, signal=kind, rng=np.random.default_rng(0)).notes  # type: ignore[arg-type]


def by_campaign(values: Any, kind: str, folder: Path) -> tuple[str, ...]:
    target = Precomputed(values, kind)  # type: ignore[arg-type]
    made = Campaign(target, Records(np.arange(N), Y, MEMBER, {}, "rows"), design="one-run")
    return collect(made, rng=np.random.default_rng(0)).notes


def by_shadows(values: Any, kind: str, folder: Path) -> tuple[str, ...]:
    included = np.random.default_rng(1).random((4, N)) < 0.5
    outputs = np.stack([np.roll(values, 1, axis=0), values, values, values])
    np.savez(folder / "s.npz", outputs=outputs, included=included, labels=Y)
    return GivenShadows.load(folder / "s.npz", given=kind).notes  # type: ignore[arg-type]


def by_model(values: Any, kind: str, folder: Path) -> tuple[str, ...]:
    x = np.arange(N)
    sides = ((x[MEMBER], Y[MEMBER]), (x[~MEMBER], Y[~MEMBER]))
    found = ma.audit_model(
        lambda rows: values[rows],
        members=sides[0],
        nonmembers=sides[1],
        design="one-run",
        outputs=kind,  # type: ignore[arg-type]
        plan=ma.Plan(bounds=None),
        rng=0,
    )
    return found.notes


ENTRIES: dict[str, Callable[[Any, str, Path], tuple[str, ...]]] = {
    "outputs": by_hand,
    "table": by_table,
    "pairs": by_pairs,
    "campaign": by_campaign,
    "given shadows": by_shadows,
    "model": by_model,
}
MAY_BE = "may be"


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("actual", ACTUAL)
def test_outputs_that_are_declared_to_be_logits(actual: str, entry: str, tmp_path: Path) -> None:
    if actual in REFUSED:
        with pytest.raises(InputError, match=REFUSED[actual]):
            ENTRIES[entry](ACTUAL[actual], "logits", tmp_path)
    else:
        assert not [note for note in ENTRIES[entry](ACTUAL[actual], "logits", tmp_path) if MAY_BE in note]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("actual", ACTUAL)
def test_outputs_that_are_declared_to_be_probabilities(actual: str, entry: str, tmp_path: Path) -> None:
    if actual in RIGHT:
        notes = ENTRIES[entry](ACTUAL[actual], "probabilities", tmp_path)
        assert not [note for note in notes if MAY_BE in note]
        return
    with pytest.raises(InputError, match=INSTEAD.get(actual, "add up to 1")):
        ENTRIES[entry](ACTUAL[actual], "probabilities", tmp_path)


@pytest.mark.parametrize("whose", ["members", "non-members"])
def test_one_of_two_files_may_hold_another_kind(whose: str, tmp_path: Path) -> None:
    mixed = np.where((MEMBER if whose == "members" else ~MEMBER)[:, None], P, LOGITS)
    for entry in ("pairs", "table", "campaign"):
        with pytest.raises(InputError, match=rf"of {whose}: expected logits, received what looks like probabilities"):
            ENTRIES[entry](mixed, "logits", tmp_path)


def test_few_rows_are_noted_at_most_and_one_row_shows_nothing() -> None:
    assert declared_kind.check_logits(P[:1]) == ()
    assert declared_kind.check_logits(P[:2]) == ()
    (note,) = declared_kind.check_logits(P[:5])
    assert note.startswith("The logits may be probabilities: every row lies in [0, 1] and adds up to 1. If they are, ")
    for two in ([[0.3, 0.7]], [[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0]] * 9):
        assert not [one for one in declared_kind.check_logits(two) if "votes" in one]


def test_most_rows_are_noted() -> None:
    mostly = np.where(np.arange(N)[:, None] < 4, LOGITS, P)
    (note,) = declared_kind.check_logits(mostly)
    assert "96.7% of the rows lie in [0, 1] and add up to 1" in note


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_other_numbers_of_classes(classes: int) -> None:
    y = RNG.integers(0, classes, 60)
    logits = RNG.normal(size=(60, classes))
    for right in (logits, 0.01 * logits, np.log(special.softmax(logits, axis=1)), 1 / classes + 1e-5 * logits):
        assert declared_kind.check_logits(right, y) == ()
        assert declared_kind.check_logits(right.astype(np.float32), y) == ()
    with pytest.raises(InputError, match="looks like probabilities"):
        declared_kind.check_logits(special.softmax(logits, axis=1).astype(np.float32), y)


def test_one_column_of_two_classes() -> None:
    score = RNG.normal(size=(60, 1))
    assert declared_kind.check_logits(np.hstack([-score / 2, score / 2])) == ()
    p = special.expit(score)
    (note,) = declared_kind.check_logits(np.hstack([-p / 2, p / 2]))
    assert "probabilities of each label" in note


def test_sigmoid_outputs_and_log_odds_of_labels_are_noted() -> None:
    each = special.expit(4 * LOGITS)
    (note,) = declared_kind.check_logits(each)
    assert "of each class by itself (sigmoid)" in note
    (note,) = declared_kind.check_logits(each, several=True)
    assert "every number lies in [0, 1]" in note
    assert declared_kind.check_logits(LOGITS, several=True) == ()


@pytest.mark.parametrize("classes", [3, 4, 6])
def test_votes_become_the_scores_of_classes_of_scikit_learn(classes: int) -> None:
    y = np.arange(90) % classes
    x = RNG.normal(size=(90, 5)) + 2 * RNG.normal(size=(classes, 5))[y]
    fitted = SVC(decision_function_shape="ovo").fit(x, y)
    votes = fitted.decision_function(x)
    expected = SVC(decision_function_shape="ovr").fit(x, y).decision_function(x)
    np.testing.assert_allclose(declared_kind.class_scores(votes), expected, atol=1e-9)
    found = declared_kind.in_logits(votes, y)
    assert found is not None
    assert (found.looks, found.certain) == ("one-against-one votes", True)
    assert declared_kind.in_logits(expected, y) is None


def test_a_poor_classifier_does_not_vote() -> None:
    """Controls: labels that nothing finds, labels of which one is frequent, and a shift of all logits."""
    for shift in (0.0, -5.0, 5.0):
        noise = RNG.normal(size=(300, 3)) + shift
        for y in (RNG.integers(0, 3, 300), np.r_[np.full(250, 2), RNG.integers(0, 3, 50)]):
            assert declared_kind.check_logits(noise, y) == ()


# -- losses, scores, tokens ------------------------------------------------------------------------------------------

LOSS = -np.log(P[np.arange(N), Y])
LOSSES: dict[str, tuple[Any, str]] = {
    "losses": (LOSS, ""),
    "losses below 1": (LOSS / LOSS.max() * 0.9, ""),
    "right or wrong": ((P.argmax(axis=1) != Y).astype(float), ""),
    "losses of densities": (LOSS - 0.5, ""),
    "log-probabilities": (-LOSS, "log-probabilities, or losses with their sign turned"),
    "classes": (Y, "labels or counts"),
}


@pytest.mark.parametrize("actual", LOSSES)
def test_losses(actual: str, tmp_path: Path) -> None:
    values, words = LOSSES[actual]
    notes = [note for note in by_loss(values, MEMBER) if MAY_BE in note]
    assert bool(notes) == bool(words)
    assert words in "".join(notes)
    assert by_loss(values[:4], MEMBER[[0, 1, -1, -2]]) == ()


def by_loss(values: Any, member: Any) -> tuple[str, ...]:
    return from_outputs(member=member, losses=values, rng=np.random.default_rng(0), design="one-run").notes


def test_probabilities_of_the_true_class_are_seen_by_their_direction() -> None:
    """Nothing in the numbers tells them from losses below 1; that members have the larger ones does."""
    certain = np.where(MEMBER, 0.9, 0.4) + 0.05 * RNG.normal(size=N)
    made = from_outputs(member=MEMBER, losses=certain, rng=np.random.default_rng(0), design="one-run")
    found = ma.audit(made.evidence, plan=ma.Plan(bounds=None), rng=0)
    assert any("If they were declared to be losses or logits, check that they are" in note for note in found.notes)


def test_several_scores_that_add_up_to_1(tmp_path: Path) -> None:
    columns = {f"p_{j}": P[:, j] for j in range(C)}
    np.savez(tmp_path / "t.npz", **columns, m=MEMBER)
    rng = np.random.default_rng(0)
    (note,) = from_table(tmp_path / "t.npz", score=list(columns), member="m", rng=rng).notes
    assert note.startswith("The scores may be probabilities: every row adds up to 1.")
    np.savez(tmp_path / "t.npz", **{name: LOGITS[:, j] for j, name in enumerate(columns)}, m=MEMBER)
    assert from_table(tmp_path / "t.npz", score=list(columns), member="m", rng=rng).notes == ()


def tokens(path: Path, turn: Callable[[Any], Any], each: int = 40) -> Path:
    draws = np.random.default_rng(3)
    with path.open("w") as file:
        for i in range(60):
            log_p = -draws.exponential(1.5, each)
            row = {"id": i, "member": i % 2, "logprobs": turn(log_p).tolist()}
            file.write(json.dumps(row) + "\n")
    return path


@pytest.mark.parametrize(
    ("turn", "each", "words"),
    [
        (np.exp, 40, r"line \d+, .*all 2,400 of this file lie in \[0, 1\], as probabilities do: take their logarithm$"),
        (np.negative, 40, "none is below 0, as of losses: negate losses$"),
        (lambda log_p: log_p + 2, 40, "some above, as logits are: negate losses, take log_softmax of logits$"),
        (np.exp, 3, "take their logarithm, or of losses that are all below 1 the negative$"),
    ],
)
def test_tokens_that_are_no_log_probabilities_are_refused(turn: Any, each: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        from_tokens(tokens(tmp_path / "t.jsonl", turn, each))


def test_tokens_whose_sign_was_turned_are_noted(tmp_path: Path) -> None:
    """Who turned the sign of probabilities, as one message said before, is told so; log-probabilities are not."""
    (note,) = from_tokens(tokens(tmp_path / "t.jsonl", lambda log_p: -np.exp(log_p))).notes
    assert note.startswith("The log-probabilities may be probabilities, or small losses, with their sign turned")
    assert from_tokens(tokens(tmp_path / "t.jsonl", lambda log_p: log_p)).notes == ()
    assert from_tokens(tokens(tmp_path / "t.jsonl", lambda log_p: log_p / 50, each=5)).notes == ()


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
def test_a_command_refuses_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("m", MEMBER), ("n", ~MEMBER)):
        np.save(f"{name}.npy", P[rows])
        np.save(f"{name}y.npy", Y[rows])
    files = ["--members", "m.npy", "--nonmembers", "n.npy", "--member-labels", "my.npy", "--nonmember-labels", "ny.npy"]
    options = ["--design", "one-run", "--no-bounds", "--attack", "logit_confidence"]
    code, _, error = run("audit", *files, "--signal", "logits", *options)
    assert code == 1
    (line,) = error.strip().splitlines()
    assert "received what looks like probabilities: every row lies in [0, 1] and adds up to 1" in line
    assert run("audit", *files, "--signal", "probabilities", *options)[0] in (0, 3, 4)
    evaluation = {"design": "one-run"}
    for side in ("member", "nonmember"):
        evaluation |= {f"{side}_logits_path": f"{side[0]}.npy", f"{side}_labels_path": f"{side[0]}y.npy"}
    Path("a.yaml").write_text(json.dumps({"attack": {"type": "logit_confidence"}, "evaluation": evaluation}))
    code, _, error = run("run", "a.yaml")
    assert (code, "looks like probabilities" in error) == (1, True)


def test_losses_of_each_class_are_named_whatever_they_are_declared_to_be() -> None:
    losses = -np.log(P)
    with pytest.raises(InputError, match="losses of each class"):
        declared_kind.check_logits(losses)
    assert declared_kind.step_for(losses) == "these are losses of each class: turn their sign, and pass them as logits"
    assert "logits, pass them as logits" in declared_kind.step_for(losses + 0.1)  # the control
