// What one walk over a call's arguments gathers: the key's words, the distinct storages, the runtime numbers. When
// `graph` is set the same walk also records the graph, so the key and the program cannot disagree.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "aten/kernel.h"
#include "graph/view.h"

namespace torchport::aten {

struct Collector {
  c10::SmallVector<uint64_t, 64> words;
  c10::SmallVector<Cell*, 8> cells;           // per graph input
  c10::SmallVector<pjrt::BufferPtr, 8> held;  // their buffers: alive until the launch is done
  c10::SmallVector<exec::RuntimeNumber, 16> numbers;
  int device = -1;
  int tensors = 0;  // device tensors walked; more than cells when some share a storage
  std::optional<at::Generator> generator;
  graph::Graph* graph = nullptr;
  graph::Node* node = nullptr;

  uint64_t hash = 0;
  void word(uint64_t w) { words.push_back(w); }
  void finish() { hash = exec::hash_words({words.data(), words.size()}); }

  graph::Ref tensor(const at::Tensor&);           // reads it through its view
  int input(Cell&);                               // position of a storage among the inputs
  void write(const at::Tensor& dst, graph::Ref);  // graph only: dst was walked before, as this value
  void number(const ArgSpec&, const c10::IValue&, graph::Attr* out);
  void scalar(const ArgSpec&, const at::Scalar&, graph::Attr* out);

 private:
  graph::Ref host_number(const at::Tensor&);
  c10::SmallVector<bool, 8> had_buffer_;
};

}  // namespace torchport::aten
