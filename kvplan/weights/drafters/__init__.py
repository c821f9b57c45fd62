"""The weights of drafters that are no model of their own kind: what each adds beside what it shares with the target."""
