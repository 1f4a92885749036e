"""The page 'Which metric?' shows what its code prints."""

import contextlib
import io
import re
from pathlib import Path

import mbct.metrics as metrics

PAGE = (Path(__file__).parents[3] / "docs" / "which-metric.md").read_text(encoding="utf-8")


def test_every_example_prints_what_the_page_shows():
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert printed.getvalue() == shown


def test_every_metric_is_on_the_page():
    missing = [name for name in metrics.__all__ if f"`{name}" not in PAGE and f"metrics.{name}" not in PAGE]
    assert missing == []
