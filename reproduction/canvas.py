"""Figures: one style, the same bytes for the same numbers."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mbct.errors import MissingDependencyError
from reproduction.parts import write

COLOURS = {
    "blue": "#1f5fa8",
    "orange": "#d9730d",
    "green": "#2e7d4f",
    "red": "#b3261e",
    "violet": "#6b4fa0",
    "grey": "#6f6f6f",
    "teal": "#11808a",
    "brown": "#8a5a2b",
}
_STYLE: Any = {
    "svg.hashsalt": "mbct",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.facecolor": "white",
}


@contextmanager
def figure(path: Path, n_rows: int, n_columns: int, size: tuple[float, float], **subplots: Any) -> Iterator[Any]:
    """Yield (figure, array of axes); on leaving, the figure is written to ``path`` as SVG."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependencyError(
            "the figures need matplotlib, which is not installed: pip install 'mbct[reproduce]'"
        ) from error
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        drawn = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(drawn)
        yield drawn, drawn.subplots(n_rows, n_columns, squeeze=False, **subplots)
        buffer = io.BytesIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "mbct"})
    write(path, buffer.getvalue().decode())


def plain_log_ticks(axis: Any) -> None:
    """Ticks of a logarithmic axis at 1 and 3 times the powers of ten, written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
