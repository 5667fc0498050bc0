// Storages as bytes, for torch's storage API and the hooks.
#pragma once
#include <c10/core/StorageImpl.h>

namespace torchport::aten {

void resize_storage(c10::StorageImpl*, size_t bytes);

}  // namespace torchport::aten
