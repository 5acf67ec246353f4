"""Writes tests/sim/first_seeds.txt: the seed by which the last run of //tests/sim:mutation_test found each break.

Run it in the workspace after `bazel test --config=opt //tests/sim:mutation_test`, when that took minutes. Only breaks
that this run found are in the file afterwards.
"""

import pathlib
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = ROOT / "tests" / "sim" / "first_seeds.txt"
PREFIX = "IsFound/"


def found(logs):
    """Returns {break: seed} of the runs whose test.xml lies below `logs`."""
    seeds = {}
    for path in logs.glob("**/test.xml"):
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            properties = {item.get("name"): item.get("value") for item in case.iter("property")}
            if "seed" in properties:
                seeds[case.get("name").removeprefix(PREFIX)] = int(properties["seed"])
    return seeds


def main():
    seeds = found(ROOT / "bazel-testlogs" / "tests" / "sim" / "mutation_test")
    if not seeds:
        sys.exit("there is no result of //tests/sim:mutation_test")
    SEEDS.write_text("".join(f"{name} {seed}\n" for name, seed in sorted(seeds.items())), encoding="utf-8")
    print(f"{SEEDS.relative_to(ROOT)}: {len(seeds)} seeds")


if __name__ == "__main__":
    main()
