#!/usr/bin/env python3
"""protocol.pml and index_epoch.pml, checked by spin: see spin.py. --deep takes some minutes, and 1 GB."""

import unittest

import spin

ONE_WRITE = "OPS=1 LOOKUPS=2"
WRITES = "OPS=3 LOOKUPS=2"
SPLITS = "OPS=2 SPLITS=2 LOOKUPS=1 MAIN=2"
LEAVING = "LOOKUPS=2"


class ProtocolTest(spin.Model, unittest.TestCase):
    file = "protocol.pml"
    proofs = {
        "writes": "OPS=3 LOOKUPS=2",
        "writes, no overflow": "OPS=3 LOOKUPS=1 MAIN=2",
        "overflow linked anew": "OPS=2 LOOKUPS=2 ONE_KEY",
        "a move": "OPS=3 LOOKUPS=1 MOVES=1",
        "splits and reuse": "OPS=2 SPLITS=2 LOOKUPS=1",
        "splits and reuse, no overflow": "OPS=2 SPLITS=2 LOOKUPS=1 MAIN=2",
        "splits and reuse, late READs discarded": "OPS=2 SPLITS=2 LOOKUPS=1 MAIN=2 LATE_READ",
    }
    deep = {
        "four writes": "OPS=4 LOOKUPS=2",
        "four writes and moves": "OPS=4 LOOKUPS=1 MOVES=4",
        "splits, reuse and a write": "OPS=3 SPLITS=2 LOOKUPS=1",
        "splits, reuse and a write, no overflow": "OPS=3 SPLITS=2 LOOKUPS=1 MAIN=2",
        "splits and reuse, two lookups": "OPS=2 SPLITS=2 LOOKUPS=2",
    }
    breaks = {
        # Writing.
        "ALIVE_BEFORE_SLOT": ONE_WRITE,
        "OLD_DEAD_LAST": ONE_WRITE,  # slot, new alive, and only then the old one DEAD
        "DEAD_FORGOTTEN": ONE_WRITE,
        "DELETE_CLEARS_SLOT_FIRST": ONE_WRITE,
        "LINK_LAST": "OPS=2 LOOKUPS=2 ONE_KEY",
        "VERSION_REUSED": WRITES,
        "CHECKSUM_WITHOUT_VERSION": WRITES,
        "MOVED_STAYS_ALIVE": "OPS=3 LOOKUPS=1 MOVES=1",
        # Splitting.
        "SLOTS_CLEARED_FIRST": SPLITS,
        "RETIRED_STAYS": SPLITS,
        "DIRECTORY_BEFORE_SEGMENT": "OPS=1 SPLITS=1 LOOKUPS=1",
        "ID_REUSED": SPLITS,
        "NO_QUARANTINE": SPLITS,
        "QUARANTINE_FROM_SPLIT": SPLITS,  # it begins with the time that was passed to the split
        # Reading.
        "NO_SECOND_LOOK": WRITES,
        "DEAD_IS_ABSENT": WRITES,
        "CHECKSUM_IGNORED": WRITES,
        "OVERFLOW_IGNORED": ONE_WRITE,
        "OLD_DIRECTORY_BELIEVED": SPLITS,
        "LATE_BELIEVED": SPLITS,
    }
    bounds = {"OPS", "LOOKUPS", "SPLITS", "MOVES", "MAIN", "ONE_KEY", "LATE_READ"}
    deep_seconds = 3600


class IndexEpochTest(spin.Model, unittest.TestCase):
    """Memory that leaves the index misleads no reader."""
    file = "index_epoch.pml"
    proofs = {"two lookups": LEAVING}
    breaks = {
        "NO_WAIT": LEAVING,  # it leaves as soon as the epoch was increased
        "NO_LOOK": LEAVING,  # readers do not look at the epoch
        "EPOCH_BEFORE_DIRECTORY": LEAVING,
        "EPOCH_AFTER_LEAVING": LEAVING,
        "ENTRY_NOT_COMPARED": LEAVING,  # the copy that is relied on is not the one that led there
        "TWO_WORDS": LEAVING,  # level and epoch are READ one after the other
    }
    bounds = {"LOOKUPS"}


if __name__ == "__main__":
    spin.main(ProtocolTest, IndexEpochTest)
