#!/usr/bin/env python3
"""Tests kv_server with --memory_file from outside: what it continues with, and what it refuses and leaves as it was.

Usage, as Bazel runs it:
    memory_file_server_test.py PATH_OF_KV_SERVER [unittest arguments]
"""

import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, 'server/testing')
import kv_server  # pylint: disable=wrong-import-position

STOPPED, BAD_FLAG, BAD_MEMORY_FILE = 0, 1, 6


def flip(path, offset):
  """Changes one bit of a file."""
  with open(path, 'r+b') as file:
    file.seek(offset)
    byte = file.read(1)[0]
    file.seek(offset)
    file.write(bytes([byte ^ 4]))


class MemoryFileServerTest(kv_server.TestCase):

  def make_memory(self):
    """Returns the path of a --memory_file in a folder of its own, which is removed at the end."""
    directory = tempfile.mkdtemp(prefix='farlook-', dir='/dev/shm')
    self.addCleanup(shutil.rmtree, directory)
    return directory + '/table'

  def serve_from(self, memory_file, *flags, **kwargs):
    """Starts a server, ends it with SIGKILL when it is ready, and returns its log."""
    server = self.start('--listen=' + self.address, '--memory_file=' + memory_file, *flags, **kwargs)
    server.wait_for('msg="ready"')
    server.kill()
    return server.text()

  def test_a_server_continues_with_its_memory_file(self):
    path = self.make_memory()
    first = self.serve_from(path)
    incarnation = re.search(r'incarnation=(\w+)', first).group(1)
    self.assertNotIn('msg="the table continues"', first)
    self.assertEqual(sorted(os.listdir(os.path.dirname(path))), ['table', 'table.counters', 'table.lock'])
    for name in ('table', 'table.counters'):
      status = os.stat(os.path.dirname(path) + '/' + name)
      self.assertEqual(status.st_mode & 0o777, 0o600)
      self.assertGreaterEqual(status.st_blocks * 512, status.st_size)
    second = self.serve_from(path)
    continues = re.search(r'msg="the table continues" file=%s ms=(\d+) keys=0 ' % path, second)
    self.assertGreaterEqual(int(continues.group(1)), 50)  # readers of the former server are waited for
    self.assertIn(incarnation, second)
    # Expect: the same after a stop in order, with other workers.
    server = self.start('--listen=' + self.address, '--memory_file=' + path, '--workers=3')
    server.wait_for('msg="ready"')
    self.assertEqual(server.stop(), STOPPED)
    self.assertIn('msg="clients are gone, the table stays"', server.text())
    self.assertIn(incarnation, self.serve_from(path))
    empty = self.serve_from(path, '--begin_empty')
    self.assertIn('level=warning msg="discarded, as --begin_empty asks" file=%s\n' % path, empty)
    self.assertNotIn(incarnation, empty)
    self.assertIn(re.search(r'incarnation=(\w+)', empty).group(1), self.serve_from(path))

  def assert_refused(self, path, reason, *flags, code=BAD_MEMORY_FILE, **kwargs):
    """Checks that a server with these flags is refused, and changes nothing."""
    def contents():
      found = {}
      for name in sorted(os.listdir(os.path.dirname(path))):
        file = os.path.join(os.path.dirname(path), name)
        if not name.endswith('.lock') and os.path.isfile(file):
          with open(file, 'rb') as stream:
            found[name] = stream.read()
      return found
    before = contents()
    ended, text = self.run_to_end('--listen=' + self.address, '--memory_file=' + path, *flags, **kwargs)
    self.assertEqual(ended, code, text)
    self.assertIn(reason, text)
    self.assertEqual(contents(), before)

  def test_a_memory_file_that_does_not_fit_is_refused(self):
    path = self.make_memory()
    self.serve_from(path, memory='16m')
    self.assert_refused(path, 'has 16777216 bytes', memory='32m')
    self.assert_refused(path, 'the same --max_value_bytes', '--max_value_bytes=1m', memory='16m')
    self.assert_refused(path, 'hash_seed', '--hash_seed=5', memory='16m')
    self.assert_refused(path, 'bytes', '--counter_memory=64k', memory='16m')
    self.assert_refused(path, '--counter_memory is 0', '--counter_memory=0', memory='16m')
    self.assert_refused(path, '--huge_pages=2m', '--huge_pages=2m', memory='16m')
    # A single bit of the header.
    for offset, reason in ((0, 'no Farlook region'), (8, 'layout version'), (17, 'checksum'), (26, 'checksum'),
                           (35, 'checksum'), (40, 'checksum'), (88, 'checksum'), (96, 'leads to no segment'), (104, 'group')):
      flip(path, offset)
      self.assert_refused(path, reason, memory='16m')
      flip(path, offset)
    # Counters of another table, and none.
    other = self.make_memory()
    self.serve_from(other, memory='16m')
    os.rename(path + '.counters', path + '.mine')
    self.assert_refused(path, 'is missing', memory='16m')
    shutil.copyfile(other + '.counters', path + '.counters')
    os.chmod(path + '.counters', 0o600)
    self.assert_refused(path, 'has not the counters', memory='16m')
    os.rename(path + '.mine', path + '.counters')
    self.assertIn('msg="the table continues"', self.serve_from(path, memory='16m'))

  def test_checks_whether_there_is_a_memory_file(self):
    path = self.make_memory()
    flags = ('--check', '--listen=' + self.address, '--memory_file=' + path)
    self.assertRegex(self.plain(*flags, '--memory=64m').stdout, 'advice +there is no %s yet' % path)
    self.assertRegex(self.plain(*flags, '--memory=2t').stdout, 'trouble +.*of /dev/shm/.* free')
    self.serve_from(path)
    found = self.plain(*flags, '--memory=64m')
    self.assertEqual(found.returncode, STOPPED, found.stdout)
    self.assertIn('%s is there: the server continues' % path, found.stdout)
    self.assertIn('use a folder on tmpfs', self.plain('--check', '--listen=' + self.address, '--memory_file=/proc/t').stdout)

  def test_a_memory_file_has_one_server(self):
    path = self.make_memory()
    server = self.start('--listen=' + self.address, '--memory_file=' + path)
    server.wait_for('msg="ready"')
    second = ('--listen=%s-2' % self.address, '--memory_file=' + path)
    for flags in (second, second + ('--begin_empty',)):
      code, text = self.run_to_end(*flags)
      self.assertEqual(code, BAD_MEMORY_FILE, text)
      self.assertIn('another server that lives', text)
    # Without the lock's file too.
    os.remove(path + '.lock')
    for flags in (second, second + ('--begin_empty',)):
      code, text = self.run_to_end(*flags)
      self.assertEqual(code, BAD_MEMORY_FILE, text)
      self.assertIn('open in a process that lives', text)
    self.assertIsNone(server.process.poll())

  def test_two_servers_that_make_a_memory_file_at_once(self):
    path = self.make_memory()
    servers = [self.start('--listen=%s-%d' % (self.address, i), '--memory_file=' + path) for i in range(4)]
    codes = []
    for server in servers:
      try:
        server.wait_for('msg="ready"')
      except AssertionError:
        codes.append(server.end())
    self.assertEqual(codes, [BAD_MEMORY_FILE] * 3)

  def test_a_memory_file_needs_memory_and_no_group(self):
    path = self.make_memory()
    code, text = self.run_to_end('--listen=' + self.address, '--memory_file=/proc/table')
    self.assertEqual(code, BAD_FLAG, text)
    self.assertIn('use a folder on tmpfs', text)
    self.assert_refused(path, '--memory_file and --group exclude each other', '--group=file:///tmp/g', code=BAD_FLAG)
    code, text = self.run_to_end('--listen=' + self.address, '--begin_empty')
    self.assertEqual(code, BAD_FLAG, text)
    self.assertIn('--begin_empty requires --memory_file', text)
    os.symlink('/dev/shm/other', path)
    self.assert_refused(path, 'symbolic link')
    self.assert_refused(path, 'no file of this process', '--begin_empty')


if __name__ == '__main__':
  kv_server.TestCase.program = os.path.abspath(sys.argv.pop(1))
  unittest.main()
