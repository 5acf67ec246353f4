#!/usr/bin/env python3
"""Tests that core dumps hold neither the table nor the messages of clients: the kernel leaves out mappings with the flag dd.

    cores_test.py KV_CLI KV_SERVER
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'server/testing')
import kv_server  # pylint: disable=wrong-import-position

KV_CLI, KV_SERVER = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]
MIB = 1 << 20


def mappings(pid):
  """Returns (name, bytes, whether core dumps leave it out) of each mapping of a process."""
  found = []
  with open(f'/proc/{pid}/smaps', encoding='utf-8') as smaps:
    for line in smaps:
      head = re.match(r'([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)', line)
      if head:
        begin, end = (int(head[i], 16) for i in (1, 2))
        name = head[3].removeprefix('/memfd:').removesuffix(' (deleted)')
      elif line.startswith('VmFlags:'):
        found.append((name, end - begin, 'dd' in line.split()))
  return found


class CoresTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.TemporaryDirectory(prefix='farlook')
    self.addCleanup(self.directory.cleanup)
    self.address = f'shm://{self.directory.name}/s'

  def start_server(self, *flags):
    server = kv_server.Server(KV_SERVER, '--counter_memory=1m', *flags, address=self.address, memory='32m')
    self.addCleanup(server.kill)
    return server

  def start_client(self):
    client = subprocess.Popen([KV_CLI, '--address=' + self.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, bufsize=1)
    self.addCleanup(client.wait)
    self.addCleanup(client.kill)
    # Also a value that is too long for a message, and lies in memory that the server maps.
    for line in ('put key value', 'put long ' + 'x' * 20000, 'get key'):
      client.stdin.write(line + '\n')
    for line in client.stdout:
      if line == 'value\n':
        return client
    return self.fail('kv_cli ended')

  def expect_left_out(self, pid, *names):
    found = mappings(pid)
    for name in names:
      self.assertIn(name, [of for of, _, _ in found])
    for name, count, left_out in found:
      if name.startswith('farlook'):
        self.assertTrue(left_out, (name, count))

  def test_neither_server_nor_client_dumps_what_they_share(self):
    server = self.start_server()
    client = self.start_client()
    self.expect_left_out(server.pid, 'farlook-memory', 'farlook-rings', 'farlook-buffer')
    self.expect_left_out(client.pid, 'farlook-memory', 'farlook-rings', 'farlook-buffer')

  def test_a_developer_gets_the_table_but_not_what_clients_say(self):
    server = self.start_server('--dump_table')
    self.start_client()
    of = {}
    for name, count, left_out in mappings(server.pid):
      of.setdefault(name, []).append((count, left_out))
    self.assertIn((32 * MIB, False), of['farlook-memory'])
    self.assertIn((1 * MIB, False), of['farlook-memory'])
    for name in ('farlook-rings', 'farlook-buffer'):
      self.assertTrue(all(left_out for _, left_out in of[name]), of[name])


if __name__ == '__main__':
  unittest.main()
