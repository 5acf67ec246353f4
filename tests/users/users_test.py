#!/usr/bin/env python3
"""Tests kv_server --users with kv_cli as the client.

    users_test.py KV_CLI KV_SERVER ShmTest|TcpTest|VerbsTest

ShmTest and TcpTest need nothing. VerbsTest wants an RDMA device at FARLOOK_RDMA_ADDRESS.
"""

import collections
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'server/testing')
import kv_server  # pylint: disable=wrong-import-position

KV_CLI = KV_SERVER = ''
TIMEOUT_S = 300  # emulated machines are slow

APP = 'a' * 32
REPORT = 'b' * 32
OPS = 'c' * 32


def unused_port():
  """A port that no concurrent test uses, and that the kernel gives to no connecting socket."""
  while True:
    port = random.randrange(20000, 32000)
    with socket.socket() as probe:
      try:
        probe.bind(('127.0.0.1', port))
        return port
      except OSError:
        continue


class UsersTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.mkdtemp(dir='/tmp')
    os.chmod(self.directory, 0o755)
    self.users = self.directory + '/users'
    self.servers = []

  def tearDown(self):
    for server in self.servers:
      server.stop()

  def write(self, name, text):
    path = self.directory + '/' + name
    with open(os.open(path + '.new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
      file.write(text)
    os.rename(path + '.new', path)
    return path

  def start(self, address, *flags):
    server = kv_server.Server(KV_SERVER, '--counter_memory=1m', *flags, address=address, memory='32m')
    self.servers.append(server)
    return server

  def cli(self, server, *words, user=None, secret=None):
    command = [KV_CLI, '--address=' + server.address, '--timeout_ms=20000']
    if user:
      command += ['--user=' + user, '--secret_file=' + self.write('secret', secret + '\n')]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout + done.stderr

  def assert_ok(self, result):
    self.assertEqual(result[0], 0, result[1])

  def assert_fails(self, result, text):
    self.assertNotEqual(result[0], 0, result[1])
    self.assertIn(text, result[1])
    self.assertNotIn('start it with', result[1])  # there is a server


  def connected(self, server, **who):
    """The lines of kv_cli clients: id, from, user, role and so on."""
    code, text = self.cli(server, '--json', 'clients', **who)
    self.assertEqual(code, 0, text)
    return {client['id']: client for client in map(json.loads, text.splitlines())}

  def session(self, server, user=None, secret=None):
    """A kv_cli that waits for lines, and is connected."""
    command = [KV_CLI, '--address=' + server.address, '--timeout_ms=20000']
    if user:
      command += ['--user=' + user, '--secret_file=' + self.write('secret_of_' + user, secret + '\n')]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    self.addCleanup(process.stdout.close)
    self.addCleanup(process.wait)
    self.addCleanup(process.kill)
    process.stdin.write('put key value\nget key\n')
    process.stdin.flush()
    self.assertIn('value', process.stdout.readline())
    return process

  def end(self, session, text):
    """Sends the last lines to a session; returns what it prints."""
    output, _ = session.communicate(text, TIMEOUT_S)
    return output


class ShmTest(UsersTest):

  def address(self):
    return 'shm://' + self.directory + '/socket'

  def test_roles_of_processes(self):
    self.write('users', 'me read,write uid=%d\n' % os.getuid())
    server = self.start(self.address(), '--users=' + self.users, '--socket_mode=666')
    server.wait_for('users=1')
    self.assertEqual(stat.S_IMODE(os.stat(self.directory + '/socket').st_mode), 0o666)
    self.assert_ok(self.cli(server, 'put', 'key', 'value'))
    # Expect: a bad file changes nothing, and says so.
    self.write('users', 'me reed uid=%d\n' % os.getuid())
    server.process.send_signal(signal.SIGHUP)
    server.wait_for('the users are unchanged')
    self.assert_ok(self.cli(server, 'put', 'key', 'again'))
    self.write('users', 'me read uid=%d\n' % os.getuid())
    server.process.send_signal(signal.SIGHUP)
    server.wait_for('users read again')
    self.assert_fails(self.cli(server, 'put', 'key', 'third'), 'role write')
    self.assertIn('again', self.cli(server, 'get', 'key')[1])
    self.write('users', 'other read,write uid=%d\n' % (os.getuid() + 1))
    server.process.send_signal(signal.SIGHUP)
    server.wait_for('users read again', 2)
    self.assert_fails(self.cli(server, 'get', 'key'), 'uid %d' % os.getuid())

  def test_an_operator_sees_who_is_connected_and_ends_connections(self):
    self.write('users', 'me read,write uid=%d\n' % os.getuid())
    server = self.start(self.address(), '--users=' + self.users)
    session = self.session(server)
    for words in (['clients'], ['kick', '1']):
      self.assert_fails(self.cli(server, *words), 'admin')
    self.write('users', 'me read,write,admin uid=%d\n' % os.getuid())
    server.process.send_signal(signal.SIGHUP)
    server.wait_for('users read again')
    self.assertIn('value', self.end(session, 'get key\n'))
    session = self.session(server)
    clients = self.connected(server)
    ids = [number for number, client in clients.items() if 'pid %d ' % session.pid in client['peer']]
    self.assertEqual(len(ids), 1, clients)
    self.assertEqual((clients[ids[0]]['user'], clients[ids[0]]['role']), ('me', 'write,admin'))
    self.assert_ok(self.cli(server, 'kick', str(ids[0])))
    server.wait_for('an operator ended its connection')
    self.assertIn('value', self.end(session, 'put other value\nget other\n'))
    self.assert_fails(self.cli(server, 'kick', '999999'), '999999')

  def test_a_file_that_others_may_read_is_refused(self):
    self.write('users', 'app read secret=%s\n' % APP)
    os.chmod(self.users, 0o644)
    done = subprocess.run([KV_SERVER, '--listen=' + self.address(), '--users=' + self.users], capture_output=True,
                          text=True, timeout=TIMEOUT_S, check=False)
    self.assertEqual(done.returncode, 4, done.stderr)
    self.assertIn('chmod', done.stderr)
    self.assertNotIn(APP, done.stderr)

  def test_says_at_the_start_who_can_come(self):
    server = self.start(self.address())
    server.wait_for('every process that may write to the socket file may read and write all keys')


class NetworkTest:
  """Tests of transports over which the kernel identifies no client."""

  def test_proofs_roles_and_revocation(self):
    self.write('users', 'app read,write secret=%s\nreport read secret=%s\n' % (APP, REPORT))
    server = self.start(self.address(), '--users=' + self.users)
    self.assert_ok(self.cli(server, 'put', 'key', 'value', user='app', secret=APP))
    self.assertIn('value', self.cli(server, 'get', 'key', user='report', secret=REPORT)[1])
    self.assert_ok(self.cli(server, 'counter', 'hits', 'create', user='app', secret=APP))
    self.assert_ok(self.cli(server, 'incr', 'hits', user='app', secret=APP))
    self.assert_fails(self.cli(server, 'incr', 'hits', user='report', secret=REPORT), 'role write')
    self.assert_fails(self.cli(server, 'put', 'key', 'no', user='report', secret=REPORT), 'role write')
    self.assert_fails(self.cli(server, 'get', 'key', user='app', secret=REPORT), 'or wrong secret')
    self.assert_fails(self.cli(server, 'get', 'key', user='nobody', secret=APP), 'or wrong secret')
    self.assert_fails(self.cli(server, 'get', 'key'), 'FARLOOK_SECRET_FILE')
    # A client that is connected when its user is revoked.
    watch = subprocess.Popen([KV_CLI, '--address=' + server.address, '--timeout_ms=20000', '--user=app',
                              '--secret_file=' + self.write('app_secret', APP)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watch.stdin.write('get key\n')
    watch.stdin.flush()
    self.assertIn('value', watch.stdout.readline())
    self.write('users', 'report read secret=%s\n' % REPORT)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for('its user was revoked')
    text, _ = watch.communicate('get key\n', TIMEOUT_S)
    self.assertIn('or wrong secret', text)
    self.assert_ok(self.cli(server, 'get', 'key', user='report', secret=REPORT))

  def test_an_operator_sees_who_is_connected_and_ends_connections(self):
    self.write('users', 'app read,write secret=%s\nreport read secret=%s\nops read,admin secret=%s\n' %
               (APP, REPORT, OPS))
    server = self.start(self.address(), '--users=' + self.users)
    ops = {'user': 'ops', 'secret': OPS}
    session = self.session(server, 'app', APP)
    for user, secret in (('app', APP), ('report', REPORT)):
      for words in (['clients'], ['kick', '1']):
        self.assert_fails(self.cli(server, *words, user=user, secret=secret), 'admin')
    # The server may notice late that the kv_cli of the lines above have gone.
    clients = self.connected(server, **ops)
    while sum(client['user'] != 'ops' for client in clients.values()) > 1:
      clients = self.connected(server, **ops)
    roles = {client['user']: client['role'] for client in clients.values()}
    self.assertEqual((roles.get('app'), roles.get('ops')), ('write', 'read,admin'), clients)
    ids = [number for number, client in clients.items() if client['user'] == 'app' and client['state'] == 'welcome']
    self.assertEqual(len(ids), 1, clients)
    self.assert_fails(self.cli(server, 'put', 'key', 'no', **ops), 'role write')
    self.assert_ok(self.cli(server, 'kick', str(ids[0]), **ops))
    server.wait_for('an operator ended its connection')
    server.wait_for('user=ops id=%d' % ids[0])
    # Expect: it proves its identity again, resumes its session, and no operation fails.
    self.assertIn('again', self.end(session, 'put key again\nget key\n'))
    self.assert_fails(self.cli(server, 'kick', '999999', **ops), '999999')

  def test_a_server_that_does_not_ask_is_refused(self):
    server = self.start(self.address())
    server.wait_for('no authentication: ')
    self.assert_fails(self.cli(server, 'get', 'key', user='app', secret=APP), 'does not prove')
    self.assert_fails(self.cli(server, 'get', 'key'), 'key')
    self.assert_ok(self.cli(server, 'put', 'key', 'value'))

  def test_members_of_a_group_prove_who_they_are(self):
    self.write('users', 'app read,write secret=%s\nreport read secret=%s\ngroup read,admin secret=%s\nme admin uid=0\n' %
               (APP, REPORT, OPS))
    group = ['--group=file://' + self.directory + '/g', '--users=' + self.users, '--replicas=3',
             '--min_insync=2', '--suspicion=2s']
    for user, why in (('nobody', 'is not there'), ('me', 'has no secret'), ('report', 'lacks the role admin')):
      done = subprocess.run([KV_SERVER, '--listen=' + self.address(), *group, '--group_user=' + user],
                            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
      self.assertNotEqual(done.returncode, 0)
      self.assertIn('that user ' + why, done.stderr)
    first = self.start(self.address(), *group, '--group_user=group')
    # Expect: a server that does not identify itself, or has another secret, is not admitted, and says why.
    done = subprocess.run([KV_SERVER, '--listen=' + self.address(), *group], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    self.assertNotEqual(done.returncode, 0)
    self.assertIn('--group_user is missing', done.stderr)
    stranger = self.start(self.address(), group[0])
    first.wait_for('msg="client refused"')
    stranger.wait_for('msg="this server may not join its group"')
    # Expect: neither is one with the same secret, and other rights of other users.
    fewer = self.write('fewer', 'app read secret=%s\ngroup read,admin secret=%s\n' % (APP, OPS))
    self.start(self.address(), group[0], '--users=' + fewer, '--group_user=group').wait_for(
        'its --users differ from those of the primary')
    other = self.write('others', 'group read,admin secret=%s\n' % APP)
    self.start(self.address(), *group[:1], '--users=' + other, '--group_user=group')
    first.wait_for('msg="client refused"', 2)
    second = self.start(self.address(), *group, '--group_user=group')
    first.wait_for('a backup is in sync')
    both = collections.namedtuple('Both', 'address')(first.address + ',' + second.address)
    self.assert_ok(self.cli(both, 'put', 'key', 'value', user='app', secret=APP))
    status = self.cli(both, 'cluster', 'status', user='group', secret=OPS)[1]
    self.assertEqual(status.count('backup '), 1, status)
    self.assertIn('backup ' + second.address, status)
    self.assertNotIn(stranger.address, status)
    # Expect: a new secret is used without a restart. Both then have the acknowledged writes, so one may be killed.
    self.write('users', 'app read,write secret=%s\ngroup read,admin secret=%s\n' % (APP, REPORT))
    for server in (first, second):
      server.process.send_signal(signal.SIGHUP)
      server.wait_for('users read again')
    self.assert_ok(self.cli(both, 'put', 'key', 'again', user='app', secret=APP))
    first.process.kill()
    second.wait_for('primary of the group')
    self.assertIn('again', self.cli(both, 'get', 'key', user='app', secret=APP)[1])


class VerbsTest(NetworkTest, UsersTest):

  def address(self):
    return 'rdma://%s:%d' % (os.environ['FARLOOK_RDMA_ADDRESS'], unused_port())


class TcpTest(NetworkTest, UsersTest):

  def address(self):
    return 'tcp://127.0.0.1:%d' % unused_port()


if __name__ == '__main__':
  KV_CLI, KV_SERVER, SUITE = (sys.argv[1], sys.argv[2], sys.argv[3])
  KV_CLI, KV_SERVER = os.path.abspath(KV_CLI), os.path.abspath(KV_SERVER)
  unittest.main(argv=[sys.argv[0], *sys.argv[4:]], defaultTest=SUITE, verbosity=2)
