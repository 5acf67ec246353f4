/* Gets against puts, deletes, moves, splits and the reuse of memory: docs/protocol.md, "Reading" and "Writing", for two
 * keys that share bucket and fingerprint. model_test.py runs it; docs/verification.md, "Model", says what it covers.
 *
 * One server applies any OPS writes, store by store. One reader does LOOKUPS lookups of key A in turn; each may begin with
 * any place as its cached location, and with the first directory as its copy. A reader stores nothing that others see, so one
 * stands for all clients: what another client would know of old directories and places, this one may know too.
 *
 * A READ of a range fetches its words one by one, in any order, between any two of the server's stores.
 *
 * Bounds, by -D: OPS, LOOKUPS, SPLITS (0 to 2), MOVES, MAIN (slots in a main bucket, 1 or 2), ONE_KEY (B alone is there at
 * first), and LATE_READ: a bucket READ that took too long is discarded, instead of a "not found" that did. Each other macro
 * is a break of the protocol.
 */
#ifndef OPS
#define OPS 4
#endif
#ifndef LOOKUPS
#define LOOKUPS 2
#endif
#ifndef SPLITS
#define SPLITS 0
#endif
#ifndef MOVES
#define MOVES 0
#endif
#ifndef MAIN
#define MAIN 1
#endif

#define A 0
#define B 1

/* ---- Items: PIECES of memory, of three words each. */
#define PIECES 3
byte ver[PIECES];   /* version * 2, + 1: DEAD */
short sum[PIECES];  /* the checksum, which never collides */
byte body[PIECES];  /* key * 16 + value */

#define DEAD(word) ((word) & 1)
#define BODY(key, value) ((key) * 16 + (value))
#ifdef CHECKSUM_WITHOUT_VERSION
#define SUM(version, contents) (contents)
#else
#define SUM(version, contents) ((version) * 32 + (contents))
#endif
#ifdef VERSION_REUSED
#define VERSION(n) (((n) + 3) / 4)
#else
#define VERSION(n) (n)
#endif

/* ---- Segments: of each, the bucket of the two keys and the overflow bucket that it may link to. */
#define WORDS (MAIN + 3)
#define AREAS 4
#define MAIN_INFO 0            /* id * 2, + 1: links to the overflow bucket */
#define SLOT(i) (1 + (i))      /* piece + 1; 0: empty */
#define OVER_INFO (MAIN + 1)   /* id * 2 */
#define OVER_SLOT (MAIN + 2)
byte seg[AREAS * WORDS];

/* The first segment, 1, is split to 2 and 3, then 2 to 5 and 4. Segment 5 lies where 1 lay. */
#ifdef ID_REUSED
#define AGAIN 1
#else
#define AGAIN 5
#endif
#define AREA(id) ((id) % 4)
#define WORD(id, word) (AREA(id) * WORDS + (word))

/* ---- Directory: the arrays of levels 1 and 2, and the level. A position has two bits. An entry is an id, since that tells
 * the offset too. */
byte dir[6];
byte level = 1;
byte position[2];
#define ENTRY(at_level, at_position) (((at_level) - 1) * (2 + (at_position)) + (2 - (at_level)) * ((at_position) / 2))

/* ---- What is to be proved: A is an atomic register. Its states are numbered; a put or delete makes the next one. A lookup
 * must return one that had begun when it ended, and none older than one that was there for all, or seen by a lookup that
 * ended, when it began. Of states without the key the oldest possible one counts as seen. */
byte begun, done, seen;
short present;  /* a bit for each state: the key is there */

/* ---- Time: a quarantine is longer than a lookup, or bucket READ, that is believed. So one that began before a quarantine
 * did is too late when that ends. */
bool stamped, spans, late;

inline QuarantineBegins() { stamped = true; spans = true }
inline QuarantineEnds() { late = late || spans }

/* ================ The server ================ */

#define NONE 255
byte place[2];  /* of each key: the index of its slot in seg, or NONE */
byte piece[2];  /* and its item */
bool b_first;   /* B came first, and comes first to new segments */
byte versions;
byte ops, splits, moves;

