// What to run: nodes over values, free of torch. Eager builds a graph of one node with its view reads and writes;
// torch.compile builds one of many nodes.
#pragma once
#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/view.h"

namespace torchport::graph {

struct Ref {  // a value of the graph; -1 = no tensor
  int id = -1;
};

// A Python number. Static numbers are part of the key and become constants; the others arrive with each launch.
struct Number {
  enum class Kind : uint8_t { boolean, integer, real, complex };
  Kind kind = Kind::integer;
  int64_t i = 0;               // boolean, integer
  std::complex<double> c = 0;  // real, complex
  int runtime = -1;            // index among the launch's numbers, -1 when static
  double real() const { return kind <= Kind::integer ? static_cast<double>(i) : c.real(); }
};

// One argument of a node. The name stands in the node's schema. A Scalar[] is a list of wrapped host numbers, a float[]
// one of doubles.
using Attr = std::variant<std::monostate, Ref, std::vector<Ref>, Number, bool, int64_t, double, std::string, Dims,
                          std::vector<double>, std::vector<bool>, Dtype>;

struct Schema {
  std::string name;  // "add.Tensor"
  std::vector<std::string> args;
};

// Two nodes that compute nothing and stand beside the op table: {values} that nothing is moved or merged across, and
// {value, text} that lies on the devices of a partitioned program as the text says.
constexpr std::string_view kBarrier = "graph.barrier", kSharding = "graph.sharding";

struct Node {
  std::shared_ptr<const Schema> schema;
  std::vector<Attr> args;  // one a schema argument
};

// Geometry of a read or a write through a view. `numbers` is the index of its first start among the launch's numbers.
struct View {
  Dtype dtype = Dtype::f32;
  Dims sizes, strides;
  int64_t offset = 0;  // only for static views (runtime < 0)
  int runtime = -1;
};

struct Value {
  enum class Kind : uint8_t { input, view_of_value, host_number, result };
  Kind kind = Kind::input;
  int index = -1;  // input: which buffer; view_of_value: which value; host_number: which number; result: which node
  int output = 0;  // result: which of the node's outputs
  bool wrapped = false;     // a Python number in tensor's clothing: takes part in promotion last
  bool conjugated = false;  // an input that is read as the conjugate of what its storage holds
  View view;                // input, view_of_value; host_number: dtype only
};

struct Write {  // value `value` (or the node's assignment) goes through `view` into input `input`
  int value = -1;
  int input = -1;
  View view;
};

struct Graph {
  std::vector<Type> inputs;  // dense values of the buffers
  std::vector<bool>
      read;  // per input: false = nothing was ever stored there: no argument, reads as zeros; empty list = all true
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> results;   // values that become new tensors
  std::vector<Dims> orders;   // per result: its dimensions from outermost to innermost in memory; empty = as numbered
  std::vector<Write> writes;  // values that go into existing storages
};

}  // namespace torchport::graph
