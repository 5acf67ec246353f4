#!/usr/bin/env python3
"""bench/compare in minimal runs: every store and every mode, the reports, and that no process or file is left.

compare_test.py PATH_OF_YCSB PATH_OF_KV_SERVER PATH_OF_KV_CLI
"""

import glob
import html.parser
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
KV_CLI, KV_SERVER, YCSB = (os.path.abspath(sys.argv.pop()) for _ in range(3))
COMPARE = os.path.abspath("bench/compare")
sys.path.insert(0, os.path.abspath("bench/comparison"))

import cases  # pylint: disable=wrong-import-position
import cpu_reporter  # pylint: disable=wrong-import-position
import devices  # pylint: disable=wrong-import-position
import perftest  # pylint: disable=wrong-import-position
import summary  # pylint: disable=wrong-import-position
import text  # pylint: disable=wrong-import-position

SECONDS = 240  # for anything to happen: the machine may be busy


class Strict(html.parser.HTMLParser):
  """Collects what a page would load, and reports elements that are not closed in order."""

  def __init__(self):
    super().__init__()
    self.open, self.loads, self.tags = [], [], []

  def handle_starttag(self, tag, attrs):
    self.tags.append(tag)
    self.loads += [value for name, value in attrs if name in ("src", "href", "srcset")]
    if tag not in ("meta", "br", "link", "img"):
      self.open.append(tag)

  def handle_startendtag(self, tag, attrs):
    self.tags.append(tag)

  def handle_endtag(self, tag):
    assert self.open and self.open[-1] == tag, "</%s> closes %s" % (tag, self.open[-1:])
    self.open.pop()


class CompareTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.mkdtemp(prefix="farlook")
    self.addCleanup(shutil.rmtree, self.directory)

  def command(self, *arguments):
    return ["python3", os.path.join(os.path.dirname(COMPARE), "comparison/main.py"), "--kv_server", KV_SERVER, "--ycsb",
            YCSB, "--kv_cli", KV_CLI, "--output", self.directory, "--memory-mib", "4", *arguments]

  def test_every_store_and_mode_is_measured_and_reported(self):
    run = subprocess.run(
        self.command("--cases", "A,D:1000:1:single:zipfian", "--cases", "C:64:1,2:batch16:uniform",
                     "--cases", "F:64:1:inflight16:zipfian", "--operations", "200", "--repeats", "1", "--records", "300"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    self.assertEqual(run.returncode, 0, run)
    with open(os.path.join(self.directory, "compare.json"), encoding="utf-8") as file:
      report = json.load(file)
    self.assertEqual(report["failures"], [])
    self.assertEqual(len(report["results"]), 5)
    for result in report["results"]:
      rows = {row["store"]: row for row in result["rows"]}
      self.assertEqual(list(rows), list(text.STORES))
      for store, row in rows.items():
        self.assertGreater(row["ops_per_s"]["median"], 0)
        self.assertEqual(row["ops_per_s"]["repeats"], 1)
        self.assertGreater(row["read_p99.9_ns"]["median"], 0)
        self.assertGreater(row["to_floor"]["ops_per_s"], 0)
        self.assertIsNotNone(row["client_cpu_ns"])
        self.assertEqual(row["server_cpu_ns"] is not None, store not in ("lmdb", "map", "floor", "driver"), store)
        if result["case"]["value_bytes"] == 1000 and store not in ("map", "floor", "driver"):  # those are too few to be seen
          self.assertGreater(row["bytes_per_key"], 1000, store)
      self.assertEqual(rows["floor"]["to_floor"]["ops_per_s"], 1)
      self.assertIsNone(rows["driver"]["less_driver_ops_per_s"])
      # With so few operations those of the driver alone may be slower, on a busy machine: then no figure is given.
      slow = rows["redis-unix"]
      self.assertGreater(slow["less_driver_ops_per_s"] or float("inf"), slow["ops_per_s"]["median"])
    for name in ("kv_server", "redis-server", "memcached", "lmdb"):
      self.assertRegex(report["versions"][name], r"^\d+\.\d+")
    for name in ("cpu", "kernel", "compiler", "commit", "rdma_devices"):
      self.assertIn(name, report["machine"])
    self.assertIn("redis-unix", run.stdout)
    self.assertIn("5 cases, ", run.stdout, "which part was run")
    self.assertIn("left]", run.stderr, "progress")

    with open(os.path.join(self.directory, "compare.html"), encoding="utf-8") as file:
      page = file.read()
    parser = Strict()
    parser.feed(page)
    for store in text.STORES:
      self.assertIn("<dt>%s</dt>" % store, page, "what ran is named")
    self.assertEqual(parser.open, [])
    self.assertEqual(parser.loads, [], "the page needs nothing else")
    self.assertNotIn("script", parser.tags)
    self.assertNotRegex(page, r"url\(|@import|https?://")
    self.assertGreater(parser.tags.count("svg"), 7)
    plots = glob.glob(os.path.join(self.directory, "*.svg"))
    self.assertGreater(len(plots), 7)
    for plot in plots:
      self.assertEqual(xml.parse(plot).getroot().tag, "{http://www.w3.org/2000/svg}svg")

  def test_an_interrupt_stops_the_servers(self):
    with subprocess.Popen(self.command("--cases", "C:64:1:single:uniform", "--seconds", "0.1", "--repeats", "100",
                                       "--records", "100"), stderr=subprocess.PIPE, text=True) as run:
      for line in run.stderr:
        if "left]" in line:
          break
      servers = []
      for thread in os.listdir("/proc/%d/task" % run.pid):
        with open("/proc/%d/task/%s/children" % (run.pid, thread), encoding="ascii") as file:
          servers += file.read().split()
      self.assertGreaterEqual(len(servers), 4)
      run.send_signal(signal.SIGTERM)
      run.communicate(timeout=SECONDS)
      self.assertEqual(run.returncode, 130)
    # A process that was being started dies with its parent, after it.
    deadline = time.monotonic() + SECONDS
    while (left := [pid for pid in servers if os.path.exists("/proc/" + pid)]) and time.monotonic() < deadline:
      time.sleep(0.05)
    self.assertEqual(left, [])

  def test_clients_elsewhere_are_told_the_servers_cpu(self):
    # "env" runs a command on the same host, as "ssh HOST" does on another.
    run = subprocess.run(
        self.command("--cases", "A:64:1:single:zipfian", "--operations", "300", "--repeats", "1", "--records", "100",
                     "--clients-on", "env THERE=1", "--stores", "farlook-tcp,redis-tcp,memcached-tcp,map,floor,driver"),
        env=dict(os.environ, FARLOOK_RDMA_ADDRESS="127.0.0.1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, timeout=SECONDS, check=False)
    self.assertEqual(run.returncode, 0, run)
    with open(os.path.join(self.directory, "compare.json"), encoding="utf-8") as file:
      report = json.load(file)
    self.assertEqual(report["failures"], [])
    self.assertEqual(report["run"]["clients_on"], "env THERE=1")
    rows = {row["store"]: row for row in report["results"][0]["rows"]}
    self.assertEqual(list(rows), ["farlook-tcp", "redis-tcp", "memcached-tcp", "map", "floor", "driver"])
    for store in ("farlook-tcp", "redis-tcp", "memcached-tcp"):
      self.assertGreater(rows[store]["server_cpu_ns"]["median"], 0)
      self.assertFalse(rows[store]["pinned"])

  def test_wrong_arguments_are_named(self):
    there = dict(os.environ, FARLOOK_RDMA_ADDRESS="127.0.0.1")
    run = subprocess.run(self.command("--clients-on", "ssh there", "--stores", "lmdb"), stderr=subprocess.PIPE, text=True,
                         env=there, timeout=SECONDS, check=False)
    self.assertEqual(run.returncode, 2, run)
    self.assertIn("'lmdb'", run.stderr)
    for arguments, word in ((["--cases", "X:1:1:single:uniform"], "'X'"), (["--cases", "C:64"], "WORKLOADS"),
                            (["--stores", "oracle"], "oracle"), (["--sizes", "1"], "1 bytes"),
                            (["--repeats", "-1"], "--repeats"), (["--repeats", "0"], "--repeats"), (["--seconds", "0"], "--seconds"),
                            (["--operations", "0"], "--operations"), (["--threads", "0"], "'0'"),
                            (["--cases", "C:many:1:single:uniform"], "'many'"), (["--sizes", "17000000"], "16777216"),
                            (["--ycsb", ""], "--ycsb"), (["--ycsb", "/nowhere"], "/nowhere"),
                            (["--stores", "farlook-rdma"], "FARLOOK_RDMA_ADDRESS"),
                            (["--clients-on", "ssh there"], "FARLOOK_RDMA_ADDRESS")):
      run = subprocess.run(self.command(*arguments), stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
      self.assertEqual(run.returncode, 2, run)
      self.assertIn(word, run.stderr)


class PartsTest(unittest.TestCase):

  def test_the_cpu_of_servers_is_told(self):
    def ask(address, question):
      with socket.create_connection(address) as connection, connection.makefile("rw") as file:
        file.write(question + "\n")
        file.flush()
        return file.read()

    with subprocess.Popen(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1000"],
                          start_new_session=True) as burner:
      try:
        with cpu_reporter.cpu_reporter("127.0.0.1", [burner.pid]) as address:
          deadline, told = time.monotonic() + SECONDS, 0
          while not (told > 1_000_000 and told == int(ask(address, str(burner.pid)))) and time.monotonic() < deadline:
            told = int(ask(address, str(burner.pid)))
          self.assertGreater(told, 1_000_000, "nanoseconds, of the loop")
          with open("/proc/%d/schedstat" % burner.pid, encoding="ascii") as file:
            self.assertEqual(told, int(file.read().split()[0]))
          self.assertIn("no server of this run", ask(address, str(os.getpid())))
          self.assertIn("invalid literal", ask(address, "GET / HTTP/1.1"))
      finally:
        os.killpg(burner.pid, signal.SIGKILL)

  def test_perftest_names_the_device_unless_it_is_iwarp(self):
    with tempfile.TemporaryDirectory() as root:
      for path, content in {"rxe0/node_type": "1: CA", "siw0/node_type": "4: RNIC"}.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
          file.write(content + "\n")
      self.assertEqual([devices.is_roce(name, root) for name in ("rxe0", "siw0", "none", "")],
                       [True, False, False, False])

  def test_a_record_has_exactly_the_bytes_of_the_case(self):
    # See bench/stores/record.h: one byte for the count of fields, and the length in 7 bits a byte.
    for size, field in ((64, 62), (129, 127), (131, 128), (1000, 997), (65536, 65532)):
      self.assertEqual(cases.field_bytes(size), field)
    self.assertRaises(ValueError, cases.field_bytes, 130)

  def test_cases_are_selected_once_each(self):
    self.assertEqual(len(cases.select(["A,C:64:1:single:uniform,zipfian", "C:64:1:single:uniform"], [None] * 5)), 4)
    self.assertEqual(len(cases.select(["D:64:1:single:uniform,zipfian"], [None] * 5)), 1, "D has its own distribution")
    self.assertEqual([case.value_bytes for case in cases.select(["C:64:1:single:uniform"], [None, "7", None, None, None])],
                     [7])
    self.assertEqual(len(cases.select(cases.full(4), [None] * 5)), 5 * 4 * 3 * 4 * 2 - 4 * 3 * 4)

  def test_medians_spread_and_ratios(self):
    figure = summary.median_and_spread([10, None, 30, 20])
    self.assertEqual((figure["median"], figure["least"], figure["greatest"], figure["spread"]), (20, 10, 30, 1.0))
    self.assertIsNone(summary.median_and_spread([None]))
    self.assertEqual(summary.ratio(figure, {"median": 4}), 5)
    self.assertIsNone(summary.ratio(figure, {"median": 0}))

  def test_the_floor_is_perftest_where_it_has_the_figure(self):
    def row(store, **figures):
      return {"store": store, "bytes_per_key": None, **dict.fromkeys(summary.FIGURES), **figures}
    floor = summary.floor_of([row("redis-tcp", client_cpu_ns=1), row("floor", ops_per_s=2, client_cpu_ns=3),
                              row("perftest", ops_per_s=4)])
    self.assertEqual((floor["ops_per_s"], floor["client_cpu_ns"], floor["server_cpu_ns"]), (4, 3, None))
    self.assertEqual(summary.floor_of([row("floor", ops_per_s=2)])["ops_per_s"], 2)
    self.assertIsNone(summary.floor_of([row("lmdb", ops_per_s=2)])["ops_per_s"])

  def test_what_perftest_prints_is_read(self):
    heading = " #bytes #iterations    t_min[usec] \n"
    printed = heading + "#, usec\n1, 35.5\n2, 36.25\n---\n" + heading + " 64      20          35.79\n"
    self.assertEqual(perftest.latencies_ns(printed), [35500, 36250])
    self.assertEqual(perftest.latencies_ns("Unable to connect"), [])
    rate = (" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
            " 64         400              2.34               1.20   \t\t   0.019619\n")
    self.assertEqual(perftest.messages_per_s(rate), 19619)
    self.assertIsNone(perftest.messages_per_s("Unable to connect"))
    self.assertEqual([perftest.percentile(list(range(1000)), p) for p in (0, 50, 99.9, 100)], [0, 500, 999, 999])

  def test_perftest_that_hangs_or_fails_is_tried_anew(self):
    with tempfile.TemporaryDirectory() as root:
      tool, count = os.path.join(root, "ib_fake_lat"), os.path.join(root, "count")
      with open(tool, "w", encoding="utf-8") as file:  # a server waits; of clients, which name a host, only the $GOOD'th does not hang
        file.write(f"""#!/bin/sh
          for last; do :; done
          [ "$last" = host ] || exec sleep 1000
          echo >>{count}
          [ $(wc -l <{count}) = $GOOD ] || exec sleep 1000
          echo figures\n""")
      os.chmod(tool, 0o755)
      for good, output, failures in (("2", "figures\n", 0), ("9", None, perftest.TRIES)):
        with mock.patch.object(perftest, "LIMIT_S", 5), mock.patch.dict(os.environ, {"GOOD": good}):
          printed, why = perftest.run([tool], "host", ())
        self.assertEqual(printed, output)
        self.assertEqual((why or "").count("no end within"), failures)
        os.remove(count)

  def test_devices_are_named_with_what_is_known_of_them(self):
    with tempfile.TemporaryDirectory() as root:
      self.assertEqual(devices.rdma_devices(root), [])
      for path, content in {"rxe0/parent": "eth0", "rxe0/ports/1/link_layer": "Ethernet",
                            "rxe0/ports/1/rate": "2.5 Gb/sec (1X SDR)", "mlx5_0/fw_ver": "16.35.2000"}.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
          file.write(content + "\n")
      os.makedirs(os.path.join(root, "siw0"))
      self.assertEqual(devices.rdma_devices(root), [
          "mlx5_0: firmware 16.35.2000", "rxe0: over eth0, Ethernet, 2.5 Gb/sec (1X SDR)", "siw0: nothing is known of it"])

  def test_figures_have_three_digits(self):
    self.assertEqual([text.count(n) for n in (0, 999, 1000, 999_700, 1_234_567)], ["0", "999", "1.00 k", "1.00 M", "1.23 M"])
    self.assertEqual([text.duration(n) for n in (5, 1500, 45_600, 2e9)], ["5 ns", "1.50 us", "45.6 us", "2.00 s"])
    self.assertEqual([text.duration(ns) for ns in (0, 0.0004, 0.0251, 3.14, 9.6)],
                     ["0 ns", "< 0.001 ns", "0.025 ns", "3.1 ns", "10 ns"])
    self.assertTrue(all(re.match(r"[\d.,]+ ?\w*$", text.count(10**n)) for n in range(10)))


if __name__ == "__main__":
  unittest.main()
