/* Two groups and a slot that moves between them: who has it, and that no write is lost. The steps that the comments name
 * are those of docs/cluster-design.md, "Slots that move"; slots_test.py runs it.
 *
 * What group.pml proves of one group is taken for granted here: that what the present primary commits its successors have,
 * that a deposed one commits nothing, and that a client's READs are believed in an epoch of the group only, but for a
 * lease. So a group is a record, a value that its present primary may change, and its primaries, one after the other, of
 * which former ones go on with what they knew. Each stands still between any two steps for as long as it likes. A
 * compare-and-swap of a record is done long after it was decided, or never.
 *
 * Bounds, by -D: WRITES, MOVES (how often a group begins to take the slot), FAILOVERS (of each group). Each other macro
 * breaks a rule.
 */
#ifndef WRITES
#define WRITES 2
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif

#define PRIMARIES (FAILOVERS + 1)
#define NODES (2 * PRIMARIES)
#define GROUP(n) ((n) / PRIMARIES)
#define OTHER(n) (1 - GROUP(n))
#define IS_PRESENT(n) (primary[GROUP(n)] == (n))

/* ---- The records. 0: there is no such move. */
byte epoch[2];
byte primary[2];  /* a node */
bool owns[2];
byte taking[2], taken[2], given[2];  /* moves */

/* ---- What the members of a group have in their tables of the slot: the last write; 0: nothing. */
byte value[2];
bool lease[2];  /* clients may believe what they READ there although the slot is given */

/* ---- What a node knows: its group's record as it was when it changed it last, or became primary; and what it does. */
bool leads[NODES];
byte k_epoch[NODES];
bool k_owns[NODES];
byte k_taking[NODES], k_taken[NODES], k_given[NODES];
byte k_value[NODES];    /* of a former primary */
byte change[NODES];     /* of the record, that is decided; 0: none */
byte change_epoch[NODES];
/* Of a giver: */
byte taker[NODES];      /* whom it copies to, + 1; 0: nobody */
byte wanted[NODES];     /* by which move */
bool closed[NODES], caught_up[NODES];
/* Of a taker: */
byte giver[NODES];      /* where it has looked for the slot, + 1 */
byte begun[NODES];      /* by whom its attempt has begun, + 1 */
bool clean[NODES];
byte accepted[NODES];   /* the value of which it tells the giver that it is accepted */
bool tells[NODES];

byte last;  /* the last write, acknowledged */
byte moves;

#define GIVE 1
#define OWN 2
#define GIVE_UP 3
#define FORGET_GIVEN 4
#define HAVE_BACK 5
#define FORGET_TAKEN 6

inline know(n) {
  k_epoch[n] = epoch[GROUP(n)];
  k_owns[n] = owns[GROUP(n)];
  k_taking[n] = taking[GROUP(n)];
  k_taken[n] = taken[GROUP(n)];
  k_given[n] = given[GROUP(n)];
}

inline decide(n, what) {
  change[n] = what;
  change_epoch[n] = k_epoch[n]
}

inline forget_attempt(n) {
  giver[n] = 0;
  begun[n] = 0;
  clean[n] = false;
  tells[n] = false;
  accepted[n] = 0
}

inline forget_taker(n) {
  taker[n] = 0;
  wanted[n] = 0;
  closed[n] = false;
  caught_up[n] = false
}

#define VALUE_AT(n) (IS_PRESENT(n) -> value[GROUP(n)] : k_value[n])
#define FREE(n) (leads[n] && change[n] == 0)

/* ---- Readers: whatever they may believe is what was acknowledged last. */
#define CHECK \
  assert(!(owns[0] && owns[1])); \
  assert(!owns[0] || value[0] == last); \
  assert(!owns[1] || value[1] == last); \
  assert(!lease[0] || value[0] == last); \
  assert(!lease[1] || value[1] == last)

