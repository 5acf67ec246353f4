/* A group of three nodes: which of them may be believed, and what survives. The rules that the comments name are those of
 * docs/cluster-design.md; group_test.py runs it.
 *
 * Each node is paused between any two of its steps for as long as it likes, or for ever. The directory may execute a
 * compare-and-swap long after it was sent, and tells nodes its outcome as late. Records stay on their way for any time, in
 * order. A client that reads knows any configuration that there ever was.
 *
 * Writes are numbered in the order in which primaries begin them, so a log is a set of numbers. One key stands for all: a
 * table shows the number of the last write that was published in it.
 *
 * Bounds, by -D: EPOCHS (configurations), WRITES, GETS, JOINS (how often a node begins anew, each at most once), FIRST (the
 * first members, a bit for each; node 0 is the first primary), STRICT (no clocks: the reader fetches the words during each
 * get, and promoters do not wait), CRASHES (a node may lose its memory and begin anew at any time; else only once it was
 * removed), LEAVES (a primary may leave in order, once). Each other macro breaks a rule.
 */
#ifndef EPOCHS
#define EPOCHS 3
#endif
#ifndef WRITES
#define WRITES 2
#endif
#ifndef GETS
#define GETS 1
#endif
#ifndef JOINS
#define JOINS 0
#endif
#ifndef FIRST
#define FIRST 7
#endif

#define NODES 3
#define ALL 7
#define BIT(n) (1 << (n))
#define UP_TO(write) ((2 << (write)) - 1)
#define HAS(set, n) (((set) >> (n)) & 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* ---- The directory: all configurations, the last of them in force. */
#define LAST (EPOCHS + 1)
byte epoch = 1;
byte members[LAST];
byte primary[LAST];
byte incarnation[LAST];  /* of each member, a bit */
byte stream[LAST];       /* the records that the primary of this epoch sent in it, whether they arrived or not */

/* A compare-and-swap on its way from each node: the epoch that it expects, or 0; its members and their incarnations. */
byte cas_epoch[NODES];
byte cas_members[NODES];
byte cas_incarnation[NODES];

#ifdef LEAVES
bool leaving;  /* such a change is on its way, from this node */
byte leaver;
byte left;     /* the epoch whose primary has left; LAST while that is said nowhere, 0: none began to */
byte hurries;  /* nodes that promote themselves in the place of that one */
#endif

/* ---- What others read of a node. */
#define OPEN(e) (2 * (e) + 1)
#define SHUT(e) (2 * (e))
byte word[NODES];
byte table[NODES];
byte now;  /* the present incarnations, a bit for each node: READs of another one fail, as its connections are gone */

/* ---- What a node knows. */
byte at[NODES];        /* its epoch; 0 while it joins */
byte joining[NODES];   /* the epoch whose primary fills it, while it joins */
byte log[NODES];
byte proposal[NODES];  /* members that it proposed, until it knows the outcome; 0: none is pending */
bool serving[NODES];   /* as primary, since it opened */
byte agreed[NODES];    /* members whose log has nothing that the promoter's lacks; 0: it promotes nothing */
bool waited[NODES];
byte accepted[18];     /* records that an incarnation of a node accepted from a primary, as that was told */
#define ACCEPTED(from, by, life) accepted[(from) * 6 + (by) * 2 + (life)]
#define HEARD(from, by, e) ACCEPTED(from, by, HAS(incarnation[e], by))

byte begun;  /* writes */
byte joins;
byte joined;  /* nodes that began anew */

/* ---- What is to be proved: no get returns less than was acknowledged, or returned by another, before it began. */
byte known;

/* ---- The reader. */
byte r_epoch;      /* of the configuration that it believes in; 0: none */
byte r_words;      /* of the members: those that it READ after it had read the clock, p, and that were OPEN */
bool r_opened;     /* the primary's was */
bool r_answer;     /* a READ of the table completed */
bool r_wrong;       /* what it returned is older than what was known when the get began */
byte r_value;       /* or newer, as this */
#ifdef STRICT
byte r_floor;
#endif
bool r_late;       /* D passed since p */
bool r_answer_late;
byte r_spans;      /* nodes that began to wait after p: the lease is over when one has waited */
byte gets;
#ifdef STRICT
bool r_begun;
#endif

