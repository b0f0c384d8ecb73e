"""Draws the diagrams of docs/paper.md: the model, thresholding and the flow of data.

python studies/diagrams.py          write docs/model.svg and docs/data-flow.svg again
"""

from math import hypot
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from scipy import stats

DOCS = Path(__file__).parent.parent / "docs"

INK = "#222222"
E_STEP = "#c0392b"
"""Red, as in the paper: what makes a pseudo-label."""
M_STEP = "#1f5fa8"
"""Blue, as in the paper: what trains the network."""
IMAGE = "#e3e3df"
NETWORK = "#f4e7c8"
PREDICTION = "#ffffff"
LABEL = "#f7dcd7"
PERTURBED = "#e2ecdf"

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "mathtext.fontset": "cm",
    "svg.hashsalt": "segpl",  # the same drawing gives the same file
}
SYMBOL_SIZE = 14

Point = tuple[float, float]
Node = Circle | FancyBboxPatch


def main() -> None:
    """Write both diagrams."""
    with mpl.rc_context(STYLE):
        _save(draw_model(), "model")
        _save(draw_data_flow(), "data-flow")


def _save(figure: Figure, name: str) -> None:
    """Write a figure to docs, without the date, so that a file changes only with its drawing."""
    figure.savefig(DOCS / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


def draw_model() -> Figure:
    """The graphical model of pseudo-labelling, and how a threshold makes a pseudo-label."""
    figure = Figure(figsize=(12, 4.6))
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.05)).flat
    _draw_graphical_model(_blank_axes(left, width=11.2, height=9.2))
    _draw_thresholding(right)
    return figure


def _draw_graphical_model(axes: Axes) -> None:
    _add_title(axes, "(a) Graphical model")
    _add_plate(axes, (0.2, 3.0), (6.2, 2.6), "unlabelled images $u$")
    _add_plate(axes, (0.2, 0.1), (6.2, 2.6), "labelled images $l$")

    old = _add_circle(axes, (1.6, 6.9), r"$\theta^{n-1}$", NETWORK)
    threshold = _add_circle(axes, (5.0, 6.9), "$T$", PREDICTION)
    x_u = _add_circle(axes, (1.6, 4.6), "$x_u$", IMAGE)
    pseudo_label = _add_circle(axes, (5.0, 4.6), "$y_u'$", LABEL)
    x_l = _add_circle(axes, (1.6, 1.7), "$x_l$", IMAGE)
    y_l = _add_circle(axes, (5.0, 1.7), "$y_l$", IMAGE)
    new = _add_circle(axes, (9.9, 4.6), r"$\theta^{n}$", NETWORK)

    for cause in (old, threshold, x_u):
        _add_arrow(axes, cause, pseudo_label, E_STEP)
    _add_arrow(axes, pseudo_label, new, M_STEP)
    _add_arrow(axes, x_u, new, M_STEP, bend=0.24)
    _add_arrow(axes, y_l, new, M_STEP, bend=0.1)
    _add_arrow(axes, x_l, new, M_STEP, bend=0.56)

    axes.plot([9.9, 9.9, 1.6], [5.3, 8.2, 8.2], color=INK, lw=1.4, ls="--")
    axes.annotate("", (1.6, 7.58), (1.6, 8.28), arrowprops={"arrowstyle": "-|>", "color": INK})
    axes.text(7.9, 8.35, "next iteration", ha="center", size=9)

    axes.text(5.85, 6.9, "SegPL: fixed\nSegPL-VI: learnt", va="center", size=9)
    axes.text(3.75, 6.2, "E-step", color=E_STEP, ha="center", weight="bold")
    axes.text(7.6, 4.8, "M-step", color=M_STEP, ha="center", weight="bold")


