#include "rdma/tcp/connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/host/word_copy.h"
#include "rdma/tcp/socket.h"
#include "rdma/violations.h"

namespace farlook::rdma::tcp {
namespace {

Capabilities OfEveryConnection() {
  Capabilities capabilities;
  capabilities.any_local_memory = true;
  capabilities.max_outstanding_reads = kSendDepth;
  capabilities.send_queue_depth = kSendDepth;
  capabilities.max_read_sges = kMaxReadSges;
  capabilities.max_read_bytes = kMaxReadBytes;
  return capabilities;
}

// Writes bytes to `pieces` from `offset` on; the pieces are long enough. Stores whole words where both sides are
// aligned: other peers may READ the memory that a server fetches into.
void Fill(const Sge* pieces, uint64_t offset, absl::string_view bytes) {
  for (; offset >= pieces->bytes; ++pieces) offset -= pieces->bytes;
  for (; !bytes.empty(); ++pieces, offset = 0) {
    char* const to = pieces->data + offset;
    const size_t here = std::min<size_t>(pieces->bytes - offset, bytes.size());
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(bytes.data())) % 8 == 0) {
      CopyAligned(to, bytes.data(), here);
    } else {
      memcpy(to, bytes.data(), here);
    }
    bytes.remove_prefix(here);
  }
}

absl::Status CannotWait() {
  return absl::ResourceExhaustedError(absl::StrCat("cannot wait for a socket: ", strerror(errno)));
}

}  // namespace

TcpConnection::TcpConnection(ConnectionHost* host, Candidates candidates, Way way, absl::string_view hello)
    : host_(host),
      way_(std::move(way)),
      hello_(hello),
      peer_(way_.shown),
      capabilities_(OfEveryConnection()),
      state_(State::kDialing),
      dialing_(std::make_unique<Dialing>(std::move(candidates), way_.liveness_ms)) {}

TcpConnection::TcpConnection(ConnectionHost* host, UniqueFd socket, std::shared_ptr<ReadGrant> grant,
                             ReadServer* server, absl::string_view welcome, int64_t liveness_ms)
    : host_(host),
      grant_(std::move(grant)),
      server_(server),
      server_address_(ThisSideOf(socket.get())),
      peer_(PeerOf(socket.get())),
      capabilities_(OfEveryConnection()),
      state_(State::kConnected),
      messages_(std::move(socket), host->spare()) {
  way_.liveness_ms = liveness_ms;
  const absl::string_view ticket(grant_->ticket.data(), grant_->ticket.size());
  if (!AppendFrame(FrameType::kWelcome, Greeting(), ticket, welcome, &messages_.unsent())) {
    Break(absl::UnavailableError("no memory for a connection"));
    return;
  }
  of_this_host_ = IsOfThisHost(messages_.fd());
  messages_.Flush();
  Watch();
}

TcpConnection::~TcpConnection() {
  if (!over() && server_ != nullptr) server_->Dismiss(grant_.get());
  CloseSockets();
  host_->Forget(this);
}

void TcpConnection::Begin() { ContinueDialing(); }

uint32_t TcpConnection::peer_processor() {
  if (!processor_known_) processor_ = of_this_host_ && messages_.open() ? ProcessorOf(messages_.fd()) : 0;
  processor_known_ = true;
  return processor_;
}

// ---- Posting ----

bool TcpConnection::PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  if (state_ != State::kConnected || posted_ - completed_ == kSendDepth || to.size() > kMaxReadSges) return false;
  uint64_t bytes = 0;
  for (const Sge& piece : to) bytes += piece.bytes;
  if (bytes == 0 || bytes > kMaxReadBytes) return false;
  if (posted_reads_ == nullptr) posted_reads_.reset(new (std::nothrow) Read[kSendDepth]);
  if (posted_reads_ == nullptr) return false;
  if (!AppendRead({remote_address, rkey, static_cast<uint32_t>(bytes)}, &asking().unsent())) return false;
  if (posted_ == completed_) stalled_ticks_ = 0;
  Read& read = posted_reads_[posted_++ % kSendDepth];
  read.wr_id = wr_id;
  read.bytes = static_cast<uint32_t>(bytes);
  std::copy(to.begin(), to.end(), read.to);
  return true;
}

