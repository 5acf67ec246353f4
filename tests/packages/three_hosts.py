#!/usr/bin/env python3
"""docs/cluster.md, "A group on three hosts": packages, units, systemd and etcd on three guests, and what befalls them.

    tools/package
    tests/vm/run --hosts=3 --memory=1500 --timeout=1800 -- tests/packages/three_hosts.py packages

Each guest has a systemd of its own (in a namespace of processes, where it is the first), which starts etcd and kv_server
by their units. Then a server's process is killed, which its unit starts again; servers are restarted as an upgrade does
it; and a whole host is lost with the primary on it. Some five minutes, by emulation, so not in every run of all tests.
Memory and times, of etcd too, are such as an emulated host has; all else is as the document says.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

HOSTS = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
SERVERS = ",".join(f"tcp://{address}:7471" for address in HOSTS.values())
ETCDS = ",".join(f"{address}:2379" for address in HOSTS.values())
PACKAGES = ["farlook-server", "farlook-tools", "libfarlook1"]
SECRET = pathlib.Path("/tmp/farlook-secret")
SECRET_TEXT = "0123456789abcdef" * 4
PATIENCE_S = 240
# Units that are unrelated, and take an emulated processor's time.
MASKED = ["systemd-udevd", "systemd-udev-trigger", "systemd-journal-flush", "rdma-ndd", "rdma-load-modules@rdma",
          "rdma-load-modules@roce", "rdma-load-modules@infiniband", "rdma-hw.target", "systemd-tmpfiles-setup-dev",
          "systemd-tmpfiles-setup", "systemd-update-utmp"]


def step(what):
    print(f"three hosts: {what}", flush=True)


def run(*command, check=True, stdin=None):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, input=stdin, timeout=PATIENCE_S)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


# ---- On each host.


def write(path, text, mode=0o644):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
    path.chmod(mode)


def configure(host):
    address = HOSTS[host]
    cluster = ",".join(f"{name}=http://{of}:2380" for name, of in HOSTS.items())
    write("/etc/default/etcd",
          f"ETCD_NAME={host}\n"
          f"ETCD_LISTEN_CLIENT_URLS=http://{address}:2379\n"
          f"ETCD_ADVERTISE_CLIENT_URLS=http://{address}:2379\n"
          f"ETCD_LISTEN_PEER_URLS=http://{address}:2380\n"
          f"ETCD_INITIAL_ADVERTISE_PEER_URLS=http://{address}:2380\n"
          f"ETCD_INITIAL_CLUSTER={cluster}\n"
          "ETCD_INITIAL_CLUSTER_TOKEN=farlook\n"
          # An emulated processor keeps no heartbeat of 100 ms.
          "ETCD_HEARTBEAT_INTERVAL=1000\nETCD_ELECTION_TIMEOUT=10000\n")
    write("/etc/farlook/users", f"group read,admin secret={SECRET_TEXT}\napp read,write secret={SECRET_TEXT}\n", 0o600)
    write("/etc/systemd/system/kv_server.service.d/override.conf",
          "[Service]\nLoadCredential=users:/etc/farlook/users\n")
    write("/etc/farlook/kv_server.flags",
          f"--listen=tcp://{address}:7471\n--memory=64MiB\n--group=etcd://{ETCDS}/kv\n--replicas=3\n--min_insync=2\n"
          "--users=users\n--group_user=group\n--suspicion=10s\n--lease=2s\n")


# The first process of its namespace is systemd, which finds the machine's network, and files, as they are. Mounts are
# shared, as on a machine that it has booted: else no unit has its credentials.
START = """
mount --make-rshared /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount --make-shared /run
mkdir -p /run/vm
exec env container=guest SYSTEMD_LOG_TARGET=null /lib/systemd/systemd --system --unit=basic.target --show-status=false
"""


def systemd():
    """Its number among the guest's processes."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"/lib/systemd/systemd" and b"--unit=basic.target" in words:
            return process.name
    return None


def within(*command):
    return ["nsenter", f"--target={systemd()}", "--pid", "--mount", "--root", *command]


