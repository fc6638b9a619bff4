"""Builds `kb.mcpb`, the bundle that MCP clients such as Claude Desktop install with a click.

    python packaging/mcpb/build.py build/kb.mcpb

The bundle holds a manifest. It starts the `kb` that is installed on the machine, so that its tools
see the same store as the command line, and asks the user for the path of the store.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kb.mcp.tools import TOOLS

_DATE = (2020, 1, 1, 0, 0, 0)  # of the files in the bundle, so that it is the same in every build


def manifest() -> dict[str, Any]:
    return {
        "manifest_version": "0.2",
        "name": "kb",
        "display_name": "kb",
        "version": version("kb-search"),
        "description": "Search your own notes, papers and code, with citations that open.",
        "author": {"name": "kb"},
        "license": "Apache-2.0",
        "server": {
            "type": "binary",
            "entry_point": "kb",
            "mcp_config": {"command": "kb", "args": ["--store", "${user_config.store}", "mcp"]},
        },
        "tools": [{"name": tool.name, "description": tool.title} for tool in TOOLS],
        "user_config": {
            "store": {
                "type": "string",
                "title": "Store",
                "description": "The store, as `kb status` shows it",
                "required": True,
            }
        },
        "compatibility": {"platforms": ["darwin", "linux", "win32"]},
    }


def build(target: Path) -> None:
    """Write the bundle to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        text = json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n"
        bundle.writestr(zipfile.ZipInfo("manifest.json", _DATE), text)


def main(args: Sequence[str]) -> int:
    if len(args) != 1:
        sys.exit("usage: python packaging/mcpb/build.py FILE")
    build(Path(args[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
