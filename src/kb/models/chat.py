"""A language model behind an OpenAI-compatible endpoint: streams the text of an answer.

Only text is read from a response: tool calls, links and everything else in it are ignored. The
whole stream has one time limit and one size limit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING

from kb import deadline
from kb.errors import ConfigError, EndpointError, ModelBroken, is_unicode, to_unicode
from kb.models import network
from kb.models.http_client import error_message, read_start

if TYPE_CHECKING:
    from kb.config import Config

KEY_VARIABLE = "KB_ASK_KEY"
Message = Mapping[str, str]  # role and content
_PATH = "/chat/completions"
_MAX_BYTES = 4 << 20
_MAX_LINE_BYTES = 1 << 20
_MAX_CHARS = 100_000  # of an answer
_SHOWN_CHARS = 200
_HINT = "check ask.endpoint_url and ask.endpoint_model"


@dataclass(frozen=True, slots=True)
class ChatClient:
    """Requests answers from a server. Threads may share it."""

    url: str
    model: str
    timeout_s: float
    key: str = field(default="", repr=False)

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """The parts of the answer as they arrive. Raises `EndpointError` if the server fails or is
        too slow, and `ModelBroken` if it does not send an answer. A canceled deadline of the thread
        ends the request."""
        from urllib.error import HTTPError
        from urllib.request import Request

        from kb.models.connections import TimeLimit, open_url

        body = {"model": self.model, "messages": list(messages), "stream": True}
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        request = Request(self.url, json.dumps(body).encode(), headers, method="POST")
        if self.key:
            request.add_unredirected_header("Authorization", f"Bearer {self.key}")
        try:
            limit = TimeLimit(self.timeout_s, check=deadline.check)
            with open_url(request, limit, redirects=False) as response:
                yield from self._parts(response)
        except HTTPError as error:
            with error:
                reason = self._without_key(error_message(read_start(error)))
            message = f"the endpoint {self.host} refused the request: HTTP {error.code}"
            raise EndpointError(f"{message}: {reason}" if reason else message, _HINT) from None
        except (OSError, HTTPException) as error:
            reason = network.describe_failure(error)
            raise EndpointError(
                f"the endpoint {self.host} failed: {reason}",
                "check that the server is running; kb ask --quote works without it",
            ) from error

    @property
    def host(self) -> str:
        return network.host_of(self.url)

    def _parts(self, response: HTTPResponse) -> Iterator[str]:
        is_stream = "event-stream" in response.headers.get("Content-Type", "")
        chars = size = 0
        is_complete = not is_stream
        lines = _lines(response) if is_stream else iter([response.read(_MAX_BYTES)])
        for line in lines:
            size += len(line)
            if size > _MAX_BYTES:
                raise ModelBroken(f"the response from {self.host} is too long", _HINT)
            data = line.strip()
            if is_stream:
                if not data.startswith(b"data:"):
                    continue  # a comment, an event name or an empty line
                data = data[5:].strip()
                if data == b"[DONE]":
                    is_complete = True
                    break
            text, is_last = self._text(data, "delta" if is_stream else "message")
            is_complete = is_complete or is_last
            if text:
                chars += len(text)
                if chars > _MAX_CHARS:
                    raise ModelBroken(f"the answer from {self.host} is too long", _HINT)
                yield text
        if not is_complete:  # a server that crashes closes the connection too
            message = f"the endpoint {self.host} closed the connection before the end of the answer"
            raise EndpointError(message, "ask again; kb ask --quote needs no endpoint")
        if not chars:
            raise EndpointError(
                f"the answer from {self.host} is empty", "check ask.endpoint_model, or ask again"
            )

    def _text(self, data: bytes, name: str) -> tuple[str, bool]:
        """The text in an event, empty if it has none; and whether the answer ends with it."""
        try:
            event = json.loads(data)
            if isinstance(event, dict) and "error" in event:
                reason = self._without_key(error_message(data.decode("utf-8", "replace")))
                raise EndpointError(f"the endpoint {self.host} failed: {reason}", _HINT)
            choices = event["choices"]
            message = choices[0].get(name) or {} if choices else {}
            is_last = bool(choices) and bool(choices[0].get("finish_reason"))
            text = message.get("content") or message.get("refusal") or ""
            if not isinstance(text, str):
                raise TypeError("content is not text")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            start = self._without_key(data[:_SHOWN_CHARS].decode("utf-8", "replace"))
            raise ModelBroken(
                f"the endpoint {self.host} sent something other than an answer: {start!r}", _HINT
            ) from error
        return (text if is_unicode(text) else to_unicode(text)), is_last

    def _without_key(self, text: str) -> str:
        return text.replace(self.key, "***") if self.key else text


def chat_client(config: Config) -> ChatClient | None:
    """The client of the configured language model; None if none is configured. Raises `ConfigError`
    or `Offline`."""
    settings = config.ask
    if not settings.endpoint_url:
        return None
    url = network.check_url(settings.endpoint_url, "ask.endpoint_url")
    if not settings.endpoint_model:
        raise ConfigError("ask.endpoint_model is not set", "set it to the name of a model")
    if not network.is_this_machine(url):
        network.check_online(config, url)
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if any(not 32 < ord(char) < 127 for char in key):
        raise ConfigError(
            f"{KEY_VARIABLE} contains characters that are not allowed", "set it to a valid key"
        )
    return ChatClient(url.rstrip("/") + _PATH, settings.endpoint_model, settings.timeout_s, key)


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    while line := response.readline(_MAX_LINE_BYTES):
        yield line
