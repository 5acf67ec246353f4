"""A storage for SGLang's HiCache, the hierarchical cache of KV pages: its backend "dynamic" loads it.

    --hicache-storage-backend dynamic --hicache-mem-layout page_first
    --hicache-storage-backend-extra-config '{"backend_name": "farlook", "module_path": "farlook.sglang",
        "class_name": "HiCache", "interface_v1": 1, "farlook": {"address": "rdma://10.0.0.1:7471"}}'

docs/integrations.md shows its place. Pages are read into SGLang's host memory, and written from it, in place.
SGLang is not needed to import it.
"""

import array
import ctypes
import importlib
import logging
import threading
from typing import Any, Callable, Optional

from farlook import AlreadyExists, DeadlineExceeded, Error, Unknown, connect
from farlook._worker import Worker

__all__ = ["HiCache"]

_DELETES = 256  # at once, in clear()

_log = logging.getLogger(__name__)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


_sglang = _imported("sglang.srt.mem_cache.hicache_storage")
# SGLang requires that backends inherit from this.
_Storage: Any = _sglang.HiCacheStorage if _sglang is not None else object


def _memory(address: int, size: int) -> Any:
    return (ctypes.c_char * size).from_address(address)


def _memory_of(tensor: Any) -> Any:
    """Returns the bytes of a tensor on the CPU, which must be contiguous; numpy lacks some types of torch."""
    memory = _memory(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    memory.tensor = tensor  # lives as long as anything refers to its bytes
    return memory


class _Lane:
    """A worker, and a lock: reads of one thread do not wait for another one's writes."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._worker = Worker(address, options)
        self._lock = threading.Lock()

    def run(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        with self._lock:
            return self._run(calls)

    def put(self, calls: list[tuple[Any, ...]], undo: Callable[[list[Any]], list[tuple[Any, ...]]]) -> list[Any]:
        """Like run(); then runs undo(outcomes) in the time that is left."""
        with self._lock:
            outcomes = self._run(calls)
            self._worker.run_in_time_left(undo(outcomes))
        return outcomes

    def _run(self, calls: list[tuple[Any, ...]]) -> list[Any]:
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

    With "interface_v1" a page is stored as the pieces that get_page_buffer_meta() lists (keys and values, in the layout
    page_first); without it SGLang passes each page as one tensor, which is stored as one value. batch_exists() looks
    for what the configured interface writes. Names contain the pool's layout: engines whose pages differ share none. No
    call raises because of the server. A page that cannot be read counts as absent. A page that cannot be written is
    reported as not written, and its pieces are deleted.

    Thread safety: existence, reads and writes have a client each, which threads use in turn.

    """

    def __init__(self, storage_config: Any, kwargs: Optional[dict[str, Any]] = None) -> None:
        extra = storage_config.extra_config or {}
        options = {**(extra.get("farlook") or {}), **((kwargs or {}).get("farlook") or {})}
        if "address" not in options:
            raise ValueError('the extra config has to have {"farlook": {"address": ...}}')
        address, prefix = options.pop("address"), options.pop("prefix", "")
        options.setdefault("timeout_ms", 5_000)
        self._address, self._options = address, options
        suffix = f"@{prefix}@{storage_config.model_name or ''}@{storage_config.pp_rank}/{storage_config.pp_size}"
        # In models with latent attention all ranks have the same pages.
        if not storage_config.is_mla_model:
            suffix += f"@{storage_config.tp_rank}/{storage_config.tp_size}"
        if getattr(storage_config, "attn_cp_size", 1) > 1:
            suffix += f"@cp{storage_config.attn_cp_rank}/{storage_config.attn_cp_size}"
        self._suffix = self._suffix_of_rank = suffix
        # SGLang's controller uses the same member to choose between batch_set_v1() and batch_set().
        self._in_pieces = bool(extra.get("interface_v1", 0))
        self._pieces = 1  # of a page in batch_get_v1() and batch_set_v1()
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
        self._suffix = f"{self._suffix_of_rank}@{getattr(mem_pool_host, 'layout', '')}"
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

    # ---- Pages in their place in the host's memory ("interface_v1").

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """Returns how many of the first keys are present, without a gap."""
        pieces = self._pieces if self._in_pieces else 1
        outcomes = self._exists.run([("exists", name) for key in keys for name in self._names(key, pieces)])
        there = [outcome is True for outcome in outcomes]
        return (there.index(False) if False in there else len(there)) // pieces

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Reads each page to its indices; returns which are present. The memory of others is undefined."""
        calls = self._calls("get_into", keys, host_indices)
        lengths = [ctypes.sizeof(memory) for _, _, memory, *_ in calls]
        good = [outcome == length for outcome, length in zip(self._gets.run(calls), lengths)]
        return self._pages(good, len(keys))

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Writes each page that is not present; returns which are present now."""
        return self._put(self._calls("put", keys, host_indices, {"if_absent": True}), len(keys))

    # ---- Pages as separate tensors, which SGLang copies.

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self.batch_get([key], [target_location])[0]

    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any]:
        """Reads each value into a tensor of its length, and returns the tensor; None: absent."""
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

    def clear(self) -> None:
        """Deletes all pages of this model, rank and prefix, in all layouts: a scan of the whole table finds them.

        Other engines with the same config lose them too. Pages that are written meanwhile may stay. If the server
        fails, the log says so, and the rest stays.
        """
        try:
            with connect(self._address, **self._options) as client:
                names: list[bytes] = []
                for item in client.scan_items():
                    if self._is_own(item.key):
                        names.append(item.key)
                    if len(names) == _DELETES:
                        client.delete_many(names)
                        names.clear()
                client.delete_many(names)
        except Error as error:
            _log.warning("farlook: not all pages were deleted: %s", error)

    # ---- Internals.

    def _is_own(self, name: bytes) -> bool:
        # KEY SUFFIX_OF_RANK [@LAYOUT] [#PIECE]: a key of SGLang is a hash, without "@".
        rest = name[name.find(b"@"):]
        own = self._suffix_of_rank.encode()
        return rest.startswith(own) and rest[len(own):len(own) + 1] in (b"", b"@", b"#")

    def _names(self, key: str, pieces: int) -> list[str]:
        name = key + self._suffix
        return [name] if pieces == 1 else [f"{name}#{piece}" for piece in range(pieces)]

    def _calls(self, kind: str, keys: list[str], host_indices: Any, *options: dict[str, Any]) -> list[tuple[Any, ...]]:
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        if len(pointers) != len(keys) * self._pieces:
            raise ValueError(f"{len(keys)} pages have {len(pointers)} pieces, and not {self._pieces} each")
        names = [name for key in keys for name in self._names(key, self._pieces)]
        return [(kind, name, _memory(pointer, size), *options) for name, pointer, size in zip(names, pointers, sizes)]

    def _pages(self, good: list[bool], count: int) -> list[bool]:
        each = len(good) // max(1, count)
        return [all(good[each * page:each * (page + 1)]) for page in range(count)]

    def _put(self, calls: list[tuple[Any, ...]], count: int) -> list[bool]:
        return self._written(self._puts.put(calls, lambda outcomes: self._undo(calls, outcomes, count)), count)

    def _written(self, outcomes: list[Any], count: int) -> list[bool]:
        # AlreadyExists: another engine wrote the piece, from the same tokens.
        return self._pages([isinstance(outcome, AlreadyExists) or not isinstance(outcome, Error) for outcome in outcomes],
                           count)

    def _undo(self, calls: list[tuple[Any, ...]], outcomes: list[Any], count: int) -> list[tuple[Any, ...]]:
        """Returns the calls that delete the pieces of pages that were not written as a whole."""
        pages = self._written(outcomes, count)
        undo: list[tuple[Any, ...]] = []
        for i, outcome in enumerate(outcomes):
            if pages[i * count // len(outcomes)] or isinstance(outcome, AlreadyExists):
                continue
            if not isinstance(outcome, Error):
                undo.append(("delete", calls[i][1], {"if_version": outcome}))
            elif isinstance(outcome, (DeadlineExceeded, Unknown)):
                undo.append(("delete", calls[i][1]))
        return undo
