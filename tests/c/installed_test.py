#!/usr/bin/env python3
"""The libraries as tools/install lays them out, used by programs outside of the tree that know nothing of Bazel.

    installed_test.py DIRECTORY_OF_LIBRARIES KV_SERVER KV_CLI FARLOOK_EXPORTER

With --write-abi it prints a new farlook.abi, to be checked in when functions were added.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'tools/lib')
import install  # pylint: disable=wrong-import-position

ROOT = pathlib.Path.cwd()
LIBRARIES = KV_SERVER = KV_CLI = EXPORTER = None
BASELINE = ROOT / 'tests/c/farlook.abi'
DECLARATION = re.compile(r'^((?:const )?\w+\*?) (farlook_\w+)\(([^;{]*)\);', re.MULTILINE)


def run(*command, **kwargs):
  return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False,
                        **kwargs)


def declarations(prefix):
  """(type, name, parameters) of every function in the C headers."""
  text = ''.join(path.read_text(encoding='utf-8') for path in headers(prefix))
  return DECLARATION.findall(re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL))


def headers(prefix):
  return [prefix / 'include/farlook.h', *sorted((prefix / 'include/farlook').glob('c_*.h'))]


def abi(prefix, directory):
  """Runs abidw on a library with the functions of the headers. The real one would bring the types of C++."""
  source = directory / 'stub.c'
  source.write_text('#include <farlook.h>\n' + ''.join(
      f'{kind} {name}({parameters}) {{ __builtin_trap(); }}\n' for kind, name, parameters in declarations(prefix)),
      encoding='utf-8')
  built = run('gcc', '-g', '-w', '-shared', '-fPIC', '-I', prefix / 'include', '-Wl,-soname,libfarlook.so.1',
              '-nostdlib', source, '-o', directory / 'stub.so')
  assert built.returncode == 0, built.stderr
  done = run('abidw', '--no-comp-dir-path', '--no-corpus-path', '--no-show-locs', '--no-architecture',
             directory / 'stub.so')
  assert done.returncode == 0, done.stderr
  return done.stdout


class InstalledTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls.scratch = tempfile.TemporaryDirectory(dir='/tmp')
    cls.addClassCleanup(cls.scratch.cleanup)
    cls.directory = pathlib.Path(cls.scratch.name)
    cls.prefix = cls.directory / 'prefix'
    install.lay_out(cls.prefix, ROOT, LIBRARIES)
    cls.address = f'shm://{cls.directory}/socket'
    cls.env = dict(os.environ, PKG_CONFIG_PATH=f'{cls.prefix}/lib/pkgconfig', LD_LIBRARY_PATH=f'{cls.prefix}/lib')
    # pylint: disable-next=consider-using-with
    cls.server = subprocess.Popen([KV_SERVER, '--listen=' + cls.address, '--memory=32m', '--huge_pages=none'],
                                  stderr=subprocess.PIPE, text=True)
    cls.addClassCleanup(cls.stop)
    for line in cls.server.stderr:
      if 'msg="ready"' in line:
        break

  @classmethod
  def stop(cls):
    cls.server.terminate()
    cls.server.stderr.read()
    cls.server.wait()
    cls.server.stderr.close()

  def ok(self, *command, **kwargs):
    done = run(*command, **{'env': self.env, **kwargs})
    self.assertEqual(done.returncode, 0, f'{command}: {done.stdout}{done.stderr}')
    return done.stdout

  def consumer(self, name):
    """A directory with the two programs' sources and their build files, outside of the tree."""
    directory = self.directory / name
    directory.mkdir()
    for source in ('tests/c/calls.c', 'client/hello.cc', 'tests/c/consumer/Makefile', 'tests/c/consumer/CMakeLists.txt'):
      install.put(ROOT / source, directory / pathlib.Path(source).name, 0o644)
    return directory

  def programs_work(self, directory):
    self.assertIn('all calls', self.ok(directory / 'calls', self.address))
    self.assertIn('hello, world', self.ok(directory / 'hello', self.address))
    # Expect: only the one in C needs the library, by its soname.
    self.assertIn('[libfarlook.so.1]', self.ok('readelf', '-d', directory / 'calls'))
    self.assertNotIn('libfarlook', self.ok('readelf', '-d', directory / 'hello'))

  def test_make(self):
    directory = self.consumer('make')
    self.ok('make', '-C', directory)
    self.programs_work(directory)

  def test_cmake(self):
    directory = self.consumer('cmake')
    self.ok('cmake', '-S', directory, '-B', directory / 'build', f'-DCMAKE_PREFIX_PATH={self.prefix}')
    self.ok('cmake', '--build', directory / 'build')
    self.programs_work(directory / 'build')
    # Expect: an incompatible version is not accepted.
    lists = directory / 'CMakeLists.txt'
    lists.write_text(lists.read_text(encoding='utf-8').replace('Farlook 0.1', 'Farlook 0.2'), encoding='utf-8')
    done = run('cmake', '-S', directory, '-B', directory / 'later', f'-DCMAKE_PREFIX_PATH={self.prefix}')
    self.assertNotEqual(done.returncode, 0)
    self.assertIn('compatible', done.stderr)

  def test_valgrind_finds_nothing(self):
    directory = self.consumer('valgrind')
    self.ok('make', '-C', directory, 'calls')
    self.ok('valgrind', '--quiet', '--error-exitcode=9', '--child-silent-after-fork=yes', '--leak-check=full',
            '--show-leak-kinds=definite', '--errors-for-leak-kinds=definite', directory / 'calls', self.address)

  def test_each_header_is_whole_in_c_and_in_cxx(self):
    for header in headers(self.prefix):
      source = self.directory / 'header.c'
      name = header.relative_to(self.prefix / 'include')
      source.write_text(f'#include <{name}>\n#include <{name}>\nint x;\n', encoding='utf-8')
      for language in ('c', 'c++'):
        standard = {'c': 'c99', 'c++': 'c++11'}[language]
        self.ok('gcc', '-x', language, '-std=' + standard, '-Wall', '-Wextra', '-Werror', '-pedantic', '-fsyntax-only',
                '-I', self.prefix / 'include', source)
      self.assertLessEqual(len(header.read_text(encoding='utf-8').splitlines()), 200, name)

  def test_what_is_exported_is_what_the_headers_declare(self):
    symbols = self.ok('nm', '-D', '--defined-only', '--extern-only', self.prefix / 'lib/libfarlook.so.1').split('\n')
    exported = {line.split()[-1].partition('@')[0] for line in symbols if line}
    declared = {name for _, name, _ in declarations(self.prefix)}
    self.assertGreater(len(declared), 60)
    self.assertEqual(exported - {'FARLOOK_0'}, declared)

  def test_nothing_that_was_promised_has_changed(self):
    baseline = self.directory / 'baseline.abi'
    baseline.write_bytes(BASELINE.read_bytes())
    now = self.directory / 'now.abi'
    now.write_text(abi(self.prefix, self.directory), encoding='utf-8')
    done = run('abidiff', baseline, now)
    self.assertEqual(done.returncode, 0, f'{done.stdout}: if functions were only added: --write-abi')
    # Expect: the test would notice it.
    other = self.directory / 'other'
    install.lay_out(other, ROOT, LIBRARIES)
    header = other / 'include/farlook.h'
    text = header.read_text(encoding='utf-8')
    self.assertIn('size_t buffer_bytes', text)
    header.write_text(text.replace('size_t buffer_bytes', 'int buffer_bytes'), encoding='utf-8')
    now.write_text(abi(other, self.directory), encoding='utf-8')
    done = run('abidiff', baseline, now)
    self.assertNotEqual(done.returncode, 0)
    self.assertIn('farlook_get', done.stdout)

  def test_everything_says_the_same_version(self):
    version = self.ok('pkg-config', '--modversion', 'farlook').strip()
    self.assertRegex(version, r'^\d+\.\d+\.\d+$')
    self.assertEqual(self.ok('pkg-config', '--modversion', 'farlook++').strip(), version)
    for program in (KV_SERVER, KV_CLI, EXPORTER):
      self.assertEqual(self.ok(program, '--version').split()[-1], version)
    numbers = re.findall(r'#define FARLOOK_VERSION_\w+ (\d+)',
                         (self.prefix / 'include/farlook/version.h').read_text(encoding='utf-8'))
    self.assertEqual('.'.join(numbers), version)
    changes = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
    self.assertEqual(re.search(r'^## (\S+)', changes, re.MULTILINE).group(1), version)


if __name__ == '__main__':
  LIBRARIES = pathlib.Path(sys.argv[1]).absolute().parents[2]
  if '--write-abi' in sys.argv:
    with tempfile.TemporaryDirectory() as scratch:
      install.lay_out(pathlib.Path(scratch) / 'prefix', ROOT, LIBRARIES)
      print(abi(pathlib.Path(scratch) / 'prefix', pathlib.Path(scratch)), end='')
    sys.exit(0)
  KV_SERVER, KV_CLI, EXPORTER = (ROOT / path for path in sys.argv[2:5])
  del sys.argv[1:5]
  unittest.main()
