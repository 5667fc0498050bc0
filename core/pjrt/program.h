// What a compiler made: facts and bytes, not tied to a running device. Executable (loaded) is one; a topology compiles
// to one that nothing here can run.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/api.h"

namespace torchport::pjrt {

struct CompileOptions {
  int num_replicas = 1, num_partitions = 1;
  bool portable = true;  // one program for any single device; ignored when there are several replicas or partitions
  std::vector<std::pair<std::string, bool>> flags = {};  // XLA debug options
  bool operator==(const CompileOptions&) const = default;
};
std::string encode(const CompileOptions&);  // a serialised CompileOptionsProto

// Bytes. On platforms whose memory is the host's, the host_ fields may hold what the others would.
struct MemoryStats {
  int64_t code = 0, arguments = 0, outputs = 0, aliased = 0, temporary = 0, peak = 0;
  int64_t host_code = 0, host_arguments = 0, host_outputs = 0, host_aliased = 0, host_temporary = 0;
};

class Program {
 public:
  Program(const Api& api, PJRT_Executable* raw) : api_(api), program_(raw) {}
  Program(const Program&) = delete;
  virtual ~Program() { destroy<&PJRT_Api::PJRT_Executable_Destroy>(api_, program_); }

  std::string name() const;
  size_t num_outputs() const;
  std::string serialize() const;
  // The compiler's estimates by its own names: "flops", "bytes accessed", "optimal_seconds"...; empty where it has
  // none.
  std::map<std::string, double> cost_analysis() const;
  MemoryStats memory_stats() const;
  std::string optimized_hlo() const;  // a serialised HloModuleProto

 protected:
  const Api& api_;
  PJRT_Executable* program_;
};

}  // namespace torchport::pjrt
