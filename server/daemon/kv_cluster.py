#!/usr/bin/env python3
"""Groups of kv_server processes on one host, for development: starts, restarts and stops them."""

import argparse
import ctypes
import fcntl
import json
import os
import pathlib
import random
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

HELP = """kv_cluster runs a group of kv_server processes, or a cluster of groups, on this host, for development.

  kv_cluster --replicas=2 /tmp/cluster
  kv_cluster --groups=2 --replicas=2 /tmp/cluster
  kv_cluster --add /tmp/cluster

  --groups=N      groups of a cluster, which share the keys evenly: 1 to 16; 1 is a group without a cluster (1)
  --replicas=N    members of each group, a primary and its backups: 1 to 16 (2)
  --spares=N      spare servers of each group, which replace lost members: 0 to 16 (0)
  --memory=SIZE   of each server (256MiB)
  --tcp           listen at tcp://127.0.0.1, at free ports; without it at shm://DIR/a, shm://DIR/b and so on
  --etcd          start an etcd and keep the groups' records there instead of in files in DIR
  --add           have the kv_cluster that runs in DIR, with --groups, start the servers of one more group, without slots
  --kv_server=FILE, --kv_cli=FILE  the programs (beside this one, where Bazel builds them, or in PATH)
  --help, --version

What follows -- goes to each kv_server: kv_cluster DIR -- --workers=2 --suspicion=1s

DIR is a new folder, an empty one, or one that kv_cluster had before. It has the servers' logs, a.log and so on, and their
processes' ids, a.pid; of several groups g0-a.log, g0-b.log, g1-a.log. When all are in sync kv_cluster prints the address
for clients (of several groups farlook://SEED,SEED/kv), and that as a line for shells, which DIR/env has too, until it
ends. A server that ends is started again, and filled by the others. SIGTERM and SIGINT end all; the table is not kept:
the next start begins with an empty one. --add prints the group's name and its servers' addresses when they are in sync
and all groups know of it, and the command that gives it its share of the slots.

Exit codes:
  0  ended as asked
  1  wrong arguments, or DIR cannot be used
  2  a server cannot be started
  3  --add: no kv_cluster that can do that runs in DIR
"""

NAME = "kv"  # of the group, or of the cluster if there are several groups
MOST_GROUPS = MOST_REPLICAS = 16
SLOTS = 4096
SEEDS_EACH = 2  # addresses of a group in the address of a cluster
# The pause before the next start of a process that ends repeatedly doubles from the first to the second.
PAUSES_S = (0.1, 5.0)
STOP_S = 20
TELL_S = 10
ASK_S, IDLE_S = 0.2, 600
ADD_S = 120  # for the servers of a group that is added


class Failure(Exception):
    """A failure: its message for the user, and the exit code."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


def say(text):
    print(f"kv_cluster: {text}", file=sys.stderr, flush=True)


# ---- The command line.


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(f"{message}; see --help")


def find_program(name, place, given):
    """Returns the path of a program. `place`: its path below Bazel's outputs."""
    if given:
        if not os.access(given, os.X_OK) or not os.path.isfile(given):
            raise Failure(f"--{name}={given}: there is no program that can be run")
        return os.path.abspath(given)
    here = pathlib.Path(__file__).absolute().parent
    for path in (here / name, here.parent / place, here.resolve().parent / "bazel-bin" / place):
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise Failure(f"{name} is neither beside kv_cluster nor in PATH: install it (packages farlook-server, "
                      f"farlook-tools), build it (bazel build --config=opt //{place.replace('/' + name, ':' + name)}), "
                      f"or set --{name}=FILE")
    return found


