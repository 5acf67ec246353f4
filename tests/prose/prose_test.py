#!/usr/bin/env python3
"""The lint of English finds what docs/style.md forbids, and nothing else."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import prose  # pylint: disable=wrong-import-position


def counts(name, text):
    return prose.count(pathlib.Path(name), text)


class ProseTest(unittest.TestCase):
    def test_blocks_that_open_with_a_dependent_clause(self):
        for text, openings in (("// What a client sends.\nint x;\n", 1), ("// Returns what a client sends.\n", 0),
                               ("// The message.\n// Of a client.\n", 0), ("int x;  // Of a client.\n", 0),
                               ("  // Whether it lives.\n\n// Who asks.\n", 2)):
            self.assertEqual(counts("x.h", text).openings, openings, text)
        self.assertEqual(counts("x.h", "// What a client sends.\nint x;\n").blocks, 1)
        self.assertEqual(counts("x.py", '"""What it does."""\n\n# Of the server.\nx = 1\n').openings, 2)
        self.assertEqual(counts("BUILD", "# What is shared.\n").openings, 1)

    def test_processes_are_no_persons(self):
        self.assertEqual(counts("x.cc", "// The client who asks; nobody answers.\n").persons, 2)
        self.assertEqual(counts("x.md", "Whoever asks gets `who` and somebody's answer.\n").persons, 2)

    def test_long_sentences(self):
        long = "The server " + "really " * 30 + "answers."
        self.assertEqual(counts("x.md", f"{long}\n").long, 1)
        self.assertEqual(counts("x.md", "The server answers. " * 20 + "\n").long, 0)
        # Expect: a list counts as many sentences as it has items.
        self.assertEqual(counts("x.md", "* a server that has ten words in this line here\n" * 5).long, 0)

    def test_what_is_no_prose_is_not_read(self):
        code = "```\nwho is it\n```\n\n    who is it\n\n| who | is it |\n\n`who is it`\n"
        self.assertEqual(counts("x.md", code).persons, 0)
        self.assertEqual(counts("x.h", "// 0 who u64 | 8 bytes u64 | 16 more\n").persons, 0)

    def test_lines_of_markdown(self):
        long = "word " * 30
        self.assertEqual(counts("x.md", f"{long}\n").columns, 1)
        self.assertEqual(counts("x.md", f"| {long} |\n").columns, 0)
        self.assertEqual(counts("x.md", f"```\n{long}\n```\n").columns, 0)

    def test_messages_are_read(self):
        self.assertEqual(counts("server/x.cc", 'Log("nobody asks who it is");  // nobody\n').messages, 2)
        self.assertEqual(counts("server/x.cc", "constexpr char kHelp[] = R\"(Begins\nit anew)\";\n").messages, 1)
        self.assertEqual(counts("server/x.py", 'print("nobody is primary")\n# nobody\n').messages, 1)
        # Expect: names, comments, tests and other folders are not read.
        for name, text in (("server/x.cc", 'Find("nobody");\n'), ("server/x.cc", '// "nobody is there"\n'),
                           ("server/x_test.cc", 'Log("nobody is there");\n'), ("tests/x.cc", 'Log("nobody is there");\n')):
            self.assertEqual(counts(name, text).messages, 0, text)
        bad = counts("server/x.cc", 'Log("nobody is there");\n')
        self.assertEqual(len(list(prose.check({"server": bad}, {}))), 1)
        self.assertEqual(list(prose.check({"server": bad}, {"server": {"messages": 1}})), [])

    def test_limits(self):
        bad = counts("kv/x.h", "// What it is, really.\nint x;\n// Of what it is made.\nint y;\n")
        self.assertEqual(len(list(prose.check({"kv": bad}, {}))), 1)
        # Expect: a folder's own limit applies only to that folder, and to that figure.
        self.assertEqual(list(prose.check({"kv": bad}, {"kv": {"openings": 1.0}})), [])
        self.assertEqual(len(list(prose.check({"rdma": bad}, {"kv": {"openings": 1.0}}))), 1)
        self.assertEqual(len(list(prose.check({"kv": bad}, {"kv": {"persons": 9}}))), 1)


if __name__ == "__main__":
    unittest.main()
