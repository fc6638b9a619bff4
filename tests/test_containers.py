"""The Dockerfile and compose.yaml: what a linter checks, and their commands without containers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.postgres import Server

REPOSITORY = Path(__file__).parents[1]
PATIENCE_S = 120.0
KB = [sys.executable, "-m", "kb"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (REPOSITORY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
    return loaded


def of_kb(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose["services"].items() if name != "db"}


# --- the image ------------------------------------------------------------------------------------


def test_the_image_is_pinned_small_and_not_root() -> None:
    found = instructions()
    images = [rest.split()[0] for name, rest in found if name == "FROM"]
    assert len(images) == 2  # the tools of the build are not in the image
    for image in images:
        tag = image.partition(":")[2]
        assert tag.endswith("-slim")
        assert tag[0].isdigit()
    names = [name for name, _ in found]
    assert "ADD" not in names
    last = names.index("FROM", 1)
    (user,) = [rest for name, rest in found[last:] if name == "USER"]
    assert all(part.isdigit() and part != "0" for part in user.split(":"))
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert {"HEALTHCHECK", "EXPOSE", "VOLUME"} <= set(names)


def test_the_image_has_no_secret_and_no_cache() -> None:
    for name, rest in instructions():
        if name in ("ENV", "ARG"):
            assert not re.search(r"(?i)password|token|secret|key", rest)
        if name == "RUN":
            assert "sudo" not in rest
            assert "pip install" not in rest or "--no-cache-dir" in rest
            assert "apt-get" not in rest
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)  # a shell would not forward signals


def test_everything_that_the_build_copies_exists_and_is_sent() -> None:
    sent = (REPOSITORY / ".dockerignore").read_text().split()
    copied = [rest.split()[:-1] for name, rest in instructions()
              if name == "COPY" and "--from" not in rest]  # fmt: skip
    for path in [path for paths in copied for path in paths]:
        assert (REPOSITORY / path).exists()
        assert f"!{path}" in sent


def test_the_extras_exist() -> None:
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    (run,) = [rest for name, rest in instructions() if name == "RUN" and "pip install" in rest]
    match = re.search(r"\.\[([a-z,]+)\]", run)
    assert match is not None
    assert set(match[1].split(",")) <= set(project["optional-dependencies"])


# --- compose --------------------------------------------------------------------------------------


def test_two_servers_a_worker_and_a_database(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {"db", "init", "server1", "server2", "worker"} <= set(services)
    assert services["server1"]["command"] == services["server2"]["command"]
    assert not services["db"]["image"].endswith(("latest", "/pgvector"))
    assert "healthcheck" in services["db"]


def test_containers_are_confined(compose: dict[str, Any]) -> None:
    for service in of_kb(compose).values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "10001:10001"
        assert "privileged" not in service
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_volumes_are_declared_and_passwords_are_not_written_down(compose: dict[str, Any]) -> None:
    used = {
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
    }
    assert used == set(compose["volumes"])
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if "PASSWORD" in name:
                assert value.startswith("${KB_DB_PASSWORD:?")


def test_services_wait_for_what_they_need(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in ("server1", "server2", "worker"):
        assert services[name]["depends_on"] == {
            "init": {"condition": "service_completed_successfully"}
        }
    assert services["init"]["depends_on"] == {"db": {"condition": "service_healthy"}}


# --- the same commands, without containers --------------------------------------------------------


class Processes:
    """Runs the commands of the services with their environment, on this machine: the database and
    the folders are others, and the servers have other ports."""

    def __init__(self, compose: dict[str, Any], store: str, folder: Path) -> None:
        self._services = compose["services"]
        self._store = store
        self._folder = folder
        self._stack = ExitStack()

    def command(self, name: str, *arguments: str) -> list[str]:
        service = self._services[name]
        start = service.get("entrypoint", ["kb"])
        assert start[0] == "kb"
        own = service["environment"]["KB_STORE"]
        rest = list(arguments) or [self._store if each == own else each
                                   for each in service["command"]]  # fmt: skip
        return [*KB, *start[1:], *rest]

    def environment(self, name: str) -> dict[str, str]:
        values: dict[str, str] = self._services[name]["environment"]
        home = self._folder / name
        home.mkdir(exist_ok=True)
        own = {
            key: value.replace("/data/tokens", str(self._folder / "tokens")).replace(
                "/data", str(home)
            )
            for key, value in values.items()
            if key != "PGPASSWORD"
        }
        folders = {f"XDG_{kind}_HOME": str(home) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("KB_")}
        return inherited | own | folders | {"KB_STORE": self._store, "HOME": str(home)}

    def run(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            self.command(name, *arguments), env=self.environment(name), cwd=self._folder,
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.command(name), *arguments], env=self.environment(name), cwd=self._folder,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._stack.callback(self._end, process)
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def processes(compose: dict[str, Any], postgres: Server, tmp_path: Path) -> Iterator[Processes]:
    store = postgres.url(schema=f"compose{uuid.uuid4().hex[:12]}")
    running = Processes(compose, store, tmp_path)
    yield running
    running.close()


@pytest.mark.slow
def test_from_nothing_to_a_searched_library(processes: Processes, tmp_path: Path) -> None:
    token = processes.run("tokens", "add", "admin", "--right", "admin").splitlines()[0]
    processes.run("init")
    library = tmp_path / "handbook"
    library.mkdir()
    (library / "keys.md").write_text("# Keys\n\nRotate the signing keys every ninety days.\n")
    servers = [processes.start(name, "--port", "0") for name in ("server1", "server2")]
    processes.start("worker")
    clients = []
    for server in servers:
        assert server.stdout is not None
        port = server.stdout.readline().strip().rstrip("/").rpartition(":")[2]
        headers = {"Authorization": f"Bearer {token}"}
        clients.append(
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False
            )
        )
    for client in clients:
        assert client.get("/readyz").status_code == 200
        assert client.get("/tags", headers={"Authorization": "Bearer no"}).status_code == 401
    processes.run("ingest", str(library))
    end = time.monotonic() + PATIENCE_S
    while clients[0].get("/status").json()["vectors"]["pending"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    for client in clients:
        answer = client.post("/search", json={"query": "how often do we change keys"}).json()
        assert [hit["doc_path"] for hit in answer["hits"]] == ["handbook/keys.md"]
        assert answer["degraded"] == []
        client.close()
