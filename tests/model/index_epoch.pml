/* Memory that leaves the index: docs/protocol.md, "Reading". model_test.py runs it.
 *
 * One key, always there. Its segment is replaced again and again (a split, a merge, a move: they are the same here), and the
 * memory of the old one becomes an item's, which imitates the bucket of the old segment, empty. A reader with a copy of the
 * directory looks the key up, LOOKUPS times: it must never believe that the key is absent. The directory grows at any time.
 *
 * Time: a look at the index's state is relied on for less than a quarantine. So when memory leaves, a quarantine after the epoch
 * was increased, looks that were posted before that are too old.
 */
#ifndef LOOKUPS
#define LOOKUPS 2
#endif
#define SEGMENTS 4

/* Segment i lies in area i. Of each, the bucket of the key. */
byte info[SEGMENTS + 1];  /* the id, or 0 */
bool slot[SEGMENTS + 1];  /* the key's */
byte dir[3];              /* the entry in the array of level 1 and of level 2 */
byte level = 1, epoch = 0;
byte increased = 0, left = 0;  /* how often the epoch was increased, and memory left: what time tells, and nobody reads */

proctype Server() {
  byte id = 1;
  do
  :: level == 1 ->
    dir[2] = dir[1];  /* nobody reads it before the level */
    level = 2
  :: id < SEGMENTS ->
    slot[id + 1] = 1;
    info[id + 1] = id + 1;
#ifdef EPOCH_BEFORE_DIRECTORY
    atomic { epoch++; increased++ }
#endif
    dir[level] = id + 1;
    info[id] = 0;
#if !defined(EPOCH_BEFORE_DIRECTORY) && !defined(EPOCH_AFTER_LEAVING)
    atomic { epoch++; increased++ }
#endif
#ifdef EPOCH_AFTER_LEAVING
    increased++;
#endif
#ifndef NO_WAIT
    left++;  /* the quarantine is over */
#endif
    if
    :: slot[id] = 0; info[id] = id
    :: info[id] = id; slot[id] = 0
    fi;
#ifdef EPOCH_AFTER_LEAVING
    epoch++;
#endif
    id++
  :: break
  od
}

/* What the reader knows: an entry, and the state under which it was READ; when the last look at that was posted. */
byte copy, known_level, known_epoch, looked;
bool looks;  /* it has looked */
#define TRUSTED (looks && looked >= left)

inline ReadState() {
  posted = increased;
#ifdef TWO_WORDS
  got_level = level;
  got_epoch = epoch;
#else
  atomic { got_level = level; got_epoch = epoch }
#endif
}

inline Load() {
  ReadState();
  atomic { e = dir[got_level]; copy = e; known_level = got_level; known_epoch = got_epoch; looked = posted; looks = true; e = 0 }
}

proctype Reader() {
  byte lookups, e, posted, got_level, got_epoch, got_info, entry;
  bool got_slot;
  Load();
  do
  :: lookups < LOOKUPS ->
    lookups++;
again:
    atomic { entry = copy; got_info = 0; got_slot = 0 }
    if  /* words of a READ are fetched in any order */
    :: got_info = info[entry]; got_slot = slot[entry]
    :: got_slot = slot[entry]; got_info = info[entry]
    fi;
    if  /* other lookups of this reader */
    :: Load()
    :: skip
    fi;
    if
    :: got_info != entry ->
      e = dir[known_level];
      if
      :: e != entry -> copy = e; e = 0
      :: else -> e = 0; Load()
      fi
    :: got_info == entry && !got_slot ->
#ifndef ENTRY_NOT_COMPARED
      if :: copy != entry -> goto again :: else fi;
#endif
#ifdef NO_LOOK
      assert(false);
#endif
      if
      :: TRUSTED -> assert(false)
      :: else ->
        ReadState();
        if
#ifdef TWO_WORDS
        :: got_epoch == known_epoch ->
#else
        :: got_level == known_level && got_epoch == known_epoch ->
#endif
          atomic { looked = posted; if :: TRUSTED -> assert(false) :: else fi }
        :: else -> Load(); goto again
        fi
      fi
    :: else
    fi
  :: else -> break
  od
}

init {
  atomic {
    dir[1] = 1;
    info[1] = 1;
    slot[1] = 1;
    run Server();
    run Reader()
  }
}
