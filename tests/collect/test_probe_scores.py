"""Scored probes and their key become evidence of the design matched, or one line says why not."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.collect import probe_scores
from miaudit.collect.decoys import make
from miaudit.collect.probe_scores import collect_scores, from_probes, key_of
from miaudit.errors import InputError
from miaudit.evidence import REFERENCE
from miaudit.io import probes
from miaudit.io.documents import Document
from miaudit.io.probes import Key, Seed

Lines = list[dict[str, Any]]


def documents(n: int = 4) -> list[Document]:
    rng = random.Random(0)
    own = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(n)]
    return [Document(f"r{i}", f"Ticket {own[i // 2 * 2]} and {own[i]}.", f"u{i // 2}") for i in range(n)]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Lines of probes of four records of two units, with scores that name record and candidate."""
    result = make(documents(), find=["uuid4"], count=3, seed=Seed.of(7))
    probes.write(tmp_path / "probes.jsonl", result.probes, result.key)
    return [{**probe._asdict(), "log_probability": -float(i + 1)} for i, probe in enumerate(result.probes)]


def write(folder: Path, lines: Lines, name: str = "scored.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_scores_of_a_unit_are_added_up_by_candidate(lines: Lines, tmp_path: Path) -> None:
    random.Random(1).shuffle(lines)
    evidence = from_probes(write(tmp_path, lines)).evidence
    key = Key.read(tmp_path / "probes.key.json")
    assert evidence.design == "matched" and evidence.n_members == 2 and evidence.n_nonmembers == 6
    rows = evidence.candidate_rows
    for i, unit in enumerate(key.units):
        sums = {
            k: sum(line["log_probability"] for line in lines if line["unit"] == unit.unit and line["candidate"] == k)
            for k in range(4)
        }
        order = unit.true_first
        assert evidence.score[rows[i]].tolist() == [sums[k] for k in order]
        assert evidence.text is not None
        assert evidence.text[rows[i]].tolist() == ["\n".join(unit.candidates[k]) for k in order]


def test_scores_by_name_losses_and_a_reference(lines: Lines, tmp_path: Path) -> None:
    lines = [{**line, "mine": i % 7, "other": 1.5} for i, line in enumerate(lines)]
    path = write(tmp_path, lines)
    assert set(from_probes(path, score=["mine", "other"]).evidence.scores) == {"mine", "other"}
    losses = from_probes(path, signal="loss").evidence
    assert np.array_equal(losses.score, -from_probes(path).evidence.score)
    other = write(tmp_path, [{**line, "log_probability": -7.0} for line in lines], "reference.jsonl")
    with_reference = from_probes(path, reference=other).evidence
    assert set(with_reference.scores) == {"log_probability", REFERENCE}
    assert set(with_reference.scores[REFERENCE]) == {-14.0}
    own = write(tmp_path, [{**line, "reference_log_probability": -3.0} for line in lines], "both.jsonl")
    assert set(from_probes(own).evidence.scores[REFERENCE]) == {-6.0}


def _drop(lines: Lines) -> None:
    del lines[3]


def _twice(lines: Lines) -> None:
    lines.append(dict(lines[2]))


def _text(lines: Lines) -> None:
    lines[1]["text"] += " "


def _record(lines: Lines) -> None:
    lines[0]["record"] = "strange"


def _unit(lines: Lines) -> None:
    lines[0]["unit"] = "u1"


def _more(lines: Lines) -> None:
    lines.append({**lines[0], "candidate": 4})


def _score(lines: Lines) -> None:
    del lines[5]["log_probability"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_drop, "a score of every candidate, received none for candidate 3 of 'r0' in scored.jsonl"),
        (_twice, "one line for candidate 2 of 'r0', received lines 3 and 17"),
        (_text, "the key of these probes, whose digest it holds"),
        (_record, "record 'strange' of scored.jsonl, which the key does not know"),
        (_unit, "other texts, units or candidates"),
        (_more, "other texts, units or candidates"),
        (_score, "scored.jsonl, line 6, score"),
    ],
)
def test_lines_that_do_not_fit_the_key(
    change: Callable[[Lines], None], words: str, lines: Lines, tmp_path: Path
) -> None:
    change(lines)
    with pytest.raises(InputError) as caught:
        from_probes(write(tmp_path, lines))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_another_draw_with_the_same_records_is_refused(lines: Lines, tmp_path: Path) -> None:
    """Its places are others, so an audit by it would find nothing, and say so."""
    other = make(documents(), find=["uuid4"], count=3, seed=Seed.of(8))
    probes.write(tmp_path / "other.jsonl", other.probes, other.key)
    with pytest.raises(InputError, match="whose digest it holds"):
        from_probes(write(tmp_path, lines), key=tmp_path / "other.key.json")


def _rewritten(folder: Path, change: Callable[[list[dict[str, Any]], Lines], None], lines: Lines) -> None:
    """Write probes and key after a change of both, with the digest that belongs to them."""
    key = Key.read(folder / "probes.key.json")
    units = json.loads(key.text())["units"]
    change(units, lines)
    rows = [probes.Probe(line["record"], line["unit"], line["candidate"], line["text"]) for line in lines]
    changed = replace(key, probes=probes.digest_of(rows), units=tuple(map(probes.KeyUnit.of, units)))
    (folder / "probes.key.json").write_text(changed.text(), encoding="utf-8")
    write(folder, lines)


def _equal_strings(units: list[dict[str, Any]], lines: Lines) -> None:
    units[1]["candidates"][units[1]["true"]][0] = units[0]["candidates"][units[0]["true"]][0]


def _other_true_string(units: list[dict[str, Any]], lines: Lines) -> None:
    string = units[1]["candidates"][units[1]["true"]][0]
    for line in lines:
        if line["record"] == "r0":
            line["text"] += f" See {string}."


