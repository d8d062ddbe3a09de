"""Talk to a Kubernetes cluster: check it, submit workloads, follow what happens.

`connection/client.py` has what commands use; `connection/api.py` has the Protocols that they are
written against.
"""
