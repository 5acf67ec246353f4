#!/usr/bin/env python3
"""Checks that the arrows between packages go only the way the top-level BUILD draws them.

    tests/arrows/arrows.py            #include lines of all sources
    tests/arrows/arrows.py --query    what bazel query says of dependencies and of visibility

Prints one line for each forbidden arrow, and exits 1 if there is any.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

# Who may depend on whom. tests/ may on all; third_party/ and tools/ are for all and depend on no package.
ALLOWED = {
    "kv": {"kv"},
    "rdma": {"rdma"},
    "base": {"base"},
    "cluster": {"cluster", "kv"},
    "server": {"server", "base", "cluster", "kv", "rdma"},
    "client": {"client", "base", "kv", "rdma"},
    "bench": {"bench", "base", "client", "kv", "rdma"},
    "tests": {"tests", "base", "bench", "client", "server", "cluster", "kv", "rdma"},
    "third_party": set(),
    "tools": set(),
}
PACKAGES = set(ALLOWED) - {"third_party", "tools"}
# Within rdma/ the backends know nothing of each other, nor does what they share (rdma/host) know any of them.
BACKENDS = ("rdma/shm", "rdma/tcp", "rdma/verbs", "rdma/sim")
FOLDERS = {user: [used for used in BACKENDS if used != user] for user in BACKENDS + ("rdma/host",)}
FOR_ALL = {"third_party", "tools"}
# What users of the store may see from anywhere; that server/ and kv/ do not use it is left to the check of dependencies.
PUBLIC = {"//client:client", "//client:kv_cli", "//client/cli:kv_cli", "//server:kv_server", "//bench/ycsb:ycsb"}

SOURCE = (".h", ".cc", ".c", ".inc")
# Tests and what only they use may start threads and look at clocks anywhere.
TEST_RULE = re.compile(r"\n\w*_(?:test|fuzz_test)\(|testonly = True")
PRODUCT_RULE = re.compile(r"\ncc_(?:library|binary|shared_library)\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)

# Headers of the system that only some packages may include: (header, packages, what they are).
SYSTEM = [
    (re.compile(r"infiniband/|rdma/rdma_"), {"rdma", "tests", "third_party", "tools"}, "verbs belong to rdma/"),
    (re.compile(r"sys/(socket|un|epoll|eventfd|mman|ioctl)\.h$|netinet/|arpa/|netdb\.h$|numa(if)?\.h$"),
     set(ALLOWED) - {"kv"}, "kv/ makes no system calls"),
    (re.compile(r"(thread|future|condition_variable|stop_token|semaphore|latch|barrier|pthread\.h)$"),
     set(ALLOWED) - {"kv"}, "kv/ starts no threads and waits for none"),
    (re.compile(r"(chrono|ctime|time\.h|sys/time\.h|absl/time/(clock|time)\.h)$"),
     set(ALLOWED) - {"kv"}, "kv/ has no clock of its own"),
]


def top(path):
    return path.split("/", 1)[0]


def forbidden_folder(user, used):
    """The folders of FOLDERS that make the arrow between two paths a forbidden one; None where it is allowed."""
    for folder, others in FOLDERS.items():
        for other in others:
            if user.startswith(folder + "/") and used.startswith(other + "/"):
                return folder, other
    return None


def test_only(root):
    """Names of the sources that BUILD files give to tests, or to what only tests may use, and to nothing else."""
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
    return violations, sources


def forbidden(name, quoted, header, beside, is_test):
    """Why the file `name` may not include `header`, which may stand `beside` it; yields nothing when it may."""
    package = top(name)
    if beside or (quoted and ".." in header.split("/")):
        yield "a path from the top of the tree is wanted"
    elif quoted and top(header) in PACKAGES and top(header) not in ALLOWED[package]:
        yield f"{package}/ must not depend on {top(header)}/"
    elif quoted and forbidden_folder(name, header):
        yield "{}/ must not depend on {}/".format(*forbidden_folder(name, header))
    elif quoted and header.endswith((".cc", ".c")):
        yield "a source is not a header"
    if is_test or name.endswith(("_test.cc", "_fuzz.cc", "_benchmark.cc")):
        return
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
            folders = forbidden_folder(name[2:].replace(":", "/"), label[2:].replace(":", "/"))
            if folders:
                violations.append(f"{name}: depends on {label}: {folders[0]}/ must not depend on {folders[1]}/")
        tags = [s.get("value") for s in rule.findall("list[@name='tags']/string")]
        # Those tagged "verbs" and "verbs-more" are run by stages of their own.
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
    """Top-level packages that a visibility label stands for; `all` when it is public or not known."""
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
        violations, seen = query_violations(bazel_query(args.root, args.bazel.split()))
    else:
        violations, seen = include_violations(args.root)
    print("\n".join(violations + [f"arrows: {len(violations)} forbidden in {seen} "
                                  + ("rules" if args.query else "sources")]))
    return 1 if violations or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
