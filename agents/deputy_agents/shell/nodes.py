"""Finds nodes in a syntax tree of tree-sitter."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


def first_child(node: "Node", kind: str) -> "Node | None":
    """The first child of that type."""
    return next((found for found in node.children if found.type == kind), None)


def leading(node: "Node") -> "Node":
    """The first statement of a pipeline, inside all redirections and pipelines that tree-sitter puts around it."""
    while node.type in ("redirected_statement", "pipeline"):
        node = node.children[0]
    return node
