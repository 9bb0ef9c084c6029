"""``miaudit extraction``: what a language model repeats word for word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from miaudit.command.options import AboutPairs, Json, Out, Overwrite, given, share_option, takes
from miaudit.command.results import check_free, deliver, repeat
from miaudit.command.terminal import progress
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.auditing.extraction import ExtractionPlan
    from miaudit.collect.asked_passages import Asking, PassageAnswers
    from miaudit.findings.extraction import ExtractionFindings
    from miaudit.io.token_records import TokenRecords

_File = Annotated[
    Path | None,
    typer.Argument(
        help="Token log-probabilities (.jsonl, .parquet): a text on each line, with id, member and logprobs. "
        "Non-members are controls. Or use --generations.",
        show_default=False,
    ),
]
_Prefix = Annotated[int, typer.Option(min=0, metavar="<n>", help="Tokens of a text that an attacker has.")]
_Suffix = Annotated[int, typer.Option(min=1, metavar="<n>", help="Tokens that must follow word for word.")]
_Queries = Annotated[int, typer.Option(min=1, metavar="<n>", help="Continuations that an attacker draws.")]
_Chance = Annotated[float, share_option(help="Probability with which a passage has to come out in so many queries.")]
_Near = Annotated[
    float, share_option(help="Share of the tokens that an answer of a model may have edited to be nearly the text.")
]
_Design = Annotated[
    Literal["multi-run", "one-run", "zero-run"] | None,
    typer.Option(
        help="How it was decided which texts were trained on: at random (one-run, multi-run) or not (zero-run). Left "
        "out: no verdict.",
        metavar="<design>",
        show_default=False,
    ),
]
_Confidence = Annotated[float, share_option(help="Of members, controls and their difference together.")]
_Limit = Annotated[
    list[str] | None,
    typer.Option(
        help="extraction=VALUE: by which share of the texts members may exceed controls. By default any excess that "
        "is shown is a concern, and less than 0.05 is within the limits.",
        metavar="<name=value>",
        show_default=False,
    ),
]
_Named = Annotated[bool, typer.Option("--names", help="Name the texts that come out, by their ids, and their units.")]

_PANEL = "A model that is asked"
_of_model = partial(typer.Option, rich_help_panel=_PANEL)
_OF_MODEL: dict[str, tuple[Any, Any]] = {  # the annotation and the default of each option
    "model": (
        Annotated[
            Path | None,
            _of_model(
                "--model",
                help="Folder of the model (save_pretrained), which continues passages. The file needs text, tokens.",
                show_default=False,
            ),
        ],
        None,
    ),
    "base": (
        Annotated[
            Path | None,
            _of_model("--base", help="Folder of the model that it adapts, where it is an adapter.", show_default=False),
        ],
        None,
    ),
    "samples": (
        Annotated[int, _of_model("--samples", min=0, help="Answers drawn of each passage, beside the likeliest.")],
        20,
    ),
    "temperature": (Annotated[float, _of_model("--temperature", help="Of the draws; 1 is the model's own.")], 1.0),
    "top_k": (
        Annotated[int, _of_model("--top-k", min=0, help="Likeliest tokens that a draw chooses from; 0 for all.")],
        0,
    ),
    "passages": (
        Annotated[int, _of_model("--passages", min=1, help="Passages asked of each text, from its beginning.")],
        1,
    ),
    "batch": (Annotated[int, _of_model("--batch", min=1, help="Passages in one pass through the model.")], 16),
    "device": (Annotated[str, _of_model("--device", help="auto, cpu, cuda or cuda:N.")], "auto"),
    "store": (
        Annotated[
            Path | None,
            _of_model(
                "--store",
                help="Folder that keeps how far each answer was, as they come: a killed run goes on from it.",
                show_default=False,
            ),
        ],
        None,
    ),
    "seed": (Annotated[int, _of_model("--seed", min=0, help="Of the draws.")], 0),
}

_ANSWERS = "Answers that were made elsewhere"
_of_answers = partial(typer.Option, rich_help_panel=_ANSWERS, show_default=False)
_OF_ANSWERS: dict[str, tuple[Any, Any]] = {
    "generations": (
        Annotated[
            Path | None,
            _of_answers(
                "--generations",
                help="Answers of the model (.jsonl): answer, or text, on each line. Optional: prompt, whose words do "
                "not count, and targets, the ids of the texts to compare with.",
            ),
        ],
        None,
    ),
    "texts": (
        Annotated[
            Path | None,
            _of_answers("--texts", help="Private texts (.jsonl): text, perhaps id, unit."),
        ],
        None,
    ),
    "controls": (
        Annotated[
            Path | None,
            _of_answers("--controls", help="Similar texts that the model never saw."),
        ],
        None,
    ),
}
_NOT_OF_ANSWERS = ("prefix", "queries", "chance")


@takes(**_OF_ANSWERS, **_OF_MODEL)
def extraction(
    context: typer.Context,
    file: _File = None,
    prefix: _Prefix = 50,
    suffix: _Suffix = 50,
    queries: _Queries = 100,
    chance: _Chance = 0.5,
    near: _Near = 0.1,
    design: _Design = None,
    confidence: _Confidence = 0.95,
    limit: _Limit = None,
    names: _Named = False,
    *,
    about: AboutPairs = None,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Say how many texts a language model repeats word for word, beside texts that it never saw.

    Log-probabilities of each token are enough. With --model, miaudit asks the model as well, and counts texts that come
    out nearly word for word. With --generations, it compares answers made elsewhere with private texts and controls, in
    words and punctuation marks. Members that exceed controls by more than the limit are a concern (exit code 3).
    """
    from miaudit.auditing.extraction import ExtractionPlan
    from miaudit.command.keys import validated
    from miaudit.config.about import Stated, pairs_of
    from miaudit.findings.policy import checked
    from miaudit.report import extraction_page

    check_free(out, overwrite=overwrite)
    stated = validated({"about": pairs_of(about or ())}, Stated).stated
    files = _files(context, file, *(options.pop(name) for name in _OF_ANSWERS))
    plan = ExtractionPlan(prefix, suffix, queries, chance, near, confidence, None if not limit else checked(limit))
    if isinstance(files, Path):
        findings = _audited(files, plan, _model_of(context, **options), design=design or "", names=names)
    else:
        findings = _compared(files, plan, design=design or "", names=names)
    findings = replace(findings, about=stated)
    deliver(findings, lambda: extraction_page.text(findings), out, overwrite=overwrite, json=json)


