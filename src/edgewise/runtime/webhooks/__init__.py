"""Admission webhooks: declared as data, served over HTTPS, with certificates of their own.

Begin with `serving`; `admission` holds what a reviewer sees and answers.
"""
