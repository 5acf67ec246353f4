#!/usr/bin/env python3
"""The Debian packages as users have them: installed, used, upgraded, removed and purged.

packages_test.py on a copy of this machine's files, which is thrown away (overlayfs) packages_test.py --fresh on
Debian's smallest system, which mmdebstrap fetches once to ~/.cache/farlook-packages

Needs root. The machine itself is not changed. """

import argparse
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request

PACKAGES = ["farlook-server", "farlook-tools", "farlook-bench", "farlook-doc", "libfarlook1", "libfarlook-dev",
            "python3-farlook"]
DOCUMENTS = pathlib.Path("/usr/share/doc/farlook-doc")
BEFORE = "0.0.9"  # the version that is upgraded
# Files that dpkg, and tools that it runs, keep for themselves.
KEPT = re.compile(r"(etc/ld\.so\.cache|etc/(passwd|group|g?shadow|sub[ug]id)-?|etc/\.pwd\.lock|run|tmp|dev|proc"
                  r"|etc/resolv\.conf|etc/dpkg/dpkg\.cfg\.d|usr/sbin/policy-rc\.d|var/(cache|log|tmp|lib/(dpkg|apt|systemd))|root/\.\w+)(/|$)")
INSIDE = pathlib.Path("/tmp/farlook-packages-test")
ADDRESS = "shm:///run/farlook/kv"
PYTHON = f"""
import farlook
with farlook.connect({ADDRESS!r}) as client:
  client.put("python", b"value")
  assert client.get("python") == b"value"
  print(farlook.__version__, farlook.__file__)
"""


def run(*command, **kwargs):
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600,
                          **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def expect(good, what):
    if not good:
        raise AssertionError(what)


def step(what):
    print(f"packages: {what}", flush=True)


# ---- The container's image.


def within(root, *command, user):
    """What a container's runtime does of importance here: its root, and nobody's rights."""
    def become():
        os.chroot(root)
        os.chdir("/")
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
    return subprocess.Popen(command, preexec_fn=become, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={"FARLOOK_ADDRESS": ADDRESS})


def check_container(container, directory, packages, version):
    container.write_recipe(directory, packages)
    image = directory / "root.tar"
    if shutil.which("buildah"):
        image = container.build(directory, version)
    else:
        step("no buildah here: the recipe's files were tested, and the image NOT built")
    expect(image.stat().st_size <= 40_000_000, f"the image has {image.stat().st_size} bytes")
    step(f"{image.name} has {image.stat().st_size} bytes")
    root = directory / "root"
    with tarfile.open(directory / "root.tar") as tar:
        tar.extractall(root)
    expect(not (root / "bin/sh").exists(), "there is a shell in it")
    for place in ("proc", "dev"):
        (root / place).mkdir()
        run("mount", "--rbind", f"/{place}", root / place)
    server = within(root, "/usr/bin/kv_server", f"--listen={ADDRESS}", "--listen=tcp://127.0.0.1:17471",
                    "--memory=64MiB", "--huge_pages=none", user=container.USER)
    try:
        log = ""
        for line in server.stdout:
            log += line
            if 'msg="ready"' in line:
                break
        else:
            raise AssertionError(log)
        expect(os.stat(f"/proc/{server.pid}").st_uid == container.USER, "it runs as another user")
        for words, wanted in ((["put", "key", "value"], ""), (["get", "key"], "value"),
                              (["--address=tcp://127.0.0.1:17471", "get", "key"], "value")):
            client = within(root, "/usr/bin/kv_cli", *words, user=container.USER)
            told = client.communicate(timeout=60)[0]
            expect(client.returncode == 0 and told.strip().endswith(wanted), f"kv_cli {words}: {told}")
        server.terminate()
        rest = server.communicate(timeout=60)[0]
        expect(server.returncode == 0, log + rest)
    finally:
        server.kill()
        server.wait()


# ---- Inside.


