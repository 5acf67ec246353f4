"""Scans: iterators over the items of a table. farlook.Client and farlook.aio.Client make them."""

import asyncio
import collections
import typing
from typing import Any, Callable, Optional, TypeVar

_FOREVER = (1 << 63) - 1

_Result = TypeVar("_Result")
_Found = tuple[bytes, bytes, int, int, int, int, int]  # what the C module returns of an item


class Item(typing.NamedTuple):
    """An item that a scan found."""

    key: bytes
    value: Optional[bytes]  # None: of a counter, whose number read_counter() returns, and in a scan without values
    value_bytes: int  # length of the value, also in a scan without values; 0 for a counter
    version: int
    ttl_ms: Optional[int]  # how long until it expires; None: never
    keep: bool  # stored with the option `keep`
    counter: bool


def item_of(found: _Found) -> Item:
    key, value, value_bytes, version, left_ms, keep, counter = found
    return Item(key, None if counter or len(value) < value_bytes else value, value_bytes, version,
                None if left_ms == _FOREVER else left_ms, bool(keep), bool(counter))


def pair_of(found: _Found) -> tuple[bytes, Optional[bytes]]:
    return found[0], None if found[6] else found[1]


class Scan(typing.Generic[_Result]):
    """An iterator over the items of a table.

    After an error next() may be called again, and continues. While a thread is within next(), that of another one
    raises FailedPrecondition.
    """

    def __init__(self, client: Any, to_result: Callable[[_Found], _Result], prefix: Any, options: dict[str, Any]) -> None:
        self._client = client
        self._to_result = to_result
        self._scan = client._scan(prefix, **options)
        self._found: collections.deque[_Found] = collections.deque()
        self._before = ""  # the cursor before the items of _found

    def __iter__(self) -> "Scan[_Result]":
        return self

    def __next__(self) -> _Result:
        if not self._found:
            self._fetch()
        try:
            return self._to_result(self._found.popleft())
        except IndexError:
            raise StopIteration from None

    def _fetch(self) -> int:
        """Fetches the next items. Returns how many."""
        self._before, _ = self._client._scan_place(self._scan)
        found, error = self._client._scan_next(self._scan)
        self._found.extend(found)
        if error is not None:
            raise error
        return len(found)

    @property
    def cursor(self) -> str:
        """Text from which another scan, also of another client, continues (option `cursor`). "end": nothing follows.

        That scan may return up to 255 items again which this one has returned; none if this one has ended.
        """
        cursor: str = self._before if self._found else self._client._scan_place(self._scan)[0]
        return cursor

    @property
    def progress(self) -> float:
        """The part of the scan that is done: from 0 to 1."""
        progress: float = self._client._scan_place(self._scan)[1]
        return progress


def count(client: Any, prefix: Any, options: dict[str, Any]) -> int:
    scan = Scan(client, item_of, prefix, options)
    total = 0
    while found := scan._fetch():
        scan._found.clear()
        total += found
    return total


class AsyncScan(typing.Generic[_Result]):
    """An asynchronous iterator over the items of a table.

    It has a connection of its own, and READs in a thread of the event loop's executor, so that the client's other calls
    do not wait. The connection is closed at the end, by close(), and when nothing refers to the scan any more.
    """

    def __init__(self, connect: Callable[[], Any], to_result: Callable[[_Found], _Result], prefix: Any,
                 options: dict[str, Any]) -> None:
        self._begin: Callable[[], Scan[_Result]] = lambda: Scan(connect(), to_result, prefix, options)
        self._scan: Optional[Scan[_Result]] = None
        self._after = ""  # the cursor after the items that were fetched
        self._fetching: Optional[asyncio.Future[None]] = None
        self._closed = False

    def __aiter__(self) -> "AsyncScan[_Result]":
        return self

    async def __anext__(self) -> _Result:
        if self._closed:
            raise StopAsyncIteration
        if self._scan is None or not self._scan._found:
            await self._fetch()
        if self._scan is None or not self._scan._found:
            self.close()
            raise StopAsyncIteration
        return next(self._scan)

    async def _fetch(self) -> None:
        fetching = self._fetching
        if fetching is not None and fetching.done():  # of a task that was cancelled
            if not fetching.cancelled():
                fetching.exception()  # an error of it will come again
            fetching = None
        if fetching is None:
            fetching = asyncio.get_running_loop().run_in_executor(None, self._fetch_in_thread)
            self._fetching = fetching
        # If this task is cancelled, the next call waits for the same.
        await asyncio.shield(fetching)
        self._fetching = None

    def _fetch_in_thread(self) -> None:
        if self._scan is None:
            self._scan = self._begin()
        try:
            self._scan._fetch()
        finally:
            self._after, _ = self._scan._client._scan_place(self._scan._scan)

    def close(self) -> None:
        """Ends the scan. Calling it again does nothing."""
        self._closed = True
        if self._fetching is not None:
            self._fetching.add_done_callback(lambda _: self._close_connection())
        else:
            self._close_connection()

    def _close_connection(self) -> None:
        if self._scan is not None:
            self._scan._client.close()

    @property
    def cursor(self) -> str:
        """As Scan.cursor. "" before the first item, "end" after the last one."""
        return self._scan._before if self._scan is not None and self._scan._found else self._after
