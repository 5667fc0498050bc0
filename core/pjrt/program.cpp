#include "pjrt/program.h"

#include <string_view>

namespace torchport::pjrt {

// CompileOptionsProto is small and its field numbers are frozen, so it is written by hand and protobuf stays out.
namespace {

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_field(std::string& out, int number, uint64_t value) {
  put_varint(out, static_cast<uint64_t>(number) << 3);
  put_varint(out, value);
}

void put_bytes(std::string& out, int number, std::string_view bytes) {
  put_varint(out, static_cast<uint64_t>(number) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

uint64_t take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (!(byte & 0x80)) return value;
  }
  fail(Code::internal, "optimized_hlo", "must be a protobuf message, got a broken varint");
}

// The length-delimited field of that number at the front levels of a message; empty when absent.
std::string_view find_message(std::string_view in, uint64_t number) {
  while (!in.empty()) {
    const uint64_t tag = take_varint(in);
    const uint64_t type = tag & 7;
    if (type == 0) {
      take_varint(in);
      continue;
    }
    const uint64_t length = type == 2 ? take_varint(in) : type == 1 ? 8 : type == 5 ? 4 : in.size() + 1;
    if (length > in.size()) fail(Code::internal, "optimized_hlo", "must be a protobuf message, got a broken field");
    if (type == 2 && tag >> 3 == number) return in.substr(0, length);
    in.remove_prefix(length);
  }
  return {};
}

}  // namespace

std::string encode(const CompileOptions& options) {
  // ExecutableBuildOptionsProto: device_ordinal 1 (-1: any), num_replicas 4, num_partitions 5, use_spmd_partitioning 6.
  std::string build;
  put_field(build, 1, static_cast<uint64_t>(int64_t{-1}));
  put_field(build, 4, static_cast<uint64_t>(options.num_replicas));
  put_field(build, 5, static_cast<uint64_t>(options.num_partitions));
  if (options.num_partitions > 1) put_field(build, 6, 1);
  // CompileOptionsProto: executable_build_options 3, compile_portable_executable 4, env_option_overrides 7 (a map of
  // names to OptionOverrideProto, whose bool_field is 2).
  std::string out;
  put_bytes(out, 3, build);
  if (options.portable && options.num_replicas == 1 && options.num_partitions == 1) put_field(out, 4, 1);
  for (const auto& [name, value] : options.flags) {
    std::string flag, entry;
    put_field(flag, 2, value);
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, flag);
    put_bytes(out, 7, entry);
  }
  return out;
}

std::string Program::name() const {
  const auto name = PJRT(api_, PJRT_Executable_Name, {.executable = program_});
  return std::string(name.executable_name, name.executable_name_size);
}

size_t Program::num_outputs() const {
  return PJRT(api_, PJRT_Executable_NumOutputs, {.executable = program_}).num_outputs;
}

std::string Program::serialize() const {
  const auto args = PJRT(api_, PJRT_Executable_Serialize, {.executable = program_});
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

std::map<std::string, double> Program::cost_analysis() const {
  const auto cost = PJRT(api_, PJRT_Executable_GetCostAnalysis, {.executable = program_});
  std::map<std::string, double> out;
  for (size_t i = 0; i < cost.num_properties; ++i) {
    const PJRT_NamedValue& value = cost.properties[i];
    const std::string name(value.name, value.name_size);
    if (value.type == PJRT_NamedValue_kFloat) out[name] = static_cast<double>(value.float_value);
    if (value.type == PJRT_NamedValue_kInt64) out[name] = static_cast<double>(value.int64_value);
  }
  return out;
}

MemoryStats Program::memory_stats() const {
  const auto s = PJRT(api_, PJRT_Executable_GetCompiledMemoryStats, {.executable = program_});
  return {.code = s.generated_code_size_in_bytes,
          .arguments = s.argument_size_in_bytes,
          .outputs = s.output_size_in_bytes,
          .aliased = s.alias_size_in_bytes,
          .temporary = s.temp_size_in_bytes,
          .peak = s.peak_memory_in_bytes,
          .host_code = s.host_generated_code_size_in_bytes,
          .host_arguments = s.host_argument_size_in_bytes,
          .host_outputs = s.host_output_size_in_bytes,
          .host_aliased = s.host_alias_size_in_bytes,
          .host_temporary = s.host_temp_size_in_bytes};
}

std::string Program::optimized_hlo() const {
  // Two calls: the first sizes the caller's buffer, the second fills it.
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  PJRT(api_, PJRT_Executable_OptimizedProgram, {.executable = program_, .program = &program});
  std::string code(program.code_size, '\0');
  program.code = code.data();
  PJRT(api_, PJRT_Executable_OptimizedProgram, {.executable = program_, .program = &program});
  const std::string_view format(program.format, program.format_size);
  if (format == "hlo") return code;
  if (format == "hlo_with_config") return std::string(find_message(code, 1));  // HloModuleProtoWithConfig.hlo_module
  fail(Code::pjrt, str("PJRT_Executable_OptimizedProgram on ", api_.platform),
       str("must give hlo or hlo_with_config, got ", format));
}

}  // namespace torchport::pjrt
