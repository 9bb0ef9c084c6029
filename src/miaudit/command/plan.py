"""``miaudit plan``: what an audit will be able to see."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import typer

from miaudit.command import keys, options
from miaudit.command.keys import taken
from miaudit.command.options import OUTPUT, ZERO_RUN, Seed, flag, share_option
from miaudit.command.terminal import complain, progress_of_all, say
from miaudit.config.audit import Options
from miaudit.errors import InputError
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import percent, written

if TYPE_CHECKING:
    import numpy as np

    from miaudit.auditing.outlook import Outlook, Wish
    from miaudit.auditing.plan import Plan
    from miaudit.auditing.power_of_matched import MatchedReach
    from miaudit.auditing.power_of_usage import UsageReach

_DESIGNS = {"one-run": "one run", "multi-run": "one model for each record"}


_OF_TABLE = ("member", "covariates", "text", "unit")
_OF_SIDES = tuple(f"{side}_{kind}" for kind in ("covariates", "texts", "units") for side in ("member", "nonmember"))
_LEARNED = ("categories", "exclude_levels", "components", "estimator", "propensity_model")
_OF_ZERO_RUN = (*_OF_TABLE, *_OF_SIDES, *_LEARNED)
_OF_NUMBERS = ("guesses", "delta", "claim_epsilon", "claim_delta", "claim_mu")


@options.takes(**{name: taken(name) for name in (*_OF_ZERO_RUN, "fpr_targets", "confidence", *_OF_NUMBERS)})
def plan(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="For zero-run: a table (.npz, .parquet, .csv) with a column of membership and covariates, no scores.",
            show_default=False,
        ),
    ] = None,
    members: Annotated[int | None, typer.Option(help="Members (or units of members) that you can audit.")] = None,
    nonmembers: Annotated[int | None, typer.Option(help="Non-members that you can audit.")] = None,
    decoys: Annotated[
        int | None,
        typer.Option(
            help="Decoys of each record, for audits of the design matched and for miaudit usage; --members says of how "
            "many records."
        ),
    ] = None,
    tpr: Annotated[
        float | None, share_option(help="A TPR that you wish to detect: how many records does it need?")
    ] = None,
    threshold_for_concern: Annotated[
        float | None, share_option(help="To tell from this TPR instead of from chance.")
    ] = None,
    power: Annotated[float, share_option(help="Share of such audits that should succeed.")] = 0.8,
    half_width: Annotated[
        float | None,
        share_option(help="A half-width of the AUC's interval to reach.", rich_help_panel=ZERO_RUN),
    ] = None,
    auc: Annotated[float | None, share_option(help="An AUC to tell from one half.", rich_help_panel=ZERO_RUN)] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print plain values.", rich_help_panel=OUTPUT)] = False,
    seed: Seed = 0,
    **_chosen: Any,
) -> None:
    """Say what an audit will be able to see, before any data is collected, or any score of zero-run records.

    From covariates of records that were not assigned at random: what would refuse it, how wide it is, what helps.
    """
    options_given = options.given(context)
    if file is not None or {*_OF_TABLE, *_OF_SIDES} & set(options_given):
        for name in ("members", "nonmembers", "tpr", "threshold_for_concern", *_OF_NUMBERS):
            if name in options_given:
                raise typer.BadParameter(f"{flag(name)} goes with numbers of records, not with covariates")
        _zero_run(file, options_given, {"power": power, "half_width": half_width, "auc": auc}, seed, json=json)
    for name in ("half_width", "auc", *_LEARNED):
        if name in options_given:
            raise typer.BadParameter(f"{flag(name)} goes with covariates: a FILE, or files of both classes")
    if decoys is not None:
        _of_decoys(members, decoys, options_given, seed, json=json)
    question = _Question.of(members, nonmembers, tpr, threshold_for_concern, power)
    with progress_of_all("plan") as advance:
        answer, claim = _answered(question, options_given, seed, advance)
    say(dumps(answer, indent=1) if json else _text(answer, question, claim))


# -- matched strings, usage and deletion -------------------------------------------------------------------------------


def _of_decoys(members: int | None, decoys: int, options: dict[str, Any], seed: int, *, json: bool) -> NoReturn:
    """Say what a matched audit, and miaudit usage, would show of so many records with so many decoys each."""
    import numpy as np

    from miaudit.auditing import power_of_matched, power_of_usage

    if members is None:
        raise typer.BadParameter("--decoys goes with --members, the number of records")
    for name in options:
        if name not in ("members", "decoys", "confidence", "power", "seed", "json"):
            raise typer.BadParameter(f"{flag(name)} is not read beside --decoys")
    confidence = options.get("confidence", 0.95)
    used = power_of_usage.reach(members, decoys, confidence=confidence, rng=np.random.default_rng(seed))
    matched = power_of_matched.reach(members, decoys, confidence=confidence, power=options.get("power", 0.8))
    plain = {**asdict(used), "matched": asdict(matched)}
    say(dumps(plain, indent=1) if json else "\n".join([*_matched_text(matched), *_usage_text(used)]))
    raise typer.Exit(0)


def _matched_text(reach: MatchedReach) -> Iterator[str]:
    yield f"With {reach.units:,} records and {reach.decoys:,} decoys each ({percent(reach.confidence)} confidence):"
    yield "An audit of the design matched:"
    often = f"in {reach.power:.0%} of audits"
    yield f"  AUC: {amount('auc', reach.smallest_auc, 'up')} or more is distinguished from 0.5 {often}"
    rank = percent(reach.smallest_rank, "up")
    yield f"  Rank test: distinguishes true strings that exceed {rank} or more of their decoys on average, {often}"
    yield f"  TPR: has a lower limit at an FPR of {percent(reach.smallest_fpr, 'up', 2)} or more"
    apart = ", ".join(f"{one:g}" for one in reach.separations)
    shown = ", ".join(written(one, ".2f") for one in reach.shown)
    yield f"  Bound on mu for replacing a record, if the true strings score {apart} standard deviations higher:"
    yield f"    about {shown}; at most {written(reach.most, '.2f', 'up')}. Half of it holds for adding or removing one."


def _usage_text(reach: UsageReach) -> Iterator[str]:
    yield "miaudit usage, with the same scores:"
    apart = ", ".join(f"{one:g}" for one in reach.separations)
    yield f"  Lower bound to expect if the scores of used records are higher by {apart} standard deviations:"
    for share, bounds in zip(reach.shares, reach.bounds, strict=True):
        shown = ", ".join(percent(bound, "down", 2) for bound in bounds)
        yield f"    {percent(share)} used: at least {shown}"
    if reach.passes is None:
        yield "  A deletion cannot be tested: it needs at least 20 records with 9 decoys each."
    else:
        yield (
            f"  A deletion that leaves no trace passes in {reach.passes:.0%} of tests (margin {reach.margin:g}), if "
            "the scores find the records before it."
        )


# -- zero-run ----------------------------------------------------------------------------------------------------------


def _zero_run(file: Path | None, options: dict[str, Any], wishes: dict[str, Any], seed: int, *, json: bool) -> NoReturn:
    """Say what an audit by covariates would see, and exit as that audit would without leakage."""
    import numpy as np

    from miaudit.auditing import outlook
    from miaudit.collect import known_before, outputs

    unused, why = (
        (_OF_TABLE, "without a FILE; give files of both classes")
        if file is None
        else (_OF_SIDES, "beside a FILE; name its columns")
    )
    for name in unused:
        if name in options:
            raise typer.BadParameter(f"{flag(name)} would not be used {why}")
    of_plan = {name: value for name, value in options.items() if name in (*_LEARNED, "fpr_targets", "confidence")}
    audited = keys.validated(keys.content(of_plan), Options).plan()
    assumed = ""
    if file is None:
        members, nonmembers = _side("member", options), _side("nonmember", options)
        evidence = outputs.unscored(None, members=members, nonmembers=nonmembers)
    else:
        columns, assumed = _columns(file, options, audited.categories)
        evidence = outputs.unscored(file, **columns, categories=audited.categories)
        for doubt in known_before.doubts(file, columns.get("covariates")):
            complain(doubt)
    with progress_of_all("plan") as advance:
        forecast = outlook.of(evidence, audited, **wishes, rng=np.random.default_rng(seed), progress=advance)
    if assumed:
        complain(assumed)
    say(dumps(asdict(forecast), indent=1) if json else "\n".join(_outlook_text(forecast)))
    raise typer.Exit(0 if forecast.answered else 4)


def _side(side: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the files of one class by what they hold."""
    return {kind: options[f"{side}_{kind}"] for kind in ("covariates", "texts", "units") if f"{side}_{kind}" in options}


