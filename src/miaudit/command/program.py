"""The command line: text in, exit code out. Everything it does is a function of the library.

A command is loaded when it is called: the help of the program comes from the table below.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer

from miaudit import __version__
from miaudit.command import folders
from miaudit.command.options import Command, Group, ending
from miaudit.command.terminal import complain, interruption
from miaudit.errors import MiauditError, one_line

EXIT_CODES = (
    "Exit codes: 0 within the limits; 1 could not run; 2 usage; 3 concern: a limit exceeded, or a claim refuted; 4 not "
    "answered (inconclusive, refused, not testable or undeclared)."
)
_COULD_RUN = f"Exit code 0 unless it could not run. {EXIT_CODES}"
_DONE = "Exit codes: 0 done; 1 could not run; 2 usage."


@dataclass(frozen=True)
class Entry:
    """What the program knows of a command before it is loaded.

    Attributes
    ----------
    module : of :mod:`miaudit.command`, with a function of the command's name, or with an ``app`` of several
    short : the first paragraph of its help
    examples : commands that stand at the end of its help
    exit_codes : what stands below them
    daily : names of the options of daily use, where ``--help`` shows these alone; ``--help-all`` shows all
    """

    module: str
    short: str
    examples: tuple[str, ...] = ()
    exit_codes: str = ""
    daily: tuple[str, ...] = ()

    @property
    def epilog(self) -> str:
        """The end of its help."""
        return ending(*self.examples, exit_codes=self.exit_codes)


COMMANDS: Mapping[str, Entry] = {
    "demo": Entry(
        "demo",
        "Audit a classifier trained here and now: handwritten digits, a random half of them members (about 5 seconds).",
        (
            "miaudit demo",
            "miaudit demo --seed 1 --out results/other-half",
        ),
        _COULD_RUN,
    ),
    "init": Entry(
        "init",
        "Look at the columns of a file, and draft the configuration that audits it.",
        ("miaudit init scores.csv", "miaudit init member_losses.npy nonmember_losses.npy"),
        _DONE,
    ),
    "run": Entry(
        "run",
        "Audit what a configuration file describes; its relative paths start at the file itself.",
        (
            "miaudit run audit.yaml --dry-run",
            "miaudit run audit.yaml --bundle audit.zip",
        ),
        EXIT_CODES,
    ),
    "collect": Entry(
        "run",
        "Go from the model or outputs that a configuration file describes to evidence, for miaudit audit.",
        ("miaudit collect audit.yaml --out evidence.npz",),
        _COULD_RUN,
    ),
    "canaries": Entry(
        "canaries",
        "Make canaries, records for an audit, and write the data with them for a training that runs elsewhere.",
        (
            "miaudit canaries audit.yaml --kind mislabelled --count 500 --out with_canaries.npz",
            "miaudit canaries digits.npz --x pixels --y digit --kind noise --shape 8,8 --count 500",
        ),
        _DONE,
        ("kind", "count", "x", "y", "text", "ids", "unit", "out"),
    ),
    "decoys": Entry(
        "decoys",
        "Make decoys for the random strings in training texts, and write probes for the model to score.",
        (
            "miaudit decoys documents.jsonl --find uuid4,hex,base64,digits:8 --count 20 --out probes.jsonl",
            "miaudit audit scored.jsonl --design matched --key probes.key.json",
        ),
        "Exit codes: 0 done; 1 could not run, or there is no random string; 2 usage.",
    ),
    "draw": Entry(
        "draw",
        "Write each fit of a campaign into a folder of its own, to be trained by any scheduler; trains nothing.",
        (
            "miaudit draw audit.yaml --out fits",
            "bash fits/commands.txt",
            "miaudit gather fits --out evidence.npz",
        ),
        _DONE,
    ),
    "gather": Entry(
        "draw",
        "Make evidence of the fits that miaudit draw wrote, once they are trained.",
        (
            "miaudit gather fits --out evidence.npz",
            "miaudit audit evidence.npz",
        ),
        "Exit codes: 0 done; 1 could not run, or fits are missing or stale; 2 usage.",
    ),
    "audit": Entry(
        "audit",
        "Audit scores, losses, logits or probabilities of records whose membership is known.",
        (
            "miaudit audit scores.csv --score loss --signal loss --member member --design one-run",
            "miaudit audit --members member_losses.npy --nonmembers nonmember_losses.npy --signal loss",
        ),
        EXIT_CODES,
        (
            *("score", "member", "members", "nonmembers", "signal", "design", "covariates"),
            *("limit", "fpr_targets", "out"),
        ),
    ),
    "disclosure": Entry(
        "disclosure",
        "Compare what probabilities, one confidence, a set of labels or a label give an attacker, and defences "
        "with them.",
        (
            "miaudit disclosure disclosure.yaml --dry-run",
            "miaudit disclosure disclosure.yaml",
        ),
        EXIT_CODES,
    ),
    "usage": Entry(
        "usage",
        "State how many of some records a model was trained on, at least; or test whether a deletion worked.",
        (
            "miaudit usage probes.jsonl --out used",
            "miaudit usage mine.npy --nonmembers never_used.npy --limit used=0.1",
            "miaudit usage after.jsonl --deleted before.jsonl --key probes.key.json",
        ),
        "Exit codes: 0 the bound is stated, or the deletion passes; 1 could not run; 2 usage; 3 concern: more were "
        "used than --limit, or a deviation is beyond the margin; 4 not answered.",
        ("nonmembers", "deleted", "score", "member", "key", "signal", "limit", "out"),
    ),
    "extraction": Entry(
        "extraction",
        "Say how many texts a language model repeats word for word, beside texts that it never saw.",
        (
            "miaudit extraction tokens.jsonl --design one-run --out out",
            "miaudit extraction --generations answers.jsonl --texts private.jsonl --controls public.jsonl",
        ),
        EXIT_CODES,
        (
            *("prefix", "suffix", "queries", "model", "generations", "texts", "controls"),
            *("design", "limit", "out"),
        ),
    ),
    "synthesise": Entry(
        "synthesise",
        "Make a synthetic table from a private one along a causal graph, with a stated privacy guarantee.",
        (
            "miaudit synthesise patients.csv",
            "miaudit synthesise patients/synthesise.yaml --dry-run",
            "miaudit synthesise patients/synthesise.yaml --attack",
        ),
        "Exit codes: 0 a guarantee is proved, or an attack did not refute it; 1 could not run; 2 usage; 3 an attack "
        "refuted it; 4 no privacy was asked for, a draft was written, or an attack could not decide.",
    ),
    "verify": Entry(
        "bundle",
        "Check whether the digests of a bundle fit, and whether its findings follow from its evidence.",
        ("miaudit verify audit.zip", "miaudit verify audit.zip report.html"),
        "Exit codes: 0 verified, whatever the verdict of the audit; 1 could not run; 2 usage; 3 it failed, or the page "
        "belongs to other findings; 4 only a part, or nothing, could be checked.",
    ),
    "challenge": Entry(
        "bundle",
        "Challenge a bundle with a stronger attack, or a better propensity, on the same records.",
        ("miaudit challenge audit.zip --scores scores.npy",),
        "Exit codes: 0 no stronger attack shown; 1 could not run; 2 usage; 3 the challenger won; 4 undecided.",
    ),
    "unseal": Entry(
        "bundle",
        "Open the sealed labels of your bundle, once, and sign which submissions were in before.",
        ("miaudit unseal audit.zip --key audit.key.json --submission SHA256",),
        _DONE,
    ),
    "compare": Entry(
        "compare",
        "Compare two audits, metric by metric, with an interval on each difference.",
        (
            "miaudit compare results/v1 results/v2 --out results/compared",
            "miaudit compare v1.zip v2.zip",
            "miaudit compare results/v1 results/v2 --evidence scores-v1.csv scores-v2.csv",
        ),
        "Exit codes: 0 no rise shown; 1 could not run; 2 usage; 3 leakage rose, or AFTER exceeds a limit; "
        "4 not comparable.",
    ),
    "history": Entry(
        "compare",
        "Line up many audits of one model: a page with the primary metric over time, and each step compared.",
        (
            "miaudit history results/v1 results/v2 results/v3 --out results/history",
            "miaudit history audits --budget 0.05 --out results/history",
        ),
        "Exit codes, of the last step: 0 no rise shown; 1 could not run; 2 usage; 3 leakage rose, or the last audit "
        "exceeds a limit; 4 not comparable. With --budget: 0 no alarm; 3 an alarm at any release; 4 the last audit "
        "gives no answer.",
    ),
    "export": Entry(
        "report",
        "Hand finished findings to a model card, a dossier or MLflow; nothing is computed.",
        (
            "miaudit export results/audit --to model-card --model NAME --out card.md",
            "miaudit export results --to dossier --out dossier.html",
        ),
        _DONE,
    ),
    "report": Entry(
        "report",
        "Draw the page and the figures again from finished findings; nothing is computed.",
        (
            "miaudit report results/audit --overwrite",
            "miaudit report findings.json --out page",
        ),
        "Exit code 0, whatever the findings conclude.",
    ),
    "plan": Entry(
        "plan",
        "Say what an audit will be able to see, before any data is collected, or any score of zero-run records.",
        (
            "miaudit plan --members 1000 --nonmembers 1000",
            "miaudit plan --fpr-targets 0.001 --tpr 0.05",
            "miaudit plan records.csv --member member --covariates age,year",
        ),
        "Exit codes: 0 done; 1 could not run; 2 usage; 4 a zero-run audit would be refused.",
        (
            *("members", "nonmembers", "fpr_targets", "tpr", "claim_epsilon", "claim_delta", "claim_mu"),
            *("member", "covariates", "json"),
        ),
    ),
    "coins": Entry(
        "coins",
        "Sealed coins: draw who is a member together with another party, so that neither has to trust the "
        "other. The one who trains: commit, draw, reveal. The one who attacks: answer, scores, and then "
        "miaudit audit --coins.",
        ("miaudit coins commit --coins 1000", "miaudit coins answer coins.commitment.json"),
    ),
}


def loaded(name: str) -> Any:
    """Import a command and make it what the command line calls.

    Examples
    --------
    >>> [option.name for option in loaded("demo").params]
    ['out', 'overwrite', 'json', 'seed']
    """
    entry = COMMANDS[name]
    module = import_module(f"miaudit.command.{entry.module}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command(name, cls=Command)(getattr(module, name))
    command: Any = typer.main.get_command(app)
    command.epilog, command.daily = entry.epilog, entry.daily
    return command


class _Waiting(Command):
    """A command that is loaded when it is called."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return loaded(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class _Program(Group):
    """Commands whose complaints about arguments hold nothing that steers a terminal, though a file's name may."""

    def __init__(self, *, commands: Any = None, **extra: Any) -> None:
        own = {name: _Waiting(name, help=entry.short) for name, entry in COMMANDS.items()}
        super().__init__(commands={**own, **(commands or {})}, **extra)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _told(), folders.released():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, typer.BadParameter.__mro__[2]):  # what typer calls any complaint
            complaint: Any = error
            complaint.message = one_line(str(complaint.message))
        raise


app = typer.Typer(
    name="miaudit",
    cls=_Program,
    help="How much does a model give away about the records it was trained on, and how far can that number be trusted?",
    epilog=ending("miaudit demo", "miaudit COMMAND --help", exit_codes=EXIT_CODES),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; errors that the user can mend are one line on standard error and exit code 1."""
    before = {number: signal.signal(number, _interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        app()
    except MiauditError as error:
        complain(str(error))
        sys.exit(1)
    except MemoryError:
        complain("out of memory; audit fewer records or columns at a time")
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        complain(f"the operating system refused: {error}")
        sys.exit(1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(number: int, _frame: object) -> None:
    """Stop as the shell expects, but with a line that says what became of the results."""
    complain(interruption())
    sys.exit(128 + number)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"miaudit {__version__}")
        raise typer.Exit
