"""Whose a session is: an owner, as it is written into sessions and read from them.

The name of an application with an API token stands as it is; a name that an OIDC issuer gave
stands behind a prefix that no token's application can have.
"""

from __future__ import annotations

import re

# In front of the names that an OIDC issuer gives: an application of the same name that has an API
# token is another one.
OIDC_PREFIX = "oidc:"

APPLICATION_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def owner_in(written: str) -> str:
    """The owner of a session, also of one from the time when nobody was told apart.

    Then a name stood for both. One that no token's application can have was an issuer's; of
    all others nobody can say, and they belong to the application with the token: an issuer's
    users, who choose their names more freely, shall not get what may not be theirs.
    """
    if not written or written.startswith(OIDC_PREFIX) or APPLICATION_NAME.fullmatch(written):
        return written
    return f"{OIDC_PREFIX}{written}"
