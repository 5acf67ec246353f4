/* One item word by word: updates in place and their redo piece, expiry, touches, moves with hints, a crash between any two
 * stores. docs/protocol.md, "Reading" and "Writing"; model_test.py runs it; docs/verification.md says what it covers.
 *
 * One server applies any OPS writes to key A, and to B with B_WRITES, store by store. The clock ticks at any time. One reader
 * does LOOKUPS lookups of A in turn: by the slot, from any piece that it may remember (the redo piece too), or by asking the
 * server. The words of a READ are fetched in any order, between any two stores. Where a lookup begins again, the model begins
 * another one, which may see less of the past; so the bounds of looking again (twice at a remembered place) do not matter.
 *
 * Stores are seen at once: fences are not in the model, but the looks at the clock after them are.
 *
 * Bounds, by -D: OPS, LOOKUPS, TICKS (0: nothing expires), MOVES, B_WRITES; NO_IN_PLACE, NO_MOVED, NO_TOUCH, NO_DELETE leave out
 * kinds of A's writes. Each other macro breaks a clause of the orders.
 */
#ifndef OPS
#define OPS 2
#endif
#ifndef LOOKUPS
#define LOOKUPS 2
#endif
#ifndef TICKS
#define TICKS 1
#endif
#ifndef MOVES
#define MOVES 0
#endif

#define A 0
#define B 1

/* ---- Items: three pieces, and the redo piece. */
#define REDO 3
byte ver[4];    /* version * 2, + 1: DEAD */
short sum[4];   /* the checksum, which never collides; or a hint */
byte body[4];   /* key * 16 + value */
byte expiry[4]; /* version * 8 + inverted * 4 + time; time 0: never */
byte slot[2];   /* piece + 1; 0: empty */
byte target;    /* of the redo piece: as a slot */

#define DEAD(word) ((word) & 1)
#define ALIVE(word) ((word) & 254)
#define SUM(word, contents) (ALIVE(word) * 16 + (contents))
#define HINT(piece) (2000 + (piece))
#define INVERTED 4
#define TIME(word) ((word) & 3)
#ifdef TAG_WITHOUT_VERSION
#define FITS(word, version) (((word) & INVERTED) == 0)
#else
#define FITS(word, version) (((word) >> 2) == ALIVE(version))
#endif
#define EXPIRY(word, time) (ALIVE(word) * 4 + (time))

byte clock;
#define OVER(time) ((time) != 0 && clock >= (time))

/* ---- What is to be proved: A is an atomic register whose values end at their times.
 *
 * States are numbered; state k has position 2k while it lasts, and 2k + 1 when its time is over. `now` has a bit for each
 * position that A may be at, by what everybody was told; `met`, for each that it may have been at during the lookup. At most one
 * write is under way: state done + 1. One that wants the key present leads there from 2 * done only. */
byte value[OPS + 1], ends[OPS + 1];
byte here;     /* a bit for each state: the key is there */
byte wants;    /* a bit for each state: the write that made it wanted the key present */
byte begun, done;
short now = 1, met = 1;

#define BIT(i) (1 << (i))
#define HAS(mask, i) (((mask) >> (i)) & 1)
#define ABSENT(position) ((position) & 1 || !HAS(here, (position) / 2))

/* What may have happened by now. */
inline Settle() {
  if
  :: HAS(here, done) && HAS(now, 2 * done) && OVER(ends[done]) -> now = now ^ (3 << (2 * done)) | BIT(2 * done + 1)
  :: else
  fi;
  if
  :: begun > done ->
    if
    :: HAS(now, 2 * begun) && HAS(here, begun) && OVER(ends[begun]) ->
      now = (now & ~BIT(2 * begun)) | BIT(2 * begun + 1)
    :: else
    fi;
    if
    :: (HAS(now, 2 * done) && (!HAS(wants, begun) || HAS(here, done))) || (HAS(now, 2 * done + 1) && !HAS(wants, begun)) ->
      now = now | BIT(2 * begun + (HAS(here, begun) && OVER(ends[begun])))
    :: else
    fi
  :: else
  fi;
  met = met | now
}

inline WriteBegins(there, time, wants_it) {
  begun++;
  value[begun] = new_value;
  ends[begun] = time;
  here = here | ((there) << begun);
  wants = wants | ((wants_it) << begun);
  Settle()
}

