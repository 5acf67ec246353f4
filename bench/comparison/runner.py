"""Runs the cases: starts servers, loads records, and measures all stores in turn, repeatedly."""

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import time

import processes
from cases import Case, size_text
from cpu_reporter import cpu_reporter
from processes import Failure
from stores import RDMA_HOST, PerftestStore, start_stores

# Enough of them to draw the curve.
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99)
SERVER_CPUS = 1
RUN_LIMIT_S = 900
# Names of ycsb's metrics. A batch is timed as a whole.
READS, WRITES = ("READ-BATCH", "READ"), ("UPDATE", "INSERT")


class Runner:
    def __init__(self, bench, args, cases):
        self.bench, self.args, self.cases = bench, args, cases
        self.all_cpus = sorted(os.sched_getaffinity(0))
        self.runs, self.failures, self.versions, self.settings, self.memory, self.machine = [], [], {}, {}, [], None
        self.total = len(cases) * len(args.stores) * args.repeats
        self.done, self.begun = 0, time.monotonic()
        self.reporter = None  # the address where clients on another host ask for the servers' CPU time

    def cpus(self, threads):
        """Returns (CPUs of the server, CPUs of the client): separate, or both share all. By default they are separate on
        machines that have twice as many. With fewer, a pinned store cannot avoid other load on its processor. And a
        server with its own processor must be woken from idle for each request, so sharing suits such stores better."""
        wanted = SERVER_CPUS + threads
        if self.args.clients_on:
            return set(self.all_cpus), set(self.all_cpus)
        if len(self.all_cpus) >= (wanted if self.args.pin == "apart" else 2 * wanted) and self.args.pin != "no":
            return set(self.all_cpus[:SERVER_CPUS]), set(self.all_cpus[SERVER_CPUS:SERVER_CPUS + threads])
        return set(self.all_cpus), set(self.all_cpus)

    def records(self, value_bytes):
        return max(100, min(self.args.records, self.args.memory_bytes // (value_bytes + 100)))

    def run_all(self):
        for value_bytes in sorted({case.value_bytes for case in self.cases}):
            self.run_size(value_bytes, [case for case in self.cases if case.value_bytes == value_bytes])
        self.say("")

    def run_size(self, value_bytes, cases):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="farlook-compare-", dir="/tmp"))  # short, for paths of sockets
        self.bench.memory_directory = pathlib.Path(tempfile.mkdtemp(
            prefix="farlook-compare-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"))
        servers = []
        try:
            records = self.records(value_bytes)
            # Workload D adds records; the room covers Farlook's growing index too.
            stores, servers, versions = start_stores(self.args.stores, self.bench, directory,
                                                     records * (value_bytes + 100) * 3 // 2)
            self.versions.update(versions)
            self.settings.update({server.name: server.settings() for server in servers})
            with self.reporting([server.pid for server in servers]):
                self.load(stores, value_bytes, records)
                for repeat in range(self.args.repeats):
                    for case in cases:
                        # Another store begins each time, so that none always follows the same one.
                        for store in stores[repeat % len(stores):] + stores[:repeat % len(stores)]:
                            self.run_one(case, store, records, repeat)
        finally:
            for server in servers:
                server.stop()
            shutil.rmtree(directory, ignore_errors=True)
            shutil.rmtree(self.bench.memory_directory, ignore_errors=True)

    @contextlib.contextmanager
    def reporting(self, pids):
        """While the context lasts, clients on another host can ask for the CPU time of these servers."""
        if not self.args.clients_on:
            yield
            return
        with cpu_reporter(RDMA_HOST, pids) as (host, port):
            self.reporter = f"tcp://{host}:{port}"
            yield

    def ycsb(self, store, case, records, phases, more):
        """Returns (JSON or None, its output)."""
        properties = {**case.properties(), **store.properties, "recordcount": records, "seed": 42,
                      "hdrhistogram.percentiles": ",".join(map(str, PERCENTILES)), **more}
        if self.reporter and store.server:
            properties["server.cpu_reporter"] = self.reporter
        command = [self.bench.ycsb, "-db", store.db, *phases, "-json", "-"]
        for name, value in properties.items():
            command += ["-p", f"{name}={value}"]
        if self.args.clients_on:  # one word for each, whether a shell reads them there (ssh) or not
            words = ["env", f"FARLOOK_COMMIT={os.environ['FARLOOK_COMMIT']}", *command]
            command = [*self.args.clients_on, *map(shlex.quote, words)]
        server_cpus, client_cpus = self.cpus(case.threads)
        if store.server and not self.args.clients_on:
            processes.pin(store.server.pid, server_cpus)
        code, output, errors = processes.run(command, client_cpus, RUN_LIMIT_S)
        if code != 0:
            return None, f"exit code {code}: {errors[-2000:].strip()}: {' '.join(map(str, command))}"
        return json.loads(output), errors

    def load(self, stores, value_bytes, records):
        case = Case(value_bytes, "C", "single", 1, "uniform")
        loaded = set()
        for store in stores:
            if isinstance(store, PerftestStore):
                continue
            self.say(f"loading {records:,} records of {size_text(value_bytes)} into {store.title}")
            if store.in_process:
                # The additional memory compared with a run with almost no records.
                none, _ = self.ycsb(store, case, 1, ["-load"], {})
                all_of_them, output = self.ycsb(store, case, records, ["-load"], {})
                if none is None or all_of_them is None:
                    raise Failure(f"{store.title} could not be loaded: {output}")
                used = (all_of_them["phases"][0]["client_resident_bytes"] - none["phases"][0]["client_resident_bytes"])
            else:
                if (store.server or store) not in loaded:
                    result, output = self.ycsb(store, case, records, ["-load"], {"inflight": 64})
                    if result is None:
                        raise Failure(f"{store.title} could not be loaded: {output}")
                loaded.add(store.server or store)
                used = store.used_bytes(self.bench)
            self.memory.append({"store": store.name, "value_bytes": value_bytes, "records": records,
                                "bytes_per_key": used / records if used > 0 else None})  # otherwise it is noise

    def run_one(self, case, store, records, repeat):
        if isinstance(store, PerftestStore):
            run, output = store.measure(case, PERCENTILES, self.args.clients_on)
        else:
            run, output = self.run_ycsb(case, store, records)
        self.done += 1
        if run is None:
            self.failures.append({"case": case.title(), "store": store.name, "why": output})
            self.progress(case, store, repeat, "FAILED")
            return
        run.update(case=case, store=store.name, repeat=repeat, pinned=self.cpus(case.threads)[0] != set(self.all_cpus),
                   has_server=store.server is not None)
        self.runs.append(run)
        self.progress(case, store, repeat, f"{run['ops_per_s']:,.0f} ops/s")

    def run_ycsb(self, case, store, records):
        """Returns (figures, None) or (None, reason)."""
        phases = ["-load", "-t"] if store.in_process else ["-t"]
        # Workload D ends early, so that the store grows by at most a fifth.
        limits = {"operationcount": self.args.operations or (records * 4 if case.workload == "D" else 10**12),
                  "maxexecutiontime": 0 if self.args.operations else self.args.seconds}
        if store.in_process:
            limits["loadmaxexecutiontime"] = 0
        result, output = self.ycsb(store, case, records, phases, limits)
        if result is None:
            return None, output
        self.machine = {**result["machine"], **{k: result["run"][k] for k in ("compiler", "commit")}}
        return measured(result["phases"][-1]), None

    def progress(self, case, store, repeat, what):
        spent = time.monotonic() - self.begun
        left = spent / self.done * (self.total - self.done)
        self.say(f"[{self.done}/{self.total}, {left // 60:.0f}:{left % 60:02.0f} left] {case.title()}: {store.name}, "
                 f"repeat {repeat + 1}: {what}")

    def say(self, text):
        if not self.args.quiet:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(("\033[K" if sys.stderr.isatty() else "") + text, end=end if text else "", file=sys.stderr, flush=True)


def measured(phase):
    """The figures of one phase of ycsb that a report needs. Times are nanoseconds."""
    run = {"ops_per_s": phase["throughput_per_s"], "operations": phase["operations"],
           "client_cpu_ns": phase["client_cpu"]["us_per_operation"] * 1000,
           "server_cpu_ns": phase["server_cpu"]["us_per_operation"] * 1000 if phase["server_cpu"] else None}
    for kind, names in (("read", READS), ("write", WRITES)):
        metric = next((phase["metrics"][name] for name in names if name in phase["metrics"]), None)
        latency = metric["latency_ns"] if metric else None
        for percentile in (50, 99, 99.9):
            run[f"{kind}_p{percentile}_ns"] = latency[f"p{percentile}"] if latency else None
        run[f"{kind}_curve"] = [(p, latency[f"p{p}"]) for p in PERCENTILES] if latency else None
    return run
