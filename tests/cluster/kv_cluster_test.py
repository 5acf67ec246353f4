#!/usr/bin/env python3
"""kv_cluster: groups that are started, continue when servers are killed, and end with nothing left; and wrong input.

kv_cluster_test.py KV_CLUSTER KV_SERVER KV_CLI [unittest arguments] """

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CLUSTER, SERVER, CLI = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[1:4]
SECONDS = 120  # for anything to happen


def ends(process):
  """Returns its exit code, and its stderr."""
  _, errors = process.communicate(timeout=SECONDS)
  return process.returncode, errors


def is_there(pid):
  try:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
      return file.read().rpartition(")")[2].split()[0] != "Z"
  except OSError:
    return False


class ClusterTest(unittest.TestCase):

  def setUp(self):
    self.parent = tempfile.mkdtemp(prefix="farlook-", dir="/tmp")
    self.addCleanup(shutil.rmtree, self.parent)
    self.folder = self.parent + "/c"

  def start(self, *flags, folder=None):
    process = subprocess.Popen(
        [CLUSTER, f"--kv_server={SERVER}", f"--kv_cli={CLI}", "--memory=32MiB", *flags, folder or self.folder],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    self.addCleanup(self.end, process)
    return process

  def end(self, process):
    if process.poll() is None:
      process.terminate()
      process.communicate(timeout=SECONDS)
    process.stdout.close()
    process.stderr.close()

  def await_address(self, process):
    """Returns the address for clients, as printed in the line for shells."""
    process.stdout.readline()
    line = process.stdout.readline().strip()
    if not line:
      self.fail(ends(process))
    with open(self.folder + "/env", encoding="utf-8") as file:
      self.assertEqual(file.read().strip(), line)
    told = subprocess.run(["sh", "-c", f"{line}; echo $FARLOOK_ADDRESS"], stdout=subprocess.PIPE, text=True, check=True)
    return told.stdout.strip()

  def cli(self, address, *words):
    done = subprocess.run([CLI, f"--address={address}", "--timeout_ms=60000", *words], capture_output=True, text=True,
                          check=False)
    # 1 and 2: a primary has answered, and the group is not whole.
    self.assertIn(done.returncode, (0, 1, 2) if words[:2] == ("cluster", "status") else (0,), done.stderr)
    return done.stdout

  def servers(self, address, *which):
    """Returns the roles of the group's members by address, as its primary reports them."""
    return dict(reversed(line.split()[:2]) for line in self.cli(address, "cluster", "status", *which).splitlines()
                if line.split()[0] in ("primary", "backup") and "disconnected" not in line)

  def await_servers(self, count, address, *which):
    """The same, when there are `count` servers: a backup that has come in sync connects once more."""
    roles = {}

    def are_there():
      nonlocal roles
      roles = self.servers(address, *which)
      return len(roles) == count

    self.until(are_there, f"{count} servers")
    return roles

  def pid_of(self, address):
    """The process id of the server that listens there; None: there is none now."""
    for name in filter(lambda name: name.endswith(".pid"), os.listdir(self.folder)):
      with open(f"{self.folder}/{name}", encoding="ascii") as file:
        pid = int(file.read())
      try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
          if f"--listen={address}" in file.read().split("\0"):
            return pid
      except OSError:
        pass
    return None

  def until(self, condition, what):
    deadline = time.monotonic() + SECONDS
    while not condition():
      self.assertLess(time.monotonic(), deadline, what)
      time.sleep(0.05)

  def check_goes_on(self, process, address, members):
    """Kills its primary: nothing is lost, and the same number of servers is in sync again."""
    addresses = address.split(",")
    roles = self.await_servers(members, address)
    self.assertLessEqual(set(roles), set(addresses))
    self.cli(address, "put", "moon", "far side")
    primary = next(each for each, role in roles.items() if role == "primary")
    os.kill(self.pid_of(primary), signal.SIGKILL)
    self.until(lambda: self.pid_of(primary) is not None and len(self.servers(address)) == members, "in sync again")
    self.assertNotEqual(self.servers(address).get(primary), "primary")
    self.assertEqual(self.cli(address, "get", "moon"), "far side")
    pids = [self.pid_of(each) for each in addresses]
    process.terminate()
    code, errors = ends(process)
    self.assertEqual(code, 0, errors)
    self.assertRegex(errors, r"was ended by SIGKILL and is started again; .*\.log")
    # Expect: no process is left, and only logs remain.
    self.assertFalse(any(is_there(pid) for pid in pids))
    self.check_nothing_is_left_but_logs()

  def check_nothing_is_left_but_logs(self):
    left = os.listdir(self.folder)
    self.assertTrue(all(re.fullmatch(r".*\.(log|lock)", name) for name in left), left)

  def test_a_group_of_three_and_a_spare_goes_on_without_its_primary(self):
    process = self.start("--replicas=3", "--spares=1")
    address = self.await_address(process)
    self.assertEqual(len(address.split(",")), 4)
    self.check_goes_on(process, address, 3)

  def test_over_tcp_and_with_etcd(self):
    process = self.start("--tcp", "--etcd")
    address = self.await_address(process)
    self.assertRegex(address, r"^tcp://127.0.0.1:\d+,tcp://127.0.0.1:\d+$")
    # Expect: no other process is given these ports, until a server listens there.
    with open("/proc/sys/net/ipv4/ip_local_port_range") as given:
      lowest_given = int(given.read().split()[0])
    self.assertLess(max(int(port) for port in re.findall(r":(\d+)", address)), lowest_given)
    self.assertFalse(os.path.exists(self.folder + "/groups"))
    self.check_goes_on(process, address, 2)

  def check_groups(self, process, seed):
    """A cluster of two groups of two: each knows its slots, and continues without its primary."""
    address = self.await_address(process)
    self.assertRegex(address, f"^farlook://{seed},{seed},{seed},{seed}/kv$")
    seeds = address[len("farlook://"):-len("/kv")].split(",")
    scheme = "shm://" if seeds[0].startswith("/") else "tcp://"
    groups = [",".join(scheme + each for each in seeds[first:first + 2]) for first in (0, 2)]
    for i, group in enumerate(groups):
      self.await_servers(2, group, f"--group=g{i}")
      self.assertRegex(self.cli(group, "stat", "cluster_", f"--group=g{i}"),
                       r"^cluster_groups\s+2\ncluster_moves\s+0\ncluster_slots\s+2048\n$")
    self.assertRegex(self.cli(address, "cluster", "status"),
                     r"^g0: 2048 slots, 0-2047\ng1: 2048 slots, 2048-4095\n\ngroup g0\n")
    self.assertEqual(self.cli(address, "stat", "cluster_"), "cluster_groups 2\ncluster_moves 0\ncluster_slots 4096\n")
    # Expect: keys are divided, and each server leads to all of them.
    for i in range(40):
      self.cli(groups[i % 2], "put", f"key{i}", "v")
    keys = [int(self.cli(address, "stat", "keys", f"--group=g{i}").split()[1]) for i in (0, 1)]
    self.assertEqual(sum(keys), 40)
    self.assertGreater(min(keys), 5)
    roles = self.await_servers(2, groups[1], "--group=g1")
    primary = next(each for each, role in roles.items() if role == "primary")
    os.kill(self.pid_of(primary), signal.SIGKILL)
    self.until(lambda: self.pid_of(primary) is not None and len(self.servers(groups[1], "--group=g1")) == 2,
               "in sync again")
    self.assertNotEqual(self.servers(groups[1], "--group=g1").get(primary), "primary")
    self.assertEqual(self.cli(address, "stat", "keys"), "keys 40\n")
    for wrong, why in (("/other", "is of cluster kv, and other is wanted"), ("/k v", "the name is none")):
      done = subprocess.run([CLI, f"--address={address[:-len('/kv')]}{wrong}", "get", "key1"], capture_output=True,
                            text=True, check=False)
      self.assertNotEqual(done.returncode, 0)
      self.assertIn(why, done.stderr)
    pids = [self.pid_of(each) for group in groups for each in group.split(",")]
    process.terminate()
    code, errors = ends(process)
    self.assertEqual(code, 0, errors)
    self.assertFalse(any(is_there(pid) for pid in pids))
    return errors

  def test_a_cluster_of_two_groups(self):
    errors = self.check_groups(self.start("--groups=2"), f"{self.folder}/g[01]-[ab]")
    self.assertRegex(errors, r"g1-[ab] was ended by SIGKILL and is started again")

  def test_a_cluster_over_tcp_and_with_etcd(self):
    self.check_groups(self.start("--groups=2", "--tcp", "--etcd"), r"127.0.0.1:\d+")

  def add(self, *flags, folder=None):
    return subprocess.run([CLUSTER, "--add", *flags, folder or self.folder], capture_output=True, text=True, check=False,
                          timeout=SECONDS)

  def test_a_group_is_added_while_it_runs(self):
    process = self.start("--groups=2")
    address = self.await_address(process)
    for i in range(20):
      self.cli(address, "put", f"key{i}", "v")
    done = self.add()
    self.assertEqual(done.returncode, 0, done.stderr)
    first, second = done.stdout.splitlines()
    self.assertEqual(first, f"g2 shm://{self.folder}/g2-a,shm://{self.folder}/g2-b")
    group = first.split()[1]
    self.assertEqual(sorted(self.await_servers(2, group, "--group=g2").values()), ["backup", "primary"])
    # Expect: all know of it, it has no slots, and nothing else has changed.
    self.assertRegex(self.cli(address, "cluster", "status"),
                     r"^g0: 2048 slots, 0-2047\ng1: 2048 slots, 2048-4095\ng2: 0 slots\n\n")
    self.assertEqual(self.cli(address, "stat", "cluster_", "--group=g2"), "cluster_groups 3\ncluster_moves 0\ncluster_slots 0\n")
    self.assertEqual(self.cli(address, "stat", "keys"), "keys 20\n")
    # Expect: the command that gives it slots is printed for shells; the address names its servers too.
    with open(self.folder + "/env", encoding="utf-8") as file:
      line = file.read().strip()
    self.assertEqual("export " + second, line + " kv_cli cluster add g2")
    self.assertIn(f",{self.folder}/g2-a,{self.folder}/g2-b/kv", line)
    # Expect: its servers are supervised like the others.
    roles = self.await_servers(2, group, "--group=g2")
    primary = next(each for each, role in roles.items() if role == "primary")
    os.kill(self.pid_of(primary), signal.SIGKILL)
    self.until(lambda: self.pid_of(primary) is not None and len(self.servers(group, "--group=g2")) == 2, "in sync again")
    pids = [self.pid_of(each) for each in group.split(",")]
    process.terminate()
    code, errors = ends(process)
    self.assertEqual(code, 0, errors)
    self.assertIn("group g2 is started, as kv_cluster --add asks", errors)
    self.assertFalse(any(is_there(pid) for pid in pids))
    self.check_nothing_is_left_but_logs()

  def test_a_group_over_tcp_and_with_etcd_is_added(self):
    process = self.start("--groups=2", "--replicas=1", "--tcp", "--etcd")
    address = self.await_address(process)
    done = self.add()
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertRegex(done.stdout, r"^g2 tcp://127.0.0.1:\d+\n")
    self.assertRegex(self.cli(address, "cluster", "status"), r"(?m)^g2: 0 slots\n")

  def test_a_group_is_added_only_where_that_can_be(self):
    for folder in (self.folder, "/etc/passwd", self.parent):
      done = self.add(folder=folder)
      self.assertEqual(done.returncode, 3, done.stderr)
      self.assertIn(f"no kv_cluster runs in {folder}: start one with kv_cluster --groups=2 {folder}", done.stderr)
    done = self.add("--replicas=3")
    self.assertEqual(done.returncode, 1, done.stderr)
    self.assertIn("--replicas=3: --add takes no other flag", done.stderr)
    process = self.start("--replicas=1", "--memory=16MiB")
    self.await_address(process)
    done = self.add()
    self.assertEqual(done.returncode, 3, done.stderr)
    self.assertIn("it runs a group without a cluster: start it with --groups=2", done.stderr)
    process.terminate()
    self.assertEqual(ends(process)[0], 0)
    # Expect: files that are left in the folder are not taken for a running cluster.
    self.assertEqual(self.add().returncode, 3)

  def test_a_process_that_got_the_id_of_a_former_one_is_left_alone(self):
    os.mkdir(self.folder)
    with subprocess.Popen(["sleep", "600"]) as other, open(self.folder + "/kv_cluster.lock", "w", encoding="ascii") as lock:
      self.addCleanup(other.kill)
      lock.write(f"{other.pid}\n")
      lock.flush()
      fcntl.flock(lock, fcntl.LOCK_EX)  # as servers hold it that are about to end
      done = self.add()
      self.assertEqual(done.returncode, 3, done.stderr)
      self.assertIn(f"no kv_cluster runs in {self.folder}", done.stderr)
      with self.assertRaises(subprocess.TimeoutExpired):
        other.wait(1)
      other.kill()

  def test_one_that_is_stopped_ends_too_and_the_folder_can_be_used_again(self):
    process = self.start("--replicas=1", "--memory=16MiB")
    address = self.await_address(process)
    self.cli(address, "put", "moon", "far side")
    os.kill(self.pid_of(address), signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    self.assertEqual(ends(process)[0], 0)
    # Expect: it begins empty, regardless of the former one's files.
    address = self.await_address(self.start("--replicas=1"))
    self.assertRegex(self.cli(address, "stat", "keys"), r"^keys\s+0\n")

  def test_a_server_that_was_killed_and_not_started_again_leaves_no_socket(self):
    process = self.start()
    address = self.await_address(process).split(",")[0]
    os.kill(process.pid, signal.SIGSTOP)  # it is asked to end before it can start the server again
    os.kill(self.pid_of(address), signal.SIGKILL)
    process.terminate()
    os.kill(process.pid, signal.SIGCONT)
    code, errors = ends(process)
    self.assertEqual(code, 0, errors)
    self.check_nothing_is_left_but_logs()

  def test_a_killed_kv_cluster_leaves_nothing_behind(self):
    process = self.start("--replicas=1")
    pid = self.pid_of(self.await_address(process))
    process.kill()
    ends(process)
    self.until(lambda: not is_there(pid), "the server's end")
    self.await_address(self.start("--replicas=1"))

  def test_a_folder_is_of_one_at_a_time(self):
    first = self.start("--replicas=1")
    self.await_address(first)
    code, errors = ends(self.start("--replicas=1"))
    self.assertEqual(code, 1)
    self.assertIn(f"{self.folder} is in use by another kv_cluster (pid {first.pid})", errors)

  def test_wrong_input_is_refused_and_said(self):
    os.mkdir(self.folder)
    with open(self.folder + "/precious", "w", encoding="ascii"):
      pass
    other = self.parent + "/o"
    for flags, folder, code, text in (
        ([], self.folder, 1, "has files of others: name a folder that is new, or empty"),
        ([], self.folder + "/precious", 1, "is no folder"),
        ([], self.parent + "/no/folder", 1, "cannot be used: No such file or directory"),
        ([], "/sys/kernel/farlook", 1, "cannot be used: "),
        ([], self.parent + "/a,b", 1, "a comma"),
        (["--groups=0"], other, 1, "--groups=0: 1 to 16"),
        (["--groups=17"], other, 1, "--groups=17: 1 to 16"),
        (["--groups=2"], self.parent + "/a b", 1, "with --groups the name of the folder is without spaces"),
        (["--replicas=0"], other, 1, "--replicas=0: a group has 1 to 16 servers"),
        (["--replicas=17"], other, 1, "--replicas=17: a group has 1 to 16 servers"),
        (["--replicas=two"], other, 1, "--replicas=two: a group has 1 to 16 servers"),
        (["--spares=17"], other, 1, "--spares=17: 0 to 16"),
        (["--replica=2"], other, 1, "unrecognized arguments: --replica=2"),
        (["one more"], other, 1, "unrecognized arguments"),
        (["--kv_server=/etc/passwd"], other, 1, "--kv_server=/etc/passwd: there is no program that can be run"),
        (["--memory=1k"], other, 2, "a ended with exit code 1"),
    ):
      got, errors = ends(self.start(*flags, folder=folder))
      self.assertEqual(got, code, errors)
      self.assertIn(text, errors)
      self.assertNotIn("Traceback", errors)
    self.assertTrue(os.path.exists(self.folder + "/precious"))

  def test_a_wrong_flag_for_the_servers_is_told_in_their_words(self):
    process = subprocess.run([CLUSTER, f"--kv_server={SERVER}", f"--kv_cli={CLI}", self.folder, "--", "--nonsense"],
                             capture_output=True, text=True, check=False, timeout=SECONDS)
    self.assertEqual(process.returncode, 2)
    self.assertIn("unknown flag --nonsense", process.stderr)
    process = subprocess.run([CLUSTER, f"--kv_server={SERVER}", f"--kv_cli={CLI}", self.folder, "--", "--group=x"],
                             capture_output=True, text=True, check=False, timeout=SECONDS)
    self.assertEqual(process.returncode, 1)
    self.assertIn("kv_cluster itself sets --listen and --group", process.stderr)


if __name__ == "__main__":
  unittest.main()
