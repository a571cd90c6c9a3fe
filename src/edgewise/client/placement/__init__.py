"""Reports of latency from clients, and the header by which they learn which pod answered.

Begin at `Reporter`; in the service, wrap the application in `PodHeader`.
"""

from edgewise.client.placement.keys import NodeAddress, ReportKey, sign
from edgewise.client.placement.pod_header import HEADER, PodHeader, pod_header
from edgewise.client.placement.reporter import Reporter, http_sender, mqtt_sender
from edgewise.client.placement.sampling import Sample, sample

__all__ = [
    "HEADER",
    "NodeAddress",
    "PodHeader",
    "ReportKey",
    "Reporter",
    "Sample",
    "http_sender",
    "mqtt_sender",
    "pod_header",
    "sample",
    "sign",
]
