"""`hardwood rl`: policies for gymnasium environments: train, evaluate, show, export."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hardwood.rl import Agent, Progress
else:
    Agent = Progress = Any

_HELP = """Learn a policy that is one hard tree, by acting in a gymnasium environment.

\b
  hardwood rl train CartPole-v1 -o cartpole/
  hardwood rl evaluate cartpole/
  hardwood rl show cartpole/ --episode episode.gif
  hardwood rl export cartpole/ --c -o policy.h

The tree that is written is the policy that was trained: it takes the same action in every state. Environments are found
by their gymnasium ids; pip install "hardwood[rl]" brings gymnasium, MiniGrid and what LunarLander needs."""

_TRAIN_HELP = """Train a policy in ENV, a gymnasium id such as CartPole-v1, and write it to a folder.

\b
A tree that one can read:
  hardwood rl train CartPole-v1 -o cartpole/
Fewer steps, a smaller tree, and the end as soon as a validation reaches a reward:
  hardwood rl train CartPole-v1 --steps 200000 --depth 5 --target 500 -o cartpole/
What it is compared with: a network, trees that imitate one, a soft tree, and the tree read off that:
  hardwood rl train CartPole-v1 --policy mlp -o network/
  hardwood rl train CartPole-v1 --policy sa-dt --depth 8 -o imitation/
  hardwood rl train CartPole-v1 --policy d-sdt -o discretised/
A long run that survives being killed: say the same again and it goes on where it was:
  hardwood rl train LunarLander-v3 --checkpoint run.ckpt --resume -o lander/

