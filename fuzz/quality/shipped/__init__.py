"""Functions of shipped libraries beside what their documentation says, judged by `fuzz.check`."""
