"""Who is still there, heard by any replica of a server, without a write for each heartbeat.

Begin at `presence.py`.
"""
