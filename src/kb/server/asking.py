"""Routes: answers to questions, quoted from the store or written by a language model.

A written answer is a stream of server-sent events. The server keeps nothing between two questions:
the client sends the earlier ones again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kb import wire
from kb.deadline import Deadline
from kb.errors import InvalidRequest, KbError, short_repr
from kb.library.conversation import Conversation, Delta, Event, Sent
from kb.models.chat import chat_client
from kb.server.context import Context, ServerContext
from kb.server.openapi import operation
from kb.server.request_bodies import check_fields
from kb.types import JsonDict

_QUESTION = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "sentences": {"type": "integer", "minimum": 1, "maximum": 20},
        "top": {
            "description": "The number of passages to take sentences from.",
            "type": "integer",
            "minimum": 1,
        },
        "profile": {"type": "string"},
        "filters": {"type": "object"},
    },
    "required": ["question"],
    "additionalProperties": False,
}
_QUESTION_FIELDS = {"question": str, "sentences": int, "top": int, "profile": str, "filters": dict}
_QUESTION_EXAMPLE = {"question": "Why were the radio slots made wider?", "sentences": 3}
_TURN = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
    "additionalProperties": False,
}
_TURN_FIELDS = {"question": str, "answer": str}
_MAX_TURNS = 3
_WRITTEN = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "turns": {
            "description": "Earlier questions of the conversation, with their answers.",
            "type": "array",
            "items": _TURN,
            "maxItems": _MAX_TURNS,
        },
        "filters": {"type": "object"},
    },
    "required": ["question"],
    "additionalProperties": False,
}
_WRITTEN_FIELDS = {"question": str, "filters": dict}
_WRITER = {
    "type": "object",
    "description": "The language model that writes answers; null if none is configured.",
    "properties": {"model": {"type": ["string", "null"]}, "host": {"type": ["string", "null"]}},
    "required": ["model", "host"],
    "additionalProperties": False,
}
_EVENTS = {
    "type": "string",
    "description": "`sent` (the messages and the citations of their passages), then `delta` (a "
    "part of the text) and `sentence` (a checked sentence, as `written` in `answer.v1`), then "
    "`done`, or `error` with an `error.v1`. Only `done` if no passage is relevant.",
}


def router() -> APIRouter:
    routes = APIRouter(tags=["ask"])

    @routes.post(
        "/ask",
        summary="Answer a question with sentences of the store",
        openapi_extra=operation("answer.v1", request=_QUESTION, request_example=_QUESTION_EXAMPLE),
    )
    async def ask(request: Request, context: Context) -> Response:
        fields = check_fields(await context.body(request), _QUESTION_FIELDS, required=("question",))
        context.check_query(fields["question"])
        context.check_top(fields.get("top"))
        if "filters" in fields:
            fields["filters"] = wire.read_filters(fields["filters"])
        return await context.search(
            request, lambda: wire.answer(context.view(request).ask(**fields))
        )

    @routes.get(
        "/ask",
        summary="Name the language model that writes answers",
        openapi_extra=operation(_WRITER),
    )
    async def writer(request: Request, context: Context) -> Response:
        def work() -> JsonDict:
            try:
                client = chat_client(context.kb.config)
            except KbError:
                client = None
            if client is None:
                return {"model": None, "host": None}
            return {"model": client.model, "host": client.host}

        return await context.read(request, work)

    @routes.post(
        "/ask/written",
        summary="Answer a question with a language model, and check its citations",
        description="Needs `ask.endpoint_url`. A client that disconnects stops the answer.",
        response_class=StreamingResponse,
        openapi_extra=operation(
            _EVENTS,
            request=_WRITTEN,
            request_example={"question": "Why were the radio slots made wider?"},
            media_type="text/event-stream",
        ),
    )
    async def write_answer(request: Request, context: Context) -> Response:
        body = await context.body(request)
        turns = _read_turns(body.pop("turns", None))
        fields = check_fields(body, _WRITTEN_FIELDS, required=("question",))
        context.check_query(fields["question"])
        if not context.kb.config.ask.endpoint_url:
            raise InvalidRequest(
                "this server has no language model",
                "set ask.endpoint_url and ask.endpoint_model in its settings, or use POST /ask",
            )
        filters = wire.read_filters(fields["filters"]) if "filters" in fields else None
        conversation = Conversation(context.view(request), filters, turns=turns)
        answer = _AnswerStream(request, context, conversation, fields["question"])
        first = await answer.start()
        return StreamingResponse(answer.lines(first), media_type="text/event-stream")

    return routes


def _read_turns(value: Any) -> list[tuple[str, str]]:
    """Earlier questions with their answers. Raises `InvalidRequest`."""
    turns = [] if value is None else value
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise InvalidRequest(f"turns cannot be {short_repr(value)}", "send a list of objects")
    if len(turns) > _MAX_TURNS:
        raise InvalidRequest("too many turns", f"send at most the last {_MAX_TURNS}")
    checked = [check_fields(turn, _TURN_FIELDS, required=_TURN_FIELDS) for turn in turns]
    return [(turn["question"], turn["answer"]) for turn in checked]


class _AnswerStream:
    """Runs a conversation in a thread, and passes its events to the event loop."""

    def __init__(
        self, request: Request, context: ServerContext, conversation: Conversation, question: str
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        limits = context.limits

        def work(_deadline: Deadline) -> None:
            for event in conversation.ask(question):
                name, data = _shape(event)
                self._loop.call_soon_threadsafe(self._queue.put_nowait, _line(name, data))

        self._task = asyncio.ensure_future(
            context.answers.run(
                request,
                work,
                limits.request_timeout_s + conversation.kb.config.ask.timeout_s,
                start_timeout_s=limits.request_timeout_s,
            )
        )
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))

    async def start(self) -> str | None:
        """The first event; None if there is none. Raises the error if the answer did not begin, so
        that it becomes an ordinary error response."""
        first = await self._queue.get()
        if first is None:
            self._task.result()
        return first

    async def lines(self, first: str | None) -> AsyncIterator[str]:
        try:
            line = first
            while line is not None:
                yield line
                line = await self._queue.get()
            try:
                self._task.result()
                yield _line("done", {})
            except KbError as error:
                yield _line("error", error.to_dict())
        finally:
            self._task.cancel()


def _shape(event: Event) -> tuple[str, JsonDict]:
    if isinstance(event, Delta):
        return "delta", {"text": event.text}
    if isinstance(event, Sent):
        citations = [wire.citation(each) for each in event.citations]
        return "sent", {"messages": [dict(each) for each in event.messages], "citations": citations}
    return "sentence", wire.written_sentence(event)


def _line(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
