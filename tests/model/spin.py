"""Models checked by spin: nothing wrong within the bounds, and each deliberate break of the model found.

A test has a class for each of its models, made of Model and unittest.TestCase, and ends with main(). It can be run as

    NAME_test.py               what CI runs
    NAME_test.py --deep        larger bounds too
    NAME_test.py --trace NAME  the steps by which the break NAME ends in a wrong answer
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Model:
    file = ""
    proofs = {}  # name -> the bounds within which every interleaving is visited
    deep = {}    # more of them, for --deep
    breaks = {}  # macro -> bounds that suffice to find what it breaks
    bounds = set()  # the macros that bounds are made of

    seconds = 280  # for one search: the machine may be busy
    pan_flags = ("-O0",)  # optimizing would take gcc longer than it would save
    deep_seconds, deep_pan_flags = 7200, ("-O1", "-DCOLLAPSE")

    @classmethod
    def search(cls, defines, directory):
        """Returns pan's output for the model with these macros. Leaves the trail of an error in `directory`."""
        macros = ["-D" + name for name in defines.split()]
        run = lambda *command: subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                              text=True, check=False, timeout=cls.seconds)
        pathlib.Path(directory, cls.file).write_bytes((HERE / cls.file).read_bytes())
        for step in (["spin", "-a", *macros, cls.file],
                     ["gcc", *cls.pan_flags, "-w", "-DSAFETY", "-DVECTORSZ=256", "-DMEMLIM=4000", "-o", "pan", "pan.c"]):
            done = run(*step)
            if done.returncode != 0 or "Error" in done.stdout:
                raise RuntimeError(f"{' '.join(step)}:\n{done.stdout}")
        return run("./pan", "-m20000", "-w20").stdout

    @classmethod
    def trace(cls, name):
        with tempfile.TemporaryDirectory() as directory:
            defines = f"{cls.breaks[name]} {name}"
            cls.search(defines, directory)
            macros = ["-D" + macro for macro in defines.split()]
            subprocess.run(["spin", "-t", "-p", "-g", "-l", *macros, cls.file], cwd=directory, check=True)

    def test_within_the_bounds_nothing_is_wrong(self):
        for name, bounds in self.proofs.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = self.search(bounds, directory)
                states = count(r"(\d+) states, stored", output)
                print(f"{self.file}, {name}: {states} states of {bounds}", flush=True)
                self.assertEqual(count(r"errors: (\d+)", output), 0, output)
                # Complete: not cut short, and no state taken for another (as bitstate and hash-compact searches do).
                self.assertIn("Full statespace search for:", output)
                for cut in ("Search not completed", "max search depth too small", "truncat", "Bit statespace",
                            "hash-compact", "memory bound", "MEMLIM"):
                    self.assertNotIn(cut, output)
                self.assertGreater(states, 50_000, "the model lost most of its behaviour")

    def test_each_break_is_found(self):
        for name, bounds in self.breaks.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                output = self.search(f"{bounds} {name}", directory)
                states = count(r"(\d+) states, stored", output)
                print(f"{self.file}, {name}: found after {states} states", flush=True)
                self.assertIn("assertion violated", output)
                self.assertEqual(count(r"errors: (\d+)", output), 1, output)

    def test_breaks_are_those_of_the_model(self):
        """A macro that is misspelt here would break nothing, and one that is missing here would not be tested."""
        text = (HERE / self.file).read_text(encoding="utf-8")
        asked = set()
        for line in re.findall(r"^#\s*(?:ifdef|ifndef|if|elif)\s+(.*)$", text, re.MULTILINE):
            asked |= set(re.findall(r"[A-Z][A-Z_]+", line))
        self.assertEqual(asked - self.bounds, set(self.breaks))


def count(pattern, output):
    """The number that pan reports, or None."""
    match = re.search(pattern, output)
    return int(match.group(1)) if match else None


def main(*models):
    if "--trace" in sys.argv:
        name = sys.argv[-1]
        next(model for model in models if name in model.breaks).trace(name)
        return
    if "--deep" in sys.argv:
        sys.argv.remove("--deep")
        for model in models:
            model.proofs = model.proofs | model.deep
            model.seconds, model.pan_flags = model.deep_seconds, model.deep_pan_flags
    tempfile.tempdir = os.environ.get("TEST_TMPDIR")
    unittest.main(verbosity=2)
