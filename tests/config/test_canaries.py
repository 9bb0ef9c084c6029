"""The section canaries of a configuration: each kind with its own options, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from miaudit.collect.canaries import Hard, Mislabelled, Noise
from miaudit.config import audit as configuration
from miaudit.config.canaries import CanarySection, asked, generator
from miaudit.errors import ConfigError, InputError

TREE = {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"}


def written(folder: Path, canaries: Any, target: Any = TREE, **data: Any) -> Path:
    """A configuration with its data: 60 rows of numbers with three classes."""
    rng = np.random.default_rng(0)
    np.savez(folder / "d.npz", x=rng.normal(size=(60, 3)), y=np.arange(60) % 3, in_it=np.arange(60) % 2)
    content = {"target": target, "data": {"path": "d.npz", "x": "x", "y": "y", **data}, "canaries": canaries}
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def campaign(path: Path) -> Any:
    return configuration.read(path).campaign(path.parent)  # type: ignore[union-attr]


def test_options_become_the_record_of_their_kind() -> None:
    assert asked("hard", count=5, pool=None) == Hard(5)
    assert CanarySection.model_validate({"kind": "noise", "count": 9, "shape": [3, 1]}).asked() == Noise(9, (3, 1))
    with pytest.raises(InputError, match=r"canaries\.law: expected none for kind hard"):
        asked("hard", count=5, law="uniform")


def test_a_configuration_makes_the_same_canaries_each_time_and_others_for_another_seed(tmp_path: Path) -> None:
    one, two = (campaign(written(tmp_path, {"kind": "mislabelled", "count": 20})).records for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)
    other = campaign(written(tmp_path, {"kind": "mislabelled", "count": 20, "seed": 4})).records
    assert not np.array_equal(one.x[-20:], other.x[-20:])
    assert one.n == 60
    assert one.canary.sum() == 20


def test_the_canaries_of_a_seed_are_not_the_coins_of_it() -> None:
    made, coins = generator(0).random(50), np.random.default_rng(0).spawn(1)[0].random(50)
    assert abs(np.corrcoef(made, coins)[0, 1]) < 0.5
    assert asked("mislabelled", count=2) == Mislabelled(2)


def test_canaries_of_a_file_stand_behind_the_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.full((4, 3), np.arange(4.0)[:, None] + 9), y=np.arange(4) % 3)
    found = campaign(written(tmp_path, {"file": "own.npz"})).records
    assert found.n == 64
    assert found.canary[-4:].all()
    assert found.made == "from own.npz"


def test_a_column_names_canaries_that_are_in_the_data(tmp_path: Path) -> None:
    path = written(tmp_path, None, canary="in_it")
    np.testing.assert_array_equal(campaign(path).records.canary, np.arange(60) % 2 == 1)
    with pytest.raises(InputError, match=r"none, beside data\.canary"):
        campaign(written(tmp_path, {"kind": "mislabelled", "count": 5}, canary="in_it"))
    with pytest.raises(InputError, match=r"data\.canary: expected 0 or 1 for each of 60 records"):
        campaign(written(tmp_path, None, canary="y"))


def test_records_are_held_out_beside_canaries_that_are_made_or_named(tmp_path: Path) -> None:
    made = campaign(written(tmp_path, {"kind": "mislabelled", "count": 5, "held_out": 9}))
    named = campaign(written(tmp_path, {"held_out": 9}, canary="in_it"))
    assert (made.held_out, named.held_out, named.records.canary.sum()) == (9, 9, 30)
    with pytest.raises(InputError, match="canaries: expected canaries beside held_out, received none"):
        campaign(written(tmp_path, {"held_out": 9}))


@pytest.mark.parametrize(
    ("canaries", "said"),
    [
        ({"kind": "mislabeled", "count": 5}, "canaries.kind: expected mislabelled or"),
        ({"kind": "mislabeled", "count": 5}, "did you mean mislabelled?"),
        ({"kind": "noise"}, "canaries.count: expected how many canaries, two or more, received none"),
        ({"kind": "noise", "count": 1}, "canaries.count: expected 2 or more, received 1"),
        ({"kind": "noise", "count": "many"}, "canaries.count: expected 2 or more, received 'many'"),
        ({"kind": "noise", "count": True}, "canaries.count: expected a number, received true"),
        ({"kind": "hard", "count": 5, "law": "gaussian"}, "canaries.law: expected none for kind hard"),
        ({"kind": "hard", "count": 5, "pool": 1}, "canaries.pool: expected 2 or more, received 1"),
        ({"kind": "blank", "count": 5, "shape": [8]}, "canaries.shape: expected two whole numbers or more"),
        ({"count": 5}, "canaries: expected kind with count, or file, received neither"),
        ({"kind": "noise", "count": 5, "file": "audit.yaml"}, "expected kind with count, or file, received both"),
        ({"file": "audit.yaml", "count": 5}, "canaries: expected file alone, received count beside file"),
        ({"file": "absent.npz"}, "canaries.file: expected an existing file, received absent.npz"),
        ({"kind": "rare-tokens", "count": 5, "times": 0}, "canaries.times"),
        ({"kind": "rare-tokens", "count": 5, "times": []}, "canaries.times: expected whole numbers from 1"),
        ({"kind": "rare-tokens", "count": 5, "times": [1, "many"]}, "canaries.times"),
        ({"kind": "rare-tokens", "count": 5, "per_unit": 0}, "canaries.per_unit"),
        ({"kind": "rare-tokens", "count": 5, "frame": "none"}, "canaries.frame: expected a text with {} once"),
        ({"kind": "held-out", "times": 4}, "canaries.count: expected how many canaries"),
        ({"file": "audit.yaml", "times": 4}, "canaries: expected file alone, received times beside file"),
        ({"kinds": "noise"}, "did you mean kind?"),
        ("noise", "canaries: expected a section of keys"),
    ],
)
def test_what_a_section_cannot_say_is_one_line_with_its_place(tmp_path: Path, canaries: Any, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        configuration.read(written(tmp_path, canaries))
    assert said in str(error.value)


def test_targets_that_cannot_learn_canaries_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.zeros((60, 3)))
    canaries = {"kind": "mislabelled", "count": 20}
    script = {"kind": "command", "command": "python t.py {rows} {out}", "outputs": "logits"}
    with pytest.raises(InputError, match="miaudit canaries writes data with canaries"):
        campaign(written(tmp_path, canaries, script))
    stands = {"kind": "outputs", "outputs_path": "o.npy"}
    with pytest.raises(InputError, match="which stands as it is"):
        campaign(written(tmp_path, canaries, stands))
    with pytest.raises(InputError, match=r"data\.member: expected none"):
        campaign(written(tmp_path, canaries, member="in_it"))
    with pytest.raises(ConfigError, match="canaries: expected a target that is trained here"):
        configuration.read(written(tmp_path, canaries, {"kind": "token-logprobs"}))
