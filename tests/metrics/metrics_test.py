#!/usr/bin/env python3
"""kv_server, farlook_exporter and a real Prometheus: the scraped figures, the rules, the dashboard, hostile scrapers.

metrics_test.py KV_SERVER FARLOOK_EXPORTER KV_CLI METRICS_CLIENT RULES RULES_TEST DASHBOARD
"""

import contextlib
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

SERVER, EXPORTER, CLI, CLIENT, RULES, RULES_TEST, DASHBOARD = (os.path.abspath(path) for path in sys.argv[1:8])
del sys.argv[1:8]
SECONDS = 120  # for anything to happen


def free_port():
  with socket.socket() as sock:
    sock.bind(("127.0.0.1", 0))
    return sock.getsockname()[1]


def is_open(sock):
  """Returns whether the exporter has neither answered nor closed the connection."""
  return not select.select([sock], [], [], 0)[0]


class MetricsTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.mkdtemp(prefix="farlook")
    self.addCleanup(shutil.rmtree, self.directory)
    self.address = "shm://%s/s" % self.directory
    self.processes = []
    self.addCleanup(self.end)
    self.server = self.start_server()
    self.exporter, self.port = self.start_exporter(self.address)

  def start(self, words, **popen):
    process = subprocess.Popen(words, **popen)
    self.processes.append(process)
    return process

  def start_exporter(self, address):
    exporter = self.start([EXPORTER, "--address=" + address, "--listen=127.0.0.1:0", "--timeout=20s"],
                          stderr=subprocess.PIPE, text=True)
    return exporter, int(re.search(r"at port (\d+)", exporter.stderr.readline()).group(1))

  def start_server(self, *flags, address=None):
    server = self.start([SERVER, "--listen=" + (address or self.address), "--memory=64m", "--huge_pages=none",
                         "--client_figures", *flags], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
      if 'msg="ready"' in line:
        return server
    return self.fail("kv_server ended")

  def end(self):
    for process in self.processes:
      process.kill()
      process.wait()
      for stream in (process.stdin, process.stderr, process.stdout):
        if stream is not None:
          stream.close()

  def get(self, path, port=None, source="127.0.0.1", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=SECONDS, source_address=(source, 0))
    with contextlib.closing(connection):
      connection.request(method, path)
      answer = connection.getresponse()
      return answer.status, answer.read().decode()

  def until(self, condition, what):
    deadline = time.monotonic() + SECONDS
    while True:
      value = condition()
      if value:
        return value
      self.assertLess(time.monotonic(), deadline, what)
      time.sleep(0.1)

  def kv(self, *words, address=None, stdin=""):
    return subprocess.run([CLI, "--address=" + (address or self.address), "--timeout_ms=20000", *words], input=stdin,
                          capture_output=True, text=True, timeout=SECONDS, check=False)

  def test_the_page_is_good_and_complete(self):
    self.kv("put", "k", "value")
    self.kv("get", "k")
    self.kv("get", "absent")
    self.until(lambda: 'farlook_client_gets_total 2\n' in self.get("/metrics")[1], "the gets are not seen")
    status, page = self.get("/metrics")
    self.assertEqual(status, 200)
    self.assertIn('farlook_requests_total{type="put"} 1\n', page)
    self.assertIn("farlook_keys 1\n", page)
    self.assertIn("farlook_up 1\n", page)
    self.assertIn("farlook_client_hits_total 1\n", page)
    self.assertRegex(page, r'farlook_build_info\{version="\d+\.\d+\.\d+",incarnation="[0-9a-f]{16}"')
    others = set(re.findall(r'farlook_other_figures\{name="(\w+)"\}', page))
    figures = [line.split() for line in self.kv("stat").stdout.split("\n") if line]
    self.assertLess(len(others), len(figures) / 10, "the exporter lacks metrics for %s" % others)
    self.lint(page)

  def lint(self, page):
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

  def test_what_a_client_says_of_itself_is_good(self):
    for labels in ((), ('table="users",host="a b"',)):
      done = subprocess.run([CLIENT, self.address, "page", *labels], capture_output=True, text=True, timeout=SECONDS,
                            check=False)
      self.assertEqual(done.returncode, 0, done.stderr)
      self.lint(done.stdout)
      samples = [line for line in done.stdout.split("\n") if line and not line.startswith("#")]
      self.assertIn("farlook_client_gets_total%s 201" % ("{%s}" % labels[0] if labels else ""), samples)
      self.assertGreater(len(samples), 50)
      for sample in samples:
        self.assertTrue(not labels or labels[0] in sample, sample)

  def health(self, wanted):
    """Waits until /healthz says so, and returns why."""
    status, text = self.until(lambda: (lambda got: got if got[1].startswith(wanted) else None)(self.get("/healthz")),
                              "/healthz does not say " + wanted)
    self.assertEqual(status, 200 if wanted == "ready" else 503)
    self.assertIn('farlook_state{state="%s"} 1\n' % wanted, self.get("/metrics")[1])
    return text

  def test_health_of_a_server_that_starts(self):
    self.server.kill()
    self.server.wait()
    # A server reports the progress of its start, as systemd wants it, and waits while the messages are not read.
    address = os.path.join(self.directory, "news")
    with contextlib.ExitStack() as sockets:
      news = sockets.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
      news.bind(address)
      sent = True
      while sent:
        sent = False
        sender = sockets.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
          while True:
            sender.sendto(b"old", address)
            sent = True
      self.server = self.start([SERVER, "--listen=" + self.address, "--memory=64m", "--huge_pages=none"],
                               stderr=subprocess.DEVNULL, env=dict(os.environ, NOTIFY_SOCKET=address))
      # There is room for the message that it prepares memory, and not for the progress.
      news.recv(4096)
      self.assertIn("preparing memory", self.health("starting"))
    self.health("ready")

  def test_health_of_a_server_that_ends(self):
    self.server.kill()
    self.server.wait()
    self.server = self.start_server("--drain_timeout=60s")
    self.health("ready")
    # A connected client that delays the server's end.
    unread = self.start([CLIENT, self.address, "unread"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    self.assertEqual(unread.stdout.readline(), "asked\n")
    self.server.send_signal(signal.SIGTERM)
    # Expect: draining is reported to connected clients, and to new ones.
    self.health("draining")
    late = self.start([EXPORTER, "--address=" + self.address, "--listen=127.0.0.1:0", "--timeout=20s"],
                      stderr=subprocess.PIPE, text=True)
    port = int(re.search(r"at port (\d+)", late.stderr.readline()).group(1))
    status, text = self.get("/healthz", port=port)
    self.assertEqual((status, text.split("\n")[0]), (503, "draining"), text)
    self.assertIn("shutting down", text)
    self.assertIsNone(self.server.poll())
    unread.stdin.close()
    unread.wait(SECONDS)
    self.assertEqual(self.server.wait(SECONDS), 0)
    self.health("down")

  def test_health_and_what_a_scrape_says_of_a_server_that_is_gone(self):
    self.assertEqual(self.get("/healthz"), (200, "ready\n"))
    self.server.send_signal(signal.SIGKILL)
    self.server.wait()
    status, text = self.until(lambda: (lambda got: got if got[0] == 503 else None)(self.get("/healthz")), "still ready")
    self.assertTrue(text.startswith("down\n"), text)
    status, page = self.get("/metrics")
    self.assertEqual(status, 200)
    self.assertIn("farlook_up 0\n", page)
    self.assertIn('farlook_state{state="down"} 1\n', page)
    self.assertNotIn("farlook_keys", page)
    # Expect: it finds the next server automatically.
    self.start_server()
    self.until(lambda: "farlook_up 1\n" in self.get("/metrics")[1], "the next server is not found")

  def test_many_scrapes_are_one_request_to_the_server(self):
    before = int(re.search(r'type="stat"\} (\d+)', self.get("/metrics")[1]).group(1))
    start = time.monotonic()
    for _ in range(200):
      self.get("/metrics")
    passed = time.monotonic() - start
    time.sleep(0.6)  # longer than a page is kept
    after = int(re.search(r'type="stat"\} (\d+)', self.get("/metrics")[1]).group(1))
    self.assertLessEqual(after - before, passed / 0.5 + 3)

  def test_hostile_scrapers_get_little_and_others_are_served(self):
    slow = []
    try:
      for i in range(100):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * (i % 50))  # and never the end
        slow.append(sock)
    except OSError:
      pass  # turned away
    try:
      # Expect: no caller is kept out, of the same address neither.
      for source in ("127.0.0.1", "127.0.0.2"):
        self.assertEqual(self.get("/healthz", source=source), (200, "ready\n"))
      # Expect: the others were closed as the next came. Later the exporter's own patience would end them too.
      self.assertLessEqual(sum(is_open(sock) for sock in slow), 16)
      self.until(lambda: len(os.listdir("/proc/%d/fd" % self.exporter.pid)) < 16 + 20,
                 "connections of one address are not bounded")
      # Expect: a head that is too long, or a body, is answered with an error, or not at all.
      for request in (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                      b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 1000000 + b"\r\n\r\n",
                      b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + b"c" * 2000000,
                      b"\x00\xff nonsense\r\n\r\n"):
        self.assertNotIn(b" 200 ", self.first_line_for(request))
      self.assertEqual(self.get("/metrics", source="127.0.0.2", method="DELETE")[0], 405)
      self.assertEqual(self.get("/none", source="127.0.0.2")[0], 404)
      self.assertEqual(self.get("/healthz", source="127.0.0.2"), (200, "ready\n"))
    finally:
      for sock in slow:
        sock.close()

  def first_line_for(self, request):
    with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), SECONDS, ("127.0.0.3", 0))) as sock:
      answer = b""
      with contextlib.suppress(OSError):  # closed under it
        sock.sendall(request)
        answer = sock.recv(4096)
      return answer.split(b"\r\n")[0]

  def test_slow_callers_of_all_addresses_keep_nobody_out(self):
    slow = []
    try:
      for i in range(4 * 40):
        sock = socket.create_connection(("127.0.0.1", self.port), SECONDS, ("127.0.1.%d" % (i % 40 + 1), 0))
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and never the end
        slow.append(sock)
        if i % 40 == 0:
          self.assertEqual(self.get("/healthz"), (200, "ready\n"))
      self.assertEqual(self.get("/healthz"), (200, "ready\n"))
    finally:
      for sock in slow:
        sock.close()

  def test_other_methods_are_answered_and_a_whole_url_is_a_path(self):
    for body in (b"", b"c" * 10, b"c" * 1000000):
      head = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
      self.assertIn(b" 405 ", self.first_line_for(head + body))
    for target, status in ((b"http://127.0.0.1:9560/metrics", b"200"), (b"HTTP://x/healthz", b"200"),
                           (b"http://x/none", b"404"), (b"http://x", b"404"), (b"/metrics?x=1", b"200")):
      answer = self.first_line_for(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
      self.assertIn(b" " + status + b" ", answer, target)

  def test_wrong_flags_are_explained(self):
    for words, said in [(["--lisen=127.0.0.1:0"], "unknown flag --lisen: did you mean --listen?"),
                        (["--adress", self.address], "unknown flag --adress: did you mean --address?"),
                        (["--xyzzy"], "unknown flag --xyzzy; see farlook_exporter --help"),
                        (["--flagfile=" + self.directory], "cannot read the flagfile %s: Is a directory" % self.directory),
                        ([self.address], "takes flags only")]:
      wrong = subprocess.run([EXPORTER, *words], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
      self.assertEqual(wrong.returncode, 1)
      self.assertIn("farlook_exporter: " + said, wrong.stderr)
      self.assertEqual(wrong.stderr.count("\n"), 1, wrong.stderr)

  def test_where_it_cannot_listen_it_says_why(self):
    for listen, why in (("127.0.0.1:99999", "a port is a number to 65535"), ("127.0.0.1:x", "a port is a number to 65535"),
                        ("9560", "is no HOST:PORT"), ("localhost:9560", "is no HOST:PORT in numbers"),
                        ("127.0.0.1:%d" % self.port, "Address already in use")):
      done = subprocess.run([EXPORTER, "--address=" + self.address, "--listen=" + listen], capture_output=True, text=True,
                            timeout=SECONDS, check=False)
      self.assertEqual(done.returncode, 1, done.stderr)
      self.assertIn(why, done.stderr)

  def test_rules(self):
    for path in (RULES, RULES_TEST):
      shutil.copy(path, self.directory)
    done = subprocess.run(["promtool", "test", "rules", os.path.basename(RULES_TEST)], cwd=self.directory,
                          capture_output=True, text=True, check=False)
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    # Expect: the tests detect each rule that never fires.
    with open(RULES, encoding="utf-8") as file:
      rules = file.read()
    for expression in re.findall(r"expr: (.*)", rules):
      with open(os.path.join(self.directory, os.path.basename(RULES)), "w", encoding="utf-8") as file:
        file.write(rules.replace("expr: " + expression, "expr: vector(0) > 1"))
      broken = subprocess.run(["promtool", "test", "rules", os.path.basename(RULES_TEST)], cwd=self.directory,
                              capture_output=True, text=True, check=False)
      self.assertNotEqual(broken.returncode, 0, expression)

  def test_prometheus_scrapes_it_and_answers_each_query_of_the_dashboard(self):
    port = free_port()
    self.kv("ping", "--count=200", "--interval_ms=1")  # one request in 64 is timed
    # A cache that evicts, and a member of a cluster's group, have figures of their own.
    others = ["shm://%s/%s" % (self.directory, name) for name in ("cache", "member")]
    self.start_server("--evict", "--max_value_bytes=4m", address=others[0])
    self.start_server("--group=file://%s/g" % self.directory, "--cluster=kv", "--slots=0-4095", "--replicas=1",
                      address=others[1])
    ports = [self.port] + [self.start_exporter(address)[1] for address in others]
    value = os.path.join(self.directory, "value")
    with open(value, "wb") as file:
      file.write(bytes(1 << 20))
    filled = self.kv(stdin="".join("put k%d --file=%s\n" % (i, value) for i in range(100)), address=others[0])
    self.assertEqual(filled.returncode, 0, filled.stderr)
    config = os.path.join(self.directory, "prometheus.yml")
    with open(config, "w", encoding="ascii") as file:
      file.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n"
                 "  - job_name: farlook\n    static_configs: [{targets: %s}]\n" % (RULES, ["127.0.0.1:%d" % each for each in ports]))
    with open(os.path.join(self.directory, "log"), "wb") as log:
      self.start(["prometheus", "--config.file=" + config, "--storage.tsdb.path=%s/tsdb" % self.directory,
                  "--web.listen-address=127.0.0.1:%d" % port], stdout=log, stderr=log)

    def query(expression):
      with contextlib.suppress(OSError):
        status, text = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}), port=port)
        answer = json.loads(text) if text.startswith("{") else {}
        self.assertNotEqual(answer.get("status"), "error", answer)
        return answer["data"]["result"] if status == 200 else []
      return []

    self.until(lambda: [r for r in query("farlook_up") if r["value"][1] == "1"], "Prometheus does not scrape")
    with open(DASHBOARD, encoding="utf-8") as file:
      dashboard = json.load(file)
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    self.assertGreater(len(expressions), 20)
    for expression in expressions:
      with self.subTest(expression=expression):
        asked = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
        self.assertNotIn("$", asked)
        self.until(lambda asked=asked: query(asked), "no data for " + asked)
    names = {result["metric"]["instance"] for result in query("farlook_up")}
    self.assertEqual(names, {"127.0.0.1:%d" % each for each in ports})


if __name__ == "__main__":
  unittest.main()
