"""What a stranger's configuration names is never fetched or run; a stand-in for the library of kernels watches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch`")
pytest.importorskip("transformers", reason="the extra `text`")

from miaudit.errors import InputError
from miaudit.models import offline, text
from miaudit.models.text import SmallGPT2

TEXTS = [f"{word} number {i}" for i in range(10) for word in ("cat", "dog")]
STAND_IN = """
import os
__version__ = "{version}"
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name[0].isupper():
        return type(name, (), {{"__init__": lambda self, *arguments, **options: None}})
    def called(*arguments, **options):
        if name == "get_kernel":
            with open(os.environ["REACHED"], "a") as reached:
                reached.write(f"{{name}} {{arguments}}\\n")
            raise RuntimeError("reached")
        return lambda *given, **more: given[0] if given else None  # a decorator
    return called
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "m"
    tiny = SmallGPT2(layers=1, width=8, heads=1, context=16, epochs=1, batch=8, learning_rate=0.01)
    model = text.train(text.byte_pair_tokenizer(TEXTS, vocabulary=270), TEXTS, tiny, rng=np.random.default_rng(0))
    text.save(model, folder)
    return folder


def changed(saved: Path, into: Path, file: str, content: dict[str, Any]) -> Path:
    folder = into / "m"
    folder.mkdir()
    for path in saved.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    place = folder / file
    before = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    place.write_text(json.dumps({**before, **content}), encoding="utf-8")
    return folder


FOREIGN = {
    "a kernel": ("config.json", {"attn_implementation": "someone/kernel"}),
    "of its own name": ("config.json", {"_attn_implementation": "kernels-community/flash-attn2"}),
    "inside": ("config.json", {"_attn_implementation_internal": "a/b@v1:f"}),
    "paged": ("config.json", {"attn_implementation": "paged|a/b"}),
    "another package": ("config.json", {"attn_implementation": "flash_attention_2"}),
    "of a part": ("config.json", {"attn_implementation": {"": "sdpa", "text_config": "a/b"}}),
    "deep": ("config.json", {"text_config": {"deeper": [{"attn_implementation": "a/b"}]}}),
    "experts": ("config.json", {"experts_implementation": "a/b"}),
    "quantised": ("config.json", {"quantization_config": {"quant_method": "awq"}}),
    "code": ("config.json", {"auto_map": {"AutoModelForCausalLM": "evil.Model"}}),
    "trust": ("config.json", {"trust_remote_code": True}),
    "kernels": ("config.json", {"use_kernels": True}),
    "backbone": ("config.json", {"use_pretrained_backbone": True}),
    "weights": ("config.json", {"transformers_weights": "other.bin"}),
    "tokenizer": ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.T", None]}}),
    "generation": ("generation_config.json", {"custom_generate": "someone/generate"}),
    "processor": ("processor_config.json", {"auto_map": {"AutoProcessor": "evil.P"}}),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_configuration_that_names_code_is_refused(kind: str, saved: Path, tmp_path: Path) -> None:
    file, content = FOREIGN[kind]
    with pytest.raises(
        InputError, match=rf"model: expected an architecture of transformers .* {file} with "
    ) as refused:
        text.load(changed(saved, tmp_path, file, content), device="cpu")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("attention", ["eager", "sdpa", None])
def test_attention_of_transformers_and_torch_is_read(attention: str | None, saved: Path, tmp_path: Path) -> None:
    content = {"attn_implementation": attention, "quantization_config": None, "auto_map": {}}
    found = text.load(changed(saved, tmp_path, "config.json", content), device="cpu")
    assert attention is None or found.model.config._attn_implementation == attention


def stand_in(folder: Path) -> dict[str, str]:
    """Install a package in the place of the one that fetches kernels; it notes what it is asked for."""
    version = getattr(offline.transformers.utils.import_utils, "KERNELS_MIN_VERSION", "0.18.2")
    place = folder / "site"
    (place / "kernels").mkdir(parents=True)
    (place / "kernels" / "__init__.py").write_text(STAND_IN.format(version=version), encoding="utf-8")
    about = place / f"kernels-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n", encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if name not in offline._SWITCHES}
    path = os.pathsep.join([str(place), *(one for one in sys.path if one)])
    return {**clean, "PYTHONPATH": path, "REACHED": str(folder / "reached")}


def loading(code: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.thorough
def test_a_kernel_of_a_hub_is_not_fetched(saved: Path, tmp_path: Path) -> None:
    folder = changed(saved, tmp_path, "config.json", {"attn_implementation": "kernels-community/flash-attn2"})
    environment = stand_in(tmp_path)
    ours = "import sys; from miaudit.models import text; text.load(sys.argv[1], device='cpu')"
    ran = loading(ours, folder, environment)
    assert ran.returncode
    assert "attn_implementation 'kernels-community/flash-attn2', code of a hub" in ran.stderr
    assert not (tmp_path / "reached").exists()
    plain = "import sys, transformers; transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])"
    loading(plain, folder, environment)  # control: by itself the library asks for it
    assert "get_kernel" in (tmp_path / "reached").read_text(encoding="utf-8")


def test_there_is_no_network_while_a_model_is_read() -> None:
    import huggingface_hub

    assert os.environ["HF_HUB_OFFLINE"] == "1"
    before = huggingface_hub.constants.HF_HUB_OFFLINE
    with offline.no_network():
        assert huggingface_hub.constants.is_offline_mode()
    assert before == huggingface_hub.constants.HF_HUB_OFFLINE


def test_every_module_takes_transformers_from_here() -> None:
    source = Path(offline.__file__).parents[1]
    for path in source.rglob("*.py"):
        if path.name != "offline.py":
            text_of = path.read_text(encoding="utf-8")
            assert "import transformers" not in text_of.replace("offline import transformers", ""), path
            assert "from transformers" not in text_of, path
