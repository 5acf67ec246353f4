#!/usr/bin/env python3
"""Measures the English of comments and Markdown, and fails where it exceeds a limit.

    tests/prose/prose.py                 all of the tree
    tests/prose/prose.py --worst 20      also the folders and files that exceed most
    tests/prose/prose.py PATH...         only these files and folders, with each finding

docs/style.md has the rules. Five of them can be counted:

* comment blocks that open with a dependent clause ("What ...", "Of ...", "Whether ..."): below 3 %
* words that make persons of processes (who, whoever, nobody, somebody): below 0.5 in 1,000 words
* sentences of more than 30 words: below 3 %
* lines of Markdown outside of tables and code: at most 120 columns

The texts that programs print are read, too: string literals of product sources have no persons and none of the words
that docs/style.md replaces ("anew", "but for").

Tables, code blocks, quotations and dated reports (docs/reports) are not read. A folder in tests/prose/limits.json has
limits of its own, for text that is older than the rules; they may only fall.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENINGS = {"what", "of", "whether", "where", "who", "whoever", "whom", "whose", "how", "as", "else", "nobody",
            "somebody"}
PERSONS = re.compile(r"\b(who|whoever|nobody|somebody)\b", re.IGNORECASE)
ODD = re.compile(r"\b(who|whom|whoever|nobody|somebody|everybody|anew|but for|in place of|is over)\b", re.IGNORECASE)
# The literals of a source. Comments, characters and names of included files are skipped.
LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|#include[^\n]*|\'(?:\\.|[^\'\\\n])\'|R"\((.*?)\)"|"((?:\\.|[^"\\\n])*)"',
                      re.DOTALL)
PYTHON_LITERALS = re.compile(r'#[^\n]*|[rf]?"""(.*?)"""|"((?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
PRODUCT = ("base/", "bench/", "client/", "cluster/", "kv/", "python/", "rdma/", "server/")
NO_PRODUCT = re.compile(r"_tests?\.|testing|fuzz|conformance|/fake/|benchmark")
MAX_WORDS = 30
MAX_COLUMNS = 120
LIMITS = {"openings": 0.03, "persons": 0.5, "long": 0.03, "columns": 0, "messages": 0}
NOT_READ = ("docs/reports/", "third_party/", "LICENSE")
SLASHES = (".h", ".cc", ".c", ".go", ".rs", ".inc")
HASHES = (".py", ".sh", ".bzl")


@dataclasses.dataclass
class Counts:
    """The findings of one file or of several."""
    blocks: int = 0
    openings: int = 0
    words: int = 0
    persons: int = 0
    sentences: int = 0
    long: int = 0
    columns: int = 0
    messages: int = 0
    findings: list = dataclasses.field(default_factory=list)

    def add(self, other):
        for field in ("blocks", "openings", "words", "persons", "sentences", "long", "columns", "messages"):
            setattr(self, field, getattr(self, field) + getattr(other, field))

    def figures(self):
        return {"openings": self.openings / max(1, self.blocks), "persons": 1000 * self.persons / max(1, self.words),
                "long": self.long / max(1, self.sentences), "columns": self.columns, "messages": self.messages}


def comment_blocks(text, suffix):
    """Yields (line, text) of each run of lines that hold a comment only, and of Python's docstrings."""
    mark = "//" if suffix in SLASHES else "#"
    block, start = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        stripped = line.strip()
        if stripped.startswith(mark) and not stripped.startswith("#!"):
            if not block:
                start = number
            block.append(stripped.lstrip(mark)[1:] if stripped.lstrip(mark).startswith(" ") else stripped.lstrip(mark))
        elif block:
            yield start, "\n".join(block)
            block = []
    if suffix == ".py":
        for match in re.finditer(r'(?:^|\n)[ \t]*[rf]?"""(.*?)"""', text, re.DOTALL):
            yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def markdown_blocks(text):
    """Yields (line, text) of each paragraph and list item; no code, tables or headings."""
    block, start, fenced = [], 0, False
    for number, line in enumerate(text.split("\n") + [""], 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            fenced = not fenced
        is_text = (stripped and not fenced and not stripped.startswith(("```", "|", "#", ">", "<")) and
                   not (line.startswith("    ") and not block))
        begins = bool(re.match(r"([*-]|\d+\.) ", stripped))
        if block and (not is_text or begins):
            yield start, "\n".join(block)
            block = []
        if is_text:
            if not block:
                start = number
            block.append(re.sub(r"^([*-]|\d+\.) ", "", stripped))


def prose_of(block):
    """The sentences of a block: without code, drawings and tables in it."""
    lines = [line for line in block.split("\n")
             if not line.startswith(("    ", "\t")) and "|" not in line and not re.search(r"[-=]{4,}|[{};]$", line)]
    text = re.sub(r"`[^`]*`", "Code", " ".join(lines))
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences_of(text):
    parts = re.split(r"(?<=[.!?:;])[\"')]*\s+(?=[\"'(*]*[A-Z0-9`*])|\s{2,}", text)
    return [part for part in parts if len(re.findall(r"[A-Za-z]+", part)) >= 3]


def odd_messages(name, text):
    """Yields (line, text) of each odd word in the literals of a product source."""
    suffix = pathlib.PurePath(name).suffix
    if not name.startswith(PRODUCT) or NO_PRODUCT.search(name) or suffix not in (".cc", ".h", ".c", ".py"):
        return
    for literal in (PYTHON_LITERALS if suffix == ".py" else LITERALS).finditer(text):
        shown = literal.group(1) or literal.group(2) or ""
        for match in ODD.finditer(shown) if " " in shown else ():
            line = text.count("\n", 0, literal.start()) + shown.count("\n", 0, match.start()) + 1
            yield line, shown[max(0, match.start() - 30):match.end() + 30].replace("\n", " ")


def count(path, text):
    """The Counts of one file."""
    counts, is_markdown = Counts(), path.suffix == ".md"
    for line, block in markdown_blocks(text) if is_markdown else comment_blocks(text, path.suffix):
        prose = prose_of(block)
        words = re.findall(r"[A-Za-z][A-Za-z'-]*", prose)
        if not words:
            continue
        counts.words += len(words)
        if not is_markdown:
            counts.blocks += 1
            if words[0].lower() in OPENINGS and len(words) > 1 and prose.lstrip("-* ").startswith(words[0]):
                counts.openings += 1
                counts.findings.append((line, f"opens with a dependent clause: {prose.strip()[:70]}"))
        for match in PERSONS.finditer(prose):
            counts.persons += 1
            counts.findings.append((line, f"a person: {prose[max(0, match.start() - 20):match.end() + 20].strip()}"))
        for sentence in sentences_of(prose):
            counts.sentences += 1
            length = len(re.findall(r"[A-Za-z0-9][\w'-]*", sentence))
            if length > MAX_WORDS:
                counts.long += 1
                counts.findings.append((line, f"{length} words: {sentence.strip()[:70]}"))
    for line, shown in odd_messages(str(path), text):
        counts.messages += 1
        counts.findings.append((line, f"a message: {shown}"))
    if is_markdown:
        fenced = False
        for number, line in enumerate(text.split("\n"), 1):
            fenced ^= line.strip().startswith("```")
            if len(line) > MAX_COLUMNS and not fenced and not line.lstrip().startswith("|") and " " in line.strip():
                counts.columns += 1
                counts.findings.append((number, f"{len(line)} columns"))
    return counts


def files(root):
    listed = subprocess.run(["git", "ls-files"], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in listed.splitlines():
        path = root / name
        if name.startswith(NOT_READ) or "corpus/" in name or not path.is_file() or path.is_symlink():
            continue
        if path.suffix in SLASHES + HASHES + (".md",) or path.name in ("BUILD", "WORKSPACE"):
            yield name, path


def folder_of(name):
    """A file's folder; documents have limits of their own, each."""
    return name if name.endswith(".md") else name.rpartition("/")[0] or "."


def check(folders, limits):
    """Yields the figures that exceed the limits of their folder."""
    for folder, counts in sorted(folders.items()):
        allowed = {**LIMITS, **limits.get(folder, {})}
        for name, figure in counts.figures().items():
            # A single finding is none: a folder of three comments cannot be below 3 %.
            if figure > allowed[name] + 1e-9 and (getattr(counts, name) > 1 or name in ("columns", "messages")):
                yield f"{folder}: {name} {figure:.3g}, and at most {allowed[name]:.3g} is allowed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--worst", type=int, default=0, metavar="N")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--record", action="store_true", help="write limits.json: what each folder has now, if it exceeds")
    args = parser.parse_args()
    recorded = args.root / "tests/prose/limits.json"
    limits = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
    folders, total, by_file = {}, Counts(), []
    for name, path in files(args.root):
        if args.paths and not any(name == given or name.startswith(given.rstrip("/") + "/") for given in args.paths):
            continue
        counts = count(pathlib.Path(name), path.read_text(encoding="utf-8", errors="replace"))
        folders.setdefault(folder_of(name), Counts()).add(counts)
        total.add(counts)
        by_file.append((name, counts))
    if args.paths:
        for name, counts in by_file:
            for line, finding in sorted(counts.findings):
                print(f"{name}:{line}: {finding}")
    for name, counts in sorted(by_file, key=lambda pair: -len(pair[1].findings))[:args.worst]:
        print(f"{len(counts.findings):5} {name}")
    if args.record:
        record = {folder: {name: math.ceil(1000 * figure) / 1000 for name, figure in counts.figures().items()
                           if figure > LIMITS[name]} for folder, counts in sorted(folders.items())}
        recorded.write_text(json.dumps({k: v for k, v in record.items() if v}, indent=1) + "\n", encoding="utf-8")
        return 0
    wrong = list(check(folders, limits))
    figures = total.figures()
    print("\n".join(wrong + [f"prose: {figures['openings']:.1%} of {total.blocks} comments open with a dependent clause; "
                             f"{figures['persons']:.2f} persons in 1,000 words; {figures['long']:.1%} of {total.sentences} "
                             f"sentences are long; {total.columns} long lines of Markdown; "
                             f"{total.messages} odd words in messages; {len(wrong)} over a limit"]))
    return 1 if wrong or not by_file else 0


if __name__ == "__main__":
    sys.exit(main())
