"""Values that have broken servers before, for `tests.server.fuzz`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

_TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "\ufffe", "\u202e", "é", "e\u0301", "漢字",
    "🌊", "a\nb", "a\r\nX-Evil: 1", "\t", "'", '"', "'\"'", "' OR 1=1 --", "'a* OR'", "'(((('",
    "'NEAR(a b'", "'a* OR b*'", "'\"unclosed'", "a AND", "NOT", "*", "**", "[", "[[]", "{a,b}",
    "?" * 50, "*a" * 30, "lib/**/*.md", "../../etc/passwd", "/etc/passwd", "file:///etc/passwd",
    "C:\\x", "lib/", "/", "#", "#L1", "lib/notes/retry.md#L0", "lib/notes/retry.md#L9-L1",
    "lib/notes/retry.md#page=1", "lib/notes/retry.md#L99999999999999999999", "%", "%zz", "%00",
    "note:1", "note:-1", "note:99999", "note:" + "9" * 30, "1", "-1", "0", "1e309", "NaN",
    "Infinity", "true", "null", "9" * 25, "0x10", "2026-01-01", "2026-13-45", "0000-00-00",
    "99999-01-01", "2026-01-01T00:00:00+99:99", "7d", "-7d", "99999999999d", "never", "lexical",
    "hybrid", "vector", "default", "notes", "markdown", "lesson", "global", "primary",
    "nDCG@10", "nDCG@0", "P@99999999", "nDCG@" + "9" * 40, "a" * 300, "word " * 400,
    "a" * 9_000, "<script>alert(1)</script>", "${jndi:x}", "{{7*7}}", "\x1b[31m",
)  # fmt: skip


def hostile_text(rng: random.Random) -> str:
    if rng.random() < 0.8:
        return rng.choice(_TEXTS)
    most = rng.choice((0x80, 0x3000, 0x110000))
    return "".join(chr(rng.randrange(most)) for _ in range(rng.randint(1, 12)))


def _nested(rng: random.Random) -> Any:
    value: Any = rng.choice((None, "x", 1))
    for _ in range(rng.choice((3, 30, 300, 900, 945, 960, 980))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


VALUES: tuple[Callable[[random.Random], Any], ...] = (
    hostile_text,
    hostile_text,
    hostile_text,
    lambda rng: rng.choice((None, True, False, {}, [], [[]], {"": None}, [None], {"a": 1})),
    lambda rng: rng.choice(
        (0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 201, 1_000_001)
    ),
    lambda rng: rng.choice((0.0, -0.0, 0.5, 1e308, 5e-324, float("nan"), float("inf"), -1.5)),
    lambda rng: [hostile_text(rng) for _ in range(rng.choice((1, 2, 5, 40)))],
    lambda rng: {hostile_text(rng): hostile_text(rng) for _ in range(rng.randint(1, 4))},
    lambda rng: {"query": hostile_text(rng), "id": rng.randrange(9)},
    lambda rng: ["x"] * rng.choice((10, 1_200, 3_000)),
    _nested,
)

METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW")
PATHS = (
    "", "/", "//", "/search", "/search/", "/documents", "/documents/", "/documents//",
    "/uploads/", "/uploads/..", "/uploads/%2e%2e%2fx", "/assets/../app.js", "/assets/",
    "/chunks/x", "/chunks/-1", "/chunks/99999999999999999999999", "/docs", "/redoc", "/metrics",
    "/mcp", "/%00", "/%ff%fe", "*", "http://localhost/status", "/health?", "/uploads/con",
    "/uploads/a%0ab.md", "/" + "a" * 5_000,
)  # fmt: skip
HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Host", ("localhost", "evil.example", "", "[", "[::1]:99999", "localhost:x", "a@localhost")),
    ("Origin", ("http://localhost", "null", "http://[", "", "http://evil.example", "\x7f")),
    ("Sec-Fetch-Site", ("cross-site", "none", "x", "")),
    ("Sec-Fetch-Mode", ("navigate", "no-cors")),
    ("Content-Type", ("application/json", "text/plain", "application/json; charset=utf-16", "", ";",
                      "multipart/form-data; boundary=x", "application/x-www-form-urlencoded")),
    ("Authorization", ("Bearer x", "Basic x", "Bearer", "Bearer \xff")),
    ("Content-Length", ("0", "-1", "99999999999999999999", "1, 2", "x", "5")),
    ("Transfer-Encoding", ("chunked", "gzip", "identity", "chunked, chunked")),
    ("Accept", ("application/json", "text/event-stream", "*/*", "", "x/y;q=2")),
    ("Accept-Encoding", ("gzip", "*")),
    ("Range", ("bytes=0-1", "bytes=-1")),
    ("If-None-Match", ("*", '"x"')),
    ("Expect", ("100-continue", "x")),
    ("Upgrade", ("websocket", "h2c")),
    ("Connection", ("upgrade", "close", "keep-alive, x")),
    ("Cookie", ("a=b", "=" * 100)),
    ("X-Forwarded-For", ("1.2.3.4", "\xff")),
    ("X-KB-Request", ("1", "")),
    ("Mcp-Session-Id", ("x", "\xff")),
    ("MCP-Protocol-Version", ("2025-06-18", "x", "")),
    ("X-Long", ("a" * 9_000, "a" * 40_000)),
)  # fmt: skip
