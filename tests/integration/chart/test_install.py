"""The chart, installed, upgraded and removed by real Helm on a real API server."""

import secrets

import msgspec
import pytest

from edgewise.api.tenancy import TENANT_UID
from edgewise.kube.client import Client
from edgewise.kube.config import load_access
from edgewise.kube.errors import ApiError, Forbidden, NotFound
from edgewise.kube.kinds.admission import ValidatingWebhookConfiguration
from edgewise.kube.kinds.core import Namespace, Pod, Secret, Service
from edgewise.kube.kinds.extensions import CustomResourceDefinition
from edgewise.sessions.route_source import RoutedSession
from edgewise.testing.eventually import eventually
from tests.integration.chart.conftest import CHART


async def token(client, namespace):
    return (await client.get(Secret, "edgewise-control-token", namespace)).data["token"]


async def test_an_upgrade_keeps_the_token_and_a_removal_keeps_the_sessions(client, helm, installed):
    before = await token(client, installed)
    helm("upgrade", "edge", CHART, "--namespace", installed, "--set", "gateway.replicas=3")
    assert await token(client, installed) == before
    await client.get(ValidatingWebhookConfiguration, "edgewise")

    helm("uninstall", "edge", "--namespace", installed, "--no-hooks")
    assert await token(client, installed) == before
    await client.get(CustomResourceDefinition, "sessions.sessions.edgewise.dev")
    # Left behind, it would refuse every session for ever.
    with pytest.raises(NotFound):
        await client.get(ValidatingWebhookConfiguration, "edgewise")


async def test_an_installation_says_what_it_lacks_and_its_programs_may_do_little(
    helm, account, installed
):
    """One installation for all of it: each takes Helm and the API server ten seconds."""
    the_notes_ask_for_a_missing_address_with_the_whole_command(helm, installed)
    await the_gateway_may_watch_sessions_and_nothing_else(account, installed)
    await the_operator_reads_only_its_own_secrets(account, installed)


def the_notes_ask_for_a_missing_address_with_the_whole_command(helm, installed):
    notes = helm("get", "notes", "edge", "--namespace", installed)
    # Without the flag, Helm would forget the image that was given at the installation.
    command = f"helm upgrade edge CHART -n {installed} --reset-then-reuse-values --set "
    assert f"{command}gateway.publicUrl=http://ADDRESS" in notes


def given(**values):
    return [
        part
        for name, value in values.items()
        for part in ("--set", f"gateway.{name.replace('_', '.')}={value}")
    ]


async def ports_of(client, namespace):
    service = await client.get(Service, "edgewise-gateway", namespace)
    return {(port.protocol, port.port): port.node_port for port in service.spec.ports}


async def test_on_nodes_the_ports_are_those_that_clients_are_told(client, helm, installed):
    await client.delete(Service, "edgewise-gateway", installed)
    entry = given(service_type="NodePort", service_httpNodePort=30080)
    ports = given(ports_first=30000, ports_last=30003)
    helm("upgrade", "edge", CHART, "--namespace", installed, *entry, *ports)
    opened = await ports_of(client, installed)
    assert opened.pop(("TCP", 80)) == 30080
    assert opened == {
        (protocol, port): port for protocol in ("TCP", "UDP") for port in range(30000, 30004)
    }


async def test_no_upgrade_loses_the_udp_ports(client, helm, installed):
    """Helm's patch of ports that are both TCP and UDP would."""
    upgrade = ("upgrade", "edge", CHART, "--namespace", installed)
    before = await ports_of(client, installed)
    helm(*upgrade, "--set", "gateway.replicas=3")
    assert await ports_of(client, installed) == before
    for values in (given(ports_last=20020), given(service_separateUdp="true")):
        with pytest.raises(AssertionError, match="delete service edgewise-gateway"):
            helm(*upgrade, *values)
        assert await ports_of(client, installed) == before
    await client.delete(Service, "edgewise-gateway", installed)
    helm(*upgrade, *given(ports_last=20020))
    after = await ports_of(client, installed)
    assert after.keys() - before.keys() == {("TCP", 20020), ("UDP", 20020)}
    assert before.keys() < after.keys()


async def the_gateway_may_watch_sessions_and_nothing_else(account, installed):
    async with Client(load_access(await account("edgewise-gateway"))) as limited:
        await limited.list(RoutedSession)
        for kind in (Pod, Secret):
            with pytest.raises(Forbidden):
                await limited.list(kind)
        with pytest.raises(Forbidden):
            await limited.get(Secret, "edgewise-control-token", installed)
        with pytest.raises(Forbidden):
            await limited.delete(RoutedSession, "any", installed)


async def the_operator_reads_only_its_own_secrets(account, installed):
    async with Client(load_access(await account("edgewise-operator"))) as limited:
        await limited.list(Pod)
        with pytest.raises(NotFound):
            await limited.get(Secret, "edgewise-seat-key", installed)
        with pytest.raises(Forbidden):
            await limited.list(Secret)
        with pytest.raises(Forbidden):
            await limited.get(Secret, "edgewise-control-token", installed)
        with pytest.raises(Forbidden):
            await limited.delete(Namespace, "default")


async def test_policies_have_their_parameters_when_the_chart_is_installed_again(
    client, helm, installed
):
    """The API server forgets how to watch some kinds when the last policy with such parameters
    goes, until it starts again: no tenant is to wait for that."""
    tenant = Namespace.named(f"tenant-{secrets.token_hex(3)}")
    tenant.metadata.labels = {TENANT_UID: "a"}
    await client.create(tenant)

    async def answer():
        spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "mine"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        try:
            path = Pod.KIND.path(tenant.metadata.name)
            body = msgspec.json.encode(pod)
            await client.request("POST", path, body=body, params={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return "passed"

    async def says(words):
        said = await answer()
        assert words in said, said

    await eventually(lambda: says("spec.schedulerName"), within=30)
    helm("uninstall", "edge", "--namespace", installed, "--no-hooks")
    await eventually(lambda: says("passed"), within=30)
    runtime = ("--set", "tenancy.runtimeClass=kata")
    helm("install", "edge", CHART, "--namespace", installed, "--take-ownership", *runtime)
    await eventually(lambda: says("pods of tenants run in kata"), within=30)
