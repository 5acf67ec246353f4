#!/usr/bin/env python3
"""The Python package as tools/install builds it, against a kv_server.

    python_test.py DIRECTORY_OF_LIBRARIES KV_SERVER
"""

import array
import ctypes
import faulthandler
import gc
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, 'tests/python')
from harness import ROOT, Server, install, set_up  # pylint: disable=wrong-import-position

ARGUMENTS = []
farlook = None  # imported from where it was installed


def setUpModule():
  global farlook
  farlook, FarlookTest.address = set_up(ARGUMENTS)


class FarlookTest(unittest.TestCase):
  address = None

  def setUp(self):
    self.client = farlook.connect(self.address, timeout_ms=30_000)
    self.addCleanup(self.client.close)
    self.key = self.id()


class ValuesTest(FarlookTest):

  def test_values_of_all_sorts(self):
    c = self.client
    self.assertIsNone(c.get(self.key))
    self.assertIsNone(c.get_with_version(self.key))
    self.assertFalse(c.exists(self.key))
    for value in (b'bytes', bytearray(b'array'), memoryview(b'view'), array.array('i', range(5)), b'', b'\0' * 300_000):
      version = c.put(self.key, value)
      self.assertEqual(c.get(self.key), bytes(value))
      self.assertEqual(c.get_with_version(self.key), (bytes(value), version))
    c.put(self.key.encode(), 'text, Füße')
    self.assertEqual(c.get(memoryview(self.key.encode())).decode(), 'text, Füße')
    self.assertTrue(c.exists(key=self.key))
    self.assertTrue(c.delete(self.key))
    self.assertFalse(c.delete(self.key))

  def test_reads_into_buffers(self):
    c = self.client
    c.put(self.key, b'12345678')
    buffer = bytearray(12)
    self.assertEqual(c.get_into(self.key, buffer), 8)
    self.assertEqual(buffer, b'12345678\0\0\0\0')
    self.assertEqual(c.get_into(self.key, memoryview(buffer)[4:12]), 8)
    self.assertEqual(buffer, b'123412345678')
    numbers = array.array('q', [0])
    self.assertEqual(c.get_into(self.key, numbers), 8)
    self.assertEqual(numbers.tobytes(), b'12345678')
    self.assertIsNone(c.get_into('nothing', buffer))
    with self.assertRaisesRegex(farlook.OutOfRange, '8 bytes, the buffer 7'):
      c.get_into(self.key, bytearray(7))
    for wrong in (b'12345678', 'text', 5, memoryview(bytearray(16))[::2]):
      with self.assertRaises((TypeError, BufferError)):
        c.get_into(self.key, wrong)
    # A buffer is let go again, whatever happened.
    buffer.extend(b'x')

  def test_conditions_and_expiry(self):
    c = self.client
    first = c.put(self.key, b'1', if_absent=True)
    with self.assertRaises(farlook.AlreadyExists):
      c.put(self.key, b'2', if_absent=True)
    second = c.put(self.key, b'2', if_version=first)
    with self.assertRaises(farlook.Aborted):
      c.put(self.key, b'3', if_version=first)
    with self.assertRaises(farlook.Aborted):
      c.delete(self.key, if_version=first)
    self.assertEqual(c.get_with_version(self.key), (b'2', second))
    self.assertIsNone(c.ttl(self.key))
    c.put(self.key, b'4', ttl_ms=60_000, if_absent=None)
    self.assertTrue(0 < c.ttl(self.key) <= 61_000)
    self.assertTrue(c.touch(self.key, 600_000))
    self.assertGreater(c.ttl(self.key), 61_000)
    self.assertEqual(c.get_and_touch(self.key, 1_000), b'4')
    self.assertLessEqual(c.ttl(self.key), 2_000)
    self.assertTrue(c.persist(self.key))
    self.assertIsNone(c.ttl(self.key))
    with self.assertRaises(farlook.NotFound):
      c.ttl('nothing')
    for options in ({'if_present': True}, {'if_version': first}):
      with self.assertRaises(farlook.NotFound):
        c.put('nothing', b'', **options)
    self.assertFalse(c.touch('nothing', 5))

  def test_of_conditions_one_may_be_given(self):
    c = self.client
    first = c.put(self.key, b'1')
    second = c.put(self.key, b'2')
    for no in (False, 0, None):
      for options in ({'if_version': first, 'if_absent': no, 'if_present': no},
                      {'if_present': no, 'if_absent': no, 'if_version': first}):
        with self.assertRaises(farlook.Aborted):
          c.put(self.key, b'3', **options)
        with self.assertRaises(farlook.Aborted):
          c.delete(self.key, **options)
    with self.assertRaises(farlook.AlreadyExists):
      c.put(self.key, b'3', if_absent=True, if_present=False)
    for options in ({'if_absent': True, 'if_version': second}, {'if_version': second, 'if_absent': True},
                    {'if_absent': True, 'if_present': True}):
      with self.assertRaisesRegex(farlook.InvalidArgument, 'one may be given'):
        c.put(self.key, b'3', **options)
    self.assertEqual(c.get_with_version(self.key), (b'2', second))
    c.put(self.key, b'3', if_absent=False)

  def test_batches(self):
    c = self.client
    keys = [f'{self.key}{i}' for i in range(500)]
    versions = c.put_many(keys, [key.encode() for key in keys], ttl_ms=600_000)
    self.assertEqual(len(set(versions)), 500)
    c.delete(keys[3])
    found = c.get_many(keys)
    self.assertEqual(found, [None if key == keys[3] else key.encode() for key in keys])
    self.assertEqual(c.get_many(iter(keys[:2])), found[:2])
    self.assertEqual(c.get_many([]), [])
    buffers = [bytearray(100) for _ in keys]
    lengths = c.get_many_into(keys, buffers)
    self.assertEqual([b if n is None else bytes(b[:n]) for b, n in zip(buffers, lengths)],
                     [bytearray(100) if value is None else value for value in found])
    self.assertEqual(c.exists_many(keys[2:5]), [True, False, True])
    self.assertEqual(c.touch_many(keys, 60_000), [key != keys[3] for key in keys])
    self.assertTrue(all(0 < c.ttl(key) <= 61_000 for key in (keys[0], keys[499])))
    self.assertEqual(c.delete_many(keys), [key != keys[3] for key in keys])
    for wrong in (lambda: c.put_many(keys, [b'']), lambda: c.get_many_into(keys, []), lambda: c.get_many(['']),
                  lambda: c.touch_many(keys, 0), lambda: c.touch_many([''], 5)):
      with self.assertRaises(farlook.InvalidArgument):
        wrong()
    for wrong in (lambda: c.get_many('key'), lambda: c.get_many(b'key'), lambda: c.get_many([1]), lambda: c.get_many(5),
                  lambda: c.touch_many(keys), lambda: c.touch_many(keys, 'long'), lambda: c.touch_many('key', 5)):
      with self.assertRaises(TypeError):
        wrong()

  def test_rows_of_an_array(self):
    c = self.client
    keys = [f'{self.key}{i}' for i in range(3)]
    c.put_many(keys, [bytes([i]) * 8 for i in range(3)])
    rows = memoryview(bytearray(32)).cast('B', (4, 8))
    self.assertEqual(c.get_rows([*keys, 'nothing'], rows), [True, True, True, None])
    self.assertEqual(rows.tobytes(), b''.join(bytes([i]) * 8 for i in (0, 1, 2, 0)))
    with self.assertRaises(farlook.OutOfRange):
      c.get_rows(keys, memoryview(bytearray(27)).cast('B', (3, 9)))  # longer rows than values
    with self.assertRaises(farlook.OutOfRange):
      c.get_rows(keys, memoryview(bytearray(21)).cast('B', (3, 7)))
    with self.assertRaises(farlook.InvalidArgument):
      c.get_rows(keys, rows)
    with self.assertRaises(farlook.InvalidArgument):
      c.get_rows(keys, bytearray(24))

  def test_numpy(self):
    import numpy  # pylint: disable=import-outside-toplevel
    c = self.client
    values = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    keys = [f'{self.key}{i}' for i in range(3)]
    c.put_many(keys, values)
    read = numpy.zeros_like(values)
    self.assertEqual(c.get_rows(keys, read), [True] * 3)
    self.assertTrue((read == values).all())
    self.assertEqual(c.get_into(keys[2], read[0]), 16)
    self.assertTrue((read[0] == values[2]).all())
    with self.assertRaises((ValueError, BufferError)):
      c.get_into(keys[2], read[:, 0])  # not contiguous

  def test_counters(self):
    c = self.client
    self.assertEqual(c.create_counter(self.key, 5), 5)
    with self.assertRaises(farlook.AlreadyExists):
      c.create_counter(self.key)
    self.assertEqual(c.fetch_add(self.key, -7), 5)
    self.assertEqual(c.fetch_add(self.key, 1, exactly_once=True), -2)
    self.assertEqual(c.compare_swap(self.key, -1, 2**60), -1)
    self.assertEqual(c.read_counter(self.key), 2**60)
    with self.assertRaises(farlook.OutOfRange):
      c.compare_swap(self.key, 2**60, 2**61 - 1), c.fetch_add(self.key, 2)
    with self.assertRaises(OverflowError):
      c.fetch_add(self.key, 2**64)
    with self.assertRaises(farlook.FailedPrecondition):
      c.get(self.key)
    self.assertEqual(c.delete_counter(self.key), 2**61 - 1)
    with self.assertRaises(farlook.NotFound):
      c.read_counter(self.key)

  def test_batches_of_counters(self):
    import numpy  # pylint: disable=import-outside-toplevel
    c = self.client
    keys = [f'{self.key}{i}' for i in range(300)]
    self.assertEqual(c.create_counter_many(keys, range(300), ttl_ms=600_000), list(range(300)))
    self.assertLessEqual(c.ttl(keys[299]), 601_000)
    # Expect: those that are absent are None; others are what they were before.
    self.assertEqual(c.fetch_add_many([*keys, 'nothing'], [-i for i in range(301)]), [*range(300), None])
    self.assertEqual(c.read_counter_many(['nothing', *keys]), [None] + [0] * 300)
    self.assertEqual(c.fetch_add_many(keys[:3], numpy.array([2, 3, 4]), exactly_once=True), [0, 0, 0])
    self.assertEqual(c.fetch_add_many([keys[0]] * 3, [1, 1, 1]), [2, 3, 4])  # in their order
    self.assertEqual((c.read_counter_many([]), c.fetch_add_many([], [])), ([], []))
    with self.assertRaises(farlook.AlreadyExists):
      c.create_counter_many([keys[0], self.key], [0, 7])
    self.assertEqual(c.read_counter(self.key), 7)  # Expect: the rest was done all the same.
    c.create_counter(self.key + 'large', 2**61 - 1)
    with self.assertRaises(farlook.OutOfRange):
      c.fetch_add_many([keys[0], self.key + 'large'], [1, 1])
    c.put(self.key + 'value', b'')
    with self.assertRaises(farlook.FailedPrecondition):
      c.read_counter_many([self.key + 'value'])
    for wrong in (lambda: c.fetch_add_many(keys, [1]), lambda: c.create_counter_many(keys[:1], [])):
      with self.assertRaisesRegex(farlook.InvalidArgument, 'as many'):
        wrong()
    for wrong in (lambda: c.fetch_add_many(keys, 1), lambda: c.fetch_add_many(keys[:1], ['x']),
                  lambda: c.fetch_add_many(keys[:1], [1.5]), lambda: c.fetch_add_many(keys[:1]),
                  lambda: c.read_counter_many('key')):
      with self.assertRaises(TypeError):
        wrong()
    with self.assertRaises(OverflowError):
      c.fetch_add_many(keys[:1], [2**64])


