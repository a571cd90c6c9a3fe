"""The datagram of a latency probe, and the only answer it can get.

A question is 32 bytes: `EWP1`, `?`, and 27 bytes that the asker made up. The answer is
the same with `!` for `?`. So an answer is never longer than its question (a forged source
address gains nothing), and an answer is never a question (two servers cannot be made to
talk to each other for ever).
"""

SIZE = 32
QUESTION = b"EWP1?"
ANSWER = b"EWP1!"


def answer_to(datagram: bytes) -> bytes | None:
    """The answer, or None for what is not a question: silence."""
    if len(datagram) != SIZE or not datagram.startswith(QUESTION):
        return None
    return ANSWER + datagram[len(QUESTION) :]
