"""`kvplan check`: do the deployments of a file still meet their limits and their recorded baseline?

Modules, in the order in which they build on each other: nodes (YAML with line numbers), fleet (the file's deployments),
figures (what is measured of a plan), limits, lock (the recorded baseline), causes (what changed, with its share of a
loss), run (the whole check), outputs (text, JSON, Markdown, CSV, JUnit, GitHub annotations).
"""
