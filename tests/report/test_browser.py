"""The report in a real browser: nothing fails, nothing is fetched, everything is drawn, folds and filters."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

CHROMIUM = Path("/usr/bin/chromium")
SIZES = [(390, "light"), (390, "dark"), (1400, "light"), (1400, "dark")]

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no browser at {CHROMIUM}: apt-get install chromium")


@dataclass
class Opened:
    """A page and all that it complained about or asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    height: int = 0
    """As the page opens, with chapters for specialists folded."""


def unfold(page: Any) -> None:
    """Open every chapter, and wait for its charts."""
    page.evaluate("document.querySelectorAll('details.chapter, details.more').forEach((each) => { each.open = true; })")
    page.wait_for_function(
        "Array.from(document.querySelectorAll('.chart')).every((chart) => chart.querySelector('svg'))", timeout=60_000
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}-{size[1]}")
def opened(request: pytest.FixtureRequest, browser: Any, report: tuple[Path, Any]) -> Iterator[Opened]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = Opened(context.new_page())
    found.page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))

    def route(handler: Any) -> None:
        if handler.request.url == report[0].as_uri():
            handler.continue_()
        else:
            found.requests.append(handler.request.url)
            handler.abort()

    found.page.route("**/*", route)
    found.page.goto(report[0].as_uri())
    found.page.wait_for_selector("html[data-drawn=yes]", timeout=60_000)
    found.height = found.page.evaluate("document.documentElement.scrollHeight")
    unfold(found.page)
    yield found
    context.close()


def test_nothing_fails_and_nothing_is_fetched(opened: Opened) -> None:
    assert opened.complaints == []
    assert opened.requests == []
    assert opened.page.evaluate("window.broken") is None


def test_every_chart_is_drawn_inside_its_place(opened: Opened) -> None:
    drawn = opened.page.evaluate(
        """() => Array.from(document.querySelectorAll(".chart"), (chart) => {
            const svg = chart.querySelector("svg");
            const box = svg ? svg.getBoundingClientRect() : { width: 0, height: 0, right: 0 };
            return { id: chart.id, marks: svg ? svg.querySelectorAll("path, line").length : 0, width: box.width,
                     height: box.height, over: box.right - chart.getBoundingClientRect().right };
        })"""
    )
    assert {chart["id"] for chart in drawn} >= {
        "chart-reliability",
        "chart-gaps",
        "chart-scores",
        "chart-field-0",
        "chart-views",
        "chart-pud-0",
        "chart-pud-1",
        "chart-global-loss",
        "chart-local-loss",
    }
    for chart in drawn:
        assert chart["marks"] > 5, chart
        assert chart["width"] > 200, chart
        assert chart["height"] > 50, chart
        assert chart["over"] <= 1, chart


def test_the_page_is_short(opened: Opened) -> None:
    assert opened.height <= (6000 if opened.page.viewport_size["width"] == 1400 else 9000)


def test_a_link_unfolds_its_chapter(opened: Opened) -> None:
    chapter = opened.page.locator("#rules details.chapter")
    chapter.evaluate("(each) => { each.open = false; }")
    opened.page.click('nav a[href="#rules"]')
    opened.page.wait_for_selector("#rules details.chapter[open]")
    assert opened.page.locator("#rule-search").is_visible()


def test_every_tile_says_what_its_figure_means(opened: Opened) -> None:
    tiles = opened.page.locator(".tile").all()
    assert [tile.get_attribute("title") for tile in tiles[:2]] == [
        "rows that were evaluated",
        "the mean surprise at what happened",
    ]
    states = opened.page.locator(".tile .badge").all_inner_texts()
    assert len(states) == len(tiles) - 1
    assert set(states) <= {"better", "worse", "unchanged"}


def test_the_page_does_not_scroll_sideways(opened: Opened) -> None:
    assert opened.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_no_table_scrolls_sideways_and_every_cell_has_its_heading(opened: Opened) -> None:
    wider = "Array.from(document.querySelectorAll('.scroll'), (frame) => frame.scrollWidth - frame.clientWidth)"
    assert max(opened.page.evaluate(wider)) <= 0
    cell = opened.page.locator("#fields td:nth-child(5)").first
    assert opened.page.locator("#fields th:nth-child(5)").first.inner_text() == "after"
    heading = cell.evaluate("(cell) => getComputedStyle(cell, '::before').content")
    narrow = opened.page.viewport_size["width"] < 500
    assert heading == ('"Field-ECE after"' if narrow else "none")


def test_the_tree_folds(opened: Opened) -> None:
    leaves = opened.page.locator("#tree-outline .leaf")
    opened.page.click("button[data-fold=close]")
    assert not any(leaf.is_visible() for leaf in leaves.all())
    opened.page.click("button[data-fold=open]")
    assert leaves.count() > 2
    assert all(leaf.is_visible() for leaf in leaves.all())
    opened.page.locator("#tree-outline summary").first.click()
    assert not leaves.first.is_visible()
    root = opened.page.locator("#tree-outline summary").first.inner_text()
    assert "rows" in root
    assert "×" in root
    assert "±" in root
    assert "global" in root


def test_the_search_filters_rules(opened: Opened) -> None:
    rows = opened.page.locator("#rules-table tbody tr")
    total = rows.count()
    opened.page.fill("#rule-search", "DEVICE mobile")
    shown = [row.inner_text().lower() for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < total
    assert all("device" in text and "mobile" in text for text in shown)
    assert opened.page.inner_text("#rule-count") == f"{len(shown)} of {total} rules"
    opened.page.fill("#rule-search", "no such thing")
    assert not any(row.is_visible() for row in rows.all())
    opened.page.fill("#rule-search", "")
    assert all(row.is_visible() for row in rows.all())


def _luminance(colour: str) -> float:
    channels = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


TEXTS = [".verdict", ".lead", ".interval", "nav a", ".badge", ".badge.good", ".fact", "#chart-views svg text"]


def test_text_stands_out_from_its_ground(opened: Opened) -> None:
    """WCAG AA: a contrast of 4.5 for text, in both colour schemes, in the charts too."""
    colours = opened.page.evaluate(
        """(selectors) => selectors.map((selector) => {
            const element = document.querySelector(selector);
            let below = element;
            while (getComputedStyle(below).backgroundColor === "rgba(0, 0, 0, 0)") below = below.parentElement;
            const style = getComputedStyle(element);
            return [element.ownerSVGElement ? style.fill : style.color, getComputedStyle(below).backgroundColor];
        })""",
        TEXTS,
    )
    for selector, (ink, ground) in zip(TEXTS, colours, strict=True):
        light, dark = sorted([_luminance(ink), _luminance(ground)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, selector


def test_print_is_black_on_white(opened: Opened) -> None:
    opened.page.emulate_media(media="print")
    body = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == "rgb(255, 255, 255)"
    assert not opened.page.locator("nav").is_visible()
