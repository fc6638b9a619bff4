"""What is made for package managers and clients: generated files, the bundle, the workflows."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


def run(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "packaging" / script), *args]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_manual_page_and_completions_are_up_to_date() -> None:
    done = run("shared_files.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_bundle(tmp_path: Path) -> None:
    for name in ("a.mcpb", "b.mcpb"):
        assert run("mcpb/build.py", str(tmp_path / name)).returncode == 0
    assert (tmp_path / "a.mcpb").read_bytes() == (tmp_path / "b.mcpb").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.mcpb") as bundle:
        manifest = json.loads(bundle.read("manifest.json"))
    assert {tool["name"] for tool in manifest["tools"]} == {"search", "fetch", "add", "status"}
    assert manifest["server"]["mcp_config"]["args"][-1] == "mcp"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
        assert all("uses" in step or "run" in step for step in job["steps"])


def test_the_formula_has_a_place_for_the_release() -> None:
    formula = (REPOSITORY / "packaging" / "homebrew" / "kb.rb.template").read_text("utf-8")
    assert "kb_search-VERSION.tar.gz" in formula
    assert 'sha256 "SHA256"' in formula