inline FreePiece(to) {
  if
  :: piece[A] != 0 && piece[B] != 0 -> to = 0
  :: piece[A] != 1 && piece[B] != 1 -> to = 1
  :: piece[A] != 2 && piece[B] != 2 -> to = 2
  fi
}

/* Where key finds room in segment id, when `other` is the index of the slot that the other key has there, or NONE. */
inline Room(id, other, to) {
  if
  :: other != WORD(id, SLOT(0)) -> to = WORD(id, SLOT(0))
  :: else ->
    if
    :: MAIN == 2 -> to = WORD(id, SLOT(1))
    :: else -> to = WORD(id, OVER_SLOT)
    fi
  fi
}

#define SEGMENT_OF(key) dir[ENTRY(level, position[key])]

/* In an atomic block there is one store to what readers see. */
#define BEGINS ops < OPS -> ops++

inline NewState(key, here) {
  if
  :: key == A -> begun++; present = present | (here << begun)
  :: else
  fi
}

inline Ends(key) { if :: key == A -> done = begun :: else fi }

inline StoreLink(key) {
  seg[place[key] - OVER_SLOT + MAIN_INFO] = seg[place[key] - OVER_SLOT + MAIN_INFO] | 1
}

inline Put(key) {
  atomic {
    BEGINS;
    FreePiece(p);
    versions++;
    v = VERSION(versions) * 2;
    NewState(key, 1);
    if :: key == A -> x = BODY(key, begun) :: else -> x = BODY(key, 0) fi;
    ver[p] = v + 1
  }
  sum[p] = SUM(v, x);
  body[p] = x;
#ifdef ALIVE_BEFORE_SLOT
  ver[p] = v;
#endif
  atomic {
    old = piece[key];
    if
    :: old != NONE ->
#if !defined(OLD_DEAD_LAST) && !defined(DEAD_FORGOTTEN)
      ver[old] = ver[old] | 1
#else
      skip
#endif
    :: else ->
      x = SEGMENT_OF(key);
      Room(x, place[1 - key], at);
      place[key] = at;
      at = 0;
#ifndef LINK_LAST
      if :: place[key] % WORDS == OVER_SLOT -> StoreLink(key) :: else fi
#endif
    fi;
    piece[key] = p;
    x = 0
  }
  seg[place[key]] = p + 1;
  ver[p] = v;  /* here the write takes effect */
#ifdef OLD_DEAD_LAST
  atomic { if :: old != NONE -> ver[old] = ver[old] | 1 :: else fi }
#endif
#ifdef LINK_LAST
  atomic { if :: old == NONE && place[key] % WORDS == OVER_SLOT -> StoreLink(key) :: else fi }
#endif
  atomic { Ends(key); old = 0; p = 0; v = 0 }
}

inline Delete(key) {
#ifdef DELETE_CLEARS_SLOT_FIRST
  atomic { place[key] != NONE && BEGINS; NewState(key, 0); seg[place[key]] = 0 }
  ver[piece[key]] = ver[piece[key]] | 1;
#else
  atomic {
    place[key] != NONE && BEGINS;
    NewState(key, 0);
#ifndef DEAD_FORGOTTEN
    ver[piece[key]] = ver[piece[key]] | 1
#endif
  }
#endif
  atomic { seg[place[key]] = 0; place[key] = NONE; piece[key] = NONE; Ends(key) }
}

inline Move(key) {
  atomic {
    place[key] != NONE && moves < MOVES && BEGINS;
    moves++;
    FreePiece(p);
    v = ver[piece[key]];
    ver[p] = v + 1
  }
  sum[p] = sum[piece[key]];
  body[p] = body[piece[key]];
  ver[p] = v;
  seg[place[key]] = p + 1;
  atomic {
#ifndef MOVED_STAYS_ALIVE
    ver[piece[key]] = v + 1;
#endif
    piece[key] = p;
    p = 0;
    v = 0
  }
}

/* Where the keys whose positions have `bit` as `value` go in the new segment `id`: as they would come to a new one, A or B
 * first, or to where they were. `half` is the bit's place. */
