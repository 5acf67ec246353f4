#include "rdma/verbs/device/pretended_device.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace {

using farlook::rdma::verbs::Pretence;
using farlook::rdma::verbs::ThreadDomainUse;

struct ParentDomain {
  ibv_pd domain;
  ibv_td* thread;
  ibv_pd* original;
};

absl::Mutex mutex;
Pretence pretence ABSL_GUARDED_BY(mutex);
ThreadDomainUse use ABSL_GUARDED_BY(mutex);
// Number of objects in each. A parent domain is in its thread domain and in its protection domain, a queue pair in the
// domain that it was created in.
std::map<const void*, int> within ABSL_GUARDED_BY(mutex);
std::map<const ibv_pd*, ParentDomain*> parents ABSL_GUARDED_BY(mutex);
std::map<const ibv_qp*, const ibv_pd*> pairs ABSL_GUARDED_BY(mutex);  // those in a parent domain

// Returns whether it may be freed.
bool IsEmpty(const void* domain) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  if (within[domain] > 0) {
    ++use.freed_too_early;
    return false;
  }
  within.erase(domain);
  return true;
}

ibv_td* AllocateThreadDomain(ibv_context* context, ibv_td_init_attr* /*wanted*/) {
  absl::MutexLock lock(&mutex);
  if (pretence.alloc_td_error != 0) {
    errno = pretence.alloc_td_error;
    return nullptr;
  }
  ++use.thread_domains;
  ++use.alive;
  return new ibv_td{context};
}

int FreeThreadDomain(ibv_td* thread) {
  absl::MutexLock lock(&mutex);
  if (!IsEmpty(thread)) return EBUSY;
  --use.alive;
  delete thread;
  return 0;
}

ibv_pd* AllocateParentDomain(ibv_context* /*context*/, ibv_parent_domain_init_attr* wanted) {
  absl::MutexLock lock(&mutex);
  if (pretence.alloc_parent_domain_error != 0 || wanted->pd == nullptr || wanted->td == nullptr) {
    errno = pretence.alloc_parent_domain_error != 0 ? pretence.alloc_parent_domain_error : EINVAL;
    return nullptr;
  }
  auto* const parent = new ParentDomain{*wanted->pd, wanted->td, wanted->pd};
  ++use.parent_domains;
  ++use.alive;
  ++within[parent->thread];
  ++within[parent->original];
  parents[&parent->domain] = parent;
  return &parent->domain;
}

}  // namespace

namespace farlook::rdma::verbs {

void Pretend(const Pretence& what) {
  absl::MutexLock lock(&mutex);
  pretence = what;
  use = ThreadDomainUse();
}

ThreadDomainUse Used() {
  absl::MutexLock lock(&mutex);
  return use;
}

}  // namespace farlook::rdma::verbs

extern "C" {

ibv_context* __real_ibv_open_device(ibv_device* device);
ibv_context* __wrap_ibv_open_device(ibv_device* device);
ibv_context* __wrap_ibv_open_device(ibv_device* device) {
  ibv_context* const context = __real_ibv_open_device(device);
  absl::MutexLock lock(&mutex);
  if (context == nullptr || !pretence.thread_domains) return context;
  verbs_context* const more = verbs_get_ctx(context);
  more->alloc_td = AllocateThreadDomain;
  more->dealloc_td = FreeThreadDomain;
  more->alloc_parent_domain = AllocateParentDomain;
  return context;
}

int __real_ibv_query_device(ibv_context* context, ibv_device_attr* to);
int __wrap_ibv_query_device(ibv_context* context, ibv_device_attr* to);
int __wrap_ibv_query_device(ibv_context* context, ibv_device_attr* to) {
  const int error = __real_ibv_query_device(context, to);
  absl::MutexLock lock(&mutex);
  if (error == 0 && pretence.max_mr_size != 0) to->max_mr_size = pretence.max_mr_size;
  return error;
}

int __real_ibv_dealloc_pd(ibv_pd* domain);
int __wrap_ibv_dealloc_pd(ibv_pd* domain);
int __wrap_ibv_dealloc_pd(ibv_pd* domain) {
  {
    absl::MutexLock lock(&mutex);
    if (!IsEmpty(domain)) return EBUSY;
    const auto found = parents.find(domain);
    if (found != parents.end()) {
      --within[found->second->thread];
      --within[found->second->original];
      --use.alive;
      delete found->second;
      parents.erase(found);
      return 0;
    }
  }
  return __real_ibv_dealloc_pd(domain);
}

ibv_qp* __real_ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted);
ibv_qp* __wrap_ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted);
ibv_qp* __wrap_ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  ibv_qp* const pair = __real_ibv_create_qp(domain, wanted);
  if (pair == nullptr) return nullptr;
  absl::MutexLock lock(&mutex);
  if (parents.count(domain) == 0) {
    ++use.others;
    return pair;
  }
  ++use.queue_pairs;
  ++use.alive;
  ++within[domain];
  pairs[pair] = domain;
  return pair;
}

int __real_ibv_destroy_qp(ibv_qp* pair);
int __wrap_ibv_destroy_qp(ibv_qp* pair);
int __wrap_ibv_destroy_qp(ibv_qp* pair) {
  {
    absl::MutexLock lock(&mutex);
    const auto found = pairs.find(pair);
    if (found != pairs.end()) {
      --use.alive;
      --within[found->second];
      pairs.erase(found);
    }
  }
  return __real_ibv_destroy_qp(pair);
}

}  // extern "C"
