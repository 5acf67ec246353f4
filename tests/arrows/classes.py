#!/usr/bin/env python3
"""Checks that no class of the product has more methods or fields than a reader can hold.

    tests/arrows/classes.py           the classes beyond the limits
    tests/arrows/classes.py --all     the count of every class, the largest first

Counts the methods and fields that a class or struct declares itself, public and private. Overloads count separately.
Deleted and defaulted methods, types, aliases, friends and static constants do not count.
"""

import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import arrows  # noqa: E402  pylint: disable=wrong-import-position

MOST_METHODS, MOST_FIELDS = 45, 30
FOLDERS = ("base", "client", "cluster", "kv", "rdma", "server")
# Classes beyond the limits, which are still to be cut: (methods, fields) that they may not exceed. A class leaves the
# list when it is cut.
BEYOND = {
    "client/core/core.h:ClientCore": (90, 30),
    "client/core/operation_router.h:OperationRouter": (49, 30),
    "client/reads/reads.h:Reads": (56, 30),
    "client/writes/session.h:Session": (50, 30),
    "kv/table/partition.h:Partition": (73, 35),
    "kv/table/table.h:Table": (50, 30),
    "rdma/shm/connection.h:ShmConnection": (51, 30),
    "rdma/tcp/connection.h:TcpConnection": (52, 40),
    "rdma/verbs/connection/connection.h:VerbsConnection": (57, 30),
    "rdma/verbs/queues/send_queue.h:SendQueue": (47, 30),
    # Counts, settings, and the record of an operation: lists of plain data.
    "client/op/operation.h:Operation": (45, 32),
    "server/base/worker_stats.h:WorkerStats": (45, 47),
    "server/daemon/server_options.h:ServerOptions": (45, 33),
}

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
HEAD = re.compile(r"(?<!enum )\b(class|struct|union)\s+(?:\[\[[^\]]*\]\]\s*)?(?:alignas\([^)]*\)\s*)?([\w:]+)\s*(?:final\s*)?(?::(?!:)[^;{()]*)?\{")
SKIPPED = re.compile(r"^(?:using|typedef|friend|static_assert|enum|template\s*<[^;]*>\s*friend)\b")


def closing(text, at):
    """Returns the index of the bracket that closes the one at `at`."""
    pairs = {"{": "}", "(": ")", "[": "]"}
    depth, opened, closed = 0, text[at], pairs[text[at]]
    for i in range(at, len(text)):
        if text[i] == opened:
            depth += 1
        elif text[i] == closed:
            depth -= 1
            if depth == 0:
                return i
    return len(text)


def without_angles(text):
    """Removes the arguments of templates."""
    text = re.sub(r"operator\s*(?:<=>|<<|>>|<=|>=|<|>|->)", "operator_", text)
    for _ in range(12):
        shorter = re.sub(r"<[^<>;{}=]*>", "", re.sub(r"<[^<>;{}]*>", "", text, count=0))
        if shorter == text:
            break
        text = shorter
    return text


def members(body):
    """Yields the declarations of a class's body, each with its own body or initializer replaced by `{}`."""
    i = 0
    text = []
    while i < len(body):
        c = body[i]
        if c in "([":
            end = closing(body, i)
            text.append(body[i:end + 1])
            i = end + 1
            continue
        if c == "{":
            end = closing(body, i)
            text.append("{}")
            i = end + 1
            rest = body[i:].lstrip()
            declaration = "".join(text)
            # A function's body ends its declaration; an initializer is followed by `;` or `,`.
            if not rest.startswith((";", ",")) and not re.search(r":\s*\w+$|,\s*\w+\{\}$", declaration[:-2]):
                if "(" in declaration and not rest.startswith("{"):
                    yield declaration
                    text = []
            continue
        if c == ";":
            yield "".join(text)
            text = []
        elif c == ":" and re.fullmatch(r"\s*(?:public|private|protected)\s*", "".join(text)):
            text = []
        else:
            text.append(c)
        i += 1


