#!/usr/bin/env python3
"""farlook.aio, against a kv_server.

    aio_test.py LIBRARY KV_SERVER
"""

import asyncio
import ctypes
import gc
import os
import resource
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, 'tests/python')
from harness import Server, set_up  # pylint: disable=wrong-import-position

ARGUMENTS = []
ADDRESS = None
farlook = None


def setUpModule():
  global farlook, ADDRESS
  farlook, ADDRESS = set_up(ARGUMENTS)
  import farlook.aio  # pylint: disable=import-outside-toplevel


class AioTest(unittest.IsolatedAsyncioTestCase):

  async def asyncSetUp(self):
    asyncio.get_running_loop().set_debug(False)
    self.client = await farlook.aio.connect(ADDRESS, timeout_ms=30_000)
    self.addCleanup(self.client.close)
    self.key = self.id()

  async def test_each_call(self):
    c, key = self.client, self.key
    self.assertIsNone(await c.get(key))
    version = await c.put(key, b'value', ttl_ms=600_000)
    self.assertEqual(await c.get(key), b'value')
    buffer = bytearray(8)
    self.assertEqual(await c.get_into(key, buffer), 5)
    self.assertEqual(buffer, b'value\0\0\0')
    buffer.extend(b'x')  # Expect: it was let go.
    self.assertIsNone(await c.get_into('nothing', buffer))
    self.assertGreater(await c.put(key, bytearray(b'2'), if_version=version), version)
    self.assertTrue(await c.touch(key, 1_000_000))
    self.assertGreater(await c.ttl(key), 600_000)
    self.assertTrue(await c.persist(key))
    self.assertIsNone(await c.ttl(key))
    self.assertEqual(await c.get_and_touch(key, 500_000), b'2')
    self.assertEqual((await c.exists(key), await c.exists('nothing'), await c.touch('nothing', 1)), (True, False, False))
    self.assertEqual((await c.delete(key), await c.delete(key)), (True, False))
    self.assertEqual(await c.create_counter(key, 5), 5)
    self.assertEqual(await c.fetch_add(key, -2), 5)
    self.assertEqual(await c.compare_swap(key, 3, 7), 3)
    self.assertEqual(await c.read_counter(key), 7)
    self.assertEqual(await c.delete_counter(key), 7)
    self.assertEqual(await c.get_many(['nothing', key]), [None, None])
    self.assertGreater(c.stats()['puts'], 0)
    version = await c.put(key, b'3')
    self.assertEqual(await c.get_with_version(key), (b'3', version))
    self.assertIsNone(await c.get_with_version('nothing'))
    self.assertIsNone(await c.ping())
    self.assertIsNone(await c.warm())
    figures, more = await asyncio.gather(c.server_stats(), c.server_stats())
    self.assertEqual(figures['version'], farlook.__version__)
    with farlook.connect(ADDRESS) as other:
      self.assertEqual(list(figures), list(other.server_stats()))  # Expect: all of them, in their order.
    self.assertEqual(list(more), list(figures))
    with self.assertRaises((TypeError, ValueError)):
      c._client._start(1, 'server_stats', 'line')  # pylint: disable=protected-access
    self.assertNotEqual(c.incarnation(), 0)
    self.assertGreater(c.memory_bytes(), 0)

  async def test_it_has_each_call_of_the_other_client(self):
    def calls(of):
      return {name for name in dir(of) if not name.startswith('_')}

    self.assertEqual(calls(farlook.Client) - calls(farlook.aio.Client), {'connect'})
    self.assertEqual(calls(farlook.aio.Client) - calls(farlook.Client), set())

  async def test_batches(self):
    c = self.client
    keys = [f'{self.key}{i}' for i in range(5)]
    versions = await c.put_many(keys, [bytes([i]) * 8 for i in range(5)])
    self.assertEqual(len(set(versions)), 5)
    self.assertEqual(await c.put_many(['nothing', keys[0]], ['a', b'\0' * 8], if_present=True),
                     [None, (await c.get_with_version(keys[0]))[1]])
    rows = numpy.zeros((6, 2), dtype=numpy.float32)
    self.assertEqual(await c.get_rows([*keys, 'nothing'], rows), [True] * 5 + [None])
    self.assertEqual(rows.view(numpy.uint8).tolist(), [[i] * 8 for i in range(5)] + [[0] * 8])
    buffers = [bytearray(8) for _ in range(6)]
    self.assertEqual(await c.get_many_into([*keys, 'nothing'], buffers), [8] * 5 + [None])
    self.assertEqual(buffers, [bytes([i]) * 8 for i in range(5)] + [bytes(8)])
    self.assertEqual(await c.exists_many([*keys, 'nothing']), [True] * 5 + [False])
    self.assertEqual(await c.touch_many([*keys, 'nothing'], 60_000), [True] * 5 + [False])
    self.assertLessEqual(await c.ttl(keys[4]), 61_000)
    counters = [f'{self.key}n{i}' for i in range(3)]
    self.assertEqual(await c.create_counter_many(counters, [1, 2, 3], ttl_ms=600_000), [1, 2, 3])
    self.assertEqual(await c.fetch_add_many([*counters, 'nothing'], [10, 20, 30, 40]), [1, 2, 3, None])
    self.assertEqual(await c.read_counter_many(['nothing', *counters]), [None, 11, 22, 33])
    with self.assertRaises(farlook.AlreadyExists):
      await c.create_counter_many(counters, [1, 2, 3])
    self.assertEqual(await c.delete_many([keys[0], 'nothing']), [True, False])
    self.assertEqual(await c.get_many([]), [])
    for wrong, error in ((lambda: c.put_many(keys, [b'']), farlook.InvalidArgument),
                         (lambda: c.get_rows(keys, rows), farlook.InvalidArgument),
                         (lambda: c.get_rows(keys, numpy.zeros(5)), farlook.InvalidArgument),
                         (lambda: c.get_rows(keys, rows[:, :1]), ValueError),
                         (lambda: c.get_many_into(keys, [b'constant'] * 5), (BufferError, TypeError)),
                         (lambda: c.fetch_add_many(counters, [1]), farlook.InvalidArgument),
                         (lambda: c.exists_many('key'), TypeError)):
      with self.assertRaises(error):
        wrong()

  async def test_a_batch_that_fails_in_part_is_done_otherwise(self):
    c = self.client
    keys = [f'{self.key}{i}' for i in range(3)]
    await c.put(keys[0], b'there')
    with self.assertRaises(farlook.AlreadyExists):
      await c.put_many(keys, [b'v' * 9] * 3, if_absent=True)
    self.assertEqual(await c.get_many(keys), [b'there', b'v' * 9, b'v' * 9])
    rows = numpy.zeros((3, 9), dtype=numpy.uint8)
    with self.assertRaisesRegex(farlook.OutOfRange, 'shorter than a row'):
      await c.get_rows(keys, rows)
    # Expect: it ends when all of it has, and lets go of the buffers.
    self.assertEqual(rows[1:].tobytes(), b'v' * 18)
    buffers = [bytearray(2), bytearray(9), bytearray(9)]
    with self.assertRaises(farlook.OutOfRange):
      await c.get_many_into(keys, buffers)
    self.assertEqual(buffers[2], b'v' * 9)
    for buffer in buffers:
      buffer.clear()

  async def test_errors(self):
    c = self.client
    await c.put(self.key, b'value')
    for error, call in ((farlook.AlreadyExists, c.put(self.key, b'', if_absent=True)),
                        (farlook.Aborted, c.put(self.key, b'', if_version=1)),
                        (farlook.NotFound, c.ttl('nothing')), (farlook.NotFound, c.read_counter('nothing')),
                        (farlook.OutOfRange, c.get_into(self.key, bytearray(2))),
                        (farlook.InvalidArgument, c.get('')), (ValueError, c.put('k' * 1025, b''))):
      with self.assertRaises(error) as raised:
        await call
      self.assertNotEqual(str(raised.exception), '')
    for wrong in (lambda: c.get(1), lambda: c.put('k', None), lambda: c.get_into('k', b'constant'),
                  lambda: c.touch('k', 'long')):
      with self.assertRaises((TypeError, BufferError)):
        wrong()
    with self.assertRaises(ConnectionError):
      await farlook.aio.connect('shm:///tmp/farlook-no-such-server')

  async def test_operations_are_under_way_together(self):
    c = self.client
    keys = [f'{self.key}{i}' for i in range(1_000)]
    await asyncio.gather(*[c.put(key, key) for key in keys])
    self.assertEqual(await c.get_many(keys), [key.encode() for key in keys])
    # Expect: tasks that wait for one another's writes take turns.
    await c.create_counter(self.key)

    async def add():
      for _ in range(50):
        await c.fetch_add(self.key, 1)

    await asyncio.gather(*[add() for _ in range(20)])
    self.assertEqual(await c.read_counter(self.key), 1_000)

  async def test_a_stopped_server_ends_in_the_deadline(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      async with await farlook.aio.connect(server.address, timeout_ms=30_000) as c:
        await c.put('key', b'before')
        server.pause()
        late = c.put('key', b'late', timeout_ms=20_000)
        put, get = c.put('other', b'after', timeout_ms=200), c.get('key')
        ticks = 0

        async def tick():
          nonlocal ticks
          while True:
            ticks += 1
            await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        # Expect: what the server's processor has no part in goes on, and so does the loop.
        self.assertEqual(await get, b'before')
        with self.assertRaises(TimeoutError) as raised:
          await asyncio.wait_for(put, 60)
        self.assertIsInstance(raised.exception, farlook.DeadlineExceeded)
        self.assertGreater(ticks, 2)
        ticking.cancel()
        # Expect: its own deadline ended it; one that waits for longer ends when the server goes on.
        self.assertFalse(late.done())
        server.go_on()
        await late
        self.assertEqual(await c.get('key'), b'late')

  async def test_a_cancelled_operation_leaves_its_buffer_alone_until_its_end(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      async with await farlook.aio.connect(server.address, timeout_ms=30_000) as c:
        server.pause()
        value = bytearray(b'v' * 100_000)
        put = c.put('key', value)
        await asyncio.sleep(0)
        put.cancel()
        with self.assertRaises(BufferError):
          value.clear()
        server.go_on()
        while value:
          try:
            value.clear()
          except BufferError:
            await asyncio.sleep(0.01)
        self.assertEqual(await c.get('key'), b'v' * 100_000)

  async def test_closing_ends_what_is_under_way(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      c = await farlook.aio.connect(server.address, timeout_ms=30_000)
      server.pause()
      buffer = bytearray(5)
      put = c.put('key', buffer)
      await asyncio.sleep(0.05)
      c.close()
      c.close()
      buffer.clear()
      with self.assertRaises(farlook.Cancelled):
        await put
      with self.assertRaisesRegex(farlook.FailedPrecondition, 'closed'):
        await c.get('key')
      server.go_on()

  async def test_a_server_that_is_gone(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      async with await farlook.aio.connect(server.address, timeout_ms=500) as c:
        await c.put('key', b'value')
        server.process.kill()
        server.process.wait()
        with self.assertRaises((farlook.Unavailable, farlook.DeadlineExceeded, farlook.Unknown)):
          await asyncio.wait_for(c.put('key', b'more'), 60)
        # Expect: once there is one again, the same client goes on with it.
        with Server(directory):
          self.assertIsNone(await c.get('key', timeout_ms=30_000))

  async def test_a_child_says_so(self):
    await self.client.put(self.key, b'value')
    child = os.fork()
    if child == 0:
      future = self.client._begin('get', self.key)  # pylint: disable=protected-access
      os._exit(0 if isinstance(future.exception(), farlook.FailedPrecondition) else 1)
    self.assertEqual(os.waitpid(child, 0)[1], 0)
    self.assertEqual(await self.client.get(self.key), b'value')

  async def test_nothing_leaks(self):
    c = self.client

    async def everything():
      await asyncio.gather(*[c.put(f'{self.key}{i}', b'v' * 3000) for i in range(20)])
      await c.get_many([f'{self.key}{i}' for i in range(20)])
      await c.get_into(f'{self.key}1', bytearray(3000))
      keys, rows = [f'{self.key}{i}' for i in range(3)], numpy.zeros((3, 3000), dtype=numpy.uint8)
      await c.put_many(keys, [b'v' * 3000] * 3)
      await c.get_rows(keys, rows)
      await c.get_with_version(keys[0])
      with self.assertRaises(farlook.OutOfRange):
        await c.get_rows(keys, numpy.zeros((3, 3001), dtype=numpy.uint8))
      for call in (c.get(''), c.get_into(f'{self.key}1', bytearray(1)), c.put('k', b'', if_version=7)):
        with self.assertRaises(farlook.Error):
          await call
      with self.assertRaises(TypeError):
        c.get(1)
      other = await farlook.aio.connect(ADDRESS)
      left = other.put('k', bytearray(100))
      other.close()
      with self.assertRaises(farlook.Cancelled):
        await left

    # Caches and the loop's threads grow for some rounds; a leak grows in all.
    grown = []
    for _ in range(5):
      gc.collect()
      ctypes.CDLL(None).malloc_trim(0)
      blocks, before = sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
      for _ in range(100):
        await everything()
      gc.collect()
      grown.append((sys.getallocatedblocks() - blocks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
    # Expect: less than a block for each of the rounds, and no memory beyond what fragments.
    self.assertLess(min(blocks for blocks, _ in grown), 100)
    self.assertLess(min(kib for _, kib in grown), 4096)


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
