"""Draw, train, ask, score: from a campaign to evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IndexArray, IntArray
from miaudit.attacks import lira, output_kinds, registry
from miaudit.attacks.output_kinds import LOGITS, MULTI_LABEL, PREDICTIONS
from miaudit.auditing import vulnerable_records
from miaudit.auditing.extraction import in_both
from miaudit.auditing.reference import SHADOW_MODELS
from miaudit.collect import canary_cost, several_runs
from miaudit.collect.campaign import Campaign
from miaudit.collect.draws import PLAIN, Draws
from miaudit.collect.outputs import GAUSSIAN_LIRA, Attack, Collected, from_outputs, of_outputs
from miaudit.collect.training import (
    Progress,
    all_records,
    asks_copies,
    gives_copies,
    train_part,
    trained_models,
    training,
    training_again,
    training_apart,
)
from miaudit.errors import InputError
from miaudit.findings.audit import Vulnerability
from miaudit.io import frames
from miaudit.models import shadow
from miaudit.models.equal_outputs import require_different
from miaudit.models.given import GivenShadows, augmented
from miaudit.models.outputs import check_kind
from miaudit.models.protocol import traits_of
from miaudit.models.shadow import ShadowOutputs

_WORDS = {
    LOGITS: "logit-scaled confidence",
    MULTI_LABEL: "log-odds of the whole label vector",
    PREDICTIONS: "negative squared error",
}


def collect(campaign: Campaign, *, rng: np.random.Generator, progress: Progress | None = None) -> Collected:
    """Draw what is to be drawn, train what is to be trained, and score the records. Runs the target's code.

    Parameters
    ----------
    rng : generator of memberships, seeds and attacks; equal generators give equal evidence
    progress : function of models that are done and of their number, optional

    Raises
    ------
    InputError
        For records, designs and attacks that do not go together: before anything is trained.
    JobsFailedError
        If models failed; the others are kept where there is a store.
    """
    answers = Answers.of(campaign, Draws.of(campaign, rng), progress)
    runs = [_scored(one) for one in answers.of_each_run()]
    joined = replace(several_runs.joined(runs) if len(runs) > 1 else runs[0], coins=campaign.coins)
    return _with_cost(_with_stability(joined, answers, progress), answers, progress)


def cost(campaign: Campaign, *, rng: np.random.Generator) -> shadow.Cost | None:
    """Say beforehand what :func:`collect` with an equal generator will train; None where nothing is trained.

    Without a stated rate one model is trained for the time; nothing is written.
    """
    draws = Draws.of(campaign, rng)
    if not len(draws.included):
        return None
    rate, columns = campaign.shadows.seconds_per_fit, len(campaign.score_columns()) or None
    total = shadow.estimate(**training(campaign, draws), seconds_per_fit=rate, columns=columns)
    if rare := draws.rare_classes(campaign):
        total = replace(total, how=f"{total.how}; {rare}")
    if len(draws.apart):
        rate = total.seconds_per_fit if total.fits else rate
        more = shadow.estimate(**training_apart(campaign, draws), seconds_per_fit=rate, columns=columns)
        how = f"{(total if total.fits else more).how}; {more.fits + more.reused} models are for what canaries cost"
        total = total.beside(more, how)
    if draws.replaced is None:
        return total
    rate = total.seconds_per_fit if total.fits else rate
    more = shadow.estimate(**training_again(campaign, draws, draws.replaced), seconds_per_fit=rate, columns=columns)
    how = f"{(total if total.fits else more).how}; {more.fits + more.reused} models are for the stability of training"
    return total.beside(more, how)


def _scored(answers: Answers) -> Collected:
    """Carry out the attacks; all scores count, also the loss beside a single attack."""
    campaign, draws = answers.campaign, answers.draws
    names = campaign.names or answers.columns
    direct, scores = _scores(answers, names)
    notes = [
        *dict.fromkeys([*answers.said, *direct.notes]),
        *answers.notes(name for name in names if name not in answers.own),
    ]
    if campaign.user_code:
        notes.append(f"Code that came with the model was run: {campaign.user_code}.")
    about = () if campaign.records.canary is None else (_of_canaries(campaign, draws),)
    notes += about
    if campaign.records.member is not None and isinstance(campaign.records.x, list) and draws.base.design != "zero-run":
        texts = [campaign.records.x[row] for row in draws.rows]
        notes += [sentence for sentence in [in_both(texts, draws.base.member)] if sentence]
    if len(draws.population):
        notes.append(f"{len(draws.population):,} records were set aside as the population; no model learned them.")
    if campaign.reference:
        first = next(iter(scores))
        scores[SHADOW_MODELS] = _reference(answers, names, first)
        notes.append(
            f"{SHADOW_MODELS}: {first} as it would be if a shadow model that did not learn the record was audited."
        )
    leaks = _vulnerability(answers)
    if isinstance(leaks, str):
        notes.append(leaks)
        leaks = None
    return Collected(draws.base.replace(score=scores), tuple(notes), None, leaks, about=about)


def _of_canaries(campaign: Campaign, draws: Draws) -> str:
    """Say which records were audited, which were not, and what of the findings is about whom."""
    records, a, canary = campaign.records, len(draws.rows), np.asarray(campaign.records.canary)
    words = f" ({records.made})" if records.made else ""
    others = int(np.count_nonzero(~canary & draws.included[0])) if len(draws.included) else 0
    beside = f"; the {others:,} other training records were in every training" if others else ""
    what, coin = f"{a:,} canaries", "each in training by a coin of its own"
    if draws.base.unit_codes is not None:
        what, coin = f"{a:,} canaries of {draws.base.n_units:,} units", "each unit in training by a coin of its own"
    whose = "those of canaries, not of the other records"
    if records.natural:
        whose = (
            "those of documents of the data that do not nearly stand in others of them: the canaries were drawn from "
            "these at random. Half of the canaries were left out of the training, which would otherwise have had all"
        )
    return f"Audited were {what}{words}, {coin}{beside}. Bounds are about the training itself; AUC and TPR are {whose}."


def _scores(answers: Answers, names: tuple[str, ...]) -> tuple[Collected, dict[str, FloatArray]]:
    """What the outputs give by themselves, and the scores (a,) of all attacks in their order."""
    by_outputs = [name for name in names if name in answers.own]
    direct = _by_outputs(answers, by_outputs or [answers.columns[0] if answers.columns else "loss"])
    scores = {name: answers.score(name) for name in names if name not in answers.own} | dict(direct.evidence.scores)
    return direct, {name: scores[name] for name in (*names, *scores) if name in scores}


def _reference(answers: Answers, names: tuple[str, ...], first: str) -> FloatArray:
    """The first score (a,) as if each record had been asked of a shadow model that did not learn it."""
    reference = answers.of_shadow_models()
    if reference.outputs.ndim > 1:
        return _scores(reference, names)[1][first]
    if first in answers.own:  # signals that were given, of this score
        return reference.outputs[reference.draws.rows].astype(np.float64)
    return reference.score(first)


def _by_outputs(answers: Answers, names: list[str]) -> Collected:
    """Scores that the audited model's outputs give by themselves."""
    campaign, draws = answers.campaign, answers.draws
    outputs, y = np.asarray(answers.outputs)[draws.rows], draws.y[draws.rows]
    kind = campaign.target.kind
    if answers.columns:
        scores = {name: outputs[:, answers.columns.index(name)].astype(np.float64) for name in names}
    elif GAUSSIAN_LIRA in names:
        inputs: dict[str, Any] = {"logits": outputs, "labels": y}
        if kind != LOGITS:
            inputs = {"losses": -output_kinds.member_scores(kind, outputs, y, ["loss"])["loss"]}
        attack, known = Attack(tuple(names), campaign.gaussian), draws.base
        return from_outputs(**inputs, member=known.member, unit=known.unit, attack=attack, rng=draws.rng)
    else:
        scores = output_kinds.member_scores(kind, outputs, y, names)
    return Collected(draws.base.replace(score=scores))