/* ================ Nodes ================ */

#define IS_PRIMARY(n) (serving[n] && primary[at[n]] == n)
#define LOWEST(set) ((set) & (~(set) + 1))

#ifdef ADAPTER_ACKNOWLEDGES
/* The record lies in the backup's memory; its CPU knows nothing of it. */
#define ACCEPTS_UNSEEN(n, by) \
  :: atomic { \
    IS_PRIMARY(n) && by != n && HAS(members[at[n]], by) && (stream[at[n]] & ~HEARD(n, by, at[n])) -> \
    HEARD(n, by, at[n]) = stream[at[n]] }
#define WANTED(n, e) (stream[e] & ~log[n])
#else
#define ACCEPTS_UNSEEN(n, by)
/* What it was gathered from, it accepts from the promoter all the same. */
#define WANTED(n, e) (stream[e] & ~ACCEPTED(primary[e], n, HAS(now, n)))
#endif

#if defined(ACKNOWLEDGED_BY_OLD_SET)
#define MUST_ACCEPT(n) members[at[n]]
#elif defined(ACKNOWLEDGED_BY_NEW_SET)
#define MUST_ACCEPT(n) (proposal[n] -> proposal[n] : members[at[n]])
#else
#define MUST_ACCEPT(n) (members[at[n]] | proposal[n])
#endif
/* A joiner has its present incarnation; a member that of the configuration. */
#define ACCEPTED_BY(n, by, record) \
  (by == n || !HAS(MUST_ACCEPT(n), by) || \
   (HAS(members[at[n]], by) -> HEARD(n, by, at[n]) : ACCEPTED(n, by, HAS(now, by))) & (record))

/* Rule 2. The proposal is repeated, unchanged, until its outcome is certain, which is no other step than its execution. */
inline Propose(n, set) {
  proposal[n] = set;
  cas_epoch[n] = at[n];
  cas_members[n] = set;
  /* A member that began anew is none any more: only a joiner is named as it is now. */
  cas_incarnation[n] = (incarnation[at[n]] & members[at[n]]) | (now & ~members[at[n]]);
  waited[n] = false;
  r_spans = (r_epoch != 0 -> r_spans | BIT(n) : r_spans);
#ifndef WITHOUT_SHUT
  word[n] = SHUT(at[n]);
#endif
}

#define MAY_PROPOSE(n) \
  at[n] == epoch && epoch < EPOCHS && proposal[n] == 0 && cas_epoch[n] == 0 && \
  word[n] == OPEN(at[n]) && HAS(incarnation[epoch], n) == HAS(now, n)

/* Whether the record says that the primary of now has left: then nobody waits for its leases. */
#ifdef LEAVES
#define NoteLeft(n) hurries = (left == epoch -> hurries | BIT(n) : hurries & ~BIT(n))
#else
#define NoteLeft(n) skip
#endif

/* What was acknowledged every member has; so only the promoter's own log counts. */
#define PROMOTE(n, set) \
  :: atomic { \
    MAY_PROPOSE(n) && HAS(members[epoch], n) && primary[epoch] != n && \
    (set & ~members[epoch]) == 0 && !HAS(set, primary[epoch]) && HAS(set, n) -> NoteLeft(n); Propose(n, set) }

#ifdef NON_MEMBER_PROMOTES
#define PROMOTE_UNASKED(n) \
  :: atomic { \
    at[n] != 0 && epoch < EPOCHS && !HAS(members[epoch], n) && proposal[n] == 0 && cas_epoch[n] == 0 -> \
    serving[n] = false; at[n] = epoch; Propose(n, BIT(n)) }