inline WriteDone() {
  now = now & ~(3 << (2 * done));
  done = begun;
  assert(now != 0)
}

/* It was told that the key is absent, so nothing happened. */
inline WriteRefused() {
  here = here & ~BIT(begun);
  wants = wants & ~BIT(begun);
  value[begun] = 0;
  ends[begun] = 0;
  begun--;
  now = now & (HAS(here, done) -> BIT(2 * done + 1) : (3 << (2 * done)));
  met = met & (BIT(2 * done + 2) - 1);
  assert(now != 0)
}

#define NOTHING 15
/* A lookup of A ends with this value, or NOTHING. */
inline Answer(what) {
  d_step {
    left = 0;
    i = 0;
    do
    :: i <= 2 * begun + 1 ->
      if
      :: HAS(met, i) && (ABSENT(i) -> (what) == NOTHING : (what) == value[i / 2]) ->
        if
        :: (i & 1) && HAS(wants, i / 2 + 1) -> left = left | (now & BIT(i))
        :: else -> left = left | (now & ~(BIT(i) - 1))
        fi
      :: else
      fi;
      i++
    :: else -> break
    od;
    now = left;
    left = 0;
    i = 0;
    results++;
    assert(now != 0)
  }
  Crash()
}

/* Were the server to end now: what a later one would make of the region. The clock does not go back. */
#define WHOLE_AT(p) (sum[p] == SUM(ver[p], body[p]))
#ifdef RECOVERY_TAKES_INVERTED_FOR_TORN
#define SETTLED(p) FITS(expiry[p], ver[p])
#else
#define SETTLED(p) (FITS(expiry[p], ver[p]) || FITS(expiry[p] ^ INVERTED, ver[p]))
#endif
#ifdef RECOVERY_REPEATS_WHAT_IS_WHOLE
#define REPEATS(p) (target == (p) + 1 && ALIVE(ver[REDO]) == ALIVE(ver[p]) && WHOLE_AT(REDO))
#else
#define REPEATS(p) \
  (!(WHOLE_AT(p) && SETTLED(p)) && target == (p) + 1 && ALIVE(ver[REDO]) == ALIVE(ver[p]) && DEAD(ver[p]) && \
   WHOLE_AT(REDO))
#endif
byte at_crash, its_value, its_time;
inline Crash() {
  d_step {
    its_value = NOTHING;
    if
    :: slot[A] == 0 -> skip
    :: slot[A] != 0 && REPEATS(slot[A] - 1) ->
      its_value = body[REDO];
      its_time = TIME(expiry[REDO])
    :: slot[A] != 0 && !REPEATS(slot[A] - 1) && WHOLE_AT(slot[A] - 1) && SETTLED(slot[A] - 1) ->
      its_value = body[slot[A] - 1];
      its_time = TIME(expiry[slot[A] - 1])
    :: else -> skip
    fi;
    if :: OVER(its_time) -> its_value = NOTHING :: else fi;
    do
    :: at_crash <= 2 * begun + 1 &&
       !(HAS(now, at_crash) && (ABSENT(at_crash) -> its_value == NOTHING :
                                                    its_value == value[at_crash / 2] && its_time == ends[at_crash / 2])) ->
      at_crash++
    :: else -> break
    od;
    assert(at_crash <= 2 * begun + 1);
    at_crash = 0;
    its_value = 0;
    its_time = 0
  }
}

/* ================ The server ================ */

bool locked;
byte ops, moves, versions;
byte p, q, v, time, new_value;

#define BEGINS !locked && ops < OPS -> locked = true; ops++
#define PIECE(key) (slot[key] - 1)
#define EXPIRED(key) OVER(TIME(expiry[PIECE(key)]))
/* Stores of A's writes may be the last ones; a crash within B's loses nothing of A either. */
#define STORE(what) atomic { what; Crash() }

inline Ends() { p = 0; q = 0; v = 0; time = 0; new_value = 0; locked = false }

inline ChooseTime() {
  if
  :: time = 0
#if TICKS > 0
  :: clock + 1 <= TICKS -> time = clock + 1
#endif
#if TICKS > 1
  :: clock + 2 <= TICKS -> time = clock + 2
#endif
  fi
}