def _vulnerability(answers: Answers) -> Vulnerability | str | None:
    """Which records leak, or why that cannot be said; None where the caller does not ask."""
    draws, options, shadows = answers.draws, answers.campaign.shadows, answers.shadows
    if options.vulnerability is False or shadows is None or answers.runs:
        return None
    if options.given is not None and not options.vulnerability:  # what those models learned was drawn elsewhere
        return None
    n = draws.base.n_units
    if shadows.models < vulnerable_records.fewest(n):
        return vulnerable_records.too_few(n, shadows.models)
    signal, values = answers.signal
    return vulnerable_records.measure(
        values(),
        shadows.included[:, draws.rows],
        draws.base,
        draws.rows,
        signal=signal,
        names=bool(options.vulnerability),
        rng=draws.rng.spawn(1)[0],  # the attacks' own numbers stay what they are
    )


def _with_stability(collected: Collected, answers: Answers, progress: Progress | None) -> Collected:
    """Train again with records replaced, and measure the first score that the audited model gives by itself."""
    campaign, draws, scores = answers.campaign, answers.draws, collected.evidence.scores
    replaced = draws.replaced
    if replaced is None:
        return collected
    name = next(name for name in scores if name in answers.own and name != GAUSSIAN_LIRA)
    if not np.ptp(scores[name]):
        note = f"Every record has the same {name}: the stability of training was left unmeasured."
        return replace(collected, notes=(*collected.notes, note))
    before, arguments = len(draws.included), training_again(campaign, draws, replaced)
    trained = train_part(arguments, progress, before, before + len(arguments["included"]))
    models = [answers.outputs] if campaign.shadows.at_once == 1 else []
    models += [trained.model(m) for m in range(trained.models)]

    def score(outputs: Float32Array, rows: IndexArray) -> FloatArray:
        rescored = _by_outputs(replace(answers, outputs=outputs), [name]).evidence.scores[name]
        return rescored[np.searchsorted(draws.rows, rows)]

    return replace(collected, stability=replaced.measured(models, score, name))


