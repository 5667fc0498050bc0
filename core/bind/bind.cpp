// The Python bindings: one file, because torch's Python headers are the slowest to compile.
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <frameobject.h>

#include "aten/cell.h"
#include "aten/fallback.h"
#include "aten/generator.h"
#include "aten/graph.h"
#include "aten/kernel.h"
#include "base/env.h"
#include "exec/capture.h"
#include "exec/runtime.h"
#include "pjrt/platform.h"
#include "pjrt/plugin.h"
#include "pjrt/topology.h"
#include "trace/launch.h"

namespace py = pybind11;

namespace torchport::bind {

namespace {

using exec::Runtime;

// The innermost Python line outside torch and torchport: what a user recognises.
std::string python_line() {
  if (!Py_IsInitialized()) return "";
  py::gil_scoped_acquire gil;
  PyFrameObject* frame = PyEval_GetFrame();
  std::string fallback;
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* utf8 = PyUnicode_AsUTF8(code->co_filename);
    const std::string file = utf8 ? utf8 : "?";
    Py_DECREF(code);
    const std::string here = file + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    if (fallback.empty()) fallback = here;
    const bool internal = file.find("/torch/") != std::string::npos || file.find("/torchport/") != std::string::npos ||
                          file.rfind("<frozen", 0) == 0;
    if (!internal) {
      Py_DECREF(frame);
      return here;
    }
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return fallback;
}

py::dict report() {
  py::dict r;
  r["device"] = aten::device_name();
  r["mode"] = trace::name(trace::mode());
  r["open"] = Runtime::is_open();
  py::list fallbacks;
  for (const auto& [name, c] : aten::fallbacks()) {
    py::dict f;
    f["op"] = name, f["count"] = c.count, f["bytes"] = c.bytes, f["ms"] = static_cast<double>(c.us) / 1e3;
    f["lines"] = std::vector<std::string>(c.lines.begin(), c.lines.end());
    fallbacks.append(f);
  }
  r["fallbacks"] = fallbacks;
  py::list programs;
  int64_t compiled = 0, launches = 0, compile_us = 0, syncs = 0;
  if (Runtime::is_open() && !Runtime::in_bad_fork()) {
    auto& rt = Runtime::get();
    r["platform"] = rt.client().platform_name();
    r["plugin"] = rt.client().platform().path;
    compiled = rt.counters.compiled, launches = rt.counters.launches, compile_us = rt.counters.compile_us,
    syncs = rt.counters.host_syncs;
    for (const auto& p : rt.programs()) {
      py::dict d;
      d["name"] = p.name, d["compile_ms"] = static_cast<double>(p.us) / 1e3, d["launches"] = p.launches->load();
      programs.append(d);
    }
    py::list memory;
    for (int i = 0; i < rt.device_count(); ++i) {
      const auto& d = rt.device(i);
      py::dict m;
      m["device"] = i, m["allocated_bytes"] = d.allocated.load(),
      m["peak_bytes"] = std::max(d.peak.load(), d.allocated.load()), m["limit_bytes"] = d.memory_limit();
      memory.append(m);
    }
    r["memory"] = memory;
  }
  r["programs_compiled"] = compiled;
  r["compile_ms"] = static_cast<double>(compile_us) / 1e3;
  r["launches"] = launches;
  r["cache_hits"] = std::max<int64_t>(launches - compiled, 0);
  r["random"] = aten::name(aten::draws());
  r["host_syncs"] = syncs;
  r["programs"] = programs;
  return r;
}

// Our Error as the Python exception of its code.
void translate(std::exception_ptr p) {
  try {
    if (p) std::rethrow_exception(p);
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (info(e.code).raise) {
      case Raise::value_error: type = PyExc_ValueError; break;
      case Raise::index_error: type = PyExc_IndexError; break;
      case Raise::type_error: type = PyExc_TypeError; break;
      case Raise::not_implemented_error: type = PyExc_NotImplementedError; break;
      case Raise::out_of_memory_error:
        PyErr_SetString(py::module_::import("torch").attr("OutOfMemoryError").ptr(), e.what());
        return;
      default: break;
    }
    PyErr_SetString(type, e.what());
  }
}

py::dict memory_stats(int i) {
  const auto& d = Runtime::get().device(i);
  py::dict s;
  const int64_t now = d.allocated.load(), peak = std::max(now, d.peak.load()), total = d.total.load();
  for (const char* what : {"allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes"}) {
    const std::string key = std::string(what) + ".all.";
    s[py::str(key + "current")] = now, s[py::str(key + "peak")] = peak, s[py::str(key + "allocated")] = total,
                    s[py::str(key + "freed")] = total - now;
  }
  const int64_t made = d.allocations.load(), freed = d.frees.load();
  s["allocation.all.current"] = made - freed, s["allocation.all.allocated"] = made, s["allocation.all.freed"] = freed;
  return s;
}

// ---- graphs of torch.compile

graph::Number number(py::handle v) {
  graph::Number n;
  if (PyBool_Check(v.ptr()))
    n.kind = graph::Number::Kind::boolean, n.i = v.cast<bool>();
  else if (PyLong_Check(v.ptr()))
    n.i = v.cast<int64_t>();
  else if (PyComplex_Check(v.ptr()))
    n.kind = graph::Number::Kind::complex, n.c = v.cast<std::complex<double>>();
  else
    n.kind = graph::Number::Kind::real, n.c = v.cast<double>();
  return n;
}

struct Ref {  // a value of a graph, as Python holds it
  int id;
};

graph::Attr attribute(const aten::ArgSpec& spec, py::handle v) {
  using K = aten::ArgKind;
  if (v.is_none()) return std::monostate{};
  auto ref = [](py::handle h) { return h.is_none() ? graph::Ref{} : graph::Ref{h.cast<Ref>().id}; };
  switch (spec.kind) {
    case K::tensor:
      if (py::isinstance<Ref>(v)) return ref(v);
      return number(v);  // a Python number where the schema says Tensor
    case K::tensor_list:
    case K::optional_tensor_list: {
      std::vector<graph::Ref> refs;
      for (py::handle h : v) refs.push_back(ref(h));
      return refs;
    }
    case K::number: return number(v);
    case K::real:
      if (spec.mark == '?') return number(v);
      return v.cast<double>();
    case K::integer: return v.cast<int64_t>();
    case K::boolean: return v.cast<bool>();
    case K::text: return v.cast<std::string>();
    case K::integers: return py::isinstance<py::int_>(v) ? Dims{v.cast<int64_t>()} : v.cast<Dims>();
    case K::reals: return v.cast<std::vector<double>>();
    case K::booleans: return v.cast<std::vector<bool>>();
    case K::dtype: return aten::from_torch(v.cast<at::ScalarType>());
    case K::numbers: fail(Code::op_unsupported, spec.name, "must not be a list of numbers in a compiled graph");
    default: return std::monostate{};
  }
}

Dtype dtype_of(py::handle h) { return aten::from_torch(h.cast<at::ScalarType>()); }

// The program's text, and what it takes and gives besides the graph's own inputs and results.
py::dict lower(const aten::GraphBuilder& g, int partitions, const std::vector<std::string>& arguments,
               const std::vector<std::string>& results) {
  const exec::Lowered lowered = g.lower({partitions, arguments, results});
  py::dict d;
  d["text"] = lowered.text, d["arguments"] = lowered.arguments, d["words"] = lowered.words;
  d["written"] = lowered.written, d["checks"] = lowered.checks.size();
  return d;
}

void define_graphs(py::module_& m) {
  m.def("run_partitioned", [](const std::string& text, const std::vector<std::vector<at::Tensor>>& inputs,
                              const std::vector<std::pair<at::ScalarType, Dims>>& results) {
    std::vector<Type> types;
    for (const auto& [dtype, dims] : results) types.push_back({aten::from_torch(dtype), dims});
    py::gil_scoped_release release;
    return aten::run_partitioned(text, inputs, types);
  });
  py::class_<Ref>(m, "Ref").def(py::init<int>()).def_readonly("id", &Ref::id);
  py::class_<aten::Compiled>(m, "Compiled")
      .def("__call__",
           [](const aten::Compiled& c, const std::vector<at::Tensor>& tensors) {
             py::gil_scoped_release release;
             return c.call(tensors);
           })
      .def_property_readonly("launches", [](const aten::Compiled& c) { return c.program().launches->load(); });
  py::class_<aten::GraphBuilder>(m, "Graph")
      .def(py::init<>())
      .def(py::init<const std::string&>(), py::arg("platform"))
      .def("input", [](aten::GraphBuilder& g, at::ScalarType dtype,
                       const Dims& sizes) { return g.input({aten::from_torch(dtype), sizes}); })
      .def("node",
           [](aten::GraphBuilder& g, const std::string& overload, py::list args) {
             const auto& specs = aten::GraphBuilder::specs(overload);
             check(specs.size() == args.size(), Code::bad_value, overload,
                   str("must get ", specs.size(), " arguments, got ", args.size()));
             std::vector<graph::Attr> attrs;
             for (size_t k = 0; k < specs.size(); ++k) attrs.push_back(attribute(specs[k], args[k]));
             return g.node(overload, std::move(attrs));
           })
      .def(
          "view",
          [](aten::GraphBuilder& g, int id, const Dims& sizes, const Dims& strides, int64_t offset, py::object dtype) {
            return g.view(id, dtype.is_none() ? g.type(id).dtype : dtype_of(dtype), sizes, strides, offset);
          },
          py::arg("id"), py::arg("sizes"), py::arg("strides"), py::arg("offset"), py::arg("dtype") = py::none())
      .def("result_type", [](const aten::GraphBuilder& g,
                             int id) { return std::pair(aten::to_torch(g.type(id).dtype), g.type(id).dims); })
      .def("outputs", &aten::GraphBuilder::outputs)
      .def("barrier", &aten::GraphBuilder::barrier)
      .def("sharding", &aten::GraphBuilder::sharding, py::arg("id"), py::arg("placement"))
      .def("write", &aten::GraphBuilder::write, py::arg("input"), py::arg("id"))
      .def("lower", &lower, py::arg("partitions") = 1, py::arg("arguments") = std::vector<std::string>(),
           py::arg("results") = std::vector<std::string>())
      .def(
          "compile",
          [](aten::GraphBuilder& g, int device, const std::string& name) {
            py::gil_scoped_release release;
            return g.compile(device, name);
          },
          py::arg("device_index"), py::arg("name") = "graph");
}

// ---- what `torchport check` needs: compiling for a machine that is not here, and the programs of a run

void define_check(py::module_& m) {
  py::class_<pjrt::Topology>(m, "Topology")
      .def(py::init([](const std::string& platform, const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& options) {
             pjrt::Options create;
             for (const auto& [key, value] : options) create.set(key, value);
             return pjrt::Topology::create(pjrt::find(platform), name, create);
           }),
           py::arg("platform"), py::arg("name"), py::arg("options"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("num_devices", &pjrt::Topology::num_devices)
      .def_property_readonly("kind", &pjrt::Topology::kind)
      .def_property_readonly("plugin", [](const pjrt::Topology& t) { return t.platform().path; })
      .def(
          "compile",
          [](const pjrt::Topology& t, const std::string& text, int partitions) {
            return t.compile(text, {.num_partitions = partitions});
          },
          py::arg("text"), py::arg("num_partitions") = 1, py::call_guard<py::gil_scoped_release>());
  py::class_<pjrt::Program>(m, "TargetProgram")
      .def("cost", &pjrt::Program::cost_analysis)
      .def("memory",
           [](const pjrt::Program& p) {
             const pjrt::MemoryStats s = p.memory_stats();
             py::dict d;
             d["arguments"] = s.arguments, d["outputs"] = s.outputs, d["aliased"] = s.aliased,
             d["temporaries"] = s.temporary, d["code"] = s.code, d["peak"] = s.peak;
             return d;
           })
      .def("optimized_hlo", [](const pjrt::Program& p) { return py::bytes(p.optimized_hlo()); })
      .def("serialize", [](const pjrt::Program& p) { return py::bytes(p.serialize()); });

  m.def("capture_begin", [] { exec::Capture::begin(&python_line); });
  m.def("capture_end", [] { exec::Capture::end(); });
  m.def(
      "capture_programs",
      [](size_t first) {
        py::list rows;
        const exec::Capture* capture = exec::Capture::current();
        if (!capture) return rows;
        for (const auto& p : capture->programs(first)) {
          py::dict d;
          d["name"] = p.name, d["text"] = p.text, d["line"] = p.line, d["aliases"] = p.aliases;
          rows.append(d);
        }
        return rows;
      },
      py::arg("first") = 0);
  m.def("capture_launches", [] {  // since the last call: (program, inputs, outputs, bytes allocated)
    py::list rows;
    exec::Capture* capture = exec::Capture::current();
    if (!capture) return rows;
    for (const auto& l : capture->take_launches()) rows.append(py::make_tuple(l.program, l.in, l.out, l.allocated));
    return rows;
  });
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "TorchPort's core";
  trace::set_line_source(&python_line);
  py::register_local_exception_translator(&translate);

  m.def("configure", [](const std::string& name, std::vector<std::string> path,
                        const std::vector<std::pair<std::string, std::string>>& plugins) {
    for (const EnvVar& v : all_env())
      if (!v.allowed.empty()) env(v.name);  // a misspelt setting is an error at once, not where it would first matter
    c10::register_privateuse1_backend(name);
    pjrt::set_search_path(std::move(path));
    for (const auto& [n, p] : plugins) pjrt::add_plugin(n, p);
    aten::register_kernels();
  });
  m.def("device_count", [] { return Runtime::get().device_count(); });
  m.def("is_available", [] { return Runtime::is_available(); });
  m.def("is_open", [] { return Runtime::is_open(); });
  m.def("open_note", [] { return Runtime::get().note(); });
  m.def("current_device", [] { return aten::current_device(); });
  m.def("set_device", [](int i) { aten::set_current_device(i); });
  m.def("exchange_device", [](int i) { return aten::exchange_current_device(i); });
  m.def("maybe_exchange_device",
        [](int i) { return i < 0 ? aten::current_device() : aten::exchange_current_device(i); });
  m.def("synchronize", [](int i) {
    py::gil_scoped_release release;
    trace::synchronize(i < 0 ? aten::current_device() : i);
  });
  m.def("device_properties", [](int i) {
    const auto& d = Runtime::get().device(i);
    auto& client = Runtime::get().client();
    py::dict p;
    p["name"] = d.kind(), p["kind"] = d.kind(), p["platform"] = client.platform_name(),
    p["version"] = client.platform_version();
    p["plugin"] = client.platform().path, p["total_memory"] = d.memory_limit(), p["index"] = i,
    p["api_version"] = pjrt::api_version(client.api());
    p["host_memory"] = client.caps().host_memory;
    return p;
  });
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak", [](int i) { Runtime::get().device(i).reset_peak(); });
  m.def("reset_accumulated", [](int i) {
    static_cast<c10::DeviceAllocator*>(aten::allocator())->resetAccumulatedStats(static_cast<c10::DeviceIndex>(i));
  });
  m.def("empty_cache", [] {});  // nothing is cached: a dead buffer goes back to the plugin at once
  m.def("default_generator",
        [](int i) { return py::reinterpret_steal<py::object>(THPGenerator_Wrap(aten::default_generator(i))); });
  m.def("manual_seed_all", [](py::int_ seed) { aten::manual_seed_all(PyLong_AsUnsignedLongLongMask(seed.ptr())); });
  m.def("random_mode", [] { return aten::name(aten::draws()); });
  m.def("set_random_mode", [](const std::string& s) { aten::set_draws(aten::parse_draws(s)); });
  m.def("eager_mode", [] { return trace::name(trace::mode()); });
  m.def("set_eager_mode", [](const std::string& s) { trace::set_mode(trace::parse_mode(s)); });
  m.def("report", &report);
  m.def("reset_report", [] {
    aten::reset_fallbacks();
    if (Runtime::is_open() && !Runtime::in_bad_fork()) Runtime::get().reset_counters();
  });
  m.def("after_fork", [] { Runtime::after_fork(); });
  m.def("in_bad_fork", [] { return Runtime::in_bad_fork(); });

  m.def("error_table", [] {
    static constexpr const char* kPython[] = {"RuntimeError", "ValueError",          "IndexError",
                                              "TypeError",    "NotImplementedError", "torch.OutOfMemoryError"};
    py::list rows;
    for (const CodeInfo& i : all_codes()) {
      py::dict d;
      d["code"] = tag(i.code), d["name"] = std::string(i.name), d["raises"] = kPython[static_cast<int>(i.raise)],
      d["cause"] = std::string(i.cause), d["cure"] = std::string(i.cure);
      rows.append(d);
    }
    return rows;
  });
  m.def("env_table", [] {
    py::list rows;
    for (const EnvVar& v : all_env()) {
      py::dict d;
      d["name"] = std::string(v.name), d["fallback"] = std::string(v.fallback), d["allowed"] = std::string(v.allowed),
      d["meaning"] = std::string(v.meaning);
      rows.append(d);
    }
    return rows;
  });
  m.def("ops", [] {
    py::list rows;
    for (const auto& [name, op] : ops::all()) {
      py::dict d;
      const std::string file = op.file;
      const size_t core = file.rfind("core/");
      const auto& served = aten::registered_overloads();
      const auto it = served.find(name);
      d["name"] = name, d["file"] = core == std::string::npos ? file : file.substr(core), d["line"] = op.line;
      d["overloads"] = it == served.end() ? std::vector<std::string>{} : it->second;
      rows.append(d);
    }
    return rows;
  });
  m.def("platforms", [] {
    py::list rows;
    for (const pjrt::Platform& p : pjrt::platforms()) {
      py::dict d;
      d["name"] = p.name, d["plugin"] = p.plugin, d["priority"] = p.priority, d["install"] = p.install,
      d["skips"] = p.skips;
      py::dict caps;
      caps["host_memory"] = p.caps.host_memory, caps["f64"] = p.caps.f64, caps["c128"] = p.caps.c128,
      caps["f64_emulated"] = p.caps.f64_emulated, caps["f8"] = p.caps.f8;
      caps["s64_dot"] = p.caps.s64_dot, caps["donation"] = p.caps.donation, caps["compile_only"] = p.caps.compile_only,
      caps["in_order"] = p.caps.in_order;
      d["caps"] = caps;
      rows.append(d);
    }
    return rows;
  });
  define_graphs(m);
  define_check(m);
  m.def("has_lowering", [](const std::string& name) {
    return ops::find(name.rfind("aten::", 0) == 0 ? name.substr(6) : name) != nullptr;
  });
}

}  // namespace torchport::bind
