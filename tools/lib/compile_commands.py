"""Writes compile_commands.json at the top of the tree: how each source is compiled, for clangd and other editors.

Asks Bazel for its compile actions and runs none of them. Headers and sources that Bazel makes are found once they were
built: run `bazel build //...` before, for completeness. Run it again after a change of BUILD files.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (".cc", ".c")
# Flags that only GCC knows, and outputs, which clangd does not need.
DROPPED = {"-fno-canonical-system-headers", "-Wno-free-nonheap-object", "-Wunused-but-set-parameter", "-MD",
           "-fno-semantic-interposition"}
# The last two: precompiled headers, of a compiler that clangd is not. A source includes what it uses all the same.
DROPPED_PAIRS = {"-MF", "-o", "-include", "-include-pch"}


def arguments_of(arguments):
    """The arguments of a compile action without those that mean nothing to a tool."""
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in DROPPED_PAIRS:
            skip = True
        elif argument not in DROPPED and not argument.startswith("-frandom-seed="):
            kept.append(argument)
    return kept


def entries(actions, directory):
    """Yields an entry for each source, the first action that compiles it."""
    seen = set()
    for action in actions:
        arguments = action.get("arguments", [])
        source = next((a for a in arguments if a.endswith(SOURCES) and not a.startswith("-")), None)
        if source is None or source in seen:
            continue
        seen.add(source)
        yield {"directory": str(directory), "file": source, "arguments": arguments_of(arguments)}


def main():
    parser = argparse.ArgumentParser(prog="tools/compile_commands", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["//..."], help="Bazel patterns (//...)")
    parser.add_argument("--config", default="opt", help="of .bazelrc (opt)")
    args = parser.parse_args()
    query = f'mnemonic("CppCompile", {" + ".join(args.targets)})'
    done = subprocess.run(["bazel", "aquery", "--noshow_progress", f"--config={args.config}", "--output=jsonproto", query],
                          cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        return done.returncode
    # The workspace: bazel-out in it leads to the built files.
    written = list(entries(json.loads(done.stdout).get("actions", []), ROOT))
    (ROOT / "compile_commands.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(f"compile_commands.json: {len(written)} sources")
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
