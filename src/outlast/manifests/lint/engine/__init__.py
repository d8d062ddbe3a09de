"""The lint engine: finds and reads files, runs rules, applies suppressions and fixes."""
