#!/usr/bin/env python3
"""Checks that the arrows between packages go only the way the top-level BUILD draws them.

    tests/arrows/arrows.py            #include lines of all sources
    tests/arrows/arrows.py --query    dependencies and visibility, by bazel query

Prints one line for each forbidden arrow, and exits 1 if there is any.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import layers  # noqa: E402  pylint: disable=wrong-import-position

# The packages that each package may depend on. tests/ may use all; all may use third_party/ and tools/, which depend on
# no package.
ALLOWED = {
    "kv": {"kv"},
    "rdma": {"rdma"},
    "base": {"base"},
    "cluster": {"cluster", "base", "kv"},
    "server": {"server", "base", "cluster", "kv", "rdma"},
    "client": {"client", "base", "kv", "rdma"},
    "bench": {"bench", "base", "client", "kv", "rdma"},
    "tests": {"tests", "base", "bench", "client", "server", "cluster", "kv", "rdma"},
    "third_party": set(),
    "tools": set(),
}
PACKAGES = set(ALLOWED) - {"third_party", "tools"}
# Within rdma/ the backends do not know each other, and their shared part (rdma/host) knows none of them.
BACKENDS = ("rdma/shm", "rdma/tcp", "rdma/verbs", "rdma/sim")
FOLDERS = {user: [used for used in BACKENDS if used != user] for user in BACKENDS + ("rdma/host",)}
# The folders of kv/, client/, server/ and rdma/verbs, each with the folders that its product code may use. Tests may use any.
_KV_OF_CLIENTS = {"kv/layout", "kv/read", "kv/wire"}
_KV_OF_SERVERS = {"kv/" + name for name in ("cache", "counters", "expiry", "heap", "index", "layout", "read", "table", "wire")}
ROOMS = {
    "kv/layout": set(),
    "kv/wire": {"kv/layout"},
    "kv/read": {"kv/layout"},
    "kv/heap": {"kv/layout"},
    "kv/expiry": {"kv/layout"},
    "kv/counters": {"kv/layout"},
    "kv/cache": {"kv/heap", "kv/layout"},
    "kv/index": {"kv/heap", "kv/layout", "kv/wire"},
    "kv/table": {"kv/cache", "kv/expiry", "kv/heap", "kv/index", "kv/layout", "kv/read", "kv/wire"},
    "client/op": _KV_OF_CLIENTS,
    "client/connection": _KV_OF_CLIENTS | {"client/op"},
    "client/memory": _KV_OF_CLIENTS | {"client/op"},
    "client/writes": _KV_OF_CLIENTS | {"client/op", "client/memory"},
    "client/reads": _KV_OF_CLIENTS | {"client/op", "client/memory", "client/connection", "client/writes"},
    "client/counters": _KV_OF_CLIENTS | {"client/op", "client/reads", "client/writes"},
    "client/core": _KV_OF_CLIENTS | {"client/op", "client/memory", "client/connection", "client/writes", "client/reads",
                                     "client/counters"},
    "client/api": _KV_OF_CLIENTS | {"client/op", "client/connection", "client/core"},
    "client/cli/input": set(),
    "client/cli/terminal": {"client/api", "client/cli/input"},
    "client/cli/context": {"client/api", "client/op", "client/cli/input", "client/cli/terminal"},
    "client/cli/cluster": {"kv/wire", "client/api", "client/cli/context", "client/cli/input", "client/cli/terminal"},
    "client/cli/commands": {"kv/layout", "kv/wire", "client/api", "client/cli/cluster", "client/cli/context", "client/cli/input",
                            "client/cli/terminal"},
    "server/base": _KV_OF_SERVERS,
    "server/session": _KV_OF_SERVERS | {"server/base"},
    "server/counters": _KV_OF_SERVERS | {"server/base", "server/session"},
    "server/replication": _KV_OF_SERVERS | {"server/base", "server/session", "server/counters"},
    "server/executor": _KV_OF_SERVERS | {"server/base", "server/session", "server/counters", "server/replication"},
    "server/worker": _KV_OF_SERVERS | {"server/base", "server/session", "server/counters", "server/replication",
                                       "server/executor"},
    "server/acceptor": _KV_OF_SERVERS | {"server/base", "server/session", "server/executor", "server/worker"},
    "server/group": _KV_OF_SERVERS | {"server/base", "server/session", "server/counters", "server/replication",
                                      "server/executor", "server/worker"},
    "server/daemon": _KV_OF_SERVERS | {"server/base", "server/session", "server/counters", "server/replication",
                                       "server/executor", "server/worker", "server/acceptor", "server/group"},
    "rdma/verbs/handshake": set(),
    "rdma/verbs/device": {"rdma/verbs/handshake"},
    "rdma/verbs/queues": {"rdma/verbs/device", "rdma/verbs/handshake"},
    "rdma/verbs/connection": {"rdma/verbs/device", "rdma/verbs/handshake", "rdma/verbs/queues"},
}
FOR_ALL = {"third_party", "tools"}
# Targets that users of the store may see from anywhere. The check of dependencies ensures that server/ and kv/ do not
# use them.
PUBLIC = {"//client:client", "//client:kv_cli", "//client/cli:kv_cli", "//server/daemon:kv_server", "//bench/ycsb:ycsb"}

SOURCE = (".h", ".cc", ".c", ".inc")
# Tests, and targets that only tests use, may start threads and read clocks anywhere.
TEST_RULE = re.compile(r"\n\w*_(?:test|fuzz_test)\(|testonly = True")
PRODUCT_RULE = re.compile(r"\ncc_(?:library|binary|shared_library)\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)

# Headers of the system that only some packages may include: (header, packages, reason).
SYSTEM = [
    (re.compile(r"infiniband/|rdma/rdma_"), {"rdma", "tests", "third_party", "tools"}, "verbs belong to rdma/"),
    (re.compile(r"sys/(socket|un|epoll|eventfd|mman|ioctl)\.h$|netinet/|arpa/|netdb\.h$|numa(if)?\.h$"),
     set(ALLOWED) - {"kv"}, "kv/ makes no system calls"),
    (re.compile(r"(thread|future|condition_variable|stop_token|semaphore|latch|barrier|pthread\.h)$"),
     set(ALLOWED) - {"kv"}, "kv/ starts no threads and waits for none"),
    (re.compile(r"(chrono|ctime|time\.h|sys/time\.h|absl/time/(clock|time)\.h)$"),
     set(ALLOWED) - {"kv"}, "kv/ has no clock of its own"),
]

# Waits and durations that a step of the wall clock makes wrong. Product code uses others instead; a line that needs the
# calendar's time says so in a comment.
WALL_CLOCK = re.compile(r"\babsl::Now\(|\b(?:Await|\w*LockWhen|Wait|WaitForNotification)With(?:Timeout|Deadline)\(|\bsystem_clock\b|\bCLOCK_REALTIME\b|\bgettimeofday\(|"
                        r"(?<![\w.>])time\((?:nullptr|NULL|0)\)|\b(?:sem|pthread_mutex|pthread_cond)_timed\w+\(")
CALENDAR = "// wall clock"


def top(path):
    return path.split("/", 1)[0]


def forbidden_folder(user, used):
    """The folders of FOLDERS that make the arrow between two paths a forbidden one; None where it is allowed."""
    for folder, others in FOLDERS.items():
        for other in others:
            if user.startswith(folder + "/") and used.startswith(other + "/"):
                return folder, other
    return None


def forbidden_room(user, used):
    """Returns whether product code in the file `user` may not use the file `used`, by ROOMS."""
    user, used = user.rpartition("/")[0], used.rpartition("/")[0]
    return user in ROOMS and used in ROOMS and used != user and used not in ROOMS[user]


def test_only(root):
    """Names of the sources that BUILD files give only to tests, or to targets that only tests may use."""
    tests, product = set(), set()
    for build in root.rglob("BUILD"):
        package = build.parent.relative_to(root).as_posix()
        for rule in re.split(r"\n\)\n", build.read_text(encoding="utf-8")):
            names = {f"{package}/{source}" for source in re.findall(r'"([\w/.-]+\.(?:h|cc|c|inc))"', rule)}
            if TEST_RULE.search("\n" + rule):
                tests |= names
            elif PRODUCT_RULE.search("\n" + rule):
                product |= names
    return tests - product


def include_violations(root):
    """Forbidden #include lines under the directory `root`, as strings; and how many sources were read."""
    violations, sources = [], 0
    tests = test_only(root)
    for package in sorted(ALLOWED):
        for path in sorted((root / package).rglob("*")):
            if path.suffix not in SOURCE or not path.is_file():
                continue
            sources += 1
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8", errors="replace")
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                quoted, header = match.group(1) == '"', match.group(2)
                beside = quoted and "/" not in header and (path.parent / header).exists()
                for why in forbidden(name, quoted, header, beside, name in tests):
                    violations.append(f"{name}:{line}: includes {header}: {why}")
            if package not in FOR_ALL | {"tests"} and not is_for_tests(name, tests):
                violations += wall_clock_violations(name, text)
    return violations, sources


