"""Runs the README's commands, in one shell as a reader would, and compares their output.

A ```console block holds commands, each after "$ ", and their output; "..." stands for anything. A ```cpp block is a
piece of a source that the README names, one of docs/guide.md a piece of tests/guide. Links and paths in `code` lead to
files that exist.
"""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile

# Commands that take too long in full, or run this program.
INSTEAD = {"tools/demo": "tools/demo --quick", "tools/test": "tools/test --list"}
SOURCES = ["base", "bench", "client", "cluster", "kv", "rdma", "server", "tests"]
ADDRESS = "/tmp/farlook"  # moved to a directory of the run's own
TIMEOUT_S = 900


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def steps(text):
    """(command, expected output) of all console blocks, in order."""
    found = []
    for block in blocks(text, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], []])
            elif found:
                found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def script(commands, directory):
    """A bash script that runs `commands`, each between two marks in its output."""
    lines = ["set -m", f"log={shlex.quote(str(directory))}/background.log"]
    for number, command in enumerate(commands):
        command = INSTEAD.get(command, command).replace(ADDRESS, f"{directory}/farlook")
        lines.append(f"echo; echo '@@begin {number}'")
        if command.endswith("&"):
            # Its log is not part of the output of the next commands, which wait for it as a reader would.
            lines.append(f"{command[:-1]} >$log 2>&1 &")
            lines.append(f"for i in $(seq 200); do [ -e {directory}/farlook ] && break; sleep 0.1; done")
            lines.append(f"[ -e {directory}/farlook ]; code=$?")
        else:
            lines.append(f"{command} </dev/null; code=$?")
        lines.append(f"echo; echo '@@end {number}' $code")
    # Programs that still run were not ended by the README.
    lines += ["jobs -r >&2", "for i in $(seq 50); do [ -z \"$(jobs -r)\" ] && break; sleep 0.1; done",
              "echo; echo '@@running' $(jobs -r | wc -l)", "kill $(jobs -p) 2>/dev/null", "[ ! -e $log ] || cat $log"]
    return "\n".join(lines) + "\n"


def matches(expected, printed):
    if not expected:
        return True  # the README does not show its output
    pattern = re.escape(expected).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern.strip(), printed.strip(), re.DOTALL) is not None


def environment(directory, bazel, flags):
    """With `bazel` meaning the given command, startup options and all, and builds taking `flags`."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    real = shutil.which(bazel[0])
    if real is not None and (len(bazel) > 1 or flags):
        command = shlex.join([real] + bazel[1:])
        shim = pathlib.Path(directory) / "bazel"
        shim.write_text("#!/bin/sh\nverb=$1\nshift\ncase $verb in\n"
                        f'build | run | test) exec {command} "$verb" {shlex.join(flags)} "$@" ;;\n'
                        f'*) exec {command} "$verb" "$@" ;;\nesac\n', encoding="utf-8")
        shim.chmod(0o755)
        env["PATH"] = f"{directory}:{env['PATH']}"
    return env


def end_session(leader):
    """Ends the processes that the shell started: jobs have their own process groups, but the session is one."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(stat.parent.name), signal.SIGTERM)


def run(root, bazel, wanted, flags=()):
    """Yields (command, None or why it differs)."""
    with tempfile.TemporaryDirectory(prefix="farlook-readme-") as directory:
        process = subprocess.Popen(["bash", "-c", script([command for command, _ in wanted], directory)], cwd=root,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                   errors="replace", env=environment(directory, bazel, flags))
        try:
            output = process.communicate(timeout=TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            end_session(process.pid)
            output = process.communicate()[0]
        except BaseException:
            end_session(process.pid)
            raise
        bad = False
        for number, (command, expected) in enumerate(wanted):
            why = judge(output, number, expected)
            bad = bad or why is not None
            yield f"$ {command}", why
        if "@@running 0\n" not in output:
            bad = True
            yield "README", "leaves a program running"
        if bad:
            print(output, flush=True)


def judge(output, number, expected):
    match = re.search(rf"^@@begin {number}\n(.*)^@@end {number} (\d+)$", output, re.MULTILINE | re.DOTALL)
    if match is None:
        return f"did not end within {TIMEOUT_S} s"
    if match.group(2) != "0":
        return f"ended with exit code {match.group(2)}"
    if not matches(expected, match.group(1)):
        return f"prints something else than the README says: {match.group(1).strip()[-500:]!r}"
    return None


def static(root, text):
    """Yields (what, None or why) of all checks that need no run."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / "client").glob("*.cc"))]
    for number, block in enumerate(blocks(text, "cpp")):
        found = any(block in source for source in sources)
        yield f"README's C++ block {number + 1}", None if found else "is in no source of client/"
    paths = set(re.findall(r"\]\(([^)#:]+)\)", text))
    paths |= set(re.findall(r"`((?:base|kv|rdma|server|client|cluster|bench|tests|tools|docs|third_party)/[\w./-]*)[^`]*`", text))
    for path in sorted(paths):
        yield f"README's path {path}", None if (root / path).exists() else "does not exist"


def guide(root):
    """Yields (what, None or why) of the guide's code, which tests/guide compiles and runs."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / "tests/guide").glob("*.cc"))]
    for number, block in enumerate(blocks((root / "docs/guide.md").read_text(encoding="utf-8"), "cpp")):
        found = any(block in source for source in sources)
        yield f"docs/guide.md's C++ block {number + 1}", None if found else "is in no source of tests/guide"


def documents(root):
    """Yields (what, None or why) of the links of all documents, and of all sources that name a section of one."""
    for path in sorted((root / "docs").rglob("*.md")):
        for link in sorted(set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")))):
            if not (path.parent / link).exists():
                yield f"{path.relative_to(root)}'s link {link}", "does not exist"
    named = re.compile(r'"([A-Z][^"\n]*)"\s+in\s+`?docs/([\w-]+\.md)|docs/([\w-]+\.md), "([^"\n]+)"')
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".py", ".pml", ".md") or not path.is_file():
                continue
            text = re.sub(r"\n *(//|#|\*) ?", " ", path.read_text(encoding="utf-8", errors="replace"))
            for one, in_, of, other in named.findall(text):
                document = root / "docs" / (in_ or of)
                heading = one or other
                if not document.exists() or f" {heading}\n" not in "".join(
                        re.findall(r"^#+( .*\n)", document.read_text(encoding="utf-8"), re.MULTILINE)):
                    yield f'{path.relative_to(root)}: "{heading}" in docs/{document.name}', "is no section"
    yield "links and named sections of documents", None


def check(root, bazel, flags=()):
    """Yields (what, None or why it is wrong) of everything in the README. Its builds also take `flags`."""
    text = (root / "README.md").read_text(encoding="utf-8")
    yield from static(root, text)
    yield from guide(root)
    yield from documents(root)
    wanted = steps(text)
    if not wanted:
        yield "README", "has no commands"
        return
    yield from run(root, bazel, wanted, flags)
