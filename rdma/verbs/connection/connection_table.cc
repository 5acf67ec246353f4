#include "rdma/verbs/connection/connection_table.h"

#include <algorithm>

#include "rdma/verbs/connection/connection.h"

namespace farlook::rdma::verbs {

uint32_t ConnectionTable::Add(VerbsConnection* connection) {
  const auto free = std::find(by_tag.begin(), by_tag.end(), nullptr);
  const auto tag = static_cast<uint32_t>(free - by_tag.begin());
  if (free == by_tag.end()) by_tag.push_back(nullptr);
  by_tag[tag] = connection;
  return tag;
}

void ConnectionTable::Remove(VerbsConnection* connection) {
  by_tag[connection->tag] = nullptr;
  std::erase(listed, connection);
  std::erase(attended, connection);
  std::erase(suspects, connection);
}

std::vector<uint32_t> ConnectionTable::Leave(uint32_t pair_number, const VerbsConnection* connection) {
  by_pair.erase(pair_number);
  // Kept messages are lost; their slots are freed at the next Poll(), like those of the user.
  for (const Kept& message : kept) {
    if (message.connection == connection) delivered.push_back({message.slot, message.connection});
  }
  std::erase_if(kept, [connection](const Kept& message) { return message.connection == connection; });
  std::vector<uint32_t> slots;
  for (Delivered& message : delivered) {
    if (message.connection != connection) continue;
    message.connection = nullptr;
    slots.push_back(message.slot);
  }
  return slots;
}

void ConnectionTable::List(VerbsConnection* connection) {
  if (connection->listed) return;
  connection->listed = due = true;
  listed.push_back(connection);
}

void ConnectionTable::Attend(VerbsConnection* connection) {
  connection->attended_at = polls;
  due = true;
  if (std::find(attended.begin(), attended.end(), connection) == attended.end()) attended.push_back(connection);
}

void ConnectionTable::Suspect(VerbsConnection* connection) {
  if (std::find(suspects.begin(), suspects.end(), connection) == suspects.end()) suspects.push_back(connection);
  Attend(connection);
}

}  // namespace farlook::rdma::verbs
