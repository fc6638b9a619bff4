"""Settings files that come with a folder: what they may set, and who could have written them."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.config import (
    Config,
    harmless_values,
    keys,
    load,
    settings_file,
    trust_store,
    user_file,
)
from kb.errors import ConfigError
from kb.locations import store_path
from kb.trust import MAX_SETTINGS_BYTES, exposure, is_own

posix = pytest.mark.skipif(os.name != "posix", reason="owners and permissions are POSIX's")
as_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can chown")

# Decided setting by setting: see docs/decisions/0023. A new setting is not harmless.
HARMLESS = {
    "search.default_top",
    "search.profile",
    "search.snippet_chars",
    "search.slow_ms",
    "chunk.max_chars",
    "models.encoder",  # only none
    "models.judge",  # only none
    "models.offline",  # only true
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("KB_MODELS_ENCODER", "KB_MODELS_JUDGE", "KB_MODELS_EXAM"):
        monkeypatch.delenv(name)
    (tmp_path / ".kb").mkdir(mode=0o700)
    return tmp_path / ".kb" / "kb.sqlite"


def write(store: Path, text: str) -> Path:
    file = settings_file(store)
    file.write_text(text)
    return file


def trust(file: Path) -> None:
    trust_store().add(file, file.read_bytes())


# --- permitted settings ---------------------------------------------------------------------------


def test_which_settings_are_harmless() -> None:
    assert {key for key, *_ in keys() if harmless_values(key) is not False} == HARMLESS
    assert harmless_values("models.encoder") == harmless_values("models.judge") == ("none",)
    assert harmless_values("models.offline") == (True,)


def test_harmless_settings_and_profiles_count(store: Path) -> None:
    write(store, "[search]\ndefault_top = 3\n[models]\noffline = true\nencoder = 'none'\n"
                 "[profiles.mine]\ntop = 4\n")  # fmt: skip
    config = load(store)
    assert (config.search.default_top, config.models.offline) == (3, True)
    assert config.models.encoder == "none"
    assert config.profiles == {"mine": {"top": 4}}
    assert config.ignored == ()


def _other(value: object) -> str:
    """Another value of the same type, as TOML."""
    if isinstance(value, bool):
        return str(not value).lower()
    if isinstance(value, str):
        return '"elsewhere"'
    assert isinstance(value, int | float)
    return str(value + 1)


@pytest.mark.parametrize("key", [key for key, *_ in keys() if key not in HARMLESS])
def test_other_settings_are_ignored_and_named(store: Path, key: str) -> None:
    section, _, name = key.partition(".")
    default = Config().as_keys()[key]
    value = '"cpu"' if key == "models.provider" else _other(default)
    value = '"numpy"' if key == "store.vector_backend" else value
    value = '"int8"' if key == "models.tokens" else value
    value = '"none"' if key == "open.links" else value
    value = '"json"' if key == "serve.log_format" else value
    file = write(store, f"[{section}]\n{name} = {value}\n[search]\ndefault_top = 7\n"
                 if section != "search" else f"[search]\n{name} = {value}\n")  # fmt: skip
    config = load(store)
    assert config.as_keys()[key] == default
    assert key not in config.origins
    (ignored,) = config.ignored
    assert list(ignored.values) == [key]
    assert str(file) in ignored.message
    assert f"kb config trust {file.parent}" in ignored.message
    trust(file)
    config = load(store)
    assert config.as_keys()[key] != default
    assert (config.ignored, config.trusted) == ((), (file,))


@pytest.mark.parametrize(
    "line",
    [
        "[search]\ndefault_top = 1_000_000_000",
        "[search]\nsnippet_chars = 1_000_000_000",
        "[chunk]\nmax_chars = 1",
        "[chunk]\nmax_chars = 1_000_000_000",
        "[models]\noffline = false",
        "[models]\nencoder = './model'",
        "[models]\nencoder = 'endpoint'",
        "[models]\njudge = './model'",
    ],
)
def test_only_some_values_are_harmless(
    store: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = store.parent.parent / "user.toml"
    own.write_text("[models]\noffline = true\n")
    monkeypatch.setenv("KB_CONFIG", str(own))
    before = load()
    write(store, line)
    assert load(store).as_keys() == before.as_keys()
    assert len(load(store).ignored) == 1


@pytest.mark.parametrize(
    "text", ["[search]\nnosuch = 1\n", "[models]\nthreads = -1\n", "x = " + "[" * 3000,
             f"[search]\ndefault_top = {'9' * 5000}\n", "[search]\ndefault_top = inf\n"]
)  # fmt: skip
def test_a_typo_is_an_error(store: Path, text: str) -> None:
    write(store, text)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load(store)


# --- trust ----------------------------------------------------------------------------------------

DANGEROUS = "[serve]\nallow_hosts = 'evil.example'\n"


def test_a_changed_or_copied_file_is_not_trusted(store: Path, tmp_path: Path) -> None:
    file = write(store, DANGEROUS)
    trust(file)
    assert load(store).serve.allow_hosts == "evil.example"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    write(elsewhere / "kb.sqlite", DANGEROUS)
    assert load(elsewhere / "kb.sqlite").ignored
    settings_file(elsewhere / "kb.sqlite").unlink()
    settings_file(elsewhere / "kb.sqlite").symlink_to(file)
    assert load(elsewhere / "kb.sqlite").ignored
    file.write_text(DANGEROUS + "host = '0.0.0.0'\n")
    config = load(store)
    assert (config.serve.allow_hosts, config.serve.host) == ("", "127.0.0.1")
    assert list(config.ignored[0].values) == ["serve.allow_hosts", "serve.host"]
    file.write_text(DANGEROUS)
    assert load(store).serve.allow_hosts == "evil.example"
    assert trust_store().remove(file) == 1
    assert load(store).ignored
    assert trust_store().remove(file) == 0


def test_the_file_that_the_user_names_is_the_user_s(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(store, DANGEROUS)
    monkeypatch.setenv("KB_CONFIG", str(file))
    config = load(store)
    assert (config.serve.allow_hosts, config.ignored) == ("evil.example", ())


def test_the_store_in_the_user_data_folder_is_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_path()
    store.parent.mkdir(parents=True, mode=0o700)
    write(store, DANGEROUS)
    assert load(store).serve.allow_hosts == "evil.example"


def test_a_library_logs_what_it_ignores(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(store, DANGEROUS)
    with caplog.at_level(logging.WARNING, "kb"), KnowledgeBase(store) as kb:
        assert kb.config.serve.allow_hosts == ""
    assert "ignored serve.allow_hosts in" in caplog.text


# --- owners and permissions -----------------------------------------------------------------------


@posix
@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_file_that_others_may_write_is_not_even_read(store: Path, where: str) -> None:
    file = write(store, "[search]\ndefault_top = 3\n")
    os.chmod(file if where == "file" else file.parent, 0o777)
    config = load(store)
    assert config.search.default_top == 10
    assert config.ignored[0].exposure is not None
    assert "ignored all settings" in config.ignored[0].message
    trust(file)
    assert load(store).search.default_top == 10
    os.chmod(file if where == "file" else file.parent, 0o700)
    assert load(store).search.default_top == 3


@as_root
def test_a_file_of_another_user_is_not_even_read(store: Path) -> None:
    file = write(store, "[search\n")
    os.chown(file, 12345, 12345)
    assert load(store).ignored[0].exposure == "it belongs to another user"


@as_root
def test_a_store_of_another_user_must_be_named(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(store.parent, 12345, 12345)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="belongs to another user") as error:
        store_path()
    assert f"--store {store.parent}" in error.value.hint
    assert store_path(store.parent) == store
    monkeypatch.setenv("SUDO_UID", "12345")
    assert store_path() == store


@posix
def test_the_user_s_own_file_must_be_theirs_alone() -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text("[models]\noffline = true\n")
    assert load().models.offline
    os.chmod(user_file(), 0o666)
    with pytest.raises(ConfigError, match="not safe to use: other users can write to it") as error:
        load()
    assert "chmod go-w" in error.value.hint


def _info(mode: int, uid: int | None = None, gid: int = 0) -> os.stat_result:
    owner = os.geteuid() if uid is None else uid
    return os.stat_result((mode, 0, 0, 1, owner, gid, 0, 0, 0, 0))


STRANGER = 54321


@posix
@pytest.mark.parametrize(
    ("file", "folder", "problem"),
    [
        ((0o644,), (0o755,), None),
        ((0o644, 0), (0o755, 0), None),
        ((0o644, STRANGER), (0o755,), "it belongs to another user"),
        ((0o646,), (0o755,), "other users can write to it"),
        ((0o664, None, STRANGER), (0o755,), "other users can write to it"),
        ((0o644,), (0o755, STRANGER), "its folder belongs to another user"),
        ((0o644,), (0o777,), "other users can write to its folder"),
        ((0o644,), (0o777 | stat.S_ISVTX,), None),
    ],
)
def test_exposure(file: tuple[int, ...], folder: tuple[int, ...], problem: str | None) -> None:
    assert exposure(_info(*file), _info(*folder)) == problem


@posix
def test_a_private_group_is_not_others() -> None:
    import grp
    import pwd

    own = [user for user in pwd.getpwall()
           if user.pw_uid and _is_alone(user, grp.getgrgid(user.pw_gid))]  # fmt: skip
    if not own:
        pytest.skip("no user has a group of their own here")
    info = _info(0o100664, own[0].pw_uid, own[0].pw_gid)
    folder = _info(0o40775, own[0].pw_uid, own[0].pw_gid)
    code = (
        "import grp, os, pwd, sys; from kb.trust import exposure; os.seteuid(int(sys.argv[1])); "
        "info = os.stat_result((0o100664, 0, 0, 1, *map(int, sys.argv[1:3]), 0, 0, 0, 0)); "
        "print(exposure(info, info))"
    )
    if os.geteuid() == 0:
        command = [sys.executable, "-c", code, str(info.st_uid), str(info.st_gid)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        assert said.stdout == "None\n"
    elif is_own(info):
        assert exposure(info, folder) is None


def _is_alone(user: object, group: object) -> bool:
    name = user.pw_name  # type: ignore[attr-defined]
    return bool(group.gr_name == name and not set(group.gr_mem) - {name})  # type: ignore[attr-defined]


# --- files that are not regular -------------------------------------------------------------------


@posix
@pytest.mark.parametrize("kind", ["fifo", "endless", "folder", "large"])
def test_files_that_are_not_settings(store: Path, kind: str) -> None:
    file = settings_file(store)
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "endless":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"#" * (MAX_SETTINGS_BYTES + 1))
    code = "import sys; from kb.config import *; from pathlib import Path; load(Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(store)], capture_output=True, text=True, timeout=60
    )
    assert "ConfigError: cannot read" in done.stderr
