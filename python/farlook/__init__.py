"""Farlook, a key-value store whose clients read the server's memory themselves.

    import farlook

    with farlook.connect("shm:///run/farlook") as client:
        client.put("key", b"value", ttl_ms=60_000)
        client.get("key")

Keys and values are bytes, anything with a buffer (memoryview, arrays of numpy; of a torch tensor on the CPU its
.numpy(), which shares its memory), or str as UTF-8; what is read is bytes, or goes into a buffer. To get(), its kin,
exists(), delete(), touch(), persist() and batches a key that is absent is None, or False, and no error; ttl(),
put(if_present=True) or with if_version, and counters raise NotFound. Every error is a farlook.Error. Options are given
by name: those of the C library (farlook.h), timeout_ms of every call among them; None is an option that is not given,
and of if_absent, if_present and if_version one may be given.

A client may be used by many threads, which take turns: while one waits for the server, others run Python. For work at the
same time connect a client for each. After os.fork() connect again; in the child the parent's client raises
FailedPrecondition.
"""

from farlook import _farlook
from farlook._farlook import (Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error, FailedPrecondition,
                              Internal, InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
                              Unauthenticated, Unavailable, Unknown)

__version__ = _farlook.version
__all__ = ["Client", "connect", "Error", "Aborted", "AlreadyExists", "Cancelled", "DataLoss", "DeadlineExceeded",
           "FailedPrecondition", "Internal", "InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied",
           "ResourceExhausted", "Unauthenticated", "Unavailable", "Unknown"]


def _figures(text):
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


class Client(_farlook.Client):
    """A connection to a server: farlook.connect() makes one."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def server_stats(self, **options):
        """The server's figures (docs/operations.md), as text by name."""
        return _figures(self.server_stats_text(**options))


def connect(address, **options):
    """Connects to "shm:///path" or "rdma://host:port"."""
    return Client.connect(address, **options)
