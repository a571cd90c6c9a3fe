"""What a join costs: for a client, at scale, through the server, with WebRTC.

Begin with `join`.
"""
