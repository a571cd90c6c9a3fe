"""The report: pictures and tables of stored results, and of nothing else.

`drawing.py` makes one picture, `run_chapter.py` the chapter of a run, `page.py` puts all on one
page that needs no network.
"""
