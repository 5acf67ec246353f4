"""tools/demo --cluster: a cluster of two groups that gets a third one, while clients read and write. One group loses
its primaries. Nothing else is lost."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

TARGETS = ["//server/daemon:kv_server", "//client/cli:kv_cli", "//bench/cluster:acknowledged"]
KV_CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "server/daemon/kv_cluster.py"
LEAST_S = 10
LONGER = 6  # than asked for, at most, on a machine on which a server is filled slowly
MIB = 1 << 20
GROUPS = 2  # at the beginning; of two servers each
STRUCK = "g0"  # whose primaries are
BYTES_PER_RECORD = 1300  # a value of 1,000 bytes, key, header, its part of the index; rounded up
SPARE_BYTES = 64 * MIB
INDENT = "       "


class Failure(Exception):
    """An error, described for the user."""


def say(text):
    print(text, flush=True)


class Cluster:
    """A running kv_cluster."""

    def __init__(self, kv_cluster, server, cli, memory):
        self.kv_cluster, self.cli = kv_cluster, cli
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="farlook-demo-", dir="/tmp"))
        command = [kv_cluster, f"--groups={GROUPS}", "--replicas=2", f"--memory={memory // MIB}MiB", f"--kv_server={server}",
                   f"--kv_cli={cli}", self.folder / "cluster"]
        say("$ kv_cluster " + " ".join(map(str, command[1:4] + command[-1:])))
        self.said = open(self.folder / "said", "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.said, stdin=subprocess.DEVNULL,
                                        text=True, start_new_session=True)
        say(self.process.stdout.readline().rstrip())
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"no cluster began:\n{self.last_words()}")
        say(line.rstrip())
        self.address = line.strip().partition("=")[2]

    def last_words(self):
        self.said.seek(0)
        return self.said.read()[-2000:]

    def roles(self):
        """Returns the names of the primary of the group under test (None: there is none now), and of the backups that are in
        sync."""
        done = subprocess.run([self.cli, f"--address={self.addresses()}", "--timeout_ms=300", "cluster", "status",
                               f"--group={STRUCK}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        primary, backups = None, []
        for words in map(str.split, done.stdout.splitlines()):
            name = words[1].rpartition("/")[2]
            if words[0] == "primary":
                primary = name
            elif words[0] == "backup" and "disconnected" not in words:
                backups.append(name)
        return (primary, backups) if done.returncode in (0, 1, 2) else None

    def addresses(self):
        """The addresses of that group's servers."""
        return ",".join(f"shm://{self.folder}/cluster/{STRUCK}-{name}" for name in "ab")

    def send(self, name, number):
        pid = int((self.folder / "cluster" / f"{name}.pid").read_text(encoding="ascii"))
        subprocess.run(["kill", f"-{number}", str(pid)], check=True)

    def stop(self):
        """Returns the exit code of kv_cluster."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.said.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


class Background:
    """A program that runs meanwhile. Its lines are printed when that is due, not between those of others."""

    def __init__(self, cluster, name, *command):
        say(f"{INDENT}$ {name} {' '.join(map(str, command[1:]))}")
        self.path = cluster.folder / f"{name}.said"
        environment = dict(os.environ, FARLOOK_ADDRESS=cluster.address)
        self.told = 0  # characters
        with open(self.path, "wb") as file:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                            env=environment)

    def tell(self):
        """Those that are whole by now."""
        whole = self.text()[self.told:].rpartition("\n")[0]
        for line in whole.splitlines():
            say(INDENT + line)
        self.told += len(whole) + 1 if whole else 0

    def text(self):
        return self.path.read_text(encoding="utf-8", errors="replace")

    def code(self):
        """None: it has not ended."""
        return self.process.poll()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Story:
    """The events of the cluster while clients work; checked once a second for those that are due."""

    def __init__(self, cluster, seconds, cleanup):
        self.cluster, self.cleanup = cluster, cleanup
        self.due = [(seconds // 6, self.kill), (seconds // 3, self.add_group), (seconds // 2, self.stop),
                    (seconds * 3 // 4, self.go_on)]
        self.before = cluster.roles()
        self.stopped = None
        self.starting = self.moving = None  # of a group that is added: in the background

    def tell(self, second):
        roles = self.cluster.roles()
        if roles and roles != self.before:
            primary, backups = roles
            say(f"{INDENT}{primary} is primary, " + (f"with {', '.join(backups)} in sync" if backups else "alone"))
            self.before = roles
        if self.due and second >= self.due[0][0] and self.due[0][1](roles):
            self.due.pop(0)

    def add_group(self, _):
        """Starts its servers, and gives it slots; continues until that has ended."""
        if self.starting is None:
            self.starting = self.run("kv_cluster", self.cluster.kv_cluster, "--add", self.cluster.folder / "cluster")
            return False
        if self.moving is None:
            self.starting.tell()
            if self.starting.code() is None:
                return False
            if self.starting.code() != 0:
                raise Failure(f"no group was added:\n{self.starting.text()}{self.cluster.last_words()}")
            group = self.starting.text().split()[0]
            self.moving = self.run("kv_cli", self.cluster.cli, "cluster", "add", group, "--yes")
            return False
        self.moving.tell()
        if self.moving.code() is None:
            return False
        if self.moving.code() != 0:
            raise Failure(f"the group got no slots:\n{self.moving.text()}{self.cluster.last_words()}")
        return True

    def run(self, *words):
        background = Background(self.cluster, *words)
        self.cleanup.append(background.stop)
        return background

    def kill(self, roles):
        return self.strike(roles, signal.SIGKILL, "is killed (kill -9)")

    def stop(self, roles):
        done = self.strike(roles, signal.SIGSTOP, "is stopped (SIGSTOP): its memory can still be read")
        if done:
            self.stopped = roles[0]
        return done

    def strike(self, roles, number, what):
        """Not before another one can take its place."""
        if not roles or not roles[1]:
            return False
        say(f"{INDENT}{roles[0]}, the primary, {what}")
        self.cluster.send(roles[0], number.value)
        return True

    def go_on(self, _):
        say(f"{INDENT}{self.stopped} goes on (SIGCONT)")
        self.cluster.send(self.stopped, signal.SIGCONT.value)
        return True

    def is_over(self):
        """All has happened, and the group is whole again."""
        return not self.due and bool(self.before and self.before[1])


def run(args, programs, cleanup, kv_cluster=KV_CLUSTER):
    server, cli, acknowledged = programs
    memory = args.records * BYTES_PER_RECORD // GROUPS + SPARE_BYTES
    cluster = Cluster(kv_cluster, server, cli, memory)
    cleanup.append(cluster.stop)
    command = [acknowledged, f"--address={cluster.address}", f"--records={args.records}", f"--seconds={LONGER * args.seconds}",
               f"--threads={args.threads}"]
    load = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    cleanup.append(lambda: load.poll() is None and (load.kill(), load.wait()))
    story = Story(cluster, args.seconds, cleanup)
    for line in load.stdout:
        say(line.rstrip())
        if line.split()[0].isdecimal() and "records" not in line:
            second = int(line.split()[0])
            story.tell(second)
            if second >= args.seconds and story.is_over():
                load.terminate()  # which has it begin its proof
    load.stdout.close()
    code = load.wait()
    if code != 0:
        raise Failure(f"the cluster broke a promise, or could not be reached (exit code {code}):\n{cluster.last_words()}")
    if not story.is_over():
        raise Failure(f"the cluster was not whole in time:\n{cluster.last_words()}")
    cleanup.remove(cluster.stop)
    code = cluster.stop()
    if code != 0:
        raise Failure(f"kv_cluster ended with exit code {code}")
    say("Every acknowledged write is there. kv_cluster was asked to end (SIGTERM) and did, with its servers.")
