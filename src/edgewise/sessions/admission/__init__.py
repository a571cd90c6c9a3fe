"""What is refused before it is stored, with a sentence that names the field.

Begin with `reviews`.
"""
