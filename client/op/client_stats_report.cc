#include "client/op/client_stats_report.h"

#include <algorithm>
#include <limits>
#include <new>

#include "absl/strings/string_view.h"
#include "kv/wire/client_figures.h"
#include "kv/wire/message.h"

namespace farlook::client {

void ClientStatsReport::Connect(rdma::Connection* connection, uint32_t interval_ms, int64_t now_ns) {
  connection_ = nullptr;
  if (interval_ms == 0) return;
  if (before_ == nullptr) before_.reset(new (std::nothrow) Before);
  if (before_ == nullptr) return;
  connection_ = connection;
  *before_ = {stats_->hits, stats_->misses, stats_->get_times};
  interval_ns_ = int64_t{interval_ms} * 1'000'000;
  since_ns_ = now_ns;
  due_ns_ = now_ns + interval_ns_;
}

void ClientStatsReport::Send(int64_t now_ns) {
  if (connection_ == nullptr) return;
  due_ns_ = now_ns + interval_ns_;
  kv::ClientFigures figures;
  figures.hits = stats_->hits - before_->hits;
  figures.gets = figures.hits + stats_->misses - before_->misses;
  if (figures.gets == 0) {
    since_ns_ = now_ns;
    return;
  }
  constexpr auto kMost = uint64_t{std::numeric_limits<uint32_t>::max()};
  const auto ms = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - since_ns_)) / 1'000'000;
  figures.interval_ms = static_cast<uint32_t>(std::clamp<uint64_t>(ms, 1, kMost));
  for (size_t i = 0; i < figures.counts.size(); ++i) {
    figures.counts[i] = static_cast<uint32_t>(std::min(kMost, stats_->get_times.counts[i] - before_->times.counts[i]));
  }
  char value[kv::ClientFigures::kMaxBytes];
  kv::Request request;
  request.type = kv::RequestType::kFigures;
  request.value_bytes = static_cast<uint32_t>(figures.Encode(value));
  char head[kv::Request::kHeaderBytes];
  request.EncodeHead(head);
  if (!connection_->PostSend(absl::string_view(head, sizeof head), absl::string_view(value, request.value_bytes))) {
    return;
  }
  connection_->Ring();
  *before_ = {stats_->hits, stats_->misses, stats_->get_times};
  since_ns_ = now_ns;
}

}  // namespace farlook::client
