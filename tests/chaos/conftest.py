"""The fault suite has an API server of its own: it restarts it."""

from tests.integration.conftest import api_server

SHARES = "api-server"

__all__ = ["api_server"]
