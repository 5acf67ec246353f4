#include "tests/scale/rxe.h"

#include <cstdint>
#include <iterator>

#include "tests/scale/counts.h"
#include "tests/scale/rxe_rate.h"

namespace farlook::scale {
namespace {

// On shm, in the same guest: a get, 64 in flight; one by message, and a ping, from the additional time of 16 in flight
// over 1.
constexpr double kClientNs = 3'420;
constexpr double kMessageNs = 4'730;
constexpr double kPingWorkNs = 2'920;
// A ping on rxe: two packets, two posts, two wake-ups, and this.
constexpr double kPingNs = 93'130;
constexpr double kWakeNs = (kPingNs - kPingWorkNs) / 2 - kRxePacketNs - kRxePostNs;

Counts CountsOf(const RxeRate& rate) {
  if (rate.workload == 'C' || rate.by_message) return Counts();
  Load load;
  load.reads = 1 - kRatePutsPercent / 100.0;
  load.clients = rate.clients;
  load.in_flight = rate.in_flight;
  load.keys = kRateKeys;
  load.value_bytes = kRateValueBytes;
  return Measure(load).counts;
}

}  // namespace

// tests/vm/run --icount, GCC 12, Linux 6.1: rxe_main.cc.
const RxeRate kRxeRates[] = {
    {'C', false, 1, 1, 25'320},   //
    {'C', false, 1, 2, 32'550},   //
    {'C', false, 1, 4, 36'370},   //
    {'C', false, 1, 8, 38'300},   //
    {'C', false, 1, 16, 39'240},  //
    {'C', false, 1, 64, 39'480},  //
    {'C', false, 2, 1, 28'410},   //
    {'C', false, 4, 1, 29'600},   //
    {'C', false, 8, 1, 30'070},   //
    {'C', false, 2, 16, 38'780},  //
    {'C', false, 4, 16, 37'910},  //
    {'C', false, 8, 16, 37'420},  //
    {'C', true, 1, 1, 10'290},    //
    {'C', true, 1, 2, 13'670},    //
    {'C', true, 1, 4, 16'320},    //
    {'C', true, 1, 8, 18'200},    //
    {'C', true, 1, 16, 18'820},   //
    {'C', true, 1, 64, 19'410},   //
    {'C', true, 2, 1, 10'870},    //
    {'C', true, 4, 1, 10'880},    //
    {'C', true, 8, 1, 10'830},    //
    {'C', true, 2, 16, 19'060},   //
    {'C', true, 4, 16, 19'110},   //
    {'C', true, 8, 16, 18'920},   //
    {'B', false, 1, 1, 23'320},   //
    {'B', false, 2, 1, 23'710},   //
    {'B', false, 4, 1, 22'970},   //
    {'B', false, 8, 1, 22'060},   //
    {'B', true, 1, 1, 10'400},    //
    {'B', true, 2, 1, 10'700},    //
    {'B', true, 4, 1, 10'770},    //
    {'B', true, 8, 1, 10'720},    //
};
const int kRxeRateCount = static_cast<int>(std::size(kRxeRates));

double Predict(const RxeRate& rate) {
  Scenario s;
  s.nic = kRxe;
  s.cpu = {.client_ns = kClientNs,
           .request_ns = kMessageNs - kClientNs,
           .workers = 1,
           .clients_per_host = rate.clients,
           .shared = true,
           .wake_ns = kWakeNs};
  s.counts = CountsOf(rate);
  s.reads = rate.workload == 'C' ? 1 : 1 - kRatePutsPercent / 100.0;
  s.by_message = rate.by_message;
  s.clients = rate.clients;
  s.in_flight = rate.in_flight;
  s.keys = kRateKeys;
  return Simulate(s).operations_per_second;
}

}  // namespace farlook::scale
