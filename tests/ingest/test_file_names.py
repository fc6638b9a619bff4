from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest import file_names

SECRETS = (
    ".env", ".ENV", ".env.local", ".env.production", "prod.env", "server.pem", "server.key",
    "id_rsa", "id_rsa.pub", "id_rsa_work", "id_dsa", "id_ecdsa", "id_ed25519", "id_ed25519.bak",
    ".netrc", "_netrc", ".pypirc", ".npmrc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials",
    ".dockercfg", ".s3cfg", ".boto", ".vault-token", "passwords.kdbx", "old.kdb", "cert.p12",
    "cert.pfx", "putty.ppk", "store.jks", "app.keystore", "mail.gpg", "mail.pgp", "credentials",
    "credentials.json", "client_secret_123.json", "service-account.json", "service_account_a.json",
    "secrets.yaml", "secrets.yml", "secrets.toml", "secrets.json", "terraform.tfstate",
    "terraform.tfstate.backup", "prod.tfvars", ".bash_history", ".zsh_history", ".psql_history",
    ".mysql_history", ".python_history", ".node_repl_history", ".sqlite_history",
)  # fmt: skip
SECRET_FOLDERS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_secret_file(name: str) -> None:
    assert file_names.is_secret(name)


@pytest.mark.parametrize("name", SECRET_FOLDERS)
def test_secret_folder(name: str) -> None:
    assert file_names.is_secret(name, folder=True)
    assert file_names.leads_to_secret(f"/home/me/{name}/config")


@pytest.mark.parametrize(
    "name",
    [
        "key.md",
        "environment.md",
        "keys.txt",
        "rsa.md",
        "service_account.py",
        "secrets.md",
        "a.env.md",
    ],
)
def test_not_a_secret(name: str) -> None:
    assert not file_names.is_secret(name)


def test_a_folder_is_no_secret_for_a_file_s_name() -> None:
    assert not file_names.is_secret("credentials", folder=True)
    assert not file_names.is_secret("talk.key", folder=True)


def test_portable_leaves_plain_names_alone() -> None:
    plain = ["a.md", "b c#%.md", "中文.md", "é.md"]
    assert file_names.portable(plain) == plain


def test_portable_composes() -> None:
    assert file_names.portable(["cafe\u0301.md"]) == ["café.md"]


def test_portable_escapes_bytes_that_are_not_utf_8() -> None:
    assert file_names.portable([os.fsdecode(b"caf\xe9.md")]) == ["caf\\xe9.md"]


def test_portable_keeps_two_spellings_apart() -> None:
    assert file_names.portable(["cafe\u0301", "caf\u00e9"]) == ["cafe\\xcc\\x81", "café"]


def test_portable_keeps_a_literal_escape_apart() -> None:
    raw = os.fsdecode(b"caf\xe9")
    assert file_names.portable(["caf\\xe9", raw]) == ["caf\\x5cxe9", "caf\\xe9"]


@given(st.sets(st.binary(min_size=1, max_size=4), max_size=8))
def test_portable_names_are_text_and_stay_different(raw: set[bytes]) -> None:
    present = sorted(os.fsdecode(name) for name in raw)
    texts = file_names.portable(present)
    assert len(set(texts)) == len(present)
    for text in texts:
        text.encode("utf-8")


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2026-03-01.md", "2026-03-01"),
        ("2026-03-01 call.md", "2026-03-01"),
        ("2026-02-31.md", None),
        ("2026-03-012.md", None),
        ("call 2026-03-01.md", None),
        ("notes.md", None),
    ],
)
def test_day_of(name: str, day: str | None) -> None:
    assert file_names.day_of(name) == day


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("first_call-notes.md", "first call notes"),
        ("2026-03-01-first_call.md", "2026-03-01 first call"),
        ("2026-03-01.md", "2026-03-01"),
        ("README", "README"),
        (".profile", ".profile"),
        ("___.md", "___.md"),
    ],
)
def test_title_of(name: str, title: str) -> None:
    assert file_names.title_of(name) == title


@pytest.mark.parametrize(
    ("name", "suffix", "title"),
    [
        ("asyncio-task.rst.txt", ".rst", "asyncio task"),
        ("README.MD", ".md", "README"),
        ("notes.v2.txt", ".txt", "notes.v2"),
        (".profile", "", ".profile"),
    ],
)
def test_sources_as_they_are_served(name: str, suffix: str, title: str) -> None:
    assert (file_names.suffix_of(name), file_names.title_of(name)) == (suffix, title)
