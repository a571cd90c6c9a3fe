"""Webhook configurations: which requests the API server asks about, and whom; and policies,
which it decides by itself."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from edgewise.kube.objects import Kind, Object, Record


class ServiceReference(Record):
    namespace: str
    name: str
    path: str = ""
    port: int = 443


class WebhookClientConfig(Record):
    url: str = ""
    service: ServiceReference | None = None
    # PEM; on the wire it is base64 of it.
    ca_bundle: bytes = b""


class WebhookRule(Record):
    operations: list[str] = []
    api_groups: list[str] = []
    api_versions: list[str] = []
    resources: list[str] = []
    scope: str = ""


class LabelSelector(Record):
    match_labels: dict[str, str] = {}
    match_expressions: list[dict[str, str | list[str]]] = []


class MatchCondition(Record):
    name: str
    expression: str


class Webhook(Record):
    name: str
    client_config: WebhookClientConfig = msgspec.field(default_factory=WebhookClientConfig)
    rules: list[WebhookRule] = []
    failure_policy: str = ""
    match_policy: str = ""
    side_effects: str = ""
    timeout_seconds: int = 0
    admission_review_versions: list[str] = []
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    match_conditions: list[MatchCondition] = []
    reinvocation_policy: str = ""


class ValidatingWebhookConfiguration(Object):
    KIND: ClassVar = Kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
    )

    webhooks: list[Webhook] = []


class MutatingWebhookConfiguration(Object):
    KIND: ClassVar = Kind(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
    )

    webhooks: list[Webhook] = []


class MutatingAdmissionPolicy(Object):
    KIND: ClassVar = Kind(
        "admissionregistration.k8s.io",
        "v1beta1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        namespaced=False,
    )

    spec: dict[str, Any] = {}


class MutatingAdmissionPolicyBinding(Object):
    KIND: ClassVar = Kind(
        "admissionregistration.k8s.io",
        "v1beta1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        namespaced=False,
    )

    spec: dict[str, Any] = {}


class ValidatingAdmissionPolicy(Object):
    KIND: ClassVar = Kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        namespaced=False,
    )

    spec: dict[str, Any] = {}


class ValidatingAdmissionPolicyBinding(Object):
    KIND: ClassVar = Kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
    )

    spec: dict[str, Any] = {}