#else
#define PROMOTE_UNASKED(n)
#endif

#ifdef OPENS_BEFORE_CERTAINTY
#define GIVE_UP(n) \
  :: atomic { \
    proposal[n] != 0 && at[n] == epoch && cas_epoch[n] == at[n] -> proposal[n] = 0; word[n] = OPEN(at[n]) }
#else
#define GIVE_UP(n)
#endif

#define REMOVE(n, other) \
  :: atomic { \
    other != n && MAY_PROPOSE(n) && IS_PRIMARY(n) && HAS(members[epoch], other) -> \
    Propose(n, members[epoch] & ~BIT(other)) }

#ifdef JOINER_IS_NOT_FILLED
#define FILLED(n, other) true
#else
#define FILLED(n, other) ((log[n] & UP_TO(table[n]) & ~ACCEPTED(n, other, HAS(now, other))) == 0)
#endif
#define ADD(n, other) \
  :: atomic { \
    other != n && MAY_PROPOSE(n) && IS_PRIMARY(n) && !HAS(members[epoch], other) && at[other] == 0 && \
    joining[other] != 0 && FILLED(n, other) -> \
    Propose(n, members[epoch] | BIT(other)) }

/* A member cuts off what the promoter does not have, and says so. */
#define AGREE(n, other) \
  :: atomic { \
    agreed[n] != 0 && !HAS(agreed[n], other) && HAS(members[at[n]], other) && at[other] == at[n] && \
    HAS(incarnation[at[n]], other) == HAS(now, other) -> \
    log[other] = log[other] & log[n]; \
    agreed[n] = agreed[n] | BIT(other) }

/* A promoter goes on without a member that does not answer. */
#define DROP(n, other) \
  :: atomic { \
    other != n && at[n] == epoch && epoch < EPOCHS && agreed[n] != 0 && proposal[n] == 0 && cas_epoch[n] == 0 && \
    HAS(members[epoch], other) && HAS(incarnation[epoch], n) == HAS(now, n) -> \
    Propose(n, members[epoch] & ~BIT(other)) }

#define ACCEPTED_THE_TAIL(n, by) (by == n || !HAS(members[at[n]], by) || (log[n] & ~HEARD(n, by, at[n])) == 0)

#ifdef CRASHES
#define MAY_JOIN(n) true
#else
#define MAY_JOIN(n) (!HAS(members[epoch], n))
#endif

inline HighestOf(set, to) {
  if
  :: (set) >= 8 -> to = 3
  :: (set) < 8 && (set) >= 4 -> to = 2
  :: (set) < 4 && (set) >= 2 -> to = 1
  :: else -> to = 0
  fi
}

inline Take(n, e, record) {
  log[n] = log[n] | record;
  if
  :: HAS(incarnation[e], primary[e]) == HAS(now, primary[e]) ->
    ACCEPTED(primary[e], n, HAS(now, n)) = ACCEPTED(primary[e], n, HAS(now, n)) | record
  :: else
  fi
}

/* Rule 10: with zeroed memory, and old connections are gone. */
inline BeginAnew(n) {
  now = now ^ BIT(n);
  at[n] = 0; joining[n] = epoch;
  log[n] = 0; table[n] = 0;
  proposal[n] = 0; serving[n] = false; agreed[n] = 0; waited[n] = false;
#ifndef OLD_CONNECTIONS
  word[n] = 0;
#endif
  ACCEPTED(n, 0, 0) = 0; ACCEPTED(n, 1, 0) = 0; ACCEPTED(n, 2, 0) = 0;
  ACCEPTED(n, 0, 1) = 0; ACCEPTED(n, 1, 1) = 0; ACCEPTED(n, 2, 1) = 0
}

