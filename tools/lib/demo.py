"""Shows Farlook at work: builds it, starts a kv_server, loads records and runs the YCSB workloads from another process.
With --cluster it starts a cluster of two groups of two servers, and reads and writes as workload B does. Meanwhile it
kills a primary, adds a group and stops the next primary. It proves that every acknowledged write is there.

The table lies in 2 MiB huge pages where this may reserve them (as root; they are given back at the end). Runs for a
minute or two. Exit codes: 0 all went well, 1 it did not, 2 wrong arguments, 130 interrupted.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import demo_cluster
import disk_cache

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["//server/daemon:kv_server", "//bench/ycsb:ycsb", "//client/cli:kv_cli"]
WORKLOADS = {
    "A": "half reads, half updates",
    "B": "95 % reads, 5 % updates",
    "C": "reads only",
    "D": "95 % reads of the latest, 5 % inserts",
    "F": "half reads, half read-modify-writes",
}
MIB = 1 << 20
PAGE = 2 * MIB
BYTES_PER_RECORD = 1300  # 10 fields of 100 bytes, names and lengths, key, header, its part of the index; rounded up
SPARE_BYTES = 64 * MIB   # pages that are begun, one for each size class; the index while it grows
NR_HUGEPAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """An error, described for the user."""


def say(text=""):
    print(text, flush=True)


def read_number(path, name):
    """The figure `name` of a file of lines "name: number ..."; None if there is none."""
    try:
        for line in pathlib.Path(path).read_text(encoding="ascii").splitlines():
            if line.split(":")[0] == name:
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def available_bytes():
    """Usable memory: the machine's, or the container's where that is less."""
    available = (read_number("/proc/meminfo", "MemAvailable") or 0) * 1024
    available += (read_number("/proc/meminfo", "HugePages_Free") or 0) * PAGE
    try:
        limit = pathlib.Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = pathlib.Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        available = min(available, int(limit) - int(used))
    except (OSError, ValueError):
        pass  # no limit
    return available


class HugePages:
    """Pages reserved for the demo, and given back."""

    def __init__(self):
        self.before = self.during = None

    def reserve(self, size):
        """Reports the pages and its changes; without the right to reserve, the server takes what is available."""
        pages = (size + PAGE - 1) // PAGE
        free = read_number("/proc/meminfo", "HugePages_Free") or 0
        if read_number("/proc/meminfo", "Hugepagesize") != PAGE // 1024:
            say("huge pages: not of 2 MiB here; left alone")
        elif free >= pages:
            say(f"huge pages: {free} of 2 MiB are free already")
        elif not os.access(NR_HUGEPAGES, os.W_OK) or os.geteuid() != 0:
            say(f"huge pages: only root may reserve them; reads take up to twice as long without. As root:\n"
                f"    sysctl vm.nr_hugepages={self._count() + pages - free}")
        else:
            self._reserve(pages, free)

    def _reserve(self, pages, free):
        self.before = self._count()
        wanted = self.before + pages - free
        try:
            NR_HUGEPAGES.write_text(str(wanted), encoding="ascii")
            self.during = self._count()
        except OSError as error:
            self.before = None
            say(f"huge pages: cannot be reserved: {error.strerror}")
            return
        if self.during < wanted:
            say(f"huge pages: memory is too fragmented for {pages} of 2 MiB")
            self.give_back()
        else:
            say(f"huge pages: reserved {self.during - self.before} of 2 MiB (vm.nr_hugepages={self.during})")

    def give_back(self):
        if self.before is None:
            return
        # Another process may have changed it since.
        now = self._count()
        NR_HUGEPAGES.write_text(str(max(0, now - (self.during - self.before))), encoding="ascii")
        self.before = None

    def how_to_give_back(self):
        return f"sysctl vm.nr_hugepages={self.before}" if self.before is not None else None

    @staticmethod
    def _count():
        return int(NR_HUGEPAGES.read_text(encoding="ascii"))


class Cpu:
    """CPU time of a process with all its threads, up to now."""

    def __init__(self, pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        self.ticks = int(fields[11]) + int(fields[12])
        try:  # to the nanosecond, where the kernel counts
            self.seconds = sum(int(path.read_text(encoding="ascii").split()[0])
                               for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
        except (OSError, ValueError, IndexError):
            self.seconds = 0
        self.seconds = self.seconds or self.ticks / TICKS_PER_S


class Server:
    """A kv_server on a separate socket."""

    def __init__(self, binary, directory, size, keep):
        self.address = f"shm://{directory}/server"
        self.log = directory / "kv_server.log"
        command = [binary, f"--listen={self.address}", f"--memory={size // MIB}MiB", "--huge_pages=auto"]
        say("$ " + " ".join(map(str, command)))
        with open(self.log, "wb") as log:
            # A separate session: ^C is for the demo, which then stops it in good order.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            start_new_session=True, preexec_fn=None if keep else die_with_parent)

    def wait_until_ready(self, cli):
        deadline = time.monotonic() + 60
        while 'msg="ready"' not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None:
                raise Failure(f"kv_server ended with exit code {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise Failure(f"kv_server is not ready:\n{self.log_tail()}")
            time.sleep(0.05)
        if subprocess.run([cli, f"--address={self.address}", "ping"], check=False, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=30).returncode != 0:
            raise Failure(f"kv_server does not answer:\n{self.log_tail()}")

    def log_tail(self):
        return "\n".join("    " + line for line in self.log.read_text(errors="replace").splitlines()[-12:])

    def stop(self):
        """The exit code, after SIGTERM."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: also when the demo is killed


