"""The scripts of benchmarks/gpu in their tiny form on the CPU: their tables, and exit codes that can fail."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch`")

FOLDER = Path(__file__).parents[1] / "benchmarks" / "gpu"
DATA = Path(__file__).parents[2] / "shared" / "data"
IMAGES = DATA / "cifar10" / "cifar10_12k.npz"
SCRIPTS = ("library_tests", "training", "sensitivity", "shadow_models", "workers", "language_model", "clean_noisy")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], types.ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name: str) -> types.ModuleType:
        monkeypatch.delitem(sys.modules, "measurement", raising=False)
        spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def tiny(script: Callable[[str], types.ModuleType], capsys: pytest.CaptureFixture[str]) -> Run:
    def call(name: str, *more: str, change: Callable[[types.ModuleType], None] | None = None) -> tuple[int, str, str]:
        module = script(name)
        if change is not None:
            change(module)
        capsys.readouterr()
        code = module.main(["--device", "cpu", "--tiny", *more])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def rows(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in out.splitlines() if line[:1] == "|"]


def test_each_row_of_the_plan_has_its_script_and_its_minutes(script: Callable[[str], types.ModuleType]) -> None:
    found = {path.stem for path in FOLDER.glob("*.py")} - {"run", "measurement"}
    assert found == set(SCRIPTS) == set(script("run").MINUTES)
    assert sum(script("run").MINUTES[name] for name in SCRIPTS[:-1]) < script("run").WHOLE


@pytest.mark.parametrize("name", ["training", "workers"])
def test_a_gpu_that_is_not_there_is_one_line(
    name: str, script: Callable[[str], types.ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    module = script(name)
    if module.torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert module.main(["--tiny"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("failed: device: expected auto or cpu on this machine, received cuda; torch sees no GPU")
    assert err.count("\n") == 1


@pytest.mark.long
def test_the_matrix_of_trainings(tiny: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(module: types.ModuleType) -> None:
        every = module.cases
        wanted = {("mlp", "dropout"), ("mlp", "DP-SGD"), ("resnet16, batch", "plain"), ("convnet", "plain")}
        monkeypatch.setattr(
            module, "cases", lambda *given: (one for one in every(*given) if (one.network, one.option) in wanted)
        )

    code, out, err = tiny("training", change=few)
    assert (code, err) == (0, "")
    assert "CPU: " in out
    found = {tuple(row[:3]): row for row in rows(out)[2:]}
    assert found["mlp", "dropout", "bf16"][3:7] == ["0", "yes", "0", "yes"]
    assert found["mlp", "DP-SGD", "float32"][7] == "refused: DP-SGD"
    assert found["resnet16, batch", "plain", "float32"][7] == "refused: buffers"
    assert 0 < float(found["convnet", "plain", "float32"][7]) < 1e-3


@pytest.mark.long
def test_models_that_are_apart_are_a_failure(tiny: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without its seed the second fit is another model."""

    def unseeded(module: types.ModuleType) -> None:
        every, fit, calls = module.cases, module.train.fit, []
        monkeypatch.setattr(module, "cases", lambda *given: [next(every(*given))])

        def other(*given, seed):
            calls.append(seed)
            return fit(*given, seed=seed + len(calls) // 2)

        monkeypatch.setattr(module.train, "fit", other)

    code, out, err = tiny("training", change=unseeded)
    assert code == 1
    assert "| NO |" in out
    assert err.startswith("failed: mlp, plain, float32: equal seeds are ")


@pytest.mark.thorough
@pytest.mark.long
def test_the_sensitivity_of_each_kind_of_layer(tiny: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(module: types.ModuleType) -> None:
        monkeypatch.setattr(module, "KINDS", {name: module.KINDS[name] for name in ("linear", "conv2d", "embedding")})

    code, out, err = tiny("sensitivity", change=few)
    assert (code, err) == (0, "")
    assert out.count("2 of 2 begin") == 3
    assert {row[1] for row in rows(out)[2:]} == {"float32", "TF32", "bf16"}

    def loose(module: types.ModuleType) -> None:
        few(module)
        monkeypatch.setattr(module, "moved", lambda *_, **__: [1.0, 1.00001])
        monkeypatch.setattr(module, "starts", lambda *_: None)

    code, out, err = tiny("sensitivity", change=loose)
    assert code == 1
    assert err.splitlines()[0] == "failed: linear in float32: a record moves the sum by 1.00001000 clips"


@pytest.mark.long
def test_shadow_models_at_once_and_a_stack_that_is_too_large(tiny: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = tiny("shadow_models")
    assert (code, err) == (0, "")
    assert [row[:2] for row in rows(out)[2:]] == [["4", "1"], ["4", "4"]]

    def small(problem: str) -> Callable[[types.ModuleType], None]:
        def change(module: types.ModuleType) -> None:
            def train(*_: object, **__: object) -> None:
                failed = types.SimpleNamespace(problem=problem)
                raise module.JobsFailedError([failed], 4, None, "shadow models")

            monkeypatch.setattr(module.shadow, "train", train)

        return change

    with_number = "at_once: expected at most 2, which fit on the GPU together, received 4; lower it"
    code, out, err = tiny("shadow_models", change=small(with_number))
    assert (code, err) == (0, "")
    assert with_number in out
    code, out, err = tiny("shadow_models", change=small("OutOfMemoryError: CUDA out of memory"))
    assert code == 1
    assert "failed: 1 at once: OutOfMemoryError" in err


@pytest.mark.slow
def test_workers_and_ray_have_the_gpus_that_they_were_given() -> None:
    pytest.importorskip("ray")
    command = [sys.executable, FOLDER / "workers.py", "--device", "cpu", "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)[2:]
    assert [row[1:5] for row in found[:2]] == [["''", "yes", "0", "yes"]] * 2
    assert found[2][:5] == ["Ray, one GPU declared", "'0'", "yes", "0", "yes"]


@pytest.mark.parametrize("astray", [False, True])
def test_a_fit_that_saw_another_gpu_is_a_failure(tiny: Run, astray: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(module: types.ModuleType) -> None:
        own = np.arange(20.0).reshape(2, 10)

        def outcomes(*_: object, **__: object) -> list[types.SimpleNamespace]:
            seen = [module.Seen("0" if astray and i == 5 else "", 0, 0, own) for i in range(module.FITS)]
            return [types.SimpleNamespace(number=i, problem="", value=one) for i, one in enumerate(seen)]

        monkeypatch.setattr(module, "outcomes", outcomes)

    code, _, err = tiny("workers", "--no-ray", change=change)
    assert code == astray
    assert ("failed: 1 workers of this machine: fits saw ['', '0'], and were given ['']" in err) == astray


@pytest.mark.long
def test_a_language_model_beside_the_cpu(tiny: Run) -> None:
    pytest.importorskip("transformers")
    code, out, err = tiny("language_model")
    assert (code, err) == (0, "")
    found = rows(out)[2:]
    assert [row[1:3] for row in found] == [["float32", "no"], ["float32", "yes"], ["bf16", "no"], ["bf16", "yes"]]
    assert float(found[0][5]) == 0
    assert 0 < float(found[2][5]) < 0.1


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not IMAGES.is_file(), reason=f"{IMAGES} is not there")
def test_figure_3c_beside_what_is_printed(tiny: Run, tmp_path: Path) -> None:
    code, out, err = tiny("clean_noisy", "--data", str(DATA), "--out", str(tmp_path))
    assert (code, err) == (0, "")
    assert [row[0] for row in rows(out)[2:]] == ["seed 0", "tiny: 4,200 images, 1 seeds", "as printed"]
    assert "| as printed |  | 0.65 | 0.75 | 0.66 |" in out


@pytest.mark.thorough
@pytest.mark.long
def test_figure_3c_without_its_images_is_one_line(tiny: Run, tmp_path: Path) -> None:
    code, _, err = tiny("clean_noisy", "--data", str(tmp_path), "--out", str(tmp_path / "other"))
    assert code == 1
    assert err.startswith("failed: seed 0: FileNotFoundError")


@pytest.mark.thorough
@pytest.mark.long
def test_all_of_them_with_a_time_limit_each(tmp_path: Path) -> None:
    command = [sys.executable, FOLDER / "run.py", "--device", "cpu", "--tiny", "--out", tmp_path]
    done = subprocess.run([*command, "--only", "shadow_models"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "| shadow_models | " in (tmp_path / "run.txt").read_text(encoding="utf-8")
    assert "| 4 | 4 |" in (tmp_path / "shadow_models.txt").read_text(encoding="utf-8")
    short = [*command, "--only", "training", "--minutes", "0.001"]
    done = subprocess.run(short, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "its time of 0 minutes was over" in done.stdout
