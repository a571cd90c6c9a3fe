"""The `edgewise` command: parses, wires and runs.

Begin with `main`; commands are imported when they are asked for (`lazy`).
"""
