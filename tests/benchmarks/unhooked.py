"""A copy of a model without its hook points: what they cost a pass that nobody listens to is measured against it."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from model.hooks import observe
from model.transformer import Transformer

_ARGUMENTS = ("hook", "pos_hook")  # as which `Transformer._embed` is given two of them


def without_hooks(transformer: Transformer, ids: Tensor) -> Transformer:
    """A copy whose methods are the same source with every call of a hook point replaced by its argument.

    ids: `(B, T)`, for a pass that proves it: no hook is heard of, and the logits are the same.

    Raises:
        AssertionError: if that pass says otherwise.
    """
    bare = copy.deepcopy(transformer)
    for module in bare.modules():
        if type(module).__module__.startswith("model."):
            for name, function in inspect.getmembers(type(module), inspect.isfunction):
                if function.__module__.startswith("model."):
                    stripped = _stripped(function)
                    if stripped is not None:
                        object.__setattr__(module, name, MethodType(stripped, module))
    heard: list[str] = []
    with torch.no_grad(), observe(lambda name, value: heard.append(name)):
        logits = bare(ids)
    assert not heard, f"{heard[0]} is still there"
    with torch.no_grad():
        assert torch.equal(logits, transformer(ids)), "the copy computes something else"
    return bare


_known: dict[Callable[..., Any], FunctionType | None] = {}


def _stripped(function: FunctionType) -> FunctionType | None:
    """The function without its hook points; None where it has none."""
    if function not in _known:
        source = ast.parse(textwrap.dedent(inspect.getsource(function)))
        stripping = _Strip()
        tree = ast.fix_missing_locations(stripping.visit(source))
        if stripping.found:
            names: dict[str, Any] = {}
            # S102 would be right of any other source than our own.
            exec(compile(tree, "<without hooks>", "exec"), vars(sys.modules[function.__module__]), names)
            _known[function] = names[function.__name__]
        else:
            _known[function] = None
    return _known[function]


class _Strip(ast.NodeTransformer):
    """`self.hook_q(x)` → `x`, `self.hook_q.edited` → False, `listening()` → False."""

    found = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "listening":
            return self._instead(ast.Constant(False))
        return self._instead(node.args[0]) if _is_hook(node.func) and len(node.args) == 1 else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return self._instead(ast.Constant(False)) if _is_hook(node.value) else node

    def _instead(self, node: ast.AST) -> ast.AST:
        self.found += 1
        return node


def _is_hook(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr.startswith(("hook_", "encoder_hook_"))
    return isinstance(node, ast.Name) and node.id in _ARGUMENTS
