"""What every test needs."""

import signal

from hypothesis import settings

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would every process that
# they start; some of these are tested for what they do on Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is no property of the code: another program may have the processor meanwhile.
settings.register_profile("adjourn", deadline=None)
settings.load_profile("adjourn")