proctype Node(byte n) {
  byte e, record;
end:
  do
  /* A write begins. */
  :: atomic {
    IS_PRIMARY(n) && begun < WRITES ->
    begun++;
    log[n] = log[n] | BIT(begun);
    stream[at[n]] = stream[at[n]] | BIT(begun);
#ifdef VISIBLE_EARLY
    table[n] = begun;
#endif
  }
  ACCEPTS_UNSEEN(n, 0)
  ACCEPTS_UNSEEN(n, 1)
  ACCEPTS_UNSEEN(n, 2)
  /* Rule 5: a backup takes the next record. */
  :: atomic {
    at[n] != 0 && primary[at[n]] != n && word[n] == OPEN(at[n]) &&
    WANTED(n, at[n]) != 0 &&
    HAS(incarnation[at[n]], primary[at[n]]) == HAS(now, primary[at[n]]) ->
    e = at[n];
    record = LOWEST(WANTED(n, e));
    Take(n, e, record);
    e = 0; record = 0
  }
  /* The primary it was paused from is gone: late records, which nobody waits for. */
  :: atomic {
    at[n] != 0 && primary[at[n]] != n && word[n] == OPEN(at[n]) && (stream[at[n]] & ~log[n]) &&
    HAS(incarnation[at[n]], primary[at[n]]) != HAS(now, primary[at[n]]) ->
    log[n] = log[n] | LOWEST(stream[at[n]] & ~log[n])
  }
  /* So does a node that is filled. */
  :: atomic {
    at[n] == 0 && joining[n] != 0 && (stream[joining[n]] & ~log[n]) ->
    e = joining[n];
    record = LOWEST(stream[e] & ~log[n]);
    Take(n, e, record);
    e = 0; record = 0
  }
  :: atomic {  /* its primary went on to the next epoch */
    at[n] == 0 && joining[n] != 0 && joining[n] < epoch && primary[joining[n] + 1] == primary[joining[n]] &&
    at[primary[joining[n]]] > joining[n] && !HAS(members[joining[n] + 1], n) ->
    joining[n]++
  }
  /* Rule 4: the next record is published and acknowledged. */
  :: atomic {
    IS_PRIMARY(n) && (log[n] & ~UP_TO(table[n])) &&
    ACCEPTED_BY(n, 0, LOWEST(log[n] & ~UP_TO(table[n]))) &&
    ACCEPTED_BY(n, 1, LOWEST(log[n] & ~UP_TO(table[n]))) &&
    ACCEPTED_BY(n, 2, LOWEST(log[n] & ~UP_TO(table[n]))) ->
    record = LOWEST(log[n] & ~UP_TO(table[n]));
    HighestOf(record, table[n]);
    known = MAX(known, table[n]);
    record = 0
  }
#ifdef VISIBLE_EARLY
  /* The table shows it already; what is acknowledged still waits for all. */
  :: atomic {
    IS_PRIMARY(n) && known < table[n] && log[n] &&
    ACCEPTED_BY(n, 0, BIT(table[n])) && ACCEPTED_BY(n, 1, BIT(table[n])) && ACCEPTED_BY(n, 2, BIT(table[n])) ->
    known = table[n]
  }
#endif
  /* Rules 1 to 3. */
  REMOVE(n, 0)
  REMOVE(n, 1)
  REMOVE(n, 2)
  ADD(n, 0)
  ADD(n, 1)
  ADD(n, 2)
  PROMOTE(n, 2)
  PROMOTE(n, 3)
  PROMOTE(n, 4)
  PROMOTE(n, 5)
  PROMOTE(n, 6)
  PROMOTE(n, 1)
  PROMOTE_UNASKED(n)
  GIVE_UP(n)
  /* It learns of the next configuration, as a member of it. */
  :: atomic {
    at[n] != 0 && at[n] < epoch && HAS(members[at[n] + 1], n) &&
    HAS(incarnation[at[n] + 1], n) == HAS(now, n) ->
    at[n]++;
    proposal[n] = 0;
    if
    :: primary[at[n]] == n && serving[n] ->
      stream[at[n]] = log[n];
      word[n] = OPEN(at[n])
    :: primary[at[n]] == n && !serving[n] ->
      agreed[n] = BIT(n);
      stream[at[n]] = log[n]
    :: else ->
      agreed[n] = 0;
      word[n] = OPEN(at[n])
    fi
  }
  :: atomic {
    at[n] == 0 && joining[n] != 0 && joining[n] < epoch && HAS(members[joining[n] + 1], n) &&
    HAS(incarnation[joining[n] + 1], n) == HAS(now, n) ->
    at[n] = joining[n] + 1;
    joining[n] = 0;
    word[n] = OPEN(at[n])
  }
  /* Rule 6. */
  AGREE(n, 0)
  AGREE(n, 1)
  AGREE(n, 2)
  DROP(n, 0)
  DROP(n, 1)
  DROP(n, 2)
  :: atomic {
    agreed[n] != 0 && !waited[n] ->
#if !defined(NO_WAIT) && !defined(STRICT)
#ifdef LEAVES
    r_late = r_late || (HAS(r_spans, n) && !HAS(hurries, n));
#else
    r_late = r_late || HAS(r_spans, n);
#endif
#endif
    waited[n] = true
  }
  :: atomic {
#ifdef TAIL_NOT_ACCEPTED
    agreed[n] != 0 && waited[n] && proposal[n] == 0 ->
#else
    proposal[n] == 0 &&
    agreed[n] == members[at[n]] && agreed[n] != 0 && waited[n] &&
    ACCEPTED_THE_TAIL(n, 0) && ACCEPTED_THE_TAIL(n, 1) && ACCEPTED_THE_TAIL(n, 2) ->
#endif
    agreed[n] = 0;
    serving[n] = true;
    HighestOf(log[n], table[n]);
    known = MAX(known, table[n]);
    word[n] = OPEN(at[n])
  }
#ifdef LEAVES
  /* Rule 6: a primary leaves in order, once in a run. When nobody reaches it any more the record says so. */
  :: atomic {
    IS_PRIMARY(n) && left == 0 && at[n] == epoch && epoch < EPOCHS && members[epoch] != BIT(n) && proposal[n] == 0 &&
    cas_epoch[n] == 0 ->
    leaving = true; leaver = n;
    cas_epoch[n] = at[n];
    cas_members[n] = members[at[n]];
    cas_incarnation[n] = incarnation[at[n]];
    left = LAST;
#ifndef SAYS_TOO_EARLY_THAT_IT_LEFT
    BeginAnew(n)
#endif
  }
#endif
  /* It begins anew. */
  :: atomic {
    joins < JOINS && !HAS(joined, n) && MAY_JOIN(n) ->
    joins++;
    joined = joined | BIT(n);
    BeginAnew(n)
  }
  od
}

