"""The parts that need no torch do not import it."""

import json
import subprocess
import sys
from pathlib import Path

PARTS = (
    "torchport.pages",
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
import json
from typer.testing import CliRunner
from torchport.cli import app
done = [CliRunner().invoke(app, arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([[run.exit_code, run.stdout, run.stderr] for run in done]))
"""


def test_the_command_line_works_without_the_extras(tmp_path: Path) -> None:
    base = ["--db", str(tmp_path / "kb.db")]
    commands = [
        ["explain", "Torch not compiled with CUDA enabled"],
        ["kb", "search", "hbm", *base],
        ["kb", "serve", *base],
        ["mcp", "--root", str(tmp_path)],
    ]
    done = subprocess.run(
        [sys.executable, "-c", BARE, json.dumps(commands)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    explained, found, serve, mcp = json.loads(done.stdout.splitlines()[-1])
    assert (explained[0], "error/torch-no-cuda" in explained[1]) == (0, True)
    assert (found[0], "error/xla-hbm-compile" in found[1]) == (0, True)
    assert (serve[0], "pip install 'torchport[kb]'" in serve[2]) == (2, True)
    assert (mcp[0], "pip install 'torchport[mcp]'" in mcp[2]) == (2, True)
