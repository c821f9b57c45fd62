"""Results as text, JSON, Markdown and CSV: pure functions from values to strings.

Nothing here prints, parses flags, reads the environment or exits. Every entry point is imported from its own module,
so that a run loads only the format it writes:

=============================  =====================================================================================
`kvplan plan`                  `text.plan_text(result, view)`, `document.to_json(document.to_document(result))`,
                               `markdown.plan_markdown(result)`, `csv.plan_csv(result)`
`kvplan compare`               of `comparison = kvplan.comparison.compare(baseline, variants)`:
                               `compare_text.compare_text(comparison, view)`,
                               `document.to_json(compare_document.comparison_document(comparison))`,
                               `compare_markdown.compare_markdown(comparison)`, `csv.compare_csv(comparison)`
`kvplan compare A B`           two saved documents: `compare_document.compare_documents(a, b, names)` gives such a
                               comparison; KvplanError where one is not a plan's document
`kvplan layers`                `layers_text.layers_text(result, view, explain=...)`
the decision alone             `decision.decide(result)`: fits, refused, unsized or empty, with one sentence
=============================  =====================================================================================

A `style.View` says how text is drawn: `View(width, glyphs, paint)` with `style.UNICODE` or `style.ASCII`, and
`style.PLAIN` or `style.ansi`. The caller passes `ansi` only where it writes to a terminal and NO_COLOR is not set.

Below the entry points: `diagram` draws groups, `padding` and `costs` put unused bytes and a request's bytes in words,
`changes` says what a change did to pages and groups, `kinds` names kinds of layers, `lines` wraps and tabulates,
`numbers` writes sizes as vLLM's log does.
"""
