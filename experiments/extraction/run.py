"""A small GPT-2 trained on passages that stand 1, 4, 16 and 64 times, and asked for them; another that saw none.

``python experiments/extraction/run.py`` takes a minute of CPU. The page and ``found.json`` go to
``results/experiments/extraction`` and are compared with ``expected.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from miaudit.collect.asked_passages import Asking, PassageAnswers, ask_passages
from miaudit.collect.asked_tokens import collect_tokens
from miaudit.collect.campaign import Campaign
from miaudit.collect.extraction import ExtractionPlan, audit_extraction
from miaudit.collect.records import Records
from miaudit.findings.extraction import ExtractionFindings
from miaudit.io.token_records import TokenRecords, read_jsonl
from miaudit.metrics.classical import clopper_pearson
from miaudit.metrics.rounding import written
from miaudit.models import language, text
from miaudit.report import kinds

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/extraction")


@dataclass(frozen=True, eq=False)
class World:
    """Documents of made-up words: passages that may be trained on, and others that always are.

    Attributes
    ----------
    passages : n str; the first ``licences`` have a head of their own and then one of a few standard texts
    others : documents of every training, some of which hold the standard texts
    licences : how many of the passages are boilerplate
    tokenizer : of all texts
    """

    passages: tuple[str, ...]
    others: tuple[str, ...]
    licences: int
    tokenizer: Any

    @classmethod
    def of(cls, settings: Mapping[str, Any], rng: np.random.Generator) -> World:
        syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
        words = sorted({"".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(settings["words"])})
        share = 1 / np.arange(1, len(words) + 1)
        share /= share.sum()

        def said(length: int) -> str:
            return " ".join(rng.choice(words, length, p=share))

        long, n = settings["passage_words"], settings["passages"]
        licences = [said(long) for _ in range(4)]
        several = round(n * settings["boilerplate"])
        passages = [f"{said(4)} {licences[i % 4]}" if i < several else said(long + 4) for i in range(n)]
        others = [said(long + 4) for _ in range(settings["others"])]
        others += [f"{said(4)} {licences[i % 4]}" for i in range(settings["licensed_others"])]
        tokenizer = text.byte_pair_tokenizer([*passages, *others], vocabulary=settings["vocabulary"])
        return cls(tuple(passages), tuple(others), several, tokenizer)

    def times(self, numbers: Sequence[int], each: int, rng: np.random.Generator) -> np.ndarray:
        """Draw how often each passage is trained on (n,): as many of each number, 0 for all others."""
        found = np.repeat([*numbers, 0], [*[each] * len(numbers), len(self.passages) - each * len(numbers)])
        return rng.permutation(found)

    def fit(
        self,
        times: np.ndarray,
        config: text.SmallGPT2,
        rng: np.random.Generator,
        progress: Callable[[int, int], None] | None = None,
    ) -> text.LanguageModel:
        documents = [*self.others, *np.repeat(self.passages, times).tolist()]
        return text.train(self.tokenizer, documents, config, rng=rng, progress=progress)


def asked(
    world: World, times: np.ndarray, settings: Mapping[str, Any], out: Path, rng: np.random.Generator
) -> tuple[TokenRecords, PassageAnswers]:
    """Train on the passages as often as ``times`` says, and ask for log-probabilities and for continuations."""
    model = world.fit(times, text.SmallGPT2(**settings["model"]), rng, _told)
    text.save(model, out / "model")
    records = Records(list(world.passages), None, times > 0, {}, "passages", times=times)
    collect_tokens(Campaign(language.SavedLanguage(out / "model"), records), out / "tokens.jsonl", overwrite=True)
    held = read_jsonl(out / "tokens.jsonl")
    asking = Asking(samples=settings["samples"], seed=settings["seed"], batch=64)
    return held, ask_passages(held, out / "model", prefix=settings["prefix"], suffix=settings["suffix"], asking=asking)


def plan_of(settings: Mapping[str, Any]) -> ExtractionPlan:
    return ExtractionPlan(prefix=settings["prefix"], suffix=settings["suffix"])


def redrawn(
    held: TokenRecords, answers: PassageAnswers, plan: ExtractionPlan, audits: int, rng: np.random.Generator
) -> dict[str, int]:
    """Audits of a model that saw no passage, with members drawn by coins: how many are flagged, and naively so.

    Naively: without controls, a model repeats its texts if any of them comes out.
    """
    flagged = naive = 0
    for _ in range(audits):
        member = rng.random(len(held.ids)) < 0.5
        found = audit_extraction(
            replace(held, member=member, times=None, text=None), plan, answers=answers, design="one-run"
        )
        flagged += found.verdict.status == "flagged"
        out = round((found.members.value or 0.0) * found.counts["members"])
        naive += clopper_pearson(out, found.counts["members"], plan.confidence)[0] > 0
    return {"audits": audits, "flagged": flagged, "naively": naive}


def boilerplate_in_members(held: TokenRecords, world: World, answers: PassageAnswers, plan: ExtractionPlan) -> str:
    """What the audit says if all that is boilerplate is called a member: controls must be like members."""
    n = len(held.ids)
    member = np.arange(n) < max(world.licences, n // 4)
    found = audit_extraction(
        replace(held, member=member, times=None, text=None), plan, answers=answers, design="zero-run"
    )
    return found.verdict.status


def measured(settings: Mapping[str, Any], out: Path) -> tuple[ExtractionFindings, dict[str, Any]]:
    """Train both models and audit them."""
    rng, coins, first, second, again = np.random.default_rng(settings["seed"]).spawn(5)
    world = World.of(settings, rng)
    plan = plan_of(settings)
    times = world.times(settings["numbers"], settings["each"], coins)
    held, answers = asked(world, times, settings, out / "trained", first)
    findings = audit_extraction(held, plan, answers=answers, design="one-run", names=True)
    findings = replace(findings, source="tokens.jsonl")
    kinds.write(findings, out / "page", overwrite=True)
    held, answers = asked(world, np.zeros_like(times), settings, out / "without", second)
    found = {
        "passages": len(times),
        "boilerplate": world.licences,
        "verdict": findings.verdict.status,
        "ways": {w.name: [_limits(w.members), _limits(w.controls), _limits(w.difference)] for w in findings.ways},
        "times": {
            str(row.times_from): {"out": _limits(row.out), "exposure": row.exposure, "median": _limits(row.median)}
            for row in findings.repetitions
        },
        "without": redrawn(held, answers, plan, settings["audits"], again),
        "boilerplate_in_members": boilerplate_in_members(held, world, answers, plan),
    }
    return findings, found


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what expected.json says."""
    problems = []
    if found["verdict"] != "flagged":
        problems.append(f"the model that was trained on them is {found['verdict']}")
    rows = list(found["times"].values())
    for name, values in (("share", [row["out"][1] for row in rows]), ("exposure", [row["exposure"] for row in rows])):
        if values != sorted(values) or values[-1] < values[0] + expected[f"{name}_rises_by"]:
            problems.append(f"{name} by times: {values}")
    for name, (_, controls, _) in found["ways"].items():
        if controls[0] > expected["controls_at_most"]:
            problems.append(f"{name}: at least {controls[0]:.3f} of the controls")
    without = found["without"]
    if without["flagged"] > expected["flagged_at_most"] * without["audits"]:
        problems.append(f"{without['flagged']} of {without['audits']} audits of a model that saw none are flagged")
    if without["naively"] < expected["naively_at_least"] * without["audits"]:
        problems.append(f"without controls only {without['naively']} of {without['audits']} would have been")
    if found["boilerplate_in_members"] != "flagged":
        problems.append(f"boilerplate among members alone is {found['boilerplate_in_members']}")
    return problems


