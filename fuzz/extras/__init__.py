"""What few users need; it is loaded only when it is named."""
