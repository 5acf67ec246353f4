// One host's part in a test of a group on several hosts: perhaps etcd and a server, and users. The test on the first
// host orders what happens to them (orders.h).
#ifndef FARLOOK_TESTS_LINEARIZABLE_GROUP_HOST_H_
#define FARLOOK_TESTS_LINEARIZABLE_GROUP_HOST_H_

#include <string>

namespace farlook {

// "10.0.0.2" of b.
std::string IpOf(char host);
// "10.0.0.2:2379".
std::string EtcdOn(char host);

// Obeys the orders in this folder, as that host, until the last of them:
//
//   etcd                 starts etcd, of one member
//   serve FLAG...        starts a server, and returns its address
//   kill, restart        that server
//   stop, continue       (SIGSTOP)
//   use ADDRESS lease|strict SEED PROCESSES     starts users of that group, fenced that way
//   disturb              kills or stops one of them
//   run COMMAND...       by the shell
//   end                  ends the users, and writes their log and the times of this host's clock
//
// Returns the exit code of its process.
int ObeyAsHost(char host, const std::string& folder);

// The paths to which a host writes these at the end.
std::string HistoryPath(const std::string& folder, char host);
std::string TimePath(const std::string& folder, char host);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_GROUP_HOST_H_
