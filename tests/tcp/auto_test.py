#!/usr/bin/env python3
"""auto:// of kv_server and kv_cli: the transport they choose, and that they report it.

auto_test.py KV_CLI KV_SERVER NoDeviceTest|DeviceTest

NoDeviceTest needs an interface without an RDMA device, which 127.0.0.1 has everywhere. DeviceTest needs one at
FARLOOK_RDMA_ADDRESS.
"""

import os
import random
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, 'server/testing')
import kv_server  # pylint: disable=wrong-import-position

KV_CLI = KV_SERVER = ''
TIMEOUT_S = 120
PATIENT = '--timeout_ms=20000'


def unused_port(host):
  """A port that no concurrent test uses, and that the kernel gives to no connecting socket."""
  while True:
    port = random.randrange(20000, 32000)
    with socket.socket() as probe:
      try:
        probe.bind((host, port))
        return port
      except OSError:
        continue


class AutoTest(unittest.TestCase):
  host = ''

  def setUp(self):
    self.at = '%s:%d' % (self.host, unused_port(self.host))

  def address(self, scheme):
    return '%s://%s' % (scheme, self.at)

  def start(self, scheme):
    """A server; returns its log until it was ready."""
    server = kv_server.Server(KV_SERVER, '--counter_memory=1m', address=self.address(scheme), memory='32m')
    self.addCleanup(server.stop)
    return server.text()

  def cli(self, *words, code=0):
    result = subprocess.run([KV_CLI, PATIENT, '--address=' + self.address('auto'), *words], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    self.assertEqual(result.returncode, code, result.stdout)
    return result.stdout

  def expect_choice(self, scheme, reason=''):
    """Checks the client's choice, in its figures and in the doctor's output."""
    taken = self.address(scheme) + (r' \(not rdma: .*%s.*\)' % reason if scheme == 'tcp' else '')
    self.assertRegex(self.cli('stat', '--client', 'address'), '^address %s\n$' % taken)
    self.assertRegex(self.cli('doctor'), 'good +of that address it took %s\n' % taken)
    self.cli('put', 'key', 'value')
    self.assertEqual(self.cli('get', 'key'), 'value')

  def wait_for_server(self, scheme):
    """A client that waits starts first."""
    out = []
    client = threading.Thread(target=lambda: out.append(self.cli('stat', '--client', 'address', '--wait')))
    client.start()
    self.start('auto')
    client.join()
    self.assertIn(self.address(scheme), out[0])


class NoDeviceTest(AutoTest):
  host = '127.0.0.1'

  def test_both_take_tcp_and_say_why(self):
    log = self.start('auto')
    self.assertRegex(log, 'level=warning msg="does not listen" address=%s reason=' % self.address('rdma'))
    self.assertRegex(log, 'msg="listening" address=%s' % self.address('tcp'))
    self.expect_choice('tcp', reason='RDMA')

  def test_the_plan_of_a_server(self):
    result = subprocess.run([KV_SERVER, '--check', '--listen=' + self.address('auto'), '--memory=32m'], text=True,
                            stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    self.assertEqual(result.returncode, 0, result.stdout)
    self.assertIn('good     a server can listen at ' + self.address('tcp'), result.stdout)
    self.assertRegex(result.stdout, 'advice .*RDMA')

  def test_a_client_that_waits_finds_it(self):
    self.wait_for_server('tcp')

  def test_nobody_there(self):
    out = self.cli('get', 'key', code=3)
    self.assertRegex(out, 'no server answers at %s.*over rdma: .*; over tcp: .*refused' % self.address('auto'))

  def test_an_address_that_is_taken_is_no_choice(self):
    self.start('auto')
    result = subprocess.run([KV_SERVER, '--listen=' + self.address('auto'), '--memory=32m'], text=True,
                            stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertIn(self.address('tcp'), result.stderr)

  def test_addresses_that_are_none(self):
    for text in 'auto://', 'auto://host', 'auto://host:0', 'auto:///run/s', 'auto://a b:1', 'auto://rdma://h:1':
      with self.subTest(text):
        result = subprocess.run([KV_CLI, '--address=' + text, 'ping'], text=True, stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('address "%s": ' % text, result.stderr)
        result = subprocess.run([KV_SERVER, '--listen=' + text], text=True, stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)

  def test_who_waits_hears_why_a_server_refuses(self):
    users = os.path.join(os.environ.get('TEST_TMPDIR', '/tmp'), 'users')
    with open(os.open(users, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
      file.write('app read,write secret=%s\n' % ('a' * 32))
    server = kv_server.Server(KV_SERVER, '--users=' + users, address=self.address('auto'), memory='32m')
    self.addCleanup(server.stop)
    out = self.cli('--wait', 'get', 'key', code=3)
    self.assertIn('the server requires authentication', out)


class DeviceTest(AutoTest):
  host = os.environ.get('FARLOOK_RDMA_ADDRESS', '')
  # iWARP's ports are TCP's.
  iwarp = os.environ.get('FARLOOK_RDMA_DEVICE', '').startswith('siw')

  def test_both_take_rdma(self):
    log = self.start('auto')
    self.assertRegex(log, 'msg="listening" address=%s' % self.address('rdma'))
    other = 'does not listen' if self.iwarp else 'listening'
    self.assertRegex(log, 'msg="%s" address=%s' % (other, self.address('tcp')))
    self.expect_choice('rdma')

  def test_a_server_that_has_no_rdma_is_reached_by_tcp(self):
    self.start('tcp')
    self.expect_choice('tcp', reason='' if self.iwarp else 'no server listens there')

  def test_a_client_that_waits_takes_rdma(self):
    self.wait_for_server('rdma')


if __name__ == '__main__':
  KV_CLI, KV_SERVER, SUITE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
  unittest.main(argv=[sys.argv[0], *sys.argv[4:]], defaultTest=SUITE, verbosity=2)
