#!/usr/bin/env python3
"""kv_cli doctor and kv_server --check in a guest whose devices, addresses and permissions are taken away.

    doctor_test.py PATH_OF_KV_CLI PATH_OF_KV_SERVER
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

DEVICE = os.environ["FARLOOK_RDMA_DEVICE"]
HOST = os.environ["FARLOOK_RDMA_ADDRESS"]
ADDRESS = "rdma://%s:7471" % HOST
INTERFACE = "v0"
SECONDS = 120
# An unprivileged user, without root's rights.
ORDINARY_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
                 "--bounding-set=-all"]


def run(*command):
  return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                        timeout=SECONDS)


def must(command):
  subprocess.run(command, shell=True, check=True)


class DoctorTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    # Copied to a directory that every user may read.
    cls.cli, cls.server = (shutil.copy(path, "/dev/shm") for path in PROGRAMS)

  def expect(self, result, level, pattern):
    self.assertRegex(result.stdout, r"(?m)^%-8s .*%s" % (level, pattern))

  def trouble(self, *command, expected):
    result = run(*command)
    self.assertEqual(result.returncode, 3, result.stdout)
    self.expect(result, "trouble", expected)
    return result

  def doctor(self, *arguments):
    return [self.cli, "doctor", *arguments]

  def start_server(self):
    server = subprocess.Popen([self.server, "--listen=" + ADDRESS, "--memory=64MiB"], stderr=subprocess.PIPE, text=True)
    self.addCleanup(self.stop, server)
    for line in server.stderr:
      if 'msg="ready"' in line:
        return server
    return self.fail("kv_server ended")

  @staticmethod
  def stop(server):
    server.kill()
    server.wait()
    server.stderr.close()

  def test_all_is_well(self):
    result = run(*self.doctor())
    self.assertEqual(result.returncode, 0, result.stdout)
    self.expect(result, "good", "device %s: " % DEVICE)
    self.expect(result, "good", "%s port 1 is active" % DEVICE)
    self.assertEqual("no atomics" in result.stdout, DEVICE.startswith("siw"))

  def test_the_way_to_a_server_that_answers_and_to_one_that_is_stopped(self):
    server = self.start_server()
    result = run(*self.doctor(ADDRESS))
    self.assertEqual(result.returncode, 0, result.stdout)
    self.expect(result, "good", "leads over %s" % DEVICE)
    self.expect(result, "good", "serves reads at " + ADDRESS)
    self.expect(result, "good", "its CPU answers in")
    server.send_signal(signal.SIGSTOP)
    # A handshake needs the server's CPU: it is not answered.
    self.trouble(*self.doctor(ADDRESS), expected=ADDRESS)

  def test_no_server(self):
    self.trouble(*self.doctor(ADDRESS), expected="no server listens there")

  def test_what_listens_is_no_farlook_server(self):
    other = subprocess.Popen(["rping", "-s", "-a", HOST, "-p", "7471"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
      time.sleep(0.5)
      self.trouble(*self.doctor(ADDRESS), expected="not a Farlook server")
    finally:
      other.kill()
      other.wait()

  def test_another_address_of_the_device(self):
    self.start_server()
    must("ip address add 10.0.0.77/24 dev %s" % INTERFACE)
    try:
      time.sleep(0.3)  # until the device has it
      self.trouble(*self.doctor("rdma://10.0.0.77:7471"),
                   expected="no server listens there" if DEVICE.startswith("siw") else "perhaps at another one")
    finally:
      must("ip address del 10.0.0.77/24 dev %s" % INTERFACE)

  def test_a_loopback_address(self):
    for host in "127.0.0.1", "localhost", "[::1]":
      with self.subTest(host):
        address = "rdma://%s:7471" % host
        self.trouble(*self.doctor(address), expected="a loopback address belongs to no RDMA device")
        result = run(self.server, "--listen=" + address, "--memory=64MiB")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("a loopback address belongs to no RDMA device", result.stdout)
        result = run(self.cli, "--address=" + address, "get", "k")
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("a loopback address belongs to no RDMA device", result.stdout)

  def test_names_and_routes(self):
    self.trouble(*self.doctor("rdma://nohost.invalid:7471"), expected="does not resolve")
    self.trouble(*self.doctor("rdma://172.31.1.1:7471"), expected="no route there")

  def test_a_small_limit_of_locked_memory(self):
    files = glob.glob("/dev/infiniband/*")
    modes = [os.stat(file).st_mode & 0o777 for file in files]
    must("chmod 666 /dev/infiniband/*")
    try:
      limited = [*ORDINARY_USER, "bash", "-c", 'ulimit -l 64; "$@"', "bash"]
      self.trouble(*limited, *self.doctor(), expected="RLIMIT_MEMLOCK is 65536 bytes.*LimitMEMLOCK=infinity")
      result = run(*limited, self.server, "--check", "--listen=" + ADDRESS, "--memory=64MiB")
      self.assertEqual(result.returncode, 5, result.stdout)
      self.expect(result, "trouble", "for table, counters and messages: RLIMIT_MEMLOCK is 65536 bytes")
      # At run time the same sentence, and no crash.
      result = run(*limited, self.server, "--listen=" + ADDRESS, "--memory=64MiB")
      self.assertEqual(result.returncode, 3, result.stdout)
      self.assertIn("RLIMIT_MEMLOCK is 65536 bytes", result.stdout)
      self.start_server()
      result = run(*limited, self.cli, "--address=" + ADDRESS, "get", "k")
      self.assertEqual(result.returncode, 3, result.stdout)
      self.assertIn("RLIMIT_MEMLOCK is 65536 bytes", result.stdout)
      # Room for the table, and none for the counters.
      short = [*ORDINARY_USER, "bash", "-c", 'ulimit -l 70000; "$@"', "bash"]
      result = run(*short, self.server, "--check", "--listen=rdma://%s:7472" % HOST, "--memory=64MiB",
                   "--counter_memory=16MiB")
      self.assertEqual(result.returncode, 5, result.stdout)
      self.expect(result, "trouble", "for table, counters and messages: RLIMIT_MEMLOCK is 71680000 bytes")
      # The default of most systems, with which a client works.
      usual = [*ORDINARY_USER, "bash", "-c", 'ulimit -l 8192; "$@"', "bash"]
      result = run(*usual, *self.doctor(ADDRESS))
      self.assertEqual(result.returncode, 0, result.stdout)
      self.expect(result, "advice", "RLIMIT_MEMLOCK is 8388608 bytes")
    finally:
      for file, mode in zip(files, modes):
        os.chmod(file, mode)

  def test_no_permission_for_the_devices(self):
    files = glob.glob("/dev/infiniband/*")
    modes = [os.stat(file).st_mode & 0o777 for file in files]
    must("chmod 600 /dev/infiniband/*")
    try:
      result = self.trouble(*ORDINARY_USER, *self.doctor(), expected="may not open /dev/infiniband/rdma_cm")
      self.expect(result, "trouble", "may not open /dev/infiniband/uverbs")
      must("chmod 666 /dev/infiniband/uverbs*")
      self.trouble(*ORDINARY_USER, *self.doctor(ADDRESS), expected="may not open /dev/infiniband/rdma_cm")
      result = run(*ORDINARY_USER, self.cli, "--address=" + ADDRESS, "get", "k")
      self.assertIn("may not open /dev/infiniband/rdma_cm", result.stdout)
    finally:
      for file, mode in zip(files, modes):
        os.chmod(file, mode)

  def test_files_of_devices_that_are_missing(self):
    for pattern, expected in (("rdma_cm", "modprobe rdma_ucm"), ("uverbs0", "--device=/dev/infiniband")):
      with self.subTest(pattern):
        path = "/dev/infiniband/" + pattern
        os.rename(path, path + ".away") if pattern == "rdma_cm" else os.rename(path, "/dev/" + pattern)
        try:
          self.trouble(*self.doctor(), expected=expected)
          result = run(self.cli, "--address=" + ADDRESS, "get", "k")
          self.assertEqual(result.returncode, 3, result.stdout)
          self.assertIn(expected, result.stdout)
          self.assertNotIn("no RDMA device", result.stdout)
        finally:
          os.rename(path + ".away", path) if pattern == "rdma_cm" else os.rename("/dev/" + pattern, path)

  def test_the_plan_of_a_server(self):
    for flags, level, expected in (
        (["--memory=64MiB"], "good", "can listen at " + ADDRESS),
        (["--memory=64MiB", "--numa_node=9"], "trouble", "no NUMA node 9"),
        (["--memory=1TiB", "--huge_pages=2m"], "trouble", "nr_hugepages"),
        (["--memory=64MiB", "--listen=rdma://10.9.9.9:7471"], "trouble", "not one of an interface with an RDMA device"),
    ):
      with self.subTest(flags=flags):
        result = run(self.server, "--check", "--listen=" + ADDRESS, *flags)
        self.assertEqual(result.returncode, 0 if level == "good" else 5, result.stdout)
        self.expect(result, level, re.escape(expected))
    self.start_server()
    result = run(self.server, "--check", "--listen=" + ADDRESS, "--memory=64MiB")
    self.expect(result, "trouble", "in use, by another server or another address of this one")

  # Tests that cannot undo their changes are last: names are in alphabetical order.

  def test_z1_a_link_local_address_only(self):
    must("ip address flush dev %s scope global" % INTERFACE)
    time.sleep(0.3)
    if DEVICE.startswith("siw"):  # runs over TCP, which any address will do for
      result = run(*self.doctor())
      self.assertEqual(result.returncode, 0, result.stdout)
      self.assertNotIn("link-local", result.stdout)
      return
    self.trouble(*self.doctor(), expected="link-local.*ip address add .* dev " + INTERFACE)

  def test_z2_the_port_is_down(self):
    must("ip link set %s down" % INTERFACE)
    time.sleep(0.3)
    self.trouble(*self.doctor(), expected="the port of %s is .*ip link set" % DEVICE)

  def test_z3_no_device(self):
    must("rdma link delete " + DEVICE)
    self.trouble(*self.doctor(), expected="no RDMA device.*rdma link add")
    result = run(self.server, "--listen=" + ADDRESS, "--memory=64MiB")
    self.assertNotEqual(result.returncode, 0)
    self.assertIn("no RDMA device", result.stdout)


if __name__ == "__main__":
  PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:3]]
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
