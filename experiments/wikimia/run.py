"""Language models trained here on WikiMIA: on a random half, audited one-run; on the old events, audited zero-run.

``python experiments/wikimia/run.py --data ../shared/data`` runs the small form in under a minute of CPU; ``--full`` the
lengths 32 to 256 with a larger model. Results and the report pages of each length go to
``results/experiments/wikimia`` and are compared with ``expected.json``. What a length has given is kept: the same
command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import miaudit as ma
from miaudit.attacks import tokens
from miaudit.metrics.classical import Sample
from miaudit.models import text
from miaudit.report import kinds

sys.path.insert(0, str(Path(__file__).parents[1]))
from causal_synthesis.kept import Kept

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/wikimia")
PLAN = ma.Plan(fpr_targets=(0.01, 0.1), primary_metric="auc", bounds=None, propensity_model="line", estimator="hajek")
COMPONENTS = 50  # of the texts; the default, one for each 100 rows, keeps 7 of them


@dataclass(frozen=True, eq=False)
class Wikipedia:
    """Texts of one length, and their label in WikiMIA: of an event before 2017 (True), or after January 2023."""

    length: int
    texts: tuple[str, ...]
    old: np.ndarray

    @classmethod
    def load(cls, data: Path, length: int) -> Wikipedia:
        lines = (data / "wikimia" / f"wikimia_{length}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return cls(length, tuple(row["input"] for row in rows), np.array([row["label"] == 1 for row in rows]))


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a model is trained and texts are scored; the vocabulary never sees who is a member."""

    data: Wikipedia
    tokenizer: Any
    config: text.SmallGPT2

    @classmethod
    def of(cls, data: Wikipedia, settings: Mapping[str, Any]) -> Recipe:
        tokenizer = text.byte_pair_tokenizer(data.texts, vocabulary=settings["vocabulary"])
        return cls(data, tokenizer, text.SmallGPT2(**settings["model"]))

    def fit(self, rows: np.ndarray, rng: np.random.Generator) -> text.LanguageModel:
        return text.train(self.tokenizer, [self.data.texts[row] for row in rows], self.config, rng=rng, progress=_told)

    def score(self, model: text.LanguageModel, rows: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        texts = [self.data.texts[row] for row in rows]
        out = text.token_log_probabilities(model, texts)
        scores = tokens.member_scores(log_p=out.log_p, offsets=out.offsets, mean=out.mean, std=out.std, text=texts)
        return scores, out.notes


def one_run(recipe: Recipe, rng: np.random.Generator) -> ma.Evidence:
    """Toss a coin for each text, train on the heads, score all."""
    return ma.collect.one_run(
        lambda rows: recipe.fit(rows, rng),
        lambda model, rows: recipe.score(model, rows)[0],
        records=len(recipe.data.texts),
        rng=rng,
        source=f"small GPT-2 on a random half of WikiMIA {recipe.data.length}",
    )


def zero_run(recipe: Recipe, rng: np.random.Generator) -> tuple[ma.Evidence, tuple[str, ...]]:
    """Train on the texts of old events, score all: new events were never seen, as WikiMIA is meant to be used."""
    data = recipe.data
    model = recipe.fit(np.flatnonzero(data.old), rng)
    scores, notes = recipe.score(model, np.arange(len(data.texts)))
    source = f"small GPT-2 on the old events of WikiMIA {data.length}"
    return ma.Evidence(score=scores, member=data.old, text=data.texts, design="zero-run", source=source), notes


def measured(data: Wikipedia, settings: Mapping[str, Any], out: Path, rng: np.random.Generator) -> dict[str, Any]:
    """Audit two models of one recipe, a random half and the old events, and write the pages."""
    recipe = Recipe.of(data, settings)
    randomised, (observed, notes) = one_run(recipe, rng), zero_run(recipe, rng)
    audits = {
        "one-run": ma.audit(randomised, plan=PLAN, rng=rng, notes=notes),
        "zero-run": ma.audit(observed, plan=replace(PLAN, components=COMPONENTS), rng=rng, notes=notes),
        "zero-run-default": ma.audit(observed, plan=PLAN, rng=rng, notes=notes),
    }
    for name, findings in audits.items():
        kinds.write(findings, out / f"length-{data.length}-{name}", overwrite=True)
    # Texts that no model saw, old against new: nobody is a member, so what differs is the shift.
    outside = ~randomised.member
    shift = ma.Evidence(score={n: s[outside] for n, s in randomised.scores.items()}, member=data.old[outside])
    one = audits["one-run"]
    return {
        "records": randomised.n,
        "one_run": {score.score: _limits(next(m for m in score.metrics if m.name == "auc")) for score in one.scores},
        "one_run_verdict": one.verdict.status,
        "zero_run": _answer(audits["zero-run"]),
        "zero_run_default": _answer(audits["zero-run-default"]),
        "by_label": {name: _auc(observed.only(name)) for name in observed.scores},  # what is refused as an answer
        "shift_alone": {name: _auc(shift.only(name)) for name in shift.scores},
        "redrawn_coverage": redrawn(randomised, settings["redrawn"], rng),
    }


def _made(data: Wikipedia, settings: Mapping[str, Any], out: Path, rng: np.random.Generator, _: Path) -> dict[str, Any]:
    return measured(data, settings, out, rng)


def _answer(findings: ma.Findings) -> dict[str, Any]:
    overlap = findings.overlap
    return {
        "status": findings.verdict.status,
        "metrics_shown": len(findings.metrics),
        "blind_auc": None if overlap is None else overlap.blind_auc,
        "reasons": [] if overlap is None else list(overlap.reasons),
    }


def redrawn(evidence: ma.Evidence, times: int, rng: np.random.Generator) -> float:
    """The control: with coins drawn afresh, how often the interval of the AUC of the loss holds one half."""
    held = 0
    for _ in range(times):
        auc = Sample.of(ma.Evidence(score=evidence.scores["loss"], member=rng.random(evidence.n) < 0.5)).auc(0.95)
        held += auc.low <= 0.5 <= auc.high
    return held / times


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what expected.json says."""
    problems = []
    for length, row in found.items():
        for name, (low, _, _) in row["one_run"].items():
            if low <= expected["one_run_auc_low_above"]:
                problems.append(f"length {length}, one-run: the AUC of {name} is from {low:.3f}")
        for part, wanted in (
            ("zero_run", expected["zero_run_status"]),
            ("zero_run_default", ["refused", "not-testable"]),
        ):
            zero = row[part]
            allowed = wanted[length] if isinstance(wanted, dict) else wanted
            if zero["status"] not in allowed or zero["metrics_shown"]:
                problems.append(f"length {length}, {part}: {zero['status']}, with {zero['metrics_shown']} metrics")
        low, high = expected["blind_auc_between"][length]
        blind = row["zero_run"]["blind_auc"]
        if blind is None or not low <= blind <= high:
            problems.append(f"length {length}: blind AUC {blind}, expected {low} to {high}")
        if row["redrawn_coverage"] < expected["redrawn_coverage_above"]:
            problems.append(f"length {length}: coins drawn again hold one half in {row['redrawn_coverage']:.1%} only")
    return problems


def table(found: Mapping[str, Any]) -> str:
    """AUCs as markdown, with intervals of 95% (those of the audit hold for all scores at once)."""
    lines = [
        "| length | score | one-run | old trained against new, raw (refused) | untrained old against new |",
        "|---|---|---|---|---|",
    ]
    for length, row in found.items():
        for name in row["by_label"]:
            cells = (row[part][name] for part in ("one_run", "by_label", "shift_alone"))
            shown = " | ".join(f"{value:.3f} ({low:.3f} to {high:.3f})" for low, value, high in cells)
            lines.append(f"| {length} | {name} | {shown} |")
    return "\n".join(lines)


def _auc(evidence: ma.Evidence) -> tuple[float, float, float]:
    return _limits(Sample.of(evidence).auc(0.95))


def _limits(estimate: Any) -> tuple[float, float, float]:
    return estimate.low, estimate.value, estimate.high


def _told(done: int, of: int) -> None:
    print(f"\repoch {done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that holds wikimia/")
    parser.add_argument("--full", action="store_true", help="four lengths and a larger model")
    parser.add_argument("--only", type=int, help="one length, so that several processes can share the work")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    settings = yaml.safe_load((HERE / "config.yaml").read_text())[options.form or ("full" if options.full else "small")]
    streams = np.random.default_rng(settings["seed"]).spawn(len(settings["lengths"]))
    kept = Kept(options.out / "parts")
    made_of = {name: value for name, value in settings.items() if name != "lengths"}
    found = {}
    for length, rng in zip(settings["lengths"], streams, strict=True):
        if options.only not in (None, length):
            continue
        data = Wikipedia.load(options.data, length)
        found[str(length)] = kept.part(f"length {length}", made_of, partial(_made, data, settings, options.out, rng))
    (options.out / "found.json").write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))
    for length, row in found.items():
        for part in ("zero_run", "zero_run_default"):
            said = row[part]
            print(f"\nlength {length}, {part}: {said['status']}, blind AUC {said['blind_auc']}")
            print("\n".join(f"- {reason}" for reason in said["reasons"]))
    problems = differences(found, json.loads((HERE / "expected.json").read_text()))
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
