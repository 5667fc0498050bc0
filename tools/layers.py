"""Check core/ against core/LAYERS: include edges, torch only at the edge, no device names in the core, no drawers."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|pybind11)/")
DEVICE = re.compile(r'"(tpu|cuda|neuron|rocm|oneapi)"')
DRAWER = re.compile(r"^(util|helper|common|misc)")


def read_layers(text: str) -> tuple[dict[str, set[str]], set[str], set[str]]:
    """Folder -> what it may include; the folders that may see torch; the files that may name a device."""
    edges, torch, named = {}, set(), set()
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["allow-device-name"]:
            named.update(words[1:])
        elif words:
            folder, *targets, sees_torch = words if words[-1] in ("torch", "-") else [*words, "-"]
            edges[folder] = {t for t in targets if t != "-"}
            torch |= {folder} if sees_torch == "torch" else set()
    return edges, torch, named


def check_file(path: Path, core: Path, layers: tuple[dict[str, set[str]], set[str], set[str]]) -> list[str]:
    edges, torch, named = layers
    name, folder, text = path.relative_to(core).as_posix(), path.relative_to(core).parts[0], path.read_text()
    if folder not in edges:
        return [f"{name}: folder {folder} is not in LAYERS"]
    found = [f"{name}: name the file after what it holds, not {path.stem}"] if DRAWER.match(path.stem) else []
    for target in INCLUDE.findall(text):
        head = target.split("/")[0]
        if TORCH.match(target) and folder not in torch:
            found.append(f"{name}: {folder} must not see torch, includes {target}")
        elif head in edges and "/" in target and head != folder and not edges[folder] & {head, target}:
            found.append(f"{name}: {folder} must not include {head}, includes {target}")
    if folder != "devices" and name not in named:
        code = re.sub(r"//.*", "", text)  # a comment may give an example
        found += [f"{name}: device name {m.group()} outside devices/; ask caps()" for m in DEVICE.finditer(code)]
    return found


def main(core: Path = ROOT / "core") -> int:
    layers = read_layers((core / "LAYERS").read_text())
    files = sorted(p for p in core.rglob("*") if p.suffix in (".cpp", ".h"))
    found = [line for path in files for line in check_file(path, core, layers)]
    print("\n".join([*found, f"layers: {len({p.parent for p in files})} folders, {len(found)} violations"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
