#!/usr/bin/env python3
"""Tests of the kv_server program: flags, signals, exit codes, log lines, readiness.

    kv_server_test.py PATH_OF_KV_SERVER PATH_OF_KV_SERVER.FLAGS [unittest arguments]
"""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

KV_SERVER = ''
SAMPLE = ''  # server/kv_server.flags
TIMEOUT_S = 60

STOPPED, BAD_FLAG, BAD_ADDRESS, NO_RESOURCES, NO_PERMISSION, OTHER = range(6)

LOG_LINE = re.compile(
    r'ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z level=(debug|info|warning|error) '
    r'msg="[^"]*"( [a-z_]+=("(\\.|[^"\\])*"|[^\s"=]+))*$')


def flags_of(text):
  """Flags of a flagfile, with those behind a #."""
  words = [line.strip().lstrip('# ') for line in text.split('\n')]
  return dict(word[2:].split('=', 1) for word in words if word.startswith('--'))


class Server:
  """A running kv_server whose log lines are collected."""

  def __init__(self, *flags, env=None, memory='64m', **popen):
    self.lines = []
    self._news = threading.Condition()
    self.process = subprocess.Popen(
        [KV_SERVER, '--memory=' + memory, '--huge_pages=none', *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, **(env or {})), **popen)
    self._reader = threading.Thread(target=self._read)
    self._reader.start()

  def _read(self):
    for line in self.process.stderr:
      with self._news:
        self.lines.append(line.rstrip('\n'))
        self._news.notify_all()
    with self._news:
      self.lines.append(None)
      self._news.notify_all()

  def wait_for(self, text):
    """Waits for a log line with the text, or fails."""
    def found():
      return [line for line in self.lines if line is None or text in line]
    with self._news:
      if not self._news.wait_for(found, TIMEOUT_S):
        raise AssertionError('no line with %r in %r' % (text, self.lines))
      if found()[0] is None:
        raise AssertionError('ended without a line with %r: %r' % (text, self.lines))
      return found()[0]

  def end(self):
    """Waits for the end and returns the exit code."""
    code = self.process.wait(TIMEOUT_S)
    self._reader.join(TIMEOUT_S)
    self.process.stdout.close()  # may be again
    self.process.stderr.close()
    return code

  def text(self):
    return '\n'.join(line for line in self.lines if line is not None)


