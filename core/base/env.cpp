#include "base/env.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace torchport {

const std::vector<EnvVar>& all_env() {
  static const std::vector<EnvVar> table{
      {"TORCHPORT_DEVICE", "tpu", "", "torch device name of this process: tpu, neuron or another; not cpu* or cuda*"},
      {"TORCHPORT_PLATFORM", "auto", "",
       "auto, a name of core/devices (cpu, tpu, cuda, neuron), or the path of a PJRT plugin"},
      {"TORCHPORT_EMULATE", "", "",
       "names of core/devices, separated by commas, whose limits the emulation's programs keep, too, so that they "
       "compile for those"},
      {"TORCHPORT_DEVICES", "4", "", "how many devices the CPU emulation shows"},
      {"TORCHPORT_EAGER", "strict", "strict|debug", "eager mode at start"},
      {"TORCHPORT_FALLBACK", "allow", "allow|error",
       "what to do with an op that has no lowering: run it on the CPU and count it, or raise"},
      {"TORCHPORT_PROGRAMS", "4096", "",
       "how many programs of eager ops are kept; beyond it the longest unused leave and are compiled again when "
       "needed"},
      {"TORCHPORT_RANDOM", "device", "device|cpu",
       "random numbers: Philox on the device, or those of the CPU's generator bit for bit, drawn on the host"},
      {"TORCHPORT_REPORT", "", "", "file that receives the report (JSON) at exit"},
      {"TORCHPORT_DUMP", "", "", "directory that receives the StableHLO text of every compiled program"},
      {"TORCHPORT_MEMORY_LIMIT", "", "",
       "bytes one device may hold; default: what the platform reports, or the machine's memory"},
      {"TORCHPORT_LOG", "warning", "error|warning|info|debug", "what TorchPort prints on stderr"},
  };
  return table;
}

std::string env(std::string_view name) {
  for (const EnvVar& v : all_env()) {
    if (v.name != name) continue;
    const char* got = std::getenv(std::string(name).c_str());
    if (!got || !*got) return std::string(v.fallback);
    const std::string value = got;
    const std::string allowed = "|" + std::string(v.allowed) + "|";
    const bool one = value.find('|') == std::string::npos;
    if (v.allowed.empty() || (one && allowed.find("|" + value + "|") != std::string::npos)) return value;
    fail(Code::bad_setting, std::string(name), str("must be one of ", v.allowed, ", got '", value, "'"));
  }
  fail(Code::internal, "env", str("variable ", name, " is not in the table of base/env.cpp"));
}

int64_t env_integer(std::string_view name, int64_t low, int64_t high) {
  const std::string set = env(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(set.data(), set.data() + set.size(), value);
  if (error != std::errc() || end != set.data() + set.size() || value < low || value > high)
    fail(Code::bad_setting, std::string(name), str("must be an integer in [", low, ", ", high, "], got '", set, "'"));
  return value;
}

}  // namespace torchport
