"""How much each kind of canary shows of mu, and what it costs the model: the table of experiments/validity/canaries.md.

    PYTHONPATH=src python benchmarks/canaries.py [--json FILE] [--data FOLDER] [--count 1000] [--only TEXT]
    PYTHONPATH=src python benchmarks/canaries.py --texts --count 300 [--only TEXT]

For each world, model and kind: one set of canaries, four trainings with coins of their own, eight shadow models of none
of them, and as many models with and without the canaries whose accuracy on records that no model learned is compared.
Worlds need MNIST and Location-30 (--data); without them handwritten digits of scikit-learn take their place.

With --texts: of kinds for texts, once or several times in a small GPT-2 that learns WikiMIA's passages of 32 words, by
the loss and by its ratio to that of a model that learned the same passages and no canary. Without WikiMIA sentences
that are made here take its place.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.canaries import KINDS, CanaryKind, Insertion, added, fitting
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.dp import one_run
from miaudit.evidence import Evidence
from miaudit.models.targets import SklearnTarget, TorchTarget
from miaudit.models.train_config import TrainConfig

RUNS, SHADOWS, CONFIDENCE = 4, 8, 0.95
NATURAL = "natural"
SCORES = ("loss", "lira_online")


def worlds(data: Path) -> Iterator[tuple[str, Records, Records, tuple[int, ...]]]:
    """Name, records, held-out records, and the shape of an image, for each world."""
    rng = np.random.default_rng(0)
    if (data / "mnist" / "mnist.npz").is_file():
        with np.load(data / "mnist" / "mnist.npz") as file:
            rows = rng.permutation(60_000)[:6000]
            square = file["x_train"][rows].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255
            yield "MNIST, 14 x 14", *_parted(square.reshape(6000, -1), file["y_train"][rows], 4000), (14, 14)
    else:
        x, y = load_digits(return_X_y=True)
        order = rng.permutation(len(x))
        yield "digits, 8 x 8", *_parted(x[order] / 16, y[order], 1400), (8, 8)
    if (data / "location30" / "location30.npz").is_file():
        with np.load(data / "location30" / "location30.npz") as file:
            x = np.unpackbits(file["x_packed"], axis=1)[:, : int(file["n_features"])]
            order = rng.permutation(len(x))
            yield "Location-30", *_parted(x[order], file["y"][order], 4000), ()


def _parted(x: Any, y: Any, natural: int) -> tuple[Records, Records]:
    x, y = x.astype(np.float32), y.astype(np.int64)
    return tuple(Records(x[s], y[s], None, {}, "data") for s in (slice(natural), slice(natural, None)))  # type: ignore[return-value]


def models(records: Records) -> Iterator[tuple[str, Any]]:
    """Name and target of each model."""
    yield "forest", SklearnTarget(RandomForestClassifier(30, n_jobs=1))
    try:
        from miaudit.models.nets import mlp
    except ImportError:
        return
    network = mlp(records.x.shape[1], int(records.y.max()) + 1)  # type: ignore[union-attr]
    training = TrainConfig(optimiser="adam", learning_rate=0.002, epochs=20, batch=64, weight_decay=0.0, device="cpu")
    yield "MLP", TorchTarget(network, training, None, "mlp")


def of_kind(name: str, count: int, shape: tuple[int, ...]) -> CanaryKind:
    """The record of a kind; rows of pixels are images."""
    made: Any = KINDS[name](count)
    return replace(made, shape=shape) if shape and hasattr(made, "shape") else made  # type: ignore[no-any-return]


def with_canaries(records: Records, name: str, count: int, shape: tuple[int, ...], target: Any) -> Records:
    """Records with canaries of a kind; natural ones are records as they are."""
    if name == NATURAL:
        return replace(records, canary=np.arange(records.n) >= records.n - count)
    rng = np.random.default_rng(7)
    return added(records, of_kind(name, count, shape), rng=rng, reference=target, seed=7)


def shown(target: Any, records: Records) -> dict[str, list[float]]:
    """Bounds on mu of each run, by score."""
    shadows = Shadows(models=SHADOWS, vulnerability=False)
    campaign = Campaign(target, records, attacks=SCORES, shadows=shadows, runs=RUNS)
    evidence = collect(campaign, rng=np.random.default_rng(1)).evidence
    found: dict[str, list[float]] = {name: [] for name in SCORES}
    for number, run in enumerate(evidence.runs):
        for name in SCORES:
            rng = np.random.default_rng(number)
            bound = one_run.audit(run.only(name), parameter="mu", confidence=CONFIDENCE, rng=rng)
            found[name].append(bound.value)
    return found


def accuracy(target: Any, records: Records, held_out: Records, seed: int) -> float:
    """Accuracy on records that no model learned; a coin decides for each canary."""
    canary = np.zeros(records.n, dtype=np.bool_) if records.canary is None else records.canary
    rows = np.flatnonzero(~canary | (np.random.default_rng(100 + seed).random(records.n) < 0.5))
    x = target.prepared(records.x)
    outputs = target.outputs(target.fit(x, records.y, rows, seed=seed), target.prepared(held_out.x))
    return float((np.asarray(outputs).argmax(axis=1) == held_out.y).mean())


def compare(data: Path, count: int, only: str) -> Iterator[dict[str, Any]]:
    """One row for each world, model and kind, where ``only`` is part of these three."""
    for world, records, held_out, shape in worlds(data):
        kinds = [NATURAL, *fitting(records, shape=shape)]
        for model, target in models(records):
            wanted = [kind for kind in kinds if only in f"{world} {model} {kind}"]
            plain = [accuracy(target, records, held_out, seed) for seed in range(RUNS if wanted else 0)]
            for kind in wanted:
                begin = time.perf_counter()
                whole = with_canaries(records, kind, min(count, records.n // 4), shape, target)
                yield {
                    "world": world,
                    "model": model,
                    "kind": kind,
                    "canaries": int(np.count_nonzero(whole.canary)),
                    "records": int(np.count_nonzero(~np.asarray(whole.canary))),
                    "mu": shown(target, whole),
                    "accuracy_without": plain,
                    # Natural "canaries" of which half are left out are what an audit without canaries costs.
                    "accuracy_with": [accuracy(target, whole, held_out, seed) for seed in range(RUNS)],
                    "seconds": round(time.perf_counter() - begin, 1),
                }


# -- texts -------------------------------------------------------------------------------------------------------------

TEXT_KINDS = (("held-out", 1), ("changed-fact", 1), ("random-tokens", 1), ("rare-tokens", 1), ("rare-tokens", 4))
HELD_OUT = 150


def passages(data: Path) -> list[str]:
    """Texts, all different: those of WikiMIA, or made ones."""
    path = data / "wikimia" / "wikimia_32.jsonl"
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        return list(dict.fromkeys(json.loads(line)["input"] for line in lines))
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("aeioulnrst"), 6)) for _ in range(2000)]
    ranks = np.minimum(rng.zipf(1.5, (700, 32)), len(words)) - 1
    return [" ".join(["In", str(rng.integers(1900, 2024)), *(words[i] for i in row)]) for row in ranks]


def compare_texts(data: Path, count: int, only: str, config: Any = None) -> Iterator[dict[str, Any]]:
    """One row for each kind of canaries of texts, where ``only`` is part of its name."""
    from miaudit.models.language import SmallLanguage
    from miaudit.models.train_config import SmallGPT2

    texts = passages(data)
    order = np.random.default_rng(0).permutation(len(texts))
    held_out = [texts[i] for i in order[:HELD_OUT]]
    records = Records([texts[i] for i in order[HELD_OUT:]], None, None, {}, "passages")
    target = SmallLanguage(config or SmallGPT2(layers=1, width=64, heads=2, context=96, epochs=12, learning_rate=0.006))
    plain: list[float] = []
    for name, times in TEXT_KINDS:
        label = name if times == 1 else f"{name}, {times} times"
        if only not in label:
            continue
        begin = time.perf_counter()
        plain = plain or [nats(learned(target, records.x, records.x, s), held_out) for s in range(RUNS)]
        rng, insertion = np.random.default_rng(7), Insertion((times,))
        whole = added(records, KINDS[name](count), rng=rng, insertion=insertion)
        found = shown_of_texts(target, whole, held_out)
        yield {
            "world": "WikiMIA, 32 words",
            "model": "small GPT-2",
            "kind": label,
            "canaries": count,
            "records": whole.n - count,
            **found,
            "nats_without": plain,
            "seconds": round(time.perf_counter() - begin, 1),
        }


def shown_of_texts(target: Any, whole: Records, held_out: list[str]) -> dict[str, Any]:
    """Bounds on mu of each run by the loss and its ratio, and the loss on texts that no model learned."""
    canary = np.asarray(whole.canary)
    asked, natural = [whole.x[i] for i in np.flatnonzero(canary)], [whole.x[i] for i in np.flatnonzero(~canary)]
    often = np.ones(whole.n, dtype=int) if whole.times is None else whole.times
    reference = means(learned(target, whole.x, natural, 99), asked)
    mu: dict[str, list[float]] = {"loss": [], "ratio": []}
    losses = []
    for run in range(RUNS):
        coins = np.random.default_rng(100 + run).random(len(asked)) < 0.5
        member = np.concatenate([np.ones(len(natural), dtype=bool), coins])
        model = learned(
            target, whole.x, [x for x, n in zip(whole.x, member * often, strict=True) for _ in range(n)], run
        )
        own = means(model, asked)
        for name, score in (("loss", own), ("ratio", own / -reference)):
            evidence = Evidence(score=score, member=coins, design="one-run")
            rng = np.random.default_rng(run)
            mu[name].append(one_run.audit(evidence, parameter="mu", confidence=CONFIDENCE, rng=rng).value)
        losses.append(nats(model, held_out))
    return {"mu": mu, "nats_with": losses}


def learned(target: Any, every: list[str], texts: list[str], seed: int) -> Any:
    """A model of texts, whose vocabulary is of all of them."""
    from miaudit.models import text

    tokenizer = text.byte_pair_tokenizer(every, vocabulary=target.vocabulary)
    return text.train(tokenizer, texts, target.config, rng=np.random.default_rng(seed))


def means(model: Any, texts: list[str]) -> Any:
    """Mean log-probability of the tokens of each text."""
    from miaudit.attacks import tokens
    from miaudit.models import text

    found = text.token_log_probabilities(model, texts, moments=False, batch=64)
    return tokens.loss(found.log_p, found.offsets)


def nats(model: Any, texts: list[str]) -> float:
    """Loss for each word, which does not depend on how a vocabulary cuts them."""
    from miaudit.models import text

    found = text.token_log_probabilities(model, texts, moments=False, batch=64)
    return float(-found.log_p.sum() / sum(len(one.split()) for one in texts))


def text_line(row: dict[str, Any]) -> str:
    """One line of the table of texts."""
    change = np.array(row["nats_with"]) - row["nats_without"]
    parts = [*row["mu"].values(), change]
    cells = [
        f"{np.mean(values):{sign}.2f} ± {np.std(values, ddof=1):.2f}"
        for values, sign in zip(parts, (" ", " ", "+"), strict=True)
    ]
    return f"| {row['kind']} | {' | '.join(cell.strip() for cell in cells)} |"


def line(row: dict[str, Any]) -> str:
    """One line of the table: means and standard deviations over the runs."""
    cells = [f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" for values in row["mu"].values()]
    change = 100 * (np.array(row["accuracy_with"]) - row["accuracy_without"])
    cells.append(f"{change.mean():+.1f} ± {change.std(ddof=1):.1f}")
    return f"| {row['world']} | {row['model']} | {row['kind']} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of the names of data, model and kind: 'Location-30 MLP hard'")
    parser.add_argument("--texts", action="store_true", help="kinds for texts, in a small language model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    head, make, told = "| data | model | canaries | mu, loss | mu, LiRA | accuracy, points |", compare, line
    if options.texts:
        head, make, told = "| canaries | mu, loss | mu, ratio | loss, nats a word |", compare_texts, text_line
    print(f"{head}\n{'|---' * (head.count('|') - 1)}|")
    rows = []
    for row in make(options.data, options.count, options.only):
        print(told(row), flush=True)
        rows.append(row)
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
