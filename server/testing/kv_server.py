"""Starts kv_server as a process, for the tests in Python.

A test that is started by Bazel names //server/testing:kv_server.py in its `data`, and imports this with

    sys.path.insert(0, 'server/testing')
    import kv_server
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

TIMEOUT_S = 300  # emulated and busy machines are slow
READY = 'msg="ready"'


class Server:
  """A kv_server whose log is collected, so that it never waits for a reader."""

  def __init__(self, program, *flags, address=None, memory='64m', ready=True, **popen):
    """Starts `program` with `flags`; with `ready`, returns when its address accepts connections. `popen`: options of
    subprocess.Popen()."""
    self.address = address
    self.lines = []
    self._news = threading.Condition()
    self._ended = False
    listen = [] if address is None else ['--listen=' + address]
    huge_pages = [] if any(flag.startswith('--huge_pages') for flag in flags) else ['--huge_pages=none']
    # pylint: disable-next=consider-using-with
    self.process = subprocess.Popen([str(program), *listen, '--memory=' + memory, *huge_pages, *flags],
                                    stderr=subprocess.PIPE, text=True, **popen)
    self._reader = threading.Thread(target=self._read, daemon=True)
    self._reader.start()
    if ready:
      try:
        self.wait_for(READY)
      except AssertionError:
        self.kill()
        raise

  def _read(self):
    for line in self.process.stderr:
      with self._news:
        self.lines.append(line.rstrip('\n'))
        self._news.notify_all()
    with self._news:
      self._ended = True
      self._news.notify_all()

  @property
  def pid(self):
    return self.process.pid

  def text(self):
    """Returns the log so far."""
    with self._news:
      return '\n'.join(self.lines)

  def wait_for(self, text, count=1):
    """Waits for the `count`-th line with the text, and returns it. Fails if the process ends without it."""
    def found():
      return [line for line in self.lines if text in line]
    with self._news:
      self._news.wait_for(lambda: self._ended or len(found()) >= count, TIMEOUT_S)
      if len(found()) < count:
        raise AssertionError('%s without %d lines with %r: %s' % ('ended' if self._ended else 'runs', count, text,
                                                                  '\n'.join(self.lines)))
      return found()[count - 1]

  def pause(self):
    """Stops the process with SIGSTOP; returns when it is stopped."""
    os.kill(self.pid, signal.SIGSTOP)
    os.waitpid(self.pid, os.WUNTRACED)

  def go_on(self):
    os.kill(self.pid, signal.SIGCONT)

  def end(self):
    """Waits for the end of the process, and returns its exit code."""
    code = self.process.wait(TIMEOUT_S)
    self._reader.join(TIMEOUT_S)
    for stream in (self.process.stdout, self.process.stderr):
      if stream is not None:
        stream.close()  # may be closed already
    return code

  def stop(self):
    """Ends the process with SIGTERM, and returns its exit code."""
    self.process.terminate()
    return self.end()

  def kill(self):
    """Ends the process with SIGKILL, unless it has ended. May be called again."""
    if self.process.poll() is None:
      self.process.kill()
    return self.end()

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self.kill()


class TestCase(unittest.TestCase):
  """A test with a folder of its own, an address in it, and servers that end with the test. Set `program` first."""

  program = ''

  def setUp(self):
    self.directory = tempfile.mkdtemp(prefix='farlook-', dir='/tmp')
    self.addCleanup(shutil.rmtree, self.directory)
    self.path = self.directory + '/kv'
    self.address = 'shm://' + self.path

  def start(self, *flags, env=None, **kwargs):
    """Starts a server; it is killed at the end of the test if it still runs."""
    server = Server(self.program, *flags, ready=False, stdout=subprocess.PIPE,
                    env=dict(os.environ, **(env or {})), **kwargs)
    self.addCleanup(server.kill)
    return server

  def run_to_end(self, *flags, **kwargs):
    """Returns the exit code and the log of a server that ends by itself."""
    server = self.start(*flags, **kwargs)
    return server.end(), server.text()

  def plain(self, *flags):
    """Runs the program with these flags alone, and returns what it printed."""
    return subprocess.run([self.program, *flags], capture_output=True, text=True,
                          timeout=60, check=False)
