"""The frozen model in other languages: rules, SQL, ONNX, LightGBM text, Python, C and PMML."""

from mbct.export.registry import TARGETS, Target, export_model

__all__ = ["TARGETS", "Target", "export_model"]
