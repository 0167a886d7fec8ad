"""Solutions of a problem: a kernel that nobody vouches for, judged by a function that says what it should compute."""
