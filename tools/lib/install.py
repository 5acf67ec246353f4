"""Lays out what users of the client need: libraries, headers, and how pkg-config and CMake find them.

    tools/install [--destdir=DIR] PREFIX

    PREFIX/lib/libfarlook.so.1              for C, and what speaks C
    PREFIX/lib/libfarlook.a                 for C and C++; what it needs is shared
    PREFIX/include/farlook.h, farlook/      headers of both
    PREFIX/lib/pkgconfig, PREFIX/lib/cmake  "farlook" is the C library, "farlook++" and Farlook::client the archive
    PREFIX/lib/python3.11/dist-packages     farlook for Python, where there is Python.h; 3.11 stands for what
                                            /usr/bin/python3 is, and for /usr it is python3
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Libraries that the archive is linked with; each name is that of pkg-config and, for Abseil, behind absl_ that of
# CMake.
ABSL = ["statusor", "status", "strings", "str_format", "synchronization", "time", "flat_hash_map", "hash", "cord"]
OTHERS = ["xxhash", "sodium", "ibverbs", "rdmacm"]

PKG_CONFIG = """\
prefix=${{pcfiledir}}/{up}
libdir=${{prefix}}/{libdir}
includedir=${{prefix}}/include

Name: {name}
Description: {description}
Version: {version}
{requires}Cflags: -I${{includedir}}
Libs: -L${{libdir}} {libs}
"""

CMAKE = """\
# Farlook::farlook: the C library. Farlook::client: the C++ client, from an archive.
get_filename_component(_farlook_prefix "${{CMAKE_CURRENT_LIST_DIR}}/{up}" ABSOLUTE)

if(NOT TARGET Farlook::farlook)
  add_library(Farlook::farlook SHARED IMPORTED)
  set_target_properties(Farlook::farlook PROPERTIES
    IMPORTED_LOCATION "${{_farlook_prefix}}/{libdir}/libfarlook.so.1"
    IMPORTED_SONAME libfarlook.so.1
    INTERFACE_INCLUDE_DIRECTORIES "${{_farlook_prefix}}/include")
endif()

# Only C++ programs need Abseil.
find_package(absl CONFIG QUIET)
if(absl_FOUND AND NOT TARGET Farlook::client)
  add_library(Farlook::client STATIC IMPORTED)
  set_target_properties(Farlook::client PROPERTIES
    IMPORTED_LOCATION "${{_farlook_prefix}}/{libdir}/libfarlook.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES CXX
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_INCLUDE_DIRECTORIES "${{_farlook_prefix}}/include"
    INTERFACE_LINK_LIBRARIES "{libraries}")
