#!/usr/bin/env python3
"""Rewrites copies of kv/, server/, cluster/ and client/ for simulation: inserts a hook instead of each store to a
region, and the mutations.

rewrite.py OUT_DIRECTORY FILE...

A mutation is a deliberate break of the protocol, `if (BROKEN(kName))`, that is off unless a test turns it on at run
time; it is here and not in the product's sources. Each edit names a passage that must occur exactly once. If it does
not, because the source has changed, the build fails and names it: make the edit fit the new source, so that it breaks
the same promise again.
"""

import pathlib
import sys

EDITS = [
    # ---- The hook.
    ("kv/layout/words.h", "  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(at)).store(value, std::memory_order_release);",
     "  farlook::sim::Store(at, value);"),
    ("kv/layout/words.h",
     "  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(at)).exchange(value, std::memory_order_seq_cst);",
     "  farlook::sim::Store(at, value);"),
    ("kv/layout/words.h", "  const char* const end = from + bytes;\n",
     "  farlook::sim::Load(to, from, bytes);\n  const char* const end = from;\n"),
    # The product's vectors store several words at once. Here each is stored separately, as on a machine without
    # vectors. That covers all the states of the region that a reader can see with vectors, and those between.
    ("kv/layout/words.h", "  const ptrdiff_t whole = static_cast<ptrdiff_t>((bytes + 31) / 32 * 32);\n",
     "  for (size_t at = 0; at < (bytes + 31) / 32 * 32; at += 8) StoreWord(to + at, LoadAs<uint64_t>(from + at));\n"
     "  const ptrdiff_t whole = 0;\n"),
    # Also for items that are assembled in the redo piece.
    ("kv/layout/words.h", "  std::memcpy(to, from, bytes);\n#endif\n}\n\n// The same of a key", "  StoreBytes(to, from, bytes);\n#endif\n}\n\n// The same of a key"),
    ("kv/layout/words.h", "#ifndef ABSL_HAVE_THREAD_SANITIZER\n  if (bytes - 16 <= 32 - 16)", "#if 0\n  if (bytes - 16 <= 32 - 16)"),
    # A server that dies between two stores frees nothing, in particular not what it was about to write.
    ("server/executor/pull_queue.cc", "    if (pull.in_use && pull.posted == 0) Abandon(pull);\n",
     "    if (pull.in_use) continue;\n"),

    # A backup has failed for lack of room.
    ("server/replication/backup.cc", "      failed_ = taken;\n", "      failed_ = taken;\n      farlook::sim::backup_is_full = true;\n"),
    ("server/replication/backup.cc", "    if (absl::Status applied = Apply(*record); !applied.ok()) return failed_ = applied;\n",
     "    if (absl::Status applied = Apply(*record); !applied.ok()) {\n"
     "      farlook::sim::backup_is_full = true;\n      return failed_ = applied;\n    }\n"),

    # ---- Writing.
    # The new item is alive before its slot points to it.
    ("kv/table/partition.cc", "  const bool is_new = found.slot == nullptr;\n",
     "  const bool is_new = found.slot == nullptr;\n"
     "  if (BROKEN(kAliveBeforeSlot)) StoreWord(region_ + offset + kVersionOffset, version);\n"),
    # The slot is overwritten, and the new item alive, before the old item is dead; or the old item never is.
    ("kv/table/partition.cc", "    StoreWord(found.item + kVersionOffset, dead);\n",
     "    if (!BROKEN(kOldDeadLast) && !BROKEN(kDeadBitForgotten)) StoreWord(found.item + kVersionOffset, dead);\n"),
    ("kv/table/partition.cc", "version);  // here the write takes effect\n",
     "version);\n"
     "  if (BROKEN(kOldDeadLast) && !is_new) StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);\n"),
    # The checksum does not bind the version, neither for the writer nor for the reader.
    ("kv/layout/item.h", "  return hasher(item + kVersionOffset, item_bytes - kVersionOffset);\n",
     "  if (BROKEN(kChecksumWithoutVersion)) return hasher(item + kLengthsOffset, item_bytes - kLengthsOffset);\n"
     "  return hasher(item + kVersionOffset, item_bytes - kVersionOffset);\n"),
    ("kv/layout/item.h", "  return hasher(version, item + kVersionOffset, item_bytes - kVersionOffset);\n",
     "  if (BROKEN(kChecksumWithoutVersion)) return hasher(item + kLengthsOffset, item_bytes - kLengthsOffset);\n"
     "  return hasher(version, item + kVersionOffset, item_bytes - kVersionOffset);\n"),
    ("kv/layout/item.cc", "hasher(head.substr(kVersionOffset, in_head - kVersionOffset), rest",
     "hasher(BROKEN(kChecksumWithoutVersion) ? head.substr(kLengthsOffset, in_head - kLengthsOffset)\n"
     "                                             : head.substr(kVersionOffset, in_head - kVersionOffset), rest"),
    ("kv/table/partition.cc", "  StoreWord(item + kChecksumOffset, (*hasher_)(head, {item + kLengthsOffset, bytes - kLengthsOffset}));\n",
     "  StoreWord(item + kChecksumOffset, (*hasher_)(BROKEN(kChecksumWithoutVersion) ? absl::string_view() : head,\n"
     "                             {item + kLengthsOffset, bytes - kLengthsOffset}));\n"),
    ("server/executor/pull_queue.cc", "    pull.sums->item.Update({reinterpret_cast<const char*>(&version), sizeof version});\n",
     "    if (!BROKEN(kChecksumWithoutVersion)) pull.sums->item.Update({reinterpret_cast<const char*>(&version), sizeof version});\n"),
    # Versions are used for four writes each.
    ("kv/table/partition.h", "    return versions_ << bits_ | prefix_;",
     "    return (BROKEN(kVersionReused) ? (versions_ + 3) / 4 : versions_) << bits_ | prefix_;"),
    # Each incarnation counts versions from the same number on.
    ("kv/table/partition.cc", "versions_(std::max(options.first_version, LoadWord(marks_ + kVersionMark)) >> bits)",
     "versions_(BROKEN(kVersionsBeginAnew) ? 0 : options.first_version >> bits)"),
    # A delete clears the slot before the item is dead.
    ("kv/table/partition.cc", "  StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);  // here the delete takes effect\n",
     "  if (BROKEN(kDeleteClearsSlotFirst)) StoreWord(found.slot, 0);\n"
     "  StoreWord(found.item + kVersionOffset, found.version() | kDeadBit);\n"),
    # An item stays alive in the place that it was moved from.
    ("kv/table/partition_room.cc", "  StoreWord(from + kVersionOffset, version | kDeadBit);\n",
     "  if (BROKEN(kMovedStaysAlive)) return;\n"
     "  StoreWord(from + kVersionOffset, version | kDeadBit);\n"),

    # A cache evicts an item that was put with `keep`.
    ("kv/table/partition_eviction.cc", "(lengths.flags & kKeepItem) != 0)", "((lengths.flags & kKeepItem) != 0 && !BROKEN(kKeptIsEvicted)))"),
    # An evicted item leaves the index, but is not dead.
    ("kv/table/partition_eviction.cc", "  Remove(found, Merging::kLater, now_ns);\n",
     "  const uint64_t version = found.version();\n"
     "  Remove(found, Merging::kLater, now_ns);\n"
     "  if (BROKEN(kEvictedStaysAlive)) StoreWord(found.item + kVersionOffset, version);\n"),

    # An expired item is found.
    ("kv/read/lookup.cc", "  if (now.hi < expiry_us) {\n", "  if (now.hi < expiry_us || BROKEN(kExpiredIsFound)) {\n"),
    # A put with keep_ttl does not keep the ttl.
    ("kv/table/partition.cc", "  return params.keep_ttl && old_expiry_ms != 0 ? old_expiry_ms : params.expiry_ms;\n",
     "  return params.keep_ttl && old_expiry_ms != 0 && !BROKEN(kTtlNotKept) ? old_expiry_ms : params.expiry_ms;\n"),
    # The client takes the server's clock to be its last message's time plus the time since.
    ("client/op/server_clock.h", "    const uint64_t since_us = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - updated_ns_)) / 1000;\n    return {",
     "    const uint64_t since_us = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - updated_ns_)) / 1000;\n"
     "    if (BROKEN(kClocksNotAllowedFor)) return {time_us_ + since_us, time_us_ + since_us};\n    return {"),
    # The sweep removes all items that expire within a second.
    ("kv/table/partition_sweep.cc", "    const bool expired = HasExpired(expiry_ms, clock_us);\n",
     "    const bool early = BROKEN(kLiveIsSwept) ||\n"
     "                       (BROKEN(kLiveCounterIsSwept) && found.lengths().kind == ItemKind::kCounter);\n"
     "    const bool expired = HasExpired(expiry_ms, clock_us + (early ? 1'000'000 : 0));\n"),
    # The same of counters alone.
    ("server/counters/counters.cc", "      !kv::HasExpired(item.expiry_ms, clock_us)) {\n",
     "      !kv::HasExpired(item.expiry_ms, clock_us + (BROKEN(kLiveCounterIsSwept) ? 1'000'000 : 0))) {\n"),

    # ---- Splitting.
    # The slots of a split segment are cleared before its descriptions are; or the descriptions never are.
    ("kv/index/index.cc", "  for (uint32_t b = 0; b < kBuckets; ++b) StoreWord(BucketAt(old, b), 0);\n",
     "  farlook::sim::Retiring(pool_, offset, old);\n"
     "  for (uint32_t i = 0; BROKEN(kSlotsClearedFirst) && i < kSegmentWords; ++i) {\n"
     "    if (i % kWordsPerBucket != 0) StoreWord(old + 8 * uint64_t{i}, 0);\n"
     "  }\n"
     "  for (uint32_t b = 0; b < kBuckets && !BROKEN(kRetiredStays); ++b) StoreWord(BucketAt(old, b), 0);\n"),
    # A retired segment's memory is used again at once.
    ("kv/index/segment_pool.cc", "    if (retired.number > seen || now_ns <= retired.since_ns) break;\n",
     "    if (!BROKEN(kNoQuarantine) && (retired.number > seen || now_ns <= retired.since_ns)) break;\n"),
    ("kv/index/segment_pool.cc", "    if (now_ns - retired_.front().since_ns < kQuarantineNs) break;\n",
     "    if (now_ns - retired_.front().since_ns < kQuarantineNs && !BROKEN(kNoQuarantine)) break;\n"),

    # ---- Memory that leaves the index. In some runs it leaves sooner and more often, and imitates buckets afterwards;
    # in the others it stays, and is soon used for other segments.
    ("kv/index/segment_pool.h", "  static constexpr size_t kSpareUnits = 1;\n",
     "  const size_t kSpareUnits = farlook::sim::index_memory_leaves ? 0 : 64;\n"),
    ("kv/index/segment_pool.h", "kLeaveIntervalNs = 1'000'000'000;", "kLeaveIntervalNs = 0;"),
    ("kv/index/index.cc", "kTidyNs = 1'000'000;", "kTidyNs = 50'000;"),
    ("kv/index/segment_pool.cc", "        heap_->FreeIndexUnit(leaving_.back());\n",
     "        farlook::sim::Left(this, leaving_.back(), kIndexUnitBytes);\n        heap_->FreeIndexUnit(leaving_.back());\n"),
    # Memory leaves as soon as the epoch was increased.
    ("kv/index/segment_pool.cc", "      if (now_ns - leave_since_ns_ < kQuarantineNs) return;\n",
     "      if (now_ns - leave_since_ns_ < kQuarantineNs && !BROKEN(kMemoryLeavesAtOnce)) return;\n"),
    # The client does not check the epoch.
    ("client/reads/reads.cc", "          if (!parts_.directory->directory()->Trusts(lookup.hash(), lookup.entry(), now_ns)) [[unlikely]] {\n",
     "          if (!BROKEN(kEpochNotLookedAt) &&\n"
     "              !parts_.directory->directory()->Trusts(lookup.hash(), lookup.entry(), now_ns)) {\n"),

    # ---- Reading.
    ("kv/read/lookup.cc", "  cached_was_stale_ = true;\n",
     "  if (BROKEN(kDeadPlaceIsAbsent) && check == ItemCheck::kDead) return phase_ = Phase::kDone, Step::kNotFound;\n"
     "  cached_was_stale_ = true;\n"),
    ("kv/read/lookup.cc", "  if (!matched || second_look_) {\n",
     "  if (!matched || second_look_ || BROKEN(kNoSecondLook) || BROKEN(kDeadIsAbsent)) {\n"),
    # A dead or torn item is taken for absent.
    ("kv/read/lookup.cc", "  if (!only_others_) return Again();\n",
     "  if (!only_others_ && !BROKEN(kDeadIsAbsent)) return Again();\n"),
    # A bucket is believed that does not describe itself as the requested one.
    ("kv/read/lookup.cc", "  if (!info.Describes(entry_.segment_id(), number)) {\n",
     "  if (!info.Describes(entry_.segment_id(), number) && !BROKEN(kOldDirectoryBelieved)) {\n"),
    ("kv/read/lookup.cc", "  if (bucket_ == 0 && looks_[0].link != 0) {\n",
     "  if (bucket_ == 0 && looks_[0].link != 0 && !BROKEN(kOverflowIgnored)) {\n"),
    # A key is taken for another with the same beginning.
    ("kv/layout/item.cc", "  const bool same = SameKey(item->key.data(), item->key.size(), key.data(), key.size());\n",
     "  const size_t common = BROKEN(kKeyWithoutLength) && key.size() < item->key.size() ? key.size() : item->key.size();\n"
     "  const bool same = SameKey(item->key.data(), common, key.data(), key.size());\n"),
    ("kv/layout/item.cc", "lengths.key_bytes, lengths.value_bytes)) != header.checksum()) {\n",
     "lengths.key_bytes, lengths.value_bytes)) != header.checksum() && !BROKEN(kChecksumIgnored)) {\n"),
    # A "not found" is believed however long the lookup took.
    ("client/reads/reads.cc", "  return now_ns - flight.get.since_ns <= kv::kMaxBucketReadNs;\n",
     "  return BROKEN(kLateNotFound) || now_ns - flight.get.since_ns <= kv::kMaxBucketReadNs;\n"),

    # ---- Gets at once.
    # A value counts although the server was already gone when it was read.
    ("client/reads/direct_reads.cc", "  return connection_->alive();\n",
     "  return connection_->alive() || BROKEN(kAliveNotAsked);\n"),
    # The caller gets the present bytes instead of those that were verified, or others that were not.
    ("client/reads/direct_reads.cc", "  if (operation->kind == Kind::kGet && !Copy(value, operation)) [[unlikely]]\n",
     "  if (BROKEN(kCopiedAgain)) value = {get.item + (value.data() - item), value.size()};\n"
     "  if (operation->kind == Kind::kGet && !Copy(value, operation)) [[unlikely]]\n"),
    ("kv/layout/item.h", "  return ItemChecksum(hasher, item, value_offset + value_bytes) == LoadAs<uint64_t>(item + kChecksumOffset) &&\n",
     "  return (BROKEN(kChecksumIgnoredAtOnce) ||\n"
     "          ItemChecksum(hasher, item, value_offset + value_bytes) == LoadAs<uint64_t>(item + kChecksumOffset)) &&\n"),
    # A bucket proves absence although it does not describe itself as the requested one, or links to another.
    ("kv/layout/fingerprints.h", "  return info.Describes(entry.segment_id(), BucketOf(hash)) && info.link() == 0 &&\n",
     "  return (info.Describes(entry.segment_id(), BucketOf(hash)) || BROKEN(kOldDirectoryBelievedAtOnce)) &&\n"
     "         (info.link() == 0 || BROKEN(kOverflowIgnoredAtOnce)) &&\n"),
    # The client does not check the epoch.
    ("client/reads/direct_reads.cc", "  if (!context_.directory->TrustedAt(now_ns)) [[unlikely]]\n",
     "  if (!context_.directory->TrustedAt(now_ns) && !BROKEN(kEpochNotLookedAtAtOnce)) [[unlikely]]\n"),

    # ---- Sessions.
    ("server/session/session.cc", "  const Entry& entry = at(number);\n  Outcome outcome;\n",
     "  const Entry& entry = at(BROKEN(kReplyOfAnotherNumber) && number > 1 ? number - 1 : number);\n"
     "  Outcome outcome;\n"),
    # A resent write that was done is done again.
    ("server/session/session.cc", "return IsWrite(type) ? Claim::kAnswered : Claim::kExecute;",
     "return IsWrite(type) && !BROKEN(kExecutedAgain) ? Claim::kAnswered : Claim::kExecute;"),
    ("server/session/session.cc", "  if (hello.epoch < confirmed_epoch_ || (!awaits_client && hello.epoch > epoch_)) {\n",
     "  if (!BROKEN(kSessionOfAStranger) &&\n"
     "      (hello.epoch < confirmed_epoch_ || (!awaits_client && hello.epoch > epoch_))) {\n"),
    # A write does not wait for an earlier one of its session to the same key, whose value is being pulled, or for which
    # room is being made.
    ("server/worker/request_apply.h",
     "  if (HasWaiting(link) && IsWrite(type) &&", "  if (!BROKEN(kOrderOfWritesDropped) && HasWaiting(link) && IsWrite(type) &&"),
    # Puts of one message take effect in reverse; answers to the requests of one have each other's numbers.
    ("server/worker/request_several.cc", "    if (const size_t done = together(request, i); done != 0) {\n",
     "    const bool broken = BROKEN(kPutsReversed) || BROKEN(kPackMisnumbered);\n"
     "    if (const size_t done = broken ? 0 : together(request, i); done != 0) {\n"),
    ("server/worker/request_several.cc", "    request.key = key_of(i);\n    fill(i, &request);\n"
     "    ApplyNumberedHere(kType, link, request, places_[i], /*message=*/{});\n",
     "    const size_t at = BROKEN(kPutsReversed) ? count - 1 - i : i;\n"
     "    request.key = key_of(at);\n"
     "    fill(at, &request);\n"
     "    request.number = several.number + (BROKEN(kPackMisnumbered) ? count - 1 - at : at);\n"
     "    ApplyNumberedHere(kType, link, request, places_[at], /*message=*/{});\n"),
    # Puts go along with the condition and the time of the first.
    ("client/writes/session_together.cc", "  return a.condition.kind() == b.condition.kind() &&",
     "  if (BROKEN(kUnlikePutsTogether)) return true;\n  return a.condition.kind() == b.condition.kind() &&"),
    # A request is executed after its deadline.
    ("server/executor/executor.h", "  return ServerTime::IsOverAt(request.deadline_us, now_us) ?",
     "  return ServerTime::IsOverAt(request.deadline_us, now_us) && !BROKEN(kOverIsBegun) ?"),
    # The client sends no deadline; or one computed from an outdated time of the server's clock.
    ("client/op/server_clock.h", "    if (time_us_ == 0 || deadline_ns ==",
     "    if (BROKEN(kDeadlineNotSent) || time_us_ == 0 || deadline_ns =="),
    ("client/writes/session.h", "  if (number == sounding_ || code == kv::Code::kExpired) [[unlikely]]\n",
     "  if ((number == sounding_ || code == kv::Code::kExpired) && !BROKEN(kClockUpdatedOnce))\n"),
    # A repeated request of an operation that has ended does not say that its deadline has passed.
    ("client/writes/session.cc", "  request.deadline_us = kv::Request::kLongOver;\n",
     "  request.deadline_us = BROKEN(kEndedSentForEver) ? 0 : kv::Request::kLongOver;\n"),
    # A client that reconnects does not name its session; or claims fewer answers, or more, than it has.
    ("client/writes/session.cc", "  if (!exists()) return hello;\n", "  if (!exists() || BROKEN(kSessionNotTakenUp)) return hello;\n"),
    ("client/writes/session.cc", "  hello.acknowledged = floor_ - 1;\n",
     "  hello.acknowledged = BROKEN(kAcknowledgedNothing) ? 0 : BROKEN(kAcknowledgedAll) ? next_ - 1 : floor_ - 1;\n"),
    # The goodbye is not sent; or not received; or each session is treated as if one had been received.
    ("client/core/core.cc", "    router_.SendGoodbye();\n", "    if (!BROKEN(kGoodbyeNotSent)) router_.SendGoodbye();\n"),
    ("server/session/session.cc", "session->wrote() && !session->has_goodbye();",
     "session->wrote() && (!session->has_goodbye() || BROKEN(kGoodbyeIgnored)) && !BROKEN(kSilentForgotten);"),
    # The client has one more unanswered request than its window allows.
    ("client/writes/session.cc", "void Session::SetWindow(uint32_t granted) { window_ = std::min(granted, max_window_); }",
     "void Session::SetWindow(uint32_t granted) {\n"
     "  window_ = std::min(granted, max_window_) + (BROKEN(kCreditsOffByOne) ? 1u : 0u);\n"
     "}"),
    # A write whose session is gone is not reported as unknown but sent again.
    ("client/writes/session.cc", "    if (IsWrite(operation->kind)) {\n      unknown(operation);\n",
     "    if (IsWrite(operation->kind) && !BROKEN(kUnknownSentAgain)) {\n      unknown(operation);\n"),
    # The client takes numbers below the last answer for answered, if no operation waits for their answers any more. (If
    # one waited, the client would lose track of its own memory.)
    ("client/writes/session.h", "  while (floor_ < next_ && At(floor_).answered) ++floor_;\n",
     "  const auto jumps = [&] { return BROKEN(kFloorTooHigh) && floor_ < number && At(floor_).operation == nullptr; };\n"
     "  while (floor_ < next_ && (At(floor_).answered || jumps())) ++floor_;\n"),

    # ---- Counters.
    # The item of a deleted counter is dead, and its slot clear, before its cell is poisoned; or the cell never is.
    ("server/counters/counters.cc", "  if (!writer_->FetchAdd(cell, static_cast<int64_t>(kv::kPoison), &old)) return Outcome(kDeviceFailed);\n",
     "  if (BROKEN(kItemDeadBeforePoison)) table_->DeleteCounter(hash, request.key);\n"
     "  if (!writer_->FetchAdd(cell, BROKEN(kPoisonForgotten) ? 0 : static_cast<int64_t>(kv::kPoison), &old))\n"
     "    return Outcome(kDeviceFailed);\n"),
    # The cell of a deleted counter is free at once, and no holder is notified.
    ("server/counters/counters.cc", "  Retire(cell, hash);\n",
     "  if (BROKEN(kCellReusedAtOnce)) FreeCell(cell);\n"
     "  else Retire(cell, hash);\n"),
    # Holders are notified, but the server does not wait for them.
    ("server/counters/counters.cc", "    quarantine_.Retire(cell, hash);\n",
     "    quarantine_.Retire(cell, hash);\n    if (BROKEN(kCellQuarantineSkipped)) pool_.Free(cell);\n"),
    ("server/counters/counters.cc", "  for (const uint64_t cell : released_) pool_.Free(cell);\n",
     "  for (const uint64_t cell : released_) {\n    if (!BROKEN(kCellQuarantineSkipped)) pool_.Free(cell);\n  }\n"),
    # The client acknowledges without forgetting the cells, or before its operations under way have ended.
    ("client/counters/counters.cc", "  for (size_t i = 0; i < notice->size(); ++i) cache_.Erase(notice->hash(i));\n",
     "  for (size_t i = 0; i < notice->size() && !BROKEN(kNoticeIgnored); ++i) cache_.Erase(notice->hash(i));\n"),
    ("client/counters/counters.cc", "  if (owed_ == 0 || noticed_ != 0) return;\n",
     "  if (owed_ == 0 || (noticed_ != 0 && !BROKEN(kAcknowledgedAtOnce))) return;\n"),
    ("client/counters/counters.h", "(owed_ != 0 && noticed_ == 0)", "(owed_ != 0 && (noticed_ == 0 || BROKEN(kAcknowledgedAtOnce)))"),
    # The client continues to use the cells of the last connection.
    ("client/counters/counters.cc", "  waiting_.Append(&again);\n  cache_.Clear();\n",
     "  waiting_.Append(&again);\n  if (!BROKEN(kCellsOutliveConnection)) cache_.Clear();\n"),
    # The client repeats an atomic whose completion was lost.
    ("client/counters/counters.cc", "    const bool unknown = atomic.kind != Kind::kReadCounter && atomic.step != Step::kPost;\n",
     "    const bool unknown = atomic.kind != Kind::kReadCounter && atomic.step != Step::kPost && !BROKEN(kAtomicRepeated);\n"),
    # A reply that is sent again names the cell that the counter had.
    ("server/session/session.h", "    entry->slot = outcome.slot;\n",
     "    entry->slot = BROKEN(kCellGrantedFromMemory) && outcome.counter.cell != 0 ? kv::Slot(outcome.counter.cell) : outcome.slot;\n"),
    ("server/session/session.cc", "    outcome.counter.value = static_cast<int64_t>(entry.version);\n",
     "    outcome.counter.value = static_cast<int64_t>(entry.version);\n"
     "    if (BROKEN(kCellGrantedFromMemory)) outcome.counter.cell = entry.slot.word();\n"),
    # A connection is told cells without being noted as one that knows them.
    ("server/worker/request_apply.h", "    counter_links_->Enroll(link);\n",
     "    if (!BROKEN(kHolderNotEnrolled)) counter_links_->Enroll(link);\n"),
    ("server/worker/request_apply.h", "/*with_cell=*/link.cells.holder != 0",
     "/*with_cell=*/link.cells.holder != 0 || (BROKEN(kHolderNotEnrolled) && link.cells.has_key)"),
    # A client that does not acknowledge that counters were deleted is never dropped.
    ("server/worker/counter_links.cc", "looked_ns - waiting_.front()->cells.noticed_ns >= patience_ns_)",
     "(looked_ns - waiting_.front()->cells.noticed_ns >= patience_ns_ && !BROKEN(kPatienceWithoutEnd)))"),
    # A client that is stopped within an atomic is not waited for.
    ("server/worker/counter_links.cc", "  if (link.connection->quiescent()) {\n",
     "  if (link.connection->quiescent() || BROKEN(kGateNotWaitedFor)) {\n"),

    # ---- Groups.
    # A client believes what it READ without checking the members' words.
    ("client/connection/epoch_watch.cc", "  if (local()) return OpenNow() ?", "  if (BROKEN(kEpochWordsIgnored)) return Verdict::kBelieved;\n  if (local()) return OpenNow() ?"),
    # A backup that was removed erases its copy, although the primary does not serve yet.
    ("cluster/member.cc", "    if (role_ == Role::kBackup) {\n      // Its copy",
     "    if (role_ == Role::kBackup && !BROKEN(kRemovedErases)) {\n      // Its copy"),
    # A new primary serves before readers' leases have expired; or its word stays open.
    ("cluster/member.cc", "  if (!ended_ && now < shut_at_ +", "  if (!ended_ && !BROKEN(kLeaseNotWaitedFor) && now < shut_at_ +"),
    ("cluster/member.cc", "  StoreWord(EpochWord::Shut(configuration_.epoch), actions);",
     "  StoreWord(BROKEN(kPromotesWithoutShut) ? EpochWord::Open(configuration_.epoch) : EpochWord::Shut(configuration_.epoch), actions);\n"
     "  if (BROKEN(kPromotesWithoutShut)) Stored(absl::InfinitePast(), actions);"),
    # A member whose proposal may have succeeded opens its word again before it knows.
    ("cluster/member.cc", "      maybe_done_ = true;\n",
     "      maybe_done_ = true;\n"
     "      if (BROKEN(kOpensBeforeCertainty) && role_ != Role::kJoining) {\n"
     "        proposal_ = {};\n"
     "        StoreWord(EpochWord::Open(configuration_.epoch), actions);\n"
     "      }\n"),
    # While the members change, only the next ones must accept a record.
    ("cluster/member.cc", "{&configuration_, &proposal_}) {\n",
     "{&configuration_, &proposal_}) {\n"
     "    if (BROKEN(kNewSetOnly) && is_proposing() && configuration == &configuration_) continue;\n"),
    # A reader's round is valid although it showed one member's word; or words of an earlier round count.
    ("kv/read/read_lease.h", "      if (seen_ == all_) {\n", "      if (seen_ == all_ || BROKEN(kProvenByOneWord)) {\n"),
    ("kv/read/read_lease.h", "    seen_ = 0;\n", "    if (!BROKEN(kWordsOfTheRoundBefore)) seen_ = 0;\n"),
    # A write is acknowledged although only the primary has it.
    ("server/replication/group_stream.cc", "stream_->Commit(*must_accept_);",
     "stream_->Commit(BROKEN(kCommittedAtOnce) ? std::vector<uint64_t>() : *must_accept_);"),
    # The next primary serves before the other members have all of its records.
    ("server/group/backup_keeper.cc", "bool BackupKeeper::AllAgree() const {\n", "bool BackupKeeper::AllAgree() const {\n  if (BROKEN(kTailNotShared)) return true;\n"),
    # A joiner becomes a member before it has all items.
    ("server/group/backup_keeper.cc", "  if (state->second.accepted < filling_->caught_up && stream->last() != 0) return false;\n",
     "  if (state->second.accepted < filling_->caught_up && stream->last() != 0 && !BROKEN(kJoinerNotFilled)) return false;\n"),
    ("server/group/backup_keeper.cc", "  if (stream->committed() < filling_->caught_up && stream->last() != 0) return false;\n",
     "  if (stream->committed() < filling_->caught_up && stream->last() != 0 && !BROKEN(kJoinerNotFilled) &&\n"
     "      !BROKEN(kCopiesNotCommitted)) return false;\n"),
    # An item whose write was under way when the joiner connected is not copied to it.
    ("server/replication/commit_gate.cc", "    if (found->second.sequence > from && found->second.kind != Kind::kTouch) return",
     "    if ((found->second.sequence > from || BROKEN(kWriteUnderWayNotCopied)) && found->second.kind != Kind::kTouch) return"),
    # The same for a key that does not exist yet.
    ("server/replication/commit_gate.cc", "    if (pending.sequence <= from) under_way(", "    if (pending.sequence <= from && !BROKEN(kNewKeyUnderWayNotCopied)) under_way("),
    # The next primary reuses versions that the former one used.
    ("server/replication/backup.cc", "      table_->RaiseVersions(record.version);\n", "      if (!BROKEN(kVersionsNotSent)) table_->RaiseVersions(record.version);\n"),
    # The giver continues to serve slots while the last records are on their way.
    ("server/group/membership.cc", "  serving_.SetSlots(configuration.slots & ~closed_);\n",
     "  serving_.SetSlots(BROKEN(kSlotsNotClosed) ? configuration.slots : configuration.slots & ~closed_);\n"),
    # Slots are given before the taker has all items.
    ("server/group/slot_giver.cc", "  if (accepted < giving.last && stream->last() != 0) return false;\n",
     "  if (accepted < giving.last && stream->last() != 0 && !BROKEN(kLastOfSlotsNotAccepted)) return false;\n"),
    # The taker serves before readers' leases at the giver have expired.
    ("server/group/slot_taker.cc", "  if (membership_->Now() < taking_->given_at +", "  if (!BROKEN(kSlotsOwnedAtOnce) && membership_->Now() < taking_->given_at +"),
    # Items that a former attempt copied stay.
    ("server/group/slot_taker.cc", "  if (taking.importer != nullptr && !taking.is_clean) return Clean();\n",
     "  if (BROKEN(kFormerCopiesStay)) taking.is_clean = true;\n"
     "  if (taking.importer != nullptr && !taking.is_clean) return Clean();\n"),
    # Versions of items that the giver deleted are used again.
    ("server/replication/slot_importer.cc", "void SlotImporter::Owe(uint64_t version) {", "void SlotImporter::Owe(uint64_t version) {\n  if (BROKEN(kVersionsOfSlotsNotSent)) return;\n "),
    # The items are erased before it is certain that the other group has them.
    ("server/group/slot_settler.cc", "  for (const Move& move : membership_->configuration().moves) used |= move.slots;\n",
     "  for (const Move& move : membership_->configuration().moves) {\n"
     "    if (!BROKEN(kGivenIsErased) || move.kind != Move::Kind::kGiven) used |= move.slots;\n"
     "  }\n"),
    # The taker forgets the move before the giver has seen that it took the slots.
    ("server/group/slot_settler.cc", "  if (!giver.ok() || giver->FindMove(move.id) != nullptr) return false;\n",
     "  if (!giver.ok() || (giver->FindMove(move.id) != nullptr && !BROKEN(kTakenIsForgotten))) return false;\n"),
    # The giver settles the move before it has seen that the slots are given.
    ("server/group/slot_settler.cc", "    if (giver_->IsGiving(move.id)) return false;\n",
     "    if (giver_->IsGiving(move.id) && !BROKEN(kSettledUnseen)) return false;\n"),
    # A taker whose attempt is no longer valid is not notified.
    ("server/group/slot_giver.cc", "if (state != followers.end() && !state->second.waits) stream->Forget(giving.taker);",
     "if (state != followers.end() && !state->second.waits && !BROKEN(kTakerNotForgotten)) stream->Forget(giving.taker);"),
    # Items of slots that were given away, or not taken, are kept.
    ("server/group/slot_settler.cc", "      erases_ = true;\n", "      erases_ = !BROKEN(kForeignStays);\n"),
    # A client READs at the group that has given the slots away, for gets that waited there.
    ("client/core/core_cluster.cc", "  owners_->OnWelcome(index_, link_.welcome().slots);\n  WithdrawMoved();\n",
     "  owners_->OnWelcome(index_, link_.welcome().slots);\n  if (!BROKEN(kWaitingGetsNotWithdrawn)) WithdrawMoved();\n"),
    # Writes of a slot that is served again are executed before those that were refused.
    ("server/worker/group_desk.cc", "  return link.group.moved != nullptr && IsWrite(request.type)",
     "  return !BROKEN(kFollowingNotRefused) && link.group.moved != nullptr && IsWrite(request.type)"),
    # Requests sent to the next primary are executed there before those that the former one refused.
    ("client/core/core.cc", "  if (owners_ != nullptr) KeepOrder();\n", "  if (owners_ != nullptr && !BROKEN(kOrderNotKept)) KeepOrder();\n"),
    # Writes that the next primary refuses are not queued before those that the former one had refused.
    ("client/core/moved_operations.cc", "  if (operation->only_asked) [[unlikely]] {\n", "  if (operation->only_asked && !BROKEN(kHeldInOrderOfRefusals)) {\n"),
    # A backup uses its primary's time as its own; or it forgets the item's expiry.
    ("cluster/stream.cc", "    if (record.expires_ms != 0) record",
     "    if (BROKEN(kEndForgotten)) record.expires_ms = 0;\n"
     "    if (record.expires_ms != 0 && !BROKEN(kEndsByAnothersClock)) record"),
    # A get is answered that an item has expired, and no other member receives a record of that.
    ("server/worker/group_desk.cc", "    return read.code == kv::Code::kTimeIsOver ? CommitGate::Begun{read} :",
     "    if (BROKEN(kEndNotRecorded) && read.code == kv::Code::kTimeIsOver) {\n"
     "      return gate.Confirm(Outcome(kv::Code::kNotFound));\n    }\n"
     "    return read.code == kv::Code::kTimeIsOver ? CommitGate::Begun{read} :"),
    # A client sleeps although its endpoint says that a poll is due.
    ("client/core/core.cc", "  Post();\n  return endpoint_->Arm();\n", "  Post();\n  return endpoint_->Arm() || BROKEN(kArmIgnored);\n"),
    # A backup does not report how much room it has left.
    ("server/replication/follower.cc", "                                .room = sink_->room(),\n",
     "                                .room = BROKEN(kRoomNotReported) ? kv::Room() : sink_->room(),\n"),
    # It reports all free memory as room for items: what it keeps for the index, and for second copies, is included.
    ("kv/table/table.cc", "left = heap_->LeftOfCopies();\n", "left = BROKEN(kRoomWithoutIndex) ? 0 : heap_->LeftOfCopies();\n"),
    # The next primary does not know the outcomes of writes.
    ("server/replication/backup.cc", "  if (record.session != 0) {\n", "  if (record.session != 0 && !BROKEN(kOutcomesNotMirrored)) {\n"),
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
