"""Why a run waits and how its attempts ended. Pure."""