bool TcpConnection::PostSend(absl::string_view head, absl::string_view body) {
  const size_t bytes = head.size() + body.size();
  if (state_ != State::kConnected || bytes == 0 || bytes > kMaxMessageBytes) return false;
  refused_message_ = sent_ - taken_by_peer_ == kWindow;
  if (refused_message_) return false;
  if (!AppendFrame(FrameType::kMessage, taken_, head, body, &messages_.unsent())) return false;
  reported_ = taken_;
  ++sent_;
  return true;
}

void TcpConnection::Ring() {
  if (state_ != State::kConnected) return;
  messages_.Flush();
  if (client()) reads_.Flush();
  host_->OnPosted();
  Watch();
}

void TcpConnection::SetReceiving(bool receiving) {
  receiving_ = receiving;
  if (receiving_ && !kept_.empty()) host_->PollAgain(this);
}

void TcpConnection::Disconnect() { Break(absl::UnavailableError("this side ended the connection")); }

absl::Status TcpConnection::Grant(bool /*atomics*/) {
  if (client()) return absl::FailedPreconditionError("a client has nothing to grant");
  if (state_ != State::kConnected) return status_;
  grant_->withheld.store(false, std::memory_order_release);
  return absl::OkStatus();
}

// ---- Polling ----

size_t TcpConnection::Poll(absl::Span<Completion> out, ReceiveArena* arena) {
  size_t count = 0;
  const auto left = [&out, &count] { return out.subspan(count); };
  if (state_ == State::kDialing) ContinueDialing();
  if (state_ == State::kReturning) ContinueReturning();
  if (!over()) {
    if (messages_.open()) messages_.Flush();
    if (reads_.open()) reads_.Flush();
    if (state_ == State::kConnected) count += DeliverKept(left(), arena);
    const bool messages_ready = std::exchange(messages_ready_, false);
    const bool reads_ready = std::exchange(reads_ready_, false);
    if (state_ == State::kGreeting || state_ == State::kConnected) {
      count += PollChannel(&messages_, messages_ready, left(), arena);
    } else {
      messages_ready_ = messages_ready;  // read once the second socket is connected
    }
    if (reads_.open() && (state_ == State::kAttaching || state_ == State::kConnected)) {
      count += PollChannel(&reads_, reads_ready, left(), arena);
    }
    SendConsumed();
    if (!over()) Watch();
  }
  if (state_ == State::kEnding) count += End(left());
  if (count > 0) processor_known_ = false;
  return count;
}

bool TcpConnection::unfinished() const {
  if (state_ == State::kEnding) return true;
  if (state_ == State::kGreeting) return messages_.has_frame();
  if (state_ != State::kConnected) return false;
  if (answer_.left > 0 ? messages_.unsent_bytes() < kMaxUnsentBytes : messages_.has_frame()) return true;
  return (receiving_ && !kept_.empty()) || messages_ready_ || reads_.has_frame();
}

size_t TcpConnection::PollChannel(Channel* channel, bool receive, absl::Span<Completion> out, ReceiveArena* arena) {
  char* const room = arena->Room();
  if (room == nullptr) {
    (channel == &reads_ ? reads_ready_ : messages_ready_) |= receive;
    return 0;
  }
  absl::string_view came = channel->Receive(room, receive);
  arena->Take(came.size());
  size_t count = 0;
  while (count < out.size() && MayTakeFrom(*channel)) {
    Frame frame;
    const Parsed parsed = NextFrame(&came, &frame);
    if (parsed == Parsed::kPartial) break;
    if (parsed == Parsed::kFrame) {
      if (Handle(*channel, frame, &out[count])) ++count;
    } else if (state_ == State::kGreeting) {
      Break(absl::FailedPreconditionError(
          absl::StrCat("what answers at ", way_.shown, " does not speak Farlook's protocol")));
    } else {
      BreakOff("no frame begins like that");
    }
  }
  if (over()) return count;
  channel->GiveBack(came);
  if (!channel->ended() || channel->has_frame()) return count;
  if (channel == &messages_ || state_ != State::kConnected || (messages_.dry() && !messages_.has_frame())) {
    BreakWith(*channel);
  } else {
    messages_ready_ = true;  // both sockets end together, and earlier bytes of the first are delivered
  }
  return count;
}

