"""Local clusters enforce NetworkPolicy.

`compiler` and `ruleset` are pure: pods and policies in, text for `nft` out. `agent` watches and
applies; `waiting` costs next to nothing until there is a first policy.
"""
