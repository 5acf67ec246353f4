"""A connector for LMCache, which keeps KV caches of language models: its plug-in types "plugin" and "native_plugin" load it.

    {"type": "plugin", "module_path": "farlook.lmcache", "class_name": "Adapter",
     "adapter_params": {"address": "rdma://10.0.0.1:7471", "num_workers": 2}}

docs/integrations.md shows where it sits. "native_plugin" loads a Connector; an Adapter is LMCache's own adapter over a
Connector that knows LMCache's memory (L1), so that over rdma values are not copied on their way. Batches are shared out
among threads, each with a client of its own; while these copy values between LMCache's memory and the server's, the
interpreter runs others. LMCache is not needed to use a Connector.
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

# What mypy does not know of os.
_os: Any = os

# (future id, whether all of it was done, what was not, for each key whether it was there)
Completion = tuple[int, bool, str, Optional[list[bool]]]


class _Batch:
    """A batch, of which each worker does a part; the last one to end completes it."""

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
        if self.kind == "get_into":  # None: absent. Another length is another value than the one that was asked for
            assert self.views is not None
            there = [not isinstance(outcome, Error) and outcome == view.nbytes
                     for outcome, view in zip(self.outcomes, self.views)]
        elif self.kind != "put":
            there = [outcome is True for outcome in self.outcomes]
        return self.future, not errors, str(errors[0]) if errors else "", there


class Connector:
    """LMCache's native connector over Farlook.

    Thread safety: submit_batch_*() and drain_completions() may be called by any thread. Views stay as they are until the
    batch is complete. A batch that is put and of which some part fails leaves nothing behind: what was written of it is
    deleted. Errors of a batch come with its completion.
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
        """Readable while there are completions."""
        return self._fd

    def register(self, memory: Any) -> None:
        """Has values read into this memory, and pulled from it, without a copy where the transport can (rdma), until
        close(). Raises an Error where it cannot be registered: then values are copied."""
        for worker in self._workers:
            worker.register(memory)

    def submit_batch_get(self, keys: list[str], memoryviews: list[memoryview]) -> int:
        """Reads values into views of their lengths; its completion says of which keys. Others' views mean nothing."""
        return self._submit("get_into", keys, memoryviews)

    def submit_batch_set(self, keys: list[str], memoryviews: list[memoryview]) -> int:
        return self._submit("put", keys, memoryviews)

    def submit_batch_exists(self, keys: list[str]) -> int:
        return self._submit("exists", keys, None)

    def submit_batch_delete(self, keys: list[str]) -> int:
        return self._submit("delete", keys, None)

    def drain_completions(self) -> list[Completion]:
        """All batches that are complete since the last call: (future id, ok, error, results)."""
        with self._lock:
            if not self._closed and self._completions:
                _os.eventfd_read(self._fd)
            drained = list(self._completions)
            self._completions.clear()
        return drained

    def close(self) -> None:
        """Waits for what is under way. What nobody has begun is complete, as failed. Once more does nothing."""
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
            worker.run(list(_undo(batch)))
        batch.views = None
        with self._lock:
            self._completions.append(completion)
            # Once for all that are drained together.
            if len(self._completions) == 1 and not self._closed:
                _os.eventfd_write(self._fd, 1)


def _undo(batch: _Batch) -> Any:
    """What deletes the part of a batch that was written, or may have been."""
    for key, outcome in zip(batch.keys, batch.outcomes):
        if isinstance(outcome, (DeadlineExceeded, Unknown)):
            yield "delete", key
        elif not isinstance(outcome, Error):
            yield "delete", key, {"if_version": outcome}


# ---- LMCache's own adapter, over a Connector that knows its memory.


def _memory_of(description: Any) -> Any:
    """What of LMCache's memory stays where it is: of memory that grows the part that there is from the beginning."""
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
    # Not at import: LMCache imports this module, and a Connector does without LMCache.
    if name == "Adapter":
        return _adapter()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
