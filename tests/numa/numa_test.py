#!/usr/bin/env python3
"""Every page of the region is on the requested node, or otherwise on the device's, and has the requested size.

numa_test.py PATH_OF_KV_SERVER
"""

import os
import re
import subprocess
import sys
import unittest

ADDRESS = "rdma://%s:7471" % os.environ["FARLOOK_RDMA_ADDRESS"]


class NumaTest(unittest.TestCase):

  def region(self, *flags):
    """Returns the kernel's information about the region's pages: {"N0": "32", "kernelpagesize_kB": "2048", ...}."""
    server = subprocess.Popen([SERVER, "--listen=" + ADDRESS, "--memory=64MiB", *flags], stderr=subprocess.PIPE,
                              text=True)
    try:
      for line in server.stderr:
        if 'msg="ready"' in line:
          break
      else:
        self.fail("kv_server ended")
      with open("/proc/%d/numa_maps" % server.pid, encoding="ascii") as maps:
        lines = [line for line in maps if "farlook-memory" in line]
      # In addition to the region there are the cells of counters, always in small pages.
      regions = [dict(re.findall(r"(\w+)=(\d+)", line)) for line in lines]
      sizes = [sum(int(pages.get(node, 0)) for node in ("N0", "N1")) * int(pages["kernelpagesize_kB"])
               for pages in regions]
      self.assertIn(64 * 1024, sizes, lines)
      return regions[sizes.index(64 * 1024)]
    finally:
      server.kill()
      server.wait()
      server.stderr.close()

  def test_every_page_is_on_the_node_and_of_the_size_asked_for(self):
    for node in (0, 1):
      for kind, size_kib in (("2m", 2048), ("none", 4)):
        with self.subTest(node=node, kind=kind):
          pages = self.region("--numa_node=%d" % node, "--huge_pages=" + kind)
          self.assertEqual(pages["kernelpagesize_kB"], str(size_kib))
          self.assertEqual(pages["N%d" % node], str(64 * 1024 // size_kib))
          self.assertNotIn("N%d" % (1 - node), pages)

  def test_the_devices_node_is_chosen_where_none_is_asked_for(self):
    # The second node: neither the first, nor the one where this test runs by default.
    with open("/sys/class/net/eth0/device/../numa_node", encoding="ascii") as node:
      self.assertEqual(node.read(), "1\n")
    for kind, size_kib in (("2m", 2048), ("none", 4)):
      with self.subTest(kind=kind):
        pages = self.region("--huge_pages=" + kind)
        self.assertEqual(pages["N1"], str(64 * 1024 // size_kib))
        self.assertNotIn("N0", pages)


if __name__ == "__main__":
  SERVER = os.path.abspath(sys.argv[1])
  unittest.main(argv=sys.argv[:1] + sys.argv[2:])
