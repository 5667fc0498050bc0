// Loading a plugin's shared library. A library is loaded once and never unloaded: its threads outlive its clients.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/api.h"
#include "pjrt/platform.h"

namespace torchport::pjrt {

// Loads platform.path (found by choose() or find()) and initialises it. Throws plugin_missing or plugin_bad; a failed
// load leaves the process as it was.
const Api& load_plugin(const Platform&);

// "0.81": version of the C API that the plugin speaks.
std::string api_version(const Api&);

// Textual StableHLO as the compiler takes it; points into text.
PJRT_Program mlir_program(std::string_view text);

// C form of options; points into them.
std::vector<PJRT_NamedValue> named_values(const Options&);

}  // namespace torchport::pjrt
