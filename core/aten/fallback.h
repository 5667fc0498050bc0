// Ops without a lowering run on the CPU: counted, never silent.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace torchport::aten {

struct FallbackCount {
  int64_t count = 0, bytes = 0, us = 0;  // bytes: moved in both directions
  std::set<std::string> lines;           // Python lines, at most kMaxLines
};
std::map<std::string, FallbackCount> fallbacks();
void reset_fallbacks();
// Runs an op's CPU kernel on copies and brings back what it gave and wrote; counts nothing.
void run_on_host(const c10::OperatorHandle&, torch::jit::Stack&);

}  // namespace torchport::aten
