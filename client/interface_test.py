#!/usr/bin/env python3
"""The public headers: they include only farlook/ of the tree and statuses of Abseil, and compile outside of the tree.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

HEADERS = pathlib.Path("client/include/farlook")
NAMES = {"admin.h", "async.h", "async_counters.h", "client.h", "memory.h", "options.h", "scan.h", "stats.h"}
ABSL = {"absl/status/status.h", "absl/status/statusor.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def complaints(text):
    """Returns what is wrong with the includes of a public header."""
    wrong = []
    for quote, header in INCLUDE.findall(text):
        ours = header in {"farlook/" + name for name in NAMES}
        if quote == '"' and not ours and header not in ABSL:
            wrong.append(header)
        if quote == "<" and ("/" in header or header.endswith(".h")):
            wrong.append(header)
    return wrong


class InterfaceTest(unittest.TestCase):
    def test_only_standard_headers_and_statuses_are_included(self):
        self.assertEqual({path.name for path in HEADERS.glob("*.h")}, NAMES)
        for name in NAMES:
            with self.subTest(header=name):
                text = (HEADERS / name).read_text(encoding="utf-8")
                self.assertEqual(complaints(text), [])
                self.assertNotRegex(text, r"absl::(string_view|Span)")

    def test_the_scan_sees_what_it_looks_for(self):
        for wrong in ('#include "kv/layout/item.h"', '#include "rdma/transport.h"', '#include "absl/types/span.h"',
                      "#include <absl/strings/string_view.h>", "#include <unistd.h>", ' # include "client/core/core.h"'):
            self.assertNotEqual(complaints(wrong), [], wrong)

    def test_client_h_is_small(self):
        for name in NAMES:
            self.assertLessEqual(len((HEADERS / name).read_text(encoding="utf-8").splitlines()), 200, name)

    def test_hello_world_is_small(self):
        self.assertLessEqual(len(pathlib.Path("client/hello.cc").read_text(encoding="utf-8").splitlines()), 30)

    def test_a_user_compiles_without_the_tree(self):
        # Each header alone, and the two examples, with only the public headers on the include path.
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "include/farlook").mkdir(parents=True)
            for name in NAMES:
                shutil.copyfile(HEADERS / name, root / "include/farlook" / name)
            (root / "all.cc").write_text("".join(f'#include "farlook/{name}"\n' for name in sorted(NAMES)) + """
                absl::StatusOr<std::string> Read(farlook::Client& client, const std::string& key) {
                  std::string_view view = key;
                  auto put = client.Put(view, "value", {.condition = farlook::Condition::IfVersion(7), .timeout_ms = 5});
                  std::vector<farlook::Result<farlook::Value>> results;
                  client.MultiGet(std::vector<std::string_view>{view, "other"}, &results).IgnoreError();
                  farlook::FetchAddOperation add("counter", 1);
                  client.Start(&add, [](farlook::AsyncOperation* ended) { ended->set_tag(nullptr); });
                  char buffer[8];
                  if (client.GetInto(view, buffer).ok()) return std::string(buffer);
                  return put.status();
                }
            """, encoding="utf-8")
            sources = [root / "all.cc"]
            for name in sorted(NAMES):
                sources.append(root / (name + ".cc"))
                sources[-1].write_text(f'#include "farlook/{name}"\n', encoding="utf-8")
            for example in ("client/hello.cc", "client/header_example.cc"):
                sources.append(root / pathlib.Path(example).name)
                shutil.copyfile(example, sources[-1])
            done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Iinclude"]
                                  + [path.name for path in sources], cwd=root, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