@dataclass(frozen=True)
class _AskedModel:
    """A model that is asked to go on from the beginning of passages, and how.

    Attributes
    ----------
    folder : of the model
    base : folder of the model that it adapts, or None where it is no adapter
    asking : how it is asked
    device : auto, cpu, cuda or cuda:N
    store : folder that keeps how far each answer was, or None
    """

    folder: Path
    base: Path | None
    asking: Asking
    device: str
    store: Path | None

    def answers(
        self, records: TokenRecords, plan: ExtractionPlan, progress: Callable[[int, int], None] | None
    ) -> PassageAnswers:
        """Ask it about the passages of a plan."""
        from miaudit.collect.asked_passages import ask_passages

        return ask_passages(
            records,
            self.folder,
            base=self.base,
            asking=self.asking,
            prefix=plan.prefix,
            suffix=plan.suffix,
            device=self.device,
            store=self.store,
            progress=progress,
        )


def _files(
    context: typer.Context, file: Path | None, answers: Path | None, texts: Path | None, controls: Path | None
) -> Path | tuple[Path, Path, Path]:
    """Return the file of log-probabilities, or those of answers, texts and controls; refuse others beside them."""
    typed = given(context)
    if answers is None:
        for name in ("texts", "controls"):
            if name in typed:
                raise InputError(f"--{name}", "--generations beside it", "none", "name the file of answers")
        if file is None:
            hint = "or --generations answers.jsonl --texts private.jsonl --controls public.jsonl"
            raise InputError("FILE", "a file of token log-probabilities", "none", hint)
        return file
    if file is not None:
        raise InputError("FILE", "none beside --generations", str(file), "leave one of the two out")
    for parameter in context.command.params:
        of_model = getattr(parameter, "rich_help_panel", None) == _PANEL
        if parameter.name in typed and (of_model or parameter.name in _NOT_OF_ANSWERS):
            option = parameter.opts[0]
            raise InputError(option, "no such option beside --generations", option, "leave it out: answers are made")
    if texts is None:
        raise InputError("--texts", "a file of private texts", "none", "add --texts private.jsonl")
    if controls is None:
        hint = "add --controls public.jsonl, or boilerplate counts as memorised"
        raise InputError("--controls", "a file of texts that the model cannot have seen", "none", hint)
    return answers, texts, controls


def _compared(files: tuple[Path, Path, Path], plan: ExtractionPlan, *, design: str, names: bool) -> ExtractionFindings:
    """Compare answers that were made elsewhere with texts and controls."""
    from miaudit.collect.generations import audit_generations

    with progress("MB of answers", meanwhile="reading and counting") as advance:
        return audit_generations(*files, plan, design=design, names=names, progress=advance, repeat=repeat())


def _audited(
    file: Path, plan: ExtractionPlan, model: _AskedModel | None, *, design: str, names: bool
) -> ExtractionFindings:
    """Read the file, ask the model if there is one, and count what comes out."""
    from miaudit.collect.extraction import audit_extraction
    from miaudit.io import token_files

    with progress("passes", meanwhile="reading and counting") as advance:
        records = token_files.read(file)
        answers = None if model is None else model.answers(records, plan, advance)
        findings = audit_extraction(records, plan, answers=answers, design=design, names=names, repeat=repeat())
    return replace(findings, source=file.name)


def _model_of(
    context: typer.Context, *, model: Path | None, base: Path | None, device: str, store: Path | None, **asking: Any
) -> _AskedModel | None:
    """Return the model that is asked, if one is named; refuse options of a model without it."""
    from miaudit.collect.asked_passages import Asking

    if model is not None:
        return _AskedModel(model, base, Asking(**asking), device, store)
    typed = given(context)
    for parameter in context.command.params:
        if getattr(parameter, "rich_help_panel", None) == _PANEL and parameter.name in typed:
            raise InputError(parameter.opts[0], "--model beside it", "none", "name the folder of the model")
    return None
