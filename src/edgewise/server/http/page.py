"""A small live view for people: three static files, which read the API like everybody else."""

from __future__ import annotations

from importlib.resources import files

from litestar import Response, Router, get

# Only our own files run here, and nobody may put this page into a frame.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> Router:
    index, script, style = (_read(name) for name in ("index.html", "page.js", "page.css"))

    @get("/", open=True, include_in_schema=False)
    async def show_index() -> Response[bytes]:
        return Response(index, media_type="text/html; charset=utf-8", headers=HEADERS)

    @get("/page.js", open=True, include_in_schema=False)
    async def show_script() -> Response[bytes]:
        return Response(script, media_type="text/javascript; charset=utf-8", headers=HEADERS)

    @get("/page.css", open=True, include_in_schema=False)
    async def show_style() -> Response[bytes]:
        return Response(style, media_type="text/css; charset=utf-8", headers=HEADERS)

    return Router("/", route_handlers=[show_index, show_script, show_style])


def _read(name: str) -> bytes:
    return (files("edgewise.server.http") / "page_files" / name).read_bytes()
