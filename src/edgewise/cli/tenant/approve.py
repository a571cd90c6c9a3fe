"""`edgewise tenant approve`."""

from edgewise.cli.tenant.deciding import deciding

app = deciding(
    approved=True, help_text="Give what a request asks for. You have to hold all of it yourself."
)
