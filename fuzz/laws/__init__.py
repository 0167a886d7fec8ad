"""Laws: properties of a correct kernel that need no oracle and allow no difference, not of one bit."""
