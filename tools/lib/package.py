"""Builds the Debian packages of debian/control from what Bazel built, and a container's image of them.

    tools/package [--lint] [DIRECTORY]     to DIRECTORY, which is made (packages)

    farlook-server     kv_server, its unit, a sample of its flags
    farlook-tools      kv_cli, farlook_exporter with its unit, kv_cluster
    farlook-bench      ycsb, as farlook_ycsb, and the workloads
    farlook-doc        README.md, what it links to, and docs/
    libfarlook1        the client for C
    libfarlook-dev     headers, the archive for C++, files for pkg-config and CMake
    python3-farlook    the client for Python

    container/         the recipe of an image with server and kv_cli, and, where buildah is, the image: farlook.tar

Manual pages and completions are made of what the programs say of themselves (manual.py).
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import container
import install
import manual

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {"kv_server": "server/daemon/kv_server", "kv_cli": "client/cli/kv_cli",
            "farlook_exporter": "client/exporter/farlook_exporter"}
SCRIPT = "server/daemon/kv_cluster.py"
YCSB = "bench/ycsb/ycsb"
TARGETS = ["//server/daemon:kv_server", "//client/cli:kv_cli", "//client/exporter:farlook_exporter",
           "//client/c:libfarlook.so.1", "//client/c:libfarlook.a", "//bench/ycsb"]
# Files of the tree that debian/rules needs beside Bazel's outputs.
SOURCES = ["debian", "tools/lib", "base/include", "client/include", "client/c/include", "python", "server/daemon/kv_server.flags",
           "server/daemon/kv_server.service", SCRIPT, "client/exporter/farlook.rules.yml", "client/exporter/grafana.json",
           "client/exporter/farlook_exporter.service", "client/exporter/farlook_exporter.flags", "client/examples",
           "client/hello.cc", "bench/workloads", "docs", "LICENSE", "README.md", "CHANGELOG.md",
           "CONTRIBUTING.md", "SECURITY.md"]
VERSION = ROOT / "base/include/farlook/version.h"
# Differences of the units where packages install them.
UNITS = {"server/daemon/kv_server.service": [("/usr/local/bin/", "/usr/bin/"), ("DynamicUser=yes\n", "User=farlook\n")],
         "client/exporter/farlook_exporter.service": [("/usr/local/bin/", "/usr/bin/"),
                                                      ("User=kv_server\nDynamicUser=yes\n", "User=farlook\n")]}


def built():
    """Returns the directory of Bazel's outputs; builds them if they do not exist."""
    if "FARLOOK_BUILT" not in os.environ:
        subprocess.run(["bazel", "build", "--config=opt", *TARGETS], cwd=ROOT, check=True)
    return pathlib.Path(os.environ.get("FARLOOK_BUILT", ROOT / "bazel-bin")).absolute()


def unit(source):
    text = (ROOT / source).read_text(encoding="utf-8")
    for there, here in UNITS[source]:
        if there not in text:
            raise ValueError(f"{source} has no {there!r} any more")
        text = text.replace(there, here)
    return text


def lay_out(root, outputs):
    """All files of all packages, below `root`."""
    usr = root / "usr"
    architecture = subprocess.run(["dpkg-architecture", "-qDEB_HOST_MULTIARCH"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout.strip()
    libdir = f"lib/{architecture}"
    install.lay_out(usr, ROOT, outputs, libdir)
    install.lay_out_python(usr, ROOT, install.python_packages("/usr"), libdir, searched=True)
    for name, path in PROGRAMS.items():
        install.put(outputs / path, usr / "bin" / name, 0o755)
    install.put(ROOT / SCRIPT, usr / "bin/kv_cluster", 0o755)
    install.put(outputs / YCSB, usr / "bin/farlook_ycsb", 0o755)
    shutil.copytree(ROOT / "bench/workloads", usr / "share/farlook/workloads")
    for flags in ("server/daemon/kv_server.flags", "client/exporter/farlook_exporter.flags"):
        install.put(ROOT / flags, root / "etc/farlook" / pathlib.Path(flags).name, 0o644)
    (root / "lib/systemd/system").mkdir(parents=True)
    for source in UNITS:
        (root / "lib/systemd/system" / pathlib.Path(source).name).write_text(unit(source), encoding="utf-8")
    for name in ("farlook.rules.yml", "grafana.json"):
        install.put(ROOT / "client/exporter" / name, usr / "share/doc/farlook-tools/examples" / name, 0o644)
    pages = root.parent / "manual"
    manual.write_all(pages, manual.programs(*(outputs / path for path in PROGRAMS.values()), usr / "bin/kv_cluster"))
    for folder, place in (("man1", "man/man1"), ("bash", "bash-completion/completions"), ("zsh", "zsh/vendor-completions")):
        shutil.copytree(pages / folder, usr / "share" / place)
    shutil.rmtree(pages)
    manual.write_page(usr / "share/man/man1", manual.ycsb(outputs / YCSB))


def build(directory, outputs, version=None):
    """Has dpkg-buildpackage make the packages in `directory`. `version`: another one than debian/changelog's."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farlook-package-") as scratch:
        tree = pathlib.Path(scratch) / "farlook"
        for source in SOURCES:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tree / source, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                install.put(ROOT / source, tree / source, 0o644)
        if version:
            changes = tree / "debian/changelog"
            first = changes.read_text(encoding="utf-8")
            head, _, rest = first.partition(")")
            changes.write_text(head.partition("(")[0] + f"({version})" + rest + "\n" + first, encoding="utf-8")
        done = subprocess.run(["dpkg-buildpackage", "--build=binary", "--no-sign"], cwd=tree, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, FARLOOK_BUILT=str(outputs), LC_ALL="C.UTF-8"))
        if done.returncode != 0:
            raise RuntimeError(f"dpkg-buildpackage failed:\n{done.stdout}")
        for path in pathlib.Path(scratch).glob("*.*"):
            shutil.copy(path, directory / path.name)
    return sorted(directory.glob("*.deb")), done.stdout


def lint(directory):
    """lintian's findings about the packages there; empty: none."""
    changes = sorted(directory.glob("*.changes"))
    done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit=0", *changes], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
    return done.stdout.strip() or ("" if done.returncode == 0 else "lintian failed")


def main(argv):
    parser = argparse.ArgumentParser(prog="tools/package", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIRECTORY", nargs="?", type=pathlib.Path, default="packages")
    parser.add_argument("--version", metavar="VERSION", help="another one than debian/changelog's, as tests want it")
    parser.add_argument("--lint", action="store_true", help="have lintian look at them; fail if it finds anything")
    parser.add_argument("--lay_out", metavar="DIR", type=pathlib.Path, help="for debian/rules: all files, below DIR")
    args = parser.parse_args(argv)
    if args.lay_out:
        lay_out(args.lay_out.absolute(), built())
        return 0
    packages, _ = build(args.directory.absolute(), built(), args.version)
    for package in packages:
        print(package)
    container.write_recipe(args.directory.absolute() / "container", args.directory.absolute())
    if shutil.which("buildah"):
        print(container.build(args.directory.absolute() / "container", install.version_of(VERSION)))
    else:
        print(f"no buildah: {args.directory.absolute() / 'container'} has the recipe of the image only")
    found = lint(args.directory.absolute()) if args.lint else ""
    if found:
        print(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
