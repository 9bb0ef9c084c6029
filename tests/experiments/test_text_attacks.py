"""experiments/text_attacks in its smallest form, and its statistics against simulations with a known answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from text_attacks import gains

from miaudit.attacks import tokens
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample

FOLDER = Path(__file__).parents[2] / "experiments" / "text_attacks"


def trainings(
    rng: np.random.Generator, effect: tuple[float, float], count: int = 6, n: int = 120
) -> tuple[dict, np.ndarray]:
    """Two scores that see membership by ``effect`` standard deviations, with what they share of documents and coins."""
    member = rng.random((count, n)) < 0.5
    hard = rng.normal(size=n)
    loss, other = (hard + rng.normal(size=(count, n)) + more * member for more in effect)
    return {"loss": loss, "other": other}, member


def test_a_metric_of_one_training_is_that_of_an_audit() -> None:
    scores, member = trainings(np.random.default_rng(0), (0.5, 1.0))
    found = gains.metrics(scores["loss"], member, np.ones((2, 120)))
    for row, (score, inside) in enumerate(zip(scores["loss"], member, strict=True)):
        sample = Sample.of(Evidence(score=score, member=inside))
        assert found["auc"][row] == pytest.approx([sample.roc.auc] * 3)
        assert found["tpr@0.1"][row] == pytest.approx([float(sample.roc.tpr_at(0.1))] * 3)


@pytest.mark.long
def test_documents_drawn_again_are_documents_counted_again() -> None:
    rng = np.random.default_rng(1)
    scores, member = trainings(rng, (0.5, 1.0), count=2, n=40)
    counts = rng.multinomial(40, np.full(40, 1 / 40), size=3)
    found = gains.metrics(scores["loss"], member, counts.astype(float))
    for draw, count in enumerate(counts):
        rows = np.repeat(np.arange(40), count)
        for training in range(2):
            again = Sample.of(Evidence(score=scores["loss"][training, rows], member=member[training, rows])).roc
            assert found["auc"][training, 1 + draw] == pytest.approx(again.auc)


@pytest.mark.slow
@pytest.mark.long
def test_intervals_of_gains_hold_the_truth_and_see_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains, "DRAWS", 40)
    spread = 2.0**0.5 * 2.0**0.5  # of the difference of two documents: hardness and noise, twice
    held, seen, false = 0, 0, 0
    times = 60
    for seed in range(times):
        rng = np.random.default_rng(seed)
        for effect in ((0.5, 0.5), (0.3, 1.5)):
            scores, member = trainings(rng, effect)
            found = gains.compared(scores, member, rng, default=("loss",))["other"]["auc"]["on loss"]
            truth = float(np.diff(stats.norm.cdf(np.array(effect) / spread))[0])
            held += found.low <= truth <= found.high
            seen += found.low > 0 and effect[0] < effect[1]
            false += found.low > 0 and effect[0] == effect[1]
    assert held >= stats.binom.ppf(0.01, 2 * times, 0.95)
    assert false <= stats.binom.ppf(0.99, times, 0.025)
    assert seen >= 0.9 * times


def test_an_attack_without_a_score_for_some_documents_is_compared_on_the_others() -> None:
    rng = np.random.default_rng(2)
    scores, member = trainings(rng, (0.5, 1.0))
    scores["other"][:, 60:] = np.nan
    found = gains.compared(scores, member, np.random.default_rng(0), default=("loss",))
    known = {name: values[:, :60] for name, values in scores.items()}
    alone = gains.compared(known, member[:, :60], np.random.default_rng(0), default=("loss",))
    assert found["other"]["auc"]["on loss"].value == pytest.approx(alone["other"]["auc"]["on loss"].value)
    assert found["loss"]["auc"]["mean"].value != pytest.approx(alone["loss"]["auc"]["mean"].value)


@pytest.mark.slow
@pytest.mark.long
def test_the_command_runs_goes_on_and_writes_the_page(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    pytest.importorskip("transformers", reason="the extra `text`")
    page = tmp_path / "text.md"
    marks = "<!-- table: experiments/text_attacks/run.py --docs -->", "<!-- end of the table -->"
    page.write_text(f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n")
    command = [sys.executable, FOLDER / "run.py", "--form", "tiny", "--out", tmp_path / "x", "--docs", page]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "x-tiny" / "found.json").read_text())
    shadows = {"lira_online", "lira_offline", "rmia_online", "rmia_offline"}
    for part in found.values():
        assert set(part["attacks"]) == set(tokens.ATTACKS) | shadows
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| `window_votes` |" in text
    kept = sorted((tmp_path / "x-tiny" / "parts").glob("*.npz"))
    with np.load(kept[0], allow_pickle=False) as part:  # coins decide, and the loss sees them
        member, loss = part["member"], part["loss"]
    assert loss[member].mean() > loss[~member].mean()
    times = [path.stat().st_mtime_ns for path in kept]
    kept[0].unlink()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "x-tiny" / "found.json").read_text()) == found
    assert [path.stat().st_mtime_ns for path in kept[1:]] == times[1:]
