#!/usr/bin/env python3
"""farlook.lmcache, by the contract of LMCache's native connectors, with arrays of numpy as LMCache's memory.

    lmcache_test.py LIBRARY KV_SERVER

Where lmcache can be imported, its own adapter is run over the connector too; elsewhere the test says that it was not.
"""

import gc
import importlib
import importlib.util
import os
import select
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

import numpy

sys.path.insert(0, 'tests/python')
from harness import Server, set_up  # pylint: disable=wrong-import-position

ARGUMENTS = []
ADDRESS = None
farlook = None
MIB = 1 << 20


def setUpModule():
  global farlook, ADDRESS
  farlook, ADDRESS = set_up(ARGUMENTS)


def chunk(number, size=MIB):
  return numpy.random.default_rng(number).integers(0, 256, size, dtype=numpy.uint8)


class Demux:
  """Like LMCache's: waits for the descriptor, drains, and gives each future its completion."""

  def __init__(self, connector):
    self.connector = connector
    self.done = {}
    self.poller = select.poll()
    self.poller.register(connector.event_fd(), select.POLLIN)

  def __call__(self, future):
    while future not in self.done:
      assert self.poller.poll(120_000), 'no completion comes'
      drained = self.connector.drain_completions()
      assert drained  # the descriptor is readable only while there are some
      for number, good, error, there in drained:
        assert number not in self.done
        self.done[number] = (good, error, there)
    return self.done[future]


