"""A thin builder of ONNX graphs: nodes are named by their outputs, constants become initializers once."""

from typing import Any

import numpy.typing as npt

_OPSET = 18
_ML_OPSET = 3
_IR_VERSION = 8
"""The oldest versions that have all operators used here on doubles, so that older runtimes take the file too."""


class Graph:
    """A graph under construction, over inputs of shape [rows]."""

    def __init__(self) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self._proto, self._helper, self._numpy = TensorProto, helper, numpy_helper
        self.INT64: int = TensorProto.INT64
        self._inputs: list[Any] = []
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def input(self, name: str, *, text: bool) -> str:
        """Declare an input of strings or doubles."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._inputs.append(self._helper.make_tensor_value_info(name, kind, ["rows"]))
        return name

    def constant(self, values: npt.NDArray[Any]) -> str:
        """Name of a constant; equal constants are stored once."""
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            self._constants[key] = self._numpy.from_array(values, f"constant:{len(self._constants)}")
        return str(self._constants[key].name)

    def node(self, operator: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        """Append a node; returns the name of its only output."""
        output = f"node:{len(self._nodes)}:{operator}"
        self._nodes.append(self._helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def finished(self, result: str, output: str) -> bytes:
        """Serialise the graph with ``result`` as its only output, called ``output``."""
        from onnx import checker

        self._nodes.append(self._helper.make_node("Identity", [result], [output]))
        described = self._helper.make_tensor_value_info(output, self._proto.DOUBLE, ["rows"])
        graph = self._helper.make_graph(
            self._nodes, "calibration", self._inputs, [described], list(self._constants.values())
        )
        opsets = [self._helper.make_opsetid("", _OPSET), self._helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = self._helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="mbct")
        checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))
