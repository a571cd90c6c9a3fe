"""Sessions: pods that belong to the clients of a session.

Begin with `plan`, which has the rules; `controller` looks, plans and carries out.
"""
