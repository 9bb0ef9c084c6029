"""``miaudit coins``: memberships that two parties draw together, neither of them trusting the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.command.options import INPUT, OUTPUT, Command, Group, ending, share_option
from miaudit.command.terminal import complain, say
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.io.sealed_coins import Coins

By = Annotated[str, typer.Option("--by", help="What you call yourself, for the record.")]
SecretFile = Annotated[
    Path, typer.Argument(help="The secret file that miaudit coins commit wrote (.json).", show_default=False)
]
AnswerFile = Annotated[
    Path | None,
    typer.Option("--answer", help="The other party's answer (.json).", rich_help_panel=INPUT, show_default=False),
]


def commit(
    coins: Annotated[
        int,
        typer.Option("--coins", help="How many: the records of a run, or its units, each of which has one coin."),
    ],
    runs: Annotated[int, typer.Option("--runs", help="Trainings, each with coins of its own; every one counts.")] = 1,
    records: Annotated[
        Path | None,
        typer.Option("--list", help="File of the records, in the order of the coins: its SHA-256 is committed to."),
    ] = None,
    by: By = "",
    about: Annotated[str, typer.Option("--about", help="What the coins are for, in words.")] = "",
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the two files.", rich_help_panel=OUTPUT, show_default=False)
    ] = Path(),
) -> None:
    """Draw a secret seed and commit to it, before training: step 1, by the trainer.

    Writes coins.secret.json, readable by you alone, and coins.commitment.json. Publish the second,
    or its SHA-256, where the date of a post is shown, and send it to the other party.
    """
    from miaudit.io import sealed_coins

    secret_path, public_path = out / "coins.secret.json", out / "coins.commitment.json"
    if public_path.exists():
        raise InputError("--out", "a folder without coins", f"{public_path}, which exists", "name another folder")
    if records is not None and not records.is_file():
        raise InputError("--list", "an existing file", str(records), "check the spelling")
    listed = None if records is None else sealed_coins.of_file(records)
    wanted: dict[str, Any] = {"coins": coins, "runs": runs, "records": listed, "by": by, "about": about}
    if secret_path.exists():  # of a run that stopped before it wrote the commitment, which nobody has seen
        secret = sealed_coins.Secret.read(secret_path)
        other = next((name for name, value in wanted.items() if getattr(secret.commitment, name) != value), None)
        if other is not None:
            received = f"{secret_path}, which exists, with another {other}"
            raise InputError("--out", "a folder without coins", received, "name another folder")
    else:
        secret = sealed_coins.Secret.new(**wanted)
        secret.write(secret_path)
    secret.commitment.write(public_path)
    say(
        f"Secret: {secret_path}; keep it, and do not show it before the scores are in\n"
        f"Commitment: {public_path}\nSHA-256: {secret.commitment.digest}\n"
        "Publish the commitment, and have it answered: miaudit coins answer"
    )


def answer(
    commitment: Annotated[Path, typer.Argument(help="The trainer's commitment (.json).", show_default=False)],
    by: By = "",
    before: Annotated[
        int, typer.Option("--before", help="Commitments to draws of the same training that you answered before.")
    ] = 0,
    random: Annotated[
        str | None,
        typer.Option(
            "--random",
            help="64 digits from 0 to f of a public random source, of a time after the commitment was published; "
            "default: of this machine's operating system.",
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="<name=value>",
            help="A limit of the audit, repeatable: auc=0.6. Default: the default limits.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[float, share_option("--confidence", help="Of the audit, in (0.5, 1).")] = 0.95,
    tries: Annotated[
        int,
        typer.Option("--tries", help="Scores that may be handed in before the reveal; the audit corrects for them."),
    ] = 1,
    out: Annotated[Path, typer.Option("--out", help="File for the answer.", rich_help_panel=OUTPUT)] = Path(
        "coins.answer.json"
    ),
) -> None:
    """Answer a commitment, once, with random bytes of your own: step 2, by the auditor.

    The answer also fixes limits, confidence and number of scores: an audit by others is refused.
    Send the file back, and publish its SHA-256: it holds that of the commitment, so it shows the order.
    You cannot tell the coins from it, and the other side can no longer choose them.
    """
    from miaudit.findings.policy import checked
    from miaudit.io import sealed_coins
    from miaudit.io.agreed_plan import AgreedPlan

    read = sealed_coins.Commitment.read(commitment)
    plan = AgreedPlan(None if limit is None else dict(checked(limit)), confidence, tries)
    answer_to = sealed_coins.Answer.to(read, by=by, before=before, random=random, plan=plan)
    answer_to.write(out)
    several = f"{read.coins:,} coins" + (f" in each of {read.runs:,} runs" if read.runs > 1 else "")
    whose = f" of {read.by}" if read.by else ""
    say(
        f"Commitment{whose} to {several}: SHA-256 {read.digest}\nAnswer: {out}\nSHA-256: {answer_to.digest}\n"
        "Publish that SHA-256, and send the file back; answer no other commitment to this training"
    )


def draw(
    source: Annotated[
        Path, typer.Argument(help="The secret file, with --answer; or the reveal, afterwards.", show_default=False)
    ],
    answer: AnswerFile = None,
    out: Annotated[
        Path, typer.Option("--out", help="File for the memberships: .csv, or .npy.", rich_help_panel=OUTPUT)
    ] = Path("coins.csv"),
    beside: Annotated[
        Path | None,
        typer.Option(
            help="A table of scores, row by row as the coins: written to --out again, with a column member. From the "
            "reveal only.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    run: Annotated[int, typer.Option("--run", help="Of which run that table is.", rich_help_panel=INPUT)] = 1,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Its column of units, where they share coins.", rich_help_panel=INPUT)
    ] = None,
) -> None:
    """Write who is a member: step 3, by the trainer. Anyone can do it from the reveal.

    A column run1, run2, ... for each run, a row of 0 or 1 for each record, or unit, in their order.
    A configuration with coins: {secret: ..., answer: ...} needs no such file.
    """
    from miaudit.io import drawn_members

    coins, known = _coins(source, answer)
    if beside is not None:
        if not known:
            raise InputError("--beside", "the reveal", "the secret file", "scores are fixed before the coins are told")
        drawn_members.write_beside(out, beside, coins, run=run, unit=unit)
        say(f"{beside} with who was a member of run {run}: {out}")
        return
    if run != 1 or unit is not None:
        raise typer.BadParameter("--run and --unit go with --beside")
    drawn_members.write_members(out, coins, mode=None if known else 0o600)
    counts = [int(coins.of_run(k).sum()) for k in range(1, min(coins.commitment.runs, 8) + 1)]
    more = ", ..." if coins.commitment.runs > len(counts) else ""
    say(f"Members: {', '.join(f'{count:,}' for count in counts)}{more} of {coins.commitment.coins:,}: {out}")
    if not known:
        complain(f"note: {out} is a secret until the scores are in")
    if coins.answer is None:
        complain("note: the commitment was not answered: such coins are one party's choice; give --answer")


def scores(
    files: Annotated[
        list[Path],
        typer.Argument(help="Scores of each run, in the order of the runs: .npy, or a table.", show_default=False),
    ],
    column: Annotated[
        str, typer.Option("--score", help="Column of a table; higher for members.", rich_help_panel=INPUT)
    ] = "score",
    unit: Annotated[
        str | None, typer.Option("--unit", help="Column of units, where they share coins.", rich_help_panel=INPUT)
    ] = None,
) -> None:
    """Print the SHA-256 of scores that are fixed, before the coins are revealed: step 4, by the attacker.

    Send it to the one who trains: the reveal lists it, signed, and the audit says that they were in.
    """
    from miaudit.io import numeric, sealed_coins, tables

    read, units = [], []
    for path in files:
        if path.suffix.lower() == ".npy":
            held = {column: tables.read_array(path, "scores")}
        else:
            held = tables.read_columns(path, [column, *([unit] if unit else [])], "--score")
        if unit is not None and unit not in held:
            raise InputError("--unit", "a table with that column", path.name, "give scores and units in one table")
        read.append(numeric.finite(held[column], "scores", 1))
        units.append(None if unit is None else held[unit])
    say(sealed_coins.of_scores(read, units))


def reveal(
    secret: SecretFile,
    answer: AnswerFile = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            help="SHA-256 of scores that are in (miaudit coins scores); repeat for each.", rich_help_panel=INPUT
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="File for the reveal.", rich_help_panel=OUTPUT)] = Path(
        "coins.reveal.json"
    ),
) -> None:
    """Reveal the coins, once, signed with the answer and the scores that are in: step 5, by the trainer.

    The secret file records what is signed, and then signs nothing else; the same may be signed again.
    Anybody checks it against the commitment, and audits with it: miaudit audit SCORES --coins FILE.
    """
    from miaudit.errors import OutputError, one_line
    from miaudit.io.sealed_coins import checked_digest

    drawn, public = _coins(secret, answer)
    if public or drawn.drawer is None:
        raise InputError(
            "SECRET", "the secret file", f"{secret}, which is a reveal already", "there is nothing to reveal"
        )
    if out.exists():  # before anything is signed
        raise OutputError(one_line(f"{out}: is there already, and kept; name another file"))
    coins = drawn.drawer.coins(drawn.answer, [checked_digest(text, "scores") for text in scores or ()])
    coins.write(out)
    listed = len(coins.scores)
    say(f"Reveal: {out}, signed for {listed} {'score that was' if listed == 1 else 'scores that were'} in")
    if coins.answer is None:
        complain("note: the commitment was not answered: such coins are one party's choice; give --answer")


def _coins(source: Path, answer: Path | None) -> tuple[Coins, bool]:
    """Coins of a secret and the answer to it, not revealed, or of a reveal; and whether they are public."""
    from miaudit.io.sealed_coins import Answer, Coins, Secret, kind_of

    if kind_of(source) == "reveal":
        if answer is not None:
            raise InputError("--answer", "none, beside a reveal", str(answer), "leave it out: the reveal holds it")
        return Coins.read(source), True
    answered = None if answer is None else Answer.read(answer)
    return Secret.read(source).drawn(answered), False


app = typer.Typer(
    name="coins",
    cls=Group,
    help="Sealed coins: draw who is a member together with another party, so that neither has to trust the other. "
    "The one who trains: commit, draw, reveal. The one who attacks: answer, scores, and then miaudit audit --coins.",
    no_args_is_help=True,
    add_completion=False,
)
_EXAMPLES: dict[Callable[..., None], str] = {
    commit: "miaudit coins commit --coins 1000 --by NAME",
    answer: "miaudit coins answer coins.commitment.json",
    draw: "miaudit coins draw coins.secret.json --answer coins.answer.json --out members.csv",
    scores: "miaudit coins scores scores.npy",
    reveal: "miaudit coins reveal coins.secret.json --answer coins.answer.json --scores SHA256",
}
for step, example in _EXAMPLES.items():
    app.command(cls=Command, epilog=ending(example, exit_codes="Exit codes: 0 done; 1 could not run; 2 usage."))(step)
