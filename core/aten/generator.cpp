#include "aten/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/core/GeneratorImpl.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "aten/cell.h"
#include "base/env.h"
#include "exec/runtime.h"

namespace torchport::aten {

namespace {

std::atomic<Draws>& current_draws() {
  static std::atomic<Draws> d{parse_draws(env("TORCHPORT_RANDOM"))};
  return d;
}

class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  explicit PhiloxGenerator(int device)
      : c10::GeneratorImpl(c10::Device(kDevice, static_cast<c10::DeviceIndex>(device)),
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed, offset_ = 0;
    if (twin_.defined()) twin_.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  // 16 bytes: seed, offset. The same form as CUDA's, so that code which slices the state keeps working. Under
  // Draws::cpu the state of a CPU generator.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    if (draws() == Draws::cpu) return twin().unsafeGetGeneratorImpl()->set_state(state);
    TORCH_CHECK(state.numel() == 16, "[rng_state] must have 16 bytes (seed, offset), got ", state.numel(), " (",
                tag(Code::bad_value), ")");
    const auto* p = static_cast<const uint8_t*>(state.data());
    std::memcpy(&seed_, p, 8);
    std::memcpy(&offset_, p + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    if (draws() == Draws::cpu) return twin().get_state().getIntrusivePtr();
    at::Tensor t = at::detail::empty_cpu({16}, at::kByte, c10::nullopt, c10::nullopt, c10::nullopt, c10::nullopt);
    auto* p = t.data_ptr<uint8_t>();
    std::memcpy(p, &seed_, 8);
    std::memcpy(p + 8, &offset_, 8);
    return t.getIntrusivePtr();
  }
  std::pair<uint64_t, uint64_t> reserve(uint64_t blocks) {
    const std::pair<uint64_t, uint64_t> at{seed_, offset_};
    offset_ += blocks;
    return at;
  }
  at::Generator& twin() const {
    if (!twin_.defined()) twin_ = at::detail::createCPUGenerator(seed_);
    return twin_;
  }

 private:
  PhiloxGenerator* clone_impl() const override {
    auto* copy = new PhiloxGenerator(device_.index());
    copy->seed_ = seed_, copy->offset_ = offset_;
    if (twin_.defined()) copy->twin_ = twin_.clone();
    return copy;
  }
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
  mutable at::Generator twin_;
};

}  // namespace

at::Generator new_generator(int device) {
  return at::make_generator<PhiloxGenerator>(device < 0 ? current_device() : device);
}

namespace {
std::mutex seed_mutex;
uint64_t first_seed = c10::default_rng_seed_val;
std::vector<at::Generator>* defaults = nullptr;  // made when the platform opens
}  // namespace

const at::Generator& default_generator(int device) {
  static auto* all = [] {
    auto* v = new std::vector<at::Generator>;
    for (int i = 0; i < exec::Runtime::get().device_count(); ++i) v->push_back(new_generator(i));
    std::lock_guard lock(seed_mutex);
    for (at::Generator& g : *v) g.set_current_seed(first_seed);
    return defaults = v;
  }();
  if (device < 0) device = current_device();
  exec::Runtime::get().device(device);  // bad_device_index
  return (*all)[device];
}

void manual_seed_all(uint64_t seed) {
  std::lock_guard lock(seed_mutex);
  first_seed = seed;
  if (!defaults) return;
  for (at::Generator& g : *defaults) {
    std::lock_guard one(g.mutex());
    g.set_current_seed(seed);
  }
}

namespace {
PhiloxGenerator& philox_of(const at::Generator* generator, int device) {
  const at::Generator& g = generator && generator->defined() ? *generator : default_generator(device);
  auto* philox = dynamic_cast<PhiloxGenerator*>(g.unsafeGetGeneratorImpl());
  check(philox, Code::device_mismatch, "generator",
        str("must be a generator of device ", device_name(), ", got one of ", g.device().str(), " (Expected a '",
            device_name(), "' device type for generator)"),
        "torch.Generator(device='" + device_name() + "')");
  return *philox;
}
}  // namespace

std::pair<uint64_t, uint64_t> reserve_random(const at::Generator* generator, int device, int64_t blocks) {
  PhiloxGenerator& philox = philox_of(generator, device);
  std::lock_guard lock(philox.mutex_);
  return philox.reserve(static_cast<uint64_t>(blocks));
}

at::Generator cpu_twin(const at::Generator* generator, int device) {
  PhiloxGenerator& philox = philox_of(generator, device);
  std::lock_guard lock(philox.mutex_);
  return philox.twin();
}

Draws draws() { return current_draws().load(std::memory_order_relaxed); }
void set_draws(Draws d) { current_draws().store(d); }
Draws parse_draws(const std::string& s) {
  if (s == "device") return Draws::device;
  if (s == "cpu") return Draws::cpu;
  fail(Code::bad_setting, "random_mode", str("must be 'device' or 'cpu', got '", s, "'"));
}
std::string name(Draws d) { return d == Draws::device ? "device" : "cpu"; }

}  // namespace torchport::aten
