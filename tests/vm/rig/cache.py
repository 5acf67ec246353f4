"""The cache of files that are expensive to make, and how several runs share it.

    kernel-VERSION-KEY/  vmlinux, lib/modules, siw.ko            made by tests/vm/prepare (downloads)
    image-KEY/           initramfs, snapshots of booted guests   made by the first run that needs them

A KEY covers all inputs: the rig's own files, versions, the guest's command line. Stale files are not found, hence never
used.
"""

import contextlib
import fcntl
import os
import pathlib
import pwd
import shutil
import tempfile
import time

UNUSED_DAYS = 2  # images and kernels are removed after this many days without use


class RigError(Exception):
    """The rig cannot do its work; the text says why and how to fix it."""


def root():
    """The directory of the cache. Not through $HOME, which Bazel does not pass to tests."""
    asked = os.environ.get("FARLOOK_VM_CACHE")
    path = pathlib.Path(asked) if asked else pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache", "farlook-vm")
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def made_once(target):
    """For `with made_once(target) as partial`: yields a scratch directory to fill, which then becomes `target` in one
    step; yields None when it exists already, also if another process has just made it."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target.parent / f".{target.name}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
                try:
                    yield partial
                    partial.chmod(0o755)
                    partial.rename(target)
                finally:
                    shutil.rmtree(partial, ignore_errors=True)
                return
    yield None


def touch_and_prune(used):
    """Notes that this directory is in use, and removes those of its kind that were unused for days."""
    with contextlib.suppress(OSError):
        os.utime(used)
    for sibling in used.parent.glob(used.name.split("-")[0] + "-*"):
        with contextlib.suppress(OSError):
            if sibling != used and sibling.stat().st_mtime < time.time() - UNUSED_DAYS * 86400:
                shutil.rmtree(sibling, ignore_errors=True)
