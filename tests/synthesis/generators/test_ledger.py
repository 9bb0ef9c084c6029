"""The ledger: composition against closed forms, budgets that hold, files that survive, processes that wait."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from miaudit.dp.accounting import upper_bound
from miaudit.dp.mechanism import Composed, GaussianNoise, LaplaceNoise, Mechanism, Repeated, dp_sgd, from_mapping
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError, MiauditError
from miaudit.synthesis.generators import ledger
from miaudit.synthesis.generators.ledger import Ledger, described, spend

SGD = dp_sgd(records=1000, batch=50, noise=4.0, epochs=2)


@pytest.mark.parametrize(
    "mechanism",
    [GaussianNoise(2.0), LaplaceNoise(0.5), SGD, Composed((SGD, Repeated(LaplaceNoise(3.0), 4)))],
)
def test_a_mechanism_survives_its_mapping(mechanism: Mechanism) -> None:
    assert from_mapping(json.loads(json.dumps(described(mechanism)))) == mechanism


def test_releases_add_up_as_gaussian_noise_does(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for i, noise in enumerate((10.0, 20.0, 10.0)):
        found = spend(path, table="t", label=f"release {i}", mechanism=GaussianNoise(noise))
    mu = math.sqrt(1 / 100 + 1 / 400 + 1 / 100)
    assert found.total(1e-5).value == pytest.approx(Gaussian(mu).epsilon_at(1e-5))
    assert ledger.read(path) == found and len(found.entries) == 3


@pytest.mark.long
def test_equal_trainings_compose_as_one_longer_training(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    spend(path, table="t", label="a", mechanism=SGD)
    twice = spend(path, table="t", label="b", mechanism=SGD).total(1e-4).value
    longer = upper_bound(dp_sgd(records=1000, batch=50, noise=4.0, epochs=4), delta=1e-4).value
    assert twice == pytest.approx(longer)
    assert upper_bound(SGD, delta=1e-4).value < twice < 2 * upper_bound(SGD, delta=1e-4).value


def test_a_budget_is_kept_and_refusals_are_not_entered(tmp_path: Path) -> None:
    path, budget = tmp_path / "deep" / "ledger.json", Claim.epsilon_delta(0.6, 1e-5)
    spend(path, table="t", label="a", mechanism=GaussianNoise(10.0), budget=budget)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"at most 0.6 for all releases, received 0\.\d+ with this release"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(6.0), budget=budget)
    with pytest.raises(InputError, match="a release with differential privacy, within a budget"):
        spend(path, table="t", label="b", mechanism=None)
    with pytest.raises(InputError, match="a name of its own"):
        spend(path, table="t", label="a", mechanism=GaussianNoise(1000.0))
    with pytest.raises(InputError, match="the ledger of other, received that of t"):
        spend(path, table="other", label="b", mechanism=GaussianNoise(1000.0))
    with pytest.raises(InputError, match="the budget is fixed with the first release"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(1000.0), budget=Claim.epsilon_delta(9.0, 1e-5))
    with pytest.raises(InputError, match="an epsilon and a delta"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(9.0), budget=Claim.gaussian(1.0))
    assert path.read_bytes() == before
    assert len(spend(path, table="t", label="b", mechanism=GaussianNoise(40.0)).entries) == 2


def test_where_nothing_is_left_no_smaller_epsilon_is_advised(tmp_path: Path) -> None:
    path, budget = tmp_path / "ledger.json", Claim.epsilon_delta(0.5, 1e-5)
    found = spend(path, table="t", label="a", mechanism=GaussianNoise(10.0), budget=budget)
    assert found.left is not None and 0.1 < found.left < 0.2 and not found.is_spent
    spent = Claim.epsilon_delta(found.total(1e-5).value, 1e-5)  # type: ignore[union-attr]
    path = tmp_path / "spent.json"
    assert spend(path, table="t", label="a", mechanism=GaussianNoise(10.0), budget=spent).is_spent
    with pytest.raises(InputError, match="nothing is left: a larger budget is a new promise") as caught:
        spend(path, table="t", label="b", mechanism=GaussianNoise(10.0))
    assert "take a smaller" not in str(caught.value)
    with pytest.raises(InputError, match="fixed with the first release: keep it, or a larger budget is a new promise"):
        spend(path, table="t", label="b", mechanism=GaussianNoise(10.0), budget=Claim.epsilon_delta(9.0, 1e-5))


def test_a_release_without_privacy_leaves_nothing_to_claim(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    spend(path, table="t", label="a", mechanism=GaussianNoise(10.0))
    found = spend(path, table="t", label="b", mechanism=None)
    assert found.total(1e-5) is None and ledger.read(path) == found
    assert Ledger("t", None, ()).total(1e-5) is None


_START = '{"format": 1, "table": "t", "budget": null, "entries": [{"label": "a"'


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": 2}', _START + "}]}", _START + ', "entered": "", "mechanism": {"kind": "x"}}]}'],
)
def test_a_damaged_ledger_stops_every_release(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(text)
    with pytest.raises(InputError, match="restore it from a copy") as caught:
        spend(path, table="t", label="a", mechanism=GaussianNoise(10.0))
    assert "\n" not in str(caught.value) and path.read_text() == text


BUDGET = Claim.epsilon_delta(0.6, 1e-5)  # holds two releases of this noise, and not three


def _enter(path: Path, label: str) -> Ledger:
    return spend(path, table="t", label=label, mechanism=GaussianNoise(10.0), budget=BUDGET)


def _spent_twice(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.json"
    _enter(path, "a")
    _enter(path, "b")
    return path


@pytest.mark.parametrize("way", ["symbolic", "hard", "folder", "relative", "dangling"])
def test_a_budget_is_one_by_whatever_name_its_ledger_is_called(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "real" / "ledger.json"
    other = tmp_path / "other" / "ledger.json"
    path.parent.mkdir()
    if way == "folder":
        other.parent.symlink_to(path.parent)
    else:
        other.parent.mkdir()
    if way == "dangling":
        other.symlink_to(path)
        _enter(other, "a")
    else:
        _enter(path, "a")
    if way == "symbolic":
        other.symlink_to(Path("..") / "real" / "ledger.json")
    if way == "hard":
        other.hardlink_to(path)
    if way == "relative":
        monkeypatch.chdir(path.parent)
        other = Path("ledger.json")
    entered = 1
    for name, label in ((other, "b"), (path, "c"), (other, "d")):
        with contextlib.suppress(InputError):
            _enter(name, label)
            entered += 1
    assert entered <= 2, f"{entered} releases where the budget holds 2"
    assert way == "hard" or len(ledger.read(path).entries) == len(ledger.read(other).entries) == 2
    if way == "hard":
        with pytest.raises(InputError, match="2 hard links"):
            ledger.read(path)
        other.unlink()
        assert len(_enter(path, "e").entries) == 2


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


# What was accepted, or refused for another reason, before entries were chained.
EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "noise": lambda c: c["entries"][0]["mechanism"].update(noise=1e6),
    "noise of the last": lambda c: c["entries"][-1]["mechanism"].update(noise=1e6),
    "budget": lambda c: c["budget"].update(epsilon=50.0),
    "no budget": lambda c: c.update(budget=None),
    "cut short": lambda c: c["entries"].pop(),
    "first taken out": lambda c: c["entries"].pop(0),
    "order": lambda c: c["entries"].reverse(),
    "table": lambda c: c.update(table="another"),
    "label": lambda c: c["entries"][1].update(label="c"),
    "empty": lambda c: c["entries"].clear(),
    "older format": lambda c: (c.update(format=1), c["entries"].pop()),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_ledger_stops_every_release(tmp_path: Path, edit: str) -> None:
    path = _spent_twice(tmp_path)
    _edit(path, EDITS[edit])
    for call in (lambda: _enter(path, "d"), lambda: ledger.read(path)):
        with pytest.raises(InputError, match=r"restore") as caught:
            call()
        assert "\n" not in str(caught.value)


def _chained_again(content: dict[str, Any]) -> dict[str, Any]:
    """Edit the noise and make every digest of the file fit: the lock alone can tell."""
    made = ledger._from_mapping(content | {"format": 1})
    cheap = replace(made, entries=tuple(replace(entry, mechanism=GaussianNoise(1e6)) for entry in made.entries))
    return cheap.to_mapping()


def test_a_ledger_written_anew_does_not_fit_what_its_lock_remembers(tmp_path: Path) -> None:
    path = _spent_twice(tmp_path)
    path.write_text(json.dumps(_chained_again(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=r"the 2 releases that ledger\.lock remembers"):
        _enter(path, "c")


def test_a_lock_remembers_a_ledger_that_is_gone_or_older(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    _enter(path, "a")
    older = path.read_bytes()
    _enter(path, "b")
    path.unlink()
    with pytest.raises(InputError, match=r"ledger\.lock remembers, received no ledger\.json; restore it"):
        _enter(path, "c")
    assert not path.exists()
    path.write_bytes(older)
    with pytest.raises(InputError, match="the 2 releases that"):
        _enter(path, "c")


def test_a_ledger_without_its_lock_is_refused(tmp_path: Path) -> None:
    path, copied = _spent_twice(tmp_path), tmp_path / "elsewhere" / "ledger.json"
    copied.parent.mkdir()
    shutil.copy(path, copied)
    with pytest.raises(InputError, match=r"beside its ledger\.lock"):
        _enter(copied, "c")
    with pytest.raises(InputError, match=r"beside its ledger\.lock"):  # the lock that the refusal made says nothing
        _enter(copied, "c")
    path.with_suffix(".lock").write_bytes(b"")
    with pytest.raises(InputError, match=r"beside its ledger\.lock"):
        _enter(path, "c")


@pytest.mark.parametrize("step", range(11))
@pytest.mark.parametrize("before", [0, 1])
def test_a_crash_at_any_step_stops_no_later_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, step: int
) -> None:
    """Whatever the step, the ledger is usable again, and holds the release or, as nothing was trained, does not."""
    path = tmp_path / "ledger.json"
    for i in range(before):
        _enter(path, f"before {i}")
    (tmp_path / ".ledger.json.abc.part").write_text("half")
    calls = {"left": step}

    def counted(call: Callable[..., Any], *arguments: Any) -> Any:
        calls["left"] -= 1
        if calls["left"] == 0:
            if len(arguments) == 2 and isinstance(arguments[1], bytes):  # half a line
                call(arguments[0], arguments[1][:20])
            raise KeyboardInterrupt
        return call(*arguments)

    with monkeypatch.context() as patched:
        for name in ("write", "fsync", "ftruncate"):
            patched.setattr(ledger.os, name, partial(counted, getattr(os, name)))
        patched.setattr(ledger, "write_json", partial(counted, ledger.write_json))
        with contextlib.suppress(KeyboardInterrupt):
            spend(path, table="t", label="crashed", mechanism=GaussianNoise(1000.0), budget=BUDGET)
    found = spend(path, table="t", label="after", mechanism=GaussianNoise(10.0), budget=BUDGET)
    labels = [entry.label for entry in found.entries]
    assert labels in ([*labels[:before], "after"], [*labels[:before], "crashed", "after"]) and len(labels) > before
    assert 0 < step < 9 or "crashed" in labels
    assert ledger.read(path) == found and not list(tmp_path.glob(".*.part"))
    path.unlink()
    with pytest.raises(InputError, match="restore"):
        _enter(path, "again")


@pytest.mark.parametrize("left_out", ["before", "neighbours"])
def test_a_ledger_without_its_chain_or_its_lock_is_refused(tmp_path: Path, left_out: str) -> None:
    path = _spent_twice(tmp_path)
    content = json.loads(path.read_text())
    unchained = [{k: v for k, v in entry.items() if k != left_out} for entry in content["entries"]]
    path.write_text(json.dumps({**content, "entries": unchained}))
    with pytest.raises(InputError, match="restore it from a copy"):
        _enter(path, "c")
    path.write_text(json.dumps(content))
    path.with_suffix(".lock").unlink()
    with pytest.raises(InputError, match="restore both"):
        _enter(path, "c")


def test_a_lock_that_is_damaged_or_a_link_is_one_line(tmp_path: Path) -> None:
    path = _spent_twice(tmp_path)
    lock = path.with_suffix(".lock")
    kept = lock.read_bytes()
    for damage in (
        b"\xff\xfe\n",
        b"{}\n",
        b"[]\n",
        b'{"releases": -1, "head": "x"}\n',
        b'{"releases": "2", "head": 1}\n',
    ):
        lock.write_bytes(kept + damage)
        with pytest.raises(InputError, match="restore") as caught:
            _enter(path, "c")
        assert "\n" not in str(caught.value)
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    for call in (lambda: _enter(path, "c"), lambda: ledger.read(path)):
        with pytest.raises(MiauditError) as caught:
            call()
        assert "\n" not in str(caught.value)


def _try(path: Path, number: int, told: Any) -> None:
    try:
        _enter(path, f"release {number}")
    except InputError:
        told.put(0)
    else:
        told.put(1)


@pytest.mark.long
def test_processes_at_once_spend_exactly_the_budget(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    names = [tmp_path / "ledger.json", tmp_path / "link" / "ledger.json"]
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()
    started = [context.Process(target=_try, args=(names[i % 2], i, told)) for i in range(8)]
    for process in started:
        process.start()
    assert sum(told.get() for _ in started) == 2
    for process in started:
        process.join()
    assert len(ledger.read(names[0]).entries) == 2


def _spend(path: Path, number: int) -> None:
    spend(path, table="t", label=f"release {number}", mechanism=GaussianNoise(10.0 + number))


@pytest.mark.long
def test_processes_do_not_lose_each_others_entries(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=_spend, args=(path, i)) for i in range(6)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert sorted(entry.label for entry in ledger.read(path).entries) == [f"release {i}" for i in range(6)]


def test_epsilons_of_other_neighbours_are_not_added_up(tmp_path: Path) -> None:
    """One value changed is a record removed and another added, for which the same noise is worth a larger epsilon."""
    path = tmp_path / "l.json"
    spend(path, table="t", label="a", mechanism=GaussianNoise(10.0), neighbours="replace-one")
    with pytest.raises(
        InputError, match=r"privacy.neighbours: expected replace-one, as for the other releases .*add up"
    ):
        spend(path, table="t", label="b", mechanism=GaussianNoise(10.0))
    found = spend(path, table="t", label="b", mechanism=GaussianNoise(10.0), neighbours="replace-one")
    assert [entry.neighbours for entry in found.entries] == ["replace-one"] * 2 and ledger.read(path) == found
    content = json.loads(path.read_text())
    content["entries"][0]["neighbours"] = "add-or-remove"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="what stands before 'b' was changed"):
        ledger.read(path)
