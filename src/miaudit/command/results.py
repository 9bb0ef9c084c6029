"""What a command leaves: the results folder, the bundle, an audit as lines of text, the exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from miaudit import __version__
from miaudit.command.terminal import columns, complain, progress, progress_of_all, say, say_json, table, tell
from miaudit.errors import InputError, MiauditError, one_line
from miaudit.metrics import definition
from miaudit.metrics.rounding import lower_text, percent, upper_text, written

if TYPE_CHECKING:
    from miaudit.auditing.plan import Plan
    from miaudit.collect.outputs import Collected
    from miaudit.findings.about import About
    from miaudit.findings.audit import Findings, LowerBound, SealedCoins
    from miaudit.findings.kind import FindingsRecord
    from miaudit.findings.metric import Metric
    from miaudit.findings.plain_words import Step


# -- code that a configuration names -----------------------------------------------------------------------------------


def announce(user_code: str, config: Path) -> None:
    """Let modules beside the configuration file be imported, after saying that their code will run."""
    if user_code:
        complain(f"note: runs code that came with the model: {one_line(user_code)}")
        folder = str(config.parent.resolve())
        if folder not in sys.path:
            sys.path.append(folder)


def kept(store: object) -> str:
    """Say for a dry run what a killed process keeps."""
    return (
        "no shadow.store: a process that is killed starts again"
        if store is None
        else f"finished models are kept in {store}"
    )


def forecast(user_code: str) -> list[str]:
    """Say for a dry run which code would run, and that nothing was written."""
    return [f"runs code that came with the model: {one_line(user_code) or 'none'}", "Nothing was written."]


# -- what is written ---------------------------------------------------------------------------------------------------


def repeat(words: Sequence[str] | None = None, /, **more: Any) -> dict[str, Any]:
    """Return what repeats the command that is running: version, command line, and whatever else it takes.

    ``words`` stand in for those that were typed, where some of what they mean was assumed.
    """
    return {"miaudit": __version__, "command": shlex.join(["miaudit", *(words or sys.argv[1:])]), **more}


def check_free(out: Path | None, *, overwrite: bool, released: bool = False, figures: bool = True) -> None:
    """Refuse a folder that findings could not be written to, before anything is computed."""
    if out is not None:
        from miaudit.report import drawing, kinds

        kinds.check_free(out, overwrite=overwrite, released=released)
        if figures:
            drawing.prepare()


def deliver(
    found: FindingsRecord,
    said: Callable[[], str],
    out: Path | None,
    *,
    overwrite: bool,
    json: bool,
    besides: str = "",
    exit_code: int | None = None,
    beside: str = "",
    figures: bool = True,
) -> NoReturn:
    """Write the folder, if there is one, tell standard output, and exit with the code of the findings.

    ``said`` puts them into lines of text, ``besides`` names other files that were written, ``exit_code`` stands in for
    the findings' own. ``beside`` names a release that is in the folder already: whatever stops its page is then a note.
    Without ``figures`` the page has its text and tables alone.
    """
    if out is not None:
        undrawn = _written(found, out, overwrite=overwrite, beside=beside, figures=figures)
        if undrawn:
            complain(f"note: {one_line(undrawn)}")
    if json:
        say_json(found.to_json())
    else:
        tell(said(), _coloured(found))
        if out is not None:
            say(f"\n{besides}Report: {out / 'report.html'}")
    raise typer.Exit(found.exit_code if exit_code is None else exit_code)


def _coloured(found: Any) -> int:
    """Return the exit code whose colour findings have: that of no answer where a verdict within limits is not green."""
    tone = getattr(getattr(found, "verdict", None), "tone", "")
    return 4 if found.exit_code == 0 and tone == "warned" else int(found.exit_code)


def _written(found: FindingsRecord, out: Path, *, overwrite: bool, beside: str, figures: bool) -> str:
    """Write findings, page and figures; return why something of it is missing."""
    from miaudit.report import index_page, kinds

    try:
        with progress("", meanwhile="page and figures"):
            undrawn = kinds.write(found, out, overwrite=overwrite, figures=figures)
            index_page.refresh(out)
    except Exception as error:
        if not beside:
            raise
        why = str(error) if isinstance(error, MiauditError) else f"{type(error).__name__}: {error}"
        if not (out / kinds.FINDINGS).exists():
            kinds.write_findings(found, out)
        again = f"the page can be drawn later: {shlex.join(['miaudit', 'report', str(out)])}"
        return f"{beside} is written, and its page is not ({why}); {again}"
    return undrawn


def write_evidence(collected: Collected, out: Path) -> None:
    """Write evidence to a file, with propensities where they were given, and tell what was collected.

    An .npz file keeps what has to be on the page of whoever audits it.
    """
    from miaudit.collect import kept_notes
    from miaudit.io import tables

    options = {} if collected.propensity is None else {"propensity": collected.propensity}
    columns = collected.evidence.columns(one_number_each=out.suffix.lower() == ".csv")
    kept_columns = kept_notes.columns(collected.about) if out.suffix.lower() == ".npz" else {}
    tables.write_columns(out, {**columns, **options, **kept_columns})
    leaks = () if collected.vulnerability is None else (one_line(collected.vulnerability.text),)
    seen = () if collected.stability is None else (collected.stability.sentence,)
    notes = (f"Note: {one_line(note)}" for note in (*collected.notes, *seen))
    say("\n".join([repr(collected.evidence), *leaks, *notes, f"\nEvidence: {out}"]))


@dataclass(frozen=True)
class BundleWish:
    """What is asked of a bundle: its file, what it shares, whether labels are sealed."""

    path: Path
    share: str = "all"
    seal: bool = False

    @classmethod
    def of(
        cls, path: Path | None, share: str, *, seal: bool, overwrite: bool, coins: bool = False
    ) -> BundleWish | None:
        """Check a wish before the work; None where there is no bundle to write."""
        from miaudit.bundle import contents, sharing
        from miaudit.io import tables
        from miaudit.report import kinds

        if path is None:
            if share != "all" or seal:
                raise typer.BadParameter("--share and --seal go with --bundle FILE.zip")
            return None
        tables.require_suffix(path, "--bundle", (".zip",))
        kinds.check_place(path.absolute().parent, f"--bundle {path}", "name another file")
        wish = cls(path, share, seal)
        contents.finish_keys(path, wish.keys)
        if path.exists() and not overwrite:
            raise InputError("--bundle", "a new file", f"{path}, which exists", "name another, or add --overwrite")
        sharing.check_sealing(sharing.check(share), seal=seal)
        if coins:
            sharing.check_coins(sharing.check(share), seal=seal)
        if wish.needs_keys and wish.keys.exists():
            received, step = f"{wish.keys}, which exists", "keys are never replaced: name another bundle"
            raise InputError("--bundle", "a name without keys", received, step)
        return wish

    @property
    def hides_members(self) -> bool:
        """Whether memberships are kept, so that no seed may repeat their draw."""
        from miaudit.bundle import sharing

        return sharing.hides_members(sharing.check(self.share), seal=self.seal)

    @property
    def keys(self) -> Path:
        """Where the owner's keys go."""
        from miaudit.bundle.contents import KEY_SUFFIX

        return self.path.with_suffix(KEY_SUFFIX)

    @property
    def needs_keys(self) -> bool:
        """Whether there is anything that a key opens."""
        return self.seal or self.share != "all"


