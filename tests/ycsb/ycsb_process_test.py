#!/usr/bin/env python3
"""ycsb -db farlook against a real kv_server, as processes over shm.

    ycsb_process_test.py PATH_OF_YCSB PATH_OF_KV_SERVER
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SERVER = os.path.abspath(sys.argv.pop())
YCSB = os.path.abspath(sys.argv.pop())
SECONDS = 120  # for anything to happen
RECORDS = 1000


def figure(text, name):
  """The number after "NAME, " in the last phase of ycsb's output, or None."""
  found = re.findall(r"^%s, ([-0-9.]+)$" % re.escape(name), text, re.MULTILINE)
  return float(found[-1]) if found else None


class YcsbTest(unittest.TestCase):

  def setUp(self):
    # Not TEST_TMPDIR: the path of a socket has at most 107 bytes.
    self.directory = tempfile.mkdtemp(prefix="farlook")
    self.addCleanup(shutil.rmtree, self.directory)
    self.address = "shm://%s/s" % self.directory
    self.addCleanup(self.stop_server)
    self.start_server()

  def start_server(self):
    # Its address accepts connections when it reports that.
    self.server = subprocess.Popen(
        [SERVER, "--listen=" + self.address, "--memory=64MiB", "--huge_pages=none"],
        stderr=subprocess.PIPE, text=True)
    for line in self.server.stderr:
      if 'msg="ready"' in line:
        return
    self.fail("kv_server ended")

  def stop_server(self):
    self.server.kill()
    self.server.wait()
    self.server.stderr.close()

  def ycsb(self, workload, *arguments):
    """Loads and runs a workload. This machine may be busy with other tests: the timeout is generous."""
    return subprocess.run(
        [YCSB, "-db", "farlook", "-P", "bench/workloads/workload" + workload, "-p", "farlook.address=" + self.address,
         "-p", "recordcount=%d" % RECORDS, "-p", "operationcount=4000", "-p", "farlook.timeout_ms=20000",
         "-p", "dataintegrity=true", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)

  def check(self, workload, *arguments):
    """Expects that every operation succeeded, and that all values read are those written."""
    run = self.ycsb(workload, *arguments)
    self.assertEqual(run.returncode, 0, run)
    reads = figure(run.stdout, "[READ], Operations")
    self.assertGreater(reads, 0)
    self.assertEqual(figure(run.stdout, "[READ], Return=OK"), reads, run.stdout)
    self.assertEqual(figure(run.stdout, "[VERIFY], Return=OK"), reads, run.stdout)
    for kind in ("INSERT", "UPDATE"):
      self.assertEqual(figure(run.stdout, "[%s], Return=OK" % kind), figure(run.stdout, "[%s], Operations" % kind))
    return run

  def test_every_workload_runs_and_its_data_is_right(self):
    for workload in "abcdf":
      with self.subTest(workload=workload):
        run = self.check(workload, "-load", "-t", "-threads", "3")
        self.assertIsNotNone(figure(run.stdout, "[OVERALL], Throughput(ops/sec)"))

  def test_batches(self):
    for workload in "cd":
      with self.subTest(workload=workload):
        self.check(workload, "-load", "-t", "-threads", "2", "-p", "batchsize=16")

  def test_many_in_flight(self):
    for workload in "acdf":
      with self.subTest(workload=workload):
        self.check(workload, "-load", "-t", "-threads", "2", "-p", "inflight=16")

  def test_two_processes_share_the_table(self):
    """Workload F by two at once: read-modify-writes that lose to each other are repeated."""
    self.assertEqual(self.ycsb("f", "-load").returncode, 0)
    with subprocess.Popen(
        [YCSB, "-db", "farlook", "-t", "-P", "bench/workloads/workloadf", "-p", "farlook.address=" + self.address,
         "-p", "recordcount=%d" % RECORDS, "-p", "operationcount=4000", "-p", "farlook.timeout_ms=20000",
         "-p", "dataintegrity=true"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as other:
      self.check("f", "-t")
      _, err = other.communicate(timeout=SECONDS)
      self.assertEqual(other.returncode, 0, err)

  def test_reads_take_no_cpu_of_the_server(self):
    self.assertEqual(self.ycsb("c", "-load").returncode, 0)
    path = os.path.join(self.directory, "result.json")
    run = self.ycsb("c", "-t", "-p", "operationcount=100000", "-json", path)
    self.assertEqual(run.returncode, 0, run)
    with open(path, encoding="utf-8") as file:
      phase = json.load(file)["phases"][0]
    self.assertEqual(phase["metrics"]["READ"]["latency_ns"]["count"], 100000)
    # 0, except for the time of a sanitizer's own thread. As many answers would take it 100 ms and more.
    self.assertLess(phase["server_cpu"]["ns"], 30_000_000)

  def test_lookups_by_message(self):
    for workload, mode in (("f", "inflight=1"), ("c", "batchsize=16"), ("f", "inflight=16")):
      with self.subTest(mode=mode):
        self.check(workload, "-load", "-t", "-p", "farlook.lookups=messages", "-p", mode, "-p", "operationcount=1000")
    run = self.ycsb("c", "-t", "-p", "farlook.lookups=pigeons")
    self.assertEqual(run.returncode, 1, run)
    self.assertIn("farlook.lookups", run.stderr)

  def test_reads_go_on_without_a_server_that_runs(self):
    self.assertEqual(self.ycsb("c", "-load").returncode, 0)
    with subprocess.Popen(
        [YCSB, "-db", "farlook", "-t", "-s", "-P", "bench/workloads/workloadc",
         "-p", "farlook.address=" + self.address, "-p", "recordcount=%d" % RECORDS, "-p", "operationcount=1000000000",
         "-p", "maxexecutiontime=3", "-p", "status.interval=1", "-p", "farlook.timeout_ms=20000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
      line = run.stderr.readline()  # the first status line: it is connected, and reads
      self.server.send_signal(signal.SIGSTOP)
      out, err = run.communicate(timeout=SECONDS)
      self.server.send_signal(signal.SIGCONT)
    self.assertEqual(run.returncode, 0, line + err)
    self.assertGreater(figure(out, "[READ], Return=OK"), 1000)
    self.assertEqual(figure(out, "[READ], Return=OK"), figure(out, "[READ], Operations"))

  def test_no_server(self):
    self.stop_server()
    run = self.ycsb("a", "-load", "-p", "farlook.timeout_ms=200")
    self.assertNotEqual(run.returncode, 0)
    self.assertIn(self.address, run.stderr)
    self.assertIn("kv_server", run.stderr)

  def test_a_server_that_is_not_there_yet_is_waited_for(self):
    self.stop_server()
    with subprocess.Popen([YCSB, "-db", "farlook", "-load", "-P", "bench/workloads/workloada", "-p", "recordcount=100",
                           "-p", "farlook.address=" + self.address, "-p", "farlook.timeout_ms=%d" % (SECONDS * 1000),
                           "-p", "farlook.wait=true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
      with self.assertRaises(subprocess.TimeoutExpired, msg="it does not fail at once"):
        run.wait(0.5)
      self.start_server()
      out, err = run.communicate(timeout=SECONDS)
      self.assertEqual(run.returncode, 0, err)
      self.assertEqual(figure(out, "[INSERT], Return=OK"), 100)

  def test_a_full_table_is_said(self):
    run = self.ycsb("a", "-load", "-p", "recordcount=200000")
    self.assertEqual(run.returncode, 3, run)
    self.assertIn("INSERT failed: NO_SPACE: RESOURCE_EXHAUSTED: the server's memory is full", run.stderr)
    self.assertGreater(figure(run.stdout, "[INSERT], Return=NO_SPACE"), 0)


if __name__ == "__main__":
  unittest.main()
