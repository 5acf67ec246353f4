#!/usr/bin/env python3
"""farlook.aio, against a kv_server.

    aio_test.py LIBRARY KV_SERVER
"""

import asyncio
import ctypes
import gc
import inspect
import os
import pickle
import resource
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, 'tests/python')
from harness import Server, free_port, set_up  # pylint: disable=wrong-import-position

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
    fresh = [f'{self.key}fresh{i}' for i in range(2)]
    self.assertEqual(await c.fetch_add(fresh[0], 1, create=True, initial=5, ttl_ms=60_000), 5)
    self.assertEqual(await c.fetch_add_many(fresh, [1, 1], create=True), [6, 0])
    self.assertEqual(await c.read_counter_many(['nothing', *counters]), [None, 11, 22, 33])
    with self.assertRaises(farlook.AlreadyExists):
      await c.create_counter_many(counters, [1, 2, 3])
    self.assertEqual(await c.delete_many([keys[0], 'nothing']), [True, False])
    self.assertEqual(await c.get_many([]), [])
    self.assertEqual((await c.put_many([], []), await c.touch_many([], 5), await c.get_rows([], rows[:0])), ([], [], []))
    for wrong, error in ((c.put_many(keys, [b'']), farlook.InvalidArgument),
                         (c.put_many([], [b'']), farlook.InvalidArgument),
                         (c.get_rows(keys, rows), farlook.InvalidArgument),
                         (c.get_rows(keys, numpy.zeros(5)), farlook.InvalidArgument),
                         (c.get_rows(keys, rows[:, :1]), ValueError),
                         (c.get_many_into(keys, [b'constant'] * 5), (BufferError, TypeError)),
                         (c.fetch_add_many(counters, [1]), farlook.InvalidArgument),
                         (c.fetch_add_many(counters, ['x'] * 3), TypeError), (c.touch_many(keys, 'long'), (TypeError, ValueError)),
                         (c.get_many([b'k', 1]), TypeError), (c.exists_many('key'), TypeError)):
      with self.assertRaises(error):
        await wrong
    # Expect: of these none was begun.
    self.assertEqual(c._waiting, {})  # pylint: disable=protected-access

  async def test_calls_are_coroutines(self):
    c = self.client
    await asyncio.create_task(c.put(self.key, b'value'))
    self.assertEqual(await asyncio.create_task(c.get(self.key)), b'value')
    async with asyncio.TaskGroup() as group:
      tasks = [group.create_task(call) for call in (c.get(self.key), c.get_many([self.key]), c.exists_many([self.key]))]
    self.assertEqual([task.result() for task in tasks], [b'value', [b'value'], [True]])
    done, _ = await asyncio.wait([asyncio.create_task(c.ping()), asyncio.create_task(c.server_stats())])
    self.assertEqual(len(done), 2)
    self.assertEqual(await asyncio.wait_for(asyncio.shield(c.get(self.key)), 60), b'value')
    for name in dir(farlook.aio.Client):
      if hasattr(farlook.Client, name) and not name.startswith('_'):
        is_local = name in ('address', 'close', 'incarnation', 'memory_bytes', 'register', 'scan', 'scan_items', 'stats',
                            'unregister')
        self.assertEqual(inspect.iscoroutinefunction(getattr(farlook.aio.Client, name)), not is_local, name)

  async def test_what_dicts_have(self):
    c, key = self.client, self.key
    self.assertEqual(await c.get(key, b'default'), b'default')
    pairs = {f'{key}/{i}': b'%d' % i for i in range(300)}
    self.assertEqual(len(await c.put_many(pairs)), 300)
    self.assertEqual(await c.get(key + '/7', b'default'), b'7')
    self.assertEqual(await c.get_dict([*pairs, 'nothing']), pairs)
    with self.assertRaisesRegex(TypeError, "'values', or a dict"):
      await c.put_many([key])
    with self.assertRaisesRegex(TypeError, 'client.address'):
      pickle.dumps(c)

  async def test_scans(self):
    c, prefix = self.client, self.key + '/'
    values = {f'{prefix}{i}'.encode(): b'%d' % i for i in range(2_000)}
    await c.put_many(list(values), list(values.values()))
    scan = c.scan(prefix)
    self.assertEqual(scan.cursor, '')
    found = {}
    async for key, value in scan:
      found[key] = value
      if len(found) == 700:
        self.assertEqual(await c.get(prefix + '5'), b'5')
        cursor = scan.cursor
    self.assertEqual(found, values)
    self.assertEqual(scan.cursor, 'end')
    rest = {key async for key, _ in c.scan(prefix, cursor=cursor)}
    self.assertEqual(set(list(found)[700:]) - rest, set())
    self.assertEqual(await c.count(prefix), 2_000)
    self.assertEqual([item.value_bytes async for item in c.scan_items(prefix + '1999')], [4])
    with self.assertRaises(farlook.InvalidArgument):
      await anext(c.scan(cursor='elsewhere'))

  async def test_scans_that_end_early(self):
    c, prefix = self.client, self.key + '/'
    await c.put_many([f'{prefix}{i}' for i in range(2_000)], [b''] * 2_000)
    descriptors = len(os.listdir('/proc/self/fd'))
    scan = c.scan(prefix)
    await anext(scan)
    scan.close()
    with self.assertRaises(StopAsyncIteration):
      await anext(scan)
    scan = c.scan(prefix)
    await anext(scan)
    del scan
    gc.collect()
    self.assertEqual(len(os.listdir('/proc/self/fd')), descriptors)
    # A cancelled step is left to the next one.
    for rest_s in (0, 0.3):  # while its READs are under way, and when they have ended
      scan = c.scan(prefix)
      step = asyncio.create_task(anext(scan))
      await asyncio.sleep(0)
      step.cancel()
      with self.assertRaises(asyncio.CancelledError):
        await step
      await asyncio.sleep(rest_s)
      self.assertEqual(len({key async for key, _ in scan}), 2_000)

  async def test_a_batch_is_one_future(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      async with await farlook.aio.connect(server.address, timeout_ms=30_000) as c:
        keys = [f'{i}' for i in range(1_000)]
        server.pause()
        put = asyncio.create_task(c.put_many(keys, keys))
        await asyncio.sleep(0)
        self.assertEqual(len(c._waiting), 1)  # pylint: disable=protected-access
        server.go_on()
        self.assertEqual(len(set(await put)), 1_000)
        self.assertEqual(await c.get_many(keys), [key.encode() for key in keys])
        self.assertEqual(c._waiting, {})  # pylint: disable=protected-access

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
    # Expect: it ends when all of it has, and releases the buffers.
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
    for wrong in (c.get(1), c.put('k', None), c.get_into('k', b'constant'), c.touch('k', 'long')):
      with self.assertRaises((TypeError, BufferError)):
        await wrong
    for wrong in (lambda: c.get('k', ttl_ms=1), lambda: c.put('k'), lambda: c.get_many(['k'], no_such_option=1)):
      with self.assertRaises(TypeError):
        wrong()
    with self.assertRaisesRegex(TypeError, 'no_such_option'):
      await farlook.aio.connect(ADDRESS, no_such_option=1)
    self.assertEqual(c.address, ADDRESS)
    with self.assertRaises(ConnectionError):
      await farlook.aio.connect('shm:///tmp/farlook-no-such-server')

  async def test_version_0_is_no_version(self):
    c = self.client
    version = await c.put(self.key, b'1')
    for call in (c.put(self.key, b'2', if_version=0), c.delete(self.key, if_version=0),
                 c.put_many([self.key], [b'2'], if_version=0), c.delete_many([self.key], if_version=0)):
      with self.assertRaises(farlook.Aborted):
        await call
    self.assertEqual(await c.get_with_version(self.key), (b'1', version))
    self.assertEqual(await c.delete_many([self.key], if_version=version), [True])

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

  async def test_values_that_only_their_puts_refer_to(self):
    # More puts than the window has room for, over both kinds of transport, of short values and of such as are pulled.
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
      for address in (f'shm://{directory}/socket', f'tcp://127.0.0.1:{free_port()}'):
        with Server(directory, address=address, memory='256m'):
          async with await farlook.aio.connect(address, timeout_ms=60_000) as c:
            for count, length in ((1_000, 1), (200, 20_000)):
              keys = [f'k{i}' for i in range(count)]
              await asyncio.gather(*(c.put(key, f'{key} as bytes '.encode() * length) for key in keys))
              self.assertEqual(await c.get_many(keys), [f'{key} as bytes '.encode() * length for key in keys])
              # Python makes the UTF-8 of a str, and keeps it as long as the str itself.
              await asyncio.gather(*(c.put(key, f'{key} as ü ' * length) for key in keys))
              self.assertEqual(await c.get_many(keys), [(f'{key} as ü ' * length).encode() for key in keys])
              await c.put_many((f'k{i}' for i in range(count)), (f'{i} in a batch '.encode() * length for i in range(count)))
              self.assertEqual(await c.get_many(keys), [f'{i} in a batch '.encode() * length for i in range(count)])

  async def test_an_operation_holds_its_value_until_it_ends(self):
    # Without the futures of farlook.aio, which might hold a reference too.
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      for end in ('done', 'closed', 'refused'):
        with farlook.connect(server.address, timeout_ms=30_000) as client:
          values = [f'{end} as bytes'.encode(), f'{end} as text', bytearray(b'array')]
          before = [sys.getrefcount(values[i]) for i in range(3)]

          def held():
            return [sys.getrefcount(values[i]) - before[i] for i in range(3)]

          if end == 'refused':
            for i in range(3):
              with self.assertRaisesRegex(farlook.Error, 'option'):
                client._start(i, 'put', 'key', values[i], exactly_once=True)  # pylint: disable=protected-access
            self.assertEqual(held(), [0, 0, 0])
            continue
          server.pause()
          for i in range(3):
            client._start(i, 'put', 'key', values[i])  # pylint: disable=protected-access
          self.assertEqual(held(), [1, 1, 1])
          if end == 'closed':
            client.close()
          server.go_on()
          while end == 'done' and any(held()):
            client._poll()  # pylint: disable=protected-access
          self.assertEqual(held(), [0, 0, 0])

  async def test_a_stopped_server_ends_in_the_deadline(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      async with await farlook.aio.connect(server.address, timeout_ms=30_000) as c:
        await c.put('key', b'before')
        server.pause()
        late = asyncio.create_task(c.put('key', b'late', timeout_ms=20_000))
        put, get = (asyncio.create_task(call) for call in (c.put('other', b'after', timeout_ms=200), c.get('key')))
        ticks = 0

        async def tick():
          nonlocal ticks
          while True:
            ticks += 1
            await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        # Expect: operations without the server's processor continue, and so does the loop.
        self.assertEqual(await get, b'before')
        with self.assertRaises(TimeoutError) as raised:
          await asyncio.wait_for(put, 60)
        self.assertIsInstance(raised.exception, farlook.DeadlineExceeded)
        self.assertGreater(ticks, 2)
        ticking.cancel()
        # Expect: its own deadline ended it; one that waits for longer ends when the server continues.
        self.assertFalse(late.done())
        server.go_on()
        await late
        self.assertEqual(await c.get('key'), b'late')

  async def test_a_cancelled_operation_leaves_its_buffer_alone_until_its_end(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      async with await farlook.aio.connect(server.address, timeout_ms=30_000) as c:
        server.pause()
        value = bytearray(b'v' * 100_000)
        put = asyncio.create_task(c.put('key', value))
        await asyncio.sleep(0)
        put.cancel()
        await asyncio.wait([put])
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
      put, many = asyncio.create_task(c.put('key', buffer)), asyncio.create_task(c.put_many(['a', 'b'], [buffer] * 2))
      await asyncio.sleep(0.05)
      c.close()
      c.close()
      buffer.clear()
      for task in (put, many):
        with self.assertRaises(farlook.Cancelled):
          await task
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
        # Expect: once there is a server again, the same client continues with it.
        with Server(directory):
          self.assertIsNone(await c.get('key', timeout_ms=30_000))

  async def test_a_child_says_so(self):
    await self.client.put(self.key, b'value')
    child = os.fork()
    if child == 0:
      try:
        self.client._begin('get', self.key)  # pylint: disable=protected-access
      except farlook.FailedPrecondition:
        os._exit(0)
      os._exit(1)
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
      for call in (c.get(1), c.get_many(['k', 1]), c.put_many(['a', 'b'], [b'', 1]), c.put_many(['a'], []),
                   c.get_rows(keys, rows[:1]), c.fetch_add_many(['a', 'b'], [1, 'x'])):
        with self.assertRaises((TypeError, farlook.Error)):
          await call
      other = await farlook.aio.connect(ADDRESS)
      left = asyncio.create_task(other.put_many(['k', 'l'], [bytearray(100), b'v']))
      await asyncio.sleep(0)
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
    # Expect: less than a block for each of the rounds, and no memory beyond fragmentation.
    self.assertLess(min(blocks for blocks, _ in grown), 100)
    self.assertLess(min(kib for _, kib in grown), 4096)


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