def computed(
    collected: Collected,
    plan: Plan,
    rng: Any,
    seed: int,
    model: dict[str, Any] | None = None,
    bundle: BundleWish | None = None,
    words: Sequence[str] | None = None,
    about: About | None = None,
) -> Findings:
    """Audit what was collected, with the command line, or ``words``, that repeats it written into the findings.

    ``about`` is what the author states of the audit, for the findings and the bundle.
    """
    from dataclasses import replace

    chosen = plan if collected.headline is None else replace(plan, headline=collected.headline)
    own, coins = None, collected.coins
    seeded = {} if bundle is not None and bundle.hides_members else {"seed": seed}
    with progress_of_all("audit") as advance:
        if collected.propensity is not None or collected.sample is not None:
            from miaudit.auditing.propensities import from_elsewhere

            own = from_elsewhere(collected.evidence, chosen, collected.propensity, collected.sample, rng=rng)
        options: dict[str, Any] = {
            "plan": chosen,
            "nuisance": own,
            "rng": rng,
            "notes": collected.notes,
            "repeat": repeat(words, **seeded, **({"model": model} if model else {})),
            "vulnerability": collected.vulnerability,
            "stability": collected.stability,
            "unused": collected.unused,
            "progress": advance,
        }
        if bundle is None:
            from miaudit.auditing.pipeline import audit
            from miaudit.findings.sealed_coins import SealedCoins

            shown = None if coins is None else SealedCoins.of(coins, collected.evidence)
            findings = audit(collected.evidence, coins=shown, **options)
        else:
            findings = _bundled(collected, bundle, {**options, "coins": coins}, about)
    fit = None if findings.overlap is None else findings.overlap.fit
    if fit is not None and fit.rejected and chosen.propensity_model == "line":
        complain(f"note: {_NO_LINE}")
    return replace(findings, about=about)


