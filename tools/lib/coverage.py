"""Measures which lines of kv/, rdma/, server/ and client/ the tests run.

Builds the tests with Clang's coverage, runs them, and prints lines and their share for each directory and file; tests and
what only they use do not count. What a process did that was killed, or ended itself, is not seen: it never wrote down what it ran.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = ("kv/", "rdma/", "server/", "client/")
# Tests, and sources that only tests use.
NOT_PRODUCT = ("_test.cc", "_tests.cc", "_fuzz.cc", "_benchmark.cc", "_testing.h", "/testing.h", "/testing.cc", "/raw_client.h")
NOT_PRODUCT_PARTS = ("/test_", "/fake_transport", "/fake_network", "/mini_server", "/conformance/", "rdma/sim/", "store_tracer", "_on_memory_main",
                     "pretended_device")
TESTS = ["//kv/...", "//rdma/...", "//server/...", "//client/...", "//tests/cli/...", "//tests/counters/...",
         "//tests/doctor/...", "//tests/failnth/...", "//tests/faults/..."]
DOCTOR = "tests/doctor/doctor_test.py"
# Run in a guest each: options of tests/vm/run, and the program, a label or a path with arguments.
IN_GUESTS = [
    ([], ["//rdma/verbs:conformance"]),
    (["--device=siw"], ["//rdma/verbs:conformance"]),
    ([], ["//rdma/verbs:hostile"]),
    (["--device=siw"], ["//rdma/verbs:hostile"]),
    ([], ["//client/api:client_test"]),
    ([], ["//tests/failnth:fail_nth_verbs"]),
    ([], ["//tests/faults:faults_test"]),
    ([], ["//tests/faults:crowd"]),
    (["--links=2"], ["//tests/faults:link"]),
    (["--device=siw", "--links=2"], ["//tests/faults:link"]),
    (["--links=2"], ["//tests/faults:removal"]),
    ([], [DOCTOR, "client/cli/kv_cli", "server/daemon/kv_server"]),
]
VERBS_PROGRAMS = sorted({program[0] for _, program in IN_GUESTS if program[0].startswith("//")})
# In the guest: the profiles of its processes are merged there, since its files are lost with it, except for requested
# ones.
IN_GUEST = ('mkdir -p /tmp/profiles; export LLVM_PROFILE_FILE=/tmp/profiles/%m.profraw; to=$1; shift; "$@"; '
            'llvm-profdata-14 merge -sparse -o "$to" /tmp/profiles/*.profraw')
CONFIG = "--config=covered"


def is_product(path):
    return (path.startswith(MEASURED) and not path.endswith(NOT_PRODUCT)
            and not any(part in "/" + path or part in path for part in NOT_PRODUCT_PARTS))


def read_lcov(text):
    """{file: {line: count}} of product files."""
    files, current = collections.defaultdict(dict), None
    for line in text.splitlines():
        if line.startswith("SF:"):
            path = line[3:]
            # Bazel compiles below /proc/self/cwd.
            path = path.split("/proc/self/cwd/", 1)[-1].removeprefix(str(ROOT) + "/").removeprefix("./")
            current = files[path] if is_product(path) else None
        elif line.startswith("DA:") and current is not None:
            number, count = line[3:].split(",")[:2]
            current[int(number)] = max(current.get(int(number), 0), int(count))
    return files


def table(files, missed):
    """The report, as lines."""
    by_directory = collections.defaultdict(list)
    for path, lines in files.items():
        if lines:
            by_directory[os.path.dirname(path)].append((path, sum(1 for n in lines.values() if n), len(lines)))
    out = []
    for directory in sorted(by_directory):
        rows = sorted(by_directory[directory])
        run, total = sum(r[1] for r in rows), sum(r[2] for r in rows)
        out.append(f"{100 * run / total:5.1f} %  {run:6} of {total:6}  {directory}/")
        out += [f"    {100 * r / t:5.1f} %  {r:6} of {t:6}  {path}" for path, r, t in rows]
        if missed:
            for path, r, t in rows:
                if r < t:
                    out.append(f"    {path}: {ranges(n for n, c in files[path].items() if not c)}")
    return out


def ranges(numbers):
    """1 2 3 7 as "1-3, 7"."""
    out = []
    for number in sorted(numbers):
        if out and out[-1][1] == number - 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def bazel(*args, check=True, **kwargs):
    return subprocess.run(["bazel", *args], cwd=ROOT, check=check, text=True, **kwargs)


def binaries(targets):
    """The programs of tests, and those that they start."""
    query = bazel("query", "--noshow_progress",
                  f"kind('cc_(test|binary) rule', deps({' + '.join(targets)}))", stdout=subprocess.PIPE).stdout.split()
    out = bazel("info", CONFIG, "bazel-bin", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    paths = [pathlib.Path(out) / label[2:].replace(":", "/") for label in query if label.startswith("//")]
    return [path for path in paths if path.is_file()]


def run_in_guests(profiles, jobs):
    bazel("build", CONFIG, f"--jobs={jobs}", "--show_result=0", *VERBS_PROGRAMS, "//client/cli:kv_cli", "//server/daemon:kv_server")
    for number, (options, (program, *args)) in enumerate(IN_GUESTS):
        profile = profiles / f"guest{number}.profdata"
        directory = ROOT / "bazel-bin"
        if program.startswith("//"):
            program = program[2:].replace(":", "/")
            directory = directory / f"{program}.runfiles" / "farlook"
        else:
            program = ROOT / program
        subprocess.run([ROOT / "tests/vm/run", "--timeout=900", *options, f"--keep={profile}", "--", "sh", "-c", IN_GUEST, "sh", profile,
                        program, *args], cwd=directory, check=False)


def main(argv):
    parser = argparse.ArgumentParser(prog="tools/coverage", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="Bazel patterns instead of all tests of the product")
    parser.add_argument("--verbs", action="store_true", help="also the programs on RDMA verbs, each in a guest (tests/vm)")
    parser.add_argument("--missed", action="store_true", help="name the lines that were not run")
    parser.add_argument("--html", metavar="DIR", help="write the sources, marked, there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    args = parser.parse_args(argv)
    targets = args.targets or TESTS
    with tempfile.TemporaryDirectory(prefix="farlook-coverage-") as scratch:
        profiles = pathlib.Path(scratch) / "profiles"
        profiles.mkdir(mode=0o777)
        done = bazel("test", CONFIG, "--keep_going", f"--jobs={args.jobs}", "--test_summary=terse", "--test_output=errors",
                     f"--test_env=LLVM_PROFILE_FILE={profiles}/%m.profraw", f"--sandbox_writable_path={profiles}",
                     "--nocache_test_results", *targets, check=False)
        if args.verbs:
            run_in_guests(profiles, args.jobs)
        raw = sorted(str(path) for path in profiles.glob("*.prof*"))
        if not raw:
            print("coverage: no test wrote down what it ran", file=sys.stderr)
            return 1
        merged = f"{scratch}/merged.profdata"
        subprocess.run(["llvm-profdata-14", "merge", "-sparse", "--failure-mode=all", "-o", merged, *raw], check=True)
        objects = binaries(targets + (VERBS_PROGRAMS if args.verbs else []))
        common = [f"-instr-profile={merged}", str(objects[0]), *(f"-object={path}" for path in objects[1:])]
        lcov = subprocess.run(["llvm-cov-14", "export", "-format=lcov", *common], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout
        print("\n".join(table(read_lcov(lcov), args.missed)))
        if args.html:
            subprocess.run(["llvm-cov-14", "show", "-format=html", f"-output-dir={args.html}",
                            f"-path-equivalence=/proc/self/cwd,{ROOT}", *common], check=True)
    return done.returncode


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
