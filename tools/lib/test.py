"""Builds, tests and lints everything, and counts what passed.

Without options: all stages, in order. A stage that fails does not stop the others. The last line is
"N passed, N failed", of test cases; a lint counts as one case. The exit code is 0 when nothing failed, and every stage
asked for was run. A test that is skipped or disabled counts as failed.

The stages asan, tsan and fuzz take the stored result of a test whose inputs are unchanged: sources, tools, flags, and
the machine's packages, kernel and number of processors. The stages gcc, verbs and readme always run theirs.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import disk_cache
from events import Outcome, read_events
from graph import Graph

ROOT = pathlib.Path(__file__).resolve().parents[2]

STAGES = {  # in order of what they cost and of how much they tell
    "format": "clang-format: nothing to change",
    "arrows": "dependencies and visibility, asked of bazel query",
    "prose": "the English of comments and documents (docs/style.md)",
    "gcc": "GCC, optimized: all tests",
    "verbs": "GCC, optimized: the tests on RDMA verbs, in virtual machines where there is no device (tests/vm)",
    "readme": "the README's commands do what it says",
    "packages": "Debian's packages: built, linted, installed on a copy of this machine, used, upgraded, purged (as root)",
    "asan": "Clang, address and undefined behaviour sanitizers: all tests",
    "tsan": "Clang, thread sanitizer: the tests of what starts threads, but for benchmarks and kv_cli",
    "fuzz": "libFuzzer: each fuzz target from its corpus, for a bounded time",
    "tidy": "clang-tidy: all but tests",
    "clang": "Clang, unoptimized: all tests",
    "verbs_more": "GCC, optimized: tests on soft iWARP of what the stage verbs does on Soft-RoCE, and those of tests/vm itself",
}
QUICK = ["format", "arrows", "prose", "gcc"]
LOG_LINES = 60  # shown of a test that failed, from its end
# Further lines of other tests may follow. The beginnings of messages of GoogleTest, unittest and sanitizers on a
# failure; at most FAILURES of them, each with a number of lines after it.
FAILURE = r": Failure$|^Traceback |^(ERROR|FAIL): |Sanitizer: |: runtime error: "
FAILURES = 8
FAILURE_LINES = 10
# Only when asked for: `clang` compiles everything a third time with the compiler of asan and tsan, and in a guest
# each minute counts.
DEFAULT = [stage for stage in STAGES if stage not in ("clang", "verbs_more")]


class Runner:
    """Runs stages. Each takes and returns an Outcome to count in."""

    def __init__(self, args):
        self.args = args
        self.bazel = ["bazel"] + ([f"--output_base={args.output_base}"] if args.output_base else [])
        self.scratch = pathlib.Path(args.scratch)
        self.cache = [] if args.no_cache else disk_cache.prepare(disk_cache.directory())
        self._graph = None

    def graph(self):
        if self._graph is None:
            self._graph = Graph(ROOT, self.bazel)
        return self._graph

    def command(self, outcome, name, command, **kwargs):
        """One case: a command that must exit 0."""
        if subprocess.run(command, cwd=ROOT, check=False, **kwargs).returncode == 0:
            outcome.passed += 1
        else:
            outcome.fail(name, "failed; its output is above")

    def bazel_test(self, outcome, targets, *flags, what="test", tests_only=False, stored=False):
        """With `stored`, a test that passed with the same inputs on a machine like this one is not run again."""
        events = self.scratch / f"events-{time.monotonic_ns()}.json"
        patterns = self.scratch / "targets"
        patterns.write_text("\n".join(targets) + "\n", encoding="utf-8")
        command = self.bazel + [what, "--keep_going", "--color=no", "--curses=no", "--show_result=0",
                                "--show_progress_rate_limit=60", "--ui_event_filters=-info",
                                f"--build_event_json_file={events}", f"--jobs={self.args.jobs}",
                                f"--target_pattern_file={patterns}", *self.cache, *flags]
        if what == "test":
            command += ["--test_summary=terse", "--test_output=summary",
                        # Otherwise also targets that no test needs, as benchmarks; and the simulation, which is a
                        # second copy of the product.
                        f"--build_tests_only={int(self.args.quick or tests_only)}"]
            if stored:
                command += [f"--test_env=FARLOOK_MACHINE={disk_cache.machine()}"]
            elif not self.args.quick:  # a test that passed once, in this clone or another, is run all the same
                command += ["--nocache_test_results"]
            if self.args.filter:
                command += [f"--test_filter={self.args.filter}"]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if code == 4 and what == "test":  # built, and no test was found
            outcome.fail("bazel", "found no test")
            return
        result = read_events(events, code)
        for label, log in result.logs.items():
            self.show_log(label, log)
        if what == "build":  # one case
            if result.failures:
                outcome.failures += result.failures
            else:
                outcome.passed += 1
            return
        outcome.passed += result.passed
        outcome.targets += result.targets
        outcome.cached += result.cached
        if stored:
            print(f"not run again: {result.cached} of {result.targets} test targets, which passed before with the same "
                  "inputs", flush=True)
        outcome.failures += result.failures

    @staticmethod
    def show_log(label, log):
        """A failed test's own messages and the end of its output: on another machine there is no other information."""
        print(f"--- {label}: what it says of failures", flush=True)
        subprocess.run(["grep", "--extended-regexp", "--line-number", f"--after-context={FAILURE_LINES}",
                        f"--max-count={FAILURES}", FAILURE, log], check=False)
        print(f"--- {label}: the last {LOG_LINES} lines it printed", flush=True)
        subprocess.run(["tail", f"--lines={LOG_LINES}", log], check=False)

    def targets(self, names=None):
        """The targets of the command line, or everything; of `names` only, where given."""
        if names is None:
            return self.args.targets or ["//..."]
        if not self.args.targets:
            return sorted(names)
        done = subprocess.run(self.bazel + ["query", "--noshow_progress", " + ".join(self.args.targets)], cwd=ROOT,
                              stdout=subprocess.PIPE, text=True, check=True)
        return sorted(set(names) & set(done.stdout.split()))

    def print_left_out(self, names):
        """Says which tests say by a tag that sanitizers are not for them; returns `names` without those."""
        left_out = self.graph().tagged("no-sanitizer")
        if left_out:
            print(f"left out, being tagged no-sanitizer: {' '.join(sorted(left_out))}", flush=True)
        return sorted(set(names) - set(left_out))

    def format(self, outcome):
        self.command(outcome, "format", ["tools/format", "--check"])

    def arrows(self, outcome):
        arrows = ["python3", "tests/arrows/arrows.py"]
        self.command(outcome, "arrows (includes)", arrows)
        self.command(outcome, "arrows (bazel query)", arrows + ["--query", "--bazel", " ".join(self.bazel)])

    def prose(self, outcome):
        self.command(outcome, "prose", ["python3", "tests/prose/prose.py"])

    def gcc(self, outcome):
        if not self.args.quick:
            self.bazel_test(outcome, self.targets(), "--config=opt")
            return
        slow = self.graph().tagged("slow")
        print(f"left out by --quick, being tagged slow: {' '.join(sorted(slow))}", flush=True)
        self.bazel_test(outcome, self.targets(), "--config=opt", "--test_tag_filters=-slow", "--build_tag_filters=-slow")
        print(f"not run again by --quick: {outcome.cached} of {outcome.targets} test targets, which passed before with the "
              "same inputs", flush=True)

    def verbs(self, outcome):
        self.bazel_test(outcome, self.targets(self.graph().tagged("verbs")), "--config=opt")

    def verbs_more(self, outcome):
        self.bazel_test(outcome, self.targets(self.graph().tagged("verbs-more")), "--config=opt")

    def clang(self, outcome):
        self.bazel_test(outcome, self.targets(), "--config=clang")

    def readme(self, outcome):
        for name, why in __import__("readme").check(ROOT, self.bazel, self.cache):
            if why is None:
                outcome.passed += 1
            else:
                outcome.fail(name, why)

    def packages(self, outcome):
        targets = __import__("package").TARGETS
        self.command(outcome, "build of what is packaged",
                     [*self.bazel, "build", "--config=opt", f"--jobs={self.args.jobs}", *self.cache, *targets])
        self.command(outcome, "packages", ["/usr/bin/python3", "-B", "tests/packages/packages_test.py"],
                     env=dict(os.environ, FARLOOK_BUILT=str(ROOT / "bazel-bin")))

    def asan(self, outcome):
        # A separate stage runs fuzz targets.
        self.print_left_out([])
        self.bazel_test(outcome, self.targets(), "--config=fuzz", "--test_tag_filters=-fuzz,-no-sanitizer",
                        tests_only=True, stored=True)

    def tsan(self, outcome):
        self.bazel_test(outcome, self.print_left_out(self.targets(self.graph().with_threads())), "--config=tsan",
                        stored=True)

    def fuzz(self, outcome):
        seconds = self.args.fuzz_seconds
        self.bazel_test(outcome, self.targets(self.graph().tagged("fuzz")), "--config=fuzz", "--test_arg=-runs=-1",
                        f"--test_arg=-max_total_time={seconds}", f"--test_arg=-seed={self.args.seed}",
                        "--test_arg=-timeout=10", f"--test_timeout={seconds + 60}", stored=True)

    def tidy(self, outcome):
        self.bazel_test(outcome, self.targets(self.graph().product()), "--config=tidy", what="build")