def parse(argv):
    own, passed = argv, []
    if "--" in argv:
        own, passed = argv[:argv.index("--")], argv[argv.index("--") + 1:]
    parser = Parser(prog="kv_cluster", add_help=False, allow_abbrev=False)
    parser.add_argument("directory", metavar="DIR", nargs="?")
    parser.add_argument("--groups", default="1")
    parser.add_argument("--replicas", default="2")
    parser.add_argument("--spares", default="0")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--etcd", action="store_true")
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--kv_server")
    parser.add_argument("--kv_cli")
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    args = parser.parse_args(own)
    args.passed = passed
    if args.help or args.version:
        return args
    if args.directory is None:
        raise Failure("name a folder, such as kv_cluster /tmp/cluster; see --help")
    if args.add:
        others = [flag for flag in own if flag not in ("--add", args.directory)] + passed
        if others:
            raise Failure(f"{others[0]}: --add takes no other flag; the group is as those that run in {args.directory}")
        return args
    if not args.groups.isdecimal() or not 1 <= int(args.groups) <= MOST_GROUPS:
        raise Failure(f"--groups={args.groups}: 1 to {MOST_GROUPS}")
    if not args.replicas.isdecimal() or not 1 <= int(args.replicas) <= MOST_REPLICAS:
        raise Failure(f"--replicas={args.replicas}: a group has 1 to {MOST_REPLICAS} servers")
    if not args.spares.isdecimal() or int(args.spares) > MOST_REPLICAS:
        raise Failure(f"--spares={args.spares}: 0 to {MOST_REPLICAS}")
    args.groups, args.replicas, args.spares = int(args.groups), int(args.replicas), int(args.spares)
    if args.groups > 1 and any(letter.isspace() for letter in os.path.abspath(args.directory)):
        raise Failure(f"{args.directory}: with --groups the name of the folder is without spaces")
    for flag in passed:
        if flag.lstrip("-").partition("=")[0] in ("listen", "group", "memory", "replicas", "cluster", "slots"):
            raise Failure(f"{flag}: kv_cluster itself sets --listen and --group, and --cluster and --slots of several "
                          f"groups; --memory and --replicas stand before --")
    args.kv_server = find_program("kv_server", "server/daemon/kv_server", args.kv_server)
    args.kv_cli = find_program("kv_cli", "client/cli/kv_cli", args.kv_cli)
    if args.etcd and shutil.which("etcd") is None:
        raise Failure("--etcd: there is no etcd in PATH: install the package etcd-server")
    return args


# ---- The folder.


