// Graph -> StableHLO text, with the plan of how a launch fills the program's arguments.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "hlo/builder.h"

namespace torchport::exec {

// All numbers of a launch travel as 32-bit words in one i32 operand: the number `runtime`, encoded as dtype, at `word`.
struct Slot {
  int runtime;
  Dtype dtype;
  int word;
};

struct Check {  // the program's last output is 0, or 1 + the position of the first check that failed
  Code code;
  std::string where, message;
};

struct Lowered {
  std::string text;
  std::vector<int> arguments;  // graph inputs that the program takes, in order; the numbers follow when words > 0
  std::vector<Slot> slots;
  int words = 0;
  int rng_word = -1;          // where seed and offset (four words) go; -1 = none
  int64_t rng_blocks = 0;     // Philox blocks that a launch uses
  std::vector<Type> results;  // new values; a result of dtype/dims of graph.results[i], Type{} for undefined ones
  std::vector<bool> defined;  // per result: false = no tensor
  std::vector<Dims> orders;   // per result, as in the graph: the buffer holds the transposed value
  std::vector<int> written;   // graph inputs that get a new value, after the results in the program's outputs
  std::vector<Type> written_types;
  std::vector<Check> checks;
  bool uses_precision = false;  // holds a matmul or convolution on floating point
};

struct Settings {  // what a lowering depends on besides the graph: part of the key
  Dtype default_dtype = Dtype::f32;
  std::string precision = "HIGHEST";
  bool f64 = true, s64_dot = true, donation = true;
};

// placement: of the graph's inputs and results; a written input stays where it lies.
using hlo::Placement;
Lowered lower(const graph::Graph&, const Settings&, const Placement& = {});

// Output types of one node alone, for shape inference while a graph is being built; none of an undefined output.
std::vector<std::optional<Type>> infer(const graph::Graph&, const graph::Node&, const Settings&);

}  // namespace torchport::exec
