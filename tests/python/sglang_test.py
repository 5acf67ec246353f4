#!/usr/bin/env python3
"""farlook.sglang, by the contract of SGLang's storages for HiCache, with arrays of numpy as its host memory.

    sglang_test.py LIBRARY KV_SERVER

Where sglang can be imported, its own factory makes the backend too; elsewhere the test says that it did not.
"""

import dataclasses
import gc
import importlib
import importlib.util
import logging
import sys
import tempfile
import threading
import unittest
import weakref
from typing import Optional

import numpy

sys.path.insert(0, 'tests/python')
from harness import Server, Tensor, set_up  # pylint: disable=wrong-import-position

ARGUMENTS = []
ADDRESS = None
farlook = None


def setUpModule():
  global farlook, ADDRESS
  farlook, ADDRESS = set_up(ARGUMENTS)
  logging.disable(logging.WARNING)


@dataclasses.dataclass
class Config:
  """The fields of SGLang's HiCacheStorageConfig that a backend reads."""
  tp_rank: int = 0
  tp_size: int = 1
  pp_rank: int = 0
  pp_size: int = 1
  attn_cp_rank: int = 0
  attn_cp_size: int = 1
  is_mla_model: bool = False
  model_name: Optional[str] = 'org/model'
  extra_config: Optional[dict] = None


class Pool:
  """SGLang's host memory in the layout page_first: keys and values of a page are a piece each; of MLA there is one."""
  page_size = 4
  token_bytes = 5000
  layout = 'page_first'

  def __init__(self, pages=8, mla=False, token_bytes=5000):
    self.token_bytes = token_bytes
    self.array = numpy.zeros((1 if mla else 2, pages * self.page_size, token_bytes), dtype=numpy.uint8)
    self.kv_buffer = Tensor(self.array)

  def get_page_buffer_meta(self, indices):
    assert len(indices) % self.page_size == 0
    pointers = [half[index].ctypes.data for index in indices.tolist()[::self.page_size] for half in self.array]
    return pointers, [self.page_size * self.token_bytes] * len(pointers)

  def page(self, number):
    return self.array[:, number * self.page_size:(number + 1) * self.page_size]

  def fill(self, *pages):
    for number in pages:
      page = self.page(number)
      page[:] = numpy.random.default_rng(number).integers(0, 256, page.shape, dtype=numpy.uint8)


def indices(*pages):
  return numpy.concatenate([numpy.arange(page * Pool.page_size, (page + 1) * Pool.page_size) for page in pages])


