#include "rdma/verbs/connection/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rdma/clock.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/device/wc_status.h"
#include "rdma/violations.h"

namespace farlook::rdma::verbs {

VerbsConnection::VerbsConnection(ConnectionTable* table, EndpointDevice* device, Role role)
    : tag(table->Add(this)),
      table_(table),
      device_(device),
      role_(role),
      state_(role == Role::kClient ? State::kDialing : State::kConnected) {
  pair_.tag = tag;
}

VerbsConnection::~VerbsConnection() {
  if (!ending_.has_value()) ending_.emplace(device_, &pair_, nullptr);
  DestroyPair();
  table_->Remove(this);
}

// ---- Beginning ----

void VerbsConnection::Dial(rdma_event_channel* channel, Candidates candidates, absl::string_view hello,
                           int64_t deadline_ns) {
  peer_ = candidates.shown();
  search_ = std::make_unique<Search>(Search{channel, std::move(candidates), std::string(hello), deadline_ns});
  DialNext(Clock::Real().NowNs());
}

void VerbsConnection::DialNext(int64_t now_ns) {
  Candidates& candidates = search_->candidates;
  const absl::StatusOr<bool> found = candidates.Find(now_ns);
  if (!found.ok()) return Break(found.status(), /*deliver_messages=*/false);
  if (!*found) return;
  const int64_t left_ns = std::max<int64_t>(search_->deadline_ns - now_ns, 0);
  const int64_t share_ns = left_ns / static_cast<int64_t>(candidates.left());
  const SocketAddress remote = candidates.Next();
  dialing_.emplace(device_, &pair_, candidates.Shown(remote), remote, search_->hello, share_ns / 1'000'000,
                   now_ns + share_ns);
  BeginAttempt(now_ns);
}

void VerbsConnection::BeginAttempt(int64_t now_ns) {
  const absl::Status status = dialing_->Begin(search_->channel, /*context=*/this);
  if (!status.ok()) AttemptFailed(status, now_ns);
}

void VerbsConnection::OnAnswered(int64_t now_ns) {
  if (dialing() && search_ != nullptr && !dialing_.has_value()) DialNext(now_ns);
}

int64_t VerbsConnection::due_ns() const {
  if (dialing_.has_value()) return dialing_->due_ns();
  return std::min(search_->deadline_ns, search_->candidates.fallback_ns());
}

void VerbsConnection::GoOnDialing(int64_t now_ns) {
  if (!dialing_.has_value()) {
    if (now_ns < search_->deadline_ns) return DialNext(now_ns);
    return Break(NotResolved(search_->candidates.address().host), /*deliver_messages=*/false);
  }
  if (dialing_->IsOver(now_ns)) return AttemptFailed(dialing_->TimedOut(), now_ns);
  if (pair_.queue_pair.ok()) table_->Leave(pair_.queue_pair.number(), this);
  device_->Retire(std::exchange(pair_, Pair()));
  pair_.tag = tag;
  BeginAttempt(now_ns);
}

// Returns the event that the search waits for, if that is a name, or another of its addresses; otherwise OK.
absl::Status VerbsConnection::Pending() const {
  if (!dialing_.has_value()) return NotResolved(search_->candidates.address().host);
  if (search_->reasons.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(search_->candidates.shown(), ": ", absl::StrJoin(search_->reasons, "; "),
                                             "; no other answer in time"));
}

void VerbsConnection::AttemptFailed(const absl::Status& why, int64_t now_ns) {
  search_->reasons.emplace_back(why.message());
  search_->unfit += dialing_->device_unfit();
  // A server's reject is final. A fault of one of several addresses does not affect the others.
  const bool answered = absl::IsPermissionDenied(why);
  if (answered || search_->reasons.size() == 1 || absl::IsUnavailable(why)) search_->code = why.code();
  search_->goes_on = !answered && search_->candidates.left() > 0 && now_ns < search_->deadline_ns;
  const bool one = answered || !search_->candidates.is_name();
  const std::string all = absl::StrCat(search_->candidates.shown(), ": ", absl::StrJoin(search_->reasons, "; "));
  Break(absl::Status(search_->code, one ? why.message() : all), /*deliver_messages=*/false);
}

void VerbsConnection::OnDialEvent(const rdma_cm_event& event) {
  if (event.id != pair_.id.get()) return;  // of an attempt that was given up
  absl::Status status = dialing_->OnEvent(event);
  if (pair_.queue_pair.ok()) table_->Enter(pair_.queue_pair.number(), this);
  if (!status.ok()) return AttemptFailed(status, Clock::Real().NowNs());
  if (!dialing_->agreement().has_value()) return;
  welcome_ = dialing_->welcome();
  server_address_ = ToText(rdma_get_peer_addr(pair_.id.get()));
  GoLive(*dialing_->agreement());
  state_ = State::kWelcomed;
  table_->Attend(this);
}

absl::Status VerbsConnection::Accept(CmId id, const Envelope& client, const ReadDepths& depths,
                                     absl::string_view welcome, const Terms& terms) {
  pair_.id = std::move(id);
  pair_.id->context = this;
  peer_ = ToText(rdma_get_peer_addr(pair_.id.get()));
  absl::StatusOr<Agreement> agreement = AcceptClient(device_, &pair_, client, depths, welcome, terms);
  if (pair_.queue_pair.ok()) table_->Enter(pair_.queue_pair.number(), this);
  if (!agreement.ok()) return agreement.status();
  terms_ = terms;
  server_address_ = ToText(rdma_get_local_addr(pair_.id.get()));
  GoLive(*agreement);
  return absl::OkStatus();
}

absl::Status VerbsConnection::Grant(bool atomics) {
  if (role_ != Role::kServer || !terms_.withhold) return absl::FailedPreconditionError("nothing was withheld");
  if (state_ != State::kConnected) return status_;
  return pair_.queue_pair.Grant({.reads = true, .atomics = atomics && terms_.atomics});
}

void VerbsConnection::Granted() {
  if (live_.has_value()) live_->Granted();
}

void VerbsConnection::GoLive(const Agreement& agreement) {
  capabilities_ = agreement.capabilities;
  live_.emplace(device_, pair_, agreement);
}

size_t VerbsConnection::Announce(absl::Span<Completion> out) {
  if (state_ != State::kWelcomed || out.empty()) return 0;
  state_ = State::kConnected;
  live_->Release();
  out[0] = Completion();
  out[0].connection = this;
  out[0].opcode = Opcode::kConnected;
  return 1;
}

// ---- Posting ----

bool VerbsConnection::PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return false;
  return live_->Read(wr_id, to, remote_address, rkey);
}

