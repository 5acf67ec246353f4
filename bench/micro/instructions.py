#!/usr/bin/env python3
"""Counts the instructions of local hot paths with callgrind, and compares them with the recorded ones.

    bazel test --config=opt //bench/micro:instructions_test               fails when one has grown by more than 3 %
    bazel run --config=opt //bench/micro:instructions_test -- --record    records the counts, to be committed with the reason

//tests/instructions does the same for the server's.

Counts are of one build: another compiler or other flags execute other instructions, and are not compared.

    instructions.py PATH_OF_HOT_PATHS PATH_OF_JSON [--record]
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GROWTH = 0.03
# The processor selects the implementations of memcpy and the like: use the same ones everywhere.
TUNABLES = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-BMI2,-ERMS,-FSRM,-RTM"


def count(hot_paths):
  """Returns (the compiler and its options, {path: instructions of one operation})."""
  with tempfile.TemporaryDirectory() as directory:
    # The program's stack begins with its environment and its name. Its position changes the count by a few
    # instructions, so both are always the same.
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={directory}/out",
         "./" + os.path.basename(hot_paths)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, cwd=os.path.dirname(hot_paths),
        env={"PATH": "/usr/bin:/bin", "GLIBC_TUNABLES": TUNABLES})
    if done.returncode != 0:
      sys.exit(f"hot_paths failed under valgrind (exit code {done.returncode}):\n{done.stderr[-3000:]}")
    counts = {}
    for path in pathlib.Path(directory).iterdir():
      text = path.read_text(encoding="utf-8", errors="replace")
      name = re.search(r"^desc: Trigger: Client Request: (\w+)/(\d+)$", text, re.MULTILINE)
      total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
      if name and total:
        counts[name[1]] = round(int(total[1]) / int(name[2]), 2)
  if not counts:
    sys.exit("callgrind counted nothing: " + done.stderr[-3000:])
  return done.stdout.strip(), dict(sorted(counts.items()))


def compare(before, counts, growth=GROWTH):
  """Prints the change of each count. Returns whether one is missing, or has grown by more than this fraction."""
  failed = False
  for name in sorted({*before, *counts}):
    old, new = before.get(name), counts.get(name)
    if old is None or new is None:
      failed = True
      print(f"{name:30} {'is not recorded' if old is None else 'was not counted'}")
      continue
    grown = new / old - 1
    verdict = "grown" if grown > growth else "less: record it, to keep it" if grown < -GROWTH else "as recorded"
    failed |= grown > growth
    print(f"{name:30} {old:10.2f} -> {new:10.2f}  {grown * 100:+6.2f} %  {verdict}")
  return failed


def main(argv):
  hot_paths, recorded_path = argv[0], pathlib.Path(argv[1])
  built_by, counts = count(os.path.abspath(hot_paths))
  if "--record" in argv:
    target = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")) / argv[1]
    if "NOT optimized" in built_by:
      sys.exit("to record, build with --config=opt")
    target.write_text(json.dumps({"built_by": built_by, "instructions_per_operation": counts}, indent=2) + "\n",
                      encoding="utf-8")
    print(f"wrote {target}:\n{target.read_text(encoding='utf-8')}")
    return 0
  recorded = json.loads(recorded_path.read_text(encoding="utf-8"))
  comparable = built_by == recorded["built_by"]
  failed = compare(recorded["instructions_per_operation"], counts, GROWTH if comparable else math.inf)
  if not comparable:
    print(f"Not compared: recorded with {recorded['built_by']}, built by {built_by}.")
  if failed:
    package = os.path.dirname(argv[1])
    print(f"A hot path executes more than 3 % more instructions than {argv[1]} says, or is not in it. If that is meant:\n"
          f"bazel run --config=opt //{package}:instructions_test -- --record, and commit the file with the reason.")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
