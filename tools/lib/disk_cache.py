"""Bazel's disk cache: code that was built once on this machine is not compiled again, in any clone.

It lies in the user's cache directory and is bounded, which Bazel 4.2.3 leaves to others: a run of tools/test or
tools/demo ends with clean(). All of it may be deleted at any time; Bazel rebuilds what is missing.
"""

import contextlib
import hashlib
import os
import pathlib
import subprocess
import time

MAX_BYTES = 20 << 30  # a full tools/test from nothing leaves some 7 GiB, most of them linked tests
MAX_AGE_S = 14 * 24 * 3600
# Packages with compilers and linkers, and with headers that are not of the project: Bazel does not read these, so its
# keys do not contain them.
PACKAGES = ["*-dev", "gcc-*", "g++-*", "cpp-*", "clang-*", "llvm-*", "lld-*", "binutils*", "libc6*"]


def directory(environ=None):
    """The directory of the cache, or None where this user has no cache directory."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # a relative one is to be ignored, says the XDG specification
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".cache")
    return pathlib.Path(base) / "farlook" / "bazel"


def prepare(path):
    """Makes the cache usable; returns the flags of `bazel build` and `bazel test` that use it: none where it cannot be
    written."""
    if path is None:
        return []
    try:
        path.mkdir(parents=True, exist_ok=True)
        _forget_other_packages(path)
    except OSError:
        return []
    return [f"--disk_cache={path}"] if os.access(path, os.W_OK | os.X_OK) else []


def _forget_other_packages(path):
    """Results of older compilers and headers are not used: their actions are forgotten, their files are left to
    clean()."""
    stamp = path / "packages"
    now = _packages()
    before = stamp.read_text(encoding="utf-8") if stamp.exists() else now
    if before != now:
        for file in (path / "ac").glob("*/*"):
            file.unlink(missing_ok=True)
    if before != now or not stamp.exists():
        partial = path / f"packages.{os.getpid()}"
        partial.write_text(now, encoding="utf-8")
        partial.replace(stamp)


def _packages():
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Package}:${Architecture} ${Version}\n", *PACKAGES],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return ""
    return "".join(sorted(done.stdout.splitlines(keepends=True)))


def machine():
    """A word for the dependencies of a test's result beside its inputs: all packages, the kernel, the processors."""
    try:
        packages = subprocess.run(["dpkg-query", "-W", "-f", "${Package}:${Architecture} ${Version}\n"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    except OSError:
        packages = b""
    system = os.uname()
    words = f"{system.release} {system.machine} {os.cpu_count()}\n".encode() + packages
    return hashlib.sha256(words).hexdigest()[:16]


def clean(path, max_bytes=MAX_BYTES, max_age_s=MAX_AGE_S, now=None):
    """Deletes files that were not used for `max_age_s`, then the longest unused until `max_bytes` are left. Returns (files
    deleted, their bytes, bytes left). A Bazel that runs meanwhile treats missing files as never built.

    An entry was used when it was last written or read. Of reads within a day, Linux notes only the first after a write
    (relatime). Therefore the time of a noted read becomes the time of the write, so that the next read is noted too.
    Where Linux notes no reads (noatime), an entry is built again once in `max_age_s`."""
    now = time.time() if now is None else now
    entries = []
    for kind in ("ac", "cas"):
        for file in (path / kind).rglob("*"):
            with contextlib.suppress(OSError):  # another process deleted it
                stat = file.lstat()
                if not file.is_dir():
                    if stat.st_atime > stat.st_mtime:
                        os.utime(file, (stat.st_atime, stat.st_atime))
                    entries.append((max(stat.st_atime, stat.st_mtime), stat.st_size, file))
    entries.sort(key=lambda entry: entry[:2])
    left = sum(size for _, size, _ in entries)
    deleted, freed = 0, 0
    for used, size, file in entries:
        if left <= max_bytes and now - used <= max_age_s:
            break
        with contextlib.suppress(OSError):
            file.unlink()
            deleted += 1
            freed += size
        left -= size
    return deleted, freed, left
