"""The guest's initramfs: busybox, the kernel modules in the order to load them, and the few tools that set up devices.

The guest sees this machine's own root file system after it is up (guest/init), so nothing else need be in here.
"""

import functools
import hashlib
import os
import pathlib
import shutil

from cache import made_once, root, touch_and_prune
import kernel as kernels
import programs

HERE = pathlib.Path(__file__).resolve().parent
GUEST = HERE.parent / "guest"
TOOLS = ("ip", "rdma", "tc")  # with their libraries
MODULES = """libcrc32c crc32c_generic crc32_generic virtio_pci virtio_net 9p 9pnet_virtio overlay veth ib_uverbs rdma_ucm
             rdma_rxe bridge sch_netem sch_ingress cls_matchall act_gact""".split()
DIRECTORIES = ["bin", "dev", "mnt", "proc", "sys", "modules", "tools"]


@functools.cache
def qemu_version():
    return programs.output("qemu-system-x86_64", "--version").splitlines()[0]


def key(kernel):
    """A key that differs if any input of the image or its snapshots does."""
    digest = hashlib.sha256(f"{kernel.name} {qemu_version()}".encode())
    for path in (GUEST / "init", HERE / "image.py", HERE / "machine.py"):
        digest.update(path.read_bytes())
    for tool in TOOLS:
        digest.update(str(os.stat(programs.find(tool)).st_mtime_ns).encode())
    return digest.hexdigest()[:16]


@functools.cache
def image():
    """The directory of the initramfs, and of the snapshots made with it."""
    kernel = kernels.newest()
    target = root() / f"image-{key(kernel)}"
    with made_once(target) as partial:
        if partial is not None:
            _build(kernel, partial)
    touch_and_prune(target)
    touch_and_prune(kernel)
    return target


def _build(kernel, target):
    tree = target / "tree"
    for name in DIRECTORIES:
        (tree / name).mkdir(parents=True)
    shutil.copy(programs.find("busybox"), tree / "bin/busybox")
    shutil.copy(GUEST / "init", tree / "init")
    (tree / "init").chmod(0o755)
    for tool in TOOLS:
        _copy_program(programs.find(tool), tree)
    order = []
    for path in _modules(kernel):
        order.append(path.name)
        programs.output("strip", "--strip-debug", "-o", tree / "modules" / path.name, path)
    (tree / "modules/order").write_text("\n".join(order) + "\n", encoding="utf-8")
    # Uncompressed: unpacking is expensive in emulation.
    programs.output("sh", "-c", "find . | cpio -o -H newc --quiet > ../initramfs.cpio", cwd=tree)
    shutil.rmtree(tree)


def _modules(kernel):
    """Each module after its dependencies."""
    paths = []
    for module in MODULES:
        shown = programs.output("modprobe", "-d", kernel, "-S", kernels.release(kernel), "--show-depends", module)
        paths += [pathlib.Path(line.split()[1]) for line in shown.splitlines() if line.startswith("insmod ")]
    return [*dict.fromkeys(paths), kernel / "siw.ko"]


def _copy_program(path, tree):
    shutil.copy(path, tree / "tools")
    for word in programs.output("ldd", path).split():
        if word.startswith("/"):
            library = tree / word[1:]
            library.parent.mkdir(parents=True, exist_ok=True)
            if not library.exists():
                shutil.copy(word, library)
