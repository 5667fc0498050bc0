#include "exec/program.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "exec/capture.h"
#include "exec/runtime.h"

namespace torchport::exec {

namespace {

void put32(int32_t* at, float f) { std::memcpy(at, &f, 4); }
void put64(int32_t* at, double f) { std::memcpy(at, &f, 8); }
void put64(int32_t* at, int64_t i) { std::memcpy(at, &i, 8); }

// Writes a number as the words that Lowering::number reads.
void encode(const RuntimeNumber& n, Dtype d, int32_t* at) {
  const bool integer = n.kind == graph::Number::Kind::integer || n.kind == graph::Number::Kind::boolean;
  const double re = integer ? static_cast<double>(n.i) : n.re;
  switch (d) {
    case Dtype::f64: put64(at, re); break;
    case Dtype::c64: put32(at, static_cast<float>(re)), put32(at + 1, static_cast<float>(n.im)); break;
    case Dtype::c128: put64(at, re), put64(at + 2, n.im); break;
    case Dtype::i64:
    case Dtype::u64: put64(at, integer ? n.i : static_cast<int64_t>(n.re)); break;
    case Dtype::b1: *at = integer ? n.i != 0 : (n.re != 0 || n.im != 0); break;
    default:
      if (is_float(d))
        put32(at, static_cast<float>(re));
      else
        *at = static_cast<int32_t>(integer ? n.i : static_cast<int64_t>(n.re));
  }
}

// Repeated operands (the same learning rate, the same 0.5) are sent once. Direct-mapped and per thread: no lock.
struct Constant {
  uint64_t hash = 0;
  pjrt::Device* device = nullptr;
  std::vector<int32_t> words;
  pjrt::BufferPtr buffer;
};
constexpr size_t kConstants = 256;

pjrt::BufferPtr send(const int32_t* words, size_t count, pjrt::Device& device) {
  thread_local std::array<Constant, kConstants> cache;
  uint64_t h = count * 0x9E3779B97F4A7C15ull;
  for (size_t i = 0; i < count; ++i) h = (h ^ static_cast<uint32_t>(words[i])) * 0xff51afd7ed558ccdull, h ^= h >> 29;
  Constant& c = cache[h % kConstants];
  if (c.buffer && c.hash == h && c.device == &device && c.words.size() == count &&
      std::memcmp(c.words.data(), words, count * 4) == 0)
    return c.buffer;
  const int64_t dims = static_cast<int64_t>(count);
  pjrt::BufferPtr fresh = device.client().to_device(words, Dtype::i32, &dims, 1, device, /*counted=*/false);
  c.hash = h, c.device = &device, c.words.assign(words, words + count), c.buffer = fresh;
  return fresh;
}

}  // namespace

Program::Program(Lowered lowered, std::unique_ptr<pjrt::Executable> executable)
    : plan(std::move(lowered)), executable_(std::move(executable)) {
  auto output = [&](const Type& t) {
    output_bytes_.push_back(t.numel() * static_cast<int64_t>(size_of(t.dtype)));
    output_dtypes_.push_back(t.dtype);
    total_bytes_ += output_bytes_.back();
  };
  for (size_t i = 0; i < plan.results.size(); ++i)
    if (plan.defined[i]) output(plan.results[i]);
  for (const Type& t : plan.written_types) output(t);
  if (!plan.checks.empty()) output({Dtype::i32, {}});
  num_outputs_ = output_bytes_.size();
  for (size_t i = 0; i < plan.arguments.size(); ++i)
    if (std::find(plan.written.begin(), plan.written.end(), plan.arguments[i]) != plan.written.end())
      donors_.push_back(static_cast<int>(i));
}

void Program::run(std::span<pjrt::Buffer* const> inputs, const bool* donatable, std::span<const RuntimeNumber> numbers,
                  uint64_t seed, uint64_t offset, pjrt::Device& device, pjrt::BufferPtr* outputs) const {
  constexpr size_t kFew = 16;
  PJRT_Buffer* few_in[kFew];
  PJRT_Buffer* few_out[kFew];
  std::vector<PJRT_Buffer*> many_in, many_out;
  const size_t args = plan.arguments.size() + (plan.words > 0);
  PJRT_Buffer** in = few_in;
  PJRT_Buffer** out = few_out;
  if (args > kFew) many_in.resize(args), in = many_in.data();
  if (num_outputs_ > kFew) many_out.resize(num_outputs_), out = many_out.data();
  for (size_t i = 0; i < plan.arguments.size(); ++i) in[i] = inputs[plan.arguments[i]]->raw();

  pjrt::BufferPtr constants;
  if (plan.words > 0) {
    int32_t few[64];
    std::vector<int32_t> many;
    int32_t* words = few;
    if (plan.words > 64) many.resize(plan.words), words = many.data();
    for (const Slot& s : plan.slots) encode(numbers[s.runtime], s.dtype, words + s.word);
    if (plan.rng_word >= 0)
      put64(words + plan.rng_word, static_cast<int64_t>(seed)),
          put64(words + plan.rng_word + 2, static_cast<int64_t>(offset));
    constants = send(words, plan.words, device);
    in[args - 1] = constants->raw();
  }

  int64_t kept[kFew];
  std::vector<int64_t> many_kept;
  int64_t* keep = kept;
  size_t num_kept = 0;
  int64_t reused = 0;
  if (donors_.size() > kFew) many_kept.resize(donors_.size()), keep = many_kept.data();
  for (int position : donors_) {
    const int input = plan.arguments[position];
    if (!donatable[input])
      keep[num_kept++] = position;
    else
      reused += inputs[input]->bytes();
  }
  device.reserve(total_bytes_ - reused, name.c_str());
  executable_->execute(in, args, out, device, keep, num_kept);
  for (int position : donors_)
    if (const int input = plan.arguments[position]; donatable[input]) inputs[input]->donated();
  for (size_t i = 0; i < num_outputs_; ++i)
    outputs[i] = pjrt::Buffer::adopt(out[i], &device, output_dtypes_[i], output_bytes_[i]);
  launches->fetch_add(1, std::memory_order_relaxed);
  if (Capture* capture = Capture::current()) [[unlikely]] {
    std::vector<uint64_t> read, made;
    for (int i : plan.arguments) read.push_back(inputs[i]->serial());
    if (constants) read.push_back(constants->serial());
    for (size_t i = 0; i < num_outputs_; ++i) made.push_back(outputs[i]->serial());
    capture->launched(*this, std::move(read), std::move(made), device.allocated.load());
  }
}

}  // namespace torchport::exec
