"""One configuration file each for scikit-learn, PyTorch and text: from data to report, killed half-way, and wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from miaudit import Evidence
from miaudit.bundle import reading, sealing, written_plan
from miaudit.models import inclusion

Run = Callable[..., tuple[int, str, str]]
EXAMPLES = Path(__file__).parents[2] / "examples"
# As where an environment is active.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
ENVIRONMENT = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "d.npz",
        x=rng.normal(size=(120, 6)),
        y=rng.integers(0, 2, 120),
        real=rng.normal(size=120),
        who=np.arange(120) // 2,
        site=np.arange(120) % 2,
        member=np.arange(120) < 50,
        age=rng.normal(size=120),
        words=np.full(120, "a"),
    )
    return tmp_path


def write(path: Path, **sections: object) -> Path:
    path.write_text(yaml.safe_dump({name.rstrip("_"): value for name, value in sections.items()}))
    return path


def tree(**sections: object) -> dict[str, object]:
    return {
        "target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"},
        "data": {"path": "d.npz", "x": "x", "y": "y", "unit": "who", "group": "site"},
        "attack": {"fpr_targets": [0.1]},
        **sections,
    }


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The folder of examples, with the data that their script makes, in a process of its own."""
    unwanted = shutil.ignore_patterns("store*", "results", "*.npz", "*.jsonl", "*.pt")
    found = Path(shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=unwanted))
    make = [sys.executable, str(found / "make_data.py")]
    subprocess.run(make, check=True, capture_output=True, env=ENVIRONMENT)
    return found


def report_of(config: Path, **changes: dict[str, object]) -> tuple[dict[str, object], str]:
    """Run a configuration, made smaller, in a process of its own; return its findings and what it printed."""
    smaller = yaml.safe_load(config.read_text())
    for section, keys in changes.items():
        smaller[section] |= keys
    config.write_text(yaml.safe_dump(smaller))
    command = [sys.executable, "-m", "miaudit", "run", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False, cwd=config.parents[1])
    assert done.returncode in (0, 3, 4), done.stderr
    results = config.parent / smaller["evaluation"]["output_dir"]
    assert (results / "report.html").stat().st_size > 100_000
    findings = json.loads((results / "findings.json").read_text())
    assert findings["design"] == "one-run"
    return findings, done.stderr


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", ["sklearn", "pytorch", "text"])
def test_an_example_goes_from_data_to_report(name: str, examples: Path) -> None:
    """As a new user would: the script that makes the data, then the command; each in a process of its own."""
    for module in {"pytorch": ["torch"], "text": ["torch", "transformers"]}.get(name, []):
        pytest.importorskip(module)
    fewer: dict[str, dict[str, object]] = {"shadow": {"models": 4}}
    if name == "text":
        size = yaml.safe_load((examples / "text" / "audit.yaml").read_text())["target"]["small_gpt2"]
        fewer = {"target": {"small_gpt2": {**size, "epochs": 2}}}
    findings, said = report_of(examples / name / "audit.yaml", **fewer)
    assert ("runs code that came with the model" in said) is (name == "pytorch")
    expected = {"sklearn": "lira_online", "pytorch": "loss", "text": "min_k"}[name]
    assert expected in {score["score"] for score in findings["scores"]}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("frame/pipeline", "pandas"), ("frame/regression", "pandas"), ("frame/xgboost", "xgboost"),
        ("frame/lightgbm", "lightgbm"), ("frame/catboost", "catboost"), ("command/audit", "sklearn"),
        ("huggingface/audit", "transformers datasets accelerate"),
        ("huggingface/adapter", "transformers datasets accelerate peft"),
        ("checkpoint/audit", "torch"), ("keras/audit", "keras"), ("opacus/audit", "opacus dp_accounting"),
        ("visits/labels", "sklearn"), ("visits/labels_torch", "torch"), ("visits/regression", "torch"),
        ("own/audit", "sklearn"),
    ],
)  # fmt: skip
def test_a_model_of_another_library_goes_from_data_to_report(name: str, needs: str, examples: Path) -> None:
    for module in needs.split():
        if importlib.util.find_spec(module) is None:  # not imported here: these run in processes of their own
            pytest.skip(f"{module} is not installed")
    config = examples / f"{name}.yaml"
    if name.startswith("checkpoint"):
        train = [sys.executable, "train.py"]
        subprocess.run(train, check=True, capture_output=True, env=ENVIRONMENT, cwd=config.parent)
    changes: dict[str, dict[str, object]] = {} if name.startswith("checkpoint") else {"shadow": {"models": 4}}
    findings, _ = report_of(config, **changes)
    assert findings["counts"]["members"] + findings["counts"]["nonmembers"] in (300, 400, 800, 1797)
    if name.startswith("opacus"):
        assert findings["claim"]["status"] == "not-refuted"


