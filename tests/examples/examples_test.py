#!/usr/bin/env python3
"""Builds the examples with the files that tools/install installs, and runs them against a kv_server.

examples_test.py LIBRARY KV_SERVER
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'tests/python')
from harness import ROOT, set_up  # pylint: disable=wrong-import-position

EXAMPLES = ROOT / 'client/examples'
ARGUMENTS = []
ADDRESS = PREFIX = None


def setUpModule():
  global ADDRESS, PREFIX
  farlook, ADDRESS = set_up(ARGUMENTS)
  PREFIX = pathlib.Path(farlook.__file__).parents[4]


class ExamplesTest(unittest.TestCase):

  def setUp(self):
    scratch = tempfile.TemporaryDirectory(dir='/tmp')
    self.addCleanup(scratch.cleanup)
    self.directory = pathlib.Path(scratch.name)
    self.env = dict(os.environ, PKG_CONFIG_PATH=f'{PREFIX}/lib/pkgconfig', LD_LIBRARY_PATH=f'{PREFIX}/lib',
                    PYTHONPATH=f'{PREFIX}/lib/python3.{sys.version_info[1]}/dist-packages', HOME=scratch.name,
                    PYTHONDONTWRITEBYTECODE='1')

  def ok(self, *command, **kwargs):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False,
                          env=self.env, **kwargs)
    self.assertEqual(done.returncode, 0, f'{command}: {done.stdout}{done.stderr}')
    return done.stdout

  def expect_usage(self, *command, **kwargs):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False,
                          env=self.env, **kwargs)
    self.assertNotEqual(done.returncode, 0)
    self.assertIn('usage: ', done.stderr)
    self.assertIn('ADDRESS', done.stderr)

  def built(self, name):
    program = self.directory / name
    flags = self.ok('pkg-config', '--cflags', '--libs', 'farlook').split()
    self.ok('gcc', '-std=gnu11', '-Wall', '-Wextra', '-Werror', '-O1', EXAMPLES / f'{name}.c', '-o', program, '-pthread',
            *flags)
    return program

  def test_session_store(self):
    program = self.built('session_store')
    self.assertIn('800 sessions were found', self.ok(program, ADDRESS))
    self.expect_usage(program)

  def test_rate_limiter(self):
    program = self.built('rate_limiter')
    self.assertEqual(self.ok(program, ADDRESS, 'ann', 12, 10), '10 allowed\n')
    self.assertEqual(self.ok(program, ADDRESS, 'bob', 3, 10), '3 allowed\n')
    self.expect_usage(program, ADDRESS)

  def test_feature_store(self):
    self.assertEqual(self.ok('/usr/bin/python3', EXAMPLES / 'feature_store.py', ADDRESS), '3 of 4 users are known\n')
    self.expect_usage('/usr/bin/python3', EXAMPLES / 'feature_store.py')

  def test_go(self):
    self.assertIn('hello, world', self.ok('/usr/bin/go', 'run', '.', ADDRESS, cwd=EXAMPLES / 'go'))
    self.expect_usage('/usr/bin/go', 'run', '.', cwd=EXAMPLES / 'go')

  def test_rust(self):
    shutil.copy(EXAMPLES / 'rust/main.rs', self.directory)
    include = self.ok('pkg-config', '--variable=includedir', 'farlook').strip()  # docs/c.md says so
    self.ok('/usr/bin/bindgen', '--size_t-is-usize', f'{include}/farlook.h', '-o', self.directory / 'farlook.rs',
            '--', f'-I{PREFIX}/include')
    self.ok('/usr/bin/rustc', self.directory / 'main.rs', *self.ok('pkg-config', '--libs', 'farlook').split(), '-o',
            self.directory / 'hello')
    self.assertIn('hello, world', self.ok(self.directory / 'hello', ADDRESS))
    self.expect_usage(self.directory / 'hello')


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
