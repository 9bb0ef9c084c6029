"""Run the shard of claims that belongs to this commit: ``make test-validity``, or ``python -m validity`` in tests."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from validity import passed
from validity.history import NoHistory, Position
from validity.shards import Shard
from validity.sources import ROOT, claim_files, sources


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="make test-validity", description=__doc__)
    parser.add_argument("--shard", type=Shard.of, help="another shard than that of the commit, as in 3/12")
    parser.add_argument("--seed", help="another seed than that of the commit, hexadecimal")
    parser.add_argument("--unseen", action="store_true", help="skip what has passed, of a named shard or seed, too")
    parser.add_argument("--processes", default="2", help="default: %(default)s")
    options = parser.parse_args(arguments)
    shard, seed = options.shard, options.seed
    if shard is None or seed is None:
        try:
            here = Position.of(root)
        except NoHistory as refusal:
            print(f"make test-validity: {refusal}, or name both SHARD and SEED", file=sys.stderr)
            return 2
        shard, seed = shard or here.shard, seed or here.seed
        print(f"commit {here.commit[:12]}, number {here.count}: shard {shard}, seed {seed}")
    print(f"run it again: make test-validity SHARD={shard} SEED={seed}")
    files = claim_files(root)
    digests = {file.relative_to(root).as_posix(): passed.digest(sources(file, root), root) for file in files}
    if options.unseen or (options.shard is None and options.seed is None):
        for file in [file for file, source in digests.items() if passed.has_passed(root, file, source, shard)]:
            print(f"skipped: {file}, whose claims of this shard have passed on this source ({passed.RECORD})")
            del digests[file]
    rest = [str(root / file) for file in digests]
    if not rest:
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "-m", "validity", "-n", options.processes]
    command += ["--dist", "load", "--maxschedchunk", "1"]  # the dearest claims are first
    command += ["--shard", str(shard), "--validity-seed", seed, "--durations", "10", *rest]
    sys.stdout.flush()
    code = subprocess.run(command, cwd=root, check=False).returncode
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and len(rest) < len(files):
        print(f"no claim of this shard is in {', '.join(digests)}")  # all of the shard's claims were skipped
        code = 0
    if code == 0:
        passed.add(root, digests, shard)
        print(f"what has passed is in {passed.RECORD}: commit it, and this shard is not run again on this source")
    return code


if __name__ == "__main__":
    sys.exit(main())
