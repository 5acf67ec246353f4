"""The container's image: the files of the packages farlook-server and farlook-tools, and the libraries that they need,
copied from this machine. Nothing is fetched, and there is no shell in it."""

import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

PROGRAMS = ["usr/bin/kv_server", "usr/bin/kv_cli"]
PACKAGES = ["farlook-server", "farlook-tools"]
# libibverbs loads the driver of the device that it finds.
DRIVERS = ["/etc/libibverbs.d/*.driver", "/usr/lib/*/libibverbs/*.so"]
USER = 65532
FILES = {"etc/passwd": f"root:x:0:0::/:/\nfarlook:x:{USER}:{USER}::/run/farlook:/\n",
         "etc/group": f"root:x:0:\nfarlook:x:{USER}:\n",
         "etc/nsswitch.conf": "hosts: files dns\n"}
# Directories that its user writes to, with their modes.
DIRECTORIES = {"run/farlook": 0o755, "tmp": 0o1777}
RECIPE = f"""FROM scratch
ADD root.tar /
USER {USER}:{USER}
EXPOSE 7471
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/kv_server"]
CMD ["--flagfile=/etc/farlook/kv_server.flags"]
"""
NAME = "localhost/farlook"


def libraries(program):
    """The files of the libraries that a program is loaded with, and the loader, where it looks for them."""
    told = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    if "not found" in told:
        raise RuntimeError(f"libraries are missing here:\n{told}")
    return re.findall(r"(/\S+) \(0x", told)


def lay_out(root, packages):
    """Fills `root` from .deb files of `packages`, and from this machine."""
    with tempfile.TemporaryDirectory(prefix="farlook-container-") as scratch:
        for package in PACKAGES:
            deb, = packages.glob(f"{package}_*.deb")
            subprocess.run(["dpkg-deb", "--extract", deb, scratch], check=True)
        for path in [*PROGRAMS, "etc/farlook/kv_server.flags", "usr/share/doc/farlook-server/copyright"]:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pathlib.Path(scratch) / path, root / path)
    drivers = [path for pattern in DRIVERS for path in pathlib.Path("/").glob(pattern[1:])]
    wanted = {str(path) for path in drivers}
    for program in [*(root / path for path in PROGRAMS), *(path for path in drivers if path.suffix == ".so")]:
        wanted.update(libraries(program))
    for path in sorted(wanted):
        target = root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for path, mode in DIRECTORIES.items():
        (root / path).mkdir(parents=True)
        (root / path).chmod(mode)


def archive(root, path):
    """All of `root` as root's, except for the directories that its user writes to; the same bytes for the same
    files."""
    def owned(member):
        member.uid = member.gid = USER if member.name in DIRECTORIES else 0
        member.uname = member.gname = ""
        member.mtime = 0
        return member

    with tarfile.open(path, "w") as tar:
        for entry in sorted(root.rglob("*")):
            tar.add(entry, str(entry.relative_to(root)), recursive=False, filter=owned)


def write_recipe(directory, packages):
    """The recipe and its context, which any builder takes; needs no rights, and no network."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farlook-container-") as scratch:
        lay_out(pathlib.Path(scratch), packages)
        archive(pathlib.Path(scratch), directory / "root.tar")
    (directory / "Containerfile").write_text(RECIPE, encoding="utf-8")


def build(directory, version):
    """Has buildah make the image of a recipe: an archive that podman, docker and others load. Returns its path."""
    image = directory / "farlook.tar"
    image.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="farlook-container-") as scratch:
        buildah = ["buildah", "--storage-driver=vfs", f"--root={scratch}/root", f"--runroot={scratch}/run"]
        for command in (["bud", "--isolation=chroot", "--timestamp=0", f"--tag={NAME}:{version}", "."],
                        ["push", f"{NAME}:{version}", f"docker-archive:{image}:{NAME}:{version}"],
                        ["rmi", "--all", "--force"]):
            done = subprocess.run([*buildah, *command], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"buildah {command[0]} failed:\n{done.stdout}")
    return image
