"""Shared code of the tests of the Python package: the package as tools/install builds it, and a server."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'tools/lib')
import install  # pylint: disable=wrong-import-position

ROOT = pathlib.Path.cwd()
KV_SERVER = None


def free_port():
  with socket.socket() as probe:
    probe.bind(('127.0.0.1', 0))
    return probe.getsockname()[1]


class Tensor:
  """The part of a torch.Tensor on the CPU that a backend uses."""

  def __init__(self, array):
    self.array = array

  def data_ptr(self):
    return self.array.ctypes.data

  def numel(self):
    return self.array.size

  def element_size(self):
    return self.array.itemsize


class Server:

  def __init__(self, directory, *flags, memory='64m', address=None):
    self.address = address or f'shm://{directory}/socket'
    # pylint: disable-next=consider-using-with
    self.process = subprocess.Popen([KV_SERVER, '--listen=' + self.address, '--memory=' + memory, '--huge_pages=none',
                                     *flags], stderr=subprocess.PIPE, text=True)
    for line in self.process.stderr:
      if 'msg="ready"' in line:
        break

  def pause(self):
    """Stops the process; returns when it is stopped."""
    os.kill(self.process.pid, signal.SIGSTOP)
    os.waitpid(self.process.pid, os.WUNTRACED)

  def go_on(self):
    os.kill(self.process.pid, signal.SIGCONT)

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self.process.kill()
    self.stop()

  def stop(self):
    self.process.terminate()
    self.process.stderr.read()
    self.process.wait()
    self.process.stderr.close()


def set_up(argv):
  """For setUpModule(), with [LIBRARY, KV_SERVER]: installs the package and imports it, and starts a server, until the
  module's tests have finished. Instead of the library it may be this interpreter, if it has the module inside
  (asan_test.py). Returns the package and the server's address."""
  global KV_SERVER
  KV_SERVER = pathlib.Path(argv[1]).absolute()
  scratch = tempfile.TemporaryDirectory(dir='/tmp')
  unittest.addModuleCleanup(scratch.cleanup)
  sys.dont_write_bytecode = True
  if pathlib.Path(argv[0]).name == 'interpreter':
    packages = find_inside()
  else:
    prefix = pathlib.Path(scratch.name) / 'prefix'
    install.lay_out(prefix, ROOT, pathlib.Path(argv[0]).absolute().parents[2])
    packages = prefix / install.python_packages(prefix)
    install.lay_out_python(prefix, ROOT, packages.relative_to(prefix))
  sys.path.insert(0, str(packages))
  import farlook  # pylint: disable=import-outside-toplevel
  assert pathlib.Path(farlook.__file__).is_relative_to(packages), farlook.__file__
  server = Server(scratch.name)
  unittest.addModuleCleanup(server.stop)
  return farlook, server.address


def find_inside():
  """Registers the module that is inside this interpreter, and returns where the package is."""
  spec = importlib.machinery.BuiltinImporter.find_spec('farlook._farlook')
  sys.modules[spec.name] = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(sys.modules[spec.name])
  return ROOT / 'python'