/* ---- The steps of node n. */
#define STEPS(n) \
  /* A write, of a client of this group; also while a change of the record is not certain. */ \
  :: atomic { leads[n] && IS_PRESENT(n) && owns[GROUP(n)] && !closed[n] && last < WRITES -> \
       last++; value[GROUP(n)] = last; caught_up[n] = false; CHECK } \
  /* An operator has the group take the slot. */ \
  :: atomic { FREE(n) && IS_PRESENT(n) && !owns[GROUP(n)] && taking[GROUP(n)] == 0 && given[GROUP(n)] == 0 && \
              taken[GROUP(n)] == 0 && moves < MOVES -> \
       moves++; taking[GROUP(n)] = moves; epoch[GROUP(n)]++; know(n); forget_attempt(n) } \
  /* It looks who has the slot, and connects. */ \
  :: atomic { FREE(n) && k_taking[n] != 0 && giver[n] == 0 && given[OTHER(n)] != k_taking[n] && owns[OTHER(n)] -> \
       giver[n] = primary[OTHER(n)] + 1; CLEAN_TOO_EARLY(n) } \
  /* The giver begins to copy to it, and to nobody else. */ \
  :: atomic { giver[n] != 0 && begun[n] == 0 && k_taking[n] != 0 && FREE(giver[n] - 1) && k_owns[giver[n] - 1] && \
              taking[GROUP(n)] == k_taking[n] -> \
       BEGIN(n, giver[n] - 1) } \
  /* What a former attempt left is erased. */ \
  :: atomic { FREE(n) && begun[n] != 0 && !clean[n] -> clean[n] = true; CLEAN(n) } \
  /* All that the giver has is accepted by all members, and that is told. */ \
  :: atomic { FREE(n) && clean[n] && IS_PRESENT(n) && taker[begun[n] - 1] == n + 1 && \
              (!tells[n] || accepted[n] != VALUE_AT(begun[n] - 1)) -> \
       value[GROUP(n)] = VALUE_AT(begun[n] - 1); accepted[n] = value[GROUP(n)]; tells[n] = true } \
  :: atomic { leads[n] && taker[n] != 0 && tells[taker[n] - 1] && !caught_up[n] && \
              accepted[taker[n] - 1] == VALUE_AT(n) -> \
       caught_up[n] = true } \
  /* The giver closes the slot, and opens it again. */ \
  :: atomic { FREE(n) && taker[n] != 0 && !closed[n] -> closed[n] = true } \
  :: atomic { FREE(n) && closed[n] -> closed[n] = false } \
  :: atomic { FREE(n) && taker[n] != 0 && MAY_GIVE(n) && k_owns[n] -> decide(n, GIVE) } \
  /* The taker sees that it is given. */ \
  :: atomic { FREE(n) && k_taking[n] != 0 && MAY_OWN(n) -> decide(n, OWN) } \
  :: atomic { FREE(n) && k_taking[n] != 0 -> decide(n, GIVE_UP) } \
  /* Both look what has become of the move. */ \
  :: atomic { FREE(n) && k_given[n] != 0 && taken[OTHER(n)] == k_given[n] -> decide(n, FORGET_GIVEN) } \
  :: atomic { FREE(n) && k_given[n] != 0 && taken[OTHER(n)] != k_given[n] && IS_GIVEN_UP(n) -> decide(n, HAVE_BACK) } \
  :: atomic { FREE(n) && k_taken[n] != 0 && GIVER_KNOWS(n) -> decide(n, FORGET_TAKEN) } \
  /* The compare-and-swap. */ \
  :: atomic { change[n] != 0 -> swap(n); CHECK } \
  /* Items of a slot that the group does not have are erased. */ \
  :: atomic { FREE(n) && IS_PRESENT(n) && !owns[GROUP(n)] && value[GROUP(n)] != 0 && MAY_ERASE(n) -> \
       value[GROUP(n)] = 0; CHECK }

#define BEGIN(n, m) \
  taker[m] = n + 1; wanted[m] = k_taking[n]; closed[m] = false; KEEP_ACCEPTANCE(m); \
  begun[n] = m + 1; clean[n] = false; tells[n] = false; accepted[n] = 0

#ifdef ACCEPTANCE_OF_A_FORMER_ATTEMPT
#define KEEP_ACCEPTANCE(m) skip
#else
#define KEEP_ACCEPTANCE(m) caught_up[m] = false
#endif

#define ERASES(n) if :: IS_PRESENT(n) -> value[GROUP(n)] = 0 :: else -> skip fi
#ifdef CLEANS_BEFORE_THE_ANSWER
#define CLEAN_TOO_EARLY(n) ERASES(n)
#define CLEAN(n) skip
#else
#define CLEAN_TOO_EARLY(n) skip
#define CLEAN(n) ERASES(n)
#endif

#ifdef GIVES_WITHOUT_CLOSING
#define MAY_GIVE(n) (caught_up[n])
#elif defined(GIVES_WHAT_IS_NOT_ACCEPTED)
#define MAY_GIVE(n) (closed[n])
#else
#define MAY_GIVE(n) (closed[n] && caught_up[n])
#endif