// Bytes after a welcome wait until the second socket is connected, and bytes after a READ until it is answered.
bool TcpConnection::MayTakeFrom(const Channel& channel) {
  if (over()) return false;
  if (&channel == &reads_) return true;
  if (state_ == State::kReturning || state_ == State::kAttaching) return false;
  return Continue(&answer_, &messages_.unsent());
}

bool TcpConnection::Handle(const Channel& channel, const Frame& frame, Completion* done) {
  if (dialing()) return HandleGreeting(frame, done);
  const bool asked_here = &channel == &asking();
  const bool of_messages = &channel == &messages_;
  if (of_messages && frame.type == FrameType::kMessage) return OnMessage(frame, done);
  if (of_messages && frame.type == FrameType::kTaken) {
    OnTaken(frame.argument);
  } else if (of_messages && client() && frame.type == FrameType::kRead) {
    OnRead(ReadOrderOf(frame));
  } else if (asked_here && frame.type == FrameType::kData) {
    return OnData(frame.payload, done);
  } else if (asked_here && frame.type == FrameType::kRefused) {
    Break(absl::UnavailableError("the peer refused a READ"), WcStatus::kRemoteAccess);
  } else {
    BreakOff("a frame of this type is not sent here");
  }
  return false;
}

bool TcpConnection::OnMessage(const Frame& frame, Completion* done) {
  OnTaken(frame.argument);
  if (++received_ - taken_ > kWindow) BreakOff("more messages than credits");
  if (over()) return false;
  if (!receiving_ || !kept_.empty()) {
    if (!AppendFrame(FrameType::kMessage, 0, frame.payload, "", &kept_)) {
      Break(absl::UnavailableError("no memory to keep a message"));
    }
    return false;
  }
  ++taken_;
  *done = {0, this, Opcode::kReceive, WcStatus::kSuccess, frame.payload};
  return true;
}

size_t TcpConnection::DeliverKept(absl::Span<Completion> out, ReceiveArena* arena) {
  size_t count = 0;
  while (receiving_ && count < out.size() && !kept_.empty()) {
    char* const room = arena->Room();
    if (room == nullptr) break;
    absl::string_view frames = kept_.view();
    Frame frame;
    NextFrame(&frames, &frame);
    memcpy(room, frame.payload.data(), frame.payload.size());
    arena->Take(frame.payload.size());
    out[count++] = {0, this, Opcode::kReceive, WcStatus::kSuccess, absl::MakeConstSpan(room, frame.payload.size())};
    kept_.Consume(kept_.size() - frames.size());
    ++taken_;
  }
  return count;
}

void TcpConnection::OnTaken(uint64_t taken) {
  if (taken < taken_by_peer_ || taken > sent_) return BreakOff("acknowledges messages that were not sent");
  if (taken == taken_by_peer_) return;
  taken_by_peer_ = taken;
  if (std::exchange(refused_message_, false)) host_->OnRoom();
}

void TcpConnection::SendConsumed() {
  if (over() || taken_ - reported_ < kReportConsumed) return;
  if (!AppendFrame(FrameType::kTaken, taken_, "", "", &messages_.unsent())) return;
  reported_ = taken_;
  messages_.Flush();
}

