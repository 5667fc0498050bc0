#include "exec/capture.h"

#include <algorithm>
#include <memory>

#include "exec/program.h"

namespace torchport::exec {

std::atomic<Capture*> Capture::current_{nullptr};

void Capture::begin(LineSource line) {
  auto* fresh = new Capture;  // never freed: another thread may be inside a hook when the capture ends
  fresh->line_ = std::move(line);
  current_.store(fresh, std::memory_order_release);
}
void Capture::end() { current_.store(nullptr, std::memory_order_release); }

void Capture::compiled(const Program& program, std::string text) {
  Compiled entry{program.name, std::move(text), line_(), {}};
  const Lowered& plan = program.plan;
  int output = static_cast<int>(std::count(plan.defined.begin(), plan.defined.end(), true));
  for (int input : plan.written) {
    const auto it = std::find(plan.arguments.begin(), plan.arguments.end(), input);
    if (it != plan.arguments.end()) entry.aliases.emplace_back(static_cast<int>(it - plan.arguments.begin()), output);
    ++output;
  }
  std::lock_guard lock(mutex_);
  index_[&program] = static_cast<int>(programs_.size());
  programs_.push_back(std::move(entry));
}

void Capture::launched(const Program& program, std::vector<uint64_t> in, std::vector<uint64_t> out, int64_t allocated) {
  std::lock_guard lock(mutex_);
  const auto it = index_.find(&program);
  launches_.push_back({it == index_.end() ? -1 : it->second, std::move(in), std::move(out), allocated});
}

std::vector<Capture::Compiled> Capture::programs(size_t first) const {
  std::lock_guard lock(mutex_);
  if (first >= programs_.size()) return {};
  return {programs_.begin() + static_cast<std::ptrdiff_t>(first), programs_.end()};
}

std::vector<Capture::Launch> Capture::take_launches() {
  std::lock_guard lock(mutex_);
  return std::exchange(launches_, {});
}

}  // namespace torchport::exec
