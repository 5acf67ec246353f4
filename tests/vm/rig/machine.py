"""One guest: its QEMU command line, and how it is booted once, saved, and restored for each run."""

import contextlib
import ctypes
import dataclasses
import hashlib
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

from cache import RigError, made_once
from image import image
import kernel as kernels
import programs
import qmp

# Generous: other work on the machine makes everything take several times as long.
BOOT_SECONDS = 300  # takes 6
RESTORE_SECONDS = 120  # takes less than 1

APPEND = ("console=ttyS0 quiet panic=-1 oops=panic reboot=t mitigations=off nokaslr random.trust_cpu=on audit=0 "
          "8250.nr_uarts=1 cryptomgr.notests rcupdate.rcu_expedited=1 no5lvl nowatchdog maxcpus=1 "
          "init_on_alloc=0")  # huge pages would be cleared at boot, and be in each snapshot
# Without tsc_early_khz the emulated clock cannot always be calibrated, and some boots hang.
APPEND_REAL_TIME = "tsc=reliable no_timer_check tsc_early_khz=2000000 lpj=4000000"


HOSTS = "abc"  # their names, a letter each


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The hardware that a guest boots with; each has a separate snapshot."""
    icount: bool = False
    numa: bool = False
    hosts: int = 1  # each has a wire to each other one
    memory_mib: int = 2048
    hugepages: int = 128
    append: str = ""


@dataclasses.dataclass(frozen=True)
class Layout:
    """The devices that are set up; again, each has a snapshot."""
    hardware: Hardware
    device: str = "rxe"
    kind: str = "one"  # one | links | hosts
    host: str = "a"  # a | b | c, of kind hosts


class Machine:
    """A running QEMU. Ends with this process at the latest.

    Its directory holds its console, its messages, and its sockets; `shared` appears in the guest as /run/vm. `memory` is
    a directory of files that are the guest's memory: written to if `keep`, else read and copied where the guest writes."""

    def __init__(self, hardware, host, directory, shared, memory, *more, keep=False):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [*_qemu(hardware, host, self.directory, shared), *_memory(hardware, memory, keep), *more]
        with qmp.listen(self.directory / "qmp") as listener, \
                open(self.directory / "console", "wb") as console, open(self.directory / "messages", "wb") as messages:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=console,
                                            stderr=messages, preexec_fn=_die_with_parent)
            self.control = qmp.Qmp(self._accept(listener))

    def _accept(self, listener):
        listener.settimeout(0.2)
        end = time.monotonic() + RESTORE_SECONDS
        while self.alive() and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                return listener.accept()[0]
        self.kill()
        raise RigError(f"QEMU does not start:\n{self.log()}")

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def say(self, line):
        """Types a line at the guest's serial console."""
        with contextlib.suppress(OSError):  # a guest that is no more is noticed elsewhere
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def console(self):
        return (self.directory / "console").read_bytes().decode(errors="replace").replace("\r", "")

    def log(self):
        """The output of QEMU and of the guest's kernel."""
        messages = (self.directory / "messages").read_text(encoding="utf-8", errors="replace")
        return messages[-2000:] + self.console()[-6000:]

    def wait_for_console(self, text, seconds):
        end = time.monotonic() + seconds
        while text not in self.console():
            if not self.alive() or time.monotonic() > end:
                why = "was not seen in time" if self.alive() else "was not reached: the guest ended"
                raise RigError(f"the guest's {text!r} {why}")
            time.sleep(0.02)


def restore(layout, directory, shared):
    """A Machine that continues from the snapshot of its layout; makes the snapshot first if there is none."""
    saved = snapshot(layout)
    machine = Machine(layout.hardware, layout.host, directory, shared, saved, "-incoming", "defer")
    with _with_log(machine):
        _load(machine, saved)
    machine.say("0" if layout.hardware.icount else f"{int(time.time())}")
    return machine


def snapshot(layout):
    """The directory of the saved guest, its devices set up."""
    with made_once(_target("ready", layout, layout.hardware)) as partial:
        if partial is not None:
            booted = _boot(layout.hardware)
            for memory in booted.glob("memory*"):
                programs.output("cp", "--sparse=always", memory, partial)
            with tempfile.TemporaryDirectory(prefix="farlook-vm-", dir="/tmp") as scratch:
                machine = Machine(layout.hardware, layout.host, f"{scratch}/a", scratch, partial, "-incoming", "defer",
                                  keep=True)
                with _with_log(machine):
                    _load(machine, booted)
                    machine.say(f"{layout.device} {layout.kind} {layout.host}")
                    _save(machine, "READY", partial)
    return _target("ready", layout, layout.hardware)


