"""Classifiers of texts in local folders, whole or as adapters: the logits that they give, unchanged and without code.

Texts are cut into tokens as the tokenizer does by default; longer ones than the model reads keep their closing token.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from miaudit.arrays import Float32Array
from miaudit.errors import InputError
from miaudit.models import model_folder
from miaudit.models.adapters import base_of
from miaudit.models.devices import products, said
from miaudit.models.model_folder import ModelFolder, Precision
from miaudit.models.offline import transformers
from miaudit.models.outputs import check_label_columns, checked_outputs, label_count
from miaudit.models.protocol import Kind, Traits


@dataclass(frozen=True, eq=False)
class SavedClassifier(Traits):
    """A classifier of texts in a local folder, as ``save_pretrained`` writes it; it stands as it is.

    Its outputs are logits (n, C) in the order of ``id2label``, log-odds (n, L) where each record has several labels, or
    predictions (n, 1) where the model has one output only.

    Parameters
    ----------
    folder, longest, batch, precision, device, base, beside : as of :class:`miaudit.models.language.SavedLanguage`
    called : optional name
    labels : how many labels each record has, 0 for one class or number; :meth:`labelled` sets it

    Raises
    ------
    InputError
        As of :func:`miaudit.models.text.load`.
    """

    runs_user_code = False  # weights are read from safetensors, and code of a folder is refused
    folder: str | Path
    called: str = ""
    longest: int | None = None
    batch: int = 16
    precision: Precision = "float32"
    device: str = "auto"
    base: str | Path | None = None
    beside: Path | None = None
    labels: int = 0
    _read: ModelFolder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        model_folder.check_whole("batch", self.batch, 1)
        named_base = None if self.base is None else Path(self.base)
        base = base_of(Path(self.folder), named_base, beside=self.beside) or named_base
        saved = ModelFolder.read(self.folder, "SEQ_CLS", base=base, precision=self.precision, device=self.device)
        object.__setattr__(self, "_read", saved)
        model_folder.limit(saved.model, saved.tokenizer, self.longest)

    @property
    def name(self) -> str:
        """The given name, or the folder's."""
        return self.called or self._read.folder.name

    @property
    def kind(self) -> Kind:
        """Predictions of one output, log-odds of several labels, else logits."""
        return "predictions" if len(self.classes) == 1 else "multi-label" if self.labels else "logits"

    @property
    def classes(self) -> tuple[str, ...]:
        """What the model calls its outputs, in their order."""
        config = self._read.model.config
        return tuple(str(config.id2label[number]) for number in range(config.num_labels))

    def labelled(self, y: Any) -> SavedClassifier:
        """As of :meth:`Traits.labelled`; the model is the same."""
        again = copy.copy(self)
        object.__setattr__(again, "labels", label_count(y))
        return again

    @property
    def notes(self) -> tuple[str, ...]:
        """On which base an adapter was put, and on which device it was asked, where that is to be said."""
        return (*self._read.notes, *said(self.device))

    def identity(self) -> str:
        """Return the folder and how it is asked; nothing is trained, so nothing is stored."""
        versions = f"torch {torch.__version__} transformers {transformers.__version__}"
        return f"{versions} {self._read.folder.resolve()} {self._read.base} {self.longest} {self.precision}"

    def outputs(self, fitted: Any, x: Sequence[str]) -> Float32Array:  # noqa: ARG002 - nothing is fitted
        """Logits or log-odds (n, C), or predictions (n, 1), of texts."""
        return self.explained(x)[0]

    def explained(self, x: Sequence[str]) -> tuple[Float32Array, tuple[str, ...]]:
        """Outputs of texts, and of how many only the beginning was read."""
        if not isinstance(x, list | tuple) or not all(isinstance(text, str) for text in x):
            raise InputError("data.text", "a text of each record", type(x).__name__, "name the column of texts")
        tokenizer = self._read.tokenizer
        most = model_folder.limit(self._read.model, tokenizer, self.longest)
        cut = tokenizer(list(x), return_attention_mask=False, verbose=False)["input_ids"] if x else []
        lengths = np.array([len(row) for row in cut], dtype=np.int64)
        if (lengths == 0).any():
            received = f"none in text {int(np.argmin(lengths))}"
            raise InputError("data.text", "a token in every text", received, "drop texts that are empty")
        read = lengths if most is None else np.minimum(lengths, most)
        values = np.empty((len(x), len(self.classes)), dtype=np.float32)
        for rows in self._batches(read):
            values[rows] = self._asked([x[row] for row in rows], most)
        if self.kind == "multi-label":
            check_label_columns(values.shape[1], self.labels, self.name)
        longer = int((read < lengths).sum())
        notes = (f"{longer} of {len(x)} texts are longer than {most} tokens: their beginning was read.",)
        return checked_outputs(values, len(x), self.name), notes if longer else ()

    def _batches(self, lengths: Any) -> Iterator[list[int]]:
        """Rows of texts of like length, the longest first; of equal length where nothing is agreed for padding."""
        padding, known = self._read.tokenizer.pad_token_id, self._read.model.config.pad_token_id
        agreed = padding is not None and padding == known
        most = 1 if known is None else self.batch  # decoders look for the last token before the padding
        rows: list[int] = []
        for row in np.argsort(-lengths, kind="stable").tolist():
            if len(rows) == most or (rows and not agreed and lengths[row] != lengths[rows[0]]):
                yield rows
                rows = []
            rows.append(row)
        yield from [rows] if rows else []

    @torch.inference_mode()
    def _asked(self, texts: list[str], most: int | None) -> Float32Array:
        """Return the outputs of one batch of texts; the model gets only the inputs that its forward method accepts."""
        model, tokenizer = self._read.model, self._read.tokenizer
        agreed = tokenizer.pad_token_id is not None
        cut = tokenizer(texts, truncation=most is not None, max_length=most, padding=agreed, return_tensors="pt")
        whole = model.get_base_model() if hasattr(model, "get_base_model") else model
        taken = inspect.signature(whole.forward).parameters
        inputs = {name: value.to(model.device) for name, value in cut.items() if name in taken}
        with products(tf32=False):  # a process may have asked for it
            logits: Float32Array = model(**inputs).logits.float().cpu().numpy()
        return logits
