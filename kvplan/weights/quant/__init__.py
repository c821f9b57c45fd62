"""One file per quantisation: which tensors a layer has under it."""
