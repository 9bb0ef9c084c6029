"""The configuration file of ``miaudit disclosure``: a target, its records, and the measures that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from miaudit.auditing.plan import Plan
from miaudit.config import section as sections
from miaudit.config.about import Stated
from miaudit.config.audit_keys import MODEL
from miaudit.config.data_section import DataSection
from miaudit.config.section import (
    FilePath,
    Keys,
    OneOrSeveral,
    Refused,
    Section,
    Text,
    Whole,
    keys_of,
    read_mapping,
    validated,
    with_limits,
)
from miaudit.config.shadow_section import ShadowSection
from miaudit.config.synthesise import GENERATOR, PRIVACY, generator_config
from miaudit.config.target import TargetSection
from miaudit.defences import registry
from miaudit.defences.ensemble import Ensemble, Stack
from miaudit.defences.laplace import LastLayerLaplace
from miaudit.defences.swag import Swag
from miaudit.defences.synthetic import SyntheticTraining
from miaudit.defences.trial import AS_IT_IS, Trial
from miaudit.errors import InputError, nearest
from miaudit.findings.policy import SURE_LIST
from miaudit.models.protocol import Target, Trainable
from miaudit.models.targets import Precomputed
from miaudit.synthesis import CausalGraph, Privacy
from miaudit.synthesis.table_attacks.table_files import read_schema

# What is compared where a file names nothing: every disclosure, and what calibration alone does.
USUAL: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("true-label", {}),
    ("top-k", {"k": 1}),
    ("rounding", {"digits": 1}),
    ("temperature", {}),
    ("platt", {}),
    ("isotonic", {}),
    ("adversarial-noise", {}),
    ("conformal", {"coverage": 0.9}),
    ("adaptive-set", {"coverage": 0.9}),
    ("label", {}),
)


ENSEMBLE = Keys(keys_of(Ensemble, "models", "parts"))
STACK = Keys(keys_of(Stack, "models"))
BAYESIAN = Keys(keys_of(LastLayerLaplace, "draws", "curvature", "prior_precision"))
SWAG = Keys(keys_of(Swag, "draws", "epochs", "rank", "learning_rate"))


class SyntheticSection(Section):
    """Training on a synthetic release of the records: see :class:`miaudit.defences.synthetic.SyntheticTraining`."""

    columns: Text  # a YAML file: the columns of x, then the label; public
    graph: Text | None = None
    privacy: Annotated[Privacy, PRIVACY] | None = None
    generator: Annotated[dict[str, Any], GENERATOR] = Field(default_factory=dict)

    def build(self, base: Trainable, folder: Path) -> SyntheticTraining:
        """Read the schema and the graph, with paths relative to ``folder``."""
        schema = read_schema(folder / self.columns)
        graph = None if self.graph is None else CausalGraph.from_yaml(folder / self.graph, schema=schema)
        config = generator_config(self.generator)
        return SyntheticTraining(base, schema, schema.names[-1], graph, self.privacy, config)


_WHOLE = ("ensemble", "stack", "bayesian", "swag", "synthetic")  # what takes the place of the target


class ChangeSection(Section):
    """Another training of the same records: what differs from the section target."""

    estimator: Text | None = None
    factory: Text | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    ensemble: Annotated[dict[str, Any], ENSEMBLE] | None = None
    stack: Annotated[dict[str, Any], STACK] | None = None
    bayesian: Annotated[dict[str, Any], BAYESIAN] | None = None
    swag: Annotated[dict[str, Any], SWAG] | None = None
    synthetic: SyntheticSection | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        whole = [name for name in _WHOLE if getattr(self, name) is not None]
        if len(whole) > 1:
            listed = f"{', '.join(_WHOLE[:-1])} and {_WHOLE[-1]}"
            raise ValueError(f"expected one of {listed}, received {' and '.join(whole)}; make two")
        if not self.model_fields_set:
            known = "options, training, estimator, factory, ensemble, stack, bayesian, swag or synthetic"
            raise ValueError(f"expected {known}, received none; add it")
        return self

    def target(self, base: TargetSection) -> TargetSection:
        """Return the section target with the changes; what stands in a section below is changed key by key."""
        content = base.model_dump(exclude_unset=True)
        content.pop("weights", None)  # those belong to the model that is audited
        if base.kind == "torch-weights":
            content["kind"] = "torch"
        for name in ("estimator", "factory"):
            if getattr(self, name) is not None:
                content[name] = getattr(self, name)
                content.pop("options", None)
        for name in ("options", "training"):
            change = getattr(self, name)
            if change:
                content[name] = {**(content.get(name) or {}), **change}
        return TargetSection.model_validate(content)

    def build(self, base: TargetSection, folder: Path) -> Target:
        """Make the target. Runs the code that it names."""
        target: Any = self.target(base).build(folder)
        if self.synthetic is not None:
            return self.synthetic.build(target, folder)
        if self.ensemble is not None:
            return Ensemble(target, **self.ensemble)
        if self.bayesian is not None:
            return LastLayerLaplace(target, **self.bayesian)
        if self.swag is not None:
            return Swag(target, **self.swag)
        return target if self.stack is None else Stack(target, **self.stack)


class GivenSection(Section):
    """Outputs of the audited model through a defence that somebody else applied."""

    outputs_path: FilePath
    columns: tuple[Text, ...] = ()
    given: Literal["logits", "probabilities"] = "probabilities"


class CalibrationSection(Section):
    """The records that defences learn from."""

    records: Whole | None = None
    source: Literal["held-out", "training"] = "held-out"


class DisclosureSection(Section):
    """What is compared, and what is to be released."""

    release: Text = AS_IT_IS
    defences: Any = None  # a list in the file, (name, options) pairs once it was read
    trainings: dict[Text, ChangeSection] = Field(default_factory=dict)
    given: dict[Text, GivenSection] = Field(default_factory=dict)
    calibration: CalibrationSection = CalibrationSection()
    law: Literal["logit-normal", "dirichlet"] = "logit-normal"
    queries: Annotated[int, Field(ge=1, le=10_000)] = 1
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.02

    @field_validator("defences")
    @classmethod
    def _known(cls, value: Any) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        pairs = tuple(_pair(item) for item in _listed(value)) if value is not None else USUAL
        for name, options in pairs:
            try:
                registry.make(name, options)
            except InputError as error:
                raise Refused(error) from None
        names = [registry.named(*pair) for pair in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"expected each measure once, received {twice} twice; remove one")
        return pairs

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [AS_IT_IS, *(registry.named(*pair) for pair in self.measures()), *self.given, *self.trainings]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"expected a name of its own for everything compared, received {twice} twice; rename it")
        if self.release not in names:
            hint = nearest(self.release, names) or f"known here: {', '.join(names)}"
            raise ValueError(f"expected what is compared in release, received {self.release!r}; {hint}")
        return self

    def measures(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return names and options of the measures on outputs."""
        measures: tuple[tuple[str, Mapping[str, Any]], ...] = USUAL if self.defences is None else self.defences
        return measures


