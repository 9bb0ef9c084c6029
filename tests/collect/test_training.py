"""What a campaign trains: the arguments of its fits, and the records that models are asked about."""

from __future__ import annotations

import re
import socket
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect, cost
from miaudit.collect.training import train_one_part, training, training_of_all
from miaudit.errors import InputError
from miaudit.io.storage import BESIDE
from miaudit.models.targets import SklearnTarget

RNG = np.random.default_rng(3)
DATA = Records(RNG.normal(size=(30, 2)), RNG.integers(0, 2, 30), None, {}, "noise")
COPIES = DATA.x[:, None, :] + np.zeros((30, 3, 1))


def arguments(design: str, *attacks: str, models: int = 0) -> tuple[dict[str, Any], dict[str, Any], Draws]:
    audited = 5 if design == "multi-run" else None
    copies = COPIES if "label_only" in attacks else None
    made = Campaign(
        SklearnTarget(DecisionTreeClassifier()),
        DATA,
        design=design,
        attacks=attacks,
        audited=audited,
        copies=copies,
        shadows=Shadows(models=models),
    )
    draws = Draws.of(made, np.random.default_rng(0))
    return training(made, draws), training_of_all(made, draws), draws


@pytest.mark.parametrize("attacks", [("loss",), ("label_only",), ("gaussian_lira", "entropy")])
def test_a_run_keeps_its_own_record_and_the_copies_of_it(attacks: tuple[str, ...]) -> None:
    found, of_all, draws = arguments("multi-run", *attacks)
    assert "own" not in of_all
    asked = found["keep"]
    np.testing.assert_array_equal(asked, of_all["keep"])
    for i, row in enumerate(draws.rows):
        copies = [30 + row * 3 + c for c in range(3)] if "label_only" in attacks else []
        assert asked[found["own"][i]].tolist() == [row, *copies]


@pytest.mark.parametrize(
    ("design", "attacks", "models"),
    [("multi-run", ("lira_offline",), 0), ("multi-run", ("loss", "lira_offline"), 0), ("one-run", ("lira_online",), 4)],
)
def test_models_that_are_compared_keep_all(design: str, attacks: tuple[str, ...], models: int) -> None:
    found, of_all, _ = arguments(design, *attacks, models=models)
    assert "own" not in found
    assert found.keys() == of_all.keys()


# -- signals in the place of outputs ---------------------------------------------------------------------------------


CLASSES = Records(RNG.normal(size=(80, 4)), np.arange(80) % 5, None, {}, "five")
SOFT = SklearnTarget(LogisticRegression(max_iter=20))
WAYS = [
    (),
    ("lira_online", "margin"),
    ("lira_offline_global", "entropy"),
    ("rmia_online",),
    ("lira_online", "rmia_offline"),
]


def both(*attacks: str, store: Path | None = None, **options: Any) -> list[Campaign]:
    made = []
    for keep in ("outputs", "signal"):
        place = None if store is None else store / keep
        shadows = Shadows(models=8, keep=keep, store=place, seconds_per_fit=0.1, **options)
        made.append(Campaign(SOFT, CLASSES, attacks=attacks, shadows=shadows))
    return made


@pytest.mark.long
@pytest.mark.parametrize("attacks", WAYS)
def test_signals_in_the_place_of_outputs_give_the_same_evidence(tmp_path: Path, attacks: tuple[str, ...]) -> None:
    """To the byte, with what leaks and every note; in memory, in a store, and from the store again."""
    whole, kept = both(*attacks, store=tmp_path)
    in_memory = replace(kept, shadows=replace(kept.shadows, store=None))
    expected, *found = (collect(one, rng=np.random.default_rng(0)) for one in (whole, kept, kept, in_memory))
    for one in found:
        assert one.evidence.digest == expected.evidence.digest
        assert (one.notes, one.vulnerability) == (expected.notes, expected.vulnerability)
    other = collect(in_memory, rng=np.random.default_rng(1))  # the control: another draw
    assert other.evidence.digest != expected.evidence.digest


def test_what_a_store_of_signals_takes_is_said_beforehand(tmp_path: Path) -> None:
    whole, kept = both("lira_online", store=tmp_path)
    state = [cost(one, rng=np.random.default_rng(0)) for one in (whole, kept)]
    collect(kept, rng=np.random.default_rng(0))
    sizes = [path.stat().st_size for path in sorted((tmp_path / "signal").glob("model-*.npy"))]
    assert state[0] is not None and state[1] is not None
    assert state[0].disk_bytes == 9 * (80 * 5 * 4 + BESIDE)
    assert state[1].disk_bytes == sum(sizes) == (80 * 2 * 8 + BESIDE) + 8 * (80 * 4 + BESIDE)
    again = cost(kept, rng=np.random.default_rng(0))
    assert again is not None
    assert (again.fits, again.reused) == (0, 9)


def test_a_store_of_outputs_is_none_of_signals(tmp_path: Path) -> None:
    whole, kept = both("lira_online", store=tmp_path)
    collect(whole, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="a folder of the same signal"):
        collect(replace(kept, shadows=replace(kept.shadows, store=tmp_path / "outputs")), rng=np.random.default_rng(0))


