"""Findings for the places where teams keep models: a section of a model card, and a run of MLflow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from miaudit.errors import InputError, OutputError, one_line
from miaudit.errors.extras import pip_line
from miaudit.findings.audit import Findings, LowerBound
from miaudit.findings.disclosure import DisclosureFindings, Limits
from miaudit.findings.kind import FindingsRecord
from miaudit.findings.metric import Metric, foremost
from miaudit.findings.release import SynthesisFindings
from miaudit.findings.table import TableFindings
from miaudit.metrics.definition import amount, label
from miaudit.metrics.rounding import lower_text, percent
from miaudit.report import kinds

# What Markdown, or a common extension of it, reads as more than a character.
_MARKUP = re.compile(r"([\\`*_{}\[\]#|~$!@^])")
_LINK = re.compile(r"(?i)(?<=[a-z])(://)|(?<=\bwww)(\.)")
_URL = re.compile(r"https?://[^\s<>\"\\`]+")
_LOGIN = re.compile(r"//[^/@\s]+@")  # an address may hold a password
_LEADING = re.compile(r"^(\s*)([-+=:]|\d+(?=[.)](?:\s|$)))")


def escaped(text: str) -> str:
    r"""Write text from data so that Markdown shows it as it is: on one line, no markup, no link, no HTML.

    Examples
    --------
    >>> escaped("a_b | <script>")
    'a\\_b \\| &lt;script&gt;'
    """
    flat = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _LINK.sub(lambda m: "\\" + m[0], _MARKUP.sub(r"\\\1", flat))
    return _LEADING.sub(lambda m: f"{m[1]}{m[2]}\\" if m[2].isdigit() else f"{m[1]}\\{m[2]}", flat)


def model_card(findings: FindingsRecord, *, model: str, data: str = "audited records", url: str = "") -> str:
    """Write the section of a model card for one audit, with its metadata in the form of the Hugging Face Hub.

    Parameters
    ----------
    findings : Findings
        Of an audit; those of another kind are refused.
    model : str
        Name of the model, for the metadata (``model-index``).
    data : str
        Name of the audited data in the metadata. The findings' own source may be a path and is left out.
    url : str
        Where the report or the bundle is published; empty for nowhere.

    Returns
    -------
    str
        A YAML block, ``---`` around it, and a Markdown section. The block holds the metrics that the verdict may use:
        never a raw metric of a zero-run audit or of one whose design was not declared, one that is not resolved, or one
        that was chosen on the same data without correction. Without any there is no block. The command line, which may
        name private paths, is left out.

    Raises
    ------
    InputError
        If the findings are not those of an audit, ``model`` or ``data`` is empty, or ``url`` is no web address.

    Examples
    --------
    >>> import numpy as np, miaudit
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(600) < 0.5
    >>> evidence = miaudit.Evidence(score=rng.normal(size=600) + member, member=member, design="one-run")
    >>> card = model_card(miaudit.audit(evidence, rng=rng), model="digits")
    >>> card.splitlines()[1:3]
    ['model-index:', '- name: digits']

    Source: the model-index of the Hub's model cards (huggingface.co/docs/hub/model-cards).
    """
    if not isinstance(findings, Findings):
        received = repr(findings.KIND)
        raise InputError("findings", "findings of an audit of a model", received, "a model card is about a model")
    for name, value in (("--model", model), ("--data", data)):
        if not one_line(value):
            raise InputError(name, "a name", "an empty one", "say what the card calls it")
    if url and not _URL.fullmatch(url):
        raise InputError("--url", "an address that starts with https://", repr(url)[:80], "give that of the report")
    audit = findings.as_written()
    return _metadata(audit, one_line(model), one_line(data), url) + "\n".join(_section(audit, url)) + "\n"


def _metadata(content: Findings, model: str, data: str, url: str) -> str:
    metrics = [*map(_entry, _usable(content)), *(_bound_entry(*named) for named in _named_bounds(content).items())]
    if not metrics:
        return ""
    result: dict[str, Any] = {
        "task": {"type": "membership-inference", "name": "Membership-inference audit"},
        "dataset": {"type": data, "name": data},
        "metrics": metrics,
    }
    if url:
        result["source"] = {"name": "miaudit", "url": url}
    block = yaml.safe_dump(
        {"model-index": [{"name": model, "results": [result]}]}, sort_keys=False, allow_unicode=True, width=100
    )
    return f"---\n{block}---\n\n"


def _usable(content: Findings) -> Iterator[Metric]:
    """Metrics that stand on their own: resolved, causal by a declared design, and not picked from many."""
    if content.verdict.exploratory or content.design is None:
        return
    yield from (m for m in foremost(content.metrics) if m.value is not None and not content.is_raw(m))


def _entry(metric: Metric) -> dict[str, Any]:
    name = label(metric.name)
    if metric.low is not None and metric.high is not None:
        name += f" ({percent(metric.confidence)} interval {metric.interval})"
    return {"type": metric.name, "value": metric.value, "name": name}


def _named_bounds(content: Findings) -> dict[str, LowerBound]:
    """Bounds that may stand in a table of runs, by name: an epsilon at another delta than the first one's says so."""
    bounds: dict[str, LowerBound] = {}
    for bound in content.bounds:
        if not bound.exploratory:
            name = f"{bound.parameter}_lower_bound" + ("_replace_one" if bound.neighbours == "replace-one" else "")
            bounds[f"{name}_at_delta_{bound.delta or 0:g}" if name in bounds else name] = bound
    return bounds


