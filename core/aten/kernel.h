// The boxed kernel: one class serves every overload of every OP block. It walks the arguments once to make the launch's
// key; a known key runs its program at once, a new one builds the graph, lowers and compiles it.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "aten/cell.h"
#include "exec/runtime.h"
#include "graph/graph.h"
#include "ops/op.h"

namespace torchport::aten {

enum class Role : uint8_t {
  functional,
  inplace,  // the results go into the arguments that the schema marks as written, in order
  out,      // the functional form runs, its results are stored in the out arguments
};

// How the walk treats one schema argument.
enum class ArgKind : uint8_t {
  tensor,
  tensor_list,
  optional_tensor_list,
  number,
  real,
  integer,
  boolean,
  text,
  integers,
  reals,
  booleans,
  numbers,
  dtype,
  device,
  generator,
  ignored
};
struct ArgSpec {
  std::string name;
  ArgKind kind;
  bool written = false;            // Tensor(a!)
  bool out = false;                // of an out= overload
  char mark = 0;                   // '!', '?', '~' as in ops::Traits
  std::optional<double> standard;  // a number equal to the schema's default is static
};

// The arguments of a schema as the walk reads them, without the marks of an op.
std::vector<ArgSpec> read_schema(const c10::FunctionSchema&);

struct Collector;

class Kernel final : public c10::OperatorKernel {
 public:
  // dtype_of_out: a factory whose out= form takes the dtype from out.
  Kernel(const ops::Op&, const c10::OperatorHandle&, Role, bool dtype_of_out = false);
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) { run(*stack); }
  // Takes the arguments off the stack and leaves the results.
  void run(torch::jit::Stack&);

 private:
  void walk(at::ArrayRef<c10::IValue> args, Collector&) const;
  exec::ProgramPtr compile(at::ArrayRef<c10::IValue> args, const Collector&) const;
  // Refuses to write an argument that overlaps itself or, partly, another argument.
  void check_targets(at::ArrayRef<c10::IValue> args, bool shared) const;
  void check_out(at::ArrayRef<c10::IValue> args, const at::Tensor& out, const at::Tensor& result) const;
  void prepare(torch::jit::Stack&) const;  // masks among indices become index tensors

  const ops::Op& op_;
  const Role role_;
  const bool dtype_of_out_;
  const uint64_t id_;
  const c10::OperatorHandle handle_;
  const bool random_;
  std::optional<c10::OperatorHandle> functional_;  // the overload whose results become new tensors
  std::string name_;
  std::vector<ArgSpec> specs_;
  std::shared_ptr<graph::Schema> schema_;
  std::vector<int> targets_;  // written (inplace) or out arguments
  int num_returns_ = 0;
  uint64_t integer_returns_ = 0;  // a bit a return
  bool returns_list_ = false;
  bool assigns_ = false;  // writes whole lists of arguments by itself
  bool has_indices_ = false;
  mutable std::atomic<bool> uses_precision_{false};  // a program of this op holds a matmul
};

// Registers every OP block's overloads for the device.
void register_kernels();
const std::map<std::string, std::vector<std::string>>& registered_overloads();  // op -> overloads it serves
// Copies src into dst (both of this device, one device index): casts, broadcasts, writes through dst's view.
void copy_on_device(const at::Tensor& dst, const at::Tensor& src);
// result into an out= tensor: resize, cast check, then the buffer itself where out is a whole storage.
void store_out(const at::Tensor& out, const at::Tensor& result, const std::string& where);
// torch's rule for writing a result of one dtype into another; RuntimeError when it may not.
void check_cast(c10::ScalarType from, c10::ScalarType to);

// Runs a graph without nodes or numbers (reads, retypes), cached by its content.
std::vector<pjrt::BufferPtr> run_graph(const std::string& name, const graph::Graph&,
                                       const std::vector<pjrt::BufferPtr>& inputs, int device);
exec::Settings current_settings();               // of the open platform
exec::Settings settings_for(const pjrt::Caps&);  // of any
void check_no_overlap(const at::Tensor& written);

}  // namespace torchport::aten
