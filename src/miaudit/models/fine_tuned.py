"""Language models that a command fine-tunes: the folder that each fit leaves, and what the model says of the texts."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from miaudit.arrays import Float32Array
from miaudit.errors import InputError, OutputError
from miaudit.io import atomic
from miaudit.jobs.resumable import digest

if TYPE_CHECKING:
    from miaudit.models.language import SavedLanguage
    from miaudit.models.model_folder import Precision
    from miaudit.models.text import TokenOutputs

__all__ = ["FineTuned"]

MODEL = "model"
CONFIG, ADAPTER, ANSWERS = "config.json", "adapter_config.json", "answers.npz"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model")


class Said(NamedTuple):
    """What a model said of the texts: scores (n, columns), and a digest of the tokens that it cut them into."""

    scores: Float32Array
    cut: str


@dataclass(frozen=True, eq=False)
class FineTuned:
    """About which texts the models of a command are asked, and how; runs no code of theirs.

    A fit leaves in ``{out}/model`` what ``save_pretrained`` writes, of a model with its tokenizer or of an adapter.

    Parameters
    ----------
    texts : sequence of n str, in the order of the row numbers
    base : folder of the model that an adapter belongs to, optional
    reference : folder of a model that has not seen the texts, optional
        It adds the column ``reference_ratio``.
    longest, batch, precision, device, beside : as of :class:`miaudit.models.language.SavedLanguage`
    """

    texts: Sequence[str] = ()
    base: Path | None = None
    reference: Path | None = None
    longest: int | None = None
    batch: int = 16
    precision: Precision = "float32"
    device: str = "auto"
    beside: Path | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the scores."""
        from miaudit.models import language  # noqa: PLC0415 - torch is loaded only where it is used

        return language.SIGNALS if self.reference is None else (*language.SIGNALS, language.REFERENCE)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of models beside those of the fits."""
        return tuple(one for one in (self.base, self.reference) if one is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the scores."""
        cut = "" if self.longest is None else f" Of texts beyond {self.longest} tokens the beginning is scored."
        return (
            "Each fine-tuned model was asked here for the log-probabilities of the tokens of all texts; special tokens "
            f"are context only. Texts longer than the model's context are scored in overlapping windows.{cut}",
        )

    def identity(self) -> str:
        """All that decides the scores of a model, but the texts and the folders, which are files of the command."""
        from miaudit.models import language  # noqa: PLC0415 - torch is loaded only where it is used

        used = [name for name in ("base", "reference") if getattr(self, name) is not None]
        return f"{language.versions()} {used} {self.longest} {self.precision}"

    def saved(self, out: Path, *, reference: bool = False) -> SavedLanguage:
        """Return the model that a fit left in its folder.

        Raises
        ------
        InputError
            For no folder, one that is no model, and whatever :func:`miaudit.models.text.load` refuses.
        """
        from miaudit.models import language  # noqa: PLC0415 - torch is loaded only where it is used

        folder = _left(out)
        how: dict[str, Any] = {name: getattr(self, name) for name in ("longest", "batch", "precision", "device")}
        how |= {"base": self.base, "beside": self.beside, "called": "the fine-tuned model"}
        return language.SavedLanguage(folder, self.reference if reference else None, **how)

    def said(self, out: Path, kept: Path | None = None) -> Said:
        """Ask the model that a fit left about all texts; in a fixed number of threads, so that answers are the same.

        Parameters
        ----------
        kept : folder for the answers, which are read again for the same files of the model; default: none

        Raises
        ------
        InputError
            As of :meth:`saved`, and for a model that cuts texts into other tokens than those asked before.
        """
        folder = _left(out)
        what = (
            "" if kept is None else digest([self.identity(), digest(list(self.texts)), *lying(folder, self.reference)])
        )
        answers = None if kept is None else _read_answers(kept / ANSWERS, what)
        if answers is None:
            answers = self._asked(out)
            if kept is not None:
                _write_answers(kept / ANSWERS, what, answers)
        if _FIRST.setdefault(self, answers.cut) != answers.cut:
            hint = "save one tokenizer with every fit, and never train it on the rows: it would tell who is a member"
            received = "another one: the texts are cut into other tokens, or the vocabulary is of another size"
            raise InputError("{out}/model", "the tokenizer and vocabulary of the other fits", received, hint)
        return answers

    def _asked(self, out: Path) -> Said:
        from miaudit.models import language  # noqa: PLC0415 - torch is loaded only where it is used
        from miaudit.models.devices import device_of, fixed_order  # noqa: PLC0415

        with fixed_order(device_of(self.device)):
            model = self.saved(out)
            outputs = model.tokens(self.texts)[0]
            beside: dict[str, Any] = {}
            if (other := self._of_reference()) is not None:
                beside = {"reference_log_p": other.log_p, "reference_offsets": other.offsets}
        scores = language.scores_of(outputs, self.texts, self.columns, model.name, **beside)
        return Said(scores, digest([digest(outputs.tokens), digest(outputs.offsets), str(model.vocabulary)]))

    def _of_reference(self) -> TokenOutputs | None:
        """What the reference model says, which is asked once in a process."""
        from miaudit.models import text  # noqa: PLC0415 - torch is loaded only where it is used

        if self.reference is None:
            return None
        if self not in _REFERENCES:
            model = text.load(self.reference, precision=self.precision, device=self.device)
            how: dict[str, Any] = {"longest": self.longest, "batch": self.batch}
            _REFERENCES[self] = text.token_log_probabilities(model, self.texts, moments=False, **how)
        return _REFERENCES[self]


