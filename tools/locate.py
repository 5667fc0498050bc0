"""Print, as a CMake list of key=value, where the interpreter's torch, PJRT header, CPU plugin and GoogleTest are."""

import importlib.util
import os
import sys
from pathlib import Path


def package_dir(name: str) -> Path | None:
    """Folder of an installed package, found without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # the parent of a dotted name is absent
        return None
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None


def main() -> int:
    """Fail with the project's error form when torch is absent; the other three may be given to CMake by hand."""
    torch_dir = package_dir("torch")
    if torch_dir is None:
        print(f"[cmake] torch must be installed for {sys.executable}, got none. Try: make setup", file=sys.stderr)
        return 1
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # the extension to load is what is about to be built
    import torch  # only its own word on the C++ ABI is reliable

    plugin = package_dir("xla_plugins.xla_cpu_pjrt")
    gtest = Path(sys.prefix) / "src/gtest_vendor"
    found = {
        "torch_dir": torch_dir,
        "torch_cxx11_abi": int(torch.compiled_with_cxx11_abi()),
        "pjrt_include": plugin / "include" if plugin else "",
        "cpu_plugin": plugin / "xla_cpu_pjrt.so" if plugin else "",
        "gtest_source": gtest if gtest.is_dir() else "",
    }
    print(";".join(f"{key}={value}" for key, value in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
