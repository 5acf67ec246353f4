#!/usr/bin/env python3
"""protocol.pml, checked by spin: nothing wrong within the bounds, and each deliberate break of the protocol found.

    model_test.py               what CI runs
    model_test.py --deep        larger bounds too: some minutes, and 1 GB
    model_test.py --trace NAME  the steps by which the break NAME ends in a wrong answer
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 280  # for one search: the machine may be busy
# Optimizing would take gcc longer than it would save.
PAN_FLAGS = ["-O0"]

# The bounds within which every interleaving is visited.
PROOFS = {
    "writes": "OPS=3 LOOKUPS=2",
    "writes, no overflow": "OPS=3 LOOKUPS=1 MAIN=2",
    "overflow linked anew": "OPS=2 LOOKUPS=2 ONE_KEY",
    "a move": "OPS=3 LOOKUPS=1 MOVES=1",
    "splits and reuse": "OPS=2 SPLITS=2 LOOKUPS=1",
    "splits and reuse, no overflow": "OPS=2 SPLITS=2 LOOKUPS=1 MAIN=2",
    "splits and reuse, late READs discarded": "OPS=2 SPLITS=2 LOOKUPS=1 MAIN=2 LATE_READ",
}
DEEP = {
    "four writes": "OPS=4 LOOKUPS=2",
    "four writes and moves": "OPS=4 LOOKUPS=1 MOVES=4",
    "splits, reuse and a write": "OPS=3 SPLITS=2 LOOKUPS=1",
    "splits, reuse and a write, no overflow": "OPS=3 SPLITS=2 LOOKUPS=1 MAIN=2",
    "splits and reuse, two lookups": "OPS=2 SPLITS=2 LOOKUPS=2",
}

ONE_WRITE = "OPS=1 LOOKUPS=2"
WRITES = "OPS=3 LOOKUPS=2"
SPLITS = "OPS=2 SPLITS=2 LOOKUPS=1 MAIN=2"
# Each break, and bounds that suffice to find it.
BREAKS = {
    # Writing.
    "ALIVE_BEFORE_SLOT": ONE_WRITE,
    "OLD_DEAD_LAST": ONE_WRITE,  # slot, new alive, and only then the old one DEAD
    "DEAD_FORGOTTEN": ONE_WRITE,
    "DELETE_CLEARS_SLOT_FIRST": ONE_WRITE,
    "LINK_LAST": "OPS=2 LOOKUPS=2 ONE_KEY",
    "VERSION_REUSED": WRITES,
    "CHECKSUM_WITHOUT_VERSION": WRITES,
    "MOVED_STAYS_ALIVE": "OPS=3 LOOKUPS=1 MOVES=1",
    # Splitting.
    "SLOTS_CLEARED_FIRST": SPLITS,
    "RETIRED_STAYS": SPLITS,
    "DIRECTORY_BEFORE_SEGMENT": "OPS=1 SPLITS=1 LOOKUPS=1",
    "ID_REUSED": SPLITS,
    "NO_QUARANTINE": SPLITS,
    "QUARANTINE_FROM_SPLIT": SPLITS,  # it begins with the time that the split was told
    # Reading.
    "NO_SECOND_LOOK": WRITES,
    "DEAD_IS_ABSENT": WRITES,
    "CHECKSUM_IGNORED": WRITES,
    "OVERFLOW_IGNORED": ONE_WRITE,
    "OLD_DIRECTORY_BELIEVED": SPLITS,
    "LATE_BELIEVED": SPLITS,
}

# Of index_epoch.pml: memory that leaves the index.
LEAVING = "LOOKUPS=2"
LEAVING_BREAKS = (
    "NO_WAIT",  # it leaves as soon as the epoch was increased
    "NO_LOOK",  # readers do not look at the epoch
    "EPOCH_BEFORE_DIRECTORY",
    "EPOCH_AFTER_LEAVING",
    "ENTRY_NOT_COMPARED",  # the copy that is relied on is not the one that led there
    "TWO_WORDS",  # level and epoch are READ one after the other
)


def search(defines, directory, model="protocol.pml"):
    """What pan prints of the model with these macros. Leaves the trail of an error in `directory`."""
    macros = ["-D" + name for name in defines.split()]
    run = lambda *command: subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                          text=True, check=False, timeout=SECONDS)
    pathlib.Path(directory, model).write_bytes((HERE / model).read_bytes())
    for step in (["spin", "-a", *macros, model],
                 ["gcc", *PAN_FLAGS, "-w", "-DSAFETY", "-DVECTORSZ=256", "-DMEMLIM=4000", "-o", "pan", "pan.c"]):
        done = run(*step)
        if done.returncode != 0 or "Error" in done.stdout:
            raise RuntimeError(f"{' '.join(step)}:\n{done.stdout}")
    return run("./pan", "-m20000", "-w20").stdout


def count(pattern, output):
    """The number that pan reports, or None."""
    match = re.search(pattern, output)
    return int(match.group(1)) if match else None


class ModelTest(unittest.TestCase):
    proofs = PROOFS

    def test_within_the_bounds_every_answer_is_right(self):
        for name, bounds in self.proofs.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = search(bounds, directory)
                states = count(r"(\d+) states, stored", output)
                print(f"{name}: {states} states of {bounds}", flush=True)
                self.assertEqual(count(r"errors: (\d+)", output), 0, output)
                # Complete: not cut short, and no state taken for another (as bitstate and hash-compact searches do).
                self.assertIn("Full statespace search for:", output)
                for cut in ("Search not completed", "max search depth too small", "truncat", "Bit statespace",
                            "hash-compact", "memory bound", "MEMLIM"):
                    self.assertNotIn(cut, output)
                self.assertGreater(states, 50_000, "the model lost most of its behaviour")

    def test_each_break_is_found(self):
        for name, bounds in BREAKS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = search(f"{bounds} {name}", directory)
                states = count(r"(\d+) states, stored", output)
                print(f"{name}: found after {states} states", flush=True)
                self.assertIn("assertion violated", output)
                self.assertEqual(count(r"errors: (\d+)", output), 1, output)

    def test_memory_that_leaves_the_index_misleads_nobody(self):
        with tempfile.TemporaryDirectory() as directory:
            output = search(LEAVING, directory, "index_epoch.pml")
            self.assertEqual(count(r"errors: (\d+)", output), 0, output)
            self.assertIn("Full statespace search for:", output)
            self.assertNotIn("max search depth too small", output)
            self.assertGreater(count(r"(\d+) states, stored", output), 50_000)
        for name in LEAVING_BREAKS:
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = search(f"{LEAVING} {name}", directory, "index_epoch.pml")
                states = count(r"(\d+) states, stored", output)
                print(f"{name}: found after {states} states", flush=True)
                self.assertIn("assertion violated", output)
        text = (HERE / "index_epoch.pml").read_text(encoding="utf-8")
        conditions = " ".join(re.findall(r"^#\s*(?:ifdef|ifndef|if)\s+(.*)$", text, re.MULTILINE))
        asked = set(re.findall(r"[A-Z][A-Z_]+", conditions))
        self.assertEqual(asked - {"LOOKUPS"}, set(LEAVING_BREAKS))

    def test_breaks_are_those_of_the_model(self):
        """A macro that is misspelt here would break nothing, and one that is forgotten here would not be tested."""
        bounds = {"OPS", "LOOKUPS", "SPLITS", "MOVES", "MAIN", "ONE_KEY", "LATE_READ"}
        text = (HERE / "protocol.pml").read_text(encoding="utf-8")
        asked = set()
        for line in re.findall(r"^#\s*(?:ifdef|ifndef|if)\s+(.*)$", text, re.MULTILINE):
            asked |= set(re.findall(r"[A-Z][A-Z_]+", line))
        self.assertEqual(asked - bounds, set(BREAKS))


def trace(name):
    with tempfile.TemporaryDirectory() as directory:
        search(f"{BREAKS[name]} {name}", directory)
        macros = ["-D" + macro for macro in f"{BREAKS[name]} {name}".split()]
        subprocess.run(["spin", "-t", "-p", "-g", "-l", *macros, "protocol.pml"], cwd=directory, check=True)


if __name__ == "__main__":
    if "--trace" in sys.argv:
        trace(sys.argv[-1])
        sys.exit()
    if "--deep" in sys.argv:
        sys.argv.remove("--deep")
        ModelTest.proofs = PROOFS | DEEP
        SECONDS = 3600
        PAN_FLAGS = ["-O1", "-DCOLLAPSE"]
    tempfile.tempdir = os.environ.get("TEST_TMPDIR")
    unittest.main(verbosity=2)
