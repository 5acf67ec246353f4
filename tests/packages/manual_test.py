#!/usr/bin/env python3
"""Manual pages and completions name every flag and every command, and shells accept them.

manual_test.py KV_SERVER KV_CLI FARLOOK_EXPORTER KV_CLUSTER
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, 'tools/lib')
import manual  # pylint: disable=wrong-import-position

PROGRAMS = []


def run(*command, **kwargs):
  done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **kwargs)
  assert done.returncode == 0, f'{command}: {done.stdout}{done.stderr}'
  return done.stdout + done.stderr


class ManualTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls.scratch = tempfile.TemporaryDirectory(dir='/tmp')
    cls.addClassCleanup(cls.scratch.cleanup)
    cls.directory = pathlib.Path(cls.scratch.name)
    cls.server, cls.cli, cls.exporter, cls.cluster = cls.programs = manual.programs(*PROGRAMS)
    manual.write_all(cls.directory, cls.programs)

  def complete(self, line):
    """Returns what bash would offer at the end of `line`."""
    name = line.split()[0]
    words = re.split(r'([=:])|\s+', line)
    script = (f'source {self.directory}/bash/{name}; COMP_LINE={line!r} COMP_POINT={len(line)} '
              f'COMP_WORDS=({" ".join(repr(word) for word in words if word)}); _{name}; printf "%s\\n" "${{COMPREPLY[@]}}"')
    return run('bash', '--norc', '-uc', script, cwd='/').split()

  def test_the_server_has_the_flags_of_its_table(self):
    table = set(re.findall(r'^(?:# )?--(\w+)=', manual.ask(PROGRAMS[0], '--print_flags'), re.MULTILINE))
    self.assertGreater(len(table), 20)
    self.assertLessEqual(table, {flag.name for flag in self.server.flags})
    # Expect: the test would notice a flag that the help does not name.
    text = manual.ask(PROGRAMS[0], '--help').replace('--liveness=DURATION', '  of liveness')
    self.assertLess({flag.name for flag in manual.flags_in(text.splitlines())}, {flag.name for flag in self.server.flags})

  def test_no_command_is_left_out(self):
    # Expect: the commands that the program itself completes.
    overview = manual.ask(PROGRAMS[1], '--help').partition('\nCommands:\n')[2].partition('\n\n')[0]
    names = re.findall(r'(?m)^  ([a-z]+)', overview)
    self.assertEqual([command.name for command in self.cli.commands], names)
    self.assertLessEqual({'get', 'cluster', 'ping', 'doctor', 'help'}, set(names))

  def test_pages_tell_of_everything(self):
    for program in self.programs:
      page = self.directory / f'man1/{program.name}.1'
      shown = run('man', '--warnings', '-l', page, env={'MANWIDTH': '200', 'LC_ALL': 'C.UTF-8', 'PATH': '/usr/bin:/bin'})
      self.assertNotIn('warning', shown.splitlines()[0])
      for flag in program.flags + [flag for command in program.commands for flag in command.flags]:
        self.assertRegex(shown, rf'(?m)^ +--{flag.name}\b', program.name)
        self.assertNotEqual(flag.help, '')
      for command in program.commands:
        self.assertIn(f'   {command.name} {command.operands}'.rstrip() + '\n', shown)
        self.assertIn(command.summary.capitalize()[:40], shown)
      for number, meaning in program.codes:
        self.assertRegex(shown, rf'\n +{number}\n +{re.escape(meaning[:30])}')

  def test_bash_completes(self):
    names = {command.name for command in self.cli.commands}
    self.assertGreater(len(names), 20)
    self.assertEqual(set(self.complete('kv_cli ')), names)
    self.assertEqual(self.complete('kv_cli --json to'), ['touch', 'top'])
    self.assertEqual(set(self.complete('kv_cli help ')), names)
    self.assertEqual(self.complete('kv_cli cluster re'), ['resize', 'remove', 'rebalance'])
    self.assertEqual(self.complete('kv_cli --json cluster add --dr'), ['--dry_run'])
    self.assertEqual(self.complete('kv_cli cluster add re'), [])
    self.assertEqual(self.complete('kv_cli put --f'), ['--file='])
    self.assertEqual(self.complete('kv_cli get --f'), [])
    self.assertEqual(self.complete('kv_cli put key --file=/etc/hostn'), ['/etc/hostname'])
    self.assertEqual(self.complete('kv_cli --timeo'), ['--timeout_ms='])
    self.assertEqual(self.complete('kv_server --evi'), ['--evict'])
    self.assertEqual(self.complete('kv_server --flagfile=/etc/hostn'), ['/etc/hostname'])
    self.assertEqual(self.complete('farlook_exporter --l'), ['--listen='])
    self.assertEqual(self.complete('kv_cluster --repl'), ['--replicas='])
    self.assertEqual(self.complete('kv_cluster --ad'), ['--add'])
    self.assertEqual(self.complete('kv_cluster --tcp /et'), ['/etc'])

  def zsh(self, name, state, words):
    """Returns what the completion passes to zsh's own functions, replaced by stubs; `state` is what _arguments
    finds."""
    stubs = (f'_arguments() {{ print -rl -- "$@"; state={state} }}\n_describe() {{ print -rl -- "${{(@P)2}}" }}\n'
             f'words=({words})\n')
    return run('zsh', '-fc', f'{stubs}_test() {{ source {self.directory}/zsh/_{name} }}; _test')

  def test_zsh_is_told_of_everything(self):
    for program in self.programs:
      told = self.zsh(program.name, 'command', '')
      for flag in program.flags:
        self.assertRegex(told, rf'(?m)^--{flag.name}=?\[', program.name)
      for command in program.commands:
        self.assertRegex(told, rf'(?m)^{command.name}:')
    for command in self.cli.commands:
      told = self.zsh('kv_cli', 'operand', f'{command.name} x')
      for flag in command.flags if command.name != 'help' else []:
        self.assertRegex(told, rf'(?m)^--{flag.name}=?\[', command.name)
      if command.name == 'cluster':
        self.assertIn('1:what:(status handover resize add remove rebalance cancel)', told)


if __name__ == '__main__':
  PROGRAMS = [pathlib.Path(path).absolute() for path in sys.argv[1:5]]
  del sys.argv[1:5]
  unittest.main()
