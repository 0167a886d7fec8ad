"""What few users need: it is loaded when it is named."""
