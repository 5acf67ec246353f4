#!/usr/bin/env python3
"""tools/test counts what Bazel did, and what the README tells is compared with what its commands print."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import coverage  # noqa: E402  pylint: disable=wrong-import-position
import demo  # noqa: E402  pylint: disable=wrong-import-position
import events  # noqa: E402  pylint: disable=wrong-import-position
import readme  # noqa: E402  pylint: disable=wrong-import-position


class Coverage(unittest.TestCase):
    LCOV = """SF:/proc/self/cwd/kv/index.cc
DA:1,1
DA:2,0
DA:3,0
DA:7,0
end_of_record
SF:/proc/self/cwd/kv/index_test.cc
DA:1,1
end_of_record
SF:/usr/include/absl/x.h
DA:1,1
end_of_record
SF:./kv/index.cc
DA:2,5
end_of_record
"""

    def test_lines_of_the_product_count_once_whoever_ran_them(self):
        self.assertEqual({"kv/index.cc": {1: 1, 2: 5, 3: 0, 7: 0}},
                         {path: lines for path, lines in coverage.read_lcov(self.LCOV).items() if lines})

    def test_the_table_tells_share_and_missed_lines(self):
        report = coverage.table(coverage.read_lcov(self.LCOV), missed=True)
        self.assertRegex(report[0], r"^ 50\.0 % +2 of +4  kv/$")
        self.assertEqual("    kv/index.cc: 3, 7", report[2])

    def test_what_only_tests_use_is_not_of_the_product(self):
        for path in ["kv/test_region.h", "rdma/sim/wire.cc", "client/mini_server.cc", "rdma/conformance/fixture.cc"]:
            self.assertFalse(coverage.is_product(path), path)
        self.assertTrue(coverage.is_product("rdma/shm/segment.h"))


class Scratch(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path


class EventsTest(Scratch):
    def outcome(self, *targets, exit_code=0, extra=()):
        """Of targets given as (label, overall status, test.xml)."""
        lines = list(extra)
        for number, (label, overall, xml) in enumerate(targets):
            path = self.write(f"{number}.xml", xml)
            lines.append({"id": {"testResult": {"label": label, "run": 1, "shard": 1, "attempt": 1}},
                          "testResult": {"testActionOutput": [{"name": "test.xml", "uri": f"file://{path}"}]}})
            lines.append({"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": overall}})
        file = self.write("events", "\n".join(map(json.dumps, lines)))
        return events.read_events(file, exit_code)

    @staticmethod
    def cases(*inner):
        return "<testsuites><testsuite>" + "".join(
            f'<testcase name="{i}" classname="T" status="run" result="completed">{text}</testcase>'
            for i, text in enumerate(inner)) + "</testsuite></testsuites>"

    def test_cases_are_counted(self):
        outcome = self.outcome(("//a:x", "PASSED", self.cases("", "")), ("//a:y", "PASSED", self.cases("")))
        self.assertEqual((outcome.targets, outcome.passed, outcome.failures), (2, 3, []))

    def test_a_failed_case_is_named(self):
        outcome = self.outcome(("//a:x", "FAILED", self.cases("", '<failure message="no"/>')), exit_code=3)
        self.assertEqual((outcome.passed, outcome.failures), (1, ["//a:x T.1: failed"]))

    def test_a_crash_between_cases_is_a_failure(self):
        outcome = self.outcome(("//a:x", "FAILED", self.cases("")), exit_code=3)
        self.assertEqual(outcome.failures, ["//a:x: failed"])

    def test_skipped_and_disabled_cases_do_not_pass(self):
        outcome = self.outcome(("//a:x", "PASSED", self.cases('<skipped message="no huge pages"/>', "").replace(
            'name="1" classname="T" status="run"', 'name="DISABLED_x" classname="T" status="notrun"')))
        self.assertEqual((outcome.passed, outcome.failures),
                         (0, ["//a:x T.0: was skipped: no huge pages", "//a:x T.DISABLED_x: is disabled"]))

    def test_a_target_without_a_case_does_not_pass(self):
        self.assertEqual(self.outcome(("//a:x", "PASSED", self.cases())).failures, ["//a:x: ran no test case"])

    def test_a_target_that_does_not_build(self):
        broken = {"id": {"targetCompleted": {"label": "//a:lib"}}, "completed": {}}
        self.assertEqual(self.outcome(extra=[broken], exit_code=1).failures, ["//a:lib: does not build"])

    def test_nothing_that_bazel_says_is_lost(self):
        self.assertEqual(self.outcome(exit_code=37).failures, ["bazel: ended with exit code 37"])
        self.assertEqual(events.read_events(self.directory / "none", 0).failed, 1)
        self.assertEqual(self.outcome(("//a:x", "NO_STATUS", self.cases()), exit_code=8).failures,
                         ["//a:x: no status"])


class ReadmeTest(Scratch):
    def run_steps(self, *steps):
        with contextlib.redirect_stdout(io.StringIO()):
            return [why for _, why in readme.run(self.directory, ["bazel"], steps)]

    def test_steps(self):
        self.assertEqual(readme.steps("x\n```console\n$ a\n1\n...\n$ b\n```\n$ c\n"), [("a", "1\n..."), ("b", "")])

    def test_output_as_told(self):
        self.assertEqual(self.run_steps(("echo far side", "far side"), ("seq 3", "1\n..."), ("seq 3", "")), [None] * 3)

    def test_other_output_is_seen(self):
        self.assertIn("something else", self.run_steps(("echo near side", "far side"))[0])

    def test_a_failing_command_is_seen_and_the_next_still_run(self):
        self.assertEqual(self.run_steps(("false", ""), ("true", "")), ["ended with exit code 1", None])

    def test_time_is_bounded(self):
        real, readme.TIMEOUT_S = readme.TIMEOUT_S, 1
        try:
            self.assertEqual(self.run_steps(("sleep 300", ""))[0], "did not end within 1 s")
        finally:
            readme.TIMEOUT_S = real

    def test_one_shell_for_all(self):
        self.assertEqual(self.run_steps(("x=7", ""), ("echo $x", "7")), [None, None])

    def test_a_program_in_the_background_must_come_up_and_be_ended(self):
        started = "touch /tmp/farlook; exec sleep 300 &"
        command = f"bash -c {started[:-2]!r} &"
        self.assertEqual(self.run_steps((command, ""), ("kill %1", "")), [None, None])
        self.assertEqual(self.run_steps((command, ""))[1], "leaves a program running")


class DemoTest(unittest.TestCase):
    def size(self, available, *argv):
        args = demo.parse(list(argv))
        real, demo.available_bytes = demo.available_bytes, lambda: available
        try:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                demo.size_for(args)
        finally:
            demo.available_bytes = real
        return args, said.getvalue()

    def test_memory_for_a_million_records(self):
        args, said = self.size(8 << 30)
        self.assertEqual((args.records, said), (1_000_000, ""))
        self.assertTrue(1.2e9 < args.memory < 1.6e9)

    def test_little_memory_means_fewer_records_and_says_so(self):
        args, said = self.size(1 << 30)
        self.assertTrue(100_000 < args.records < 600_000)
        self.assertTrue(args.memory <= 0.7 * (1 << 30))
        self.assertIn("do not fit", said)

    def test_too_little_memory_is_said(self):
        with self.assertRaisesRegex(demo.Failure, "too little memory"):
            self.size(64 << 20)

    def test_wrong_arguments(self):
        for argv in (["--records=0"], ["--records=x"], ["--operations=-1"], ["--nonsense"], ["extra"]):
            with self.subTest(argv=argv), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as exit_:
                    demo.parse(argv)
                self.assertEqual(exit_.exception.code, 2)
                self.assertIn("error:", said.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)