inline FreePiece(to) {
  if
  :: slot[A] != 1 && slot[B] != 1 -> to = 0
  :: slot[A] != 2 && slot[B] != 2 -> to = 1
  :: slot[A] != 3 && slot[B] != 3 -> to = 2
  fi
}

inline Free(key) {
#ifdef DELETE_CLEARS_SLOT_FIRST
  STORE(slot[key] = 0);
  STORE(ver[p] = ver[p] | 1)
#else
  STORE(ver[p] = ver[p] | 1);
  STORE(slot[key] = 0)
#endif
}

inline Refuse(key) {
  Free(key);
  atomic { if :: key == A -> WriteRefused() :: else fi; Ends() }
}

inline NewVersion() { versions++; v = versions * 2 }

inline Body(key) {
  NewVersion();
  ChooseTime();
  if :: key == A -> new_value = begun + 1 :: else -> new_value = 16 fi
}

inline StoreDead(at) {
  STORE(ver[at] = v + 1);
  STORE(sum[at] = SUM(v, new_value));
  STORE(body[at] = new_value);
  STORE(expiry[at] = EXPIRY(v, time))
}

inline RedoCopy(at) {
#ifndef REDO_FORGOTTEN
  STORE(target = 0);
  StoreDead(REDO);
#ifdef REDO_ALIVE
  STORE(ver[REDO] = v);
#endif
#ifndef REDO_TARGET_FORGOTTEN
  STORE(target = at + 1)
#else
  skip
#endif
#else
  skip
#endif
}

/* After the old item is DEAD, a put that wants it there looks at the clock anew. */
inline Kill(key, gone) {
#ifdef LOOK_BEFORE_DEAD
  atomic { gone = EXPIRED(key) }
  STORE(ver[p] = ver[p] | 1);
#else
  STORE(ver[p] = ver[p] | 1);
#ifndef NO_LOOK_AFTER_DEAD
  atomic { gone = EXPIRED(key) }
#endif
#endif
}

inline PutInPlace(key, on_condition) {
  atomic {
    slot[key] != 0 && BEGINS;
    p = PIECE(key);
    Body(key);
#ifdef VERSION_KEPT
    v = ALIVE(ver[p]);
#endif
    if :: key == A -> WriteBegins(1, time, on_condition) :: else fi;
    gone = on_condition && EXPIRED(key);
  }
  if
  :: gone -> skip
  :: else ->
#ifndef REDO_AFTER_DEAD
    RedoCopy(p);
#endif
    if
    :: on_condition -> Kill(key, gone)
    :: else
    fi
  fi;
  if
  :: gone -> atomic { gone = false; skip }; Refuse(key)
  :: else ->
#ifdef EXPIRY_BEFORE_DEAD
    STORE(expiry[p] = EXPIRY(v, time));
#endif
#ifndef NOT_DEAD_MEANWHILE
    STORE(ver[p] = v + 1);
#endif
#ifdef REDO_AFTER_DEAD
    RedoCopy(p);
#endif
    STORE(sum[p] = SUM(v, new_value));
#ifdef ALIVE_BEFORE_BODY
    STORE(ver[p] = v);
#endif
    STORE(body[p] = new_value);
#ifdef EXPIRY_AFTER_ALIVE
    STORE(ver[p] = v);
#endif
    STORE(expiry[p] = EXPIRY(v, time));
    STORE(ver[p] = v);
    atomic { if :: key == A -> WriteDone() :: else fi; Crash(); Ends() }
  fi
}

