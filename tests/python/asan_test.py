#!/usr/bin/env python3
"""The tests of the Python package under the address sanitizer, with a piece of malloc()'s memory for each object.

    asan_test.py LIBRARY KV_SERVER

The module is compiled for the sanitizer. The C library is not, but its calls of libc, as memcpy() of values, are checked.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import unittest

sys.path.insert(0, 'tests/python')
from harness import ROOT, install  # pylint: disable=wrong-import-position

LIBRARY = KV_SERVER = None
# Memory that CPython keeps until its end is no leak. Little of freed memory is kept, so that tests see their own leaks.
OPTIONS = 'detect_leaks=0:quarantine_size_mb=8'


class AsanTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    scratch = tempfile.TemporaryDirectory(dir='/tmp')
    cls.addClassCleanup(scratch.cleanup)
    prefix = pathlib.Path(scratch.name) / 'prefix'
    install.lay_out(prefix, ROOT, LIBRARY.parents[2])
    cls.interpreter = pathlib.Path(scratch.name) / 'interpreter'
    subprocess.run(['gcc', '-std=c11', '-g1', '-O1', '-fsanitize=address', '-fno-omit-frame-pointer',
                    f"-isystem{sysconfig.get_path('include')}", f'-I{prefix}/include',
                    *sorted(ROOT.glob('python/src/*.c')), 'tests/python/interpreter.c', '-o', cls.interpreter,
                    f'-L{prefix}/lib', '-lfarlook', f'-Wl,-rpath,{prefix}/lib',
                    f"-lpython{sysconfig.get_python_version()}"], check=True)

  def run_in_it(self, *arguments):
    # Not through a pipe, since servers that outlive a test that died hold it open.
    with tempfile.TemporaryFile('w+', dir='/tmp') as output:
      done = subprocess.run([self.interpreter, *arguments], check=False, stdout=output, stderr=output,
                            env=dict(os.environ, PYTHONHOME='/usr', PYTHONMALLOC='malloc', ASAN_OPTIONS=OPTIONS))
      output.seek(0)
      return done.returncode, output.read()

  def run_test(self, name):
    code, output = self.run_in_it(f'tests/python/{name}.py', self.interpreter, KV_SERVER)
    self.assertEqual(code, 0, output)
    self.assertRegex(output, r'\nOK\n$')

  def test_aio(self):
    self.run_test('aio_test')

  def test_lmcache(self):
    self.run_test('lmcache_test')

  def test_python(self):
    self.run_test('python_test')

  def test_sglang(self):
    self.run_test('sglang_test')

  def test_it_sees_what_was_freed(self):
    program = 'import ctypes; kept = bytes(1_000_000); at = id(kept); del kept; ctypes.string_at(at, 500_000)'
    code, output = self.run_in_it('-c', program)
    self.assertNotEqual(code, 0)
    self.assertIn('AddressSanitizer: heap-use-after-free', output)


if __name__ == '__main__':
  LIBRARY, KV_SERVER = (pathlib.Path(path).absolute() for path in sys.argv[1:3])
  del sys.argv[1:3]
  unittest.main()
