"""The evaluation: one load for several designs, and a report of what each made of it.

`trace.py` is the load, `generating.py` makes it, `cases/` are the designs, `running.py` puts one
load to one design, `report/` draws what was stored. Begin at `running.py`.
"""
