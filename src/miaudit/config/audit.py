"""The configuration file of an audit: the one that threshold-post prints, and a superset of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from miaudit.attacks.likelihood import GaussianLira, GaussianStatistics
from miaudit.auditing.plan import Bootstrap, Bounds, Calibrated, Headline, Plan, headline_named
from miaudit.collect import outputs, run_campaign
from miaudit.collect.campaign import Campaign, known
from miaudit.collect.outputs import SIDE_FILES, Attack, Collected, SignalKind, with_headline
from miaudit.config.section import File, Refused, Section, Text, read_mapping, validated
from miaudit.config.target import DataSection, ShadowSection, TargetSection, missing_line
from miaudit.dp import guesses
from miaudit.dp.mechanism import Mechanism, from_mapping
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError, nearest
from miaudit.io import yaml_file
from miaudit.io.tables import existing_file

_DEEPEST_MECHANISM = 20
_PAIRED = ("losses", "scores", "logits", "probabilities")
_COLUMNS = {"labels": "labels", "covariates": "covariates", "text": "texts", "unit": "units", "group": "groups"}
_OF_OUTPUTS = ("type", "variance", "statistic", "statistics", "folds")
_OF_ZERO_RUN = (
    *(("evaluation", name) for name in ("categories", "components", "estimator")),
    *(("privacy", name) for name in ("correction", "margin")),
    ("reporting", "raw_only"),
)
_SIGNAL_OF: dict[str, SignalKind] = {
    "losses": "loss",
    "scores": "score",
    "logits": "logits",
    "probabilities": "probabilities",
}


class ModelSection(Section):
    """What was audited: recorded in the findings, never opened when outputs are given."""

    architecture: Text | None = None
    checkpoint: Text | None = None
    num_classes: Annotated[int, Field(ge=2)] | None = None
    name: Text | None = None


class StatisticsSection(Section):
    """Means and standard deviations given by the caller: nothing is then fitted to the audited scores."""

    mu_in: float
    sigma_in: Annotated[float, Field(gt=0)]
    mu_out: float
    sigma_out: Annotated[float, Field(gt=0)]


class AttackSection(Section):
    """Which attack, and at which false-positive rates."""

    type: Text | tuple[Text, ...] = "gaussian_lira"
    fpr_targets: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.001, 0.01, 0.1)
    n_bootstrap: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    variance: Literal["separate", "pooled"] = "separate"
    statistic: Literal["loss", "logit_confidence"] = "loss"
    statistics: StatisticsSection | None = None
    folds: Annotated[int, Field(ge=2, le=50)] = 5
    headline: Text | None = None

    @field_validator("fpr_targets", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int | float) else value

    @field_validator("type")
    @classmethod
    def _known(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            names = known()
            if name not in names:
                hint = nearest(name, names) or "choose one"
                raise ValueError(f"expected one of {', '.join(names)}, received {name!r}; {hint}")
        return value

    @field_validator("n_bootstrap")
    @classmethod
    def _enough(cls, value: int) -> int:
        if 0 < value < 100:
            raise ValueError(f"expected 0 or at least 100, received {value}; 1000 is customary")
        return value


class EvaluationOptions(Section):
    """How membership came about, how the evidence is looked at, and where the results go."""

    categories: tuple[Text, ...] = ()
    components: Annotated[int, Field(ge=1)] | None = None
    estimator: Literal["hajek", "aipw"] = "hajek"
    output_dir: Text = "results/mia_audit"
    design: Literal["multi-run", "one-run", "zero-run"] | None = None
    intervals: Literal["calibrated", "bootstrap"] = "calibrated"
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    seed: Annotated[int, Field(ge=0)] = 0


class EvaluationSection(EvaluationOptions):
    """Where the outputs are, beside the options."""

    member_losses_path: Text | None = None
    nonmember_losses_path: Text | None = None
    member_scores_path: Text | None = None
    nonmember_scores_path: Text | None = None
    member_logits_path: Text | None = None
    nonmember_logits_path: Text | None = None
    member_probabilities_path: Text | None = None
    nonmember_probabilities_path: Text | None = None
    member_labels_path: Text | None = None
    nonmember_labels_path: Text | None = None
    member_covariates_path: Text | None = None
    nonmember_covariates_path: Text | None = None
    member_texts_path: Text | None = None
    nonmember_texts_path: Text | None = None
    member_units_path: Text | None = None
    nonmember_units_path: Text | None = None
    member_groups_path: Text | None = None
    nonmember_groups_path: Text | None = None
    table_path: Text | None = None
    score: Text | tuple[Text, ...] | None = None
    member: Text | None = None
    signal: Literal["score", "loss", "logits", "probabilities"] = "score"
    labels: Text | None = None
    covariates: Text | tuple[Text, ...] | None = None
    text: Text | None = None
    unit: Text | None = None
    group: Text | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [kind for kind in _PAIRED if self._path("member", kind) or self._path("nonmember", kind)]
        if self.table_path is not None:
            given.append("table")
        if len(given) != 1:
            kinds = ", ".join(f"member_{k}_path with nonmember_{k}_path" for k in _PAIRED)
            received = " and ".join(given) or "none"
            raise ValueError(f"expected exactly one source of outputs ({kinds}, or table_path), received {received}")
        for kind in (*_PAIRED, *SIDE_FILES):
            inside, outside = self._path("member", kind), self._path("nonmember", kind)
            if (inside is None) != (outside is None):
                missing = "nonmember" if outside is None else "member"
                raise ValueError(f"expected {missing}_{kind}_path beside its counterpart, received none; add it")
        if given == ["table"] and self.member is None and self.score is not None:
            raise ValueError("expected member, the column of membership, beside score; received none; add it")
        self._refuse_unread(table=given == ["table"])
        return self

    def _refuse_unread(self, *, table: bool) -> None:
        """Refuse what would be read from the other source only: ignored, units or groups would silently be lost."""
        if table:
            unread = {f"member_{kind}_path": name for name, kind in _COLUMNS.items() if self._path("member", kind)}
            place, instead = "beside table_path", "name columns of the table"
        else:
            unread = {name: f"member_{kind}_path" for name, kind in _COLUMNS.items() if getattr(self, name) is not None}
            unread |= {name: "member_..._path" for name in ("score", "member") if getattr(self, name) is not None}
            place, instead = "without table_path", "give files"
        if unread:
            more = ", ".join(f"{other} for {name}" for name, other in unread.items())
            raise ValueError(f"expected no {' or '.join(unread)} {place}; {instead} instead ({more})")
        kind = None if table else self.pair()[0]
        if kind is not None and "signal" in self.model_fields_set and self.signal != kind:
            raise ValueError(f"expected signal {kind}, as the files are named, received {self.signal}; leave it out")

    @property
    def holds_scores(self) -> bool:
        """Whether the outputs are an attack's scores already."""
        return (self.signal if self.table_path is not None else self.pair()[0]) == "score"

    def _path(self, side: str, kind: str) -> str | None:
        value: str | None = getattr(self, f"{side}_{kind}_path")
        return value

    def pair(self) -> tuple[SignalKind, dict[str, str], dict[str, str]]:
        """Return the kind of signal and the files of members and of non-members."""
        kind = next(k for k in _PAIRED if self._path("member", k))
        sides = []
        for side in ("member", "nonmember"):
            files = {"signal": self._path(side, kind), **{name: self._path(side, name) for name in SIDE_FILES}}
            sides.append({name: path for name, path in files.items() if path is not None})
        return _SIGNAL_OF[kind], sides[0], sides[1]


