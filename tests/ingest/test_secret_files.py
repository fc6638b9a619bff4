"""Files with secrets, by name and by content, in every interface."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from email import policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.config import Config, IngestConfig
from kb.ingest import secret_files
from kb.ingest.decode import decode
from kb.ingest.secret_files import included_paths, is_included, secret_reason
from tests.ingest.parsers import office
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.pdfs import made, text_page

_BYTES = random.Random(4711).randbytes


def body(size: int = 1200) -> str:
    text = base64.b64encode(_BYTES(size)).decode()
    return "\n".join(text[at : at + 64] for at in range(0, len(text), 64))


def pem(label: str, size: int = 1200, headers: str = "") -> str:
    return f"-----BEGIN {label}-----\n{headers}{body(size)}\n-----END {label}-----\n"


GITHUB_TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
HASH = "$apr1$gYzX1c2d$8N7bQ0vV3kXj1u0pWq2e4/"
KUBECONFIG = f"""apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {base64.b64encode(_BYTES(300)).decode()}
    server: https://10.0.0.1:6443
  name: prod
kind: Config
users:
- name: admin
  user:
    client-key-data: {base64.b64encode(_BYTES(300)).decode()}
"""
SERVICE_ACCOUNT = json.dumps(
    {"type": "service_account", "project_id": "x", "private_key": pem("PRIVATE KEY")}, indent=2
)

KEPT_SECRET = {
    "deploy_key": pem("OPENSSH PRIVATE KEY"),
    "key.txt": pem("RSA PRIVATE KEY"),
    "encrypted.txt": pem("RSA PRIVATE KEY", headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: A,B\n\n"),
    "ed25519.txt": pem("PRIVATE KEY", 48),
    "commented.md": "# made by ops\n\n; do not share\n" + pem("EC PRIVATE KEY"),
    "crlf.txt": pem("PRIVATE KEY").replace("\n", "\r\n"),
    "bom.txt": "\ufeff" + pem("PRIVATE KEY"),
    "bundle.txt": pem("CERTIFICATE", 9000) + pem("CERTIFICATE", 9000) + pem("PRIVATE KEY"),
    "bag.txt": "Bag Attributes\n    friendlyName: me\nKey Attributes: <none>\n"
    + pem("PRIVATE KEY"),
    "pgp.txt": pem("PGP PRIVATE KEY BLOCK", headers="Version: GnuPG v2\n\n"),
    "ssh2.txt": f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{body()}\n---- END SSH2 ENCRYPTED "
    "PRIVATE KEY ----\n",
    "putty.txt": "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\n",
    "age.txt": "# created: 2026-01-01\n# public key: age1x\n"
    "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L\n",
    "minisign.txt": "untrusted comment: minisign encrypted secret key\nRWRTY0Iy\n",
    "wg0.txt": f"[Interface]\nPrivateKey = {'A' * 43}=\nAddress = 10.0.0.2\n",
    "cloud.json": SERVICE_ACCOUNT,
    "jwk.json": json.dumps({"kty": "OKP", "crv": "Ed25519", "d": "n" * 43, "x": "y" * 43}),
    "docker.json": json.dumps({"auths": {"registry.example": {"auth": "dXNlcjpwdw=="}}}),
    "cluster.yaml": KUBECONFIG,
    "cluster.json": json.dumps({"clusters": [], "users": [{"user": {"token": "abc"}}]}),
    "secret.yaml": "---\napiVersion: v1\nkind: Secret\ndata:\n  password: aHVudGVyMg==\n",
    "users.txt": f"ada:{HASH}\ngrace:{HASH}\n",
    "shadow.txt": "root:$6$salt$hash:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
    "aws.txt": "[default]\naws_access_key_id = AKIA\naws_secret_access_key = " + "x" * 40 + "\n",
    "new_user.csv": "User name,Access key ID,Secret access key\nada,AKIA,xyz\n",
    "netrc.txt": "machine api.example login ada password hunter2\n",
    "Chrome.csv": "name,url,username,password\nGoogle,https://x.example,bob,hunter2\n",
    "Firefox.csv": '"url","username","password","httpRealm"\n"https://x","bob","hunter2",\n',
    "bitwarden.csv": "folder,favorite,type,name,notes,fields,reprompt,login_uri,login_username,"
    "login_password,login_totp\n,,login,X,,,0,https://x,bob,hunter2,\n",
    "semicolons.csv": "Titel;Benutzername;Passwort\nX;bob;hunter2\n",
    "keepass.txt": '"Account"\t"Login Name"\t"Password"\t"Web Site"\nX\tbob\thunter2\thttps://x\n',
    "filezilla.xml": '<?xml version="1.0"?>\n<FileZilla3><Servers><Server><Host>h</Host><User>bob'
    '</User><Pass encoding="base64">aHVudGVyMg==</Pass></Server></Servers></FileZilla3>',
    "sitemanager.txt": "<FileZilla3><Servers><Server><Pass>hunter2</Pass></Server></Servers>",
    "factors.txt": "otpauth://totp/GitHub:bob?secret=MFRGGZDFMZTWQ2LK&issuer=GitHub\n\n"
    "otpauth://hotp/Bank?counter=1&secret=MFRGGZDFMZTWQ2LK\n",
    "moved.txt": "otpauth-migration://offline?data=CjEKCkhlbGxvId6tvu8SGEV4\n",
    "keepass.xml": "<?xml version='1.0'?>\n<KeePassFile><Root><String><Key>Password</Key><Value>a"
    "</Value></String></Root></KeePassFile>",
    "bitwarden.json": json.dumps(
        {"encrypted": False, "items": [{"login": {"username": "bob", "password": "hunter2"}}]}
    ),
    "1password.json": json.dumps(
        {"accounts": [{"vaults": [{"loginFields": [{"designation": "password", "value": "x"}]}]}]}
    ),
    "pgpass.txt": "# mine\ndb.example:5432:*:ada:hunter2\n*:*:app:bob:x\n",
    "git.txt": "https://ada:hunter2@git.example\n",
    "variables.txt": "# prod\nexport DB_HOST=db\nDB_PASSWORD='hunter2hunter2'\nPORT=80\n",
    "sep.csv": "sep=,\r\nname,url,username,password\r\nX,https://x.example,bob,hunter2\r\n",
    "lower.txt": "db_host=db\ndb_password=k3Xq9vTz\nport=80\n",
    "pass.txt": "DB_HOST=db\nDB_PASS=k3Xq9vTz!\n",
    "url.txt": "PORT=80\nDATABASE_URL=postgres://app:k3Xq9vTz@db.internal:5432/app\n",
    "npmrc.txt": f"//registry.npmjs.org/:_authToken={GITHUB_TOKEN[4:]}\nsave-exact=true\n",
    "settings.ini": "[server]\nport = 8000\n\n[db]\nuser = app\npassword = k3Xq9vTz\n",
    "settings.yaml": "server:\n  port: 80\ndb:\n  user: app\n  password: 'k3Xq9vTz'\n",
    "settings.toml": '[bot]\nname = "x"\n' + f'github = "{GITHUB_TOKEN}"\n',
    "pat.txt": "[github]\nlogin = x\nvalue = github_pat_11QBKXWZ0" + GITHUB_TOKEN[4:] * 2 + "\n",
    "slack.json": json.dumps({"slack": "xoxb-17653285-98421650-" + GITHUB_TOKEN[4:28]}, indent=1),
    "aws.ini": "[s3]\nid = AKIA" + "Q3EGZW7RTYU5XK2J" + "\nregion = eu-west-1\n",
    "token.txt": GITHUB_TOKEN + "\n",
    "appsettings.json": json.dumps({"Smtp": {"Host": "mx", "SmtpPassword": "k3Xq9vTz"}}, indent=2),
    "compact.json": json.dumps({"a": 1, "db": {"host": "x", "password": "k3Xq9vTz"}}),
    "mcp.json": json.dumps({"mcpServers": {"x": {"command": "y", "env": {"TOKEN": GITHUB_TOKEN}}}}),
    "url.json": json.dumps({"x": "postgres://app:k3Xq9vTz@db.internal/app"}),
    "bare-url.txt": "postgres://app:k3Xq9vTz@db.internal/app\n",
    "user.json": json.dumps({"type": "authorized_user", "client_id": "x", "refresh_token": "1//x"}),
    "state.json": json.dumps({"version": 4, "terraform_version": "1.9", "serial": 3,
                              "resources": []}),
    "slack.yaml": "token: xoxb-123456789012-123456789012-eSHqw7ATFasxELz2pUdNUHAD\n",
    "wp-config.php": "<?php\n/** The name of the database. */\ndefine( 'DB_NAME', 'blog' );\n\n"
    "/** Its password. */\ndefine( 'DB_PASSWORD', 'm8nMVacIrz5E6nNy0a' );\n\n"
    "if ( ! defined( 'ABSPATH' ) ) {\n\tdefine( 'ABSPATH', __DIR__ . '/' );\n}\n"
    "require_once ABSPATH . 'wp-settings.php';\n",
    "connection.json": json.dumps({"ConnectionStrings": {
        "Default": "Server=x;User Id=sa;Password=m8nMVacIrz5E6nNy0a;"}}),
    "connection.config": "<configuration><connectionStrings><add name='x' connectionString="
    "'Server=x;User Id=sa;Password=m8nMVacIrz5E6nNy0a;'/></connectionStrings></configuration>",
    "maven.xml": "<?xml version='1.0'?>\n<!-- This file has the settings of one user, and here are"
    " some more words about it. -->\n<settings><servers><server><id>x</id><username>ada"
    "</username><password>m8nMVacIrz5E6nNy0a</password></server></servers></settings>",
    "tomcat.xml": "<tomcat-users><user username='a' password='m8nMVacIrz5E'/></tomcat-users>",
    "up.csv": "user,pass\nroot,m8nMVacIrz5E6nNy0a\n",
    "deploy.sh": "#!/bin/sh\nset -e\ncd /srv/app\nexport DB_PASSWORD='k3Xq9vTz'\nmake deploy\n"
    "echo done\nls -l\n",
    "backup.sh": "#!/usr/bin/env bash\nfor db in a b; do\n  PGPASSWORD=k3Xq9vTz pg_dump -h db $db\n"
    "done\n",
    "call.sh": "#!/bin/zsh\ncurl -s \\\n  -H \"Authorization: Bearer " + GITHUB_TOKEN + "\" \\\n"
    "  https://api.example/x\n",
    "dump.sh": "#!/bin/bash\nset -eu\npsql postgres://app:k3Xq9vTz@db.internal/app -c 'select 1'\n",
    "rclone.txt": "[drive]\ntype = drive\nscope = drive\ntoken = "
    '{"access_token":"ya29.a0AfH6SMBx","token_type":"Bearer"}\n',
    "sftp.txt": "[nas]\ntype = sftp\nhost = nas\nuser = ada\npass = 7cXm3GVgeSuqBFz-wgfVM1g\n",
    "wifi.txt": 'network={\n  ssid="home"\n  psk="k3Xq9vTzHm"\n}\n',
    "dotenv.txt": "PORT=80\nSECRET_KEY_BASE=" + GITHUB_TOKEN[4:] * 2 + "\n",
    "rails.txt": "RAILS_ENV=production\nRAILS_MASTER_KEY=" + GITHUB_TOKEN[4:] + "\n",
    "image.txt": "# syntax=docker/dockerfile:1\nFROM python:3.12-slim AS app\nRUN pip install x\n"
    "ENV PORT=80 \\\n    DB_PASSWORD='k3Xq9vTzHm'\nCMD [\"x\"]\n",
    "image-old.txt": "FROM debian\nRUN make && make install\nENV API_TOKEN k3Xq9vTzHm\nCMD x\n",
    "image-arg.txt": "ARG VERSION=1\nFROM debian:$VERSION\nARG NPM_TOKEN=" + GITHUB_TOKEN + "\n",
    "hosts.txt": "[web]\nweb1.example ansible_host=10.0.0.1 ansible_user=ada "
    "ansible_password=k3Xq9vTz\nweb2.example\n\n[web:vars]\nansible_port=22\n",
    "become.txt": "db1 ansible_become_pass='k3Xq9vTz!'\n",
    "openai.json": json.dumps({"x": "sk-" + GITHUB_TOKEN[4:24] + "T3BlbkFJ" + GITHUB_TOKEN[20:40]}),
    "cookies.txt": "# Netscape HTTP Cookie File\n.x.example\tTRUE\t/\tTRUE\t0\tsid\tabc\n",
}  # fmt: skip

BY_NAME = {
    ".envrc": "export A=1\n", "credentials.csv": "a,b\n1,2\n", "gcp-key.json": "{}",
    "htpasswd": "x", "kubeconfig": "x: 1\n", "kubeconfig.yaml": "x: 1\n", "prod.kubeconfig": "x\n",
    "rootkey.csv": "a\n1\n", "passwords.txt": "x\n", "secret.yml": "a: 1\n",
    "bash_history": "ls\n", "rclone.conf": "[a]\n", "logins.json": "{}", "home.ovpn": "client\n",
    "home.nmconnection": "[wifi]\n", "AuthKey_X.p8": "x\n", "credentials.toml": "[a]\n",
}  # fmt: skip


def test_a_script_is_known_by_its_name_too() -> None:
    lines = b"cd /srv\nmake\n%s\necho done\nls\n"
    for name, line in (
        ("a.sh", b"export API_TOKEN=k3Xq9vTzHm"), ("a.fish", b"set -gx API_TOKEN k3Xq9vTzHm"),
        ("a.ps1", b'$env:API_TOKEN = "k3Xq9vTzHm"'), ("a.bat", b"set API_TOKEN=k3Xq9vTzHm"),
        ("a.csh", b"setenv API_TOKEN k3Xq9vTzHm"),
    ):  # fmt: skip
        assert "script" in (secret_reason(name, lines % line) or "")
        assert secret_reason("a.md", lines % line) is None


HARMLESS = {
    "filezilla.html": "<FileZilla3> has servers whose <Pass> is empty: <Pass></Pass>",
    "factor.md": "Scan `otpauth://totp/NAME?secret=...`, such as otpauth://totp/Example?secret="
    "JBSWY3DPEHPK3PXP.\n",
    "guide.md": "# Keys\n\nA key begins with `-----BEGIN RSA PRIVATE KEY-----` and ends with\n"
    "`-----END RSA PRIVATE KEY-----`.\n",
    "elided.md": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA...\n"
    "-----END RSA PRIVATE KEY-----\n",
    "long.md": "# How we rotate keys\n\n" + "Each key is replaced once a year. " * 200
    + "\n\n" + pem("RSA PRIVATE KEY"),
    "cert.txt": pem("CERTIFICATE"),
    "public.txt": pem("PUBLIC KEY"),
    "openapi.json": json.dumps({"properties": {"private_key": {"type": "string"}}}),
    "deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nspec:\n  token: abc\n",
    "chart.yaml": "apiVersion: v1\nkind: Secret\ndata:\n  password: {{ .Values.password }}\n",
    "k8s.md": "# Secrets\n\n```yaml\napiVersion: v1\nkind: Secret\ndata:\n  a: aHVudGVyMg==\n```\n",
    "aws.md": "Set `aws_secret_access_key = " + "x" * 40 + "` in the file.\n",
    "table.csv": "name,about\nada,her secret access key is lost\n",
    "passwd.txt": "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/sh\n",
    "hash.md": f"A line of htpasswd looks like this:\n\n    ada:{HASH}\n",
    "settings.ini": "[server]\nport = 8000\n",
    "machine.md": "machine learning notes\n",
    "empty.md": "",
    "config.yaml": "kind: Config\nname: mine\n",
    "logins.csv": "user,logins,password resets\nbob,12,3\n",
    "schema.csv": "column,type,password\n",
    "template.txt": "DB_PASSWORD=change-me-please\nAPI_KEY=<your key here>\nTOKEN=$OTHER_TOKEN\n",
    "variables.md": "Set these:\n\nDB_PASSWORD=hunter2hunter2\n\nand restart the server.\n",
    "lower.md": "Set `db_password=k3Xq9vTz` and\nrestart.\n\nThen look at the log.\n",
    "sep.csv": "sep=;\nname;about\nada;her password is lost\n",
    "schema.yaml": "password:\n  type: string\ntoken:\n  type: string\n  description: a token\n",
    "example.ini": "[db]\npassword = changeme\n[api]\ntoken = YOUR-TOKEN-HERE\n",
    "settings.py": "password = get_password()\ntoken = os.environ['TOKEN']\nx = 1\n",
    "url.ini": "[db]\nurl = postgres://user:password@localhost/app\nname = x\n",
    "paths.ini": "[tls]\nprivate_key = /etc/ssl/private/server.key\n",
    "tokens.md": f"A token such as {GITHUB_TOKEN} gives access. Keep it.\n" * 3
    + "\nCreate one in the settings.\n",
    "fake.ini": "[github]\ntoken = ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
    "[aws]\nid = AKIAIOSFODNN7EXAMPLE\n",
    "npm.md": "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n",
    "messages.properties": "login.password=Password\nlogin.title=Sign in\nlogin.token=Kennwort\n",
    "times.txt": "10:20:30:40:50\n11:21:31:41:51\n",
    "links.txt": "https://x.example/a\nhttps://x.example/b\n",
    "api.json": json.dumps({"items": [{"name": "login"}], "example": {"password": "hunter2"}}),
    "chat.json": json.dumps([{"role": "user", "text": "what is a token, and a \"password\"?"}]),
    "link.txt": "https://x.example/a?b=c\n",
    "terraform.json": json.dumps({"terraform_version": "needs 1.9"}),
    "slack.json": json.dumps({"token": "xoxb-123456789012-123456789012-xxxxxxxxxxxxxxxxxxxxxxxx"}),
    "wp-config-sample.php": "<?php\ndefine( 'DB_PASSWORD', 'password_here' );\n"
    "define( 'AUTH_KEY', 'put your unique phrase here' );\n",
    "login.php": "<?php\ndefine('MAX_PASSWORD', 64);\n$password = $_POST['password'];\n"
    "if (strlen($password) < 8) { die('The password is too short'); }\n",
    "connection.json": json.dumps({"Default": "Server=x;User Id=sa;Password=<password>;",
                                   "Other": "Server=x;User Id=sa;Password=${PASSWORD};"}),
    "connection.md": "# Settings\n\nUse `Server=x;User Id=sa;Password=m8nMVacIrz5E6nNy0a;` here.\n",
    "guide.html": "<!doctype html><html><body><p>Write your own password into this file, and keep "
    "it: <code>Server=x;User Id=sa;Password=m8nMVacIrz5E6nNy0a;</code></p></body></html>",
    "docbook.xml": "<article><para>This element sets the password that is used for the server: "
    "</para><programlisting><password>m8nMVacIrz5E6nNy0a</password></programlisting></article>",
    "maven.xml": "<settings><!-- <password>m8nMVacIrz5E</password> --><servers><server><id>x</id>"
    "<password>{COQLCE6DU6GtcS5P=}</password></server></servers></settings>",
    "form.xml": "<form><input type='password' name='password1'/><password>${db.pass}</password>"
    "</form>",
    "tests.csv": "name,pass,fail\nlogin,12,3\nsearch,7,0\n",
    "users.csv": "user,pass\nada,yes\nbob,no\n",
    "deploy.sh": "#!/bin/sh\nDB_PASSWORD=$1\nTOKEN=$(cat token.txt)\nexport API_KEY=${API_KEY:?}\n"
    "PASSWORD=changeme\nSECRET_KEY=`openssl rand -hex 32`\nread -s -p 'Password: ' password\n",
    "install.sh": "#!/bin/bash\nset -euo pipefail\nVERSION=1.2.3\ncurl https://x.example/$VERSION\n"
    "NEXT_TOKEN=abc123def456\necho \"token=$NEXT_TOKEN\"\n",
    "run.ps1": "$env:API_KEY = $args[0]\nWrite-Host 'the password is in the vault'\n",
    "image.txt": "FROM python:3.12\nARG TOKEN\nENV DB_PASSWORD=changeme API_KEY=$KEY\n"
    "ENV PATH=/opt/x1/bin:$PATH\nRUN TOKEN=$(cat /run/secrets/x) make\n",
    "from.md": f"From the log of the harbour\n\nThe token {GITHUB_TOKEN} was revoked.\n",
    "hosts.txt": "[web]\nweb1 ansible_host=10.0.0.1 ansible_password='{{ vault_password }}'\n"
    "web2 ansible_password=vagrant\n",
    "hosts.md": "# Inventory\n\nWrite the password into the line of the host:\n\n"
    "    web1 ansible_password=k3Xq9vTz\n",
    "encryption.yaml": "encryption_key: the name of the column\nmaster_key: id\n",
    "results.ini": "[run]\npass = 12\nfail = 3\n",
    "cookies.md": "# Cookies\n\nThe file begins with `# Netscape HTTP Cookie File`.\n",
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT_SECRET)
def test_a_secret_is_known_by_its_content(name: str) -> None:
    reason = secret_reason("notes.txt", KEPT_SECRET[name].encode())
    assert reason is not None
    assert "holds" in reason
    assert "ingest.include_secrets" in reason


@pytest.mark.parametrize("name", BY_NAME)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert secret_reason(name, BY_NAME[name].encode()) == secret_files.BY_NAME
    assert secret_reason(f"/home/ada/.ssh/{name}", b"") == secret_files.BY_NAME


@pytest.mark.parametrize("name", HARMLESS)
def test_what_writes_about_secrets_is_read(name: str) -> None:
    assert secret_reason(name, HARMLESS[name].encode()) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_every_encoding_that_is_read(encoding: str) -> None:
    key = KEPT_SECRET["key.txt"].encode(encoding)
    assert decode(key) == KEPT_SECRET["key.txt"]
    assert secret_reason("a.txt", key) is not None


HOSTILE = {
    "begins": b"-----BEGIN " * 6000,
    "blocks": b"-----BEGIN A PRIVATE KEY-----" * 3000,
    "dashes": b"-" * 65536,
    "spaces": b" \t" * 32768,
    "comments": b"#\n" * 32768,
    "colons": b"a:" * 32768,
    "yaml": b"kind:\n" + b" - " * 20000,
    "machine": b"machine " * 8000,
    "json": b'{"private_key"' + b" " * 65000,
    "settings": b"a=\n" + b" \t" * 32000,
    "commas": b"secret access " * 4000 + b",",
    "columns": b"password," * 7000 + b"\n" + b"a," * 100,
    "variables": b"A_" * 30000 + b"=\n" + b"A=\n" * 50,
    "hosts": b"a." * 30000 + b":\n",
    "urls": b"a=" + b"a://a:" * 10000,
    "tokens": b"ghp_" * 16000,
    "pats": b"github_pat_" * 6000,
    "quotes": b"password='" * 6000,
    "literals": b"password=" + b"a, #" * 16000,
    "factors": b"otpauth://a?a&" * 4600,
    "names": b"a_" * 30000 + b"password: x",
}


def test_no_content_takes_long() -> None:
    """Runs in a separate process, so that a hang fails the test."""
    code = (
        "import sys; from kb.ingest.secret_files import secret_reason\n"
        "from tests.ingest.test_secret_files import HOSTILE\n"
        "for text in HOSTILE.values(): secret_reason('a', b'PRIVATE KEY' + text); "
        "secret_reason('a', text)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_included_paths(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    listed = included_paths(f"{tmp_path / 'link' / 'a.key'}, {tmp_path}/keys ,,")
    real = os.path.realpath(tmp_path)
    assert is_included(os.path.join(real, "a.key"), listed)
    assert is_included(os.path.join(real, "keys", "b", "c"), listed)
    assert not is_included(os.path.join(real, "keys2"), listed)
    assert not is_included(os.path.join(real, "b.key"), listed)
    assert included_paths("") == ()


# --- interfaces -----------------------------------------------------------------------------------


def lay(tmp_path: Path, files: dict[str, str]) -> Path:
    root = tmp_path / "lib"
    root.mkdir()
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    return root


def opened(tmp_path: Path, included: str = "") -> KnowledgeBase:
    config = replace(Config(), ingest=replace(IngestConfig(), include_secrets=included))
    return KnowledgeBase(tmp_path / "store" / "kb.sqlite", config=config, encoder="none")


def test_none_is_ingested(tmp_path: Path) -> None:
    root = lay(tmp_path, {**KEPT_SECRET, **BY_NAME, "plain.md": "# Plain\n\nText.\n"})
    with opened(tmp_path) as kb:
        report = kb.ingest(root)
        assert report.added == ("lib/plain.md",)
        reasons = {note.path: note.reason for note in report.skipped}
        hidden = {name for name in BY_NAME if name.startswith(".")}
        assert set(reasons) == {f"lib/{name}" for name in {*KEPT_SECRET, *BY_NAME} - hidden}
        assert all(secret_files.HOW_TO_INCLUDE in reason for reason in reasons.values())
        assert kb.ingest(root / "deploy_key").skipped[0].reason.startswith("holds a private key")
        assert kb.search("BEGIN PRIVATE").hits == ()


TOKENS = [
    GITHUB_TOKEN, "github_pat_11QBKXWZ0" + GITHUB_TOKEN[4:] * 2, "AKIA" + "Q3EGZW7RTYU5XK2J",
    "xoxb-17653285-98421650-" + GITHUB_TOKEN[4:28], "sk-proj-" + GITHUB_TOKEN[4:] * 2,
    "sk-" + GITHUB_TOKEN[4:24] + "T3BlbkFJ" + GITHUB_TOKEN[20:40],
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_a_note_or_a_program_with_a_token_is_read_with_a_warning(
    tmp_path: Path, token: str
) -> None:
    """It is more than its token. The warning shows only the kind of token."""
    library = tmp_path / "library"
    library.mkdir()
    prose = "The harbour opens at nine, and the buoys are checked twice a day.\n\n"
    (library / "note.md").write_text(f"# Harbour\n\n{prose * 99}\nThe key is {token}.\n")
    (library / "ask.py").write_text(f'def ask():\n    """Ask."""\n    return call("{token}")\n')
    (library / "clean.md").write_text(f"# Harbour\n\n{prose}")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        report = kb.ingest(library)
        assert len(report.added) == 3
        told = {note.path: note.reason for note in report.warnings}
        assert set(told) == {"library/note.md", "library/ask.py"}
        for warning in told.values():
            assert "looks like a secret token" in warning
            assert token[:4] in warning
            assert token[:9] not in warning
        warnings: list[str] = []
        kb.add(f"Remember {token}", on_warning=warnings.append)
        assert len(warnings) == 1
        kb.config = replace(
            kb.config, ingest=replace(kb.config.ingest, include_secrets=str(library))
        )
        assert not kb.ingest(library, force=True).warnings


def test_a_note_with_a_second_factor_is_read_with_a_warning() -> None:
    note = "# GitHub\n\nThe second factor: otpauth://totp/GitHub:bob?secret=MFRGGZDFMZTWQ2LK\n"
    assert secret_files.secret_reason("note.md", note.encode()) is None
    assert "second factor" in (secret_files.token_warning(note) or "")


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_is_no_warning(name: str) -> None:
    expected = name in ("tokens.md", "from.md", "long.md")
    assert (secret_files.token_warning(HARMLESS[name]) is not None) == expected


def test_what_is_harmless_is_ingested(tmp_path: Path) -> None:
    root = lay(tmp_path, {name: text for name, text in HARMLESS.items() if text})
    with opened(tmp_path) as kb:
        report = kb.ingest(root)
        skipped = {note.path for note in report.skipped if "secret" in note.reason}
        assert not skipped
        assert "lib/guide.md" in report.added


def test_the_user_can_have_one_read(tmp_path: Path) -> None:
    names = ("deploy_key", "id_rsa.md", "id_rsa.txt")
    root = lay(tmp_path, dict.fromkeys(names, KEPT_SECRET["deploy_key"]))
    with opened(tmp_path, f"{root / 'deploy_key'},{root / 'id_rsa.md'}") as kb:
        report = kb.ingest(root)
        assert report.added == ("lib/deploy_key", "lib/id_rsa.md")
        assert [note.path for note in report.skipped] == ["lib/id_rsa.txt"]
        assert kb.ingest(root / "deploy_key").unchanged == 1
    with opened(tmp_path) as kb:  # and it is removed again when they revoke that
        assert kb.ingest(root, force=True).removed == ("lib/deploy_key", "lib/id_rsa.md")


def test_a_key_inside_a_document(tmp_path: Path) -> None:
    key = pem("OPENSSH PRIVATE KEY")
    mail = EmailMessage()
    mail["Subject"] = "the key"
    mail.set_content("Here it is.\n")
    mail.add_attachment(key, filename="id.txt")
    paragraphs = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in key.splitlines())
    word = (
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        f"<w:body>{paragraphs}</w:body></w:document>"
    )
    root = tmp_path / "lib"
    root.mkdir()
    (root / "key.eml").write_bytes(mail.as_bytes(policy=policy.SMTP))
    (root / "key.docx").write_bytes(zipped({"word/document.xml": word}))
    (root / "key.pdf").write_bytes(made(text_page(*key.splitlines())))
    (root / "text.pdf").write_bytes(made(text_page("What is a PRIVATE KEY?")))
    with opened(tmp_path) as kb:
        report = kb.ingest(root)
        assert report.added == ("lib/text.pdf",)
        assert {(note.path, note.reason) for note in report.skipped} == {
            (f"lib/key.{suffix}", f"holds a private key ({secret_files.HOW_TO_INCLUDE})")
            for suffix in ("docx", "eml", "pdf")
        }
    with opened(tmp_path, str(root / "key.pdf")) as kb:
        assert kb.ingest(root).added == ("lib/key.pdf",)


def test_one_that_a_file_becomes(tmp_path: Path) -> None:
    root = lay(tmp_path, {"notes.md": "# Notes\n\nThe third tree.\n"})
    with opened(tmp_path) as kb:
        kb.ingest(root)
        (root / "notes.md").write_text(pem("PRIVATE KEY"), encoding="utf-8")
        report = kb.ingest(root)
        assert (len(report.skipped), report.removed) == (1, ("lib/notes.md",))


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
    assert secret_files.is_secret_name(name)


@pytest.mark.parametrize("name", SECRET_FOLDERS)
def test_secret_folder(name: str) -> None:
    assert secret_files.is_secret_name(name, folder=True)
    assert secret_files.leads_to_secret(f"/home/me/{name}/config")


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
    assert not secret_files.is_secret_name(name)


def test_folders_with_names_of_secret_files() -> None:
    assert not secret_files.is_secret_name("credentials", folder=True)
    assert not secret_files.is_secret_name("talk.key", folder=True)


def _sheet(name: str, rows: list[list[str]]) -> bytes:
    if name.endswith(".xlsx"):
        cells = [
            "".join(f"<c t='inlineStr'><is><t>{each}</t></is></c>" for each in row) for row in rows
        ]
        return office.xlsx({"First": ["<c><v>1</v></c>"], "S": cells})
    inside = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{each}</text:p></table:table-cell>" for each in row)
        + "</table:table-row>"
        for row in rows
    )
    return office.opendocument(f"<table:table table:name='S'>{inside}</table:table>")


@pytest.mark.parametrize("name", ["export.xlsx", "export.ods"])
def test_a_spreadsheet_of_passwords(tmp_path: Path, name: str) -> None:
    header = ["name", "url", "username", "password"]
    rows = [["bank", "https://bank.example", "ada", "Xk29fooBar77"]]
    filler = [[f"row {number} of an ordinary sheet", "x"] for number in range(2000)]
    for before in ([], filler):
        folder = tmp_path / f"of-{len(before)}"
        folder.mkdir()
        (folder / name).write_bytes(_sheet(name, [*before, header, *rows]))
        with opened(tmp_path / f"{len(before)}") as kb:
            report = kb.ingest(folder)
            assert "holds passwords" in report.skipped[0].reason
            assert kb.documents() == []
        with opened(tmp_path / f"{len(before)}", str(folder)) as kb:
            assert len(kb.ingest(folder).added) == 1


@pytest.mark.parametrize("name", ["export.xlsx", "export.ods"])
def test_a_spreadsheet_about_passwords(tmp_path: Path, name: str) -> None:
    rows = [["rule", "password"], ["length", "12"], ["name", "of the rule about passwords"]]
    (tmp_path / name).write_bytes(_sheet(name, rows))
    with opened(tmp_path) as kb:
        assert len(kb.ingest(tmp_path / name).added) == 1


@pytest.mark.parametrize("name", ["passwords.xlsx", "Logins.ods", "credentials.tsv"])
def test_spreadsheets_with_names_of_secret_files(name: str) -> None:
    assert secret_files.is_secret_name(name)
    assert not secret_files.is_secret_name(f"about-{name}")


def test_a_key_in_the_middle_of_a_file(tmp_path: Path) -> None:
    key = pem("RSA PRIVATE KEY", 600)
    lib = tmp_path / "lib"
    lib.mkdir()
    indented = "\n".join(f"  {line}" for line in key.splitlines())
    (lib / "values.yaml").write_text("x: 1\n" * 2000 + f"key: |\n{indented}\n")
    (lib / "note.md").write_text("# Notes\n" + "The tide turns at noon.\n" * 300 + f"\n{key}")
    for name, at in (("late.mbox", 17), ("early.mbox", 1)):
        mails = [f"From a\nSubject: s{n}\n\nbody{n}\n" + key * (n == at) for n in range(20)]
        (lib / name).write_text("\n".join(mails))
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        report = kb.ingest(lib)
        texts = {document.doc_path: kb.get(document.doc_path).text for document in kb.documents()}
    assert [note.path for note in report.skipped] == ["lib/values.yaml"]
    assert sorted(texts) == ["lib/early.mbox", "lib/late.mbox", "lib/note.md"]
    warnings = {note.path: note.reason for note in report.warnings}
    assert "contains a private key" in warnings["lib/note.md"]
    for name, at in (("lib/late.mbox", 18), ("lib/early.mbox", 2)):
        assert f"message {at} is not read: it holds a private key" in warnings[name]
        assert "PRIVATE KEY" not in texts[name]
        assert "body19" in texts[name]