def begin(host, packages):
    files = [next(packages.glob(f"{name}_*.deb")) for name in PACKAGES]
    run("dpkg", "--install", "--force-confnew", *files)
    configure(host)
    for unit in MASKED:
        name = unit if "." in unit else unit + ".service"
        link = pathlib.Path("/etc/systemd/system") / name
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    run("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup", check=False)
    # pylint: disable-next=consider-using-with
    subprocess.Popen(["unshare", "--pid", "--fork", "--mount", "sh", "-c", START], stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until("systemd is up", lambda: systemd() and run(*within("/usr/bin/systemctl", "is-active", "basic.target"),
                                                     check=False).startswith("active"))


# ---- On the first host, for all.


def until(what, holds):
    end = time.monotonic() + PATIENCE_S
    while True:
        if holds():
            return
        if time.monotonic() > end:
            raise AssertionError(f"not seen in {PATIENCE_S} s: {what}")
        time.sleep(1)


class Hosts:
    """All three."""

    def __init__(self, packages):
        self.packages = packages
        self.here = pathlib.Path(__file__).resolve()

    def on(self, host, *words):
        command = ["python3", "-B", self.here, f"--host={host}", self.packages, *words]
        return command if host == "a" else ["peer", host, "run", *command]

    def systemctl(self, host, *words):
        try:
            return run(*self.on(host, "/usr/bin/systemctl", *words))
        except AssertionError:
            journal = "/usr/bin/journalctl", "--no-pager", "--lines=30", "--output=cat", "--unit=kv_server"
            print(run(*self.on(host, *journal), check=False), flush=True)
            raise

    def on_all(self, *words):
        """Runs them at the same time: etcd is not ready before most of them are."""
        # pylint: disable-next=consider-using-with
        running = {host: subprocess.Popen([str(word) for word in self.on(host, *words)], stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True) for host in HOSTS}
        for host, process in running.items():
            output = process.communicate(timeout=2 * PATIENCE_S)[0]
            if process.returncode != 0:
                raise AssertionError(f"host {host}: {' '.join(words)}: exit code {process.returncode}\n{output}")


def kv_cli(*words, check=True):
    user = "group" if words[0] == "cluster" else "app"
    return run("/usr/bin/kv_cli", f"--address={SERVERS}", f"--user={user}", f"--secret_file={SECRET}",
               "--timeout_ms=120000", *words, check=check)


def primary():
    """Its host."""
    for line in kv_cli("cluster", "status", check=False).splitlines():
        if "primary" in line:
            for host, address in HOSTS.items():
                if f"{address}:7471" in line:
                    return host
    return None


def await_members(count):
    until(f"members {count} of 3", lambda: f"members {count} of 3" in kv_cli("cluster", "status", check=False))
    print(kv_cli("cluster", "status", check=False), flush=True)


def judge(hosts):
    hosts.on_all("begin")
    step("packages are installed, systemd is up on each host")
    hosts.on_all("/usr/bin/systemctl", "enable", "--now", "etcd")
    print(run("etcdctl", f"--endpoints={ETCDS}", "endpoint", "health"), flush=True)
    for host in HOSTS:
        hosts.systemctl(host, "enable", "--now", "kv_server")
    await_members(3)
    kv_cli("put", "key", "value")
    step("three servers are a group; a key is put")

    victim = next(host for host in HOSTS if host != primary())
    hosts.systemctl(victim, "kill", "--signal=KILL", "kv_server")
    until("its unit starts it again", lambda: hosts.systemctl(
        victim, "show", "--property=NRestarts", "kv_server").strip() != "NRestarts=0")
    await_members(3)
    step(f"the server of host {victim} was killed, is started again by its unit, and filled")

    for host in sorted(HOSTS, key=lambda host: host == primary()):
        if host == primary():
            kv_cli("cluster", "handover")
        hosts.systemctl(host, "restart", "kv_server")
        await_members(3)
    assert kv_cli("get", "key").strip() == "value"
    step("all servers were restarted, one after the other, as an upgrade does it; the key is there")

    while primary() == "a":  # where this runs
        kv_cli("cluster", "handover")
    lost = primary()
    kv_cli("put", "key", "newer")
    run("peer", lost, "kill")
    assert kv_cli("get", "key").strip() == "newer"
    kv_cli("put", "key", "newest")
    await_members(2)
    assert primary() != lost
    assert kv_cli("get", "key").strip() == "newest"
    step(f"host {lost} was lost with the primary on it; what was acknowledged is there, and writes go on")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=pathlib.Path, help="folder that tools/package made")
    parser.add_argument("--host", choices=HOSTS, help="do this on this host, as the first one asks for")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="begin: install, configure, start systemd; else a"
                        " command among that systemd's processes")
    args = parser.parse_args()
    packages = args.packages.resolve()
    if args.command == ["begin"]:
        begin(args.host, packages)
    elif args.command:
        os.execvp("nsenter", within(*args.command))
    else:
        write(SECRET, SECRET_TEXT, 0o600)
        judge(Hosts(packages))
        step("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
