// What a run compiles and launches, kept for tools that look at whole steps. Off unless begun, and then a pointer test.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torchport::exec {

class Program;

class Capture {
 public:
  using LineSource = std::function<std::string()>;  // the Python line that runs now, or ""
  struct Compiled {
    std::string name, text, line;
    std::vector<std::pair<int, int>> aliases;  // (argument, output that replaces it)
  };
  struct Launch {
    int program = -1;               // index among the compiled; -1: compiled before the capture began
    std::vector<uint64_t> in, out;  // buffers by serial number: arguments in order, outputs in order
    int64_t allocated = 0;          // bytes live on the device after the launch
  };

  static void begin(LineSource);
  static void end();  // forgets everything
  static Capture* current() { return current_.load(std::memory_order_acquire); }

  void compiled(const Program&, std::string text);
  void launched(const Program&, std::vector<uint64_t> in, std::vector<uint64_t> out, int64_t allocated);

  std::vector<Compiled> programs(size_t first) const;  // from that index on
  std::vector<Launch> take_launches();                 // since the last call

 private:
  static std::atomic<Capture*> current_;
  LineSource line_;
  mutable std::mutex mutex_;
  std::vector<Compiled> programs_;
  std::vector<Launch> launches_;
  std::unordered_map<const Program*, int> index_;
};

}  // namespace torchport::exec
