// The faults that parties of a run suffer, drawn as the operations begin; and events that no fault explains.
#ifndef FARLOOK_TESTS_SIM_FAULTS_H_
#define FARLOOK_TESTS_SIM_FAULTS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/configuration.h"
#include "kv/wire/handshake.h"
#include "rdma/sim/network.h"
#include "rdma/transport.h"
#include "tests/sim/client.h"
#include "tests/sim/hostile.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

namespace farlook::sim {

class FaultMaker {
 public:
  FaultMaker(World* world, std::vector<std::unique_ptr<SimServer>>* servers,
             std::vector<std::unique_ptr<SimClient>>* clients);

  // Notes that an operation of that client has begun.
  void OnOperation(SimClient* client);
  // Notes that a party ended an intact connection.
  void OnHealthyEnd(rdma::sim::Party party, bool is_server, rdma::sim::Party peer);

  // Ends all faults; dead parties return.
  void Heal();
  // Ends all clients and resumes the session of each. A client that sent a goodbye leaves none; the session of one that
  // wrote and did not is kept.
  void Part();
  bool heirs_answered() const;
  // Ends the run.
  void End();
  uint64_t hostile_connections() const;

 private:
  void KillClient(SimClient* client);
  void KillServer(SimServer* server);
  bool MayJump() const;
  bool MayDie(int replica) const;
  void HandOver();
  void MoveSlots();
  SimServer* PrimaryOf(const cluster::Configuration& group) const;
  absl::StatusOr<cluster::Configuration> RecordOf(int group) const;
  void SendStranger(const SimClient& client);
  struct Stranger {
    void Poll();

    kv::Hello hello;
    uint64_t session = 0;   // that it names
    bool heir = false;      // it says what its client would say, which has gone
    bool gone = false;      // that client said goodbye
    bool kept = false;      // it did not, and wrote
    bool answered = false;  // the server has spoken
    std::unique_ptr<rdma::Endpoint> endpoint;
    std::unique_ptr<rdma::Connection> connection;
  };
  std::unique_ptr<Stranger> StrangerOf(const SimClient& client);
  void Send(std::unique_ptr<Stranger> stranger, const SimClient& client);

  World* const world_;
  std::vector<std::unique_ptr<SimServer>>& servers_;
  std::vector<std::unique_ptr<SimClient>>& clients_;
  std::map<rdma::sim::Party, std::string> welcomes_;   // the last of each client
  std::map<rdma::sim::Party, uint64_t> incarnations_;  // likewise
  std::vector<std::unique_ptr<Stranger>> strangers_;
  std::vector<std::pair<std::unique_ptr<Stranger>, const SimClient*>> heirs_;  // not sent yet
  bool heirs_sent_ = false;
  std::vector<std::unique_ptr<Hostile>> hostile_;  // one for each server
  int64_t last_jump_ns_ = 0;
  bool over_ = false;
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_FAULTS_H_
