"""A connector for LMCache, which keeps KV caches of language models: its plug-in types "plugin" and "native_plugin" load it.

    {"type": "plugin", "module_path": "farlook.lmcache", "class_name": "Adapter",
     "adapter_params": {"address": "rdma://10.0.0.1:7471", "num_workers": 2}}

docs/integrations.md shows its place. "native_plugin" loads a Connector; an Adapter is LMCache's own adapter over a
Connector. It knows LMCache's memory (L1), so that over rdma values are not copied. Batches are distributed among
threads, each with its own client. While these copy values between LMCache's memory and the server's, the interpreter
runs other threads. LMCache is not needed to use a Connector.
"""

import collections
import ctypes
import functools
import importlib
import logging
import os
import queue
import threading
from typing import Any, Optional

from farlook import DeadlineExceeded, Error, FailedPrecondition, Unknown
from farlook._worker import Worker

__all__ = ["Connector"]

_log = logging.getLogger(__name__)

# Functions of os that mypy does not know.
_os: Any = os

# (future id, whether all succeeded, the error, for each key whether it was present)
Completion = tuple[int, bool, str, Optional[list[bool]]]


class _Batch:
    """A batch, of which each worker runs a part; the last one to end completes it."""

    def __init__(self, future: int, kind: str, keys: list[str], views: Optional[list[memoryview]], parts: int) -> None:
        self.future = future
        self.kind = kind
        self.keys = keys
        self.views = views
        self.outcomes: list[Any] = [None] * len(keys)  # results, or Errors
        self.parts_left = parts

    def completion(self) -> Completion:
        errors = [outcome for outcome in self.outcomes if isinstance(outcome, Error)]
        there: Optional[list[bool]] = None
        if self.kind == "get_into":  # None: absent. A value of another length is not the requested one
            assert self.views is not None
            there = [not isinstance(outcome, Error) and outcome == view.nbytes
                     for outcome, view in zip(self.outcomes, self.views)]
        elif self.kind != "put":
            there = [outcome is True for outcome in self.outcomes]
        return self.future, not errors, str(errors[0]) if errors else "", there