def _draw_thresholding(figure: SubFigure) -> None:
    """Probabilities along a line through an image, and the labels that thresholds cut from them."""
    grid = figure.add_gridspec(
        3,
        2,
        width_ratios=(4, 1),
        height_ratios=(4, 0.45, 1.8),
        hspace=0.14,
        wspace=0.03,
        left=0.12,
        right=0.97,
        top=0.9,
        bottom=0.06,
    )
    position = np.linspace(0, 1, 400)
    p = _made_up_probabilities(position)
    posterior = stats.norm(0.5, 0.1)
    drawn = posterior.ppf((np.arange(6) + 0.5) / 6)

    profile = figure.add_subplot(grid[0, 0])
    profile.set_title("(b) Thresholding a line of voxels", weight="bold", size=10, loc="left")
    profile.plot(position, p, color=INK, lw=1.8)
    profile.axhline(0.5, color=E_STEP, lw=1.6)
    for threshold in drawn:
        profile.axhline(threshold, color=M_STEP, lw=0.8, ls=(0, (4, 3)))
    profile.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[0, 0.5, 1])
    profile.set_ylabel(r"$p_u = \mathrm{sigmoid}\;\theta(x_u)$", size=12)
    profile.text(0.27, 0.97, "certain", ha="center", va="top", size=9)
    profile.text(0.63, 0.66, "doubtful", ha="center", size=9)

    density = figure.add_subplot(grid[0, 1], sharey=profile)
    levels = np.linspace(0, 1, 200)
    density.fill_betweenx(levels, posterior.pdf(levels), color=M_STEP, alpha=0.2, lw=0)
    density.plot(posterior.pdf(levels), levels, color=M_STEP, lw=1.4)
    density.axhline(0.5, color=E_STEP, lw=1.6)
    density.text(1.2, 0.82, "$p(T)$", color=M_STEP, size=12)
    density.set_xlim(0, 4.8)
    density.axis("off")

    _draw_labels(figure.add_subplot(grid[1, 0]), p, np.array([0.5]), E_STEP)
    _write(figure.add_subplot(grid[1, 1]), "SegPL:\n$T = 0.5$", E_STEP)
    _draw_labels(figure.add_subplot(grid[2, 0]), p, drawn, M_STEP)
    _write(figure.add_subplot(grid[2, 1]), "SegPL-VI:\n$T \\sim p(T)$", M_STEP)


def _made_up_probabilities(position: np.ndarray) -> np.ndarray:
    """A certain object, a doubtful one and a false hint."""
    certain = 0.85 * np.exp(-(((position - 0.27) / 0.13) ** 4))
    doubtful = 0.56 * np.exp(-(((position - 0.63) / 0.08) ** 2))
    hint = 0.36 * np.exp(-(((position - 0.88) / 0.05) ** 2))
    return 0.03 + certain + doubtful + hint


def _draw_labels(axes: Axes, p: np.ndarray, thresholds: np.ndarray, colour: str) -> None:
    """One row for each threshold, the lowest at the bottom, filled where p exceeds it."""
    axes.imshow(
        p > thresholds[:, None],
        cmap=ListedColormap(["white", colour]),
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        extent=(0, 1, 0, len(thresholds)),
    )
    for edge in range(1, len(thresholds)):
        axes.axhline(edge, color="white", lw=2)
    axes.set(xticks=[], yticks=[])
    axes.set_ylabel("$y_u'$", rotation=0, va="center", labelpad=14, size=SYMBOL_SIZE)


def _write(axes: Axes, text: str, colour: str) -> None:
    axes.text(0.06, 0.5, text, va="center", size=9, color=colour)
    axes.axis("off")


def draw_data_flow() -> Figure:
    """How four methods learn from an unlabelled image."""
    figure = Figure(figsize=(12, 6.9))
    rows, key = figure.subfigures(2, 1, squeeze=False, height_ratios=(15, 1)).flat
    panels = rows.subfigures(2, 2, squeeze=False)
    drawings = {
        "(a) SegPL: one network, one pass": _draw_segpl,
        "(b) CPS: two networks label for each other": _draw_cps,
        "(c) CCT: decoders of perturbed features agree with the main one": _draw_cct,
        "(d) FixMatch: a weak view labels a strong one": _draw_fixmatch,
    }
    for panel, (title, draw) in zip(panels.flat, drawings.items(), strict=True):
        axes = _blank_axes(panel, width=14.4, height=7.6)
        _add_title(axes, title)
        draw(axes)
    _draw_key(key)
    return figure


