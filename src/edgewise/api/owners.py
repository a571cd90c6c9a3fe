"""Whose a session is: an owner, as it is written into sessions and read from them.

The name of an application with an API token stands as it is; a name that an OIDC issuer gave
stands behind a prefix that no token's application can have, and so does one of a tenant.
"""

from __future__ import annotations

import re

# In front of the names that an OIDC issuer gives: an application of the same name that has an API
# token is another one.
OIDC_PREFIX = "oidc:"

# In front of the name of a tenant, and that of its application behind it.
TENANT_PREFIX = "tenant:"

APPLICATION_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def owner_of_tenant(tenant: str, application: str) -> str:
    """An application of a tenant: a namesake of another tenant, or of none, is another one."""
    return f"{TENANT_PREFIX}{tenant}/{application}"


def owner_in(written: str) -> str:
    """The owner of a session, also of one from the time when nobody was told apart.

    Then a name stood for both. One that no token's application can have was an issuer's; of
    all others nobody can say, and they belong to the application with the token: an issuer's
    users, who choose their names more freely, shall not get what may not be theirs.
    """
    known = written.startswith((OIDC_PREFIX, TENANT_PREFIX))
    if not written or known or APPLICATION_NAME.fullmatch(written):
        return written
    return f"{OIDC_PREFIX}{written}"
