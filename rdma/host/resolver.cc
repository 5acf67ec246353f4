#include "rdma/host/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/clock.h"

namespace farlook::rdma {
namespace {

constexpr int64_t kMsNs = 1'000'000;
// An answer is valid for this time, in which a client may connect several times.
constexpr int64_t kFreshNs = 1000 * kMsNs;
// Most threads of a process. A program that connects repeatedly, while no name server answers, has no more.
constexpr int kMostLookups = 64;

std::atomic<int> g_lookups{0};
std::atomic<LookUpFunction> g_look_up{nullptr};

int64_t NowNs() { return Clock::Real().NowNs(); }

// Calls getaddrinfo() and returns each address once. `flags`: AI_NUMERICHOST. Returns its error, or 0.
int GetAddresses(const std::string& host, int flags, SocketAddresses* addresses) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return error;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    SocketAddress address;
    memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    if (std::find(addresses->begin(), addresses->end(), address) == addresses->end()) addresses->push_back(address);
  }
  freeaddrinfo(found);
  return addresses->empty() ? EAI_NONAME : 0;
}

absl::StatusOr<SocketAddresses> LookUpAndWait(const std::string& host) {
  if (const LookUpFunction look_up = g_look_up.load(std::memory_order_acquire); look_up != nullptr) {
    return look_up(host);
  }
  SocketAddresses addresses;
  const int error = GetAddresses(host, 0, &addresses);
  if (error == 0) return addresses;
  return absl::UnavailableError(absl::StrCat("the name ", host, " does not resolve: ", gai_strerror(error),
                                             "; see /etc/hosts, or give the address in numbers"));
}

// Mutex of all bells. A child of fork() finds it free, and has none of its parent's lookups: it lacks their threads.
std::mutex& Bells() {
  static std::mutex* const mutex = [] {
    pthread_atfork([] { Bells().lock(); }, [] { Bells().unlock(); },
                   [] {
                     g_lookups.store(0, std::memory_order_relaxed);
                     Bells().unlock();
                   });
    return new std::mutex;
  }();
  return *mutex;
}

// Starts a detached thread that receives no signals. Returns 0, or the error.
int StartThread(void* (*run)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return error;
  pthread_setname_np(thread, "resolver");
  pthread_detach(thread);
  return 0;
}

}  // namespace

// Wakes the resolver's user, as long as the resolver exists.
struct Lookup::Bell {
  std::function<void()> ring;  // guarded by Bells(); empty: the resolver is destroyed
};

// ---- Lookup ----

Lookup::Lookup(std::string host, SocketAddresses fallback, int64_t begun_ns, std::shared_ptr<Bell> bell)
    : host_(std::move(host)), fallback_(std::move(fallback)), begun_ns_(begun_ns), bell_(std::move(bell)) {}

std::shared_ptr<Lookup> Lookup::Start(std::string host, SocketAddresses fallback, std::shared_ptr<Bell> bell) {
  std::shared_ptr<Lookup> lookup(new Lookup(std::move(host), std::move(fallback), NowNs(), std::move(bell)));
  const auto cannot = [&lookup](absl::string_view why) {
    lookup->Answer(absl::ResourceExhaustedError(absl::StrCat("cannot look up ", lookup->host_, ": ", why)));
  };
  if (g_lookups.fetch_add(1, std::memory_order_relaxed) >= kMostLookups) {
    g_lookups.fetch_sub(1, std::memory_order_relaxed);
    cannot(absl::StrCat(kMostLookups, " lookups of this process wait for the system's resolver; see /etc/resolv.conf"));
    return lookup;
  }
  auto* const shared = new std::shared_ptr<Lookup>(lookup);
  if (const int error = StartThread(Run, shared); error != 0) {
    delete shared;
    g_lookups.fetch_sub(1, std::memory_order_relaxed);
    cannot(absl::StrCat("no thread can be started: ", strerror(error)));
  }
  return lookup;
}

