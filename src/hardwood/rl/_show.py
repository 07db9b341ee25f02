"""Episodes seen: frames of the environment, each beside the tree with the path that was taken."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardwood._typing import Float, Int, Shaped
from hardwood.errors import reject
from hardwood.rl._agent import Agent
from hardwood.rl._environments import make_single, options_for
from hardwood.rl._extra import optional

_GAP = 8  # pixels between frames of a strip


@dataclass(frozen=True)
class Episode:
    """One episode of an agent: what it saw and did, and, if asked for, how that looked."""

    rows: Float[np.ndarray, "steps columns"]
    actions: tuple[str, ...]  # in words
    reward: float
    frames: tuple[Shaped[np.ndarray, "height width 3"], ...]

    def save(self, path: str | os.PathLike[str], *, seconds: float = 0.1) -> None:
        """Write the frames: an animation for .gif, a strip of up to twelve frames for .png."""
        image = optional("PIL.Image", "hardwood.rl.Episode.save()")
        if not self.frames:
            reject("frames", 0, "the episode was played without frames", "play it with frames=True")
        suffix = Path(path).suffix.lower()
        if suffix == ".gif":
            pictures = [image.fromarray(frame) for frame in self.frames]
            duration = max(20, round(seconds * 1000))
            pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=duration, loop=0)
        elif suffix == ".png":
            image.fromarray(_strip(self.frames)).save(path)
        else:
            reject("path", os.fspath(path), "is neither .gif nor .png", "use .gif for an animation, .png for a strip")


def play(
    agent: Agent, *, env: Any = None, seed: int = 0, frames: bool = True, tree: bool = True, most_steps: int = 1000
) -> Episode:
    """Let the agent act in one episode.

    `env` is another one to act in; a function that makes one is given `render_mode` if frames are wanted.
    With `frames`, the environment is rendered; with `tree`, each frame stands beside the tree, the path taken dark.
    """
    which = agent.env if env is None else env
    options = options_for(which, agent.encoder) | ({"render_mode": "rgb_array"} if frames else {})
    made = make_single(which, **options)
    try:
        observation, _ = made.reset(seed=seed)
        rows, words, pictures, total = [], [], [], 0.0
        drawer = _TreePicture(agent) if frames and tree and agent.forest is not None else None
        for _ in range(most_steps):
            row = agent.encoder.encode_one(observation)
            rows.append(row[0])
            taken = agent.act(observation)
            words.append(_words(agent, taken))
            if frames:
                picture: Any = made.render()
                if picture is None:
                    reject("env", agent.env, "gives no frames to draw", "make it with render_mode='rgb_array'")
                picture = np.asarray(picture, np.uint8)
                pictures.append(picture if drawer is None else drawer.beside(picture, row))
            observation, reward, terminated, truncated, _ = made.step(taken)
            total += float(reward)
            if terminated or truncated:
                break
        if frames:
            picture = np.asarray(made.render(), np.uint8)
            pictures.append(picture if drawer is None else drawer.beside(picture, None))
        return Episode(np.array(rows), tuple(words), total, tuple(pictures))
    finally:
        made.close()


def _words(agent: Agent, taken: Any) -> str:
    if agent.actions.is_discrete:
        return agent.actions.names[agent.actions.codes.index(taken)]
    return ", ".join(f"{name} {value:.3g}" for name, value in zip(agent.actions.names, taken, strict=True))


class _TreePicture:
    """The tree as matplotlib draws it, once for every path that occurs."""

    def __init__(self, agent: Agent) -> None:
        optional("matplotlib", "drawing the tree beside the frames")
        self._agent = agent
        self._known: dict[int, Any] = {}

    def beside(self, frame: Any, row: Any) -> Any:
        """Return a frame with the tree to its right, with the path of `row` dark."""
        forest = self._agent.forest
        assert forest is not None
        key = -1 if row is None else int(forest.apply(row)[0, 0])
        if key not in self._known:
            self._known[key] = self._draw(row)
        picture = self._known[key]
        height = max(len(frame), len(picture))
        return np.concatenate([_padded(each, height) for each in (frame, picture)], 1)

    def _draw(self, row: Any) -> Shaped[np.ndarray, "height width 3"]:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        forest = self._agent.forest
        assert forest is not None
        figure = Figure(figsize=(6, 4), dpi=100)
        canvas: Any = FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        path = [] if row is None else _path(forest, row)
        places = _places(forest)
        deepest = max(1, forest.depth)
        for node, (x, depth) in places.items():
            for child in (int(forest.left[node]), int(forest.right[node])):
                if child < 0:
                    continue
                taken = node in path and child in path
                x2, depth2 = places[child]
                style: dict[str, Any] = {"color": "#b03030", "lw": 2.5} if taken else {"color": "#bbbbbb", "lw": 0.7}
                axes.plot([x, x2], [-depth, -depth2], zorder=1, **style)
            leaf = forest.left[node] < 0
            colour = "#b03030" if node in path else "#4477aa" if leaf else "#888888"
            axes.scatter([x], [-depth], s=36 if node in path else 12, color=colour, zorder=2)
        if path:
            from hardwood.draw._words import Words

            words = Words(forest, 0)
            steps = [words.condition(node, path[at + 1] == int(forest.left[node])) for at, node in enumerate(path[:-1])]
            action = self._agent.actions.to_environment(self._agent.actor.greedy(row))[0]
            label = "\n".join([*steps, f"-> {_words(self._agent, action)}"])
            axes.text(0.01, 0.01, label, transform=axes.transAxes, fontsize=7, va="bottom", family="monospace")
        axes.set_ylim(-deepest - 0.5 - 0.35 * deepest, 0.5)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _path(forest: Any, row: Any) -> list[int]:
    matrix, _ = forest.decision_path(row)
    return sorted(int(node) for node in matrix.indices)


def _places(forest: Any) -> dict[int, tuple[float, int]]:
    """Return where each node is drawn: leaves side by side, a split above the middle of its two."""
    places: dict[int, tuple[float, int]] = {}
    leaves = 0

    def place(node: int, depth: int) -> float:
        nonlocal leaves
        if forest.left[node] < 0:
            x = float(leaves)
            leaves += 1
        else:
            x = (place(int(forest.left[node]), depth + 1) + place(int(forest.right[node]), depth + 1)) / 2
        places[node] = (x, depth)
        return x

    place(0, 0)
    return places


def _padded(picture: Any, height: int) -> Any:
    below = height - len(picture)
    return np.pad(picture, ((0, below), (0, 0), (0, 0)), constant_values=255)


def _strip(frames: Sequence[Any], most: int = 12, columns: int = 3) -> Shaped[np.ndarray, "height width 3"]:
    """Return frames at even distances, in lines from left to right."""
    chosen: Int[np.ndarray, " some"] = np.unique(np.linspace(0, len(frames) - 1, min(most, len(frames))).round())
    shown = [frames[int(index)] for index in chosen]
    height, width = shown[0].shape[:2]
    columns = min(columns, len(shown))
    lines = -(-len(shown) // columns)
    page = np.full((lines * (height + _GAP), columns * (width + _GAP), 3), 255, np.uint8)
    for number, frame in enumerate(shown):
        y, x = divmod(number, columns)
        page[y * (height + _GAP) :, x * (width + _GAP) :][:height, :width] = frame
    return page
