"""The sections of a configuration file that say what is trained or asked, on which records, and with which shadows."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from miaudit.collect.campaign import Shadows
from miaudit.collect.records import Records
from miaudit.config.section import Section, Text
from miaudit.errors import InputError, one_line
from miaudit.io import tables
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Precomputed, SavedTorch, SklearnTarget, Target, TorchTarget, load_factory

if TYPE_CHECKING:
    from miaudit.models.train_config import TrainConfig

Kind = Literal["sklearn", "torch", "torch-weights", "outputs", "language-model", "token-logprobs"]
# What each kind needs, and what else it may have.
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sklearn": (("estimator",), ("options",)),
    "torch": (("factory",), ("options", "training", "weights")),
    "torch-weights": (("factory", "weights"), ("options",)),
    "outputs": (("outputs_path",), ("columns", "given")),
    "language-model": ((), ("folder", "small_gpt2", "reference")),
    "token-logprobs": ((), ()),
}
# The extra that a kind needs, and what it brings.
_EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "torch": ("torch", ("torch", "safetensors")),
    "torch-weights": ("torch", ("torch", "safetensors")),
    "language-model": ("text", ("torch", "safetensors", "transformers")),
}
Whole = Annotated[int, Field(ge=1)]


class PrivateSection(Section):
    """DP-SGD instead of plain training: see :class:`miaudit.models.private.Private`."""

    noise: Annotated[float, Field(gt=0)]
    clip: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    records: Whole
    repeatable: bool = False


class EarlyStoppingSection(Section):
    """When training stops early: see :class:`miaudit.models.train_config.EarlyStopping`."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    patience: Whole = 5


class PruningSection(Section):
    """Which weights become 0, and when: see :class:`miaudit.models.train_config.Pruning`."""

    sparsity: Annotated[float, Field(gt=0, lt=1)]
    finetuning: Annotated[float, Field(ge=0, lt=1)] = 0.25


class TrainingSection(Section):
    """How a PyTorch network is trained: see :class:`miaudit.models.train_config.TrainConfig`."""

    optimiser: Literal["sgd", "adam"] = "sgd"
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    schedule: Literal["constant", "cosine"] = "cosine"
    epochs: Whole = 20
    batch: Whole = 128
    augmentation: Literal["none", "flip-crop"] = "none"
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    input_noise: Annotated[float, Field(ge=0)] = 0.0
    early_stopping: EarlyStoppingSection | None = None
    pruning: PruningSection | None = None
    private: PrivateSection | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    mixed_precision: bool = False
    seed: Annotated[int, Field(ge=0)] = 0

    def build(self) -> TrainConfig:
        """Make the training configuration of the library.

        Raises
        ------
        InputError
            For options that exclude each other.
        """
        from miaudit.models.private import Private  # noqa: PLC0415 - torch is loaded only where it is used
        from miaudit.models.train_config import EarlyStopping, Pruning, TrainConfig  # noqa: PLC0415

        given = self.model_dump()
        for name, kind in (("private", Private), ("early_stopping", EarlyStopping), ("pruning", Pruning)):
            if given[name] is not None:
                given[name] = kind(**given[name])
        return TrainConfig(**given)


class SmallGPT2Section(Section):
    """A small GPT-2 that is trained here: see :class:`miaudit.models.text.SmallGPT2`."""

    layers: Whole = 2
    width: Whole = 64
    heads: Whole = 4
    context: Annotated[int, Field(ge=2)] = 128
    epochs: Whole = 20
    batch: Whole = 16
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 3e-3
    vocabulary: Annotated[int, Field(ge=257)] = 1000


