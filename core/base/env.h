// Environment variables: one table, so that docs/env.md can be printed from it and a misspelt value is an error.
#pragma once
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

}  // namespace torchport
