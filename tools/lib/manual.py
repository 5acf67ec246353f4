"""Manual pages and completions, from what the programs say of themselves: --help, which they make of their tables.

    manual.py DIRECTORY KV_SERVER KV_CLI FARLOOK_EXPORTER KV_CLUSTER

    DIRECTORY/man1/*.1           needs scdoc
    DIRECTORY/bash/NAME          for /usr/share/bash-completion/completions
    DIRECTORY/zsh/_NAME          for zsh's fpath
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

FLAG = re.compile(r"  (--\w+(?:=\S+)?(?:, --\w+(?:=\S+)?)*)(?: +(.*))?$")
# Operands: KEY [VALUE], or words to choose one from, put|get.
COMMAND = re.compile(r"  ([a-z]+(?: [A-Z\[]\S*| [a-z]+\|\S*)*)(?: {2,}(.*))?$")
CODE = re.compile(r" +(\d+)  (.*)$")
# Flags that the help has no words for.
OF_ALL = {"help": "explain this program", "version": "print its version"}
# The lines of Abseil's own help: --name (help); default: value;
ABSEIL = re.compile(r"--(\w+) \((.*)\);\s+default: (.*);")


DOCUMENTS = ("Files that are named docs/NAME.md are in /usr/share/doc/farlook-doc/docs, of the package farlook-doc, and in "
             "docs of the sources.")


class ManualError(Exception):
    """The programs say something that this does not understand."""


@dataclasses.dataclass
class Flag:
    name: str
    metavar: str  # empty: none
    help: str


@dataclasses.dataclass
class Command:
    name: str
    operands: str
    summary: str
    details: str
    flags: list

    def choices(self):
        """The possible values of its first operand; none: anything."""
        first = self.operands.partition(" ")[0]
        return first.split("|") if "|" in first and first[0].islower() else []


@dataclasses.dataclass
class Program:
    name: str
    summary: str
    usage: list  # of command lines, with what they mean
    sections: list  # (heading, text)
    flags: list
    codes: list  # (number, meaning)
    commands: list
    see: str
    takes_folder: bool = False  # as its operand


def ask(*command):
    """A program's output; Abseil's help ends with 1."""
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False,
                          stdin=subprocess.DEVNULL).stdout


def rows(lines, pattern):
    """[(left, right)] of the lines that match `pattern`, each with the lines below that are indented deeper."""
    found = []
    for line in lines:
        match = pattern.match(line)
        if match:
            found.append([match.group(1), match.group(2) or ""])
        elif found and re.match(r"   +\S", line):
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
        elif found:
            break
    return [tuple(row) for row in found]


def flags_in(lines):
    flags = []
    for left, text in rows(lines, FLAG):
        for each in left.split(", "):
            name, _, metavar = each[2:].partition("=")
            flags.append(Flag(name, metavar, text or OF_ALL[name]))
    return flags


def after(lines, heading):
    """The lines after a line that is `heading`."""
    if heading not in lines:
        raise ManualError(f"no line {heading!r} in the help")
    return lines[lines.index(heading) + 1:]


def until(lines, heading):
    return lines[:lines.index(heading)] if heading in lines else lines


def codes_in(lines):
    return rows(after(lines, "Exit codes:"), CODE)


def kv_server(binary):
    lines = ask(binary, "--help").splitlines()
    flags = flags_in(lines)
    # Expect: the help has all that the table has.
    known = set(re.findall(r"^(?:# )?--(\w+)=", ask(binary, "--print_flags"), re.MULTILINE))
    missing = known - {flag.name for flag in flags}
    if missing or not known:
        raise ManualError(f"kv_server --help does not tell of {sorted(missing)}")
    notes = "\n".join(until(lines, "Exit codes:")).strip().rpartition("\n\n")[2]
    return Program("kv_server", "Farlook's memory server", [("kv_server --listen=_ADDRESS_ [_FLAGS_]", "")],
                   [("DESCRIPTION", lines[0]), ("NOTES", notes)], flags, codes_in(lines), [],
                   "*kv_cli*(1), *farlook_exporter*(1), /etc/farlook/kv_server.flags")


def kv_cli_command(binary, name, operands, everywhere):
    lines = ask(binary, "help", name).splitlines()
    if len(lines) < 3 or not lines[0].startswith(f"kv_cli [FLAGS] {name}"):
        raise ManualError(f"kv_cli help {name} says nothing")
    flags = flags_in(after(lines, "Flags of this command:")) if "Flags of this command:" in lines else []
    blank = lines.index("", 2)
    end = next(i for i, line in enumerate(lines) if line.startswith(("Flags of this", "Flags of every")))
    return Command(name, operands, " ".join(lines[2:blank]), "\n".join(lines[blank:end]).strip("\n"),
                   flags + [flag for flag in everywhere if f"--{flag.name}" in " ".join(lines[-2:]).split()])


def kv_cli(binary):
    lines = ask(binary, "--help").splitlines()
    flags = flags_in(after(lines, "Flags of every command:"))
    commands = []
    for left, _ in rows(after(lines, "Commands:"), COMMAND):
        name, _, operands = left.partition(" ")
        commands.append(kv_cli_command(binary, name, operands, flags))
    if not commands or commands[-1].name != "help":
        raise ManualError(f"kv_cli --help tells of {len(commands)} commands, and help is not the last one")
    sessions = until(after(lines, "Sessions:"), "Example:")
    return Program("kv_cli", "reads and writes a Farlook table",
                   [("kv_cli [_FLAGS_] _COMMAND_ [_OPERANDS_]", "One command."),
                    ("kv_cli [_FLAGS_]", "A session: commands line by line from standard input.")],
                   [("SESSIONS", "\n".join(sessions)), ("EXAMPLE", "\n".join(after(lines, "Example:")))],
                   flags, codes_in(lines), commands, "*kv_server*(1)")


def farlook_exporter(binary):
    text = ask(binary, "--help")
    flags = [Flag(name, "VALUE", f"{' '.join(help.split())} (default: {default})")
             for name, help, default in ABSEIL.findall(re.sub(r"\n {6,}", " ", text))]
    if len(flags) < 3:
        raise ManualError("farlook_exporter --help tells of no flags")
    flags += [Flag(name, "", help) for name, help in OF_ALL.items()]
    body = text.partition(": ")[2].partition("\n  Flags")[0].strip().splitlines()
    return Program("farlook_exporter", "serves a Farlook server's figures to Prometheus",
                   [("farlook_exporter --address=_ADDRESS_ [_FLAGS_]", "")], [("DESCRIPTION", "\n".join(body))], flags, [],
                   [], "*kv_server*(1)")


def kv_cluster(script):
    lines = ask(script, "--help").splitlines()
    notes = "\n".join(until(lines, "Exit codes:")).strip().split("\n\n")[3:]
    return Program("kv_cluster", "runs a group of Farlook servers on one host, for development",
                   [("kv_cluster [_FLAGS_] _DIR_ [-- _FLAGS of kv_server_]", "")],
                   [("DESCRIPTION", lines[0]), ("NOTES", "\n\n".join(notes))], flags_in(lines), codes_in(lines), [],
                   "*kv_server*(1), *kv_cli*(1)", takes_folder=True)


def ycsb(binary):
    """Under the name that packages give it; its options have one dash, and there is no completion for them."""
    text = re.sub(r"\bycsb -", "farlook_ycsb -", ask(binary, "-help")).replace("bench/workloads", "/usr/share/farlook/workloads")
    if "Exit codes:" not in text:
        raise ManualError("ycsb -help tells of no exit codes")
    return Program("farlook_ycsb", "runs the YCSB core workloads", [("farlook_ycsb -db _NAME_ -P _FILE_ [_OPTIONS_]", "")],
                   [("DESCRIPTION", text.partition("\n")[2].strip("\n"))], [], [], [], "*kv_server*(1)")


# ---- Manual pages, as scdoc takes them.


def plain(text):
    return re.sub(r"([\\*_`<>#~\[\].-])", r"\\\1", text)


def paragraphs(text):
    """Text as in the help: indented lines stay as they are."""
    out, literal = [], False
    for line in text.splitlines():
        indented = line.startswith("  ")
        if indented != literal and (line or literal):
            out.append("```" if literal or indented else "")
            literal = indented
            if not literal:
                out.append("")
        out.append(line[2:] if indented else plain(line))
    return out + (["```"] if literal else [])


def flag_lines(flags):
    out = []
    for flag in flags:
        value = f"=_{plain(flag.metavar)}_" if flag.metavar else ""
        out += [f"*--{plain(flag.name)}*{value}", f"\t{plain(flag.help)}", ""]
    return out


def manual_page(program):
    out = [f"{program.name}(1)", "", "# NAME", "", f"{program.name} - {program.summary}", "", "# SYNOPSIS", ""]
    for line, meaning in program.usage:
        head, _, rest = line.partition(" ")
        out += [f"*{head}* {rest}", ""] + ([f"\t{meaning}", ""] if meaning else [])
    for heading, text in program.sections:
        if heading == "DESCRIPTION":
            out += [f"# {heading}", "", *paragraphs(text), ""]
    if program.commands:
        out += ["# COMMANDS", ""]
    everywhere = {flag.name for flag in program.flags}
    for command in program.commands:
        out += [f"## {command.name} {command.operands}".rstrip(), "", plain(command.summary.capitalize()) + ".", "",
                *paragraphs(command.details), "", *flag_lines([f for f in command.flags if f.name not in everywhere])]
    if program.flags:
        out += ["# OPTIONS", "", *flag_lines(program.flags)]
    for heading, text in program.sections:
        if heading != "DESCRIPTION":
            out += [f"# {heading}", "", *paragraphs(text), ""]
    if program.codes:
        out += ["# EXIT STATUS", ""]
        for number, meaning in program.codes:
            out += [f"*{number}*", f"\t{plain(meaning)}", ""]
    out += ["# SEE ALSO", "", program.see, "", plain(DOCUMENTS)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


# ---- Completion.


def words_of(flags):
    return " ".join(f"--{flag.name}{'=' if flag.metavar else ''}" for flag in flags)


BASH = """\
# Completion of {name} in bash.
_{name}() {{
  local text=${{COMP_LINE:0:COMP_POINT}} command= words flags choices=
  local word=${{text##*[[:blank:]]}}
  read -ra words <<<"${{text%"$word"}}"
  for command in "${{words[@]:1}}" ''; do
    case $command in
{cases}
    esac
  done
  case $word in
    {files}) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "${{word#*=}}") ;;
    -*)
      mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
      if [[ ${{COMPREPLY[0]-}} == *= ]]; then compopt -o nospace 2>/dev/null; fi
      ;;
{rest}
  esac
}}
complete -F _{name} {name}
"""


def bash(program):
    everything = list(program.flags) + [flag for command in program.commands for flag in command.flags]
    files = "|".join(sorted({f"--{flag.name}=*" for flag in everything if flag.metavar == "FILE"})) or "--nothing=*"
    cases = []
    for command in program.commands:
        choices = f" choices='{' '.join(command.choices())}';" if command.choices() else ""
        cases.append(f"      {command.name}) flags='{words_of(command.flags)}';{choices} break ;;")
    cases.append(f"      '') flags='{words_of(program.flags)}' ;;")
    names = " ".join(command.name for command in program.commands)
    rest = f"""    *)
      # An operand is a key or a file; the first word is a command.
      if [[ -z $command || $command == help ]]; then mapfile -t COMPREPLY < <(compgen -W '{names}' -- "$word")
      elif [[ -n $choices && ${{words[-1]}} == "$command" ]]; then mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
      else compopt -o default 2>/dev/null; COMPREPLY=(); fi
      ;;""" if names else "    *) COMPREPLY=() ;;"
    if program.takes_folder:
        rest = """    *) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;"""
    return BASH.format(name=program.name, cases="\n".join(cases), files=files, rest=rest)


def zsh_quoted(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_flag(flag):
    value = f":{flag.metavar}:{'_files' if flag.metavar == 'FILE' else ''}" if flag.metavar else ""
    value = value.replace("[", "").replace("]", "")
    return f"'--{flag.name}{'=' if value else ''}[{zsh_quoted(flag.help)}]{value}'"


def zsh(program):
    flags = " \\\n  ".join(zsh_flag(flag) for flag in program.flags)
    out = [f"#compdef {program.name}", "# Completion of " + program.name + " in zsh."]
    if not program.commands:
        operand = " \\\n  ':folder:_directories'" if program.takes_folder else ""
        return "\n".join(out + [f"_arguments \\\n  {flags}{operand}", ""])
    out += ["local state line", "local -a names", "names=("]
    out += [f"  '{command.name}:{zsh_quoted(command.summary)}'" for command in program.commands]
    out += [")", f"_arguments -C \\\n  {flags} \\\n  '1:command:->command' \\\n  '*::operand:->operand'",
            "case $state in", "  command) _describe command names ;;", "  operand)", "    case $words[1] in"]
    for command in program.commands:
        each = " ".join(zsh_flag(flag) for flag in command.flags)
        if command.choices():
            each += f" '1:what:({' '.join(command.choices())})'"
        out.append(f"      {command.name}) " + ("_describe command names ;;" if command.name == "help" else
                                                f"_arguments {each} '*:operand:_default' ;;"))
    return "\n".join(out + ["    esac", "    ;;", "esac", ""])


def programs(server, cli, exporter, cluster):
    return [kv_server(server), kv_cli(cli), farlook_exporter(exporter), kv_cluster(cluster)]


def write_page(directory, program):
    page = subprocess.run(["scdoc"], input=manual_page(program), stdout=subprocess.PIPE, text=True, check=True).stdout
    (directory / f"{program.name}.1").write_text(page, encoding="utf-8")


def write_all(directory, every):
    for folder in ("man1", "bash", "zsh"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for program in every:
        write_page(directory / "man1", program)
        (directory / "bash" / program.name).write_text(bash(program), encoding="utf-8")
        (directory / "zsh" / f"_{program.name}").write_text(zsh(program), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    write_all(pathlib.Path(sys.argv[1]), programs(*sys.argv[2:]))
