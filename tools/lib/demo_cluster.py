"""tools/demo --cluster: a group of two servers that loses its primary while clients read and write, and nothing else."""

import pathlib
import shutil
import signal
import subprocess
import tempfile

TARGETS = ["//server:kv_server", "//client/cli:kv_cli", "//bench/cluster:acknowledged"]
KV_CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "server/kv_cluster.py"
LEAST_S = 10
LONGER = 6  # than asked for, at most, on a machine on which a server is filled slowly
MIB = 1 << 20
BYTES_PER_RECORD = 1300  # a value of 1,000 bytes, key, header, its part of the index; rounded up
SPARE_BYTES = 64 * MIB


class Failure(Exception):
    """What went wrong, in words for the user."""


def say(text):
    print(text, flush=True)


class Group:
    """A running kv_cluster."""

    def __init__(self, kv_cluster, server, cli, memory):
        self.cli = cli
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="farlook-demo-", dir="/tmp"))
        command = [kv_cluster, "--replicas=2", f"--memory={memory // MIB}MiB", f"--kv_server={server}",
                   f"--kv_cli={cli}", self.folder / "cluster"]
        say("$ kv_cluster " + " ".join(map(str, command[1:3] + command[-1:])))
        self.said = open(self.folder / "said", "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.said, stdin=subprocess.DEVNULL,
                                        text=True, start_new_session=True)
        say(self.process.stdout.readline().rstrip())
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"no group began:\n{self.last_words()}")
        say(line.rstrip())
        self.address = line.strip().partition("=")[2]

    def last_words(self):
        self.said.seek(0)
        return self.said.read()[-2000:]

    def roles(self):
        """The name of the primary, and those of backups that are in sync; None: nobody is primary now."""
        done = subprocess.run([self.cli, f"--address={self.address}", "--timeout_ms=300", "cluster", "status"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        primary, backups = None, []
        for words in map(str.split, done.stdout.splitlines()):
            name = words[1].rpartition("/")[2]
            if words[0] == "primary":
                primary = name
            elif words[0] == "backup" and "disconnected" not in words:
                backups.append(name)
        return (primary, backups) if done.returncode == 0 else None

    def send(self, name, number):
        pid = int((self.folder / "cluster" / f"{name}.pid").read_text(encoding="ascii"))
        subprocess.run(["kill", f"-{number}", str(pid)], check=True)

    def stop(self):
        """What kv_cluster ended with."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.said.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


class Story:
    """What happens to the group while clients are at work; asked once a second what is due."""

    def __init__(self, group, seconds):
        self.group = group
        self.due = [(seconds // 6, self.kill), (seconds // 2, self.stop), (seconds * 3 // 4, self.go_on)]
        self.before = group.roles()
        self.stopped = None

    def tell(self, second):
        roles = self.group.roles()
        if roles and roles != self.before:
            primary, backups = roles
            say(f"       {primary} is primary, " + (f"with {', '.join(backups)} in sync" if backups else "alone"))
            self.before = roles
        if self.due and second >= self.due[0][0] and self.due[0][1](roles):
            self.due.pop(0)

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
        say(f"       {roles[0]}, the primary, {what}")
        self.group.send(roles[0], number.value)
        return True

    def go_on(self, _):
        say(f"       {self.stopped} goes on (SIGCONT)")
        self.group.send(self.stopped, signal.SIGCONT.value)
        return True

    def is_over(self):
        """All has happened, and the group is whole again."""
        return not self.due and bool(self.before and self.before[1])


def run(args, programs, cleanup, kv_cluster=KV_CLUSTER):
    server, cli, acknowledged = programs
    memory = args.records * BYTES_PER_RECORD + SPARE_BYTES
    group = Group(kv_cluster, server, cli, memory)
    cleanup.append(group.stop)
    command = [acknowledged, f"--address={group.address}", f"--records={args.records}", f"--seconds={LONGER * args.seconds}",
               f"--threads={args.threads}"]
    load = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    cleanup.append(lambda: load.poll() is None and (load.kill(), load.wait()))
    story = Story(group, args.seconds)
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
        raise Failure(f"the group broke a promise, or could not be reached (exit code {code}):\n{group.last_words()}")
    if not story.is_over():
        raise Failure(f"the group was not whole in time:\n{group.last_words()}")
    cleanup.remove(group.stop)
    code = group.stop()
    if code != 0:
        raise Failure(f"kv_cluster ended with exit code {code}")
    say("Every acknowledged write is there. kv_cluster was asked to end (SIGTERM) and did, with its servers.")