#define MINE(key, half, value) (place[key] != NONE && (position[key] / 2 == 0 || (half) == 2) && (position[key] / (half)) % 2 == (value))
inline Assign(id, half, value) {
  to[A] = NONE; to[B] = NONE;
  if
  :: place[A] != NONE && MINE(A, half, value) && place[B] != NONE && MINE(B, half, value) ->
    if
    :: !b_first -> Room(id, NONE, to[A]); Room(id, to[A], to[B])
    :: b_first -> Room(id, NONE, to[B]); Room(id, to[B], to[A])
    fi
  :: else ->
    if
    :: MINE(A, half, value) -> Room(id, NONE, to[A])
    :: MINE(B, half, value) -> Room(id, NONE, to[B])
    :: else
    fi
  fi
}
#define IMAGE(i) (to[A] == (i) -> piece[A] + 1 : (to[B] == (i) -> piece[B] + 1 : 0))

/* One word after the other, since readers with an old directory may look there. */
inline StoreSlots(id) {
  seg[WORD(id, SLOT(0))] = IMAGE(WORD(id, SLOT(0)));
#if MAIN == 2
  seg[WORD(id, SLOT(1))] = IMAGE(WORD(id, SLOT(1)));
#endif
  seg[WORD(id, OVER_SLOT)] = IMAGE(WORD(id, OVER_SLOT))
}

inline StoreInfos(id) {
  seg[WORD(id, MAIN_INFO)] = id * 2 + (IMAGE(WORD(id, OVER_SLOT)) != 0);
  seg[WORD(id, OVER_INFO)] = id * 2
}

inline ForgetImage() {
  if :: to[A] != NONE -> next[A] = to[A] :: else fi;
  if :: to[B] != NONE -> next[B] = to[B] :: else fi;
  to[A] = NONE;
  to[B] = NONE
}

/* No reader knows the memory of a segment yet that never lay anywhere before. */
inline Install(id, entry) {
#ifdef DIRECTORY_BEFORE_SEGMENT
  atomic { StoreInfos(id); dir[entry] = id }
  atomic { StoreSlots(id); ForgetImage() }
#else
  atomic { StoreSlots(id); StoreInfos(id); dir[entry] = id; ForgetImage() }
#endif
}

inline Retire(id) {
#ifdef SLOTS_CLEARED_FIRST
  seg[WORD(id, SLOT(0))] = 0;
#if MAIN == 2
  seg[WORD(id, SLOT(1))] = 0;
#endif
  seg[WORD(id, OVER_SLOT)] = 0;
#endif
#ifndef RETIRED_STAYS
  seg[WORD(id, MAIN_INFO)] = 0;
#endif
  atomic {
#ifndef RETIRED_STAYS
    seg[WORD(id, OVER_INFO)] = 0;
#endif
    if :: next[A] != NONE -> place[A] = next[A] :: else fi;
    if :: next[B] != NONE -> place[B] = next[B] :: else fi;
    next[A] = NONE;
    next[B] = NONE;
    splits++
  }
}

inline FirstSplit() {
  atomic {
    splits == 0 && BEGINS;
#ifdef QUARANTINE_FROM_SPLIT
    QuarantineBegins();
#endif
    Assign(2, 2, 0)
  }
  Install(2, 0);
  atomic { Assign(3, 2, 1) }
  Install(3, 1);
  Retire(1)
}

inline SecondSplit() {
  atomic {
#ifdef NO_QUARANTINE
    splits == 1 && BEGINS;
#else
    splits == 1 && stamped && BEGINS;
    QuarantineEnds();
#endif
    Assign(AGAIN, 1, 0)
  }
  StoreSlots(AGAIN);
  StoreInfos(AGAIN);
  /* The directory grows; no reader knows the new array before the new level. */
  atomic { dir[2] = dir[0]; dir[3] = dir[0]; dir[4] = dir[1]; dir[5] = dir[1]; level = 2 }
  atomic { dir[2] = AGAIN; ForgetImage() }
  atomic { Assign(4, 1, 1) }
  Install(4, 3);
  Retire(2)
}