def _draw_segpl(axes: Axes) -> None:
    x = _add_box(axes, (1.0, 3.4), "$x_u$", IMAGE)
    theta = _add_box(axes, (4.9, 3.4), r"$\theta$", NETWORK)
    p = _add_box(axes, (8.8, 3.4), "$p_u$", PREDICTION)
    y = _add_box(axes, (13.2, 3.4), "$y_u'$", LABEL)
    _add_arrow(axes, x, theta)
    _add_arrow(axes, theta, p)
    _add_label_arrow(axes, p, y, bend=-0.4)
    _add_arrow(axes, y, p, M_STEP, bend=-0.4)
    axes.text(11.0, 4.75, "$p_u > T$", ha="center", color=E_STEP, size=12)
    axes.text(11.0, 1.9, "loss", ha="center", color=M_STEP)


def _draw_cps(axes: Axes) -> None:
    x = _add_box(axes, (1.0, 3.4), "$x_u$", IMAGE)
    predictions = []
    labels = []
    for number, height in ((1, 5.3), (2, 1.5)):
        theta = _add_box(axes, (4.9, height), rf"$\theta_{number}$", NETWORK)
        p = _add_box(axes, (8.8, height), f"$p_{number}$", PREDICTION)
        y = _add_box(axes, (13.2, height), f"$y_{number}'$", LABEL)
        _add_arrow(axes, x, theta)
        _add_arrow(axes, theta, p)
        _add_label_arrow(axes, p, y)
        predictions.append(p)
        labels.append(y)
    _add_arrow(axes, labels[0], predictions[1], M_STEP)
    _add_arrow(axes, labels[1], predictions[0], M_STEP)


def _draw_cct(axes: Axes) -> None:
    x = _add_box(axes, (1.0, 4.2), "$x_u$", IMAGE, width=1.4)
    trunk = _add_box(axes, (3.2, 4.2), "trunk", NETWORK, width=1.7)
    main_block = _add_box(axes, (8.3, 6.2), "last block", NETWORK, width=2.2)
    p = _add_box(axes, (11.1, 6.2), "$p_u$", PREDICTION, width=1.4)
    target = _add_box(axes, (13.6, 4.2), "$p_u$", LABEL, width=1.3)
    axes.text(13.6, 3.2, "target", ha="center", size=9, color=E_STEP)
    _add_arrow(axes, x, trunk)
    _add_arrow(axes, trunk, main_block)
    _add_arrow(axes, main_block, p)
    _add_label_arrow(axes, p, target)
    for number, name, height in ((1, "noise", 4.2), (2, "dropout", 2.6), (3, "masking", 1.0)):
        view = _add_box(axes, (5.9, height), name, PERTURBED, width=1.6)
        block = _add_box(axes, (8.3, height), f"last block {number}", NETWORK, width=2.2)
        auxiliary = _add_box(axes, (11.1, height), f"$p_{number}$", PREDICTION, width=1.4)
        _add_arrow(axes, trunk, view)
        _add_arrow(axes, view, block)
        _add_arrow(axes, block, auxiliary)
        _add_arrow(axes, target, auxiliary, M_STEP)


def _draw_fixmatch(axes: Axes) -> None:
    x = _add_box(axes, (1.0, 3.4), "$x_u$", IMAGE)
    y = _add_box(axes, (13.2, 3.4), "$y_u'$", LABEL)
    networks = []
    predictions = []
    for name, symbol, height in (("weak view", "w", 5.3), ("strong view", "s", 1.5)):
        view = _add_box(axes, (3.9, height), name, PERTURBED, width=2.3)
        theta = _add_box(axes, (7.0, height), r"$\theta$", NETWORK)
        p = _add_box(axes, (10.2, height), f"$p_{symbol}$", PREDICTION)
        _add_arrow(axes, x, view)
        _add_arrow(axes, view, theta)
        _add_arrow(axes, theta, p)
        networks.append(theta)
        predictions.append(p)
    weak, strong = predictions
    _add_label_arrow(axes, weak, y)
    _add_arrow(axes, y, strong, M_STEP)
    axes.plot([7.0, 7.0], [2.1, 4.7], color=INK, lw=1, ls=":")
    axes.text(7.2, 3.4, "same weights", va="center", size=9)
    axes.text(12.3, 4.7, "where\nconfident", color=E_STEP, size=9)
    axes.text(12.3, 1.5, "in the\nstrong view", color=M_STEP, size=9)


