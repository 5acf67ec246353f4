#!/usr/bin/env python3
"""Runs calls.c, as Bazel built it with any sanitizer, against a kv_server.

c_test.py CALLS KV_SERVER """

import subprocess
import sys
import tempfile
import unittest

CALLS = KV_SERVER = ''


class CallsTest(unittest.TestCase):

  def test_every_call(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
      address = 'shm://' + directory + '/socket'
      with subprocess.Popen([KV_SERVER, '--listen=' + address, '--memory=32m', '--huge_pages=none'],
                            stderr=subprocess.PIPE, text=True) as server:
        try:
          for line in server.stderr:
            if 'msg="ready"' in line:
              break
          done = subprocess.run([CALLS, address], capture_output=True, text=True, timeout=120, check=False)
          self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
          self.assertIn('all calls', done.stdout)
        finally:
          server.terminate()
          server.stderr.read()


if __name__ == '__main__':
  CALLS, KV_SERVER = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
