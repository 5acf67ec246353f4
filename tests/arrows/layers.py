"""Finds includes of headers that no direct dependency of their target has.

Clang's layering check refuses these, in the stages asan and tsan only. This check reads the same from bazel query, in
seconds, before the first of them is compiled.
"""

import re

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^">\n]+)"', re.MULTILINE)
SOURCE = (".h", ".cc", ".c", ".inc")
# The simulation compiles rewritten copies of the product's sources, which the check does not see (rewritten.bzl), and
# never with Clang.
WITHOUT = "//tests/sim:"


def _labels(rule, attribute):
    return [label.get("value") for label in rule.findall(f"list[@name='{attribute}']/label")]


def _path(label):
    package, _, name = label[2:].partition(":")
    return f"{package}/{name}" if package else name


def _included_as(path, package, prefix):
    """The names under which a header at `path` is included, given its target's strip_include_prefix."""
    if not prefix:
        return path
    base = (prefix[1:] if prefix.startswith("/") else f"{package}/{prefix}").rstrip("/") + "/"
    return path[len(base):] if path.startswith(base) else path


class _Target:
    def __init__(self, rule):
        self.name = rule.get("name")
        prefix = rule.find("string[@name='strip_include_prefix']")
        prefix = "" if prefix is None else prefix.get("value")
        package = self.name[2:].partition(":")[0]
        self.srcs, self.deps = _labels(rule, "srcs"), _labels(rule, "deps")
        self.hdrs = _labels(rule, "hdrs") + _labels(rule, "textual_hdrs")
        self.exported = lambda expand: {_included_as(path, package, prefix) for path in expand(self.hdrs)}


def violations(root, tree):
    """Includes without a direct dependency, as strings. `tree`: what `bazel query --output=xml` printed of all rules;
    `root`: the workspace."""
    files = {rule.get("name"): _labels(rule, "srcs") for rule in tree.iter("rule") if rule.get("class") == "filegroup"}
    alias = {rule.get("name"): rule.find("label[@name='actual']").get("value")
             for rule in tree.iter("rule") if rule.get("class") == "alias"}
    targets = {rule.get("name"): _Target(rule) for rule in tree.iter("rule")
               if rule.get("class") in ("cc_library", "cc_binary", "cc_test")}

    def expand(labels):
        for label in labels:
            yield from expand(files[label]) if label in files else [_path(label)]

    exported = {name: target.exported(expand) for name, target in targets.items()}
    known = set().union(*exported.values()) if exported else set()
    found = []
    for name, target in sorted(targets.items()):
        if name.startswith(WITHOUT):
            continue
        allowed = set(exported[name]) | set(expand(target.srcs))
        for dep in target.deps:
            allowed |= exported.get(alias.get(dep, dep), set())
        for path in sorted(set(expand(target.srcs + target.hdrs))):
            source = root / path
            if source.suffix not in SOURCE or not source.is_file():  # generated
                continue
            for header in INCLUDE.findall(source.read_text(encoding="utf-8", errors="replace")):
                if header in known and header not in allowed:
                    found.append(f"{name}: {path} includes {header}, which no direct dependency has (Clang refuses it)")
    return found
