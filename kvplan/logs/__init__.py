"""vLLM start-up logs: what they say (read_log), and how each release reckons its numbers (rules, capacity)."""

from kvplan.logs.lines import open_log
from kvplan.logs.read import read_log
from kvplan.logs.reading import DOCUMENT_KEYS, LogReading, MemoryReading, Refusal

__all__ = ["DOCUMENT_KEYS", "LogReading", "MemoryReading", "Refusal", "open_log", "read_log"]