class LmcacheTest(unittest.TestCase):

  def open(self, address=None, **params):
    # Like its plug-in loader.
    connector = getattr(importlib.import_module('farlook.lmcache'), 'Connector')(
        **{'address': address or ADDRESS, 'timeout_ms': 30_000, **params})
    self.addCleanup(connector.close)
    for method in ('event_fd', 'submit_batch_get', 'submit_batch_set', 'submit_batch_exists', 'submit_batch_delete',
                   'drain_completions', 'close'):
      self.assertTrue(callable(getattr(connector, method)))
    self.assertIsInstance(connector.event_fd(), int)
    return connector, Demux(connector)

  def keys(self, count):
    return [f'model@{i:08x}@0@{self.id()}' for i in range(count)]

  def test_batches_of_chunks(self):
    for workers in (1, 3):
      c, wait = self.open(num_workers=workers)
      keys = self.keys(7)
      chunks = [chunk(i) for i in range(7)]
      self.assertEqual(c.drain_completions(), [])
      self.assertEqual(wait(c.submit_batch_set(keys, [memoryview(each) for each in chunks])), (True, '', None))
      found = [numpy.zeros(MIB, dtype=numpy.uint8) for _ in keys]
      self.assertEqual(wait(c.submit_batch_get(keys, [memoryview(each) for each in found])), (True, '', [True] * 7))
      self.assertTrue(all((a == b).all() for a, b in zip(chunks, found)))
      self.assertEqual(wait(c.submit_batch_exists([*keys, 'nothing'])), (True, '', [True] * 7 + [False]))
      self.assertEqual(wait(c.submit_batch_delete(keys[:2])), (True, '', [True] * 2))
      self.assertEqual(wait(c.submit_batch_delete(keys)), (True, '', [False] * 2 + [True] * 5))
      self.assertEqual(select.select([c.event_fd()], [], [], 0)[0], [])

  def test_what_is_missing_or_of_another_length(self):
    c, wait = self.open()
    keys = self.keys(4)
    wait(c.submit_batch_set(keys[:3], [memoryview(chunk(i, size)) for i, size in enumerate((1000, 999, 1001))]))
    views = [numpy.full(1000, 7, dtype=numpy.uint8) for _ in keys]
    good, error, there = wait(c.submit_batch_get(keys, [memoryview(each) for each in views]))
    self.assertEqual(there, [True, False, False, False])
    self.assertFalse(good)
    self.assertIn('1001 bytes', error)
    self.assertTrue((views[0] == chunk(0, 1000)).all())
    self.assertTrue((views[3] == 7).all())  # Expect: the memory of a key that is absent is as it was.
    # Expect: keys that are merely absent are no failure.
    self.assertEqual(wait(c.submit_batch_get(['nothing'], [memoryview(views[0])])), (True, '', [False]))

  def test_many_batches_from_many_threads(self):
    c, wait = self.open(num_workers=3)
    futures, lock = {}, threading.Lock()

    def submit(thread):
      for i in range(20):
        keys = [f'{self.id()}{thread}-{i}-{j}' for j in range(5)]
        future = c.submit_batch_set(keys, [memoryview(chunk(j, 3000)) for j in range(5)])
        with lock:
          futures[future] = keys

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(4)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    self.assertEqual(len(futures), 80)
    for future, keys in futures.items():
      self.assertEqual(wait(future), (True, '', None))
      self.assertEqual(wait(c.submit_batch_exists(keys)), (True, '', [True] * 5))

  def test_a_batch_that_fails_in_part_leaves_nothing(self):
    c, wait = self.open(num_workers=2)
    keys = self.keys(6)
    views = [memoryview(chunk(i, 5000)) for i in range(6)]
    good, error, there = wait(c.submit_batch_set([*keys[:5], 'k' * 2000], views))
    self.assertFalse(good)
    self.assertNotEqual(error, '')
    self.assertIsNone(there)
    self.assertEqual(wait(c.submit_batch_exists(keys)), (True, '', [False] * 6))

  def test_chunks_longer_than_the_limit_of_the_server(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, \
         Server(directory, '--max_value_bytes=1MiB', memory='64m') as server:
      c, wait = self.open(server.address, num_workers=2)
      client = farlook.connect(server.address)
      self.addCleanup(client.close)
      stored = lambda: int(client.server_stats()['keys'])
      keys = self.keys(3)
      chunks = [chunk(i, size) for i, size in enumerate((MIB, 3 * MIB + 17, 2 * MIB))]
      self.assertEqual(wait(c.submit_batch_set(keys, [memoryview(each) for each in chunks])), (True, '', None))
      self.assertEqual(stored(), 1 + (1 + 4) + (1 + 2))
      found = [numpy.zeros(each.size, dtype=numpy.uint8) for each in chunks]
      self.assertEqual(wait(c.submit_batch_get(keys, [memoryview(each) for each in found])), (True, '', [True] * 3))
      self.assertTrue(all((a == b).all() for a, b in zip(chunks, found)))
      self.assertEqual(wait(c.submit_batch_exists(keys)), (True, '', [True] * 3))
      # Expect: a view of another length is no hit, as for short values.
      self.assertEqual(wait(c.submit_batch_get(keys[1:2], [memoryview(found[2])]))[2], [False])
      # Expect: an overwrite and a delete leave no piece behind.
      other = chunk(9, 3 * MIB + 17)
      self.assertEqual(wait(c.submit_batch_set(keys[1:2], [memoryview(other)])), (True, '', None))
      self.assertEqual(wait(c.submit_batch_get(keys[1:2], [memoryview(found[1])])), (True, '', [True]))
      self.assertTrue((found[1] == other).all())
      self.assertEqual(stored(), 1 + (1 + 4) + (1 + 2))
      self.assertEqual(wait(c.submit_batch_delete(keys)), (True, '', [True] * 3))
      self.assertEqual(stored(), 0)
      # Expect: a value with a missing piece, as a cache may evict it, is absent.
      wait(c.submit_batch_set(keys[:1], [memoryview(other)]))
      manifest = client.get(keys[0])
      self.assertTrue(client.delete(f'farlook-piece-{manifest[16:48].decode()}-2'))
      self.assertEqual(wait(c.submit_batch_get(keys[:1], [memoryview(found[1])])), (True, '', [False]))
      wait(c.submit_batch_delete(keys[:1]))
      # Expect: a batch that fails leaves neither values nor pieces.
      good, error, _ = wait(c.submit_batch_set(keys, [memoryview(chunk(i, 24 * MIB)) for i in range(3)]))
      self.assertFalse(good)
      self.assertNotEqual(error, '')
      self.assertEqual(stored(), 0)

  def test_pieces_of_a_put_that_is_not_finished_expire(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, \
         Server(directory, '--max_value_bytes=1MiB', memory='64m') as server:
      client = farlook.connect(server.address)
      self.addCleanup(client.close)
      worker = importlib.import_module('farlook._worker').Worker(server.address, {'timeout_ms': 20_000})
      self.addCleanup(worker.close)
      names, run = [], worker._run  # pylint: disable=protected-access

      def stop_after_the_pieces(calls):
        outcomes = run(calls)
        names.extend(call[1] for call in calls if call[0] == 'put')
        if names:
          raise KeyboardInterrupt
        return outcomes

      worker._run = stop_after_the_pieces  # pylint: disable=protected-access
      with self.assertRaises(KeyboardInterrupt):
        worker.run([('put', 'key', chunk(1, 3 * MIB))])
      self.assertEqual(len(names), 3)
      for name in names:
        self.assertLess(client.ttl(name), 3_600_000)
      # Expect: the pieces of an existing value do not.
      worker._run = run  # pylint: disable=protected-access
      self.assertNotIsInstance(worker.run([('put', 'key', chunk(1, 3 * MIB))])[0], farlook.Error)
      manifest = client.get('key')
      for i in range(3):
        self.assertIsNone(client.ttl(f'farlook-piece-{manifest[16:48].decode()}-{i}'))

  def test_a_chunk_of_80_mib_is_one_value_where_the_server_says_so(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, \
         Server(directory, '--max_value_bytes=80MiB', memory='512m') as server:
      c, wait = self.open(server.address)
      client = farlook.connect(server.address)
      self.addCleanup(client.close)
      sent, found = chunk(1, 80 * MIB), numpy.zeros(80 * MIB, dtype=numpy.uint8)
      self.assertEqual(wait(c.submit_batch_set(['long'], [memoryview(sent)])), (True, '', None))
      self.assertEqual(client.server_stats()['keys'], '1')
      self.assertEqual(wait(c.submit_batch_get(['long'], [memoryview(found)])), (True, '', [True]))
      self.assertTrue((sent == found).all())

  def test_a_full_server(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory, memory='32m') as server:
      c, wait = self.open(server.address, timeout_ms=2_000)
      keys = self.keys(64)
      good, error, _ = wait(c.submit_batch_set(keys, [memoryview(chunk(i)) for i in range(64)]))
      self.assertFalse(good)
      self.assertNotEqual(error, '')
      self.assertEqual(wait(c.submit_batch_exists(keys)), (True, '', [False] * 64))
      # Expect: its room is available to later values.
      self.assertEqual(wait(c.submit_batch_set(keys[:8], [memoryview(chunk(i)) for i in range(8)])), (True, '', None))
      c.close()

  def test_a_server_that_stands_still_and_one_that_comes_back(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
      view = memoryview(chunk(1))
      with Server(directory) as server:
        c, wait = self.open(server.address, timeout_ms=300)
        self.assertEqual(wait(c.submit_batch_set(['a'], [view])), (True, '', None))
        server.pause()
        self.assertFalse(wait(c.submit_batch_set(['b'], [view]))[0])
        # Expect: reads do not need its processor.
        found = numpy.zeros(MIB, dtype=numpy.uint8)
        self.assertEqual(wait(c.submit_batch_get(['a'], [memoryview(found)])), (True, '', [True]))
        self.assertTrue((found == chunk(1)).all())
        server.go_on()
      self.assertFalse(wait(c.submit_batch_set(['a'], [view]))[0])
      with Server(directory):
        while not wait(c.submit_batch_set(['c'], [view]))[0]:
          pass
        self.assertEqual(wait(c.submit_batch_exists(['a', 'c'])), (True, '', [False, True]))
      c.close()

  def test_a_batch_and_its_undo_end_by_one_deadline(self):
    # Expect: deletes get the remaining time, and are left out once there is none.
    c, wait = self.open(num_workers=1, timeout_ms=30_000)
    worker = c._workers[0]  # pylint: disable=protected-access
    runs, run = [], worker._run  # pylint: disable=protected-access

    def note(calls):
      runs.append(calls)
      return run(calls)

    worker._run = note  # pylint: disable=protected-access
    key, = self.keys(1)
    view = memoryview(chunk(0, 5000))
    self.assertFalse(wait(c.submit_batch_set([key, 'k' * 2000], [view, view]))[0])
    deletes = [call for calls in runs for call in calls if call[0] == 'delete']
    runs.clear()
    self.assertEqual([call[:2] for call in deletes], [('delete', key)])
    self.assertLessEqual(deletes[0][-1]['timeout_ms'], 30_000)
    # Expect: the condition on the version stays.
    self.assertIn('if_version', deletes[0][-1])
    worker._begun -= 3_600  # pylint: disable=protected-access
    worker.run_in_time_left([('delete', key)])
    self.assertEqual(runs, [])

  def test_a_view_that_cannot_be_used_fails_its_batch_only(self):
    c, wait = self.open(num_workers=1)
    keys = self.keys(3)
    memory = numpy.zeros((3, 100), dtype=numpy.uint8)
    every_second = memoryview(numpy.zeros(200, dtype=numpy.uint8)[::2])
    good, error, _ = wait(c.submit_batch_set(keys, [memoryview(memory[0]), every_second, memoryview(memory[2])]))
    self.assertFalse(good)
    self.assertIn('contiguous', error)
    self.assertEqual(wait(c.submit_batch_exists(keys)), (True, '', [False] * 3))
    self.assertEqual(wait(c.submit_batch_set(keys, [memoryview(row) for row in memory])), (True, '', None))
    good, error, there = wait(c.submit_batch_get(keys, [memoryview(memory[0]), memoryview(bytes(100)),
                                                        memoryview(memory[2])]))
    self.assertEqual((good, there), (False, [True, False, True]))
    self.assertNotEqual(error, '')

  def test_closing(self):
    c, wait = self.open()
    memory = bytearray(5000)
    wait(c.submit_batch_set(['k'], [memoryview(memory)]))
    threads = threading.active_count()
    c.close()
    c.close()
    self.assertEqual(threading.active_count(), threads - 2)
    memory.clear()  # Expect: no other object holds it.
    with self.assertRaises(OSError):
      os.fstat(c.event_fd())
    with self.assertRaisesRegex(farlook.FailedPrecondition, 'closed'):
      c.submit_batch_exists(['k'])
    self.assertEqual(c.drain_completions(), [])

  def test_wrong_batches(self):
    c, _ = self.open()
    for wrong in (lambda: c.submit_batch_get([], []), lambda: c.submit_batch_set(['a'], []),
                  lambda: c.submit_batch_exists([])):
      with self.assertRaises(ValueError):
        wrong()
    with self.assertRaises(TypeError):
      c.submit_batch_set(['a'], [7])
    with self.assertRaises(ValueError):
      self.open(num_workers=0)
    threads = threading.active_count()
    with self.assertRaises(farlook.Unavailable):
      self.open('shm:///tmp/farlook-no-such-server')
    self.assertEqual(threading.active_count(), threads)

  def test_views_are_let_go(self):
    c, wait = self.open()
    memory = bytearray(5000)
    for future in (c.submit_batch_set(['k'], [memoryview(memory)]), c.submit_batch_get(['k'], [memoryview(memory)])):
      wait(future)
    wait(c.submit_batch_exists(['k', 'l']))  # each worker has gone on
    gc.collect()
    memory.clear()

  def test_the_adapter_registers_the_memory_of_lmcache(self):
    # Creates it like LMCache's plug-in type "plugin". A stub that records its arguments replaces LMCache's own adapter.
    base = 'lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter'
    module = types.ModuleType(base)
    given = []

    class NativeConnectorL2Adapter:

      def __init__(self, native_client, max_capacity_gb=0, type_name=''):
        given.append((native_client, type_name))

    module.NativeConnectorL2Adapter = NativeConnectorL2Adapter
    with unittest.mock.patch.dict(sys.modules, {base: module}):
      plugin = importlib.import_module('farlook.lmcache')
      plugin._adapter.cache_clear()  # pylint: disable=protected-access
      self.addCleanup(plugin._adapter.cache_clear)  # pylint: disable=protected-access
      self.assertTrue(issubclass(plugin.Adapter, NativeConnectorL2Adapter))
      self.assertIs(plugin.Adapter, plugin.Adapter)
      with self.assertRaises(AttributeError):
        plugin.Adapters  # pylint: disable=pointless-statement
      memory = numpy.zeros(4 * MIB, dtype=numpy.uint8)
      whole = types.SimpleNamespace(ptr=memory.ctypes.data, size=memory.nbytes, align_bytes=4096)
      for description, registered in ((whole, 4 * MIB), (None, 0), (types.SimpleNamespace(
          **vars(whole), stable_registration_size=MIB), MIB), (types.SimpleNamespace(
              **vars(whole), stable_registration_size=0), 0)):
        kwargs = {} if description is None else {'l1_memory_desc': description}
        plugin.Adapter({'address': ADDRESS, 'num_workers': 2, 'timeout_ms': 30_000}, **kwargs)
        connector, name = given.pop()
        self.addCleanup(connector.close)
        self.assertEqual(name, 'farlook')
        for worker in connector._workers:  # pylint: disable=protected-access
          for at in (0, MIB - 1, MIB, 4 * MIB - 1):
            register = worker._client.register  # pylint: disable=protected-access
            if at < registered:
              self.assertRaises(farlook.AlreadyExists, register, memory[at:at + 1])
            else:
              register(memory[at:at + 1])
        wait = Demux(connector)
        self.assertEqual(wait(connector.submit_batch_set(self.keys(2), [memoryview(memory)] * 2)), (True, '', None))
        self.assertEqual(wait(connector.submit_batch_get(self.keys(1), [memoryview(memory)])), (True, '', [True]))

  def test_the_adapter_of_lmcache_itself(self):
    if importlib.util.find_spec('lmcache') is None:
      print('lmcache is not installed here: its own adapter was NOT run over the connector', flush=True)
      return
    from lmcache.v1.distributed.l2_adapters import native_connector_l2_adapter  # pylint: disable=import-outside-toplevel
    c, _ = self.open()
    adapter = native_connector_l2_adapter.NativeConnectorL2Adapter(c, type_name='native_plugin')
    self.assertEqual(adapter.report_status()['type'], 'native_plugin')
    adapter.close()
    adapter = importlib.import_module('farlook.lmcache').Adapter({'address': ADDRESS})
    self.assertEqual(adapter.report_status()['type'], 'farlook')
    adapter.close()


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
