// Every OP block, with the in-place and out= overloads that PyTorch's schemas derive from it, goes to the dispatcher
// here.
#include <torch/library.h>

#include <set>
#include <unordered_map>

#include "aten/kernel.h"

namespace torchport::aten {

namespace {

using c10::FunctionSchema;

// Decomposes by itself, and has no derivative of its own that a kernel could stand under.
bool is_composite(const c10::OperatorHandle& h) {
  return h.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !h.hasKernelForDispatchKey(c10::DispatchKey::Autograd);
}

// The same arguments by name and type, leaving out those that the overload only writes (out=).
bool same_arguments(const FunctionSchema& functional, const FunctionSchema& other, bool out) {
  std::vector<const c10::Argument*> rest;
  for (const auto& a : other.arguments()) {
    const bool target = a.alias_info() && a.alias_info()->isWrite();
    if (!(out && target)) rest.push_back(&a);
  }
  // factories: the out= form takes its dtype, layout and device from out
  std::vector<const c10::Argument*> mine;
  for (const auto& a : functional.arguments()) {
    const std::string& n = a.name();
    const bool option = n == "dtype" || n == "layout" || n == "device" || n == "pin_memory";
    bool there = false;
    for (const auto* r : rest) there |= r->name() == n;
    if (out && option && !there) continue;
    mine.push_back(&a);
  }
  if (mine.size() != rest.size()) return false;
  for (size_t i = 0; i < mine.size(); ++i)
    if (mine[i]->name() != rest[i]->name() || *mine[i]->type() != *rest[i]->type()) return false;
  return true;
}

bool has_argument(const FunctionSchema& s, const std::string& name) {
  return s.argumentIndexWithName(name).has_value();
}

size_t written(const FunctionSchema& s) {
  size_t count = 0;
  for (const auto& a : s.arguments()) count += a.alias_info() && a.alias_info()->isWrite();
  return count;
}
bool writes(const FunctionSchema& s) { return written(s) > 0; }

class Registrar {
 public:
  Registrar() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__) {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& n : dispatcher.getAllOpNames())
      if (n.name.rfind("aten::", 0) == 0)
        overloads_[n.name.substr(6)].push_back(dispatcher.findSchemaOrThrow(n.name.c_str(), n.overload_name.c_str()));
  }

  void add(const ops::Op& op) {
    const size_t dot = op.name.find('.');
    const std::string base = op.name.substr(0, dot), overload = dot == std::string::npos ? "" : op.name.substr(dot + 1);
    const auto found = c10::Dispatcher::singleton().findSchema({"aten::" + base, overload});
    check(found.has_value(), Code::internal, "registry",
          str(op.file, ":", op.line, " names aten::", op.name, ", which this PyTorch does not have"));
    const FunctionSchema& schema = found->schema();
    if (writes(schema)) {
      // results that alias no argument are new tensors, and the block assigns to the written ones (running statistics)
      const bool fresh = !schema.returns().empty() && !schema.returns()[0].alias_info();
      put(op, *found, fresh ? Role::functional : Role::inplace);
      return;
    }
    put(op, *found, Role::functional);
    if (const auto it = overloads_.find(base + "_"); it != overloads_.end())
      for (const auto& h : it->second)
        if (writes(h.schema()) && same_arguments(schema, h.schema(), false)) put(op, h, Role::inplace);
    for (const auto& h : overloads_[base])
      if (written(h.schema()) == schema.returns().size() && same_arguments(schema, h.schema(), true))
        put(op, h, Role::out, has_argument(schema, "dtype") && !has_argument(h.schema(), "dtype"));
  }

  std::map<std::string, std::vector<std::string>> registered;  // op -> overloads

 private:
  void put(const ops::Op& op, const c10::OperatorHandle& handle, Role role, bool dtype_of_out = false) {
    if (is_composite(handle)) return;  // decomposes by itself; a kernel would cut it off from autograd
    if (handle.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return;  // aten/ has its own (copy_, set_, ...)
    const auto& n = handle.operator_name();
    const std::string name = n.name + (n.overload_name.empty() ? "" : "." + n.overload_name);
    if (!seen_.insert(name).second) return;
    library_.impl(name.c_str(),
                  torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(op, handle, role, dtype_of_out)));
    registered[op.name].push_back(name.substr(6));
  }

  torch::Library library_;
  std::set<std::string> seen_;
  std::unordered_map<std::string, std::vector<c10::OperatorHandle>> overloads_;
};

Registrar* registrar = nullptr;

}  // namespace

void register_kernels() {
  guarded([] {
    if (registrar) return;
    registrar = new Registrar;
    for (const auto& [name, op] : ops::all())
      if (!op.traits.graph_only) registrar->add(op);
  });
}

const std::map<std::string, std::vector<std::string>>& registered_overloads() { return registrar->registered; }

}  // namespace torchport::aten
