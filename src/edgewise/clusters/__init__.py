"""The registry of clusters, and the way into each of them.

A domain that spans clusters begins with `connections`; `enrolment` is what the command does.
"""