@pytest.mark.thorough
@pytest.mark.long
def test_a_fitted_keras_model_is_audited_in_one_call(examples: Path) -> None:
    if importlib.util.find_spec("keras") is None:
        pytest.skip("keras is not installed")
    script = [sys.executable, "fitted.py"]
    said = subprocess.run(
        script, check=True, capture_output=True, text=True, env=ENVIRONMENT, cwd=examples / "keras"
    ).stdout
    assert "884 members, 913 non-members (records); design: one-run; score: loss" in said
    assert (examples / "keras" / "results" / "report.html").stat().st_size > 100_000


@pytest.mark.thorough
@pytest.mark.long
def test_collect_writes_the_evidence_that_run_audits(place: Path, run: Run) -> None:
    config = write(place / "c.yaml", **tree(shadow={"models": 4}))
    code, out, err = run("collect", config, "--out", "e.npz")
    assert code == 0, err
    assert "4 shadow models" in out
    evidence = Evidence.load(place / "e.npz")
    assert evidence.design == "one-run"
    assert list(evidence.scores) == ["lira_online", "loss"]
    assert evidence.unit is not None
    assert evidence.group is not None
    assert run("collect", config, "--out", "e.npz")[0] == 1  # never over another without --overwrite
    assert run("collect", config, "--out", "e.npz", "--overwrite")[0] == 0
    assert Evidence.load(place / "e.npz").digest == evidence.digest
    assert run("run", config, "--out", "r")[0] in (0, 3, 4)
    findings = json.loads((place / "r" / "findings.json").read_text())
    assert {one["score"] for one in findings["scores"]} == {"lira_online", "loss"}
    code, out, _ = run("audit", "e.npz", "--json", "--fpr-targets", "0.1")
    assert code in (0, 3, 4)
    assert json.loads(out)["evidence"]["digest"] == findings["evidence"]["digest"] == evidence.digest


@pytest.mark.thorough
@pytest.mark.long
def test_the_seed_in_a_sealed_bundle_draws_no_sealed_label(place: Path, run: Run) -> None:
    """An attacker draws the memberships again from the generator in the bundle; the order of the records is granted."""
    config = write(place / "c.yaml", **tree(data={"path": "d.npz", "x": "x", "y": "y"}))
    code, _, err = run("run", config, "--out", "r", "--bundle", "b.zip", "--seal")
    assert code in (0, 3, 4), err
    keys = sealing.SealKeys.read(place / "b.key.json")
    began = written_plan.generator_at({**reading.read(place / "b.zip").random, "children": 0})
    for coins in (began, *began.spawn(4)):
        guessed = inclusion.coins(120, rng=coins)[keys.order[keys.rows]]
        assert (guessed == keys.labels).mean() < 0.85, "the sealed labels follow from a published seed"


