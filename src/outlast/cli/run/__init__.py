"""Commands that run and rehearse a job."""
