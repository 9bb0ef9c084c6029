"""From answers to a verdict: texts that come out beside controls, prompts that hold them, and unequal questions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.test_common_runs import plain_longest
from miaudit.auditing.extraction import ExtractionPlan
from miaudit.collect import generations
from miaudit.collect.generations import audit_generations, words
from miaudit.findings.extraction import ExtractionFindings
from miaudit.metrics.classical import clopper_pearson
from miaudit.report import extraction_page, kinds

PLAN = ExtractionPlan(suffix=12, near=0.2)
World = tuple[Path, Path, Path]


def text(rng: np.random.Generator, tokens: int) -> str:
    return " ".join(f"w{i}" for i in rng.integers(0, 400, tokens))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def world(
    folder: Path, rng: np.random.Generator, *, n: int = 150, memorised: float = 0.3, form: float = 0.1
) -> tuple[World, list[str]]:
    """Texts of 40 words, a form letter in some of both kinds, and answers that repeat some private ones and the form.

    Of half of what is repeated two words are left out.
    """
    letter = text(rng, 16)
    every = [text(rng, 40) for _ in range(2 * n)]
    every = [f"{one} {letter}" if rng.random() < form else one for one in every]
    texts = write(folder / "p.jsonl", [{"id": f"p{i}", "text": one} for i, one in enumerate(every[:n])])
    controls = write(folder / "c.jsonl", [{"id": f"c{i}", "text": one} for i, one in enumerate(every[n:])])
    answers = [f"{text(rng, 5)} {letter} {text(rng, 5)}"]
    for one in every[:n]:
        part = one.split()[8:28] if rng.random() < memorised else text(rng, 20).split()
        if rng.random() < 0.5:
            del part[6::7]
        answers.append(f"{text(rng, 3)} {' '.join(part).upper()}, {text(rng, 3)}")
    return (write(folder / "a.jsonl", [{"answer": one} for one in answers]), texts, controls), answers


def test_shares_equal_a_loop_over_all_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations.generations, "_MOST_BYTES", 2_000)  # a dozen parts
    files, answers = world(tmp_path, np.random.default_rng(0), n=60)
    found = audit_generations(*files, PLAN, design="one-run", names=True)
    numbers: dict[str, int] = {}
    cut = [[numbers.setdefault(t, len(numbers)) for t in words(one)] for one in answers]
    runs: dict[str, list[int]] = {}
    near: dict[str, list[bool]] = {}
    for file in files[1:]:
        held = [json.loads(line) for line in file.read_text().splitlines()]
        passages = [[numbers.setdefault(t, len(numbers)) for t in words(row["text"])] for row in held]
        runs[file.stem] = [max(plain_longest(p, a) for a in cut) for p in passages]
        near[file.stem] = [_nearly(p, cut, PLAN.suffix, 2) for p in passages]
    for got, kind in ((found.ways[0].members, "p"), (found.ways[0].controls, "c")):
        out = [longest >= PLAN.suffix for longest in runs[kind]]
        assert got.value == np.mean(out)
        assert (got.low, got.high) == clopper_pearson(sum(out), len(out), 1 - 0.05 / 2 / 2)
    assert found.ways[1].members.value == np.mean(near["p"]) and found.ways[1].controls.value == np.mean(near["c"])
    assert near["p"] != [longest >= PLAN.suffix for longest in runs["p"]]  # or nearly would test nothing
    assert {one.id: one.run for one in found.named if one.run} == {
        f"{kind}{i}": longest for kind in "pc" for i, longest in enumerate(runs[kind]) if longest >= PLAN.suffix
    }
    for run in found.runs:
        assert run.members.value == np.mean(np.array(runs["p"]) >= run.tokens)


def _nearly(passage: list[int], answers: list[list[int]], least: int, edits: int) -> bool:
    """Whether any window is in an answer but for so many edits: only answers that share a third of it can have one."""
    close = [a for a in answers if plain_longest(passage, a) >= (least - edits) // (edits + 1)]
    windows = [passage[i : i + least] for i in range(len(passage) - least + 1)]
    return any(_sellers(window, answer) <= edits for window in windows for answer in close)


def _sellers(window: list[int], answer: list[int]) -> int:
    """Fewest edits between a window and any part of an answer (Sellers 1980)."""
    row = [0] * (len(answer) + 1)
    for i, one in enumerate(window):
        last, row[0] = i, i + 1
        for j, other in enumerate(answer):
            last, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, last + (one != other))
    return min(row)


def test_what_is_memorised_is_a_concern_and_a_form_letter_is_none(tmp_path: Path) -> None:
    files, _ = world(tmp_path, np.random.default_rng(1))
    found = audit_generations(*files, PLAN, design="one-run")
    assert (found.verdict.status, found.exit_code) == ("flagged", 3)
    assert found.verdict.text.startswith("Concern: ") and "in 151 answers" in found.verdict.text
    assert found.generations is not None and found.generations.answers == 151
    assert ExtractionFindings.from_dict(found.to_dict()).to_json() == found.to_json()
    none, _ = world(tmp_path, np.random.default_rng(2), n=400, memorised=0.0, form=0.05)
    clear = audit_generations(*none, replace(PLAN, limits={"extraction": 0.1}), design="one-run")
    assert clear.exit_code == 0 and (clear.controls.value or 0) > 0.02
    assert audit_generations(*none, PLAN).verdict.reason == "undeclared"
    few, _ = world(tmp_path, np.random.default_rng(3), n=20, memorised=0.0)
    assert audit_generations(*few, PLAN, design="one-run").verdict.status == "inconclusive"
    kinds.write(found, tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out" / "figures").iterdir()} == {"runs"}


def test_few_audits_without_memory_raise_an_alarm(tmp_path: Path) -> None:
    """Where coins decide which texts are private, and the model repeats them at one rate whatever they are."""
    rng = np.random.default_rng(4)
    plan, flagged, without_controls = ExtractionPlan(suffix=6, near=0.0), 0, 0
    for _ in range(40):
        every = [text(rng, 12) for _ in range(80)]
        known = [one for one in every if rng.random() < 0.3]
        inside = rng.random(80) < 0.5
        sides = [
            write(tmp_path / f"{k}.jsonl", [{"text": t} for t, m in zip(every, inside, strict=True) if m == k])
            for k in (True, False)
        ]
        answers = write(tmp_path / "a.jsonl", [{"answer": one} for one in known])
        found = audit_generations(answers, *sides, plan, design="one-run")
        flagged += found.verdict.status == "flagged"
        without_controls += found.members.low > 0
    assert flagged <= 4  # 2.5% of 40 with probability .998
    assert without_controls == 40  # the control: without controls all would be


@pytest.mark.parametrize("echo", [False, True])
def test_a_prompt_that_holds_the_text_does_not_count(tmp_path: Path, echo: bool) -> None:
    rng = np.random.default_rng(5)
    every = [text(rng, 40).split() for _ in range(40)]
    texts = write(tmp_path / "p.jsonl", [{"text": " ".join(one)} for one in every[:20]])
    controls = write(tmp_path / "c.jsonl", [{"text": " ".join(one)} for one in every[20:]])

    def audit(goes_on: int) -> ExtractionFindings:
        rows = []
        for one in every:
            prompt = f"Go on: {' '.join(one[:20])}"
            more = " ".join(one[20 : 20 + goes_on])
            again = f" You wrote: {' '.join(one[:20])}."  # later in the answer
            rows.append({"prompt": prompt, "answer": f"{prompt if echo else ''} {more} {text(rng, 12)}{again}"})
        return audit_generations(write(tmp_path / "a.jsonl", rows), texts, controls, PLAN, design="one-run", names=True)

    assert audit(0).members.value == audit(8).members.value == 0.0
    assert not audit(8).named
    whole = audit(15)
    assert whole.members.value == 1.0 and {one.run for one in whole.named} == {15}
    assert whole.generations is not None and whole.generations.prompted_members == 20
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    bare = [{"answer": f"{row['prompt']} {row['answer']}"} for row in rows]
    blind = audit_generations(write(tmp_path / "a.jsonl", bare), texts, controls, PLAN, design="one-run")
    assert blind.members.value == 1.0 and blind.runs[-1].tokens > 15  # the control: without prompts their words count


def test_what_favours_texts_of_one_kind_is_no_answer(tmp_path: Path) -> None:
    (answers, texts, controls), _ = world(tmp_path, np.random.default_rng(6), n=40)
    private = [json.loads(line) for line in texts.read_text().splitlines()]
    public = [json.loads(line) for line in controls.read_text().splitlines()]
    rows = [{"prompt": one["text"][:80], "answer": one["text"][80:]} for one in private]

    def lack(rows: list[dict[str, Any]], plan: ExtractionPlan = PLAN) -> str:
        found = audit_generations(write(answers, rows), texts, controls, plan, design="one-run")
        assert found.exit_code == 4 and found.verdict.text.startswith("Not answered (not testable): ")
        assert found.verdict.text.split(": ", 1)[1].split(".")[0] in extraction_page.text(found)
        assert "Not answered" in extraction_page.page(found)
        return found.verdict.text

    assert "prompts hold a part of 40 of 40 private texts, and of 0 of 40 controls" in lack(rows)
    both = [*rows, *({"prompt": one["text"][:80], "answer": "no"} for one in public)]
    found = audit_generations(write(answers, both), texts, controls, PLAN, design="one-run")
    assert found.verdict.status == "flagged" and found.members.value == 1.0
    aimed = [{"answer": one["text"], "targets": [one["id"]]} for one in [*private, *private, *public]]
    assert "target of 2.0 answers on average, a control of 1.0" in lack(aimed)
    assert "no controls have 12 tokens and an answer" in lack(aimed[:40])
    assert "no answer has 12 tokens beyond its prompt" in lack([{"answer": "too short"}])
    assert "no private texts have 900 tokens" in lack(both, ExtractionPlan(suffix=900))


def test_only_targets_are_compared_and_units_are_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    every = [text(rng, 30) for _ in range(12)]
    rows = [{"id": f"t{i}", "unit": f"{'in' if i < 6 else 'out'} {i // 2}", "text": one} for i, one in enumerate(every)]
    texts, controls = write(tmp_path / "p.jsonl", rows[:6]), write(tmp_path / "c.jsonl", rows[6:])
    answers = [{"answer": every[0], "targets": [f"t{i}"]} for i in range(12) if i != 5]
    found = audit_generations(write(tmp_path / "a.jsonl", answers), texts, controls, PLAN, design="one-run", names=True)
    assert found.members.value == pytest.approx(1 / 3) and found.controls.value == 0.0
    assert [(one.unit, one.out) for one in found.units] == [("in 0", 1)] and [one.id for one in found.named] == ["t0"]
    assert found.counts["member_units"] == 3 and "1 texts are the target of no answer and take no part." in found.notes


def test_progress_is_in_megabytes(tmp_path: Path) -> None:
    files, _ = world(tmp_path, np.random.default_rng(8), n=20)
    calls: list[tuple[int, int]] = []
    audit_generations(*files, PLAN, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 1)]
