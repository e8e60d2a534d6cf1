"""The stack on this machine: an emulator of AWS, the same deployment, and the demo."""