def _bound_entry(name: str, bound: LowerBound) -> dict[str, Any]:
    return {
        "type": name,
        "value": bound.value,
        "name": f"Lower bound on {_parameter(bound)} ({percent(bound.confidence)} confidence)",
    }


def _parameter(bound: LowerBound) -> str:
    name = f"epsilon at delta = {bound.delta:g}" if bound.parameter == "epsilon" else bound.parameter
    return f"{name} ({bound.changes})" if bound.changes else name


def _section(content: Findings, url: str) -> Iterator[str]:
    verdict, counts = content.verdict, content.counts
    yield "## Membership-inference audit"
    yield ""
    yield escaped(" ".join(text for text in (verdict.text, verdict.proven, verdict.not_excluded) if text))
    yield ""
    if content.claim is not None:
        yield from (escaped(content.claim.text), "")
    if content.metrics:
        yield from ("| Metric | Estimate | Limits | |", "|---|---|---|---|", *_rows(content), "")
    yield f"- {' and '.join(counts.in_words)} ({counts.of})."
    if content.about is not None:
        yield f"- As stated, not checked: {escaped(content.about.line)}."
    yield f"- How membership came about: {escaped(content.design or 'not declared')}."
    yield f"- Attack: {escaped(content.scores[0].score)}."
    for bound in content.bounds:
        sure = "exploratory, no confidence" if bound.exploratory else f"{percent(bound.confidence)} confidence"
        shown = f"at least {lower_text(bound.value)}" if bound.value > 0 else "nothing shown, not a sign of privacy"
        yield f"- {_parameter(bound)}: {shown} ({sure})."
    reasons = () if content.overlap is None else content.overlap.reasons
    sentence = (
        *reasons,
        *content.no_bound,
        *content.corrections,
        *content.assumptions,
        content.unmeasured,
        *content.notes,
    )
    for text in dict.fromkeys(filter(None, sentence)):
        yield f"- {escaped(text)}"
    if url:
        yield f"- Report: <{url}>"
    version = escaped(f"Written by miaudit {content.repeat.get('miaudit', '')}")
    yield f"- {version}; SHA-256 of the evidence: {escaped(content.evidence['digest'])}."
    yield ""
    yield "An audit says what was detected with these records and this attack. What was not detected is not absent."


def _rows(content: Findings) -> Iterator[str]:
    for metric in content.metrics:
        raw = "raw, not causal" if content.is_raw(metric) else metric.estimator.replace("raw", "")
        value = "–" if metric.value is None else amount(metric.name, metric.value)
        notes = escaped("; ".join(text for text in (raw, metric.note) if text))
        yield f"| {escaped(label(metric.name))} | {value} | {metric.interval} | {notes} |"


def numbers(findings: FindingsRecord) -> dict[str, float]:
    """Return the numbers of findings that a table of runs would show, by name; those that do not exist are left out.

    A metric gives ``auc``, ``auc_low`` and ``auc_high`` (fractions); raw ones of a zero-run audit are called
    ``raw.auc``, weights alone beside AIPW ``hajek.auc``. Bounds give ``epsilon_lower_bound`` (at the first delta; any
    other is named, as in ``epsilon_lower_bound_at_delta_0``) and ``mu_lower_bound``. Every kind gives ``exit_code``.

    Examples
    --------
    >>> from miaudit.findings.comparison import Comparison
    >>> numbers(Comparison("a", "b", (), "auc", 0.95, "rose", "Leakage rose.", (), {}))
    {'exit_code': 3.0}
    """
    by_name: dict[str, float | None] = {"exit_code": findings.exit_code}
    match findings.as_written():
        case Findings() as audit:
            by_name |= _audit_numbers(audit)
        case DisclosureFindings() as disclosed:
            for one in disclosed.options:
                if one.name == disclosed.release:
                    for name, limits in one.leakage.items():
                        by_name |= _limits(name, limits)
        case TableFindings() as table:
            by_name |= {f"membership.{name}": value for name, value in _audit_numbers(table.membership).items()}
            for attack in table.attacks:
                by_name[f"difference.{_key(attack.name)}"] = attack.difference
                by_name[f"difference.{_key(attack.name)}_low"] = attack.difference_low
        case SynthesisFindings() as released:
            by_name["epsilon_proved"] = None if released.guarantee is None else released.guarantee.proved
    return {name: float(value) for name, value in by_name.items() if value is not None}