proctype Server() {
  byte p, v, x, at, old;
  byte to[2], next[2];
  d_step { to[A] = NONE; to[B] = NONE; next[A] = NONE; next[B] = NONE }
  do
  :: Put(A)
  :: Put(B)
  :: Delete(A)
  :: Delete(B)
#if MOVES > 0
  :: Move(A)
  :: Move(B)
#endif
#if SPLITS > 0
  :: FirstSplit()
#endif
#if SPLITS > 1
  :: SecondSplit()
#ifndef NO_QUARANTINE
  /* The first write after the split. What else it does does not matter here. */
  :: atomic { splits == 1 && !stamped -> QuarantineBegins() }
#endif
#endif
  :: break
  od
}

/* ================ The reader ================ */

/* READs: each word when it likes. */
inline ReadItem(from) {
  do
  :: d_step { !(got & 1) -> iver = ver[from]; got = got | 1 }
  :: d_step { !(got & 2) -> isum = sum[from]; got = got | 2 }
  :: d_step { !(got & 4) -> ibody = body[from]; got = got | 4 }
  :: atomic { got == 7 -> got = 0; break }
  od
}

#ifdef CHECKSUM_IGNORED
#define WHOLE true
#else
#define WHOLE (isum == SUM(iver, ibody))
#endif
#define VALID (iver != 0 && !DEAD(iver) && WHOLE && ibody / 16 == A)
#define OTHER (iver != 0 && !DEAD(iver) && WHOLE && ibody / 16 != A)

inline Found() {
  assert(ibody % 16 >= lo && ibody % 16 <= begun);
  seen = ibody % 16;
  results++
}

/* Of states without the key, the oldest possible one. */
inline NotFound() {
  i = lo;
  do
  :: i <= begun && (present >> i) % 2 == 1 -> i++
  :: else -> break
  od;
  assert(i <= begun);
  seen = i;
  results++
}

inline ForgetItem() { iver = 0; isum = 0; ibody = 0 }
inline ForgetBucket() { info = 0; w[0] = 0; w[1] = 0 }

/* Where a lookup begins again, the model ends it without a result and begins another: that may see less of the past. So is
 * a cached location that turns out to be stale. */