AtOnce VerbsConnection::ReadAtOnce(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey,
                                   uint32_t looks) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected || !capabilities_.reads_at_once || !table_->quiet() ||
                         device_->has_backlog() || !live_->ReadAlone(to, remote_address, rkey))) {
    return AtOnce::kNo;
  }
  ibv_wc completion;
  int taken;
  do {
    taken = device_->Poll(&completion, 1);
  } while (taken == 0 && --looks > 0);
  if (ABSL_PREDICT_TRUE(taken > 0 && live_->CompleteAlone(completion))) return AtOnce::kDone;
  live_->RecordAlone(wr_id, to, remote_address, rkey);
  if (taken > 0) device_->SetAside(completion);
  return AtOnce::kPosted;
}

bool VerbsConnection::PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                   uint64_t delta) {
  return PostAtomic(SendQueue::Kind::kFetchAdd, wr_id, old_value, remote_address, rkey, delta, 0);
}

bool VerbsConnection::PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                      uint64_t expected, uint64_t desired) {
  return PostAtomic(SendQueue::Kind::kCompareSwap, wr_id, old_value, remote_address, rkey, expected, desired);
}

bool VerbsConnection::PostAtomic(SendQueue::Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address,
                                 uint32_t rkey, uint64_t operand, uint64_t desired) {
  if (state_ != State::kConnected || !capabilities_.atomics) return false;
  return live_->Atomic(kind, wr_id, old_value, remote_address, rkey, operand, desired);
}

bool VerbsConnection::PostSend(absl::string_view head, absl::string_view body) {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return false;
  if (ABSL_PREDICT_FALSE(head.size() + body.size() - 1 >= kMaxMessageBytes)) {
    Break(absl::UnavailableError("this side posted a message of no or too many bytes"), /*deliver_messages=*/false);
    return false;
  }
  const bool posted = live_->Send(head, body);
  if (ABSL_PREDICT_FALSE(!posted)) wants_room_ = true;
  return posted;
}