def apt(*words):
    return run("apt-get", "-q", "-y", "-o", "Dpkg::Options::=--force-confold", *words,
               env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def install(version):
    apt("install", "--no-install-recommends", *sorted((INSIDE / version).glob("*.deb")))
    for package in PACKAGES:
        expect(run("dpkg-query", "-W", "-f=${Version} ${db:Status-Abbrev}", package).strip() == f"{version} ii", package)


class Server:
    """Started like the unit does, with less memory."""

    def __init__(self):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            ["runuser", "-u", "farlook", "--", "kv_server", "--flagfile=/etc/farlook/kv_server.flags", "--memory=64MiB",
             "--huge_pages=none"], stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:
            log += line
            if 'msg="ready"' in line:
                return
        raise AssertionError(f"kv_server did not start:\n{log}")

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def files_are_there():
    unit = pathlib.Path("/lib/systemd/system/kv_server.service")
    expect("User=farlook\n" in unit.read_text(encoding="utf-8"), "the unit's user")
    complaints = run("systemd-analyze", "verify", "--man=no", unit) if shutil.which("systemd-analyze") else ""
    expect("kv_server" not in complaints, complaints)
    expect(not list(pathlib.Path("/etc/systemd/system").glob("*.wants/kv_server.service")), "the unit is enabled")
    expect(pwd.getpwuid(os.stat("/run/farlook").st_uid).pw_name == "farlook", "whose /run/farlook is")
    exporter = unit.with_name("farlook_exporter.service")
    expect("\nUser=farlook\n" in exporter.read_text(encoding="utf-8"), "the user of the exporter's unit")
    complaints = run("systemd-analyze", "verify", "--man=no", exporter) if shutil.which("systemd-analyze") else ""
    expect("farlook_exporter" not in complaints, complaints)
    expect(pathlib.Path("/usr/share/man/man1/farlook_ycsb.1.gz").exists(), "the page of farlook_ycsb")
    documents_are_there()
    for program in ("kv_server", "kv_cli", "farlook_exporter", "kv_cluster"):
        expect(pathlib.Path(f"/usr/share/man/man1/{program}.1.gz").exists(), program)
        completion = f"/usr/share/bash-completion/completions/{program}"
        expect(f"_{program}" in run("bash", "-c", f"source {completion}; complete -p {program}"), program)


def documents_are_there():
    """Checks that files exist to which programs and documents refer."""
    for program in ("kv_server", "kv_cli", "farlook_exporter", "kv_cluster", "farlook_ycsb"):
        path = shutil.which(program)
        expect(path is not None, program)
        for name in set(re.findall(rb"docs/([\w-]+\.md)", pathlib.Path(path).read_bytes())):
            expect((DOCUMENTS / "docs" / name.decode()).exists(), f"{program} refers to docs/{name.decode()}")
    pages = list(DOCUMENTS.rglob("*.md"))
    expect(len(pages) > 15 and DOCUMENTS / "README.md" in pages, f"documents: {pages}")
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text(encoding="utf-8")):
            expect((page.parent / link).exists(), f"{page} refers to {link}")
    examples = [path.name for place in ("libfarlook-dev", "python3-farlook")
                for path in pathlib.Path(f"/usr/share/doc/{place}/examples").iterdir()]
    expect({"session_store.c", "rate_limiter.c", "hello.cc", "feature_store.py", "go", "rust"} <= set(examples), examples)


