"""Models of transformers in local folders, as ``save_pretrained`` writes them, whole or as an adapter on its base.

Nothing is downloaded, no code of a folder is run, and weights are read from safetensors only, in one file or in shards.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch

from miaudit.errors import InputError
from miaudit.errors.checks import is_whole
from miaudit.errors.options import check_choice
from miaudit.models import adapters, offline
from miaudit.models.adapters import read_object, why
from miaudit.models.devices import device_of
from miaudit.models.offline import transformers

Precision = Literal["float32", "saved", "bfloat16", "float16"]
Task = Literal["CAUSAL_LM", "SEQ_CLS"]

_AUTO: dict[str, Any] = {
    "CAUSAL_LM": transformers.AutoModelForCausalLM,
    "SEQ_CLS": transformers.AutoModelForSequenceClassification,
}
_SAFE: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
_CONFIGURATIONS = (  # that transformers reads of a folder
    *("config.json", "tokenizer_config.json", "generation_config.json", "special_tokens_map.json"),
    *("processor_config.json", "preprocessor_config.json", "added_tokens.json", adapters.CONFIG),
)
_ODD = ("missing_keys", "unexpected_keys", "mismatched_keys")
_NO_LIMIT = 10**9  # tokenizers without a longest text say 10^30


class ModelFolder(NamedTuple):
    """What was read of a folder: the model, ready to be asked, its tokenizer, and of an adapter its base's folder."""

    folder: Path
    model: Any
    tokenizer: Any
    base: Path | None

    @property
    def notes(self) -> tuple[str, ...]:
        """On which base an adapter was put."""
        name = self.folder.name
        return () if self.base is None else (f"{name} is an adapter; its base is {self.base.name}.",)

    @classmethod
    def read(
        cls, folder: str | Path, task: Task, *, base: str | Path | None, precision: Precision, device: str
    ) -> ModelFolder:
        """Read a model for a task and its tokenizer; options and errors as of :func:`miaudit.models.text.load`."""
        folder, place = Path(folder), device_of(device)
        if not folder.is_dir():
            received = f"{folder}, which is none"
            raise InputError("model", "a local folder", received, "models are never downloaded: save one")
        check_choice("precision", precision, get_args(Precision), "float32 is the default")
        base_folder = adapters.base_of(folder, None if base is None else Path(base))
        if base is not None and base_folder is None:
            hint = "leave base out, or name the adapter's folder"
            raise InputError("base", f"none, without {adapters.CONFIG} in {folder.name}", str(base), hint)
        root = folder if base_folder is None else base_folder
        _check_folder(root)
        adapter = None if base_folder is None else adapters.Adapter.read(folder, task)
        model = _weights(root, task, adapter, precision)
        if adapter is not None:
            _check_code(folder)
            with offline.no_network():
                model = adapter.on(model)
        own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
        tokenizer = _tokenizer(folder if own else root, root, task)
        if adapter is not None and own:
            _check_tokens(tokenizer, model, folder)
        return cls(folder, model.to(place).eval(), tokenizer, base_folder)


def longest(model: Any, tokenizer: Any) -> int | None:
    """Most tokens of a text, special ones included; None where neither model nor tokenizer has a limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():  # RoBERTa and its kin count positions from behind the padding's
        if positions and name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions = min(positions, module.num_embeddings - module.padding_idx - 1)
    known = [int(limit) for limit in (positions, tokenizer.model_max_length) if limit is not None and limit < _NO_LIMIT]
    most = min(known, default=None)
    return None if most is None else most - adapters.virtual_tokens(model)


def limit(model: Any, tokenizer: Any, asked: int | None) -> int | None:
    """Most tokens of a text that are read, as somebody asked; None for all.

    Raises
    ------
    InputError
        If more are asked for than the model takes.
    """
    own = longest(model, tokenizer)
    if asked is None:
        return own
    check_whole("longest", asked, 2)
    if own is not None and asked > own:
        raise InputError("longest", f"at most {own}, the model's limit", str(asked), "leave it out for the limit")
    return asked


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number from ``least`` up."""
    if not is_whole(value) or value < least:
        raise InputError(name, f"a whole number from {least}", repr(value), "leave it out for the default")