void VerbsConnection::Issue() {
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return;
  const SendQueue::Issued issued = live_->Issue();
  if (ABSL_PREDICT_FALSE(issued != SendQueue::Issued::kAll)) NotAllIssued(issued);
}

ABSL_ATTRIBUTE_NOINLINE void VerbsConnection::NotAllIssued(SendQueue::Issued issued) {
  switch (live_->WhyNotAll(issued)) {
    case LiveConnection::Unissued::kWaits:
      return table_->List(this);
    case LiveConnection::Unissued::kNotTaken:
      return Break(absl::UnavailableError(absl::StrCat("the device no longer takes requests: ", strerror(errno))),
                   /*deliver_messages=*/true);
    case LiveConnection::Unissued::kNonsense:
      return Break(absl::UnavailableError("this side posted a request of no or too many bytes or pieces, or for memory "
                                          "that is not registered"),
                   /*deliver_messages=*/false);
  }
}

bool VerbsConnection::Advance() {
  if (state_ != State::kConnected) return false;
  live_->SendCredits();
  Issue();
  return state_ == State::kConnected && live_->has_more();
}

// ---- What arrives ----

ABSL_ATTRIBUTE_NOINLINE WcStatus VerbsConnection::Failed(ibv_wc_status status) {
  FailedBy(status);
  return WcStatusOf(status);
}

bool VerbsConnection::OnReceive(const ibv_wc& wc, const char* slot, Completion* done) {
  if (ABSL_PREDICT_FALSE(wc.status != IBV_WC_SUCCESS)) {
    FailedBy(wc.status);
    return false;
  }
  if (ABSL_PREDICT_FALSE(!live_.has_value())) {
    BreakOff("a message before the handshake was complete");
    return false;
  }
  live_->OnReceived();
  if (ABSL_PREDICT_FALSE(live_->held() && role_ == Role::kServer)) {
    live_->Release();  // a client that sends has completed the handshake
    table_->List(this);
  }
  if (ABSL_PREDICT_FALSE(state_ == State::kOver || !deliver_messages_)) return false;
  absl::Span<const char> message;
  const LiveConnection::Arrived arrived = live_->OnMessage(wc, slot, &message);
  if (ABSL_PREDICT_FALSE(arrived == LiveConnection::Arrived::kMalformed)) {
    BreakOff("a malformed message, or more than it was granted");
    return false;
  }
  if (ABSL_PREDICT_FALSE(wants_room_) && live_->may_send()) {
    wants_room_ = false;
    table_->room_returned = true;
  }
  if (arrived == LiveConnection::Arrived::kHeader) return false;
  *done = Completion();
  done->connection = this;
  done->opcode = Opcode::kReceive;
  done->message = message;
  return true;
}

void VerbsConnection::SetReceiving(bool on) {
  receiving = on;
  if (on && kept_messages > 0) table_->Resume();
}

void VerbsConnection::Reposted() {
  if (live_.has_value() && live_->Reposted() && state_ == State::kConnected) table_->List(this);
}

// ---- Events of the connection manager ----

void VerbsConnection::OnCmEvent(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return QueuesLost(DeviceGone(device_->device().name()).message());
    // The address moved to another adapter (bonding): requests go on, or fail by themselves.
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      break;
  }
  if (state_ == State::kDialing) return OnDialEvent(event);
  switch (event.event) {
    case RDMA_CM_EVENT_ESTABLISHED:
      if (state_ != State::kConnected) return;
      live_->Release();
      return table_->List(this);
    case RDMA_CM_EVENT_DISCONNECTED:
      return Break(
          absl::UnavailableError(absl::StrCat("the peer (", peer_, ") closed the connection, or its process ended")),
          /*deliver_messages=*/true);
    default:
      return Break(CannotConnect(peer_, event.event, event.status), /*deliver_messages=*/true);
  }
}

// ---- Time and trouble ----

void VerbsConnection::Tick() {
  if (state_ != State::kConnected) return;
  switch (live_->Tick()) {
    case LiveConnection::Ticked::kFine:
      return;
    case LiveConnection::Ticked::kProbe:
      return Issue();
    case LiveConnection::Ticked::kDead:
      return BreakBy(IBV_WC_RETRY_EXC_ERR);
    case LiveConnection::Ticked::kNotEstablished:
      return Break(absl::UnavailableError(absl::StrCat("the client (", peer_, ") did not complete the handshake")),
                   /*deliver_messages=*/false);
  }
}