class SglangTest(unittest.TestCase):

  def open(self, pool=None, address=None, timeout_ms=30_000, interface_v1=1, **config):
    # SGLang's factory finds the class by its name too, and passes two arguments by position.
    extra = {'backend_name': 'farlook', 'module_path': 'farlook.sglang', 'class_name': 'HiCache',
             **({'interface_v1': 1} if interface_v1 else {}),
             'farlook': {'address': address or ADDRESS, 'prefix': self.id(), 'timeout_ms': timeout_ms}}
    backend = getattr(importlib.import_module(extra['module_path']), extra['class_name'])(
        Config(extra_config=extra, **config), {})
    self.addCleanup(backend.close)
    if pool is not None:
      backend.register_mem_pool_host(pool)
    return backend

  def test_pages_come_back_where_they_are_wanted(self):
    for mla in (False, True):
      pool = Pool(mla=mla)
      backend = self.open(pool, is_mla_model=mla)
      pool.fill(0, 1, 2)
      self.assertEqual(backend.batch_exists(['a', 'b', 'c']), 0)
      self.assertEqual(backend.batch_set_v1(['a', 'b', 'c'], indices(0, 1, 2)), [True] * 3)
      self.assertEqual(backend.batch_exists(['a', 'b', 'c']), 3)
      self.assertEqual(backend.batch_get_v1(['c', 'a'], indices(7, 4)), [True, True])
      self.assertTrue((pool.page(7) == pool.page(2)).all())
      self.assertTrue((pool.page(4) == pool.page(0)).all())
      # Expect: no other memory was changed.
      self.assertFalse(pool.page(3).any() or pool.page(5).any() or pool.page(6).any())

  def test_hits_are_counted_up_to_the_first_gap(self):
    pool = Pool()
    backend = self.open(pool)
    pool.fill(0, 1, 2, 3)
    backend.batch_set_v1(['a', 'b', 'd', 'e'], indices(0, 1, 2, 3))
    for keys, hits in ((['a', 'b', 'c', 'd'], 2), (['c', 'a'], 0), (['d', 'e'], 2), ([], 0)):
      self.assertEqual(backend.batch_exists(keys), hits, keys)
    # Expect: a page with an evicted piece is absent.
    with farlook.connect(ADDRESS) as client:
      self.assertTrue(client.delete(backend._names('b', 2)[1]))  # pylint: disable=protected-access
    self.assertEqual(backend.batch_exists(['a', 'b', 'd']), 1)
    self.assertEqual(backend.batch_get_v1(['a', 'b', 'd'], indices(4, 5, 6)), [True, False, True])
    self.assertTrue((pool.page(6) == pool.page(2)).all())
    self.assertEqual(backend.batch_set_v1(['b'], indices(1)), [True])
    self.assertEqual(backend.batch_exists(['a', 'b', 'd']), 3)

  def test_a_page_of_another_length_is_not_there(self):
    pool, other = Pool(), Pool(token_bytes=4000)
    pool.fill(0)
    self.open(pool).batch_set_v1(['a'], indices(0))
    self.assertEqual(self.open(other).batch_get_v1(['a'], indices(1)), [False])

  def test_clear(self):
    pool, later = Pool(mla=True), Pool(mla=True)
    later.layout = 'page_first_direct'
    pool.fill(0)
    own, of_rank_11 = self.open(pool, tp_rank=1, tp_size=1), self.open(pool, tp_rank=1, tp_size=11)
    in_another_layout = self.open(later, tp_rank=1, tp_size=1)
    as_tensors = self.open(interface_v1=0, tp_rank=1, tp_size=1)
    elsewhere = self.open(pool, tp_rank=1, tp_size=1, model_name='org/model2')
    keys = [f'{i}' for i in range(600)]
    for backend in (own, of_rank_11, in_another_layout, elsewhere):
      self.assertEqual(backend.batch_set_v1(keys, indices(*[0] * 600)), [True] * 600)
    self.assertTrue(as_tensors.set('t', Tensor(pool.page(0))))
    own.clear()
    self.assertEqual((own.batch_exists(keys), in_another_layout.batch_exists(keys), as_tensors.exists('t')), (0, 0, False))
    self.assertEqual((of_rank_11.batch_exists(keys), elsewhere.batch_exists(keys)), (600, 600))
    self.assertEqual(own.batch_set_v1(keys[:1], indices(0)), [True])
    # A server that is gone is no error.
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
      with Server(directory) as server:
        backend = self.open(pool, address=server.address, timeout_ms=500)
      backend.clear()

  def test_ranks_have_pages_of_their_own(self):
    pool = Pool(mla=True)
    pool.fill(0)
    self.open(pool, tp_rank=0, tp_size=2).batch_set_v1(['a'], indices(0))
    for other, hits in ((dict(tp_rank=0, tp_size=2), 1), (dict(tp_rank=1, tp_size=2), 0), (dict(tp_size=4), 0),
                        (dict(tp_size=2, pp_rank=1, pp_size=2), 0), (dict(tp_size=2, model_name='other'), 0),
                        (dict(tp_size=2, attn_cp_size=2), 0), (dict(tp_size=2, is_mla_model=True), 0)):
      self.assertEqual(self.open(pool, **other).batch_exists(['a']), hits, other)
    # Expect: of models with latent attention all ranks have the same.
    self.open(pool, tp_rank=0, tp_size=2, is_mla_model=True).batch_set_v1(['a'], indices(0))
    self.assertEqual(self.open(pool, tp_rank=1, tp_size=2, is_mla_model=True).batch_exists(['a']), 1)

  def test_what_is_there_is_not_written_again(self):
    pool = Pool()
    backend = self.open(pool)
    pool.fill(0, 1)
    backend.batch_set_v1(['a'], indices(0))
    self.assertEqual(backend.batch_set_v1(['a', 'b'], indices(1, 1)), [True, True])
    backend.batch_get_v1(['a'], indices(2))
    self.assertTrue((pool.page(2) == pool.page(0)).all())

  def test_a_full_server(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory, memory='32m') as server:
      pool = Pool(pages=64, token_bytes=100_000)
      backend = self.open(pool, server.address, timeout_ms=2_000)
      keys = [f'page{i}' for i in range(64)]
      written = backend.batch_set_v1(keys, indices(*range(64)))
      self.assertIn(True, written)
      self.assertIn(False, written)
      # Expect: a page is there as a whole, or not at all.
      self.assertEqual([backend.batch_exists([key]) == 1 for key in keys], written)
      with farlook.connect(server.address) as client:
        names = [name for key in keys for name in backend._names(key, 2)]  # pylint: disable=protected-access
        self.assertEqual(client.exists_many(names), [each for each in written for _ in range(2)])
      backend.close()

  def test_a_server_that_stands_still_and_one_that_comes_back(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory:
      pool = Pool()
      pool.fill(0)
      with Server(directory) as server:
        backend = self.open(pool, server.address, timeout_ms=300)
        self.assertEqual(backend.batch_set_v1(['a'], indices(0)), [True])
        server.pause()
        self.assertEqual(backend.batch_set_v1(['b'], indices(0)), [False])
        # Expect: reads do not need its processor.
        self.assertEqual(backend.batch_exists(['a']), 1)
        self.assertEqual(backend.batch_get_v1(['a'], indices(1)), [True])
        self.assertTrue((pool.page(1) == pool.page(0)).all())
        server.go_on()
      self.assertEqual(backend.batch_exists(['a']), 0)
      self.assertEqual(backend.batch_get_v1(['a'], indices(2)), [False])
      self.assertEqual(backend.batch_set_v1(['a'], indices(0)), [False])
      with Server(directory):
        while backend.batch_set_v1(['c'], indices(0)) != [True]:
          pass
        while backend.batch_exists(['c']) != 1:
          pass
        self.assertEqual(backend.batch_exists(['a']), 0)
      backend.close()

  def test_tensors_of_their_own(self):
    backend = self.open()
    values = [Tensor(numpy.arange(3000, dtype=numpy.float32) * i) for i in range(3)]
    self.assertTrue(backend.set('a', values[0]))
    self.assertTrue(backend.batch_set(['b', 'c'], values[1:]))
    self.assertFalse(backend.set('k' * 2000, values[0]))
    self.assertEqual((backend.exists('a'), backend.exists('d'), backend.batch_exists(['a', 'b', 'd'])), (True, False, 2))
    room = [Tensor(numpy.zeros(3000, dtype=numpy.float32)) for _ in range(3)]
    found = backend.batch_get(['c', 'nothing', 'b'], room)
    self.assertEqual([each is not None for each in found], [True, False, True])
    self.assertTrue((found[0].array == values[2].array).all() and (found[2].array == values[1].array).all())
    self.assertIsNone(backend.get('a', Tensor(numpy.zeros(2999, dtype=numpy.float32))))

  def test_pages_as_tensors_are_found_after_the_pool_was_registered(self):
    # SGLang's controller registers its pool, whichever interface it uses afterwards.
    backend = self.open(Pool(), interface_v1=0)
    values = [Tensor(numpy.arange(3000, dtype=numpy.float32) * i) for i in range(2)]
    self.assertTrue(backend.batch_set(['a', 'b'], values))
    self.assertEqual(backend.batch_exists(['a', 'b', 'c']), 2)
    self.assertTrue(backend.exists('b'))
    room = Tensor(numpy.zeros(3000, dtype=numpy.float32))
    self.assertIs(backend.get('b', room), room)
    self.assertTrue((room.array == values[1].array).all())

  def test_pools_of_other_layouts_have_pages_of_their_own(self):
    pool, other = Pool(mla=True), Pool(mla=True)
    other.layout = 'page_first_direct'
    pool.fill(0)
    self.open(pool, is_mla_model=True).batch_set_v1(['a'], indices(0))
    self.assertEqual(self.open(other, is_mla_model=True).batch_exists(['a']), 0)
    self.assertEqual(self.open(pool, is_mla_model=True).batch_exists(['a']), 1)

  def test_threads(self):
    pool = Pool(pages=16)
    backend = self.open(pool)
    pool.fill(*range(8))
    failures = []

    def work(thread):
      for i in range(20):
        key = f'{thread}-{i}'
        if not (backend.batch_set_v1([key], indices(thread)) == [True] and backend.batch_exists([key]) == 1
                and backend.batch_get_v1([key], indices(8 + thread)) == [True]
                and (pool.page(8 + thread) == pool.page(thread)).all()):
          failures.append(key)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    self.assertEqual(failures, [])

  def test_the_pool_is_registered(self):
    pool = Pool()
    backend = self.open(pool)
    for lane in (backend._gets, backend._puts):  # pylint: disable=protected-access
      worker = lane._worker  # pylint: disable=protected-access
      for _ in range(2):
        with self.assertRaises(farlook.AlreadyExists):
          worker._client.register(pool.array)  # pylint: disable=protected-access
        # Expect: a client that replaces a broken one registers it too.
        worker._client.close()  # pylint: disable=protected-access
        self.assertIsInstance(worker.run([('exists', 'a')])[0], farlook.Error)
        self.assertEqual(worker.run([('exists', 'a')]), [False])
    # Expect: a pool that cannot be registered is used anyway.
    backend.register_mem_pool_host(pool)
    pool.fill(0)
    self.assertEqual(backend.batch_set_v1(['a'], indices(0)), [True])

  def test_registered_memory_stays_with_its_owner(self):
    pool = Pool()
    backend = self.open(pool)
    tensor = weakref.ref(pool.kv_buffer)
    pool.kv_buffer = None
    gc.collect()
    self.assertIsNotNone(tensor())
    backend.close()

  def test_an_interrupt_leaves_nothing_under_way(self):
    with tempfile.TemporaryDirectory(dir='/tmp') as directory, Server(directory) as server:
      backend = self.open(address=server.address)
      worker = backend._puts._worker  # pylint: disable=protected-access
      value = bytearray(100_000)

      class Interrupted:

        def poll(self, wait_ms):
          raise KeyboardInterrupt

      server.pause()
      worker._poller = Interrupted()  # pylint: disable=protected-access
      with self.assertRaises(KeyboardInterrupt):
        worker.run([('put', 'key', value)])
      value.clear()  # Expect: no operation uses it.
      server.go_on()
      self.assertIn(worker.run([('exists', 'other')]), ([False], [None]))

  def test_wrong_configs(self):
    module = importlib.import_module('farlook.sglang')
    for wrong in (None, {}, {'farlook': {}}):
      with self.assertRaisesRegex(ValueError, 'address'):
        module.HiCache(Config(extra_config=wrong), {})
    with self.assertRaises(farlook.Unavailable):
      self.open(address='shm:///tmp/farlook-no-such-server')
    backend = self.open(Pool())
    with self.assertRaisesRegex(ValueError, 'pieces'):
      backend.batch_get_v1(['a', 'b'], indices(0))

  def test_the_factory_of_sglang_itself(self):
    if importlib.util.find_spec('sglang') is None:
      print('sglang is not installed here: its own factory did NOT make the backend', flush=True)
      return
    from sglang.srt.mem_cache.storage import backend_factory  # pylint: disable=import-outside-toplevel
    extra = {'backend_name': 'farlook', 'module_path': 'farlook.sglang', 'class_name': 'HiCache', 'interface_v1': 1,
             'farlook': {'address': ADDRESS, 'prefix': self.id()}}
    pool = Pool()
    backend = backend_factory.StorageBackendFactory.create_backend('dynamic', Config(extra_config=extra), pool)
    self.addCleanup(backend.close)
    backend.register_mem_pool_host(pool)
    self.assertEqual(backend.batch_exists(['a']), 0)


if __name__ == '__main__':
  ARGUMENTS = sys.argv[1:3]
  del sys.argv[1:3]
  unittest.main()
