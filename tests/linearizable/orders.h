// Orders from a test on one of several guests (tests/vm, --hosts) to programs on all of them. Orders and answers are
// files of a folder that all guests see, so they arrive whatever the state of the network between them; a stopped host
// obeys when it continues.
#ifndef FARLOOK_TESTS_LINEARIZABLE_ORDERS_H_
#define FARLOOK_TESTS_LINEARIZABLE_ORDERS_H_

#include <map>
#include <optional>
#include <string>

namespace farlook {

// Thread safety: none.
class Orders {
 public:
  // Each user of the folder makes an object of its own.
  explicit Orders(std::string folder) : folder_(std::move(folder)) {}

  // For the test: waits until the host has carried out the order, and returns its answer; nothing after three minutes.
  std::optional<std::string> Do(char host, const std::string& order);

  // For a host: waits for the next order to it; nothing: there was none for ten minutes.
  std::optional<std::string> Next(char host);
  // Reports that the order was carried out.
  void Done(char host, const std::string& answer);

 private:
  // Returns the path of the latest order that was given or received.
  std::string Path(char host) const;

  const std::string folder_;
  std::map<char, int> numbers_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_ORDERS_H_