def _draw_key(figure: SubFigure) -> None:
    """What the colours of arrows mean, and the mark on red ones."""
    lines = {
        "flow of data": Line2D([], [], color=INK, lw=1.5),
        "makes a pseudo-label or target": Line2D([], [], color=E_STEP, lw=1.5),
        "no gradient": Line2D([], [], color=E_STEP, lw=0, marker=r"$/\!\!/$", ms=12),
        "supervises by the loss": Line2D([], [], color=M_STEP, lw=1.5),
    }
    figure.legend(list(lines.values()), list(lines), loc="center", ncols=4, frameon=False)


def _blank_axes(figure: SubFigure, width: float, height: float) -> Axes:
    """Axes without ticks, in which a unit is as long across as it is up."""
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return axes


def _add_title(axes: Axes, text: str) -> None:
    _, top = axes.get_ylim()
    axes.text(0.2, top, text, weight="bold", va="top")


def _add_plate(axes: Axes, corner: Point, size: Point, text: str) -> None:
    """The frame around what there is once for every image."""
    width, height = size
    axes.add_patch(Rectangle(corner, width, height, fill=False, ec="#8a8a85", lw=1))
    axes.text(corner[0] + 0.15, corner[1] + 0.15, text, size=9, color="#5c5c57")


def _add_circle(axes: Axes, centre: Point, text: str, colour: str) -> Node:
    circle = Circle(centre, 0.68, fc=colour, ec=INK, lw=1.2, zorder=3)
    axes.add_patch(circle)
    axes.text(*centre, text, ha="center", va="center", size=SYMBOL_SIZE, zorder=4)
    return circle


def _add_box(axes: Axes, centre: Point, text: str, colour: str, width: float = 1.5) -> Node:
    height = 1.1
    corner = (centre[0] - width / 2, centre[1] - height / 2)
    box = FancyBboxPatch(
        corner,
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.2",
        fc=colour,
        ec=INK,
        lw=1.2,
        zorder=3,
    )
    axes.add_patch(box)
    size = SYMBOL_SIZE if text.startswith("$") else 9
    axes.text(*centre, text, ha="center", va="center", size=size, zorder=4)
    return box


def _centre(node: Node) -> Point:
    if isinstance(node, Circle):
        return node.center
    return node.get_x() + node.get_width() / 2, node.get_y() + node.get_height() / 2


def _add_arrow(
    axes: Axes,
    start: Node,
    end: Node,
    colour: str = INK,
    bend: float = 0.0,
) -> None:
    """An arrow between the borders of two nodes; `bend` 0 is straight, 0.5 a wide arc."""
    arrow = FancyArrowPatch(
        _centre(start),
        _centre(end),
        patchA=start,
        patchB=end,
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=13,
        color=colour,
        lw=1.4,
        zorder=2,
    )
    axes.add_patch(arrow)


def _add_label_arrow(axes: Axes, start: Node, end: Node, bend: float = 0.0) -> None:
    """A red arrow to a pseudo-label, with the two strokes that stand for a stopped gradient."""
    _add_arrow(axes, start, end, E_STEP, bend)
    (x_0, y_0), (x_1, y_1) = _centre(start), _centre(end)
    across = x_1 - x_0
    up = y_1 - y_0
    length = hypot(across, up)
    # The middle of the curve that matplotlib's arc3 draws.
    middle = (
        (x_0 + x_1) / 2 + bend * up / 2,
        (y_0 + y_1) / 2 - bend * across / 2,
    )
    for offset in (-0.12, 0.12):
        x = middle[0] + offset * across / length
        y = middle[1] + offset * up / length
        stroke = 0.28
        axes.plot(
            [x - stroke * (-up + across / 2) / length, x + stroke * (-up + across / 2) / length],
            [y - stroke * (across + up / 2) / length, y + stroke * (across + up / 2) / length],
            color=E_STEP,
            lw=1.6,
            zorder=4,
        )


if __name__ == "__main__":
    main()
