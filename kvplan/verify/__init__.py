"""Does a real start-up agree with the plan? A log's deployment planned by the rules of the release that printed it.

deployment (log -> vLLM's options) -> respec, grouping, pool (the release's plan, pure) -> lines (what agrees, and the
first cause where something does not) -> judge (runs them in order) -> report.
"""
