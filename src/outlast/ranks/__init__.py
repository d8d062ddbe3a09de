"""The other processes of a program: who they are, how they talk, and how they agree on a step."""
