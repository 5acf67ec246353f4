"""Processes: starting, pinning and stopping them, their memory."""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import time


class Failure(Exception):
    """An error, described for the user."""


PARENT = os.getpid()


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != PARENT:
        os._exit(1)  # the parent had died before  # pylint: disable=protected-access


def start(command, log):
    """Starts a process that ends with this one. Its output goes to the file `log`."""
    with open(log, "wb") as output:
        try:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                    start_new_session=True, preexec_fn=die_with_parent)
        except FileNotFoundError:
            raise Failure(f"{command[0]} is not installed; tools/setup installs it") from None


def wait_until_listening(process, address, log, seconds=60):
    """`address` is a path, or (host, port)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            try:
                with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, kind) as probe:
                    probe.connect(address)
                return
            except OSError:
                pass
        time.sleep(0.01)
    tail = pathlib.Path(log).read_text(errors="replace")[-2000:]
    raise Failure(f"{process.args[0]} does not listen at {address}:\n{tail}")


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pin(pid, cpus):
    """Pins all threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except ProcessLookupError:
            pass  # it has just ended


def resident_bytes(pid):
    fields = pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGESIZE")


def run(command, cpus, seconds):
    """Runs a command to its end, or for at most `seconds`. Returns (exit code, output, errors)."""
    def prepare():
        die_with_parent()
        os.sched_setaffinity(0, cpus)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, preexec_fn=prepare)
    try:
        output, errors = process.communicate(timeout=seconds)
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        return -1, "", f"no end within {seconds} s"
    finally:
        # subprocess.run() would wait a quarter of a second for it when interrupted, and then leave it running.
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
