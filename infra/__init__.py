"""The CDK app's constructs: one noun each, composed by `stack`."""
