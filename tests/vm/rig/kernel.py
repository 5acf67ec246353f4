"""A stock Debian kernel for the guest: fetched and unpacked, never installed; and siw, which Debian leaves out of it.

All packages come from apt's own sources, in one version, except the programs that build: a module built for another
kernel would not load.
"""

import contextlib
import hashlib
import lzma
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile

from cache import RigError, made_once, root
import programs

META = "linux-image-amd64"  # the -cloud kernels lack rdma_rxe and 9p


def newest():
    """The directory of the newest kernel that tests/vm/prepare has made."""
    def by_version(path):
        return [int(number) for number in re.findall(r"\d+", path.name.removesuffix(_recipe()))]

    found = sorted(root().glob(f"kernel-*-{_recipe()}"), key=by_version)
    if not found:
        raise RigError("no guest kernel is prepared: run tools/setup (or tests/vm/prepare)")
    return found[-1]


def _recipe():
    """A kernel made with another version of this file is not found."""
    return hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:8]


def release(kernel):
    """The kernel's version, as uname -r prints it in the guest: 6.1.0-56-amd64."""
    return next((kernel / "lib/modules").iterdir()).name


def prepare(say):
    """Fetches the newest kernel according to apt, and builds siw for it."""
    if platform.machine() != "x86_64":
        raise RigError(f"the guest is x86_64 and this machine is {platform.machine()}")
    image, version = _candidate()
    target = root() / f"kernel-{image.removeprefix('linux-image-').removesuffix('-amd64')}-{version}-{_recipe()}"
    with made_once(target) as partial:
        if partial is None:
            say(f"{target.name} is there")
            return
        say(f"fetching {image} {version}, its headers and its source")
        with tempfile.TemporaryDirectory(dir=partial) as scratch:
            packages = _download(pathlib.Path(scratch), image, version)
            # The longest part, in a separate process: it begins first.
            with _siw_source(packages["linux-source-6.1"], pathlib.Path(scratch, "src")) as siw:
                _unpack_image(packages[image], pathlib.Path(scratch, "image"), partial)
                tree = _unpack_headers(packages, pathlib.Path(scratch, "headers"))
                say("building siw.ko")
                _build_siw(tree, siw(), partial / "siw.ko")
    say(f"{target.name} is prepared")


def _candidate():
    """The image package that the meta package depends on, and its version."""
    shown = programs.output("apt-cache", "depends", META)
    image = re.search(r"Depends: (linux-image-[^\s]+)", shown)
    version = image and re.search(r"Candidate: (\S+)", programs.output("apt-cache", "policy", image[1]))
    if not version or version[1] == "(none)":
        raise RigError(f"apt knows no {META}: run apt-get update")
    return image[1], version[1]


def _download(directory, image, version):
    """The packages' files, by package name."""
    series = re.match(r"\d+\.\d+", version)[0]
    base = image.removeprefix("linux-image-").removesuffix("-amd64")
    names = [image, f"linux-headers-{base}-amd64", f"linux-headers-{base}-common", f"linux-source-{series}"]
    # Programs for all kernels of the series. The archive has only their newest version, for days before a signed image
    # of that version is there; the headers depend on "this version or later".
    kbuild = f"linux-kbuild-{series}"
    programs.output("apt-get", "download", *[f"{name}={version}" for name in names], kbuild, cwd=directory)
    return {name: next(directory.glob(f"{name}_*.deb")) for name in [*names, kbuild]}


def _unpack_image(deb, scratch, kernel):
    """Modules as they are; the kernel uncompressed, which saves seconds of emulation at each boot."""
    programs.output("dpkg", "-x", deb, scratch)
    payload = next((scratch / "boot").glob("vmlinuz-*")).read_bytes()
    at = payload.find(b"\xfd7zXZ\0")
    if at < 0:
        raise RigError(f"{deb.name} is not compressed with xz")
    (kernel / "vmlinux").write_bytes(lzma.LZMADecompressor().decompress(payload[at:]))
    shutil.move(scratch / "lib", kernel / "lib")
    programs.output("depmod", "-b", kernel, release(kernel))


def _unpack_headers(packages, scratch):
    """The build directory of modules. It expects to lie in /usr/src, which one line fixes."""
    for name, deb in packages.items():
        if name.startswith(("linux-headers-", "linux-kbuild-")):
            programs.output("dpkg", "-x", deb, scratch)
    tree = next((scratch / "usr/src").glob("linux-headers-*-amd64"))
    makefile = tree / "Makefile"
    makefile.write_text(makefile.read_text(encoding="utf-8").replace("/usr/src/", f"{scratch}/usr/src/"),
                        encoding="utf-8")
    return tree


@contextlib.contextmanager
def _siw_source(deb, scratch):
    """Starts to decompress the kernel's source; yields a function that extracts siw from it, and returns its directory.
    Half of the archive is enough."""
    wanted = "/drivers/infiniband/sw/siw/"
    command = f"dpkg-deb --fsys-tarfile '{deb}' | tar xO --wildcards '*.tar.xz' | xz -dc 2>/dev/null"
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, start_new_session=True) as pipe:

        def take():
            found = 0
            with tarfile.open(fileobj=pipe.stdout, mode="r|", bufsize=1 << 20) as archive:
                for member in archive:
                    if wanted in member.name:
                        archive.extract(member, scratch)
                        found += 1
                    elif found:
                        break
            if not found:
                raise RigError(f"{deb.name} holds no {wanted}")
            return next(scratch.glob(f"*{wanted}"))

        try:
            yield take
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pipe.pid, 9)


def _build_siw(tree, source, target):
    programs.output("make", f"-j{os.cpu_count()}", "-C", tree, f"M={source}", "CONFIG_RDMA_SIW=m", "modules")
    programs.output("strip", "--strip-debug", "-o", target, source / "siw.ko")