def parse(argv):
    stages = "\n".join(f"  {name:8} {text}{'' if name in DEFAULT else ' (only when asked for)'}"
                       for name, text in STAGES.items())
    parser = argparse.ArgumentParser(
        prog="tools/test", description=__doc__, epilog="stages:\n" + stages,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET",
                        help="Bazel patterns to test instead of //... (not for format, arrows, prose, readme)")
    parser.add_argument("--quick", action="store_true", help=f"for the developer: only the stages {', '.join(QUICK)}, only tests that a change since their last "
                             "run can have affected, and none tagged slow")
    parser.add_argument("--only", metavar="STAGE,...", help="only these stages")
    parser.add_argument("--skip", metavar="STAGE,...", default="", help="not these stages")
    parser.add_argument("--filter", metavar="PATTERN", help="only test cases that match (gtest's filter)")
    parser.add_argument("--list", action="store_true", help="show the stages")
    parser.add_argument("--fuzz-seconds", type=int, default=8, metavar="N", help="for each fuzz target (8)")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzers (0: random, and printed)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="at once (as many as processors)")
    parser.add_argument("--no-cache", action="store_true",
                        help=f"compile everything here, without {disk_cache.directory() or 'a disk cache'}")
    parser.add_argument("--output_base", metavar="DIR", help="Bazel's, if not the usual one")
    args = parser.parse_args(argv)
    if args.list:
        print(stages)
        sys.exit(0)
    if args.quick and args.only:
        parser.error("--quick and --only exclude each other")
    args.stages = args.only.split(",") if args.only else QUICK if args.quick else DEFAULT
    skip = args.skip.split(",") if args.skip else []
    for stage in args.stages + skip:
        if stage not in STAGES:
            parser.error(f"no stage {stage!r}; there are: {', '.join(STAGES)}")
    args.stages = [stage for stage in STAGES if stage in args.stages and stage not in skip]
    if not args.stages:
        parser.error("no stage is left")
    if args.jobs < 1 or args.fuzz_seconds < 1:
        parser.error("--jobs and --fuzz-seconds are at least 1")
    return args


