"""The part that the integrations share: a client that runs many operations at once."""

import ctypes
import dataclasses
import secrets
import select
import struct
import time
from typing import Any, Optional

from farlook import AlreadyExists, Error, FailedPrecondition, InvalidArgument, Unknown, _farlook

__all__ = ["Worker"]

# A value that is longer than the server's limit is stored in pieces under their own keys. Its key contains a manifest,
# which is written after all pieces and deleted before them: a reader finds the whole value, or nothing.
_MAGIC = b"farlook pieces 1"
_MANIFEST = struct.Struct("<16s32sQQ")
# The limits of servers are at least this in practice: values up to it are never split.
_SHORT_BYTES = 1 << 20
# The life of pieces until all are written, in addition to timeout_ms: pieces of an unfinished put expire.
_UNFINISHED_MS = 600_000


@dataclasses.dataclass(frozen=True)
class _Manifest:
    name: str  # random, shared by all pieces
    value_bytes: int
    piece_bytes: int

    @classmethod
    def parse(cls, outcome: Any, memory: Any) -> Optional["_Manifest"]:
        """Returns the manifest that a get_into() with this outcome left in the memory, if it is one."""
        view = memoryview(memory)
        if outcome != _MANIFEST.size or view.nbytes < _MANIFEST.size:
            return None
        magic, name, value_bytes, piece_bytes = _MANIFEST.unpack(bytes(_part(memory, 0, _MANIFEST.size)))
        return cls(name.decode("latin-1"), value_bytes, piece_bytes) if magic == _MAGIC and piece_bytes > 0 else None

    def packed(self) -> bytes:
        return _MANIFEST.pack(_MAGIC, self.name.encode(), self.value_bytes, self.piece_bytes)

    def keys(self) -> list[str]:
        return [f"farlook-piece-{self.name}-{i}" for i in range(-(-self.value_bytes // self.piece_bytes))]

    def parts(self, memory: Any) -> list[Any]:
        starts = range(0, self.value_bytes, self.piece_bytes)
        return [_part(memory, start, min(start + self.piece_bytes, self.value_bytes)) for start in starts]


def _part(memory: Any, start: int, end: int) -> Any:
    """Returns this part of the memory's bytes. A view of a ctypes array cannot be cast."""
    if isinstance(memory, ctypes.Array):
        return (ctypes.c_char * (end - start)).from_buffer(memory, start)
    return memoryview(memory).cast("B")[start:end]


class Worker:
    """A client for one thread. If it breaks, a new one replaces it. Values longer than the server's limit are stored in
    pieces."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._client: Any = None
        self._registered: list[Any] = []
        self._begun = time.monotonic()  # the last run()
        self._max_value_bytes: Optional[int] = None  # the server's, once it was requested
        self._connect()

    def _connect(self) -> None:
        self._max_value_bytes = None
        self._client = _farlook.Client.connect(self._address, **self._options)
        self._poller = select.poll()
        self._poller.register(self._client._fd(), select.POLLIN)
        for memory in self._registered:
            try:
                self._client.register(memory)
            except Error:
                pass  # values are copied then, or it was registered twice

    def register(self, memory: Any) -> None:
        """Registers memory that values are read into, and pulled from, without a copy if the transport can, until
        close(). Any thread may call it. Raises an Error if the transport cannot use it: then values are copied."""
        self._registered.append(memory)
        try:
            if self._client is not None:
                self._client.register(memory)
        except AlreadyExists:
            pass  # by _connect(), in the worker's thread
        except Error:
            self._registered = [other for other in self._registered if other is not memory]
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def run_in_time_left(self, calls: list[tuple[Any, ...]]) -> None:
        """Runs calls without options, or with options last, until timeout_ms after the last run() began: a batch and
        its undo calls have one deadline. Does nothing if no time is left, or if the client broke."""
        left_ms = self._left_ms()
        if calls and self._client is not None and (left_ms is None or left_ms > 0):
            self._run_split(calls)

    def run(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Returns the outcome of each of (kind, key, ...): a result, or an Error. No buffer is in use afterwards."""
        self._begun = time.monotonic()
        return self._run_split(calls)

    def _left_ms(self) -> Optional[int]:
        """Returns the part of timeout_ms that is left of the last run(). None: there is no limit."""
        timeout_ms = self._options.get("timeout_ms")
        return None if timeout_ms is None else timeout_ms - int((time.monotonic() - self._begun) * 1000)

    def _limited(self) -> dict[str, int]:
        left_ms = self._left_ms()
        return {} if left_ms is None else {"timeout_ms": max(1, left_ms)}

    def _in_time(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Runs calls in the remaining time."""
        if not calls:
            return []
        limit = self._limited()
        return self._run([(*(call[:-1] if isinstance(call[-1], dict) else call), {**_options(call), **limit})
                          for call in calls])

    def _limit(self) -> int:
        """Returns the maximum length of values on the server."""
        if self._max_value_bytes is None and self._client is not None:
            words = [line.split() for line in self._client.server_stats_text(**self._limited()).splitlines()]
            limits = [int(line[-1]) for line in words if len(line) >= 2 and line[-2] == "max_value_bytes"]
            self._max_value_bytes = min(limits) if limits else None
        return self._max_value_bytes or (16 << 20)

    def _split(self, call: tuple[Any, ...]) -> Optional[_Manifest]:
        """Returns the manifest of a put whose value must be split."""
        try:
            if call[0] != "put" or memoryview(call[2]).nbytes <= _SHORT_BYTES:
                return None
            value_bytes, limit = memoryview(call[2]).nbytes, self._limit()
            if value_bytes <= limit:
                return None
            _part(call[2], 0, value_bytes)  # raises an exception if it cannot be cut
        except Exception:  # pylint: disable=broad-except
            return None  # the call itself will report it
        return _Manifest(secrets.token_hex(16), value_bytes, limit)

    def _run_split(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        splits = {place: split for place, call in enumerate(calls) if (split := self._split(call)) is not None}
        replaced = [place for place in splits if not _options(calls[place]).get("if_absent")]
        stale = self._manifests_of([(place, call) for place, call in enumerate(calls)
                                    if call[0] == "delete" or place in replaced])
        # All short values, and the pieces of the others.
        life = {"ttl_ms": _UNFINISHED_MS + (self._options.get("timeout_ms") or 0)}
        pieces = [(place, "put", key, part, life) for place, split in splits.items()
                  for key, part in zip(split.keys(), split.parts(calls[place][2]))]
        whole = [place for place in range(len(calls)) if place not in splits]
        done = self._in_time([calls[place] for place in whole] + [tuple(piece[1:]) for piece in pieces])
        outcomes: list[Any] = [None] * len(calls)
        for place, outcome in zip(whole, done):
            outcomes[place] = outcome
        for (place, *_), outcome in zip(pieces, done[len(whole):]):
            if isinstance(outcome, Error) and outcomes[place] is None:
                outcomes[place] = outcome
        lasting = [(place, key) for place, split in splits.items() if outcomes[place] is None for key in split.keys()]
        for (place, _), outcome in zip(lasting, self._in_time([("persist", key) for _, key in lasting])):
            if outcome is not True:
                outcomes[place] = outcome if isinstance(outcome, Error) else Unknown("a piece of the value is gone")
        # The split values become visible here.
        ready = [place for place in splits if outcomes[place] is None]
        done = self._in_time([("put", calls[place][1], splits[place].packed(), _options(calls[place]))
                              for place in ready])
        for place, outcome in zip(ready, done):
            outcomes[place] = outcome
        self._get_pieces(calls, outcomes)
        # Pieces that no manifest names any more.
        failed = [split for place, split in splits.items() if isinstance(outcomes[place], Error)]
        gone = [split for place, split in stale.items() if outcomes[place] and not isinstance(outcomes[place], Error)]
        self._in_time([("delete", key) for split in failed + gone for key in split.keys()])
        return outcomes

    def _manifests_of(self, calls: list[tuple[int, tuple[Any, ...]]]) -> dict[int, _Manifest]:
        """Returns the manifests at these calls' keys, by place."""
        heads = [bytearray(_MANIFEST.size) for _ in calls]
        lengths = self._in_time([("get_into", call[1], head) for (_, call), head in zip(calls, heads)])
        parsed = [(place, _Manifest.parse(length, head)) for (place, _), length, head in zip(calls, lengths, heads)]
        return {place: manifest for place, manifest in parsed if manifest is not None}

    def _get_pieces(self, calls: list[tuple[Any, ...]], outcomes: list[Any]) -> None:
        """Reads values that get_into() found in pieces. A value that is replaced meanwhile is looked up once more."""
        for last in (False, True):
            found = [(place, manifest) for place, call in enumerate(calls)
                     if call[0] == "get_into" and memoryview(call[2]).nbytes > _MANIFEST.size
                     and (manifest := _Manifest.parse(outcomes[place], call[2])) is not None]
            reads = []
            for place, manifest in found:
                outcomes[place] = manifest.value_bytes
                if manifest.value_bytes == memoryview(calls[place][2]).nbytes:
                    reads += [(place, "get_into", key, part)
                              for key, part in zip(manifest.keys(), manifest.parts(calls[place][2]))]
            done = self._in_time([tuple(read[1:]) for read in reads])
            missing = set()
            for (place, _, _, part), outcome in zip(reads, done):
                if isinstance(outcome, Error):
                    outcomes[place] = outcome
                elif outcome != memoryview(part).nbytes:
                    missing.add(place)
            missing = {place for place in missing if not isinstance(outcomes[place], Error)}
            again = sorted(missing)
            done = [None] * len(again) if last else self._in_time([calls[place] for place in again])
            for place, outcome in zip(again, done):
                outcomes[place] = outcome
            if not again:
                return

    def _run(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        outcomes: list[Any] = [None] * len(calls)
        under_way = set()
        try:
            if self._client is None:
                self._connect()
            client: Any = self._client
            for place, (kind, *args) in enumerate(calls):
                options = args.pop() if isinstance(args[-1], dict) else {}
                try:
                    client._start(place, kind, *args, **options)
                    under_way.add(place)
                except FailedPrecondition:
                    raise  # the client is no longer usable
                except Exception as error:  # pylint: disable=broad-except
                    # For example a read-only view: the batch fails, not the thread.
                    outcomes[place] = error if isinstance(error, Error) else InvalidArgument(str(error))
            while under_way:
                ended = client._poll()
                for place, _, outcome in ended:
                    outcomes[place] = outcome
                    under_way.discard(place)
                if under_way and not ended:
                    wait_ms = client._arm()
                    if wait_ms is not None:
                        self._poller.poll(wait_ms if wait_ms >= 0 else None)
        except BaseException as error:  # pylint: disable=broad-except
            # Ends operations in flight, so that no buffer is in use; another client replaces this one.
            self.close()
            if not isinstance(error, Exception):
                raise
            failure = error if isinstance(error, Error) else Unknown(str(error))
            outcomes = [failure if place in under_way or outcome is None else outcome
                        for place, outcome in enumerate(outcomes)]
        return outcomes


def _options(call: tuple[Any, ...]) -> dict[str, Any]:
    return call[-1] if isinstance(call[-1], dict) else {}
