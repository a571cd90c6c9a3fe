"""Makes the members say what the hub says, whatever was cut short before.

`plan` is pure; `parts` carries it out for sessions, `templates` for templates.
"""
