"""The configuration file of an audit: the one that threshold-post prints, and a superset of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from miaudit.attacks.likelihood import GaussianLira
from miaudit.auditing.headline import Headline
from miaudit.auditing.plan import Bounds, Plan
from miaudit.auditing.reference import SHADOW_MODELS, Reference
from miaudit.collect import (
    kept_notes,
    known_before,
    outputs,
    probe_scores,
    propensity_sample,
    run_campaign,
    score_shards,
    unused_columns,
)
from miaudit.collect.campaign import Campaign
from miaudit.collect.outputs import Attack, Collected, SignalKind, from_table, with_headline
from miaudit.config.about import Stated
from miaudit.config.audit_keys import ATTACK, EVALUATED, MODEL, OUTPUTS, REFERENCE, REPORTING, SIGNAL_OF, SYNTHETIC
from miaudit.config.canaries import CanarySection
from miaudit.config.data_section import DataSection
from miaudit.config.privacy import PRIVACY, bounds_of
from miaudit.config.sealed_coins import COINS, coins_of
from miaudit.config.section import (
    Keys,
    keys_in,
    keys_of,
    missing_line,
    options_in,
    read_mapping,
    sections_in,
    validated,
    with_limits,
    without_figures,
)
from miaudit.config.shadow_section import STABILITY, ShadowSection
from miaudit.config.target import TargetSection
from miaudit.config.unread import Source, unread
from miaudit.dp.mechanism import Mechanism, from_mapping
from miaudit.errors import InputError
from miaudit.errors.options import Option, options_of
from miaudit.evidence import Design
from miaudit.findings.policy import COPIES
from miaudit.findings.table import TableFindings
from miaudit.io import sides
from miaudit.io.yaml_file import read_yaml
from miaudit.models.outputs import label_count
from miaudit.synthesis.table_attacks import table_files
from miaudit.synthesis.table_attacks.table_audit import TablePlan, audit_table

Mapped = dict[str, Any]
# Keys that not every audit reads.
_SAMPLE_ARGUMENTS = ("member", "covariates", "text", "unit", "categories")
_EVIDENCE_ARGUMENTS = ("score", "group", "run", *_SAMPLE_ARGUMENTS)
_TABLE_ARGUMENTS = ("score", "signal", "labels", "group", "run", "inclusion", "propensity", *_SAMPLE_ARGUMENTS)


class Options(Stated):
    """What every configuration file may say, whatever its evidence comes from."""

    model: Annotated[Mapped, MODEL] = Field(default_factory=dict)
    attack: Annotated[Mapped, ATTACK] = Field(default_factory=dict)
    evaluation: Annotated[Mapped, EVALUATED] = Field(default_factory=dict)
    reporting: Annotated[Mapped, REPORTING] = Field(default_factory=dict)
    reference: Annotated[Mapped, REFERENCE] = Field(default_factory=dict)
    privacy: Annotated[Mapped, PRIVACY] = Field(default_factory=dict)

    @property
    def given(self) -> frozenset[str]:
        """The keys that were given, each with its section: ``reporting.prior``."""
        sections = {name: getattr(self, name) for name in self.model_fields_set}
        return frozenset(f"{name}.{key}" for name, keys in sections.items() if isinstance(keys, dict) for key in keys)

    @property
    def design(self) -> Design | None:
        """How membership came about, as declared."""
        design: Design | None = self.evaluation.get("design")
        return design

    @property
    def seed(self) -> int:
        """Of everything random."""
        return int(self.evaluation.get("seed", 0))

    @property
    def output_dir(self) -> str:
        """Where the results go."""
        return str(self.evaluation.get("output_dir", "results/mia_audit"))

    @property
    def figures(self) -> bool:
        """Whether charts are drawn."""
        return bool(self.reporting.get("figures", True))

    @property
    def source(self) -> Source:
        """What is read."""
        return "target"

    @property
    def signal(self) -> str:
        """What the outputs are; empty where models give them."""
        return ""

    def refused(self) -> Iterator[str]:
        """Say what the plan or the attacks refuse, and which keys would not be used."""
        try:
            self.plan()
            self.attack_options()
        except InputError as error:
            yield f"{_section_of(error.argument)}{error}"
        wanted = self.privacy.get("bounds", True)
        known = {"signal": self.signal, "design": self.design, "bounds": wanted}
        for key, why, place in unread(self.given, OPTIONS, self.source, **known):
            yield f"{key}: expected none, {why}, received one; {place}"

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each."""
        yield from super().missing_files(base)
        for section in ("evaluation", "synthetic", "coins"):
            for name, value in getattr(self, section, {}).items():
                if (name.endswith("_path") or section == "coins") and not (base / value).is_file():
                    yield missing_line(f"{section}.{name}", "file", value, base)

    def attack_options(self) -> object:
        """Return the attacks that were asked for, as the kind of file takes them."""
        return ()

    def plan(self) -> Plan:
        """Return the options of the audit; a classifier, and a separate sample, take the place of the default model."""
        fields = options_of(Plan)
        values = {**self.attack, **self.evaluation, **self.reporting}
        if values.keys() & {"classifier", "propensity_sample_path"}:
            values.setdefault("propensity_model", "line")
        options = {name: value for name, value in values.items() if name in fields and name != "headline"}
        return Plan(**options, reference=self.references(), bounds=self.bounds())

    def references(self) -> Reference | None:
        """Return which scores are of reference models; None where there are none."""
        return Reference.named(**self.reference) if self.reference else None

    def bounds(self) -> Bounds | None:
        """Return what is asked of privacy bounds; None where none are wanted."""
        return bounds_of(self.privacy)

    def with_sample(self, collected: Collected, base: Path) -> Collected:
        """Read the separate records that the propensity is learned from, with paths relative to ``base``."""
        path, audited = self.evaluation.get("propensity_sample_path"), collected.evidence
        if path is None or audited.design != "zero-run":
            return collected
        named = {name: self.evaluation[name] for name in _SAMPLE_ARGUMENTS if name in self.evaluation}
        table = base / self.evaluation["table_path"] if "table_path" in self.evaluation else None
        return replace(collected, sample=propensity_sample.read(base / path, audited, table=table, **named))

    def names(self) -> tuple[str, ...]:
        """Return the attacks that were named, or the default one."""
        return tuple(self.attack.get("type", (outputs.GAUSSIAN_LIRA,)))

    def gaussian(self) -> GaussianLira:
        """Return the options of the Gaussian likelihood ratio."""
        options = {name: self.attack[name] for name in ("variance", "statistic", "folds") if name in self.attack}
        return GaussianLira(**options, given=self.attack.get("statistics"))

    def headline(self) -> Headline | None:
        """Return the headline that was asked for, if any."""
        return self.attack.get("headline")