class TargetSection(Section):
    """What is audited."""

    kind: Kind
    name: Text | None = None
    estimator: Text | None = None
    factory: Text | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    weights: Text | None = None
    training: TrainingSection | None = None
    outputs_path: Text | None = None
    columns: tuple[Text, ...] = ()
    given: Literal["logits", "probabilities", "predictions", "signals"] = "logits"
    folder: Text | None = None
    reference: Text | None = None
    small_gpt2: SmallGPT2Section | None = None

    @model_validator(mode="after")
    def _keys_of_the_kind(self) -> Self:
        needed, possible = _KEYS[self.kind]
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"expected {missing[0]} for kind {self.kind}, received none; add it")
        foreign = sorted(self.model_fields_set - {"kind", "name", *needed, *possible})
        if foreign:
            known = ", ".join((*needed, *possible)) or "none besides"
            raise ValueError(f"expected keys of kind {self.kind} ({known}), received {foreign[0]}; remove it")
        if self.kind == "language-model" and (self.folder is None) == (self.small_gpt2 is None):
            received = "neither" if self.folder is None else "both"
            raise ValueError(f"expected folder (a model as it is) or small_gpt2 (trained here), received {received}")
        if self.reference is not None and self.folder is None:
            raise ValueError("expected folder beside reference, received none; a reference belongs to a model as it is")
        return self

    @property
    def user_code(self) -> str:
        """The code that came with the model and will run; empty if none does."""
        named = self.estimator or self.factory or ""
        own = "sklearn." if self.estimator else "miaudit.models.nets:"
        return "" if named.startswith(own) else named

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files or folders are not there, a line for each."""
        for name, is_there in (
            ("weights", Path.is_file),
            ("outputs_path", Path.is_file),
            ("folder", Path.is_dir),
            ("reference", Path.is_dir),
        ):
            value = getattr(self, name)
            if value is not None and not is_there(base / value):
                kind = "file" if is_there is Path.is_file else "folder"
                yield missing_line(f"target.{name}", kind, value, base)

    def build(self, base: Path) -> Target:
        """Make the target. Imports and calls what ``estimator`` or ``factory`` names, with the options.

        Raises
        ------
        InputError
            If an extra is not installed, and for whatever is wrong with code, weights or folder.
        """
        self._require_extra()
        called = self.name or ""
        if self.kind == "sklearn":
            return SklearnTarget(_estimator(str(self.estimator), self.options), called)
        if self.kind == "outputs":
            return Precomputed.load(base / str(self.outputs_path), self.columns, given=self.given)
        if self.kind == "language-model":
            return self._language(base, called)
        weights = None if self.weights is None else base / self.weights
        factory = _factory(str(self.factory), self.options)
        if self.kind == "torch-weights":
            return SavedTorch(factory, weights, called or str(self.factory))
        training = (self.training or TrainingSection()).build()
        return TorchTarget(factory, training, weights, called or str(self.factory))

    def _require_extra(self) -> None:
        extra, modules = _EXTRAS.get(self.kind, ("", ()))
        for module in modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                received = f"an installation without {module}"
                raise InputError(
                    "target.kind", f"what {self.kind} needs", received, f"pip install miaudit[{extra}]"
                ) from error

    def _language(self, base: Path, called: str) -> Target:
        from miaudit.models import language  # noqa: PLC0415
        from miaudit.models.text import SmallGPT2  # noqa: PLC0415

        if self.folder is not None:
            reference = None if self.reference is None else base / self.reference
            return language.SavedLanguage(base / self.folder, reference, called)
        given = (self.small_gpt2 or SmallGPT2Section()).model_dump()
        vocabulary = given.pop("vocabulary")
        return language.SmallLanguage(SmallGPT2(**given), vocabulary, called)


class DataSection(Section):
    """The records, and which columns are what."""

    path: Text
    x: Text | tuple[Text, ...] | None = None
    y: Text | None = None
    text: Text | None = None
    member: Text | None = None
    unit: Text | None = None
    group: Text | None = None
    covariates: Text | tuple[Text, ...] | None = None
    records: Whole | None = None
    copies: Text | None = None

    def load(self, base: Path) -> Records:
        """Read the records."""
        columns = self.model_dump(exclude={"path", "records", "copies"})
        return Records.load(base / self.path, **columns)

    def load_copies(self, base: Path) -> Any:
        """Read the changed copies of the records, a .npy file, if there are any."""
        return None if self.copies is None else tables.read_array(base / self.copies, "data.copies")

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each."""
        for name, value in (("path", self.path), ("copies", self.copies)):
            if value is not None and not (base / value).is_file():
                yield missing_line(f"data.{name}", "file", value, base)


