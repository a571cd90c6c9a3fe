"""Reads a running operator's own metrics."""

from __future__ import annotations

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

WRITES = frozenset({"create", "patch", "apply", "replace", "delete"})


class OperatorMetrics:
    """One look at the figures that the operator publishes."""

    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        wanted = labels.items()
        return sum(
            sample.value
            for sample in self._samples
            if sample.name == name and wanted <= sample.labels.items()
        )

    @property
    def idle(self) -> bool:
        """Nothing waits for a worker, and no worker is at work."""
        return not self.total("edgewise_queue_depth") and not self.total(
            "edgewise_reconciles_running"
        )

    @property
    def writes(self) -> dict[str, float]:
        """Writes to the API server so far, by verb and kind. Refused ones count, too."""
        found: dict[str, float] = {}
        for sample in self._samples:
            if sample.name == "edgewise_api_requests_total" and sample.labels["verb"] in WRITES:
                key = f"{sample.labels['verb']} {sample.labels['kind']}"
                found[key] = found.get(key, 0) + sample.value
        return found


async def read_metrics(http: aiohttp.ClientSession, url: str) -> OperatorMetrics:
    async with http.get(f"{url}/metrics") as answer:
        return OperatorMetrics(await answer.text())