def _columns(file: Path, options: dict[str, Any], categories: Collection[str]) -> tuple[dict[str, Any], str]:
    """Return columns of a table by what they hold, and in words what is assumed of membership from their names."""
    from miaudit.config import assumed
    from miaudit.io import roles, tables

    named = {name: options[name] for name in _OF_TABLE if name in options}
    columns: dict[str, Any] = keys.content(named).get("evaluation", {})
    names = tables.column_names(file) if file.suffix.lower() in roles.TABLES else []
    saved = bool(roles.saved("covariate", names))
    if names and not ({"covariates", "text"} & options.keys() or saved):
        and_member = "" if {"member"} & {*options, *names} else ", and --member NAME where no name tells it"
        allowed = f"names of columns (--covariates NAMES), or a text (--text NAME){and_member}"
        raise InputError("covariates", allowed, "none", "add it")
    covariates = columns.get("covariates", ())
    chosen = [covariates] if isinstance(covariates, str) else list(covariates)
    beyond = [name for name in categories if name in names and name not in chosen]
    if chosen and beyond:
        hint = f"add {'it' if len(beyond) == 1 else 'them'}: --covariates {shlex.quote(','.join([*chosen, *beyond]))}"
        raise InputError("categories", f"names of covariates ({', '.join(chosen)})", ", ".join(beyond), hint)
    if "member" in options or not names or (saved and "member" in names):
        return columns, ""
    assumption, roles_of_columns = assumed.assume(file, {"score": ""})
    assumption.check(file, roles_of_columns)
    return {**columns, "member": assumption.options["member"]}, assumption.sentence


