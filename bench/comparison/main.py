"""Compares Farlook with its alternatives on this machine, in one run.

The same YCSB workloads, keys, values and client run against Farlook, Redis, memcached, LMDB, a map behind a lock, and
the floor.

Starts and stops the servers itself. Writes a table to the terminal, and compare.json, compare.html and the plots to a
directory. Cases are given as WORKLOADS:SIZES:THREADS:MODES:DISTRIBUTIONS, each a list with commas:

    bench/compare                                    quick: about two minutes
    bench/compare --cases C:64,1000:1,2:single,batch64:uniform --cases A:1000:1:inflight16:zipfian
    bench/compare --full --workloads A,C             the full choice, of two workloads
    bench/compare --clients-on "ssh HOST" ...        servers here, clients there: see bench/README.md

Exit codes: 0 all ran, 1 something failed, 2 wrong arguments, 130 interrupted.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import cases  # pylint: disable=wrong-import-position
import page  # pylint: disable=wrong-import-position
import svg  # pylint: disable=wrong-import-position
import text  # pylint: disable=wrong-import-position
from devices import rdma_devices  # pylint: disable=wrong-import-position
from processes import Failure  # pylint: disable=wrong-import-position
from runner import Runner  # pylint: disable=wrong-import-position
from stores import BETWEEN_HOSTS, MIB, RDMA_HOST, STORES  # pylint: disable=wrong-import-position
from summary import summarize  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_SECONDS = 600  # of a run: runner.RUN_LIMIT_S is larger
TARGETS = {"kv_server": "//server/daemon:kv_server", "ycsb": "//bench/ycsb:ycsb", "kv_cli": "//client/cli:kv_cli"}


def commit():
    """The commit of this source; "-dirty" if it was changed since."""
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Bench:
    """The programs."""

    def __init__(self, args):
        self.memory_directory = None
        given = {name: getattr(args, name) for name in TARGETS}
        if not any(given.values()):
            given = build(args)
        self.kv_server, self.ycsb, self.kv_cli = (os.path.abspath(given[name]) for name in TARGETS)


def build(args):
    bazel = ["bazel"] + ([f"--output_base={args.output_base}"] if args.output_base else [])
    print("building (--config=opt) ...", file=sys.stderr, flush=True)
    if subprocess.run(bazel + ["build", "--config=opt", "--show_result=0", "--ui_event_filters=-info",
                               *TARGETS.values()], cwd=ROOT, check=False).returncode != 0:
        raise Failure("the build failed; its output is above")
    info = subprocess.run(bazel + ["info", "--config=opt", "bazel-bin"], cwd=ROOT, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return {name: pathlib.Path(info.stdout.strip()) / target[2:].replace(":", "/") for name, target in TARGETS.items()}


def parse(argv):
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="a few cases, briefly (the default)")
    which.add_argument("--full", action="store_true", help="all workloads, sizes, modes: many hours; see the flags below")
    which.add_argument("--cases", action="append", metavar="W:S:T:M:D", help="these; may be repeated")
    for name, known in (("workloads", ",".join(cases.WORKLOADS)), ("sizes", "bytes of a value"),
                        ("threads", "of the client"), ("modes", ",".join(cases.MODES)),
                        ("distributions", "uniform,zipfian")):
        parser.add_argument(f"--{name}", metavar="LIST", help=f"instead of those chosen ({known})")
    parser.add_argument("--stores", metavar="LIST", help=f"of {','.join(STORES)} (all)")
    parser.add_argument("--clients-on", metavar="COMMAND", default="", help="what runs a command on another host, such as "
                        "\"ssh HOST\": clients run there, by the same path; only stores on RDMA and TCP")
    parser.add_argument("--repeats", type=int, metavar="N", help="of each case (quick: 1, else 5)")
    parser.add_argument("--seconds", type=float, metavar="S", help="of each run (quick: 0.5, else 3)")
    parser.add_argument("--operations", type=int, metavar="N", help="of each run, instead of --seconds")
    parser.add_argument("--records", type=int, metavar="N", help="loaded, at most (quick: 50,000, else 1,000,000)")
    parser.add_argument("--memory-mib", type=int, metavar="N", default=512,
                        help="most bytes of records in each store: with large values there are fewer (512)")
    parser.add_argument("--pin", choices=["auto", "apart", "no"], default="auto",
                        help="server and client to processors of their own (auto: if there are twice as many)")
    parser.add_argument("--output", metavar="DIR", default="compare-report", help="for the reports (compare-report)")
    parser.add_argument("--dry-run", action="store_true", help="list the cases and how long they take")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--output_base", metavar="DIR", help="Bazel's, if not the usual one")
    for name in TARGETS:
        parser.add_argument(f"--{name}", metavar="PATH", help="built already; give all three")
    args = parser.parse_args(argv)
    quick = not args.full and not args.cases
    cpus = len(os.sched_getaffinity(0))
    specifications = args.cases or (cases.full(cpus) if args.full else cases.quick(cpus))
    args.cpus = cpus
    args.clients_on = shlex.split(args.clients_on)
    if args.clients_on and not RDMA_HOST:
        parser.error("--clients-on needs $FARLOOK_RDMA_ADDRESS: where clients reach this host's servers")
    possible = BETWEEN_HOSTS if args.clients_on else STORES
    args.stores = args.stores.split(",") if args.stores else list(possible)
    for name, (of_quick, otherwise) in {"repeats": (1, 5), "seconds": (0.5, 3), "records": (50_000, 1_000_000)}.items():
        if getattr(args, name) is None:
            setattr(args, name, of_quick if quick else otherwise)
    args.memory_bytes = args.memory_mib * MIB
    for store in args.stores:
        if store not in STORES:
            here = "" if RDMA_HOST else "; those on RDMA need $FARLOOK_RDMA_ADDRESS, as tests/vm/run sets it"
            parser.error(f"no store {store!r}; there are: {', '.join(STORES)}{here}")
        if store not in possible:
            parser.error(f"{store!r} is not for clients on another host; there are: {', '.join(possible)}")
    args.stores = [store for store in STORES if store in args.stores]
    given = [name for name in TARGETS if getattr(args, name)]
    if given and len(given) < len(TARGETS):
        parser.error(f"--{given[0]} needs the others of {', '.join('--' + name for name in TARGETS)}")
    for name in given:
        if not os.access(getattr(args, name), os.X_OK):
            parser.error(f"--{name}: {getattr(args, name)} is no program")
    if args.operations is not None and args.operations < 1:
        parser.error("--operations are above 0")
    if args.repeats < 1 or not 0 < args.seconds <= MOST_SECONDS or args.records < 1 or args.memory_mib < 1:
        parser.error(f"--repeats, --seconds (at most {MOST_SECONDS}), --records and --memory-mib are above 0")
    try:
        args.cases = cases.select(specifications,
                                  (args.workloads, args.sizes, args.threads, args.modes, args.distributions))
    except ValueError as error:
        parser.error(str(error))
    return args


def plain(value):
    """For JSON: a case as an object."""
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    raise TypeError(type(value))


def compare(args):
    runs = len(args.cases) * len(args.stores) * args.repeats
    about = "" if args.operations else f", about {runs * (args.seconds + 0.5) / 60:.0f} minutes"
    print(f"{len(args.cases)} cases, {len(args.stores)} stores, {args.repeats} repeats: {runs} runs{about}", file=sys.stderr)
    coverage = cases.coverage(args.cases, args.cpus)
    if args.dry_run:
        print("\n".join([*(case.title() for case in args.cases), coverage]))
        return 0
    output = pathlib.Path(args.output)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"--output: {error}") from None
    begun, load_before = time.time(), os.getloadavg()[0]
    os.environ.setdefault("FARLOOK_COMMIT", commit())  # ycsb reports it
    runner = Runner(Bench(args), args, args.cases)
    runner.run_all()
    results = summarize(runner.runs, runner.memory, args.stores)
    report = {
        "machine": {**(runner.machine or {}), "rdma_devices": rdma_devices()},
        "run": {"begun": time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(begun)), "took_s": time.time() - begun,
                "load_before": load_before, "load_after": os.getloadavg()[0], "repeats": args.repeats, "pin": args.pin,
                "each": f"{args.operations} operations" if args.operations else f"{args.seconds:g} s",
                "records": args.records, "coverage": coverage, "clients_on": shlex.join(args.clients_on),
                "command": shlex.join(["bench/compare"] + sys.argv[1:])},
        "versions": runner.versions, "settings": runner.settings, "memory": runner.memory, "failures": runner.failures,
        "results": results, "runs": runner.runs}
    (output / "compare.json").write_text(json.dumps(report, default=plain, indent=1) + "\n", encoding="utf-8")
    (output / "compare.html").write_text(page.page(report, results), encoding="utf-8")
    for name, _, plot in page.plots(results):
        (output / f"{name}.svg").write_text(svg.alone(plot), encoding="utf-8")
    print(text.table(results))
    print(coverage)
    for failure in runner.failures:
        print(f"FAILED {failure['store']}, {failure['case']}: {failure['why']}")
    print(f"{output}/compare.html, compare.json and {len(page.plots(results))} plots")
    return 1 if runner.failures else 0


def main(argv):
    args = parse(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return compare(args)
    except Failure as failure:
        print(f"compare: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncompare: interrupted; the servers are stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
