#!/usr/bin/env python3
"""Rewrites copies of kv/, server/, cluster/ and client/ for simulation: a hook in the place of each store to a region, and the mutations.

    rewrite.py OUT_DIRECTORY FILE...

A mutation is a deliberate break of the protocol, `if (BROKEN(kName))`, that is off unless a test turns it on at run
time; it stands here and not in the product's sources. Each edit names a passage that must occur exactly once. When it
does not, because the source has changed, the build fails and says which: make the edit fit the new source, so that it
breaks the same promise again.
"""

import pathlib
import sys

EDITS = [
    # ---- The hook.
    ("kv/words.h", "  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(at)).store(value, std::memory_order_release);",
     "  farlook::sim::Store(at, value);"),
    ("kv/words.h",
     "  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(at)).exchange(value, std::memory_order_seq_cst);",
     "  farlook::sim::Store(at, value);"),
    ("kv/words.h", "  const char* const end = from + bytes;\n",
     "  farlook::sim::Load(to, from, bytes);\n  const char* const end = from;\n"),
    # Vectors, which only the product has, store several words at once: here each is stored by itself, as where there are
    # no vectors. That has all the states of the region that a reader can meet then, and those between.
    ("kv/words.h", "  const ptrdiff_t whole = static_cast<ptrdiff_t>((bytes + 31) / 32 * 32);\n",
     "  for (size_t at = 0; at < (bytes + 31) / 32 * 32; at += 8) StoreWord(to + at, LoadAs<uint64_t>(from + at));\n"
     "  const ptrdiff_t whole = 0;\n"),
    # What is put together in the redo piece, too.
    ("kv/words.h", "  std::memcpy(to, from, bytes);\n#endif\n}\n\n// The same of a key", "  StoreBytes(to, from, bytes);\n#endif\n}\n\n// The same of a key"),
    ("kv/words.h", "#ifndef ABSL_HAVE_THREAD_SANITIZER\n  if (bytes - 16 <= 32 - 16)", "#if 0\n  if (bytes - 16 <= 32 - 16)"),
    # A server that dies between two stores gives nothing back, least of all what it was about to write.
    ("server/pull_queue.cc", "    if (pull.in_use && pull.posted == 0) Abandon(pull);\n",
     "    if (pull.in_use) continue;\n"),

    # ---- Writing.
    # The new item is alive before its slot points to it.
    ("kv/partition.cc", "  const bool is_new = found.slot == nullptr;\n",
     "  const bool is_new = found.slot == nullptr;\n"
     "  if (BROKEN(kAliveBeforeSlot)) StoreWord(region_ + offset + kVersionOffset, version);\n"),
    # The slot is overwritten, and the new item alive, before the old item is dead; or it never is.
    ("kv/partition.cc", "    StoreWord(found.item + kVersionOffset, dead);\n",
     "    if (!BROKEN(kOldDeadLast) && !BROKEN(kDeadBitForgotten)) StoreWord(found.item + kVersionOffset, dead);\n"),
    ("kv/partition.cc", "version);  // here the write takes effect\n",
     "version);\n"
     "  if (BROKEN(kOldDeadLast) && !is_new) StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);\n"),
    # The checksum does not bind the version, for who writes it and for who checks it.
    ("kv/item.h", "  return hasher(item + kVersionOffset, item_bytes - kVersionOffset);\n",
     "  if (BROKEN(kChecksumWithoutVersion)) return hasher(item + kLengthsOffset, item_bytes - kLengthsOffset);\n"
     "  return hasher(item + kVersionOffset, item_bytes - kVersionOffset);\n"),
    ("kv/item.h", "  return hasher(version, item + kVersionOffset, item_bytes - kVersionOffset);\n",
     "  if (BROKEN(kChecksumWithoutVersion)) return hasher(item + kLengthsOffset, item_bytes - kLengthsOffset);\n"
     "  return hasher(version, item + kVersionOffset, item_bytes - kVersionOffset);\n"),
    ("kv/item.cc", "hasher(head.substr(kVersionOffset, in_head - kVersionOffset), rest",
     "hasher(BROKEN(kChecksumWithoutVersion) ? head.substr(kLengthsOffset, in_head - kLengthsOffset)\n"
     "                                             : head.substr(kVersionOffset, in_head - kVersionOffset), rest"),
    ("kv/partition.cc", "  StoreWord(item + kChecksumOffset, (*hasher_)(head, {item + kLengthsOffset, bytes - kLengthsOffset}));\n",
     "  StoreWord(item + kChecksumOffset, (*hasher_)(BROKEN(kChecksumWithoutVersion) ? absl::string_view() : head,\n"
     "                             {item + kLengthsOffset, bytes - kLengthsOffset}));\n"),
    ("server/pull_queue.cc", "    pull.sums->item.Update({reinterpret_cast<const char*>(&version), sizeof version});\n",
     "    if (!BROKEN(kChecksumWithoutVersion)) pull.sums->item.Update({reinterpret_cast<const char*>(&version), sizeof version});\n"),
    # Versions are used for four writes each.
    ("kv/partition.h", "    return versions_ << bits_ | prefix_;",
     "    return (BROKEN(kVersionReused) ? (versions_ + 3) / 4 : versions_) << bits_ | prefix_;"),
    # Each incarnation counts versions from the same number on.
    ("kv/partition.cc", "versions_(options.first_version >> bits)",
     "versions_(BROKEN(kVersionsBeginAnew) ? 0 : options.first_version >> bits)"),
    # A delete clears the slot before the item is dead.
    ("kv/partition.cc", "  StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);  // here the delete takes effect\n",
     "  if (BROKEN(kDeleteClearsSlotFirst)) StoreWord(found.slot, 0);\n"
     "  StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);\n"),
    # Where an item was moved from it stays alive.
    ("kv/partition_room.cc", "  StoreWord(from + kVersionOffset, version | kDeadBit);\n",
     "  if (BROKEN(kMovedStaysAlive)) return;\n"
     "  StoreWord(from + kVersionOffset, version | kDeadBit);\n"),

    # A cache evicts what was put to be kept.
    ("kv/partition_eviction.cc", "(lengths.flags & kKeepItem) != 0)", "((lengths.flags & kKeepItem) != 0 && !BROKEN(kKeptIsEvicted)))"),
    # What is evicted leaves the index, but is not dead.
    ("kv/partition_eviction.cc", "  Remove(found, Merging::kLater, now_ns);\n",
     "  const uint64_t version = found.version();\n"
     "  Remove(found, Merging::kLater, now_ns);\n"
     "  if (BROKEN(kEvictedStaysAlive)) StoreWord(found.item + kVersionOffset, version);\n"),

    # An item that has expired is found.
    ("kv/lookup.cc", "  if (now.hi < expiry_us) {\n", "  if (now.hi < expiry_us || BROKEN(kExpiredIsFound)) {\n"),
    # A put that is to keep the ttl does not.
    ("kv/partition.cc", "  return params.keep_ttl && old_expiry_ms != 0 ? old_expiry_ms : params.expiry_ms;\n",
     "  return params.keep_ttl && old_expiry_ms != 0 && !BROKEN(kTtlNotKept) ? old_expiry_ms : params.expiry_ms;\n"),
    # The server's clock is taken for what its last message said, and the time since.
    ("client/server_clock.h", "    const uint64_t since_us = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - heard_ns_)) / 1000;\n    return {",
     "    const uint64_t since_us = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - heard_ns_)) / 1000;\n"
     "    if (BROKEN(kClocksNotAllowedFor)) return {time_us_ + since_us, time_us_ + since_us};\n    return {"),
    # The sweep removes all that expires within a second.
    ("kv/partition_sweep.cc", "    const bool expired = HasExpired(expiry_ms, clock_us);\n",
     "    const bool early = BROKEN(kLiveIsSwept) ||\n"
     "                       (BROKEN(kLiveCounterIsSwept) && found.lengths().kind == ItemKind::kCounter);\n"
     "    const bool expired = HasExpired(expiry_ms, clock_us + (early ? 1'000'000 : 0));\n"),
    # The same of counters alone.
    ("server/counters.cc", "      !kv::HasExpired(item.expiry_ms, clock_us)) {\n",
     "      !kv::HasExpired(item.expiry_ms, clock_us + (BROKEN(kLiveCounterIsSwept) ? 1'000'000 : 0))) {\n"),

    # ---- Splitting.
    # The slots of a segment that was split are cleared before its descriptions say that it is retired; or they never do.
    ("kv/index.cc", "  for (uint32_t b = 0; b < kBuckets; ++b) StoreWord(BucketAt(old, b), 0);\n",
     "  farlook::sim::Retiring(pool_, offset, old);\n"
     "  for (uint32_t i = 0; BROKEN(kSlotsClearedFirst) && i < kSegmentWords; ++i) {\n"
     "    if (i % kWordsPerBucket != 0) StoreWord(old + 8 * uint64_t{i}, 0);\n"
     "  }\n"
     "  for (uint32_t b = 0; b < kBuckets && !BROKEN(kRetiredStays); ++b) StoreWord(BucketAt(old, b), 0);\n"),
    # A retired segment's memory is used again at once.
    ("kv/segment_pool.cc", "    if (retired.number > seen || now_ns <= retired.since_ns) break;\n",
     "    if (!BROKEN(kNoQuarantine) && (retired.number > seen || now_ns <= retired.since_ns)) break;\n"),
    ("kv/segment_pool.cc", "    if (now_ns - retired_.front().since_ns < kQuarantineNs) break;\n",
     "    if (now_ns - retired_.front().since_ns < kQuarantineNs && !BROKEN(kNoQuarantine)) break;\n"),

    # ---- Memory that leaves the index. In some runs it does so sooner and more often, and what becomes of it imitates
    # buckets; in the others it stays, and is soon used for other segments.
    ("kv/segment_pool.h", "  static constexpr size_t kSpareUnits = 1;\n",
     "  const size_t kSpareUnits = farlook::sim::index_memory_leaves ? 0 : 64;\n"),
    ("kv/segment_pool.h", "kLeaveIntervalNs = 1'000'000'000;", "kLeaveIntervalNs = 0;"),
    ("kv/index.cc", "kTidyNs = 1'000'000;", "kTidyNs = 50'000;"),
    ("kv/segment_pool.cc", "        heap_->FreeIndexUnit(leaving_.back());\n",
     "        farlook::sim::Left(this, leaving_.back(), kIndexUnitBytes);\n        heap_->FreeIndexUnit(leaving_.back());\n"),
    # It leaves as soon as the epoch was increased.
    ("kv/segment_pool.cc", "      if (now_ns - leave_since_ns_ < kQuarantineNs) return;\n",
     "      if (now_ns - leave_since_ns_ < kQuarantineNs && !BROKEN(kMemoryLeavesAtOnce)) return;\n"),
    # Nobody looks at the epoch.
    ("client/reads.cc", "          if (!parts_.directory->directory()->Trusts(lookup.hash(), lookup.entry(), now_ns)) [[unlikely]] {\n",
     "          if (!BROKEN(kEpochNotLookedAt) &&\n"
     "              !parts_.directory->directory()->Trusts(lookup.hash(), lookup.entry(), now_ns)) {\n"),

    # ---- Reading.
    ("kv/lookup.cc", "  cached_was_stale_ = true;\n",
     "  if (BROKEN(kDeadPlaceIsAbsent) && check == ItemCheck::kDead) return phase_ = Phase::kDone, Step::kNotFound;\n"
     "  cached_was_stale_ = true;\n"),
    ("kv/lookup.cc", "  if (!matched || second_look_) {\n",
     "  if (!matched || second_look_ || BROKEN(kNoSecondLook) || BROKEN(kDeadIsAbsent)) {\n"),
    # What is dead or torn is taken for absent.
    ("kv/lookup.cc", "  if (!only_others_) return Again();\n",
     "  if (!only_others_ && !BROKEN(kDeadIsAbsent)) return Again();\n"),
    # A bucket is believed that does not describe itself as the one that was looked for.
    ("kv/lookup.cc", "  if (!info.Describes(entry_.segment_id(), number)) {\n",
     "  if (!info.Describes(entry_.segment_id(), number) && !BROKEN(kOldDirectoryBelieved)) {\n"),
    ("kv/lookup.cc", "  if (bucket_ == 0 && looks_[0].link != 0) {\n",
     "  if (bucket_ == 0 && looks_[0].link != 0 && !BROKEN(kOverflowIgnored)) {\n"),
    # A key is taken for another that begins like it.
    ("kv/item.cc", "  const bool same = SameKey(item->key.data(), item->key.size(), key.data(), key.size());\n",
     "  const size_t common = BROKEN(kKeyWithoutLength) && key.size() < item->key.size() ? key.size() : item->key.size();\n"
     "  const bool same = SameKey(item->key.data(), common, key.data(), key.size());\n"),
    ("kv/item.cc", "lengths.key_bytes, lengths.value_bytes)) != header.checksum()) {\n",
     "lengths.key_bytes, lengths.value_bytes)) != header.checksum() && !BROKEN(kChecksumIgnored)) {\n"),
    # A "not found" is believed however long the lookup took.
    ("client/reads.cc", "  return now_ns - flight.get.since_ns <= kv::kMaxBucketReadNs;\n",
     "  return BROKEN(kLateNotFound) || now_ns - flight.get.since_ns <= kv::kMaxBucketReadNs;\n"),

    # ---- Gets at once.
    # What was read counts though the server was gone by then.
    ("client/direct_reads.cc", "  return connection_->alive();\n",
     "  return connection_->alive() || BROKEN(kAliveNotAsked);\n"),
    # The caller gets the bytes that lie there now, in place of those that were verified; or others that were not.
    ("client/direct_reads.cc", "  if (operation->kind == Kind::kGet && !Copy(value, operation)) [[unlikely]]\n",
     "  if (BROKEN(kCopiedAgain)) value = {get.item + (value.data() - item), value.size()};\n"
     "  if (operation->kind == Kind::kGet && !Copy(value, operation)) [[unlikely]]\n"),
    ("kv/item.h", "  return ItemChecksum(hasher, item, value_offset + value_bytes) == LoadAs<uint64_t>(item + kChecksumOffset) &&\n",
     "  return (BROKEN(kChecksumIgnoredAtOnce) ||\n"
     "          ItemChecksum(hasher, item, value_offset + value_bytes) == LoadAs<uint64_t>(item + kChecksumOffset)) &&\n"),
    # A bucket proves absence though it does not describe itself as the one that was looked for; or links to another.
    ("kv/fingerprints.h", "  return info.Describes(entry.segment_id(), BucketOf(hash)) && info.link() == 0 &&\n",
     "  return (info.Describes(entry.segment_id(), BucketOf(hash)) || BROKEN(kOldDirectoryBelievedAtOnce)) &&\n"
     "         (info.link() == 0 || BROKEN(kOverflowIgnoredAtOnce)) &&\n"),
    # Nobody looks at the epoch.
    ("client/direct_reads.cc", "  if (!context_.directory->TrustedAt(now_ns)) [[unlikely]]\n",
     "  if (!context_.directory->TrustedAt(now_ns) && !BROKEN(kEpochNotLookedAtAtOnce)) [[unlikely]]\n"),

    # ---- Sessions.
    ("server/session.cc", "  const Entry& entry = at(number);\n  Outcome outcome;\n",
     "  const Entry& entry = at(BROKEN(kReplyOfAnotherNumber) && number > 1 ? number - 1 : number);\n"
     "  Outcome outcome;\n"),
    # A write that was done is done again when it is sent again.
    ("server/session.cc", "return IsWrite(type) ? Claim::kAnswered : Claim::kExecute;",
     "return IsWrite(type) && !BROKEN(kExecutedAgain) ? Claim::kAnswered : Claim::kExecute;"),
    ("server/session.cc", "  if (hello.epoch < confirmed_epoch_ || (!restored_ && hello.epoch > epoch_)) {\n",
     "  if (!BROKEN(kSessionOfAStranger) &&\n"
     "      (hello.epoch < confirmed_epoch_ || (!restored_ && hello.epoch > epoch_))) {\n"),
    # A write does not wait for an earlier one of its session to the same key, whose value is being pulled, or for which
    # room is being made.
    ("server/worker_apply.h",
     "  if (HasWaiting(link) && IsWrite(type) &&", "  if (!BROKEN(kOrderOfWritesDropped) && HasWaiting(link) && IsWrite(type) &&"),
    # Puts of one message take effect in reverse; answers to the requests of one have each other's numbers.
    ("server/worker_several.cc", "    if (const size_t done = together(request, i); done != 0) {\n",
     "    const bool broken = BROKEN(kPutsReversed) || BROKEN(kPackMisnumbered);\n"
     "    if (const size_t done = broken ? 0 : together(request, i); done != 0) {\n"),
    ("server/worker_several.cc", "    request.key = key_of(i);\n    fill(i, &request);\n"
     "    ApplyNumberedHere(kType, link, request, places_[i], /*message=*/{});\n",
     "    const size_t at = BROKEN(kPutsReversed) ? count - 1 - i : i;\n"
     "    request.key = key_of(at);\n"
     "    fill(at, &request);\n"
     "    request.number = several.number + (BROKEN(kPackMisnumbered) ? count - 1 - at : at);\n"
     "    ApplyNumberedHere(kType, link, request, places_[at], /*message=*/{});\n"),
    # Puts go along with the condition and the time of the first.
    ("client/session_together.cc", "  return a.condition.kind() == b.condition.kind() &&",
     "  if (BROKEN(kUnlikePutsTogether)) return true;\n  return a.condition.kind() == b.condition.kind() &&"),
    # A request is done though its time is over.
    ("server/executor.h", "  return ServerTime::IsOverAt(request.deadline_us, now_us) ?",
     "  return ServerTime::IsOverAt(request.deadline_us, now_us) && !BROKEN(kOverIsBegun) ?"),
    # The client does not say when a request is over; or it says so with what it was once told of the server's clock.
    ("client/server_clock.h", "    if (time_us_ == 0 || deadline_ns ==",
     "    if (BROKEN(kDeadlineNotSaid) || time_us_ == 0 || deadline_ns =="),
    ("client/session.h", "  if (number == sounding_ || code == kv::Code::kExpired) [[unlikely]]\n",
     "  if ((number == sounding_ || code == kv::Code::kExpired) && !BROKEN(kClockHeardOnce))\n"),
    # What is repeated of an operation that has ended does not say that it is over.
    ("client/session.cc", "  request.deadline_us = kv::Request::kLongOver;\n",
     "  request.deadline_us = BROKEN(kEndedSentForEver) ? 0 : kv::Request::kLongOver;\n"),
    # A client that comes back does not name its session; or it says that it has fewer answers, or more, than it has.
    ("client/session.cc", "  if (!exists()) return hello;\n", "  if (!exists() || BROKEN(kSessionNotTakenUp)) return hello;\n"),
    ("client/session.cc", "  hello.acknowledged = floor_ - 1;\n",
     "  hello.acknowledged = BROKEN(kAcknowledgedNothing) ? 0 : BROKEN(kAcknowledgedAll) ? next_ - 1 : floor_ - 1;\n"),
    # The goodbye is not said; or not heard; or each session is treated as if it had been.
    ("client/core.cc", "  if (link_.ready()) engines_.SayGoodbye();\n",
     "  if (link_.ready() && !BROKEN(kGoodbyeNotSaid)) engines_.SayGoodbye();\n"),
    ("server/session.cc", "session->wrote() && !session->said_goodbye();",
     "session->wrote() && (!session->said_goodbye() || BROKEN(kGoodbyeNotHeard)) && !BROKEN(kSilentForgotten);"),
    # The client has one request more without an answer than it was granted.
    ("client/session.cc", "void Session::SetWindow(uint32_t granted) { window_ = std::min(granted, max_window_); }",
     "void Session::SetWindow(uint32_t granted) {\n"
     "  window_ = std::min(granted, max_window_) + (BROKEN(kCreditsOffByOne) ? 1u : 0u);\n"
     "}"),
    # A write whose session is gone is not reported as unknown but sent again.
    ("client/session.cc", "    if (IsWrite(operation->kind)) {\n      unknown(operation);\n",
     "    if (IsWrite(operation->kind) && !BROKEN(kUnknownSentAgain)) {\n      unknown(operation);\n"),
    # The client takes numbers below the last answer for answered, if nobody waits for their answers any more. (Were
    # somebody waiting, the client would lose track of its own memory.)
    ("client/session.h", "  while (floor_ < next_ && At(floor_).answered) ++floor_;\n",
     "  const auto jumps = [&] { return BROKEN(kFloorTooHigh) && floor_ < number && At(floor_).operation == nullptr; };\n"
     "  while (floor_ < next_ && (At(floor_).answered || jumps())) ++floor_;\n"),

    # ---- Counters.
    # The item of a deleted counter is dead, and its slot clear, before its cell is poisoned; or it never is.
    ("server/counters.cc", "  if (!writer_->FetchAdd(cell, static_cast<int64_t>(kv::kPoison), &old)) return Outcome(kDeviceFailed);\n",
     "  if (BROKEN(kItemDeadBeforePoison)) table_->DeleteCounter(hash, request.key);\n"
     "  if (!writer_->FetchAdd(cell, BROKEN(kPoisonForgotten) ? 0 : static_cast<int64_t>(kv::kPoison), &old))\n"
     "    return Outcome(kDeviceFailed);\n"),
    # The cell of a deleted counter is free at once, and nobody is told.
    ("server/counters.cc", "  Retire(cell, hash);\n",
     "  if (BROKEN(kCellReusedAtOnce)) FreeCell(cell);\n"
     "  else Retire(cell, hash);\n"),
    # Holders are told, but nobody waits for them.
    ("server/counters.cc", "    quarantine_.Retire(cell, hash);\n",
     "    quarantine_.Retire(cell, hash);\n    if (BROKEN(kCellQuarantineSkipped)) pool_.Free(cell);\n"),
    ("server/counters.cc", "  for (const uint64_t cell : released_) pool_.Free(cell);\n",
     "  for (const uint64_t cell : released_) {\n    if (!BROKEN(kCellQuarantineSkipped)) pool_.Free(cell);\n  }\n"),
    # The client acknowledges without forgetting the cells, or before what it has under way has ended.
    ("client/counters.cc", "  for (size_t i = 0; i < notice->size(); ++i) cache_.Erase(notice->hash(i));\n",
     "  for (size_t i = 0; i < notice->size() && !BROKEN(kNoticeIgnored); ++i) cache_.Erase(notice->hash(i));\n"),
    ("client/counters.cc", "  if (owed_ == 0 || noticed_ != 0) return;\n",
     "  if (owed_ == 0 || (noticed_ != 0 && !BROKEN(kAcknowledgedAtOnce))) return;\n"),
    ("client/counters.h", "(owed_ != 0 && noticed_ == 0)", "(owed_ != 0 && (noticed_ == 0 || BROKEN(kAcknowledgedAtOnce)))"),
    # It goes on using the cells of the last connection.
    ("client/counters.cc", "  waiting_.Append(&again);\n  cache_.Clear();\n",
     "  waiting_.Append(&again);\n  if (!BROKEN(kCellsOutliveConnection)) cache_.Clear();\n"),
    # It repeats an atomic whose completion was lost.
    ("client/counters.cc", "    const bool unknown = atomic.kind != Kind::kReadCounter && atomic.step != Step::kPost;\n",
     "    const bool unknown = atomic.kind != Kind::kReadCounter && atomic.step != Step::kPost && !BROKEN(kAtomicRepeated);\n"),
    # A reply that is sent again names the cell that the counter had.
    ("server/session.h", "    entry->slot = outcome.slot;\n",
     "    entry->slot = BROKEN(kCellToldFromMemory) && outcome.counter.cell != 0 ? kv::Slot(outcome.counter.cell) : outcome.slot;\n"),
    ("server/session.cc", "    outcome.counter.value = static_cast<int64_t>(entry.version);\n",
     "    outcome.counter.value = static_cast<int64_t>(entry.version);\n"
     "    if (BROKEN(kCellToldFromMemory)) outcome.counter.cell = entry.slot.word();\n"),
    # A connection is told cells without being noted as one that knows them.
    ("server/worker_apply.h", "    counter_links_->Enroll(link);\n",
     "    if (!BROKEN(kHolderNotEnrolled)) counter_links_->Enroll(link);\n"),
    ("server/worker_apply.h", "/*tell_cell=*/link.holder != 0",
     "/*tell_cell=*/link.holder != 0 || (BROKEN(kHolderNotEnrolled) && link.has_cells_key)"),
    # A client that does not acknowledge that counters were deleted is never dropped.
    ("server/counter_links.cc", "looked_ns - waiting_.front()->told_ns >= patience_ns_)",
     "(looked_ns - waiting_.front()->told_ns >= patience_ns_ && !BROKEN(kPatienceWithoutEnd)))"),
    # A client that is stopped within an atomic is not waited for.
    ("server/counter_links.cc", "  if (link.connection->quiescent()) {\n",
     "  if (link.connection->quiescent() || BROKEN(kGateNotWaitedFor)) {\n"),

    # ---- Groups.
    # A client believes what it READ without a look at the members' words.
    ("client/epoch_watch.cc", "  if (local()) return OpenNow() ?", "  if (BROKEN(kEpochWordsIgnored)) return Verdict::kBelieved;\n  if (local()) return OpenNow() ?"),
    # Whoever takes the primary's place serves before readers' leases are over; or its word stays open.
    ("cluster/member.cc", "  if (!ended_ && now < shut_at_ +", "  if (!ended_ && !BROKEN(kLeaseNotWaitedFor) && now < shut_at_ +"),
    ("cluster/member.cc", "  StoreWord(EpochWord::Shut(configuration_.epoch), actions);",
     "  StoreWord(BROKEN(kPromotesWithoutShut) ? EpochWord::Open(configuration_.epoch) : EpochWord::Shut(configuration_.epoch), actions);\n"
     "  if (BROKEN(kPromotesWithoutShut)) Stored(absl::InfinitePast(), actions);"),
    # A write is acknowledged although only the primary has it.
    ("server/group_stream.cc", "stream_->Commit(*must_accept_);",
     "stream_->Commit(BROKEN(kCommittedAtOnce) ? std::vector<uint64_t>() : *must_accept_);"),
    # Whoever takes the primary's place serves before the other members have what it has.
    ("server/group_backup.cc", "bool Group::AllAgree() const {\n", "bool Group::AllAgree() const {\n  if (BROKEN(kTailNotShared)) return true;\n"),
    # A joiner becomes a member before it has all items.
    ("server/group_primary.cc", "  if (state->second.accepted < filling_->caught_up && stream_.last() != 0) return false;\n",
     "  if (state->second.accepted < filling_->caught_up && stream_.last() != 0 && !BROKEN(kJoinerNotFilled)) return false;\n"),
    ("server/group_primary.cc", "  if (stream_.committed() < filling_->caught_up && stream_.last() != 0) return false;\n",
     "  if (stream_.committed() < filling_->caught_up && stream_.last() != 0 && !BROKEN(kJoinerNotFilled) &&\n"
     "      !BROKEN(kCopiesNotCommitted)) return false;\n"),
    # An item whose write was under way when the joiner came is not copied to it.
    ("server/commit_gate.cc", "    if (found->second.sequence > from && found->second.kind != Kind::kTouch) return",
     "    if ((found->second.sequence > from || BROKEN(kWriteUnderWayNotCopied)) && found->second.kind != Kind::kTouch) return"),
    # The same of a key that is not there yet.
    ("server/commit_gate.cc", "    if (pending.sequence <= from) under_way(", "    if (pending.sequence <= from && !BROKEN(kNewKeyUnderWayNotCopied)) under_way("),
    # The next primary uses versions again that the one before used.
    ("server/backup.cc", "      table_->RaiseVersions(record.version);\n", "      if (!BROKEN(kVersionsNotTold)) table_->RaiseVersions(record.version);\n"),
    # Who gives slots goes on to serve them while the last records are on their way.
    ("server/group_cluster.cc", "  const bool closed = giving_ != nullptr &&", "  const bool closed = !BROKEN(kSlotsNotClosed) && giving_ != nullptr &&"),
    # Slots are given before who takes them has all.
    ("server/group_give.cc", "  if (accepted < giving.last && stream_.last() != 0) return false;\n",
     "  if (accepted < giving.last && stream_.last() != 0 && !BROKEN(kLastOfSlotsNotAccepted)) return false;\n"),
    # Who takes them serves before readers' leases at the other group are over.
    ("server/group_take.cc", "  if (Now() < taking_->given_at +", "  if (!BROKEN(kSlotsOwnedAtOnce) && Now() < taking_->given_at +"),
    # What a former attempt copied stays.
    ("server/group_take.cc", "  if (taking.adopter != nullptr && !taking.is_clean) return Clean();\n",
     "  if (BROKEN(kFormerCopiesStay)) taking.is_clean = true;\n"
     "  if (taking.adopter != nullptr && !taking.is_clean) return Clean();\n"),
    # Versions of items that the giver deleted are used again.
    ("server/adopter.cc", "void Adopter::Owe(uint64_t version) {", "void Adopter::Owe(uint64_t version) {\n  if (BROKEN(kVersionsOfSlotsNotTold)) return;\n "),
    # The items are erased before it is certain that the other group has them.
    ("server/group_cluster.cc", "  for (const Move& move : member_.configuration().moves) used |= move.slots;\n",
     "  for (const Move& move : member_.configuration().moves) {\n"
     "    if (!BROKEN(kGivenIsErased) || move.kind != Move::Kind::kGiven) used |= move.slots;\n"
     "  }\n"),
    # Who took slots forgets the move before the giver has seen that.
    ("server/group_cluster.cc", "  if (!giver.ok() || giver->FindMove(move.id) != nullptr) return false;\n",
     "  if (!giver.ok() || (giver->FindMove(move.id) != nullptr && !BROKEN(kTakenIsForgotten))) return false;\n"),
    # Who gives slots settles the move before it has seen that they are given.
    ("server/group_cluster.cc", "    if (giving_ != nullptr && giving_->move.id == move.id) return false;\n",
     "    if (giving_ != nullptr && giving_->move.id == move.id && !BROKEN(kSettledUnseen)) return false;\n"),
    # A taker whose attempt counts no more is not told.
    ("server/group_give.cc", "if (state != followers.end() && !state->second.waits) stream_.Forget(giving.taker);",
     "if (state != followers.end() && !state->second.waits && !BROKEN(kTakerNotForgotten)) stream_.Forget(giving.taker);"),
    # What was given, or was not taken, is kept.
    ("server/group_cluster.cc", "      erases_ = true;\n", "      erases_ = !BROKEN(kForeignStays);\n"),
    # A client READs at the group that has given the slots away what waited there.
    ("client/core_cluster.cc", "  owners_->Told(index_, link_.welcome().slots);\n  WithdrawMoved();\n",
     "  owners_->Told(index_, link_.welcome().slots);\n  if (!BROKEN(kWaitingGetsNotWithdrawn)) WithdrawMoved();\n"),
    # Of a slot that is served again, writes are carried out before those that were refused.
    ("server/worker_group.cc", "  return link.moved != nullptr && IsWrite(request.type)",
     "  return !BROKEN(kFollowingNotRefused) && link.moved != nullptr && IsWrite(request.type)"),
    # What is sent to the next primary is carried out there before what the former one refused.
    ("client/core.cc", "  if (owners_ != nullptr) KeepOrder();\n", "  if (owners_ != nullptr && !BROKEN(kOrderNotKept)) KeepOrder();\n"),
    # Nor is what the next primary refuses put before what the former one had refused.
    ("client/engines.cc", "  if (operation->only_asked) [[unlikely]] {\n", "  if (operation->only_asked && !BROKEN(kHeldInOrderOfRefusals)) {\n"),
    # A backup takes its primary's time for its own; or forgets that the item ends.
    ("cluster/stream.cc", "    if (record.expires_ms != 0) record",
     "    if (BROKEN(kEndForgotten)) record.expires_ms = 0;\n"
     "    if (record.expires_ms != 0 && !BROKEN(kEndsByAnothersClock)) record"),
    # A get is told that an item is over, and no member hears of that.
    ("server/worker_group.cc", "    return read.code == kv::Code::kTimeIsOver ? CommitGate::Begun{read} :",
     "    if (BROKEN(kEndNotRecorded) && read.code == kv::Code::kTimeIsOver) {\n"
     "      return shared_.gate->Confirm(Outcome(kv::Code::kNotFound));\n    }\n"
     "    return read.code == kv::Code::kTimeIsOver ? CommitGate::Begun{read} :"),
    # The next primary does not know what became of writes.
    ("server/backup.cc", "  if (record.session != 0) {\n", "  if (record.session != 0 && !BROKEN(kOutcomesNotMirrored)) {\n"),
]


def rewrite(name, text):
    for file, old, new in EDITS:
        if file != name:
            continue
        if text.count(old) != 1:
            sys.exit(f"tests/sim/rewrite.py: {file} has {text.count(old)} times, not once:\n{old}\n"
                     "The source has changed: make the edit fit.")
        text = text.replace(old, new.replace("BROKEN(", "farlook::sim::Broken(farlook::sim::Break::"))
        if "tests/sim/hook.h" not in text:
            text = text.replace("#include", '#include "tests/sim/hook.h"\n#include', 1)
    return text


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rewrite(name, pathlib.Path(name).read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
