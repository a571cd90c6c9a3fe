"""Builds the judge."""

from tests.oracles.network_policy import program

print(program())  # noqa: T201
