"""A class of the user's own: from the configuration to scores, on workers, with a store that knows its source."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.config.audit import read
from miaudit.config.section import ConfigError
from miaudit.errors import InputError, MiauditError
from miaudit.models.own_target import OwnTarget, of_class
from miaudit.models.protocol import can_be_trained, can_be_trained_together

MODULE = '''
import numpy as np
from miaudit.models.protocol import Traits


class Memory:
    """Logits of the nearest record that was learned."""

    def __init__(self, sureness=4.0):
        self.sureness = sureness

    def fit(self, x, y, rows, *, seed):
        return x[rows], y[rows]

    def outputs(self, fitted, x):
        distance = ((x[:, None] - fitted[0][None]) ** 2).sum(axis=2)
        told = fitted[1][distance.argmin(axis=1)]
        sure = self.sureness - np.minimum(distance.min(axis=1), 3)
        return np.where(np.arange(2) == told[:, None], sure[:, None], 0)


class Several(Memory):
    kind = "multi-label"

    def outputs(self, fitted, x):
        distance = ((x[:, None] - fitted[0][None]) ** 2).sum(axis=2)
        sure = self.sureness - np.minimum(distance.min(axis=1), 3)
        return (2 * fitted[1][distance.argmin(axis=1)] - 1) * sure[:, None]


class Together(Memory):
    def fit_many(self, x, y, included, *, seeds):
        return [self.fit(x, y, np.flatnonzero(one), seed=seed) for one, seed in zip(included, seeds)]


class Stating(Memory, Traits):
    notes = ("Nearest records.",)

    def identity(self):
        return "data of May"


class Fixed:
    def outputs(self, fitted, x):
        return np.tile([0.0, 1.0], (len(x), 1))


class Failing(Memory):
    def fit(self, x, y, rows, *, seed):
        raise ValueError("no\\nmemory")


class Short(Memory):
    def outputs(self, fitted, x):
        return np.zeros((3, 2))


class Odd(Memory):
    kind = "logit"


class NoRows(Memory):
    def fit(self, x, y):
        return None


class Empty:
    pass


class Raising:
    def __init__(self):
        raise OSError("no file")


def made(sureness):
    return Memory(sureness)
'''
N = 80


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module, which is imported from there."""
    (tmp_path / "own_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("own_models", None)


def records(several: bool = False) -> Records:
    rng = np.random.default_rng(0)
    return Records(rng.normal(size=(N, 4)), rng.integers(0, 2, (N, 3) if several else N), None, {}, "noise")


def auc(found: object) -> float:
    scores, inside = next(iter(found.evidence.scores.values())), found.evidence.member
    ranks, m = stats.rankdata(scores), inside.sum()
    return float((ranks[inside].sum() - m * (m + 1) / 2) / (m * (len(scores) - m)))


def target(name: str, place: Path, **options: object) -> OwnTarget:
    return of_class(f"own_models:{name}", options, folder=place)


@pytest.mark.parametrize("name", ["Memory", "Several", "Stating"])
def test_a_class_that_memorises_is_seen(name: str, place: Path) -> None:
    campaign = Campaign(target(name, place), records(name == "Several"), shadows=Shadows(8))
    found = collect(campaign, rng=np.random.default_rng(0))
    assert auc(found) > 0.8
    assert ("Nearest records." in found.notes) is (name == "Stating")


def test_one_that_learns_nothing_is_not_and_stands_as_it_is(place: Path) -> None:
    fixed = target("Fixed", place)
    assert not can_be_trained(fixed)
    member = np.arange(N) % 2 == 0
    whole = records()
    data = Records(whole.x, whole.y, member, {}, "noise")
    found = collect(Campaign(fixed, data, "one-run"), rng=np.random.default_rng(0))
    assert abs(auc(found) - 0.5) < 0.15


def test_models_are_trained_together_where_the_class_can(place: Path) -> None:
    together, alone = target("Together", place), target("Memory", place)
    assert can_be_trained_together(together)
    assert not can_be_trained_together(alone)
    found = [
        collect(Campaign(one, records(), shadows=Shadows(4, at_once=k)), rng=np.random.default_rng(0)).evidence.scores
        for one, k in ((together, 4), (alone, 1))
    ]
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


@pytest.mark.long
def test_workers_import_the_module_and_give_the_same(place: Path) -> None:
    found = []
    for workers in (1, 2):
        campaign = Campaign(target("Memory", place), records(), shadows=Shadows(4, workers=workers))
        found.append(collect(campaign, rng=np.random.default_rng(0)).evidence.scores)
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from miaudit.config.audit import read
folder = Path(sys.argv[1])
sys.path.append(str(folder))
if __name__ == "__main__":
    found = read(folder / "audit.yaml").collect(folder, rng=np.random.default_rng(0))
    np.save(sys.argv[2], found.evidence.scores["lira_online"])
"""


@pytest.mark.slow
def test_a_cluster_gets_the_module_and_gives_the_same(place: Path) -> None:
    pytest.importorskip("ray")
    written(place)
    (place / "audit").mkdir()
    for name in ("audit.yaml", "data.npz", "own_models.py"):
        (place / name).rename(place / "audit" / name)
    (place / "script.py").write_text(SCRIPT)
    results = []
    for executor in ("local", "ray"):
        config = CONFIG.format(name="own_models:Memory", options="{}", more="")
        config = config.replace("store: store", f"executor: {executor}, workers: 2")
        (place / "audit" / "audit.yaml").write_text(config)
        command = [sys.executable, "script.py", str(place / "audit"), f"{executor}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
        assert done.returncode == 0, done.stderr
        results.append(np.load(place / f"{executor}.npy"))
    np.testing.assert_array_equal(*results)


CONFIG = """
target: {{kind: target, class: "{name}", options: {options}{more}}}
data: {{path: data.npz, x: x, y: y}}
shadow: {{models: 4, store: store}}
"""


def written(place: Path, name: str = "own_models:Memory", options: str = "{}", more: str = "") -> Path:
    whole = records()
    np.savez(place / "data.npz", x=whole.x, y=whole.y)
    (place / "audit.yaml").write_text(CONFIG.format(name=name, options=options, more=more))
    return place / "audit.yaml"


def test_the_configuration_names_it_and_the_store_resumes(place: Path) -> None:
    config = read(written(place, options="{sureness: 5.0}"))
    assert config.user_code == "own_models:Memory"
    first = config.collect(place, rng=np.random.default_rng(0))
    assert any("own_models:Memory" in note for note in first.notes)
    before = {path.name: path.stat().st_mtime_ns for path in (place / "store").iterdir()}
    again = config.collect(place, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(first.evidence.scores["lira_online"], again.evidence.scores["lira_online"])
    models = [name for name in before if name.startswith("model")]
    assert models
    assert all((place / "store" / name).stat().st_mtime_ns == before[name] for name in models)


def test_an_edited_class_or_file_or_option_is_another_training(place: Path) -> None:
    (place / "prices.csv").write_text("1")
    plain = target("Memory", place).identity()
    assert target("Memory", place).identity() == plain
    assert target("Memory", place, sureness=3.0).identity() != plain
    with_file = of_class("own_models:Memory", {}, folder=place, files=["prices.csv"]).identity()
    (place / "prices.csv").write_text("2")
    assert (
        len({plain, with_file, of_class("own_models:Memory", {}, folder=place, files=["prices.csv"]).identity()}) == 3
    )
    assert "data of May" in target("Stating", place).identity()
    other = shutil.copytree(place, place / "elsewhere", ignore=shutil.ignore_patterns("elsewhere", "__pycache__"))
    assert str(place) not in plain
    sys.modules.pop("own_models")
    sys.path.insert(0, str(other))
    try:
        assert target("Memory", other).identity() == plain  # another folder is no other class
    finally:
        sys.path.remove(str(other))
    (place / "own_models.py").write_text(MODULE + "\n# edited\n")
    sys.modules.pop("own_models")
    importlib.invalidate_caches()
    assert target("Memory", place).identity() != plain


def test_a_file_that_changes_during_the_campaign_ends_it(place: Path) -> None:
    own = target("Memory", place)
    (place / "own_models.py").write_text(MODULE + "\n# edited\n")
    with pytest.raises(MiauditError, match="the file of own_models:Memory changed since the campaign began"):
        own.fit(np.zeros((2, 4)), np.array([0, 1]), np.array([0, 1]), seed=0)


def test_a_store_of_another_class_is_refused(place: Path) -> None:
    read(written(place)).collect(place, rng=np.random.default_rng(0))
    changed = read(written(place, options="{sureness: 2.0}"))
    with pytest.raises(InputError, match="target"):
        changed.collect(place, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("own_models.py:Memory", {}, "write own_models:Memory: the module beside the configuration file"),
        ("own_models:Memry", {}, r"target\.class: expected a function of own_models, received Memry"),
        ("no_such_module:X", {}, r"target\.class: expected a module that imports"),
        ("own_models:Memory", {"sure": 1}, r"target\.class: expected code that accepts target\.options"),
        ("own_models:Raising", {}, "raises OSError: no file"),
        ("own_models:Empty", {}, r"expected an object with outputs\(fitted, x\), received Empty"),
        ("own_models:NoRows", {}, r"expected a method fit\(x, y, rows, \*, seed\), received fit\(x, y\)"),
        ("own_models:Odd", {}, r"expected one of logits, .*, received 'logit'; did you mean logits"),
    ],
)
def test_what_is_no_target_is_refused_in_one_line(name: str, options: dict, said: str, place: Path) -> None:
    with pytest.raises(InputError, match=said) as error:
        of_class(name, options, folder=place)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "said"), [("Failing", "ValueError: no memory"), ("Short", r"expected numbers of shape \(80, columns\)")]
)
def test_what_fails_is_said_in_one_line_with_the_number_of_the_fit(name: str, said: str, place: Path) -> None:
    with pytest.raises(MiauditError, match=said) as error:
        collect(Campaign(target(name, place), records()), rng=np.random.default_rng(0))
    assert "model 0" in str(error.value)


def test_keys_that_are_missing_or_of_another_kind_are_named(place: Path) -> None:
    path = written(place)
    path.write_text(path.read_text().replace('class: "own_models:Memory", ', ""))
    with pytest.raises(ConfigError, match="class"):
        read(path)
    path = written(place, more=", estimator: x")
    with pytest.raises(ConfigError, match=r"expected keys of kind target \(class, options, files\)"):
        read(path)
    with pytest.raises(InputError, match="no_such"):
        of_class("own_models:Memory", {}, folder=place, files=["no_such.csv"])


def test_a_function_may_make_it(place: Path) -> None:
    assert target("made", place, sureness=2.0).model.sureness == 2.0


def test_the_page_s_example_goes_from_its_blocks_to_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "your_model.md").read_text().partition("## A class of your own")[2]
    blocks = {kind: re.search(rf"^```{kind}\n(.*?)^```", page, flags=re.M | re.S)[1] for kind in ("python", "yaml")}
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["python"], "your_model.md", "exec"), {})
    rng = np.random.default_rng(0)
    np.savez("stays.npz", x=rng.normal(size=(40, 8)), days=rng.normal(size=40))
    Path("audit.yaml").write_text(blocks["yaml"])
    monkeypatch.syspath_prepend(tmp_path)
    config = read(tmp_path / "audit.yaml")
    found = collect(replace(config.campaign(tmp_path), shadows=Shadows(4)), rng=np.random.default_rng(0))
    assert auc(found) > 0.7  # 17 coefficients for 20 records
    assert {"lira_online", "loss"} <= set(found.evidence.scores)