class ClientTest(FarlookTest):

  def test_figures(self):
    self.client.put(self.key, b'')
    self.client.ping()
    self.client.warm()
    self.assertGreater(self.client.stats()['puts'], 0)
    figures = self.client.server_stats()
    self.assertEqual(figures['version'], farlook.__version__)
    self.assertGreater(int(figures['keys']), 0)
    self.assertGreater(self.client.memory_bytes(), 0)
    self.assertNotEqual(self.client.incarnation(), 0)

  def test_wrong_calls(self):
    c = self.client
    for wrong in (lambda: c.get(), lambda: c.get(1), lambda: c.get('k', 'x'), lambda: c.put('k', 'v', key='k'),
                  lambda: c.put('k', None), lambda: c.get('k', timeout_ms=1.5), lambda: farlook.connect(),
                  lambda: farlook.Client(), lambda: c.touch('k', 'long')):
      with self.assertRaises(TypeError):
        wrong()
    with self.assertRaisesRegex(farlook.InvalidArgument, 'did you mean ttl_ms'):
      c.put('k', b'', ttl=1)
    with self.assertRaisesRegex(farlook.InvalidArgument, 'no option ttl_ms'):
      c.get('k', ttl_ms=1)
    with self.assertRaises(farlook.InvalidArgument):
      c.get('k' * 1025)
    with self.assertRaises(ValueError):  # which it is, too
      c.get('')

  def test_text_has_no_nul(self):
    for wrong in (lambda: farlook.connect(self.address, secret='a\0b'), lambda: farlook.connect(self.address + '\0x'),
                  lambda: self.client.put('k', b'', **{'ttl_ms\0x': 1})):
      with self.assertRaisesRegex(ValueError, 'null character'):
        wrong()

  def test_a_finalizer_may_use_the_client(self):
    # The collector, which may run wherever something is made that it looks after, finds a cycle whose finalizer uses
    # the client of the call in which it runs.
    c, key, done = self.client, self.key, []
    c.put(key, b'value')

    class Cycle:

      def __init__(self):
        self.itself = self

      def __del__(self):
        done.append(c.get(key))

    def fails(call):
      with self.assertRaises(farlook.InvalidArgument):
        call()

    self.addCleanup(gc.set_threshold, *gc.get_threshold())
    self.addCleanup(gc.enable)
    self.addCleanup(faulthandler.cancel_dump_traceback_later)
    faulthandler.dump_traceback_later(60, exit=True)  # rather than wait for ever
    calls = (lambda: c.get_many([key]), lambda: c.get_with_version(key), lambda: fails(lambda: c.get('')),
             lambda: fails(lambda: c.get_many([''])), lambda: c.put_many([key], [b'value']), c.stats, c.server_stats,
             lambda: c.touch_many([key], 60_000), lambda: fails(lambda: c.fetch_add_many([''], [1])))
    for call in calls:
      for threshold in range(1, 20):
        gc.disable()
        gc.collect()
        Cycle()
        gc.set_threshold(threshold)
        gc.enable()
        call()
    gc.collect()
    self.assertEqual(done, [b'value'] * len(calls) * 19)

  def test_errors_are_what_python_calls_them(self):
    with self.assertRaises(ConnectionError) as raised:
      farlook.connect('shm:///tmp/farlook-no-such-server')
    self.assertIsInstance(raised.exception, farlook.Unavailable)
    self.assertIsInstance(raised.exception, farlook.Error)
    self.assertIn('farlook-no-such-server', str(raised.exception))
    with self.assertRaisesRegex(farlook.InvalidArgument, 'fencing'):
      farlook.connect(self.address, fencing='loose')
    with farlook.connect(self.address, read_only=True, fencing='strict') as reader, self.assertRaises(PermissionError):
      reader.put(self.key, b'')

  def test_a_closed_client_says_so(self):
    with farlook.connect(self.address) as c:
      c.ping()
    c.close()
    for call in (c.ping, c.stats, lambda: c.get('k'), lambda: c.get_many(['k']), c.server_stats):
      with self.assertRaisesRegex(farlook.FailedPrecondition, 'closed'):
        call()

  def test_a_child_connects_for_itself(self):
    self.client.put(self.key, b'parent')
    child = os.fork()
    if child == 0:
      try:
        with self.assertRaisesRegex(farlook.FailedPrecondition, 'fork'):
          self.client.get(self.key)
        self.client.close()
        with farlook.connect(self.address, timeout_ms=30_000) as own:
          self.assertEqual(own.get(self.key), b'parent')
      except BaseException as error:  # pylint: disable=broad-except
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
      os._exit(0)
    self.assertEqual(os.waitpid(child, 0)[1], 0)
    self.assertEqual(self.client.get(self.key), b'parent')
    self.assertEqual(self.client.stats()['reconnects'], 0)

  def test_threads_share_a_client(self):
    self.client.create_counter(self.key)
    wrong = []

    def work(number):
      key = f'{self.key}{number}'
      for i in range(500):
        value = f'{number} {i}'.encode() * (1 + i % 40)
        self.client.put(key, value)
        if self.client.get(key) != value or self.client.get_many([key, 'nothing']) != [value, None]:
          wrong.append(key)
        self.client.fetch_add(self.key, 1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    self.assertEqual(wrong, [])
    self.assertEqual(self.client.read_counter(self.key), 2_000)

  def test_others_run_while_a_call_waits(self):
    # The server stands still, and so does a thread that waits for it; this one does not, and closing waits for it.
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
      server = Server(directory)
      client = farlook.connect(server.address, timeout_ms=30_000)
      server.pause()
      done = []
      waiting = threading.Thread(target=lambda: done.append(client.put('key', b'value')))
      waiting.start()
      for _ in range(1000):
        self.assertEqual(done, [])
      server.go_on()
      waiting.join()
      self.assertEqual(len(done), 1)
      client.close()
      server.stop()

  def test_nothing_leaks(self):
    c, keys = self.client, [f'{self.key}{i}' for i in range(20)]

    def everything():
      c.put_many(keys, [b'v' * 3000] * 20)
      c.get_many(keys)
      c.get_many_into(keys, [bytearray(3000) for _ in keys])
      c.touch_many(keys, 600_000)
      c.fetch_add_many(['nothing'] * 20, range(20))
      c.get(keys[0], timeout_ms=5_000)
      c.get_with_version(keys[0])
      for call in (lambda: c.put('k', b'', ttl=1), lambda: c.get(b'', timeout_ms=5), lambda: c.get_many([1]),
                   lambda: c.get_into(keys[0], bytearray(1)), lambda: c.get('a', 'b'), lambda: c.get_many(['']),
                   lambda: c.fetch_add_many(keys, ['x'] * 20)):
        with self.assertRaises((TypeError, farlook.Error)):
          call()
      c.stats()
      c.server_stats()
      with farlook.connect(self.address) as other:
        other.get('k')

    for _ in range(20):
      everything()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    blocks, before = sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
      everything()
    gc.collect()
    # Expect: less than a block for each of the rounds, and no memory beyond what fragments.
    self.assertLess(sys.getallocatedblocks() - blocks, 100)
    self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 4096)

  def test_registered_memory(self):
    import numpy  # pylint: disable=import-outside-toplevel
    with farlook.connect(self.address) as client:
      rows = numpy.zeros((4, 50_000), dtype=numpy.uint8)
      client.register(rows)
      with self.assertRaises(farlook.AlreadyExists):
        client.register(rows[1])
      rows[0] = 7
      client.put(self.id(), rows[0])
      self.assertEqual(client.get_rows([self.id()] * 4, rows), [True] * 4)
      self.assertTrue((rows == 7).all())
      memory = bytearray(100_000)
      client.register(memory)
      # Expect: the client holds what it knows of, and nothing else.
      with self.assertRaises(BufferError):
        memory.clear()
      client.unregister(memory)
      memory.clear()
      for wrong, error in ((b'constant', (BufferError, TypeError)), (7, TypeError), (rows[:, ::2], ValueError),
                           (bytearray(), farlook.InvalidArgument)):
        with self.assertRaises(error):
          client.register(wrong)
      with self.assertRaises(farlook.NotFound):
        client.unregister(rows[1])
      other = bytearray(5)
      client.register(other)
    other.clear()
    with self.assertRaisesRegex(farlook.FailedPrecondition, 'closed'):
      client.register(bytearray(5))

  def test_the_types_are_what_there_is(self):
    # mypy's own comparison of the package with its stubs, in a process of its own, which imports it too.
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
    # Expect: a method that the stubs do not know of would be seen, and one that is not there.
    stubs = package / '__init__.pyi'
    text = stubs.read_text(encoding='utf-8')
    self.addCleanup(stubs.write_text, text, encoding='utf-8')
    for broken in (text.replace('def get_rows(', 'def get_lines('), text.replace('    def ping(', '    def _ping(')):
      stubs.write_text(broken, encoding='utf-8')
      self.assertNotEqual(stubtest().returncode, 0)

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
    # Of names with an underscore these are in the limited API.
    self.assertNotRegex(wanted, r' _Py(?!_NoneStruct\b|_TrueStruct\b|_FalseStruct\b|_Dealloc\b|\w+_SizeT\b)')


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
