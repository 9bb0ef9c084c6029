"""What a commit costs beside the straightforward ways and beside installed peers: ``python benchmarks/ratios.py``.

Each way of a question runs in turn with the others, in one process, so that a busy machine slows all of them alike.
A ratio is the median over the rounds of our CPU seconds to theirs: below 1 we are faster. One JSON for each commit goes
into ``benchmarks/history``. ``--check`` compares it with the newest other one there: where the ratio to the
straightforward way grew by more than 1.3, the question is measured once more, and if it grew as much again the exit
code is 1. ``--docs benchmarks/public_tools.md`` writes the table of that page from the newest JSON.

Peers that cannot share an environment with us run in their own. ``--environments FOLDER`` holds one for each, named as
its package: ``python -m venv FOLDER/doubleml`` and ``FOLDER/doubleml/bin/pip install doubleml``. Without the folder
their last measurement is kept from the newest JSON, with the commit at which it was taken.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
HISTORY = HERE / "history"
MARKS = ("<!-- ratios: benchmarks/ratios.py --docs -->", "<!-- end of the ratios -->")
MOST = 1.3  # by which a ratio may grow
ROUNDS = 3
PEERS = {"opacus": "opacus", "dp-accounting": "dp_accounting"}  # in this environment; others: benchmarks/peers
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
Call = Callable[[], Any]


@dataclass(frozen=True)
class Question:
    """Ways to answer one question: ours, the straightforward one, and those of installed peers.

    Attributes
    ----------
    ours, plain : ways that take no argument
    plain_is : the straightforward way in words
    peers : ways by the name of their package
    imports : modules that a peer loads before it is timed
    elsewhere : by the name of a package, what times it with the interpreter of an environment of its own, and returns
        "cpu", "megabytes" and "version"
    note : what differs between the answers of peers and ours
    """

    ours: Call
    plain: Call
    plain_is: str
    peers: Mapping[str, Call] = field(default_factory=dict)
    imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elsewhere: Mapping[str, Callable[[Path], dict[str, Any]]] = field(default_factory=dict)
    note: str = ""


def bootstrap() -> Question:
    import miaudit as ma
    from miaudit.metrics import bootstrap as resampling
    from miaudit.metrics.classical import Sample
    from worlds.twins import bootstrap_loop

    rng, targets = np.random.default_rng(0), (0.001, 0.01, 0.1)
    member = np.arange(20_000) % 2 == 0
    score = rng.normal(size=20_000) + member
    sample = Sample.of(ma.Evidence(score=score, member=member, design="one-run"))
    return Question(
        lambda: resampling.replicates(sample, targets, 100, rng=np.random.default_rng(0)),
        lambda: bootstrap_loop(score, member, targets, 100, np.random.default_rng(0)),
        "a loop with roc_curve",
    )


def lira() -> Question:
    import attacks as ways
    from miaudit.attacks import lira

    world = ways.shadows(20_000, 64)
    return Question(lambda: lira.online(*world), lambda: ways.lira_masked(*world), "NaN-masked matrices")


def rmia() -> Question:
    import attacks as ways
    from miaudit.attacks import rmia

    target, shadow, included = ways.shadows(10_000, 16, seed=1)
    z = -np.exp(np.random.default_rng(2).normal(size=(2_000, 17)))
    known = (~included).any(axis=1)
    world = (-np.exp(-target[known]), -np.exp(-shadow[known]), included[known], z[:, 0], z[:, 1:])
    return Question(
        lambda: rmia.offline(*world),
        lambda: ways.rmia_matrix_offline(*world),
        "the full matrix, tuned on one model: ML Privacy Meter's way",
    )


def one_run_bound() -> Question:
    from dp import one_run_twins as twins
    from miaudit.dp import one_run

    def ours() -> float:
        one_run._largest_mu.cache_clear()
        return one_run.mu_lower_bound(correct=3_000, guesses=5_000, canaries=10_000).value

    def plain() -> float:
        counts = (3_000, 5_000, 10_000, 0.05)
        return twins.last_rejected(lambda mu: twins.f_dp_rejects(twins.quick_gaussian_inverse(mu), *counts))

    return Question(ours, plain, "the recursion without an early stop")


def calibration() -> Question:
    import calibration as ways

    from miaudit.dp import accounting
    from miaudit.dp.mechanism import dp_sgd

    records, batch, steps, epsilon, delta = 60_000, 600, 1_000, 3.0, 1e-5

    def family(noise: float) -> Any:
        return dp_sgd(records=records, batch=batch, steps=steps, noise=noise)

    def ours() -> float:
        ways.forget()
        return accounting.calibrate_noise(family, epsilon=epsilon, delta=delta)

    def opacus() -> float:
        get_noise_multiplier = import_module("opacus.accountants.utils").get_noise_multiplier
        options = {"sample_rate": batch / records, "steps": steps, "accountant": "prv", "epsilon_tolerance": 0.003}
        return float(get_noise_multiplier(target_epsilon=epsilon, target_delta=delta, **options))

    def dp_accounting() -> float:
        import dp_accounting as google

        def event(noise: float) -> Any:
            sampled = google.PoissonSampledDpEvent(batch / records, google.GaussianDpEvent(noise))
            return google.SelfComposedDpEvent(sampled, steps)

        bracket = google.ExplicitBracketInterval(0.5, 2.0)  # with less noise its grid is huge
        found = google.calibrate_dp_mechanism(google.pld.PLDAccountant, event, epsilon, delta, bracket, tol=1e-3)
        return float(found)

    return Question(
        ours,
        lambda: ways.bisected(family, epsilon, delta),
        "a bisection with the same accountant",
        {"opacus": opacus, "dp-accounting": dp_accounting},
        {"opacus": ("opacus.accountants.utils",), "dp-accounting": ("dp_accounting", "dp_accounting.pld")},
        note="Opacus: PRV accountant, epsilon to 0.003; dp-accounting: PLD, noise to 0.001",
    )


def effect() -> Question:
    import effects as ways
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    from miaudit.causal import effects, propensity

    evidence, _ = ways.world(4_000)
    x, y, member = evidence.covariates, evidence.score, evidence.member

    def ours() -> float:
        rng = np.random.default_rng(0)
        fitted = propensity.fit(evidence, classifier=LogisticRegression(), rng=rng)
        return effects.ate(evidence, fitted, method="aipw", outcome=Ridge(), rng=rng).value

    def plain() -> float:
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        odds = np.exp(cross_val_predict(LogisticRegression(), x, member, cv=folds, method="decision_function"))
        residual = np.array(y)
        for train, test in folds.split(x, member):
            rows = train[~member[train]]
            residual[test] -= Ridge().fit(x[rows], y[rows]).predict(x[test])
        return float(residual[member].mean() - np.average(residual[~member], weights=odds[~member]))

    def doubleml(python: Path) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            world = Path(folder) / "world.npz"
            np.savez(world, score=y, member=member, covariates=x)
            return answered(python, HERE / "peers" / "doubleml_times.py", world)

    return Question(
        ours,
        plain,
        "scikit-learn's cross-validation and the formula",
        elsewhere={"doubleml": doubleml},
        note="The effect on the members by AIPW, logistic and ridge regression, five folds. Ours fits 25 more models "
        "to calibrate the propensity of each fold on records that it did not see. DoubleML: IRM, ATTE",
    )


def linked() -> Question:
    import table_audit as ways

    from miaudit.synthesis.schema import Table
    from miaudit.synthesis.table_attacks.closest_record import Metric
    from miaudit.synthesis.table_attacks.linkability import linkability

    synthetic, members, control = ways.tables(None, 1_500)
    metric, names = Metric.of(control), synthetic.schema.names
    parts = names[: len(names) // 2], names[len(names) // 2 :]
    pool = Table(members.schema, np.concatenate([members.values, control.values]))

    def ours() -> Any:
        return linkability(synthetic, members, control, parts=parts, metric=metric, rng=np.random.default_rng(0))

    def plain() -> list[Any]:
        from worlds.twins import gower_sums

        columns = [[names.index(name) for name in part] for part in parts]
        return [
            np.argpartition(gower_sums(query, synthetic.values, metric.nominal, metric.width, own), 10)
            for query in pool.values
            for own in columns
        ]

    def anonymeter(python: Path) -> dict[str, Any]:
        found = ways.anonymeter_on(python, {"synthetic": synthetic, "members": members, "control": control})
        peaks = found["peaks"]
        return {
            "cpu": found["seconds"]["linkability"],
            "megabytes": peaks["linkability"] - peaks["before"],
            "version": found["version"],
        }

    return Question(
        ours,
        plain,
        "a loop over records",
        elsewhere={"anonymeter": anonymeter},
        note="Two parties with half of the columns each, ten neighbours; Anonymeter: extrapolated from 120 attacks",
    )


def answered(python: Path, script: Path, *words: Path) -> dict[str, Any]:
    """Run a script with another interpreter, and return the line of JSON that it prints last."""
    command = [str(python), str(script), *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


QUESTIONS: dict[str, Callable[[], Question]] = {
    "100 bootstrap replicates of 20,000 scores": bootstrap,
    "online LiRA, 20,000 records, 64 models": lira,
    "offline RMIA, 10,000 records, 16 models, tuned": rmia,
    "mu from 3,000 of 5,000 guesses, 10,000 canaries": one_run_bound,
    "noise of DP-SGD for epsilon 3, 1,000 steps": calibration,
    "effect among 4,000 records, 20 covariates": effect,
    "linkability of 2,450 records, 1,500 synthetic ones": linked,
}


# -- measuring --------------------------------------------------------------------------------------------------------


def cpu(call: Call, least: float = 0.02) -> float:
    """CPU seconds of a call: the mean over as many as fill ``least`` seconds."""
    count, start = 0, time.process_time()
    while count == 0 or time.process_time() - start < least:
        call()
        count += 1
    return (time.process_time() - start) / count


def megabytes(call: Call) -> float:
    """What a call holds at its peak, as Python's allocator and numpy report it."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def measured(question: Question, rounds: int = ROUNDS, environments: Path | None = None) -> dict[str, Any]:
    """Time our way and the straightforward one in turn, peers after them, and return rows with ratios of a round."""
    own = {"miaudit": question.ours, "straightforward": question.plain}
    peers = {name: call for name, call in question.peers.items() if util.find_spec(PEERS[name])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers
        for call in own.values():
            call()  # imports and first-time work
        times = [{name: cpu(call) for name, call in own.items()} for _ in range(rounds)]
        memory: dict[str, float | None] = {name: megabytes(call) for name, call in own.items()}
        for name, call in peers.items():  # once: some take a minute, and none is what a commit changes
            for module in question.imports.get(name, ()):
                import_module(module)
            times[-1][name], memory[name] = cpu(call), None
    rows = {
        name: {
            "cpu": statistics.median(one[name] for one in times if name in one),
            "ratio": statistics.median(one["miaudit"] / one[name] for one in times if name in one),
            "megabytes": memory[name],
        }
        for name in (*own, *peers)
    }
    for name, call in () if environments is None else question.elsewhere.items():
        python = environments / name / "bin" / "python"
        if python.exists():
            found, ours = call(python), cpu(question.ours)
            ratio = {"cpu": found["cpu"], "ratio": ours / found["cpu"], "megabytes": found["megabytes"]}
            rows[name] = {**ratio, "version": found["version"]}
    return {"straightforward_is": question.plain_is, "note": question.note, "ways": rows}


def commit_of(folder: Path) -> str:
    """The commit that is measured, with a mark where files differ from it."""
    words = ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def document(commit: str, results: dict[str, Any]) -> dict[str, Any]:
    packages = {name: metadata.version(name) for name, module in PEERS.items() if util.find_spec(module)}
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return {"commit": commit, "date": when, "packages": packages, "questions": results}


def newest(folder: Path, but: str = "") -> dict[str, Any] | None:
    """The newest document of a folder, of another commit than this."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    others = [one for one in documents if one["commit"] != but]
    return max(others, key=lambda one: one["date"], default=None)


def kept(before: dict[str, Any] | None, results: dict[str, Any]) -> None:
    """Keep from an earlier document what peers in environments of their own took, where they did not run now."""
    for name, one in results.items() if before else ():
        earlier = before["questions"].get(name, {"ways": {}})["ways"]
        for way, row in earlier.items():
            if "version" in row:
                one["ways"].setdefault(way, {"at": before["commit"], **row})


def slower(before: dict[str, Any], now: dict[str, Any]) -> dict[str, float]:
    """By how much the ratio to the straightforward way grew, of questions in which that is more than is allowed."""

    def ratio(one: dict[str, Any], name: str) -> float:
        return float(one[name]["ways"]["straightforward"]["ratio"])

    grown = {name: ratio(now, name) / ratio(before, name) for name in now if name in before}
    return {name: times for name, times in grown.items() if times > MOST}


def confirmed(before: dict[str, Any], now: dict[str, Any], again: Callable[[str], dict[str, Any]]) -> dict[str, float]:
    """Measure what is slower once more, and return what is slower in both runs."""
    second = {name: again(name) for name in slower(before, now)}
    return slower(before, second)


# -- the table --------------------------------------------------------------------------------------------------------


def milliseconds(seconds: float) -> str:
    """Write a time with three digits, and no exponent."""
    number = seconds * 1e3
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def table(content: dict[str, Any]) -> str:
    """Write a document as a table of benchmarks/public_tools.md."""
    used = ", ".join(f"{name} {version}" for name, version in content["packages"].items())
    lines = [
        f"Measured at commit {content['commit']} on {content['date'][:10]}, with {used or 'no other package'}.",
        "",
        "| question | way | CPU | miaudit / this | MB |",
        "|---|---|---|---|---|",
    ]
    for name, one in content["questions"].items():
        for way, row in one["ways"].items():
            words = f"straightforward: {one['straightforward_is']}" if way == "straightforward" else way
            words += f" {row['version']}" if "version" in row else ""
            words += f", at commit {row['at']}" if "at" in row else ""
            ratio = "" if way == "miaudit" else f"{row['ratio']:.2g}"
            first = name if way == "miaudit" else ""
            held = "" if row["megabytes"] is None else f"{row['megabytes']:.3g}"
            lines.append(f"| {first} | {words} | {milliseconds(row['cpu'])} ms | {ratio} | {held} |")
    notes = [one["note"] for one in content["questions"].values() if one["note"]]
    return "\n".join([*lines, "", *(f"{note}." for note in notes)])


def insert(path: Path, text: str) -> None:
    """Put a text between the marks of a page."""
    before, mark, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    assert mark and end, f"{path} has no marks for the table"
    path.write_text(f"{before}{mark}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the newest JSON of another commit")
    parser.add_argument("--docs", type=Path, help="only write the table of this page from the newest JSON")
    parser.add_argument("--environments", type=Path, help="a folder with an environment for each peer")
    parser.add_argument("--history", type=Path, default=HISTORY, help="the folder of the JSON files")
    options = parser.parse_args()
    if options.docs:
        latest = newest(options.history)
        assert latest is not None, f"{options.history} holds no JSON"
        insert(options.docs, table(latest))
        return 0
    commit = commit_of(HERE)
    results: dict[str, Any] = {}
    options.history.mkdir(exist_ok=True)
    for name, make in QUESTIONS.items():
        results[name] = measured(make(), environments=options.environments)
        kept(newest(options.history, but=commit), results)
        content = document(commit, results)
        (options.history / f"{commit}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(name, {way: round(row["ratio"], 3) for way, row in results[name]["ways"].items()}, flush=True)
    before = newest(options.history, but=commit) if options.check else None
    if before is None:
        return 0
    grown = confirmed(before["questions"], results, lambda name: measured(QUESTIONS[name]()))
    for name, times in grown.items():
        print(f"SLOWER by {times:.2f} than at commit {before['commit']}, in two runs: {name}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
