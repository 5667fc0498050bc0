// The one error type of the core. aten/ and bind/ translate it once into the Python type that CPU PyTorch raises.
#pragma once
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace torchport {

// Stable: a code, once released, keeps its number and meaning. The table in error.cpp is what docs/errors.md and
// `torchport explain` print.
enum class Code : int {
  internal = 1,
  shape_mismatch = 101,
  dim_out_of_range = 102,
  index_out_of_range = 103,
  bad_value = 104,
  dtype_unsupported = 110,
  dtype_mismatch = 111,
  dtype_cast = 112,
  device_mismatch = 120,
  bad_device_index = 121,
  op_unsupported = 130,
  fallback_refused = 131,
  layout_unsupported = 132,
  overlap = 140,
  zero_division = 150,
  nan_found = 151,
  out_of_memory = 200,
  plugin_missing = 300,
  plugin_bad = 301,
  plugin_too_old = 302,
  pjrt = 310,
  compile_failed = 320,
  forked = 330,
  bad_setting = 340,
};

// The Python exception a code turns into.
enum class Raise { runtime_error, value_error, index_error, type_error, not_implemented_error, out_of_memory_error };

struct CodeInfo {
  Code code;
  std::string_view name;
  Raise raise;
  std::string_view cause, cure;
};
const CodeInfo& info(Code);
const std::vector<CodeInfo>& all_codes();
std::string tag(Code);  // "TP0103"

class Error : public std::exception {
 public:
  Error(Code code, std::string where, std::string what, std::string hint = {});
  const char* what() const noexcept override { return message_.c_str(); }  // "[where] what (TP0103). Try: hint"
  const Code code;
  const std::string where, text, hint;

 private:
  std::string message_;
};

template <class... Ts>
std::string str(const Ts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void fail(Code, std::string where, std::string what, std::string hint = {});

// The message is built by the caller, so use it where building is cheap or the path is cold.
inline void check(bool ok, Code code, const std::string& where, const std::string& what, const std::string& hint = {}) {
  if (!ok) [[unlikely]]
    fail(code, where, what, hint);
}

}  // namespace torchport
