"""`hardwood rl`: from an id to a tree, a film and C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hardwood
from helpers.command_line import run_command

QUICK = ("--steps", "1500", "--set", "validations=2", "--set", "growth=1", "--set", "epochs=1", "--depth", "4")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rl") / "agent"
    done = run_command("rl", "train", "CartPole-v1", *QUICK, "-o", folder)
    assert done.code == 0, done.err
    assert "CartPole-v1: tree policy, ppo, 1,5" in done.out
    assert "reward of 25 episodes with the greedy policy" in done.out
    assert "steps/s" in done.err and "left" in done.err
    return folder


def test_evaluate(agent: Path):
    done = run_command("rl", "evaluate", agent, "--episodes", "3", "--loss")
    assert done.code == 0, done.err
    assert "reward of 3 episodes as trained" in done.out
    assert "\n0 of " in done.out and "Cohen's D 0.000" in done.out
    assert "reward of 1 episode tree" in run_command("rl", "evaluate", agent, "--episodes", "1").out


def test_show(agent: Path, tmp_path: Path):
    done = run_command("rl", "show", agent)
    assert done.code == 0, done.err
    assert "pole" in done.out and "push left" in done.out
    done = run_command(
        "rl", "show", agent, "--svg", tmp_path / "t.svg", "--episode", tmp_path / "e.gif", "--steps", "4"
    )
    assert done.code == 0, done.err
    assert (tmp_path / "t.svg").read_text().startswith("<svg")
    assert (tmp_path / "e.gif").read_bytes().startswith(b"GIF8")
    assert "is neither .gif nor .png" in run_command("rl", "show", agent, "--episode", "e.mp4").err


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_exported_c_takes_the_same_actions(agent: Path, tmp_path: Path):
    assert run_command("rl", "export", agent, "--c", "-o", tmp_path / "policy.h").code == 0
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "policy.h"\nint main(void) { double x[4];\n'
        'while (scanf("%lf %lf %lf %lf", x, x + 1, x + 2, x + 3) == 4) printf("%d\\n", (int)policy_class(x));\n'
        "return 0; }\n"
    )
    subprocess.run(["cc", "-O2", "-std=c99", "-o", tmp_path / "main", tmp_path / "main.c", "-lm"], check=True)
    rows = np.random.default_rng(0).standard_normal((500, 4))
    text = "\n".join(" ".join(repr(float(cell)) for cell in row) for row in rows)
    said = subprocess.run([tmp_path / "main"], input=text, capture_output=True, text=True, check=True).stdout
    forest = hardwood.load(agent / "forest.safetensors")
    assert forest.classes is not None
    expected = forest.predict(rows)
    assert [str(forest.classes[int(line)]) for line in said.split()] == expected.tolist()


def test_wrong_usage(agent: Path, tmp_path: Path):
    for words, message in [
        (("train", "CartPol-v1", "-o", tmp_path / "a"), "gymnasium does not know it"),
        (("train", "CartPole-v1", "-o", agent), "holds an agent already"),
        (("train", "CartPole-v1", "-o", tmp_path / "a", "--set", "gama=1"), "gama=1: is no setting"),
        (("train", "CartPole-v1", "-o", tmp_path / "a", "--set", "gamma"), "write NAME=VALUE"),
        (("train", "CartPole-v1", "-o", tmp_path / "a", "--set", "gamma=high"), "is neither a number"),
        (("train", "CartPole-v1", "-o", tmp_path / "a", "--resume"), "--resume needs --checkpoint"),
        (("evaluate", tmp_path), "holds no agent.json"),
        (("export", agent), "say one of --c, --python and --onnx"),
        (("export", agent, "--onnx"), "--onnx needs a file"),
    ]:
        done = run_command("rl", *words)
        assert (done.code, done.out) == (2, ""), words
        assert message in done.err


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path):
    words = ("rl", "train", "CartPole-v1", *QUICK, "--checkpoint", tmp_path / "run.ckpt", "--quiet")
    assert run_command(*words, "-o", tmp_path / "a").err == ""
    done = run_command(*words, "--resume", "--steps", "3000", "-o", tmp_path / "b")
    assert done.code == 0, done.err
    assert "3,0" in done.out
