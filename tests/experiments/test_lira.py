"""experiments/lira in its smallest form, on the real data; and its parts on arrays with a known answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "lira"
SCRIPT = FOLDER / "run.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
NEEDED = ("location30/location30.npz", "mia_scores_location30/location30_mia_scores.npz")
ABSENT = [name for name in NEEDED if not (DATA / name).is_file()]
MODULES = ("training", "attack", "claims", "published", "figures")
EXTRA = "torch"

needs_data = pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")


@pytest.mark.long
def test_fewer_shadow_models_are_a_prefix_of_more(parts: dict[str, ModuleType]) -> None:
    memberships = parts["training"].memberships
    many, few = memberships(300, 32, 3, 7), memberships(300, 8, 3, 7)
    for count in (4, 8, 16, 32):
        assert (many[:count].sum(axis=0) == count // 2).all()
    assert (many[:8] == few[:8]).all()
    assert (many[32:] == few[8:]).all()  # the targets are the same, however many shadow models there are
    assert 0.4 < many[32:].mean() < 0.6
    assert not (many[32:].sum(axis=0) == 1).all()  # coins, not halves
    with pytest.raises(SystemExit, match="power of two"):
        memberships(300, 12, 1, 0)


@pytest.mark.long
def test_records_of_several_targets_are_units(parts: dict[str, ModuleType]) -> None:
    """A record that leaks leaks in every target: with units the interval is that of records, not of rows."""
    rng = np.random.default_rng(0)
    n, targets = 800, 6
    hardness = 3.0 * rng.normal(size=(n, 1))
    member = rng.random((n, targets)) < 0.5
    target = hardness + member + 0.1 * rng.normal(size=(n, targets))
    statistics = parts["attack"].Statistics(target, member, np.zeros((n, 4)), np.zeros((n, 4), dtype=bool))
    evidence = statistics.evidence({"loss": statistics.loss()}, "a simulation")
    assert (evidence.member == member.ravel()).all()
    assert (evidence.unit == np.arange(n * targets) // targets).all()
    low, value, high = parts["attack"].limits(evidence)["auc"]
    truth = parts["attack"].Sample.of(evidence.only("loss")).roc.auc
    assert value == truth
    assert low < value < high


@pytest.mark.long
def test_lira_with_known_gaussians_beats_the_loss_and_null_records_show_nothing(parts: dict[str, ModuleType]) -> None:
    rng = np.random.default_rng(3)
    n, models = 4000, 32
    included = parts["training"].memberships(n, models, 1, 5).T
    hardness = 4.0 * rng.normal(size=(n, 1))
    for effect, beats in ((2.0, True), (0.0, False)):
        values = hardness + effect * included + rng.normal(size=(n, models + 1))
        statistics = parts["attack"].Statistics(
            values[:, models:], included[:, models:], values[:, :models], included[:, :models]
        )
        scores = {"loss": statistics.loss(), "lira": statistics.lira(models)["lira_online"]}
        found = {name: parts["attack"].limits(statistics.evidence({name: score}, "")) for name, score in scores.items()}
        lira, loss = (found[name]["tpr_at_fpr_0.01"] for name in ("lira", "loss"))
        assert parts["attack"].apart(lira, loss) == beats
        if not beats:
            assert found["lira"]["auc"][0] < 0.5 < found["lira"]["auc"][2]


@pytest.mark.long
def test_the_cost_of_noise_is_paired_over_records(parts: dict[str, ModuleType]) -> None:
    class Answers:
        def __init__(self, right: np.ndarray, included: np.ndarray) -> None:
            self.given, self.targets = right, range(len(right))
            self.outputs = type("Outputs", (), {"included": included})()

        def right(self, model: int) -> np.ndarray:
            return self.given[model]

    included = np.zeros((1, 1000), dtype=bool)
    included[0, 500:] = True
    plain = np.ones((1, 1000), dtype=bool)
    noisy = plain.copy()
    noisy[0, :50] = False  # 50 of the 500 that it never saw; members do not count
    noisy[0, 600:900] = False
    low, value, high = parts["claims"].cost(Answers(plain, included), Answers(noisy, included))
    assert value == pytest.approx(0.1)
    assert high - value == pytest.approx(1.96 * (0.1 * 0.9 / 499) ** 0.5, rel=1e-3)
    assert value - low == pytest.approx(high - value)
    assert parts["claims"].cost(Answers(plain, included), Answers(plain, included)) == (0.0, 0.0, 0.0)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@needs_data
def test_published_scores_allow_the_shadow_classifier_and_no_lira(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    found = parts["published"].measured(DATA, tmp_path, np.random.default_rng(0))
    assert "one shadow model on 1,000 other records" in found["lira_refused"]
    assert "shadow_classifier" in found["lira_refused"]
    assert found["undefended"]["loss"]["auc"][1] == pytest.approx(0.8698, abs=5e-4)
    # Behind MemGuard the loss is what was tampered with; a classifier that saw tampered shadow outputs sees through it.
    learned, loss = (found["memguard"][name]["auc"] for name in ("shadow_classifier", "loss"))
    assert learned[0] > loss[2]
    # The control: with membership of the shadow's records shuffled, nothing is learned that holds for the target.
    with np.load(DATA / NEEDED[1], allow_pickle=False) as z:
        given = {name: z[name] for name in z.files}
    given["shadow_member"] = np.random.default_rng(1).permutation(given["shadow_member"])
    control = parts["published"].attacks(given, "memguard")["shadow_classifier"]
    member = given["target_member"].astype(bool)
    assert parts["attack"].Sample.of(parts["attack"].ma.Evidence(score=control, member=member)).auc(0.95).value < 0.7


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@needs_data
def test_a_trained_network_is_attacked_and_the_store_is_used_again(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [sys.executable, SCRIPT, "--data", DATA, "--form", "tiny", "--device", "cpu", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    row = found["location30"]["lira"]
    lira, loss = (row["audit"][name]["tpr_at_fpr_0.01"] for name in ("lira_online", "loss"))
    assert lira[0] > loss[2]
    assert row["scores"]["lira_online_global"]["16"]["auc"][1] > row["scores"]["loss"]["-"]["auc"][2]
    plain, decayed = found["location30"]["weight_decay"]
    assert plain["tpr_0.001"]["lira"] > decayed["tpr_0.001"]["lira"]
    assert (tmp_path / "shadows-location30.svg").stat().st_size > 1000
    assert (tmp_path / "location30-16-shadows" / "report.html").stat().st_size > 10_000
    models = sorted((tmp_path / "models").rglob("model-*.npy"))
    assert len(models) == 18 + 2 * 6
    written = [path.stat().st_mtime_ns for path in models]
    again = subprocess.run(
        [*command, "--parts", "lira", "--only", "location30"], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert [path.stat().st_mtime_ns for path in models] == written
