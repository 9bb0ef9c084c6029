"""Files of every kind that miaudit writes, kept as they were on the day that this was run: ``files/`` beside it.

``python tests/frozen/make.py`` from the root of the checkout makes them all again; ``python tests/frozen/make.py pages
help`` only some. What is in ``files/`` is a promise to those who hold such files: it is made again only where a change
of the format is meant and named in CHANGELOG.md.

Everything is made by the command line in a folder that holds a copy of ``files/inputs`` (drawn here, :func:`inputs`),
with relative names, so that findings hold no path of a machine. Some files have parts that no seed gives again (salts
and keys of a bundle, the noise of a private release, when a release was entered): they are read, verified and
continued, never made again and compared.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import vl_convert

import miaudit as ma

# What is no public name. Where it moves, it is named anew here and nowhere else.
from miaudit.collect import runs
from miaudit.command import program
from miaudit.dp import mechanism
from miaudit.synthesis.generators import ledger
from miaudit.synthesis.retraining_attack import sets

FILES = Path(__file__).parent / "files"
INPUTS = FILES / "inputs"
WIDTH = "100"  # of the terminal, for the text of --help
LARGE = 20_000  # characters of a script or style in a page, from which on its digest is kept in its place

TABLE = ("audit", "t.npz", "--score", "score", "--member", "member")
ONE_RUN = (*TABLE, "--design", "one-run", "--primary", "auc")
OBSERVED = ("audit", "zero.npz", "--score", "score", "--member", "member", "--design", "zero-run", "--covariates")
ZERO_RUN = (*OBSERVED[:-1], "--propensity-model", "line", "--estimator", "hajek", "--covariates")
TEXT = ("audit", "text.csv", *ZERO_RUN[2:-1], "--text", "text", "--components", "3", "--no-bounds")
SYNTHETIC = ("audit", "--synthetic", "made.csv", "--members", "members.csv", "--nonmembers", "others.csv")

# Each is run with --json; what it prints is files/findings/NAME.json, and its page and figures are drawn from that.
FINDINGS: dict[str, tuple[str, ...]] = {
    "one-run": (*ONE_RUN, "--delta", "1e-6", "--threshold", "0.55"),
    "multi-run": (*TABLE, "--design", "multi-run", "--primary", "auc", "--claim-epsilon", "0.5"),
    "zero-run": (*ZERO_RUN, "x0,x1", "--primary", "auc", "--claim-mu", "0.2", "--guesses", "60"),
    "zero-run-aipw": (*OBSERVED, "x0,site", "--categories", "site", "--propensity-model", "line", "--no-bounds"),
    "zero-run-stack": (*OBSERVED, "x0,site", "--categories", "site", "--primary", "auc", "--guesses", "60"),
    "zero-run-composition": (*ZERO_RUN, "x0", "--correction", "composition", "--margin", "0.2", "--delta", "1e-4"),
    "zero-run-conditional": (*ZERO_RUN, "x0", "--correction", "conditional", "--guesses", "60"),
    "zero-run-text": TEXT,
    "refused": (*ZERO_RUN, "apart"),
    "raw-only": (*ZERO_RUN, "apart", "--raw-only"),
    "undeclared": TABLE,
    "groups": (*ONE_RUN, "--unit", "person", "--group", "site", "--show-rows", "2", "--no-bounds"),
    "several": (*TABLE[:3], "score,other", *TABLE[4:], "--design", "one-run", "--headline", "split", "--fpr", "0.1"),
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
    "table": (*SYNTHETIC, "--schema", "schema.yaml", "--design", "one-run", "--primary", "auc"),
    "table-units": (*SYNTHETIC, "--design", "one-run", "--unit", "house", "--secret", "job", "--no-bounds"),
    "table-undeclared": (*SYNTHETIC, "--secret", "job", "--known", "age,town", "--no-bounds"),
    "disclosure": ("disclosure", "disclosure.yaml"),
    "synthesis": ("synthesise", "plain.yaml"),
    "verification": ("verify", "one-run.zip"),
    "verification-sealed": ("verify", "sealed.zip"),
    "verification-failed": ("verify", "changed.zip"),
    "verification-hashes": ("verify", "hashes.zip"),
    "challenge": ("challenge", "one-run.zip", "--scores", "strong.npy"),
    "challenge-propensity": ("challenge", "zero-run.zip", "--propensity", "propensity.npy"),
    "challenge-undecided": ("challenge", "sealed.zip", "--scores", "strong.npy"),
    "comparison": ("compare", "one-run.zip", "later.zip"),
    "comparison-findings": ("compare", "groups/findings.json", "undeclared/findings.json"),
    "history": ("history", "one-run.zip", "later.zip", "one-run.zip"),
}
BUNDLES: dict[str, tuple[str, ...]] = {
    "one-run": (*ONE_RUN, "--threshold", "0.55"),
    "multi-run": (*TABLE, "--design", "multi-run", "--no-bounds", "--group", "site", "--unit", "person"),
    "zero-run": (*ZERO_RUN, "x0,x1", "--primary", "auc", "--claim-mu", "0.2", "--guesses", "60"),
    "zero-run-stack": (*OBSERVED, "x0,site", "--categories", "site", "--primary", "auc", "--guesses", "60"),
    "zero-run-text": TEXT,
    "refused": (*ZERO_RUN, "apart"),
    "several": (*TABLE[:3], "score,other", *TABLE[4:], "--design", "one-run", "--headline", "split"),
    "scores": (*ONE_RUN, "--no-bounds", "--unit", "person", "--share", "scores"),
    "hashes": (*ONE_RUN, "--no-bounds", "--share", "hashes"),
    "sealed": (*ONE_RUN, "--no-bounds", "--seal"),
    "later": (*TABLE[:1], "later.npz", *TABLE[2:], "--design", "one-run", "--primary", "auc", "--no-bounds"),
    "campaign": ("run", "tree.yaml"),
}
# Of these the page is kept beside its digest, so that a difference can be named.
PAGES_IN_WORDS = (
    *("one-run", "zero-run", "refused", "groups", "several", "table", "disclosure", "synthesis-private"),
    *("verification-failed", "challenge", "challenge-propensity", "comparison", "history"),
)
# How each verifies, beside the sealed ones: exit code of `miaudit verify`.
VERIFIES = {**dict.fromkeys(BUNDLES, 0), "hashes": 4, "sealed": 4, "changed": 3}
# Campaigns that collect evidence: the store and the evidence are kept.
CAMPAIGNS = ("tree", "network", "own-network", "regression", "many-runs", "as-it-is", "weights", "logprobs")
DRY_RUNS: dict[str, tuple[str, ...]] = {
    **{f"run-{name}": ("run", f"{name}.yaml", "--dry-run") for name in (*CAMPAIGNS, "language")},
    "collect-tree": ("collect", "tree.yaml", "--dry-run"),
    "disclosure": ("disclosure", "disclosure.yaml", "--dry-run"),
    "disclosure-network": ("disclosure", "disclosure-network.yaml", "--dry-run"),
    "synthesise-private": ("synthesise", "private.yaml", "--dry-run"),
    "synthesise-plain": ("synthesise", "plain.yaml", "--dry-run"),
    "plan": ("plan", "--members", "1000", "--nonmembers", "1000", "--tpr", "0.05", "--claim-mu", "0.5"),
    "plan-json": ("plan", "--members", "1000", "--nonmembers", "1000", "--json"),
    "demo-unknown": ("run", "unknown-key.yaml"),
    "target-unknown": ("run", "unknown-target-key.yaml", "--dry-run"),
    "disclosure-unknown": ("disclosure", "unknown-key.yaml", "--dry-run"),
    "synthesise-unknown": ("synthesise", "unknown-key.yaml", "--dry-run"),
}


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
    """Be in a new folder that holds a copy of each of these folders' contents."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
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


