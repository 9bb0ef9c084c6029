"""Sealed labels and their keys."""

import stat

import numpy as np
import pytest

from bundle.test_bundle import evidence, made
from miaudit.bundle import read, sealing
from miaudit.bundle.sealing import SealKeys
from miaudit.bundle.verify import verify
from miaudit.errors import InputError


@pytest.mark.long
def test_sealed_labels_are_not_in_the_bundle(tmp_path):
    path, _, bundle, keys = made(tmp_path, seal=True)
    back = read(path)
    assert back.sealed is not None
    assert back.evidence() is None
    assert np.all(back.columns["member"][keys.rows] == sealing.SEALED)
    assert back.evidence(keys).digest == evidence().take(keys.order).replace(source="").digest
    assert verify(path).status == "in-part"  # the audit of the open records came out again
    assert verify(path, keys=keys).status == "verified"
    guessed = [sealing._commitments(keys.rows[:1], np.array([label]), keys.salts[1:2]) for label in (False, True)]
    assert not any(
        np.array_equal(g[0], bundle.sealed.commitments[0]) for g in guessed
    )  # without its salt, no guess can be checked


def test_keys_come_back_and_are_private(tmp_path):
    _, _, _, keys = made(tmp_path, seal=True)
    where = tmp_path / "keys.json"
    keys.write(where)
    assert stat.S_IMODE(where.stat().st_mode) == 0o600
    back = SealKeys.read(where)
    assert back.opens(keys.sealed())
    assert (back.signing, back.audit) == (keys.signing, keys.audit)
    for text in ("", "[]", "{}", '{"format": 1, "rows": [1], "labels": ["x"], "salts": "", "pseudonyms": ""}'):
        where.write_text(text)
        with pytest.raises(InputError, match="key file"):
            SealKeys.read(where)
