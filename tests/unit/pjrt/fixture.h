// Shared by the PJRT tests: one CPU client for the process, and small programs as text.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pjrt/client.h"

namespace torchport::pjrt {

// TORCHPORT_TEST_SEARCH_PATH (entries of sys.path, joined by colons), else where the build found the CPU plugin.
inline std::vector<std::string> test_search_path() {
  std::string joined;
#ifdef TEST_CPU_PLUGIN  // .../site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so
  joined = std::filesystem::path(TEST_CPU_PLUGIN).parent_path().parent_path().parent_path();
#endif
  if (const char* set = std::getenv("TORCHPORT_TEST_SEARCH_PATH")) joined = set;
  std::stringstream in(joined);
  std::vector<std::string> out;
  for (std::string entry; std::getline(in, entry, ':');) out.push_back(entry);
  return out;
}

inline Client& cpu() {
  static Client* client = [] {
    set_search_path(test_search_path());
    return Client::open(choose("cpu")).release();
  }();
  return *client;
}

inline constexpr const char* kAdd = R"(module @add {
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// The same, with the output in the memory of the first argument.
inline constexpr const char* kAddInto = R"(module @add_into {
  func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

inline BufferPtr floats(const std::vector<float>& values, Device& device) {
  const int64_t dims[] = {static_cast<int64_t>(values.size())};
  return cpu().to_device(values.data(), Dtype::f32, dims, 1, device);
}

inline std::vector<float> read(const BufferPtr& buffer) {
  std::vector<float> out(static_cast<size_t>(buffer->bytes()) / sizeof(float));
  buffer->to_host(out.data(), out.size() * sizeof(float));
  return out;
}

// The Error that fn throws; the test fails when it throws none.
template <class Fn>
Error error_of(Fn fn) {
  try {
    fn();
  } catch (const Error& error) { return error; }
  ADD_FAILURE() << "threw no Error";
  return Error(Code::internal, "", "");
}

}  // namespace torchport::pjrt