class Connector:
    """LMCache's native connector over Farlook.

    Thread safety: submit_batch_*() and drain_completions() may be called by any thread. Views must not change until the
    batch is complete. A batch of puts that fails in part leaves nothing behind: the values that were written are
    deleted, in the time that is left of timeout_ms. A batch reports its errors with its completion.

    """

    def __init__(self, address: str, num_workers: int = 2, timeout_ms: int = 5_000, **options: Any) -> None:
        if num_workers < 1:
            raise ValueError("num_workers is at least 1")
        self._lock = threading.Lock()
        self._next_future = 0
        self._completions: collections.deque[Completion] = collections.deque()
        self._work: queue.SimpleQueue[Optional[tuple[_Batch, int, int]]] = queue.SimpleQueue()
        self._closed = False
        self._process = os.getpid()
        workers: list[Worker] = []
        try:
            for _ in range(num_workers):
                workers.append(Worker(address, {"timeout_ms": timeout_ms, **options}))
        except BaseException:
            for worker in workers:
                worker.close()
            raise
        self._workers = workers
        self._fd = _os.eventfd(0, _os.EFD_NONBLOCK | _os.EFD_CLOEXEC)
        self._threads = [threading.Thread(target=self._serve, args=(worker,), name="farlook-lmcache", daemon=True)
                         for worker in workers]
        for thread in self._threads:
            thread.start()

    def event_fd(self) -> int:
        """Returns a descriptor that is readable while there are completions."""
        return self._fd

    def register(self, memory: Any) -> None:
        """Registers memory that values are read into, and pulled from, without a copy if the transport can (rdma),
        until close(). Raises an Error if it cannot be registered: then values are copied."""
        for worker in self._workers:
            worker.register(memory)

    def submit_batch_get(self, keys: list[str], memoryviews: list[memoryview]) -> int:
        """Reads values into views of their lengths; the completion says for which keys. Other views are undefined."""
        return self._submit("get_into", keys, memoryviews)

    def submit_batch_set(self, keys: list[str], memoryviews: list[memoryview]) -> int:
        return self._submit("put", keys, memoryviews)

    def submit_batch_exists(self, keys: list[str]) -> int:
        return self._submit("exists", keys, None)

    def submit_batch_delete(self, keys: list[str]) -> int:
        return self._submit("delete", keys, None)

    def drain_completions(self) -> list[Completion]:
        """Returns all batches that were completed since the last call: (future id, ok, error, results)."""
        with self._lock:
            if not self._closed and self._completions:
                _os.eventfd_read(self._fd)
            drained = list(self._completions)
            self._completions.clear()
        return drained

    def close(self) -> None:
        """Waits for operations in flight. Batches that were not begun complete as failed. Calling it again does
        nothing."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        os.close(self._fd)

    def _submit(self, kind: str, keys: list[str], views: Optional[list[memoryview]]) -> int:
        keys = list(keys)
        if views is not None:
            views = [view if isinstance(view, memoryview) else memoryview(view) for view in views]
            if len(views) != len(keys):
                raise ValueError("there are not as many views as keys")
        if not keys:
            raise ValueError("a batch has at least one key")
        if self._process != os.getpid():
            raise FailedPrecondition("the connector is of this process' parent")
        share = -(-len(keys) // len(self._threads))
        starts = range(0, len(keys), share)
        with self._lock:
            if self._closed:
                raise FailedPrecondition("the connector is closed")
            self._next_future += 1
            batch = _Batch(self._next_future, kind, keys, views, len(starts))
            for start in starts:
                self._work.put((batch, start, min(start + share, len(keys))))
        return batch.future

    def _serve(self, worker: Worker) -> None:
        while (part := self._work.get()) is not None:
            batch, start, end = part
            if self._closed:
                batch.outcomes[start:end] = [FailedPrecondition("the connector was closed")] * (end - start)
            else:
                batch.outcomes[start:end] = worker.run(
                    [(batch.kind, batch.keys[i]) if batch.views is None else (batch.kind, batch.keys[i], batch.views[i])
                     for i in range(start, end)])
            with self._lock:
                batch.parts_left -= 1
                last = batch.parts_left == 0
            if last:
                self._complete(batch, worker)
            del part, batch  # and the views, while this waits
        worker.close()

    def _complete(self, batch: _Batch, worker: Worker) -> None:
        completion = batch.completion()
        if batch.kind == "put" and not completion[1]:
            worker.run_in_time_left(list(_undo(batch)))
        batch.views = None
        with self._lock:
            self._completions.append(completion)
            # Once for all that are drained together.
            if len(self._completions) == 1 and not self._closed:
                _os.eventfd_write(self._fd, 1)


def _undo(batch: _Batch) -> Any:
    """Yields the calls that delete the part of a batch that was written, or may have been."""
    for key, outcome in zip(batch.keys, batch.outcomes):
        if isinstance(outcome, (DeadlineExceeded, Unknown)):
            yield "delete", key
        elif not isinstance(outcome, Error):
            yield "delete", key, {"if_version": outcome}


# ---- LMCache's own adapter, over a Connector that knows its memory.


def _memory_of(description: Any) -> Any:
    """Returns the part of LMCache's memory that does not move: if memory grows, the part that exists from the
    beginning."""
    stable = getattr(description, "stable_registration_size", None)
    return (ctypes.c_char * (description.size if stable is None else stable)).from_address(description.ptr)


@functools.cache
def _adapter() -> Any:
    base: Any = importlib.import_module(
        "lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter").NativeConnectorL2Adapter

    def init(self: Any, params: dict[str, Any], l1_memory_desc: Any = None) -> None:
        connector = Connector(**params)
        try:
            if l1_memory_desc is not None:
                connector.register(_memory_of(l1_memory_desc))
        except Error as error:
            _log.warning("farlook: LMCache's memory is not registered, so over rdma values are copied: %s", error)
        base.__init__(self, connector, type_name="farlook")

    doc = "LMCache's adapter for native connectors over Farlook. `params` are Connector's."
    return type("Adapter", (base,), {"__init__": init, "__doc__": doc})


def __getattr__(name: str) -> Any:
    # Not at import: LMCache imports this module, and a Connector works without LMCache.
    if name == "Adapter":
        return _adapter()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