def is_for_tests(name, tests):
    return name in tests or name.endswith(("_test.cc", "_fuzz.cc", "_benchmark.cc"))


def wall_clock_violations(name, text):
    """Uses of the wall clock in the source `name` that no comment on the line permits."""
    for number, line in enumerate(text.splitlines(), start=1):
        code = line.partition("//")[0]
        found = WALL_CLOCK.search(code)
        if found and CALENDAR not in line:
            yield (f"{name}:{number}: {found.group().rstrip('(')}: a step of the wall clock makes this wrong: use "
                   f"base/steady_time.h, or say \"{CALENDAR}\" where the calendar's time is meant")


def forbidden(name, quoted, header, beside, is_test):
    """Yields the reason why the file `name` may not include `header`, which may lie `beside` it; nothing if it may."""
    package = top(name)
    if beside or (quoted and ".." in header.split("/")):
        yield "a path from the top of the tree is wanted"
    elif quoted and top(header) in PACKAGES and top(header) not in ALLOWED[package]:
        yield f"{package}/ must not depend on {top(header)}/"
    elif quoted and forbidden_folder(name, header):
        yield "{}/ must not depend on {}/".format(*forbidden_folder(name, header))
    elif quoted and header.endswith((".cc", ".c")):
        yield "a source is not a header"
    if is_test or is_for_tests(name, ()):
        return
    if quoted and forbidden_room(name, header):
        yield f"{name.rpartition('/')[0]}/ must not depend on {header.rpartition('/')[0]}/"
    for pattern, users, why in SYSTEM:
        if pattern.match(header) and package not in users:
            yield why


