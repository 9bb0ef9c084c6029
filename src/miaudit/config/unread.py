"""Keys of an audit that nothing reads: they are reported or refused, never ignored.

An option says what has to hold for anything to read it (``Option(applies=...)``). Here is what these circumstances are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from miaudit.errors.options import Option
from miaudit.evidence import Evidence

__all__ = ["CIRCUMSTANCES", "Audited", "Source", "unread"]

Source = Literal["table", "pair", "target", "tokens", "synthetic", "probes", "shards"]
_SOURCES = {
    "synthetic": "beside a synthetic table",
    "tokens": "for token-logprobs",
    "pair": "for two files",
    "probes": "for probes with decoys",
    "shards": "for shards, of which only counts are held",
}
_OF_COMMAND_LINE = {"share": ("scores",), "seal": ("scores",)}
_GIVEN = tuple(
    f"evaluation.{name}" for name in ("propensity", "member_propensities_path", "nonmember_propensities_path")
)
_MODEL, _CLASSIFIER, _SAMPLE, _BOUNDS_MODEL = (
    f"evaluation.{name}" for name in ("propensity_model", "classifier", "propensity_sample_path", "bounds_model")
)


@dataclass(frozen=True)
class Audited:
    """What is known of an audit before it is computed.

    Attributes
    ----------
    source : what the audit reads
    present : keys that were given, with their sections, such as ``reporting.prior``
    signal : what the outputs are, where they are given
    design : as declared, or as the evidence has it
    bounds : whether bounds on privacy parameters are wanted
    evidence : what was read, once it was
    """

    source: Source
    present: frozenset[str]
    signal: str = ""
    design: str | None = None
    bounds: bool = True
    evidence: Evidence | None = None

    @property
    def of_source(self) -> str:
        """The source in words; empty for a table of records and for a target."""
        return _SOURCES.get(self.source, "")

    @property
    def randomised(self) -> bool:
        """Whether chance decided about membership."""
        return self.design in ("one-run", "multi-run", "matched")

    @property
    def covariates(self) -> bool:
        """Whether there are covariates, as far as that is known."""
        return self.evidence is None or self.evidence.covariates is not None

    @property
    def texts(self) -> bool:
        """Whether there are covariates or texts, as far as that is known."""
        return self.evidence is None or self.covariates or self.evidence.text is not None

    @property
    def several_runs(self) -> bool:
        """Whether there are runs to choose from, as far as that is known."""
        one_run = self.evidence is not None and self.evidence.run is None
        return not one_run and self.source != "synthetic"


@dataclass(frozen=True)
class Circumstance:
    """What has to hold for an option to be read.

    Attributes
    ----------
    holds : whether it does
    why : what the option would stand beside where it does not, as a function or a text
    place : what the option goes with
    """

    holds: Callable[[Audited], bool]
    why: Callable[[Audited], str] | str
    place: str

    def reason(self, audited: Audited) -> str:
        """Return in words why nothing reads the option."""
        return self.why if isinstance(self.why, str) else self.why(audited)


def _source(audited: Audited) -> str:
    return audited.of_source


def _design(audited: Audited) -> str:
    return f"with design {audited.design}"


_COLUMN, _COVARIATES = "it names a column of a table", "it goes with covariates, and with zero-run"
CIRCUMSTANCES: Mapping[str, Circumstance] = {
    "synthetic table": Circumstance(lambda a: a.source == "synthetic", "without a synthetic table", "it goes with one"),
    "columns": Circumstance(lambda a: not a.of_source, _source, _COLUMN),
    "score column": Circumstance(lambda a: not a.of_source or a.source in ("probes", "shards"), _source, _COLUMN),
    "member column": Circumstance(lambda a: not a.of_source or a.source == "shards", _source, _COLUMN),
    "probes": Circumstance(lambda a: a.source == "probes", "without probes", "it goes with probes of miaudit decoys"),
    "unit column": Circumstance(lambda a: a.source not in ("tokens", "pair", "probes", "shards"), _source, _COLUMN),
    "two files": Circumstance(
        lambda a: a.source == "pair", "without files of members and of non-members", "it goes with those"
    ),
    "scores": Circumstance(lambda a: a.source != "synthetic", _source, "it goes with scores"),
    "gaussian_lira": Circumstance(
        lambda a: a.source not in ("synthetic", "tokens", "probes", "shards"), _source, "it goes with gaussian_lira"
    ),
    "outputs": Circumstance(lambda a: a.signal != "score", "for scores", "scores are already an attack's"),
    "predictions": Circumstance(lambda a: a.signal != "score", "for scores", "it goes with logits and probabilities"),
    "bounds": Circumstance(lambda a: a.bounds, "without bounds", "it goes with bounds on privacy parameters"),
    "reference files": Circumstance(
        lambda a: a.source != "pair" or "evaluation.member_references_path" in a.present,
        "without files of reference scores",
        "it goes with those of both sides",
    ),
    "chances": Circumstance(
        lambda a: a.source in ("table", "pair", "tokens"),
        lambda a: a.of_source or "for a model that is trained or asked here",
        "it goes with files of scores or outputs",
    ),
    "one-run": Circumstance(lambda a: a.design in (None, "one-run"), _design, "it goes with one-run"),
    "zero-run": Circumstance(lambda a: not a.randomised, _design, "it goes with zero-run"),
    "guesses": Circumstance(lambda a: a.design != "multi-run", _design, "there every run counts"),
    "record order": Circumstance(
        lambda a: a.source not in ("synthetic", "pair", "probes", "shards"),
        _source,
        "it goes with a table of records in one order",
    ),
    "several runs": Circumstance(
        lambda a: a.several_runs, "without several runs", "it goes with one file for each run, or runs: 4"
    ),
    "covariates": Circumstance(lambda a: a.covariates, "without covariates", "it goes with covariates"),
    "covariates or texts": Circumstance(lambda a: a.texts, "without covariates", _COVARIATES),
}


def unread(
    given: Iterable[str],
    options: Mapping[str, Option],
    source: Source,
    *,
    signal: str = "",
    design: str | None = None,
    bounds: bool = True,
    evidence: Evidence | None = None,
) -> Iterator[tuple[str, str, str]]:
    """Yield the keys that were given and that nothing reads, each with the reason and with what it goes with.

    Parameters
    ----------
    given : keys with their sections, such as ``reporting.prior``
    options : what each key says of itself
    source, signal, design, bounds, evidence : as of :class:`Audited`
    """
    audited = Audited(source, frozenset(given), signal, design, bounds, evidence)
    applies = {key: option.applies for key, option in options.items()} | _OF_COMMAND_LINE
    for name, circumstance in CIRCUMSTANCES.items():
        if not circumstance.holds(audited):
            why = circumstance.reason(audited)
            keys = (key for key in applies if key in audited.present and name in applies[key])
            yield from ((key, why, circumstance.place) for key in keys)
    yield from _excluded(audited.present)


def _excluded(present: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the keys on the propensity that another key takes the place of."""
    known = bool(present & set(_GIVEN))
    no_line = known or bool(present & {_CLASSIFIER, _SAMPLE})
    rules = (
        ((_MODEL, _CLASSIFIER, _SAMPLE), known, "beside given propensities", "nothing is learned then"),
        ((_BOUNDS_MODEL,), no_line, "without a line", "it enlarges the one learned here"),
        ((_MODEL,), _CLASSIFIER in present, "beside a classifier", "choose one of the two"),
        ((_MODEL,), _SAMPLE in present, "for a separate sample", "a line is learned from it, or a classifier"),
    )
    for keys, excluded, why, place in rules:
        yield from ((key, why, place) for key in keys if excluded and key in present)
