"""The parts that need no torch do not import it."""

import subprocess
import sys
from pathlib import Path

PARTS = (
    "torchport.report",
    "torchport.migrate.errors.answer",
    "torchport.migrate.errors.command",
    "torchport.migrate.kb.cli",
    "torchport.migrate.agents.server",
    "torchport.migrate.report.build",
    "torchport.migrate.report.command",
)
# The package without its __init__, which is what brings torch in; torch itself raises.
CODE = f"""
import importlib, sys, types
package = types.ModuleType("torchport")
package.__path__ = [sys.argv[1]]
sys.modules["torchport"] = package
sys.modules["torch"] = None
for name in {PARTS!r}:
    importlib.import_module(name)
from pathlib import Path
from torchport.migrate.agents.root import Root
from torchport.migrate.agents.tools import Tools
from torchport.migrate.errors.answer import answers
assert answers("AssertionError: Torch not compiled with CUDA enabled")[0].entry == "error/torch-no-cuda"
assert Tools(Root(Path(sys.argv[2]))).kb_search("CU001")["entries"]
"""


def test_no_torch_is_needed(tmp_path: Path) -> None:
    import torchport

    folder = Path(torchport.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", CODE, folder, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


EXTRAS = ("jinja2", "plotly", "mcp", "datasette", "libcst", "nbformat", "tomlkit", "markupsafe")
BARE = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from torchport.cli import app
app(sys.argv[1:])
"""


def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where no extra is installed."""
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_command_line_works_without_the_extras(tmp_path: Path) -> None:
    assert "error/torch-no-cuda" in bare("explain", "Torch not compiled with CUDA enabled").stdout
    assert "error/xla-hbm-compile" in bare("kb", "search", "hbm", "--db", str(tmp_path / "kb.db")).stdout
    for arguments, extra in (
        (("kb", "serve", "--db", str(tmp_path / "kb.db")), "torchport[kb]"),
        (("mcp", "--root", str(tmp_path)), "torchport[mcp]"),
    ):
        done = bare(*arguments)
        assert done.returncode == 2, done.stderr
        assert f"pip install '{extra}'" in done.stderr
