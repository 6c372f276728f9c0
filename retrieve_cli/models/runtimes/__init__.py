"""Parts that models share: folders, tokenizers, devices, and the programs that run a forward pass."""
