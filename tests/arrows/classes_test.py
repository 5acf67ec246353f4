#!/usr/bin/env python3
"""No class of this tree is beyond its limits, and the counts of a class made up for it are right."""

import pathlib
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent  # in the workspace itself, also when run by Bazel
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import classes  # noqa: E402  pylint: disable=wrong-import-position

ROOT = HERE.parents[1]

SOURCE = r"""
#define MACRO class Defined { int a; };
// class InAComment { int a; };
class Forward;
enum class Colour { kRed };
template <typename T, int N = (1 > 0)>
class alignas(64) One final : public Base<int>, private Other {
 public:
  One() : a_(1), b_{2} {}
  explicit One(int a);
  One(const One&) = delete;
  One& operator=(const One&) = delete;
  ~One() = default;
  struct Parts { int* x; std::map<int, std::vector<int>> y = {}; };
  enum class Kind : uint8_t { kA, kB };
  using Callback = std::function<void(int, int)>;
  template <typename F>
  void Each(F f) const { if (a_ > 0) { f(a_); } }
  bool operator<(const One& other) const { return a_ < other.a_; }
  bool operator()(int) const;
  static int Count();
  [[nodiscard]] virtual int Pure(int a = 3, std::pair<int, int> b = {}) const = 0;
  int a() const { return a_; }
  auto b() -> int;
  std::function<void(int, int)> callback() const;
  friend class Two;
  friend bool Same(const One& a, const One& b) { return true; }

 private:
  static constexpr int kMost = 3, kLeast = 2;
  static_assert(sizeof(int) == 4, "a; text");
  void Lock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const std::function<void(int, int)> callback_;
  int a_ = F(1, 2), b_{3};
  std::array<int, 3> list_ = {1, 2, 3};
  absl::Mutex mutex_ ABSL_GUARDED_BY(other_);
  struct { int in; } anonymous_;
  bool flag_ : 1 = false;
  std::map<size_t, Queue> queues_;  // by slot; none is empty
  char text_[16];
  Kind kind_ = Kind::kA;
  void (*function_)(int);
};
"""


class CountsTest(unittest.TestCase):
    def test_no_class_of_this_tree_is_beyond_its_limits(self):
        self.assertEqual(list(classes.violations(ROOT)), [])
        self.assertGreater(len(classes.counts(ROOT)), 500, f"{ROOT} does not look like the workspace")

    def test_each_class_with_limits_of_its_own_is_there(self):
        self.assertEqual(set(classes.BEYOND) - set(classes.counts(ROOT)), set())

    def test_all_that_a_class_declares_is_counted_once(self):
        self.assertEqual(list(classes.classes(SOURCE)), [("One", 11, 11), ("Parts", 0, 2)])

    def test_what_is_beyond_a_limit_is_seen(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "kv").mkdir()
            path = root / "kv/x.h"
            for methods, fields in [(45, 30), (46, 0), (0, 31)]:
                path.write_text("class X {\n" + "".join(f"  void F{i}();\n" for i in range(methods)) +
                                "".join(f"  int f{i};\n" for i in range(fields)) + "};\n", encoding="utf-8")
                self.assertEqual(len(list(classes.violations(root))), 0 if (methods, fields) == (45, 30) else 1)

    def test_a_limit_of_its_own_may_not_be_looser_than_needed(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "kv").mkdir()
            (root / "kv/x.h").write_text("class X {\n" + "".join(f"  void F{i}();\n" for i in range(50)) + "};\n",
                                         encoding="utf-8")
            for limit, found in [((50, 30), 0), ((51, 30), 1), ((50, 31), 1), ((49, 30), 1)]:
                with unittest.mock.patch.dict(classes.BEYOND, {"kv/x.h:X": limit}):
                    self.assertEqual(len(list(classes.violations(root))), found, limit)


if __name__ == "__main__":
    unittest.main()
