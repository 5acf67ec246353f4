#!/usr/bin/env python3
"""Writes member.cc with breaks of the rules in it, each behind a switch: member_breaks.py member.cc >member_broken.cc"""

import sys

# (the break, what stands there, what stands there with it)
EDITS = [
    ("kWithoutShut", "StoreWord(EpochWord::Shut(configuration_.epoch), actions);",
     "StoreWord(BREAK ? EpochWord::Open(configuration_.epoch) : EpochWord::Shut(configuration_.epoch), actions);"),
    ("kNoWait", "if (now < shut_at_ +", "if (!BREAK && now < shut_at_ +"),
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
    ("kNonMemberPromotes", "if (role_ != (as_primary ? Role::kPrimary : Role::kBackup)) {",
     "if (BREAK && !as_primary && role_ == Role::kJoining && configuration_.epoch != 0) return absl::OkStatus();\n"
     "  if (role_ != (as_primary ? Role::kPrimary : Role::kBackup)) {"),
    ("kNonMemberPromotes", "  for (Replica& member : next.members) {\n    if (member.inc",
     "  if (BREAK && configuration_.Find(incarnation_) == nullptr) {\n"
     "    next.members.assign(1, {.incarnation = incarnation_, .address = \"joiner\"});\n"
     "  }\n  for (Replica& member : next.members) {\n    if (member.inc"),
]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    for name, old, new in EDITS:
        if name == "kNewSetOnly":  # stands before the break that was put there just now
            old, new = old.replace("BREAK", "(broken == Break::kOldSetOnly)"), new.replace(
                "BREAK_ONE", "(broken == Break::kOldSetOnly)")
        if text.count(old) != 1:
            sys.exit(f"member.cc does not have once: {old}")
        text = text.replace(old, new.replace("BREAK", f"(broken == Break::{name})"))
    print(text.replace('#include "cluster/member.h"\n', '#include "cluster/member.h"\n#include "cluster/breaks.h"\n', 1))


if __name__ == "__main__":
    main()