def _outlook_text(outlook: Outlook) -> Iterator[str]:
    count = f"{outlook.members:,} members and {outlook.nonmembers:,} non-members"
    become = "answered" if outlook.answered else "refused"
    yield f"A zero-run audit of {count} would be {become}, as far as covariates decide."
    yield from (f"  {reason}" for reason in outlook.reasons)
    if outlook.overlap is not None:
        blind, heaviest = outlook.overlap.blind_auc, outlook.overlap.largest_weight
        independent = math.floor(outlook.overlap.effective_sample_size)
        yield (
            f"  The covariates alone tell members from non-members by an AUC of {blind:.3f}; weighted, the non-members "
            f"count for {independent:,} independent ones, the heaviest for {heaviest:.1%}."
        )
        yield from (f"  {warning}" for warning in outlook.overlap.warnings)
    if outlook.half_width is not None and outlook.smallest_auc is not None:
        yield (
            f"Without leakage ({percent(outlook.confidence)} intervals), from a score that has nothing to do with the "
            "covariates to one that follows them as far as one can:"
        )
        yield f"  AUC: within {outlook.half_width[0]:.3f} to {outlook.half_width[1]:.3f} of 0.5"
        low, high = (amount("auc", value, "up") for value in outlook.smallest_auc)
        yield f"  AUC: {low} to {high} or more would be distinguished from 0.5 in {outlook.power:.0%} of audits"
        for level in outlook.levels:
            limits = f"{percent(level.low, 'down')} to {percent(level.high, 'up')}"
            shown = limits if level.resolvable else f"no lower limit, and {percent(level.high, 'up')} or less"
            yield f"  TPR at an FPR of {percent(level.fpr)}: {shown}, for a score of the first kind"
    yield from (f"To {_WISHED[wish.wanted]} {wish.value:g}: {_records(wish)}" for wish in outlook.wishes)
    if not outlook.answered:
        yield "What would help, each by itself:" if outlook.remedies else "Nothing that was tried would help."
        yield from (f"  {remedy.text}" for remedy in outlook.remedies)


_WISHED = {"half_width": "know the AUC within", "auc": "tell from 0.5 an AUC of"}


def _records(wish: Wish) -> str:
    """Say how many records a wish takes, for the best and for the worst score."""
    if max(wish.factor) <= 1:
        return "the records there are suffice"
    best, worst = wish.nonmembers
    times = f"{max(1.0, wish.factor[0]):.1f} to {wish.factor[1]:.1f} times as many of both classes"
    if best is None:
        return f"more non-members alone do not suffice; {times} would, if further ones are like these"
    most = "more than there can be" if worst is None else f"{worst:,}"
    return f"{best:,} to {most} non-members in all, or {times}, if further ones are like these"


