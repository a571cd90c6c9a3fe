"""The steps of a search, each a function over the draft of a plan. All pure.

`searching` begins and ends, `rounds` starts sentinels and looks after them, `deciding` says which
of them win, `moving` carries that out, `probing` goes where it is known to be better, `tidying`
takes away what no round needs.
"""