endif()
"""

CMAKE_VERSION = """\
# Minor versions may be incompatible as long as the major one is 0.
set(PACKAGE_VERSION "{version}")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION OR
   NOT "${{PACKAGE_FIND_VERSION_MAJOR}}" STREQUAL "{major}" OR
   ("{major}" STREQUAL "0" AND NOT "${{PACKAGE_FIND_VERSION_MINOR}}" STREQUAL "{minor}"))
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_VERSION STREQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
"""


def version_of(header):
    return re.search(r'#define FARLOOK_VERSION "(.*)"', header.read_text(encoding="utf-8")).group(1)


def up_from(folder):
    """The way from `folder`, which is below the prefix, to the prefix."""
    return "/".join(".." for _ in pathlib.Path(folder).parts)


def lay_out(prefix, root, built, libdir="lib"):
    """Installs all of it to `prefix`, which is made. `root`: where the sources are; `built`: where client/c was built;
    `libdir`: where below the prefix libraries go."""
    prefix = pathlib.Path(prefix)
    lib, include = prefix / libdir, prefix / "include"
    for directory in (lib / "pkgconfig", lib / "cmake/Farlook", include / "farlook"):
        directory.mkdir(parents=True, exist_ok=True)
    for name, mode in (("libfarlook.so.1", 0o755), ("libfarlook.a", 0o644)):
        put(built / "client/c" / name, lib / name, mode)
    link = lib / "libfarlook.so"
    link.unlink(missing_ok=True)
    link.symlink_to("libfarlook.so.1")
    for folder in ("client/include", "client/c/include", "base/include"):
        for header in sorted((root / folder).rglob("*.h")):
            put(header, include / header.relative_to(root / folder), 0o644)
    version = version_of(include / "farlook/version.h")
    major, minor, _ = version.split(".")
    places = {"libdir": libdir, "up": up_from(f"{libdir}/pkgconfig")}
    (lib / "pkgconfig/farlook.pc").write_text(PKG_CONFIG.format(
        **places, name="farlook", description="Client of the Farlook key-value store, for C", version=version,
        requires="", libs="-lfarlook"), encoding="utf-8")
    (lib / "pkgconfig/farlook++.pc").write_text(PKG_CONFIG.format(
        **places, name="farlook++", description="Client of the Farlook key-value store, for C++", version=version,
        requires="Requires: " + ", ".join("absl_" + name for name in ABSL) + "\n",
        libs="-l:libfarlook.a " + " ".join("-l" + name for name in OTHERS) + " -lstdc++"), encoding="utf-8")
    cmake = lib / "cmake/Farlook"
    (cmake / "FarlookConfig.cmake").write_text(
        CMAKE.format(libdir=libdir, up=up_from(f"{libdir}/cmake/Farlook"),
                     libraries=";".join(["absl::" + name for name in ABSL] + OTHERS)), encoding="utf-8")
    (cmake / "FarlookConfigVersion.cmake").write_text(
        CMAKE_VERSION.format(version=version, major=major, minor=minor), encoding="utf-8")


def python_packages(prefix):
    """The directory below `prefix`, as users have it, where Debian's Python looks for packages."""
    if pathlib.Path(prefix) == pathlib.Path("/usr"):
        return pathlib.Path("lib/python3/dist-packages")
    debians = "/usr/bin/python3"
    python = debians if os.path.exists(debians) else sys.executable
    version = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                             stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return pathlib.Path(f"lib/python{version}/dist-packages")


def lay_out_python(prefix, root, packages, libdir="lib", searched=False):
    """Compiles the module against the files that lay_out() put to `prefix`, beside the package's sources, to `packages`
    there. `searched`: programs find the library without a given path."""
    package = pathlib.Path(prefix) / packages / "farlook"
    for source in sorted((root / "python/farlook").iterdir()):
        if source.suffix in (".py", ".pyi", ".typed"):
            put(source, package / source.name, 0o644)
    sources = sorted(str(path) for path in (root / "python/src").glob("*.c"))
    up = up_from((packages / "farlook").relative_to("lib"))
    search = [] if searched else [f"-Wl,-rpath,$ORIGIN/{up}"]
    subprocess.run(["gcc", "-std=c11", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    "-fvisibility=hidden", "-Wl,-z,relro,-z,now", f"-isystem{sysconfig.get_path('include')}", f"-I{prefix}/include", *sources,
                    f"-L{prefix}/{libdir}", "-lfarlook", *search, "-o", str(package / "_farlook.abi3.so")],
                   check=True)


def put(source, target, mode):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def main(argv):
    parser = argparse.ArgumentParser(prog="tools/install", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", metavar="PREFIX", type=pathlib.Path, help="as /usr/local")
    parser.add_argument("--destdir", metavar="DIR", help="put it below DIR, as packages do")
    args = parser.parse_args(argv)
    bazel = ["bazel", "build", "--config=opt", "//client/c:libfarlook.so.1", "//client/c:libfarlook.a"]
    if subprocess.run(bazel, cwd=ROOT, check=False).returncode != 0:
        return 1
    prefix = args.prefix.absolute()
    if args.destdir:
        prefix = pathlib.Path(args.destdir) / prefix.relative_to("/")
    lay_out(prefix, ROOT, ROOT / "bazel-bin")
    if (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists():
        lay_out_python(prefix, ROOT, python_packages(args.prefix.absolute()))
    print(f"installed to {prefix}")
    if args.destdir or os.geteuid() != 0 or subprocess.run(["/sbin/ldconfig"], check=False).returncode != 0:
        print(f"programs find libfarlook.so.1 after ldconfig, run as root, or with LD_LIBRARY_PATH={args.prefix}/lib")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
