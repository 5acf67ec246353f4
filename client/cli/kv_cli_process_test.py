#!/usr/bin/env python3
"""kv_cli as a process: exit codes, streams, sessions. On a table in memory."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = os.path.abspath(sys.argv.pop())
# For tools/coverage, which collects the profiles.
COVERAGE = {name: value for name, value in os.environ.items() if name == "LLVM_PROFILE_FILE"}


def wait_until_caught(process, signal_number):
  """Waits until `process` has a handler for the signal."""
  deadline = time.monotonic() + 60
  while time.monotonic() < deadline:
    with open("/proc/%d/status" % process.pid, encoding="ascii") as status:
      caught = int(status.read().split("SigCgt:")[1].split()[0], 16)
    if caught & (1 << (signal_number - 1)):
      return
    time.sleep(0.01)
  raise AssertionError("never caught")


class KvCliTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.TemporaryDirectory()
    self.table = os.path.join(self.directory.name, "table")
    open(self.table, "w").close()
    self.environment = {**COVERAGE, "FARLOOK_ADDRESS": "file://" + self.table}

  def tearDown(self):
    self.directory.cleanup()

  def path(self, name, content=None):
    path = os.path.join(self.directory.name, name)
    if content is not None:
      with open(path, "wb") as file:
        file.write(content)
    return path

  def run_cli(self, *arguments, stdin=b"", environment=None, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([BINARY, *arguments], input=stdin, stderr=subprocess.PIPE, timeout=60, check=False,
                          env={**self.environment, **(environment or {})}, **options)

  def check(self, *arguments, code=0, out=None, err=None, **options):
    """Runs kv_cli; expects the exit code, exactly `out` and, somewhere in the errors, `err`."""
    result = self.run_cli(*arguments, **options)
    self.assertEqual(result.returncode, code, result)
    if out is not None:
      self.assertEqual(result.stdout, out)
    if err is None:
      self.assertEqual(result.stderr, b"")
    else:
      self.assertIn(err, result.stderr.decode())
    return result

  def test_exit_codes(self):
    self.check("put", "k", "v", out=b"")
    self.check("get", "k", out=b"v")
    self.check("exists", "k", out=b"true\n")
    self.check("get", "none", code=1, out=b"", err='get: no such key "none"')
    self.check("exists", "none", code=1, out=b"false\n")
    self.check("delete", "none", code=1, err="no such key")
    self.check("replace", "none", "v", code=1, err="no such key")
    self.check("cas", "none", "1", "v", code=1, err="no such key")
    self.check("insert", "k", "w", code=2, err="exists already")
    self.check("cas", "k", "77", "w", code=2, err="another version")
    self.check("get", "k", code=3, err="no server answers at file:///nowhere",
               environment={"FARLOOK_ADDRESS": "file:///nowhere"})
    self.check("get", "k", code=3, err="no answer within 1000 ms", environment={"FAULT": "1 4"})
    self.check("put", "k", "v", "--file=/none", code=64, err="given twice")
    self.check("put", "k", "--file=/none", code=3, err="cannot open /none")
    self.check("gett", "k", code=64, err="did you mean get?")
    self.check("get", code=64, err="operands are missing")
    self.check("--nonsense", code=64, err="unknown flag")
    self.check("get", "k", code=64, err="FARLOOK_ADDRESS", environment={"FARLOOK_ADDRESS": ""})
    self.check("--address=http://x", "get", "k", code=64, err="address")
    self.check("get", "k", out=b"v")

  def test_help_and_version_need_no_server(self):
    self.environment = dict(COVERAGE)
    for arguments in (["help"], ["--help"], ["-h"]):
      self.assertIn(b"Exit codes:", self.check(*arguments).stdout)
    self.assertIn(b"kv_cli export --prefix= >", self.check("export", "--help").stdout)
    self.assertIn(b"kv_cli export --prefix= >", self.check("--help", "export").stdout)
    self.assertIn(b"kv_cli (Farlook)", self.check("--version").stdout)
    self.check(stdin=b"help\nquit\nget k\n")

  def test_address_flag_goes_before_environment(self):
    self.check("get", "k", "--address", "file:///nowhere", code=3, err="no server answers at file:///nowhere")

  def test_values_of_any_bytes(self):
    value = bytes(range(256)) * 3
    self.check("put", "k1", stdin=value)
    self.check("put", "k2", "-", stdin=value)
    self.check("put", "k3", "--file", self.path("value", value))
    for key in ("k1", "k2", "k3"):
      self.check("get", key, out=value)
    self.check("put", "k", "--", "-value-")
    self.check("get", "k", out=b"-value-")
    self.check("put", "k", "", out=b"")
    self.check("get", "k", out=b"")
    self.check("put", b"\xff\xfe", "v")
    self.check("get", "--key_encoding=hex", "fffe", out=b"v")
    pair = json.loads(self.check("get", "--json", b"\xff\xfe").stdout)
    self.assertEqual(pair["key_base64"], "//4=")
    self.assertEqual(pair["value"], "v")
    self.assertGreater(pair["version"], 0)

  def test_large_value(self):
    value = os.urandom(1 << 20)
    self.check("put", "k", stdin=value)
    self.check("get", "k", out=value)

  def test_read_only(self):
    self.check("put", "k", "v")
    self.check("--read_only", "get", "k", out=b"v")
    self.check("--read_only", "put", "k", "w", code=3, err="--read_only forbids writes")

  def test_session_of_lines(self):
    lines = b"""# a comment
