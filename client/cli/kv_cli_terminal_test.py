#!/usr/bin/env python3
"""kv_cli on a pseudo-terminal: prompt, editing, history, progress bar."""

import os
import pty
import re
import select
import signal
import stat
import struct
import sys
import tempfile
import termios
import time
import unittest
from fcntl import ioctl

BINARY = os.path.abspath(sys.argv.pop())
SECONDS = 60  # for anything to happen
CONTROL_C, CONTROL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"
PROMPT = "farlook> "
# For tools/coverage, which collects the profiles.
COVERAGE = {name: value for name, value in os.environ.items() if name == "LLVM_PROFILE_FILE"}


class Terminal:
  """kv_cli with a pseudo-terminal as its standard streams, except those given."""

  def __init__(self, *arguments, environment, redirect=None, columns=80):
    self.text = ""  # printed, and not yet expected
    self.status = None
    self.pid, self.fd = pty.fork()
    if self.pid == 0:
      for stream, path in (redirect or {}).items():
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), stream)
      os.execve(BINARY, [BINARY, *arguments], environment)
    ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

  def close(self):
    if self.status is None:
      os.kill(self.pid, signal.SIGKILL)
      os.waitpid(self.pid, 0)
    os.close(self.fd)

  def send(self, text):
    os.write(self.fd, text.encode())

  def _read(self, deadline):
    """Appends to self.text; returns whether there can be more."""
    ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
    if not ready:
      raise AssertionError("waited in vain after: %r" % self.text)
    try:
      chunk = os.read(self.fd, 65536)
    except OSError:  # Linux reports this when the other side is closed
      chunk = b""
    self.text += chunk.decode(errors="replace")
    return bool(chunk)

  def expect(self, pattern):
    """Waits until `pattern` is printed; returns everything printed up to its end."""
    deadline = time.monotonic() + SECONDS
    while not (match := re.search(pattern, self.text)):
      if not self._read(deadline) and not re.search(pattern, self.text):
        raise AssertionError("ended without %r: %r" % (pattern, self.text))
    seen, self.text = self.text[:match.end()], self.text[match.end():]
    return seen

  def expect_prompt(self):
    """Waits for the prompt, and for the mode in which the editor reads keys: in the other mode control keys are lost.
    """
    seen = self.expect(re.escape(PROMPT))
    deadline = time.monotonic() + SECONDS
    while termios.tcgetattr(self.fd)[3] & termios.ICANON:
      if time.monotonic() > deadline:
        raise AssertionError("no key is read after: %r" % seen)
      time.sleep(0.001)
    return seen

  def exit_code(self):
    deadline = time.monotonic() + SECONDS
    while self._read(deadline):
      pass
    _, status = os.waitpid(self.pid, 0)
    self.status = os.waitstatus_to_exitcode(status)
    return self.status


class TerminalTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.TemporaryDirectory()
    self.home = self.directory.name
    self.table = os.path.join(self.home, "table")
    self.history = os.path.join(self.home, ".farlook_history")
    open(self.table, "w").close()
    # libedit leaks the names of functions added to it (six of wcsdup, at el_end), which the leak sanitizer reports.
    suppressions = os.path.join(self.home, "suppressions")
    with open(suppressions, "w", encoding="ascii") as file:
      file.write("leak:wcsdup\n")
    self.environment = {**COVERAGE, "FARLOOK_ADDRESS": "file://" + self.table, "HOME": self.home, "TERM": "xterm",
                        "LSAN_OPTIONS": "print_suppressions=0:suppressions=" + suppressions}

  def tearDown(self):
    self.directory.cleanup()

  def start(self, *arguments, **options):
    terminal = Terminal(*arguments, environment=self.environment, **options)
    self.addCleanup(terminal.close)
    return terminal

  def session(self, *lines, **options):
    """Runs a whole session; returns its output."""
    terminal = self.start(**options)
    text = ""
    for line in lines:
      text += terminal.expect_prompt()
      terminal.send(line + "\n")
    text += terminal.expect_prompt()
    terminal.send(CONTROL_D)
    self.assertEqual(terminal.exit_code(), 0)
    return text + terminal.text

  def test_prompt_and_answers(self):
    text = self.session("put k 'a b'", "get k", "get none", "delete k", "bogus", "help", "put k")
    self.assertIn("Connected to file://", text)
    for answer in ("stored, version 1\r\n", "a b\r\n", '\nget: no such key "none"\r\n', "deleted\r\n",
                   'unknown command "bogus"', "quit", "standard input provides the commands"):
      self.assertIn(answer, text)

  def test_quit(self):
    for word in ("quit", "exit"):
      terminal = self.start()
      terminal.expect_prompt()
      terminal.send(word + "\n")
      self.assertEqual(terminal.exit_code(), 0)

  def test_no_server(self):
    self.environment["FARLOOK_ADDRESS"] = "file:///nowhere"
    terminal = self.start()
    terminal.expect("no server answers at file:///nowhere: start it with kv_server")
    self.assertEqual(terminal.exit_code(), 3)

  def test_history_within_and_between_sessions(self):
    terminal = self.start()
    terminal.expect_prompt()
    terminal.send("put k v\n")
    terminal.expect_prompt()
    terminal.send(" put secret v\n")
    terminal.expect_prompt()
    terminal.send(UP + "\n")
    terminal.expect("stored, version 3")
    terminal.expect_prompt()
    terminal.send(CONTROL_D)
    self.assertEqual(terminal.exit_code(), 0)
    self.assertEqual(stat.S_IMODE(os.stat(self.history).st_mode), 0o600)
    with open(self.history, encoding="utf-8") as file:
      self.assertNotIn("secret", file.read())

    terminal = self.start()
    terminal.expect_prompt()
    terminal.send(UP)
    terminal.expect("put k v")
    terminal.send("2\n")
    terminal.expect_prompt()
    terminal.send("get k\n")
    terminal.expect("v2\r\n")

  def test_history_elsewhere_or_nowhere(self):
    state = os.path.join(self.home, "state", "deep")
    self.environment["XDG_STATE_HOME"] = state
    self.session("ping")
    self.assertTrue(os.path.exists(os.path.join(state, "farlook_history")))
    self.environment["FARLOOK_HISTORY"] = os.path.join(self.home, "mine")
    self.session("ping")
    self.assertTrue(os.path.exists(os.path.join(self.home, "mine")))
    self.environment["FARLOOK_HISTORY"] = ""
    self.session("ping")
    del self.environment["FARLOOK_HISTORY"], self.environment["XDG_STATE_HOME"]
    terminal = self.start("--nohistory")
    terminal.expect_prompt()
    terminal.send("ping\n")
    terminal.expect_prompt()
    terminal.send(CONTROL_D)
    self.assertEqual(terminal.exit_code(), 0)
    self.assertFalse(os.path.exists(self.history))

  def test_bad_history_is_a_warning(self):
    self.environment["FARLOOK_HISTORY"] = "/dev/null/history"
    self.assertIn("warning: cannot write the history /dev/null/history", self.session("ping"))
    with open(self.history, "w", encoding="utf-8") as file:
      file.write("this is no history\n")
    del self.environment["FARLOOK_HISTORY"]
    self.assertIn("is no history", self.session("ping"))

  def test_completion(self):
    terminal = self.start()
    terminal.expect_prompt()
    terminal.send("pin" + TAB + "\n")
    terminal.expect("answer from file:")
    terminal.expect_prompt()
    terminal.send("ex" + TAB)
    terminal.expect("exists  export")
    terminal.send("is" + TAB + "none --js" + TAB + "\n")
    terminal.expect('"exists":false')

  def test_control_c_abandons_the_line(self):
    terminal = self.start()
    terminal.expect_prompt()
    terminal.send("put k v")
    terminal.expect("put k v")
    terminal.send(CONTROL_C)
    terminal.expect_prompt()
    terminal.send("exists k\n")
    terminal.expect("false")
    terminal.expect_prompt()
    # Expect: the same at an empty line.
    terminal.send(CONTROL_C)
    terminal.expect_prompt()
    terminal.send("ping\n")
    terminal.expect("answer from")

  def test_control_c_ends_the_command_not_the_session(self):
    terminal = self.start()
    terminal.expect_prompt()
    terminal.send("watch --interval_ms=5\n")
    terminal.expect("Ctrl-C ends")
    terminal.expect("requests .*/s")
    terminal.send(CONTROL_C)
    terminal.expect_prompt()
    terminal.send("ping\n")
    terminal.expect("answer from")

  def test_utf8_is_edited(self):
    text = self.session("put k gr\u00fc\u00df\u20ac", "get --json k")
    self.assertIn('"value":"gr\u00fc\u00df\u20ac"', text)

  def test_prompt_does_not_go_to_a_file(self):
    answers = os.path.join(self.home, "answers")
    self.session("put k v", "get k", redirect={1: answers})
    with open(answers, encoding="utf-8") as file:
      self.assertEqual(file.read(), "stored, version 1\nv\n")

  def test_values_on_a_terminal(self):
    terminal = self.start("put", "k")
    terminal.expect("give a value, --file=FILE, or -")
    self.assertEqual(terminal.exit_code(), 64)
    terminal = self.start("put", "k", "-")
    terminal.send("typed\n")
    terminal.expect("typed")
    terminal.send(CONTROL_D)
    self.assertEqual(terminal.exit_code(), 0)
    self.assertEqual(self.start("put", "j", "v").exit_code(), 0)
    # Expect: a line feed after a value, so that the shell's prompt starts on a new line.
    terminal = self.start("get", "j")
    self.assertEqual(terminal.exit_code(), 0)
    self.assertEqual(terminal.text, "v\r\n")
    for command in ("import", "export"):
      terminal = self.start(command)
      self.assertEqual(terminal.exit_code(), 64)

  def test_a_value_cannot_control_the_terminal(self):
    value = os.path.join(self.home, "value")
    with open(value, "wb") as file:
      file.write(b"two\nlines \x1b]0;title\x07")
    self.assertEqual(self.start("put", "k", "--file", value).exit_code(), 0)
    for command in (("get", "k"), ("gettouch", "k", "1h")):
      terminal = self.start(*command)
      self.assertEqual(terminal.exit_code(), 0)
      self.assertEqual(terminal.text, "two\r\nlines \\x1b]0;title\\x07\r\n")
      terminal = self.start(*command, "--raw")
      self.assertEqual(terminal.exit_code(), 0)
      self.assertEqual(terminal.text, "two\r\nlines \x1b]0;title\x07\r\n")
    # Expect: a file gets the exact bytes.
    answers = os.path.join(self.home, "answers")
    self.assertEqual(self.start("get", "k", redirect={1: answers}).exit_code(), 0)
    with open(answers, "rb") as file:
      self.assertEqual(file.read(), b"two\nlines \x1b]0;title\x07")

  def test_progress_bar(self):
    lines = os.path.join(self.home, "lines")
    with open(lines, "w", encoding="utf-8") as file:
      for i in range(1, 401):
        file.write("nonsense\n" if i == 50 else "k%d\tv\n" % i)
    self.environment["DELAY_MS"] = "5"
    terminal = self.start("import", "--format=tsv", "--in_flight=4", lines, columns=60)
    terminal.expect(r"\rimport +[0-9]+%")
    shown = terminal.expect("imported 399 pairs")
    self.assertEqual(terminal.exit_code(), 3)
    self.assertRegex(shown, r"import +[0-9]+% \|#+ +\|  [0-9]+ pairs")
    # Expect: a message is on a line of its own, and the bar is removed at the end.
    self.assertIn("\r\x1b[Kkv_cli: import: line 50: the line has no tab between key and value\r\n", shown)
    self.assertIn("\r\x1b[Kimported 399 pairs", shown)
    for drawn in re.findall(r"\r(import[^\r\x1b]*)\x1b\[K", shown):
      self.assertLess(len(drawn), 60)

  def test_a_plan_is_asked_about(self):
    after = os.path.join(self.home, "after")
    self.environment.update(CLUSTER="kv.0 0-2047;kv.1 2048-4095;kv.2", AFTER=after, COPY_LOOKS="6")
    question = re.escape("go on? [y/N] ")
    for answer, code, text in (("n\n", 2, "nothing was done: the plan was not confirmed"), ("\n", 2, "nothing was done"),
                               (CONTROL_D, 2, "nothing was done"), (CONTROL_C, 130, "interrupted: nothing was done")):
      terminal = self.start("cluster", "add", "kv.2")
      self.assertIn("kv.0 -> kv.2: 683 slots (0-682)\r\n", terminal.expect(question))
      terminal.send(answer)
      terminal.expect(text)
      self.assertEqual(terminal.exit_code(), code)
      with open(after, encoding="ascii") as file:
        self.assertEqual(file.read(), "kv.0 0-2047;kv.1 2048-4095;kv.2")
    terminal = self.start("cluster", "add", "kv.2", columns=60)
    terminal.expect(question)
    terminal.send("Yes\n")
    shown = terminal.expect("done: 2 moves, 1365 slots")
    self.assertEqual(terminal.exit_code(), 0)
    # Expect: one line that is redrawn, and permanent lines of their own.
    drawn = re.findall(r"\r(move 1 of 2: kv\.0 -> kv\.2  [^\r\x1b]*)\x1b\[K", shown)
    self.assertGreater(len(drawn), 2, shown)
    self.assertLess(max(len(line) for line in drawn), 60)
    self.assertRegex(drawn[-1], r"  [0-9]+%  [0-9]+ of 6830 items")
    self.assertIn("\r\x1b[Kmove 1 of 2: kv.0 -> kv.2  done: 683 slots in ", shown)
    with open(after, encoding="ascii") as file:
      self.assertEqual(file.read(), "kv.0 683-2047;kv.1 2730-4095;kv.2 0-682,2048-2729")

  def test_a_session_asks_too_and_goes_on_after_control_c(self):
    self.environment.update(CLUSTER="kv.0 0-2047;kv.1 2048-4095;kv.2", COPY_LOOKS="20")
    terminal = self.start()
    terminal.expect_prompt()
    terminal.send("cluster rebal" + TAB + "\n")
    terminal.expect(re.escape("go on? [y/N] "))
    terminal.send("y\n")
    terminal.expect("move 1 of 2: .* items")
    terminal.send(CONTROL_C)
    terminal.expect("continues without this command")
    terminal.expect_prompt()
    terminal.send("cluster rebalance --yes\n")
    terminal.expect("a move is under way already, and is waited for")
    terminal.expect("done: 1 move, 682 slots")
    terminal.expect_prompt()

  def test_export_with_a_bar_beside_its_output(self):
    keys = os.path.join(self.home, "keys")
    with open(self.table, "w", encoding="utf-8") as file:
      file.writelines("k%d\tv\n" % i for i in range(300))
    with open(keys, "w", encoding="utf-8") as file:
      file.writelines("k%d\n" % i for i in range(300))
    self.environment["DELAY_MS"] = "5"
    answers = os.path.join(self.home, "answers")
    terminal = self.start("export", "--keys", keys, "--in_flight=4", redirect={1: answers})
    terminal.expect(r"\rexport +[0-9]+%")
    self.assertEqual(terminal.exit_code(), 0)
    with open(answers, encoding="utf-8") as file:
      self.assertEqual(len(file.readlines()), 300)


if __name__ == "__main__":
  unittest.main()
