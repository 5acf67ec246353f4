"""Farlook for asyncio: the calls of farlook.Client as awaitables.

    import farlook.aio

    async with await farlook.aio.connect("shm:///run/farlook") as client:
        await client.put("key", b"value")
        first, second = await asyncio.gather(client.get("key"), client.get("other"))

A call starts its operation at once and returns a future, so that calls that are made one after the other are under way
together. Calls, keys, values, options and errors are farlook.Client's. A value that is put, or a buffer that is read into, may not
change until the future is done: one that is cancelled leaves its operation under way, to its end or its deadline.

A client belongs to the event loop in which it was connected; its descriptor wakes that loop, and no thread does.
"""

import asyncio
import collections.abc
import functools
import itertools
from types import TracebackType
from typing import Any, Optional

from farlook import Cancelled, Error, InvalidArgument, _farlook, _figures

__all__ = ["Client", "connect"]


class Client:
    """A connection to a server: farlook.aio.connect() makes one."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._fd: int = client._fd()
        self._tokens = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._turn: Optional[asyncio.Handle] = None  # the next look, when it is soon
        self._timer: Optional[asyncio.TimerHandle] = None
        self._reads = False  # the loop waits for the descriptor

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType], /) -> None:
        self.close()

    def close(self) -> None:
        """Gives up what is under way, which raises Cancelled. Once more does nothing."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._client.close()
        self._fail_all(Cancelled("the client was closed"))

    # ---- What goes on beneath.

    def _begin(self, kind: str, *args: Any, **options: Any) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        token = next(self._tokens)
        try:
            self._client._start(token, kind, *args, **options)
        except Error as error:
            future.set_exception(error)
            return future
        self._waiting[token] = future
        self._look_soon()
        return future

    def _all(self, kind: str, calls: list[tuple[Any, ...]], **options: Any) -> "asyncio.Future[list[Any]]":
        """A batch, all of which is under way when this returns."""
        return self._loop.create_task(_settled([self._begin(kind, *call, **options) for call in calls]))

    def _look_soon(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._turn = None
        try:
            self._go_on()
        except Error as error:  # nothing ends any more: closed, or of a process' parent, or broken
            self._fail_all(error)

    def _go_on(self) -> None:
        """Tells who waits what has ended, and sees to it that the next look comes in time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for token, good, result in self._client._poll():
            future = self._waiting.pop(token)
            if future.done():  # cancelled
                continue
            if good:
                future.set_result(result)
            else:
                future.set_exception(result)
        if not self._waiting:
            self._rest()
            return
        wait_ms = self._client._arm()
        if wait_ms is None:
            self._look_soon()
            return
        if not self._reads:
            self._loop.add_reader(self._fd, self._look_soon)
            self._reads = True
        if wait_ms >= 0:
            self._timer = self._loop.call_later(wait_ms / 1000, self._look_soon)

    def _fail_all(self, error: Error) -> None:
        self._rest()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reads:
            self._loop.remove_reader(self._fd)
            self._reads = False

    # ---- The calls.

    def get(self, key: Any, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[Optional[bytes]]":
        return self._begin("get", key, timeout_ms=timeout_ms)

    def get_with_version(self, key: Any, *,
                         timeout_ms: Optional[int] = None) -> "asyncio.Future[Optional[tuple[bytes, int]]]":
        return self._begin("get_with_version", key, timeout_ms=timeout_ms)

    def get_into(self, key: Any, buffer: Any, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[Optional[int]]":
        return self._begin("get_into", key, buffer, timeout_ms=timeout_ms)

    def get_and_touch(self, key: Any, ttl_ms: int, *,
                      timeout_ms: Optional[int] = None) -> "asyncio.Future[Optional[bytes]]":
        return self._begin("get_and_touch", key, ttl_ms, timeout_ms=timeout_ms)

    def put(self, key: Any, value: Any, *, if_absent: Optional[bool] = None, if_present: Optional[bool] = None,
            if_version: Optional[int] = None, ttl_ms: Optional[int] = None, keep_ttl: Optional[bool] = None,
            keep: Optional[bool] = None, refill: Optional[bool] = None,
            timeout_ms: Optional[int] = None) -> "asyncio.Future[int]":
        return self._begin("put", key, value, if_absent=if_absent, if_present=if_present, if_version=if_version,
                           ttl_ms=ttl_ms, keep_ttl=keep_ttl, keep=keep, refill=refill, timeout_ms=timeout_ms)

    def exists(self, key: Any, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[bool]":
        return self._begin("exists", key, timeout_ms=timeout_ms)

    def delete(self, key: Any, *, if_present: Optional[bool] = None, if_version: Optional[int] = None,
               timeout_ms: Optional[int] = None) -> "asyncio.Future[bool]":
        return self._begin("delete", key, if_present=if_present, if_version=if_version, timeout_ms=timeout_ms)

    def touch(self, key: Any, ttl_ms: int, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[bool]":
        return self._begin("touch", key, ttl_ms, timeout_ms=timeout_ms)

    def persist(self, key: Any, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[bool]":
        return self._begin("persist", key, timeout_ms=timeout_ms)

    def ttl(self, key: Any, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[Optional[int]]":
        return self._begin("ttl", key, timeout_ms=timeout_ms)

    def get_many(self, keys: collections.abc.Iterable[Any], *,
                 timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[bytes]]]":
        return self._all("get", _alone(keys), timeout_ms=timeout_ms)

    def get_many_into(self, keys: collections.abc.Iterable[Any], buffers: collections.abc.Iterable[Any], *,
                      timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[int]]]":
        return self._all("get_into", _pairs(keys, buffers), timeout_ms=timeout_ms)

    def get_rows(self, keys: collections.abc.Iterable[Any], array: Any, *,
                 timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[bool]]]":
        keys = list(keys)
        shape = memoryview(array).shape or ()
        if len(shape) < 2 or shape[0] != len(keys):
            raise InvalidArgument("get_rows() wants an array with a row for each key")
        return self._all("get_row", [(key, array, row) for row, key in enumerate(keys)], timeout_ms=timeout_ms)

    def put_many(self, keys: collections.abc.Iterable[Any], values: collections.abc.Iterable[Any], *,
                 if_absent: Optional[bool] = None, if_present: Optional[bool] = None, ttl_ms: Optional[int] = None,
                 keep_ttl: Optional[bool] = None, keep: Optional[bool] = None, refill: Optional[bool] = None,
                 timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[int]]]":
        return self._all("put_if_there", _pairs(keys, values), if_absent=if_absent, if_present=if_present,
                         ttl_ms=ttl_ms, keep_ttl=keep_ttl, keep=keep, refill=refill, timeout_ms=timeout_ms)

    def delete_many(self, keys: collections.abc.Iterable[Any], *,
                    timeout_ms: Optional[int] = None) -> "asyncio.Future[list[bool]]":
        return self._all("delete", _alone(keys), timeout_ms=timeout_ms)

    def exists_many(self, keys: collections.abc.Iterable[Any], *,
                    timeout_ms: Optional[int] = None) -> "asyncio.Future[list[bool]]":
        return self._all("exists", _alone(keys), timeout_ms=timeout_ms)

    def touch_many(self, keys: collections.abc.Iterable[Any], ttl_ms: int, *,
                   timeout_ms: Optional[int] = None) -> "asyncio.Future[list[bool]]":
        return self._all("touch", [(key, ttl_ms) for (key,) in _alone(keys)], timeout_ms=timeout_ms)

    def create_counter(self, key: Any, initial: int = 0, *, ttl_ms: Optional[int] = None,
                       exactly_once: Optional[bool] = None, timeout_ms: Optional[int] = None) -> "asyncio.Future[int]":
        return self._begin("create_counter", key, initial, ttl_ms=ttl_ms, exactly_once=exactly_once,
                           timeout_ms=timeout_ms)

    def fetch_add(self, key: Any, delta: int, *, exactly_once: Optional[bool] = None,
                  timeout_ms: Optional[int] = None) -> "asyncio.Future[int]":
        return self._begin("fetch_add", key, delta, exactly_once=exactly_once, timeout_ms=timeout_ms)

    def compare_swap(self, key: Any, expected: int, desired: int, *, exactly_once: Optional[bool] = None,
                     timeout_ms: Optional[int] = None) -> "asyncio.Future[int]":
        return self._begin("compare_swap", key, expected, desired, exactly_once=exactly_once, timeout_ms=timeout_ms)

    def read_counter(self, key: Any, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[int]":
        return self._begin("read_counter", key, timeout_ms=timeout_ms)

    def delete_counter(self, key: Any, *, exactly_once: Optional[bool] = None,
                       timeout_ms: Optional[int] = None) -> "asyncio.Future[int]":
        return self._begin("delete_counter", key, exactly_once=exactly_once, timeout_ms=timeout_ms)

    def create_counter_many(self, keys: collections.abc.Iterable[Any], initials: collections.abc.Iterable[int], *,
                            ttl_ms: Optional[int] = None, exactly_once: Optional[bool] = None,
                            timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[int]]]":
        return self._all("create_counter", _pairs(keys, initials), ttl_ms=ttl_ms, exactly_once=exactly_once,
                         timeout_ms=timeout_ms)

    def fetch_add_many(self, keys: collections.abc.Iterable[Any], deltas: collections.abc.Iterable[int], *,
                       exactly_once: Optional[bool] = None,
                       timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[int]]]":
        return self._all("fetch_add_if_there", _pairs(keys, deltas), exactly_once=exactly_once, timeout_ms=timeout_ms)

    def read_counter_many(self, keys: collections.abc.Iterable[Any], *,
                          timeout_ms: Optional[int] = None) -> "asyncio.Future[list[Optional[int]]]":
        return self._all("read_counter_if_there", _alone(keys), timeout_ms=timeout_ms)

    def ping(self, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[None]":
        return self._begin("ping", timeout_ms=timeout_ms)

    def warm(self, *, timeout_ms: Optional[int] = None) -> "asyncio.Future[None]":
        return self._begin("warm", timeout_ms=timeout_ms)

    async def server_stats(self, *, timeout_ms: Optional[int] = None) -> dict[str, str]:
        return _figures(await self.server_stats_text(timeout_ms=timeout_ms))

    async def server_stats_text(self, *, timeout_ms: Optional[int] = None) -> str:
        text = ""
        while True:
            lines, left = await self._begin("server_stats", text.count("\n"), timeout_ms=timeout_ms)
            text += lines
            if left == 0 or not lines:
                return text

    # ---- What asks nobody, and returns at once.

    def register(self, memory: Any, /) -> None:
        self._client.register(memory)

    def unregister(self, memory: Any, /) -> None:
        self._client.unregister(memory)

    def stats(self) -> dict[str, int]:
        """The client's figures, by name."""
        figures: dict[str, int] = self._client.stats()
        return figures

    def incarnation(self) -> int:
        number: int = self._client.incarnation()
        return number

    def memory_bytes(self) -> int:
        count: int = self._client.memory_bytes()
        return count


def _alone(keys: collections.abc.Iterable[Any]) -> list[tuple[Any, ...]]:
    if isinstance(keys, (str, bytes)):
        raise TypeError("a batch wants a sequence of keys, not one")
    return [(key,) for key in keys]


def _pairs(keys: collections.abc.Iterable[Any], others: collections.abc.Iterable[Any]) -> list[tuple[Any, ...]]:
    first, second = _alone(keys), list(others)
    if len(first) != len(second):
        raise InvalidArgument("there are not as many of each as there are keys")
    return [(key, other) for (key,), other in zip(first, second)]


async def _settled(futures: list["asyncio.Future[Any]"]) -> list[Any]:
    """Their results, once all have ended; the first error is raised."""
    results = await asyncio.gather(*futures, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


async def connect(address: str, **options: Any) -> Client:
    """Connects to "shm:///path" or "rdma://host:port", in a thread of the loop's; options are farlook.connect()'s."""
    loop = asyncio.get_running_loop()
    return Client(await loop.run_in_executor(None, functools.partial(_farlook.Client.connect, address, **options)))
