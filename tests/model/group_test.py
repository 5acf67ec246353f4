#!/usr/bin/env python3
"""group.pml, checked by spin: no get within the bounds is stale, and each rule that is broken makes one so.

    group_test.py               what CI runs
    group_test.py --deep        larger bounds too: half an hour, and 1.5 GB
    group_test.py --trace NAME  the steps by which the break NAME ends in a wrong answer
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import model_test
from model_test import count, search

MODEL = "group.pml"
HERE = pathlib.Path(__file__).resolve().parent

# The bounds within which every interleaving is visited.
PROOFS = {
    "one reconfiguration": "EPOCHS=2 WRITES=1",
    "two reconfigurations": "EPOCHS=3 WRITES=1",
    "a lone primary takes in another": "EPOCHS=3 WRITES=1 FIRST=1",
    "a crash": "EPOCHS=2 WRITES=1 FIRST=3 JOINS=1 CRASHES",
    "no clocks": "EPOCHS=2 WRITES=1 STRICT",
}
DEEP = {
    "two writes": "EPOCHS=3 WRITES=2",
    "two reconfigurations, a spare": "EPOCHS=3 WRITES=2 FIRST=3",
    "three reconfigurations": "EPOCHS=4 WRITES=1 FIRST=3",
    "one comes back": "EPOCHS=3 WRITES=1 FIRST=3 JOINS=1",
    "a crash and a reconfiguration more": "EPOCHS=3 WRITES=1 FIRST=3 JOINS=1 CRASHES",
    "three writes": "EPOCHS=2 WRITES=3",
    "no clocks, two reconfigurations": "EPOCHS=3 WRITES=1 STRICT",
}

# Each break, and bounds that suffice to find it.
BREAKS = {
    "NO_WAIT": "EPOCHS=2 WRITES=1",
    "PRIMARY_WORD_ONLY": "EPOCHS=2 WRITES=1",
    "BACKUP_WORDS_ONLY": "EPOCHS=4 WRITES=1 FIRST=3",
    "WITHOUT_SHUT": "EPOCHS=2 WRITES=1",
    "ACKNOWLEDGED_BY_OLD_SET": "EPOCHS=3 WRITES=1 FIRST=1",
    "ACKNOWLEDGED_BY_NEW_SET": "EPOCHS=2 WRITES=1",
    "ADAPTER_ACKNOWLEDGES": "EPOCHS=2 WRITES=1",
    "VISIBLE_EARLY": "EPOCHS=2 WRITES=1 GETS=2",
    "NON_MEMBER_PROMOTES": "EPOCHS=3 WRITES=1",
    "TAIL_NOT_ACCEPTED": "EPOCHS=3 WRITES=1",
    "READS_BEFORE_OPEN": "EPOCHS=2 WRITES=1",  # rule 7
    "OLD_CONNECTIONS": "EPOCHS=2 WRITES=1 JOINS=1",  # rule 10
    "OPENS_BEFORE_CERTAINTY": "EPOCHS=3 WRITES=1",  # rule 2
    "JOINER_IS_NOT_FILLED": "EPOCHS=3 WRITES=1 FIRST=1",
    "REPLY_WITHOUT_LEASE": "EPOCHS=2 WRITES=1",  # rule 9
}
BOUNDS = {"EPOCHS", "WRITES", "GETS", "JOINS", "FIRST", "STRICT", "CRASHES"}


class GroupTest(unittest.TestCase):
    proofs = PROOFS

    def test_no_get_within_the_bounds_is_stale(self):
        for name, bounds in self.proofs.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = search(bounds, directory, MODEL)
                states = count(r"(\d+) states, stored", output)
                print(f"{name}: {states} states of {bounds}", flush=True)
                self.assertEqual(count(r"errors: (\d+)", output), 0, output)
                self.assertIn("Full statespace search for:", output)
                for cut in ("Search not completed", "max search depth too small", "truncat", "Bit statespace",
                            "hash-compact", "memory bound", "MEMLIM"):
                    self.assertNotIn(cut, output)
                self.assertGreater(states, 50_000, "the model lost most of its behaviour")

    def test_each_break_is_found(self):
        for name, bounds in BREAKS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = search(f"{bounds} {name}", directory, MODEL)
                states = count(r"(\d+) states, stored", output)
                print(f"{name}: found after {states} states", flush=True)
                self.assertIn("assertion violated", output)

    def test_breaks_are_those_of_the_model(self):
        """A macro that is misspelt here would break nothing, and one that is forgotten here would not be tested."""
        text = (HERE / MODEL).read_text(encoding="utf-8")
        asked = set()
        for line in re.findall(r"^#\s*(?:ifdef|ifndef|if|elif)\s+(.*)$", text, re.MULTILINE):
            asked |= set(re.findall(r"[A-Z][A-Z_]+", line))
        self.assertEqual(asked - BOUNDS, set(BREAKS))


def trace(name):
    with tempfile.TemporaryDirectory() as directory:
        search(f"{BREAKS[name]} {name}", directory, MODEL)
        macros = ["-D" + macro for macro in f"{BREAKS[name]} {name}".split()]
        subprocess.run(["spin", "-t", "-p", "-g", *macros, MODEL], cwd=directory, check=True)


if __name__ == "__main__":
    if "--trace" in sys.argv:
        trace(sys.argv[-1])
        sys.exit()
    if "--deep" in sys.argv:
        sys.argv.remove("--deep")
        GroupTest.proofs = PROOFS | DEEP
        model_test.SECONDS = 7200
        model_test.PAN_FLAGS = ["-O2", "-DCOLLAPSE"]
    tempfile.tempdir = os.environ.get("TEST_TMPDIR")
    unittest.main(verbosity=2)