# -- numbers of records ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """Members and non-members, or units of them, that can be audited."""

    members: int
    nonmembers: int


@dataclass(frozen=True)
class _Question:
    """A question about numbers of records.

    Attributes
    ----------
    counts : what they can show; None if they are to be found
    tpr : to be detected, or None
    threshold : TPR from which it is to be distinguished, or None for chance
    power : share of such audits that should succeed
    """

    counts: _Counts | None
    tpr: float | None
    threshold: float | None
    power: float

    @classmethod
    def of(
        cls, members: int | None, nonmembers: int | None, tpr: float | None, threshold: float | None, power: float
    ) -> Self:
        """Return the question that the options ask, or refuse to answer half of one."""
        if (members is None) != (nonmembers is None) or (members is None and tpr is None):
            raise typer.BadParameter("give --members and --nonmembers, or a --tpr to detect, or all three")
        counts = None if members is None or nonmembers is None else _Counts(members, nonmembers)
        return cls(counts, tpr, threshold, power)


def _answered(
    question: _Question, options: dict[str, Any], seed: int, progress: Callable[[int, int], None] | None
) -> tuple[dict[str, Any], object]:
    """Return the answer in plain values, and the claim that it is about; ``options`` are those of the command line."""
    import numpy as np

    from miaudit.auditing import stage_costs

    of_plan = {name: value for name, value in options.items() if name in ("fpr_targets", "confidence", *_OF_NUMBERS)}
    audited = keys.validated(keys.content(of_plan), Options).plan()
    claim = None if audited.bounds is None else audited.bounds.claim
    if claim is not None and question.counts is None:
        raise typer.BadParameter("a claim is refuted by records: give --members and --nonmembers too")
    smallest = min(audited.fpr_targets)
    if question.tpr is not None and not smallest < question.tpr < 1:
        raise InputError(
            "--tpr", f"a number above the smallest FPR ({smallest:g}) and below 1", str(question.tpr), "change it"
        )
    answer: dict[str, Any] = {"confidence": audited.confidence, "power": question.power}
    rng = np.random.default_rng(seed)
    nonmembers = None if question.counts is None else question.counts.nonmembers
    with stage_costs.reported_counts(audited, nonmembers, question.tpr, progress):
        if question.counts is not None:
            delta = options.get("delta", taken("delta")[1])
            answer |= _within_reach(question.counts, question, audited, delta, rng)
        if question.tpr is not None:
            answer["needed"] = _needed(question.tpr, question, audited, rng)
    return answer, claim


