"""The Python SDK: measure, join, stay, leave."""
