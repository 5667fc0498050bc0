"""`torchport check` as it is typed: what it refuses, with which words and exit code."""

import json

import pytest
from typer.testing import CliRunner

pytestmark = pytest.mark.port
pytest.importorskip("torchport")

from torchport.cli import app

LLAMA = {"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}


@pytest.fixture
def model(tmp_path) -> str:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(LLAMA | {"intermediate_size": 48}))
    return str(path)


def run(*arguments: str):
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "must get one of --train, --prefill and --decode, got 0"),
        (("--train", "--decode"), "must get one of --train, --prefill and --decode, got 2"),
        (("--train", "--dtype", "int4"), "[dtype] must be one of float32, bfloat16, float16, got 'int4'"),
        (
            ("--train", "--fail-on", "speed"),
            "[--fail-on] must be a list of compile, fit, count, fallback, recompile, got speed",
        ),
        (("--train", "--parallel", "pp=2"), "[--parallel] must be a list such as tp=8,fsdp=4"),
        (("--train", "--parallel", "tp=2"), "[--parallel] must multiply to the 4 devices of tpu:v6e:2x2, got 2"),
    ],
)
def test_what_is_refused(model, arguments, message):
    done = run("--model", model, "--target", "tpu:v6e:2x2", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_target_that_is_not_known(model):
    done = run("--model", model, "--target", "tpu:v99", "--train")
    assert done.exit_code == 2
    assert "[--target] must be one of" in done.stderr


def test_a_model_that_is_not_there(tmp_path):
    done = run("--model", str(tmp_path / "none.json"), "--target", "tpu:v6e", "--train")
    assert done.exit_code == 2
    assert "[--model] must be a readable JSON file" in done.stderr


def test_an_option_of_models_is_not_taken_from_a_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv)")
    done = run(str(script), "--batch", "32", "--target", "tpu:v6e")
    assert done.exit_code == 2
    assert "[--batch] must come with --model, got a script. Try: the script's own options after --" in done.stderr


def test_what_stands_after_two_dashes_is_the_scripts(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(f"import sys; open({str(tmp_path / 'seen')!r}, 'w').write(' '.join(sys.argv[1:]))")
    done = run("--target", "trn:trn2", str(script), "--lr", "3e-4", "--", "--batch", "32")
    assert done.exit_code == 1  # it launched nothing on the device
    assert (tmp_path / "seen").read_text() == "--lr 3e-4 --batch 32"
    assert "launched nothing on it" in done.stdout
