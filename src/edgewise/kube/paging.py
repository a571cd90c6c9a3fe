"""Lists, page by page, all from one snapshot."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, TypeVar

from edgewise.kube.bounds import MOST_PAGES, Bounds
from edgewise.kube.documents import Listing, count_items, decode_list
from edgewise.kube.errors import TooLarge
from edgewise.kube.objects import Object

T = TypeVar("T", bound=Object)


class Request(Protocol):
    async def __call__(
        self, method: str, path: str, *, params: dict[str, str], largest: int
    ) -> bytes: ...


async def pages(
    request: Request, kind: type[T], path: str, params: dict[str, str], bounds: Bounds
) -> AsyncGenerator[Listing[T], None]:
    for _ in range(MOST_PAGES):
        page = decode_list(kind, await _page(request, path, params, bounds))
        yield page
        if not page.continue_token:
            return
        # The token stands for the snapshot; a version beside it would be refused.
        params.pop("resourceVersion", None)
        params.pop("resourceVersionMatch", None)
        params["continue"] = page.continue_token
    raise TooLarge(f"the API server lists {kind.KIND.plural} without end")


async def _page(request: Request, path: str, params: dict[str, str], bounds: Bounds) -> bytes:
    """Objects may be so large that fewer of them must do."""
    while True:
        limit = int(params.get("limit", 0))
        largest = bounds.page if limit else bounds.whole
        try:
            content = await request("GET", path, params=params, largest=largest)
        except TooLarge:
            if limit <= 1:
                raise
            params["limit"] = str(limit // 4 or 1)
            continue
        if bounds.values and limit and count_items(content) > limit:
            raise TooLarge(f"the API server lists more than the {limit} objects it was asked for")
        return content