def count(body):
    """Returns the numbers of methods and fields of a class with this body, whose nested types are blanked."""
    methods = fields = 0
    for declaration in members(body):
        d = without_angles(declaration).strip()
        d = re.sub(r"^template\s*", "", d)
        d = re.sub(r"\[\[[^\]]*\]\]\s*", "", d)
        d = re.sub(r"\b(?:alignas|ABSL_\w+|explicit|noexcept|decltype)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)", "", d)
        if not d or SKIPPED.match(d):
            continue
        before_value = re.split(r"(?<!operator)(?<![=!<>])=(?!=)", d, maxsplit=1)
        if re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", before_value[0]):
            fields += 1  # points to a function
            continue
        if "(" in before_value[0] and not before_value[0].rstrip().endswith("{}") or \
                re.search(r"\)\s*(?:const|noexcept|override|final|&|->[^{]*|:.*|\s)*\{\}$", d, re.DOTALL):
            if len(before_value) == 1 or before_value[1].strip() not in ("delete", "default"):
                methods += 1
            continue
        if re.match(r"(?:inline\s+)?(?:static\s+)?(?:inline\s+)?constexpr\b|static\s+const\b|static\s+inline\s+const\b|extern\b", d):
            continue
        if re.fullmatch(r"(?:class|struct|union|enum)\b[^=]*", d) and " " not in re.sub(r"^(?:class|struct|union|enum)\s+", "", d):
            continue  # declares a type
        d = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\]", "", d)
        fields += 1 + d.count(",")
    return methods, fields


def classes(text):
    """Yields (name, methods, fields) of each class that the source `text` defines."""
    text = NOISE.sub(lambda m: '""' if m.group().startswith(('"', "R")) else " ", text)
    found = []
    for match in HEAD.finditer(text):
        begin = match.end() - 1
        found.append((match.group(2), match.start(), begin, closing(text, begin)))
    for name, start, begin, end in found:
        body = text[begin + 1:end]
        # Nested types, the outermost only.
        inner = [(s, e) for _, s, _, e in found if begin < s and e < end]
        for s, e in sorted(inner, reverse=True):
            if any(s2 < s and e < e2 for s2, e2 in inner):
                continue
            kept = body[e - begin:]
            # A member of an anonymous or named nested type may follow its brace; a type alone leaves nothing.
            body = body[:s - begin - 1] + ("" if kept.lstrip().startswith(";") else "X ") + kept
        yield (name,) + count(body)


def counts(root):
    """Returns {path:Class: (methods, fields)} of the product's classes under `root`."""
    tests = arrows.test_only(root)
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc") or arrows.is_for_tests(name, tests):
                continue
            for of, methods, fields in classes(path.read_text(encoding="utf-8")):
                found[f"{name}:{of}"] = (methods, fields)
    return found


def violations(root):
    for name, (methods, fields) in counts(root).items():
        most_methods, most_fields = BEYOND.get(name, (MOST_METHODS, MOST_FIELDS))
        if methods > most_methods:
            yield f"{name} has {methods} methods, and {most_methods} are allowed: cut it into classes of one concept"
        if fields > most_fields:
            yield f"{name} has {fields} fields, and {most_fields} are allowed: cut it into classes of one concept"
        if name in BEYOND and (max(methods, MOST_METHODS), max(fields, MOST_FIELDS)) < (most_methods, most_fields):
            yield f"{name} has {methods} methods and {fields} fields: lower its limit in BEYOND"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="print the counts of all classes")
    args = parser.parse_args()
    root = HERE.parents[1]
    if args.all:
        for name, (methods, fields) in sorted(counts(root).items(), key=lambda item: (-item[1][0], -item[1][1])):
            print(f"{methods:4} methods {fields:4} fields  {name}")
        return 0
    found = list(violations(root))
    print("".join(line + "\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
