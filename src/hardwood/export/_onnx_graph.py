"""A small builder of ONNX graphs: operations by name, constants as initializers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np


class Graph:
    """Collects the nodes and constants of a graph. Values are known by their names, which `add` returns."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, operation: str, *inputs: str, name: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Append one operation of one result, and return the result's name."""
        from onnx import helper

        name = name or f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, name: str, values: Any) -> str:
        """Store an array or a number, and return its name."""
        from onnx import numpy_helper

        self.constants[name] = numpy_helper.from_array(np.asarray(values, order="C"), name)
        return name

    def texts(self, name: str, values: list[str]) -> str:
        """Store texts, and return their name."""
        from onnx import TensorProto, helper

        encoded = [text.encode("utf-8") for text in values]
        self.constants[name] = helper.make_tensor(name, TensorProto.STRING, [len(encoded)], cast("Any", encoded))
        return name