void* Lookup::Run(void* lookup) {
  const std::shared_ptr<Lookup> self = std::move(*static_cast<std::shared_ptr<Lookup>*>(lookup));
  delete static_cast<std::shared_ptr<Lookup>*>(lookup);
  try {
    self->Answer(LookUpAndWait(self->host_));
  } catch (const std::bad_alloc&) {
    self->Answer(absl::ResourceExhaustedError(""));  // a text would need memory, too
  }
  g_lookups.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(Bells());
  if (self->bell_->ring) self->bell_->ring();
  return nullptr;
}

void Lookup::Answer(absl::StatusOr<SocketAddresses> answer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  answer_ = std::move(answer);
  answered_ns_ = NowNs();
  answered_.notify_all();
}

std::optional<absl::StatusOr<SocketAddresses>> Lookup::answer() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return answer_;
}

bool Lookup::is_answered() const { return answer().has_value(); }

bool Lookup::IsFresh() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return answer_.has_value() && answer_->ok() && NowNs() < answered_ns_ + kFreshNs;
}

std::optional<absl::StatusOr<SocketAddresses>> Lookup::Addresses(int64_t now_ns) const {
  std::optional<absl::StatusOr<SocketAddresses>> answered = answer();
  if (answered.has_value() ? !answered->ok() : now_ns >= fallback_ns()) {
    if (!fallback_.empty()) return fallback_;
  }
  return answered;
}

absl::StatusOr<SocketAddresses> Lookup::Await(int64_t timeout_ms) const {
  const int64_t longest_ms = std::min(std::max<int64_t>(timeout_ms, 0), fallback_.empty() ? INT64_MAX : kFallbackMs);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    answered_.wait_for(lock, std::chrono::milliseconds(std::min<int64_t>(longest_ms, INT32_MAX)),
                       [this] { return answer_.has_value(); });
  }
  std::optional<absl::StatusOr<SocketAddresses>> addresses = Addresses(INT64_MAX - 1);
  if (addresses.has_value()) return *std::move(addresses);
  return NotResolved(host_);
}

absl::Status NotResolved(const std::string& host) {
  return absl::UnavailableError(absl::StrCat("the name ", host,
                                             " does not resolve in time: no name server answers; see "
                                             "/etc/resolv.conf, or give the address in numbers"));
}

// ---- Resolver ----

Resolver::Resolver(std::function<void()> wake) : bell_(std::make_shared<Lookup::Bell>()) {
  const std::lock_guard<std::mutex> lock(Bells());
  bell_->ring = std::move(wake);
}

Resolver::~Resolver() {
  const std::lock_guard<std::mutex> lock(Bells());
  bell_->ring = nullptr;
}

std::shared_ptr<const Lookup> Resolver::LookUp(const std::string& host) {
  SocketAddresses numeric;
  if (GetAddresses(host, AI_NUMERICHOST, &numeric) == 0) {
    std::shared_ptr<Lookup> lookup(new Lookup(host, {}, NowNs(), bell_));
    lookup->Answer(std::move(numeric));
    return lookup;
  }
  std::shared_ptr<Lookup>& last = last_[host];
  SocketAddresses fallback;
  if (last != nullptr) {
    std::optional<absl::StatusOr<SocketAddresses>> answered = last->answer();
    if (!answered.has_value()) return last;
    if (last->IsFresh()) return last;
    fallback = answered->ok() ? **std::move(answered) : last->fallback_;
  }
  last = Lookup::Start(host, std::move(fallback), bell_);
  return last;
}

absl::StatusOr<SocketAddresses> ResolveWithin(const Address& address, int64_t timeout_ms) {
  Resolver resolver([] {});
  absl::StatusOr<SocketAddresses> addresses = resolver.LookUp(address.host)->Await(timeout_ms);
  if (!addresses.ok()) return addresses.status();
  for (SocketAddress& found : *addresses) found.set_port(address.port);
  return addresses;
}

void SetLookUpForTest(LookUpFunction function) { g_look_up.store(function, std::memory_order_release); }

}  // namespace farlook::rdma