def vocabulary(model: Any) -> int:
    """How many tokens a model knows; an adapter may have wrapped its embeddings."""
    modules = model.get_input_embeddings().modules()
    return next(module.num_embeddings for module in modules if isinstance(module, torch.nn.Embedding))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's progress bars and reports off the terminal; what matters is raised or noted."""
    log: Any = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(logging.CRITICAL)
    log.disable_progress_bar()
    try:
        with offline.no_network():
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def _weights(root: Path, task: Task, adapter: adapters.Adapter | None, precision: Precision) -> Any:
    """The model of a folder; what is missing of it may only be what the adapter brings along."""
    more: dict[str, Any] = {}
    supplied = frozenset[str]() if adapter is None else adapter.supplies
    classes = None if adapter is None else adapter.classes
    if classes is not None:
        more = {"num_labels": classes, "ignore_mismatched_sizes": True}
    try:
        with quiet():
            if more and transformers.AutoConfig.from_pretrained(root, **_SAFE).num_labels == classes:
                del more["num_labels"]  # its labels keep their names
            loaded: Any = _AUTO[task].from_pretrained(
                root,
                use_safetensors=True,
                output_loading_info=True,
                dtype="auto" if precision == "saved" else getattr(torch, precision),
                **more,
                **_SAFE,
            )
    except Exception as error:  # whatever the libraries make of a damaged or foreign folder
        raise _unreadable(root, task, error) from error
    model, loading_info = loaded
    odd = {str(key[0] if isinstance(key, tuple) else key) for kind in _ODD for key in loading_info[kind]} - supplied
    if supplied:  # the base may have been trained for something else, with a head of its own
        odd = {
            key for key in odd if key not in loading_info["unexpected_keys"] or key.startswith(model.base_model_prefix)
        }
    if odd:
        received = f"{len(odd)} missing, unknown or of another shape ({min(odd)[:60]})"
        raise InputError("weights", "those of config.json's architecture", received, "check that the files belong")
    return model


def _tokenizer(folder: Path, root: Path, task: Task) -> Any:
    try:
        with quiet():
            more = {} if folder == root else {"config": transformers.AutoConfig.from_pretrained(root, **_SAFE)}
            return transformers.AutoTokenizer.from_pretrained(folder, **more, **_SAFE)
    except Exception as error:  # whatever the libraries make of a damaged or foreign folder
        raise _unreadable(folder, task, error) from error


def _unreadable(folder: Path, task: Task, error: Exception) -> InputError:
    received = f"{folder.name}, which transformers cannot load ({why(error)})"
    return InputError("model", adapters.TASKS[task], received, "write it again with save_pretrained")


def _check_tokens(tokenizer: Any, model: Any, folder: Path) -> None:
    """Refuse an adapter's own tokenizer with tokens that the model has no weights for."""
    rows, most = vocabulary(model), max(tokenizer.get_vocab().values())
    if most >= rows:
        received = f"token {most} in {folder.name} for a model of {rows} tokens"
        hint = "save the adapter with save_embedding_layers=True"
        raise InputError("tokenizer", "tokens that the adapter or its base has weights for", received, hint)


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        received = f"{folder} without it"
        raise InputError("model", "a folder with config.json", received, "write it with save_pretrained")
    _check_code(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
        received = f"{pickled[0]}, which may hold pickled code" if pickled else "none"
        raise InputError("weights", "a .safetensors file", received, "save with safe_serialization=True")
    shards = read_object(folder / "model.safetensors.index.json").get("weight_map", {})
    for name in sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else [str(shards)]:
        if Path(name).name != name or not name.endswith(".safetensors") or not (folder / name).is_file():
            received = f"{name[:80]}, named in model.safetensors.index.json"
            raise InputError("weights", f"shards in safetensors in {folder.name}", received, "copy all of its files")


def _check_code(folder: Path) -> None:
    for name in _CONFIGURATIONS:
        offline.refuse_code(read_object(folder / name), name)