/* ================ The directory ================ */

proctype Directory() {
  byte n;
end:
  do
  :: atomic {
    if
    :: cas_epoch[0] != 0 -> n = 0
    :: cas_epoch[1] != 0 -> n = 1
    :: cas_epoch[2] != 0 -> n = 2
    fi;
    if
    :: cas_epoch[n] == epoch ->
      epoch++;
#ifdef LEAVES
      if
      :: leaving && leaver == n -> left = epoch
      :: else
      fi;
#endif
      members[epoch] = cas_members[n];
      incarnation[epoch] = cas_incarnation[n];
      primary[epoch] = n
    :: else
    fi;
#ifdef LEAVES
    leaving = leaving && leaver != n;
#endif
    cas_epoch[n] = 0; cas_members[n] = 0; cas_incarnation[n] = 0;
    n = 0
  }
  od
}

/* ================ The reader ================ */

#define R_PRIMARY primary[r_epoch]
#ifdef OLD_CONNECTIONS
#define REACHES(n) true
#else
#define REACHES(n) (HAS(incarnation[r_epoch], n) == HAS(now, n))
#endif

#if defined(PRIMARY_WORD_ONLY)
#define NEEDED BIT(R_PRIMARY)
#elif defined(BACKUP_WORDS_ONLY)
#define NEEDED (members[r_epoch] & ~BIT(R_PRIMARY))
#else
#define NEEDED members[r_epoch]
#endif
#ifdef REPLY_WITHOUT_LEASE
#define PROVED true
#else
#define PROVED (r_words == NEEDED && !r_answer_late)
#endif
#ifdef READS_BEFORE_OPEN
#define MAY_READ true
#else
#define MAY_READ r_opened
#endif