def _boot(hardware):
    """The directory of the guest saved before that."""
    with made_once(_target("booted", hardware)) as partial:
        if partial is not None:
            with tempfile.TemporaryDirectory(prefix="farlook-vm-", dir="/tmp") as scratch:
                machine = Machine(hardware, "a", f"{scratch}/a", scratch, partial, keep=True)
                with _with_log(machine):
                    _save(machine, "BOOTED", partial)
    return _target("booted", hardware)


def _target(stage, key, hardware=None):
    # The whole command line, except for the paths, which are placeholders, and that of QEMU.
    hardware = hardware or key
    identity = _qemu(hardware, "a", pathlib.Path("directory"), "shared")[1:] + _memory(hardware, "memory", False)
    return image() / f"{stage}-{hashlib.sha256(repr((key, identity)).encode()).hexdigest()[:16]}"


def _load(machine, saved):
    machine.control.migrate("migrate-incoming", f"exec:cat {shlex.quote(str(saved / 'state'))}", RESTORE_SECONDS)


def _save(machine, text, target):
    """When the guest prints `text`, and nothing else."""
    machine.wait_for_console(text, BOOT_SECONDS)
    if [line for line in machine.console().splitlines() if line.strip() not in ("", text)]:
        raise RigError("the guest does not come up as it should")
    time.sleep(0.2)  # until it sleeps in its read
    machine.control.migrate("migrate", f"exec:cat > {shlex.quote(str(target / 'state'))}", BOOT_SECONDS)
    machine.kill()


@contextlib.contextmanager
def _with_log(machine):
    """Ends the machine on any error, and prints its output."""
    try:
        yield
    except BaseException as error:
        machine.kill()
        if isinstance(error, RigError):
            raise RigError(f"{error}:\n{machine.log()}") from error
        raise


def _qemu(hardware, host, directory, shared):
    smp = 1 if hardware.icount or hardware.hosts > 1 else 2
    append = [APPEND, "" if hardware.icount else APPEND_REAL_TIME, f"hugepages={hardware.hugepages}", hardware.append]
    # Without erms and fsrm the guest's kernel copies memory by words. QEMU emulates the other way byte by byte, and
    # then a READ of a word that is being changed returns parts of two values, as no hardware does.
    command = [programs.find("qemu-system-x86_64"), "-nodefaults", "-no-reboot", "-display", "none",
               "-cpu", "max,la57=off,erms=off,fsrm=off", "-smp", str(smp), "-m", f"{hardware.memory_mib}M",
               "-kernel", kernels.newest() / "vmlinux", "-initrd", image() / "initramfs.cpio", "-append", " ".join(append),
               "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
               "-chardev", f"socket,id=qmp,path={directory}/qmp", "-mon", "chardev=qmp,mode=control",
               "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
               "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
               "-fsdev", f"local,id=out,path={shared},security_model=none",
               "-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]
    # 2 ns of the guest's time for each of its instructions; time without any is skipped.
    command += ["-accel", "tcg", "-icount", "shift=1,sleep=off", "-seed", "1"] if hardware.icount else \
               ["-accel", "tcg,thread=multi"]
    for other in HOSTS[:hardware.hosts].replace(host, ""):  # their order is that of the guest's interfaces
        command += ["-netdev", f"dgram,id=net{other},local.type=unix,local.path={directory.parent}/wire-{host}{other},"
                               f"remote.type=unix,remote.path={directory.parent}/wire-{other}{host}",
                    # The last three options: see the traps in tests/vm/README.md.
                    "-device", f"virtio-net-pci,netdev=net{other},romfile=,mrg_rxbuf=off,event_idx=off,host_mtu=4200"]
    if hardware.numa:  # an adapter that belongs to the second node, on a wire to nowhere
        command += ["-device", "pxb-pcie,id=node1,bus=pcie.0,bus_nr=128,numa_node=1",
                    "-device", "pcie-root-port,id=port1,bus=node1,chassis=1",
                    "-netdev", "hubport,id=net,hubid=0", "-device", "virtio-net-pci,netdev=net,bus=port1,romfile="]
    return command


def _memory(hardware, directory, keep):
    """Files, so that a restored guest begins at once: its memory is mapped, and never read as a whole."""
    nodes = 2 if hardware.numa else 1
    command = ["-M", "q35" if hardware.numa else "q35,memory-backend=node0"]
    for node in range(nodes):
        command += ["-object", f"memory-backend-file,id=node{node},size={hardware.memory_mib // nodes}M,"
                               f"mem-path={directory}/memory{node},share={'on' if keep else 'off'}"]
        if hardware.numa:
            command += ["-numa", f"node,nodeid={node},cpus={node},memdev=node{node}"]
    if hardware.numa:
        command += ["-numa", "dist,src=0,dst=1,val=21"]
    return command


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.setpgid(0, 0)  # so that ^C reaches the runner only, which then ends the guest
