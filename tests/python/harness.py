"""What the tests of the Python package share: the package as tools/install builds it, and a server."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'tools/lib')
import install  # pylint: disable=wrong-import-position

ROOT = pathlib.Path.cwd()
KV_SERVER = None


class Tensor:
  """What of a torch.Tensor on the CPU a backend uses."""

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
    """Stops the process; returns when it stands."""
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
  module's tests are over. Returns the package and the server's address."""
  global KV_SERVER
  KV_SERVER = pathlib.Path(argv[1]).absolute()
  scratch = tempfile.TemporaryDirectory(dir='/tmp')
  unittest.addModuleCleanup(scratch.cleanup)
  prefix = pathlib.Path(scratch.name) / 'prefix'
  install.lay_out(prefix, ROOT, pathlib.Path(argv[0]).absolute().parents[2])
  packages = install.python_packages(prefix)
  install.lay_out_python(prefix, ROOT, packages)
  sys.path.insert(0, str(prefix / packages))
  sys.dont_write_bytecode = True
  import farlook  # pylint: disable=import-outside-toplevel
  assert pathlib.Path(farlook.__file__).is_relative_to(prefix), farlook.__file__
  server = Server(scratch.name)
  unittest.addModuleCleanup(server.stop)
  return farlook, server.address
