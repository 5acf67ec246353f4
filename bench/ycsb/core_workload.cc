#include "bench/ycsb/core_workload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/common/key_name.h"
#include "bench/ycsb/field_values.h"

namespace farlook::bench {
namespace {

std::vector<std::string> FieldNames(const WorkloadConfig& config) {
  std::vector<std::string> names;
  for (size_t i = 0; i < config.field_count; ++i) names.push_back(absl::StrCat("field", i));
  return names;
}

}  // namespace

CoreWorkload::CoreWorkload(const WorkloadConfig& config)
    : config_(config),
      field_names_(FieldNames(config)),
      next_load_(config.keys.first),
      inserted_(config.keys.record_count),
      keys_(NewKeyChooser(config.request_distribution, config.keys, &inserted_)) {}

std::unique_ptr<WorkloadThread> CoreWorkload::NewThread(uint64_t seed) {
  return std::make_unique<WorkloadThread>(this, seed);
}

WorkloadThread::WorkloadThread(CoreWorkload* shared, uint64_t seed)
    : shared_(shared), random_(seed), keys_(shared->keys_->Clone()) {}

Operation WorkloadThread::NextOperation() {
  const WorkloadConfig& config = shared_->config_;
  double draw = random_.NextDouble() * (config.read_proportion + config.update_proportion + config.insert_proportion +
                                        config.read_modify_write_proportion);
  if ((draw -= config.read_proportion) < 0) return Operation::kRead;
  if ((draw -= config.update_proportion) < 0) return Operation::kUpdate;
  if ((draw -= config.insert_proportion) < 0) return Operation::kInsert;
  if (config.read_modify_write_proportion > 0) return Operation::kReadModifyWrite;
  // Rounding took a draw past the last share: use an operation that has a share.
  if (config.insert_proportion > 0) return Operation::kInsert;
  return config.update_proportion > 0 ? Operation::kUpdate : Operation::kRead;
}

void WorkloadThread::FieldValue(const std::string& key, size_t field, std::string* bytes) {
  const size_t length = static_cast<size_t>(shared_->config_.field_length);
  if (shared_->config_.data_integrity) {
    DeterministicFieldValue(key, shared_->field_names_[field], length, bytes);
  } else {
    RandomFieldValue(length, &random_, bytes);
  }
}

void WorkloadThread::WholeRecord(Task* task) {
  values_.resize(shared_->config_.field_count);
  views_.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    FieldValue(task->write.key, i, &values_[i]);
    views_[i] = values_[i];
  }
  EncodeRecord(views_, &task->write.record);
}

void WorkloadThread::PrepareRead(Task* task) {
  BuildKeyName(task->number, &task->read.key);
  task->read.kind = DbRequest::Kind::kRead;
  task->read_field = shared_->config_.read_all_fields ? std::nullopt : std::make_optional(NextField());
}

void WorkloadThread::PrepareUpdate(Task* task) {
  BuildKeyName(task->number, &task->write.key);
  task->write.basis = nullptr;
  if (shared_->config_.write_all_fields) {
    task->write.kind = DbRequest::Kind::kReplace;
    WholeRecord(task);
  } else {
    task->write.kind = DbRequest::Kind::kPatch;
    task->write.writes.resize(1);
    task->write.writes[0].field = NextField();
    FieldValue(task->write.key, task->write.writes[0].field, &task->write.writes[0].bytes);
  }
}

void WorkloadThread::NextLoad(Task* task) {
  task->operation = Operation::kInsert;
  task->number = shared_->next_load_.fetch_add(1, std::memory_order_relaxed);
  BuildKeyName(task->number, &task->write.key);
  task->write.kind = DbRequest::Kind::kInsert;
  WholeRecord(task);
}

void WorkloadThread::NextTransaction(Task* task) {
  task->operation = NextOperation();
  if (task->operation == Operation::kInsert) {
    task->number = shared_->inserted_.Next();
    BuildKeyName(task->number, &task->write.key);
    task->write.kind = DbRequest::Kind::kInsert;
    WholeRecord(task);
    return;
  }
  task->number = keys_->Next(&random_);
  if (task->operation != Operation::kUpdate) PrepareRead(task);
  if (task->operation != Operation::kRead) PrepareUpdate(task);
}

bool WorkloadThread::Finished(const Task& task) {
  return task.operation != Operation::kInsert || shared_->inserted_.Acknowledge(task.number);
}

DbStatus WorkloadThread::Verify(const Task& task) {
  const ReadResult& result = task.read.result;
  if (result.status != DbStatus::kOk) return DbStatus::kError;
  const WorkloadConfig& config = shared_->config_;
  if (!DecodeRecord(result.record, &views_) || views_.size() != config.field_count) return DbStatus::kUnexpectedState;
  for (size_t field = 0; field < views_.size(); ++field) {
    if (task.read_field.has_value() && *task.read_field != field) continue;
    DeterministicFieldValue(task.read.key, shared_->field_names_[field], static_cast<size_t>(config.field_length),
                            &expected_);
    if (views_[field] != expected_) return DbStatus::kUnexpectedState;
  }
  return DbStatus::kOk;
}

}  // namespace farlook::bench
