#include "trace/launch.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/env.h"
#include "base/error.h"

namespace torchport::trace {

namespace {

std::atomic<Mode>& current_mode() {
  static std::atomic<Mode> m{parse_mode(env("TORCHPORT_EAGER"))};
  return m;
}
std::atomic<LineSource> line_source{nullptr};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Flag {  // the check output of a launch that did not wait
  pjrt::BufferPtr value;
  exec::ProgramPtr program;
};
struct Pending {
  std::mutex mutex;
  std::vector<std::shared_ptr<pjrt::Event>> events;  // launches that were not complete when they returned
  std::vector<Flag> flags;
};
Pending& pending(int device) {
  static auto* all = new std::vector<Pending>(exec::Runtime::get().device_count());
  return (*all)[device];
}

void prune(std::vector<std::shared_ptr<pjrt::Event>>& events) {
  std::erase_if(events, [](const auto& e) { return e->is_ready(); });
}

[[noreturn]] void fail_check(const exec::Program& program, int32_t which) {
  const exec::Check& c = program.plan.checks[which - 1];
  const std::string line = mode() == Mode::debug ? python_line() : "";
  fail(c.code, c.where.substr(0, c.where.find('.')), c.message + (line.empty() ? "" : ", at " + line));
}
void read_check(const Flag& f) {
  int32_t which = 0;
  f.value->to_host(&which, sizeof which);
  if (which != 0) fail_check(*f.program, which);
}

template <class F>
bool any_bad(const void* data, int64_t bytes) {
  const F* p = static_cast<const F*>(data);
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(F)); ++i)
    if (!std::isfinite(p[i])) return true;
  return false;
}
bool holds_bad(const pjrt::Buffer& b) {
  if (!is_float(b.dtype) && !is_complex(b.dtype)) return false;
  std::vector<char> copy(b.bytes());
  if (b.bytes() == 0) return false;
  b.to_host(copy.data(), copy.size());
  switch (real_of(b.dtype)) {
    case Dtype::f32: return any_bad<float>(copy.data(), b.bytes());
    case Dtype::f64: return any_bad<double>(copy.data(), b.bytes());
    case Dtype::bf16:
    case Dtype::f16: {
      const uint16_t exponent = b.dtype == Dtype::bf16 ? 0x7F80 : 0x7C00;
      const uint16_t* p = reinterpret_cast<const uint16_t*>(copy.data());
      for (int64_t i = 0; i < b.bytes() / 2; ++i)
        if ((p[i] & exponent) == exponent) return true;
      return false;
    }
    default: return false;
  }
}

}  // namespace

Mode mode() { return current_mode().load(std::memory_order_relaxed); }
void set_mode(Mode m) { current_mode().store(m); }
Mode parse_mode(const std::string& s) {
  if (s == "strict") return Mode::strict;
  if (s == "debug") return Mode::debug;
  fail(Code::bad_setting, "eager_mode", str("must be 'strict' or 'debug', got '", s, "'"));
}
std::string name(Mode m) { return m == Mode::strict ? "strict" : "debug"; }

void set_line_source(LineSource s) { line_source.store(s); }
std::string python_line() {
  const LineSource s = line_source.load();
  return s ? s() : std::string();
}

void launch(const Request& r, pjrt::BufferPtr* outputs) {
  const exec::Program& p = r.program;
  const bool debug = mode() == Mode::debug, checked = !p.plan.checks.empty();
  // A program without inputs makes what it was asked for: full(nan) is no accident.
  bool inputs_clean = !p.plan.arguments.empty();
  if (debug) [[unlikely]] {
    for (int i : p.plan.arguments) inputs_clean = inputs_clean && !holds_bad(*r.inputs[i]);
    for (const exec::RuntimeNumber& n : r.numbers) inputs_clean &= std::isfinite(n.re) && std::isfinite(n.im);
  }
  // A failed check must leave the arguments as they were.
  if (checked || debug) std::memset(r.donatable, 0, r.inputs.size());
  p.run(r.inputs, r.donatable, r.numbers, r.seed, r.offset, r.device, outputs);
  exec::Runtime::get().counters.launches.fetch_add(1, std::memory_order_relaxed);
  const size_t count = p.num_outputs();
  if (count == 0) return;
  if (checked) [[unlikely]] {
    const Flag flag{outputs[count - 1], p.shared_from_this()};
    if (debug || r.device.client().caps().host_memory) {
      read_check(flag);
    } else {
      Pending& q = pending(r.device.index());
      std::lock_guard lock(q.mutex);
      q.flags.push_back(flag);
    }
  }
  if (debug) [[unlikely]] {
    for (size_t i = 0; i < count; ++i) {
      outputs[i]->wait();
      if (inputs_clean && holds_bad(*outputs[i])) {
        const std::string line = python_line();
        fail(Code::nan_found, p.name,
             str("must not turn finite inputs into NaN or infinity", line.empty() ? "" : ", at " + line));
      }
    }
    return;
  }
  pjrt::Event done = outputs[0]->ready();
  if (done.is_ready()) [[likely]]
    return;
  Pending& q = pending(r.device.index());
  std::lock_guard lock(q.mutex);
  if (q.events.size() >= 64) prune(q.events);
  q.events.push_back(std::make_shared<pjrt::Event>(std::move(done)));
}

void poll(int device) {
  Pending& q = pending(device);
  std::vector<Flag> flags;
  {
    std::lock_guard lock(q.mutex);
    flags.swap(q.flags);
  }
  for (const Flag& f : flags) read_check(f);
}

void synchronize(int device) {
  Pending& q = pending(device);
  std::vector<std::shared_ptr<pjrt::Event>> events;
  {
    std::lock_guard lock(q.mutex);
    events = q.events;
  }
  for (const auto& e : events) e->wait();
  {
    std::lock_guard lock(q.mutex);
    prune(q.events);
  }
  exec::Runtime::get().counters.host_syncs.fetch_add(1, std::memory_order_relaxed);
  poll(device);
}

bool is_idle(int device) {
  Pending& q = pending(device);
  std::lock_guard lock(q.mutex);
  prune(q.events);
  return q.events.empty();
}

struct Mark::State {
  std::vector<std::shared_ptr<pjrt::Event>> events;
  std::atomic<int64_t> left{0}, time{0};
};

Mark::Mark(int device) : state_(std::make_shared<State>()) {
  Pending& q = pending(device);
  {
    std::lock_guard lock(q.mutex);
    prune(q.events);
    state_->events = q.events;
  }
  state_->left = static_cast<int64_t>(state_->events.size()) + 1;
  auto arrive = [s = state_] {
    if (s->left.fetch_sub(1) == 1) s->time.store(now_ns());
  };
  for (const auto& e : state_->events) e->on_ready(arrive);
  arrive();
}
bool Mark::is_ready() const { return state_->time.load() != 0; }
void Mark::wait() const {
  for (const auto& e : state_->events) e->wait();
  while (!is_ready()) std::this_thread::yield();  // the last callback is on its way
}
int64_t Mark::time_ns() const {
  wait();
  return state_->time.load();
}

}  // namespace torchport::trace
