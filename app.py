"""The CDK app: policies and context values in, one stack out. It needs no account, no git and no Docker."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "functions"))

import aws_cdk as cdk
from sexton.policy import PolicyError, load_policies

from infra import bundle, config
from infra.stack import SextonStack


def main() -> None:
    """Synthesize; leave with a message for people when a policy or a context value is wrong."""
    app = cdk.App()
    try:
        settings = config.read(app.node.get_all_context())
        policies = load_policies(settings.policies_folder)
        config.refuse_unfit(policies, settings)
        code = bundle.code(settings.policies_folder, local=settings.local)
    except (config.ConfigError, PolicyError, bundle.BundleError) as error:
        sys.exit(f"error: {error}")
    SextonStack(app, settings=settings, policies=policies, code=code)
    app.synth()


if __name__ == "__main__":
    main()