#ifdef STRICT
#define BEGUN r_begun
#define FLOOR r_floor
#else
#define BEGUN true
#define FLOOR known
#endif

inline Forget() {
  r_epoch = 0; r_words = 0; r_opened = false; r_late = false; r_spans = 0;
  r_answer = false; r_wrong = false; r_value = 0; r_answer_late = false;
#ifdef STRICT
  r_begun = false; r_floor = 0;
#endif
}

inline ReadClock() {
  r_words = 0; r_late = false; r_spans = 0; r_answer_late = false;
#ifdef STRICT
  if
  :: !r_begun -> r_begun = true; r_floor = known
  :: else
  fi
#else
  skip
#endif
}

#define READ_WORD(n) \
  :: atomic { \
    r_epoch != 0 && HAS(members[r_epoch], n) && !HAS(r_words, n) && HAS(NEEDED, n) && \
    !(REACHES(n) && word[n] == OPEN(r_epoch)) -> Forget() } \
  :: atomic { \
    r_epoch != 0 && HAS(members[r_epoch], n) && !HAS(r_words, n) && HAS(NEEDED, n) && \
    REACHES(n) && word[n] == OPEN(r_epoch) -> \
    r_words = r_words | BIT(n); \
    r_opened = r_opened || (n == R_PRIMARY) }

proctype Reader() {
end:
  do
  /* Rule 8: it reads the clock, then words; again later, as it likes. */
  :: atomic {
    r_epoch == 0 && gets < GETS ->
    if
    :: r_epoch = 1
    :: epoch >= 2 -> r_epoch = 2
    :: epoch >= 3 -> r_epoch = 3
    :: epoch >= 4 -> r_epoch = 4
    fi;
    ReadClock()
  }
  :: atomic { r_epoch != 0 && (r_late || r_opened || r_answer) -> ReadClock() }
  READ_WORD(0)
  READ_WORD(1)
  READ_WORD(2)
#ifdef BACKUP_WORDS_ONLY
  :: atomic { r_epoch != 0 && !r_opened && REACHES(R_PRIMARY) && word[R_PRIMARY] == OPEN(r_epoch) -> r_opened = true }
#endif
  /* Rule 7. A get that begins as late as it can is the one that has to know most, and one that is complete at once is
   * the one that is soonest believed. What everybody knows already cannot be wrong and tells nobody anything. */
  :: atomic {
    r_epoch != 0 && !r_answer && MAY_READ && REACHES(R_PRIMARY) && BEGUN && table[R_PRIMARY] != FLOOR ->
    r_answer = true;
    r_wrong = table[R_PRIMARY] < FLOOR;
    r_value = (r_wrong -> 0 : table[R_PRIMARY]);
    r_answer_late = r_late
  }
  :: atomic {
    r_answer && PROVED ->
    assert(!r_wrong);
    known = MAX(known, r_value);
    gets++;
    r_answer = false; r_value = 0; r_answer_late = false;
#ifdef STRICT
    Forget()
#else
    if
    :: gets == GETS -> Forget()
    :: else
    fi
#endif
  }
  od
}

init {
  byte n;
  atomic {
    members[1] = FIRST;
    serving[0] = true;
    do
    :: n < NODES ->
      if
      :: HAS(FIRST, n) -> at[n] = 1; word[n] = OPEN(1)
      :: else -> joining[n] = 1
      fi;
      n++
    :: else -> break
    od;
    n = 0;
    run Node(0); run Node(1); run Node(2); run Directory(); run Reader()
  }
}
