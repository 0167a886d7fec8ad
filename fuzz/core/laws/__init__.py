"""Laws: properties of a correct kernel that need no oracle and allow no difference, not of one bit. They are
metamorphic relations: from a case a law makes its **twin**, elsewhere called the follow-up case, and from the outputs
of the case it says what those of the twin must be. Here and in `judge`, twin is the only word for it."""
