"""Results of bazel query about targets."""

import pathlib
import re
import subprocess
import xml.etree.ElementTree as xml

# Programs around the client: code that several threads use there is the library's, whose own tests are run.
AROUND = ("//bench/", "//client/cli:")
THREADS = re.compile(r"#\s*include\s*<(thread|future|pthread\.h)>")


class Graph:
    """All rules of the workspace."""

    def __init__(self, root, bazel):
        done = subprocess.run(bazel + ["query", "--noshow_progress", "--noimplicit_deps", "--output=xml",
                                       "kind(rule, //...)"],
                              cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"bazel query failed:\n{done.stderr}")
        self.root = pathlib.Path(root)
        self.rules = {rule.get("name"): rule for rule in xml.fromstring(done.stdout).iter("rule")}

    def tests(self):
        return [name for name, rule in self.rules.items() if rule.get("class").endswith("_test")]

    def tags(self, name):
        return {s.get("value") for s in self.rules[name].findall("list[@name='tags']/string")}

    def tagged(self, tag):
        return [name for name in self.tests() if tag in self.tags(name)]

    def with_threads(self):
        """Tests of `//...` of which some source, at any depth, starts threads. Fuzz targets start one, deep below. Left
        out are AROUND, and tests tagged no-tsan; a comment beside the tag gives the reason."""
        return [name for name in self.tests()
                if not name.startswith(AROUND) and not self.tags(name) & {"manual", "fuzz", "no-tsan"} and any(map(self._starts_threads, self._sources(name)))]

    def product(self):
        """Libraries and programs that are not for tests alone."""
        return [name for name, rule in self.rules.items()
                if rule.get("class") in ("cc_library", "cc_binary")
                and rule.find("boolean[@name='testonly'][@value='true']") is None
                and "manual" not in self.tags(name)
                and any(label.get("value").endswith(".cc") for label in rule.findall("list[@name='srcs']/label"))]

    def _sources(self, name):
        seen, todo = set(), [name]
        while todo:
            label = todo.pop()
            if label in seen or not label.startswith("//"):
                continue
            seen.add(label)
            if label in self.rules:
                todo += [dep.get("name") for dep in self.rules[label].findall("rule-input")]
        return [label for label in seen if label not in self.rules]

    def _starts_threads(self, label):
        path = self.root / label[2:].replace(":", "/")
        if path.suffix not in (".cc", ".h") or not path.is_file():
            return False
        return THREADS.search(path.read_text(encoding="utf-8", errors="replace")) is not None