class KvServerTest(unittest.TestCase):

  def setUp(self):
    self.directory = tempfile.mkdtemp(prefix='farlook-', dir='/tmp')
    self.addCleanup(shutil.rmtree, self.directory)
    self.path = self.directory + '/kv'
    self.address = 'shm://' + self.path

  def start(self, *flags, **kwargs):
    """Starts a server; it is killed at the end of the test, if it lives then."""
    server = Server(*flags, **kwargs)
    self.addCleanup(self._kill, server)
    return server

  def _kill(self, server):
    if server.process.poll() is None:
      server.process.kill()
    server.end()

  def run_to_end(self, *flags, **kwargs):
    server = self.start(*flags, **kwargs)
    return server.end(), server.text()

  def plain(self, *flags):
    return subprocess.run([KV_SERVER, *flags], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)

  # Starting and stopping.

  def test_sigterm_and_sigint_stop_it_in_order(self):
    for number, name in ((signal.SIGTERM, 'SIGTERM'), (signal.SIGINT, 'SIGINT')):
      server = self.start('--listen=' + self.address)
      server.wait_for('msg="ready"')
      self.assertTrue(os.path.exists(self.path))
      server.process.send_signal(number)
      self.assertEqual(server.end(), STOPPED, server.text())
      self.assertIn('msg="stopping" signal=' + name, server.text())
      self.assertIn('msg="stopped"', server.text())
      self.assertEqual(os.listdir(self.directory), [])

  def test_a_signal_while_memory_is_prepared_ends_it_with_a_line(self):
    server = self.start('--listen=' + self.address, memory='1g')
    server.wait_for('msg="preparing memory" bytes=1073741824')
    server.process.terminate()
    server.wait_for('msg="stopped')
    self.assertEqual(server.end(), STOPPED)

  def test_tells_systemd_how_far_the_memory_is(self):
    path = self.directory + '/notify'
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
      notify.bind(path)
      notify.settimeout(TIMEOUT_S)
      self.start('--listen=' + self.address, memory='512m', env={'NOTIFY_SOCKET': path})
      said = []
      while not said or 'READY=1' not in said[-1]:
        said.append(notify.recv(4096).decode())
    percents = [int(text.split()[-2]) for text in said if text.endswith(' %')]
    self.assertEqual(percents[-1], 100, said)
    self.assertEqual(percents, sorted(set(percents)), said)

  def test_says_when_it_gives_memory_back(self):
    server = self.start('--listen=' + self.address)
    server.wait_for('msg="ready"')
    server.process.terminate()
    server.wait_for('msg="clients are gone, giving memory back" bytes=67108864')
    server.wait_for('msg="stopped"')
    self.assertEqual(server.end(), STOPPED)

  def test_says_what_it_got(self):
    server = self.start('--listen=' + self.address, '--workers=2')
    ready = server.wait_for('msg="ready"')
    self.assertIn('workers=2', ready)
    self.assertRegex(ready, r'incarnation=[0-9a-f]{16}')
    self.assertIn('bytes=67108864 page_bytes=4096 huge_pages=none numa_node=any',
                  server.wait_for('msg="memory"'))
    self.assertIn('address=' + self.address, server.wait_for('msg="listening"'))
    self.assertIn('advice=', server.wait_for('msg="larger pages'))

  def test_every_line_is_logfmt(self):
    server = self.start('--listen=' + self.address, '--log_level=debug')
    server.wait_for('msg="ready"')
    server.process.terminate()
    self.assertEqual(server.end(), STOPPED)
    for line in server.text().split('\n'):
      self.assertRegex(line, LOG_LINE)

  def test_says_who_can_come(self):
    server = self.start('--listen=' + self.address)
    self.assertIn('address=' + self.address, server.wait_for('whoever may write to the socket file may read'))

  def test_sighup_changes_the_level_of_the_log(self):
    path = self.directory + '/flags'

    def write(*flags):
      with open(path, 'w', encoding='ascii') as file:
        file.write('\n'.join(flags) + '\n')

    write('--listen=' + self.address)
    server = self.start('--flagfile=' + path)
    server.wait_for('msg="ready"')
    write('--listen=' + self.address, '--log_level=debug')
    server.process.send_signal(signal.SIGHUP)
    self.assertIn('log_level=debug', server.wait_for('msg="reloaded"'))
    write('--listen=' + self.address, '--log_level=debug', '--max_clients=7')
    server.process.send_signal(signal.SIGHUP)
    self.assertIn('flag=max_clients value=7', server.wait_for('msg="takes effect at the next start"'))
    write('--wrong')
    server.process.send_signal(signal.SIGHUP)
    self.assertIn('/flags:1: unknown flag --wrong', server.wait_for('msg="not reloaded"'))
    # Expect: what stands before the mistake is not taken, so it is told of when the mistake is gone.
    write('--listen=%s-b' % self.address, '--workers=3', '--log_level=error', '--wrong')
    server.process.send_signal(signal.SIGHUP)
    server.wait_for('/flags:4: unknown flag --wrong')
    write('--listen=' + self.address, '--workers=3')
    server.process.send_signal(signal.SIGHUP)
    self.assertIn('at the next start', server.wait_for('flag=workers value=3'))
    self.assertNotIn('flag=listen', server.text())
    server.process.terminate()
    self.assertEqual(server.end(), STOPPED)
    self.assertIn('signal=SIGTERM', server.text())

  def test_sighup_and_sigpipe_do_not_end_it(self):
    server = self.start('--listen=' + self.address)
    server.wait_for('msg="ready"')
    server.process.send_signal(signal.SIGHUP)
    server.process.send_signal(signal.SIGPIPE)
    # Expect: it still holds its address, and stops as ever.
    code, text = self.run_to_end('--listen=' + self.address)
    self.assertEqual(code, BAD_ADDRESS, text)
    server.process.terminate()
    self.assertEqual(server.end(), STOPPED)

  def test_tells_systemd(self):
    path = self.directory + '/notify'
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
      notify.bind(path)
      notify.settimeout(TIMEOUT_S)
      server = self.start('--listen=' + self.address, '--log_level=none', env={'NOTIFY_SOCKET': path})
      self.assertEqual(notify.recv(4096).decode(), 'STATUS=preparing memory')
      message = notify.recv(4096).decode()
      while message.startswith('STATUS=preparing memory, '):
        message = notify.recv(4096).decode()
      self.assertIn('READY=1', message.split('\n'))
      self.assertIn(self.address, message)
      server.process.terminate()
      self.assertIn('STOPPING=1', notify.recv(4096).decode().split('\n'))
      self.assertEqual(server.end(), STOPPED)
      self.assertEqual(server.text(), '')

  def test_idle_it_does_not_run(self):
    server = self.start('--listen=' + self.address, '--workers=3')
    server.wait_for('msg="ready"')

    def switches():
      tasks = '/proc/%d/task' % server.process.pid
      counts = {}
      for task in os.listdir(tasks):
        with open('%s/%s/status' % (tasks, task), encoding='ascii') as status:
          fields = dict(line.split(':', 1) for line in status)
        counts[task] = (int(fields['voluntary_ctxt_switches']), int(fields['nonvoluntary_ctxt_switches']))
      return counts

    # The thread sanitizer's own thread wakes up periodically.
    others = 1 if 'TSAN_OPTIONS' in os.environ else 0
    # A thread that wakes up periodically never leaves two seconds without a switch.
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
      before = switches()
      time.sleep(2)
      after = switches()
      if sum(after[task] != before.get(task) for task in after) <= others:
        return
    self.fail('it wakes up although nobody asks for anything')

  # Addresses.

  def test_listens_at_several_addresses(self):
    flags = ['--listen=%s-a,%s-b' % (self.address, self.address), '--listen', self.address + '-c']
    server = self.start(*flags)
    server.wait_for('msg="ready"')
    for name in 'abc':
      self.assertIn('address=%s-%s' % (self.address, name), server.text())
      self.assertTrue(os.path.exists(self.path + '-' + name))

  def test_a_second_server_on_the_address_is_refused(self):
    first = self.start('--listen=' + self.address)
    first.wait_for('msg="ready"')
    code, text = self.run_to_end('--listen=' + self.address)
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('in use by a live server (pid %d)' % first.process.pid, text)
    first.process.send_signal(signal.SIGSTOP)  # Expect: stopped is not dead
    code, text = self.run_to_end('--listen=' + self.address)
    first.process.send_signal(signal.SIGCONT)
    self.assertEqual(code, BAD_ADDRESS, text)

  def test_a_removed_socket_is_said(self):
    first = self.start('--listen=' + self.address)
    first.wait_for('msg="ready"')
    os.unlink(self.path)
    self.assertIn('was removed', first.wait_for('msg="no client can come until this is over"'))
    os.unlink(self.path + '.lock')
    code, text = self.run_to_end('--listen=' + self.address)
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('in use by a live server (pid %d)' % first.process.pid, text)

  def test_a_killed_server_leaves_its_address_free(self):
    first = self.start('--listen=' + self.address)
    first.wait_for('msg="ready"')
    first.process.kill()
    self.assertEqual(first.end(), -signal.SIGKILL)
    self.start('--listen=' + self.address).wait_for('msg="ready"')

  def test_what_is_no_socket_is_left_alone(self):
    with open(self.path, 'w', encoding='ascii') as file:
      file.write('precious')
    code, text = self.run_to_end('--listen=' + self.address)
    self.assertEqual(code, BAD_ADDRESS, text)
    with open(self.path, encoding='ascii') as file:
      self.assertEqual(file.read(), 'precious')
    self.assertIn('choose another address', text)
    self.assertNotIn('remove', text)

  def test_a_directory_is_no_address(self):
    code, text = self.run_to_end('--listen=shm://' + self.directory)
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('is a directory; the address is that of a socket within it', text)
    self.assertEqual(os.listdir(self.directory), [])

  def test_a_file_in_the_place_of_a_directory(self):
    with open(self.path, 'w', encoding='ascii'):
      pass
    code, text = self.run_to_end('--listen=%s/deeper' % self.address)
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('a part of the path is a file', text)

  @unittest.skipIf(os.path.isdir('/sys/class/infiniband') and os.listdir('/sys/class/infiniband'), 'has RDMA devices')
  def test_no_rdma_device_is_an_address_that_cannot_be_used(self):
    code, text = self.run_to_end('--listen=rdma://127.0.0.1:7471')
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('no RDMA device', text)

  def test_a_directory_that_does_not_exist(self):
    code, text = self.run_to_end('--listen=%s/none/kv' % self.address)
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('create the directory first', text)

  def test_no_permission(self):
    # Nobody may create files there, root included.
    code, text = self.run_to_end('--listen=shm:///sys/kernel/farlook')
    self.assertEqual(code, NO_PERMISSION, text)

  # Memory.

  def test_not_enough_memory(self):
    code, text = self.run_to_end('--listen=' + self.address, memory='2TiB')
    self.assertEqual(code, NO_RESOURCES, text)
    self.assertIn('ask for less', text)
    self.assertEqual(os.listdir(self.directory), [])

  def test_not_enough_huge_pages(self):
    code, text = self.run_to_end('--listen=' + self.address, '--huge_pages=1g', memory='2TiB')
    self.assertEqual(code, NO_RESOURCES, text)
    self.assertIn('nr_hugepages', text)

  def test_no_descriptors_left(self):
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
    code, text = self.run_to_end('--listen=' + self.address, '--workers=8', preexec_fn=limit)
    self.assertEqual(code, NO_RESOURCES, text)
    self.assertIn('ulimit -n', text)

  def test_raises_its_own_limit_of_descriptors(self):
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
    server = self.start('--listen=' + self.address, '--max_clients=500', preexec_fn=limit)
    server.wait_for('msg="ready"')
    self.assertNotIn('not all clients can come', server.text())
    with open('/proc/%d/limits' % server.process.pid, encoding='ascii') as limits:
      line = [line for line in limits if line.startswith('Max open files')][0]
    # One for each client, and one for each that is kicked within an atomic.
    self.assertGreater(int(line.split()[3]), 1000)
    # Expect: a limit that lacks the latter is no trouble.
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 700))
    server = self.start('--listen=%s-b' % self.address, '--max_clients=500', preexec_fn=limit)
    server.wait_for('msg="ready"')
    self.assertNotIn('not all clients can come', server.text())

  def test_too_few_descriptors_for_its_clients_are_said(self):
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    server = self.start('--listen=' + self.address, preexec_fn=limit)
    server.wait_for('msg="ready"')
    self.assertRegex(server.text(), r'msg="not all clients can come" reason="--max_clients=1024 needs \d+ file')
    check = subprocess.run([KV_SERVER, '--check', '--listen=%s-b' % self.address, '--memory=64m'], preexec_fn=limit,
                           capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    self.assertEqual(check.returncode, OTHER, check.stdout)
    self.assertRegex(check.stdout, '(?m)^trouble  --max_clients=1024 needs .*LimitNOFILE=')

  # Flags.

  def test_bad_flags_are_refused_with_what_would_be_good(self):
    listen = '--listen=' + self.address
    for flags, expected in (
        ([], '--listen='),
        (['--listen=http://localhost:1'], 'shm:///absolute/path'),
        (['--listen=shm://relative'], 'must be absolute'),
        (['--listen=a,,b'], 'an address is empty'),
        ([listen, '--memory=many'], '4GiB'),
        ([listen, '--memory='], '4GiB'),
        ([listen, '--memory=1k'], '16MiB'),
        ([listen, '--memory=3t'], '2TiB'),
        ([listen, '--huge_pages=big'], 'transparent'),
        ([listen, '--numa_node=first'], 'auto'),
        ([listen, '--numa_node=1023'], 'no NUMA node 1023; the nodes of this host are: 0'),
        ([listen, '--workers=0'], '1 to 64'),
        ([listen, '--workers=65'], '1 to 64'),
        ([listen, '--workers=x'], 'workers'),
        ([listen, '--max_value_bytes=65m'], '64MiB'),
        ([listen, '--evict', '--memory=16m'], '32MiB'),
        ([listen, '--evict', '--memory=64m', '--max_value_bytes=64m'], '128MiB'),
        ([listen, '--window=0'], '1 to 4096'),
        ([listen, '--max_clients=0'], '--max_clients'),
        ([listen, '--drain_timeout=soon'], 'drain_timeout'),
        ([listen, '--liveness=1ms'], '100ms'),
        ([listen, '--log_level=loud'], 'warning'),
        ([listen, '--no_such_flag=1'], 'no_such_flag'),
        ([listen, '--worker=2'], 'did you mean --workers?'),
        ([listen, '--flagfile=%s/none' % self.directory], 'none'),
        ([listen, '--users=%s/none' % self.directory], 'cannot read --users=%s/none: No such file' % self.directory),
        ([listen, '--cluster=kv'], '--cluster is of a group: say which with --group'),
        ([listen, '--group=file:///tmp/g/a', '--slots=1'], '--slots are of a cluster: say which with --cluster'),
        ([listen, '--group=file:///tmp/g/a', '--cluster=a'], '--cluster=a is the name of the group too'),
        ([listen, '--group=file:///tmp/g/a', '--cluster=.kv'], '--cluster must be a name'),
        ([listen, '--group=file:///tmp/g/a', '--cluster=kv', '--slots=0-4096'], 'bad --slots: slots 0-4096: from 0 to 4095'),
        ([listen, '--group=file:///tmp/g/a', '--cluster=kv', '--slots=5,5'], 'bad --slots: slots 5,5: one is there twice'),
        ([listen + ' b', '--group=file:///tmp/g/a', '--cluster=kv'], 'an address is without spaces'),
        ([listen, 'start'], 'not start'),
    ):
      with self.subTest(flags=flags):
        result = self.plain(*flags)
        self.assertEqual(result.returncode, BAD_FLAG, result.stderr)
        self.assertIn(expected, result.stderr)
        self.assertEqual(result.stdout, '')
        for line in result.stderr.rstrip('\n').split('\n'):
          self.assertRegex(line, LOG_LINE)

  def test_check_starts_nothing(self):
    result = self.plain('--check', '--listen=' + self.address, '--memory=64m', '--huge_pages=none')
    self.assertEqual(result.returncode, STOPPED, result.stdout + result.stderr)
    self.assertIn('good     a server can listen at ' + self.address, result.stdout)
    self.assertIn('advice   --huge_pages=none', result.stdout)
    self.assertEqual(os.listdir(self.directory), [])

  def test_check_finds_what_start_would(self):
    server = self.start('--listen=' + self.address)
    server.wait_for('msg="ready"')
    for flags, expected in (
        (['--listen=' + self.address], 'in use by a live server'),
        (['--listen=shm://%s/none/kv' % self.directory], 'create the directory first'),
        (['--listen=%s-b' % self.address, '--memory=2t', '--huge_pages=none'], 'ask for less'),
        (['--listen=%s-b' % self.address, '--memory=2t', '--huge_pages=2m'], 'nr_hugepages'),
        (['--listen=%s-b' % self.address, '--workers=0'], '1 to 64'),
        (['--listen=%s-b' % self.address, '--numa_node=1023'], 'no NUMA node 1023'),
    ):
      with self.subTest(flags=flags):
        result = self.plain('--check', '--memory=64m', *flags)
        self.assertEqual(result.returncode, OTHER, result.stdout)
        self.assertRegex(result.stdout, '(?m)^trouble  .*' + re.escape(expected))

  def test_a_group_stays_in_the_cluster_where_it_began(self):
    group = '--group=file://%s/groups/' % self.directory
    listen = '--listen=' + self.address
    first = self.start(listen, group + 'g0', '--cluster=kv', '--slots=0-2047', '--replicas=1')
    first.wait_for('msg="primary of the group"')
    for flags, expected in (
        ([group + 'g0', '--cluster=other'], 'group g0 is in cluster kv, and --cluster says other: '),
        ([group + 'g1', '--cluster=kv', '--slots=2047-4095'], 'group g0 of cluster kv began with slots 2047: group g1 '),
        ([group + 'g2', '--cluster=g0', '--slots=2048-4095'], 'is the name that of a group?'),
    ):
      with self.subTest(flags=flags):
        code, text = self.run_to_end(listen + '-b', *flags)
        self.assertIn(code, (BAD_FLAG, BAD_ADDRESS), text)
        self.assertIn('msg="cannot start" reason="' if code == BAD_ADDRESS else 'msg="cannot start"', text)
        self.assertIn(expected, text)
        self.assertNotIn('preparing memory', text)
    # Expect: one whose address cannot be used has not entered, so that other slots may be said.
    code, text = self.run_to_end(listen, group + 'g4', '--cluster=kv', '--slots=4000')
    self.assertEqual(code, BAD_ADDRESS, text)
    again = self.start(listen + '-e', group + 'g4', '--cluster=kv', '--slots=4001')
    again.wait_for('msg="primary of the group"')
    # Expect: without the flag, and with the same, it is welcome; --slots are of who begins.
    for flags in ([], ['--cluster=kv', '--slots=7']):
      other = self.start(listen + '-b', group + 'g0', *flags)
      other.wait_for('msg="ready"')
      other.process.terminate()
      self.assertEqual(other.end(), STOPPED, other.text())
    plain = self.start(listen + '-c', group + 'g3', '--replicas=1')
    plain.wait_for('msg="primary of the group"')
    code, text = self.run_to_end(listen + '-d', group + 'g3', '--cluster=kv', '--slots=4095')
    self.assertEqual(code, BAD_ADDRESS, text)
    self.assertIn('group g3 is in no cluster, and --cluster says kv: ', text)

  def test_flags_come_from_a_file_too(self):
    path = self.directory + '/flags'
    with open(path, 'w', encoding='ascii') as file:
      file.write('# where\n--listen=%s\n--workers=2\n' % self.address)
    server = self.start('--flagfile=' + path)
    self.assertIn('workers=2', server.wait_for('msg="ready"'))

  def test_the_sample_names_every_flag_with_its_default(self):
    printed = self.plain('--flagfile=' + SAMPLE, '--print_flags')
    self.assertEqual(printed.returncode, STOPPED, printed.stderr)
    with open(SAMPLE, encoding='utf-8') as file:
      sample = flags_of(file.read())
    defaults = flags_of(self.plain('--print_flags').stdout)
    self.assertEqual(set(sample), set(defaults))
    self.assertEqual({name: sample[name] for name, value in defaults.items() if value},
                     {name: value for name, value in defaults.items() if value})
    self.assertIn('--listen=shm:///run/farlook/kv', printed.stdout.split('\n'))

  def test_printed_flags_can_be_read_back(self):
    path = self.directory + '/flags'
    flags = ['--listen=%s,%s-b' % (self.address, self.address), '--memory=64m', '--workers=3', '--keep_sessions=90s']
    printed = self.plain('--print_flags', *flags)
    with open(path, 'w', encoding='ascii') as file:
      file.write(printed.stdout)
    self.assertIn('--memory=64MiB\n', printed.stdout)
    self.assertEqual(self.plain('--print_flags', '--flagfile=' + path).stdout, printed.stdout)
    self.assertEqual(os.listdir(self.directory), ['flags'])

  def test_help_and_version(self):
    for flag in ('--help', '-h'):
      result = self.plain(flag)
      self.assertEqual(result.returncode, STOPPED)
      self.assertEqual(result.stderr, '')
      for name in ('listen', 'memory', 'huge_pages', 'numa_node', 'workers', 'hash_seed', 'evict', 'max_value_bytes',
                   'window', 'max_clients', 'max_kept_sessions', 'keep_sessions', 'spin_us', 'drain_timeout', 'log_level',
                   'flagfile', 'liveness', 'check', 'print_flags', 'group', 'cluster', 'slots'):
        self.assertIn('--' + name, result.stdout)
    result = self.plain('--version')
    self.assertEqual(result.returncode, STOPPED)
    self.assertRegex(result.stdout, r'^kv_server \d+\.\d+\.\d+\n$')


if __name__ == '__main__':
  KV_SERVER = os.path.abspath(sys.argv.pop(1))
  SAMPLE = os.path.abspath(sys.argv.pop(1))
  unittest.main()
