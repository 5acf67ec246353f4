#!/usr/bin/env python3
"""Tests of the kv_server program: flags, signals, exit codes, log lines, readiness.

    kv_server_test.py PATH_OF_KV_SERVER PATH_OF_KV_SERVER.FLAGS [unittest arguments]
"""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, 'server/testing')
import kv_server  # pylint: disable=wrong-import-position

SAMPLE = ''  # server/daemon/kv_server.flags
TIMEOUT_S = 60

STOPPED, BAD_FLAG, BAD_ADDRESS, NO_RESOURCES, NO_PERMISSION, OTHER = range(6)

LOG_LINE = re.compile(
    r'ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z level=(debug|info|warning|error) '
    r'msg="[^"]*"( [a-z_]+=("(\\.|[^"\\])*"|[^\s"=]+))*$')


def flags_of(text):
  """Returns the flags of a flagfile, including commented ones."""
  words = [line.strip().lstrip('# ') for line in text.split('\n')]
  return dict(word[2:].split('=', 1) for word in words if word.startswith('--'))


class KvServerTest(kv_server.TestCase):

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
    # Expect: systemd goes on waiting, however many steps there are.
    for text in said[:-1]:
      self.assertIn('EXTEND_TIMEOUT_USEC=300000000', text.split('\n'))

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
    self.assertIn('address=' + self.address, server.wait_for('every process that may write to the socket file may read'))

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
    # Expect: flags before the mistake are not applied, so they are reported once the mistake is gone.
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
    # Expect: it still holds its address, and stops normally.
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
      self.assertIn('STATUS=preparing memory', notify.recv(4096).decode().split('\n'))
      message = notify.recv(4096).decode()
      while 'STATUS=preparing memory, ' in message:
        message = notify.recv(4096).decode()
      self.assertIn('READY=1', message.split('\n'))
      self.assertIn(self.address, message)
      server.process.terminate()
      self.assertIn('STOPPING=1', notify.recv(4096).decode().split('\n'))
      self.assertEqual(notify.recv(4096).decode(), 'EXTEND_TIMEOUT_USEC=300000000\nSTATUS=giving memory back')
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

    # A thread that wakes up periodically never leaves two seconds without a switch.
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
      before = switches()
      time.sleep(2)
      after = switches()
      if sum(after[task] != before.get(task) for task in after) == 0:
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

  def test_an_address_that_it_has_already_is_said(self):
    with socket.socket() as sock:
      sock.bind(('127.0.0.1', 0))
      port = sock.getsockname()[1]
    for listen, expected in (('%s,shm://%s//kv' % (self.address, self.directory), 'in use by this process: name it once'),
                             ('tcp://127.0.0.1:%d,tcp://0.0.0.0:%d' % (port, port),
                              'in use by this process, at another of its addresses')):
      code, text = self.run_to_end('--listen=' + listen)
      self.assertEqual(code, BAD_ADDRESS, text)
      self.assertIn(expected, text)

  def test_a_removed_socket_is_said(self):
    first = self.start('--listen=' + self.address)
    first.wait_for('msg="ready"')
    os.unlink(self.path)
    self.assertIn('was removed', first.wait_for('msg="no client can connect until this is resolved"'))
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
    # No user may create files there, root included.
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
    self.assertNotIn('too few file descriptors for --max_clients', server.text())
    with open('/proc/%d/limits' % server.process.pid, encoding='ascii') as limits:
      line = [line for line in limits if line.startswith('Max open files')][0]
    # One for each client, and one for each client that is kicked within an atomic.
    self.assertGreater(int(line.split()[3]), 1000)
    # Expect: a limit without room for the latter is accepted.
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 700))
    server = self.start('--listen=%s-b' % self.address, '--max_clients=500', preexec_fn=limit)
    server.wait_for('msg="ready"')
    self.assertNotIn('too few file descriptors for --max_clients', server.text())

  def test_too_few_descriptors_for_its_clients_are_said(self):
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    server = self.start('--listen=' + self.address, preexec_fn=limit)
    server.wait_for('msg="ready"')
    self.assertRegex(server.text(), r'msg="too few file descriptors for --max_clients" reason="--max_clients=1024 needs \d+ file')
    check = subprocess.run([self.program, '--check', '--listen=%s-b' % self.address, '--memory=64m'], preexec_fn=limit,
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
        ([listen, '--max_value_bytes=513m'], '512MiB'),
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
        ([listen, '--flagfile=' + self.directory], 'cannot read the flagfile %s: Is a directory' % self.directory),
        ([listen, '--users=%s/none' % self.directory], 'cannot read --users=%s/none: No such file' % self.directory),
        ([listen, '--cluster=kv'], '--cluster requires --group'),
        ([listen, '--group=file:///tmp/g/a', '--slots=1'], '--slots requires --cluster'),
        (['--listen=tcp://0.0.0.0:7471', '--group=file:///tmp/g/a'], 'connect to this very address'),
        (['--listen=tcp://[::]:7471', '--group=file:///tmp/g/a'], 'connect to this very address'),
        (['--listen=tcp://127.0.0.1:7471', '--group=file:///tmp/g/a', '--users=users'], '--group_user is missing'),
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
        self.assert_trouble(flags, expected)

  def assert_trouble(self, flags, expected, **kwargs):
    result = subprocess.run([self.program, '--check', '--memory=64m', *flags], capture_output=True, text=True,
                            timeout=TIMEOUT_S, check=False, **kwargs)
    self.assertEqual(result.returncode, OTHER, result.stdout + result.stderr)
    self.assertRegex(result.stdout, '(?m)^trouble  .*' + re.escape(expected))

  def write(self, name, text, mode=0o600):
    path = '%s/%s' % (self.directory, name)
    with open(path, 'w', encoding='utf-8') as file:
      file.write(text)
    os.chmod(path, mode)
    return path

  def test_check_and_start_find_the_same_in_files_and_groups(self):
    listen = '--listen=' + self.address
    user = 'group read,admin secret=0123456789abcdef0123456789abcdef'
    for flags, expected in (
        (['--users=%s/none' % self.directory], 'cannot read --users=%s/none: No such file' % self.directory),
        (['--users=' + self.write('wrong', 'app fly uid=1')], 'line 1: "fly" is no role'),
        (['--users=' + self.write('open', user, 0o644)], 'chmod u=rw,g=r,o= '),
        (['--socket_group=no_such_group'], 'this host has no group "no_such_group"'),
        (['--group=file://%s/mistyped/g' % self.directory], 'mistyped is not there: correct its name'),
        (['--group=etcd://127.0.0.1:1/g'], '127.0.0.1:1'),
        (['--group=file://%s/g' % self.directory, '--users=' + self.write('users', user), '--group_user=nobody'],
         'that user is not there'),
    ):
      with self.subTest(flags=flags):
        code, text = self.run_to_end(listen, *flags)
        self.assertNotEqual(code, STOPPED)
        self.assertIn(expected, text.replace('\\"', '"'))
        self.assert_trouble([listen, *flags], expected)
    self.assertFalse(os.path.exists(self.directory + '/mistyped'))

  def test_check_says_whether_the_group_is_there(self):
    flags = ['--listen=%s-b' % self.address, '--memory=64m', '--group=file://%s/g' % self.directory]
    before = self.plain('--check', *flags)
    self.assertEqual(before.returncode, STOPPED, before.stdout)
    self.assertRegex(before.stdout, '(?m)^advice   there is no group .* this server begins it')
    self.assertEqual(os.listdir(self.directory), [])
    self.start('--listen=' + self.address, flags[-1], '--replicas=1').wait_for('msg="primary of the group"')
    after = self.plain('--check', *flags)
    self.assertEqual(after.returncode, STOPPED, after.stdout)
    self.assertRegex(after.stdout, '(?m)^good     there is a group ')

  def test_a_server_that_may_not_join_says_why_again_and_again(self):
    group = '--group=file://%s/g' % self.directory
    self.start('--listen=' + self.address, group, '--max_value_bytes=2m', '--replicas=3', '--hash_seed=7').wait_for(
        'msg="primary of the group"')
    other = self.start('--listen=%s-b' % self.address, group, '--max_value_bytes=1m', '--hash_seed=8')
    reason = '--max_value_bytes=1MiB, and the group has 2MiB: give all members the same'
    for flag, value, of_group in (('--replicas', 2, 3), ('--hash_seed', 8, 7)):
      other.wait_for('msg="a flag is without effect, as the group has another value" flag=%s value=%d group=%d' %
                     (flag, value, of_group))
    self.assertIn('reason="%s"' % reason, other.wait_for('msg="this server may not join its group"'))
    other.lines = []
    self.assertIn('reason="%s"' % reason, other.wait_for('msg="this server may not join its group"'))
    for flags, expected in ((['--max_value_bytes=1m'], reason),
                            (['--memory=32m', '--max_value_bytes=2m'], '--memory=32MiB, and the group needs 64MiB'),
                            (['--max_value_bytes=2m'], None)):
      check = self.plain('--check', '--listen=%s-c' % self.address, '--memory=64m', group, *flags)
      self.assertEqual(check.returncode, STOPPED if expected is None else OTHER, check.stdout)
      self.assertIn(expected or 'good     there is a group', check.stdout)

  def test_an_address_that_leads_elsewhere_is_no_reason_to_begin_anew(self):
    group = '--group=file://%s/g' % self.directory
    self.start('--listen=' + self.address, group).wait_for('msg="primary of the group"')
    # As between hosts, where the primary may be alive.
    with socket.create_server(('127.0.0.1', 0)) as free:
      port = free.getsockname()[1]
    other = self.start('--listen=tcp://127.0.0.1:%d' % port, group)
    line = other.wait_for('msg="this server may not join its group"')
    self.assertIn('is reached from its own host only', line)
    self.assertIn('all members need addresses of one kind', line)

  def test_a_limit_of_file_sizes_is_said(self):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    code, text = self.run_to_end('--listen=' + self.address, preexec_fn=limit)
    self.assertEqual(code, NO_RESOURCES, text)
    self.assertIn('ulimit -f', text)
    self.assert_trouble(['--listen=' + self.address], 'ulimit -f', preexec_fn=limit)

  def test_a_limit_of_addresses_is_said(self):
    server = self.start('--listen=' + self.address)
    server.wait_for('msg="ready"')
    with open('/proc/%d/status' % server.process.pid, encoding='utf-8') as status:
      mapped = int(re.search(r'VmPeak:\s+(\d+) kB', status.read())[1]) << 10
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (mapped + (1 << 40), mapped + (1 << 40)))
    self.assert_trouble(['--listen=%s-b' % self.address, '--memory=2t'], 'ulimit -v', preexec_fn=limit)

  def test_a_log_that_has_grown_to_the_limit_does_not_end_it(self):
    def limit():
      resource.setrlimit(resource.RLIMIT_FSIZE, (128 << 20, 128 << 20))
      os.lseek(2, 128 << 20, os.SEEK_SET)

    with open(self.directory + '/log', 'wb') as log:
      process = subprocess.Popen([self.program, '--listen=' + self.address, '--memory=64m', '--huge_pages=none'],
                                 stderr=log, preexec_fn=limit)
    self.addCleanup(process.wait)
    self.addCleanup(process.kill)
    deadline = time.monotonic() + TIMEOUT_S
    while not os.path.exists(self.path):
      self.assertIsNone(process.poll())
      self.assertLess(time.monotonic(), deadline)
      time.sleep(0.05)
    process.terminate()
    self.assertEqual(process.wait(TIMEOUT_S), STOPPED)

  def test_a_group_stays_in_the_cluster_where_it_began(self):
    group = '--group=file://%s/' % self.directory
    listen = '--listen=' + self.address
    first = self.start(listen, group + 'g0', '--cluster=kv', '--slots=0-2047', '--replicas=1')
    first.wait_for('msg="primary of the group"')
    for flags, expected in (
        ([group + 'g0', '--cluster=other'], 'group g0 is in cluster kv, and --cluster says other: '),
        ([group + 'g1', '--cluster=kv', '--slots=2047-4095'], 'group g0 of cluster kv began with slots 2047: group g1 '),
        ([group + 'g2', '--cluster=g0', '--slots=2048-4095'], 'is the name that of a group?'),
    ):
      with self.subTest(flags=flags):
        # Expect: a check reports it too, and enters no cluster.
        self.assert_trouble([listen + '-b', *flags], expected)
        code, text = self.run_to_end(listen + '-b', *flags)
        self.assertIn(code, (BAD_FLAG, BAD_ADDRESS), text)
        self.assertIn('msg="cannot start" reason="' if code == BAD_ADDRESS else 'msg="cannot start"', text)
        self.assertIn(expected, text)
        self.assertNotIn('preparing memory', text)
    # Expect: if a check finds no trouble, the group can be begun.
    for _ in range(2):
      check = self.plain('--check', listen + '-f', '--memory=64m', group + 'g5', '--cluster=kv', '--slots=3000')
      self.assertEqual(check.returncode, STOPPED, check.stdout)
    # Expect: a server whose address cannot be used has not entered the cluster, so other slots may be given.
    code, text = self.run_to_end(listen, group + 'g4', '--cluster=kv', '--slots=4000')
    self.assertEqual(code, BAD_ADDRESS, text)
    again = self.start(listen + '-e', group + 'g4', '--cluster=kv', '--slots=3000-3001,4001')
    again.wait_for('msg="primary of the group"')
    # Expect: it is accepted without the flag, and with the same one; --slots matter only for the server that begins.
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
                   'flagfile', 'liveness', 'check', 'print_flags', 'group', 'cluster', 'slots',
                   'memory_file', 'begin_empty'):
        self.assertIn('--' + name, result.stdout)
    result = self.plain('--version')
    self.assertEqual(result.returncode, STOPPED)
    self.assertRegex(result.stdout, r'^kv_server \d+\.\d+\.\d+\n$')


if __name__ == '__main__':
  kv_server.TestCase.program = os.path.abspath(sys.argv.pop(1))
  SAMPLE = os.path.abspath(sys.argv.pop(1))
  unittest.main()