put k 'a b'
get k

get none
insert k x
bogus
get "k
put k2 "tab\\there" # trailing
get --json k2
put k3
delete k
"""
    result = self.check(stdin=lines, code=64, err='line 5: get: no such key "none"')
    self.assertEqual(result.stdout.split(b"\n")[0], b"a b")
    self.assertEqual(json.loads(result.stdout.split(b"\n")[1])["value"], "tab\there")
    errors = result.stderr.decode().splitlines()
    self.assertEqual([e.split(":")[0] for e in errors], ["line 5", "line 6", "line 7", "line 8", "line 11"])
    self.check("exists", "k", code=1, out=b"false\n")

  def test_session_exit_code_is_the_worst(self):
    self.check(stdin=b"put k v\nget k\n", code=0)
    self.check(stdin=b"get none\nget k\n", code=1, err="line 1")
    self.check(stdin=b"get none\ninsert k v\nget k", code=2, err="line 2")
    self.check(stdin=b"", code=0)
    self.check("--json", stdin=b"get k", code=0, out=b'{"key":"k","value":"v","version":1}\n')

  def test_with_json_a_command_line_that_is_wrong_has_an_answer_too(self):
    for words in (("get", "--nosuch", "k"), ("--timeout_ms=x", "get", "k"), ("--print_version",)):
      result = self.check("--json", *words, code=64, err="kv_cli: ")
      answer = json.loads(result.stdout)
      self.assertEqual(answer["error"], "invalid_argument")
      self.assertIn(answer["message"], result.stderr.decode())

  def test_session_ends_when_the_server_is_gone(self):
    result = self.check(stdin=b"ping\nping\nget k\nget k\n", code=3, err="line 3: get: key", environment={"FAULT": "3 14"})
    self.assertIn(b"the session ends: ", result.stderr)
    self.assertNotIn(b"line 4", result.stderr)

  def test_session_answers_each_line_at_once(self):
    with subprocess.Popen([BINARY], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
      for i in range(3):
        process.stdin.write(b"put k%d v%d\nget k%d\n" % (i, i, i))
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"v%d\n" % i)
      process.stdin.close()
      self.assertEqual(process.wait(60), 0)

  def test_import_and_export(self):
    pairs = {"key%d" % i: "value %d \u00e9\t\n" % i for i in range(2000)}
    lines = "".join(json.dumps({"key": k, "value": v}) + "\n" for k, v in pairs.items()).encode()
    self.check("import", stdin=lines, out=b"", err="imported 2000 pairs")
    exported = self.check("export", stdin="\n".join(pairs).encode(), err="exported 2000 pairs").stdout
    self.assertEqual({p["key"]: p["value"] for p in map(json.loads, exported.splitlines())}, pairs)
    tsv = self.check("export", "--format=tsv", "--keys", self.path("keys", "\n".join(pairs).encode()),
                     err="exported").stdout
    self.assertEqual(tsv.count(b"\n"), 2000)
    os.truncate(self.table, 0)
    self.check("import", "--format=tsv", self.path("pairs", tsv), err="imported 2000 pairs")
    self.check("get", "key7", out=pairs["key7"].encode())
    # Expect: no progress bar without a terminal.
    self.assertNotIn(b"\x1b", self.run_cli("import", self.path("lines", lines)).stderr)
    self.check("import", self.path("lines"), "--insert_only", code=2, err="2000 existed")

  def test_export_answers_who_writes_keys_one_by_one(self):
    self.check("put", "k", "v")
    with subprocess.Popen([BINARY, "export", "--format=tsv"], env=self.environment, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
      for _ in range(3):
        process.stdin.write(b"k\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"k\tv\n")

  def test_import_can_go_on(self):
    file = self.path("lines", b"".join(b"k%d\tv\n" % i for i in range(1, 101)))
    result = self.check("import", "--format=tsv", file, code=3, environment={"FAULT": "40 14"},
                        err="all lines before")
    line = int(result.stderr.split(b"--start_line=")[1].split()[0])
    self.assertLessEqual(line, 40)
    self.check("import", "--format=tsv", file, "--start_line=%d" % line, err="imported %d pairs" % (101 - line))
    with open(self.table, encoding="utf-8") as table:
      self.assertEqual(len(table.readlines()), 100)

  def test_control_c_ends_an_import_in_good_order(self):
    lines = self.path("lines", b"".join(b"k%d\tv\n" % i for i in range(100000)))
    with subprocess.Popen([BINARY, "import", "--format=tsv", "--in_flight=4", lines], stderr=subprocess.PIPE,
                          env={**self.environment, "DELAY_MS": "5"}) as process:
      wait_until_caught(process, signal.SIGINT)
      process.send_signal(signal.SIGINT)
      err = process.stderr.read().decode()
      process.wait(60)
    self.assertEqual(process.returncode, 130)
    self.assertIn("interrupted", err)
    line = int(err.split("--start_line=")[1].split()[0])
    with open(self.table, encoding="utf-8") as table:
      self.assertEqual(len(table.readlines()), line - 1)

  def test_control_c_ends_what_is_not_caught_at_once(self):
    with subprocess.Popen([BINARY, "put", "k", "v"], env={**self.environment, "DELAY_MS": "60000"}) as process:
      process.send_signal(signal.SIGINT)
      self.assertEqual(process.wait(30), -signal.SIGINT)

  def cluster(self, **more):
    """Returns the environment of a cluster with a group without slots, and the file for its final slots."""
    after = self.path("after")
    return {"CLUSTER": "kv.0 0-2047;kv.1 2048-4095;kv.2", "AFTER": after, **more}, after

  def after(self, path):
    with open(path, encoding="ascii") as file:
      return file.read()

  def test_slots_move_where_that_is_wanted(self):
    environment, after = self.cluster()
    plan = self.check("cluster", "add", "kv.2", "--dry_run", environment=environment).stdout.decode()
    self.assertEqual(plan.splitlines()[0], "kv.0 -> kv.2: 683 slots (0-682)")
    # Expect: if consent cannot be asked for, the plan is shown.
    for stdin in (b"", b"y\n"):
      self.check("cluster", "add", "kv.2", code=64, out=plan.encode(), err="add --yes to carry it out", stdin=stdin,
                 environment=environment)
    self.check(stdin=b"cluster add kv.2\ny\n", code=64, err="add --yes to carry it out", environment=environment)
    self.assertEqual(self.after(after), "kv.0 0-2047;kv.1 2048-4095;kv.2")
    result = self.check("cluster", "add", "kv.2", "--yes", environment=environment)
    self.assertEqual(self.after(after), "kv.0 683-2047;kv.1 2730-4095;kv.2 0-682,2048-2729")
    lines = result.stdout.decode()
    self.assertTrue(lines.startswith(plan))
    self.assertIn("\nmove 1 of 2: kv.0 -> kv.2  done: 683 slots in ", lines)
    self.assertNotIn("\x1b", lines)
    # Expect: at most one line per second.
    slow, _ = self.cluster(COPY_LOOKS="7")
    result = self.check("cluster", "rebalance", "--yes", "--json", environment=slow)
    told = [json.loads(line) for line in result.stdout.splitlines()]
    self.assertEqual(told[-1]["moves"], 2)
    progress = [line for line in told if "items_per_second" in line]
    self.assertTrue(2 <= len(progress) <= 6, progress)
    self.assertGreater(max(line["items_per_second"] for line in progress), 0)

  def test_control_c_leaves_a_move_going_on(self):
    environment, after = self.cluster(COPY_LOOKS="1000000")
    with subprocess.Popen([BINARY, "cluster", "rebalance", "--yes"], env={**self.environment, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
      for line in process.stdout:
        if b"items" in line:
          break
      process.send_signal(signal.SIGINT)
      err = process.stderr.read().decode()
      process.wait(60)
    self.assertEqual(process.returncode, 130, err)
    self.assertIn("interrupted: the move kv.0 -> kv.2, 683 slots, continues without this command", err)
    self.assertIn("`cluster cancel --group=kv.2` gives it up", err)
    self.assertEqual(self.after(after), "kv.0 0-2047;kv.1 2048-4095;kv.2")

  def test_output_that_fails(self):
    self.check("put", "k", "v" * 100)
    with open("/dev/full", "wb") as full:
      self.check("get", "k", code=3, err="cannot write to standard output", stdout=full)
    # Expect: a closed pipe causes no message.
    reader, writer = os.pipe()
    os.close(reader)
    self.check("get", "k", code=3, stdout=writer)
    self.check("export", "k", code=3, stdout=writer)
    self.check(stdin=b"get k\nget k\n", code=3, stdout=writer)
    os.close(writer)

  def test_closed_standard_input(self):
    result = subprocess.run(["sh", "-c", '"$0" put k <&-', BINARY], env=self.environment, check=False,
                            stderr=subprocess.PIPE, timeout=60)
    self.assertEqual(result.returncode, 3)
    self.assertIn(b"cannot read standard input", result.stderr)

  def test_ping_stat_watch(self):
    self.assertRegex(self.check("ping").stdout, rb"answer from file:.* in [0-9.]+ us\n")
    self.assertIn(b"keys 0\n", self.check("stat").stdout)
    self.assertEqual(json.loads(self.check("stat", "--json").stdout)["keys"], 0)
    watch = self.check("watch", "--count=2", "--interval_ms=1", "--json").stdout.splitlines()
    self.assertEqual(len(watch), 2)
    self.assertGreater(json.loads(watch[1])["per_second"]["requests"], 0)


if __name__ == "__main__":
  unittest.main()