def processor() -> str:
    """What vectorised loops and the linear algebra of numpy and scipy run on: last digits depend on it."""
    from numpy._core._multiarray_umath import __cpu_features__ as features
    from threadpoolctl import threadpool_info

    loops = next((kind for kind in ("AVX512_SKX", "AVX2", "NEON") if features.get(kind)), "plain")
    kernels = sorted({one["architecture"] for one in threadpool_info() if one["internal_api"] == "openblas"})
    return " ".join([loops, *kernels])


def slim(page: str) -> str:
    """A page with the digest of each large script and style in its place."""

    def digested(found: re.Match[str]) -> str:
        inner = found[2]
        if len(inner) < LARGE:
            return found[0]
        return f"{found[1]}{len(inner)} characters, SHA-256 {hashlib.sha256(inner.encode()).hexdigest()}{found[3]}"

    return re.sub(r"(<(?:script|style)\b[^>]*>)(.*?)(</(?:script|style)>)", digested, page, flags=re.DOTALL)


# -- what is made ------------------------------------------------------------------------------------------------------


def inputs() -> None:
    """Draw the tables, and write the configurations, that everything else starts from."""
    shutil.rmtree(INPUTS, ignore_errors=True)
    INPUTS.mkdir(parents=True)
    rng = np.random.default_rng(2026)
    _scores(rng)
    _zero_run(rng)
    _outputs(rng)
    _records(rng)
    _synthetic(rng)
    for name, text in TEXTS.items():
        (INPUTS / name).write_text(text.lstrip("\n"), encoding="utf-8")


