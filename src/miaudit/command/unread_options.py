"""Options of ``miaudit audit`` that its input or its design has no use for: refused, never ignored in silence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from miaudit.command.terminal import complain

if TYPE_CHECKING:
    from miaudit.evidence import Evidence

SYNTHETIC, TOKENS, PAIR, TABLE = "synthetic", "tokens", "pair", "table"  # what an audit reads

_COLUMNS = ("score", "member", "labels", "covariates", "text", "group")
_FILES_OF_LABELS = ("member_labels", "nonmember_labels")
_OF_TABLES = ("schema", "secret", "known", "records")
_OF_ZERO_RUN = ("categories", "components", "estimator", "raw_only", "correction", "margin")
_OF_BOUNDS = ("delta", "guesses", "correction", "margin")
_OF_BUNDLES = ("share", "seal")
_UNREAD = {  # by what is read
    SYNTHETIC: (*_COLUMNS, *_FILES_OF_LABELS, "signal", "attack", *_OF_ZERO_RUN, "headline", *_OF_BUNDLES),
    TOKENS: (*_FILES_OF_LABELS, *_OF_TABLES),
    PAIR: _OF_TABLES,
    TABLE: (*_FILES_OF_LABELS, *_OF_TABLES),
}
_WHERE = {
    **dict.fromkeys(_OF_TABLES, "--synthetic"),
    **dict.fromkeys(_FILES_OF_LABELS, "--members and --nonmembers, for logits and probabilities"),
    **dict.fromkeys(_OF_ZERO_RUN, "--design zero-run"),
    **dict.fromkeys(("categories", "components"), "--covariates and --design zero-run"),
    "labels": "logits and probabilities of a table",
}


def given(context: typer.Context) -> frozenset[str]:
    """Return the names of the parameters that were written on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def refuse_unread(names: frozenset[str], kind: str, signal: str) -> None:
    """Refuse options that nothing reads, as far as the input tells.

    Parameters
    ----------
    names : of the parameters that were given
    kind : SYNTHETIC, TOKENS, PAIR or TABLE
    signal : what the scores are

    Raises
    ------
    typer.BadParameter
        Naming the first such option, and where it is of use.
    """
    _refuse(names, _UNREAD[kind], f"the input is {_SAID[kind]}")
    if signal == "score":  # of other signals those who read them know
        _refuse(names, ("labels", *_FILES_OF_LABELS), f"--signal is {signal}")
    if "no_bounds" in names:
        _refuse(names, _OF_BOUNDS, "--no-bounds leaves them out")


_SAID = {SYNTHETIC: "a synthetic table", TOKENS: "a file of token-logprobs", PAIR: "two files", TABLE: "a table"}


def refuse_of_design(names: frozenset[str], evidence: Evidence) -> None:
    """Refuse options that the design of the evidence has no use for; of an undeclared one, which may be any, say so."""
    design = evidence.design
    if evidence.covariates is None:
        _refuse(names, ("categories",), "there are no covariates")
        if evidence.text is None:
            _refuse(names, ("components",), "there are no covariates")
    if design is None:
        for name in sorted(names.intersection(_OF_ZERO_RUN)):
            complain(f"note: --{name.replace('_', '-')} is of use with --design zero-run; no design is declared")
    if design in ("one-run", "multi-run"):
        _refuse(names, _OF_ZERO_RUN, f"the design is {design}")
    if design == "multi-run":
        _refuse(names, ("guesses",), "the design is multi-run, where every run counts")


def _refuse(names: frozenset[str], unread: Iterable[str], why: str) -> None:
    for name in unread:
        if name in names:
            place = f"it goes with {_WHERE[name]}" if name in _WHERE else "leave it out"
            raise typer.BadParameter(f"--{name.replace('_', '-')} would not be used: {why}; {place}")
