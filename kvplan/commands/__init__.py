"""What each command does: read its words, plan, and hand back a text and an exit code. Nothing here is printed."""