def _bundled(collected: Collected, wish: BundleWish, options: dict[str, Any], about: About | None) -> Findings:
    """Audit, and write the bundle and the owner's keys; nobody but its owner can read those."""
    from dataclasses import replace

    from miaudit.bundle import record

    if collected.sample is not None:
        received = "one of a propensity that was learned from a separate sample, which no bundle holds"
        raise InputError("--bundle", "an audit that others can repeat", received, "leave the bundle or the sample out")
    examined, bundle, keys = record(collected.evidence, share=wish.share, seal=wish.seal, **options)
    bundle = replace(bundle, findings=replace(bundle.findings, about=about))
    if wish.needs_keys:
        digest = bundle.write_with_keys(keys, wish.path, wish.keys)
    else:
        digest = bundle.write(wish.path, overwrite=True)
    complain(f"note: bundle {wish.path}, SHA-256 {digest}")
    if wish.needs_keys:
        use = "miaudit unseal opens the labels with it" if wish.seal else "it ties pseudonyms and hashes to records"
        complain(f"note: {wish.keys} is yours alone; {use}")
    if wish.seal:
        complain("note: publish the bundle alone: findings and report of the whole audit tell the sealed labels")
    return examined.findings


# -- an audit as lines of text -----------------------------------------------------------------------------------------


_NO_LINE = (
    "a shift that is no line may be answered by the stack, which is the default: leave out propensity_model: line "
    "(--propensity-model line)"
)


def summary(findings: Findings) -> str:
    """The verdict and the metrics of the headline score as lines of text."""
    counts, challenge, claim, words = findings.counts, findings.challenge, findings.claim, findings.in_words
    leading = _leading(findings)
    lines = [
        *([leading] if leading else []),
        findings.verdict.text,
        *([one_line(challenge.text)] if challenge is not None and challenge.rejected else []),
        *map(one_line, findings.verdict.even_so),
        *([one_line(claim.text)] if claim is not None and not leading else []),
        *(f"Warning: {one_line(text)}" for text in findings.ahead),
        "",
        *(one_line(text) for text in (_once(words.said, findings), words.meaning) if text),
        "",
        f"{' and '.join(counts.in_words)} ({counts.of})",
        f"design: {findings.design or 'not declared'}",
        f"score: {findings.scores[0].score}",
        *table([_row(findings, m) for m in findings.metrics if definition.of(m.name).bounded], columns()),
    ]
    if findings.covariates_alone is not None:
        lines.append(f"  AUC of the covariates alone: {findings.covariates_alone.reading}")
    if findings.overlap is not None:
        known = one_line(findings.verdict.text)  # the first reason, as a rule
        lines += [f"  {line}" for line in map(one_line, findings.overlap.reasons) if line not in known]
    if findings.reference is not None:
        sentence, refused = findings.reference, () if findings.overlap is None else findings.overlap.reasons
        lines.append(f"  {' '.join(text for text in (sentence.text, sentence.conditions) if text not in refused)}")
    if findings.memorisation is not None:
        lines += ["", findings.memorisation.sentence]
    if findings.sensitivity is not None:
        lines.append(one_line(findings.sensitivity.text))
    lines += [] if findings.matched is None else [one_line(text) for text in findings.matched.sentences]
    lines += _privacy_lines(findings, said=" ".join(lines))
    lines += [] if findings.vulnerability is None else [one_line(findings.vulnerability.text)]
    lines += [] if findings.by_covariates is None else [one_line(findings.by_covariates.text)]
    lines += coins_lines(findings.sealed_coins)
    unused = "" if findings.unused_columns is None else findings.unused_columns.sentence
    notes = (*findings.corrections, *findings.notes, unused, findings.unmeasured)
    lines += [f"Note: {one_line(note)}" for note in notes if note]
    others = [_row(findings, m) for m in findings.metrics if not definition.of(m.name).bounded]
    lines += ["In units of the score:", *table(others, columns())] if others else []
    return "\n".join([*lines, *_next(words.steps)])


