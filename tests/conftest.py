"""What every test needs."""

import signal

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would every process that
# they start; some of these are tested for what they do on Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