class ReportingSection(Section):
    """What the verdict is about."""

    primary_metric: Text | None = None
    threshold_for_concern: float | None = None
    levels: tuple[float, float, float] = (0.02, 0.05, 0.1)
    prior: Annotated[float, Field(gt=0, lt=1)] = 0.5
    row_level: Annotated[int, Field(ge=0)] = 0
    raw_only: bool = False


class ClaimSection(Section):
    """What somebody says of the algorithm: epsilon (at a delta) or mu."""

    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    mu: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_parameter(self) -> Self:
        if (self.epsilon is None) == (self.mu is None):
            received = "neither" if self.mu is None else "both"
            raise ValueError(
                f"expected epsilon or mu, one of them, received {received}; a claim is about one parameter"
            )
        if self.mu is not None and self.delta is not None:
            raise ValueError(f"expected no delta beside mu, received {self.delta:g}; remove it, or claim epsilon")
        return self

    def claim(self, delta: float) -> Claim:
        """Return the claim; an epsilon without a delta of its own is claimed at ``delta``."""
        return claimed(self.epsilon, delta if self.delta is None else self.delta, self.mu)


class PrivacySection(Section):
    """Lower bounds on privacy parameters, and the claim that they may refute."""

    bounds: bool = True
    claim: ClaimSection | None = None
    mechanism: Any = None  # a mapping in the file, a Mechanism once it was read
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-5
    guesses: Any = "pilot"  # a word or a number in the file, an option of miaudit.dp.guesses once it was read
    correction: Literal["thinning", "conditional", "composition"] = "thinning"
    margin: Annotated[float, Field(ge=0)] | None = None

    @field_validator("mechanism")
    @classmethod
    def _described(cls, value: Any) -> Mechanism | None:
        try:
            return None if value is None else _mechanism(value)
        except InputError as error:
            raise Refused(error) from None

    @field_validator("guesses")
    @classmethod
    def _counted(cls, value: Any) -> guesses.Option | int:
        try:
            return guesses.named(str(value))
        except InputError as error:
            raise Refused(InputError("guesses", error.allowed, error.received, error.next_step)) from None

    @model_validator(mode="after")
    def _bounds_for_a_claim(self) -> Self:
        beside = next((name for name in ("claim", "mechanism") if getattr(self, name) is not None), None)
        if not self.bounds and beside is not None:
            raise ValueError(
                f"expected bounds: true beside {beside}, received false; without a bound nothing is judged"
            )
        return self

    def options(self) -> Bounds | None:
        """Return what is asked of the bounds; None where none are wanted."""
        if not self.bounds:
            return None
        return Bounds(
            claim=None if self.claim is None else self.claim.claim(self.delta),
            mechanism=self.mechanism,
            delta=self.delta,
            guesses=guesses.named(self.guesses) if isinstance(self.guesses, str) else self.guesses,
            correction=self.correction,
            margin=self.margin,
        )


