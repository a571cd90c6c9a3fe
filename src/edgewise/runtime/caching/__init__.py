"""Objects as the API server shows them, kept in memory.

A Reflector lists, watches and tries again, and fills a Cache; begin with `shared_caches`, which
every program uses.
"""
