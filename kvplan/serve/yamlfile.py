"""Reading YAML that nobody vouches for: safe loader only, bounded, one sentence for every fault."""

MAX_BYTES = 4 * 2**20
MAX_DOCUMENTS = 1000


def load_documents(text: str, name: str) -> list[object]:
    """Every document of a YAML text. ValueError with one sentence when it is none, or too large."""
    import yaml

    if len(text) > MAX_BYTES:
        raise ValueError(f"{name} is larger than {MAX_BYTES // 2**20} MiB: give a smaller file")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents: list[object] = []
    try:
        for document in yaml.load_all(text, Loader=loader):
            documents.append(document)
            if len(documents) > MAX_DOCUMENTS:
                raise ValueError(f"{name} holds more than {MAX_DOCUMENTS} documents: split it")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"{name}{where} is no valid YAML ({error.problem or error.context}): correct it") from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError, KeyError) as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name} is no valid YAML ({type(error).__name__}): correct it") from None
    return [document for document in documents if document is not None]