bool TcpConnection::OnData(absl::string_view bytes, Completion* done) {
  if (posted_ == completed_ || fetched_ + bytes.size() > posted_reads_[completed_ % kSendDepth].bytes) {
    BreakOff("more bytes than were asked for");
    return false;
  }
  const Read& read = posted_reads_[completed_ % kSendDepth];
  Fill(read.to, fetched_, bytes);
  progress_ += bytes.size();
  fetched_ += static_cast<uint32_t>(bytes.size());
  if (fetched_ < read.bytes) return false;
  fetched_ = 0;
  ++completed_;
  *done = {read.wr_id, this, Opcode::kRead, WcStatus::kSuccess, {}};
  return true;
}

void TcpConnection::OnRead(const ReadOrder& order) {
  if (messages_.stopped()) return;  // the peer no longer receives the answer
  const char* const from = host_->Find(order);
  if (from != nullptr) {
    answer_ = {from, order.bytes};
    Continue(&answer_, &messages_.unsent());
  } else {
    AppendFrame(FrameType::kRefused, 0, "", "", &messages_.unsent());
  }
  messages_.Flush();
}

void TcpConnection::OnFreed(const char* begin, const char* end) {
  if (answer_.left == 0 || answer_.from < begin || answer_.from >= end) return;
  answer_ = {};
  AppendFrame(FrameType::kRefused, 0, "", "", &messages_.unsent());
}

// ---- Beginning ----

void TcpConnection::ContinueDialing() {
  absl::StatusOr<std::optional<Dialing::Attempt>> step = dialing_->Step(Clock::Real().NowNs());
  if (!step.ok()) return Break(step.status());
  if (!step->has_value()) {
    Watch();
    return;
  }
  Dialing::Attempt connected = **std::move(step);
  CloseSockets();  // of the other addresses
  dialing_.reset();
  way_.address = connected.to;
  messages_ = Channel(std::move(connected.socket), host_->spare());
  messages_watched_ = connected.watched;
  server_address_ = PeerOf(messages_.fd());
  of_this_host_ = IsOfThisHost(messages_.fd());
  AppendFrame(FrameType::kHello, Greeting(), hello_, "", &messages_.unsent());
  state_ = State::kGreeting;
}

void TcpConnection::ContinueReturning() {
  const Dialed dialed = LookAtDialed(reads_.fd());
  if (dialed.error != 0) return Break(Unreachable(dialed.error));
  if (!dialed.connected) return;
  const absl::string_view ticket = absl::string_view(welcome_).substr(0, sizeof(Ticket));
  AppendFrame(FrameType::kAttach, Greeting(), ticket, "", &reads_.unsent());
  welcome_.erase(0, sizeof(Ticket));
  state_ = State::kAttaching;
}

// Error of the second socket.
absl::Status TcpConnection::Unreachable(int error) const {
  return CannotReach(way_.shown, strerror(error), error == ECONNREFUSED);
}

bool TcpConnection::HandleGreeting(const Frame& frame, Completion* done) {
  if (const absl::Status status = CheckGreeting(frame); !status.ok()) {
    Break(absl::Status(status.code(), absl::StrCat(way_.shown, ": ", status.message())));
    return false;
  }
  if (state_ == State::kGreeting && frame.type == FrameType::kWelcome) {
    OnWelcome(frame.payload);
  } else if (state_ == State::kGreeting && frame.type == FrameType::kReject) {
    Break(absl::PermissionDeniedError(frame.payload));
  } else if (state_ == State::kAttaching && frame.type == FrameType::kAttached) {
    state_ = State::kConnected;
    *done = {0, this, Opcode::kConnected, WcStatus::kSuccess, {}};
    return true;
  } else {
    BreakOff("a frame of this type is not sent here");
  }
  return false;
}

void TcpConnection::OnWelcome(absl::string_view payload) {
  int error = 0;
  absl::StatusOr<UniqueFd> socket = Dial(way_.address, way_.liveness_ms, &error);
  if (!socket.ok()) return Break(socket.status());
  if (error != 0) return Break(Unreachable(error));
  welcome_ = std::string(payload);
  reads_ = Channel(*std::move(socket), host_->spare());
  state_ = State::kReturning;
}

// ---- Ending ----