inline PutMoved(key, on_condition) {
  atomic {
    (slot[key] != 0 || !on_condition) && BEGINS;
    FreePiece(q);
    Body(key);
    if :: key == A -> WriteBegins(1, time, on_condition) :: else fi;
    if :: slot[key] != 0 -> p = PIECE(key); gone = on_condition && EXPIRED(key) :: else -> p = NOTHING fi
  }
  if
  :: gone -> skip
  :: else ->
    StoreDead(q);
    if
    :: p == NOTHING -> skip
    :: p != NOTHING && on_condition -> Kill(key, gone)
    :: else ->
#ifndef OLD_DEAD_LAST
      STORE(ver[p] = ver[p] | 1)
#else
      skip
#endif
    fi
  fi;
  if
  :: gone -> atomic { gone = false; skip }; Refuse(key)
  :: else ->
#ifdef HINT_BEFORE_SLOT
    if :: p != NOTHING -> STORE(sum[p] = HINT(q)) :: else fi;
#endif
#ifdef ALIVE_BEFORE_SLOT
    STORE(ver[q] = v);
#endif
    STORE(slot[key] = q + 1);
    STORE(ver[q] = v);
    if
    :: p != NOTHING ->
#ifdef OLD_DEAD_LAST
      STORE(ver[p] = ver[p] | 1);
#endif
      STORE(sum[p] = HINT(q))
    :: else
    fi;
    atomic { if :: key == A -> WriteDone() :: else fi; Crash(); Ends() }
  fi
}

inline Touch() {
  atomic {
    slot[A] != 0 && BEGINS;
    p = PIECE(A);
    ChooseTime();
    new_value = body[p];
    WriteBegins(1, time, 1);
    gone = EXPIRED(A)
  }
  if
  :: gone -> skip
  :: else ->
#ifndef TOUCH_OF_ONE_STORE
    STORE(expiry[p] = expiry[p] ^ INVERTED);
#ifndef TOUCH_WITHOUT_A_LOOK
    gone = EXPIRED(A)
#endif
#else
    gone = EXPIRED(A)
#endif
  fi;
  if
  :: gone -> atomic { gone = false; skip }; Refuse(A)
  :: else ->
    STORE(expiry[p] = EXPIRY(ver[p], time));
    atomic { WriteDone(); Crash(); Ends() }
  fi
}

inline Delete() {
  atomic {
    slot[A] != 0 && !EXPIRED(A) && BEGINS;
    p = PIECE(A);
    new_value = NOTHING;
    WriteBegins(0, 0, 0)
  }
  Free(A);
  atomic { WriteDone(); Crash(); Ends() }
}

/* What has expired leaves the table. */
inline Sweep() {
  atomic { slot[A] != 0 && EXPIRED(A) && BEGINS; p = PIECE(A) }
  Free(A);
  atomic { Ends() }
}

inline Move() {
  atomic {
    slot[A] != 0 && moves < MOVES && BEGINS;
    moves++;
    FreePiece(q);
    p = PIECE(A);
    v = ver[p]
  }
  STORE(ver[q] = v + 1);
  STORE(sum[q] = sum[p]);
  STORE(body[q] = body[p]);
  STORE(expiry[q] = expiry[p]);
  STORE(ver[q] = v);
#ifdef MOVE_HINTS_BEFORE_SLOT
  STORE(sum[p] = HINT(q));
#endif
  STORE(slot[A] = q + 1);
#ifndef MOVED_STAYS_ALIVE
  STORE(ver[p] = v + 1);
  STORE(sum[p] = HINT(q));
#ifndef MOVE_LEAVES_EXPIRY
  STORE(expiry[p] = 0);
#endif
#endif
  atomic { Ends() }
}

proctype Server() {
  bool gone;
  do
#ifndef NO_IN_PLACE
  :: PutInPlace(A, 0)
#endif
#ifndef NO_MOVED
  :: PutMoved(A, 0)
#endif
#if TICKS > 0
#ifndef NO_IN_PLACE
  :: PutInPlace(A, 1)
#endif
#ifndef NO_MOVED
  :: PutMoved(A, 1)
#endif
#ifndef NO_TOUCH
  :: Touch()
#endif
#endif
#ifndef NO_DELETE
  :: Delete()
#if TICKS > 0
  :: Sweep()
#endif
#endif
#if MOVES > 0
  :: Move()
#endif
#ifdef B_WRITES
  :: PutInPlace(B, 0)
  :: PutMoved(B, 0)
#endif
  :: break
  od
}

proctype Clock() {
  do
  :: d_step { clock < TICKS -> clock++; Settle() }
  :: break
  od
}

/* ================ The reader ================ */

inline ReadItem(from) {
  do
  :: d_step { !(got & 1) -> iver = ver[from]; got = got | 1 }
  :: d_step { !(got & 2) -> isum = sum[from]; got = got | 2 }
  :: d_step { !(got & 4) -> ibody = body[from]; got = got | 4 }
  :: d_step { !(got & 8) -> iexpiry = expiry[from]; got = got | 8 }
  :: atomic { got == 15 -> got = 0; break }
  od
}
inline ForgetItem() { iver = 0; isum = 0; ibody = 0; iexpiry = 0 }

