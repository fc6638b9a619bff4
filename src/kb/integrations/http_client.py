"""An asynchronous client for a server that `kb serve` runs (extra `client`).

    async with AsyncClient("http://127.0.0.1:8765", api_key=key) as client:
        response = await client.search("how long do the batteries last?", top=5)

Results are the JSON of the HTTP API; see the reference. Errors are those of `kb.errors`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from kb import errors
from kb.types import JsonDict

_BY_CODE: dict[str, type[errors.KbError]] = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.KbError) and hasattr(each, "code")
}


class AsyncClient:
    """Calls the HTTP API of one server. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout_s, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def search(self, query: str, **options: Any) -> JsonDict:
        """Search; `options` are the fields of the request, such as `top`, `filters` and
        `include_text`."""
        return await self._call("POST", "/search", json={"query": query, **options})

    async def get(self, uri: str) -> JsonDict:
        """Open a citation or a document."""
        return await self._call("GET", "/passages", params={"uri": uri})

    async def add(self, text: str, **options: Any) -> JsonDict:
        """Add a note; `options` are the fields of the request, such as `title` and `tags`."""
        return await self._call("POST", "/documents", json={"text": text, **options})

    async def status(self) -> JsonDict:
        """Describe the contents of the store."""
        return await self._call("GET", "/status")

    async def _call(self, method: str, path: str, **options: Any) -> JsonDict:
        response = await self._http.request(method, path, **options)
        if response.is_error:
            raise _error_of(response)
        result: JsonDict = response.json()
        return result


def _error_of(response: httpx.Response) -> errors.KbError:
    try:
        error = response.json()
        cls = _BY_CODE.get(error["code"], errors.KbError)
        return cls(error["message"], error.get("hint") or "")
    except (ValueError, KeyError, TypeError):
        return errors.KbError(
            f"the server responded with status {response.status_code}", "see its log"
        )
