"""The two ways in which kvplan says no: exit code 2 with one sentence, never a traceback."""


class KvplanError(Exception):
    """Wrong usage or unreadable input: one sentence that names the file or flag, the value and what to do."""


class Refused(KvplanError):
    """A deployment that kvplan cannot judge exactly, or that vLLM itself refuses.

    The sentence names the architecture, field or flag, its value, and what to do.
    """