void TcpConnection::Break(const absl::Status& status, WcStatus oldest) {
  if (over()) return;
  status_ = status;
  state_ = State::kEnding;
  oldest_status_ = oldest;
  if (server_ != nullptr) server_->Dismiss(grant_.get());
  CloseSockets();
  kept_.Clear();
  answer_ = {};
  host_->PollAgain(this);
}

void TcpConnection::CloseSockets() {
  if (dialing_ != nullptr) {
    for (Dialing::Attempt& attempt : dialing_->attempts()) {
      if (attempt.socket.ok()) host_->Unwatch(attempt.socket.get());
    }
    dialing_.reset();
  }
  for (Channel* channel : {&messages_, &reads_}) {
    if (!channel->open()) continue;
    host_->Unwatch(channel->fd());
    channel->Close();
  }
}

void TcpConnection::LeaveToParent() {
  dialing_.reset();
  messages_.Release().reset();
  reads_.Release().reset();
}

void TcpConnection::BreakOff(absl::string_view what) {
  if (!client()) NoteViolation(Violator::kClient, peer_, what);
  Break(absl::UnavailableError(absl::StrCat("the peer ", peer_, " breaks the protocol: ", what)));
}

void TcpConnection::BreakWith(const Channel& channel) {
  const int error = channel.error();
  const char* const early = dialing() ? " without an answer" : "";
  Break(absl::UnavailableError(absl::StrCat("the peer ", peer_, " ended the connection", early, error == 0 ? "" : ": ",
                                            error == 0 ? "" : strerror(error))),
        error == ETIMEDOUT ? WcStatus::kRetryExceeded : WcStatus::kFlushed);
}

size_t TcpConnection::End(absl::Span<Completion> out) {
  size_t count = 0;
  for (; count < out.size() && completed_ != posted_; ++completed_) {
    const WcStatus status = std::exchange(oldest_status_, WcStatus::kFlushed);
    out[count++] = {posted_reads_[completed_ % kSendDepth].wr_id, this, Opcode::kRead, status, {}};
  }
  if (count == out.size()) return count;
  state_ = State::kEnded;
  out[count++] = {0, this, Opcode::kDisconnected, WcStatus::kSuccess, {}};
  return count;
}

void TcpConnection::Tick(int64_t now_ns) {
  if (dialing() && now_ns >= way_.until_ns) {
    return Break(dials() ? dialing_->TimedOut() : NoAnswerInTime(way_.shown, server_address_));
  }
  if (dials()) host_->PollAgain(this);  // the next address may be due
  if (state_ != State::kConnected || posted_ == completed_ || progress_ != last_progress_) {
    last_progress_ = progress_;
    stalled_ticks_ = 0;
  } else if (++stalled_ticks_ * kTickMs >= way_.liveness_ms) {
    // The peer's kernel lives, or it would have ended the connection: the process is stopped, or does not poll.
    Break(absl::UnavailableError(absl::StrCat("the peer ", peer_, " does not answer READs")), WcStatus::kRetryExceeded);
  }
}

void TcpConnection::Watch() {
  if (dials()) return WatchAttempts();
  uint32_t messages = EPOLLIN;
  uint32_t reads = EPOLLIN;
  if (messages_.unsent_bytes() > 0) messages |= EPOLLOUT;
  if (state_ == State::kReturning || reads_.unsent_bytes() > 0) reads |= EPOLLOUT;
  if (answer_.left > 0 && messages_.unsent_bytes() >= kMaxUnsentBytes) messages = EPOLLOUT;  // nothing is taken before
  if (!host_->Watch(messages_.fd(), this, false, messages, &messages_watched_) ||
      (reads_.open() && !host_->Watch(reads_.fd(), this, true, reads, &reads_watched_))) {
    Break(CannotWait());
  }
}

void TcpConnection::WatchAttempts() {
  for (Dialing::Attempt& attempt : dialing_->attempts()) {
    if (host_->Watch(attempt.socket.get(), this, false, EPOLLOUT, &attempt.watched)) continue;
    return Break(CannotWait());
  }
}

}  // namespace farlook::rdma::tcp
