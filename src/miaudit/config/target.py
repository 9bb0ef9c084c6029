"""The sections of a configuration file that say what is trained or asked, on which records, and with which shadows."""

from __future__ import annotations

import functools
import inspect
import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    Tag,
    TypeAdapter,
    create_model,
    field_validator,
    model_validator,
)

from miaudit.config.section import FilePath, FolderPath, Keys, Refused, Section, Text, Whole, Word, keys_of
from miaudit.errors import InputError, one_line
from miaudit.errors.entry_points import Offered
from miaudit.errors.extras import missing_modules, pip_line
from miaudit.errors.options import Option
from miaudit.models.command import CommandLine, CommandOutputs, CommandTarget
from miaudit.models.fine_tuned import FineTuned
from miaudit.models.foreign import refuse_pickle
from miaudit.models.onnx_file import OnnxGiven, OnnxTarget
from miaudit.models.outputs import label_count
from miaudit.models.own_code import load_factory, made_of
from miaudit.models.own_target import of_class
from miaudit.models.targets import Given, Precomputed, SavedTorch, SklearnTarget, Target, TorchTarget
from miaudit.models.torch_target import NetworkGiven
from miaudit.models.train_config import DEVICES, SmallGPT2, TrainConfig

__all__ = ["TargetSection"]

Device = Annotated[str, Field(pattern=f"^({DEVICES.pattern})$")]
Precision = Literal["float32", "saved", "bfloat16", "float16"]


def _trainable(options: dict[str, Any]) -> dict[str, Any]:
    TrainConfig(**options)  # refuses options that exclude each other
    return options


TRAINING = Keys(keys_of(TrainConfig), make=_trainable)
SMALL_GPT2 = Keys({**keys_of(SmallGPT2), "vocabulary": Annotated[int, Option(ge=257, next_step="1000 is usual")]})


