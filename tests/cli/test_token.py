"""`kb token`, and a server that uses the tokens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.errors import ConfigError
from kb.server.lifecycle import open_tokens
from kb.types import Identity, Limits
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.postgres import Server


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".kb").mkdir()
    return tmp_path


def test_tokens_are_added_listed_rotated_and_revoked(place: Path, run: Run, valid: Valid) -> None:
    assert run("token", "list").err == "no tokens; to create one: kb token add NAME\n"
    added = run("token", "add", "ci", "--scope", "project", "--tags", "a,b", "--rate", "60")
    first = added.lines[0]
    assert (added.status, added.err) == (0, "copy it now: it will not be shown again\n")
    assert (
        run("token", "list").out == "ci: read, scope project, tags a or b, 60 requests per minute\n"
    )
    identity = Identity("ci", "read", Limits(("project",), (), ("a", "b")), 60)
    with KnowledgeBase(place / ".kb") as kb:
        tokens = open_tokens(kb)
        assert tokens.identify(first) == identity
        rotated = run("token", "rotate", "ci", "--json").json
        valid("token.v1", rotated)
        assert (tokens.identify(first), tokens.identify(rotated["token"])) == (None, identity)
        listed = run("token", "list", "--json").json
        valid("tokens.v1", listed)
        assert [each["name"] for each in listed["tokens"]] == ["ci"]
        valid("tokens.v1", run("token", "revoke", "ci", "--json").json)
        assert tokens.identify(rotated["token"]) is None


def test_a_token_has_an_expiry(place: Path, run: Run) -> None:
    assert run("token", "add", "ci", "--ttl", "90d").status == 0
    assert "expires 20" in run("token", "list").out
    refused = run("token", "add", "other", "--ttl", "soon")
    assert (refused.status, "soon" in refused.err) == (2, True)


def test_an_unknown_folder_is_only_a_warning(place: Path, run: Run) -> None:
    added = run("token", "add", "ci", "--root", "handbook", "--root", "note:")
    assert (added.status, "no folder handbook yet" in added.err) == (0, True)


def test_limits_are_spelled_as_the_store_has_them(place: Path, run: Run) -> None:
    run("token", "add", "team", "--root", "pub/", "--tags", "#red,blue")
    (token,) = json.loads(run("token", "list", "--json").out)["tokens"]
    assert (token["roots"], token["tags"]) == (["pub"], ["red", "blue"])
    for option in ("--root", "--tags"):
        refused = run("token", "add", "nothing", option, "")
        assert (refused.status, f"{option} is empty" in refused.err) == (2, True)


def test_errors_name_the_next_step(place: Path, run: Run) -> None:
    run("token", "add", "ci")
    again = run("token", "add", "ci")
    assert (again.status, "kb token rotate ci" in again.err) == (2, True)
    assert "kb token list" in run("token", "revoke", "nobody").err
    assert "right" in run("token", "add", "x", "--right", "all").err


def test_the_setting_names_another_file(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KB_SERVE_TOKENS", str(place / "mine.json"))
    with KnowledgeBase(place / ".kb") as kb:
        assert not open_tokens(kb).is_required
        assert [each.getMessage() for each in caplog.records] == [
            f"there is no file {place / 'mine.json'}, so no token of it is required"
        ]
        assert run("token", "add", "ci").status == 0
        assert (place / "mine.json").exists()
        assert open_tokens(kb).is_required
        assert len(caplog.records) == 1


def test_the_tokens_of_a_store_that_was_moved_apply(place: Path, run: Run) -> None:
    """Otherwise its server would need no token at its new place."""
    run("init")
    token = run("token", "add", "ci").lines[0]
    copied = shutil.copytree(place / ".kb", place / "copy")
    with KnowledgeBase(copied) as kb:
        assert not open_tokens(kb).is_required  # the store has not been moved
    moved = (place / ".kb").rename(place / "moved")
    with KnowledgeBase(moved) as kb:
        tokens = open_tokens(kb)
        assert tokens.is_required
        assert tokens.identify(token) is not None
    run("--store", str(moved), "token", "revoke", "ci")
    assert tokens.identify(token) is None


def test_the_tokens_of_a_moved_store_apply_if_another_store_took_its_place(
    place: Path, run: Run
) -> None:
    """Otherwise its server would need no token; nor does the new store lose its protection."""
    run("init")
    token = run("token", "add", "ci").lines[0]
    moved = (place / ".kb").rename(place / "moved")
    (place / ".kb").mkdir()
    run("init")
    with KnowledgeBase(moved) as kb:
        assert open_tokens(kb).identify(token) is not None
    with KnowledgeBase(place / ".kb") as kb:
        assert open_tokens(kb).is_required
    run("token", "rotate", "ci")
    with KnowledgeBase(moved) as kb:
        assert open_tokens(kb).identify(token) is not None
    run("--store", str(moved), "token", "revoke", "ci")
    with KnowledgeBase(place / ".kb") as kb:
        assert open_tokens(kb).is_required


def test_a_store_that_took_the_place_of_another_leaves_it_its_tokens(place: Path, run: Run) -> None:
    run("init")
    token = run("token", "add", "ci").lines[0]
    moved = (place / ".kb").rename(place / "moved")
    (place / ".kb").mkdir()
    run("init")
    with KnowledgeBase(place / ".kb") as kb:  # the first to use the file
        assert open_tokens(kb).is_required
    run("token", "revoke", "ci")
    with KnowledgeBase(moved) as kb:
        assert open_tokens(kb).identify(token) is not None


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_damaged_tokens_of_a_store_that_was_moved_are_an_error(
    place: Path, run: Run, content: str
) -> None:
    """Nobody can tell whose they are: a server without tokens would let everybody in."""
    run("init")
    run("token", "add", "ci")
    (file,) = (place / "config" / "kb" / "tokens").glob("*.json")
    file.write_text(content)
    moved = (place / ".kb").rename(place / "moved")
    with KnowledgeBase(moved) as kb, pytest.raises(ConfigError, match=file.name):
        open_tokens(kb)


def test_tokens_that_are_older_than_the_store_move_with_it(place: Path, run: Run) -> None:
    """Their file names no store until a server has used it."""
    token = run("token", "add", "ci").lines[0]
    run("init")
    with KnowledgeBase(place / ".kb") as kb:
        open_tokens(kb)
    moved = (place / ".kb").rename(place / "moved")
    with KnowledgeBase(moved) as kb:
        assert open_tokens(kb).identify(token) is not None


def test_tokens_apply_whichever_hosts_the_url_names(
    place: Path, run: Run, postgres: Server
) -> None:
    """A standby that is added to the URL would let everybody in."""
    del place
    url = postgres.url(schema="tokens")
    assert run("--store", url, "init").status == 0
    token = run("--store", url, "token", "add", "ci").lines[0]
    for other in (
        url.replace("127.0.0.1", "localhost"),
        url.replace("@", "@localhost:1,") + "&read=standby",
    ):
        with KnowledgeBase(other) as kb:
            assert open_tokens(kb).identify(token) is not None
    with KnowledgeBase(postgres.url(schema="tokens2")) as kb:
        kb.create()
        assert not open_tokens(kb).is_required


def test_tokens_apply_in_whichever_order_the_shards_are_given(
    place: Path, run: Run, postgres: Server
) -> None:
    del place
    urls = [postgres.url(schema=f"tokens_{n}", shard=f"{n}/2") for n in (1, 2)]
    for url in urls:
        assert run("--store", url, "init").status == 0
    token = run("--store", " ".join(urls), "token", "add", "ci").lines[0]
    with KnowledgeBase(" ".join(reversed(urls))) as kb:
        assert open_tokens(kb).identify(token) is not None
