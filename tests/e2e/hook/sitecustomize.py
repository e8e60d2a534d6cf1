"""Lets each function's process sign its calls, in the place that the SDK has for the runtime's name.

Python imports this by itself wherever its folder is on the path: the emulator's functions get that from the tests.
"""

import os

if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    os.environ["AWS_EXECUTION_ENV"] = f"{os.environ['AWS_LAMBDA_FUNCTION_NAME']}.{os.getpid()}"
