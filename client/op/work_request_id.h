// Ids of the client's work requests. A completion finds by them the engine that posted it, and its flight. An id is the
// flight's address, a multiple of 8, with the engine's number in the low bits.
#ifndef FARLOOK_CLIENT_OP_WORK_REQUEST_ID_H_
#define FARLOOK_CLIENT_OP_WORK_REQUEST_ID_H_

#include <cstddef>
#include <cstdint>

namespace farlook::client {

class WorkRequestId {
 public:
  enum class Owner : uint8_t {
    kReads = 0,      // a flight of Reads: the common case, tested first
    kCounters = 1,   // a flight of Counters
    kDirectory = 2,  // the directory's READ; one at a time, no address
    kWords = 3,      // READ of a group's epoch word: the member's number instead of an address
    kSegments = 4,   // a READ of Warmer: the number of the piece
    kScans = 5,      // a READ of Scans
  };

  static uint64_t Of(Owner owner, const void* flight = nullptr) {
    return reinterpret_cast<uintptr_t>(flight) | static_cast<uint64_t>(owner);
  }
  static uint64_t OfNumber(Owner owner, size_t number) {
    return number * (kOwnerBits + 1) | static_cast<uint64_t>(owner);
  }
  static size_t NumberOf(uint64_t wr_id) { return wr_id / (kOwnerBits + 1); }
  static Owner OwnerOf(uint64_t wr_id) { return static_cast<Owner>(wr_id & kOwnerBits); }
  template <typename Flight>
  static Flight* FlightOf(uint64_t wr_id) {
    static_assert(alignof(Flight) > kOwnerBits, "the owner takes the low bits of the address");
    return reinterpret_cast<Flight*>(static_cast<uintptr_t>(wr_id & ~kOwnerBits));
  }

 private:
  static constexpr uint64_t kOwnerBits = 7;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_WORK_REQUEST_ID_H_
