// What a test on one of several guests (tests/vm, --hosts) has programs on all of them do. Orders and answers are files
// of a folder that all guests see, so they arrive whatever becomes of the network between them; a host that stands
// still obeys when it goes on.
#ifndef FARLOOK_TESTS_LINEARIZABLE_ORDERS_H_
#define FARLOOK_TESTS_LINEARIZABLE_ORDERS_H_

#include <map>
#include <optional>
#include <string>

namespace farlook {

// Thread safety: none.
class Orders {
 public:
  // All who use the folder make one of their own.
  explicit Orders(std::string folder) : folder_(std::move(folder)) {}

  // For who gives them. Waits until the host has done it, and returns what it says; nothing after three minutes.
  std::optional<std::string> Do(char host, const std::string& order);

  // For who obeys. Waits for the next order to this host; nothing: there was none for ten minutes.
  std::optional<std::string> Next(char host);
  // That it is done.
  void Done(char host, const std::string& answer);

 private:
  // Of the order that was given, or came, last.
  std::string Path(char host) const;

  const std::string folder_;
  std::map<char, int> numbers_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_ORDERS_H_
