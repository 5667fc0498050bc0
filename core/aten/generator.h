// The device's random generator: Philox counters. A program takes (seed, offset) and uses `blocks` blocks of four
// 32-bit numbers from there, so the host decides the sequence without waiting for the device.
#pragma once
#include <ATen/core/Generator.h>

#include <string>
#include <utility>

namespace torchport::aten {

const at::Generator& default_generator(int device);
at::Generator new_generator(int device);
// Seeds every device's default generator; before the platform is open, the seed they will begin with.
void manual_seed_all(uint64_t seed);
// Seed and offset of the next `blocks` Philox blocks; moves the generator on. generator null: the device's default.
std::pair<uint64_t, uint64_t> reserve_random(const at::Generator* generator, int device, int64_t blocks);

// Whose numbers random ops give: the device's Philox, or those of torch's CPU generator with the same seed, bit for
// bit.
enum class Draws : uint8_t { device, cpu };
Draws draws();
void set_draws(Draws);
Draws parse_draws(const std::string&);  // bad_setting when unknown
std::string name(Draws);
// The CPU generator that stands behind a generator of the device (null: the device's default) under Draws::cpu.
at::Generator cpu_twin(const at::Generator* generator, int device);

}  // namespace torchport::aten