def exporter_works():
    """Started like the unit does, as the server's user."""
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen(["runuser", "-u", "farlook", "--", "farlook_exporter",
                                "--flagfile=/etc/farlook/farlook_exporter.flags"], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        expect("at port 9560" in line, line)
        with urllib.request.urlopen("http://127.0.0.1:9560/metrics", timeout=60) as answer:
            expect("farlook_up 1" in answer.read().decode(), "the exporter does not reach the server")
    finally:
        process.terminate()
        process.communicate()


def ycsb_works():
    told = run("farlook_ycsb", "-db", "farlook", "-load", "-t", "-P", "/usr/share/farlook/workloads/workloadb", "-p",
               f"farlook.address={ADDRESS}", "-p", "recordcount=1000", "-p", "operationcount=1000")
    expect("[OVERALL], Throughput(ops/sec)" in told, told)


def consumers_work():
    directory = INSIDE / "consumer"
    run("make", "-C", directory)
    run("cmake", "-S", directory, "-B", directory / "build")
    run("cmake", "--build", directory / "build")
    programs_work()


def programs_work():
    directory = INSIDE / "consumer"
    for place in (directory, directory / "build"):
        expect("all calls" in run(place / "calls", ADDRESS), "calls.c")
        expect("hello, world" in run(place / "hello", ADDRESS), "hello.cc")
    told = run("/usr/bin/python3", "-c", PYTHON, cwd="/")
    expect("/usr/lib/python3/dist-packages/farlook/" in told, told)
    expect(run("kv_cluster", "--version").startswith("kv_cluster "), "kv_cluster")
    run("kv_cli", f"--address={ADDRESS}", "put", "key", "value")
    expect(run("kv_cli", f"--address={ADDRESS}", "get", "key") == "value", "kv_cli")


def inside(version):
    flags = pathlib.Path("/etc/farlook/kv_server.flags")
    step(f"install {BEFORE}")
    install(BEFORE)
    files_are_there()
    step("the server runs, and programs in C, C++ and Python")
    server = Server()
    consumers_work()
    exporter_works()
    ycsb_works()
    # Created like the unit does, and filled like the server does.
    records = pathlib.Path("/var/lib/farlook/groups")
    records.mkdir(parents=True)
    (records / "kv.00000000000000000001").write_text("record", encoding="utf-8")
    flags.write_text(flags.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")

    step(f"upgrade to {version} under the running server")
    install(version)
    expect(server.process.poll() is None, "the upgrade stopped the server")
    expect(run("kv_cli", f"--address={ADDRESS}", "get", "key") == "value", "the upgrade lost the table")
    expect(flags.read_text(encoding="utf-8").endswith("# mine\n"), "the upgrade overwrote the flags")
    server.stop()
    step("what was built before runs on")
    server = Server()
    programs_work()
    server.stop()

    step("remove")
    apt("remove", *PACKAGES)
    expect(flags.exists(), "removal took the flags")
    for program in ("kv_server", "kv_cli"):
        expect(shutil.which(program) is None, program)
    step("purge")
    run("dpkg", "--purge", *PACKAGES)
    expect(not flags.parent.exists(), "purge left /etc/farlook")
    expect(not records.parent.exists(), f"purge left {records.parent}")
    for database in ("passwd", "group"):
        expect("farlook" not in pathlib.Path("/etc", database).read_text(encoding="utf-8"), f"purge left the {database}")


# ---- Outside.


def fresh_root():
    root = pathlib.Path.home() / ".cache/farlook-packages/root"
    if not root.exists():
        step("fetching Debian's smallest system")
        mirrors = [path for path in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
                   if os.path.exists(path)][:1]
        making = root.with_name("making")
        shutil.rmtree(making, ignore_errors=True)
        making.parent.mkdir(parents=True, exist_ok=True)
        run("mmdebstrap", "--variant=minbase", "--include=ca-certificates,cmake,g++,gcc,make,pkg-config,python3,systemd",
            "--skip=cleanup/apt", "bookworm", making, *mirrors)
        making.rename(root)
    return root


def enter(lower, scratch, version):
    """Runs inside() on a copy of `lower`, in a separate mount namespace. Returns the remaining files."""
    upper, work, merged = scratch / "upper", scratch / "work", scratch / "merged"
    for path in (upper, work, merged):
        path.mkdir()
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", merged)
    for kind, place in (("proc", "proc"), ("tmpfs", "tmp"), ("tmpfs", "run")):
        run("mount", "-t", kind, kind, merged / place)
    run("mount", "--rbind", "/dev", merged / "dev")
    shutil.copytree(scratch / "inside", merged / INSIDE.relative_to("/"))
    if str(lower) != "/":
        shutil.copy("/etc/resolv.conf", merged / "etc/resolv.conf")
    for rule in (merged / "etc/dpkg/dpkg.cfg.d").glob("*"):  # a container's leaves manual pages out
        rule.unlink()
    policy = merged / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    script = merged / INSIDE.relative_to("/") / "packages_test.py"
    subprocess.run(["chroot", merged, "/usr/bin/python3", "-B", "/" + str(script.relative_to(merged)), "--inside", version],
                   check=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                                    "PYTHONDONTWRITEBYTECODE": "1"})
    left = [str(path.relative_to(upper)) for path in sorted(upper.rglob("*")) if not path.is_dir()]
    return [path for path in left if not KEPT.match(path) and (str(lower) == "/" or re.search("farlook|kv_", path))]


def outside(fresh):
    root = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(root / "tools/lib"))
    import package  # pylint: disable=import-outside-toplevel
    version = package.install.version_of(root / "base/include/farlook/version.h")
    lower = fresh_root() if fresh else pathlib.Path("/")
    outputs = package.built()
    with tempfile.TemporaryDirectory(prefix="farlook-packages-", dir="/var/tmp") as name:
        scratch = pathlib.Path(name)
        # It ends with this process, and so before its files are removed.
        run("mount", "-t", "tmpfs", "tmpfs", scratch)
        try:
            files = scratch / "inside"
            step("build")
            log = package.build(files / version, outputs)
            package.build(files / BEFORE, outputs, BEFORE)
            expect(len(list((files / version).glob("*.deb"))) == len(PACKAGES), log)
            step("lintian")
            found = package.lint(files / version)
            expect(not found, found)
            step("container")
            check_container(package.container, scratch / "container", files / version, version)
            shutil.copy(__file__, files / "packages_test.py")
            (files / "consumer").mkdir()
            for source in ("tests/c/calls.c", "client/hello.cc", "tests/c/consumer/Makefile",
                           "tests/c/consumer/CMakeLists.txt"):
                shutil.copy(root / source, files / "consumer")
            left = enter(lower, scratch, version)
            expect(not left, f"purge left {left}")
        finally:
            run("umount", "--recursive", "--lazy", scratch)
    step("nothing is left; all is well")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--inside", metavar="VERSION", help=argparse.SUPPRESS)
    parser.add_argument("--unshared", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        inside(args.inside)
    elif args.unshared:
        outside(args.fresh)
    elif args.fresh and not shutil.which("mmdebstrap"):
        sys.exit("packages_test.py: --fresh needs mmdebstrap: apt-get install mmdebstrap")
    elif os.geteuid() != 0:
        sys.exit("packages_test.py: needs root, to mount a copy of this machine's files")
    else:
        os.execvp("unshare", ["unshare", "--mount", "--propagation=private", "/usr/bin/python3", "-B", __file__,
                              "--unshared", *argv])


if __name__ == "__main__":
    main(sys.argv[1:])
