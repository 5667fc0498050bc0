"""The options of `torchport check`. Outside the package, which needs extras, so that `torchport` starts without them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

Targets = Annotated[list[str], typer.Option("--target", help="tpu:v6e, tpu:v5p:4x4x4, cuda:h100...; several times.")]
MODEL_OPTIONS = ("train", "prefill", "decode", "batch", "seq", "dtype", "param_dtype", "parallel")
CAUSES = ("compile", "fit", "count", "fallback", "recompile")


def check(
    context: typer.Context,
    target: Targets,
    script: Annotated[
        str, typer.Argument(help="A Python script, its own arguments after it (after -- if they clash).")
    ] = "",
    model: Annotated[Path | None, typer.Option(help="Instead of a script: a transformers config.json.")] = None,
    train: Annotated[bool, typer.Option("--train", help="One AdamW step, layers rematerialised.")] = False,
    prefill: Annotated[bool, typer.Option("--prefill", help="The prompts' tokens, which fill the caches.")] = False,
    decode: Annotated[bool, typer.Option("--decode", help="One more token of each sequence.")] = False,
    batch: Annotated[int, typer.Option(help="Sequences over all chips.")] = 8,
    seq: Annotated[int, typer.Option(help="Tokens of each sequence; in decoding the length of the caches.")] = 2048,
    dtype: Annotated[str, typer.Option(help="What is computed with: bfloat16, float16 or float32.")] = "bfloat16",
    param_dtype: Annotated[str, typer.Option(help="What parameters are held in: float32 to train, else dtype.")] = "",
    parallel: Annotated[str, typer.Option(help="tp=8,fsdp=4: sizes of dp, fsdp and tp; chosen when not given.")] = "",
    steps: Annotated[int, typer.Option(min=2, help="Steps of the script that are run in emulation.")] = 4,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything there.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page.")] = None,
    save_bundle: Annotated[
        Path | None, typer.Option(help="A folder for each target's program, text and compiled.")
    ] = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 for any of compile, fit, count, fallback, recompile.")
    ] = "compile,fit",
    timeout: Annotated[float, typer.Option(help="Seconds for one target's compiler.")] = 1200.0,
) -> None:
    """Does it run on that chip, does it fit, how fast could it be, what would it cost: with no chip.

    SCRIPT runs unmodified in emulation for a few steps, and one step is compiled for each target. --model checks a
    configuration from shapes alone. Exit codes: 0, 1 by --fail-on or a script that crashed, 2 for a wrong command.
    """
    if bool(script) == (model is not None):
        raise _quit(f"[check] must get a script or --model, got {'both' if script else 'neither'}")
    given = [n for n in MODEL_OPTIONS if context.get_parameter_source(n).name != "DEFAULT"]
    if script and given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise _quit(f"[{flags}] must come with --model, got a script. Try: the script's own options after --")
    causes = [part.strip() for part in fail_on.split(",") if part.strip()]
    if unknown := [c for c in causes if c not in CAUSES]:
        raise _quit(f"[--fail-on] must be a list of {', '.join(CAUSES)}, got {', '.join(sorted(unknown))}")
    for name, path in (("--json", json_file), ("--html", html_file)):
        if path is not None and not path.absolute().parent.is_dir():
            raise _quit(f"[{name}] must be in a folder that exists, got {path}. Try: mkdir -p {path.parent}")
    out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)
    try:
        if model is not None:
            modes = [name for name, wanted in (("train", train), ("prefill", prefill), ("decode", decode)) if wanted]
            if len(modes) != 1:
                raise _quit(f"[check] must get one of --train, --prefill and --decode, got {len(modes)}")
            from torchport.check.model_cli import run_model

            _activate()
            code = run_model(
                model, target, out, mode=modes[0], batch=batch, seq=seq, dtype=dtype, param_dtype=param_dtype or None,
                parallel=parallel or None, json_file=json_file, html_file=html_file, bundle=save_bundle,
                fail_on=fail_on, timeout_s=timeout,
            )  # fmt: skip
        else:
            code = _script(
                Path(script), context.args, target, out, steps, json_file, html_file, save_bundle, causes, timeout
            )
    except ImportError as error:
        extra = "model" if model is not None else "verdict"
        raise _quit(f"[check] needs {error.name}, got none. Try: pip install 'torchport[{extra}]'") from error
    except ValueError as error:  # a workload, mesh, target or option that is not allowed; the message says what is
        raise _quit(str(error)) from error
    raise typer.Exit(code)


def _script(script: Path, arguments: list[str], names: list[str], out: Console, steps: int, json_file: Path | None,
            html_file: Path | None, bundle: Path | None, causes: list[str], timeout: float) -> int:  # fmt: skip
    """Checks a script; the exit code."""
    if not script.is_file():
        raise ValueError(f"[check] must be a Python script that exists, got {script}")
    from torchport.check.run import check_script
    from torchport.check.show_script import page, show
    from torchport.check.targets import target

    wanted = [target(name) for name in names]
    _activate()
    progress = Console(stderr=True, soft_wrap=True)
    say = lambda line: progress.print(line, markup=False, highlight=False)
    found = check_script(script, arguments, wanted, steps, bundle, say, timeout_s=timeout)
    show(found, out)
    if json_file is not None:
        _write(json_file, json.dumps(found.as_dict(), indent=1) + "\n")
        say(f"written: {json_file}")
    if html_file is not None:
        from torchport.pages import save

        save(html_file, page(found))
        say(f"written: {html_file}")
    return int(found.failed(causes))


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _activate() -> Any:
    os.environ.setdefault("TORCHPORT_DEVICE", "tpu")
    import torchport

    return torchport.activate()


def _quit(message: str) -> typer.Exit:
    Console(stderr=True, soft_wrap=True).print(message, markup=False, highlight=False)
    return typer.Exit(2)