proctype Reader() {
  byte results, lo;
  byte my_level = 1, entry = 1;
  byte got, iver, ibody;
  short isum;
  byte info, w[2];
  byte m[3], mv[3], link;  /* the matches of this look, and the versions of their items: [0], [1] main, [2] overflow */
  byte i, e;
  bool second, only_others, matched;

begin:
  atomic {
    m[0] = 0; m[1] = 0; m[2] = 0; mv[0] = 0; mv[1] = 0; mv[2] = 0; link = 0;
    ForgetItem(); ForgetBucket();
    second = false; only_others = true; matched = false;
    i = 0;
    if
    :: results == LOOKUPS -> lo = 0; goto end
    :: else
    fi;
    lo = (done > seen -> done : seen);
    spans = false;
    late = false;
    if
    :: goto main
#if SPLITS > 0
    :: my_level = 1; entry = 1; goto main  /* another client, which knows but the first directory */
    :: goto refresh                        /* or looked at it just now */
#endif
    :: i = 0
    :: i = 1
    :: i = 2
    fi
  }
  ReadItem(i);
  atomic {
    if
    :: VALID -> Found()
    :: else
    fi;
    goto begin
  }

main:
#ifdef LATE_READ
  atomic { spans = false; late = false }
#endif
  do
  :: d_step { !(got & 1) -> info = seg[WORD(entry, MAIN_INFO)]; got = got | 1 }
  :: d_step { !(got & 2) -> w[0] = seg[WORD(entry, SLOT(0))]; got = got | 2 }
#if MAIN == 2
  :: d_step { !(got & 4) -> w[1] = seg[WORD(entry, SLOT(1))]; got = got | 4 }
#endif
  :: atomic { got == (1 << (MAIN + 1)) - 1 -> got = 0; break }
  od;
  atomic {
#if defined(LATE_READ) && !defined(LATE_BELIEVED)
    if :: late -> goto begin :: else fi;
#endif
#ifndef OLD_DIRECTORY_BELIEVED
    if :: info / 2 != entry -> goto refresh :: else fi;
#endif
    if
    :: second && (m[0] != w[0] || m[1] != w[1] || link != info % 2) -> goto begin
    :: else
    fi;
    m[0] = w[0]; m[1] = w[1]; link = info % 2;
    ForgetBucket();
    i = 0
  }

items:
  /* i: 0 and 1 in the main bucket, 2 in the overflow bucket, 3 past it. */
  atomic {
    do
    :: i < 2 && m[i] == 0 -> i++
    :: i < 2 && m[i] != 0 -> break
    :: i == 2 && link -> goto overflow
    :: i == 2 && !link -> i = 3
    :: i == 3 -> goto looked
    od
  }
item:
  ReadItem(m[i] - 1);
  atomic {
    matched = true;
    if
    :: VALID -> Found(); goto begin
    :: OTHER ->
      if
      :: second && mv[i] != iver -> goto begin
      :: else -> mv[i] = iver
      fi
    :: else ->
      if
      :: second -> goto begin
      :: else -> only_others = false
      fi
    fi;
    ForgetItem();
    i++;
    goto items
  }

overflow:
#ifdef OVERFLOW_IGNORED
  atomic { goto looked }
#endif
#ifdef LATE_READ
  atomic { spans = false; late = false }
#endif
  do
  :: d_step { !(got & 1) -> info = seg[WORD(entry, OVER_INFO)]; got = got | 1 }
  :: d_step { !(got & 2) -> w[0] = seg[WORD(entry, OVER_SLOT)]; got = got | 2 }
  :: atomic { got == 3 -> got = 0; break }
  od;
  atomic {
#if defined(LATE_READ) && !defined(LATE_BELIEVED)
    if :: late -> goto begin :: else fi;
#endif
#ifndef OLD_DIRECTORY_BELIEVED
    if :: info / 2 != entry -> goto refresh :: else fi;
#endif
    if
    :: second && m[2] != w[0] -> goto begin
    :: else
    fi;
    m[2] = w[0];
    ForgetBucket();
    if
    :: m[2] != 0 -> goto item
    :: else
    fi
  }

looked:
  atomic {
    i = 0;
    if
#ifndef DEAD_IS_ABSENT
    :: !only_others -> goto begin
#endif
#if !defined(NO_SECOND_LOOK) && !defined(DEAD_IS_ABSENT)
    :: only_others && matched && !second -> second = true; goto main
#endif
    :: else
    fi;
#if !defined(LATE_READ) && !defined(LATE_BELIEVED)
    if :: late -> goto begin :: else fi;
#endif
    NotFound();
    goto begin
  }

refresh:
  atomic {
    m[0] = 0; m[1] = 0; m[2] = 0; mv[0] = 0; mv[1] = 0; mv[2] = 0; link = 0;
    ForgetItem(); ForgetBucket();
    second = false; only_others = true; matched = false; i = 0; lo = 0;
    e = dir[ENTRY(my_level, position[A])];
    if
    :: e != entry -> entry = e; e = 0; goto begin
    :: else -> e = 0
    fi
  }
  my_level = level;
  atomic { entry = dir[ENTRY(my_level, position[A])]; goto begin }

end:
  skip
}

/* Both keys are there, and one came first; or, with ONE_KEY, B alone. */
inline Fill(key) {
  Room(1, place[1 - key], place[key]);
  piece[key] = key;
  versions++;
  ver[key] = VERSION(versions) * 2;
  body[key] = BODY(key, 0);
  sum[key] = SUM(ver[key], body[key]);
  seg[place[key]] = key + 1;
  if
  :: place[key] == WORD(1, OVER_SLOT) -> seg[WORD(1, MAIN_INFO)] = 3
  :: else
  fi;
  if :: key == A -> present = 1 :: else fi
}

init {
  atomic {
    dir[0] = 1; dir[1] = 1;
    seg[WORD(1, MAIN_INFO)] = 2;
    seg[WORD(1, OVER_INFO)] = 2;
    place[A] = NONE; place[B] = NONE; piece[A] = NONE; piece[B] = NONE;
#if SPLITS > 0
    if :: position[A] = 0 :: position[A] = 1 fi;
    if :: position[B] = 0 :: position[B] = 1 fi;
#endif
#ifdef ONE_KEY
    Fill(B);
#else
    if
    :: true -> Fill(A); Fill(B)
    :: true -> Fill(B); Fill(A); b_first = true
    fi;
#endif
    run Server();
    run Reader()
  }
}
