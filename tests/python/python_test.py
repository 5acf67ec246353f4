#!/usr/bin/env python3
"""farlook.Client, against a kv_server.

    python_test.py LIBRARY KV_SERVER
"""

import array
import copy
import ctypes
import faulthandler
import gc
import inspect
import os
import pickle
import pydoc
import resource
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, 'tests/python')
from harness import Server, free_port, set_up  # pylint: disable=wrong-import-position

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
          c.delete(self.key, **{name: value for name, value in options.items() if name != 'if_absent'})
    with self.assertRaises(farlook.AlreadyExists):
      c.put(self.key, b'3', if_absent=True, if_present=False)
    for options in ({'if_absent': True, 'if_version': second}, {'if_version': second, 'if_absent': True},
                    {'if_absent': True, 'if_present': True}):
      with self.assertRaisesRegex(farlook.InvalidArgument, 'one may be given'):
        c.put(self.key, b'3', **options)
    self.assertEqual(c.get_with_version(self.key), (b'2', second))
    c.put(self.key, b'3', if_absent=False)

  def test_version_0_is_no_version(self):
    # A program that forgot to check has version 0: it is refused, as in C++, and not a write without a condition.
    c = self.client
    version = c.put(self.key, b'1')
    for wrong in (lambda: c.put(self.key, b'2', if_version=0), lambda: c.delete(self.key, if_version=0),
                  lambda: c.put_many([self.key], [b'2'], if_version=0), lambda: c.delete_many([self.key], if_version=0)):
      with self.assertRaises(farlook.Aborted):
        wrong()
    for wrong in ({'if_version': 0, 'if_absent': True}, {'if_present': True, 'if_version': 0}):
      with self.assertRaisesRegex(farlook.InvalidArgument, 'one may be given'):
        c.put(self.key, b'2', **wrong)
    with self.assertRaises(farlook.InvalidArgument):
      c.put(self.key, b'2', if_version=-1)
    self.assertEqual(c.get_with_version(self.key), (b'1', version))
    with self.assertRaises(farlook.NotFound):
      c.put('nothing', b'2', if_version=0)
    self.assertEqual(c.put_many(['nothing'], [b'2'], if_version=0), [None])

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

  def test_an_add_creates_what_is_absent(self):
    c = self.client
    self.assertEqual(c.fetch_add(self.key, 7, create=True, initial=-5, ttl_ms=60_000), -5)
    self.assertEqual(c.fetch_add(self.key, 1, create=True), 2)
    self.assertLess(c.ttl(self.key), 61_000)  # the clock of the server is known to a millisecond or so
    keys = [f'{self.key}a', self.key]
    self.assertEqual(c.fetch_add_many(keys, [1, 1], create=True, exactly_once=True), [0, 3])
    with self.assertRaises(farlook.InvalidArgument):
      c.fetch_add(self.key, 1, ttl_ms=60_000)

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
    # Expect: absent ones are None; the others are the values before.
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
    for wrong in (lambda: c.get(), lambda: c.get(1), lambda: c.get('k', 'x', 'y'), lambda: c.put('k', 'v', key='k'),
                  lambda: c.put('k', None), lambda: c.get('k', timeout_ms=1.5), lambda: farlook.connect(),
                  lambda: farlook.Client(), lambda: c.touch('k', 'long')):
      with self.assertRaises(TypeError):
        wrong()
    for wrong, words in ((lambda: c.put('k', b'', ttl=1), r"put\(\) got an unexpected keyword argument 'ttl'.*ttl_ms"),
                         (lambda: c.get('k', ttl_ms=1), "unexpected keyword argument 'ttl_ms'"),
                         (lambda: c.get('k', timeout=None), 'timeout'), (lambda: c.get('k', timeout_m=1), 'timeout_m'),
                         (lambda: c.get('k', **{'': 1}), "argument ''"), (lambda: c.put_many([], [], exactly_once=1), 'exactly'),
                         (lambda: c.ping(key='k'), 'key'), (lambda: c.server_stats(ttl_ms=1), 'ttl_ms'),
                         (lambda: c.read_counter('k', ttl_ms=1), 'ttl_ms'),
                         (lambda: farlook.connect(self.address, timeout=5), r"connect\(\).*'timeout'.*timeout_ms"),
                         (lambda: farlook.connect(self.address, if_absent=True), 'if_absent')):
      with self.assertRaisesRegex(TypeError, words):
        wrong()
    with self.assertRaises(farlook.InvalidArgument):
      c.get('k' * 1025)
    with self.assertRaises(ValueError):  # which it is, too
      c.get('')

  def test_what_dicts_have(self):
    c, key = self.client, self.key
    self.assertNotIn(key, c)
    self.assertEqual(c.get(key, b'default'), b'default')
    self.assertEqual(c.get(key, default=5), 5)
    self.assertIsNone(c.get(key, None))
    c.put(key, b'')
    self.assertIn(key, c)
    self.assertEqual(c.get(key, b'default'), b'')
    pairs = {f'{key}/{i}': b'%d' % i for i in range(300)}
    versions = c.put_many(pairs, ttl_ms=600_000)
    self.assertEqual(len(set(versions)), 300)
    self.assertEqual(c.get_dict(pairs), pairs)
    self.assertEqual(c.get_dict([key + '/7', 'nothing', key]), {key + '/7': b'7', key: b''})
    self.assertEqual(c.put_many({}), [])
    self.assertEqual(c.get_dict(iter([])), {})
    for wrong in (pairs.items(), [key], 5):
      with self.assertRaisesRegex(TypeError, "'values', or a dict"):
        c.put_many(wrong)
    with self.assertRaises(TypeError):
      c.put_many({key: 5})
    before = sys.getrefcount(pairs)
    for _ in range(100):
      c.put_many(pairs)
      c.get(key + '/x', pairs)
    self.assertEqual(sys.getrefcount(pairs), before)
    with self.assertRaisesRegex(TypeError, 'client.address'):
      pickle.dumps(c)
    with self.assertRaisesRegex(TypeError, 'client.address'):
      copy.copy(c)

  def test_scans(self):
    c = self.client
    prefix = self.key + '/'
    values = {f'{prefix}{i}'.encode(): b'v' * i for i in range(1_000)}
    versions = dict(zip(values, c.put_many(list(values), list(values.values()))))
    c.touch(prefix + '7', 600_000)
    c.create_counter(prefix + 'counter', 5)
    c.put(prefix + 'kept', b'kept', keep=True)
    more = {(prefix + 'counter').encode(): None, (prefix + 'kept').encode(): b'kept'}
    self.assertEqual(sorted(c.scan(prefix), key=repr), sorted([*values.items(), *more.items()], key=repr))
    self.assertEqual(c.count(prefix), 1_002)
    self.assertEqual(c.count(prefix.encode() + b'99'), 11)
    self.assertGreaterEqual(c.count(), 1_002)
    self.assertEqual(list(c.scan('no key begins so')), [])

    items = {item.key: item for item in c.scan_items(prefix)}
    self.assertEqual(len(items), 1_002)
    for key, value in values.items():
      item = items[key]
      self.assertEqual((item.value, item.value_bytes, item.version, item.keep, item.counter),
                       (None if value else b'', len(value), versions[key], False, False))
    self.assertEqual([key for key, item in items.items() if item.ttl_ms is not None], [(prefix + '7').encode()])
    self.assertTrue(0 < items[(prefix + '7').encode()].ttl_ms <= 600_000)
    kept = farlook.Item((prefix + 'kept').encode(), b'kept', 4, items[(prefix + 'kept').encode()].version, None, True, False)
    self.assertEqual(list(c.scan_items(prefix + 'k', values=True)), [kept])
    self.assertEqual([item.counter for item in c.scan_items(prefix + 'c', values=True)], [True])
    self.assertEqual(len(list(c.scan(prefix, min_value_bytes=500, max_value_bytes=599))), 100)
    self.assertEqual([item.key for item in c.scan_items(prefix, only_expiring=True)], [(prefix + '7').encode()])

  def test_a_scan_continues_from_its_cursor(self):
    c = self.client
    keys = {f'{self.key}/{i}'.encode() for i in range(2_000)}
    c.put_many(keys, [b''] * len(keys))
    scan = c.scan(self.key + '/', limit=500, batch_bytes=4_096)
    self.assertEqual(scan.cursor, '')
    found = {key for key, _ in scan}
    self.assertEqual(len(found), 500)
    self.assertTrue(0 < scan.progress < 1)
    with farlook.connect(self.address) as other:
      rest = [key for key, _ in other.scan(self.key + '/', cursor=scan.cursor)]
    self.assertEqual(len(rest), 1_500)  # Expect: none again, as the scan had ended.
    self.assertEqual(found | set(rest), keys)
    # In the midst of what was fetched at once: none is missing.
    scan = c.scan(self.key + '/')
    found = {next(scan)[0] for _ in range(1_100)}
    rest = [key for key, _ in c.scan(self.key + '/', cursor=scan.cursor)]
    self.assertEqual(found | set(rest), keys)
    self.assertLess(len(found) + len(rest), len(keys) + 256)
    for _ in scan:
      pass
    self.assertEqual((scan.cursor, scan.progress), ('end', 1))
    self.assertEqual(list(c.scan(cursor='end')), [])
    with self.assertRaisesRegex(farlook.InvalidArgument, 'cursor'):
      list(c.scan(cursor='elsewhere'))

  def test_wrong_uses_of_a_scan(self):
    c = self.client
    c.put(self.key, b'value')
    with self.assertRaises(farlook.InvalidArgument):
      c.scan(batch_bytes=1)
    with self.assertRaises(TypeError):
      c.scan(5)
    scan = c.scan(self.key)
    with farlook.connect(self.address) as other:
      lent = other.scan(self.key)
      with self.assertRaisesRegex(farlook.InvalidArgument, "another client's"):
        c._scan_next(lent._scan)  # pylint: disable=protected-access
    with self.assertRaises(farlook.FailedPrecondition):  # it was closed
      next(lent)
    with self.assertRaises((ValueError, TypeError)):
      c._scan_next('no scan')  # pylint: disable=protected-access
    child = os.fork()
    if child == 0:
      try:
        next(scan)
      except farlook.FailedPrecondition:
        os._exit(7)
      os._exit(8)
    self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
    self.assertEqual(next(scan), (self.key.encode(), b'value'))
    # The scan keeps the client's memory, and ends with it.
    client = farlook.connect(self.address)
    scan = client.scan()
    next(scan)
    del client
    gc.collect()
    self.assertIsNotNone(next(scan, None) or True)

  def test_two_threads_within_one_scan(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, \
         Server(directory, address=f'tcp://127.0.0.1:{free_port()}') as server, \
         farlook.connect(server.address, timeout_ms=30_000) as client:
      client.put('key', b'value')
      scan, outcomes = client.scan(), []
      server.pause()
      waits = threading.Thread(target=lambda: outcomes.append(next(scan)))
      waits.start()
      time.sleep(0.2)
      with self.assertRaisesRegex(farlook.FailedPrecondition, 'another call'):
        next(scan)
      server.go_on()
      waits.join()
      self.assertEqual(outcomes, [(b'key', b'value')])
      self.assertEqual(list(scan), [])

  def test_a_signal_within_a_scan_loses_no_key(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, \
         Server(directory, address=f'tcp://127.0.0.1:{free_port()}') as server, \
         farlook.connect(server.address, timeout_ms=30_000) as client:
      keys = {f'{i}'.encode() for i in range(3_000)}
      client.put_many(keys, [b''] * len(keys))
      scan = client.scan(batch_bytes=4_096)
      found = {next(scan)[0]}
      server.pause()

      def interrupt(number, frame):
        raise InterruptedError
      before = signal.signal(signal.SIGALRM, interrupt)
      self.addCleanup(signal.signal, signal.SIGALRM, before)
      signal.setitimer(signal.ITIMER_REAL, 0.1)
      with self.assertRaises(InterruptedError):
        while True:
          found.add(next(scan)[0])
      server.go_on()
      found |= {key for key, _ in scan}
      self.assertEqual(found, keys)

  def test_help_has_signatures(self):
    signature = inspect.signature(farlook.Client.put)
    self.assertEqual(str(signature), '(self, /, key, value, *, if_absent=None, if_present=None, if_version=None, ttl_ms=None, '
                                     'keep_ttl=None, keep=None, refill=None, timeout_ms=None)')
    self.assertIn('put(self, /, key, value, *, if_absent=None', pydoc.plain(pydoc.render_doc(farlook.Client.put)))
    self.assertIn('secret_file=None', str(inspect.signature(farlook.connect)))
    # Expect: each call takes the parameters of its signature, by name, and nothing else.
    methods = [getattr(farlook.Client, name) for name in dir(farlook.Client) if not name.startswith('_')]
    methods = [method for method in methods if callable(method)]
    self.assertGreater(len(methods), 30)
    for method in methods:
      parameters = list(inspect.signature(method).parameters.values())
      optional = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
      required = {p.name: [] for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in ('self', 'initial', 'default')}
      if not optional:
        continue
      arguments = () if method.__name__ == 'connect' else (self.client,)
      with self.assertRaisesRegex(TypeError, 'no_such_option'):
        method(*arguments, **required, **optional, no_such_option=1)
      try:
        method(*arguments, **required, **optional)
      except (TypeError, farlook.Error) as error:  # of lists as keys
        self.assertNotRegex(str(error), 'unexpected|missing')

  def test_the_address_that_was_taken(self):
    self.assertEqual(self.client.address, self.address)
    port = free_port()
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory, address=f'tcp://127.0.0.1:{port}'):
      with farlook.connect(f'auto://127.0.0.1:{port}', timeout_ms=30_000) as client:
        self.assertRegex(client.address, rf'^tcp://127.0.0.1:{port} \(not rdma: .*\)$')
      self.assertIn(str(port), client.address)  # Expect: a client that was closed has it still.
    with self.assertRaises(AttributeError):
      client.address = 'another'

  def test_text_has_no_nul(self):
    for wrong in (lambda: farlook.connect(self.address, secret='a\0b'), lambda: farlook.connect(self.address + '\0x'),
                  lambda: self.client.put('k', b'', **{'ttl_ms\0x': 1})):
      with self.assertRaisesRegex(ValueError, 'null character'):
        wrong()

  def test_a_finalizer_may_use_the_client(self):
    # The collector, which may run at each allocation of an object that it tracks, finds a cycle whose finalizer uses
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
    # The server is stopped, and a thread waits for it; this one continues, and closing waits for that thread.
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

  def test_ctrl_c_ends_a_call_that_waits(self):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    self.addCleanup(signal.signal, signal.SIGINT, before)
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      c = farlook.connect(server.address, timeout_ms=600_000)
      c.create_counter('counter')
      with farlook.connect(server.address, timeout_ms=600_000) as busy:
        server.pause()
        # A thread that waits for the server, with a client that the main thread closes meanwhile.
        waiting = threading.Thread(target=lambda: busy.put('key', b'value'))
        waiting.start()
        calls = (lambda: c.put('key', b'value'), lambda: c.put('key', b'v' * 100_000), lambda: c.delete('key'), c.ping,
                 lambda: c.get_and_touch('key', 1_000), lambda: c.touch('key', 1_000), c.server_stats,
                 lambda: c.fetch_add('counter', 1, exactly_once=True), lambda: c.put_many(['key'] * 1_000, [b''] * 1_000),
                 lambda: c.delete_many(['key']), lambda: c.create_counter_many(['a', 'b'], [1, 2]), busy.close,
                 lambda: farlook.connect(f'shm://{directory}/none', wait_for_server=True, timeout_ms=600_000),
                 lambda: farlook.connect(f'auto://127.0.0.1:{free_port()}', wait_for_server=True, timeout_ms=600_000),
                 lambda: farlook.connect(f'farlook://{directory}/none/name', wait_for_server=True, timeout_ms=600_000))
        for i, call in enumerate(calls):
          begin = time.monotonic()
          with self.assertRaises(KeyboardInterrupt, msg=i):
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            call()
          timer.join()
          self.assertLess(time.monotonic() - begin, 60, i)  # of 600
        server.go_on()
        waiting.join()
        # Expect: the clients are of use as before.
        self.assertIsNotNone(busy.get('key'))
        c.put('key', b'after')
        self.assertEqual(busy.get('key'), b'after')
      c.close()

  def test_a_signal_handler_may_use_the_client(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      with farlook.connect(server.address, timeout_ms=600_000) as c:
        c.put('key', b'before')
        found = []

        def handle(number, frame):
          try:
            found.append(c.get('key'))
            found.append(c.get_many(['key']))
            with self.assertRaisesRegex(farlook.FailedPrecondition, 'this thread'):
              c.close()
          finally:
            server.go_on()

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handle))
        server.pause()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        c.put_many(['other'] * 500, [b'after'] * 500)
        self.assertEqual(found, [b'before', [b'before']])
        self.assertEqual(c.get('other'), b'after')

  def test_threads_do_not_wait_for_calls_of_others(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      with farlook.connect(server.address, timeout_ms=600_000) as c:
        c.put('key', b'before')
        server.pause()
        done = []
        waiting = [threading.Thread(target=lambda i=i: done.append(c.put(f'key{i}', b'value'))) for i in range(4)]
        waiting += [threading.Thread(target=lambda i=i: done.append(c.put_many([f'many{i}'] * 300, [f'{i}'] * 300)))
                    for i in range(4)]
        for thread in waiting:
          thread.start()
        for _ in range(50):
          self.assertEqual(c.get('key'), b'before')
          self.assertEqual(c.get_many(['key', 'nothing']), [b'before', None])
        with self.assertRaises(farlook.DeadlineExceeded):
          c.put('key', b'late', timeout_ms=200)
        self.assertEqual(done, [])  # Expect: all of this while the others wait, which may do so for ten minutes.
        server.go_on()
        for thread in waiting:
          thread.join()
        self.assertEqual(len(done), 8)
        self.assertEqual(c.get_many([f'key{i}' for i in range(4)] + [f'many{i}' for i in range(4)]),
                         [b'value'] * 4 + [b'0', b'1', b'2', b'3'])

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
      c.get('nothing', keys)
      c.put_many(dict.fromkeys(keys, b'v'))
      c.put_many(keys, [b'v' * 3000] * 20)
      for _ in zip(range(30), c.scan()):
        pass
      for call in (lambda: c.put('k', b'', ttl=1), lambda: c.get(b'', timeout_ms=5), lambda: c.get_many([1]),
                   lambda: c.get_into(keys[0], bytearray(1)), lambda: c.get('a', 'b', 'c'), lambda: c.get_many(['']),
                   lambda: c.fetch_add_many(keys, ['x'] * 20)):
        with self.assertRaises((TypeError, farlook.Error)):
          call()
      c.stats()
      c.server_stats()
      with farlook.connect(self.address) as other:
        other.get('k')

    # Caches grow for some rounds, and so does freed memory that a sanitizer keeps; a leak grows in all.
    grown = []
    for _ in range(4):
      gc.collect()
      ctypes.CDLL(None).malloc_trim(0)
      blocks, before = sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
      for _ in range(100):
        everything()
      gc.collect()
      grown.append((sys.getallocatedblocks() - blocks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
    # Expect: less than a block for each of the rounds, and no memory beyond fragmentation.
    self.assertLess(min(blocks for blocks, _ in grown), 100)
    self.assertLess(min(kib for _, kib in grown), 4096)

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
      # Expect: the client holds only the memory that is registered.
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


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