class AttackSection(Section):
    """At which false-positive rates an attack is read."""

    fpr_targets: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], OneOrSeveral] = (0.01, 0.1)


class EvaluationSection(Section):
    """How membership came about, the confidence of all limits, and where the results go."""

    output_dir: Text = "results/mia_disclosure"
    design: Literal["one-run"] | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    seed: Annotated[int, Field(ge=0)] = 0


REPORTING = Keys(keys_of(Plan, "limits", "primary_metric", "threshold_for_concern"))


class DisclosureConfig(Stated):
    """A whole configuration file.

    Examples
    --------
    >>> config = DisclosureConfig.model_validate({
    ...     "target": {"kind": "sklearn", "estimator": "sklearn.naive_bayes:GaussianNB"},
    ...     "data": {"path": "a.npz", "x": "x", "y": "y"}, "shadow": {"models": 16},
    ...     "disclosure": {"defences": ["label", {"rounding": {"digits": 2}}]}})
    >>> [registry.named(*pair) for pair in config.disclosure.measures()]
    ['label', 'rounding(digits=2)']
    """

    target: TargetSection
    data: DataSection
    shadow: ShadowSection = ShadowSection(models=16)
    disclosure: DisclosureSection = DisclosureSection()
    attack: AttackSection = AttackSection()
    evaluation: EvaluationSection = EvaluationSection()
    reporting: Annotated[dict[str, Any], REPORTING] = Field(default_factory=dict)
    model: Annotated[dict[str, Any], MODEL] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if not self.target.classifies:
            raise ValueError(f"expected a classifier as target, received {self.target.kind}; it gives no probabilities")
        if self.shadow.keep != "outputs":
            raise ValueError("expected outputs as shadow.keep, received signal; defences change whole outputs")
        if self.data.canary is not None:
            raise ValueError(f"expected none as data.canary, received {self.data.canary}; miaudit run audits canaries")
        for name, change in self.disclosure.trainings.items():
            if self.target.kind == "outputs":
                raise ValueError(f"expected a target that can be trained for {name}, received outputs; remove it")
            bayesian = change.bayesian is not None or change.swag is not None
            if bayesian and not self.target.kind.startswith("torch"):
                received = f"received {self.target.kind}; the posterior is one of its weights"
                raise ValueError(f"expected a network (kind: torch) as target for {name}, {received}")
            try:
                change.target(self.target)
            except ValidationError as error:
                problem = next(iter(sections.problems(error, TargetSection)))
                raise ValueError(f"in disclosure.trainings.{name}: {problem}") from None
        return self

    @property
    def plan(self) -> Plan:
        """The limits of the verdict and the rates of its metrics, as an audit has them."""
        own = {name: value for name, value in self.reporting.items() if name != "figures"}
        plan = Plan(fpr_targets=self.attack.fpr_targets, confidence=self.evaluation.confidence, **own)
        plan.policy.only(("auc", SURE_LIST), "miaudit disclosure")
        if "ate" in plan.policy.metrics:
            raise InputError("limits", "metrics in [0, 1]", "ate", "its unit differs between measures: choose another")
        return plan

    def refused(self) -> Iterator[str]:
        """Say that the model would be given row numbers, and what of the limits cannot be."""
        yield from super().refused()
        try:
            _ = self.plan
        except InputError as error:
            yield f"reporting.{error}"
        yield from self.data.unnamed(self.target)

    def extras(self) -> Iterator[str]:
        """Name those of the target, of a cluster and of measures that train networks."""
        yield from (*self.target.extras, *self.shadow.extras)
        if any(name == "memguard" for name, _ in self.disclosure.measures()):
            yield "torch"

    @property
    def user_code(self) -> str:
        """The code that came with the model and will run; empty if none does."""
        changed = [change.target(self.target).user_code for change in self.disclosure.trainings.values()]
        return ", ".join(dict.fromkeys(code for code in (self.target.user_code, *changed) if code))

    def trial(self, base: Path) -> Trial:
        """Read the records and make the targets, with paths relative to ``base``. Runs the code that they name."""
        section, records = self.disclosure, self.data.load(base)
        return Trial(
            target=self.data.named(self.target.build(base), records),
            records=records,
            shadows=self.shadow.options(base),
            defences={registry.named(*pair): registry.make(*pair) for pair in section.measures()},
            trainings={name: change.build(self.target, base) for name, change in section.trainings.items()},
            given={
                name: Precomputed.load(base / one.outputs_path, one.columns, given=one.given)
                for name, one in section.given.items()
            },
            calibration=section.calibration.records,
            source=section.calibration.source,
            queries=section.queries,
        )


def read(path: str | Path, limits: Sequence[str] = ()) -> DisclosureConfig:
    """Read and check a configuration file, as :func:`miaudit.config.audit.read`."""
    return validated(with_limits(read_mapping(path, "docs/disclosure.md"), limits), DisclosureConfig, path)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list, received {value!r:.60}; write [temperature, label]")
    return list(value)


def _pair(item: Any) -> tuple[str, Mapping[str, Any]]:
    """One measure: its name, or its name with options below it."""
    if isinstance(item, str):
        return item, {}
    if isinstance(item, tuple) and len(item) == 2:  # read before
        return item
    good = isinstance(item, dict) and len(item) == 1
    name, options = next(iter(item.items())) if good else (None, None)
    if not isinstance(name, str) or not isinstance(options, dict | None):
        raise ValueError(
            f"expected a name, or a name with options, received {item!r:.60}; write rounding: {{digits: 1}}"
        )
    return name, options or {}
