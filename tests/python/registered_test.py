#!/usr/bin/env python3
"""Memory that is registered, over rdma: values are read into it, and pulled from it, without a copy.

registered_test.py LIBRARY KV_SERVER

If a value is copied, the client takes memory for it: with values of this length a chunk, which stays. Operations take
less, and only the first time.
"""

import os
import sys
import tempfile
import types
import unittest

import numpy

sys.path.insert(0, 'tests/python')
from harness import Server, Tensor, set_up  # pylint: disable=wrong-import-position

ARGUMENTS = []
ADDRESS = 'rdma://' + os.environ['FARLOOK_RDMA_ADDRESS'] + ':7477'
VALUE = 40_000
CHUNK = 65_536
PAGE = 4  # tokens
farlook = None


def setUpModule():
  global farlook
  farlook, _ = set_up(ARGUMENTS)
  scratch = tempfile.TemporaryDirectory(dir='/tmp')
  unittest.addModuleCleanup(scratch.cleanup)
  server = Server(scratch.name, address=ADDRESS)
  unittest.addModuleCleanup(server.stop)


class Pool:
  """SGLang's host memory, of which a page is one piece (MLA). With `layers`: a tensor for each layer."""
  page_size = PAGE

  def __init__(self, layers=0):
    self.array = numpy.arange(8 * VALUE, dtype=numpy.uint32).astype(numpy.uint8).reshape(8, VALUE)
    self.kv_buffer = [Tensor(half) for half in numpy.split(self.array, layers)] if layers else Tensor(self.array)

  def get_page_buffer_meta(self, indices):
    pages = [index // PAGE for index in list(indices)[::PAGE]]
    return [self.array[page].ctypes.data for page in pages], [VALUE] * len(pages)


def tokens(*pages):
  return numpy.concatenate([numpy.arange(page * PAGE, (page + 1) * PAGE) for page in pages])


class RegisteredTest(unittest.TestCase):

  def taken(self, clients, call):
    """Returns the additional memory of the clients after a call."""
    before = sum(client.memory_bytes() for client in clients)
    call()
    return sum(client.memory_bytes() for client in clients) - before

  def test_the_client(self):
    with farlook.connect(ADDRESS, timeout_ms=30_000) as c:
      rows = numpy.zeros((4, VALUE), dtype=numpy.uint8)
      rows[0] = numpy.arange(VALUE) % 251
      c.register(rows)
      self.assertLess(self.taken([c], lambda: c.put('key', rows[0])), CHUNK)
      self.assertLess(self.taken([c], lambda: c.get_into('key', rows[1])), CHUNK)
      self.assertTrue((rows[1] == rows[0]).all() and not rows[2:].any())
      self.assertLess(self.taken([c], lambda: c.get_rows(['key', 'key'], rows[2:])), CHUNK)
      self.assertTrue((rows == rows[0]).all())
      # Expect: a copy where it is not registered, which this test detects.
      c.unregister(rows)
      rows[1:] = 0
      self.assertGreaterEqual(self.taken([c], lambda: c.get_into('key', rows[1])), CHUNK)
      self.assertTrue((rows[1] == rows[0]).all())
      self.assertGreaterEqual(self.taken([c], lambda: c.put('key', rows[0])), CHUNK)

  def sglang(self, pool):
    import farlook.sglang  # pylint: disable=import-outside-toplevel,redefined-outer-name
    config = types.SimpleNamespace(
        tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, is_mla_model=True, model_name='model',
        extra_config={'farlook': {'address': ADDRESS, 'prefix': self.id(), 'timeout_ms': 30_000}})
    backend = farlook.sglang.HiCache(config, {})
    self.addCleanup(backend.close)
    backend.register_mem_pool_host(pool)
    return backend

  def test_sglang(self):
    for pool in (Pool(), Pool(layers=2)):
      backend = self.sglang(pool)
      clients = [lane._worker._client for lane in (backend._gets, backend._puts)]  # pylint: disable=protected-access
      pool.array[4:] = 0
      self.assertLess(self.taken(clients, lambda: backend.batch_set_v1(['a', 'b'], tokens(0, 1))), CHUNK)
      self.assertLess(self.taken(clients, lambda: backend.batch_get_v1(['b', 'a'], tokens(6, 7))), CHUNK)
      self.assertTrue((pool.array[6] == pool.array[1]).all() and (pool.array[7] == pool.array[0]).all())
      self.assertFalse(pool.array[4:6].any())

  def test_lmcache(self):
    import farlook.lmcache  # pylint: disable=import-outside-toplevel,redefined-outer-name
    arena = numpy.zeros((4, VALUE), dtype=numpy.uint8)
    arena[0] = numpy.arange(VALUE) % 249
    connector = farlook.lmcache.Connector(ADDRESS, num_workers=1, timeout_ms=30_000)
    self.addCleanup(connector.close)
    connector.register(arena)
    clients = [worker._client for worker in connector._workers]  # pylint: disable=protected-access

    def wait(_):
      while not (done := connector.drain_completions()):
        pass
      self.assertTrue(done[0][1], done)

    self.assertLess(self.taken(clients, lambda: wait(connector.submit_batch_set(['l'], [memoryview(arena[0])]))), CHUNK)
    self.assertLess(self.taken(clients, lambda: wait(connector.submit_batch_get(['l'], [memoryview(arena[2])]))), CHUNK)
    self.assertTrue((arena[2] == arena[0]).all() and not arena[1].any() and not arena[3].any())
    other = numpy.zeros(VALUE, dtype=numpy.uint8)
    self.assertGreaterEqual(
        self.taken(clients, lambda: wait(connector.submit_batch_get(['l'], [memoryview(other)]))), CHUNK)


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