def _within_reach(
    counts: _Counts, question: _Question, audited: Plan, delta: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return what so many records can show: TPRs, an AUC, bounds of several runs and of one, and of a claim."""
    from miaudit.auditing import power as power_of
    from miaudit.auditing import power_of_runs

    confidence, guesses = audited.confidence, None if audited.bounds is None else audited.bounds.guesses
    sizes: dict[str, Any] = {**asdict(counts), "confidence": confidence}
    targets = [
        power_of.at_fpr(fpr, power=question.power, threshold=question.threshold, rng=rng, **sizes)
        for fpr in audited.fpr_targets
    ]
    canaries = 2 * min(counts.members, counts.nonmembers)
    runs = power_of_runs.reach(canaries, confidence=confidence, guesses=guesses, rng=rng)
    sizes["guesses"] = guesses
    designs: tuple[power_of.BoundedDesign, ...] = ("one-run", "multi-run")
    answer: dict[str, Any] = {
        "targets": [asdict(one) for one in targets],
        "smallest_auc": power_of.smallest_auc(counts.members, counts.nonmembers, confidence, question.power),
        "several_runs": [asdict(one) for one in runs],
        "bounds": [asdict(power_of.reach(design, delta=delta, **sizes)) for design in designs],
    }
    claim = None if audited.bounds is None else audited.bounds.claim
    if claim is not None:
        answer["claim"] = [asdict(power_of.refutation(claim, design, **sizes)) for design in designs]
    return answer


def _needed(tpr: float, question: _Question, audited: Plan, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return how many records of each class a TPR needs at each FPR below it."""
    from miaudit.auditing import power as power_of

    return [
        {
            "fpr": fpr,
            "tpr": tpr,
            "records_per_class": power_of.records_needed(
                fpr, tpr, confidence=audited.confidence, power=question.power, threshold=question.threshold, rng=rng
            ),
        }
        for fpr in audited.fpr_targets
        if fpr < tpr
    ]


def _text(answer: dict[str, Any], question: _Question, claim: object) -> str:
    lines = []
    if question.counts is not None:
        counted = f"{question.counts.members:,} members and {question.counts.nonmembers:,} non-members"
        lines.append(f"With {counted} ({percent(answer['confidence'])} intervals):")
        for t in answer["targets"]:
            if t["smallest_tpr"] is None:
                lines.append(
                    f"  FPR {percent(t['fpr'])}: not resolvable, an upper limit only; "
                    f"needs {t['nonmembers_needed']:,} non-members"
                )
            else:
                lines.append(
                    f"  FPR {percent(t['fpr'])}: a TPR of {percent(t['smallest_tpr'], 'up')} or more would be "
                    f"distinguished from {percent(t['against'])} in {answer['power']:.0%} of audits"
                )
            lines.append(f"    without any leakage, the upper limit would be {percent(t['clear_from'], 'up')} or less")
        auc = answer["smallest_auc"]
        enough = f"{amount('auc', auc, 'up')} or more would be distinguished from 0.5"
        lines.append(f"  AUC: {enough if auc < 1 else 'too few for any'}")
        lines += _reach_text(answer)
        lines += _runs_text(answer)
    if claim is not None:
        lines.append(f"Claim: {claim}.")
        lines += [f"  {_refutation_text(refutation)}" for refutation in answer["claim"]]
    for wish in answer.get("needed", ()):
        lines.append(
            f"To detect a TPR of {percent(wish['tpr'])} at an FPR of {percent(wish['fpr'])}: "
            f"{wish['records_per_class']:,} members and as many non-members"
        )
    return "\n".join(lines)


def _reach_text(answer: dict[str, Any]) -> Iterator[str]:
    delta = answer["bounds"][0]["delta"]
    yield f"Lower bounds on mu, and on epsilon at delta = {delta:g} ({100 * answer['confidence']:.6g}%, one-sided):"
    for bound in answer["bounds"]:
        yield (
            f"  {_DESIGNS[bound['design']]}: at most mu {written(bound['mu'], '.2f', 'up')} "
            f"({bound['mu_guesses']:,} guesses, all right) and epsilon {written(bound['epsilon'], '.2f', 'up')}"
        )
        for typical in bound["typical"]:
            true = "" if typical["epsilon"] is None else f" (epsilon = {typical['epsilon']:.2f})"
            yield (
                f"    an algorithm with true mu = {typical['mu']:g}{true} would show, with the "
                f"best attack, about mu {typical['mu_shown']:.2f} and epsilon {typical['epsilon_shown']:.2f}"
            )


def _runs_text(answer: dict[str, Any]) -> Iterator[str]:
    yield "Several runs of the same training, each with coins of its own (miaudit audit RUN1 RUN2 ...; runs: 4):"
    for bound in answer["several_runs"]:
        pairs = zip(bound["runs"], bound["shown"], strict=True)
        shown = ", ".join(f"{value:.2f} by {runs} run{'' if runs == 1 else 's'}" for runs, value in pairs)
        after = bound["falls_after"]
        falls = "does not fall within 40 runs" if after is None else f"falls after about {after} runs"
        falls += ", looked at after each"
        yield (
            f"  true mu = {bound['mu']:g}: on average {shown}; of one run, bounds counted up to that mu have a mean of "
            f"at most {written(bound['ceiling'], '.2f', 'up')} (proven); a claim of {bound['claim']:g} {falls}"
        )


def _refutation_text(refutation: dict[str, Any]) -> str:
    design, name = _DESIGNS[refutation["design"]], refutation["parameter"]
    if not refutation["refutable"]:
        most = written(refutation["reachable"], ".2f", "up")
        return f"{design}: not refutable by so many records, which show at most {name} {most}"
    return (
        f"{design}: refutable, by about {refutation['correct']:,} of {refutation['guesses']:,} guesses right "
        f"({refutation['accuracy']:.1%}), as the best attack on a true mu of {refutation['true_mu']:.2f} would have"
    )