class AuditConfig(Options):
    """A whole configuration file about outputs that are there.

    Examples
    --------
    >>> config = AuditConfig.model_validate({"evaluation": {"table_path": "scores.npz"}})
    >>> config.plan().fpr_targets
    (0.001, 0.01, 0.1)
    """

    evaluation: Annotated[Mapped, OUTPUTS]
    coins: Annotated[Mapped, COINS] = Field(default_factory=dict)

    def refused(self) -> Iterator[str]:
        """Say also that coins of outputs that are there have been revealed."""
        yield from super().refused()
        if "secret" in self.coins:
            yield "coins.secret: expected reveal, for outputs that are there, received secret; miaudit coins reveal"

    @property
    def source(self) -> Source:
        """What is read."""
        if "shards" in self.evaluation:
            return "shards"
        if "table_path" not in self.evaluation:
            return "pair"
        return "probes" if self.evaluation["table_path"].lower().endswith(".jsonl") else "table"

    @property
    def signal(self) -> str:
        """What the outputs are."""
        return str(self.evaluation.get("signal", "score") if self.source != "pair" else self.pair()[0])

    def attack_options(self) -> Attack:
        """Return the attacks to compute from outputs."""
        for name in self.names():
            if name not in outputs.of_outputs():
                allowed = f"one of {', '.join(outputs.of_outputs())}, for outputs"
                raise InputError("type", allowed, name, "it needs models: add the sections target and data")
        return Attack(self.names(), self.gaussian())

    def pair(self) -> tuple[SignalKind, dict[str, Path], dict[str, Path]]:
        """Return the kind of signal and the files of members and of non-members."""
        kind = next(kind for kind in SIGNAL_OF if f"member_{kind}_path" in self.evaluation)
        inside, outside = (
            {
                "signal" if name == kind else name: Path(self.evaluation[f"{side}_{name}_path"])
                for name in (kind, *sides.BESIDE)
                if f"{side}_{name}_path" in self.evaluation
            }
            for side in ("member", "nonmember")
        )
        return SIGNAL_OF[kind], inside, outside

    def collect(
        self, base: Path, *, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None
    ) -> Collected:
        """Read the outputs, with paths relative to ``base``, and turn them into evidence."""
        if self.source == "shards":
            return self._shards(base, progress)
        named, reference = self.signal != "score" or "type" in self.attack, self.references()
        options: Mapped = {"attack": self.attack_options() if named else None, "design": self.design, "rng": rng}
        options["references"] = () if reference is None else reference.names
        coins = coins_of(self.coins, base)
        if self.source == "probes":
            return with_headline(self._probes(base), self.headline())
        if self.source == "table":
            columns = {name: self.evaluation[name] for name in _TABLE_ARGUMENTS if name in self.evaluation}
            table = from_table(base / self.evaluation["table_path"], **columns, **options)
            notes = kept_notes.read(base / self.evaluation["table_path"])
            if table.evidence.design == "zero-run":
                notes = (*notes, *known_before.doubts(base / self.evaluation["table_path"], columns.get("covariates")))
                table = replace(table, unused=self._unused(base / self.evaluation["table_path"], table, columns))
            table = replace(table, notes=(*notes, *table.notes))
            return replace(with_headline(table, self.headline()), coins=coins)
        signal, *sides = self.pair()
        inside, outside = ({name: base / path for name, path in side.items()} for side in sides)
        options["inclusion"] = self.evaluation.get("inclusion")
        pair = outputs.from_pairs(inside, outside, signal=signal, **options)
        return replace(with_headline(pair, self.headline()), coins=coins)

    def _shards(self, base: Path, progress: Callable[[int, int], None] | None) -> Collected:
        """Read shards of scores, or of losses: of either, the attack is known."""
        if self.signal not in ("score", "loss") or self.attack.get("type", ("loss",)) != ("loss",):
            received = f"{self.signal}, {', '.join(self.names())}"
            raise InputError("signal", "score, or loss with the attack loss, for shards", received, "audit one file")
        for coins in self.coins:
            raise InputError("coins", "none, for shards", str(coins), "audit one file: coins are of single records")
        if self.reference:
            raise InputError("reference", "none, for shards", "some", "audit one file")
        columns: Mapped = {name: self.evaluation[name] for name in ("score", "member") if name in self.evaluation}
        several = columns.get("score")
        if isinstance(several, list | tuple):
            if len(several) > 1:
                raise InputError("score", "one column, for shards", ", ".join(several), "audit each score by itself")
            columns["score"] = several[0]
        evidence = score_shards.read(
            str(base / self.evaluation["shards"]),
            **columns,
            design=self.design,
            signal="loss" if self.signal == "loss" else "score",
            progress=progress,
        )
        return with_headline(Collected(evidence), self.headline())

    def _probes(self, base: Path) -> Collected:
        """Read scored probes and their key."""
        files = {name: base / self.evaluation[f"{name}_path"] for name in ("key", "reference")
                 if f"{name}_path" in self.evaluation}  # fmt: skip
        score, signal = self.evaluation.get("score"), self.signal
        table = base / self.evaluation["table_path"]
        return probe_scores.from_probes(table, score=score, signal=signal, design=self.design, **files)

    def _unused(self, path: Path, table: Collected, columns: Mapped) -> unused_columns.UnusedValues | None:
        """Read the columns of the file that the audit does not use."""
        reference = self.references()
        others = [columns[name] for name in ("labels", "propensity") if name in columns]
        others += [] if reference is None else reference.names
        evidence = {name: columns[name] for name in _EVIDENCE_ARGUMENTS if name in columns}
        return unused_columns.read(path, table.evidence.n, others, **evidence)

    def references(self) -> Reference | None:
        """Return which scores are of reference models; of a pair of files one is named reference by default."""
        of_files = {"score": "reference"} if "member_references_path" in self.evaluation else {}
        options = {**of_files, **self.reference}
        return Reference.named(**options) if options else None


