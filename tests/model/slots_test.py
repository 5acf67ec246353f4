#!/usr/bin/env python3
"""slots.pml, checked by spin: a slot that moves never belongs to two groups, no write to it is lost, and each break is
found.

See spin.py. """

import unittest

import spin


class SlotsTest(spin.Model, unittest.TestCase):
    file = "slots.pml"
    proofs = {
        "two writes, failovers of both": "WRITES=2 MOVES=1 FAILOVERS=1",
    }
    deep = {
        "there and back, failovers of both": "WRITES=2 MOVES=2 FAILOVERS=1",
    }
    breaks = {
        name: "WRITES=2 MOVES=2 FAILOVERS=1" for name in (
            "WITHOUT_LEASE", "CLEANS_BEFORE_THE_ANSWER", "ACCEPTANCE_OF_A_FORMER_ATTEMPT",
            "GIVES_WITHOUT_CLOSING", "GIVES_WHAT_IS_NOT_ACCEPTED", "OWNS_WHAT_IS_NOT_GIVEN",
            "OLD_RECORD_OF_THE_TAKER", "FORGETS_TAKEN_EARLY", "ERASES_WHAT_IS_GIVEN", "ERASES_WHAT_IS_TAKEN",
            "SWAPS_WHATEVER_THERE_IS", "TAKEN_IS_NOT_NOTED")
    }
    bounds = {"WRITES", "MOVES", "FAILOVERS"}


if __name__ == "__main__":
    spin.main(SlotsTest)