def _with_cost(collected: Collected, answers: Answers, progress: Progress | None) -> Collected:
    """Train apart what tells the cost of canaries, and add a note of it."""
    campaign, draws = answers.campaign, answers.draws
    if not len(draws.apart):
        return collected
    arguments = training_apart(campaign, draws)
    total = len(draws.included) + len(draws.apart)
    apart = train_part(arguments, progress, len(draws.included), total)
    shadows = answers.shadows
    others = () if shadows is None else (shadows.model(m) for m in range(shadows.models))
    models = [answers.outputs, *answers.further, *others, *(apart.model(m) for m in range(PLAIN, apart.models))]
    without = [apart.model(m) for m in range(PLAIN)]
    cost = canary_cost.measured(models, without, draws.held_out, draws.y, campaign.target.kind)
    return replace(collected, notes=(*collected.notes, cost.sentence))


def _require_different(given: GivenShadows) -> None:
    """Refuse shadow models that learned different records and have equal outputs."""
    names = [f"shadow model {m}" for m in range(given.outputs.models)]
    models = map(given.outputs.model, range(given.outputs.models))
    require_different(models, given.outputs.included, names, "shadow.outputs_path")


# -- what the models say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answers:
    """What the models say of the records that were drawn; what an attack needs is made from it when it is asked for.

    Attributes
    ----------
    campaign, draws : what was asked; in a multi-run ``draws`` has the audited records only
    outputs : array (n, C) of the audited model; in a multi-run of each record's own model
    shadows : outputs of the shadow models on the same n records; in a multi-run of all runs, with a record's own run as
        the one that is left out for it, or None where no attack compares a record's own model with the others
    pooled : outputs of shadow models on records of any kind, where they were given
    copies : array (n, k, C) of outputs, or (n, k) of classes: what ``outputs`` are, on changed copies; None without
    shadow_copies : outputs of the shadow models on the n k copies, record by record
    runs : whether this is a multi-run
    further : outputs of the audited models of further runs, as ``outputs`` are, with copies
    said : what is to be said of the target, in sentences
    views : outputs on each further augmentation of the records, of the audited model and of the shadow models; for LiRA
    """

    campaign: Campaign
    draws: Draws
    outputs: Float32Array
    shadows: ShadowOutputs | None
    pooled: ShadowOutputs | None = None
    copies: NDArray[Any] | None = None
    shadow_copies: ShadowOutputs | None = None
    runs: bool = False
    further: tuple[Float32Array, ...] = ()
    said: tuple[str, ...] = ()
    views: tuple[tuple[Float32Array, ShadowOutputs], ...] = ()

    @classmethod
    def of(cls, campaign: Campaign, draws: Draws, progress: Progress | None) -> Answers:
        """Train what is to be trained, and ask every model about every record. Runs the target's code."""
        of = cls._of_runs if draws.base.design == "multi-run" else cls._of_one_run
        answers, rare = of(campaign, draws, progress), draws.rare_classes(campaign)
        rows, target, notes = answers.draws.rows, campaign.target, answers.said
        if campaign.kept_signals is None:
            outputs, y = np.asarray(answers.outputs)[rows], answers.draws.y
            y = None if y is None else np.asarray(y)[rows]
            notes = (*notes, *check_kind(target.kind, outputs, target.name, y, answers.draws.base.member))
        return replace(answers, said=(*notes, *([f"{rare[0].upper()}{rare[1:]}."] if rare else [])))

    @classmethod
    def _of_one_run(cls, campaign: Campaign, draws: Draws, progress: Progress | None) -> Answers:
        target, notes = campaign.target, traits_of(campaign.target).notes
        trained = trained_models(campaign, draws, progress) if len(draws.included) else None
        external, n = campaign.shadows.given, campaign.records.n
        further: tuple[Float32Array, ...] = ()
        if not campaign.stands and trained is not None:
            last = trained.models - len(draws.further)
            outputs, further = trained.model(0), tuple(trained.model(m) for m in range(last, trained.models))
            trained = replace(trained, included=trained.included[1:last], sources=trained.sources[1:last])
            trained = trained if trained.models else None
        else:
            x = all_records(campaign) if asks_copies(campaign) else campaign.records.x
            outputs, more_notes = traits_of(target).explained(x)
            notes = (*notes, *more_notes)
        if len(outputs[:n]) != n:
            raise InputError("target", f"outputs of {n} records", str(len(outputs)), "check the files")
        shadows, shadow_copies = (None, None) if trained is None else _parted(trained, n)
        pooled = None
        if external is not None:
            _require_different(external)
            place = external.rows_in(n, campaign.records.y)
            shadows = None if place is None else external.on(place, draws.y)
            pooled = (
                external.outputs if external.labelled else shadows
            )  # with the labels of the data, which it is about
            notes = (*notes, *external.notes)
        views, more_notes = augmented(target, external, campaign.records.x, campaign.records.y)
        notes = (*notes, *more_notes)
        answers = cls(campaign, draws, outputs, shadows, pooled, None, shadow_copies, False, further, notes, views)
        return answers._parted_from_copies(outputs)

    def _parted_from_copies(self, outputs: Float32Array) -> Answers:
        """Return the answers with what one audited model said of the records, and of copies where it was asked."""
        n, copies = self.campaign.records.n, None
        if asks_copies(self.campaign):
            copies = np.asarray(outputs[n:]).reshape(n, -1, outputs.shape[1])
        elif gives_copies(self.campaign):
            copies = self.campaign.copies
        return replace(self, outputs=outputs[:n], copies=copies)

    def of_each_run(self) -> Iterator[Answers]:
        """Yield the answers of each run: its own model and memberships, and shadow models from outside all runs."""
        yield self
        quiet = replace(self.campaign, shadows=replace(self.campaign.shadows, vulnerability=False))  # said once
        for outputs, member in zip(self.further, self.draws.further, strict=True):
            draws = replace(self.draws, base=self.draws.base.replace(member=member))
            yield replace(self, campaign=quiet, draws=draws)._parted_from_copies(outputs)

    @classmethod
    def _of_runs(cls, campaign: Campaign, draws: Draws, progress: Progress | None) -> Answers:
        """Train one model for each audited record, with or without it, on all other records; ask all of them."""
        trained, a = trained_models(campaign, draws, progress), len(draws.rows)
        others, copies = None, None
        if trained.labels.ndim > draws.y.ndim:  # each kept what it says of its own record
            own, on_copies = (np.stack([trained.model(i)[of] for i in range(a)]) for of in (0, slice(1, None)))
            copies = on_copies if on_copies.size else None
        else:
            of_records, of_copies = _parted(trained, a)
            own = np.stack([of_records.model(i)[i] for i in range(a)])
            if of_copies is not None:
                k = of_copies.n // a
                copies = np.stack([of_copies.model(i)[i * k : (i + 1) * k] for i in range(a)])
            others = replace(of_records, included=np.eye(a, dtype=np.bool_))
        # From here on there are the audited records only, each with its own model.
        audited = replace(draws, rows=np.arange(a), y=draws.y[draws.rows])
        notes = traits_of(campaign.target).notes
        return cls(campaign, audited, own, others, copies=copies, runs=True, said=notes)

    # -- what attacks need ---------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of outputs that are scores already."""
        if (kept_signals := self.campaign.kept_signals) is not None:
            return kept_signals.first
        return self.campaign.score_columns(self.outputs.shape[1])

    @property
    def own(self) -> set[str]:
        """Names of the scores that a model's outputs give by themselves."""
        return set(self.columns) or set(of_outputs())

    def of_shadow_models(self) -> Answers:
        """Return the answers as if each record had been asked of a shadow model that did not learn it.

        Which one is drawn at random; it is none of the record's shadow models then. Membership cannot have moved it.
        """
        shadows = self._shadows
        keys = self.draws.rng.spawn(1)[0].random(shadows.included.shape)
        chosen = np.where(shadows.included, -1.0, keys).argmax(axis=0)
        if shadows.included.all(axis=0).any():
            allowed, received = "a shadow model that did not learn it, for each record", f"none, of {shadows.models}"
            raise InputError("shadow.models", allowed, received, "train more of them")
        outputs, others = shadows.set_apart(chosen)
        copies, of_copies = self.copies, self.shadow_copies
        if of_copies is not None and copies is not None:
            k = copies.shape[1]
            copies_apart, of_copies = of_copies.set_apart(np.repeat(chosen, k))
            copies = copies_apart.reshape(len(chosen), k, -1)
        pooled = others if self.pooled is shadows else self.pooled
        return replace(
            self, outputs=outputs, shadows=others, pooled=pooled, copies=copies, shadow_copies=of_copies, views=()
        )

    def score(self, name: str) -> FloatArray:
        """Score the audited records (a,) by one attack."""
        attack = registry.get(name)
        inputs = {need: self._input(need, attack.statistic) for need in attack.needs}
        if attack.gaussian is not None and self.views:
            each = [self, *(replace(self, outputs=own, shadows=others, views=()) for own, others in self.views)]
            several = [need for need in ("target", "shadow") if need in inputs]
            inputs |= {need: np.stack([one._input(need, attack.statistic) for one in each], -1) for need in several}
        scores = attack.score(inputs, rng=self.draws.rng)
        if np.shape(scores) != self.draws.rows.shape:
            allowed = f"one score for each of {len(self.draws.rows):,} records"
            raise InputError(f"scores of {name}", allowed, f"shape {np.shape(scores)}", "return an array (n,)")
        return scores

    def notes(self, names: Iterable[str]) -> list[str]:
        """What is to be said of the shadow statistics."""
        names = list(names)
        likelihoods = [variance for name in names if (variance := registry.get(name).gaussian) is not None]
        if self.runs:
            return self._notes_of_runs(likelihoods)
        shadows = self.shadows or self.pooled
        if shadows is None:
            return []
        external = self.campaign.shadows.given
        count = f"{shadows.models} shadow model{'' if shadows.models == 1 else 's'}"
        notes = [f"{count}, each trained on a random half of the audited records."]
        if external is not None:
            whose = "the audited records" if self.shadows is not None else f"{external.n:,} other records"
            notes = [f"{count} trained elsewhere, with outputs on {whose}, from {external.source}."]
        return [*notes, *self._health(likelihoods, self._input("included", ""))] if likelihoods else notes

    @property
    def signal(self) -> tuple[str, Callable[[], Float32Array]]:
        """The statistic that shows membership best, in words, and a function of the audited records' (a, M)."""
        kind = self.campaign.target.kind
        words = _WORDS.get(kind, self._column() if kind == "signals" else kind)
        return words, lambda: self._shadow_statistic("logit_confidence")[self.draws.rows]

    def _notes_of_runs(self, likelihoods: list[registry.Variance]) -> list[str]:
        a = len(self.draws.rows)
        notes = [f"{a:,} models, one for each audited record."]
        if not likelihoods:
            return notes
        comparison = (
            f"LiRA compares each record's own model with the {a - 1:,} of the other records, which never learned it."
        )
        return [*notes, comparison, *self._health(likelihoods, None)]

    def _health(self, likelihoods: list[registry.Variance], included: BoolArray | None) -> list[str]:
        variance: registry.Variance = "record" if "record" in likelihoods else "global"
        statistic = self._shadow_statistic("logit_confidence")[self.draws.rows]
        if self.runs:  # without each record's own model
            statistic = statistic[~np.eye(len(statistic), dtype=np.bool_)].reshape(len(statistic), -1)
        state = lira.health(statistic, included, variance=variance)
        return [f"LiRA: {state.note}."] if state.note else []

    def _input(self, need: str, statistic: str) -> Any:
        rows, population, y = self.draws.rows, self.draws.population, self.draws.y
        makers: Mapping[str, Callable[[], Any]] = {
            "target": lambda: self._statistic(self.outputs, statistic)[rows],
            "shadow": lambda: self._shadow_statistic(statistic)[rows],
            "included": lambda: self._shadows.included.T[rows],
            "population": lambda: self._statistic(self.outputs, statistic)[population],
            "population_shadow": lambda: self._shadow_statistic(statistic)[population],
            "features": lambda: self._features()[rows],
            "population_features": lambda: self._features()[population],
            "logits": lambda: np.asarray(self.outputs)[rows],
            "labels": lambda: y[rows],
            "probabilities": lambda: _probabilities(self.outputs)[rows],
            "shadow_probabilities": lambda: np.stack([self._shadow_probabilities(m) for m in self._models], axis=1),
            "confidence": lambda: _own_class(_probabilities(self.outputs)[rows], y[rows]),
            "shadow_confidence": lambda: np.stack(
                [_own_class(self._shadow_probabilities(m), y[rows]) for m in self._models], axis=1
            ),
            "shadow_logits": lambda: np.concatenate([values for values, _, _ in self._pooled()]),
            "shadow_labels": lambda: np.concatenate([labels for _, labels, _ in self._pooled()]),
            "shadow_member": lambda: np.concatenate([member for _, _, member in self._pooled()]),
            "correct": lambda: self._correct()[rows],
            "shadow_correct": lambda: np.stack([self._shadow_correct(m) for m in self._models], axis=1),
            "pooled_correct": lambda: np.concatenate(self._pooled_correct()),
            "pooled_member": lambda: np.concatenate([member for _, _, member in self._pooled()]),
        }
        if need not in makers:
            raise InputError("attack.type", "an attack that a configuration can feed", need, "use it from Python")
        return makers[need]()

    @property
    def _shadows(self) -> ShadowOutputs:
        if self.shadows is None:
            raise InputError("shadow.models", "shadow models", "none", "add shadow: {models: 16}")
        return self.shadows

    @property
    def _models(self) -> range:
        return range(self._shadows.models)

    def _pooled(self) -> Iterable[tuple[Float32Array, NDArray[Any], BoolArray]]:
        """Outputs, labels and memberships of each shadow model: on the audited records, or on those that were given."""
        whole = self.pooled
        if whole is not None:
            return ((np.asarray(whole.model(m)), whole.labels, whole.included[m]) for m in range(whole.models))
        rows, y, shadows = self.draws.rows, self.draws.y, self._shadows
        return ((np.asarray(shadows.model(m))[rows], y[rows], shadows.included[m, rows]) for m in self._models)

    # -- statistics ---------------------------------------------------------------------------------------------------

    def _statistic(self, outputs: NDArray[Any], statistic: str) -> FloatArray:
        """The statistic of all n records under one model; higher for members."""
        values = np.asarray(outputs)
        if values.ndim == 1:  # signals that were given
            return values.astype(np.float64)
        kind = self.campaign.target.kind
        if kind == "signals":
            return values[:, self.columns.index(self._column())].astype(np.float64)
        name = "loss" if statistic == "log_probability" else "logit_confidence"
        if self.campaign.kept_signals is not None:
            return values[:, self.columns.index(name)]
        return output_kinds.member_scores(kind, values, self.draws.y, [name])[name]

    def _column(self) -> str:
        return "loss" if "loss" in self.columns else self.columns[0]

    def _shadow_statistic(self, statistic: str) -> Float32Array:
        if len(self._shadows.shape) == 1 or self._shadows.names:  # signals that were given, or kept
            return self._shadows.signal("loss" if statistic == "log_probability" else "logit_confidence")
        return self._shadows.signal(lambda outputs, _: self._statistic(outputs, statistic))

    def _shadow_probabilities(self, model: int) -> FloatArray:
        """Probabilities of one shadow model on the audited records (a, C)."""
        return _probabilities(self._shadows.model(model))[self.draws.rows]

    def _features(self) -> FloatArray:
        """What is known of a record without its membership: covariates, else the numbers that go into the model."""
        covariates = self.campaign.records.fields.get("covariates")
        values = covariates if covariates is not None else self.campaign.records.x
        by_row = covariates is None and traits_of(self.campaign.target).by_row
        if by_row or isinstance(values, list) or frames.is_frame(values):
            raise InputError("data.covariates", "columns of numbers, for quantile regression", "none", "name them")
        return np.asarray(values, dtype=np.float64).reshape(len(values), -1)

    # -- labels alone -------------------------------------------------------------------------------------------------

    def _correct(self) -> BoolArray:
        """Whether the model is right on each record and on its copies (n, 1 + k)."""
        y, copies = self.draws.y, self.copies
        right: BoolArray = (np.asarray(self.outputs).argmax(axis=1) == y)[:, None]
        return right if copies is None else np.concatenate([right, _classes(copies, len(y)) == y[:, None]], axis=1)

    def _shadow_correct(self, model: int) -> BoolArray:
        """The same of one shadow model on the audited records (a, 1 + k)."""
        rows, y, copies = self.draws.rows, self.draws.y, self.shadow_copies
        right = (np.asarray(self._shadows.model(model)).argmax(axis=1) == y)[:, None]
        if copies is not None:
            predicted = np.asarray(copies.model(model)).argmax(axis=1).reshape(len(y), -1)
            right = np.concatenate([right, predicted == y[:, None]], axis=1)
        correct: BoolArray = right[rows]
        return correct

    def _pooled_correct(self) -> list[BoolArray]:
        if self.pooled is None:
            return [self._shadow_correct(m) for m in self._models]
        return [(values.argmax(axis=1) == labels)[:, None] for values, labels, _ in self._pooled()]


