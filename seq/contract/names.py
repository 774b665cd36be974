"""What a name may look like, per kind of thing."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import StringConstraints

DEPLOYMENT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ADAPTER_NAME = r"^[A-Za-z][A-Za-z0-9._-]{0,63}$"
HANDLER_REF = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"

DeploymentName = Annotated[str, StringConstraints(pattern=DEPLOYMENT_NAME)]
AdapterName = Annotated[str, StringConstraints(pattern=ADAPTER_NAME)]
HandlerRef = Annotated[str, StringConstraints(pattern=HANDLER_REF)]


def kebab(class_name: str) -> str:
    """`ToyPolicy` as `toy-policy`: the name of a class that declares none."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", class_name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1-\2", parts).replace("_", "-").lower()
