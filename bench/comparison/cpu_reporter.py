"""Reports CPU times of servers to clients on another host, which ask before and after they measure."""

import contextlib
import pathlib
import socketserver
import threading
import time

LOOKS = 1000  # a millisecond apart


def cpu_ns(pid):
    """The scheduler's CPU time of all threads of a process, including ended ones. OSError if there is none."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # clock_getcpuclockid(3): the C library's formula for a process's clock


def all_threads_sleep(pid):
    states = [path.read_text(encoding="utf-8").rpartition(") ")[2] for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    return not any(state.startswith("R") for state in states)


def cpu_ns_at_rest(pid):
    """CPU time when the process has finished its work; as in bench/common/clocks.h."""
    first = cpu_ns(pid)
    for _ in range(LOOKS):
        now = cpu_ns(pid)
        if all_threads_sleep(pid) and cpu_ns(pid) == now:
            return now
        time.sleep(0.001)
    return first


@contextlib.contextmanager
def cpu_reporter(host, pids):
    """Answers the line "PID" with a line of nanoseconds, for processes in `pids`, while the context lasts. Yields
    (host, port)."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            asked = self.rfile.readline(64).strip()
            try:
                pid = int(asked)
                answer = cpu_ns_at_rest(pid) if pid in pids else f"{pid} is no server of this run"
            except (ValueError, OSError) as error:
                answer = error
            self.wfile.write(f"{answer}\n".encode())

    class Reporter(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

    with Reporter((host, 0), Handler) as reporter:
        thread = threading.Thread(target=reporter.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield reporter.server_address
        finally:
            reporter.shutdown()
            thread.join()