The policy with the best validation reward is written. Ctrl-C ends training with the best one so far."""


@click.group("rl", help=_HELP, short_help="Learn a tree policy for a gymnasium environment.")
def command() -> None:
    """Hold the commands together."""


def _setting(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"--set {text}: write NAME=VALUE, as in --set gamma=0.99")
    name = name.strip().replace("-", "_")
    if value in ("true", "false"):
        return name, value == "true"
    if value in ("none", "None"):
        return name, None
    for kind in (int, float):
        try:
            return name, kind(value.replace("_", ""))
        except ValueError:
            continue
    raise click.UsageError(f"--set {text}: the value is neither a number nor true, false or none")


@command.command("train", help=_TRAIN_HELP, short_help="Train a policy.")
@click.argument("env")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="Where to write the agent.")
@click.option("-f", "--force", is_flag=True, help="Replace an agent that is there already.")
@click.option(
    "-p",
    "--policy",
    type=click.Choice(["tree", "mlp", "soft-tree", "d-sdt", "sa-dt", "viper"]),
    default="tree",
    show_default=True,
    help="tree: SYMPOL's. The others are what it is compared with.",
)
@click.option("--algorithm", type=click.Choice(["ppo", "a2c"]), default="ppo", show_default=True, help="How to learn.")
@click.option("--steps", type=click.IntRange(1), help="Steps of all environments together. [1000000]")
@click.option("--depth", type=click.IntRange(1, 16), help="Levels of splits of a tree. [7; 5 for sa-dt and viper]")
@click.option("--envs", type=click.IntRange(1), help="Environments that step together.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything that is drawn.")
@click.option("--target", type=float, metavar="REWARD", help="Stop when a validation reaches this reward.")
@click.option(
    "--backend",
    type=click.Choice(["auto", "gymnasium", "envpool"]),
    default="auto",
    show_default=True,
    help="Who steps the environments.",
)
@click.option("--checkpoint", metavar="FILE", help="Write a checkpoint here at every validation.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint, if it is there.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A setting of hardwood.rl.Settings. Repeat.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def train_command(
    env: str,
    output: str,
    force: bool,
    policy: str,
    algorithm: str,
    steps: int | None,
    depth: int | None,
    envs: int | None,
    seed: int,
    target: float | None,
    backend: Any,
    checkpoint: str | None,
    resume: bool,
    given: tuple[str, ...],
    quiet: bool,
) -> None:
    """Train, and say how good the policy is in episodes that it has not seen."""
    import os
    from pathlib import Path

    from hardwood import rl
    from hardwood.cli._say import say
    from hardwood.errors import reject
    from hardwood.rl._agent import DESCRIPTION, check_folder

    settings = dict(map(_setting, given))
    settings |= {
        name: value for name, value in {"steps": steps, "depth": depth, "n_envs": envs}.items() if value is not None
    }
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint FILE")
    folder = Path(os.path.realpath(output))
    check_folder(folder)
    if (folder / DESCRIPTION).exists() and not force:
        reject("--output", output, "holds an agent already", "add --force to replace it, or pass a new folder")
    shown = _Shown(quiet)
    try:
        agent = rl.train(
            env, policy=policy, algorithm=algorithm, seed=seed, target=target, backend=backend, checkpoint=checkpoint,
            resume=resume, on_progress=shown, **settings,
        )  # fmt: skip
    finally:
        shown.close()
    agent.save(folder)
    say(_about(agent))
    say(_rewards(agent.evaluate(25, seed=seed), "with the greedy policy, in gymnasium's environments"))


@command.command("evaluate", short_help="Run episodes with a policy.")
@click.argument("agent")
@click.option("--episodes", type=click.IntRange(1), default=25, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the episodes.")
@click.option("--env", metavar="ENV", help="Another environment with the same observations and actions.")
@click.option("--loss", is_flag=True, help="Also compare the trained policy with the tree, decision by decision.")
def evaluate_command(agent: str, episodes: int, seed: int, env: str | None, loss: bool) -> None:
    """Evaluate AGENT, a folder that `hardwood rl train` wrote.

    \b
      hardwood rl evaluate cartpole/ --episodes 100
      hardwood rl evaluate cartpole/ --loss
    """
    from hardwood import rl
    from hardwood.cli._say import say

    read = rl.load_agent(agent)
    if not loss:
        say(_rewards(read.evaluate(episodes, seed=seed, env=env), read.kind))
        return
    lost = read.information_loss(episodes, seed=seed, env=env)
    say(_rewards(lost.trained, "as trained"))
    say(_rewards(lost.applied, "as exported"))
    say(f"{lost.different:,} of {lost.decisions:,} decisions differ; Cohen's D {lost.cohens_d:.3f}")


@command.command("show", short_help="Show the tree, or an episode.")
@click.argument("agent")
@click.option("--svg", metavar="FILE", help="Write a picture of the tree.")
@click.option("--episode", metavar="FILE", help="Play an episode: an animation (.gif) or a strip of frames (.png).")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the episode.")
@click.option("--env", metavar="ENV", help="Play in another environment with the same observations and actions.")
@click.option("--no-tree", is_flag=True, help="Leave the tree beside the frames out.")
@click.option("--steps", type=click.IntRange(1), default=500, show_default=True, help="The longest episode.")
def show_command(
    agent: str, svg: str | None, episode: str | None, seed: int, env: str | None, no_tree: bool, steps: int
) -> None:
    """Show AGENT, a folder that `hardwood rl train` wrote.

    \b
      hardwood rl show cartpole/
      hardwood rl show cartpole/ --episode episode.gif
    """
    from hardwood import draw, rl
    from hardwood.cli._outputs import check_output, write_text
    from hardwood.cli._say import say
    from hardwood.errors import reject

    for argument, path in (("--svg", svg), ("--episode", episode)):
        if path is not None:
            check_output(path, argument)
    if episode is not None and not episode.lower().endswith((".gif", ".png")):
        reject("--episode", episode, "is neither .gif nor .png", "use .gif for an animation, .png for a strip")
    read = rl.load_agent(agent)
    if svg is not None:
        if read.forest is None:
            reject("--svg", svg, f"a {read.kind} policy has no tree", 'train one with --policy tree, or "d-sdt"')
        write_text(svg, draw.svg(read.forest, title=read.env) + "\n")
    if episode is not None:
        played = rl.play(read, env=env, seed=seed, tree=not no_tree, most_steps=steps)
        played.save(episode)
        say(f"{len(played.actions)} steps, reward {played.reward:.6g}: {episode}")
    if svg is None and episode is None:
        say(_about(read))
        if read.forest is not None:
            say("\n" + draw.text(read.forest))


@command.command("export", short_help="Write the tree as C, or in other formats.")
@click.argument("agent")
@click.option("--c", "c", is_flag=True, help="C source; a header if FILE ends in .h.")
@click.option("--python", "python", is_flag=True, help="Python source.")
@click.option("--onnx", is_flag=True, help="ONNX, for onnxruntime.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to; - for stdout.")
@click.option("--name", default="policy", show_default=True, metavar="NAME", help="What all names in C begin with.")
def export_command(agent: str, c: bool, python: bool, onnx: bool, output: str, name: str) -> None:
    """Write the tree of AGENT, a folder that `hardwood rl train` wrote.

    \b
      hardwood rl export cartpole/ --c -o policy.h

    In C, `policy_class(x)` gives the place of the action among `policy_class_names`; a continuous policy's
    `policy_predict(x, out)` gives the numbers to set.
    """
    from pathlib import Path

    from hardwood import export, rl
    from hardwood.cli._outputs import check_output, replace_file, write_text
    from hardwood.errors import reject

    if c + python + onnx != 1:
        raise click.UsageError("say one of --c, --python and --onnx")
    if onnx and output == "-":
        raise click.UsageError("--onnx needs a file: -o policy.onnx")
    check_output(output)
    read = rl.load_agent(agent)
    if read.forest is None:
        reject("AGENT", agent, f"a {read.kind} policy has no tree", 'train one with --policy tree, or "d-sdt"')
    if c:
        write_text(output, export.to_c(read.forest, name=name, header=output.endswith(".h")))
    elif python:
        write_text(output, export.to_python(read.forest))
    else:
        content = export.to_onnx(read.forest).SerializeToString()
        replace_file(output, lambda place: Path(place).write_bytes(content))


def _about(agent: Agent) -> str:
    from hardwood.cli._say import count

    lines = [f"{agent.env}: {agent.kind} policy, {_how(agent)}"]
    if agent.forest is not None:
        size = f"{count(agent.forest.node_count, 'node')} ({count(agent.forest.n_leaves, 'leaf', 'leaves')})"
        lines.append(f"tree: {size}, depth {agent.forest.depth}, {count(agent.forest.n_features, 'column')}")
    if agent.about.get("best_validation") is not None:
        lines.append(f"best validation reward while training: {agent.about['best_validation']:.6g}")
    return "\n".join(lines)


def _how(agent: Agent) -> str:
    about = agent.about
    stopped = ", interrupted" if about.get("interrupted") else ""
    made = f" made from a trained {agent.policy.kind}," if agent.policy and agent.policy.kind != agent.kind else ""
    return (
        f"{made} {about['algorithm']}, {about['steps']:,} steps in {about['seconds']:.0f} s, "
        f"seed {about['seed']}{stopped}"
    ).strip()


def _rewards(rewards: Any, what: str) -> str:
    spread = f" +- {rewards.std(ddof=1):.4g}" if len(rewards) > 1 else ""
    return (
        f"reward of {len(rewards)} episode{'s' if len(rewards) > 1 else ''} {what}: {rewards.mean():.6g}{spread} "
        f"(worst {rewards.min():.6g})"
    )


class _Shown:
    """Progress: a bar on a terminal, a line at every validation elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, now: Progress) -> None:
        if self._quiet:
            return
        if sys.stderr.isatty():
            self._draw(now)
        elif now.validated:
            sys.stderr.write(f"{now.steps:,} of {now.total_steps:,} steps: {_state(now)}\n")
            sys.stderr.flush()

    def _draw(self, now: Progress) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn("steps"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[state]}"))
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task("", total=now.total_steps, state="")
            self._bar.start()
        self._bar.update(self._task, completed=now.steps, state=_state(now))

    def close(self) -> None:
        """Leave the last state standing."""
        if self._bar is not None:
            self._bar.stop()


def _state(now: Progress) -> str:
    reward = "" if now.reward is None else f"reward {now.reward:.4g}, "
    validation = "" if now.validation is None else f"validation {now.validation:.4g} (best {now.best:.4g}), "
    minutes, seconds = divmod(int(now.seconds_left), 60)
    return f"{reward}{validation}{now.steps_per_second:,.0f} steps/s, {minutes}:{seconds:02} left"