class ShadowSection(Section):
    """How many shadow models, where they are kept and trained; or their outputs, where they were trained elsewhere."""

    models: Annotated[int, Field(ge=0)] = 0
    outputs_path: Text | None = None
    given: Literal["logits", "probabilities", "predictions", "signals"] = "logits"
    signal: Text = "logit_confidence"
    vulnerability: bool | None = None
    population: Whole | None = None
    store: Text | None = None
    executor: Literal["local", "ray"] = "local"
    address: Text | None = None
    workers: Whole = 1
    at_once: Whole = 1
    seconds_per_fit: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.models % 2:
            raise ValueError(
                f"expected an even number of models, so that each record is in half of them, received {self.models}"
            )
        if self.address is not None and self.executor != "ray":
            raise ValueError("expected executor: ray beside address, received local; add it")
        if self.outputs_path is not None and self.models:
            raise ValueError("expected outputs_path or models, received both; shadow models are given or trained")
        alone = sorted({"given", "signal"} & self.model_fields_set)
        if self.outputs_path is None and alone:
            raise ValueError(f"expected outputs_path beside {alone[0]}, received none; it says what that file holds")
        if self.vulnerability and not self.models and self.outputs_path is None:
            raise ValueError("expected shadow models beside vulnerability, received none; set models")
        return self

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each."""
        if self.outputs_path is not None and not (base / self.outputs_path).is_file():
            yield missing_line("shadow.outputs_path", "file", self.outputs_path, base)

    def options(self, base: Path) -> Shadows:
        """Return the options of the campaign; reads the outputs that are given."""
        given = None
        if self.outputs_path is not None:
            given = GivenShadows.load(base / self.outputs_path, given=self.given, signal=self.signal)
        return Shadows(
            models=self.models,
            given=given,
            vulnerability=self.vulnerability,
            population=self.population,
            store=None if self.store is None else base / self.store,
            executor=f"ray:{self.address}" if self.address else self.executor,
            workers=self.workers,
            at_once=self.at_once,
            seconds_per_fit=self.seconds_per_fit,
        )


def missing_line(key: str, kind: str, value: str, base: Path) -> str:
    """Say that a file or folder of the configuration is not there."""
    return (
        f"{key}: expected an existing {kind}, received {value} (looked for {base / value}); "
        "paths are relative to the configuration file"
    )


def _estimator(where: str, options: dict[str, Any]) -> Any:
    """Return what a class makes, or a function: pipelines come from functions."""
    found, problem = load_factory(where), ""
    if inspect.isclass(found) and hasattr(found, "fit"):
        return _called(found, where, options, "target.estimator")
    if not inspect.isclass(found) and not where.startswith("sklearn."):  # nothing of theirs runs unannounced
        try:
            made = _called(found, where, options, "target.estimator")
        except InputError as error:
            problem = f" ({one_line(str(error.received))})"
        else:
            if hasattr(made, "fit") and not inspect.isclass(made):
                return made
            problem = f" (it returns {type(made).__name__})"
    allowed, received = "a class with fit, or a function that returns an estimator", f"{where}, which is none{problem}"
    hint = "sklearn.linear_model:LogisticRegression is one"
    raise InputError("target.estimator", allowed, received, hint)


def _factory(where: str, options: dict[str, Any]) -> str | Callable[[], Any]:
    """Return a function without arguments that builds the network; options are for the function that is named.

    A function of options may itself return such a function, as those of :mod:`miaudit.models.nets` do.
    """
    if not options:
        return where
    found = load_factory(where)
    made = _called(found, where, options, "target.factory")
    return functools.partial(found, **options) if hasattr(made, "state_dict") or not callable(made) else made


def _called(function: Callable[..., Any], where: str, options: dict[str, Any], key: str) -> Any:
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    try:
        return function(**values)
    except Exception as error:  # whatever the named code raises
        if isinstance(error, InputError):
            raise
        received = f"{where}, which raises {type(error).__name__}: {str(error)[:160]}"
        raise InputError(key, "code that accepts target.options", received, "check the options") from error
