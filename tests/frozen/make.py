"""Make the frozen files again: ``files/`` holds one small file of each kind that miaudit writes.

``python tests/frozen/make.py`` from the root of the checkout makes every kind again, and ``python tests/frozen/make.py
findings stores`` makes only these kinds, with the kinds that are made from them. With ``--into FOLDER``, a new folder,
the files are written there, and ``files/`` stays as it is. Files are replaced only after all of them were made.

The command line makes nearly all of them, in a folder that holds the tables and configurations of :mod:`frozen.inputs`,
with relative names, so that findings hold no path of a machine. Some files have parts that no seed gives again: the
salts and keys of a bundle, sealed coins, the noise of a private release and its date. The tests read, verify and
continue such files. They do not make them again and compare.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import importlib.metadata
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import vl_convert

sys.path.insert(0, str(Path(__file__).parents[1]))

import miaudit as ma
from frozen import inputs

# These names are not public. Where one moves, this is the only place to change.
from miaudit import bundle
from miaudit.command import program
from miaudit.dp import mechanism
from miaudit.io import sealed_coins
from miaudit.synthesis.generators import ledger
from miaudit.synthesis.retraining_attack import sets

FILES = Path(__file__).parent / "files"

TABLE = ("audit", "t.npz", "--score", "score", "--member", "member")
ONE_RUN = (*TABLE, "--design", "one-run", "--primary-metric", "auc")
OBSERVED = ("audit", "zero.npz", "--score", "score", "--member", "member", "--design", "zero-run", "--covariates")
ZERO_RUN = (*OBSERVED[:-1], "--propensity-model", "line", "--estimator", "hajek", "--covariates")
TEXT = ("audit", "text.csv", *ZERO_RUN[2:-1], "--text", "text", "--components", "3", "--no-bounds")
SYNTHETIC = ("audit", "--synthetic", "made.csv", "--members", "members.csv", "--nonmembers", "others.csv")

# Commands whose findings show what findings can hold. Those of KEPT are kept as files/findings/NAME.json.gz.
FINDINGS: dict[str, tuple[str, ...]] = {
    "one-run": (*ONE_RUN, "--delta", "1e-6", "--threshold-for-concern", "0.55"),
    "multi-run": (*TABLE, "--design", "multi-run", "--primary-metric", "auc", "--claim-epsilon", "0.5"),
    "zero-run": (*ZERO_RUN, "x0,x1", "--primary-metric", "auc", "--claim-mu", "0.2", "--guesses", "60"),
    "zero-run-aipw": (*OBSERVED, "x0,site", "--categories", "site", "--propensity-model", "line", "--no-bounds"),
    "zero-run-stack": (*OBSERVED, "x0,site", "--categories", "site", "--primary-metric", "auc", "--guesses", "60"),
    "zero-run-composition": (*ZERO_RUN, "x0", "--correction", "composition", "--margin", "0.2", "--delta", "1e-4"),
    "zero-run-conditional": (*ZERO_RUN, "x0", "--correction", "conditional", "--guesses", "60"),
    "zero-run-text": TEXT,
    "refused": (*ZERO_RUN, "apart"),
    "raw-only": (*ZERO_RUN, "apart", "--raw-only"),
    "undeclared": TABLE,
    "groups": (*ONE_RUN, "--unit", "person", "--group", "site", "--show-rows", "2", "--no-bounds"),
    "several": (
        *TABLE[:3],
        "score,other",
        *TABLE[4:],
        "--design",
        "one-run",
        "--headline",
        "split",
        "--fpr-targets",
        "0.1",
    ),
    "bonferroni": (*TABLE[:3], "score,other", *TABLE[4:], "--design", "one-run", "--no-bounds"),
    "bootstrap": (*ONE_RUN, "--n-bootstrap", "100", "--guesses", "schedule"),
    "mechanism": (*ONE_RUN, "--mechanism", "mechanism.yaml"),
    "pair": ("audit", "--members", "m.npy", "--nonmembers", "n.npy", "--signal", "loss", "--design", "one-run"),
    "logits": (
        *("audit", "logits.npz", "--score", "logits", "--labels", "label", "--signal", "logits", "--member", "member"),
        *("--attack", "margin", "--attack", "entropy", "--attack", "gaussian_lira", "--design", "one-run"),
    ),
    "tokens": ("audit", "tokens.jsonl", "--signal", "token-logprobs", "--design", "one-run", "--no-bounds"),
    "run-files": ("run", "files.yaml"),
    "run-table": ("run", "table.yaml"),
    "run-tree": ("run", "tree.yaml"),
    "run-as-it-is": ("run", "as-it-is.yaml"),
    "table": (*SYNTHETIC, "--schema", "schema.yaml", "--design", "one-run", "--primary-metric", "auc"),
    "table-units": (*SYNTHETIC, "--design", "one-run", "--unit", "house", "--secret", "job", "--no-bounds"),
    "table-undeclared": (*SYNTHETIC, "--secret", "job", "--known", "age,town", "--no-bounds"),
    "disclosure": ("disclosure", "disclosure.yaml"),
    "synthesis": ("synthesise", "plain.yaml"),
    "extraction": ("extraction", "tokens.jsonl", "--prefix", "2", "--suffix", "3", "--design", "one-run", "--names"),
    "usage": ("usage", "m.npy", "--nonmembers", "n.npy", "--signal", "loss", "--limit", "used=0.1"),
    "deletion": ("usage", "t.npz", "--deleted", "later.npz", "--score", "score", "--member", "member"),
    "verification": ("verify", "one-run.zip"),
    "verification-failed": ("verify", "changed.zip"),
    "challenge": ("challenge", "one-run.zip", "--scores", "strong.npy"),
    "challenge-propensity": ("challenge", "zero-run.zip", "--propensity", "propensity.npy"),
    "comparison": ("compare", "one-run.zip", "later.zip"),
    "history": ("history", "one-run.zip", "later.zip", "one-run.zip"),
}
KEPT = (
    *("one-run", "zero-run", "undeclared", "refused", "pair", "table", "disclosure", "synthesis", "extraction"),
    *("usage", "deletion", "verification", "challenge", "comparison", "history"),
)
BUNDLES: dict[str, tuple[str, ...]] = {
    "one-run": (*ONE_RUN, "--threshold-for-concern", "0.55"),
    "zero-run": (*ZERO_RUN, "x0,x1", "--primary-metric", "auc", "--claim-mu", "0.2", "--guesses", "60"),
    "sealed": (*ONE_RUN, "--no-bounds", "--seal"),
    "later": (*TABLE[:1], "later.npz", *TABLE[2:], "--design", "one-run", "--primary-metric", "auc", "--no-bounds"),
}
# A campaign that collects evidence: the store and the evidence are kept.
CAMPAIGNS = ("regression",)


# -- the command line ------------------------------------------------------------------------------------------------


def call(*arguments: str) -> tuple[int, str, str]:
    """Run the command line in this process and folder; return exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["miaudit", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            program.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def workplace(*folders: Path) -> Iterator[Path]:
    """Be in a new folder that holds the inputs, and a copy of each of these folders' contents."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        inputs.write(Path(made))
        for folder in folders:
            shutil.copytree(folder, made, dirs_exist_ok=True)
        os.chdir(made)
        try:
            yield Path(made)
        finally:
            os.chdir(before)


def keep(text: str, path: Path) -> None:
    """Write text, packed."""
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def kept(path: Path) -> str:
    """Read packed text."""
    return gzip.decompress(path.read_bytes()).decode()


@contextlib.contextmanager
def quick_pictures() -> Iterator[None]:
    """Leave .png files, which no page holds, undrawn, and draw no chart twice for a page and its folder."""
    drawn = vl_convert.vegalite_to_svg, vl_convert.vegalite_to_png
    vl_convert.vegalite_to_svg = _remembered(drawn[0])
    vl_convert.vegalite_to_png = lambda *_args, **_options: b"no picture"
    try:
        yield
    finally:
        vl_convert.vegalite_to_svg, vl_convert.vegalite_to_png = drawn


def _remembered(draw: Callable[..., str]) -> Callable[..., str]:
    known: dict[str, str] = {}

    def drawn(chart: str, **options: object) -> str:
        if chart not in known:
            known[chart] = draw(chart, **options)
        return known[chart]

    return drawn


def versions() -> dict[str, str]:
    """What files name, or depend on, beside miaudit itself."""
    names = ("numpy", "scipy", "scikit-learn", "polars", "altair", "vl-convert-python", "torch", "typer", "rich")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}


# -- what is made ------------------------------------------------------------------------------------------------------
# Each function makes one kind, in the folder ``files``, which already holds the kinds that it reads.


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _call(*command: str, codes: tuple[int, ...] = (0, 3, 4)) -> tuple[int, str]:
    """Run a command that must work; return its exit code and standard output."""
    code, out, err = call(*command)
    if code not in codes:
        raise SystemExit(f"miaudit {' '.join(command)}: exit code {code}\n{err}")
    return code, out


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def bundles(files: Path) -> None:
    """Bundles with their keys, and an opening of the sealed one."""
    place = _fresh(files / "bundles")
    for name, command in BUNDLES.items():
        with workplace() as work:
            _call(*command, "--json", "--bundle", f"{name}.zip")
            for made in work.glob(f"{name}*"):
                if made.suffix == ".zip" or made.name.endswith(".key.json"):
                    shutil.copy(made, place)
    with workplace(place) as work:
        _call("unseal", "sealed.zip", "--key", "sealed.key.json", codes=(0,))
        shutil.copy(work / "sealed.opening.json", _fresh(files / "opening"))


def _changed(source: Path, target: Path) -> None:
    with zipfile.ZipFile(source) as held, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as made:
        for one in held.infolist():
            content = held.read(one)
            if one.filename == "findings.json":
                stated = json.loads(content)
                stated["metrics"][3]["value"] = 0.123
                content = json.dumps(stated).encode()
            made.writestr(one.filename, content)


def coins(files: Path) -> None:
    """A bundle with sealed coins of two runs, two records to each coin, and the answer to their commitment."""
    place = _fresh(files / "coins")
    secret = sealed_coins.Secret.new(coins=40, runs=2, records="ab" * 32, by="Example Ltd", about="frozen")
    answer = sealed_coins.Answer.to(secret.commitment, by="Auditor", before=1)
    unit = np.array([f"person {row // 2}" for row in range(80)])
    unsigned = sealed_coins.Coins(secret.commitment, answer, secret.seed)
    members = [unsigned.members(run, records=80, unit=unit) for run in (1, 2)]
    rng = np.random.default_rng(0)
    scores = [np.round(rng.normal(size=80) + member, 4) for member in members]
    digest = sealed_coins.of_scores(scores, [unit, unit])
    evidence = ma.Evidence.of_runs(
        [
            ma.Evidence(score=score, member=member, unit=unit, design="one-run")
            for score, member in zip(scores, members, strict=True)
        ]
    )
    signed = secret.coins(answer, [digest])
    recorded = bundle.record(evidence, plan=ma.Plan(bounds=None), rng=np.random.default_rng(0), coins=signed)[1]
    recorded.write(place / "two-runs.zip")
    answer.write(place / "coins.answer.json")


def probes(files: Path) -> None:
    """Scored probes of texts with random strings, and their key."""
    place = _fresh(files / "probes")
    with workplace() as work:
        _call("decoys", "tickets.jsonl", "--ids", "id", "--count", "4", "--seed", "7", codes=(0,))
        lines = [json.loads(line) for line in (work / "probes.jsonl").read_text(encoding="utf-8").splitlines()]
        scored = [{**line, "log_probability": -(len(line["text"]) + i * 7 % 11)} for i, line in enumerate(lines)]
        text = "".join(f"{json.dumps(line)}\n" for line in scored)
        (place / "probes.jsonl").write_text(text, encoding="utf-8")
        shutil.copy(work / "probes.key.json", place)


def findings(files: Path) -> None:
    """Findings of every kind, as --json prints them."""
    place = _fresh(files / "findings")
    for name in KEPT:
        keep(one_finding(FINDINGS[name], files), place / f"{name}.json.gz")


@functools.cache
def sample(name: str) -> str:
    """Return findings of one of the commands above: the kept ones, or what the command prints now."""
    if name == "synthesis-private":
        return (FILES / "ledgers" / "release" / "findings.json").read_text("utf-8")
    return kept(FILES / "findings" / f"{name}.json.gz") if name in KEPT else one_finding(FINDINGS[name])


def one_finding(command: tuple[str, ...], files: Path = FILES) -> str:
    """Findings of one command, run beside the inputs, the bundles and a bundle that was changed."""
    with workplace(files / "bundles") as work, quick_pictures():
        _changed(work / "one-run.zip", work / "changed.zip")
        return _call(*command, "--json")[1]


def stores(files: Path) -> None:
    """The evidence of a campaign (.npz) with the store of its finished models, and a store of the library."""
    place = _fresh(files / "stores")
    for name in CAMPAIGNS:
        with workplace() as work:
            _call("collect", f"{name}.yaml", "--out", "evidence.npz", codes=(0,))
            (place / name).mkdir()
            shutil.copy(work / "evidence.npz", place / name)
            if (work / "store").is_dir():
                shutil.copytree(work / "store", place / name / "store")
    for name, make in LIBRARY_STORES.items():
        (place / name).mkdir()
        np.savez(place / name / "result.npz", **make(place / name / "store", []))


class Resampled:
    """A generator that learned some records, and draws from them."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.values[rng.integers(0, len(self.values), n)]


def synthetic_sets(store: Path, fits: list[int]) -> dict[str, np.ndarray]:
    """Sets drawn from generators with and without two targets, kept in a store; each fit is noted in ``fits``."""
    columns = tuple(ma.synthesis.Column(f"c{i}") for i in range(4))
    values = (np.random.default_rng(2).random((30, 4)) < 0.4).astype(float)
    table = ma.synthesis.Table(ma.synthesis.Schema(columns), values)

    def fit(given: ma.synthesis.Table, *, rng: np.random.Generator) -> Resampled:
        fits.append(len(given.values))
        return Resampled(given.values)

    made = sets.train(
        *(table, ma.synthesis.RandomTargets(2)),
        fit=fit,
        repeats=2,
        sets=3,
        set_size=10,
        store=store,
        key="resampled",
        rng=np.random.default_rng(9),
    )
    return {"membership": made.membership, "drawn": np.stack([made.model(m) for m in range(made.models)])}


LIBRARY_STORES = {"sets": synthetic_sets}


def evidence_of(design: str) -> ma.Evidence:
    """Evidence with each of its fields."""
    rng = np.random.default_rng(7)
    return ma.Evidence(
        score={"loss": np.round(rng.normal(size=12), 3), "other": np.round(rng.normal(size=12), 3)},
        member=np.arange(12) % 2 == 0,
        covariates=np.round(rng.normal(size=(12, 2)), 3) if design == "zero-run" else None,
        covariate_names=["age", "height"] if design == "zero-run" else None,
        unit=np.array([f"u{i // 2}" for i in range(12)]) if design != "zero-run" else None,
        group=np.arange(12) % 3,
        text=np.array([f'text {i}, "quoted"' for i in range(12)]) if design == "zero-run" else None,
        design=design,
        source="by hand",
    )


def evidence(files: Path) -> None:
    """Evidence in each format of file."""
    place = _fresh(files / "evidence")
    for ending in ("npz", "parquet", "csv"):
        evidence_of("zero-run").save(place / f"zero-run.{ending}")
    simple = ma.Evidence(score=np.arange(8.0), member=np.arange(8) % 2 == 0, design="one-run")
    simple.save_pair(place / "members.npy", place / "nonmembers.npy")


def ledgers(files: Path) -> None:
    """A private release with its folder, its ledger with the lock, and a ledger with an entry of each mechanism."""
    place = _fresh(files / "ledgers")
    with workplace() as work:
        _call("synthesise", "private.yaml", "--json", "--out", "out-first")
        for made in work.iterdir():
            if "ledger" in made.name:
                shutil.copy(made, place)
        (place / "release").mkdir()
        for made in (work / "out-first").iterdir():
            if made.is_file() and made.suffix != ".html":
                shutil.copy(made, place / "release")
    (place / "kinds").mkdir()
    ledger_of_each_kind(place / "kinds" / "ledger.json")


MECHANISMS = (
    {"kind": "gaussian", "noise": 4},
    {"kind": "laplace", "noise": 2},
    {"kind": "dp-sgd", "records": 60000, "batch": 600, "noise": 1.1, "epochs": 2},
    {"kind": "repeated", "times": 3, "mechanism": {"kind": "laplace", "noise": 9}},
    {"kind": "composed", "parts": [{"kind": "gaussian", "noise": 5}, {"kind": "laplace", "noise": 5.5}]},
    None,
)


def ledger_of_each_kind(path: Path) -> None:
    """A ledger with an entry of each mechanism, the last without privacy."""
    for number, described in enumerate(MECHANISMS):
        spent = None if described is None else mechanism.from_mapping(described)
        ledger.spend(path, table="patients", label=f"release {number}", mechanism=spent)


# -- the program -------------------------------------------------------------------------------------------------------

# In the order in which they are made: a kind reads only kinds above it.
KINDS: Mapping[str, Callable[[Path], None]] = {
    "evidence": evidence,
    "stores": stores,
    "ledgers": ledgers,
    "bundles": bundles,
    "coins": coins,
    "probes": probes,
    "findings": findings,
}
# A kind that is made from one that is made again has to be made again as well: bundles and releases have new digests.
READ_BY = {"bundles": ("findings",)}


def remake(asked: list[str], into: Path | None) -> None:
    """Make kinds again in a copy of the frozen files, and put it in their place or into a new folder."""
    wanted = {*asked, *(reader for kind in asked for reader in READ_BY.get(kind, ()))} if asked else {*KINDS}
    before = json.loads((FILES / "versions.json").read_text(encoding="utf-8"))
    if wanted < {*KINDS} and before != versions():
        raise SystemExit(f"the other kinds were made with {before}, and this is {versions()}; make all kinds")
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        shutil.copytree(FILES, files)
        for kind in (kind for kind in KINDS if kind in wanted):
            begun = time.process_time()
            KINDS[kind](files)
            print(f"{kind}: {time.process_time() - begun:.0f} CPU seconds", flush=True)
        _write(files / "versions.json", versions())
        if into is None:
            shutil.rmtree(FILES)
        shutil.copytree(files, FILES if into is None else into)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one of: {', '.join(KINDS)}; all where none is named")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="a new folder, in place of tests/frozen/files")
    options = parser.parse_args()
    if unknown := {*options.kinds} - {*KINDS}:
        parser.error(f"no kind of frozen files: {', '.join(sorted(unknown))}")
    remake(options.kinds, options.into)
