// One helper instead of a wrapper per entry point of the PJRT C API. Inline, because the launch path goes through it.
#pragma once
#include <cstddef>
#include <string>

#include "base/error.h"
#include "pjrt_c_api.h"

// Argument structs name the fields they set; the rest being zero is the point (g++ 12 warns even so).
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace torchport::pjrt {

// A loaded plugin's function table. Lives as long as the process: plugins are never unloaded.
struct Api {
  const PJRT_Api* c = nullptr;
  std::string platform;  // names the platform in errors
};

// Turns a PJRT_Error into Error(out_of_memory | pjrt) with the plugin's words, and frees it.
[[noreturn]] void raise(const Api&, PJRT_Error*, const char* name);
[[noreturn]] void raise_too_old(const Api&, const char* name);
std::string take_message(const Api&, PJRT_Error*) noexcept;  // the plugin's words; frees the error

// A plugin older than our header has a shorter table, or holes in it.
template <auto Fn>
bool has(const Api& api, size_t offset) {
  return offset + sizeof(void*) <= api.c->struct_size && api.c->*Fn != nullptr;
}

// Stamps the struct's size, refuses entry points the plugin is too old for, turns PJRT_Error into Error.
template <auto Fn, class Args>
inline Args call(const Api& api, Args args, size_t size, size_t offset, const char* name) {
  if (!has<Fn>(api, offset)) [[unlikely]]
    raise_too_old(api, name);
  args.struct_size = size;
  if (PJRT_Error* error = (api.c->*Fn)(&args)) [[unlikely]]
    raise(api, error, name);
  return args;
}

// For destructors: frees a handle; an error has nobody to go to and is dropped.
template <auto Fn, class Args, class Handle>
inline void destroy(const Api& api, PJRT_Error* (*)(Args*), Handle* handle) noexcept {
  if (!handle) return;
  Args args{sizeof(Args), nullptr, handle};
  if (PJRT_Error* error = (api.c->*Fn)(&args)) [[unlikely]]
    take_message(api, error);
}
template <auto Fn, class Handle>
inline void destroy(const Api& api, Handle* handle) noexcept {
  destroy<Fn>(api, api.c->*Fn, handle);
}

}  // namespace torchport::pjrt

// auto client = PJRT(api, PJRT_Client_Create, {.num_options = 0}).client;
#define PJRT(api, fn, ...) \
  ::torchport::pjrt::call<&PJRT_Api::fn>(api, fn##_Args __VA_ARGS__, fn##_Args_STRUCT_SIZE, offsetof(PJRT_Api, fn), #fn)
// Whether the plugin has the entry point at all, for those that are optional.
#define PJRT_HAS(api, fn) ::torchport::pjrt::has<&PJRT_Api::fn>(api, offsetof(PJRT_Api, fn))
