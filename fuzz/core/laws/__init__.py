"""Laws: properties of a correct kernel that are checked bit for bit and need no oracle. They are metamorphic relations:
a law makes from a case its **twin**, elsewhere called the follow-up case, and predicts the outputs of the twin from
those of the case. Here and in `judge`, twin is the only word for it."""
