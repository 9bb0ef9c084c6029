"""What a process may not have: addresses to draw with, space on the disk."""

from pathlib import Path

import numpy as np
import pytest

from miaudit.bundle.sealing import SealKeys
from miaudit.errors import OutputError

resource = pytest.importorskip("resource")


def test_a_full_disk_leaves_no_key_that_blocks_the_next_run(tmp_path: Path) -> None:
    member = np.arange(2000) % 2 == 0
    keys = SealKeys.new(member, seal=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            keys.write(tmp_path / "audit.keys.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    keys.write(tmp_path / "audit.keys.json")
    assert (tmp_path / "audit.keys.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputError, match="keys are there already"):
        keys.write(tmp_path / "audit.keys.json")
