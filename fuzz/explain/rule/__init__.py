"""What a case is, as traits, and the rules that are learnt about them."""