class TableConfig(Options):
    """A whole configuration file about a synthetic table.

    Examples
    --------
    >>> content = {"table_path": "s.csv", "members_path": "m.csv", "nonmembers_path": "n.csv", "records": 500}
    >>> TableConfig.model_validate({"synthetic": content}).attack_options().records
    500
    """

    synthetic: Annotated[Mapped, SYNTHETIC]
    evaluation: Annotated[Mapped, Keys({**EVALUATED.kinds, **keys_of(from_table, "unit")})] = Field(
        default_factory=dict
    )

    @property
    def source(self) -> Source:
        """What is read."""
        return "synthetic"

    def plan(self) -> Plan:
        """Return the options of the audit record by record: without the threshold and the limit of the attacks."""
        own = {name: value for name, value in self.reporting.items() if name != "threshold_for_concern"}
        limits = tuple(pair for pair in own.pop("limits", ()) if pair[0] != COPIES)
        own |= {"limits": limits} if limits else {}
        return Options.plan(self.model_copy(update={"reporting": own}))

    def attack_options(self) -> TablePlan:
        """Return the options of the attacks on the table."""
        options = {name: value for name, value in self.synthetic.items() if name in options_of(TablePlan)}
        if "threshold_for_concern" in self.reporting:
            options["threshold"] = self.reporting["threshold_for_concern"]
        options |= {name: limit for name, limit in self.reporting.get("limits", ()) if name == COPIES}
        return TablePlan(**{"confidence": self.plan().confidence, **options})

    def findings(self, base: Path, *, rng: np.random.Generator, **options: Any) -> TableFindings:
        """Read the tables, with paths relative to ``base``, and audit the synthetic one.

        ``options`` are ``repeat`` and ``progress`` of :func:`miaudit.synthesis.table_attacks.table_audit.audit_table`.
        """
        files = {name: base / path for name, path in self.synthetic.items() if name.endswith("_path")}
        sides = files["table_path"], files["members_path"], files["nonmembers_path"]
        tables = table_files.read(*sides, schema=files.get("schema_path"), unit=self.evaluation.get("unit"))
        plan = self.attack_options()
        plan.check_names(tables.synthetic.schema.names, tables.left_out)
        findings = audit_table(
            tables.synthetic,
            tables.members,
            tables.control,
            plan=plan,
            evidence_plan=self.plan(),
            design=self.design,
            units=tables.units,
            schema=tables.schema_source,
            source=sides[0].name,
            notes=tables.notes,
            rng=rng,
            **options,
        )
        return replace(findings, about=self.stated)


