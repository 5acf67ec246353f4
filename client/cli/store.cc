#include "client/cli/store.h"

namespace farlook::cli {

void Store::Run(Request* request) {
  Start(request);
  while (Poll() == nullptr) Wait();
}

}  // namespace farlook::cli
