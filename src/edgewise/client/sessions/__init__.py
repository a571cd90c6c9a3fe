"""Sessions in the SDK: a client's seat, and what the server answers.

Begin with `seat`.
"""