class Options(File):
    """What every configuration file may say, whatever its evidence comes from."""

    model: ModelSection = ModelSection()
    attack: AttackSection = AttackSection()
    evaluation: EvaluationOptions = EvaluationOptions()
    reporting: ReportingSection = ReportingSection()
    privacy: PrivacySection = PrivacySection()

    def refused(self) -> Iterator[str]:
        """Say what the plan or the attacks refuse."""
        try:
            self.plan()
            self.attack_options()
        except InputError as error:
            yield f"{_section_of(error.argument)}{error}"
        design = self.evaluation.design
        for section, name in _OF_ZERO_RUN if design in ("one-run", "multi-run") else ():
            options = getattr(self, section)
            if getattr(options, name) != type(options).model_fields[name].default:
                yield f"{section}.{name}: expected none, with design {design}, received one; it goes with zero-run"

    @abstractmethod
    def attack_options(self) -> object:
        """Return the attacks that were asked for, as the kind of file takes them."""

    def plan(self) -> Plan:
        """Return the options of the audit."""
        return Plan(
            fpr_targets=self.attack.fpr_targets,
            confidence=self.evaluation.confidence,
            primary_metric=self.reporting.primary_metric,
            threshold_for_concern=self.reporting.threshold_for_concern,
            levels=self.reporting.levels,
            prior=self.reporting.prior,
            intervals=Bootstrap() if self.evaluation.intervals == "bootstrap" else Calibrated(),
            n_bootstrap=self.attack.n_bootstrap,
            row_level=self.reporting.row_level,
            raw_only=self.reporting.raw_only,
            categories=self.evaluation.categories,
            components=self.evaluation.components,
            estimator=self.evaluation.estimator,
            bounds=self.privacy.options(),
        )

    def names(self) -> tuple[str, ...]:
        """Return the attacks that were named, or the default one."""
        return (self.attack.type,) if isinstance(self.attack.type, str) else self.attack.type

    def gaussian(self) -> GaussianLira:
        """Return the options of the Gaussian likelihood ratio."""
        section = self.attack
        given = None if section.statistics is None else GaussianStatistics(**section.statistics.model_dump())
        return GaussianLira(section.variance, section.statistic, section.folds, given)

    def headline(self) -> Headline | None:
        """Return the headline that was asked for, if any."""
        return None if self.attack.headline is None else headline_named(self.attack.headline)


