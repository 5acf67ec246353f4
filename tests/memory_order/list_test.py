#!/usr/bin/env python3
"""docs/memory-order.md lists every memory order of the product's sources, file by file, and nothing else."""

import collections
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent  # in the workspace itself, also when run by Bazel
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/arrows"))
import arrows  # noqa: E402  pylint: disable=wrong-import-position

PACKAGES = ("kv", "rdma", "cluster", "server", "client")
NOT_PRODUCT = re.compile(r"_(?:test|fuzz|benchmark|testing)\.(?:cc|h)$|^rdma/(?:conformance|sim)/|/(?:fake|test)_\w+\.h$")
ORDER = re.compile(r"memory_order(?:_|::)(relaxed|consume|acquire|release|acq_rel|seq_cst)\b")
# Operations of atomics with their arguments, of which an order must be one.
OPERATION = re.compile(r"\b(\w+_?)(?:\(\w*\))?(?:\.|->)(load|store|exchange|fetch_(?:add|sub|and|or|xor)|"
                       r"compare_exchange_(?:weak|strong)|test_and_set|wait)\(((?:[^()]|\([^()]*\))*)\)")
OTHER = re.compile(r"\b(__atomic_\w+|__sync_\w+|_mm_[lms]fence|atomic_signal_fence|std::barrier)\b")


def strip(text):
    return re.sub(r"//.*", "", text)


def orders(text):
    """Returns the number of occurrences of each order in a source."""
    return collections.Counter(ORDER.findall(strip(text)))


def implicit(text):
    """Returns operations of atomics that name no order, and ways around std::atomic."""
    text = strip(text)
    atomics = set(re.findall(r"std::atomic<[^;{]*>\s*&?\s*(\w+)", text))
    found = [match.group(0) for match in OPERATION.finditer(text)
             if match.group(1) in atomics and not ORDER.search(match.group(3))]
    return found + OTHER.findall(text)


def sources(root):
    tests = arrows.test_only(root)
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".h", ".cc") and name not in tests and not NOT_PRODUCT.search(name):
                yield name, path.read_text(encoding="utf-8")


def listed(document):
    """The counts that the document's tables give, by file."""
    files = collections.defaultdict(collections.Counter)
    for name, row in re.findall(r"^\| `([\w/.]+)` \| ([^|]+) \|", document, re.MULTILINE):
        for number, order in re.findall(r"(\d+) (\w+)", row):
            files[name][order] += int(number)
    return dict(files)


class ListTest(unittest.TestCase):
    maxDiff = None

    def test_every_order_is_listed(self):
        found = {name: orders(text) for name, text in sources(ROOT) if orders(text)}
        self.assertGreater(len(found), 10)
        document = (ROOT / "docs/memory-order.md").read_text(encoding="utf-8")
        self.assertEqual({name: dict(count) for name, count in listed(document).items()},
                         {name: dict(count) for name, count in found.items()},
                         "docs/memory-order.md (first) and the sources (second) differ: give each order its argument")

    def test_no_order_is_left_to_the_default(self):
        for name, text in sources(ROOT):
            self.assertEqual(implicit(text), [], name)

    def test_the_check_sees_what_it_is_for(self):
        self.assertEqual(orders("a.store(1, std::memory_order_release);  // memory_order_acquire"), {"release": 1})
        self.assertEqual(orders("x.load(std::memory_order::acquire)"), {"acquire": 1})
        self.assertEqual(implicit("std::atomic<int> a_{0}; int f() { return a_.load(); }"), ["a_.load()"])
        self.assertEqual(implicit("std::atomic<int> a_{0}; int f() { return a_.load(std::memory_order_relaxed); }"), [])
        self.assertEqual(implicit("__sync_synchronize();"), ["__sync_synchronize"])
        self.assertEqual(listed("| `kv/a.h` | 1 acquire, 2 release | why |\n| `kv/a.h` | 3 relaxed | why |\n"),
                         {"kv/a.h": {"acquire": 1, "release": 2, "relaxed": 3}})


if __name__ == "__main__":
    unittest.main(verbosity=2)
