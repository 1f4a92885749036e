"""Make the pictures of the report guide: ``python docs/images/make_report_images.py`` (needs playwright, chromium)."""

import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from mbct import MBCTCalibrator
from mbct.report import write_report

FOLDER = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
PICTURES = (("report-wide.png", 1400, 1060, "light", None), ("report-phone.png", 390, 844, "dark", "#tree"))


def clicks(seed: int, n_rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Simulated clicks, predicted 1.6 times too low on mobile and too high on desktop at night."""
    rng = np.random.default_rng(seed)
    device = rng.choice(["mobile", "desktop"], n_rows)
    hour = rng.integers(0, 24, n_rows)
    site = np.array([f"site {i}" for i in np.minimum(rng.geometric(0.25, n_rows), 12)])
    pctr = rng.beta(1.2, 9.0, n_rows)
    bias = np.where(device == "mobile", 1.6, np.where((hour < 6) | (hour > 21), 0.7, 1.0))
    click = (rng.random(n_rows) < np.clip(pctr * bias, 0, 1)).astype(float)
    return {"pctr": pctr, "device": device, "hour": hour, "site": site}, click


def main() -> None:
    """Fit on one half, report on the other, take the pictures."""
    calibrator = MBCTCalibrator("pctr", preset="paper").fit(*clicks(0, 30_000))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        page_file = Path(folder) / "report.html"
        write_report(calibrator, *clicks(1, 30_000), page_file, title="Clicks, week 46")
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, width, height, scheme, anchor in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-drawn=yes]")
            if anchor is not None:
                page.evaluate("(a) => { document.querySelector(`${a} details.chapter`).open = true; }", anchor)
                page.wait_for_selector(f"{anchor} .chart svg")
                page.evaluate("(a) => document.querySelector(a).scrollIntoView({behavior: 'instant'})", anchor)
            page.screenshot(path=FOLDER / name)
        browser.close()


if __name__ == "__main__":
    main()