def build(targets):
    if shutil.which("bazel") is None:
        raise Failure("bazel is missing; tools/setup installs it")
    say("building (--config=opt) ...")
    cache = disk_cache.directory()
    flags = disk_cache.prepare(cache)
    # The caller's bazel-bin may lead to another configuration by the time it is used.
    if subprocess.run(["bazel", "build", "--config=opt", "--show_result=0", "--ui_event_filters=-info", *flags, *targets],
                      cwd=ROOT, check=False).returncode != 0:
        raise Failure("the build failed; its output is above")
    if flags:
        disk_cache.clean(cache)
    info = subprocess.run(["bazel", "info", "--config=opt", "bazel-bin"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [pathlib.Path(info.stdout.strip()) / target[2:].replace(":", "/") for target in targets]


def run_ycsb(ycsb, server, args, directory, workload, load):
    """Runs one phase. Returns its result, and the server's CPU time for it."""
    result = directory / f"{workload}-{'load' if load else 'run'}.json"
    command = [ycsb, "-db", "farlook", "-load" if load else "-t",
               "-P", ROOT / f"bench/workloads/workload{workload.lower()}",
               "-p", f"farlook.address={server.address}", "-p", f"recordcount={args.records}",
               "-p", f"operationcount={args.operations}", "-threads", str(args.threads), "-json", result]
    if sys.stderr.isatty():
        command += ["-s", "-status.interval", "2"]
    before = Cpu(server.process.pid)
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if server.process.poll() is not None:
        raise Failure(f"kv_server died (exit code {server.process.returncode}):\n{server.log_tail()}")
    after = Cpu(server.process.pid)
    if done.returncode != 0:
        raise Failure(f"ycsb failed (exit code {done.returncode}):\n    {' '.join(map(str, command))}\n{done.stdout}")
    phase = json.loads(result.read_text(encoding="utf-8"))["phases"][0]
    return phase, after.ticks - before.ticks, after.seconds - before.seconds


def latency(ns):
    return f"{ns / 1000:.1f} us" if ns < 1e6 else f"{ns / 1e6:.1f} ms"


COLUMNS = "{:<40} {:<17} {:>11} {:>9} {:>9} {:>9} {:>10} {:>10}"


def print_phase(title, phase, server_seconds):
    """A line for each kind of operation."""
    first = True
    for name, metric in phase["metrics"].items():
        if name in ("CLEANUP", "VERIFY"):
            continue
        ns = metric["latency_ns"]
        cpu = phase["client_cpu"]["user_s"] + phase["client_cpu"]["system_s"]
        say(COLUMNS.format(title if first else "", name.lower(), f"{phase['throughput_per_s']:,.0f}" if first else "",
                           *(latency(ns[p]) for p in ("p50", "p99", "p99.9")),
                           f"{cpu:.2f} s" if first else "", f"{server_seconds:.2f} s" if first else "").rstrip())
        first = False


def run(args, cleanup):
    size_for(args)
    server_binary, ycsb, cli = build(TARGETS)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="farlook-demo-", dir="/tmp"))
    cleanup.append(lambda: shutil.rmtree(directory, ignore_errors=True))
    say()
    pages = HugePages()
    cleanup.append(pages.give_back)
    pages.reserve(args.memory)
    server = Server(server_binary, directory, args.memory, args.keep)
    cleanup.append(server.stop)
    server.wait_until_ready(cli)
    say(server.log_tail())
    say(f"\n{args.records:,} records of 10 fields of 100 bytes; {args.operations:,} operations for each workload; "
        f"{args.threads} client thread{'s' if args.threads > 1 else ''}\n")
    say(COLUMNS.format("workload", "operation", "ops/s", "p50", "p99", "p99.9", "client CPU", "server CPU"))

    phase, _, seconds = run_ycsb(ycsb, server, args, directory, "A", load=True)
    print_phase("load", phase, seconds)
    reads = None
    for workload, text in WORKLOADS.items():
        phase, ticks, seconds = run_ycsb(ycsb, server, args, directory, workload, load=False)
        print_phase(f"{workload}  {text}", phase, seconds)
        if workload == "C":
            reads = (phase["operations"], ticks, seconds)
    operations, ticks, seconds = reads
    say(f"\nWorkload C: {operations:,} reads cost kv_server {ticks} ticks of {1000 // TICKS_PER_S} ms "
        f"({seconds * 1000:.1f} ms, to greet the client and see it leave).")
    finish(args, cleanup, server, pages, cli)


