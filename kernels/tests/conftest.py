"""Tests lie in folders by their cost: `cover` has one quick test for each promise and is what every change must pass,
`nightly` has what takes minutes."""
