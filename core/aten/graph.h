// Many nodes as one program: what torch.compile builds through the bindings, with the same op table as eager.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/kernel.h"

namespace torchport::aten {

// A compiled graph, called with one tensor an input.
class Compiled {
 public:
  Compiled(std::shared_ptr<const exec::Program> p, std::vector<Type> inputs, int device)
      : program_(std::move(p)), inputs_(std::move(inputs)), device_(device) {}
  std::vector<at::Tensor> call(const std::vector<at::Tensor>&) const;
  const exec::Program& program() const { return *program_; }

 private:
  std::shared_ptr<const exec::Program> program_;
  std::vector<Type> inputs_;
  int device_;
};

class GraphBuilder {
 public:
  GraphBuilder();                                      // for the open platform
  explicit GraphBuilder(const std::string& platform);  // for a registered one, which is not opened
  int input(const Type&);
  // overload: "aten::add.Tensor"; one attribute a schema argument. Returns the outputs' values, -1 for an undefined
  // one.
  std::vector<int> node(const std::string& overload, std::vector<graph::Attr>);
  // The value through a strided view of its dense, contiguous form.
  int view(int value, Dtype, const Dims& sizes, const Dims& strides, int64_t offset);
  const Type& type(int value) const { return types_.at(value); }
  // The same values behind a barrier; the same value placed on the devices of a partitioned program.
  std::vector<int> barrier(const std::vector<int>& values);
  int sharding(int value, const std::string& placement);
  void outputs(const std::vector<int>& ids) { graph_.results = ids; }
  void write(int input, int value);  // the input's storage receives the value: its buffer may be reused
  exec::Lowered lower(const exec::Placement& p) const { return exec::lower(graph_, settings_, p); }
  std::unique_ptr<Compiled> compile(int device, const std::string& name);

  // How the arguments of an overload are read: for the bindings.
  static const std::vector<ArgSpec>& specs(const std::string& overload);

 private:
  std::vector<int> append(graph::Node, const std::vector<std::optional<Type>>&);
  int add(graph::Value, Type);
  graph::Graph graph_;
  std::vector<Type> types_;
  exec::Settings settings_;
};

// Compiles a partitioned program for the open platform and runs it once: a list of dense tensors for each of its
// devices.
std::vector<std::vector<at::Tensor>> run_partitioned(const std::string& text,
                                                     const std::vector<std::vector<at::Tensor>>&,
                                                     const std::vector<Type>& results);

}  // namespace torchport::aten