def _decoy_in_a_text(units: list[dict[str, Any]], lines: Lines) -> None:
    string = units[1]["candidates"][units[1]["true"] - 1][0]
    for line in lines:
        if line["record"] == "r0":
            line["text"] += f" See {string.upper()}."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_equal_strings, "each true string in one unit, received one in 'u0' and 'u1'"),
        (_other_true_string, "received one of 'u1' in the text of 'r0'; make the probes again: a string must not"),
        (_decoy_in_a_text, "decoys that are in no training text, received one of 'u1' in the text of 'r0'"),
    ],
)
def test_probes_of_a_home_made_maker_are_checked(
    change: Callable[[list[dict[str, Any]], Lines], None], words: str, lines: Lines, tmp_path: Path
) -> None:
    _rewritten(tmp_path, change, lines)
    with pytest.raises(InputError) as caught:
        from_probes(tmp_path / "scored.jsonl")
    assert words in str(caught.value)


def test_a_reference_of_other_probes_and_another_design(lines: Lines, tmp_path: Path) -> None:
    path = write(tmp_path, lines)
    for others in ([*lines, lines[0]], lines[1:], [{**line, "text": "x"} for line in lines]):
        with pytest.raises(InputError, match="reference: expected the same probes"):
            from_probes(path, reference=write(tmp_path, others, "reference.jsonl"))
    for design in (None, "one-run"):
        with pytest.raises(InputError, match="design: expected matched"):
            from_probes(path, design=design)


def test_the_key_is_looked_for_beside_the_probes(lines: Lines, tmp_path: Path) -> None:
    path = write(tmp_path, lines)
    assert key_of(path) == tmp_path / "probes.key.json"
    (tmp_path / "probes.key.json").rename(tmp_path / "scored.key.json")
    (tmp_path / "another.key.json").write_text("{}")
    assert key_of(path) == tmp_path / "scored.key.json"
    (tmp_path / "scored.key.json").rename(tmp_path / "third.key.json")
    with pytest.raises(InputError, match=r"scored\.key\.json; name it by --key"):
        from_probes(path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from miaudit.models import language, text

    texts = [one.text for one in documents(8)]
    place = tmp_path_factory.mktemp("models")
    for name, seed in (("m", 0), ("r", 1)):
        small = language.SmallLanguage(text.SmallGPT2(layers=1, width=8, heads=1, epochs=1), vocabulary=270)
        text.save(small.fit(texts, np.zeros(8), np.arange(8), seed=seed), place / name)
    return place


@pytest.mark.long
def test_a_language_model_scores_texts_without_the_key(lines: Lines, models: Path, tmp_path: Path) -> None:
    """The score is the sum of the log-probabilities that the model gives to the tokens of the text."""
    from miaudit.models import language, text

    (tmp_path / "probes.key.json").rename(tmp_path / "elsewhere.json")
    for line in lines:
        del line["log_probability"]
        line["note"] = "kept"
    path = write(tmp_path, lines, "probes.jsonl")
    target = language.SavedLanguage(models / "m", models / "r")
    assert collect_scores(target, path, tmp_path / "scored.jsonl") == len(lines)
    scored = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [{**line, "log_probability": 0, "reference_log_probability": 0} for line in scored] == [
        {**line, "log_probability": 0, "reference_log_probability": 0} for line in lines
    ]
    for name, folder in (("log_probability", "m"), ("reference_log_probability", "r")):
        own = text.token_log_probabilities(text.load(models / folder), [line["text"] for line in lines])
        sums = [own.log_p[a:b].sum() for a, b in zip(own.offsets, own.offsets[1:], strict=False)]
        assert np.allclose([line[name] for line in scored], sums, atol=1e-4)
    (tmp_path / "elsewhere.json").rename(tmp_path / "probes.key.json")
    assert set(from_probes(tmp_path / "scored.jsonl").evidence.scores) == {"log_probability", REFERENCE}
    with pytest.raises(InputError, match="add --overwrite"):
        collect_scores(target, path, tmp_path / "scored.jsonl")


@pytest.mark.long
def test_a_stopped_run_goes_on_and_another_model_begins_anew(
    lines: Lines, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from miaudit.models import language

    monkeypatch.setattr(probe_scores, "_AT_ONCE", 5)
    path, out = write(tmp_path, lines, "probes.jsonl"), tmp_path / "scored.jsonl"
    target = language.SavedLanguage(models / "m")
    collect_scores(target, path, out)
    whole = out.read_bytes()
    out.unlink()

    def stop(done: int, _: int) -> None:
        if done >= 10:
            raise KeyboardInterrupt

    def stopped() -> None:
        with pytest.raises(KeyboardInterrupt):
            collect_scores(target, path, out, progress=stop)

    stopped()
    part = tmp_path / ".scored.jsonl.part"
    assert not out.exists() and part.is_file()
    with part.open("ab") as handle:
        handle.write(b'{"half')  # of a line that was being written
    done: list[int] = []
    collect_scores(target, path, out, progress=lambda now, _: done.append(now))
    assert done == [15, 16] and out.read_bytes() == whole and not part.exists()
    out.unlink()
    stopped()
    collect_scores(language.SavedLanguage(models / "r"), path, out, progress=lambda now, _: done.append(now))
    assert done[2:] == [5, 10, 15, 16] and out.read_bytes() != whole


def test_other_targets_are_refused(lines: Lines, tmp_path: Path) -> None:
    from sklearn.dummy import DummyClassifier

    from miaudit.models.targets import SklearnTarget

    with pytest.raises(InputError, match="a language model in a folder"):
        collect_scores(SklearnTarget(DummyClassifier()), write(tmp_path, lines), tmp_path / "s.jsonl")
