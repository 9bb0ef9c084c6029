"""Probes and their key: written together or not at all, the key for the owner alone, and both checked when read."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from miaudit.errors import InputError, OutputError
from miaudit.io import atomic, probes
from miaudit.io.probes import Key, KeyUnit, Probe, Seed, beside, digest_of, write

PROBES = (Probe("r", "u", 0, "a 1"), Probe("r", "u", 1, "a 2"))


def key(rows: tuple[Probe, ...] = PROBES, seed: int = 7) -> Key:
    drawn = Seed.of(seed)
    unit = KeyUnit("u", ("r",), 1, ("1 digits",), (("1",), ("2",)))
    return Key(digest_of(rows), "0" * 64, drawn.value, drawn.commitment("0" * 64), (unit,))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    place = write(tmp_path / "p.jsonl", PROBES, key())
    assert place == beside(tmp_path / "p.jsonl") == tmp_path / "p.key.json"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert Key.read(place) == key()
    lines = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert [Probe(**json.loads(line)) for line in lines] == list(PROBES)
    assert key().units[0].true_first == [1, 0]


def test_the_digest_does_not_depend_on_the_order_and_holds_every_field() -> None:
    assert digest_of(PROBES) == digest_of(PROBES[::-1])
    for change in ({"record": "s"}, {"unit": "v"}, {"candidate": 2}, {"text": "a  1"}):
        assert digest_of((PROBES[0]._replace(**change), PROBES[1])) != digest_of(PROBES)


def test_seeds() -> None:
    assert Seed.of(7) == Seed.of(" 7 ") == Seed.of("007") != Seed.of(8)
    assert Seed.of(Seed.of(7).value) == Seed.of(7)
    assert Seed.new() != Seed.new()
    assert Seed.of(7).generator().integers(10**9) == Seed.of(7).generator().integers(10**9)
    for wrong in ("x", "-1", "", "7.5", "g" * 64):
        with pytest.raises(InputError, match="seed"):
            Seed.of(wrong)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", PROBES, key())
    before = (tmp_path / "p.key.json").read_bytes()
    with pytest.raises(InputError, match="which exists"):
        write(tmp_path / "p.jsonl", PROBES, key(seed=8))
    (tmp_path / "p.jsonl").unlink()
    with pytest.raises(InputError, match=r"p\.key\.json, which exists"):
        write(tmp_path / "p.jsonl", PROBES, key(seed=8))
    assert (tmp_path / "p.key.json").read_bytes() == before
    write(tmp_path / "p.jsonl", PROBES, key(seed=8), overwrite=True)
    assert Key.read(tmp_path / "p.key.json") == key(seed=8)
    with pytest.raises(InputError, match=r"\.jsonl"):
        write(tmp_path / "p.csv", PROBES, key())


@pytest.mark.parametrize("stop_at", [1, 2])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_stop_on_the_way_leaves_no_probes_with_another_key(
    stop_at: int, overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if overwrite:
        write(tmp_path / "p.jsonl", PROBES, key())
    calls = []

    def stopped(path: Path, *more: Any, **options: Any) -> None:
        calls.append(path)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        original(path, *more, **options)

    original = atomic.write_text
    monkeypatch.setattr(probes.atomic, "write_text", stopped)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "p.jsonl", PROBES, key(seed=8), overwrite=overwrite)
    assert not (tmp_path / "p.jsonl").exists()
    monkeypatch.undo()
    write(tmp_path / "p.jsonl", PROBES, key(seed=9), overwrite=True)
    assert Key.read(tmp_path / "p.key.json") == key(seed=9)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises((OutputError, InputError)):
        write(tmp_path / "file" / "p.jsonl", PROBES, key())


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"format": 2},
        {"probes": "x"},
        {"seed": "0" * 64},
        {"commitment": "1" * 64},
        {"units": [{}]},
        {"units": [{"unit": "u", "records": ["r"], "true": 2, "laws": ["l"], "candidates": [["1"], ["2"]]}]},
        {"units": [{"unit": "u", "records": ["r"], "true": True, "laws": ["l"], "candidates": [["1"], ["2"]]}]},
        {"units": [{"unit": "u", "records": ["r"], "true": 0, "laws": ["l"], "candidates": [["1"], ["2", "3"]]}]},
        {"units": [{"unit": "u", "records": [3], "true": 0, "laws": ["l"], "candidates": [["1"], ["2"]]}]},
        {"units": 3},
        {"units": []},
        {
            "units": [
                {"unit": "u", "records": ["r"], "true": 0, "laws": ["l"], "candidates": [["1"], ["2"]]},
                {"unit": "v", "records": ["s"], "true": 0, "laws": ["l"], "candidates": [["3"], ["4"], ["5"]]},
            ]
        },
        None,
    ],
)
def test_other_keys_are_refused(change: dict[str, Any] | None, tmp_path: Path) -> None:
    place = write(tmp_path / "p.jsonl", PROBES, key())
    content = json.loads(place.read_text(encoding="utf-8"))
    place.write_text("[1" if change is None else json.dumps({**content, **change}), encoding="utf-8")
    with pytest.raises(InputError, match="key: expected") as caught:
        Key.read(place)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="an existing file"):
        Key.read(tmp_path / "absent.key.json")
