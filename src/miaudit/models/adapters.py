"""Adapters as peft saves them: which base they belong to, whether they may be read, and the base with the adapter on.

Nothing is downloaded or unpickled, and an adapter that asks for code, here or elsewhere, is refused.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from miaudit.errors import InputError, one_line
from miaudit.errors.extras import pip_line
from miaudit.io import plain_files

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TASKS = {"CAUSAL_LM": "a causal language model", "SEQ_CLS": "a classifier of texts"}
_PREFIX = "base_model.model."
_CODE = ("auto_map", "trust_remote_code", "megatron_config")  # the last imports whatever module it names
_HEADS = ("out_proj.weight", "classifier.weight", "score.weight")


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter, and no model of its own."""
    return (folder / CONFIG).is_file()


def base_of(
    folder: Path, given: Path | None = None, *, beside: Path | None = None, otherwise: Path | None = None
) -> Path | None:
    """Return the folder of the model that an adapter belongs to; None for a folder that is no adapter.

    Parameters
    ----------
    folder : of the adapter
    given : the base where somebody names it; else the adapter does
    beside : where relative paths may start too, besides the adapter's own folder and the one that holds it
    otherwise : the base where the adapter names no local folder

    Raises
    ------
    InputError
        Where neither names a local folder, and for a base that is an adapter itself.
    """
    if not is_adapter(folder):
        return None
    named = read_object(folder / CONFIG).get("base_model_name_or_path") or ""
    places = [folder, folder.parent, *([beside] if beside else [])]  # of an absolute path nothing is kept of these
    wanted = [given] if given else [place / str(named) for place in places] if named else []
    base = next((place for place in wanted if place.is_dir()), None if given else otherwise)
    if base is None:
        received = f"{given or str(named)[:80]}, which is no local folder" if given or named else "none"
        hint = "name it, with the key base; models are never downloaded"
        raise InputError("base", f"the model that the adapter {folder.name} belongs to", received, hint)
    if is_adapter(base):
        hint = "merge that one first: merge_and_unload() and save_pretrained of peft"
        raise InputError("base", "a whole model", f"{base.name}, which is an adapter itself", hint)
    return base


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of a model's folder; an empty one if the file is not there."""
    try:
        content = json.loads(plain_files.read_text(path, "model")) if path.exists() else {}
    except (OSError, ValueError, RecursionError) as error:
        received = f"{path.name}: {why(error)}"
        raise InputError("model", "a readable folder", received, "save again") from error
    if not isinstance(content, dict):
        raise InputError("model", f"an object in {path.name}", type(content).__name__, "save the model again")
    return content


