#!/usr/bin/env python3
"""group.pml, checked by spin: no get within the bounds is stale, and each rule that is broken makes one so.

See spin.py. --deep takes half an hour, and 1.5 GB.
"""

import unittest

import spin


class GroupTest(spin.Model, unittest.TestCase):
    file = "group.pml"
    proofs = {
        "one reconfiguration": "EPOCHS=2 WRITES=1",
        "two reconfigurations": "EPOCHS=3 WRITES=1",
        "a lone primary takes in another": "EPOCHS=3 WRITES=1 FIRST=1",
        "a crash": "EPOCHS=2 WRITES=1 FIRST=3 JOINS=1 CRASHES",
        "no clocks": "EPOCHS=2 WRITES=1 STRICT",
        "a primary leaves": "EPOCHS=3 WRITES=1 FIRST=3 LEAVES",
    }
    deep = {
        "two writes": "EPOCHS=3 WRITES=2",
        "two reconfigurations, a spare": "EPOCHS=3 WRITES=2 FIRST=3",
        "three reconfigurations": "EPOCHS=4 WRITES=1 FIRST=3",
        "one comes back": "EPOCHS=3 WRITES=1 FIRST=3 JOINS=1",
        "a crash and a reconfiguration more": "EPOCHS=3 WRITES=1 FIRST=3 JOINS=1 CRASHES",
        "three writes": "EPOCHS=2 WRITES=3",
        "no clocks, two reconfigurations": "EPOCHS=3 WRITES=1 STRICT",
        "a primary leaves, and two are left": "EPOCHS=3 WRITES=1 LEAVES",
    }
    breaks = {
        "NO_WAIT": "EPOCHS=2 WRITES=1",
        "PRIMARY_WORD_ONLY": "EPOCHS=2 WRITES=1",
        "BACKUP_WORDS_ONLY": "EPOCHS=4 WRITES=1 FIRST=3",
        "WITHOUT_SHUT": "EPOCHS=2 WRITES=1",
        "ACKNOWLEDGED_BY_OLD_SET": "EPOCHS=3 WRITES=1 FIRST=1",
        "ACKNOWLEDGED_BY_NEW_SET": "EPOCHS=2 WRITES=1",
        "ADAPTER_ACKNOWLEDGES": "EPOCHS=2 WRITES=1",
        "VISIBLE_EARLY": "EPOCHS=2 WRITES=1 GETS=2",
        "NON_MEMBER_PROMOTES": "EPOCHS=3 WRITES=1",
        "TAIL_NOT_ACCEPTED": "EPOCHS=3 WRITES=1",
        "READS_BEFORE_OPEN": "EPOCHS=2 WRITES=1",  # rule 7
        "OLD_CONNECTIONS": "EPOCHS=2 WRITES=1 JOINS=1",  # rule 10
        "OPENS_BEFORE_CERTAINTY": "EPOCHS=3 WRITES=1",  # rule 2
        "JOINER_IS_NOT_FILLED": "EPOCHS=3 WRITES=1 FIRST=1",
        "REPLY_WITHOUT_LEASE": "EPOCHS=2 WRITES=1",  # rule 9
        "SAYS_TOO_EARLY_THAT_IT_LEFT": "EPOCHS=3 WRITES=1 FIRST=3 LEAVES",
    }
    bounds = {"EPOCHS", "WRITES", "GETS", "JOINS", "FIRST", "STRICT", "CRASHES", "LEAVES"}
    deep_pan_flags = ("-O2", "-DCOLLAPSE")


if __name__ == "__main__":
    spin.main(GroupTest)