def bytes_of(campaign: Campaign, path: Path) -> bytes:
    collect(campaign, rng=np.random.default_rng(0)).evidence.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["folder", "memory"])
@pytest.mark.parametrize("more", [{}, {"stability": 3}])
def test_parts_of_tasks_make_the_evidence_of_one_process(kind: str, more: dict[str, Any], tmp_path: Path) -> None:
    """Each task draws everything itself, trains its part, and nothing is trained afterwards."""
    if kind == "memory":
        pytest.importorskip("fsspec")
    store = tmp_path / "store" if kind == "folder" else f"memory://{uuid.uuid4().hex}/store"
    campaign = Campaign(SOFT, CLASSES, shadows=Shadows(models=8), attacks=("lira_online", "loss"), **more)
    shared = replace(campaign, shadows=replace(campaign.shadows, store=store))
    told: list[tuple[int, int]] = []
    sizes = [
        train_one_part(shared, f"{i}/3", rng=np.random.default_rng(0), progress=lambda *state: told.append(state))
        for i in (2, 1, 3, 3)  # the third twice, as a scheduler may
    ]
    total = 9 + more.get("stability", 0)
    assert {all_models for _, all_models in sizes} == {total}
    assert sum(own for own, _ in sizes[:3]) == total
    assert told[-1] == (sizes[-1][0], sizes[-1][0])
    left = cost(shared, rng=np.random.default_rng(0))
    assert left is not None
    assert (left.fits, left.reused) == (0, total)
    assert bytes_of(shared, tmp_path / "a.npz") == bytes_of(campaign, tmp_path / "b.npz")


def test_a_store_at_a_url_goes_on_after_a_stop_and_repeats_what_is_damaged(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = f"memory://{uuid.uuid4().hex}/store"
    campaign = Campaign(SOFT, CLASSES, shadows=Shadows(models=8, store=store))
    train_one_part(campaign, "1/2", rng=np.random.default_rng(0))
    files, _ = fsspec.core.url_to_fs(store)
    names = sorted(files.ls(store.removeprefix("memory:/"), detail=False))
    assert [name.rpartition("/")[2].split("-")[:2] for name in names] == [["about.json"]] + [
        ["model", f"{i:05d}"] for i in (0, 2, 4, 6, 8)
    ]
    about = files.cat_file(names[0])
    assert not {str(tmp_path), str(Path.cwd()), socket.gethostname()} & set(re.split(r'[" ]', about.decode()))
    damaged = bytearray(files.cat_file(names[2]))
    damaged[140] ^= 1
    files.pipe_file(names[2], bytes(damaged))
    left = cost(campaign, rng=np.random.default_rng(0))
    assert left is not None
    assert (left.fits, left.reused) == (5, 4)  # four, and the damaged one
    expected = bytes_of(replace(campaign, shadows=Shadows(models=8)), tmp_path / "b.npz")
    assert bytes_of(campaign, tmp_path / "a.npz") == expected
    with pytest.raises(
        InputError, match=r"store: expected a folder of the same inclusion and seed, received memory://"
    ):
        collect(campaign, rng=np.random.default_rng(1))


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_a_part_that_is_none_is_refused(part: str) -> None:
    campaign = Campaign(SOFT, CLASSES, shadows=Shadows(models=8))
    with pytest.raises(InputError, match="part: expected NUMBER/OF, such as 1/10"):
        train_one_part(campaign, part, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match=r"shadow\.store: expected a folder or URL beside a part"):
        train_one_part(campaign, "1/3", rng=np.random.default_rng(0))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"attacks": ("shadow_classifier",)}, "shadow_classifier, which looks at whole outputs"),
    ({"attacks": ("lira_online", "gaussian_lira")}, "gaussian_lira, which is fitted to outputs"),
    ({"attacks": ("label_only",)}, "label_only, which looks at whole outputs"),
    ({"attacks": ("dirichlet_ratio",)}, "dirichlet_ratio, which looks at whole outputs"),
    ({"copies": CLASSES.x[:, None, :]}, r"data\.copies"),
    ({"stability": 3, "attacks": ("loss",)}, "stability"),
    ({"shadows": Shadows(keep="signal"), "attacks": ("loss",)}, "no shadow models that are trained here"),
    ({"target": SklearnTarget(Ridge())}, "predictions, which are few numbers"),
    ({"design": "multi-run", "shadows": Shadows(keep="signal")}, "no shadow models|multi-run"),
]


@pytest.mark.parametrize(("options", "beside"), REFUSED)
def test_what_looks_at_whole_outputs_is_refused_beforehand(options: dict[str, Any], beside: str) -> None:
    made = {"target": SOFT, "records": CLASSES, "shadows": Shadows(models=8, keep="signal"), **options}
    with pytest.raises(InputError, match=rf"shadow\.keep: expected outputs, received signal beside {beside}"):
        Draws.of(Campaign(**made), np.random.default_rng(0))
    outputs = replace(made["shadows"], keep="outputs")  # the control: nothing else stands against it
    Draws.of(Campaign(**made | {"shadows": outputs}), np.random.default_rng(0))