def _audit_numbers(content: Findings) -> dict[str, float | None]:
    by_name: dict[str, float | None] = {}
    stands = foremost(content.metrics)
    for metric in content.metrics:
        own = metric in stands and not content.is_raw(metric)
        by_name |= _limits(metric.name if own else f"{metric.estimator}.{metric.name}", metric)
    return by_name | {name: bound.value for name, bound in _named_bounds(content).items()}


def _limits(name: str, limits: Metric | Limits) -> dict[str, float | None]:
    return {name: limits.value, f"{name}_low": limits.low, f"{name}_high": limits.high}


def _key(name: str) -> str:
    """A name that MLflow accepts: letters, digits, and . _ - only."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", one_line(name)).strip("_")[:200]


def tags(findings: FindingsRecord) -> dict[str, str]:
    """Return what findings say in words, for the tags of a run: kind, verdict, its text, design, evidence, version.

    Examples
    --------
    >>> from miaudit.findings.comparison import Comparison
    >>> tags(Comparison("a", "b", (), "auc", 0.95, "rose", "Leakage rose.", (), {}))["miaudit.verdict"]
    'rose'
    """
    verdict: Any = findings.leading() if isinstance(findings, TableFindings) else getattr(findings, "verdict", findings)
    texts = {
        "kind": findings.KIND,
        "verdict": getattr(verdict, "status", ""),
        "text": verdict.text if isinstance(verdict.text, str) else " ".join(verdict.text),
        "design": findings.design if isinstance(findings, Findings) else None,
        "evidence": findings.evidence["digest"] if isinstance(findings, Findings) else getattr(findings, "digest", ""),
        "version": findings.repeat.get("miaudit", ""),
    }
    return {f"miaudit.{name}": one_line(str(value))[:4000] for name, value in texts.items() if value}


def to_mlflow(
    folder: str | Path,
    findings: FindingsRecord,
    *,
    tracking_uri: str,
    experiment: str = "miaudit",
    run_id: str | None = None,
) -> str:
    """Log findings to MLflow: their numbers as metrics, their words as tags, the folder's files as artefacts.

    Parameters
    ----------
    folder : path
        Where findings.json lies, and report.html and figures/ beside it. Only files that miaudit writes are sent,
        below the artefact path ``miaudit``; links are not followed.
    findings : record
        Of any kind.
    tracking_uri : str
        Of the tracking server or store.
    experiment : str
        Name of the experiment of a new run; made if it is missing.
    run_id : str or None
        A run to add to, which stays as open or closed as it was; None for a new one.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    InputError
        If mlflow is not installed.
    OutputError
        If the server refuses, cannot be reached, or does not know the run.
    """
    try:
        refused: Any = import_module("mlflow.exceptions").MlflowException
        connect: Any = import_module("mlflow.tracking").MlflowClient
    except ImportError as error:
        raise InputError("--to", "model-card, where MLflow is missing", "mlflow", pip_line("mlflow")) from error
    try:
        client = connect(tracking_uri=tracking_uri)
        if run_id is not None:
            client.get_run(run_id)
            _log(client, run_id, Path(folder), findings)
            return run_id
        existing = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if existing is None else existing.experiment_id
        run = str(client.create_run(place, run_name="miaudit").info.run_id)
        try:
            _log(client, run, Path(folder), findings)
        except BaseException:
            client.set_terminated(run, "FAILED")
            raise
        client.set_terminated(run)
    except (refused, OSError, ImportError, ValueError) as error:
        sentence = _LOGIN.sub("//", one_line(str(error)))[:300]
        raise OutputError(f"--tracking-uri: MLflow refused ({sentence}); check the address and the run") from error
    return run


def _log(client: Any, run_id: str, folder: Path, findings: FindingsRecord) -> None:
    for name, value in numbers(findings).items():
        client.log_metric(run_id, name, value)
    for name, text in tags(findings).items():
        client.set_tag(run_id, name, text)
    client.log_text(run_id, findings.to_json(), "miaudit/findings.json")
    for path in _files(folder, findings):
        place = "miaudit" if path.parent == folder else f"miaudit/{path.parent.name}"
        client.log_artifact(run_id, str(path), place)


def _files(folder: Path, findings: FindingsRecord) -> list[Path]:
    """The page and the figures of these findings, as far as they are there and are plain files."""
    names = kinds.figures(findings.KIND)
    figures = (f"figures/{name}.{suffix}" for name in names for suffix in ("svg", "png"))
    inside = [folder / name for name in ("report.html", *figures)]
    return [path for path in inside if path.is_file() and not path.is_symlink() and not path.parent.is_symlink()]
