#include "client/cli/context/client_store.h"
#include "client/cli/kv_cli.h"

int main(int argc, char** argv) { return farlook::cli::KvCli(argc, argv, farlook::cli::ClientStore::Connect); }