#define LIVES (iver != 0 && !DEAD(iver))
#ifdef CHECKSUM_IGNORED
#define WHOLE true
#else
#define WHOLE (isum == SUM(iver, ibody))
#endif
#define VALID (LIVES && WHOLE && FITS(iexpiry, iver) && ibody / 16 == A)

/* What the reader knows of the server's clock: it may be one behind, or one ahead. */
#ifdef CLOCK_BELIEVED
inline LookAtClock(low, high) {
  if
  :: low = clock
  :: clock > 0 -> low = clock - 1
  :: low = clock + 1
  fi;
  high = low
}
#else
inline LookAtClock(low, high) {
  if
  :: low = clock; high = clock
  :: clock > 0 -> low = clock - 1; high = clock
  :: low = clock; high = clock + 1
  fi
}
#endif

proctype Reader() {
  byte results, i, at;
  short left;
  byte got, iver, ibody, iexpiry;
  short isum;
  bool again, hinted;
  byte lo, hi, seen_ver, seen_expiry;

begin:
  atomic {
    ForgetItem();
    again = false; hinted = false; lo = 0; hi = 0; seen_ver = 0; seen_expiry = 0; at = 0;
    if
    :: results == LOOKUPS -> goto end
    :: else
    fi;
    met = now;
    if
    :: goto index
    :: goto ask
    :: at = 0
    :: at = 1
    :: at = 2
    :: at = REDO
    fi
  }
item:
  ReadItem(at);
  atomic {
    if
    :: VALID && TIME(iexpiry) == 0 -> Answer(ibody); goto begin
    :: VALID && TIME(iexpiry) != 0 -> skip
    :: !VALID && DEAD(iver) && isum >= HINT(0) && !hinted && at != isum - HINT(0) ->
      at = isum - HINT(0);
      hinted = true;
      ForgetItem();
      goto item
    :: else ->
#ifdef DEAD_PLACE_IS_ABSENT
      if :: DEAD(iver) -> Answer(NOTHING) :: else fi;
#endif
      goto begin
    fi;
    if
    :: again && iver == seen_ver && iexpiry == seen_expiry ->
      if
      :: lo >= TIME(iexpiry) -> Answer(NOTHING); goto begin
      :: else -> goto ask
      fi
    :: again && !(iver == seen_ver && iexpiry == seen_expiry) -> goto begin
    :: else
    fi;
    LookAtClock(lo, hi);
    if
    :: hi < TIME(iexpiry) -> Answer(ibody); goto begin
#ifdef NO_SECOND_READ
    :: hi >= TIME(iexpiry) && lo >= TIME(iexpiry) -> Answer(NOTHING); goto begin
#endif
    :: else
    fi;
    seen_ver = iver;
    seen_expiry = iexpiry;
    again = true;
    hi = 0;
    ForgetItem();
    goto item
  }

index:
  atomic {
    if
    :: slot[A] == 0 -> Answer(NOTHING); goto begin
    :: else -> at = slot[A] - 1; hinted = true; goto item
    fi
  }

ask:
  atomic {
    !locked;
#ifdef SERVERS_CLOCK_IS_OLD
    lo = 0;
#else
    lo = clock;
#endif
    if
    :: slot[A] != 0 && !(TIME(expiry[PIECE(A)]) != 0 && lo >= TIME(expiry[PIECE(A)])) -> Answer(body[PIECE(A)])
    :: else -> Answer(NOTHING)
    fi;
    goto begin
  }

end:
  skip
}

init {
  atomic {
    versions = 2;
    slot[A] = 1;
    ver[0] = 2; body[0] = 0; sum[0] = SUM(2, 0);
    ChooseTime();
    expiry[0] = EXPIRY(2, time);
    here = 1;
    ends[0] = time;
    time = 0;
    slot[B] = 2;
    ver[1] = 4; body[1] = 16; sum[1] = SUM(4, 16); expiry[1] = EXPIRY(4, 0);
    run Server();
    run Reader();
#if TICKS > 0
    run Clock()
#endif
  }
}
