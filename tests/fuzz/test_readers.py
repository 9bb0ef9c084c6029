"""A bounded fuzzing of every reader: files from strangers are read, or refused in one line; nothing else happens.

``python tests/fuzz/run.py --minutes 30`` goes on for longer, under a limit of memory; what it finds is kept in corpus/.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from readers import CORPUS, READERS, attempt, beside, mutated

ROUNDS = {"bundle-verified": 25, "bundle": 60, "evidence-parquet": 60}


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_valid_files_are_read(reader, tmp_path):
    for content in reader.seeds():
        beside(tmp_path)
        path = tmp_path / f"seed{reader.suffix}"
        path.write_bytes(content)
        reader.read(path)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_mutated_files(reader, tmp_path):
    seeds = reader.seeds()
    rng = np.random.default_rng(sum(reader.name.encode()))
    for i in range(ROUNDS.get(reader.name, 200)):
        content = mutated(seeds[i % len(seeds)], rng)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged files may well warn
            problem = attempt(reader, content, tmp_path)
        if problem:
            (tmp_path / "crash").write_bytes(content)
        assert not problem, f"{reader.name}, round {i}: {problem} ({tmp_path / 'crash'})"
        assert time.perf_counter() - started < 60, "hangs"


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-*")), ids=lambda path: path.name)
def test_what_once_crashed(path, tmp_path):
    name = path.name.rsplit(".", 1)[0].rsplit("-", 1)[0]
    reader = next(reader for reader in READERS if reader.name == name)
    assert not attempt(reader, path.read_bytes(), tmp_path)
