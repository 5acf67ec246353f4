#!/usr/bin/env python3
"""The Python package as tools/install builds it.

    installed_test.py LIBRARY KV_SERVER
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'tests/python')
from harness import Server, install, set_up  # pylint: disable=wrong-import-position

ARGUMENTS = []
farlook = None  # imported from where it was installed


def setUpModule():
  global farlook
  farlook, _ = set_up(ARGUMENTS)


class InstalledTest(unittest.TestCase):

  def test_the_types_are_what_there_is(self):
    # mypy's own comparison of the package with its stubs, in a separate process, which imports it too.
    package = pathlib.Path(farlook.__file__).parent

    def stubtest():
      with tempfile.TemporaryDirectory(dir='/tmp') as cache:
        allowed = pathlib.Path(cache) / 'allowed'
        allowed.write_text('farlook._farlook.Client.*\n', encoding='utf-8')  # what only the package itself uses
        return subprocess.run(
            ['/usr/bin/stubtest', 'farlook', '--allowlist', allowed, '--concise'], capture_output=True, text=True,
            check=False, cwd=cache, env=dict(os.environ, PYTHONPATH=str(package.parent), MYPYPATH=str(package.parent),
                                             MYPY_CACHE_DIR=cache))

    done = stubtest()
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    # Expect: the test would notice a method that is missing in the stubs, and one that does not exist.
    stubs = package / '__init__.pyi'
    text = stubs.read_text(encoding='utf-8')
    self.addCleanup(stubs.write_text, text, encoding='utf-8')
    for broken in (text.replace('def get_rows(', 'def get_lines('), text.replace('    def ping(', '    def _ping(')):
      stubs.write_text(broken, encoding='utf-8')
      self.assertNotEqual(stubtest().returncode, 0)

  def test_a_thread_that_waits_does_not_keep_the_program_from_ending(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      program = f"""
import farlook, os, signal, sys, threading, time
client = farlook.connect({server.address!r}, timeout_ms=600_000)
os.kill({server.process.pid}, signal.SIGSTOP)
for i in range(4):
  threading.Thread(target=lambda i=i: client.put(f'key{{i}}', b'value'), daemon=True).start()
time.sleep(0.1)
print('ends', flush=True)
"""
      done = subprocess.run(['/usr/bin/python3', '-c', program], capture_output=True, text=True, check=False, timeout=300,
                            env=dict(os.environ, PYTHONPATH=str(pathlib.Path(farlook.__file__).parents[1])))
      server.go_on()
      self.assertEqual((done.stdout, done.stderr, done.returncode), ('ends\n', '', 0))

  def test_python_looks_where_the_package_is_installed(self):
    # Those that do not exist, too.
    directories = subprocess.run(['/usr/bin/python3', '-c', 'import site; print(*site.getsitepackages(), sep="\\n")'],
                                 capture_output=True, text=True, check=True).stdout.splitlines()
    for prefix in ('/usr', '/usr/local'):
      self.assertIn(str(prefix / install.python_packages(prefix)), directories)

  def test_the_module_serves_later_pythons(self):
    module = pathlib.Path(farlook._farlook.__file__)  # pylint: disable=protected-access
    self.assertEqual(module.name, '_farlook.abi3.so')
    wanted = subprocess.run(['nm', '-D', '--undefined-only', module], capture_output=True, text=True, check=True).stdout
    # These names with an underscore are in the limited API.
    self.assertNotRegex(wanted, r' _Py(?!_NoneStruct\b|_TrueStruct\b|_FalseStruct\b|_Dealloc\b|\w+_SizeT\b)')


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
