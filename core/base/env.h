// Environment variables: one table, so that docs/env.md can be printed from it and a misspelt value is an error.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torchport {

struct EnvVar {
  std::string_view name, fallback, allowed, meaning;  // allowed: "a|b|c", or "" for free text
};
const std::vector<EnvVar>& all_env();

// Value of a variable of the table, its fallback when unset; Error(bad_setting) when not allowed.
std::string env(std::string_view name);
// The same as an integer of [low, high].
int64_t env_integer(std::string_view name, int64_t low, int64_t high);

}  // namespace torchport
