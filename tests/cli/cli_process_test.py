#!/usr/bin/env python3
"""kv_cli against a real kv_server, as processes over shm."""

import base64
import contextlib
import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SERVER = os.path.abspath(sys.argv.pop())
CLI = os.path.abspath(sys.argv.pop())
SECONDS = 120  # for anything to happen
PATIENT = "--timeout_ms=20000"  # this machine may be busy with other tests
# Where tools/coverage wants to be told what ran.
COVERAGE = {name: value for name, value in os.environ.items() if name == "LLVM_PROFILE_FILE"}


class CliTest(unittest.TestCase):

  def setUp(self):
    # Not TEST_TMPDIR: the path of a socket has at most 107 bytes.
    self.directory = tempfile.mkdtemp(prefix="farlook")
    self.addCleanup(shutil.rmtree, self.directory)
    self.address = "shm://" + self.path("s")
    self.server = None
    self.addCleanup(self.stop_server)
    self.start_server()

  def path(self, name, content=None):
    path = os.path.join(self.directory, name)
    if content is not None:
      with open(path, "wb") as file:
        file.write(content)
    return path

  def start_server(self, *flags, memory="64MiB", log=subprocess.DEVNULL):
    self.server = subprocess.Popen(
        [SERVER, "--listen=" + self.address, "--memory=" + memory, "--huge_pages=none", *flags], stderr=log)
    deadline = time.monotonic() + SECONDS
    while self.run_cli("ping", "--timeout_ms=500").returncode != 0:
      self.assertIsNone(self.server.poll(), "kv_server ended")
      self.assertLess(time.monotonic(), deadline, "kv_server does not answer")

  def stop_server(self):
    if self.server is not None:
      self.server.kill()
      self.server.wait()
      self.server = None

  def run_cli(self, *arguments, stdin=b""):
    return subprocess.run([CLI, PATIENT, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=SECONDS, env={**COVERAGE, "FARLOOK_ADDRESS": self.address})

  def check(self, *arguments, code=0, out=None, err=None, stdin=b""):
    """Runs kv_cli; expects the exit code, exactly `out` and, somewhere in the errors, `err`."""
    result = self.run_cli(*arguments, stdin=stdin)
    self.assertEqual(result.returncode, code, result)
    if out is not None:
      self.assertEqual(result.stdout, out)
    if err is None:
      self.assertEqual(result.stderr, b"")
    else:
      self.assertIn(err, result.stderr.decode())
    return result

  def session(self):
    """A kv_cli that waits for lines."""
    process = subprocess.Popen([CLI, PATIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**COVERAGE, "FARLOOK_ADDRESS": self.address})
    def end():
      for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
      process.kill()
      process.wait()
    self.addCleanup(end)
    return process

  def ask(self, session, line):
    session.stdin.write(line + b"\n")
    session.stdin.flush()
    return session.stdout.readline()

  def stat(self):
    return json.loads(self.check("stat", "--json").stdout)

  def test_every_command_and_its_exit_codes(self):
    self.check("put", "k", "v", out=b"")
    self.check("get", "k", out=b"v")
    self.check("insert", "k", "w", code=2, err="exists already")
    self.check("insert", "new", "w")
    self.check("replace", "k", "w")
    self.check("replace", "none", "w", code=1, err='no such key "none"')
    version = self.check("get", "--print_version", "k").stdout.decode().strip()
    newer = self.check("cas", "k", version, "x", "--print_version").stdout.decode().strip()
    self.assertNotEqual(version, newer)
    self.check("cas", "k", version, "y", code=2, err="another version")
    self.check("cas", "none", version, "y", code=1, err="no such key")
    pair = json.loads(self.check("get", "--json", "k").stdout)
    self.assertEqual(pair, {"key": "k", "value": "x", "version": int(newer)})
    self.check("exists", "k", out=b"true\n")
    self.check("delete", "k", "new", out=b"")
    self.check("exists", "k", code=1, out=b"false\n")
    self.check("delete", "k", code=1, err="no such key")
    self.check("get", "k", code=1, out=b"", err="no such key")
    self.assertRegex(self.check("ping").stdout, rb"^answer from shm:.* in [0-9.]+ us\n$")
    self.assertIn(b"\nrequests_ping ", self.check("stat").stdout)
    self.assertIn(b"\ngets 0\n", b"\n" + self.check("stat", "--client").stdout)
    watch = self.check("watch", "--count=2", "--interval_ms=20").stdout.decode()
    self.assertRegex(watch, r"requests_stat +[0-9]+ +\+")

  def test_keys_and_values_of_any_bytes_and_length(self):
    value = bytes(range(256))
    self.check("put", "--key_encoding=hex", "00ff", stdin=value)
    self.check("put", "--key_encoding=hex", "00", stdin=b"a prefix")
    self.check("get", "--key_encoding=escaped", r"\0\xff", out=value)
    self.check("get", "--key_encoding=hex", "00", out=b"a prefix")
    pair = json.loads(self.check("get", "--json", "--key_encoding=hex", "00ff").stdout)
    self.assertEqual(base64.b64decode(pair["value_base64"]), value)
    self.check("put", "k" * 1024, "")
    self.check("get", "k" * 1024, out=b"")
    self.check("put", "k" * 1025, "v", code=3, err="1025 bytes")
    self.check("put", "", "v", code=3, err="empty")
    large = random.Random(1).randbytes(16 << 20)
    self.check("put", "large", "--file", self.path("large", large))
    self.check("get", "large", out=large)
    self.check("put", "larger", stdin=large + b"x", code=3, err="limit of 16777216")
    self.check("exists", "larger", code=1, out=b"false\n")

  def test_read_only(self):
    self.check("put", "k", "v")
    self.check("--read_only", "get", "k", out=b"v")
    self.check("--read_only", "put", "k", "w", code=3, err="not with --read_only")
    self.check("--read_only", "delete", "k", code=3, err="not with --read_only")
    self.check("get", "k", out=b"v")

  def test_a_session_has_one_connection_and_its_gets_ask_no_server(self):
    before = self.stat()
    lines = b"".join(b"put k%d v%d\nget k%d\n" % (i, i, i) for i in range(100))
    self.check(stdin=lines, out=b"".join(b"v%d\n" % i for i in range(100)))
    after = self.stat()
    self.assertEqual(after["accepted"] - before["accepted"], 2)  # the session, and the second stat
    self.assertEqual(after["requests_put"] - before["requests_put"], 100)
    self.assertEqual(after["requests_get"] - before["requests_get"], 0)
    self.check(stdin=b"get k1\nget none\nput k1\n", code=64, out=b"v1\n", err='line 2: get: no such key "none"')

  def test_clients_are_listed_and_kicked(self):
    self.check("put", "k", "v")
    session = self.session()
    self.assertEqual(self.ask(session, b"get k"), b"v\n")

    def clients():
      listed = [json.loads(line) for line in self.check("clients", "--json").stdout.splitlines()]
      return [client for client in listed if str(session.pid) in client["peer"]]

    before = clients()
    self.assertEqual(len(before), 1)
    self.assertEqual((before[0]["role"], before[0]["state"], before[0]["user"]), ("write", "welcome", "-"))
    self.check("kick", str(before[0]["id"]))
    # Expect: it comes again by itself, as another connection.
    deadline = time.monotonic() + SECONDS
    while [client["id"] for client in clients()] == [before[0]["id"]]:
      self.assertLess(time.monotonic(), deadline, "it is not gone")
    # A put needs the connection; gets notice within a few that it is gone.
    self.assertEqual(self.ask(session, b"put k w\nget k"), b"w\n")
    after = clients()
    self.assertEqual(len(after), 1)
    self.assertGreater(after[0]["id"], before[0]["id"])
    self.check("kick", str(before[0]["id"]))  # who lost the answer may ask again
    self.check("kick", "1000000", code=1, err="no client has the id")

  def test_runs_of_kv_cli_leave_no_sessions(self):
    self.check("put", "key", "value")
    for _ in range(500):
      self.check("get", "key", out=b"value")
    for _ in range(20):
      self.check("put", "key", "value")
    deadline = time.monotonic() + SECONDS
    while self.stat()["kept_sessions"] != 0:  # a goodbye is heard when its worker looks next
      self.assertLess(time.monotonic(), deadline, "sessions are kept")

  def test_a_log_that_nobody_reads_stops_nothing(self):
    self.stop_server()
    unread, log = os.pipe()
    self.addCleanup(os.close, unread)
    fcntl.fcntl(log, 1031, 4096)  # F_SETPIPE_SZ: full after some ten clients
    self.server = subprocess.Popen(
        [SERVER, "--listen=" + self.address, "--memory=64MiB", "--huge_pages=none", "--log_level=debug"], stderr=log)
    os.close(log)
    self.check("--wait", "put", "key", "value")
    for _ in range(40):
      self.check("put", "key", "value")
    self.assertEqual(self.stat()["dropped_log_lines"], 0)  # they wait
    self.server.terminate()
    self.assertEqual(self.server.wait(SECONDS), 0)

  def test_with_json_each_line_of_a_session_has_one_answer(self):
    lines = [b"get k", b"put", b"nonsense", b'"unclosed', b"get", b"put k v extra more", b"put k v", b"cas k 1 w", b"kick 99",
             b"kick x", b"stat nosuch", b"stat keys", b"touch k x", b"incr", b"exists k", b"delete absent", b"ping --nosuch"]
    result = self.run_cli("--json", stdin=b"\n".join(lines) + b"\n")
    self.assertEqual(result.returncode, 64)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    self.assertEqual(len(answers), len(lines), result.stdout)
    for line, answer in zip(lines, answers):
      self.assertEqual("error" in answer, line not in (b"put k v", b"stat keys", b"exists k"), (line, answer))

  def test_slow_requests_are_logged_with_who_asked(self):
    self.stop_server()
    with open(self.path("log"), "w+b") as log:
      self.start_server("--slow_ms=1", "--max_value_bytes=64m", memory="256MiB", log=log)
      # Nobody copies and sums up so much in a millisecond, nor does a worker at once.
      self.check("put", "--file=" + self.path("value", bytes(60 << 20)), "secret key", out=b"")
      deadline = time.monotonic() + SECONDS
      line = None
      while line is None:
        log.seek(0)
        line = re.search(r'level=warning msg="slow request" peer="?pid \d+.*', log.read().decode())
        self.assertLess(time.monotonic(), deadline, "it is not logged")
      self.assertRegex(line.group(0), r"type=put_pulled ms=[1-9]\d* ")
      slow = self.run_cli("stat", "slow_requests").stdout.split()
      self.assertGreaterEqual(int(slow[1]), 1)
      self.assertNotIn("secret", line.group(0))

  def test_a_long_put_whose_time_was_over_does_not_overwrite_a_later_one(self):
    self.check("put", "key", "first")
    session = subprocess.Popen([CLI, "--timeout_ms=1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**COVERAGE, "FARLOOK_ADDRESS": self.address})
    self.assertEqual(self.ask(session, b"get key"), b"first\n")
    self.server.send_signal(signal.SIGSTOP)
    try:
      session.stdin.write(b"put key " + b"x" * (8 << 20) + b"\n")
      session.stdin.flush()
      self.assertIn(b"no answer within", session.stderr.readline())
    finally:
      self.server.send_signal(signal.SIGCONT)
    # Expect: the same client's next put, once acknowledged, stays.
    session.stdin.write(b"put key later\n")
    deadline = time.monotonic() + SECONDS
    while self.ask(session, b"get key") != b"later\n":
      session.stdin.write(b"put key later\n")  # this machine may be busy
      self.assertLess(time.monotonic(), deadline)
    end = time.monotonic() + 1
    while time.monotonic() < end:
      self.assertEqual(self.run_cli("get", "key").stdout, b"later")
    session.communicate()

  def test_import_and_export(self):
    generator = random.Random(2)
    pairs = {b"key%d" % i: generator.randbytes(generator.randrange(200)) for i in range(5000)}
    lines = b"".join(b'{"key":"%s","value_base64":"%s"}\n' % (k, base64.b64encode(v)) for k, v in pairs.items())
    self.check("import", self.path("lines", lines), err="imported 5000 pairs")
    keys = self.path("keys", b"\n".join(pairs))
    exported = self.check("export", "--keys", keys, "--format=tsv", err="exported 5000 pairs").stdout
    self.check("import", "--insert_only", self.path("lines"), code=2, err="5000 existed")
    self.stop_server()
    self.start_server()
    self.check("import", "--format=tsv", "-", stdin=exported, err="imported 5000 pairs")
    self.check("export", "--keys", keys, "--format=tsv", err="exported 5000 pairs", out=exported)
    self.check("get", "key7", out=pairs[b"key7"])
    self.check("export", "key7", "none", code=1, err='no such key "none"')

  def test_an_import_of_many_lines_with_one_key_keeps_the_last(self):
    self.check("import", "--format=tsv", stdin=b"".join(b"k%d\t%d\n" % (i % 3, i) for i in range(3000)),
               err="imported 3000 pairs")
    self.check(stdin=b"get k0\nget k1\nget k2\n", out=b"2997\n2998\n2999\n")

  def test_a_full_server_stops_an_import(self):
    self.stop_server()
    self.start_server(memory="16MiB")
    value = "v" * 100000
    lines = self.path("lines", "".join("k%d\t%s\n" % (i, value) for i in range(200)).encode())
    result = self.check("import", "--format=tsv", lines, code=3, err="the server's memory is full")
    line = int(re.search(rb"--start_line=([0-9]+)", result.stderr)[1])
    self.assertGreater(line, 50)
    self.check("get", "k%d" % (line - 2), out=value.encode())
    self.check("delete", *["k%d" % i for i in range(50)])
    self.check("put", "k0", value)

  def test_too_few_descriptors(self):
    told = 0
    for descriptors in range(4, 24):
      result = subprocess.run(
          ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(descriptors), CLI, PATIENT, "put", "k", "v"],
          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=SECONDS,
          env={**COVERAGE, "FARLOOK_ADDRESS": self.address})
      error = result.stderr.decode().lower()
      if result.returncode == 0 or "kv_cli: " not in error or "shared libraries" in error:
        continue  # enough; or too few to start a program at all
      self.assertIn("too many open files", error)
      self.assertNotIn("memory is full", error)
      told += 1
    self.assertGreater(told, 2)

  def test_addresses_that_are_no_servers_socket(self):
    file = self.path("file", b"precious")
    for path, expected in ((self.directory, "is a directory; the address is that of a server's socket"),
                           (file, "is a file of something else")):
      with self.subTest(path=path):
        result = self.run_cli("--address=shm://" + path, "get", "k")
        self.assertEqual(result.returncode, 3, result)
        self.assertIn(expected, result.stderr.decode())
        self.assertNotIn("start it with", result.stderr.decode())

  def test_clients_of_a_server_without_descriptors_are_told(self):
    self.stop_server()
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    self.server = subprocess.Popen([SERVER, "--listen=" + self.address, "--memory=64MiB", "--huge_pages=none"],
                                   stderr=subprocess.DEVNULL, preexec_fn=limit)
    clients = []
    try:
      while self.run_cli("ping", "--wait").returncode != 0:
        self.assertIsNone(self.server.poll())
      for _ in range(80):
        client = subprocess.Popen([CLI, "--address=" + self.address, PATIENT, "ping", "--count=1000000"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        clients.append(client)
        if not client.stdout.readline():
          break  # it was turned away
      result = self.run_cli("get", "k")
    finally:
      for client in clients:
        client.kill()
        client.wait()
        client.stdout.close()
    self.assertEqual(result.returncode, 3, result)
    self.assertIn("descriptors", result.stderr.decode())
    self.assertNotIn("start it with", result.stderr.decode())

  def test_no_server(self):
    self.stop_server()
    self.check("get", "k", "--timeout_ms=100", code=3, err="start it with kv_server --listen=" + self.address)
    self.check("--timeout_ms=100", stdin=b"get k\nget k\n", code=3, err="line 1: get: no server answers at")
    self.check("--address=shm:relative", "get", "k", code=64, err="shm:relative")

  def test_a_server_that_is_stopped(self):
    self.server.send_signal(signal.SIGSTOP)
    try:
      self.check("put", "k", "v", "--timeout_ms=100", code=3,
                 err="the server at %s does not answer: it is stopped or overloaded" % self.address)
    finally:
      self.server.send_signal(signal.SIGCONT)

  def test_wait_for_a_server_that_is_not_there_yet(self):
    self.stop_server()
    self.check("--wait", "put", "k", "v", "--timeout_ms=100", code=3, err="no server answers at")
    early = subprocess.Popen([CLI, PATIENT, "--wait", "put", "k", "early"], stderr=subprocess.PIPE,
                             env={**COVERAGE, "FARLOOK_ADDRESS": self.address})
    self.start_server()
    self.assertEqual(early.communicate(timeout=SECONDS), (None, b""))
    self.assertEqual(early.returncode, 0)
    self.check("get", "k", out=b"early")

  def test_a_version_of_the_server_before_fits_nothing(self):
    version = self.check("put", "balance", "100", "--print_version").stdout.decode().strip()
    self.stop_server()
    self.start_server()
    self.check("put", "balance", "7")
    self.check("cas", "balance", version, "99", code=2, err="another version")
    self.check("get", "balance", out=b"7")

  def test_a_stopped_server_is_read_but_not_written(self):
    session = self.session()
    self.assertEqual(self.ask(session, b"put k v\nget k"), b"v\n")
    self.server.send_signal(signal.SIGSTOP)
    os.waitpid(self.server.pid, os.WUNTRACED)  # until each of its threads has stopped
    self.assertEqual(self.ask(session, b"get k"), b"v\n")
    start = time.monotonic()
    self.assertEqual(self.ask(session, b"put k w --timeout_ms=200\nget k"), b"v\n")
    self.assertLess(time.monotonic() - start, 30)
    self.assertIn(b"line 4: put: key \"k\": no answer within 200 ms", session.stderr.readline())
    self.server.send_signal(signal.SIGCONT)
    self.assertEqual(self.ask(session, b"put k x\nget k"), b"x\n")

  def test_a_session_survives_a_restart_of_the_server(self):
    session = self.session()
    self.assertEqual(self.ask(session, b"put k v\nget k"), b"v\n")
    self.stop_server()
    self.start_server()
    self.assertEqual(self.ask(session, b"exists k"), b"false\n")
    self.assertEqual(self.ask(session, b"put k w\nget k"), b"w\n")

  def test_an_import_that_loses_its_server_says_where_to_go_on(self):
    # A pipe that stays open, so that the import is under way for as long as the test wants.
    reader, writer = os.pipe()
    process = subprocess.Popen([CLI, "import", "--format=tsv", "--timeout_ms=500", "--in_flight=4"], stdin=reader,
                               stderr=subprocess.PIPE, env={**COVERAGE, "FARLOOK_ADDRESS": self.address})
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as pipe:
      pipe.write(b"".join(b"k%d\tv\n" % i for i in range(1, 101)))
      deadline = time.monotonic() + SECONDS
      while self.stat()["keys"] < 50:
        self.assertLess(time.monotonic(), deadline)
      self.stop_server()
      # It may have ended by now, for what it had in flight.
      with contextlib.suppress(BrokenPipeError):
        pipe.write(b"".join(b"k%d\tv\n" % i for i in range(101, 201)))
    err = process.stderr.read().decode()
    process.stderr.close()
    self.assertEqual(process.wait(SECONDS), 3)
    line = int(re.search("--start_line=([0-9]+)", err)[1])
    self.assertGreater(line, 50)
    self.assertLessEqual(line, 102)
    self.assertIn("from the beginning, if the server has been started anew", err)


if __name__ == "__main__":
  unittest.main()