def finish(args, cleanup, server, pages, cli):
    if args.keep:
        cleanup.clear()
        say(f"\nkv_server goes on (--keep). Ask it something:\n    {cli} --address={server.address} stat\n"
            f"and end it:\n    kill {server.process.pid}")
        if pages.how_to_give_back():
            say(f"    {pages.how_to_give_back()}")
        return
    code = server.stop()
    if code != 0:
        raise Failure(f"kv_server ended with exit code {code} after SIGTERM:\n{server.log_tail()}")
    say("kv_server was asked to end (SIGTERM) and did, with exit code 0.")


def size_for(args):
    """Sets args.memory; takes fewer records where memory is short."""
    def needed():
        records = args.records + args.operations // 20  # workload D inserts one of twenty
        return (records * BYTES_PER_RECORD + SPARE_BYTES + PAGE - 1) // PAGE * PAGE
    usable = available_bytes() * 7 // 10
    if needed() > usable:
        wanted = args.records
        fits = (usable - SPARE_BYTES - PAGE) // BYTES_PER_RECORD - args.operations // 20
        if fits < 1000:
            raise Failure(f"too little memory: {available_bytes() // MIB} MiB are free, {needed() // MIB} MiB are "
                          f"needed for {wanted:,} records, {1000 * BYTES_PER_RECORD // MIB + 128} MiB for the fewest. "
                          f"Fewer --operations need less too")
        args.records = fits // 1000 * 1000
        say(f"memory: {wanted:,} records do not fit into what is free; taking {args.records:,}")
    args.memory = needed()


def count(text):
    digits = text.replace(",", "").replace("_", "")
    if not digits.isdecimal() or not 1 <= int(digits) <= 10**10:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10,000,000,000")
    return int(digits)


def parse(argv):
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=count, metavar="N", help="to load (1,000,000; fewer if memory is short)")
    parser.add_argument("--operations", type=count, metavar="N", help="of each workload (1,000,000)")
    parser.add_argument("--threads", type=count, metavar="N", default=max(1, min(8, (os.cpu_count() or 2) - 1)),
                        help="of the client (one less than there are processors)")
    parser.add_argument("--quick", action="store_true", help="50,000 records and operations")
    parser.add_argument("--cluster", action="store_true", help="a cluster that gets a third group, and of which servers are "
                        "killed: 100,000 records (--quick: 20,000), and --seconds in place of --operations")
    parser.add_argument("--seconds", type=count, metavar="N", help="of --cluster, 10 at least (30; --quick: 14)")
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    args = parser.parse_args(argv)
    if args.cluster and (args.keep or args.operations):
        parser.error("--cluster takes --seconds, and neither --operations nor --keep")
    if args.seconds and (not args.cluster or args.seconds < demo_cluster.LEAST_S):
        parser.error(f"--seconds: those of --cluster, {demo_cluster.LEAST_S} at least")
    args.seconds = args.seconds or (14 if args.quick else 30)
    if args.cluster:
        args.records = args.records or (20_000 if args.quick else 100_000)
    default = 50_000 if args.quick else 1_000_000
    args.records = args.records or default
    args.operations = args.operations or default
    return args


def main(argv):
    args = parse(argv)
    cleanup = []  # done in reverse
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    code = 0
    try:
        if args.cluster:
            demo_cluster.run(args, build(demo_cluster.TARGETS), cleanup)
        else:
            run(args, cleanup)
    except (Failure, demo_cluster.Failure) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; cleaning up", file=sys.stderr)
        code = 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # once is enough
        for undo in reversed(cleanup):
            undo()
    return code


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