class Folder:
    """Belongs to one kv_cluster at a time, until the last of its processes has ended: they hold its lock too."""

    LOCK = "kv_cluster.lock"

    def __init__(self, path):
        self.path = pathlib.Path(os.path.abspath(path))
        if any(letter in str(self.path) for letter in ",\n"):
            raise Failure(f"{self.path}: a comma, or the end of a line, cannot be in an address")
        try:
            self.path.mkdir(exist_ok=True)
            if not (self.path / self.LOCK).exists() and any(self.path.iterdir()):
                raise Failure(f"{self.path} has files of others: name a folder that is new, or empty")
            self.lock = os.open(self.path / self.LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileExistsError:
            raise Failure(f"{self.path} is no folder") from None
        except OSError as error:
            raise Failure(f"{self.path} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(self.lock, 20, 0).decode(errors="replace").strip()
            raise Failure(f"{self.path} is in use by another kv_cluster (pid {pid}), or by servers that it started and "
                          f"that are about to end") from None
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, f"{os.getpid()}\n".encode(), 0)
        # The servers do not inherit this lock: the kernel reports its owner, and that this process lives (owner_of).
        fcntl.lockf(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.clear()
        for log in self.path.glob("*.log"):
            log.unlink()

    def clear(self):
        """Removes files that only running servers need. Once all have ended, their table is lost too."""
        for name in ("groups", "etcd"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        sockets = [path for path in self.path.iterdir() if path.is_socket()]  # of servers that were killed
        for path in [self.path / "env", *self.path.glob("*.pid"), *self.path.glob("*.part"), *self.path.glob("add.*"),
                     *sockets]:
            path.unlink(missing_ok=True)

    @classmethod
    def owner_of(cls, path):
        """Returns the process id of the kv_cluster that owns the folder; None if there is none, or it is not visible
        here.
        """
        wanted = struct.Struct("hhqqi0q")  # struct flock
        try:
            with open(path / cls.LOCK, "rb") as lock:
                found = fcntl.fcntl(lock, fcntl.F_GETLK, wanted.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        except OSError:
            return None
        kind, _, _, _, pid = wanted.unpack(found)
        return pid if kind != fcntl.F_UNLCK and pid > 0 else None

    def write(self, name, text):
        """Replaces the file atomically: a reader sees the old or the new text."""
        part = self.path / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        part.rename(self.path / name)


# ---- Processes.


# A server listens at its port only later, and again after a restart. So these are ports that the system does not assign
# to outgoing connections or to programs that ask for any port.
def free_ports(count):
    lowest_given = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(1024, lowest_given if lowest_given > 4096 else 65536)
    ports = []
    for port in random.sample(candidates, len(candidates)):
        if len(ports) == count:
            break
        try:
            with socket.socket() as each:
                each.bind(("127.0.0.1", port))
        except OSError:
            continue
        ports.append(port)
    return ports


class Joining:
    """A group that is added while the others run; step() is called repeatedly."""

    def __init__(self, cluster, group):
        self.cluster, self.group = cluster, group
        self.waiting = list(group.servers)  # to be started, one after the other

    def step(self):
        """Returns None to go on; otherwise the result and a message for the process that asked."""
        for server in self.group.servers:
            if server.has_ended():
                return "failed", (f"{server.name} {server.how_it_ended()} while the group began; {server.log}:\n"
                                  f"{server.last_words()}")
        started = len(self.group.servers) - len(self.waiting)
        in_sync = self.group.in_sync() if started else None
        if self.waiting and (not started or in_sync is not None):
            self.waiting.pop(0).start()
        elif not self.waiting and in_sync == self.group.args.replicas and self.is_known():
            return "added", f"{self.group.name} {','.join(self.group.addresses)}"
        return None

    def is_known(self):
        """Returns whether each group has it on its map of the cluster."""
        return all(self.group.name in group.map_of_groups() for group in self.cluster.groups + [self.group])


class Process:
    """A process, with a log, that is restarted until the cluster ends."""

    def __init__(self, name, command, folder, mask):
        self.name, self.command, self.folder, self.mask = name, command, folder, mask
        self.log = folder.path / f"{name}.log"
        self.process = None
        self.started = self.due = 0.0
        self.pause = PAUSES_S[0]

    def start(self):
        def child():
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: also when kv_cluster is killed
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        with open(self.log, "ab") as log:
            # A session of its own: ^C reaches only kv_cluster, which stops the process in order.
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, pass_fds=[self.folder.lock], preexec_fn=child)
        self.folder.write(f"{self.name}.pid", f"{self.process.pid}\n")
        self.started = time.monotonic()

    def has_ended(self):
        return self.process is not None and self.process.poll() is not None

    def how_it_ended(self):
        code = self.process.returncode
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def restart_later(self):
        """Schedules a restart. The pause grows for a process that ends soon after each start."""
        now = time.monotonic()
        self.pause = PAUSES_S[0] if now - self.started > PAUSES_S[1] else min(2 * self.pause, PAUSES_S[1])
        self.due = now + self.pause
        self.process = None

    def last_words(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line for line in lines if "level=error" in line] or lines[-8:]
        return "\n".join("    " + line for line in told[-8:])


class Group:
    """The servers of one group."""

    def __init__(self, name, addresses, servers, args):
        self.name, self.addresses, self.servers, self.args = name, addresses, servers, args
        self.alone_since = None

    def in_sync(self):
        """Returns the number of servers in sync, as its primary reports it; None if there is no primary."""
        which = [f"--group={self.name}"] if self.args.groups > 1 else []
        done = self.run_cli("cluster", "status", *which)
        if done.returncode not in (0, 1, 2):  # 1 and 2: the group is not whole
            return None
        lines = [line.split() for line in done.stdout.splitlines()]
        return sum(line[0] == "primary" or (line[0] == "backup" and "disconnected" not in line) for line in lines if line)

    def map_of_groups(self):
        """Returns the names of the cluster's groups, as this group's primary reports them."""
        done = self.run_cli("cluster", "status", "--json")
        told = [json.loads(line) for line in done.stdout.splitlines()] if done.returncode in (0, 1, 2, 3) else []
        return {line["group"] for line in told if "slots" in line and "group" in line}

    def run_cli(self, *words):
        done = subprocess.run([self.args.kv_cli, f"--address={','.join(self.addresses)}", "--timeout_ms=500", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True, check=False)
        # Discards the SIGCHLD of kv_cli itself. The caller checks all processes again soon.
        while signal.sigtimedwait({signal.SIGCHLD}, 0) is not None:
            pass
        return done

    def of(self):
        """Returns the prefix of a line about this group, if there are several."""
        return f"group {self.name}: " if self.args.groups > 1 else ""

    def tell(self, count):
        """Prints what has changed since the group was complete."""
        now = time.monotonic()
        if count is None:
            self.alone_since = self.alone_since or now
            if now - self.alone_since < TELL_S:
                return
            say(f"{self.of()}there is no primary. If all servers that were in sync have ended, the table is lost: end "
                f"kv_cluster, and start it again")
            self.alone_since = now
            return
        self.alone_since = None
        if count == self.args.replicas:
            say(f"{self.of()}all members are in sync again")


class Cluster:
    def __init__(self, args):
        self.args = args
        self.signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
        # Blocked before any other process can know of this one.
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self.signals | {signal.SIGCHLD, Request.SIGNAL})
        for number in (signal.SIGCHLD, Request.SIGNAL):
            signal.signal(number, lambda *_: None)  # an ignored signal would not end the wait
        self.folder = Folder(args.directory)
        self.etcd = None
        self.directory = f"file://{self.folder.path}/groups"
        if args.etcd:
            client, peer = (f"127.0.0.1:{port}" for port in free_ports(2))
            self.health = f"http://{client}/health"
            self.etcd = Process("etcd", self.etcd_command(client, peer), self.folder, self.mask)
            self.directory = f"etcd://{client}"
        self.each = args.replicas + args.spares
        self.ports = iter(free_ports(args.groups * self.each)) if args.tcp else None
        self.groups = []
        self.next = 0  # number of the next group
        for flags in self.slot_flags():
            self.groups.append(self.make_group(flags))
        self.address = self.address_of_all()
        self.is_asked = False
        self.joining = None

    def servers(self):
        groups = self.groups + ([self.joining.group] if self.joining else [])
        return [server for group in groups for server in group.servers]

    def make_group(self, cluster_flags):
        args = self.args
        names = [f"{'s' if j >= 26 else ''}{chr(ord('a') + j % 26)}" for j in range(self.each)]
        name = NAME
        if args.groups > 1:
            name = f"g{self.next}"
            names = [f"{name}-{server}" for server in names]
        self.next += 1
        addresses = [f"tcp://127.0.0.1:{next(self.ports)}" if args.tcp else f"shm://{self.folder.path}/{server}"
                     for server in names]
        flags = [f"--memory={args.memory}", f"--group={self.directory}/{name}", f"--replicas={args.replicas}",
                 *cluster_flags, *args.passed]
        servers = [Process(server, [args.kv_server, f"--listen={address}", *flags], self.folder, self.mask)
                   for server, address in zip(names, addresses)]
        return Group(name, addresses, servers, args)

    def slot_flags(self):
        """Returns the flags for the servers of each group: an even share of the slots."""
        if self.args.groups == 1:
            return [[]]
        ends = [SLOTS * n // self.args.groups for n in range(self.args.groups + 1)]
        return [[f"--cluster={NAME}", f"--slots={first}-{end - 1}"] for first, end in zip(ends, ends[1:])]

    def address_of_all(self):
        if self.args.groups == 1:
            return ",".join(self.groups[0].addresses)
        seeds = [address.partition("://")[2] for group in self.groups for address in group.addresses[:SEEDS_EACH]]
        return f"farlook://{','.join(seeds)}/{NAME}"

    def etcd_command(self, client, peer):
        return ["etcd", "--name=etcd", f"--data-dir={self.folder.path}/etcd", f"--listen-client-urls=http://{client}",
                f"--advertise-client-urls=http://{client}", f"--listen-peer-urls=http://{peer}",
                f"--initial-advertise-peer-urls=http://{peer}", f"--initial-cluster=etcd=http://{peer}",
                "--logger=zap", "--log-level=error"]

    def processes(self):
        return ([self.etcd] if self.etcd else []) + self.servers()

    def wait(self, seconds):
        """Returns True if kv_cluster is to end. Returns early when a process has ended or a request arrives."""
        got = signal.sigtimedwait(self.signals | {signal.SIGCHLD, Request.SIGNAL}, seconds)
        self.is_asked |= got is not None and got.si_signo == Request.SIGNAL
        return got is not None and got.si_signo in self.signals

    def start(self):
        """Returns False if it was asked to end meanwhile."""
        if not self.etcd:
            (self.folder.path / "groups").mkdir(exist_ok=True)
        if self.etcd:
            self.etcd.start()
            while not self.etcd_is_ready():
                self.check_started()
                if self.wait(0.05):
                    return False
        # One server of each group after the other: of two that begin a group at once, one must restart.
        for servers in zip(*(group.servers for group in self.groups)):
            for server in servers:
                server.start()
            for group in self.groups:
                while group.in_sync() is None:
                    self.check_started()
                    if self.wait(0.05):
                        return False
        return self.wait_for_sync()

    def etcd_is_ready(self):
        try:
            with urllib.request.urlopen(self.health, timeout=1) as answer:
                return json.load(answer).get("health") == "true"
        except (OSError, ValueError):
            return False

    def check_started(self):
        for process in self.processes():
            if process.has_ended():
                raise Failure(f"{process.name} {process.how_it_ended()} while the group began; {process.log}:\n"
                              f"{process.last_words()}", 2)

    def wait_for_sync(self):
        told = time.monotonic()
        for group in self.groups:
            while (count := group.in_sync()) != self.args.replicas:
                self.check_started()
                if time.monotonic() - told > TELL_S:
                    told = time.monotonic()
                    say(f"{group.of()}{count or 0} of {self.args.replicas} servers are in sync so far; "
                        f"see {self.folder.path}/*.log")
                if self.wait(0.05):
                    return False
        return True

    def run(self):
        if not self.start():
            return
        line = f"export FARLOOK_ADDRESS={shlex.quote(self.address)}"
        self.print_exports(line)
        groups = f"{self.args.groups} groups, each of " if self.args.groups > 1 else ""
        servers = "1 server" if self.args.replicas == 1 else f"{self.args.replicas} servers, in sync,"
        spares = f" and {self.args.spares} spare{'s' if self.args.spares > 1 else ''}," if self.args.spares else ""
        print(f"{groups}{servers}{spares} at {self.address}\n{line}", flush=True)
        broken = []  # groups that are not known to be complete
        while True:
            changed = [group for group in self.groups if self.restart_what_ended(group.servers)]
            self.restart_what_ended([self.etcd] if self.etcd else [])
            self.add()
            for group in changed:
                group.alone_since = None
            asked = [group for group in self.groups if group in changed or group in broken]
            broken = [group for group in asked if group in changed or not self.is_whole(group)]
            # Short also if all are complete now: run_cli() may have discarded the SIGCHLD of a server.
            if self.wait(ASK_S if asked or self.joining or self.is_etcd_down() else IDLE_S):
                return

    def print_exports(self, line):
        self.folder.write("env", line + "\n")

    def add(self):
        """Begins to add a group if that is requested, or continues."""
        if self.is_asked and self.joining is None:
            self.is_asked = False
            if self.args.groups == 1:
                return Request.answer(self.folder, "failed", "it runs a group without a cluster: start it with --groups=2, "
                                                             "or more, to add others")
            if len(self.groups) == MOST_GROUPS:
                return Request.answer(self.folder, "failed", f"it has {MOST_GROUPS} groups, and no more fit")
            self.ports = iter(free_ports(self.each)) if self.args.tcp else None
            self.joining = Joining(self, self.make_group([f"--cluster={NAME}"]))
            say(f"group {self.joining.group.name} is started, as kv_cluster --add asks")
        if self.joining is None:
            return None
        outcome = self.joining.step()
        if outcome is None:
            return None
        group, self.joining, self.is_asked = self.joining.group, None, False  # a repeated request meant this group
        if outcome[0] == "added":
            self.groups.append(group)
            self.address = self.address_of_all()
            self.print_exports(f"export FARLOOK_ADDRESS={shlex.quote(self.address)}")
        else:
            say(f"group {group.name} is not added: {outcome[1]}")
            self.end(group.servers)
        return Request.answer(self.folder, *outcome)

    def is_whole(self, group):
        count = group.in_sync()
        group.tell(count)
        return count == self.args.replicas

    def is_etcd_down(self):
        return self.etcd is not None and self.etcd.process is None

    def restart_what_ended(self, processes):
        """Returns whether a process has ended or is not restarted yet."""
        now = time.monotonic()
        changed = False
        for process in processes:
            if process.has_ended():
                say(f"{process.name} {process.how_it_ended()} and is started again; see {process.log}")
                process.restart_later()
            if process.process is None:
                changed = True
                if now >= process.due:
                    process.start()
        return changed

    def stop(self):
        """Ends all processes. Signals that arrive now change nothing."""
        self.end(self.processes())
        self.folder.clear()

    @staticmethod
    def end(processes):
        for process in reversed(processes):
            if process.process is not None and process.process.poll() is None:
                process.process.send_signal(signal.SIGTERM)
                process.process.send_signal(signal.SIGCONT)  # a stopped process receives SIGTERM after this
        deadline = time.monotonic() + STOP_S
        for process in processes:
            if process.process is None:
                continue
            try:
                process.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                say(f"{process.name} does not end, and is killed")
                process.process.kill()
                process.process.wait()


# ---- Requests of another kv_cluster to the running one.


class Request:
    """A request is a signal, and its answer a file. One request at a time."""

    SIGNAL = signal.SIGUSR1
    LOCK, ANSWER = "add.lock", "add.answer"

    def __init__(self, directory):
        self.path = pathlib.Path(os.path.abspath(directory))
        self.pid = Folder.owner_of(self.path)
        if self.pid is None:
            raise self.none()
        try:
            self.process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            raise self.none() from None

    def is_there(self):
        """Returns whether the process owns the folder, and is not another with a reused id."""
        return not select.select([self.process], [], [], 0)[0] and Folder.owner_of(self.path) == self.pid

    def none(self):
        return Failure(f"no kv_cluster runs in {self.path}: start one with kv_cluster --groups=2 {self.path}", 3)

    def ask(self):
        """Sends the request and returns the answer."""
        try:
            with open(self.path / self.LOCK, "a", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                how, _, words = self.await_answer().partition(" ")
        except BlockingIOError:
            raise Failure(f"another kv_cluster --add is at work in {self.path}: wait until it has ended", 3) from None
        except OSError as error:
            raise Failure(f"the kv_cluster that runs in {self.path} (pid {self.pid}) cannot be asked: {error.strerror}",
                          3) from None
        if how != "added":
            raise Failure(f"the kv_cluster that runs in {self.path} adds no group: {words}", 2 if "\n" in words else 3)
        return words

    def await_answer(self):
        answer = self.path / self.ANSWER
        answer.unlink(missing_ok=True)
        if not self.is_there():
            raise self.none()
        signal.pidfd_send_signal(self.process, self.SIGNAL)
        deadline = time.monotonic() + ADD_S
        while not answer.exists():
            if not self.is_there():
                raise self.none()
            if time.monotonic() > deadline:
                raise Failure(f"the group is not in sync after {ADD_S} s; see {self.path}/*.log", 2)
            time.sleep(0.05)
        text = answer.read_text(encoding="utf-8")
        answer.unlink(missing_ok=True)
        return text

    @classmethod
    def answer(cls, folder, how, words):
        folder.write(cls.ANSWER, f"{how} {words}")


def add(directory):
    request = Request(directory)
    name, _, addresses = request.ask().partition(" ")
    env = (request.path / "env").read_text(encoding="utf-8").strip()
    print(f"{name} {addresses}\n{env.replace('export ', '', 1)} kv_cli cluster add {name}", flush=True)


def version_of(program):
    told = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return told[1]


def main(argv):
    try:
        args = parse(argv)
        if args.help:
            print(HELP, end="")
            return 0
        if args.version:
            print("kv_cluster", version_of(find_program("kv_server", "server/daemon/kv_server", args.kv_server)))
            return 0
        if args.add:
            add(args.directory)
            return 0
        cluster = Cluster(args)
        try:
            cluster.run()
        finally:
            cluster.stop()
        return 0
    except Failure as failure:
        print(f"kv_cluster: {failure}", file=sys.stderr)
        return failure.code


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
