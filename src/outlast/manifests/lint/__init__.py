"""The core of `outlast lint`: reads manifests with exact positions, runs rules, reports, fixes.

The rules are in `outlast.manifests.rules`, one file each. Nothing here imports them:
`outlast.manifests.linting` connects both.
"""