class CampaignConfig(Options):
    """A whole configuration file about a target: what is trained or asked, on which records, with which shadows.

    Examples
    --------
    >>> config = CampaignConfig.model_validate(
    ...     {"target": {"kind": "sklearn", "estimator": "sklearn.svm:SVC"}, "data": {"path": "a.npz", "x": "x"}})
    >>> config.target.kind, config.shadow.models, config.user_code
    ('sklearn', 0, '')
    """

    target: TargetSection
    data: DataSection
    shadow: ShadowSection = ShadowSection()
    stability: Annotated[Mapped, STABILITY] = Field(default_factory=dict)
    coins: Annotated[Mapped, COINS] = Field(default_factory=dict)
    runs: Annotated[
        int,
        Option(
            "How often the audited model is trained, each time with memberships drawn anew (one-run).",
            "4 show about a quarter more of mu than 1",
            ge=1,
        ),
    ] = 1
    canaries: CanarySection | None = None

    def refused(self) -> Iterator[str]:
        """Say also that nothing is trained where log-probabilities are there."""
        yield from super().refused()
        yield from self.data.unnamed(self.target)
        if self.stability and self.target.kind == outputs.TOKENS:
            yield f"stability: expected a target that is trained here, received {self.target.kind}; leave it out"
        if self.canaries is not None and self.target.kind == outputs.TOKENS:
            yield f"canaries: expected a target that is trained here, received {self.target.kind}; leave them out"
        if self.data.text is None and getattr(self.target, "outputs", None) == "language-model":
            yield "data.text: expected a column of texts, for outputs: language-model, received none; name it"
        if self.runs == 1 and "at_least" in self.privacy:
            yield "privacy.at_least: expected none, without several runs, received one; it goes with runs: 4"

    def extras(self) -> Iterator[str]:
        """Name also those of the target and of a cluster."""
        yield from (*super().extras(), *self.target.extras, *self.shadow.extras)

    @property
    def user_code(self) -> str:
        """The code that came with the model and will run; empty if none does."""
        return self.target.user_code

    def attack_options(self) -> tuple[str, ...]:
        """Return the attacks that were named; none for the default."""
        return self.names() if "type" in self.attack else ()

    def campaign(self, base: Path) -> Campaign:
        """Read the records and make the target. Runs the code that the target names."""
        attacks, records = self.attack_options(), self.data.load(base, self.evaluation.get("categories", ()))
        target = self.data.named(self.target.build_for(base, records.y), records)
        if self.canaries is not None:
            records = self.canaries.beside(records, base, self.data, target, self.seed)
        return Campaign(
            target=target,
            records=records,
            design=self.design,
            attacks=attacks,
            gaussian=self.gaussian() if outputs.GAUSSIAN_LIRA in attacks else Campaign.gaussian,
            shadows=self.shadow.options(base, 0 if records.y is None else label_count(records.y)),
            audited=self.data.records,
            user_code=self.user_code,
            copies=self.data.load_copies(base),
            reference=self._asks_shadow_models(),
            stability=self.stability.get("pairs", 0),
            runs=self.runs,
            coins=coins_of(self.coins, base, self.data.path),
            held_out=0 if self.canaries is None else self.canaries.held_out or 0,
        )

    def _asks_shadow_models(self) -> bool:
        reference = self.references()
        return reference is not None and reference.test == SHADOW_MODELS

    def collect(
        self, base: Path, *, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None
    ) -> Collected:
        """Train, ask and score, with paths relative to ``base``. Runs the code that the target names."""
        if self.target.kind == outputs.TOKENS:
            reference = self.references()
            names = () if reference is None else reference.names
            options: Mapped = {"names": self.attack_options(), "design": self.design, "references": names}
            options["inclusion"] = self.evaluation.get("inclusion")
            read = outputs.from_tokens(base / self.data.path, **options)
            return replace(with_headline(read, self.headline()), coins=coins_of(self.coins, base, self.data.path))
        campaign = self.campaign(base)
        reference = self.references()
        if reference is not None and reference.names != (SHADOW_MODELS,) and campaign.target.kind != "signals":
            hint = "miaudit collect writes the scores: put the reference's beside them, and name it to miaudit audit"
            allowed = f"{SHADOW_MODELS} or none, for a model whose scores are made here"
            raise InputError("reference.score", allowed, ", ".join(reference.names), hint)
        return with_headline(run_campaign.collect(campaign, rng=rng, progress=progress), self.headline())


