"""Reading a Hugging Face config.json: checked types, and the defaults of its config class."""

from kvplan.hf.config import Config

__all__ = ["Config"]