#ifdef WITHOUT_LEASE
#define MAY_OWN(n) (given[OTHER(n)] == k_taking[n])
#elif defined(OWNS_WHAT_IS_NOT_GIVEN)
#define MAY_OWN(n) (tells[n] && accepted[n] == value[OTHER(n)])
#else
#define MAY_OWN(n) (given[OTHER(n)] == k_taking[n] && !lease[OTHER(n)])
#endif

/* The taker's record has the move no more. */
#ifdef OLD_RECORD_OF_THE_TAKER
#define IS_GIVEN_UP(n) true
#else
#define IS_GIVEN_UP(n) (taking[OTHER(n)] != k_given[n])
#endif

#ifdef FORGETS_TAKEN_EARLY
#define GIVER_KNOWS(n) true
#else
#define GIVER_KNOWS(n) (given[OTHER(n)] != k_taken[n])
#endif

#ifdef ERASES_WHAT_IS_GIVEN
#define MAY_ERASE(n) (taking[GROUP(n)] == 0)
#elif defined(ERASES_WHAT_IS_TAKEN)
#define MAY_ERASE(n) (given[GROUP(n)] == 0)
#else
#define MAY_ERASE(n) (taking[GROUP(n)] == 0 && given[GROUP(n)] == 0)
#endif

#ifdef SWAPS_WHATEVER_THERE_IS
#define IS_EXPECTED(n) true
#else
#define IS_EXPECTED(n) (epoch[GROUP(n)] == change_epoch[n])
#endif

#ifdef TAKEN_IS_NOT_NOTED
#define TAKES(n) skip
#else
#define TAKES(n) taken[GROUP(n)] = taking[GROUP(n)]
#endif

inline swap(n) {
  if
  :: IS_EXPECTED(n) ->
     epoch[GROUP(n)]++;
     if
     :: change[n] == GIVE ->
        owns[GROUP(n)] = false; given[GROUP(n)] = wanted[n]; lease[GROUP(n)] = true; forget_taker(n)
     :: change[n] == OWN ->
        owns[GROUP(n)] = true; TAKES(n); taking[GROUP(n)] = 0; forget_attempt(n)
     :: change[n] == GIVE_UP -> taking[GROUP(n)] = 0; forget_attempt(n)
     :: change[n] == FORGET_GIVEN -> given[GROUP(n)] = 0
     :: change[n] == HAVE_BACK -> owns[GROUP(n)] = true; given[GROUP(n)] = 0; lease[GROUP(n)] = false
     :: change[n] == FORGET_TAKEN -> taken[GROUP(n)] = 0
     fi;
     know(n);
     change[n] = 0
  :: else ->  /* it is deposed, and knows it now */
     change[n] = 0;
     leads[n] = false;
     forget_taker(n);
     forget_attempt(n)
  fi
}

#define FAILS_OVER(g) \
  :: atomic { primary[g] % PRIMARIES < FAILOVERS -> \
       k_value[primary[g]] = value[g]; primary[g]++; epoch[g]++; leads[primary[g]] = true; know(primary[g]) }

/* Connections end, as do attempts. */
#define CONNECTION_ENDS(n) \
  :: atomic { taker[n] != 0 && change[n] == 0 -> forget_taker(n) } \
  :: atomic { giver[n] != 0 && change[n] == 0 -> forget_attempt(n) }

init {
  atomic {
    owns[0] = true;
    epoch[0] = 1;
    epoch[1] = 1;
    primary[0] = 0;
    primary[1] = PRIMARIES;
    leads[0] = true;
    leads[PRIMARIES] = true;
    know(0);
    know(PRIMARIES)
  }
end:
  do
  STEPS(0)
  STEPS(PRIMARIES)
  CONNECTION_ENDS(0)
  CONNECTION_ENDS(PRIMARIES)
#if FAILOVERS > 0
  STEPS(1)
  STEPS(PRIMARIES + 1)
  CONNECTION_ENDS(1)
  CONNECTION_ENDS(PRIMARIES + 1)
#endif
  FAILS_OVER(0)
  FAILS_OVER(1)
  /* D passes. */
  :: atomic { lease[0] && !owns[0] -> lease[0] = false }
  :: atomic { lease[1] && !owns[1] -> lease[1] = false }
  od
}
