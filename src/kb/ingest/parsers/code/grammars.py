"""The node types of definitions in each tree-sitter grammar.

A language's package is imported when the first file in that language is parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser


@dataclass(frozen=True, slots=True)
class Grammar:
    """Node types by their role in the outline of a file."""

    module: str
    leaves: frozenset[str]  # definitions that are never split
    containers: frozenset[str] = frozenset()  # definitions that are split into members if long
    wrappers: frozenset[str] = frozenset()  # may contain one: decorators, exports, templates
    assigned: frozenset[str] = frozenset()  # definitions if the value is a function or a class
    transparent: frozenset[str] = frozenset()  # contain several without a name: #ifdef, extern "C"
    leading: frozenset[str] = frozenset({"comment"})  # belong to the definition below
    function: str = "language"


def _types(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C = Grammar(
    module="tree_sitter_c",
    leaves=_types(
        "function_definition struct_specifier union_specifier enum_specifier type_definition "
        "preproc_function_def"
    ),
    transparent=_types(
        "preproc_if preproc_ifdef preproc_else preproc_elif preproc_elifdef linkage_specification"
    ),
)
_JAVASCRIPT = Grammar(
    module="tree_sitter_javascript",
    leaves=_types(
        "function_declaration generator_function_declaration method_definition arrow_function "
        "function_expression"
    ),
    containers=_types("class_declaration class"),
    wrappers=_types(
        "export_statement lexical_declaration variable_declaration expression_statement"
    ),
    assigned=_types("variable_declarator field_definition assignment_expression"),
    leading=_types("comment decorator"),
)


def _typescript(function: str) -> Grammar:
    return Grammar(
        module="tree_sitter_typescript",
        function=function,
        leaves=_JAVASCRIPT.leaves
        | _types(
            "function_signature method_signature abstract_method_signature interface_declaration "
            "type_alias_declaration enum_declaration"
        ),
        containers=_JAVASCRIPT.containers
        | _types("abstract_class_declaration internal_module module"),
        wrappers=_JAVASCRIPT.wrappers | _types("ambient_declaration"),
        assigned=_JAVASCRIPT.assigned | _types("public_field_definition"),
        leading=_JAVASCRIPT.leading,
    )


GRAMMARS = {
    "c": _C,
    "cpp": Grammar(
        module="tree_sitter_cpp",
        leaves=_types(
            "function_definition union_specifier enum_specifier type_definition "
            "preproc_function_def concept_definition"
        ),
        containers=_types("class_specifier struct_specifier namespace_definition"),
        wrappers=_types("template_declaration field_declaration declaration"),
        transparent=_C.transparent,
    ),
    "go": Grammar(
        module="tree_sitter_go",
        leaves=_types("function_declaration method_declaration type_declaration"),
    ),
    "java": Grammar(
        module="tree_sitter_java",
        leaves=_types(
            "method_declaration constructor_declaration compact_constructor_declaration "
            "annotation_type_declaration"
        ),
        containers=_types(
            "class_declaration interface_declaration enum_declaration record_declaration"
        ),
        leading=_types("line_comment block_comment"),
    ),
    "javascript": _JAVASCRIPT,
    "python": Grammar(
        module="tree_sitter_python",
        leaves=_types("function_definition"),
        containers=_types("class_definition"),
        wrappers=_types("decorated_definition"),
    ),
    "rust": Grammar(
        module="tree_sitter_rust",
        leaves=_types(
            "function_item function_signature_item struct_item enum_item union_item type_item "
            "macro_definition"
        ),
        containers=_types("impl_item trait_item mod_item"),
        leading=_types("line_comment block_comment attribute_item"),
    ),
    "tsx": _typescript("language_tsx"),
    "typescript": _typescript("language_typescript"),
}


@cache
def parser_for(language: str) -> Parser:
    """Load the grammar of `language`."""
    from tree_sitter import Language, Parser

    grammar = GRAMMARS[language]
    return Parser(Language(getattr(import_module(grammar.module), grammar.function)()))
