"""The command line: text in, exit code out. Everything it does is a function of the library."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from miaudit import __version__
from miaudit.command import coins as sealed
from miaudit.command.audit import audit
from miaudit.command.bundle import challenge, unseal, verify
from miaudit.command.canaries import canaries
from miaudit.command.compare import compare, history
from miaudit.command.demo import demo
from miaudit.command.disclosure import disclosure
from miaudit.command.draw import draw, gather
from miaudit.command.extraction import extraction
from miaudit.command.init import init
from miaudit.command.options import EXIT_CODES
from miaudit.command.plan import plan
from miaudit.command.report import export, report
from miaudit.command.results import complain
from miaudit.command.run import collect, run
from miaudit.command.synthesise import synthesise
from miaudit.errors import MiauditError, one_line


class _Program(TyperGroup):
    """Commands whose complaints about arguments hold nothing that steers a terminal, though a file's name may."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, typer.BadParameter.__mro__[2]):  # what typer calls any complaint
            error.message = one_line(str(error.message))  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="miaudit",
    cls=_Program,
    help="How much does a model give away about the records it was trained on, and how far can that number be trusted?",
    epilog=f"Start with: miaudit demo. {EXIT_CODES}",
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
    complain("interrupted; no results were written")
    sys.exit(128 + number)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"miaudit {__version__}")
        raise typer.Exit


_COULD_RUN = f"Exit code 0 unless it could not run. {EXIT_CODES}"
app.command(epilog=_COULD_RUN)(demo)
app.command(epilog="Exit codes: 0 done; 1 could not run; 2 usage. Example: miaudit init scores.csv")(init)
app.command(epilog=EXIT_CODES)(run)
app.command(epilog=_COULD_RUN)(collect)
app.command(
    epilog="Exit codes: 0 done; 1 could not run; 2 usage. Examples: miaudit canaries audit.yaml --kind mislabelled "
    "--count 500 --out with_canaries.npz; miaudit canaries digits.npz --x pixels --y digit --kind noise --shape 8,8 "
    "--count 500"
)(canaries)
app.command(
    epilog="Exit codes: 0 done; 1 could not run; 2 usage. "
    "Example: miaudit draw audit.yaml --out fits; bash fits/commands.txt; miaudit gather fits --out evidence.npz"
)(draw)
app.command(
    epilog="Exit codes: 0 done; 1 could not run, or fits are missing or stale; 2 usage. "
    "Example: miaudit gather fits --out evidence.npz; miaudit audit evidence.npz"
)(gather)
app.command(epilog=f"Example: miaudit audit scores.npz --score loss --signal loss --member member. {EXIT_CODES}")(audit)
app.command(epilog=f"Example: miaudit disclosure examples/disclosure/sklearn.yaml --dry-run. {EXIT_CODES}")(disclosure)
app.command(
    epilog="Example: miaudit extraction tokens.jsonl --prefix 50 --suffix 50 --queries 100 --design one-run --out out. "
    f"{EXIT_CODES}"
)(extraction)
app.command(
    epilog="Exit codes: 0 a guarantee is proved; 1 could not run; 2 usage; 4 no privacy was asked for, or a draft was "
    "written. Examples: miaudit synthesise patients.csv; miaudit synthesise patients/synthesise.yaml --dry-run"
)(synthesise)
app.command(
    epilog="Exit codes: 0 verified; 1 could not run; 2 usage; 3 it failed; "
    "4 only a part, or nothing, could be recomputed."
)(verify)
app.command(epilog="Exit codes: 0 the bundle stands; 1 could not run; 2 usage; 3 the challenger won; 4 undecided.")(
    challenge
)
app.command(epilog="Exit codes: 0 done; 1 could not run; 2 usage.")(unseal)
coins = typer.Typer(
    name="coins",
    help="Sealed coins: draw who is a member together with somebody else, so that neither has to trust the other. "
    "The one who trains: commit, draw, reveal. The one who attacks: answer, scores, and then miaudit audit --coins.",
    no_args_is_help=True,
)
for step in (sealed.commit, sealed.answer, sealed.draw, sealed.scores, sealed.reveal):
    coins.command(epilog="Exit codes: 0 done; 1 could not run; 2 usage.")(step)
app.add_typer(coins)
app.command(epilog="Exit codes: 0 no rise shown; 1 could not run; 2 usage; 3 leakage rose; 4 not comparable.")(compare)
app.command(
    epilog="Exit codes, of the last step: 0 no rise shown; 1 could not run; 2 usage; 3 leakage rose; 4 not comparable."
)(history)
app.command(
    epilog="Exit codes: 0 done; 1 could not run; 2 usage. "
    "Example: miaudit export results/audit --to model-card --model NAME --out card.md"
)(export)
app.command(epilog="Exit code 0, whatever the findings conclude.")(report)
app.command(
    epilog="Exit codes: 0 done; 1 could not run; 2 usage; 4 a zero-run audit would be refused. Examples: miaudit plan "
    "--members 1000 --nonmembers 1000; miaudit plan --fpr 0.001 --tpr 0.05; miaudit plan records.csv --member member "
    "--covariates age,year"
)(plan)