_FIRST: WeakKeyDictionary[FineTuned, str] = WeakKeyDictionary()
_REFERENCES: WeakKeyDictionary[FineTuned, TokenOutputs] = WeakKeyDictionary()


def checked_texts(texts: Any) -> list[str]:
    """Return texts as a list, each with something in it.

    Raises
    ------
    InputError
        For none, and for a text that is empty.
    """
    if texts is None:
        hint = "name it: the fine-tuned models are asked about these texts"
        raise InputError("data.text", "a column of texts, for outputs: language-model", "none", hint)
    strings = [str(one) for one in texts]
    empty = next((row for row, one in enumerate(strings) if not one.strip()), None)
    if empty is not None:
        hint = "drop texts that are empty, here and in what the script reads"
        raise InputError("data.text", "a text with a token to score in every row", f"none in row {empty}", hint)
    return strings


def _left(out: Path) -> Path:
    """The folder of the model that a fit left, with the files that make it one."""
    folder = out / MODEL
    save = 'write model.save_pretrained(f"{args.out}/model"), and the same with the tokenizer'
    if not folder.is_dir():
        left = sorted(one.name for one in out.iterdir())[:5] if out.is_dir() else []
        received = f"no such folder in {{out}}{', but ' + ', '.join(left) if left else ', which is empty'}"
        raise InputError("{out}/model", "a folder of save_pretrained", received, save)
    names = {one.name for one in folder.iterdir()}
    if not {CONFIG, ADAPTER} & names:
        received = f"neither config.json nor adapter_config.json, but {', '.join(sorted(names)[:5]) or 'nothing'}"
        raise InputError("{out}/model", "a folder of save_pretrained", received, save)
    if CONFIG in names and not names & {*_TOKENIZER}:
        hint = "write tokenizer.save_pretrained there, or give Trainer its processing_class"
        raise InputError("{out}/model", "the tokenizer beside the model", "none", hint)
    return folder


def lying(*folders: Path | None) -> list[str]:
    """Describe the files of folders: name, size and time of the last change."""
    there = [
        (file, file.stat()) for one in folders if one is not None for file in sorted(one.iterdir()) if file.is_file()
    ]
    return [f"{file.name} {status.st_size} {status.st_mtime_ns}" for file, status in there]


def _read_answers(path: Path, what: str) -> Said | None:
    """What was written of the same model, texts and questions before; None where nothing of these was."""
    try:
        with np.load(path, allow_pickle=False) as held:
            scores = held["scores"]
            same = str(held["what"]) == what and scores.dtype == np.float32 and bool(np.isfinite(scores).all())
            return Said(scores, str(held["cut"])) if same else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write_answers(path: Path, what: str, said: Said) -> None:
    def write(place: Path) -> None:
        with place.open("wb") as handle:
            np.savez(handle, what=np.array(what), cut=np.array(said.cut), scores=said.scores)

    with contextlib.suppress(OSError, OutputError):  # a folder that is read-only is asked once more
        atomic.write_atomically(path, write)
