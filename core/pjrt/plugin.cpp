#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "base/env.h"

namespace torchport::pjrt {

static const PJRT_Api* open_library(const Platform& platform) {
  const std::string where = "platform " + platform.name;
  const std::string hint = "the path of a shared library that exports GetPjrtApi";
  void* library = dlopen(platform.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* words = dlerror();
    fail(Code::plugin_bad, where,
         str("must be a PJRT plugin, got a file that does not load: ", words ? words : platform.path.c_str()), hint);
  }
  const auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  const PJRT_Api* api = get ? get() : nullptr;
  if (!api)
    fail(Code::plugin_bad, where,
         str("must be a PJRT plugin, got ", platform.path,
             get ? " whose GetPjrtApi gives nothing" : " without GetPjrtApi"),
         hint);
  if (api->pjrt_api_version.major_version != PJRT_API_MAJOR)
    fail(Code::plugin_bad, where,
         str("must speak C API ", PJRT_API_MAJOR, ".x, got ", api->pjrt_api_version.major_version, ".",
             api->pjrt_api_version.minor_version));
  return api;
}

const Api& load_plugin(const Platform& platform) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const Api>>& loaded =
      *new std::map<std::string, std::unique_ptr<const Api>>;  // outlives static destructors, as the plugins do
  if (platform.path.empty() || !std::filesystem::exists(platform.path))
    fail(Code::plugin_missing, "platform " + platform.name, str("no such file: '", platform.path, "'"));
  const std::string path = std::filesystem::canonical(platform.path);
  const std::lock_guard lock(mutex);
  if (const auto found = loaded.find(path); found != loaded.end()) return *found->second;
  // XLA writes its log to stderr by itself; below our "info" level only its errors are wanted there.
  const std::string level = env("TORCHPORT_LOG");
  setenv("TF_CPP_MIN_LOG_LEVEL", level == "info" || level == "debug" ? "0" : "2", /*overwrite=*/0);
  if (platform.prepare) platform.prepare();
  auto api = std::make_unique<Api>(Api{open_library(platform), platform.name});
  PJRT(*api, PJRT_Plugin_Initialize, {});
  return *(loaded[path] = std::move(api));
}

std::string api_version(const Api& api) {
  return str(api.c->pjrt_api_version.major_version, ".", api.c->pjrt_api_version.minor_version);
}

PJRT_Program mlir_program(std::string_view text) {
  static constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = const_cast<char*>(text.data());  // the C struct serves for output too
  program.code_size = text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

std::vector<PJRT_NamedValue> named_values(const Options& options) {
  std::vector<PJRT_NamedValue> out;
  for (const auto& [name, value] : options.values()) {
    PJRT_NamedValue named{};
    named.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    named.name = name.data();
    named.name_size = name.size();
    named.value_size = 1;
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      named.type = PJRT_NamedValue_kInt64;
      named.int64_value = *integer;
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      named.type = PJRT_NamedValue_kBool;
      named.bool_value = *flag;
    } else {
      const auto& text = std::get<std::string>(value);
      named.type = PJRT_NamedValue_kString;
      named.string_value = text.data();
      named.value_size = text.size();
    }
    out.push_back(named);
  }
  return out;
}

}  // namespace torchport::pjrt