def query_violations(document):
    """Forbidden dependencies and visibilities in the XML that bazel query printed; and how many rules it held."""
    tree = xml.fromstring(document)
    groups = {group.get("name"): [s.get("value") for s in group.findall("list[@name='packages']/string")]
              for group in tree.iter("package-group")}
    violations, rules = [], 0
    for rule in tree.iter("rule"):
        name = rule.get("name")
        package = top(name[2:].split(":")[0])
        if package not in ALLOWED:
            continue
        rules += 1
        for dep in rule.findall("rule-input"):
            label = dep.get("name")
            used = top(label[2:].split(":")[0])
            if label.startswith("//") and used in PACKAGES and used not in ALLOWED[package]:
                violations.append(f"{name}: depends on {label}: {package}/ must not depend on {used}/")
            is_product = rule.get("class") in ("cc_library", "cc_binary") and rule.find("boolean[@name='testonly'][@value='true']") is None
            if is_product and forbidden_room(name[2:].replace(":", "/"), label[2:].replace(":", "/")):
                violations.append(f"{name}: depends on {label}: not a folder that ROOMS allows")
            folders = forbidden_folder(name[2:].replace(":", "/"), label[2:].replace(":", "/"))
            if folders:
                violations.append(f"{name}: depends on {label}: {folders[0]}/ must not depend on {folders[1]}/")
        tags = [s.get("value") for s in rule.findall("list[@name='tags']/string")]
        # Stages of their own run those tagged "verbs" and "verbs-more".
        if rule.get("class").endswith("_test") and "manual" in tags and not {"verbs", "verbs-more"} & set(tags):
            violations.append(f"{name}: a test tagged manual is left out of //...")
        if package in FOR_ALL or name in PUBLIC:
            continue
        for label in rule.findall("list[@name='visibility']/label"):
            for user in users_of(label.get("value"), groups):
                if user not in FOR_ALL | {package} and (user not in ALLOWED or package not in ALLOWED[user]):
                    violations.append(f"{name}: is visible to {user}/, which must not depend on {package}/")
    return violations, rules


def users_of(visibility, groups):
    """Top-level packages that a visibility label covers; `all` when it is public or unknown."""
    if visibility == "//visibility:private":
        return []
    if visibility in groups:
        return [top(pattern.lstrip("/")) for pattern in groups[visibility]]
    package, _, kind = visibility[2:].partition(":")
    if kind in ("__pkg__", "__subpackages__"):
        return [top(package)]
    return ["all"]


def bazel_query(root, bazel):
    query = 'kind(rule, //...) + kind("package group", //...:*)'
    done = subprocess.run(bazel + ["query", "--noshow_progress", "--noimplicit_deps", "--output=xml", query],
                          cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"arrows: bazel query failed:\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", action="store_true", help="ask Bazel for dependencies and visibility")
    parser.add_argument("--bazel", default="bazel", help="the command, with startup options")
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=pathlib.Path, default=root, help="the workspace")
    args = parser.parse_args()
    if args.query:
        document = bazel_query(args.root, args.bazel.split())
        violations, seen = query_violations(document)
        violations += layers.violations(args.root, xml.fromstring(document))
    else:
        violations, seen = include_violations(args.root)
    print("\n".join(violations + [f"arrows: {len(violations)} forbidden in {seen} "
                                  + ("rules" if args.query else "sources")]))
    return 1 if violations or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
