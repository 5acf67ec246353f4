#!/usr/bin/env python3
"""The arrows hold in this tree, and the check sees each way of breaking them in a tree made up for it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent  # in the workspace itself, also when run by Bazel
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import arrows  # noqa: E402  pylint: disable=wrong-import-position
import layers  # noqa: E402  pylint: disable=wrong-import-position

ROOT = HERE.parents[1]


class Tree:
    """A made-up workspace that keeps to the rules."""

    def __init__(self, path):
        self.root = pathlib.Path(path)
        self.write("kv/layout/item.h", "#include <cstdint>\n#include \"absl/status/status.h\"\n#include \"kv/layout/limits.h\"\n")
        self.write("rdma/transport.h", '#include "absl/status/status.h"\n')
        self.write("rdma/verbs.cc", "#include <infiniband/verbs.h>\n#include \"rdma/transport.h\"\n")
        self.write("server/worker/worker.h", '#include <thread>\n#include "kv/layout/item.h"\n#include "rdma/transport.h"\n')
        self.write("client/client.h", '#include "kv/layout/item.h"\n#include "rdma/transport.h"\n')
        self.write("bench/ycsb/run.cc", '#include "client/client.h"\n')
        self.write("tests/all_test.cc", '#include "client/client.h"\n#include "server/worker/worker.h"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def violations(self):
        return arrows.include_violations(self.root)[0]


class IncludesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = Tree(directory.name)

    def test_this_tree_keeps_to_the_arrows(self):
        violations, sources = arrows.include_violations(ROOT)
        self.assertEqual(violations, [])
        self.assertGreater(sources, 50, f"{ROOT} does not look like the workspace")

    def test_made_up_tree_keeps_to_them_too(self):
        self.assertEqual(self.tree.violations(), [])

    def test_each_forbidden_arrow_is_seen(self):
        packages = sorted(arrows.PACKAGES)
        for user in packages:
            for used in packages:
                with self.subTest(user=user, used=used):
                    self.tree.write(f"{user}/deep/er.cc", f'// why\n  #  include "{used}/x.h"\n')
                    found = self.tree.violations()
                    if used in arrows.ALLOWED[user]:
                        self.assertEqual(found, [])
                    else:
                        self.assertEqual(found, [f"{user}/deep/er.cc:2: includes {used}/x.h: "
                                                 f"{user}/ must not depend on {used}/"])
            (self.tree.root / user / "deep/er.cc").unlink()

    def test_the_arrows_that_the_design_forbids_are_forbidden(self):
        for user, used in [("kv", "rdma"), ("rdma", "kv"), ("server", "client"), ("client", "server"),
                           ("kv", "server"), ("kv", "client"), ("rdma", "server"), ("rdma", "client"),
                           ("bench", "server"), ("client", "bench"), ("server", "bench"), ("server", "tests")]:
            self.assertNotIn(used, arrows.ALLOWED[user])

    def test_backends_of_rdma_do_not_know_each_other(self):
        backends = ["rdma/shm", "rdma/verbs", "rdma/sim"]
        for user in backends + ["rdma/host", "rdma", "rdma/shm_benchmarks"]:
            for used in backends + ["rdma/host"]:
                with self.subTest(user=user, used=used):
                    self.tree.write(f"{user}/x.cc", f'#include "{used}/y.h"\n')
                    bound = user in backends + ["rdma/host"] and used in backends and used != user
                    self.assertEqual(self.tree.violations(), [
                        f"{user}/x.cc:1: includes {used}/y.h: {user}/ must not depend on {used}/"] if bound else [])
            (self.tree.root / user / "x.cc").unlink()

    def test_folders_of_a_package_use_only_those_below_them(self):
        self.tree.write("server/base/a.cc", '#include "server/session/b.h"\n')
        self.tree.write("kv/layout/a.h", '#include "kv/table/b.h"\n')
        self.tree.write("client/op/a.h", '#include "kv/table/b.h"\n')
        self.tree.write("server/session/c.cc", '#include "server/base/a.h"\n')
        self.tree.write("server/base/a_test.cc", '#include "server/session/b.h"\n')
        self.assertEqual(sorted(self.tree.violations()), [
            "client/op/a.h:1: includes kv/table/b.h: client/op/ must not depend on kv/table/",
            "kv/layout/a.h:1: includes kv/table/b.h: kv/layout/ must not depend on kv/table/",
            "server/base/a.cc:1: includes server/session/b.h: server/base/ must not depend on server/session/"])

    def test_tests_of_a_package_are_bound_too(self):
        self.tree.write("kv/layout/item_test.cc", '#include "rdma/transport.h"\n')
        self.assertEqual(len(self.tree.violations()), 1)

    def test_kv_has_no_sockets_verbs_threads_or_clock(self):
        for header in ["sys/socket.h", "infiniband/verbs.h", "thread", "chrono", "time.h"]:
            with self.subTest(header=header):
                self.tree.write("kv/layout/item.cc", f"#include <{header}>\n")
                self.assertEqual(len(self.tree.violations()), 1)
        self.tree.write("kv/layout/item.cc", '#include "absl/time/clock.h"\n')
        self.assertEqual(len(self.tree.violations()), 1)

    def test_but_its_tests_may(self):
        rules = ['cc_test(\n    name = "t",\n    srcs = ["item_testing.cc"],\n)\n',
                 'cc_library(\n    name = "h",\n    testonly = True,\n    hdrs = ["item_testing.cc"],\n)\n']
        self.tree.write("kv/item_testing.cc", "#include <thread>\n")
        for rule_ in rules:
            self.tree.write("kv/BUILD", 'cc_library(\n    name = "item",\n    hdrs = ["item.h"],\n)\n\n' + rule_)
            self.assertEqual(self.tree.violations(), [])
        self.tree.write("kv/BUILD", rules[1].replace("    testonly = True,\n", ""))
        self.assertEqual(len(self.tree.violations()), 1)

    def test_what_a_test_compiles_in_its_own_way_is_bound_all_the_same(self):
        self.tree.write("kv/layout/item.cc", "#include <thread>\n")
        rule_ = 'cc_library(\n    name = "h",\n    testonly = True,\n    srcs = ["item.cc"],\n)\n'
        self.tree.write("kv/BUILD", 'cc_library(\n    name = "item",\n    srcs = ["item.cc"],\n)\n\n' + rule_)
        self.assertEqual(len(self.tree.violations()), 1)

    def test_only_rdma_sees_verbs(self):
        self.tree.write("server/worker/worker.cc", "#include <infiniband/verbs.h>\n")
        self.assertEqual(len(self.tree.violations()), 1)

    def test_a_header_of_the_system_may_be_quoted(self):
        self.tree.write("kv/layout/item.cc", '#include "xxhash.h"\n')
        self.assertEqual(self.tree.violations(), [])

    def test_ways_around_the_names_are_closed(self):
        for header in ["item.h", "../rdma/transport.h", "kv/slot.cc"]:
            with self.subTest(header=header):
                self.tree.write("kv/layout/item.cc", f'#include "{header}"\n')
                self.assertEqual(len(self.tree.violations()), 1)

    def test_product_code_does_not_wait_by_the_wall_clock(self):
        for code in ["const absl::Time end = absl::Now() + timeout;", "mutex_.AwaitWithTimeout(done, timeout);",
                     "done.WaitForNotificationWithTimeout(time);", "mutex_.LockWhenWithDeadline(done, end);",
                     "condition.wait_until(lock, std::chrono::system_clock::now() + time);", "if (time(nullptr) > end) return;",
                     "clock_gettime(CLOCK_REALTIME, &now);", "pthread_cond_timedwait(&condition, &mutex, &end);"]:
            with self.subTest(code=code):
                self.tree.write("server/wait.cc", f"// absl::Now()\n{code}\n")
                found = self.tree.violations()
                self.assertEqual(len(found), 1, found)
                self.assertIn("server/wait.cc:2: ", found[0])
                # Expect: allowed in a line that needs the calendar, in a test, and in targets that only tests use.
                self.tree.write("server/wait.cc", f"{code}  // wall clock: for people\n")
                self.assertEqual(self.tree.violations(), [])
                self.tree.write("server/wait.cc", "")
                self.tree.write("server/wait_test.cc", code + "\n")
                self.tree.write("server/wait_testing.h", code + "\n")
                self.tree.write("server/BUILD", 'cc_library(\n    name = "h",\n    testonly = True,\n    hdrs = ["wait_testing.h"],\n)\n')
                self.assertEqual(self.tree.violations(), [])

    def test_other_clocks_are_no_wall_clock(self):
        self.tree.write("server/wait.cc", "const absl::Time now = SteadyNow();\nstd::chrono::steady_clock::now();\n"
                                          "absl::SleepFor(time);\nrun_time(0);\nserver->time(0);\nclock_gettime(CLOCK_BOOTTIME, &now);\n")
        self.assertEqual(self.tree.violations(), [])

    def test_the_command_fails_on_a_forbidden_arrow(self):
        command = [sys.executable, HERE / "arrows.py", "--root", self.tree.root]
        self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode, 0)
        self.tree.write("kv/layout/item.cc", '#include "rdma/transport.h"\n')
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("kv/layout/item.cc:1: includes rdma/transport.h: kv/ must not depend on rdma/", done.stdout)

    def test_the_command_fails_where_there_is_nothing_to_check(self):
        shutil.rmtree(self.tree.root)
        self.tree.root.mkdir()
        command = [sys.executable, HERE / "arrows.py", "--root", self.tree.root]
        self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode, 1)


def rule(name, *deps, visibility="//visibility:private", kind="cc_library", tags=""):
    inputs = "".join(f'<rule-input name="{dep}"/>' for dep in deps)
    tags = "".join(f'<string value="{tag}"/>' for tag in tags.split())
    return (f'<rule class="{kind}" name="{name}"><list name="visibility"><label value="{visibility}"/></list>'
            f'<list name="tags">{tags}</list>{inputs}</rule>')


def violations_of(*rules):
    group = ('<package-group name="//:kv_users"><list name="packages"><string value="client/..."/>'
             '<string value="kv/..."/></list></package-group>')
    wrong = group.replace("kv_users", "wrong").replace("client/...", "rdma/...")
    return arrows.query_violations(f"<query>{group}{wrong}{''.join(rules)}</query>")[0]


class QueryTest(unittest.TestCase):
    def test_allowed(self):
        self.assertEqual(violations_of(rule("//kv/layout:layout", "//kv/layout:layout", "//third_party/absl:status"),
                                       rule("//kv/layout:layout", visibility="//:kv_users"),
                                       rule("//third_party/absl:status", visibility="//visibility:public"),
                                       rule("//client/cli:x", "//kv/layout:layout", visibility="//client:__pkg__"),
                                       rule("//kv/layout:layout_test", "//kv/layout:layout", kind="cc_test")), [])

    def test_forbidden_dependency(self):
        self.assertEqual(violations_of(rule("//kv/sub:item", "//rdma/shm:shm")),
                         ["//kv/sub:item: depends on //rdma/shm:shm: kv/ must not depend on rdma/"])

    def test_forbidden_dependency_between_folders(self):
        self.assertEqual(violations_of(rule("//rdma/verbs/device:device", "//rdma/host:host"),
                                       rule("//rdma:transport", "//rdma/shm:shm", "//rdma/verbs:verbs")), [])
        for user, used in [("verbs", "shm"), ("shm", "verbs"), ("host", "shm")]:
            self.assertEqual(violations_of(rule(f"//rdma/{user}:x", f"//rdma/{used}:y")),
                             [f"//rdma/{user}:x: depends on //rdma/{used}:y: "
                              f"rdma/{user}/ must not depend on rdma/{used}/"])

    def test_forbidden_dependency_between_rooms(self):
        self.assertEqual(violations_of(rule("//kv/layout:x", "//kv/table:table")),
                         ["//kv/layout:x: depends on //kv/table:table: not a folder that ROOMS allows"])
        self.assertEqual(violations_of(rule("//kv/layout:x_test", "//kv/table:table", kind="cc_test")), [])

    def test_forbidden_visibility(self):
        for visibility in ["//visibility:public", "//rdma:__pkg__", "//rdma:__subpackages__", "//:wrong", "//:other"]:
            with self.subTest(visibility=visibility):
                self.assertEqual(len(violations_of(rule("//kv/layout:layout", visibility=visibility))), 1)

    def test_a_test_that_would_not_run(self):
        self.assertEqual(len(violations_of(rule("//kv/layout:layout_test", kind="cc_test", tags="manual"))), 1)

    def test_an_include_without_a_direct_dependency(self):
        """As Clang's layering check refuses it: the header is in a dependency's dependency only."""
        with tempfile.TemporaryDirectory() as root:
            tree = Tree(root)
            tree.write("kv/a.h", "")
            tree.write("kv/include/p/b.h", "")
            tree.write("kv/a_test.cc", '#include "kv/a.h"\n#include "p/b.h"\n')

            def found(*deps):
                def target(name, kind, *lists, prefix=""):
                    return (f'<rule class="{kind}" name="//kv:{name}"><string name="strip_include_prefix" value="{prefix}"/>'
                            + "".join(f'<list name="{a}">' + "".join(f'<label value="//kv:{v}"/>' for v in values) + "</list>"
                                      for a, values in lists) + "</rule>")
                return layers.violations(tree.root, xml.fromstring("<query>" + target("a", "cc_library", ("hdrs", ["a.h"]))
                    + target("b", "cc_library", ("hdrs", ["include/p/b.h"]), ("deps", ["a"]), prefix="include")
                    + '<rule class="alias" name="//kv:c"><label name="actual" value="//kv:b"/></rule>'
                    + target("a_test", "cc_test", ("srcs", ["a_test.cc"]), ("deps", deps)) + "</query>"))

            self.assertEqual(found("a", "b"), [])
            self.assertEqual(found("a", "c"), [])
            self.assertEqual(found("b"), ["//kv:a_test: kv/a_test.cc includes kv/a.h, which no direct dependency has "
                                          "(Clang refuses it)"])
            self.assertEqual(len(found("a")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
