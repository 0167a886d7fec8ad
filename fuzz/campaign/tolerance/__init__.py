"""What tolerance a correct kernel needs, beside those that people test with."""