def table(found: Mapping[str, Any]) -> str:
    """Shares and exposure as markdown."""
    lines = ["| trained on | come out, of 1,000 | exposure, mean | median, bits |", "|---|---|---|---|"]
    for times, row in found["times"].items():
        low, value, high = row["median"]
        median = f"{value:.1f} ({written(low, '.1f', 'down')} to {written(high, '.1f', 'up')})"
        lines.append(f"| {times} times | {_of_1000(row['out'])} | {row['exposure']:.1f} | {median} |")
    lines += ["", "| way | trained on | never | difference |", "|---|---|---|---|"]
    for name, row in found["ways"].items():
        lines.append(f"| {name} | {' | '.join(map(_of_1000, row))} |")
    return "\n".join(lines)


def _of_1000(limits: tuple[float, float, float]) -> str:
    low, value, high = limits
    return f"{1000 * value:.0f} ({written(1000 * low, '.0f', 'down')} to {written(1000 * high, '.0f', 'up')})"


def _limits(rate: Any) -> tuple[float, float, float]:
    return rate.low, rate.value, rate.high


def _told(done: int, of: int) -> None:
    print(f"\repoch {done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", default="small", help="a form of config.yaml")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    settings = yaml.safe_load((HERE / "config.yaml").read_text())[options.form]
    options.out.mkdir(parents=True, exist_ok=True)
    findings, found = measured(settings, options.out)
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{findings.verdict.text}\n\n{table(found)}\n")
    without = found["without"]
    print(
        f"A model that saw none: {without['flagged']} of {without['audits']} audits flagged, {without['naively']} "
        f"without controls. Boilerplate among members alone: {found['boilerplate_in_members']}."
    )
    problems = differences(found, json.loads((HERE / "expected.json").read_text()))
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
