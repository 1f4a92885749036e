"""The page in a real browser: type a row, see the calibrated value and its rules."""

import math
import re
import shutil

import httpx
import pytest

from builders import biased_clicks, random_rows
from mbct import MBCTCalibrator
from mbct.serving.row import RowScorer

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def watched(opened):
    opened.faults, opened.asked = [], []
    opened.on("console", lambda message: opened.faults.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.faults.append(str(error)))
    opened.on("request", lambda request: opened.asked.append(request.url))
    return opened


@pytest.fixture
def page(browser, service, request):
    context = browser.new_context(
        viewport={"width": 1100, "height": 900}, color_scheme=getattr(request, "param", "light")
    )
    opened = watched(context.new_page())
    opened.goto(service.url)
    opened.wait_for_selector("#trees li")
    yield opened
    context.close()


def fill(page, row):
    for name, value in row.items():
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        page.locator(f'#row input[name="{name}"]').fill(text)


def shown_value(page, expected):
    page.wait_for_function(
        "q => Math.abs(Number(document.getElementById('calibrated').textContent) - q) < 2e-3", arg=expected
    )
    return float(page.locator("#calibrated").text_content())


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_row_is_calibrated_and_explained(page, service, tmp_path):
    columns = random_rows(21, service.model, 3)
    scorer = RowScorer(service.model)
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        row["score"] = round(row["score"], 3)
        fill(page, row)
        expected = scorer.score_row(row)
        assert shown_value(page, expected) == pytest.approx(expected, rel=2e-3, abs=1e-4)
        assert page.locator("#trees li").count() == min(len(service.model.trees), 10) + 1
    assert page.locator("#trees .chip").count() > 0
    last = page.locator("#trees li .effect").last.text_content()
    assert page.locator("#calibrated").text_content() in last
    picture = tmp_path / "page.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000
    assert page.faults == []


def test_faults_are_said_in_words(page):
    page.locator('#row input[name="score"]').fill("1.5")
    page.wait_for_function("() => document.getElementById('message').textContent.includes('score')")
    assert page.locator("#result").is_hidden()
    page.locator('#row input[name="score"]').fill("0.3")
    page.wait_for_function("() => document.getElementById('message').textContent === ''")
    page.locator('#row input[name="number 0"]').fill("many")
    page.wait_for_function("() => document.getElementById('message').textContent === 'number 0: many is no number'")


def test_values_are_shown_as_text_never_run(page):
    page.locator('#row input[name="text_1"]').fill('<img src=x onerror="document.title=1">')
    page.wait_for_timeout(400)
    assert page.title() == "MBCT · calibrate a row"
    assert page.locator("#trees img").count() == 0


def test_it_fits_a_narrow_screen(page):
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_it_opens_with_an_example_that_is_filled_in(page, service):
    typed = page.locator("#row input").evaluate_all("inputs => inputs.map(input => input.value)")
    assert len(typed) == len(service.model.bins)
    assert all(typed)


def test_many_steps_are_the_ten_largest_and_the_rest_in_one_line(browser, start_service, tmp_path):
    data = biased_clicks(0, 4_000)
    MBCTCalibrator("p", max_trees=14, n_folds=2, model_size="full").fit(data.frame, "y").save(tmp_path / "model.json")
    served = start_service(repr(str(tmp_path / "model.json")))
    opened = watched(browser.new_page())
    opened.goto(served.url)
    opened.wait_for_selector("#trees li")
    trees = httpx.get(f"{served.url}/v1/model").json()["trees"]
    assert trees > 10
    factors = [float(text.split()[1]) for text in opened.locator("#trees .effect b").all_text_contents()]
    assert len(factors) == 12
    sizes = [abs(math.log(factor)) for factor in factors]
    assert sizes[:10] == sorted(sizes[:10], reverse=True)
    assert f"{trees - 10} smaller steps together" in opened.locator("#trees").text_content()
    assert factors[-1] == pytest.approx(math.prod(factors[:-1]), rel=0.01)
    assert opened.faults == []
    opened.close()


def test_the_openapi_document_is_shown_without_any_other_address(browser, service):
    opened = watched(browser.new_page(viewport={"width": 390, "height": 800}))
    opened.goto(f"{service.url}/docs")
    opened.wait_for_selector("details")
    assert opened.locator("summary code").all_text_contents() == list(
        httpx.get(f"{service.url}/openapi.json").json()["paths"]
    )
    opened.locator("button").first.click()
    opened.wait_for_function("() => document.querySelector('pre').textContent.includes('calibrated')")
    assert opened.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.faults == []
    assert all(url.startswith(service.url) for url in opened.asked)
    opened.close()


def test_the_page_asks_for_a_token_where_one_is_needed(browser, start_service, model_file):
    token = "a-long-enough-token"
    guarded = start_service(repr(str(model_file)), token=token)
    opened = browser.new_page()
    opened.goto(guarded.url)
    opened.wait_for_selector("#token", state="visible")
    opened.locator("#token").fill(token)
    opened.locator("#token").press("Enter")
    opened.wait_for_selector("#trees li")
    opened.close()


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_policy_allows_its_own_script_alone(service, path):
    answer = httpx.get(f"{service.url}{path}")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]+'", policy)
    outside = re.findall(r"(?:src|href)=[\"']?(?!data:)([^\"' >]+)", answer.text)
    assert outside == (["docs"] if path == "/" else ["./"])
