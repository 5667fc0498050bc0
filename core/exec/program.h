// A compiled graph and the way to launch it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/lower.h"
#include "graph/graph.h"
#include "pjrt/client.h"

namespace torchport::exec {

// A runtime number of one launch.
struct RuntimeNumber {
  graph::Number::Kind kind = graph::Number::Kind::integer;
  int64_t i = 0;
  double re = 0, im = 0;
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  Program(Lowered, std::unique_ptr<pjrt::Executable>);

  const Lowered plan;
  size_t num_outputs() const { return num_outputs_; }  // results that are defined, written inputs, check
  const std::vector<int64_t>& output_bytes() const { return output_bytes_; }
  const std::vector<Dtype>& output_dtypes() const { return output_dtypes_; }
  const pjrt::Executable& executable() const { return *executable_; }

  // Launches on one device. inputs: one buffer per graph input (null where unread); donatable: per graph input, whether
  // a written input's buffer may be reused. outputs: num_outputs() buffers. Returns before the work is done.
  void run(std::span<pjrt::Buffer* const> inputs, const bool* donatable, std::span<const RuntimeNumber> numbers,
           uint64_t seed, uint64_t offset, pjrt::Device&, pjrt::BufferPtr* outputs) const;

  std::string name;  // of the op or graph, for reports
  const std::shared_ptr<std::atomic<int64_t>> launches = std::make_shared<std::atomic<int64_t>>(0);  // outlives it

 private:
  std::unique_ptr<pjrt::Executable> executable_;
  size_t num_outputs_ = 0;
  int64_t total_bytes_ = 0;
  std::vector<int64_t> output_bytes_;
  std::vector<Dtype> output_dtypes_;
  std::vector<int> donors_;  // positions among the arguments that an output may replace
};

}  // namespace torchport::exec
