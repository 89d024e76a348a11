"""What each command takes, and which function does it, by subject."""
