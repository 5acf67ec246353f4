#!/usr/bin/env python3
"""ycsb against redis-server, memcached, LMDB and the floor: every workload, batches and in flight, with right data.

    stores_test.py PATH_OF_YCSB PATH_OF_RUN_MEMCACHED

A server that is not installed is a failure: tools/setup installs it.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

RUN_MEMCACHED = os.path.abspath(sys.argv.pop())
YCSB = os.path.abspath(sys.argv.pop())
SECONDS = 120  # for anything to happen: the machine may be busy
SHAPES = [("-threads", "3"), ("-threads", "2", "-p", "batchsize=16"), ("-threads", "2", "-p", "inflight=16")]


def free_port():
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    return probe.getsockname()[1]


def figure(text, name):
  """The number after "NAME, " in the last phase of ycsb's output, or None."""
  found = re.findall(r"^%s, ([-0-9.]+)$" % re.escape(name), text, re.MULTILINE)
  return float(found[-1]) if found else None


class StoresTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.mkdtemp(prefix="farlook")
    self.addCleanup(shutil.rmtree, self.directory)

  def start(self, kind, address):
    path = address[len("unix://"):] if address.startswith("unix://") else None
    port = address.rpartition(":")[2]
    if kind == "redis":
      command = ["redis-server", "--save", "", "--appendonly", "no", "--dir", self.directory, "--bind", "127.0.0.1",
                 *(["--port", "0", "--unixsocket", path] if path else ["--port", port])]
    else:
      command = [RUN_MEMCACHED, "-t", "1", "-U", "0", "-M", "-m", "128",
                 *(["-s", path] if path else ["-l", "127.0.0.1", "-p", port])]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    self.addCleanup(server.wait)
    self.addCleanup(server.kill)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
      try:
        with socket.socket(socket.AF_UNIX if path else socket.AF_INET) as probe:
          probe.connect(path or ("127.0.0.1", int(port)))
        return server
      except OSError:
        self.assertIsNone(server.poll(), "%s ended with exit code %s" % (command, server.returncode))
        time.sleep(0.01)
    self.fail("%s does not listen" % command)

  def check(self, db, workload, *arguments):
    """Expects that every operation succeeded, and that all values read are those written. Returns the JSON."""
    path = os.path.join(self.directory, "result.json")
    run = subprocess.run(
        [YCSB, "-db", db, "-load", "-t", "-P", "bench/workloads/workload" + workload, "-p", "recordcount=500",
         "-p", "operationcount=2000", "-p", "dataintegrity=true", "-json", path, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    self.assertEqual(run.returncode, 0, run)
    self.assertNotIn("warning", run.stderr)
    reads = figure(run.stdout, "[READ], Operations")
    self.assertGreater(reads, 0)
    for kind in ("READ", "VERIFY"):
      self.assertEqual(figure(run.stdout, "[%s], Return=OK" % kind), reads, run.stdout)
    for kind in ("INSERT", "UPDATE"):
      self.assertEqual(figure(run.stdout, "[%s], Return=OK" % kind), figure(run.stdout, "[%s], Operations" % kind))
    with open(path, encoding="utf-8") as file:
      return json.load(file)

  def check_all(self, db, *arguments):
    for workload in "abcdf":
      for shape in SHAPES:
        with self.subTest(workload=workload, shape=shape):
          self.check(db, workload, *shape, *arguments)

  def test_redis(self):
    address = "unix://%s/redis" % self.directory
    self.start("redis", address)
    self.check_all("redis", "-p", "redis.address=" + address)

  def test_memcached(self):
    address = "unix://%s/memcached" % self.directory
    self.start("memcached", address)
    self.check_all("memcached", "-p", "memcached.address=" + address)

  def test_over_tcp_with_the_servers_cpu_time(self):
    for db in ("redis", "memcached"):
      with self.subTest(db=db):
        address = "tcp://127.0.0.1:%d" % free_port()
        self.start(db, address)
        for shape in SHAPES:
          result = self.check(db, "f", *shape, "-p", "%s.address=%s" % (db, address))
        self.assertIsNotNone(result["phases"][1]["server_cpu"])

  def test_lmdb(self):
    self.check_all("lmdb", "-p", "lmdb.map_mib=256", "-p", "lmdb.path=%s/lmdb" % self.directory)

  def test_floor(self):
    for workload in "abcdf":
      for shape in ("batchsize=1", "batchsize=16", "inflight=16"):
        with self.subTest(workload=workload, shape=shape):
          self.check("floor", workload, "-p", shape)

  def test_no_server_is_said(self):
    for db in ("redis", "memcached"):
      with self.subTest(db=db):
        run = subprocess.run(
            [YCSB, "-db", db, "-t", "-P", "bench/workloads/workloadc", "-p",
             "%s.address=unix://%s/nothing" % (db, self.directory)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        self.assertEqual(run.returncode, 2, run)
        self.assertIn(db, run.stderr)
        self.assertIn("nothing", run.stderr)


if __name__ == "__main__":
  unittest.main()
