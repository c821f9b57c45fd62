"""The two ways in which kvplan says no: exit code 2 with one sentence, never a traceback."""

LONGEST = 4000
"""Characters of a sentence beyond which it is cut: it may quote an untrusted config."""


class KvplanError(Exception):
    """Wrong usage or unreadable input: one sentence that names the file or flag, the value and what to do."""


class Refused(KvplanError):
    """A deployment that kvplan cannot judge exactly, or that vLLM itself refuses.

    The sentence names the architecture, field or flag, its value, and what to do.
    """


class DoesNotStart(Refused):
    """A deployment that vLLM refuses as it builds the model, whatever becomes of its cache."""


def sentence(error: KvplanError) -> str:
    """The error's text for a terminal: one line, cut where it is too long, no character that a terminal obeys."""
    text = " ".join(str(error).split())
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(text) > LONGEST:
        text = text[:LONGEST] + "..."
    return text if text.endswith((".", "?")) else text + "."
