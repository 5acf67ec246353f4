"""Tells CPU times of servers to clients on another host, which ask before and after what they measure."""

import contextlib
import pathlib
import socketserver
import threading
import time

LOOKS = 1000  # a millisecond apart


def cpu_ns(pid):
    """Of all threads of a process, those that ended too, as the scheduler counts them. OSError when there is none."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # clock_getcpuclockid(3): what the C library makes of a process's number


def all_threads_sleep(pid):
    states = [path.read_text(encoding="utf-8").rpartition(") ")[2] for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    return not any(state.startswith("R") for state in states)


def cpu_ns_at_rest(pid):
    """When the process has done what it was asked for; as bench/common/clocks.h does it."""
    first = cpu_ns(pid)
    for _ in range(LOOKS):
        now = cpu_ns(pid)
        if all_threads_sleep(pid) and cpu_ns(pid) == now:
            return now
        time.sleep(0.001)
    return first


@contextlib.contextmanager
def cpu_teller(host, pids):
    """Answers the line "PID" with a line of nanoseconds, of processes in `pids`, while the context lasts. Gives (host,
    port)."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            asked = self.rfile.readline(64).strip()
            try:
                pid = int(asked)
                answer = cpu_ns_at_rest(pid) if pid in pids else f"{pid} is no server of this run"
            except (ValueError, OSError) as error:
                answer = error
            self.wfile.write(f"{answer}\n".encode())

    class Teller(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

    with Teller((host, 0), Handler) as teller:
        thread = threading.Thread(target=teller.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield teller.server_address
        finally:
            teller.shutdown()
            thread.join()
