"""What the integrations share: a client, and how it carries out many operations at once."""

import select
from typing import Any

from farlook import AlreadyExists, Error, FailedPrecondition, InvalidArgument, Unknown, _farlook

__all__ = ["Worker"]


class Worker:
    """A client of one thread's. If it breaks, another one takes its place."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._client: Any = None
        self._registered: list[Any] = []
        self._connect()

    def _connect(self) -> None:
        self._client = _farlook.Client.connect(self._address, **self._options)
        self._poller = select.poll()
        self._poller.register(self._client._fd(), select.POLLIN)
        for memory in self._registered:
            try:
                self._client.register(memory)
            except Error:
                pass  # values are copied then, or it was registered twice

    def register(self, memory: Any) -> None:
        """Has values read into this memory, and pulled from it, without a copy where the transport can, until close().
        Any thread may call it. Raises an Error if the transport cannot use it: then values are copied."""
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

    def run(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """What came of each of (kind, key, ...): a result, or an Error. No buffer is in use afterwards."""
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
                    raise  # the client is of no more use
                except Exception as error:  # pylint: disable=broad-except
                    # As a view that is read-only: it is the batch that fails, and not the thread.
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
        except Exception as error:  # pylint: disable=broad-except
            self.close()  # it is of no more use: another one takes its place
            failure = error if isinstance(error, Error) else Unknown(str(error))
            outcomes = [failure if place in under_way or outcome is None else outcome
                        for place, outcome in enumerate(outcomes)]
        return outcomes
