"""Print the table of experiments/validity/multi_run.md: how often bounds exceed the truth, and what they reach."""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from miaudit.dp.multi_run import ClopperPearson, Joint
from worlds.multi_run import WORLDS, audits, rules


def main(trials: int = 200, replicates: int = 2000) -> None:
    print(f"{replicates:,} audits of {trials} + {trials} runs each; standard error of a rate of 5%: ", end="")
    print(f"{math.sqrt(0.05 * 0.95 / replicates):.4f}\n")
    print("| world | parameter | truth | threshold | test | above the truth | mean bound |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, world in WORLDS.items():
        for parameter in ("epsilon", "mu"):
            truth = world.truth(parameter)
            if math.isinf(truth):
                continue
            for rule, option in rules(world).items():
                for method in (Joint(), ClopperPearson()):
                    found = audits(world, parameter, option, method, n=trials, replicates=replicates, seed=12)
                    test = "joint" if isinstance(method, Joint) else "Clopper-Pearson"
                    row = f"| {name} | {parameter} | {truth:.3f} | {rule} | {test} "
                    print(f"{row}| {(found > truth).mean():.4f} | {found.mean():.3f} |", flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
