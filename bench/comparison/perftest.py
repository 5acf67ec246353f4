"""The floor on verbs: perftest, run in turn with the stores, for values of the same length, over the same address.

A get cannot be faster than one READ of its value, nor a put than a message there and one back. So this gives
for each case the latency of ib_read_lat, and the rate of ib_read_bw with one queue pair for each thread. It has as many
READs outstanding as the case has gets, but at most 16, since not every device grants more. If the case writes, this also
gives twice the one way of ib_send_lat.
"""

import os
import re
import signal
import subprocess
import time

import processes
from cases import WORKLOADS
from devices import is_roce

NAME = "perftest"
ITERATIONS = 2000
MOST_OUTSTANDING = 16
LIMIT_S = 100
TRIES = 3
CONNECTS = 100  # of a client, until its server listens


def commands(case):
    """The tools, and their arguments for this case."""
    size, reads = str(case.value_bytes), "1" if case.mode == "single" else str(MOST_OUTSTANDING)
    wanted = [["ib_read_lat", "-s", size, "-n", str(ITERATIONS), "-H"],
              ["ib_read_bw", "-s", size, "-n", str(ITERATIONS), "-o", reads, "-q", str(case.threads)]]
    if WORKLOADS[case.workload][1]["readproportion"] < 1:
        # On one processor two polling processes take turns, a scheduler's tick each.
        sleep = ["-e"] if len(os.sched_getaffinity(0)) < 2 else []
        wanted.append(["ib_send_lat", "-s", size, "-n", str(ITERATIONS), "-H", *sleep])
    return wanted


def latencies_ns(output):
    """All latencies that -H prints, sorted: lines of a number and microseconds after a heading."""
    lines = output.split("\n")
    begin = next((i for i, line in enumerate(lines) if re.match(r"#,\s*usec", line)), len(lines))
    found = []
    for line in lines[begin + 1:]:
        match = re.match(r"\d+,\s*([\d.]+)\s*$", line)
        if not match:
            break
        found.append(float(match[1]) * 1000)
    return sorted(found)


def messages_per_s(output):
    """The last column below the heading, in millions."""
    lines = output.split("\n")
    begin = next((i for i, line in enumerate(lines) if "#bytes" in line), len(lines))
    fields = lines[begin + 1].split() if begin + 1 < len(lines) else []
    return float(fields[4]) * 1e6 if len(fields) >= 5 and re.fullmatch(r"[\d.]+", fields[4]) else None


def percentile(values, percent):
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


def run_once(command, host, clients_on):
    """Runs a server here, and a client here or through `clients_on`. Returns (output, None) or (None, reason)."""
    server = processes.start(command, os.devnull)
    # The client is ended on its own host: the command that starts it there may end without it.
    client = [*clients_on, "timeout", "-s", "KILL", str(LIMIT_S), *command, host]
    said = ""
    try:
        for _ in range(CONNECTS):  # until the server listens, a client ends at once
            time.sleep(0.05)
            if server.poll() is not None:
                break
            done = subprocess.run(client, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=2 * LIMIT_S, check=False)
            if done.returncode == 0:
                return done.stdout, None
            if done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
                said = f"no end within {LIMIT_S} s"
                break
            said = f"exit code {done.returncode}: {done.stdout[-1000:]}"
    except subprocess.TimeoutExpired:
        said = f"no end within {2 * LIMIT_S} s"
    finally:
        processes.stop(server)
    return None, f"{' '.join(command)} {host}: {said or 'its server ended'}"


def run(command, host, clients_on):
    """Returns the result of run_once(), retried with other ports: on Soft-RoCE one end of a slow pair may send for
    ever to the other end, which never becomes ready (seen with -R: 35,000 such answers in 300 s)."""
    # With rdma_cm (-R), which is the only way with iWARP, a server polls until its client has ended. If processors are
    # few, it takes them from the measurement. -F: the clock's frequency may vary.
    device = "" if clients_on else os.environ.get("FARLOOK_RDMA_DEVICE", "")  # the other host's may differ
    connection = ["-d", device] if is_roce(device) else ["-R"]
    why = []
    for _ in range(TRIES):
        output, failure = run_once([command[0], *connection, "-F", "-p", str(processes.free_port()), *command[1:]],
                                   host, clients_on)
        if not failure:
            return output, None
        why.append(failure)
    return None, "; then ".join(why)


def measure(case, host, percentiles, clients_on=()):
    """The figures of runner.measured(), as far as they exist here. Returns (figures, None) or (None, reason)."""
    figures = dict.fromkeys(
        [f"{kind}_p{p}_ns" for kind in ("read", "write") for p in (50, 99, 99.9)] + ["client_cpu_ns", "server_cpu_ns"])
    figures.update(operations=ITERATIONS, read_curve=None, write_curve=None)
    for command in commands(case):
        output, why = run(command, host, clients_on)
        if why:
            return None, why
        if command[0] == "ib_read_bw":
            figures["ops_per_s"] = messages_per_s(output)
            if not figures["ops_per_s"]:
                return None, f"{command[0]} printed no rate: {output[-1000:]}"
            continue
        values = latencies_ns(output)
        if not values:
            return None, f"{command[0]} printed no latencies: {output[-1000:]}"
        kind, ways = ("write", 2) if command[0] == "ib_send_lat" else ("read", 1)
        for p in (50, 99, 99.9):
            figures[f"{kind}_p{p}_ns"] = percentile(values, p) * ways
        figures[f"{kind}_curve"] = [(p, percentile(values, p) * ways) for p in percentiles]
    return figures, None
