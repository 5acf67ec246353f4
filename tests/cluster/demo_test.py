#!/usr/bin/env python3
"""tools/demo --cluster, shortened; and that its proof fails if an acknowledged write is lost or changed.

demo_test.py KV_CLUSTER KV_SERVER KV_CLI ACKNOWLEDGED DEMO_CLUSTER.PY [unittest arguments] """

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CLUSTER, SERVER, CLI, ACKNOWLEDGED, DEMO = (os.path.abspath(path) for path in sys.argv[1:6])
del sys.argv[1:6]
sys.path.insert(0, os.path.dirname(DEMO))
import demo_cluster  # pylint: disable=wrong-import-position


class DemoTest(unittest.TestCase):

  def test_a_cluster_gets_a_group_and_loses_two_primaries_and_no_write(self):
    args = argparse.Namespace(records=2000, seconds=demo_cluster.LEAST_S, threads=1)
    cleanup = []
    said = io.StringIO()
    try:
      with contextlib.redirect_stdout(said):
        demo_cluster.run(args, (SERVER, CLI, ACKNOWLEDGED), cleanup, CLUSTER)
    finally:
      for undo in reversed(cleanup):
        undo()
    text = said.getvalue()
    self.assertIn("g0-a, the primary, is killed (kill -9)\n", text)
    self.assertRegex(text, r"\n {7}\$ kv_cluster --add /tmp/\S+\n(.*\n)* {7}g2 shm://\S+/g2-a,shm://\S+/g2-b\n")
    # Expect: the lines about events beside the load are whole lines.
    self.assertRegex(text, r"\n {7}\$ kv_cli cluster add g2 --yes\n(.*\n)* {7}g0 -> g2: 683 slots \(0-682\)\n")
    self.assertRegex(text, r"\n {7}done: 2 moves, 1365 slots")
    # On a busy machine g0-a may have become primary again before.
    stopped = re.search(r"(g0-[ab]), the primary, is stopped \(SIGSTOP\): its memory can still be read\n", text)
    self.assertIsNotNone(stopped, text)
    other = "g0-a" if stopped[1] == "g0-b" else "g0-b"
    self.assertIn(f"{other} is primary, with {stopped[1]} in sync\n", text[stopped.end():])
    self.assertRegex(text, r"proof: 2000 records, \d{4,} acknowledged writes, \d+ of unknown outcome; of the records 0 are "
                           r"lost, 0 out of date, 0 damaged; of the reads before 0 were out of date, 0 damaged\n")

  def test_the_proof_tells_what_is_lost_out_of_date_or_damaged(self):
    folder = tempfile.mkdtemp(prefix="farlook-", dir="/tmp")
    self.addCleanup(shutil.rmtree, folder)
    address = f"shm://{folder}/s"
    server = subprocess.Popen([SERVER, f"--listen={address}", "--memory=32MiB"], stderr=subprocess.DEVNULL)
    self.addCleanup(lambda: (server.kill(), server.wait()))

    def cli(*words, **popen):
      return subprocess.run([CLI, f"--address={address}", "--wait", "--timeout_ms=60000", *words], stdout=subprocess.PIPE, text=True, check=True,
                            **popen).stdout

    cli("ping")
    # Expect: without damage, all writes are there.
    load = self.start_load(address)
    load.send_signal(signal.SIGTERM)
    self.assertIn("of the records 0 are lost, 0 out of date, 0 damaged", load.stdout.read())
    self.assertEqual(load.wait(), 0)

    load = self.start_load(address)
    early = [cli("get", f"user{i}") for i in range(20)]
    load.stdout.readline()
    load.stdout.readline()
    load.send_signal(signal.SIGSTOP)
    for i, value in enumerate(early):
      cli("put", f"user{i}", "--file=-", input=value)
    for i in range(20, 30):
      cli("put", f"user{i}", "nonsense")
    cli("delete", *(f"user{i}" for i in range(30, 40)))
    load.send_signal(signal.SIGTERM)
    load.send_signal(signal.SIGCONT)
    text = load.stdout.read()
    self.assertEqual(load.wait(), 3, text)
    self.assertRegex(text, r"of the records [1-9]\d* are lost, [1-9]\d* out of date, [1-9]\d* damaged")

  def start_load(self, address):
    """Waits until it has loaded, and reads and writes."""
    load = subprocess.Popen([ACKNOWLEDGED, f"--address={address}", "--records=64", "--threads=1", "--seconds=60"],
                            stdout=subprocess.PIPE, text=True)
    self.addCleanup(lambda: (load.kill(), load.wait(), load.stdout.close()))
    self.assertEqual(load.stdout.readline(), "64 records of 1000 bytes are loaded\n")
    load.stdout.readline()  # what the columns are
    return load


if __name__ == "__main__":
  unittest.main()
