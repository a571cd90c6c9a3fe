"""A cluster that does not have our kinds yet: what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgewise.kube.errors import KubeError, NotFound


class KindsMissing(KubeError):
    """The cluster does not know what was asked for."""


@contextmanager
def known_kinds(what: str, server: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        if error.details.get("name"):  # an object, or a namespace: the kind is there
            raise
        raise KindsMissing(
            f"the cluster at {server} does not know {what}: install them with "
            "`edgewise crds install` (`edgewise local platform` and the chart do that, too)"
        ) from error
