#include "bench/ycsb/command_line.h"

#include <map>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace farlook::bench {
namespace {

// Options that are abbreviations of a property.
const std::map<std::string, std::string>& PropertyOptions() {
  static const auto& options = *new std::map<std::string, std::string>{
      {"-threads", "threadcount"},
      {"-target", "target"},
      {"-db", "db"},
      {"-status.interval", "status.interval"},
  };
  return options;
}

constexpr char kHelp[] =
    R"(ycsb - the YCSB core workload, in C++

    ycsb -db NAME -load -P FILE [options]     insert the records
    ycsb -db NAME -t -P FILE [options]        run the transactions (the default)
    ycsb -db NAME -load -t -P FILE [options]  the one, then the other, in one process

Options (one dash or two):
    -db NAME            the store:
@STORES@    -P FILE             take properties from FILE; more than one in their order
    -p NAME=VALUE       set a property; overrides those of files
    -threads N          threads, each with its own connection (1)
    -target N           operations per second of all threads together (0: as many as possible).
                        Latencies are then also measured from when an operation should have
                        begun ("Intended-"), so that a store that stalls is not excused
    -s                  a status line on stderr each interval
    -status.interval S  seconds between them (10)
    -json FILE          write the results to FILE too, as JSON; "-" is stdout, and no text then
    -help

Properties of YCSB 0.17 that count here (with their defaults):
    recordcount (needed), operationcount, insertstart (0), insertcount, workload,
    readproportion (0.95), updateproportion (0.05), insertproportion (0),
    readmodifywriteproportion (0), scanproportion (0; must be 0: a hash table has no scans),
    requestdistribution (uniform, zipfian, latest), fieldcount (10), fieldlength (100),
    readallfields (true), writeallfields (false), dataintegrity (false),
    maxexecutiontime (seconds; 0: no limit), threadcount, target, db, status,
    status.interval, hdrhistogram.percentiles (50,90,95,99,99.9)
Of this driver:
    batchsize (1)           reads are gathered and made N at a time; [READ-BATCH] times the whole
    inflight (1)            operations in flight on each thread
    loadmaxexecutiontime    maxexecutiontime of a load, where it differs (0: no limit)
    seed                    of all random choices (random; printed with the results)
    farlook.server_pid      process whose CPU time is reported as the server's
    server.cpu_reporter       tcp://HOST:PORT that reports it if that process is on another host
                            (bench/comparison/cpu_reporter.py); without it, it is looked for on this host

An update writes one field of a record unless writeallfields; a store of whole values reads,
changes and compares-and-sets. Workloads A to F are in bench/workloads; E needs scans and is refused.

Exit codes:
    0  all operations returned OK       3  some operations failed
    1  wrong input; nothing was run     4  the data-integrity check found wrong data
    2  the store cannot be reached      5  results could not be written
    128+N  ended by signal N, after printing what was measured
)";

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  CommandLine line;
  Properties given;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    std::string option = absl::StartsWith(arg, "--") ? arg.substr(1) : arg;
    std::string value;
    bool has_value = false;
    if (const size_t equals = option.find('='); equals != std::string::npos) {
      value = option.substr(equals + 1);
      option.resize(equals);
      has_value = true;
    }
    const bool is_flag = option == "-s" || option == "-load" || option == "-t" || option == "-help" || option == "-h";
    const auto property = PropertyOptions().find(option);
    if (!is_flag && property == PropertyOptions().end() && option != "-P" && option != "-p" && option != "-json") {
      return absl::InvalidArgumentError(absl::StrCat("unknown option ", arg, "; see --help"));
    }
    if (is_flag && has_value) return absl::InvalidArgumentError(absl::StrCat("option ", arg, " takes no value"));
    if (!is_flag && !has_value) {
      if (++i == args.size()) return absl::InvalidArgumentError(absl::StrCat("option ", arg, " needs a value"));
      value = args[i];
    }

    if (option == "-P") {
      const absl::Status status = LoadProperties(value, &line.properties);
      if (!status.ok()) return status;
    } else if (option == "-p") {
      const size_t equals = value.find('=');
      if (equals == std::string::npos || equals == 0) {
        return absl::InvalidArgumentError(absl::StrCat("option -p needs NAME=VALUE, not ", value));
      }
      given[value.substr(0, equals)] = value.substr(equals + 1);
    } else if (option == "-json") {
      line.json_path = value;
    } else if (option == "-s") {
      given["status"] = "true";
    } else if (option == "-load") {
      line.load = true;
    } else if (option == "-t") {
      line.run = true;
    } else if (is_flag) {
      line.help = true;
    } else {
      given[property->second] = value;
    }
  }
  for (const auto& [name, value] : given) line.properties[name] = value;
  return line;
}

std::string HelpText(const DbRegistry& registry) {
  std::string stores;
  for (const auto& [name, entry] : registry.entries()) {
    absl::StrAppend(&stores, "                          ", name, ": ", entry.help, "\n");
  }
  return absl::StrReplaceAll(kHelp, {{"@STORES@", stores}});
}

}  // namespace farlook::bench
