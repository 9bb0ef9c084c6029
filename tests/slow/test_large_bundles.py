"""Large bundles as their sizes allow: read within ten times what they declare plus 300 MB, whatever the columns."""

import numpy as np
import pytest

from bundle import test_reading
from bundle.test_reading import MB, bundled, limit, measured, plain
from miaudit.bundle import contents

pytestmark = [pytest.mark.slow, test_reading.pytestmark]

MANY = {
    "as little as there can be of each record": lambda: {"records__npz": plain(3 * MB), "rows__npy": None},
    "with digests": lambda: {"records__npz": plain(MB // 2)},
    "units of one byte": lambda: {"records__npz": plain(2 * MB, unit=np.arange(2 * MB) % 7 == 0), "rows__npy": None},
    "short names": lambda: {"records__npz": plain(MB // 2, unit=np.array(["ab"] * (MB // 2)))},
    "a constant in every row": lambda: {"records__npz": plain(MB // 4, source=np.array(["abc"] * (MB // 4)))},
    "short texts": lambda: {
        "records__npz": contents.arrays.write(
            {"score": np.zeros(MB // 2), "member": np.arange(MB // 2) % 2 == 0, "text": np.full(MB // 2, "ab")}
        )
    },
    "one long text": lambda: {
        "records__npz": contents.arrays.write(
            {
                "score": np.zeros(1000),
                "member": np.arange(1000) % 2 == 0,
                "text": np.array(["", "x" * 5 * MB] * 2 + ["y"] * 996, dtype=object),
            }
        )
    },
}


@pytest.mark.parametrize("make", MANY.values(), ids=MANY)
def test_many_records_are_read_within_the_limit(tmp_path, make):
    path = bundled(tmp_path / "b.zip", **make())
    said, peak = measured(path)
    assert said.startswith("read")
    assert peak < limit(path)