def _scores(rng: np.random.Generator) -> None:
    n = 240
    member = np.arange(n) % 2 == 0
    noise = rng.normal(size=n)
    score = np.round(noise + 1.2 * member, 4)
    fields = {
        "member": member,
        "person": np.arange(n) // 4,
        "site": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
    }
    np.savez_compressed(INPUTS / "t.npz", score=score, other=np.round(rng.normal(size=n) + 0.5 * member, 4), **fields)
    np.savez_compressed(INPUTS / "later.npz", score=np.round(noise + 2.4 * member, 4), **fields)
    np.save(INPUTS / "strong.npy", np.round(noise + 3.0 * member, 4))
    np.save(INPUTS / "m.npy", np.round(rng.exponential(0.2, 120), 5))
    np.save(INPUTS / "n.npy", np.round(rng.exponential(0.6, 120), 5))


def _zero_run(rng: np.random.Generator) -> None:
    n = 300
    member = np.arange(n) < n // 2
    x = np.round(rng.normal(size=(n, 2)) + 0.2 * member[:, None], 3)
    score = np.round(rng.normal(size=n) + 1.5 * member + 0.3 * x[:, 0], 4)
    site = rng.integers(0, 3, n)
    apart = np.round(rng.normal(size=n) + 8.0 * member, 3)
    np.savez_compressed(INPUTS / "zero.npz", score=score, member=member, x0=x[:, 0], x1=x[:, 1], site=site, apart=apart)
    np.save(INPUTS / "propensity.npy", np.full(n, 0.5))
    said = "the patient was seen again after rain while nobody spoke of winter or of debt"
    words = np.array(said.split(" "))
    texts = [" ".join(rng.choice(words, 6)) for _ in range(n)]
    rows = [f"{score[i]},{int(member[i])},{texts[i]}" for i in range(n)]
    (INPUTS / "text.csv").write_text("\n".join(["score,member,text", *rows]) + "\n", encoding="utf-8")