def _leading(findings: Findings) -> str:
    """What a privacy claim comes to, where it and not the verdict decides the exit code; else nothing."""
    from miaudit.findings.verdict import CONCERN, word_of

    claim = findings.claim
    if claim is None or findings.exit_code == findings.verdict.exit_code:
        return ""
    word, sentence = (CONCERN, "the claim is refuted: ") if claim.exit_code == 3 else (word_of("not-testable"), "")
    _, _, text = claim.text.partition(": ")
    return one_line(f"{word}: {sentence or 'the claim cannot be tested: '}{text}")


def _once(said: str, findings: Findings) -> str:
    """The finding in plain words without the condition that the verdict above it has said."""
    condition = f" This holds {findings.verdict.condition}."
    return said.replace(condition, "") if condition in findings.verdict.text else said


def _next(steps: Sequence[Step]) -> list[str]:
    """The first thing to do, and the first that there is a command for; a question is asked with all its answers."""
    steps = [step for step in steps if not step.asks]
    shown = dict.fromkeys([*steps[:1], *[step for step in steps if step.command][:1]])
    lines = [[f"Next: {one_line(step.text)}", *([f"  {step.command}"] if step.command else [])] for step in shown]
    return ["", *(line for part in lines for line in part)] if lines else []


def _row(findings: Findings, m: Metric) -> tuple[str, str, str, str]:
    """A metric with its name in words, its limits, and what has to be said with it."""
    metric = definition.of(m.name)
    form = ".4f" if metric.bounded else ".4g"  # in units of the score, which may be tiny or huge
    top = "-" if m.high is None else written(m.high, form, "up")
    value = f"{m.value:{form}}" if m.value is not None else f"<= {top}" if m.high is not None else "-"
    limits = f"[{written(m.low, form, 'down')}, {top}]" if m.value is not None and m.low is not None else ""
    words = metric.label if metric.fpr is None else f"found at {percent(metric.fpr)} false alarms"
    words = (words if words.isupper() else words[:1].lower() + words[1:]).replace("−", "-")
    name = m.name if words.lower().replace(" ", "_") == m.name else f"{words} ({m.name})"
    raw = "raw, not causal" if findings.is_raw(m) else m.estimator
    return name, value, limits, "; ".join(t for t in ("" if raw == "raw" else raw, m.note) if t)


def coins_lines(found: SealedCoins | None, published: str | None = None) -> list[str]:
    """What sealed coins show, their digests to be compared, and what they leave to trust."""
    if found is None:
        return []
    digests = [f"  commitment: {found.commitment}"] + [f"  answer:     {found.answer}"] * (found.answer is not None)
    digests += [f"  The {published} is the one that was given as published."] * (published is not None)
    return [one_line(found.text), *digests, *(f"  Not shown: {one_line(text)}" for text in found.not_shown)]


def _privacy_lines(findings: Findings, said: str) -> list[str]:
    """Bounds on privacy parameters, the challenge that they survived, or why there is none and was not said before."""
    lines = [f"  {_bound_line(bound)}" for bound in findings.bounds]
    if findings.several_runs is not None:
        lines.append(f"  {one_line(findings.several_runs.text)}")
    challenge = findings.challenge
    if lines and challenge is not None and not challenge.rejected:
        lines.append(f"  {one_line(challenge.text)}")
    if lines:
        return ["Lower bounds on privacy parameters:", *lines]
    if not findings.no_bound:
        return []
    new = [reason for reason in map(one_line, findings.no_bound) if reason.rstrip(".") not in said]
    return [f"No lower bound on privacy parameters: {' '.join(new) or 'for the same reason.'}"]


def _bound_line(bound: LowerBound) -> str:
    """Write a lower bound with how sure it is and what it rests on."""
    where = f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else ""
    name = bound.parameter
    shown = f"{name} >= {lower_text(bound.value)}{where}" if bound.value > 0 else f"{name}{where}: nothing shown"
    sure = "exploratory, at no confidence" if bound.exploratory else f"{100 * bound.confidence:.6g}%"
    details = [*([bound.changes] if bound.changes else []), sure]
    if bound.correct is not None and bound.guesses is not None:
        details.append(f"{bound.correct:,} of {bound.guesses:,} guesses right")
    if bound.reachable is not None:
        details.append(f"at most {upper_text(bound.reachable)} could have been shown")
    return f"{shown} ({'; '.join(details)})"
