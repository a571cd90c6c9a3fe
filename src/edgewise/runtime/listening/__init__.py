"""One way to listen for HTTP, with bounds that hold before a caller has shown a token.

Begin with `listener`.
"""