class TargetSection(Section):
    """What is audited: each kind has a section of its own, with the keys of that kind and no others.

    ``TargetSection.model_validate`` gives the section of the kind that ``kind`` names, one of :data:`KINDS`.

    Attributes
    ----------
    kind : narrowed by each kind to its own name, a ``Literal``
    name : what a page calls the target; default: what it calls itself
    """

    classifies: ClassVar[bool] = True  # whether it gives probabilities of classes
    reads_columns: ClassVar[bool] = False  # whether row numbers, in the place of data.x, would mean nothing to it
    needs: ClassVar[tuple[str, ...]] = ()  # extras of the installation
    kind: str
    name: Text | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_kind(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        several = cls is TargetSection and isinstance(value, dict)
        return _any_kind(tuple(KINDS)).validate_python(value) if several else handler(value)

    @classmethod
    def kinds(cls) -> Mapping[str, type[Section]]:
        """Return the sections of all kinds, by name."""
        return KINDS.loaded()

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of the installation that this target needs."""
        return self.needs

    @property
    def user_code(self) -> str:
        """The code that came with the model and will run; empty if none does."""
        return ""

    @abstractmethod
    def build(self, base: Path) -> Target:
        """Make the target, with paths relative to ``base``. Imports and calls the code that it names.

        Raises
        ------
        InputError
            If an extra is not installed, and for whatever is wrong with code, weights or folder.
        """

    def build_for(self, base: Path, y: Any) -> Target:  # noqa: ARG002 - for those whose outputs are read by the labels
        """Make the target, as :meth:`build`, for records with labels y (n,), (n, L) or None."""
        return self.build(base)


class SklearnSection(TargetSection):
    """A scikit-learn estimator, which is trained here."""

    reads_columns = True
    kind: Literal["sklearn"]
    estimator: Text
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def user_code(self) -> str:
        """The estimator, unless it is scikit-learn's own."""
        return "" if self.estimator.startswith("sklearn.") else self.estimator

    def build(self, base: Path) -> Target:  # noqa: ARG002 - names no file
        """Make the estimator."""
        return SklearnTarget(_estimator(self.estimator, self.options), self.name or "")


class NetworkSection(TargetSection):
    """What the kinds with a PyTorch network have in common: the function that builds it."""

    reads_columns = True
    needs = ("torch",)
    factory: Text
    options: dict[str, Any] = Field(default_factory=dict)
    output: Text = "logits"

    @property
    def user_code(self) -> str:
        """The factory, unless it is one of :mod:`miaudit.models.nets`."""
        return "" if self.factory.startswith("miaudit.models.nets:") else self.factory

    def network(self) -> str | Callable[[], Any]:
        """Return a function without arguments that builds the network; options are for the function that is named.

        A function of options may itself return such a function, as those of :mod:`miaudit.models.nets` do.
        """
        _require(self.kind, *self.extras)
        if not self.options:
            return self.factory
        build = load_factory(self.factory)
        net = made_of(build, self.factory, self.options, "target.factory")
        return functools.partial(build, **self.options) if hasattr(net, "state_dict") or not callable(net) else net


class TorchSection(NetworkSection):
    """A PyTorch network that is trained here; with weights, those are audited and only shadow models are trained."""

    kind: Literal["torch"]
    training: Annotated[dict[str, Any], TRAINING] | None = None
    weights: FilePath | None = None

    def build(self, base: Path) -> Target:
        """Make the network's factory, with the weights if there are any."""
        factory, training = self.network(), TrainConfig(**(self.training or {}))
        weights = None if self.weights is None else base / self.weights
        return TorchTarget(factory, training, weights, self.name or self.factory, output=self.output)


class TorchWeightsSection(NetworkSection):
    """A PyTorch network with its weights, audited as it is."""

    kind: Literal["torch-weights"]
    weights: FilePath
    given: NetworkGiven = "logits"

    def build(self, base: Path) -> Target:
        """Read the weights."""
        name = self.name or self.factory
        return SavedTorch(self.network(), base / self.weights, name, output=self.output, given=self.given)


class OutputsSection(TargetSection):
    """Outputs of a model that somebody else asked."""

    kind: Literal["outputs"]
    outputs_path: FilePath
    columns: tuple[Text, ...] = ()
    given: Given = "logits"

    def build(self, base: Path) -> Target:
        """Read the outputs."""
        return self.build_for(base, None)

    def build_for(self, base: Path, y: Any) -> Target:
        """Read the outputs: by the labels, probabilities are of classes or of each label by itself."""
        several = 0 if y is None or self.given == "predictions" else label_count(y)
        return Precomputed.load(base / self.outputs_path, self.columns, given=self.given, labels=several)


class OnnxSection(TargetSection):
    """A fitted model in an ONNX file, audited as it is."""

    reads_columns = True
    needs = ("onnx",)
    kind: Literal["onnx"]
    path: FilePath
    given: OnnxGiven | None = None
    output: Text | None = None

    def build(self, base: Path) -> Target:
        """Read the model."""
        return OnnxTarget(base / self.path, self.given, self.output, self.name or "")


class AskedSection(TargetSection):
    """What the kinds with a folder of transformers have in common: how the model in it is read and asked."""

    needs = ("text",)
    base: FolderPath | None = None
    longest: Annotated[int, Field(ge=2)] | None = None
    batch: Whole | None = None
    precision: Precision | None = None
    device: Device | None = None

    def asked(self) -> dict[str, Any]:
        """How the model of a folder is read and asked, as far as the file says."""
        options = {name: getattr(self, name) for name in ("base", "longest", "batch", "precision", "device")}
        return {name: value for name, value in options.items() if value is not None}

    def _how(self, base: Path) -> dict[str, Any]:
        """As :meth:`asked`, with paths relative to ``base``."""
        _require(self.kind, *self.extras)
        return {**self.asked(), "base": self.base and base / self.base, "beside": base}


class LanguageModelSection(AskedSection):
    """A causal language model: a folder as it is, or a small GPT-2 that is trained here."""

    classifies = False
    kind: Literal["language-model"]
    folder: FolderPath | None = None
    small_gpt2: Annotated[dict[str, Any], SMALL_GPT2] | None = None
    reference: Annotated[FolderPath, Word("base")] | None = None

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if (self.folder is None) == (self.small_gpt2 is None):
            both = "neither" if self.folder is None else "both"
            raise ValueError(f"expected folder (a model as it is) or small_gpt2 (trained here), received {both}")
        if self.reference is not None and self.folder is None:
            raise ValueError("expected folder beside reference, received none; a reference belongs to a model as it is")
        odd = next((name for name in self.asked() if self.folder is None), None)
        if odd is not None:
            raise ValueError(f"expected folder beside {odd}, received small_gpt2; its own keys say how it is trained")
        return self

    def build(self, base: Path) -> Target:
        """Read the model of the folder, or describe the one to train."""
        how = self._how(base)
        from miaudit.models import language  # noqa: PLC0415 - torch is loaded only where it is used
        from miaudit.models.adapters import is_adapter  # noqa: PLC0415

        if self.folder is not None:
            of_adapter = self.reference == language.BASE and is_adapter(base / self.folder)
            reference = self.reference if of_adapter or self.reference is None else base / self.reference
            return language.SavedLanguage(base / self.folder, reference, self.name or "", **how)
        options = {"vocabulary": 1000, **(self.small_gpt2 or {})}
        vocabulary = options.pop("vocabulary")
        return language.SmallLanguage(SmallGPT2(**options), vocabulary, self.name or "")


class TextClassifierSection(AskedSection):
    """A classifier of texts in a folder, or an adapter of one, audited as it is."""

    kind: Literal["text-classifier"]
    folder: FolderPath

    def build(self, base: Path) -> Target:
        """Read the model of the folder."""
        how = self._how(base)
        from miaudit.models.text_classifier import SavedClassifier  # noqa: PLC0415 - torch is loaded where it is used

        return SavedClassifier(base / self.folder, self.name or "", **how)


class CommandSection(AskedSection):
    """A command that trains on some rows of its own data, and leaves outputs on all of them."""

    kind: Literal["command"]
    command: Annotated[str, Field(min_length=1, max_length=20_000)]
    outputs: CommandOutputs
    files: tuple[Text, ...] = ()
    timeout: Annotated[float, Field(gt=0)] | None = None
    retries: Annotated[int, Field(ge=0)] = 0
    threads: Whole = 1
    gpus: Annotated[int, Field(ge=0)] | None = None
    env: dict[Text, str] = Field(default_factory=dict)
    reference: Annotated[FolderPath, Word("base")] | None = None

    @model_validator(mode="after")
    def _of_language_models(self) -> Self:
        odd = next(iter([*self.asked(), *(["reference"] if self.reference is not None else [])]), None)
        if odd is not None and self.outputs != "language-model":
            raise ValueError(f"expected outputs: language-model beside {odd}, received {self.outputs}; leave it out")
        if self.reference == "base" and self.base is None:
            raise ValueError("expected base beside reference: base, received none; name the model before fine-tuning")
        return self

    @field_validator("command")
    @classmethod
    def _can_bemade_of(cls, value: str) -> str:
        try:
            CommandLine.of(value)
        except InputError as error:
            raise Refused(error) from None
        return value

    @property
    def extras(self) -> tuple[str, ...]:
        """What is asked of a model that the command leaves needs more than losses or probabilities do."""
        return self.needs if self.outputs == "language-model" else ()

    @property
    def user_code(self) -> str:
        """The command."""
        return self.command

    def build(self, base: Path) -> Target:
        """Describe the command, and read the files that it names."""
        options = self.model_dump(include={"command", "files", "timeout", "retries", "threads", "gpus", "env"})
        if self.outputs == "language-model":
            before = self.base if self.reference == "base" else self.reference
            reference = None if before is None else base / before
            options["asked"] = FineTuned(**{**self._how(base), "reference": reference, "beside": base.absolute()})
        return CommandTarget(given=self.outputs, folder=base, called=self.name or "", **options)


# A field cannot be called "class" in a class of Python.
_WithClass: Any = create_model("_WithClass", __base__=TargetSection, **{"class": (Text, ...)})  # type: ignore[call-overload]


class OwnSection(_WithClass):
    """A class of one's own, which does what the protocol of targets asks."""

    kind: Literal["target"]
    options: dict[str, Any] = Field(default_factory=dict)
    files: tuple[Text, ...] = ()

    @property
    def user_code(self) -> str:
        """The class."""
        return str(getattr(self, "class"))

    def build(self, base: Path) -> Target:
        """Make the object, and read the files that decide its fits."""
        return of_class(self.user_code, self.options, folder=base, files=self.files, called=self.name or "")


class TokenSection(TargetSection):
    """Log-probabilities of tokens, which the data hold already: no model is asked."""

    classifies = False
    kind: Literal["token-logprobs"]

    def build(self, base: Path) -> Target:  # noqa: ARG002 - there is nothing to make
        """Refuse: scores are read off the data."""
        raise InputError("target.kind", "a model that can be asked", self.kind, "its scores are read from data.path")


_BUILT_IN: dict[str, type[TargetSection]] = {}
KINDS = Offered("miaudit.targets", type, _BUILT_IN)


def register(section: type[TargetSection]) -> None:
    """Add a kind of target under the name in its field ``kind``, a ``Literal``; another of that name is replaced."""
    for name in get_args(section.model_fields["kind"].annotation):
        _BUILT_IN[name] = section
    _any_kind.cache_clear()


@functools.cache
def _any_kind(names: tuple[str, ...]) -> TypeAdapter[Any]:
    """The sections of all kinds, told apart by their field ``kind``; those of packages load when they are meant."""

    def one(name: str) -> Any:
        later = PlainValidator(lambda value: KINDS[name].model_validate(value))  # noqa: PLW0108 - only now
        return _BUILT_IN.get(name, Annotated[Any, later])

    every: Any = functools.reduce(operator.or_, (Annotated[one(name), Tag(name)] for name in names))
    tagged: Any = Annotated[every, Discriminator(lambda given: str(given["kind"]) if "kind" in given else None)]
    return TypeAdapter(tagged)


_KINDS = (
    SklearnSection,
    TorchSection,
    TorchWeightsSection,
    OutputsSection,
    OnnxSection,
    LanguageModelSection,
    TextClassifierSection,
)
for _section in (*_KINDS, CommandSection, OwnSection, TokenSection):
    register(_section)


def _estimator(where: str, options: dict[str, Any]) -> Any:
    """Return what a class makes, or a function: pipelines come from functions."""
    refuse_pickle(where, "target.estimator")
    factory, problem = load_factory(where), ""
    if inspect.isclass(factory) and hasattr(factory, "fit"):
        return made_of(factory, where, options, "target.estimator")
    if not inspect.isclass(factory) and not where.startswith("sklearn."):  # nothing of theirs runs unannounced
        try:
            estimator = made_of(factory, where, options, "target.estimator")
        except InputError as error:
            problem = f" ({one_line(str(error.received))})"
        else:
            if hasattr(estimator, "fit") and not inspect.isclass(estimator):
                return estimator
            problem = f" (it returns {type(estimator).__name__})"
    allowed, received = "a class with fit, or a function that returns an estimator", f"{where}, which is none{problem}"
    hint = "sklearn.linear_model:LogisticRegression is one"
    raise InputError("target.estimator", allowed, received, hint)


def _require(kind: str, *extras: str) -> None:
    """Refuse a kind whose extras are not installed."""
    if absent := missing_modules(extras):
        received = f"an installation without {', '.join(absent)}"
        raise InputError("target.kind", f"what {kind} needs", received, pip_line(*extras))
