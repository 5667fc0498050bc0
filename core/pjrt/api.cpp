#include "pjrt/api.h"

namespace torchport::pjrt {

static std::string_view code_name(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_OK: return "OK";
    case PJRT_Error_Code_CANCELLED: return "CANCELLED";
    case PJRT_Error_Code_UNKNOWN: return "UNKNOWN";
    case PJRT_Error_Code_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case PJRT_Error_Code_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case PJRT_Error_Code_NOT_FOUND: return "NOT_FOUND";
    case PJRT_Error_Code_ALREADY_EXISTS: return "ALREADY_EXISTS";
    case PJRT_Error_Code_PERMISSION_DENIED: return "PERMISSION_DENIED";
    case PJRT_Error_Code_RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case PJRT_Error_Code_FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case PJRT_Error_Code_ABORTED: return "ABORTED";
    case PJRT_Error_Code_OUT_OF_RANGE: return "OUT_OF_RANGE";
    case PJRT_Error_Code_UNIMPLEMENTED: return "UNIMPLEMENTED";
    case PJRT_Error_Code_INTERNAL: return "INTERNAL";
    case PJRT_Error_Code_UNAVAILABLE: return "UNAVAILABLE";
    case PJRT_Error_Code_DATA_LOSS: return "DATA_LOSS";
    case PJRT_Error_Code_UNAUTHENTICATED: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

static PJRT_Error_Code code_of(const Api& api, PJRT_Error* error) noexcept {
  PJRT_Error_GetCode_Args args{PJRT_Error_GetCode_Args_STRUCT_SIZE, nullptr, error, PJRT_Error_Code_UNKNOWN};
  if (PJRT_Error* nested = api.c->PJRT_Error_GetCode(&args)) {
    PJRT_Error_Destroy_Args drop{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, nested};
    api.c->PJRT_Error_Destroy(&drop);
    return PJRT_Error_Code_UNKNOWN;
  }
  return args.code;
}

std::string take_message(const Api& api, PJRT_Error* error) noexcept {
  PJRT_Error_Message_Args args{PJRT_Error_Message_Args_STRUCT_SIZE, nullptr, error, nullptr, 0};
  api.c->PJRT_Error_Message(&args);
  std::string message(args.message ? args.message : "", args.message ? args.message_size : 0);
  PJRT_Error_Destroy_Args drop{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  api.c->PJRT_Error_Destroy(&drop);
  return message;
}

void raise(const Api& api, PJRT_Error* error, const char* name) {
  const PJRT_Error_Code code = code_of(api, error);
  std::string message = take_message(api, error);
  message.erase(message.find_last_not_of(" \n") + 1);  // a compiler's diagnostics end in a line feed
  const std::string words(code_name(code));
  fail(code == PJRT_Error_Code_RESOURCE_EXHAUSTED ? Code::out_of_memory : Code::pjrt, str(name, " on ", api.platform),
       message.starts_with(words) ? message : words + ": " + message);
}

void raise_too_old(const Api& api, const char* name) {
  const PJRT_Api_Version& version = api.c->pjrt_api_version;
  fail(Code::plugin_too_old, str(name, " on ", api.platform),
       str("must be in the plugin's table, got C API ", version.major_version, ".", version.minor_version,
           " without it"),
       "a newer version of the plugin");
}

}  // namespace torchport::pjrt
