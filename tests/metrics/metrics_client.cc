// A client for the tests of metrics.
//
//     metrics_client ADDRESS page [LABELS]  makes some of each kind of operation, and prints PrometheusText(), with the
//                                           LABELS that follow, if any
//     metrics_client ADDRESS unread         sends more requests than fit into its rings and reads no reply, so that the
//                                           server has something to finish; until its stdin ends
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <string>
#include <string_view>

#include "farlook/async.h"
#include "farlook/client.h"

namespace {

int Fail(const absl::Status& status) {
  std::cerr << status << "\n";
  return 1;
}

int Page(farlook::Client& client, std::string_view labels) {
  if (const auto put = client.Put("key", "value"); !put.ok()) return Fail(put.status());
  if (const auto put = client.Put("long", std::string(100'000, 'v')); !put.ok()) return Fail(put.status());
  for (int i = 0; i < 200; ++i) {
    if (const auto got = client.Get("key"); !got.ok()) return Fail(got.status());
  }
  (void)client.Get("absent").ok();
  if (const auto made = client.CreateCounter("counter", 0); !made.ok()) return Fail(made);
  if (const auto added = client.FetchAdd("counter", 1); !added.ok()) return Fail(added.status());
  if (const auto deleted = client.DeleteCounter("counter"); !deleted.ok()) return Fail(deleted.status());
  std::cout << farlook::PrometheusText(client.stats(), labels);
  return 0;
}

int Unread(farlook::Client& client) {
  if (const auto put = client.Put("unread", std::string(3900, 'v')); !put.ok()) return Fail(put.status());
  std::deque<farlook::GetOperation> gets;
  for (int i = 0; i < 200; ++i) {
    gets.emplace_back("unread");
    client.Start(&gets.back());
  }
  std::puts("asked");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  _Exit(0);  // without taking them
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  farlook::ClientOptions options;
  options.timeout_ms = 60'000;
  const bool unread = argv[2] == std::string_view("unread");
  if (unread) options.lookups = farlook::Lookups::kMessages;
  auto client = farlook::Client::Connect(argv[1], options);
  if (!client.ok()) return Fail(client.status());
  if (unread) return Unread(**client);
  return Page(**client, argc > 3 ? argv[3] : "");
}
