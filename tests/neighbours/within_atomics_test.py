#!/usr/bin/env python3
"""Clients that take all places of a kv_server, and are gone but within atomics: an operator finds and ends them.

within_atomics_test.py WITHIN_ATOMICS KV_CLI KV_SERVER """

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SERVER, CLI, WITHIN_ATOMICS = (os.path.abspath(sys.argv.pop()) for _ in range(3))
SECONDS = 120  # for anything to happen
PLACES = 8


class WithinAtomicsTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.mkdtemp(dir="/tmp")
    self.addCleanup(shutil.rmtree, self.directory)
    self.address = "shm://" + self.directory + "/s"
    self.server = self.run_process([SERVER, "--listen=" + self.address, "--memory=32m", "--huge_pages=none",
                                    "--workers=2", "--max_clients=%d" % PLACES], stderr=subprocess.DEVNULL)
    self.assertEqual(self.cli("--wait", "put", "key", "value")[0], 0)

  def run_process(self, command, **options):
    process = subprocess.Popen(command, text=True, **options)
    self.addCleanup(process.wait)
    self.addCleanup(process.kill)
    return process

  def cli(self, *words, lines=None):
    done = subprocess.run([CLI, "--address=" + self.address, "--timeout_ms=20000", *words], input=lines, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr

  def eventually(self, holds):
    deadline = time.monotonic() + SECONDS
    while not holds():
      self.assertIsNone(self.server.poll(), "kv_server ended")
      self.assertLess(time.monotonic(), deadline)
      time.sleep(0.01)

  def hostile(self, count):
    process = self.run_process([WITHIN_ATOMICS, self.address, str(count)], stdout=subprocess.PIPE)
    self.addCleanup(process.stdout.close)
    self.assertEqual(process.stdout.readline(), "%d\n" % count)
    self.eventually(lambda: len(self.listed("atomic", process)) == count)
    return process

  def listed(self, state, process):
    """Ids of the process's connections in this state."""
    code, out, err = self.cli("--json", "clients")
    self.assertEqual(code, 0, err)
    clients = [json.loads(line) for line in out.splitlines()]
    return [str(client["id"]) for client in clients
            if client["state"] == state and client["peer"].startswith("pid %d " % process.pid)]

  def figure(self, name):
    code, out, err = self.cli("stat", name)
    self.assertEqual(code, 0, err)
    return int(out.split()[1])

  def descriptors(self):
    return len(os.listdir("/proc/%d/fd" % self.server.pid))

  def test_who_fills_the_places_is_found_kicked_and_forgotten(self):
    before = self.descriptors()
    first = self.hostile(PLACES)
    code, _, err = self.cli("put", "key", "other")
    self.assertEqual(code, 3)
    self.assertIn("limit of %d clients" % PLACES, err)
    self.assertIn("kv_cli clients", err)
    self.assertIn("atomic: %d, of pid %d uid %d (%d); continue" % (PLACES, first.pid, os.getuid(), PLACES),
                  self.cli("clients")[2])

    self.assertEqual(self.cli("kick", *self.listed("atomic", first)), (0, "", ""))
    self.assertEqual(len(self.listed("kicked", first)), PLACES)
    honest = "counter hits create\n" + "incr hits\n" * 100
    self.assertEqual(self.cli(lines=honest)[1].split(), [str(i + 1) for i in range(100)])
    self.assertEqual(self.cli("get", "key")[1], "value")
    self.assertEqual(self.figure("clients_within_atomics"), PLACES)

    # Expect: it cannot repeat that.
    second = self.hostile(PLACES - 1)
    ids = self.listed("atomic", second)
    code, _, err = self.cli("kick", ids[0])
    self.assertEqual(code, 3, err)
    self.assertIn("end the processes of these first", err)
    self.assertEqual(self.figure("clients_within_atomics"), 2 * PLACES - 1)
    first.kill()
    first.wait()
    self.eventually(lambda: not self.listed("kicked", first))
    self.assertEqual(self.cli("kick", *ids), (0, "", ""))
    self.assertEqual(self.cli("counter", "hits")[1], "100\n")

    second.kill()
    second.wait()
    self.eventually(lambda: self.figure("clients_within_atomics") == 0)
    self.eventually(lambda: self.descriptors() <= before)  # the client before may have been there still
    third = self.hostile(PLACES)  # none of the places is lost
    self.assertEqual(self.cli("kick", *self.listed("atomic", third)), (0, "", ""))


if __name__ == "__main__":
  unittest.main(verbosity=2)
