"""Parts that few users need; each is loaded only when it is named."""
