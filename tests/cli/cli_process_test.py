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
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, "server/testing")
import kv_server  # pylint: disable=wrong-import-position

SERVER = os.path.abspath(sys.argv.pop())
CLI = os.path.abspath(sys.argv.pop())
SECONDS = 120  # for anything to happen
PATIENT = "--timeout_ms=20000"  # this machine may be busy with other tests
# The file to which tools/coverage writes the lines that ran.
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

  def start_server(self, *flags, memory="64MiB", **popen):
    self.server = kv_server.Server(SERVER, *flags, address=self.address, memory=memory, **popen)

  def stop_server(self):
    if self.server is not None:
      self.server.kill()
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

  def test_limits_of_file_sizes_are_errors_and_no_signals(self):
    value = bytes(3 << 20)
    self.check("put", "k", "--file=" + self.path("value", value))

    def run(limit, *arguments, out=subprocess.PIPE):
      done = subprocess.run([CLI, PATIENT, "--address=" + self.address, *arguments], stdin=subprocess.DEVNULL, stdout=out,
                            stderr=subprocess.PIPE, timeout=SECONDS, check=False, env=COVERAGE,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
      return done.returncode, done.stderr.decode()

    # Expect: truncated output is an error.
    with open(self.path("out"), "wb") as out:
      code, said = run(1 << 20, "get", "k", out=out)
    self.assertEqual(code, 3, said)
    self.assertIn("File too large", said)
    # Expect: so is a lack of shared memory.
    code, said = run(4096, "put", "k", "--file=" + self.path("value"))
    self.assertEqual(code, 3, said)
    self.assertIn("ulimit -f", said)

  def test_data_that_moves_keeps_its_expiry_and_its_counters(self):
    with socket.socket() as free:
      free.bind(("127.0.0.1", 0))
      tcp = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    self.stop_server()
    self.start_server("--listen=" + self.address + "," + tcp)
    self.check("put", "plain", "1")
    self.check("put", "--ttl=1h", "--keep", "kept", "2")
    self.check("incr", "--create", "--initial=40", "--ttl=2h", "hits", "2", out=b"42\n")
    self.check("incr", "--create", "hits", "1", out=b"43\n")
    names = b"plain\nkept\nhits\n"
    # Expect: the same by READs and by messages.
    for address in (self.address, tcp):
      exported = self.check("export", "--address=" + address, stdin=names, err="exported 3 pairs").stdout
      lines = [json.loads(line) for line in exported.splitlines()]
      self.assertEqual([line["key"] for line in lines], ["plain", "kept", "hits"])
      self.assertEqual(set(lines[0]), {"key", "value", "version"})
      self.assertTrue(lines[1]["keep"])
      self.assertTrue(3_000_000 < lines[1]["ttl_ms"] <= 3_601_000, lines[1])
      self.assertEqual(lines[2]["counter"], 43)
      self.assertTrue(6_000_000 < lines[2]["ttl_ms"] <= 7_201_000, lines[2])
      # Expect: into a table that has other items, and into an empty one.
      self.check("put", "kept", "other")
      self.check("counter", "hits", "swap", "43", "7")
      for command in (["delete", "kept"], ["counter", "hits", "delete"], []):
        self.check("import", "--address=" + address, stdin=exported, err="imported 3 pairs")
        again = self.check("export", stdin=names, err="exported 3 pairs").stdout
        for before, after in zip(lines, [json.loads(line) for line in again.splitlines()]):
          for line in (before, after):
            line.pop("version", None)
          self.assertLessEqual(after.pop("ttl_ms", 0), before.get("ttl_ms", 0) + 1_000)
          self.assertEqual(after, {name: before[name] for name in before if name != "ttl_ms"})
        if command:
          self.check(*command)
    # Expect: no empty backup.
    self.check("export", code=64, out=b"", err="standard input names no key")

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

  def test_all_keys_are_scanned_and_counted(self):
    self.check("scan", out=b"")
    self.check("count", out=b"0\n")
    keys = {b"key%d" % i for i in range(3000)}
    self.check("import", "--format=tsv", stdin=b"".join(key + b"\tvalue of " + key + b"\n" for key in keys), err="imported")
    self.check("put", "--ttl=1h", "--key_encoding=escaped", "a\\tb", "x\ny")
    self.check("incr", "--create", "hits", "2")
    self.check("count", out=b"3002\n")
    self.check("count", "key1", out=b"1111\n")
    lines = self.check("scan", "key").stdout.splitlines()
    self.assertEqual(len(lines), len(keys))
    self.assertEqual(set(lines), keys)
    self.assertIn(b"key7\tvalue of key7", self.check("scan", "--values", "key7").stdout.splitlines())
    version = self.check("get", "--print_version", "--key_encoding=escaped", "a\\tb").stdout.strip()
    line = self.check("scan", "--versions", "--ttls", "--values", "a").stdout
    self.assertRegex(line, rb"^a\\tb\t" + version + rb"\t3[0-9]{6}\tx\\ny\n$")
    item = json.loads(self.check("scan", "--json", "--versions", "--ttls", "--values", "a").stdout)
    self.assertTrue(3_000_000 < item.pop("left_ms") <= 3_600_000)
    self.assertEqual(item, {"key": "a\tb", "version": int(version), "expires": True, "value": "x\ny"})
    self.assertEqual(json.loads(self.check("scan", "--json", "--values", "hits").stdout), {"key": "hits", "counter": True})
    # Expect: pieces that continue where the one before ended are the whole.
    pieces, cursor = [], ""
    for _ in range(100):
      piece = self.run_cli("scan", "--limit=100", "--cursor=" + cursor, "key")
      self.assertEqual(piece.returncode, 0, piece)
      pieces += piece.stdout.splitlines()
      if not piece.stderr:
        break
      cursor = re.search(r"continue with --cursor=(\S+)\n$", piece.stderr.decode()).group(1)
    self.assertEqual(sorted(pieces), sorted(keys))
    # Expect: what scan prints is what export reads.
    names = self.check("scan").stdout
    exported = self.check("export", "--key_encoding=escaped", stdin=names, err="exported 3002 pairs").stdout
    self.assertEqual(len(exported.splitlines()), 3002)
    # Expect: export finds them itself, and import brings back what delete takes away.
    whole = self.check("export", "--prefix=", err="exported 3002 pairs").stdout
    self.assertEqual(sorted(json.loads(line)["key"] for line in whole.splitlines()),
                     sorted(json.loads(line)["key"] for line in exported.splitlines()))
    self.assertEqual(self.check("bigkeys", "--limit=1", "key2999").stdout, b"16\tkey2999\n")
    self.assertRegex(self.check("histogram").stdout.decode(), r"(?s)^3002 keys .* 1 of them counters.*up to 64 bytes +3001")
    self.check("delete", "--prefix=key1", "--dry_run", out=b'1111 keys with the prefix "key1"\n')
    self.check("delete", "--prefix=key1", code=64, out=b"", err="--yes")
    self.check("delete", "--prefix=key1", "--yes", out=b"deleted 1111 keys\n")
    self.check("count", out=b"1891\n")
    self.check("delete", "--prefix=", "--yes", out=b"deleted 1891 keys\n")
    self.check("count", out=b"0\n")
    self.check("import", stdin=whole, err="imported 3002 pairs")
    self.check("count", out=b"3002\n")
    self.check("counter", "hits", out=b"2\n")
    self.check("scan", "--cursor=wrong", code=64, out=b"", err="cursor")
    self.check("scan", "--cursor=1-2-1-0", code=64, out=b"", err="cursor")
    self.check("scan", "a", "b", code=64, err="scan")
    self.stop_server()
    self.check("scan", "--timeout_ms=200", code=3, out=b"", err="scan")

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
    self.check("--read_only", "put", "k", "w", code=3, err="--read_only forbids writes")
    self.check("--read_only", "delete", "k", code=3, err="--read_only forbids writes")
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
    # Expect: it reconnects, as another connection.
    deadline = time.monotonic() + SECONDS
    while [client["id"] for client in clients()] == [before[0]["id"]]:
      self.assertLess(time.monotonic(), deadline, "it is not gone")
    # A put needs the connection; gets notice its loss within a few calls.
    self.assertEqual(self.ask(session, b"put k w\nget k"), b"w\n")
    after = clients()
    self.assertEqual(len(after), 1)
    self.assertGreater(after[0]["id"], before[0]["id"])
    self.check("kick", str(before[0]["id"]))  # a client that lost the answer may ask again
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
    server = subprocess.Popen(
        [SERVER, "--listen=" + self.address, "--memory=64MiB", "--huge_pages=none", "--log_level=debug"], stderr=log)
    self.addCleanup(server.wait)
    self.addCleanup(server.kill)
    os.close(log)
    self.check("--wait", "put", "key", "value")
    for _ in range(40):
      self.check("put", "key", "value")
    self.assertEqual(self.stat()["dropped_log_lines"], 0)  # they wait
    server.terminate()
    self.assertEqual(server.wait(SECONDS), 0)

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
    self.start_server("--slow_ms=1", "--max_value_bytes=64m", memory="256MiB")
    # Copying and hashing that much takes longer than a millisecond, and a worker does it in steps.
    self.check("put", "--file=" + self.path("value", bytes(60 << 20)), "secret key", out=b"")
    line = self.server.wait_for('level=warning msg="slow request"')
    self.assertRegex(line, r'peer="?pid \d+.* type=put_pulled ms=[1-9]\d* ')
    slow = self.run_cli("stat", "slow_requests").stdout.split()
    self.assertGreaterEqual(int(slow[1]), 1)
    self.assertNotIn("secret", line)

  def test_a_long_put_whose_time_was_over_does_not_overwrite_a_later_one(self):
    self.check("put", "key", "first")
    session = subprocess.Popen([CLI, "--timeout_ms=1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**COVERAGE, "FARLOOK_ADDRESS": self.address})
    self.assertEqual(self.ask(session, b"get key"), b"first\n")
    self.server.pause()
    try:
      session.stdin.write(b"put key " + b"x" * (8 << 20) + b"\n")
      session.stdin.flush()
      self.assertIn(b"no answer within", session.stderr.readline())
    finally:
      self.server.go_on()
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

  def start_limited(self, *flags, preexec_fn=None):
    """Starts the server at an shm and a tcp address; returns the latter."""
    self.stop_server()
    with socket.socket() as probe:
      probe.bind(("127.0.0.1", 0))
      tcp = "tcp://127.0.0.1:%d" % probe.getsockname()[1]
    self.start_server("--listen=" + tcp, *flags, preexec_fn=preexec_fn)
    return tcp

  def check_probes_of_full_server(self, tcp, reason):
    """With a server that admits no more clients, probes are answered, and reads get the reason."""
    for address in (self.address, tcp):
      with self.subTest(address=address):
        result = self.run_cli("--address=" + address, "get", "k")
        self.assertEqual(result.returncode, 3, result)
        self.assertIn(reason, result.stderr.decode())
        self.assertNotIn("start it with", result.stderr.decode())
        self.check("--address=" + address, "ping")
        # More than the places for operators and probes, as each leaves, or makes room.
        for command in ("stat", "clients", "ping", "stat"):
          self.check("--address=" + address, "--wait", command)
        self.assertIn("answers in", self.check("--wait", "doctor", address).stdout.decode())
    # Expect: also while others stay in places for operators and probes.
    staying = []
    try:
      for address in (self.address, self.address, self.address, tcp, tcp):
        staying.append(subprocess.Popen([CLI, "--address=" + address, PATIENT, "ping", "--count=1000000"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        staying[-1].stdout.readline()
      for address in (self.address, tcp):
        self.check("--address=" + address, "--wait", "ping")
    finally:
      for process in staying:
        process.kill()
        process.wait()
        process.stdout.close()

  def test_a_server_at_max_clients_answers_probes(self):
    tcp = self.start_limited("--max_clients=2")
    for _ in range(2):
      self.assertEqual(self.ask(self.session(), b"put k v --print_version")[-1:], b"\n")
    self.check_probes_of_full_server(tcp, "--max_clients")

  def test_a_server_without_descriptors_answers_probes(self):
    tcp = self.start_limited(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    for _ in range(64):
      if self.run_cli("get", "k").returncode == 3:
        break
      self.assertEqual(self.ask(self.session(), b"put k v --print_version")[-1:], b"\n")
    self.check_probes_of_full_server(tcp, "ulimit -n")

  def test_sessions_that_are_left_behind_keep_nobody_out(self):
    self.stop_server()
    self.start_server("--max_kept_sessions=3")
    for _ in range(8):
      session = self.session()
      self.assertEqual(self.ask(session, b"put k v --print_version")[-1:], b"\n")
      session.kill()
      session.wait()
    deadline = time.monotonic() + SECONDS
    while self.stat()["connections"] != 1:
      self.assertLess(time.monotonic(), deadline, "connections are not closed")
    self.assertEqual(self.stat()["kept_sessions"], 3)
    self.check("put", "k", "w")
    self.check("get", "k", out=b"w")
    self.check("ttl", "k", out=b"never\n")
    self.check("ping")

  def test_no_server(self):
    self.stop_server()
    self.check("get", "k", "--timeout_ms=100", code=3, err="start it with kv_server --listen=" + self.address)
    self.check("--timeout_ms=100", stdin=b"get k\nget k\n", code=3, err="line 1: get: no server answers at")
    self.check("--address=shm:relative", "get", "k", code=64, err="shm:relative")

  def test_a_server_that_is_stopped(self):
    self.server.pause()
    try:
      self.check("put", "k", "v", "--timeout_ms=2000", code=3,
                 err="the server at %s does not answer: it is stopped or overloaded" % self.address)
    finally:
      self.server.go_on()

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
    self.server.pause()
    self.assertEqual(self.ask(session, b"get k"), b"v\n")
    self.assertEqual(self.ask(session, b"scan"), b"k\n")
    self.assertEqual(self.ask(session, b"count k"), b"1\n")
    start = time.monotonic()
    self.assertEqual(self.ask(session, b"put k w --timeout_ms=200\nget k"), b"v\n")
    self.assertLess(time.monotonic() - start, 30)
    self.assertIn(b"line 6: put: key \"k\": no answer within 200 ms", session.stderr.readline())
    self.server.go_on()
    self.assertEqual(self.ask(session, b"put k x\nget k"), b"x\n")

  def test_a_session_survives_a_restart_of_the_server(self):
    session = self.session()
    self.assertEqual(self.ask(session, b"put k v\nget k"), b"v\n")
    self.stop_server()
    self.start_server()
    self.assertEqual(self.ask(session, b"exists k"), b"false\n")
    self.assertEqual(self.ask(session, b"put k w\nget k"), b"w\n")

  def test_an_import_that_loses_its_server_says_where_to_go_on(self):
    # A pipe that stays open, so that the import is under way for as long as the test needs.
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
      # It may have ended by now, because of an operation in flight.
      with contextlib.suppress(BrokenPipeError):
        pipe.write(b"".join(b"k%d\tv\n" % i for i in range(101, 201)))
    err = process.stderr.read().decode()
    process.stderr.close()
    self.assertEqual(process.wait(SECONDS), 3)
    line = int(re.search("--start_line=([0-9]+)", err)[1])
    self.assertGreater(line, 50)
    self.assertLessEqual(line, 102)
    self.assertIn("from the beginning, if the server was restarted", err)


if __name__ == "__main__":
  unittest.main()
