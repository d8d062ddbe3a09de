"""The engine of `outlast lint`: reads manifests with exact positions, runs rules, reports, fixes.

The rules themselves stand in `outlast.manifests.rules`, one file each. Nothing here imports them:
`outlast.manifests.linting` joins both.
"""