def _probabilities(outputs: NDArray[Any]) -> FloatArray:
    """Logits, or logarithms of probabilities, (n, C) as probabilities."""
    probabilities: FloatArray = special.softmax(np.asarray(outputs, dtype=np.float64), axis=1)
    return probabilities


def _own_class(probabilities: FloatArray, labels: NDArray[Any]) -> FloatArray:
    own: FloatArray = probabilities[np.arange(len(labels)), labels]
    return own


def _classes(copies: NDArray[Any], n: int) -> IntArray:
    """The class (n, k) that was predicted for each copy, from classes (n, k) or outputs (n, k, C)."""
    if copies.shape[:1] != (n,) or copies.ndim not in (2, 3) or (copies.ndim == 2 and copies.dtype.kind not in "iu"):
        allowed = f"predicted classes ({n}, k), or outputs ({n}, k, C)"
        received = f"{copies.dtype} of shape {copies.shape}"
        raise InputError("data.copies", allowed, received, "what the model said of k copies of every record")
    return copies.astype(np.int64) if copies.ndim == 2 else copies.argmax(axis=2)


# -- outputs of some models, on some records ---------------------------------------------------------------------------


def _parted(trained: ShadowOutputs, n: int) -> tuple[ShadowOutputs, ShadowOutputs | None]:
    """Outputs on the first n records, and on what follows them: their copies, if any."""
    if trained.n == n:
        return trained, None
    parts = []
    for part in (slice(None, n), slice(n, None)):
        sources = tuple(trained.model(m)[part] for m in range(trained.models))
        fields: dict[str, Any] = {"included": trained.included[:, part], "labels": trained.labels[part]}
        parts.append(replace(trained, **fields, sources=sources, shape=sources[0].shape))
    return parts[0], parts[1]
