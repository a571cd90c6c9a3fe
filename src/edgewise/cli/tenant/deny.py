"""`edgewise tenant deny`."""

from edgewise.cli.tenant.deciding import deciding

app = deciding(approved=False, help_text="Refuse a request; its maker sees the reason.")
