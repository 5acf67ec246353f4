#include "client/op/hit_sampler.h"

#include <algorithm>
#include <new>

#include "absl/strings/string_view.h"
#include "kv/wire/message.h"

namespace farlook::client {

void HitSampler::Connect(rdma::Connection* connection, uint32_t sample) {
  connection_ = connection;
  listed_ = 0;
  reported_hits_ = stats_->hits;
  reported_misses_ = stats_->misses;
  SetSample(sample);
}

void HitSampler::SetSample(uint32_t sample) {
  if (sample != 0 && list_ == nullptr) list_.reset(new (std::nothrow) List);
  sample_ = list_ == nullptr ? 0 : sample;
  left_ = sample_ == 0 ? kNever : sample_;
}

void HitSampler::Note(kv::Slot slot) {
  if (sample_ == 0) {
    left_ = kNever;
    return;
  }
  left_ = sample_;
  // If gets complete within their calls, the clock is not read elsewhere.
  const int64_t now_ns = listed_ % 16 == 0 ? time_->NowNs() : time_->last_ns();
  if (listed_ == 0) first_ns_ = now_ns;
  (*list_)[listed_++] = slot.word();
  if (listed_ == list_->size() || now_ns - first_ns_ >= kLongestNs) Send();
}

void HitSampler::Send() {
  const auto since = [](uint64_t now, uint64_t* reported) {
    const uint64_t n = std::min<uint64_t>(now - *reported, std::numeric_limits<uint32_t>::max() / 2);
    *reported = now;
    return static_cast<uint32_t>(n);
  };
  kv::TouchedLocations touched;
  touched.hits = since(stats_->hits, &reported_hits_);
  touched.gets = touched.hits + since(stats_->misses, &reported_misses_);
  touched.sample = sample_;
  kv::Request request;
  request.type = kv::RequestType::kTouched;
  request.value_bytes = static_cast<uint32_t>(kv::TouchedLocations::kHeadBytes + 8 * listed_);
  char head[kv::Request::kHeaderBytes + kv::TouchedLocations::kHeadBytes];
  touched.EncodeHead(head + request.EncodeHead(head));
  const absl::string_view slots(reinterpret_cast<const char*>(list_->data()), 8 * listed_);
  listed_ = 0;
  if (connection_->PostSend(absl::string_view(head, sizeof head), slots)) connection_->Ring();
}

}  // namespace farlook::client