def run_stage(runner, stage):
    outcome = Outcome()
    try:
        getattr(runner, stage)(outcome)
    except Exception as error:  # pylint: disable=broad-except
        outcome.fail(stage, f"{type(error).__name__}: {error}")
    if outcome.passed + outcome.failed == 0:
        outcome.fail(stage, "checked nothing")
    return outcome


def main(argv):
    args = parse(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = {}
    start = time.monotonic()
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="farlook-test-") as args.scratch:
        runner = Runner(args)
        for stage in args.stages:
            print(f"\n=== {stage}: {STAGES[stage]}", flush=True)
            begun = time.monotonic()
            try:
                outcome = run_stage(runner, stage)
            except KeyboardInterrupt:
                interrupted = True
                outcome = Outcome()
                outcome.fail(stage, "interrupted")
            results[stage] = (outcome, time.monotonic() - begun)
            print(f"=== {stage}: {outcome.passed} passed, {outcome.failed} failed, "
                  f"{results[stage][1]:.0f} s", flush=True)
            if interrupted:
                break
        if runner.cache:
            tidy_up(disk_cache.directory())
    return summarize(args, results, time.monotonic() - start, interrupted)


def tidy_up(cache):
    files, freed, left = disk_cache.clean(cache)
    print(f"\ndisk cache {cache}: {left / 2**30:.1f} GiB"
          + (f"; deleted {files} files, {freed / 2**30:.1f} GiB, as too old or too much" if files else ""), flush=True)


def summarize(args, results, seconds, interrupted):
    print("\n=== summary")
    for stage, (outcome, _) in results.items():
        for failure in outcome.failures:
            print(f"FAILED {stage}: {failure}")
    print(f"{'stage':8} {'targets':>8} {'passed':>8} {'failed':>8} {'time':>8}")
    for stage, (outcome, took) in results.items():
        print(f"{stage:8} {outcome.targets or '-':>8} {outcome.passed:8} {outcome.failed:8} {took:6.0f} s")
    for stage in args.stages:
        if stage not in results:
            print(f"{stage:8} not run")
    passed = sum(outcome.passed for outcome, _ in results.values())
    failed = sum(outcome.failed for outcome, _ in results.values())
    print(f"{'all':8} {'':8} {passed:8} {failed:8} {seconds:6.0f} s")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 130 if interrupted else 1 if failed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
