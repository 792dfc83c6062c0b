"""The files of a target, packed for whatever runs it: Kubernetes, Compose, Terraform."""

from lbgen.manifests.compose import compose
from lbgen.manifests.kubernetes import configmap, kustomize
from lbgen.manifests.order import Made, Order
from lbgen.manifests.terraform import external_result, sets_of

FORMS = {"compose": compose, "configmap": configmap, "kustomize": kustomize}
"""What makes files of a rendered target, by the name that ``render --as`` takes."""

__all__ = ["FORMS", "Made", "Order", "external_result", "sets_of"]
