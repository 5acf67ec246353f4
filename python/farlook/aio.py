"""Farlook for asyncio: the calls of farlook.Client as awaitables.

    import farlook.aio

    async with await farlook.aio.connect("shm:///run/farlook") as client:
        await client.put("key", b"value")
        first, second = await asyncio.gather(client.get("key"), client.get("other"))

Calls are coroutines for asyncio.create_task(), gather(), wait_for(), TaskGroup and the like. Concurrent calls are in
flight together. Calls of one client begin in the order in which their tasks begin. For many keys a batch, such as
get_many(), costs a fraction of single calls: it is one future. Calls, keys, values, options and errors are those of
farlook.Client.

A value that is put, or a buffer that is read into, must not change until the call has ended. The operation of a cancelled
call continues to its end or its deadline; the client holds its value until then.

A client belongs to the event loop in which it was connected. Its descriptor wakes that loop. Only scans have
a thread, and a connection of their own.
"""

import asyncio
import collections.abc
import functools
import itertools
from types import TracebackType
from typing import Any, Callable, NoReturn, Optional, TypeVar

from farlook import Cancelled, Error, _farlook, _figures
from farlook._scan import AsyncScan, Item, count, item_of, pair_of

__all__ = ["Client", "connect"]

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")


class Client:
    """A connection to a server: farlook.aio.connect() makes one."""

    def __init__(self, client: Any, connect_another: Callable[[], Any]) -> None:
        self._client = client
        self._connect_another = connect_another
        self._loop = asyncio.get_running_loop()
        self._fd: int = client._fd()
        self._tokens = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._turn: Optional[asyncio.Handle] = None  # the next look, if it is soon
        self._timer: Optional[asyncio.TimerHandle] = None
        self._reads = False  # the loop waits for the descriptor

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType], /) -> None:
        self.close()

    def close(self) -> None:
        """Abandons operations in flight, which raise Cancelled. Calling it again does nothing."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._client.close()
        self._fail_all(Cancelled("the client was closed"))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a farlook.aio.Client is a connection of this process, and cannot be pickled: pass "
                        "client.address, and connect there")

    # ---- Internals.

    def _begin(self, kind: str, *args: Any, **options: Any) -> "asyncio.Future[_Result]":
        token = next(self._tokens)
        self._client._start(token, kind, *args, **options)
        return self._waits_for(token)

    async def _all(self, kind: str, *columns: Any, **options: Any) -> list[Any]:
        """Runs a batch, which is one native call and has one future."""
        token = next(self._tokens)
        if self._client._start_many(token, kind, *columns, **options) == 0:
            return []
        results: list[Any] = await self._waits_for(token)
        return results

    def _waits_for(self, token: int) -> "asyncio.Future[_Result]":
        future: "asyncio.Future[_Result]" = self._loop.create_future()
        self._waiting[token] = future
        self._look_soon()
        return future

    def _look_soon(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._turn = None
        try:
            self._go_on()
        except Error as error:  # nothing ends any more: closed, owned by the parent process, or broken
            self._fail_all(error)

    def _go_on(self) -> None:
        """Completes futures of operations that have ended, and schedules the next look."""
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

    # ---- Calls.

    async def get(self, key: Any, default: Any = None, *, timeout_ms: Optional[int] = None) -> Any:
        value: Optional[bytes] = await self._begin("get", key, timeout_ms=timeout_ms)
        return default if value is None else value

    async def get_dict(self, keys: collections.abc.Iterable[_Key], *,
                       timeout_ms: Optional[int] = None) -> dict[_Key, bytes]:
        keys = list(keys)
        values = await self.get_many(keys, timeout_ms=timeout_ms)
        return {key: value for key, value in zip(keys, values) if value is not None}

    async def get_with_version(self, key: Any, *,
                               timeout_ms: Optional[int] = None) -> Optional[tuple[bytes, int]]:
        return await self._begin("get_with_version", key, timeout_ms=timeout_ms)

    async def get_into(self, key: Any, buffer: Any, *, timeout_ms: Optional[int] = None) -> Optional[int]:
        return await self._begin("get_into", key, buffer, timeout_ms=timeout_ms)

    async def get_and_touch(self, key: Any, ttl_ms: int, *,
                            timeout_ms: Optional[int] = None) -> Optional[bytes]:
        return await self._begin("get_and_touch", key, ttl_ms, timeout_ms=timeout_ms)

    async def put(self, key: Any, value: Any, *, if_absent: Optional[bool] = None, if_present: Optional[bool] = None,
                  if_version: Optional[int] = None, ttl_ms: Optional[int] = None, keep_ttl: Optional[bool] = None,
                  keep: Optional[bool] = None, refill: Optional[bool] = None,
                  timeout_ms: Optional[int] = None) -> int:
        return await self._begin("put", key, value, if_absent=if_absent, if_present=if_present, if_version=if_version,
                                 ttl_ms=ttl_ms, keep_ttl=keep_ttl, keep=keep, refill=refill, timeout_ms=timeout_ms)

    async def exists(self, key: Any, *, timeout_ms: Optional[int] = None) -> bool:
        return await self._begin("exists", key, timeout_ms=timeout_ms)

    async def delete(self, key: Any, *, if_present: Optional[bool] = None, if_version: Optional[int] = None,
                     timeout_ms: Optional[int] = None) -> bool:
        return await self._begin("delete", key, if_present=if_present, if_version=if_version, timeout_ms=timeout_ms)

    async def touch(self, key: Any, ttl_ms: int, *, timeout_ms: Optional[int] = None) -> bool:
        return await self._begin("touch", key, ttl_ms, timeout_ms=timeout_ms)

    async def persist(self, key: Any, *, timeout_ms: Optional[int] = None) -> bool:
        return await self._begin("persist", key, timeout_ms=timeout_ms)

    async def ttl(self, key: Any, *, timeout_ms: Optional[int] = None) -> Optional[int]:
        return await self._begin("ttl", key, timeout_ms=timeout_ms)

    async def get_many(self, keys: collections.abc.Iterable[Any], *,
                       timeout_ms: Optional[int] = None) -> list[Optional[bytes]]:
        return await self._all("get", keys, timeout_ms=timeout_ms)

    async def get_many_into(self, keys: collections.abc.Iterable[Any], buffers: collections.abc.Iterable[Any], *,
                            timeout_ms: Optional[int] = None) -> list[Optional[int]]:
        return await self._all("get_into", keys, buffers, timeout_ms=timeout_ms)

    async def get_rows(self, keys: collections.abc.Iterable[Any], array: Any, *,
                       timeout_ms: Optional[int] = None) -> list[Optional[bool]]:
        return await self._all("get_row", keys, array, timeout_ms=timeout_ms)

    async def put_many(self, keys: collections.abc.Iterable[Any],
                       values: Optional[collections.abc.Iterable[Any]] = None, *,
                       if_absent: Optional[bool] = None, if_present: Optional[bool] = None,
                       if_version: Optional[int] = None, ttl_ms: Optional[int] = None, keep_ttl: Optional[bool] = None,
                       keep: Optional[bool] = None, refill: Optional[bool] = None,
                       timeout_ms: Optional[int] = None) -> list[Optional[int]]:
        if values is None:
            if not isinstance(keys, dict):
                raise TypeError("put_many() missing argument 'values', or a dict")
            pairs: dict[Any, Any] = keys
            keys, values = list(pairs), list(pairs.values())
        return await self._all("put_if_there", keys, values, if_absent=if_absent, if_present=if_present,
                               if_version=if_version, ttl_ms=ttl_ms, keep_ttl=keep_ttl, keep=keep, refill=refill, timeout_ms=timeout_ms)

    async def delete_many(self, keys: collections.abc.Iterable[Any], *, if_present: Optional[bool] = None,
                          if_version: Optional[int] = None,
                          timeout_ms: Optional[int] = None) -> list[bool]:
        return await self._all("delete", keys, if_present=if_present, if_version=if_version, timeout_ms=timeout_ms)

    async def exists_many(self, keys: collections.abc.Iterable[Any], *,
                          timeout_ms: Optional[int] = None) -> list[bool]:
        return await self._all("exists", keys, timeout_ms=timeout_ms)

    async def touch_many(self, keys: collections.abc.Iterable[Any], ttl_ms: int, *,
                         timeout_ms: Optional[int] = None) -> list[bool]:
        return await self._all("touch", keys, ttl_ms, timeout_ms=timeout_ms)

    async def create_counter(self, key: Any, initial: int = 0, *, ttl_ms: Optional[int] = None,
                             exactly_once: Optional[bool] = None, timeout_ms: Optional[int] = None) -> int:
        return await self._begin("create_counter", key, initial, ttl_ms=ttl_ms, exactly_once=exactly_once,
                                 timeout_ms=timeout_ms)

    async def fetch_add(self, key: Any, delta: int, *, create: Optional[bool] = None, initial: Optional[int] = None,
                        ttl_ms: Optional[int] = None, exactly_once: Optional[bool] = None,
                        timeout_ms: Optional[int] = None) -> int:
        return await self._begin("fetch_add", key, delta, create=create, initial=initial, ttl_ms=ttl_ms,
                                 exactly_once=exactly_once, timeout_ms=timeout_ms)

    async def compare_swap(self, key: Any, expected: int, desired: int, *, exactly_once: Optional[bool] = None,
                           timeout_ms: Optional[int] = None) -> int:
        return await self._begin("compare_swap", key, expected, desired, exactly_once=exactly_once, timeout_ms=timeout_ms)

    async def read_counter(self, key: Any, *, exactly_once: Optional[bool] = None,
                           timeout_ms: Optional[int] = None) -> int:
        return await self._begin("read_counter", key, exactly_once=exactly_once, timeout_ms=timeout_ms)

    async def delete_counter(self, key: Any, *, exactly_once: Optional[bool] = None,
                             timeout_ms: Optional[int] = None) -> int:
        return await self._begin("delete_counter", key, exactly_once=exactly_once, timeout_ms=timeout_ms)

    async def create_counter_many(self, keys: collections.abc.Iterable[Any], initials: collections.abc.Iterable[int], *,
                                  ttl_ms: Optional[int] = None, exactly_once: Optional[bool] = None,
                                  timeout_ms: Optional[int] = None) -> list[Optional[int]]:
        return await self._all("create_counter", keys, initials, ttl_ms=ttl_ms, exactly_once=exactly_once,
                               timeout_ms=timeout_ms)

    async def fetch_add_many(self, keys: collections.abc.Iterable[Any], deltas: collections.abc.Iterable[int], *,
                             create: Optional[bool] = None, initial: Optional[int] = None,
                             ttl_ms: Optional[int] = None, exactly_once: Optional[bool] = None,
                             timeout_ms: Optional[int] = None) -> list[Optional[int]]:
        return await self._all("fetch_add_if_there", keys, deltas, create=create, initial=initial, ttl_ms=ttl_ms,
                               exactly_once=exactly_once, timeout_ms=timeout_ms)

    async def read_counter_many(self, keys: collections.abc.Iterable[Any], *, exactly_once: Optional[bool] = None,
                                timeout_ms: Optional[int] = None) -> list[Optional[int]]:
        return await self._all("read_counter_if_there", keys, exactly_once=exactly_once, timeout_ms=timeout_ms)

    async def ping(self, *, timeout_ms: Optional[int] = None) -> None:
        await self._begin("ping", timeout_ms=timeout_ms)

    async def warm(self, *, timeout_ms: Optional[int] = None) -> None:
        await self._begin("warm", timeout_ms=timeout_ms)

    async def server_stats(self, *, timeout_ms: Optional[int] = None) -> dict[str, str]:
        return _figures(await self.server_stats_text(timeout_ms=timeout_ms))

    async def server_stats_text(self, *, timeout_ms: Optional[int] = None) -> str:
        text = ""
        while True:
            page: tuple[str, int] = await self._begin("server_stats", text.count("\n"), timeout_ms=timeout_ms)
            lines, left = page
            text += lines
            if left == 0 or not lines:
                return text

    # ---- Scans, each over a connection of its own.

    def scan(self, prefix: Any = b"", *, limit: Optional[int] = None, min_value_bytes: Optional[int] = None,
             max_value_bytes: Optional[int] = None, only_expiring: Optional[bool] = None,
             batch_bytes: Optional[int] = None, bytes_per_s: Optional[int] = None, cursor: Optional[str] = None,
             timeout_ms: Optional[int] = None) -> AsyncScan[tuple[bytes, Optional[bytes]]]:
        """For `async for key, value in client.scan(prefix)`: as farlook.Client.scan()."""
        return AsyncScan(self._connect_another, pair_of, prefix, {
            "values": True, "limit": limit, "min_value_bytes": min_value_bytes, "max_value_bytes": max_value_bytes,
            "only_expiring": only_expiring, "batch_bytes": batch_bytes, "bytes_per_s": bytes_per_s, "cursor": cursor,
            "timeout_ms": timeout_ms})

    def scan_items(self, prefix: Any = b"", *, values: Optional[bool] = None, limit: Optional[int] = None,
                   min_value_bytes: Optional[int] = None, max_value_bytes: Optional[int] = None,
                   only_expiring: Optional[bool] = None, batch_bytes: Optional[int] = None,
                   bytes_per_s: Optional[int] = None, cursor: Optional[str] = None,
                   timeout_ms: Optional[int] = None) -> AsyncScan[Item]:
        return AsyncScan(self._connect_another, item_of, prefix, {
            "values": values, "limit": limit, "min_value_bytes": min_value_bytes, "max_value_bytes": max_value_bytes,
            "only_expiring": only_expiring, "batch_bytes": batch_bytes, "bytes_per_s": bytes_per_s, "cursor": cursor,
            "timeout_ms": timeout_ms})

    async def count(self, prefix: Any = b"", *, bytes_per_s: Optional[int] = None,
                    timeout_ms: Optional[int] = None) -> int:
        def count_in_thread() -> int:
            client = self._connect_another()
            try:
                return count(client, prefix, {"bytes_per_s": bytes_per_s, "timeout_ms": timeout_ms})
            finally:
                client.close()

        return await self._loop.run_in_executor(None, count_in_thread)

    # ---- Functions that need no server, and return at once.

    @property
    def address(self) -> str:
        """The address that the client uses; for auto:// the chosen one."""
        address: str = self._client.address
        return address

    def register(self, memory: Any, /) -> None:
        self._client.register(memory)

    def unregister(self, memory: Any, /) -> None:
        self._client.unregister(memory)

    def stats(self) -> dict[str, int]:
        """Returns the client's figures, by name."""
        figures: dict[str, int] = self._client.stats()
        return figures

    def incarnation(self) -> int:
        number: int = self._client.incarnation()
        return number

    def memory_bytes(self) -> int:
        count: int = self._client.memory_bytes()
        return count


async def connect(address: str, **options: Any) -> Client:
    """Connects to an address, in a thread of the loop's executor. Address and options are those of farlook.connect().
    """
    connect_one = functools.partial(_farlook.Client.connect, address, **options)
    return Client(await asyncio.get_running_loop().run_in_executor(None, connect_one), connect_one)
