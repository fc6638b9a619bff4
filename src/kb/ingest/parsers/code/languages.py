"""The programming language of a file, by its name or its first line.

Files with a grammar (see `grammars`) are split by definitions, the others by paragraphs.
"""

from __future__ import annotations

import re

from kb.ingest import file_names

_BY_SUFFIX = {
    suffix: language
    for language, suffixes in {
        "bash": ".sh .bash .zsh .ksh .bats",
        "batch": ".bat .cmd",
        "c": ".c",
        "clojure": ".clj .cljs .cljc .edn",
        "cmake": ".cmake",
        "cpp": ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .tpp",
        "csharp": ".cs .csx",
        "css": ".css .scss .sass .less",
        "cuda": ".cu .cuh",
        "dart": ".dart",
        "elixir": ".ex .exs",
        "elm": ".elm",
        "erlang": ".erl .hrl",
        "fish": ".fish",
        "fortran": ".f .f90 .f95 .f03 .f08",
        "fsharp": ".fs .fsi .fsx",
        "go": ".go",
        "graphql": ".graphql .gql",
        "groovy": ".groovy .gradle",
        "haskell": ".hs .lhs",
        "hcl": ".hcl .tf",
        "ini": ".ini .cfg .conf .properties .editorconfig .desktop .service",
        "java": ".java",
        "javascript": ".js .jsx .mjs .cjs",
        "json": ".json .jsonc .json5",
        "julia": ".jl",
        "kotlin": ".kt .kts",
        "lisp": ".lisp .lsp .cl .el .scm .ss .rkt",
        "lua": ".lua",
        "make": ".mk .mak",
        "nim": ".nim",
        "nix": ".nix",
        "objective-c": ".m .mm",
        "ocaml": ".ml .mli",
        "perl": ".pl .pm .t",
        "php": ".php",
        "powershell": ".ps1 .psm1 .psd1",
        "protobuf": ".proto",
        "python": ".py .pyi .pyw",
        "r": ".r",
        "ruby": ".rb .rake .gemspec",
        "rust": ".rs",
        "scala": ".scala .sc .sbt",
        "solidity": ".sol",
        "sql": ".sql",
        "svelte": ".svelte",
        "swift": ".swift",
        "tcl": ".tcl",
        "toml": ".toml",
        "tsx": ".tsx",
        "typescript": ".ts .mts .cts",
        "vim": ".vim",
        "vue": ".vue",
        "xml": ".xml .xsd .xsl .xslt",
        "yaml": ".yaml .yml",
        "zig": ".zig",
    }.items()
    for suffix in suffixes.split()
}
_BY_NAME = {
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "jenkinsfile": "groovy",
    "justfile": "make",
    "makefile": "make",
    "rakefile": "ruby",
    "vagrantfile": "ruby",
}
_BY_INTERPRETER = {
    "bash": "bash", "dash": "bash", "ksh": "bash", "sh": "bash", "zsh": "bash", "fish": "fish",
    "lua": "lua", "node": "javascript", "perl": "perl", "php": "php", "python": "python",
    "ruby": "ruby", "rscript": "r", "tclsh": "tcl",
}  # fmt: skip
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/)?(\S+)(?:[ \t]+(?:-\S+[ \t]+)*(\S+))?")
_CPP_HEADER = re.compile(rb"^\s*(?:class|namespace|template|using)\b|::|\bpublic:", re.MULTILINE)


def language_of(name: str, head: bytes) -> str | None:
    """The language of a file that begins with `head`; None if it is not recognized as code."""
    lower = name.lower()
    if language := _BY_NAME.get(lower):
        return language
    if lower.startswith(("dockerfile.", "containerfile.")):
        return "dockerfile"
    suffix = file_names.suffix_of(name)
    if suffix == ".h":
        return "cpp" if _CPP_HEADER.search(head) else "c"
    if suffix == ".ts" and head.lstrip().startswith(b"<"):
        return "xml"  # a Qt translation file
    return _BY_SUFFIX.get(suffix) if suffix else _by_shebang(head)


def _by_shebang(head: bytes) -> str | None:
    match = _SHEBANG.match(head)
    if match is None:
        return None
    command = match[2] if match[1] == b"env" and match[2] else match[1]
    return _BY_INTERPRETER.get(command.decode("ascii", "replace").lower().rstrip("0123456789."))