class AuditConfig(Options):
    """A whole configuration file about outputs that are there.

    Examples
    --------
    >>> config = AuditConfig.model_validate({"evaluation": {"table_path": "scores.npz"}})
    >>> config.plan().fpr_targets
    (0.001, 0.01, 0.1)
    """

    evaluation: EvaluationSection

    def attack_options(self) -> Attack:
        """Return the attacks to compute from outputs."""
        for name in self.names():
            if name not in outputs.of_outputs():
                allowed = f"one of {', '.join(outputs.of_outputs())}, for outputs"
                raise InputError("type", allowed, name, "it needs models: add the sections target and data")
        return Attack(self.names(), self.gaussian())

    def refused(self) -> Iterator[str]:
        """Say what the plan or the attacks refuse, and which options of an attack scores have no use for."""
        yield from super().refused()
        if self.evaluation.holds_scores:
            for name in _OF_OUTPUTS:
                if name in self.attack.model_fields_set:
                    yield f"attack.{name}: expected none, for scores, received one; scores are already an attack's"

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each."""
        for name, value in self.evaluation:
            if name.endswith("_path") and value is not None and not (base / value).is_file():
                yield missing_line(f"evaluation.{name}", "file", value, base)

    def collect(self, base: Path, *, rng: np.random.Generator) -> Collected:
        """Read the outputs, with paths relative to ``base``, and turn them into evidence."""
        e, headline = self.evaluation, self.headline()
        if e.table_path is not None:
            table = outputs.from_table(
                base / e.table_path,
                score=e.score,
                member=e.member,
                signal=e.signal,
                labels=e.labels,
                attack=None if e.signal == "score" else self.attack_options(),
                covariates=e.covariates,
                text=e.text,
                unit=e.unit,
                group=e.group,
                categories=e.categories,
                design=e.design,
                rng=rng,
            )
            return with_headline(table, headline)
        signal, inside, outside = e.pair()
        pair = outputs.from_pairs(
            {name: base / path for name, path in inside.items()},
            {name: base / path for name, path in outside.items()},
            signal=signal,
            attack=None if signal == "score" else self.attack_options(),
            design=e.design,
            rng=rng,
        )
        return with_headline(pair, headline)


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

    @property
    def user_code(self) -> str:
        """The code that came with the model and will run; empty if none does."""
        return self.target.user_code

    def attack_options(self) -> tuple[str, ...]:
        """Return the attacks that were named; none for the default."""
        return self.names() if "type" in self.attack.model_fields_set else ()

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each."""
        yield from self.data.missing_files(base)
        yield from self.target.missing_files(base)
        yield from self.shadow.missing_files(base)

    def campaign(self, base: Path) -> Campaign:
        """Read the records and make the target. Runs the code that the target names."""
        return Campaign(
            target=self.target.build(base),
            records=self.data.load(base),
            design=self.evaluation.design,
            attacks=self.attack_options(),
            gaussian=self.gaussian(),
            shadows=self.shadow.options(base),
            audited=self.data.records,
            columns=self.target.columns,
            user_code=self.user_code,
            copies=self.data.load_copies(base),
        )

    def collect(
        self, base: Path, *, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None
    ) -> Collected:
        """Train, ask and score, with paths relative to ``base``. Runs the code that the target names."""
        if self.target.kind == outputs.TOKENS:
            read = outputs.from_tokens(
                base / self.data.path, names=self.attack_options(), design=self.evaluation.design
            )
            return with_headline(read, self.headline())
        return with_headline(run_campaign.collect(self.campaign(base), rng=rng, progress=progress), self.headline())


def read(path: str | Path) -> AuditConfig | CampaignConfig:
    """Read and check a configuration file.

    Raises
    ------
    InputError
        If the file is missing or no YAML.
    ConfigError
        With every problem of the file, each with its path in it; an unknown key comes with the nearest known one.
    """
    content = read_mapping(path, "docs/configuration.md")
    kind: type[AuditConfig | CampaignConfig] = CampaignConfig if {"target", "data"} & set(content) else AuditConfig
    return validated(content, kind, path)


def read_mechanism(path: str | Path) -> Mechanism:
    """Read the description of a mechanism from a YAML file of its own, as :func:`miaudit.dp.mechanism.from_mapping`.

    Raises
    ------
    InputError
        If the file is missing, too large or no YAML, and for whatever cannot be accounted for.
    """
    path = existing_file(path, "mechanism", (".yaml", ".yml"))
    return _mechanism(yaml_file.read(path, "mechanism"))


def claimed(epsilon: float | None, delta: float, mu: float | None) -> Claim:
    """Return the claim of an epsilon at a delta, or of a mu; exactly one of the two is given.

    Examples
    --------
    >>> str(claimed(8.0, 1e-5, None)), str(claimed(None, 1e-5, 0.5))
    ('(epsilon = 8, delta = 1e-05)-DP', '0.5-Gaussian DP')
    """
    if (epsilon is None) == (mu is None):
        received = "neither" if mu is None else "both"
        raise InputError("claim", "epsilon or mu, one of them", received, "a claim is about one parameter")
    return Claim.gaussian(mu) if epsilon is None else Claim.epsilon_delta(epsilon, delta)  # type: ignore[arg-type]


def _mechanism(description: Any) -> Mechanism:
    """Read a description that does not nest so deeply that working through it would exhaust the stack."""
    depth, level = 0, [description]
    while level := [part for x in level for part in _parts(x)]:
        depth += 1
        if depth > 2 * _DEEPEST_MECHANISM:
            allowed = f"at most {_DEEPEST_MECHANISM} mechanisms inside each other"
            raise InputError("mechanism", allowed, "more", "composed mechanisms stand beside each other")
    return from_mapping(description)


def _parts(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _section_of(argument: str) -> str:
    """Return the section, with a dot, in which an option of the plan stands."""
    for name, field in AuditConfig.model_fields.items():
        if argument in getattr(field.annotation, "model_fields", {}):
            return f"{name}."
    return ""
