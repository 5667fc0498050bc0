// When to run. strict: at once, on the caller's thread, without waiting. debug: waits for each program, looks for NaN,
// infinity and failed checks, and names the Python line.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/runtime.h"

namespace torchport::trace {

enum class Mode : uint8_t { strict, debug };
Mode mode();
void set_mode(Mode);
Mode parse_mode(const std::string&);  // bad_setting when unknown
std::string name(Mode);

// Where a Python line comes from: bind/ sets it. Returns "file.py:41" or "".
using LineSource = std::string (*)();
void set_line_source(LineSource);
std::string python_line();

struct Request {
  const exec::Program& program;
  std::span<pjrt::Buffer* const> inputs;
  bool* donatable;
  std::span<const exec::RuntimeNumber> numbers;
  uint64_t seed = 0, offset = 0;
  pjrt::Device& device;
};
// Runs it; outputs receives program.num_outputs() buffers.
void launch(const Request&, pjrt::BufferPtr* outputs);

// Waits for all work launched on the device; throws what failed in it.
void synchronize(int device);
bool is_idle(int device);
// Failed checks of launches that did not wait; throws the first. Called where the host waits anyway.
void poll(int device);

// A point in a device's work: ready when everything launched before it is.
class Mark {
 public:
  explicit Mark(int device);
  bool is_ready() const;
  void wait() const;
  int64_t time_ns() const;  // when it became ready; waits

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace torchport::trace
