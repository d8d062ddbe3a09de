"""Programs with the habits of real scripts, a few lines each. `verdicts.toml` has the verdicts.

None of them uses this library. Each works for about a second in small steps.
"""
