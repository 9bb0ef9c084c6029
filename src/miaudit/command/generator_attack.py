"""``miaudit synthesise CONFIG.yaml --attack``: whether generators made like the release give single records away.

Algorithm 1 of causal-synthesis with errata D2 and D5: generators with and without each target, made as the release
would be, then classifiers of their tables that are judged on generators they did not learn from.
"""

from __future__ import annotations

import functools
import hashlib
import json as json_text
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from miaudit.command.terminal import keeping, progress, say, say_json, tell
from miaudit.errors import InputError
from miaudit.metrics.rounding import lower_text, upper_text

if TYPE_CHECKING:
    from miaudit.config.synthesise import AttackSection
    from miaudit.synthesis.generators.publication import Publication
    from miaudit.synthesis.generators.settled_release import SettledRelease
    from miaudit.synthesis.schema import Table

RESULTS = "attack.json"
FORMAT = "miaudit generator attack 1"
_TOGETHER = 20  # networks that are trained as one stack


@dataclass(frozen=True)
class Answer:
    """What an attack says of the claim, and the exit code."""

    text: str
    exit_code: int


def attack(
    table: Table,
    publication: Publication,
    options: AttackSection,
    folder: Path,
    *,
    overwrite: bool,
    json: bool,
    dry_run: bool,
) -> NoReturn:
    """Attack the generators that a configuration describes, write and show the results, and exit.

    The ledger is neither read nor charged: nothing of these generators is published.

    Raises
    ------
    InputError
        For a claim about replaced records, earlier results in the folder, or what the release would refuse.
    typer.Exit
        With the exit code of the answer.
    """
    privacy = publication.privacy
    if privacy is not None and privacy.neighbours != "add-or-remove":
        hint = "state neighbours: add-or-remove, which the attack can test"
        raise InputError("privacy.neighbours", "add-or-remove with --attack", privacy.neighbours, hint)
    results = folder / RESULTS
    if results.exists() and not (overwrite or dry_run):
        raise InputError("--out", f"a folder without {RESULTS}", str(folder), "choose another, or add --overwrite")
    settled = _settled(table, publication, options)
    if dry_run:
        say(_forecast(table, options))
        raise typer.Exit
    result, store = _attacked(settled, options, folder)
    judged = settled.judged(None if result.bound is None else result.bound.bound, reasons=result.notes)
    answer = answer_of(judged, result.models)
    written = json_text.dumps(content(result, answer, judged, options, len(table)), indent=1) + "\n"
    _write(results, written)
    if json:
        say_json(written)
    else:
        tell(text(result, answer, results, store), answer.exit_code)
    raise typer.Exit(answer.exit_code)


def _settled(table: Table, publication: Publication, options: AttackSection) -> SettledRelease:
    """Return how each generator is made, checked before any is: of all records, since none judges a release."""
    import numpy as np

    from miaudit.synthesis.generators.settled_release import SettledRelease

    own = replace(publication, ledger=None, fidelity="none")
    rehearse, split = np.random.default_rng([options.seed, 1]).spawn(2)
    with progress("recipes", meanwhile="rehearsal") as advance:
        settled = SettledRelease.of(table, own, rehearse=rehearse, split=split, progress=advance)
    settled.check()
    return settled


def _attacked(settled: SettledRelease, options: AttackSection, folder: Path) -> tuple[Any, Path]:
    """Make the generators, or those that a stopped run did not, and attack them; return the folder of their tables."""
    import numpy as np

    from miaudit.synthesis import membership_attack

    recipe, graph, table = settled.recipe, settled.graph, settled.private
    choices = options.model_dump(
        exclude={"extractors", "classifiers"}
    )  # what decides the tables, not how they are read
    key = repr((recipe, None if graph is None else graph.edges, choices))
    digest = hashlib.sha256(key.encode() + table.values.tobytes()).hexdigest()[:12]
    store = folder / f"sets-{digest}"
    making: dict[str, Any] = {"graph": graph, "public": settled.stopping_records}
    if settled.plan is not None:
        making["plan"] = settled.plan
    with progress("generators", meanwhile="attacks and placebos") as advance, keeping(store):
        result = membership_attack(
            table,
            fit_many=functools.partial(recipe.fit_many, **making),
            at_once=_TOGETHER if settled.plan is None else 1,
            store=store,
            key=digest,
            progress=advance,
            delta=0.0 if recipe.privacy is None else recipe.privacy.resolved_delta,
            rng=np.random.default_rng(options.seed),
            **options.training(),
            **options.reading(),
        )
    return result, store


def answer_of(judged: Any, models: int) -> Answer:
    """Say what an attack answers.

    Parameters
    ----------
    judged : ClaimVerdict of the claim that the release would make; None if it claims none
    models : number of generators
    """
    if judged is None:
        return Answer("Not answered (undeclared): privacy is none, so the attack has no claim to refute.", 4)
    reachable = judged.reachable or 0.0
    if judged.status == "refuted":
        return Answer(judged.text, 3)
    if reachable < judged.value:
        most = f"{models:,} generators can show epsilon = {lower_text(reachable)} at most"
        more = f"the release would claim {upper_text(judged.value)}; raise attack.repeats or attack.targets"
        return Answer(f"Not answered (inconclusive): {most}, and {more}.", 4)
    return Answer(judged.text, 0)


def content(result: Any, answer: Answer, judged: Any, options: AttackSection, records: int) -> dict[str, Any]:
    """Return the results as what is written to the file; ``judged`` is as in :func:`answer_of`."""
    own, rows = result.bound, result.frame().to_dicts()
    bound = None
    if own is not None:
        bound = {
            "epsilon_at_least": own.bound.value,
            "delta": own.bound.delta,
            "confidence": own.bound.confidence,
            "reachable": own.bound.reachable,
            "extractor": own.extractor,
            "classifier": own.classifier,
            "tested_generators": own.testing,
        }
    return {
        "format": FORMAT,
        "answer": answer.text,
        "exit_code": answer.exit_code,
        "claim": None if judged is None else {"epsilon": judged.value, "delta": judged.delta},
        "bound": bound,
        "records": records,
        "generators": result.models,
        "targets": list(result.targets),
        "options": options.model_dump(),
        "attacks": [{**row, "chance": row["chance"] if row["chance"] == row["chance"] else None} for row in rows],
        "notes": list(result.notes),
    }


def text(result: Any, answer: Answer, results: Path, store: Path) -> str:
    """The answer, the attacks and where the files are, as lines of text."""
    targets = f"{len(result.targets)} record{'s' * (len(result.targets) != 1)} ({', '.join(result.targets)})"
    return "\n".join(
        [
            answer.text,
            "",
            f"{result.models:,} generators, with and without {targets}:",
            str(result),
            f"Results: {results}. Tables of the generators: {store}.",
            "Keep both private: the guarantee of a release does not cover them.",
        ]
    )


def _forecast(table: Table, options: AttackSection) -> str:
    """What would be made."""
    targets = options.models // (2 * options.repeats)
    return (
        f"{options.models:,} generators would be made, {options.repeats} with and {options.repeats} without each of "
        f"{targets} record{'s' * (targets != 1)}, of {len(table):,} records. Nothing was written."
    )


def _write(results: Path, written: str) -> None:
    from miaudit.io.atomic import write_text

    results.parent.mkdir(parents=True, exist_ok=True)
    write_text(results, written)