@dataclass(frozen=True, eq=False)
class Adapter:
    """An adapter that may be read: its configuration, as peft reads it, and the shapes of its weights by name."""

    folder: Path
    config: Any
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def read(cls, folder: Path, task: str) -> Adapter:
        """Read what an adapter says of itself, for a task of :data:`TASKS`.

        Raises
        ------
        InputError
            For files that are missing, damaged or pickled, another task, and whatever asks for code.
        """
        content = read_object(folder / CONFIG)
        asks = next(_asks_for_code(content), "")
        if asks:
            raise InputError("adapter", f"a plain {CONFIG}", f"one with {asks}", "code of a folder is never run")
        if content.get("task_type") not in (task, None):
            received = f"{folder.name} for {str(content['task_type'])[:20]}"
            raise InputError("adapter", f"one of {TASKS[task]} ({task})", received, "check target.kind")
        if not (folder / WEIGHTS).is_file():
            pickled = sorted(path.name for path in folder.glob("adapter_model.*"))
            received = f"{pickled[0]}, which may hold pickled code" if pickled else "none"
            raise InputError("weights", WEIGHTS, received, "save with safe_serialization=True")
        try:
            with safe_open(folder / WEIGHTS, framework="pt") as file:
                shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise InputError("weights", "a readable file", f"{WEIGHTS}: {why(error)}", "save again") from error
        return cls(folder, _config_of(content), shapes)

    @property
    def supplies(self) -> frozenset[str]:
        """Names of the base's own weights that the adapter brings along, such as those of a classifier's head."""
        return frozenset(name.removeprefix(_PREFIX) for name in self.shapes)

    @property
    def classes(self) -> int | None:
        """Number of classes of the head that the adapter brings along, if it brings one."""
        own = (name for end in _HEADS for name in self.shapes if name.endswith(end))
        return next((self.shapes[name][0] for name in own), None)

    def on(self, base: Any) -> Any:
        """Return a base with the adapter on it; the base itself is changed.

        Raises
        ------
        InputError
            For an adapter of another architecture or size.
        """
        import peft  # noqa: PLC0415 - as it is used

        self._resize(base)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what matters is checked below
                model: Any = peft.PeftModel.from_pretrained(base, self.folder, config=self.config, torch_device="cpu")
                own = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
                most = peft.get_peft_model_state_dict(model, save_embedding_layers=True)
        except Exception as error:  # whatever peft makes of weights that do not fit
            raise self._foreign(why(error)) from error
        shapes = {name: tuple(value.shape) for name, value in (most | own).items()}
        odd = sorted((own.keys() - self.shapes.keys()) | (self.shapes.keys() - shapes.keys()))
        odd += [name for name, shape in self.shapes.items() if name in shapes and shapes[name] != shape]
        if odd:
            raise self._foreign(f"{len(odd)} weights missing, unknown or of another shape: {odd[0][:80]}")
        return model

    def _resize(self, base: Any) -> None:
        """Give the base as many tokens as the adapter has, where its training added some and peft saved them."""
        tokens = base.get_input_embeddings()
        at = next(name for name, module in base.named_modules() if module is tokens)
        own = [shape for name, shape in self.shapes.items() if name.startswith(f"{_PREFIX}{at}.") and "weight" in name]
        rows = next((shape[0] for shape in own if shape[1:] == (tokens.embedding_dim,)), tokens.num_embeddings)
        if rows != tokens.num_embeddings:
            base.resize_token_embeddings(rows, mean_resizing=False)

    def _foreign(self, said: str) -> InputError:
        received = f"{self.folder.name}, which does not fit it ({said})"
        return InputError("adapter", "one of this base", received, "name the base that it was trained on")


def why(error: BaseException) -> str:
    """The beginning of what a library says, in one line."""
    return one_line(str(error))[:120] or type(error).__name__


def virtual_tokens(model: Any) -> int:
    """How many learned tokens an adapter puts before each text; 0 for most."""
    config = getattr(model, "active_peft_config", None)
    return int(config.num_virtual_tokens) if config is not None and config.is_prompt_learning else 0


def _asks_for_code(content: Any) -> Iterator[str]:
    """Name the keys of a configuration, at any depth, by which code would run that is not peft's or transformers'."""
    if isinstance(content, list):
        for one in content:
            yield from _asks_for_code(one)
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if key in _CODE and value:
            yield str(key)
        if key == "auto_mapping" and value:
            library = value.get("parent_library") if isinstance(value, dict) else None
            if str(library).partition(".")[0] != "transformers":
                yield f"auto_mapping to {str(library)[:60]}"
        yield from _asks_for_code(value)


def _config_of(content: dict[str, Any]) -> Any:
    """An adapter's configuration as a record of peft."""
    try:
        import peft  # noqa: PLC0415 - it takes seconds to load
    except ImportError as error:
        received = "an installation without peft"
        raise InputError("target.folder", "what an adapter needs", received, pip_line("text")) from error
    kinds = {str(name.value): kind for name, kind in peft.PEFT_TYPE_TO_CONFIG_MAPPING.items()}
    kinds.pop("XLORA", None)  # reads further adapters from wherever it says
    kind = kinds.get(str(content.get("peft_type")))
    if kind is None:
        received = str(content.get("peft_type"))[:40]
        raise InputError("adapter", "a kind that peft reads from one folder", received, "merge it into its base")
    known = kind.__dataclass_fields__
    newer = sorted(name for name, value in content.items() if name not in known and value and name != "runtime_config")
    if newer:
        hint = "pip install --upgrade peft"
        raise InputError("adapter", "options that this peft knows", f"{newer[0][:60]} in {CONFIG}", hint)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            configuration = kind(**{name: value for name, value in content.items() if name in known})
    except Exception as error:  # whatever peft makes of values
        received = f"one that peft refuses ({why(error)})"
        raise InputError("adapter", f"a valid {CONFIG}", received, "save the adapter again") from error
    configuration.inference_mode = True
    return configuration
