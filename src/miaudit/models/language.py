"""Causal language models as targets: a local folder, or a small GPT-2 trained here.

Texts differ in length, so their outputs are scores already, one column for each attack on token log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, IndexArray
from miaudit.attacks import tokens
from miaudit.models import text
from miaudit.models.adapters import base_of
from miaudit.models.devices import fixed_order, said
from miaudit.models.model_folder import Precision, vocabulary
from miaudit.models.offline import transformers
from miaudit.models.outputs import checked_outputs
from miaudit.models.own_code import described
from miaudit.models.protocol import Kind, Traits
from miaudit.models.train_config import SmallGPT2

SIGNALS = ("loss", "min_k", "min_k_plus_plus")
REFERENCE = "reference_ratio"
BASE = "base"  # as a reference: the model that an adapter belongs to, without it


@dataclass(frozen=True, eq=False)
class SavedLanguage(Traits):
    """A causal language model in a local folder, unchanged; runs no code of the folder.

    Parameters
    ----------
    folder : path, as ``save_pretrained`` writes it, of a whole model or an adapter
    reference : folder of a model that has not seen the audited texts, or "base": that of an adapter in ``folder``
        It adds the column ``reference_ratio``.
    longest : tokens of a text that are read; default: all, in overlapping windows where the model's context is shorter
    batch : most texts in one pass through the model
    precision : "float32", "bfloat16", "float16", or "saved" for that of the weights' file
    device : "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1"
    base : folder of the model that an adapter in ``folder`` belongs to; default: what the adapter names
    beside : folder where relative paths that adapters name may start, optional
    """

    kind: ClassVar[Kind] = "signals"  # one column for each attack
    runs_user_code = False  # weights are read from safetensors, and code of a folder is refused
    folder: str | Path
    reference: str | Path | None = None
    called: str = ""
    longest: int | None = None
    batch: int = 16
    precision: Precision = "float32"
    device: str = "auto"
    base: str | Path | None = None
    beside: Path | None = None
    _model: text.LanguageModel = field(init=False, repr=False)
    _reference: text.LanguageModel | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        how: dict[str, Any] = {"precision": self.precision, "device": self.device}
        named_base = None if self.base is None else Path(self.base)
        base = base_of(Path(self.folder), named_base, beside=self.beside)
        object.__setattr__(self, "_model", text.load(self.folder, base=base or named_base, **how))
        if self.reference is not None:
            other = base if self.reference == BASE and base else Path(self.reference)
            own = base_of(other, beside=self.beside, otherwise=base)
            object.__setattr__(self, "_reference", text.load(other, base=own, **how))

    @property
    def name(self) -> str:
        """The given name, or the folder's."""
        return self.called or self._model.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return SIGNALS if self._reference is None else (*SIGNALS, REFERENCE)

    @property
    def notes(self) -> tuple[str, ...]:
        """On which bases adapters were put, and on which device they were asked, where that is to be said."""
        models = [model for model in (self._model, self._reference) if model is not None]
        on = [
            f"{model.name} is an adapter; its base is {model.base.name}." for model in models if model.base is not None
        ]
        return (*on, *said(self.device))

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders whose files decide what is answered."""
        models = [model for model in (self._model, self._reference) if model is not None]
        return tuple(one for model in models for one in (model.folder, model.base) if one is not None)

    @property
    def context(self) -> int | None:
        """Most tokens that go through it together; None without a limit."""
        return self._model.longest

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        return vocabulary(self._model.model)

    def identity(self) -> str:
        """Return the folder; nothing is trained, so nothing is stored."""
        read = "" if self.precision == "float32" else f" {self.precision}"
        on = "" if self._model.base is None else f" on {self._model.base.resolve()}"
        return f"{versions()} {Path(self.folder).resolve()} {self.reference} {self.longest}{read}{on}"

    def outputs(self, fitted: Any, x: Sequence[str]) -> Float32Array:  # noqa: ARG002 - nothing is fitted
        """Scores (n, columns) of texts."""
        return self.explained(x)[0]

    def tokens(self, x: Sequence[str]) -> tuple[text.TokenOutputs, text.TokenOutputs | None]:
        """Return what the model says of the tokens of texts, and the reference model, if there is one."""
        how: dict[str, Any] = {"longest": self.longest, "batch": self.batch}
        outputs = text.token_log_probabilities(self._model, x, **how)
        if self._reference is None:
            return outputs, None
        return outputs, text.token_log_probabilities(self._reference, x, moments=False, **how)

    def explained(self, x: Sequence[str]) -> tuple[Float32Array, tuple[str, ...]]:
        """Return scores (n, columns) of texts, and sentences on what was left out."""
        outputs, other = self.tokens(x)
        beside: dict[str, Any] = {}
        if other is not None:
            beside = {"reference_log_p": other.log_p, "reference_offsets": other.offsets}
        return scores_of(outputs, x, self.columns, self.name, **beside), outputs.notes


@dataclass(frozen=True, eq=False)
class SmallLanguage(Traits):
    """A small GPT-2 from random weights, trained on some of the texts; runs no user code.

    The vocabulary is learned from all texts, whether members or not, so that it does not tell them apart.

    Examples
    --------
    >>> target = SmallLanguage(SmallGPT2(layers=1, width=8, heads=1, epochs=1), vocabulary=257)
    >>> texts = ["one text", "another text"]
    >>> model = target.fit(texts, np.zeros(2), np.array([0]), seed=0)
    >>> target.outputs(model, texts).shape, target.columns[0]
    ((2, 3), 'loss')
    """

    kind: ClassVar[Kind] = "signals"  # one column for each attack
    runs_user_code = False
    config: SmallGPT2
    vocabulary: int = 1000
    called: str = ""
    columns: tuple[str, ...] = SIGNALS

    @property
    def name(self) -> str:
        """The given name, or a description."""
        return self.called or "small GPT-2"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to show beside the scores."""
        return (
            f"{self.name}: trained here from random weights. Every text begins with a special token, which is context "
            f"only; texts beyond {self.config.context} tokens are scored in overlapping windows.",
        )

    def identity(self) -> str:
        """Return the network, its training, the vocabulary and the versions of the libraries."""
        return f"{versions()} {described(self.config)} {self.vocabulary}"

    def fit(self, x: Sequence[str], y: NDArray[Any], rows: IndexArray, *, seed: int) -> text.LanguageModel:  # noqa: ARG002
        """Train on some of the texts, in one thread; equal seeds give equal models."""
        with fixed_order(torch.device("cpu")):
            tokenizer = text.byte_pair_tokenizer(x, vocabulary=self.vocabulary)
            return text.train(tokenizer, [x[row] for row in rows], self.config, rng=np.random.default_rng(seed))

    def outputs(self, fitted: text.LanguageModel, x: Sequence[str]) -> Float32Array:
        """Scores (n, columns) of texts."""
        with fixed_order(torch.device("cpu")):
            token_outputs = text.token_log_probabilities(fitted, x)
        return scores_of(token_outputs, x, self.columns, self.name)


def scores_of(
    found: text.TokenOutputs, x: Sequence[str], columns: Sequence[str], name: str, **beside: Any
) -> Float32Array:
    """Scores (n, columns) of texts, of what a model says of their tokens."""
    scores = tokens.member_scores(
        log_p=found.log_p, offsets=found.offsets, mean=found.mean, std=found.std, text=x, names=columns, **beside
    )
    return checked_outputs(np.stack([scores[column] for column in columns], axis=1), len(x), name)


def versions() -> str:
    """Return the versions of the libraries, which decide the last digits."""
    return f"torch {torch.__version__} transformers {transformers.__version__}"
