#!/usr/bin/env python3
"""Writes a source with breaks of the rules in it, each behind a switch: put_breaks.py member.cc >member_broken.cc"""

import os
import sys

# (the break, what stands there, what stands there with it)
MEMBER_EDITS = [
    ("kWithoutShut", "StoreWord(EpochWord::Shut(configuration_.epoch), actions);",
     "StoreWord(BREAK ? EpochWord::Open(configuration_.epoch) : EpochWord::Shut(configuration_.epoch), actions);"),
    ("kNoWait", "if (!ended_ && now < shut_at_ +", "if (!ended_ && !BREAK && now < shut_at_ +"),
    ("kOpensBeforeCertainty", "      maybe_done_ = true;\n",
     "      maybe_done_ = true;\n"
     "      if (BREAK && role_ != Role::kJoining) {\n"
     "        proposal_ = {};\n"
     "        StoreWord(EpochWord::Open(configuration_.epoch), actions);\n"
     "      }\n"),
    ("kOldSetOnly", "{&configuration_, &proposal_}) {", "{&configuration_, &proposal_}) {\n"
     "    if (BREAK && configuration == &proposal_) continue;"),
    ("kNewSetOnly", "if (BREAK && configuration", "if (BREAK && is_proposing() && configuration == &configuration_) continue;\n"
     "    if (BREAK_ONE && configuration"),
    ("kNonMemberPromotes", "  if (std::find(as.begin(), as.end(), role_) == as.end()) {",
     "  if (BREAK && *as.begin() == Role::kBackup && role_ == Role::kJoining && configuration_.epoch != 0) return absl::OkStatus();\n"
     "  if (std::find(as.begin(), as.end(), role_) == as.end()) {"),

    ("kNonMemberPromotes", "  for (Replica& member : next.members) {\n    if (member.inc",
     "  if (BREAK && configuration_.Find(incarnation_) == nullptr) {\n"
     "    next.members.assign(1, {.incarnation = incarnation_, .address = \"joiner\"});\n"
     "  }\n  for (Replica& member : next.members) {\n    if (member.inc"),
]
READ_LEASE_EDITS = [
    ("kProvenByOneWord", "if (seen_ == all_) {", "if (seen_ == all_ || BREAK) {"),
    ("kWordsOfTheRoundBefore", "    seen_ = 0;\n", "    if (!BREAK) seen_ = 0;\n"),
    ("kRoundUnderWay", "proven_ > noted;", "(BREAK ? proven_ >= noted : proven_ > noted);"),
    ("kAnyWordLetsRead", "if (word == open_ && bit == primary_)", "if (word == open_ && (bit == primary_ || BREAK))"),
]
# The header beside which it includes breaks.h, and the edits.
SOURCES = {
    "member.cc": ("cluster/member.h", MEMBER_EDITS),
    "read_lease.h": ("kv/epoch_word.h", READ_LEASE_EDITS),
}


def main():
    name = os.path.basename(sys.argv[1])
    header, edits = SOURCES[name]
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    for break_, old, new in edits:
        if break_ == "kNewSetOnly":  # stands before the break that was put there just now
            old, new = old.replace("BREAK", "(cluster::broken == cluster::Break::kOldSetOnly)"), new.replace(
                "BREAK_ONE", "(cluster::broken == cluster::Break::kOldSetOnly)")
        if text.count(old) != 1:
            sys.exit(f"{name} does not have once: {old}")
        text = text.replace(old, new.replace("BREAK", f"(cluster::broken == cluster::Break::{break_})"))
    include = f'#include "{header}"\n'
    if text.count(include) != 1:
        sys.exit(f"{name} does not include once: {header}")
    print(text.replace(include, include + '#include "cluster/breaks.h"\n'))


if __name__ == "__main__":
    main()
