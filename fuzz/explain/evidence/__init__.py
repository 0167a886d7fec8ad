"""What is probed around a failure, and what each probe did."""
