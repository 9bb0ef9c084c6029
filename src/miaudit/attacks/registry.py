"""Every attack by name: its function, what it needs, and what it is called in words.

:func:`register` takes one line for an attack, and ``tests/laws`` then hold it to what all attacks obey. The registry
holds attacks that see nothing of the audited membership; ``gaussian_lira`` and cross-fitted quantiles, which learn from
the membership of other records and so need folds, stand in their own modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.attacks import disclosed, label_only, lira, quantile, rmia, shadow_classifier, signals, tokens
from miaudit.errors import InputError, nearest
from miaudit.errors.entry_points import Offered

Statistic = Literal["logit_confidence", "log_probability"]
Variance = Literal["record", "global"]

# What an attack may need: n records, M shadow models, m other records, k copies of a record.
INPUTS: Mapping[str, str] = MappingProxyType(
    {
        "target": "(n,) statistic of each record under the target model, higher for members",
        "shadow": "(n, M) the same statistic under the shadow models",
        "included": "(n, M) whether a shadow model was trained on a record",
        "population": "(m,) statistic of other records, which no model was trained on",
        "population_shadow": "(m, M) the same statistic under the shadow models",
        "features": "(n, d) what is known of a record without its membership",
        "population_features": "(m, d) the same of the other records",
        "logits": "(n, classes) outputs of the target model",
        "labels": "(n,) class of each record",
        "shadow_logits": "(m, classes) outputs of shadow models on records of any kind",
        "shadow_labels": "(m,) class of each of their rows",
        "shadow_member": "(m,) whether the shadow model was trained on the row's record",
        "probabilities": "(n, classes) probabilities under the target model",
        "shadow_probabilities": "(n, M, classes) the same under the shadow models",
        "confidence": "(n,) probability of each record's own class under the target model",
        "shadow_confidence": "(n, M) the same under the shadow models",
        "correct": "(n, k) whether the target model is right on augmented copies",
        "shadow_correct": "(n, M, k) whether the shadow models are right on the same copies",
        "pooled_correct": "(m, k) whether shadow models are right on copies of records of any kind",
        "pooled_member": "(m,) whether the shadow model was trained on the row's record",
        "log_p": "(tokens,) log-probability of each token",
        "offsets": "(n + 1,) where each record's tokens begin and end",
        "token_mean": "(tokens,) mean log-probability over the vocabulary",
        "token_std": "(tokens,) its standard deviation",
        "compressed": "(n,) bytes of each text after zlib",
        "reference_log_p": "(tokens,) log-probability of each token under a reference model",
        "reference_offsets": "(n + 1,) where each record's tokens begin and end for the reference model",
        "top1": "(tokens,) whether the token is the model's likeliest",
        "tokens": "(tokens,) number of each token in the vocabulary",
        "prefixed_log_p": "(tokens,) log-probability of each token where texts of non-members stand before the text",
        "frequency_log_p": "(tokens,) logarithm of the token's share of a large corpus",
        "neighbour_log_p": "(neighbours,) mean log-probability of the tokens of texts that resemble a record",
        "neighbour_offsets": "(n + 1,) where each record's neighbours begin and end",
    }
)


@dataclass(frozen=True)
class Attack:
    """A function from inputs to scores.

    Attributes
    ----------
    name : in configuration files and findings
    words : in reports
    function : takes the inputs in the order of ``needs``; returns (n,), higher is more member-like
    needs : names from :data:`INPUTS`
    statistic : what ``target``, ``shadow`` and the population's statistics should be
    random : whether the function takes ``rng``
    least_models : shadow models that it takes, of those that look at any
    online : whether it needs models that learned a record and models that did not, for every record
    gaussian : whose variance it takes where it takes the statistics for Gaussian, "record" or "global"; else None
        A campaign then says how Gaussian they look.
    """

    name: str
    words: str
    function: Callable[..., FloatArray]
    needs: tuple[str, ...]
    statistic: Statistic = "logit_confidence"
    random: bool = False
    least_models: int = 1
    online: bool = False
    gaussian: Variance | None = None

    def __post_init__(self) -> None:
        for need in self.needs:
            if need not in INPUTS:
                hint = nearest(need, INPUTS) or "choose one"
                raise InputError("needs", f"names from {', '.join(INPUTS)}", repr(need), hint)
        if self.statistic not in get_args(Statistic):
            raise InputError("statistic", " or ".join(get_args(Statistic)), repr(self.statistic), "choose one")

    def score(self, inputs: Mapping[str, Any], *, rng: np.random.Generator) -> FloatArray:
        """Score the records (n,); inputs that the attack does not need are not looked at.

        Raises
        ------
        InputError
            For an input that is missing, and as the function does.

        Examples
        --------
        >>> ATTACKS["label_only"].score({"correct": [[True], [False]]}, rng=np.random.default_rng(0)).tolist()
        [1.0, 0.0]
        """
        missing = [need for need in self.needs if inputs.get(need) is None]
        if missing:
            raise InputError(missing[0], INPUTS[missing[0]], "nothing", f"{self.name} needs {', '.join(self.needs)}")
        values = [inputs[need] for need in self.needs]
        return self.function(*values, rng=rng) if self.random else self.function(*values)


class _Attacks(Offered[Attack]):
    """Every signal is an attack, those of other packages too."""

    def __getitem__(self, name: str) -> Attack:
        if name in _ATTACKS or name not in signals.SIGNALS:
            return super().__getitem__(name)
        return _of_signal(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in signals.SIGNALS

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*super().__iter__(), *signals.SIGNALS])


def _of_signal(name: str) -> Attack:
    def score(logits: Any, labels: Any) -> FloatArray:
        return signals.member_scores(labels=labels, logits=logits, names=[name])[name]

    return Attack(name, name.replace("_", " "), score, ("logits", "labels"))


_ATTACKS: dict[str, Attack] = {name: _of_signal(name) for name in signals.BUILT_IN}
_ELSEWHERE = ("gaussian_lira",)  # see above: it has a name, and folds
ATTACKS = _Attacks("miaudit.attacks", Attack, _ATTACKS)


def register(
    name: str,
    function: Callable[..., FloatArray],
    needs: str,
    words: str,
    *,
    statistic: Statistic = "logit_confidence",
    random: bool = False,
    least_models: int = 1,
    online: bool = False,
    gaussian: Variance | None = None,
) -> Attack:
    """Add an attack; from then on campaigns and configuration files know it by its name.

    Parameters
    ----------
    needs : names from :data:`INPUTS`, separated by spaces, in the order of the arguments of ``function``
    name, function, words, statistic, random, least_models, online, gaussian : as of :class:`Attack`

    Raises
    ------
    InputError
        For a name that is taken, something that cannot be called, and needs or a statistic that nobody provides.
    """
    if not isinstance(name, str) or not name.strip():
        raise InputError("name", "a text", repr(name), "findings and configuration files will name it so")
    if not callable(function):
        raise InputError("function", "a function of the inputs", type(function).__name__, "it returns one score each")
    if name in _ATTACKS or name in _ELSEWHERE:
        raise InputError("name", "a new name", repr(name), "choose another, or use the attack that has it")
    attack = Attack(name, words, function, tuple(needs.split()), statistic, random, least_models, online, gaussian)
    return _ATTACKS.setdefault(name, attack)


def get(name: str) -> Attack:
    """Return the attack of a name.

    Examples
    --------
    >>> get("lira_offline").words
    'LiRA, offline'
    >>> get("lira_ofline")
    Traceback (most recent call last):
    miaudit.errors.InputError: attack: expected one of ..., received 'lira_ofline'; did you mean lira_offline?
    """
    return ATTACKS.named(name, "attack")


_SHADOW = "target shadow included"
_POPULATION = "target shadow included population population_shadow"
_LOGITS = "logits labels shadow_logits shadow_labels shadow_member"
_VECTORS, _CONFIDENCES = "probabilities shadow_probabilities included", "confidence shadow_confidence included"
_FEATURES = "target features population population_features"
_TWO_MODELS = "log_p offsets reference_log_p reference_offsets"
_AT_ERRORS = "log_p offsets top1 reference_log_p reference_offsets"
_FREQUENCIES = "log_p offsets tokens frequency_log_p"
_NEIGHBOURS = "log_p offsets neighbour_log_p neighbour_offsets"

_online = partial(register, needs=_SHADOW, least_models=4, online=True)  # two models of each side give a variance
_offline = partial(register, needs=_SHADOW, least_models=4)
_online("lira_online", lira.online, words="LiRA, online", gaussian="record")
_everywhere = partial(lira.online, variance="global")
_online("lira_online_global", _everywhere, words="LiRA, online, global variance", gaussian="global")
_online("lira_online_one_sided", partial(lira.online, sides=1), words="LiRA, online, one-sided", gaussian="record")
_offline("lira_offline", lira.offline, words="LiRA, offline", gaussian="record")
_everywhere = partial(lira.offline, variance="global")
_offline("lira_offline_global", _everywhere, words="LiRA, offline, global variance", gaussian="global")
_offline("lira_offline_two_sided", partial(lira.offline, sides=2), words="LiRA, offline, two-sided", gaussian="record")
register("dirichlet_ratio", disclosed.confidence_vector, _VECTORS, "Dirichlet ratio of confidence vectors")
register("beta_ratio", disclosed.true_label, _CONFIDENCES, "Beta ratio of the true label's confidence")
register("rmia_online", rmia.online, _POPULATION, "RMIA, online", statistic="log_probability", online=True)
register("rmia_offline", rmia.offline, _POPULATION, "RMIA, offline", statistic="log_probability")
register("quantile_regression", quantile.score, _FEATURES, "quantile regression", random=True)
register("shadow_classifier", shadow_classifier.score, _LOGITS, "shadow classifier")
_per_class = partial(shadow_classifier.score, classes="per-class")
register("shadow_classifier_per_class", _per_class, _LOGITS, "shadow classifier of each class")
register("label_only", label_only.score, "correct", "label-only")
register("label_only_calibrated", label_only.calibrated, "correct shadow_correct included", "label-only, calibrated")
register("label_only_learned", label_only.learned, "correct pooled_correct pooled_member", "label-only, learned")
register("token_loss", tokens.loss, "log_p offsets", "loss per token")
register("min_k", tokens.min_k, "log_p offsets", "min-k%")
register("min_k_plus_plus", tokens.min_k_plus_plus, "log_p offsets token_mean token_std", "min-k%++")
register("zlib_ratio", tokens.zlib_ratio, "log_p offsets compressed", "loss against zlib")
register("reference_ratio", tokens.reference_ratio, _TWO_MODELS, "loss against a reference model")
register("error_zone", tokens.error_zone, _AT_ERRORS, "rises at errors against a reference model")
register("window_votes", tokens.window_votes, _TWO_MODELS, "windows likelier than for a reference model")
register(
    "prefix_ratio", tokens.prefix_ratio, "log_p offsets prefixed_log_p", "loss with and without others' texts before"
)
register("calibrated_divergence", tokens.calibrated_divergence, _FREQUENCIES, "probabilities against frequencies")
register("surprise", tokens.surprise, "log_p offsets token_mean", "surprising tokens")
register("neighbourhood", tokens.neighbourhood, _NEIGHBOURS, "loss against neighbours")
