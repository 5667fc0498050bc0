// Ops without a lowering run on the CPU: counted, never silent.
#pragma once
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

}  // namespace torchport::aten
