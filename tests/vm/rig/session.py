"""One run: a command in one guest, or in the first of several with a wire between each two, until its end.

Files that are shared with the guests, as /run/vm:
    bin/                     link, peer (guest/)
    a/ b/ c/                 of each host: seed, environment, script, stdout, stderr, status, kept/
    jobs/NAME/               of each `peer run`: script, stdout, stderr, status
    requests/NAME            what `peer` asks of this program; the answer goes to answers/NAME
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time

from cache import RigError
from image import GUEST
import machine

TIMED_OUT = 124
NO_STATUS = 125

# In the first host's script, after the command: a success becomes a failure. Both sides count, so errors that the other
# host saw of this one are seen here.
EXPECT_READY = """
counters=(/sys/class/infiniband/*/ports/*/hw_counters/*rnr*)
[[ -e $counters || $FARLOOK_RDMA_DEVICE != rxe* ]] || { echo "vm: the device does not count receivers" >&2; status=1; }
for counter in "${counters[@]}"; do
  [[ ! -e $counter || $(<"$counter") == 0 ]] || {
    echo "vm: a receiver was not ready: $counter is $(<"$counter")" >&2
    [[ $status != 0 ]] || status=1
  }
done
"""

ADDRESSES = {  # of a layout's kind: host -> (device number, address) of its own, and of the other end
    "one": {"a": ((0, "10.0.0.1"), None)},
    "links": {"a": ((1, "10.0.1.1"), (0, "10.0.0.1"))},
    "hosts": {"a": ((0, "10.0.0.1"), (0, "10.0.0.2")), "b": ((0, "10.0.0.2"), (0, "10.0.0.1")),
              "c": ((0, "10.0.0.3"), (0, "10.0.0.1"))},
}


class Session:
    """Prepare, run() once, close(): after that nothing is left, neither processes nor files."""

    def __init__(self, layout, command, other=None, keep=(), environment=None, ready=False):
        self.layout = layout
        self.ready = ready
        self.keep = list(keep)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="farlook-vm-", dir="/tmp"))
        self.shared = self.directory / "shared"
        for name in ("jobs", "requests", "answers"):
            (self.shared / name).mkdir(parents=True)
            (self.shared / name).chmod(0o777)
        shutil.copytree(GUEST, self.shared / "bin", ignore=shutil.ignore_patterns("init"))
        self.commands = {"a": shlex.join(command)}
        self.hosts = machine.HOSTS[:layout.hardware.hosts]
        for host in self.hosts[1:]:
            self.commands[host] = host == "b" and other or "true"
        for host, text in self.commands.items():
            self._write_script(host, text, dict(os.environ if environment is None else environment))
        self.machines = {}
        self.naps = []  # (when it ends, host, request)
        self.outputs = [Output(self.shared / "a/stdout", sys.stdout), Output(self.shared / "a/stderr", sys.stderr)]
        for host in self.hosts[1:]:
            self.outputs += [Output(self.shared / host / name, sys.stderr, f"[{host}] ") for name in ("stdout", "stderr")]

    def close(self):
        for running in self.machines.values():
            running.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, timeout_s):
        """The command's exit status. Copies its output while it runs."""
        for host in sorted(self.commands, reverse=True):  # the other first: its command is there to be met
            self._boot(host)
        end = time.monotonic() + timeout_s
        status = self.shared / "a/status"
        while not status.exists():
            self._pump()
            self._serve()
            for host in sorted(self.machines):
                if not self.machines[host].alive() and not status.exists():
                    return self._give_up(NO_STATUS, f"the guest{self._name(host)} died under the command")
            if time.monotonic() > end:
                return self._give_up(TIMED_OUT, f"the command did not end within {timeout_s:g} s (--timeout)")
            time.sleep(0.01)
        self._pump(last=True)
        code = int(status.read_text(encoding="utf-8"))
        if code != 0:
            self._show_kernels()
        for number, path in enumerate(self.keep):
            if (kept := self.shared / f"a/kept/{number}").exists():
                pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)  # the guest may have made it for itself
                shutil.copyfile(kept, path)
        return code

    def _name(self, host):
        return f" {host}" if self.layout.kind == "hosts" else ""

    def _write_script(self, host, command, environment):
        own, other = ADDRESSES[self.layout.kind][host]
        environment["PATH"] = f"/run/vm/bin:{environment.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"
        environment["FARLOOK_VM_LAYOUT"] = self.layout.kind
        environment["FARLOOK_VM_HOSTS"] = self.hosts
        environment["FARLOOK_VM_HOST"] = host
        for prefix, end in (("FARLOOK_RDMA_", own), ("FARLOOK_RDMA_PEER_", other)):
            environment.pop(prefix + "DEVICE", None)
            environment.pop(prefix + "ADDRESS", None)
            if end is not None:
                environment[prefix + "DEVICE"] = f"{self.layout.device}{end[0]}"
                environment[prefix + "ADDRESS"] = end[1]
        directory = self.shared / host
        (directory / "kept").mkdir(parents=True)
        (directory / "seed").write_text(os.urandom(32).hex(), encoding="utf-8")
        exports = [f"export {name}={shlex.quote(value)}\n" for name, value in sorted(environment.items())
                   if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name)]
        (directory / "environment").write_text(
            "".join(exports) + f"cd {shlex.quote(os.getcwd())} || exit {NO_STATUS}\n", encoding="utf-8")
        keep = "".join(f"[ ! -f {shlex.quote(path)} ] || cp {shlex.quote(path)} /run/vm/{host}/kept/{number}\n"
                       for number, path in enumerate(self.keep if host == "a" else []))
        (directory / "script").write_text(
            f". /run/vm/{host}/environment\n{command}\nstatus=$?\n{keep}"
            f"{EXPECT_READY if self.ready and host == 'a' else ''}exit $status\n", encoding="utf-8")

    def _boot(self, host):
        layout = dataclasses.replace(self.layout, host=host)
        directory = self.directory / host
        shutil.rmtree(directory, ignore_errors=True)
        for wire in self.directory.glob(f"wire-{host}*"):
            wire.unlink()
        self.machines[host] = machine.restore(layout, directory, self.shared)

    def _serve(self):
        """Carries out the requests of `peer`."""
        for request in sorted((self.shared / "requests").glob("[!.]*")):
            words = request.read_text(encoding="utf-8").split()
            request.unlink()
            try:
                self._do(request.name, *words)
            except (TypeError, ValueError, RigError) as error:
                self._answer(request.name, f"error {error}")
        for nap in [nap for nap in self.naps if nap[0] <= time.monotonic()]:
            self.naps.remove(nap)
            if nap[1] in self.machines:
                self.machines[nap[1]].control.ask("cont")
            self._answer(nap[2])

    def _answer(self, request, text="ok"):
        partial = self.shared / f"answers/.{request}"
        partial.write_text(f"{text}\n", encoding="utf-8")
        partial.rename(self.shared / "answers" / request)

    def _do(self, request, host, verb, what=None):
        if self.layout.kind != "hosts":
            raise RigError("there is one host only: run with --hosts=2")
        if host not in self.hosts:
            raise RigError(f"there is no host {host}")
        if host == "a" and verb != "nap":
            raise RigError("that is the host of the command")
        running = self.machines.get(host)
        if verb == "boot":
            if running is not None:
                raise RigError("the other host is running")
            (self.shared / host / "script").write_text("true\n", encoding="utf-8")  # its command was for its first life
            (self.shared / host / "seed").write_text(os.urandom(32).hex(), encoding="utf-8")
            self._boot(host)
        elif running is None:
            raise RigError("the other host is dead: peer boot")
        elif verb == "run":
            running.say(what)
        elif verb == "kill":
            running.kill()
            del self.machines[host]
            self._end_jobs(host)
        elif verb in ("pause", "resume"):
            running.control.ask("stop" if verb == "pause" else "cont")
        elif verb == "nap":
            end = time.monotonic() + float(what)
            running.control.ask("stop")
            self.naps.append((end, host, request))
            return  # it is answered when that has finished
        else:
            raise RigError(f"unknown request {verb!r}")
        self._answer(request)

    def _end_jobs(self, host):
        for job in self._jobs_without_end(f"{host}-"):
            for name in ("stdout", "stderr"):
                (job / name).touch()
            (job / "status").write_text(f"{128 + signal.SIGKILL}\n", encoding="utf-8")

    def _jobs_without_end(self, prefix=""):
        return [job for job in (self.shared / "jobs").glob(prefix + "*") if not (job / "status").exists()]

    def _pump(self, last=False):
        # `peer` has shown the output of each `peer run` that has ended.
        late = [Output(job / name, sys.stderr, f"[{job.name[0]}] ") for job in self._jobs_without_end()
                for name in ("stdout", "stderr")] if last else []
        for output in self.outputs + late:
            output.pump(last)

    def _give_up(self, code, why):
        self._pump(last=True)
        print(f"vm: {why}", file=sys.stderr)
        self._show_kernels()
        return code

    def _show_kernels(self):
        """The kernels' messages since they were restored; kernels are quiet otherwise."""
        for host, running in sorted(self.machines.items()):
            if text := running.log().strip():
                print(f"vm: console of the guest{self._name(host)}:\n{text}", file=sys.stderr)
        sys.stderr.flush()


class Output:
    """Copies a file that grows to a stream; by whole lines when they get a prefix."""

    def __init__(self, path, stream, prefix=""):
        self.path, self.stream, self.prefix = path, stream.buffer, prefix.encode()
        path.touch()
        path.chmod(0o666)
        self.file = open(path, "rb")  # pylint: disable=consider-using-with
        self.rest = b""

    def pump(self, last):
        data = self.rest + self.file.read()
        self.rest = b""
        if self.prefix and data:
            cut = len(data) if last else data.rfind(b"\n") + 1
            data, self.rest = data[:cut], data[cut:]
            data = b"".join(self.prefix + line for line in data.splitlines(keepends=True))
        if data:
            self.stream.write(data)
            self.stream.flush()
