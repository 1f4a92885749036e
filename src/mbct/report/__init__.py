"""The report: one self-contained HTML page about a calibrator on labelled rows (extra ``report``)."""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.report.build import ReportOptions as ReportOptions
    from mbct.report.build import ReportSummary as ReportSummary
    from mbct.report.build import build_report as build_report
    from mbct.report.build import write_report as write_report

__getattr__, __dir__, __all__ = lazy_names(
    __name__, ("mbct.report.build", "ReportOptions ReportSummary build_report write_report")
)
