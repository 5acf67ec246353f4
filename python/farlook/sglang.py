"""A storage for SGLang's HiCache, the hierarchical cache of KV pages: its backend "dynamic" loads it.

    --hicache-storage-backend dynamic --hicache-mem-layout page_first
    --hicache-storage-backend-extra-config '{"backend_name": "farlook", "module_path": "farlook.sglang",
        "class_name": "HiCache", "interface_v1": 1, "farlook": {"address": "rdma://10.0.0.1:7471"}}'

docs/integrations.md shows where it sits. Pages are read into SGLang's host memory, and written from it, where they lie.
SGLang is not needed to import it.
"""

import array
import ctypes
import importlib
import logging
import threading
from typing import Any, Optional

from farlook import AlreadyExists, DeadlineExceeded, Error, Unknown
from farlook._worker import Worker

__all__ = ["HiCache"]

_log = logging.getLogger(__name__)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


_sglang = _imported("sglang.srt.mem_cache.hicache_storage")
# SGLang insists that backends inherit from this.
_Storage: Any = _sglang.HiCacheStorage if _sglang is not None else object


def _memory(address: int, size: int) -> Any:
    return (ctypes.c_char * size).from_address(address)


def _memory_of(tensor: Any) -> Any:
    """The bytes of a tensor on the CPU, which must be contiguous; numpy knows not all types that torch has."""
    return _memory(tensor.data_ptr(), tensor.numel() * tensor.element_size())


class _Lane:
    """A worker, and a lock: reads of one thread do not wait for another one's writes."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._worker = Worker(address, options)
        self._lock = threading.Lock()

    def run(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        with self._lock:
            outcomes = self._worker.run(calls)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Error) and not isinstance(outcome, AlreadyExists)]
        if errors:
            _log.warning("farlook: %d of %d operations failed: %s", len(errors), len(outcomes), errors[0])
        return outcomes

    def register(self, memory: Any) -> None:
        with self._lock:
            self._worker.register(memory)

    def close(self) -> None:
        with self._lock:
            self._worker.close()


class HiCache(_Storage):
    """SGLang's HiCacheStorage over Farlook.

    A page is as many values as get_page_buffer_meta() says that it has pieces (keys and values, in the layout page_first).
    No call raises for what a server does: pages that cannot be read are not there, and those that cannot be written are
    not counted; what was written of them is deleted.

    Thread safety: existence, reads and writes have a client each, which threads take in turns.
    """

    def __init__(self, storage_config: Any, kwargs: Optional[dict[str, Any]] = None) -> None:
        options = {**((storage_config.extra_config or {}).get("farlook") or {}), **((kwargs or {}).get("farlook") or {})}
        if "address" not in options:
            raise ValueError('the extra config has to have {"farlook": {"address": ...}}')
        address, prefix = options.pop("address"), options.pop("prefix", "")
        options.setdefault("timeout_ms", 5_000)
        self._suffix = f"@{prefix}@{storage_config.model_name or ''}@{storage_config.pp_rank}/{storage_config.pp_size}"
        # Of models with latent attention each rank has the same.
        if not storage_config.is_mla_model:
            self._suffix += f"@{storage_config.tp_rank}/{storage_config.tp_size}"
        if getattr(storage_config, "attn_cp_size", 1) > 1:
            self._suffix += f"@cp{storage_config.attn_cp_rank}/{storage_config.attn_cp_size}"
        self._pieces = 1  # of a page
        self._lanes: list[_Lane] = []
        try:
            for _ in range(3):
                self._lanes.append(_Lane(address, options))
        except BaseException:
            self.close()
            raise
        self._exists, self._gets, self._puts = self._lanes

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self.mem_pool_host = mem_pool_host
        torch = _imported("torch")
        size = mem_pool_host.page_size
        page = torch.arange(size) if torch is not None else array.array("q", range(size))
        self._pieces = len(mem_pool_host.get_page_buffer_meta(page)[0])
        # One tensor, or one for each layer.
        tensors = mem_pool_host.kv_buffer
        for tensor in tensors if isinstance(tensors, (list, tuple)) else [tensors]:
            for lane in (self._gets, self._puts):
                try:
                    lane.register(_memory_of(tensor))
                except Error as error:
                    _log.warning("farlook: the pool's memory is not registered, so over rdma pages are copied: %s", error)

    # ---- Pages, where they lie in the host's memory ("interface_v1").

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many of the first keys are there, without a gap."""
        outcomes = self._exists.run([("exists", name) for key in keys for name in self._names(key)])
        there = [outcome is True for outcome in outcomes]
        return (there.index(False) if False in there else len(there)) // self._pieces

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Reads each page to where its indices say; which are there. Of others the memory means nothing."""
        calls = self._calls("get_into", keys, host_indices)
        lengths = [ctypes.sizeof(memory) for _, _, memory, *_ in calls]
        good = [outcome == length for outcome, length in zip(self._gets.run(calls), lengths)]
        return self._pages(good, len(keys))

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Writes each page that is not there yet; which are there now."""
        return self._put(self._calls("put", keys, host_indices, {"if_absent": True}), len(keys))

    # ---- Pages as tensors of their own, which SGLang copies.

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self.batch_get([key], [target_location])[0]

    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any]:
        """Reads each value into a tensor of its length, and returns that; None: it is not there."""
        calls: list[tuple[Any, ...]] = [("get_into", key + self._suffix, _memory_of(tensor))
                                        for key, tensor in zip(keys, target_locations)]
        return [tensor if outcome == ctypes.sizeof(call[2]) else None
                for tensor, outcome, call in zip(target_locations, self._gets.run(calls), calls)]

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self.batch_set([key], [value])

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        return all(self._put([("put", key + self._suffix, _memory_of(value), {"if_absent": True})
                              for key, value in zip(keys, values)], len(keys)))

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    # ---- What goes on beneath.

    def _names(self, key: str) -> list[str]:
        name = key + self._suffix
        return [name] if self._pieces == 1 else [f"{name}#{piece}" for piece in range(self._pieces)]

    def _calls(self, kind: str, keys: list[str], host_indices: Any, *options: dict[str, Any]) -> list[tuple[Any, ...]]:
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        if len(pointers) != len(keys) * self._pieces:
            raise ValueError(f"{len(keys)} pages have {len(pointers)} pieces, and not {self._pieces} each")
        names = [name for key in keys for name in self._names(key)]
        return [(kind, name, _memory(pointer, size), *options) for name, pointer, size in zip(names, pointers, sizes)]

    def _pages(self, good: list[bool], count: int) -> list[bool]:
        each = len(good) // max(1, count)
        return [all(good[each * page:each * (page + 1)]) for page in range(count)]

    def _put(self, calls: list[tuple[Any, ...]], count: int) -> list[bool]:
        outcomes = self._puts.run(calls)
        # Another one wrote it, from the same tokens.
        good = [isinstance(outcome, AlreadyExists) or not isinstance(outcome, Error) for outcome in outcomes]
        pages = self._pages(good, count)
        undo: list[tuple[Any, ...]] = []
        for i, outcome in enumerate(outcomes):
            if pages[i * count // len(outcomes)] or isinstance(outcome, AlreadyExists):
                continue
            if not isinstance(outcome, Error):
                undo.append(("delete", calls[i][1], {"if_version": outcome}))
            elif isinstance(outcome, (DeadlineExceeded, Unknown)):
                undo.append(("delete", calls[i][1]))
        if undo:
            self._puts.run(undo)
        return pages