void VerbsConnection::CheckAsync() {
  const int event = pair_.events->failed.exchange(-1, std::memory_order_relaxed);
  if (event < 0 || ending_.has_value()) return;
  pair_.failed = true;
  // The device refused a request of the peer.
  if (event == IBV_EVENT_QP_ACCESS_ERR || event == IBV_EVENT_QP_REQ_ERR) {
    Note(ibv_event_type_str(static_cast<ibv_event_type>(event)));
  }
  Break(absl::UnavailableError(absl::StrCat("the queue pair to ", peer_,
                                            " ended: ", ibv_event_type_str(static_cast<ibv_event_type>(event)))),
        /*deliver_messages=*/true);
}

void VerbsConnection::QueuesLost(absl::string_view why) {
  if (search_ != nullptr) search_->goes_on = false;
  Break(absl::UnavailableError(why), /*deliver_messages=*/false);
}

ABSL_ATTRIBUTE_NOINLINE void VerbsConnection::FailedBy(ibv_wc_status status) {
  if (ending_.has_value()) return;
  if (status != IBV_WC_WR_FLUSH_ERR) return BreakBy(status);
  // Flushed requests were ended by another cause, which the connection manager may know. For a connection that is not
  // established yet it will report it: siw flushes before it reports a rejection. If it does not, the timeout ends the
  // attempt.
  if (!dialing()) table_->Suspect(this);
}

void VerbsConnection::BreakAsFlushed() {
  if (!ending_.has_value()) BreakBy(IBV_WC_WR_FLUSH_ERR);
}

void VerbsConnection::BreakBy(ibv_wc_status status) {
  pair_.failed = true;
  // A message that is too long; a write where none is allowed; a refusal of what was granted.
  if (status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_ACCESS_ERR ||
      WcStatusOf(status) == WcStatus::kRemoteAccess) {
    Note(WcSentence(status));
  }
  std::string why = absl::StrCat(peer_, ": ", WcSentence(status));
  if (status == IBV_WC_RETRY_EXC_ERR) {
    const std::string port = device_->device().PortTrouble();
    if (!port.empty()) absl::StrAppend(&why, " (", port, ")");
  }
  Break(absl::UnavailableError(why), /*deliver_messages=*/true);
}

// ---- The end ----

// The peer breaks the protocol.
ABSL_ATTRIBUTE_NOINLINE void VerbsConnection::BreakOff(absl::string_view how) {
  Note(how);
  Break(absl::UnavailableError(absl::StrCat("the peer broke the protocol: ", how)), /*deliver_messages=*/false);
}

void VerbsConnection::Note(absl::string_view how) {
  if (role_ == Role::kServer && !ending_.has_value()) NoteViolation(Violator::kClient, peer_, how);
}

void VerbsConnection::Disconnect() {
  if (search_ != nullptr) search_->goes_on = false;
  Break(absl::UnavailableError("disconnected by this side"), /*deliver_messages=*/false);
}

void VerbsConnection::Break(absl::Status status, bool deliver_messages) {
  if (ending_.has_value()) return;
  deliver_messages_ = deliver_messages && state_ == State::kConnected;
  state_ = State::kEnding;
  status_ = std::move(status);
  ending_.emplace(device_, &pair_, live_.has_value() ? &*live_ : nullptr);
  table_->Attend(this);
}

size_t VerbsConnection::End(absl::Span<Completion> out, int64_t now_ns) {
  if (!ending_->drained(now_ns)) return 0;
  DestroyPair();
  if (search_ != nullptr && std::exchange(search_->goes_on, false)) {
    ending_.reset();
    pair_.tag = tag;
    state_ = State::kDialing;
    // The next attempt must not inherit anything from the failed one.
    status_ = absl::OkStatus();
    deliver_messages_ = true;
    DialNext(now_ns);
    return 0;
  }
  size_t count = 0;
  while (count < out.size()) {
    Completion& done = out[count++];
    done = Completion();
    done.connection = this;
    if (ending_->FlushNext(&done)) continue;
    done.opcode = Opcode::kDisconnected;
    state_ = State::kOver;
    break;
  }
  return count;
}

void VerbsConnection::DestroyPair() {
  std::vector<uint32_t> with_user;
  if (pair_.queue_pair.ok()) with_user = table_->Leave(pair_.queue_pair.number(), this);
  ending_->GiveBack(with_user);
}

}  // namespace farlook::rdma::verbs
