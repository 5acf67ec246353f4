#!/usr/bin/env python3
"""item_words.pml, checked by spin: no answer within the bounds is wrong and no crash loses a value, and each clause that is
broken leads to one that is. See spin.py. --deep takes a quarter of an hour, and 4 GB.
"""

import unittest

import spin

WRITE = "OPS=1 LOOKUPS=2"
TOUCH = "OPS=1 LOOKUPS=2 NO_IN_PLACE NO_MOVED NO_DELETE"
MOVE = "OPS=2 LOOKUPS=1 MOVES=1"


class ItemWordsTest(spin.Model, unittest.TestCase):
    file = "item_words.pml"
    proofs = {
        "two writes": "OPS=2 LOOKUPS=1 TICKS=0",
        "two lookups": "OPS=1 LOOKUPS=2",
        "moves and touches": "OPS=2 LOOKUPS=1 MOVES=1 NO_IN_PLACE NO_MOVED NO_DELETE",
        "another key": "OPS=3 LOOKUPS=1 TICKS=0 B_WRITES NO_DELETE",
    }
    deep = {
        "three moves and touches": "OPS=3 LOOKUPS=1 MOVES=2 NO_IN_PLACE NO_MOVED NO_DELETE",
        "updates in place": "OPS=2 LOOKUPS=1 NO_MOVED",
        "puts elsewhere": "OPS=2 LOOKUPS=1 NO_IN_PLACE",
        "two writes and a move": "OPS=2 LOOKUPS=1 MOVES=1",
        "two writes in place, two lookups": "OPS=2 LOOKUPS=2 NO_MOVED NO_DELETE",
        "later times": "OPS=2 LOOKUPS=1 TICKS=2 NO_MOVED NO_DELETE",
    }
    breaks = {
        # Put in place.
        "REDO_FORGOTTEN": WRITE,
        "REDO_TARGET_FORGOTTEN": WRITE,
        "REDO_AFTER_DEAD": WRITE,  # the copy is made when the piece is no longer whole
        "REDO_ALIVE": WRITE,
        "NOT_DEAD_MEANWHILE": WRITE,
        "VERSION_KEPT": WRITE,
        "ALIVE_BEFORE_BODY": WRITE,
        "EXPIRY_BEFORE_DEAD": WRITE,
        "EXPIRY_AFTER_ALIVE": WRITE,
        # On condition of presence.
        "LOOK_BEFORE_DEAD": WRITE,
        "NO_LOOK_AFTER_DEAD": WRITE,
        # Put elsewhere, delete.
        "ALIVE_BEFORE_SLOT": WRITE,
        "OLD_DEAD_LAST": WRITE,
        "HINT_BEFORE_SLOT": WRITE,  # it overwrites the checksum of what a recovery would need
        "DELETE_CLEARS_SLOT_FIRST": WRITE,
        # Touch.
        "TOUCH_OF_ONE_STORE": TOUCH,
        "TOUCH_WITHOUT_A_LOOK": TOUCH,  # at the clock, between the two stores
        # Move.
        "MOVE_HINTS_BEFORE_SLOT": MOVE,
        "MOVED_STAYS_ALIVE": MOVE,
        "MOVE_LEAVES_EXPIRY": "OPS=3 LOOKUPS=1 MOVES=2 NO_IN_PLACE NO_MOVED NO_DELETE",
        # Reading.
        "CHECKSUM_IGNORED": WRITE,
        "TAG_WITHOUT_VERSION": WRITE,
        "CLOCK_BELIEVED": WRITE,  # no interval
        "NO_SECOND_READ": WRITE,  # and the time is taken after the first
        "DEAD_PLACE_IS_ABSENT": WRITE,
        "SERVERS_CLOCK_IS_OLD": WRITE,
        # Recovery.
        "RECOVERY_TAKES_INVERTED_FOR_TORN": WRITE,
        "RECOVERY_REPEATS_WHAT_IS_WHOLE": "OPS=2 LOOKUPS=1 NO_MOVED",
    }
    seconds = 600
    bounds = {"OPS", "LOOKUPS", "TICKS", "MOVES", "B_WRITES", "NO_IN_PLACE", "NO_MOVED", "NO_TOUCH", "NO_DELETE"}


if __name__ == "__main__":
    spin.main(ItemWordsTest)
