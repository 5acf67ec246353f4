"""Farlook, a key-value store whose clients read the server's memory themselves.

    import farlook

    with farlook.connect("shm:///run/farlook") as client:
        client.put("key", b"value", ttl_ms=60_000)
        client.get("key")

Keys and values are bytes, any object with a buffer (memoryview, numpy arrays; for a torch tensor on the CPU its
.numpy(), which shares its memory), or str as UTF-8. Results are bytes, or go into a buffer. An absent key is None or
False, and no error, for get() and its variants, exists(), delete(), touch(), persist() and batches. ttl(), put() with
if_present or if_version, and counters raise NotFound. Every error is a farlook.Error. Options are given by name: those
of the C library (farlook.h), including timeout_ms of every call; None means that an option is not given. At most one of
if_absent, if_present and if_version may be given. No item has the version 0: if_version=0 raises Aborted.

A client may be used by many threads, which take turns: while one waits for the server, others run Python, and use the
client. The timeout of a call includes the wait for its turn. For concurrent work connect a client for each thread.
Signals are handled while a call waits, also in connect(): KeyboardInterrupt ends it, and a handler may use the client,
but not close it. The outcome of a put that was ended in this way is unknown. After os.fork() connect again; in the
child the parent's client raises FailedPrecondition.
"""

from farlook import _farlook
from farlook._farlook import (Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error, FailedPrecondition,
                              Internal, InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
                              Unauthenticated, Unavailable, Unknown)
from farlook._scan import Item, Scan, count, item_of, pair_of

__version__ = _farlook.version
__all__ = ["Client", "connect", "Error", "Aborted", "AlreadyExists", "Cancelled", "DataLoss", "DeadlineExceeded",
           "FailedPrecondition", "Internal", "InvalidArgument", "Item", "NotFound", "OutOfRange", "PermissionDenied",
           "ResourceExhausted", "Scan", "Unauthenticated", "Unavailable", "Unknown"]


def _figures(text):
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


class Client(_farlook.Client):
    """A connection to a server: farlook.connect() makes one."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __contains__(self, key):
        return self.exists(key)

    def __reduce__(self):
        raise TypeError("a farlook.Client is a connection of this process, and cannot be pickled: pass client.address, "
                        "and connect there")

    def get_dict(self, keys, *, timeout_ms=None):
        """Returns a dict of the values of those keys that are present."""
        keys = list(keys)
        values = self.get_many(keys, timeout_ms=timeout_ms)
        return {key: value for key, value in zip(keys, values) if value is not None}

    def server_stats(self, *, timeout_ms=None):
        """Returns the server's statistics (docs/operations.md), as text by name."""
        return _figures(self.server_stats_text(timeout_ms=timeout_ms))

    def scan(self, prefix=b"", *, limit=None, min_value_bytes=None, max_value_bytes=None, only_expiring=None,
             batch_bytes=None, bytes_per_s=None, cursor=None, timeout_ms=None):
        """Returns an iterator over (key, value) of all keys with a prefix, in no order; a counter's value is None.

        A key that is there from the scan's beginning to its end is returned at least once, whatever is written
        meanwhile (docs/guide.md). The timeout is that of each batch.
        """
        return Scan(self, pair_of, prefix, {
            "values": True, "limit": limit, "min_value_bytes": min_value_bytes, "max_value_bytes": max_value_bytes,
            "only_expiring": only_expiring, "batch_bytes": batch_bytes, "bytes_per_s": bytes_per_s, "cursor": cursor,
            "timeout_ms": timeout_ms})

    def scan_items(self, prefix=b"", *, values=None, limit=None, min_value_bytes=None, max_value_bytes=None,
                   only_expiring=None, batch_bytes=None, bytes_per_s=None, cursor=None, timeout_ms=None):
        """The same of farlook.Item: key, length, version, ttl and more; values only with values=True."""
        return Scan(self, item_of, prefix, {
            "values": values, "limit": limit, "min_value_bytes": min_value_bytes, "max_value_bytes": max_value_bytes,
            "only_expiring": only_expiring, "batch_bytes": batch_bytes, "bytes_per_s": bytes_per_s, "cursor": cursor,
            "timeout_ms": timeout_ms})

    def count(self, prefix=b"", *, bytes_per_s=None, timeout_ms=None):
        """Counts the keys with a prefix by a scan: a key that is there throughout is counted at least once."""
        return count(self, prefix, {"bytes_per_s": bytes_per_s, "timeout_ms": timeout_ms})


def connect(address, **options):
    """Connects to the server at an address: "shm:///path", "rdma://host:port", "tcp://host:port", "auto://host:port"."""
    return Client.connect(address, **options)


connect.__wrapped__ = Client.connect  # help() shows its options
