"""The tables and configurations that every other frozen file starts from."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def write(place: Path) -> None:
    """Draw the tables and write the configurations into a folder that exists."""
    rng = np.random.default_rng(2026)
    _scores(place, rng)
    _zero_run(place, rng)
    _outputs(place, rng)
    _records(place, rng)
    _synthetic(place, rng)
    _tickets(place)
    for name, text in TEXTS.items():
        (place / name).write_text(text.lstrip("\n"), encoding="utf-8")


def _tickets(place: Path) -> None:
    """Texts with random strings, from a generator of their own."""
    bits = np.random.default_rng(2027)
    codes = [str(uuid.UUID(bytes=bits.bytes(16), version=4)) for _ in range(6)]
    lines = [{"id": f"t{i}", "text": f"Ticket {code}, key {bits.bytes(8).hex()}"} for i, code in enumerate(codes)]
    (place / "tickets.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def _scores(place: Path, rng: np.random.Generator) -> None:
    n = 240
    member = np.arange(n) % 2 == 0
    noise = rng.normal(size=n)
    score = np.round(noise + 1.2 * member, 4)
    fields = {
        "member": member,
        "person": np.arange(n) // 4,
        "site": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
    }
    np.savez_compressed(place / "t.npz", score=score, other=np.round(rng.normal(size=n) + 0.5 * member, 4), **fields)
    np.savez_compressed(place / "later.npz", score=np.round(noise + 2.4 * member, 4), **fields)
    np.save(place / "strong.npy", np.round(noise + 3.0 * member, 4))
    np.save(place / "m.npy", np.round(rng.exponential(0.2, 120), 5))
    np.save(place / "n.npy", np.round(rng.exponential(0.6, 120), 5))


def _zero_run(place: Path, rng: np.random.Generator) -> None:
    n = 300
    member = np.arange(n) < n // 2
    x = np.round(rng.normal(size=(n, 2)) + 0.2 * member[:, None], 3)
    score = np.round(rng.normal(size=n) + 1.5 * member + 0.3 * x[:, 0], 4)
    site = rng.integers(0, 3, n)
    apart = np.round(rng.normal(size=n) + 8.0 * member, 3)
    np.savez_compressed(place / "zero.npz", score=score, member=member, x0=x[:, 0], x1=x[:, 1], site=site, apart=apart)
    np.save(place / "propensity.npy", np.full(n, 0.5))
    said = "the patient was seen again after rain while nobody spoke of winter or of debt"
    words = np.array(said.split(" "))
    texts = [" ".join(rng.choice(words, 6)) for _ in range(n)]
    rows = [f"{score[i]},{int(member[i])},{texts[i]}" for i in range(n)]
    (place / "text.csv").write_text("\n".join(["score,member,text", *rows]) + "\n", encoding="utf-8")


def _outputs(place: Path, rng: np.random.Generator) -> None:
    n = 200
    member, label = np.arange(n) % 2 == 0, rng.integers(0, 3, n)
    logits = np.round(rng.normal(size=(n, 3)) + (0.5 + 1.5 * member)[:, None] * np.eye(3)[label], 3)
    np.savez_compressed(place / "logits.npz", logits=logits, label=label, member=member)
    lines = []
    for row in range(120):
        values = [round(float(value), 3) for value in -rng.exponential(1.0 if row % 2 else 0.5, 6)]
        lines.append(json.dumps({"id": row, "member": row % 2 == 0, "logprobs": values, "text": f"text of row {row}"}))
    (place / "tokens.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _records(place: Path, rng: np.random.Generator) -> None:
    n = 160
    y = rng.integers(0, 2, n)
    x = np.round(rng.normal(size=(n, 4)) + 0.5 * y[:, None], 3)
    member = np.arange(n) % 2 == 0
    fields = {"site": np.arange(n) % 3, "person": np.arange(n) // 2, "amount": np.round(x @ [1.0, 2, 0, 0], 3)}
    outputs = np.round(rng.normal(size=(n, 2)) + (0.2 + member)[:, None] * np.eye(2)[y], 3)
    np.savez_compressed(place / "records.npz", x=x.astype(np.float32), y=y, member=member, **fields)
    np.save(place / "outputs.npy", outputs)
    weights = {"0.weight": rng.normal(size=(2, 4)), "0.bias": np.zeros(2)}
    save_file({name: value.astype(np.float32) for name, value in weights.items()}, place / "linear.safetensors")
    lines = [json.dumps({"text": f"{i} came to the {'river' if i % 3 else 'hill'}", "id": i // 2}) for i in range(60)]
    (place / "sentences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _synthetic(place: Path, rng: np.random.Generator) -> None:
    def draw(n: int, first: int) -> list[str]:
        age, job, town = rng.normal(50, 12, n), rng.choice(["a", "b", "c"], n), rng.choice(["inland", "coast"], n)
        return [f"{age[i]:.1f},{job[i]},{town[i]},{(first + i) // 2}" for i in range(n)]

    members, others = draw(120, 0), draw(120, 120)
    made = draw(90, 0) + members[:30]
    for name, rows in (("members", members), ("others", others), ("made", made)):
        columns = "age,job,town" + ",house" * (name != "made")
        kept = rows if name != "made" else [row.rpartition(",")[0] for row in rows]
        (place / f"{name}.csv").write_text("\n".join([columns, *kept]) + "\n", encoding="utf-8")
    private = [row.rpartition(",")[0] for row in members]
    (place / "private.csv").write_text("\n".join(["age,job,town", *private]) + "\n", encoding="utf-8")


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
}
