"""Scores of texts from the log-probabilities that a language model gives to their tokens.

Texts differ in length, so all tokens lie in one flat array: record i owns ``log_p[offsets[i]:offsets[i + 1]]``, natural
logarithms of the probability of each token given those before it. Every score is **higher for members**.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray, IntArray
from miaudit.errors import InputError, nearest
from miaudit.io.token_files import read, write
from miaudit.io.token_records import LARGEST, ROUNDING, Limits, TokenRecords, read_jsonl, write_jsonl

__all__ = [
    "ATTACKS",
    "DEFAULT",
    "Limits",
    "TokenAttack",
    "TokenRecords",
    "calibrated_divergence",
    "error_zone",
    "loss",
    "member_scores",
    "min_k",
    "min_k_plus_plus",
    "neighbourhood",
    "prefix_ratio",
    "read",
    "read_jsonl",
    "reference_ratio",
    "scores_of",
    "surprise",
    "window_votes",
    "write",
    "write_jsonl",
    "zlib_ratio",
]

# A predictive distribution narrower than this is a point mass to a float32 model; the floor keeps z finite and ordered.
STD_FLOOR = 1e-6
_WINDOWS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
_MOST_DIVERGENCE = 0.01
_SURE = 2.0  # nats of entropy
_REFERENCE = ("reference_log_p", "reference_offsets")


# -- scores -----------------------------------------------------------------------------------------------------------


def loss(log_p: ArrayLike, offsets: ArrayLike) -> FloatArray:
    """Return minus the loss: the mean log-probability of the tokens (n,), at most 0; higher for members.

    The loss is the mean negative log-likelihood per token, the logarithm of the perplexity (Yeom et al. 2018).

    Parameters
    ----------
    log_p : array (tokens,), log-probabilities in nats
    offsets : array (n + 1,) of int, rising from 0 to ``tokens``; no record without tokens

    Raises
    ------
    InputError
        For numbers that are no log-probabilities, and offsets that do not part them.

    Examples
    --------
    >>> loss([-1.0, -3.0, -5.0], [0, 2, 3]).tolist()
    [-2.0, -5.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    return _means(values, starts)


def min_k(log_p: ArrayLike, offsets: ArrayLike, *, k: float = 0.2) -> FloatArray:
    """Return Min-k%: the mean log-probability of the least likely tokens (n,), <= 0; higher for members.

    Shi et al., "Detecting Pretraining Data from Large Language Models" (ICLR 2024), Eq. (2). Of a text of L tokens
    floor(k L) count, and one where that is none.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    k : float in (0, 1]

    Examples
    --------
    >>> min_k([-1.0, -3.0, -2.0, -8.0, -5.0], [0, 4, 5], k=0.5).tolist()
    [-5.5, -5.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    return _mean_of_lowest(values, starts, _share(k))


def min_k_plus_plus(
    log_p: ArrayLike, offsets: ArrayLike, mean: ArrayLike, std: ArrayLike, *, k: float = 0.2
) -> FloatArray:
    """Return Min-k%++: the mean of the ``k`` lowest standardised log-probabilities (n,); higher for members.

    z = (log p - mean) / std, where mean and std are of the log-probability of a token that the model itself draws at
    that position (Zhang et al., "Min-K%++", ICLR 2025, Eq. (3)). A std below 1e-6 is taken as 1e-6.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    mean : array (tokens,), sum over the vocabulary of p log p, at most 0
    std : array (tokens,), root of the sum over the vocabulary of p (log p - mean)^2, 0 or more
    k : float in (0, 1]

    Examples
    --------
    >>> min_k_plus_plus([-1.0, -3.0], [0, 2], mean=[-1.0, -1.0], std=[1.0, 0.5], k=0.5).tolist()
    [-4.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    centre, spread = _beside(mean, "mean", values), _beside(std, "std", values)
    if (spread < 0).any():
        raise InputError("std", "0 or more", f"a smallest value of {spread.min():.4g}", "it is a standard deviation")
    return _mean_of_lowest((values - centre) / np.maximum(spread, STD_FLOOR), starts, _share(k))


def zlib_ratio(log_p: ArrayLike, offsets: ArrayLike, compressed: ArrayLike) -> FloatArray:
    """Return minus the loss over the compressed size in bytes (n,), at most 0; higher for members.

    Carlini et al., "Extracting Training Data from Large Language Models" (2021), section 6: the loss (per token)
    against what zlib makes of the text. Texts of unequal length differ in it for their length alone.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    compressed : array (n,), bytes after compression, above 0: :func:`compressed_bytes`

    Examples
    --------
    >>> zlib_ratio([-1.0, -3.0], [0, 2], [8]).tolist()
    [-0.25]
    """
    score = loss(log_p, offsets)
    size = np.asarray(compressed, dtype=np.float64)
    if size.shape != score.shape or not (np.isfinite(size) & (size > 0)).all():
        allowed = f"{len(score)} sizes above 0"
        raise InputError("compressed", allowed, f"shape {size.shape}", "use compressed_bytes(texts)")
    return score / size


def reference_ratio(
    log_p: ArrayLike, offsets: ArrayLike, reference_log_p: ArrayLike, reference_offsets: ArrayLike
) -> FloatArray:
    """Return minus the loss over a reference model's loss (n,), at most 0; higher for members.

    The ratio of log-perplexities of Carlini et al. 2021, section 6. The reference may cut texts into other tokens. It
    must not have been trained on the audited records; what it shares with the model (hard words, a topic) cancels.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`, of the audited model
    reference_log_p, reference_offsets : the same of the reference model

    Raises
    ------
    InputError
        Also if the reference is certain of every token of a text: its loss of 0 divides nothing.

    Examples
    --------
    >>> reference_ratio([-1.0, -3.0], [0, 2], [-4.0], [0, 1]).tolist()
    [-0.5]
    """
    score = loss(log_p, offsets)
    values, starts = _sequences(reference_log_p, reference_offsets, "reference_log_p")
    reference = -_means(values, starts)
    if len(reference) != len(score):
        allowed = f"{len(score)} records"
        raise InputError("reference_offsets", allowed, f"{len(reference)}", "score the same texts by both models")
    return score / _above_zero(reference, "reference_log_p")


def error_zone(
    log_p: ArrayLike,
    offsets: ArrayLike,
    top1: ArrayLike,
    reference_log_p: ArrayLike,
    reference_offsets: ArrayLike,
) -> FloatArray:
    """Return the error-zone score (n,), in [0, 1]; higher for members.

    Of the tokens that the model does not think likeliest, the rises of log p against the reference model, over rises
    and falls together: P / (P + N), which ranks texts as the P / N of Ilic et al. ("Powerful Training-Free Membership
    Inference", 2026) does and stays finite. A text without such a token, or without any change there, has 1 and 1/2.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    top1 : array (tokens,) of bool: whether the token is the model's likeliest
    reference_log_p, reference_offsets : of the same tokens by the model before fine-tuning, or one like it

    Examples
    --------
    >>> error_zone([-1.0, -2.0, -3.0], [0, 3], [False, False, True], [-4.0, -1.0, -9.0], [0, 3]).tolist()
    [0.75]
    """
    change, starts = _against_reference(log_p, offsets, reference_log_p, reference_offsets)
    wrong = ~np.asarray(top1, dtype=np.bool_)
    if wrong.shape != change.shape:
        raise InputError("top1", f"{len(change)} values, one for each token", f"{wrong.shape}", "check the offsets")
    change = np.where(wrong, change, 0.0)
    rises, falls = (np.add.reduceat(np.maximum(part, 0.0), starts[:-1]) for part in (change, -change))
    moved = rises + falls
    still = np.where(np.add.reduceat(wrong, starts[:-1], dtype=np.int64) > 0, 0.5, 1.0)
    return np.asarray(np.where(moved > 0, rises / np.where(moved > 0, moved, 1.0), still))


def window_votes(
    log_p: ArrayLike, offsets: ArrayLike, reference_log_p: ArrayLike, reference_offsets: ArrayLike
) -> FloatArray:
    """Return the share of windows of a text that the model finds likelier than the reference does (n,), in [0, 1].

    Averaged over windows of 2 to 40 tokens in steps of about 1.4, those that are not longer than the text (all of it,
    where it is shorter); higher for members. Chen et al., "Window-based Membership Inference Attacks" (2026).

    Parameters
    ----------
    log_p, offsets, reference_log_p, reference_offsets : as in :func:`error_zone`

    Examples
    --------
    >>> window_votes([-1.0, -2.0, -3.0], [0, 3], [-4.0, -1.0, -2.5], [0, 3]).tolist()
    [0.75]
    """
    change, starts = _against_reference(log_p, offsets, reference_log_p, reference_offsets)
    upto, lengths, first = np.concatenate([[0.0], np.cumsum(change)]), np.diff(starts), starts[:-1]
    short = lengths < _WINDOWS[0]
    votes = np.where(short, change[first] > 0, 0.0)
    for size in _WINDOWS:
        fits = lengths >= size
        likelier = np.concatenate([[0], np.cumsum(upto[size:] > upto[:-size])])  # windows that begin before a token
        own = likelier[starts[1:][fits] - size + 1] - likelier[first[fits]]
        votes[fits] += own / (lengths[fits] - size + 1)
    return np.asarray(votes / np.maximum(np.searchsorted(_WINDOWS, lengths, side="right"), 1))


def prefix_ratio(log_p: ArrayLike, offsets: ArrayLike, prefixed_log_p: ArrayLike) -> FloatArray:
    """Return the loss after texts of non-members over the loss without them (n,), 0 or more; higher for members.

    ReCaLL (Xie et al., EMNLP 2024): context of non-members helps the model with texts that it does not know, and
    hardly with those that it does.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    prefixed_log_p : array (tokens,), of the same tokens where texts of non-members stand before the text

    Examples
    --------
    >>> prefix_ratio([-1.0, -3.0], [0, 1, 2], [-1.5, -1.5]).tolist()
    [1.5, 0.5]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    losses = _above_zero(-_means(values, starts), "log_p")
    return -_means(_beside(prefixed_log_p, "prefixed_log_p", values), starts) / losses


def calibrated_divergence(
    log_p: ArrayLike, offsets: ArrayLike, tokens: ArrayLike, frequency_log_p: ArrayLike
) -> FloatArray:
    """Return the mean of -p log f over the first occurrence of each token (n,), in [0, 0.01]; higher for members.

    DC-PDD (Zhang et al., EMNLP 2024): p is the model's probability of a token and f its share of a large corpus; each
    term is at most 0.01.

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    tokens : array (tokens,) of int: their numbers
    frequency_log_p : array (tokens,), log f

    Examples
    --------
    >>> calibrated_divergence([-7.0, -7.0, -9.0], [0, 3], [4, 4, 5], [-8.0, -8.0, -8.0]).round(4).tolist()
    [0.0041]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    terms = np.minimum(-np.exp(values) * _beside(frequency_log_p, "frequency_log_p", values), _MOST_DIVERGENCE)
    number = np.asarray(tokens)
    if number.dtype.kind not in "iu" or number.shape != values.shape:
        raise InputError("tokens", f"{len(values)} whole numbers, one for each token", f"{number.shape}", "check them")
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    first = np.zeros(len(values), dtype=np.bool_)
    first[np.unique(row * (int(number.max()) + 1) + number, return_index=True)[1]] = True
    total = np.add.reduceat(np.where(first, terms, 0.0), starts[:-1])
    return np.asarray(total / np.add.reduceat(first, starts[:-1], dtype=np.int64))


def surprise(log_p: ArrayLike, offsets: ArrayLike, mean: ArrayLike, *, k: float = 0.2) -> FloatArray:
    """Return the mean log-probability of surprising tokens (n,), at most 0; higher for members.

    SURP (Zhang and Wu, "Adaptive Pre-training Data Detection", 2024): tokens among the ``k`` least likely of a text of
    which the model was sure that another would follow, with an entropy below 2 nats. A text without any has 0.

    Parameters
    ----------
    log_p, offsets, k : as in :func:`min_k`
    mean : array (tokens,), minus the entropy of the prediction, as in :func:`min_k_plus_plus`

    Examples
    --------
    >>> surprise([-1.0, -6.0, -5.0, -8.0], [0, 4], mean=[-1.0, -1.0, -1.0, -4.0], k=0.5).tolist()
    [-6.0]
    """
    values, starts = _sequences(log_p, offsets, "log_p")
    sure = -_beside(mean, "mean", values) < _SURE
    limit = np.repeat(_highest_of_lowest(values, starts, _share(k)), np.diff(starts))
    taken = sure & (values <= limit)
    total = np.add.reduceat(np.where(taken, values, 0.0), starts[:-1])
    return np.asarray(total / np.maximum(np.add.reduceat(taken, starts[:-1], dtype=np.int64), 1))


def neighbourhood(
    log_p: ArrayLike, offsets: ArrayLike, neighbour_log_p: ArrayLike, neighbour_offsets: ArrayLike
) -> FloatArray:
    """Return by how much a text is likelier than texts that resemble it (n,), in nats a token; higher for members.

    Mattern et al., "Membership Inference Attacks against Language Models via Neighbourhood Comparison" (ACL 2023).

    Parameters
    ----------
    log_p, offsets : as in :func:`loss`
    neighbour_log_p, neighbour_offsets : mean log-probability of each neighbour's tokens, by record

    Examples
    --------
    >>> neighbourhood([-1.0, -3.0], [0, 2], [-4.0, -2.0], [0, 2]).tolist()
    [1.0]
    """
    score = loss(log_p, offsets)
    beside = loss(neighbour_log_p, neighbour_offsets)
    if len(beside) != len(score):
        raise InputError("neighbour_offsets", f"{len(score)} records", f"{len(beside)}", "give each text neighbours")
    return score - beside


def compressed_bytes(texts: Iterable[str]) -> IntArray:
    """Return the size of each text in bytes (n,) after zlib at its default level; at least 8.

    Builds of zlib differ by a byte now and then: compare sizes from one machine only.

    Examples
    --------
    >>> compressed_bytes(["", "abc " * 100]).tolist()
    [8, 17]
    """
    return np.array([len(zlib.compress(text.encode())) for text in texts], dtype=np.int64)


class TokenAttack(NamedTuple):
    """An attack on texts: function, arrays needed beside log_p and offsets, whether it takes k or compares tokens."""

    function: Callable[..., FloatArray]
    needs: tuple[str, ...] = ()
    takes_k: bool = False
    by_token: bool = False  # each token with the same of the reference model


ATTACKS: Mapping[str, TokenAttack] = MappingProxyType(
    {
        "loss": TokenAttack(loss),
        "min_k": TokenAttack(min_k, takes_k=True),
        "min_k_plus_plus": TokenAttack(min_k_plus_plus, ("mean", "std"), takes_k=True),
        "zlib_ratio": TokenAttack(zlib_ratio, ("text",)),
        "reference_ratio": TokenAttack(reference_ratio, _REFERENCE),
        "error_zone": TokenAttack(error_zone, ("top1", *_REFERENCE), by_token=True),
        "window_votes": TokenAttack(window_votes, _REFERENCE, by_token=True),
        "prefix_ratio": TokenAttack(prefix_ratio, ("prefixed_log_p",)),
        "calibrated_divergence": TokenAttack(calibrated_divergence, ("tokens", "frequency_log_p")),
        "surprise": TokenAttack(surprise, ("mean",), takes_k=True),
        "neighbourhood": TokenAttack(neighbourhood, ("neighbour_log_p", "neighbour_offsets")),
    }
)


# What is computed where no score is named: more scores widen all intervals (docs/text.md has what the others add).
DEFAULT = ("loss", "min_k", "min_k_plus_plus", "reference_ratio")


def member_scores(
    *,
    log_p: ArrayLike,
    offsets: ArrayLike,
    text: Sequence[str] | None = None,
    names: Iterable[str] | None = None,
    k: float = 0.2,
    **beside: ArrayLike | None,
) -> dict[str, FloatArray]:
    """Compute scores of texts by name; all are higher for members.

    Parameters
    ----------
    log_p, offsets : as in the functions above
    text : sequence of n str, for ``zlib_ratio``
    names : iterable of str, from :data:`ATTACKS`
        Default: those of :data:`DEFAULT` whose needs are given.
    k : float in (0, 1], of the attacks on the least likely tokens
    beside : ``mean``, ``std``, ``top1``, ``tokens``, ``prefixed_log_p``, ``frequency_log_p``, and ``reference_log_p``,
        ``neighbour_log_p`` with ``reference_offsets``, ``neighbour_offsets``, as in the functions above

    Raises
    ------
    InputError
        For unknown names, a score that needs what is not given, and unusable arrays.

    Examples
    --------
    >>> member_scores(log_p=[-1.0, -3.0], offsets=[0, 1, 2])
    {'loss': array([-1., -3.]), 'min_k': array([-1., -3.])}
    """
    known = dict.fromkeys(need for attack in ATTACKS.values() for need in attack.needs)
    odd = next((name for name in beside if name not in known), None)
    if odd is not None:
        raise InputError(
            "member_scores", f"arrays named {', '.join(known)}", odd, nearest(odd, known) or "leave it out"
        )
    inputs = known | beside | {"text": text}
    able = [name for name, attack in ATTACKS.items() if all(inputs[need] is not None for need in attack.needs)]
    wanted = [name for name in able if name in DEFAULT] if names is None else list(dict.fromkeys(names))
    if not wanted:
        raise InputError("attack", f"one of {', '.join(ATTACKS)}", "none", "choose one")
    scores = {}
    for name in wanted:
        if name not in ATTACKS:
            hint = nearest(name, ATTACKS) or "choose one"
            raise InputError("attack", f"one of {', '.join(ATTACKS)}", repr(name), hint)
        attack = ATTACKS[name]
        missing = [need for need in attack.needs if inputs[need] is None]
        if missing:
            raise InputError("attack", f"{', '.join(missing)} for {name}", "none", f"give it, or choose {able[0]}")
        needs = [compressed_bytes(text or ()) if need == "text" else inputs[need] for need in attack.needs]
        scores[name] = attack.function(log_p, offsets, *needs, **({"k": k} if attack.takes_k else {}))
    return scores


def scores_of(records: TokenRecords, names: Iterable[str] | None = None, *, k: float = 0.2) -> dict[str, FloatArray]:
    """Compute scores of a file's records by name; default: those of :data:`DEFAULT` that it has arrays for.

    Raises
    ------
    InputError
        As of :func:`member_scores`, and for a comparison token by token with a reference model that cuts texts
        otherwise, also where it cuts them into as many tokens.
    """
    names = None if names is None else list(names)
    apart = 0 if records.same_tokens is None else int(np.count_nonzero(~records.same_tokens))
    compared = [name for name in names or () if apart and name in ATTACKS and ATTACKS[name].by_token]
    if compared:
        received = f"{apart} of {len(records.ids)} texts that the reference model cuts otherwise"
        hint = "use a reference with the same tokenizer, or reference_ratio"
        raise InputError("attack", f"the same tokens by both models, for {compared[0]}", received, hint)
    needs = {need: getattr(records, need) for attack in ATTACKS.values() for need in attack.needs}
    return member_scores(log_p=records.log_p, offsets=records.offsets, **needs, names=names, k=k)


def _means(values: FloatArray, offsets: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(values, offsets[:-1]) / np.diff(offsets))


def _above_zero(losses: FloatArray, name: str) -> FloatArray:
    if (losses <= 0).any():
        row = int(np.flatnonzero(losses <= 0)[0])
        raise InputError(name, "losses above 0", f"{losses[row]:.4g} in record {row}", "drop the record")
    return losses


def _against_reference(
    log_p: ArrayLike, offsets: ArrayLike, reference_log_p: ArrayLike, reference_offsets: ArrayLike
) -> tuple[FloatArray, IntArray]:
    """Return by how much each token (tokens,) is likelier than for the reference model, and the offsets."""
    values, starts = _sequences(log_p, offsets, "log_p")
    reference, others = _sequences(reference_log_p, reference_offsets, "reference_log_p")
    if not np.array_equal(starts, others):
        received = "texts that the reference model cuts otherwise"
        raise InputError("reference_offsets", "the same tokens by both models", received, "use one tokenizer for both")
    return values - reference, starts


def _mean_of_lowest(values: FloatArray, offsets: IntArray, k: float) -> FloatArray:
    """Return the mean of the floor(k L) lowest values (at least one) of each record."""
    return _of_lowest(values, offsets, k, lambda lowest: lowest.mean(axis=1))


def _highest_of_lowest(values: FloatArray, offsets: IntArray, k: float) -> FloatArray:
    return _of_lowest(values, offsets, k, lambda lowest: lowest.max(axis=1))


def _of_lowest(
    values: FloatArray, offsets: IntArray, k: float, summary: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    lengths = np.diff(offsets)
    result = np.empty(len(lengths))
    order = np.argsort(lengths, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[rows[0]])
        count = max(1, int(k * length + 1e-9))  # 0.29 * 100 is 28.999... in floating point
        block = values[offsets[rows, None] + np.arange(length)]
        block.partition(count - 1, axis=1)
        result[rows] = summary(block[:, :count])
    return result


def _sequences(log_p: ArrayLike, offsets: ArrayLike, name: str) -> tuple[FloatArray, IntArray]:
    """Check log-probabilities (tokens,) and offsets (n + 1,), and return them as float64 and int64."""
    values = _flat(log_p, name)
    _at_most_zero(values, name)
    starts = np.asarray(offsets)
    ordered = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) >= 2
    if not ordered or starts[0] != 0 or starts[-1] != len(values):
        allowed = f"whole numbers (n + 1,) from 0 to {len(values)}, the number of tokens"
        shown = f"{starts[0]} to {starts[-1]}" if ordered else f"{starts.dtype} of shape {starts.shape}"
        raise InputError("offsets", allowed, shown, "record i owns the tokens offsets[i] to offsets[i + 1]")
    starts = starts.astype(np.int64)
    short = np.flatnonzero(np.diff(starts) <= 0)
    if len(short):
        raise InputError("offsets", "a token or more in every record", f"none in record {short[0]}", "drop the record")
    return values, starts


def _flat(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        hint = "join the records, and say where each begins"
        raise InputError.of_array(name, "numbers of shape (tokens,)", array, hint)
    result = array.astype(np.float64)
    bad = ~(np.abs(result) <= LARGEST)  # NaN fails too
    if bad.any():
        received = f"NaN, infinity or larger, first at token {int(np.argmax(bad))}"
        raise InputError(name, f"finite numbers up to {LARGEST:g}", received, "leave out tokens without a prediction")
    return result


def _beside(values: ArrayLike, name: str, log_p: FloatArray) -> FloatArray:
    result = _flat(values, name)
    if len(result) != len(log_p):
        raise InputError(name, f"{len(log_p)} values, one for each token", str(len(result)), "check the offsets")
    if name != "std":
        _at_most_zero(result, name)
    return result


def _at_most_zero(values: FloatArray, name: str) -> None:
    if len(values) and values.max() > ROUNDING:
        received = f"a largest value of {values.max():.4g}"
        raise InputError(name, "log-probabilities, at most 0", received, "if these are losses, pass their negatives")


def _share(k: float) -> float:
    if isinstance(k, bool) or not isinstance(k, int | float) or not 0 < k <= 1:
        raise InputError("k", "a share in (0, 1]", repr(k), "write 0.2 for 20%")
    return float(k)