AnyConfig = AuditConfig | CampaignConfig | TableConfig


def read(path: str | Path, limits: Sequence[str] = (), *, figures: bool = True) -> AnyConfig:
    """Read and check a configuration file; ``limits`` such as "auc=0.6" take the place of its own.

    Without ``figures`` no charts are drawn, whatever the file says.

    Raises
    ------
    InputError
        If the file is missing or no YAML.
    ConfigError
        With every problem of the file, each with its path in it; an unknown key comes with the nearest known one.
    """
    content = with_limits(read_mapping(path, "docs/configuration.md"), limits)
    content = content if figures else without_figures(content)
    if "stability" in content and not {"target", "data"} & set(content):
        hint = "leave it out, or describe the model under target and data: it is measured by training again"
        raise InputError("stability", "sections target and data beside it", "outputs that are there", hint)
    if "synthetic" in content:
        return validated(content, TableConfig, path)
    if {"target", "data"} & set(content):
        return validated(content, CampaignConfig, path)
    return validated(content, AuditConfig, path)


OPTIONS: Mapping[str, Option] = {  # of all audits of outputs that are there, by section and key
    ".".join(path.split(".")[:2]): option for file in (AuditConfig, TableConfig) for path, _, option in options_in(file)
}


def read_mechanism(path: str | Path) -> Mechanism:
    """Read the description of a mechanism from a YAML file of its own, as :func:`miaudit.dp.mechanism.from_mapping`.

    Raises
    ------
    InputError
        If the file is missing, too large or no YAML, and for whatever cannot be accounted for.
    """
    return from_mapping(read_yaml(path, "mechanism"))


def _section_of(argument: str) -> str:
    """Return the section, with a dot, in which an option of the plan stands."""
    head = re.split(r"\W", argument)[0]
    for name, kind in keys_in(AuditConfig).items():
        if any(head in keys_in(section) for section in sections_in(kind)):
            return f"{name}."
    return ""
