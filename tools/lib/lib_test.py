#!/usr/bin/env python3
"""tools/test counts Bazel's results, and the README is compared with the output of its commands."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import compile_commands  # noqa: E402  pylint: disable=wrong-import-position
import coverage  # noqa: E402  pylint: disable=wrong-import-position
import demo  # noqa: E402  pylint: disable=wrong-import-position
import disk_cache  # noqa: E402  pylint: disable=wrong-import-position
import events  # noqa: E402  pylint: disable=wrong-import-position
import graph  # noqa: E402  pylint: disable=wrong-import-position
import readme  # noqa: E402  pylint: disable=wrong-import-position
import test as tools_test  # noqa: E402  pylint: disable=wrong-import-position


class Coverage(unittest.TestCase):
    LCOV = """SF:/proc/self/cwd/kv/index/index.cc
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
SF:./kv/index/index.cc
DA:2,5
end_of_record
"""

    def test_lines_of_the_product_count_once_whoever_ran_them(self):
        self.assertEqual({"kv/index/index.cc": {1: 1, 2: 5, 3: 0, 7: 0}},
                         {path: lines for path, lines in coverage.read_lcov(self.LCOV).items() if lines})

    def test_the_table_tells_share_and_missed_lines(self):
        report = coverage.table(coverage.read_lcov(self.LCOV), missed=True)
        self.assertRegex(report[0], r"^ 50\.0 % +2 of +4  kv/index/$")
        self.assertEqual("    kv/index/index.cc: 3, 7", report[2])

    def test_what_only_tests_use_is_not_of_the_product(self):
        for path in ["kv/layout/test_region.h", "rdma/sim/wire.cc", "client/testing/mini_server.cc", "rdma/conformance/fixture.cc"]:
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

    def test_what_was_not_run_again_is_counted(self):
        def result(label, **how):
            return {"id": {"testResult": {"label": label}}, "testResult": how}
        self.assertEqual(self.outcome(extra=[result("//a:x", cachedLocally=True),
                                             result("//a:y", executionInfo={"cachedRemotely": True}),
                                             result("//a:z", cachedLocally=False, executionInfo={})]).cached, 2)

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


    def test_builds_take_the_flags_and_nothing_else_does(self):
        bazel = self.write("real", '#!/bin/sh\necho "$@"\n')
        bazel.chmod(0o755)
        steps = [("bazel build //x", "--home build --flag //x"), ("bazel info", "--home info")]
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual([None, None],
                             [why for _, why in readme.run(self.directory, [str(bazel), "--home"], steps, ["--flag"])])


class DocumentsTest(Scratch):
    def wrong(self):
        return [what for what, why in readme.documents(self.directory) if why is not None]

    def test_links_and_named_sections_exist(self):
        (self.directory / "docs").mkdir()
        (self.directory / "kv").mkdir()
        self.write("docs/a.md", "# Title\n## Some thing\n[b](b.md#x) [web](https://x.y/z)\n")
        self.write("docs/b.md", "[a](a.md)\n")
        self.write("kv/x.h", '// See "Some thing" in docs/a.md, and docs/a.md, "Title"; "Some\n// thing" in\n// docs/a.md\n')
        self.assertEqual(self.wrong(), [])
        self.write("docs/b.md", "[c](c.md)\n")
        self.write("kv/x.h", '// See "Some" in docs/a.md. docs/none.md, "Title"\n')
        self.assertEqual(self.wrong(), ["docs/b.md's link c.md", 'kv/x.h: "Some" in docs/a.md',
                                        'kv/x.h: "Title" in docs/none.md'])


class DiskCacheTest(Scratch):
    DAY = 24 * 3600
    NOW = 1_800_000_000

    def entry(self, name, size, days_read, days_written):
        path = self.directory / "cas" / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (self.NOW - days_read * self.DAY, self.NOW - days_written * self.DAY))
        return path

    def clean(self, max_bytes):
        return disk_cache.clean(self.directory, max_bytes=max_bytes, max_age_s=14 * self.DAY, now=self.NOW)

    def test_it_lies_in_the_users_cache_directory(self):
        self.assertEqual(disk_cache.directory({"HOME": "/home/u"}), pathlib.Path("/home/u/.cache/farlook/bazel"))
        self.assertEqual(disk_cache.directory({"HOME": "/home/u", "XDG_CACHE_HOME": "/c"}),
                         pathlib.Path("/c/farlook/bazel"))
        self.assertEqual(disk_cache.directory({"HOME": "/home/u", "XDG_CACHE_HOME": "c"}),
                         pathlib.Path("/home/u/.cache/farlook/bazel"))
        self.assertIsNone(disk_cache.directory({}))

    def test_what_was_long_not_used_goes(self):
        old = self.entry("aa1", 10, days_read=15, days_written=15)
        read = self.entry("aa2", 10, days_read=1, days_written=40)
        written = self.entry("bb3", 10, days_read=40, days_written=13)  # as where reads are not noted
        self.assertEqual(self.clean(1000), (1, 10, 20))
        self.assertEqual([False, True, True], [path.exists() for path in (old, read, written)])

    def test_of_too_much_the_longest_unused_goes(self):
        third = self.entry("aa1", 30, days_read=1, days_written=9)
        first = self.entry("aa2", 30, days_read=3, days_written=3)
        second = self.entry("bb3", 30, days_read=2, days_written=8)
        self.assertEqual(self.clean(60), (1, 30, 60))
        self.assertEqual([True, False, True], [path.exists() for path in (third, first, second)])
        self.assertEqual(self.clean(59), (1, 30, 30))
        self.assertTrue(third.exists() and not second.exists())

    def test_each_read_after_a_cleaning_counts(self):
        read = self.entry("aa1", 30, days_read=2, days_written=9)
        other = self.entry("aa2", 30, days_read=1, days_written=9)
        self.assertEqual(self.clean(60), (0, 0, 60))
        for path in (read, other):  # else Linux would not note a read on the same day
            self.assertLessEqual(path.stat().st_atime, path.stat().st_mtime)
        os.utime(read, (self.NOW, read.stat().st_mtime))  # as Linux does at a read
        self.assertEqual(self.clean(30), (1, 30, 30))
        self.assertTrue(read.exists() and not other.exists())

    def test_an_empty_cache_is_clean(self):
        self.assertEqual(self.clean(0), (0, 0, 0))

    def test_other_compilers_forget_what_was_built(self):
        real, disk_cache._packages = disk_cache._packages, lambda: "gcc-12 1\n"
        try:
            cache = self.directory / "farlook" / "bazel"
            self.assertEqual(disk_cache.prepare(cache), [f"--disk_cache={cache}"])
            action = cache / "ac" / "00" / "0011"
            action.parent.mkdir(parents=True)
            action.touch()
            disk_cache.prepare(cache)
            self.assertTrue(action.exists())
            disk_cache._packages = lambda: "gcc-12 2\n"
            disk_cache.prepare(cache)
            self.assertFalse(action.exists())
            action.touch()
            disk_cache.prepare(cache)
            self.assertTrue(action.exists())
        finally:
            disk_cache._packages = real

    def test_without_a_place_for_it_there_is_none(self):
        self.assertEqual(disk_cache.prepare(None), [])
        self.assertEqual(disk_cache.prepare(self.write("file", "") / "bazel"), [])


class RunnerTest(Scratch):
    def command(self, *argv, stage="gcc"):
        """Returns the words of Bazel's command line in a stage."""
        said = self.directory / "said"
        bazel = self.write("bazel", f'#!/bin/sh\necho "$@" >{said}\n')
        bazel.chmod(0o755)
        args = tools_test.parse([*argv, "--no-cache"])
        args.scratch = self.directory
        runner = tools_test.Runner(args)
        runner.bazel = [str(bazel)]
        runner._graph = graph.Graph.__new__(graph.Graph)
        runner._graph.rules = {
            name: xml.fromstring(f'<rule class="cc_test"><list name="tags"><string value="{tag}"/></list></rule>')
            for name, tag in (("//a:long", "slow"), ("//a:short", "other"))}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            getattr(runner, stage)(events.Outcome())
        self.printed = printed.getvalue()
        return said.read_text(encoding="utf-8").split()

    def test_tests_are_run_though_they_passed_before(self):
        self.assertIn("--nocache_test_results", self.command())
        self.assertIn("--nocache_test_results", self.command("--only=gcc", "//kv/layout:layout_test"))
        self.assertNotIn("--nocache_test_results", self.command("--quick"))


    def test_sanitizers_take_stored_results_of_the_same_machine(self):
        said = self.command("--only=asan", stage="asan")
        self.assertNotIn("--nocache_test_results", said)
        self.assertIn(f"--test_env=FARLOOK_MACHINE={disk_cache.machine()}", said)
        self.assertIn("not run again: 0 of 0 test targets", self.printed)

    def test_quick_leaves_out_what_is_slow_and_says_so(self):
        self.assertIn("--test_tag_filters=-slow", self.command("--quick"))
        self.assertIn("left out by --quick, being tagged slow: //a:long\n", self.printed)
        self.assertNotIn("--test_tag_filters=-slow", self.command())
        self.assertNotIn("left out", self.printed)

    def test_quick_builds_only_what_its_tests_need(self):
        self.assertIn("--build_tests_only=1", self.command("--quick"))
        self.assertIn("--build_tests_only=0", self.command())

    def test_a_failure_is_shown_though_much_was_printed_after_it(self):
        after = "\n".join(f"line {i}" for i in range(1000))
        log = self.write("log", f"before\na_test.cc:7: Failure\nof these values\n{after}\n")
        script = f"import test; test.Runner.show_log('//a:test', {str(log)!r})"
        shown = subprocess.run([sys.executable, "-c", script], cwd=pathlib.Path(tools_test.__file__).parent,
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in ("a_test.cc:7: Failure\n", "of these values\n", "line 999\n"):
            self.assertIn(line, shown)
        self.assertNotIn("before\n", shown)
        self.assertNotIn("line 500\n", shown)


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
        for argv in (["--records=0"], ["--records=x"], ["--operations=-1"], ["--nonsense"], ["extra"], ["--seconds=20"],
                     ["--cluster", "--seconds=9"], ["--cluster", "--keep"], ["--cluster", "--operations=5"]):
            with self.subTest(argv=argv), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as exit_:
                    demo.parse(argv)
                self.assertEqual(exit_.exception.code, 2)
                self.assertIn("error:", said.getvalue())


class SetupTest(unittest.TestCase):
    SETUP = HERE.parent / "setup"

    def test_an_unknown_part_is_refused_and_the_parts_are_named(self):
        done = subprocess.run([self.SETUP, "--check", "compiler"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        for part in ("build", "clang", "test", "verbs"):
            self.assertIn(f" {part} ", done.stdout)

    def test_no_package_is_in_two_parts(self):
        lists = re.findall(r'\n  \[\w+\]="([^"]+)"', self.SETUP.read_text(encoding="utf-8"))
        self.assertEqual(len(lists), 4)
        packages = " ".join(lists).split()
        self.assertEqual(sorted(packages), sorted(set(packages)))


class CompileCommandsTest(unittest.TestCase):
    def test_each_source_has_one_command_without_outputs(self):
        compile_ = ["/usr/bin/gcc", "-O2", "-MD", "-MF", "x.d", "-frandom-seed=x.o", "-std=c++20",
                    "-include", "precompiled.h", "-c", "kv/x.cc", "-o", "x.o"]
        link = ["/usr/bin/gcc", "-o", "program", "x.o"]
        found = list(compile_commands.entries([{"arguments": link}, {"arguments": compile_},
                                               {"arguments": compile_ + ["-DTWICE"]}, {}], "/tree"))
        self.assertEqual(found, [{"directory": "/tree", "file": "kv/x.cc",
                                  "arguments": ["/usr/bin/gcc", "-O2", "-std=c++20", "-c", "kv/x.cc"]}])


if __name__ == "__main__":
    unittest.main(verbosity=2)
