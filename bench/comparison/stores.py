"""The stores of the comparison: how each is started, its settings, and its memory.

The same settings for all: no persistence; no eviction; one serving thread; as much memory as the records need and
more; pinned alike (runner.py). All servers of a run are up at the same time, and idle except the one that is measured.

Farlook is measured twice: with gets that are READs, and with gets that are messages to the same server, for comparison.

If $FARLOOK_RDMA_ADDRESS is an address of an RDMA device of this host, as in tests/vm/run, Farlook over RDMA and
perftest, the floor there, are included. The stores on TCP then listen at that address: the same network for all.
"""

import os
import pathlib
import re
import subprocess

import perftest
from processes import Failure, free_port, resident_bytes, start, stop, wait_until_listening

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
RDMA_HOST = os.environ.get("FARLOOK_RDMA_ADDRESS")
TCP_HOST = RDMA_HOST or "127.0.0.1"


def version_of(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed; tools/setup installs it") from None
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return found[0] if found else "unknown"


class Server:
    """A server process."""

    def __init__(self, name, version, command, address, log):
        self.name, self.version, self.command, self.log = name, version, [str(part) for part in command], log
        self.process = start(self.command, log)
        try:
            wait_until_listening(self.process, address, log)
        except BaseException:
            stop(self.process)
            raise
        self.empty_bytes = resident_bytes(self.pid)

    @property
    def pid(self):
        return self.process.pid

    def used_bytes(self, _bench):
        """The memory of the records: the growth of the process."""
        return resident_bytes(self.pid) - self.empty_bytes

    def stop(self):
        stop(self.process)

    def settings(self):
        return " ".join(self.command)


class FarlookServer(Server):
    """Its memory is mapped whole from the start, so it is asked for the part in use."""

    def used_bytes(self, bench):
        listen = next(part for part in self.command if part.startswith("--listen=")).partition("=")[2]
        address = next(part for part in listen.split(",") if part.startswith("shm://"))
        text = subprocess.run([bench.kv_cli, f"--address={address}", "stat"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        figures = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
        return int(figures["region_bytes"]) - int(figures["free_bytes"])


class Store:
    """A store as a client sees it: one -db of ycsb with its properties. Several may lead to the same server."""

    def __init__(self, name, title, db, properties, server=None):
        self.name, self.title, self.db, self.properties, self.server = name, title, db, properties, server

    in_process = False

    def used_bytes(self, bench):
        return self.server.used_bytes(bench)


class LmdbStore(Store):
    """Its records are in a file in memory (/dev/shm), of which only the written part takes room."""

    def used_bytes(self, bench):
        return (pathlib.Path(self.properties["lmdb.path"]) / "data.mdb").stat().st_blocks * 512


class InProcessStore(Store):
    """Ends with the driver, which loads it again for each run. Its memory is the driver's: see runner.py."""

    in_process = True


class PerftestStore(Store):
    """No store: programs that READ and SEND bare bytes. ycsb is not involved."""

    def measure(self, case, percentiles, clients_on):
        return perftest.measure(case, RDMA_HOST, percentiles, clients_on)


BY_MESSAGE = "-msg"  # suffix of the names of stores whose gets ask the server
STORES = {  # by name, in the order of reports
    "farlook-shm": "Farlook, shared memory",
    "farlook-shm-msg": "Farlook, shared memory, lookups by message",
    **({"farlook-rdma": "Farlook, RDMA", "farlook-rdma-msg": "Farlook, RDMA, lookups by message"} if RDMA_HOST else {}),
    "farlook-tcp": "Farlook, TCP",
    "redis-unix": "Redis, Unix socket",
    "redis-tcp": "Redis, TCP",
    "memcached-unix": "memcached, Unix socket",
    "memcached-tcp": "memcached, TCP",
    "lmdb": "LMDB, in process",
    "map": "map behind a lock, in process",
    "floor": "floor: bare loads and copies",
    "driver": "driver alone: what ycsb itself takes of each figure",
    **({perftest.NAME: "perftest, the floor on verbs: READs, and SENDs there and back"} if RDMA_HOST else {}),
}
BETWEEN_HOSTS = [name for name in STORES if name.startswith("farlook-rdma") or name.endswith("-tcp") or
                 name in ("map", "floor", "driver", perftest.NAME)]
DRIVER = "driver"
FLOORS = (perftest.NAME, "floor")  # the first of these that has a figure is the reference for the others


def lookups_of(name):
    """Its kind of lookups: over TCP the library's default, which is by message."""
    return "auto" if name == "farlook-tcp" else "messages" if name.endswith(BY_MESSAGE) else "reads"


def start_stores(names, bench, directory, data_bytes):
    """Starts the servers of the named stores. Returns (stores, servers, {program: version}). The caller stops the
    servers. On failure nothing stays running."""
    servers, stores, versions = [], [], {}

    def serve(kind, *args):
        server = kind(*args)
        servers.append(server)
        return server

    try:
        shm, rdma = f"shm://{directory}/farlook", f"rdma://{RDMA_HOST}:7471"
        tcp = f"tcp://{TCP_HOST}:{free_port()}"
        farlooks = {"farlook-shm": shm, "farlook-shm-msg": shm, "farlook-rdma": rdma, "farlook-rdma-msg": rdma,
                    "farlook-tcp": tcp}
        if used := {name: address for name, address in farlooks.items() if name in names}:
            versions["kv_server"] = version_of(bench.kv_server, "--version")
            # Room for the index, for partly filled blocks, and for inserts.
            mib = max(256, data_bytes * 2 // MIB + 128)
            # One process listens at both; always also on a socket, which shows when it is up.
            listen = ",".join(sorted({shm, *used.values()}))
            farlook = serve(FarlookServer, "kv_server", versions["kv_server"],
                            [bench.kv_server, f"--listen={listen}", f"--memory={mib}MiB", "--workers=1",
                             "--huge_pages=auto"], str(directory / "farlook"), directory / "farlook.log")
            for name, address in used.items():
                stores.append(Store(name, STORES[name], "farlook",
                                    {"farlook.address": address, "farlook.timeout_ms": 20000,
                                     "farlook.wait": "true",  # it listens before its memory is ready
                                     "farlook.lookups": lookups_of(name),
                                     "farlook.server_pid": farlook.pid}, farlook))
        if {"redis-unix", "redis-tcp"} & set(names):
            versions["redis-server"] = version_of("redis-server", "--version")
            socket, port = directory / "redis", free_port()
            redis = serve(Server, "redis-server", versions["redis-server"],
                          ["redis-server", "--bind", TCP_HOST, "--protected-mode", "no" if RDMA_HOST else "yes", "--port", port, "--unixsocket", socket, "--save", "",
                           "--appendonly", "no", "--maxmemory", "0", "--io-threads", "1", "--loglevel", "warning",
                           "--dir", directory], str(socket), directory / "redis.log")
            for name, address in (("redis-unix", f"unix://{socket}"), ("redis-tcp", f"tcp://{TCP_HOST}:{port}")):
                if name in names:
                    stores.append(Store(name, STORES[name], "redis", {"redis.address": address}, redis))
        for name in ("memcached-unix", "memcached-tcp"):
            if name not in names:
                continue
            versions["memcached"] = version_of("memcached", "--version")
            socket, port = directory / "memcached", free_port()
            unix = name == "memcached-unix"  # one process listens at either
            memcached = serve(Server, "memcached", versions["memcached"],
                              [HERE.parent / "stores/run_memcached", "-t", "1", "-U", "0", "-M", "-c", "1024",
                               "-m", data_bytes * 2 // MIB + 256,
                               *(["-s", socket] if unix else ["-l", TCP_HOST, "-p", port])],
                              str(socket) if unix else (TCP_HOST, port), directory / f"{name}.log")
            stores.append(Store(name, STORES[name], "memcached", {
                "memcached.address": f"unix://{socket}" if unix else f"tcp://{TCP_HOST}:{port}"}, memcached))
    except BaseException:
        for server in servers:
            server.stop()
        raise
    if "lmdb" in names:
        versions["lmdb"] = version_of("dpkg-query", "-W", "-f=${Version}", "liblmdb0")
        stores.append(LmdbStore("lmdb", STORES["lmdb"], "lmdb", {
            "lmdb.path": str(bench.memory_directory / "lmdb"), "lmdb.map_mib": data_bytes * 4 // MIB + 256}))
    for name in ("map", "floor", DRIVER):
        if name in names:
            stores.append(InProcessStore(name, STORES[name], name, {}))
    if perftest.NAME in names:
        versions[perftest.NAME] = version_of("ib_read_lat", "--version")
        stores.append(PerftestStore(perftest.NAME, STORES[perftest.NAME], None, {}))
    return stores, servers, versions