def _outputs(rng: np.random.Generator) -> None:
    n = 200
    member, label = np.arange(n) % 2 == 0, rng.integers(0, 3, n)
    logits = np.round(rng.normal(size=(n, 3)) + (0.5 + 1.5 * member)[:, None] * np.eye(3)[label], 3)
    np.savez_compressed(INPUTS / "logits.npz", logits=logits, label=label, member=member)
    lines = []
    for row in range(120):
        values = [round(float(value), 3) for value in -rng.exponential(1.0 if row % 2 else 0.5, 6)]
        lines.append(json.dumps({"id": row, "member": row % 2 == 0, "logprobs": values, "text": f"text of row {row}"}))
    (INPUTS / "tokens.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _records(rng: np.random.Generator) -> None:
    n = 160
    y = rng.integers(0, 2, n)
    x = np.round(rng.normal(size=(n, 4)) + 0.5 * y[:, None], 3)
    member = np.arange(n) % 2 == 0
    fields = {"site": np.arange(n) % 3, "person": np.arange(n) // 2, "amount": np.round(x @ [1.0, 2, 0, 0], 3)}
    outputs = np.round(rng.normal(size=(n, 2)) + (0.2 + member)[:, None] * np.eye(2)[y], 3)
    np.savez_compressed(INPUTS / "records.npz", x=x.astype(np.float32), y=y, member=member, **fields)
    np.save(INPUTS / "outputs.npy", outputs)
    weights = {"0.weight": rng.normal(size=(2, 4)), "0.bias": np.zeros(2)}
    from safetensors.numpy import save_file

    save_file({name: value.astype(np.float32) for name, value in weights.items()}, INPUTS / "linear.safetensors")
    lines = [json.dumps({"text": f"{i} came to the {'river' if i % 3 else 'hill'}", "id": i // 2}) for i in range(60)]
    (INPUTS / "sentences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _synthetic(rng: np.random.Generator) -> None:
    def draw(n: int, first: int) -> list[str]:
        age, job, town = rng.normal(50, 12, n), rng.choice(["a", "b", "c"], n), rng.choice(["inland", "coast"], n)
        return [f"{age[i]:.1f},{job[i]},{town[i]},{(first + i) // 2}" for i in range(n)]

    members, others = draw(120, 0), draw(120, 120)
    made = draw(90, 0) + members[:30]
    for name, rows in (("members", members), ("others", others), ("made", made)):
        columns = "age,job,town" + ",house" * (name != "made")
        kept = rows if name != "made" else [row.rpartition(",")[0] for row in rows]
        (INPUTS / f"{name}.csv").write_text("\n".join([columns, *kept]) + "\n", encoding="utf-8")
    private = [row.rpartition(",")[0] for row in members]
    (INPUTS / "private.csv").write_text("\n".join(["age,job,town", *private]) + "\n", encoding="utf-8")


_DATA = "data: {path: records.npz, x: x, y: y, group: site, unit: person}\n"
_COLUMNS = """
columns:
  - {name: age, kind: continuous, low: 0, high: 110, decimals: 1}
  - {name: job, kind: categorical, categories: [a, b, c]}
  - {name: town, kind: binary, categories: [coast, inland]}
"""
_NETWORK = "training: {optimiser: adam, learning_rate: 0.01, epochs: 3, batch: 20}"
TEXTS = {
    "mechanism.yaml": "kind: dp-sgd\nrecords: 60000\nbatch: 600\nnoise: 1.1\nepochs: 10\n",
    "net.py": '''
"""A factory of one's own."""

from __future__ import annotations

from torch import nn


class Small(nn.Module):
    """Two layers."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        return self.layers(x)


def build(hidden: int = 8) -> nn.Module:
    return Small(hidden)


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 2))
''',
    "files.yaml": """
attack: {type: gaussian_lira, fpr_targets: [0.1], n_bootstrap: 100}
evaluation: {member_losses_path: m.npy, nonmember_losses_path: n.npy, output_dir: out, design: one-run, seed: 3}
reporting: {primary_metric: auc, threshold_for_concern: 0.6, levels: [0.1, 0.2, 0.3], prior: 0.1, row_level: 2}
privacy: {claim: {epsilon: 8, delta: 1.0e-5}, guesses: bonferroni}
""",
    "table.yaml": """
attack: {fpr_targets: [0.1]}
evaluation:
  table_path: zero.npz
  score: score
  member: member
  covariates: [x0, site]
  categories: [site]
  design: zero-run
  output_dir: out
privacy: {claim: {mu: 0.5}, mechanism: {kind: gaussian, noise: 4}}
""",
    "tree.yaml": f"""
target: {{kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier", options: {{max_depth: 4}}}}
{_DATA}
shadow: {{models: 16, store: store, seconds_per_fit: 0.1, population: 40, vulnerability: true}}
attack: {{type: [lira_online, rmia_online, loss], fpr_targets: [0.1], headline: lira_online}}
evaluation: {{output_dir: out, seed: 4}}
""",
    "regression.yaml": """
target: {kind: sklearn, estimator: "sklearn.linear_model:Ridge", options: {alpha: 0.5}}
data: {path: records.npz, x: x, y: amount}
shadow: {models: 4, store: store, seconds_per_fit: 0.1}
evaluation: {output_dir: out}
""",
    "network.yaml": f"""
target:
  kind: torch
  factory: miaudit.models.nets:mlp
  options: {{inputs: 4, classes: 2, hidden: [8]}}
  {_NETWORK}
{_DATA}
shadow: {{models: 4, store: store, seconds_per_fit: 0.1, at_once: 2}}
attack: {{type: [lira_offline, loss]}}
evaluation: {{output_dir: out, seed: 5}}
""",
    "own-network.yaml": f"""
target:
  kind: torch
  factory: net:build
  options: {{hidden: 6}}
  training: {{learning_rate: 0.05, epochs: 2, batch: 20, label_smoothing: 0.1, early_stopping: {{share: 0.2}}}}
{_DATA}
shadow: {{models: 4, store: store, seconds_per_fit: 0.1}}
attack: {{type: [lira_online]}}
evaluation: {{output_dir: out, seed: 6}}
""",
    "many-runs.yaml": """
target: {kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier", options: {max_depth: 3}}
data: {path: records.npz, x: x, y: y, records: 40}
shadow: {store: store, seconds_per_fit: 0.1}
attack: {type: [logit_confidence, loss]}
evaluation: {design: multi-run, output_dir: out}
""",
    "as-it-is.yaml": """
target: {kind: outputs, outputs_path: outputs.npy, name: a model}
data: {path: records.npz, y: y, member: member, covariates: x}
attack: {type: [margin, loss], fpr_targets: [0.1]}
evaluation: {design: zero-run, output_dir: out}
""",
    "weights.yaml": """
target: {kind: torch-weights, factory: "net:linear", weights: linear.safetensors}
data: {path: records.npz, x: x, y: y, member: member}
attack: {type: [entropy]}
evaluation: {output_dir: out}
""",
    "logprobs.yaml": """
target: {kind: token-logprobs}
data: {path: tokens.jsonl}
attack: {type: [min_k, loss, zlib_ratio]}
evaluation: {design: one-run, output_dir: out}
""",
    "language.yaml": """
target:
  kind: language-model
  small_gpt2: {layers: 1, width: 16, heads: 2, epochs: 1, vocabulary: 300}
data: {path: sentences.jsonl, text: text, unit: id}
shadow: {seconds_per_fit: 1}
attack: {type: [loss, min_k]}
evaluation: {output_dir: out}
""",
    "disclosure.yaml": """
target: {kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier", options: {max_depth: 6}}
data: {path: records.npz, x: x, y: y}
shadow: {models: 8, seconds_per_fit: 0.1, store: store}
disclosure:
  release: as-it-is
  defences: [temperature, {conformal: {coverage: 0.9}}, {rounding: {digits: 1}}, label]
  trainings: {stump: {options: {max_depth: 1}}}
attack: {fpr_targets: [0.1]}
evaluation: {output_dir: out, seed: 1}
""",
    "disclosure-network.yaml": f"""
target:
  kind: torch
  factory: miaudit.models.nets:mlp
  options: {{inputs: 4, classes: 2, hidden: [8]}}
  {_NETWORK}
data: {{path: records.npz, x: x, y: y}}
shadow: {{models: 4, seconds_per_fit: 0.1, store: store, at_once: 2}}
disclosure:
  release: label
  defences: [label]
  trainings:
    weight decay: {{training: {{weight_decay: 0.1}}}}
    dropout: {{options: {{dropout: 0.5}}}}
    pruning: {{training: {{pruning: {{sparsity: 0.8}}}}}}
    DP-SGD: {{training: {{private: {{noise: 1.0, clip: 1.0, delta: 1.0e-5, records: 80}}}}}}
    ensemble: {{ensemble: {{models: 2, parts: disjoint}}}}
attack: {{fpr_targets: [0.1]}}
evaluation: {{output_dir: out}}
""",
    "schema.yaml": _COLUMNS,
    "graph.yaml": _COLUMNS
    + """
groups: {who: [age, town], work: [job]}
edges:
  - [who, work]
""",
    "plain.yaml": """
data: {file: private.csv}
graph: graph.yaml
privacy: none
generator: {kind: causal, epochs: 3, batch: 30, learning_rate: 0.01}
public: others.csv
fidelity: none
output_dir: out
""",
    "private.yaml": """
data: {file: private.csv}
graph: graph.yaml
privacy: {epsilon: 4, records: 120, clip: 2.0}
generator: {kind: causal, epochs: 3, batch: 30, learning_rate: 0.01}
ledger: {file: ledger.json, table: patients, label: first, epsilon: 9, delta: 0.001}
output_dir: out-first
""",
    "second.yaml": """
data: {file: private.csv}
graph: graph.yaml
privacy: {epsilon: 4, records: 120, clip: 2.0}
generator: {kind: plain, epochs: 2, batch: 20, learning_rate: 0.01}
ledger: {file: ledger.json, table: patients, label: second, epsilon: 9, delta: 0.001}
output_dir: out-second
""",
    "third.yaml": """
data: {file: private.csv}
graph: graph.yaml
privacy: {epsilon: 8, records: 120, clip: 2.0}
generator: {kind: plain, epochs: 2, batch: 20, learning_rate: 0.01}
ledger: {file: ledger.json, table: patients, label: third, epsilon: 9, delta: 0.001}
output_dir: out-third
""",
    "unknown-key.yaml": "evaluation: {member_losses_path: m.npy, nonmember_losses_path: n.npy, surprise: 1}\n",
    "unknown-target-key.yaml": f"""
target: {{kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier", factory: "net:build"}}
{_DATA}
""",
}


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def bundles() -> None:
    """A bundle of each kind, the keys of those that have some, and one that was changed by hand."""
    place = _fresh(FILES / "bundles")
    for name, command in BUNDLES.items():
        with workplace(INPUTS) as work:
            code, _, err = call(*command, "--json", "--bundle", f"{name}.zip")
            if code not in (0, 3, 4):
                raise SystemExit(f"{name}: {err}")
            for made in work.glob(f"{name}*"):
                if made.suffix == ".zip" or made.name.endswith(".key.json"):
                    shutil.copy(made, place)
    _changed(place / "one-run.zip", place / "changed.zip")


def _changed(source: Path, target: Path) -> None:
    import zipfile

    with zipfile.ZipFile(source) as held, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as made:
        for one in held.infolist():
            content = held.read(one)
            if one.filename == "findings.json":
                stated = json.loads(content)
                stated["metrics"][3]["value"] = 0.123
                content = json.dumps(stated).encode()
            made.writestr(one.filename, content)


def verified() -> None:
    """How much of each bundle is recomputed, and an opening of the sealed one."""
    with workplace(INPUTS, FILES / "bundles") as work:
        counts = {name: json.loads(call("verify", f"{name}.zip", "--json")[1])["recomputed"] for name in BUNDLES}
        code, _, err = call("unseal", "sealed.zip", "--key", "sealed.key.json")
        if code:
            raise SystemExit(f"unseal: {err}")
        shutil.copy(work / "sealed.opening.json", _fresh(FILES / "opening"))
    (FILES / "recomputed.json").write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


def findings() -> None:
    """Findings of every kind, as --json prints them."""
    place = _fresh(FILES / "findings")
    codes = {}
    for name, command in FINDINGS.items():
        codes[name], text = one_finding(command)
        keep(text, place / f"{name}.json.gz")
    (FILES / "exit_codes.json").write_text(json.dumps(codes, indent=1) + "\n", encoding="utf-8")


def one_finding(command: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and findings of one command, run beside the inputs, the bundles and the findings made before."""
    with workplace(INPUTS, FILES / "bundles") as work, quick_pictures():
        for part in command:
            name, _, file = part.partition("/")
            if file == "findings.json":
                (work / name).mkdir()
                (work / part).write_text(kept(FILES / "findings" / f"{name}.json.gz"), encoding="utf-8")
        code, out, err = call(*command, "--json")
    if code not in (0, 3, 4):
        raise SystemExit(f"{command}: {err}")
    return code, out


def page_of(findings_file: Path) -> tuple[str, list[str]]:
    """The page that `miaudit report` writes, and the names of its figures' files."""
    with workplace() as work, quick_pictures():
        (work / "findings.json").write_text(kept(findings_file), encoding="utf-8")
        code, _, err = call("report", "findings.json", "--out", "page")
        if code:
            raise SystemExit(f"{findings_file.name}: {err}")
        figures = sorted(path.name for path in (work / "page" / "figures").glob("*"))
        return (work / "page" / "report.html").read_text(encoding="utf-8"), figures


def pages() -> None:
    """The page of each findings.json: its digest, what its figures are called, and its text without large scripts."""
    place = _fresh(FILES / "pages")
    listed = {}
    for path in sorted((FILES / "findings").glob("*.json.gz")):
        page, figures = page_of(path)
        name = path.name.removesuffix(".json.gz")
        listed[name] = {"sha256": hashlib.sha256(page.encode()).hexdigest(), "figures": figures}
        if name in PAGES_IN_WORDS:
            keep(slim(page), place / f"{name}.html.gz")
    (place / "pages.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def stores() -> None:
    """Each campaign's evidence (.npz) and the store of its finished models."""
    place = _fresh(FILES / "stores")
    for name in CAMPAIGNS:
        with workplace(INPUTS) as work:
            code, _, err = call("collect", f"{name}.yaml", "--out", "evidence.npz")
            if code:
                raise SystemExit(f"{name}: {err}")
            (place / name).mkdir()
            shutil.copy(work / "evidence.npz", place / name)
            if (work / "store").is_dir():
                shutil.copytree(work / "store", place / name / "store")
    with workplace(INPUTS) as work, quick_pictures():
        call("disclosure", "disclosure.yaml", "--json")
        shutil.copytree(work / "store", place / "disclosure" / "store")
    for name, make in LIBRARY_STORES.items():
        (place / name).mkdir()
        np.savez(place / name / "result.npz", **make(place / name / "store", []))


class Resampled:
    """A generator that learned some records, and draws from them."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.values[rng.integers(0, len(self.values), n)]


def many_runs(store: Path, fits: list[int]) -> dict[str, np.ndarray]:
    """Evidence of one fit for each record, kept in a store; each fit is noted in ``fits``."""
    data = np.round(np.random.default_rng(1).normal(size=(60, 3)), 3)

    def fit(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        fits.append(len(rows))
        return np.asarray(data[rows].mean(axis=0) + rng.normal(size=3))

    def score(mean: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {"near": data[rows] @ mean, "far": -data[rows] @ mean}

    found = runs.multi_run(
        *(fit, score),
        records=np.arange(5, 35),
        base=np.arange(40, 60),
        rng=np.random.default_rng(8),
        inclusion=0.4,
        store=store,
        key="mean of the rows",
    )
    return {**{name: found.only(name).score for name in ("near", "far")}, "member": found.member}


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


LIBRARY_STORES = {"runs": many_runs, "sets": synthetic_sets}


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


def evidence() -> None:
    """Evidence of each design in each format of file."""
    place = _fresh(FILES / "evidence")
    for design in ("one-run", "multi-run", "zero-run"):
        for ending in ("npz", "parquet", "csv"):
            evidence_of(design).save(place / f"{design}.{ending}")
    simple = ma.Evidence(score=np.arange(8.0), member=np.arange(8) % 2 == 0, design="one-run")
    simple.save_pair(place / "members.npy", place / "nonmembers.npy")


def ledgers() -> None:
    """A private release with its folder, and the ledger into which it was entered, with the lock beside it."""
    place = _fresh(FILES / "ledgers")
    with workplace(INPUTS) as work:
        code, out, err = call("synthesise", "private.yaml", "--json", "--out", "out-first")
        if code:
            raise SystemExit(f"private.yaml: {err}")
        for made in work.iterdir():
            if "ledger" in made.name:
                shutil.copy(made, place)
        for made in (work / "out-first").iterdir():
            if made.is_file() and made.suffix != ".html":
                (place / "release").mkdir(exist_ok=True)
                shutil.copy(made, place / "release")
        keep(out, FILES / "findings" / "synthesis-private.json.gz")
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


def outputs() -> None:
    """What --dry-run and plan print, and what is said of configurations that are wrong."""
    place = _fresh(FILES / "printed")
    for name, command in DRY_RUNS.items():
        (place / f"{name}.txt").write_text(printed(command), encoding="utf-8")


def printed(command: tuple[str, ...]) -> str:
    """Exit code, standard output and standard error of a command that writes nothing."""
    with workplace(INPUTS) as work:
        code, out, err = call(*command)
        text = f"exit code {code}\n--- standard output\n{out}--- standard error\n{err}"
        return text.replace(str(work), "FOLDER")


def commands() -> list[str]:
    """The names of all commands, "" for the program itself."""
    return ["", *sorted(program.COMMANDS)]


def help_of(command: str) -> str:
    """The text of --help, as wide as it was kept."""
    os.environ["COLUMNS"] = WIDTH
    os.environ["TERMINAL_WIDTH"] = WIDTH
    main = sys.modules["__main__"]
    before, main.__package__ = main.__package__, None  # else the usage names the module that runs, such as pytest
    try:
        text = call(*command.split(), "--help")[1]
    finally:
        main.__package__ = before
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def help_texts() -> None:
    """The text of --help of each command."""
    place = _fresh(FILES / "help")
    for command in commands():
        (place / f"{command or 'miaudit'}.txt").write_text(help_of(command), encoding="utf-8")


PARTS: Mapping[str, Callable[[], None]] = {
    "inputs": inputs,
    "bundles": bundles,
    "verified": verified,
    "findings": findings,
    "evidence": evidence,
    "stores": stores,
    "ledgers": ledgers,
    "pages": pages,
    "printed": outputs,
    "help": help_texts,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
    (FILES / "versions.json").write_text(json.dumps(versions(), indent=1) + "\n", encoding="utf-8")