def test_zero_run_takes_members_and_covariates_from_the_data(place: Path, run: Run) -> None:
    data = {"path": "d.npz", "x": "x", "y": "y", "member": "member", "covariates": ["age"]}
    config = write(place / "c.yaml", **tree(data=data, evaluation={"design": "zero-run"}))
    assert run("collect", config, "--out", "e.parquet")[0] == 0
    evidence = Evidence.load(place / "e.parquet")
    assert evidence.design == "zero-run"
    assert evidence.covariate_names == ("age",)
    assert evidence.n_members == 50


@pytest.mark.thorough
@pytest.mark.long
def test_a_campaign_makes_its_own_reference(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    member = rng.random(500) < 0.5
    x, age = rng.normal(size=(500, 6)), rng.normal(size=500) + 0.4 * member
    np.savez(place / "d.npz", x=x, y=rng.integers(0, 2, 500), member=member, age=age)
    sections = tree(
        data={"path": "d.npz", "x": "x", "y": "y", "member": "member", "covariates": ["age"]},
        evaluation={"design": "zero-run", "output_dir": "out"},
        shadow={"models": 4},
        reference={"score": "shadow_models"},
        attack={"type": ["loss"]},
        reporting={"primary_metric": "auc"},
        privacy={"bounds": False},
    )
    code, out, err = run("run", write(place / "c.yaml", **sections), "--json")
    findings = json.loads(out)
    assert code == 3, findings["verdict"]["text"]
    assert (findings["reference"]["test"], findings["reference"]["refuted"]) == ("shadow_models", False)
    assert "did not learn the record" in (place / "out" / "report.html").read_text(encoding="utf-8")
    wrong = write(place / "c.yaml", **{**sections, "reference": {"score": "older"}})
    code, _, err = run("run", wrong, "--overwrite")
    assert code == 1 and "expected shadow_models or none" in err


def test_saved_weights_and_outputs_are_asked_not_trained(place: Path, run: Run) -> None:
    torch = pytest.importorskip("torch")
    weights = pytest.importorskip("miaudit.models.weights")
    nets = pytest.importorskip("miaudit.models.nets")
    torch.manual_seed(0)
    weights.save(nets.mlp(6, 2, (4,))().state_dict(), place / "w.safetensors")
    named = {"factory": "miaudit.models.nets:mlp", "options": {"inputs": 6, "classes": 2, "hidden": [4]}}
    data = {"path": "d.npz", "x": "x", "y": "y", "member": "member"}
    target = {"kind": "torch-weights", "weights": "w.safetensors", **named}
    config = write(place / "c.yaml", target=target, data=data, evaluation={"design": "zero-run"})
    assert run("run", config, "--dry-run")[1].splitlines()[1].startswith("0 fits")
    assert run("collect", config, "--out", "w.npz")[0] == 0
    net = nets.mlp(6, 2, (4,))()
    net.load_state_dict(weights.load(place / "w.safetensors"))
    x = np.load(place / "d.npz")["x"]
    np.save(place / "logits.npy", net(torch.from_numpy(x).float()).detach().numpy())
    there = {"kind": "outputs", "outputs_path": "logits.npy"}
    known = {"path": "d.npz", "y": "y", "member": "member"}
    write(place / "o.yaml", target=there, data=known, evaluation={"design": "zero-run"})
    assert run("collect", place / "o.yaml", "--out", "o.npz")[0] == 0
    found = [Evidence.load(place / name) for name in ("w.npz", "o.npz")]
    np.testing.assert_allclose(found[0].score, found[1].score, rtol=1e-5)


LINES = [
    {"id": i, "member": i % 2 == 0, "logprobs": [-0.1 * (i % 7) - (i % 2), -1.0, -0.5], "text": f"text {i}"}
    for i in range(80)
]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("by", ["option", "file"])
def test_token_log_probabilities_need_no_model(by: str, place: Path, run: Run) -> None:
    (place / "t.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    if by == "option":
        arguments = ["audit", "t.jsonl", "--signal", "token-logprobs", "--attack", "min-k,loss", "--design", "one-run"]
        arguments += ["--fpr-targets", "0.1", "--out", "r"]
    else:
        sections = {"attack": {"type": ["min_k", "loss"], "fpr_targets": [0.1]}, "evaluation": {"design": "one-run"}}
        config = write(place / "c.yaml", target={"kind": "token-logprobs"}, data={"path": "t.jsonl"}, **sections)
        arguments = ["run", str(config), "--out", "r"]
    code, _, err = run(*arguments)
    assert code in (0, 3, 4), err
    findings = json.loads((place / "r" / "findings.json").read_text())
    assert {score["score"] for score in findings["scores"]} == {"min_k", "loss"}


SLOW = """
import time
from pathlib import Path
from sklearn.naive_bayes import GaussianNB

class SlowBayes(GaussianNB):
    def fit(self, x, y):
        with Path(__file__).with_name("fits.log").open("a") as log:
            log.write("fit\\n")
        time.sleep(0.25)
        return super().fit(x, y)
"""


@pytest.mark.thorough
@pytest.mark.long
def test_killed_half_way_the_same_command_resumes(place: Path, run: Run) -> None:
    (place / "slow_bayes.py").write_text(SLOW)
    target = {"kind": "sklearn", "estimator": "slow_bayes:SlowBayes"}
    config = write(place / "c.yaml", **tree(target=target, shadow={"models": 8, "store": "store"}))
    command = [sys.executable, "-m", "miaudit", "collect", str(config), "--out"]
    process = subprocess.Popen([*command, "e.npz"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(list((place / "store").glob("model-*.npy"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = len(list((place / "store").glob("model-*.npy")))
    assert 3 <= finished < 9
    assert not (place / "e.npz").exists()
    (place / "fits.log").unlink()
    again = subprocess.run([*command, "e.npz"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "runs code that came with the model: slow_bayes:SlowBayes" in again.stderr
    assert len((place / "fits.log").read_text().splitlines()) == 9 - finished
    shutil.rmtree(place / "store")
    assert run("collect", config, "--out", "f.npz")[0] == 0
    assert Evidence.load(place / "e.npz").digest == Evidence.load(place / "f.npz").digest


def test_a_dry_run_writes_nothing_and_names_code(place: Path, run: Run) -> None:
    (place / "timed_bayes.py").write_text(SLOW.replace("0.25", "0"))
    target = {"kind": "sklearn", "estimator": "timed_bayes:SlowBayes"}
    config = write(place / "c.yaml", **tree(target=target, shadow={"models": 4, "store": "store"}))
    for command in ("run", "collect"):
        code, out, err = run(command, config, "--dry-run")
        assert code == 0, err
        assert out.splitlines()[1].startswith("5 fits, ")
        assert "one fit was timed" in out
        assert "runs code that came with the model: timed_bayes:SlowBayes" in out
        assert "runs code that came with the model: timed_bayes:SlowBayes" in err  # said before it runs
    assert not any((place / name).exists() for name in ("store", "results", "evidence.npz"))


def test_a_column_that_may_be_the_unit_is_named(place: Path, run: Run) -> None:
    rows = "".join(f"{i / 7},{i % 2},p{i // 2}\n" for i in range(60))
    (place / "d.csv").write_text(f"age,ill,person_id\n{rows}")
    data = {"path": "d.csv", "x": ["age"], "y": "ill"}
    for unit, notes in (({}, 1), ({"unit": "person_id"}, 0), ({"group": "person_id"}, 0)):
        code, _, err = run("run", write(place / "c.yaml", **tree(data=data | unit)), "--dry-run")
        assert code == 0, err
        assert err.count("note: person_id repeats") == notes


def test_a_stated_rate_is_not_timed(place: Path, run: Run) -> None:
    shadow = {"models": 100, "workers": 2, "seconds_per_fit": 72}
    code, out, _ = run("collect", write(place / "c.yaml", **tree(shadow=shadow)), "--dry-run")
    assert code == 0
    assert "101 fits, 61 minutes" in out
    assert "stated 72 seconds a fit" in out
    assert "no shadow.store" in out
    assert not (place / "evidence.npz").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_without_torch_scikit_learn_works_and_the_extra_is_named(place: Path) -> None:
    write(place / "s.yaml", **tree(shadow={"models": 4}))
    named = {"kind": "torch", "factory": "miaudit.models.nets:mlp", "options": {"inputs": 6, "classes": 2}}
    write(place / "t.yaml", **tree(target=named))
    write(place / "g.yaml", **tree(target={"kind": "language-model", "small_gpt2": {}}))
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers'):\n"
        "            raise ModuleNotFoundError(f'No module named {name}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from miaudit.command.program import main; main()"
    )
    results = [
        subprocess.run(
            [sys.executable, "-c", code, "collect", name, "--overwrite"],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
        for name in ("s.yaml", "t.yaml", "g.yaml")
    ]
    assert results[0].returncode == 0, results[0].stderr
    for result, extra in ((results[1], "torch"), (results[2], "text")):
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert re.search(rf"pip install '[^']*\[{extra}\]'", result.stderr), result.stderr


MLP = {"kind": "torch", "factory": "miaudit.models.nets:mlp", "options": {"inputs": 6, "classes": 2}}
# Sections that are wrong, and a word that the last line must contain.
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "no kind": ({"target": {"estimator": "a:b"}}, "target.kind: expected a value"),
    "unknown kind": ({"target": {"kind": "sklern"}}, "target.kind"),
    "no estimator": ({"target": {"kind": "sklearn"}}, "expected estimator"),
    "key of another kind": ({"target": {"kind": "sklearn", "estimator": "a:b", "weights": "w"}}, "received weights"),
    "misspelt key": ({"target": {"kind": "sklearn", "estimatr": "a:b"}}, "did you mean estimator?"),
    "misspelt training": ({"target": {**MLP, "training": {"epoch": 1}}}, "did you mean epochs?"),
    "learning rate": ({"target": {**MLP, "training": {"learning_rate": 0}}}, "target.training.learning_rate"),
    "no model of language": ({"target": {"kind": "language-model"}}, "received neither"),
    "reference alone": ({"target": {"kind": "language-model", "small_gpt2": {}, "reference": "."}}, "beside reference"),
    "batch alone": ({"target": {"kind": "language-model", "small_gpt2": {}, "batch": 4}}, "folder beside batch"),
    "base alone": ({"target": {"kind": "language-model", "small_gpt2": {}, "base": "."}}, "folder beside base"),
    "no folder": ({"target": {"kind": "text-classifier"}}, "expected folder for kind text-classifier"),
    "no such precision": ({"target": {"kind": "text-classifier", "folder": ".", "precision": "int8"}}, "precision"),
    "no such device": ({"target": {"kind": "language-model", "folder": ".", "device": "gpu"}}, "target.device"),
    "no data": ({"data": None}, "data: expected a value"),
    "missing data": ({"data": {"path": "gone.npz", "x": "x"}}, "data.path: expected an existing file"),
    "missing weights": ({"target": {"kind": "torch-weights", "factory": "a:b", "weights": "g.pt"}}, "target.weights"),
    "odd shadows": ({"shadow": {"models": 3}}, "even number"),
    "address without ray": ({"shadow": {"address": "h:1"}}, "executor: ray"),
    "paths beside a target": ({"evaluation": {"table_path": "d.npz"}}, "evaluation.table_path: unknown key"),
    "a reference of a one-run": (
        {"reference": {"score": "shadow_models"}, "shadow": {"models": 4}},
        "reference",
    ),
    "unknown attack": ({"attack": {"type": "lira_onlin"}}, "did you mean lira_online?"),
    "no such module": ({"target": {"kind": "sklearn", "estimator": "no_such:Tree"}}, "no_such"),
    "no such class": ({"target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTree"}}, "did you mean"),
    "a function for a class": ({"target": {"kind": "sklearn", "estimator": "sklearn.tree:plot_tree"}}, "which is none"),
    "unknown option": (
        {"target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier", "options": {"depth": 3}}},
        "check the options",
    ),
    "unknown column": ({"data": {"path": "d.npz", "x": "z", "y": "y"}}, "a column of d.npz"),
    "texts as numbers": ({"data": {"path": "d.npz", "x": "words", "y": "y"}}, "a Pipeline that encodes them"),
    "no labels": ({"data": {"path": "d.npz", "x": "x"}}, "data.y"),
    "fractional labels": ({"data": {"path": "d.npz", "x": "x", "y": "real"}}, "labels"),
    "no shadows": ({"attack": {"type": "lira_online"}}, "shadow.models"),
    "too few shadows": ({"attack": {"type": "lira_online"}, "shadow": {"models": 2}}, "shadow.models: expected 4"),
    "texts only": ({"attack": {"type": "min_k"}}, "language model"),
    "zero-run without members": ({"evaluation": {"design": "zero-run"}}, "data.member"),
    "wrong inputs": ({"target": {**MLP, "options": {"inputs": 7, "classes": 2}}}, "models failed"),
    "too few outputs": ({"target": {**MLP, "options": {"inputs": 6, "classes": 1}}}, "models failed"),
    "a factory of nothing": ({"target": {"kind": "torch", "factory": "nothing_net:build"}}, "torch.nn.Module"),
    "ray that does not answer": ({"shadow": {"executor": "ray", "address": "127.0.0.1:1"}}, "127.0.0.1:1"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line(case: str, place: Path, run: Run) -> None:
    sections, word = WRONG[case]
    if "torch" in str(sections):
        pytest.importorskip("torch")
    if "ray" in case:
        pytest.importorskip("ray")
    (place / "nothing_net.py").write_text("def build():\n    return 3\n")
    config = write(place / "c.yaml", **tree(**sections))
    code, out, err = run("collect", config, "--out", "e.npz")
    assert code == 1, err
    assert out == ""
    *notes, last = err.splitlines()
    assert word in last
    assert all(note.startswith("miaudit: note: runs code") for note in notes)
    assert "Traceback" not in err
    assert not (place / "e.npz").exists()


def test_every_problem_is_listed_with_its_path(place: Path, run: Run) -> None:
    write(
        place / "c.yaml",
        target={"kind": "torch", "factory": "a:b", "training": {"epochs": 0, "optimizer": "sgd"}},
        data={"path": "d.npz", "z": "x"},
        shadow={"workers": 0},
        evaluation={"confidence": 95},
    )
    code, _, err = run("run", "c.yaml")
    assert code == 1
    lines = [line.strip() for line in err.splitlines()]
    paths = ("target.training.epochs", "target.training.optimizer", "data.z", "shadow.workers", "evaluation.confidence")
    assert lines[0].endswith("5 problems")
    for path in paths:
        assert sum(line.startswith(f"{path}:") for line in lines) == 1, err


def test_attacks_that_need_models_say_so_beside_outputs(place: Path, run: Run) -> None:
    np.save(place / "m.npy", np.ones(9))
    paths = {"member_losses_path": "m.npy", "nonmember_losses_path": "m.npy"}
    code, _, err = run("run", write(place / "c.yaml", attack={"type": "lira_online"}, evaluation=paths))
    assert code == 1
    assert "attack.type" in err
    assert "target and data" in err


def test_usage(place: Path, run: Run) -> None:
    assert run("collect")[0] == 2
    (place / "t.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    assert run("audit", "t.jsonl", "--signal", "token-logprobs", "--score", "x")[0] == 2
    code, _, err = run("audit", "t.jsonl", "--signal", "token-logprobs", "--attack", "min_kk", "--out", "r")
    assert code == 1
    assert "did you mean min_k?" in err
